"""The switches of a simulation: every choice of semantics has a name, a default and an entry in the result."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError, UnknownName, UsageError
from tracekit.machine import UNITS, Machine, Unit
from tracekit.trace import SizeFrom

#: From, to (seconds, as in the trace) and how many units are out of service, or which hosts: names joined by +.
Outage = tuple[float, float, float | str]

Backfill = Literal["none", "easy", "easy-sjf", "conservative", "rlscheduler"]
BACKFILLS: tuple[Backfill, ...] = get_args(Backfill)
ESTIMATES = ("requested", "actual", "factor", "noisy", "last-two")
#: Named combinations of a backfilling and switches; Tsafrir, Etsion & Feitelson, IEEE TPDS 18(6), 2007.
COMBINATIONS: dict[str, tuple[Backfill, dict[str, Any]]] = {"easy++": ("easy-sjf", {"predict": "last-two"})}
#: The default and the name of how RLTune places jobs of base policies.
RLTUNE_GREEDY = ("first-fit", "lexicographic")
COMPATIBILITIES = ("rlscheduler", "rltune", "slurm")
#: Seconds from an event to Slurm's pass, on average, where its scheduler is set to react fast (docs/slurm.md).
SLURM_REACTION = 0.7
#: Slurm looks at the ends of running jobs in groups: within so many seconds of the first, then twice as many …
SLURM_GROUP_ENDS = 30.0
PREDICT_FOR = ("backfill", "order", "both")

#: Options of the policy ``multifactor``: weights of the four factors (each factor is 0 … 1), then seconds. The times
#: are Slurm's own defaults (PriorityMaxAge, PriorityDecayHalfLife: seven days); Slurm's weights default to 0, ours not.
MULTIFACTOR_DEFAULTS: dict[str, float] = {
    "age_weight": 1000.0,
    "size_weight": 1000.0,
    "fair_weight": 1000.0,
    "queue_weight": 1000.0,
    "age_max": 7 * 86400.0,
    "half_life": 7 * 86400.0,
}


def check_fields(cls: type, values: Mapping[str, Any], what: str) -> None:
    """Refuse plain values that do not fit the fields of a dataclass: unknown names, and values of another type.

    Only fields that are texts, numbers, flags and tables of numbers are looked at.
    """
    hints = get_type_hints(cls)
    known = {f.name for f in dataclasses.fields(cls)}
    for name, value in values.items():
        if name not in known:
            raise UnknownName(what, str(name), known)
        if not _fits(value, hints[name]):
            raise UsageError(f"{what} {name}: {str(value)[:40]!r} is not a valid value")


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a plain value is of a type; True for types that are not looked at."""
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(kind))
    if get_origin(kind) is Literal:
        return any(value == one for one in get_args(kind))
    if kind == Mapping[str, float]:
        return isinstance(value, Mapping) and all(_fits(one, float) for one in value.values())
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return isinstance(value, kind) if kind in (bool, str, type(None)) else True


@dataclass(frozen=True)
class Switches:
    """The semantics of a simulation. The defaults are the published definition of EASY."""

    estimates: str = "requested"  # the scheduler's estimates: requested, actual, factor:F, noisy:SIGMA or last-two
    commit: bool = False  # a picked job blocks until it starts; else re-plan at every event
    kill_at_limit: bool = False  # a job ends at its limit: run = min(run_time, req_time)
    bound: float = 10.0  # seconds, of the bounded slowdown
    procs_from: SizeFrom = "requested"  # a job's size: requested, allocated or the larger of both
    resource: Unit | None = None  # what is scheduled: procs, nodes or gpus; None = as in the trace
    procs: int | None = None  # size of the machine; None = as in the trace
    ties: Literal["completions", "arrivals"] = "completions"  # first at one instant; arrivals: and one event at a time
    interval: float = 0.0  # seconds between scheduling passes; 0 = a pass at every event
    reaction: float = 0.0  # seconds from an event to the pass that it causes; with interval: of the first event only
    group_ends: float = 0.0  # seconds within which ends count as one for EASY's reservation; 0 = each by itself
    utilization_to: Literal["end", "start"] = "end"  # utilisation runs to the last end, or to the last start
    compat: str | None = None  # "rlscheduler", "rltune", "slurm": all semantics of that system
    seed: int = 0  # of random and of noisy estimates
    options: Mapping[str, float] = field(default_factory=dict)  # weights and half-life of multifactor
    queue_factors: Mapping[str, float] = field(default_factory=dict)  # 0 … 1 by queue label, for multifactor
    dependencies: bool = False  # a job with a predecessor is submitted think_time after that one ends
    outages: tuple[Outage, ...] = ()  # (from, to, units): so many units are out of service
    outage_mode: Literal["drain", "kill", "requeue"] = "drain"  # what happens to running jobs when an outage begins
    outages_announced: bool = True  # planned outages: the scheduler knows of them before they begin
    predict: str | None = None  # run times are predicted at submit: "last-two", or "agent:DIR" of predict-run-time
    predict_for: str = "backfill"  # what goes by the predictions, which are then corrected: backfill, order or both
    warmup: str = "0"  # left out of the metrics at the beginning: a share of the jobs (5%) or a time (12h)
    cooldown: str = "0"  # the same at the end
    cluster: str | Machine | None = None  # hosts: a preset, a TOML file or a machine with groups; None = a counter
    allocate: Any = "first-fit"  # with a cluster: which hosts a job gets; a name, module:Class or an object
    power: str | None = None  # power model for the energy of the schedule: a preset or a TOML file; None = no energy
    carbon: str | None = None  # CSV file of the grid's carbon intensity over time
    price: str | None = None  # CSV file of the price of energy over time
    energy_until: str | None = None  # end of the window of the energy: seconds or a time stamp; None = the last end
    sleep_after: float | None = None  # an idle host goes to sleep after so many seconds; None = never
    power_cap: float | None = None  # kW that the machine may draw; None = no cap
    frequency: float = 1.0  # of the processors, as a share of the highest
    max_extra_wait: float = 0.0  # seconds by which a job may be held back for less carbon, or a lower price

    def __post_init__(self) -> None:
        estimate_of(self.estimates)
        _one_of("size source", self.procs_from, get_args(SizeFrom))
        _one_of("event order", self.ties, ("completions", "arrivals"))
        _one_of("end of utilisation", self.utilization_to, ("end", "start"))
        if self.resource is not None:
            _one_of("resource", self.resource, UNITS)
        if self.compat is not None:
            _one_of("compatibility", self.compat, COMPATIBILITIES)
        if self.procs is not None and self.procs < 1:
            raise UsageError(f"a machine needs at least one processor, not {self.procs}")
        if not (self.bound > 0 and math.isfinite(self.bound)):
            raise UsageError(f"the bound of the bounded slowdown must be above 0 seconds, not {self.bound}")
        if not (self.interval >= 0 and math.isfinite(self.interval)):
            raise UsageError(
                f"the interval between passes must be 0 (at every event) or more seconds, not {self.interval}"
            )
        if not (self.reaction >= 0 and math.isfinite(self.reaction)):
            raise UsageError(f"the reaction to an event must take 0 or more seconds, not {self.reaction}")
        if (self.reaction or self.compat == "slurm") and self.ties != "completions":
            raise UsageError("--reaction and --compat slurm cannot be combined with an order of events")
        if self.compat == "slurm" and self.interval:
            raise UsageError(
                "--compat slurm cannot be combined with --interval; give --interval and --reaction instead"
            )
        if not (self.group_ends >= 0 and math.isfinite(self.group_ends)):
            raise UsageError(f"--group-ends must be 0 or more seconds, not {self.group_ends}")
        if (self.reaction or self.group_ends) and self.compat not in (None, "slurm"):
            raise UsageError(f"--reaction and --group-ends cannot be combined with --compat {self.compat}")
        _one_of("outage mode", self.outage_mode, ("drain", "kill", "requeue"))
        if self.predict is not None and not self.predict.startswith("agent:"):
            _one_of("prediction", self.predict, ("last-two", "agent:DIR"))
        _one_of("use of predictions", self.predict_for, PREDICT_FOR)
        object.__setattr__(self, "outages", tuple(check_outage(*outage) for outage in self.outages))
        if self.cluster is None and any(isinstance(outage[2], str) for outage in self.outages):
            raise UsageError("outages of named hosts need a cluster (--cluster); else write FROM:TO:PROCS")
        if self.cluster is not None and not all(isinstance(outage[2], str) for outage in self.outages):
            raise UsageError("on a cluster outages name hosts: write FROM:TO:HOST+HOST, or a group's name")
        parse_cut(self.warmup)
        parse_cut(self.cooldown)
        self._check_levers()
        self._check_together()
        for key, value in self.options.items():
            _one_of("option of multifactor", key, tuple(MULTIFACTOR_DEFAULTS))
            if math.isnan(value) or (key in ("age_max", "half_life") and value <= 0):
                raise UsageError(f"option {key}: {value} is not valid")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Switches:
        """Read plain values, such as those of a JSON file; an unknown name or a wrong type is an error."""
        if not isinstance(values, Mapping):
            raise UsageError(f"switches must be a table of settings, not {str(values)[:40]!r}")
        check_fields(cls, values, "switch")
        return cls(**values)

    @property
    def dynamic(self) -> bool:
        """Whether submit times, the machine or the predictions change during the simulation."""
        return self.dependencies or bool(self.outages) or self.predict is not None

    def _check_together(self) -> None:
        if self.dynamic and (self.compat not in (None, "slurm") or self.ties != "completions"):
            raise UsageError("dependencies, outages and predictions cannot be combined with compat or ties")
        if self.compat == "rltune":
            self._check_rltune()
        if self.predict is None and self.predict_for != "backfill":
            raise UsageError("--predict-for says what predictions are used for: add --predict last-two or agent:DIR")
        if self.predict is not None and estimate_of(self.estimates)[0] == "last-two":
            raise UsageError("--predict cannot be combined with --estimates last-two")

    @property
    def levers(self) -> tuple[str, ...]:
        """The levers of energy that are in use, as options of the command line."""
        used = {
            "--sleep-after": self.sleep_after is not None,
            "--power-cap": self.power_cap is not None,
            "--frequency": self.frequency != 1.0,
            "--max-extra-wait": self.max_extra_wait != 0.0,
        }
        return tuple(name for name, is_used in used.items() if is_used)

    @property
    def needs_power(self) -> bool:
        """Whether there is a power model, so that results have energy: one is given, or a lever needs the cluster's."""
        return self.power is not None or self.sleep_after is not None or self.power_cap is not None

    def _check_levers(self) -> None:
        """Refuse values of levers that mean nothing, and what they cannot be combined with."""
        if self.sleep_after is not None and not (self.sleep_after >= 0 and math.isfinite(self.sleep_after)):
            raise UsageError(f"--sleep-after must be 0 or more seconds, not {self.sleep_after:g}")
        if self.power_cap is not None and not (self.power_cap > 0 and math.isfinite(self.power_cap)):
            raise UsageError(f"--power-cap must be above 0 kW, not {self.power_cap:g}")
        if not 0 < self.frequency <= 1:
            raise UsageError(f"--frequency is a share of the highest: above 0, at most 1, not {self.frequency:g}")
        if not (self.max_extra_wait >= 0 and math.isfinite(self.max_extra_wait)):
            raise UsageError(f"--max-extra-wait must be 0 or more seconds, not {self.max_extra_wait:g}")
        if self.max_extra_wait and self.carbon is None and self.price is None:
            raise UsageError("--max-extra-wait moves jobs to better hours: give --carbon FILE.csv or --price FILE.csv")
        if self.max_extra_wait and self.dependencies:
            raise UsageError("--max-extra-wait cannot be combined with --dependencies, which move submit times as well")
        if self.sleep_after is not None and self.cluster is None:
            raise UsageError("--sleep-after is about hosts: give --cluster NAME or FILE.toml")
        if self.sleep_after is not None and (self.outages or self.power_cap is not None):
            raise UsageError("--sleep-after cannot be combined with --outage or --power-cap")
        if self.levers and self.compat is not None:
            raise UsageError(f"{self.levers[0]} cannot be combined with --compat {self.compat}")

    def _check_rltune(self) -> None:
        """Refuse what RLTune's semantics cannot be combined with."""
        if self.cluster is None:
            raise UsageError("--compat rltune needs hosts: give --cluster rltune-helios, rltune-philly, rltune-alibaba")
        if self.interval:
            raise UsageError("--compat rltune makes a pass at every event; leave out --interval")
        name = getattr(self.allocate, "name", self.allocate)
        if str(name).partition(":")[0] not in (*RLTUNE_GREEDY, "milp", "milp-exact"):
            raise UsageError(f"--compat rltune places jobs by lexicographic or milp, not by {name}")

    def resolved(self) -> Switches:
        """Return the switches of a compatibility mode."""
        if self.compat == "rlscheduler":
            return dataclasses.replace(self, commit=True, procs_from="max", ties="arrivals", utilization_to="start")
        if self.compat == "rltune":
            greedy = self.allocate in RLTUNE_GREEDY
            allocate = "lexicographic" if greedy else self.allocate
            return dataclasses.replace(self, commit=True, ties="arrivals", estimates="actual", allocate=allocate)
        if self.compat == "slurm":
            # with a mere number of processors groups of ends leave too much room beside a reservation (docs/slurm.md)
            group_ends = self.group_ends or (0.0 if self.cluster is None else SLURM_GROUP_ENDS)
            reaction = self.reaction or SLURM_REACTION
            return dataclasses.replace(self, kill_at_limit=True, reaction=reaction, group_ends=group_ends)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the result."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain["queue_factors"] = dict(self.queue_factors)
        named = self.cluster.name or "cluster" if isinstance(self.cluster, Machine) else self.cluster
        hosts = {"cluster": named, "allocate": None if named is None else getattr(self.allocate, "name", self.allocate)}
        return plain | hosts | {"outages": self.outages, "options": MULTIFACTOR_DEFAULTS | dict(self.options)}


def backfill_for(backfill: str, switches: Switches) -> str:
    """Return the backfilling in effect: the compatibility mode has its own in place of the default."""
    if switches.compat == "rltune":
        _one_of("backfilling with --compat rltune", backfill, ("none", "easy", "rltune"))
        return "none" if backfill == "none" else "rltune"
    _one_of("backfilling", backfill, (*BACKFILLS, *COMBINATIONS))
    if switches.outages and backfill == "rlscheduler":
        raise UsageError("backfilling rlscheduler does not support outages; choose another")
    return "rlscheduler" if switches.compat == "rlscheduler" and backfill == "easy" else backfill


def combined(backfill: str, switches: Switches) -> tuple[str, Switches]:
    """Return the backfilling and the switches of a named combination."""
    if backfill not in COMBINATIONS:
        return backfill, switches
    rule, changes = COMBINATIONS[backfill]
    return rule, dataclasses.replace(switches, **changes)


def check_outage(begin: float, end: float, units: float | str) -> Outage:
    """Return an outage as (from, to, units or names of hosts); an error names what is wrong with it."""
    if not (math.isfinite(begin) and math.isfinite(end) and begin < end):
        raise UsageError(f"an outage must end after it begins, not from {begin:g} to {end:g}")
    if isinstance(units, str):
        return float(begin), float(end), units
    if not (math.isfinite(units) and units > 0):
        raise UsageError(f"an outage must remove more than 0 processors, not {units:g}")
    return float(begin), float(end), float(units)


def outage_steps(outages: Sequence[Outage], total: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (times, units out of service from each on); 0 before the first. Overlaps add up, to ``total``."""
    table = np.array([o for o in outages if not isinstance(o[2], str)], dtype=np.float64).reshape(-1, 3)
    times, where = np.unique(table[:, :2].T.ravel(), return_inverse=True)
    away = np.cumsum(np.bincount(where, weights=np.concatenate((table[:, 2], -table[:, 2])), minlength=len(times)))
    return times, np.clip(np.round(away, 9), 0.0, total)  # rounding errors of sums of fractions


_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_cut(text: str) -> tuple[float, float]:
    """Read a warm-up or cool-down: (share of the jobs, seconds), one of which is 0.

    >>> parse_cut("5%"), parse_cut("0.05"), parse_cut("12h")
    ((0.05, 0.0), (0.05, 0.0), (0.0, 43200.0))
    """
    words = text.strip().lower()
    unit = words[-1:] if words[-1:] in _SECONDS or words.endswith("%") else ""
    try:
        number = float(words.removesuffix(unit))
    except ValueError:
        number = math.nan
    share = number / 100 if unit == "%" else 0.0 if unit else number
    if not unit and 1 <= number <= 100:
        raise UsageError(f"'{text}' can be read as {number:g}% of the jobs or as {number:g}s; write the one you mean")
    if not (math.isfinite(number) and number >= 0 and share < 1):
        raise UsageError(
            f"'{text}' is not a valid cut: write a share of the jobs below 1 (0.05, 5%) or a time (3600s, 12h, 2d)"
        )
    return (0.0, number * _SECONDS[unit]) if unit in _SECONDS else (share, 0.0)


def estimate_of(text: str) -> tuple[str, float]:
    """Split ``factor:1.5`` into its kind and its number (NaN for kinds without one)."""
    kind, colon, number = text.partition(":")
    _one_of("estimates", kind, ESTIMATES)
    if (kind in ("factor", "noisy")) != bool(colon):
        raise UsageError(f"estimates '{text}': write requested, actual, factor:1.5, noisy:0.3 or last-two")
    if not colon:
        return kind, math.nan
    try:
        value = float(number)
    except ValueError:
        raise UsageError(f"estimates '{text}': '{number}' is not a number") from None
    if not (value >= 0 and math.isfinite(value)):
        raise UsageError(f"estimates '{text}': the number must be 0 or more")
    return kind, value


def _one_of(kind: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UnknownName(kind, value, known)


def parse_outage(text: str) -> Outage:
    """Read ``FROM:TO:PROCS`` or ``FROM:TO:HOST+HOST``, seconds as in the trace."""
    parts = text.split(":")
    try:
        begin, end = (float(part) for part in parts[:2])
    except ValueError:
        parts = []
    if len(parts) != 3 or not parts[2].strip():
        raise UsageError(
            f"outage '{text}': write FROM:TO:PROCS, such as 86400:172800:64 (on a cluster FROM:TO:HOST+HOST), or name "
            "a file of such lines"
        )
    try:
        units: float | str = float(parts[2])
    except ValueError:
        units = parts[2].strip()
    return check_outage(begin, end, units)


def read_outages(texts: Sequence[str]) -> tuple[Outage, ...]:
    """Read outages given as ``FROM:TO:PROCS`` or as files with one such line each (# begins a remark)."""
    found: list[Outage] = []
    for text in texts:
        if ":" in text or not Path(text).is_file():
            found.append(parse_outage(text))
            continue
        for number, line in enumerate(Path(text).read_text(errors="replace").splitlines(), 1):
            words = line.partition("#")[0].strip()
            if words:
                try:
                    found.append(parse_outage(":".join(words.replace(",", " ").replace(":", " ").split())))
                except UsageError as error:
                    raise FormatError(text, f"line {number}: {error}") from None
    return tuple(found)
