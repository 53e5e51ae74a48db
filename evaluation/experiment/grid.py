"""The plan of an experiment: a TOML file into frozen dataclasses. An unknown key is an error.

Every comment behind a field is its documentation; docs/experiments.md shows a whole file.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tracekit.errors import SchemaError, UnknownName, UsageError, loads
from tracekit.files import read_toml
from tracekit.readings import not_a_share

S = TypeVar("S")

BUDGETS = ("quick", "normal", "thorough")
#: Metrics that only one learner has: what is judged is not a schedule.
OWN_METRICS = {"error_factor": "predict-run-time", "forecast_factor": "forecast-waits", "order_wait_s": "order"}
METRICS = ("mean_bsld", "mean_wait_s", "p95_bsld", *OWN_METRICS)  # all: lower is better, and never below 0


@dataclass(frozen=True)
class Source:
    """A trace by its path, and what its file does not say."""

    path: str = ""  # beside the TOML file unless absolute; may come from the command line instead
    format: str | None = None
    procs: int | None = None  # size of the machine
    machine: str | None = None  # TOML file that describes the machine
    resource: str | None = None  # what is scheduled: procs, nodes or gpus
    jobs: int | None = None  # only the first so many jobs
    clean: tuple[str, ...] = ()  # cleaning rules, applied in this order


@dataclass(frozen=True)
class Split:
    """Shares of the trace, by time; what is left after train and validation is the test part."""

    train: float = 0.6
    validation: float = 0.2  # trains nothing; hold-out of the privacy scores
    interleave: bool = (
        False  # parts in turn, in blocks of a week or a day, so that a change over time is in all of them
    )

    def __post_init__(self) -> None:
        for name, value in (("train", self.train), ("validation", self.validation)):
            if not 0 < value < 1:
                raise not_a_share(f"split: {name}", value)
        if not (self.train > 0 and self.validation > 0 and self.train + self.validation < 1):
            raise UsageError(f"split: train {self.train:g} and validation {self.validation:g} must leave a test part")


@dataclass(frozen=True)
class Models:
    """The generators: by name, as module:Class, or as traces made elsewhere."""

    names: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ("resample", "independent")  # what every model has to beat
    traces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # name -> files, one a sample
    samples: int = 3  # synthetic traces of each model
    fits: int = 1  # fits that these samples are spread over; more of them let the interval see how fits differ
    budget: str = "quick"
    budgets: Mapping[str, str] = field(default_factory=dict)  # of single models, where they differ
    encoding: str = "default"
    load: str = "real"  # offered load of the samples: real, none (as made) or a number

    def __post_init__(self) -> None:
        for budget in (self.budget, *self.budgets.values()):
            if budget not in BUDGETS:
                raise UnknownName("budget", budget, BUDGETS)
        for name in self.budgets:
            if name not in self.names:
                raise UnknownName("model in budgets", name, self.names)
        if not 1 <= self.fits <= self.samples:
            raise UsageError(f"models: fits must be from 1 to samples ({self.samples}), not {self.fits}")

    def budget_of(self, model: str) -> str:
        """Return how much is spent on the fit of one model."""
        return self.budgets.get(model, self.budget)


@dataclass(frozen=True)
class Agents:
    """What learns, and how often. Several learners are several uses of a trace, each with a verdict of its own."""

    learner: tuple[str, ...] = ("ppo",)
    seeds: int = 3  # agents trained on each trace
    config: Mapping[str, Any] = field(default_factory=dict)  # the learner's own settings; of several: a table of each

    def __post_init__(self) -> None:
        if not self.learner:
            raise UsageError("agents: no learner; name at least one")
        if len(self.learner) > 1:
            for name, own in self.config.items():
                if name not in self.learner:
                    raise UnknownName("learner with settings in [agents.config]", name, self.learner)
                if not isinstance(own, Mapping):
                    raise SchemaError(f"[agents.config]: {name} must be a table of that learner's settings")

    def config_of(self, learner: str) -> Mapping[str, Any]:
        """Return the settings of one learner; those of a lone learner need no table of their own."""
        if len(self.learner) == 1 and not isinstance(self.config.get(learner), Mapping):
            return self.config
        own: Mapping[str, Any] = self.config.get(learner, {})
        return own


@dataclass(frozen=True)
class Windows:
    """The held-out jobs that every agent and heuristic schedules, each window on an empty machine."""

    count: int = 40  # at most; fewer when the test part is too short for windows that do not overlap
    jobs: int = 128
    loads: tuple[str, ...] = ("real",)  # offered loads of the test part: real, or a number
    heuristics: tuple[str, ...] = ("fcfs", "sjf", "saf", "wfp3", "unicep", "f1", "random")
    backfill: str = "easy"
    cluster: str = ""  # hosts: a preset of 'tracekit clusters' or a TOML file; empty = a counter of processors
    allocate: str = "first-fit"  # with a cluster: which hosts a job gets


@dataclass(frozen=True)
class VerdictSettings:
    """How the verdict is reached."""

    metric: str = ""  # of scheduled windows; default mean_bsld. Predictions and forecasts have their own
    margin: float | None = None  # differences below this ratio do not matter; default: the learner's own
    alpha: float = 0.05  # of each one-sided test; intervals are 1 − 2·alpha
    looks: int = 1  # how often the verdict is looked at while samples and seeds grow; what is decided stops there
    halves: int = 7  # pairs of halves of the real training jobs that say how much real jobs differ; 0 = leave them out
    draws: int = 4000

    def __post_init__(self) -> None:
        if self.metric and self.metric not in METRICS:
            raise UnknownName("metric of the verdict", self.metric, METRICS)
        if self.margin is not None and not 0 < self.margin < 1:
            raise not_a_share("--margin", self.margin)
        if not 0 < self.alpha < 0.5:
            raise UsageError(f"verdict: alpha must be a level such as 0.05, not {self.alpha:g}")


@dataclass(frozen=True)
class Scarce:
    """Only the last part of the training jobs is known: whether synthetic ones that were fitted to it help."""

    share: float = 0.0  # of the training jobs; 0 = leave this out
    models: tuple[str, ...] | None = None  # None = all models, without baselines

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise not_a_share("scarce: share", self.share)


@dataclass(frozen=True)
class Scoring:
    """The cheap fidelity scores, measured against the training jobs."""

    quick: bool = True
    families: tuple[str, ...] | None = None  # None = all


@dataclass(frozen=True)
class Limits:
    """Limits after which a task is given up; other tasks continue."""

    minutes: float = 120.0  # wall-clock, of one task
    attempts: int = 3  # of a task whose process was killed


@dataclass(frozen=True)
class Plan:
    """The whole experiment."""

    real: Source = Source()
    split: Split = Split()
    models: Models = Models()
    agents: Agents = Agents()
    windows: Windows = Windows()
    verdict: VerdictSettings = VerdictSettings()
    scarce: Scarce = Scarce()
    other: Source = Source()  # a different real trace to train on
    score: Scoring = Scoring()
    limits: Limits = Limits()
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return dataclasses.asdict(self)

    @property
    def hosts(self) -> dict[str, str]:
        """Return what tasks need to know about hosts: nothing on a counter of processors, else the allocator."""
        return {"allocate": self.windows.allocate} if self.windows.cluster else {}

    def model_names(self) -> list[str]:
        """Return the models asked for, then the baselines that are not among them."""
        asked = list(dict.fromkeys([*self.models.names, *self.models.traces]))
        return asked + [name for name in self.models.baselines if name not in asked]


@loads("a plan of an experiment")
def load(path: str | Path) -> Plan:
    """Read a plan from a TOML file; relative paths in it start from the file's folder."""
    plan = from_dict(read_toml(path), origin=str(path))
    folder = Path(path).parent
    traces = {name: tuple(_beside(folder, file) for file in files) for name, files in plan.models.traces.items()}
    cluster = plan.windows.cluster
    return dataclasses.replace(
        plan,
        windows=dataclasses.replace(
            plan.windows, cluster=_beside(folder, cluster) if cluster.endswith(".toml") else cluster
        ),
        real=_placed(plan.real, folder),
        other=_placed(plan.other, folder),
        models=dataclasses.replace(plan.models, traces=traces),
    )


def _placed(source: Source, folder: Path) -> Source:
    machine = source.machine and _beside(folder, source.machine)
    return dataclasses.replace(source, path=source.path and _beside(folder, source.path), machine=machine)


def _beside(folder: Path, path: str) -> str:
    return path if path == "-" else str(folder / path)


def from_dict(values: Mapping[str, Any], *, origin: str = "the plan") -> Plan:
    """Build a plan from plain values; unknown keys and wrong types are errors that name ``origin``."""
    return _built(Plan, values, origin)


def _built(kind: type[S], values: Mapping[str, Any], origin: str) -> S:
    defaults = kind()
    known = {f.name: getattr(defaults, f.name) for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            raise UnknownName(f"key in {origin}", key, known)
        place, default = f"{origin}: {key}", known[key]
        if dataclasses.is_dataclass(default) and not isinstance(default, type):
            if not isinstance(value, Mapping):
                raise SchemaError(f"{place} must be a section, not {value!r}")
            given[key] = _built(type(default), value, f"{origin}, [{key}]")
        else:
            given[key] = _value(kind, key, default, value, place)
    return kind(**given)


#: Fields whose default None does not show their type.
_OPTIONAL: dict[tuple[str, str], type] = {
    ("Source", "procs"): int,
    ("Source", "jobs"): int,
    ("Source", "format"): str,
    ("Source", "machine"): str,
    ("Source", "resource"): str,
    ("VerdictSettings", "margin"): float,
    ("Scarce", "models"): tuple,
    ("Scoring", "families"): tuple,
}
#: Whole numbers that may be 0; all others count something that there must be.
_FROM_ZERO = {"seed", "halves"}


def _value(kind: type, key: str, default: Any, value: Any, place: str) -> Any:
    wanted = _OPTIONAL.get((kind.__name__, key)) or type(default)
    if kind is Models and key == "traces":
        if not isinstance(value, Mapping):
            raise SchemaError(f"{place} must map names to lists of files, not {value!r}")
        return {name: _texts([files] if isinstance(files, str) else files, place) for name, files in value.items()}
    if wanted is tuple:
        return _texts(names_in(value) if kind is Agents and isinstance(value, str) else value, place)
    if wanted is dict:
        if not isinstance(value, Mapping):
            raise SchemaError(f"{place} must be a section, not {value!r}")
        return dict(value)
    if wanted is bool or wanted is str:
        if not isinstance(value, wanted) and not (key == "load" and isinstance(value, (int, float))):
            raise SchemaError(f"{place} must be {'true or false' if wanted is bool else 'a text'}, not {value!r}")
        return value if wanted is bool else str(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise SchemaError(f"{place} must be a number, not {value!r}")
    if wanted is int:
        if value != int(value) or value < (0 if key in _FROM_ZERO else 1):
            raise SchemaError(f"{place} must be a whole number from {0 if key in _FROM_ZERO else 1}, not {value!r}")
        return int(value)
    return float(value)


def names_in(text: str) -> tuple[str, ...]:
    """Return names separated by commas.

    >>> names_in("a, b,")
    ('a', 'b')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _texts(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, (str, int, float)) for v in value):
        raise SchemaError(f"{place} must be a list, not {value!r}")
    return tuple(str(v) for v in value)
