"""The one way to a synthetic trace: fit or load a model, sample, and bring load, machine and start to what is asked."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from generators import MODELS
from generators.base import Generator
from generators.hosts import never_placed, placeable
from generators.learned import MAX_TRIES, TableModel
from generators.private import Private
from generators.progress import Progress
from generators.retime import in_order, match_load, move_start, scale_machine
from generators.sessions.model import Sessions
from generators.sessions.whatif import WhatIf
from generators.sharing import for_sharing, published
from tracekit import stats
from tracekit.clusters import with_hosts
from tracekit.environment import memory
from tracekit.errors import FormatError, OutputError, TracekitError, UsageError, loads
from tracekit.folders import writing_folder
from tracekit.machine import Machine
from tracekit.readings import read_load
from tracekit.trace import Trace, check_trace
from tracekit.units import left_out

DEFAULT_MODEL = "sessions"
#: Jobs that a model with default parameters makes where no number is given.
DEFAULT_JOBS = 10_000
#: Options of `make` beside the number of jobs and the seed.
SHAPING = ("span", "load", "machine_procs", "start", "only", "users", "share", "more")
#: Options of the fit.
FITTING = ("budget", "encoding", "skeleton", "privacy", "keep_unusable", "sharing", "progress")
#: Options of the fit that only model private has.
PRIVATE = ("epsilon", "delta", "unit", "cap", "recorded", "noise_seed")
#: Models that draw whole real rows, those that cannot be scheduled among them.
KEEPING = ("resample", "independent", "user-resample")
#: Jobs that are made at a time; more belong into parts (`chunks`).
MAX_JOBS = 50_000_000
#: What one of them takes at least while they are made.
BYTES_A_JOB = 300
#: The load that is reached differs from the one asked for by no more than this share.
LOAD_TOLERANCE = 0.02
#: A model that matches the load by itself is left alone when it comes as near as this.
LOAD_NEAR = 0.01


@dataclass(frozen=True)
class Fitted:
    """A model that has learnt, and what is remembered of the trace it learnt from."""

    model: Generator
    jobs: int
    span: float  # seconds
    demand: float  # mean number of busy units; NaN = unknown
    load: float  # NaN = unknown
    left_out: int = 0  # jobs of the trace without a positive count of the scheduled unit

    @property
    def notes(self) -> list[str]:
        """Return what a person should know about the fit."""
        return list(getattr(self.model, "notes", []))

    @property
    def interrupted(self) -> bool:
        """Whether the fit was stopped early."""
        return isinstance(self.model, TableModel) and self.model.interrupted

    def save(self, folder: str | Path, *, force: bool = False) -> None:
        """Write the model's own files and provenance.json into a folder."""
        folder = check_folder(folder, force=force)
        with writing_folder(folder, ours=_SAVED, force=force) as made:
            self._write(made)

    def _write(self, folder: Path) -> None:
        self.model.save(folder)
        plain = {
            "model": self.model.name,
            "jobs": self.jobs,
            "span_s": self.span,
            "demand": stats.none_if_nan(self.demand),
            "load": stats.none_if_nan(self.load),
            "left_out": self.left_out,
        }
        (folder / "provenance.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


#: What the models save; everything else in a folder is the user's and stays.
_SAVED = (
    "config.json",
    "provenance.json",
    "encoding.json",
    "calibration.json",
    "network.json",
    "trace.parquet",
    "weights.safetensors",
    "synthesizer.pkl",
    "limits.npz",
    "habits.npz",
    "network/*",
)


def check_folder(folder: str | Path, *, force: bool = False) -> Path:
    """Refuse early, before any work: a file, or a folder that holds something already."""
    folder = Path(folder)
    if folder.is_file():
        raise OutputError(f"{folder}: is a file; a saved model is a folder")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise OutputError(f"{folder}: exists already; use --force to write into it")
    return folder


def fit(
    trace: Trace, model: str | type[Generator], *, seed: int = 0, progress: Progress | None = None, **options: Any
) -> Fitted:
    """Fit the model of that name or class. Options it does not know (a budget for a bootstrap) do not matter to it."""
    check_trace(trace)
    check_seed(seed)
    kind = MODELS.get(model) if isinstance(model, str) else model
    check_options(kind, options)
    made = made_with(kind, {"progress": progress, **options})
    made.fit(trace, seed=seed)
    if isinstance(made, Private):  # the real numbers must not leave the trace, not even in provenance.json
        facts = made.facts()
        return Fitted(made, int(facts["jobs"]), facts["span"], facts["demand"], facts["load"])
    able = placeable(trace)[0]  # jobs that no host can hold bring no load
    return Fitted(made, len(trace), stats.span(trace), stats.mean_demand(able), able.offered_load(), left_out(trace))


def check_options(kind: type[Generator], options: Mapping[str, Any]) -> None:
    """Refuse rows that cannot be scheduled where the model cannot keep them."""
    known = inspect.signature(kind).parameters
    if options.get("keep_unusable") and "keep_unusable" not in known and kind.name not in KEEPING:
        raise UsageError(
            f"--keep-unusable is only supported by model sessions, not by {kind.name} "
            f"({', '.join(KEEPING)} always keep such rows)"
        )


def made_with(kind: type[Generator], options: Mapping[str, Any]) -> Generator:
    """Return a model with those of the options that it knows."""
    known = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in options.items() if name in known and value is not None})


def from_defaults(model: str, *, cluster: Machine | None = None, seed: int = 0) -> Fitted:
    """Return a model with its published or default parameters, for a machine; only some models have them."""
    check_seed(seed)
    kind = MODELS.get(model)
    make_default = getattr(kind, "from_defaults", None)
    if make_default is None:
        able = [name for name in ("eda", "lublin") if name in MODELS]
        raise UsageError(f"model {model} needs a trace to fit; without one only {' and '.join(able)} can be used")
    return Fitted(make_default(cluster=cluster, seed=seed), DEFAULT_JOBS, np.nan, np.nan, np.nan)


@loads("a saved model")
def load(folder: str | Path, *, trust: bool = False) -> Fitted:
    """Read a folder that `Fitted.save` wrote; formats that can run code need ``trust``."""
    folder = Path(folder)
    try:
        plain = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        name = str(plain["model"])
        span, demand, load_ = (
            float("nan") if plain[key] is None else float(plain[key]) for key in ("span_s", "demand", "load")
        )
    except (OSError, ValueError, KeyError, TypeError):
        raise FormatError(folder, "is not a saved model", hint="create one with tracekit synth … --save DIR") from None
    kind = MODELS.get(name)
    model = kind.load(folder, trust=trust) if issubclass(kind, TableModel) else kind.load(folder)
    return Fitted(model, int(plain["jobs"]), span, demand, load_, int(plain.get("left_out", 0)))


def synth(trace: Trace, model: str = DEFAULT_MODEL, n_jobs: int | None = None, seed: int = 0, **options: Any) -> Trace:
    """Make a synthetic trace after a real one; the same seed gives the same jobs.

    ``n_jobs`` defaults to as many as the real trace has (model private: a released, noisy number). Options of the fit:
    ``budget`` (quick, normal, thorough), ``encoding`` (default, raw), ``skeleton``, ``privacy`` and ``keep_unusable``
    (of sessions; the last: rows without a run time or a size have their share in the result), ``epsilon``,
    ``delta``, ``unit``, ``cap``, ``recorded`` and ``noise_seed`` (of private, whose noise is secret: the
    same seed then does not give the same jobs), ``progress``, ``cluster`` (hosts that the jobs must fit, where the
    trace's machine has none or others are meant), ``for_sharing`` (see `generators.sharing`). Options of the result:
    those of `make`.

    >>> import tracekit
    >>> made = tracekit.synth(tracekit.sample().head(500), "resample", 100, seed=1)
    >>> len(made)
    100
    """
    check_trace(trace)
    cluster = options.pop("cluster", None)
    if cluster is not None:
        trace = trace.replace(machine=with_hosts(trace.machine, cluster))
    shaping = {name: options.pop(name) for name in SHAPING if name in options}
    sharing = bool(options.pop("for_sharing", False))
    if sharing:
        options = for_sharing(model, options, shaping.get("only"))
    unknown = set(options) - {*FITTING, *PRIVATE}
    if unknown:
        raise UsageError(f"synth() does not support the option {', '.join(sorted(unknown))}")
    for name in PRIVATE:
        if options.get(name) is not None and model != Private.name:
            raise UsageError(f"{name} is only supported by model private, not by model {model}")
    made = make(fit(trace, model, seed=seed, **options), n_jobs, seed=seed, **shaping)
    return published(made, seed, dated=shaping.get("start") is not None) if sharing else made


def make(
    fitted: Fitted,
    n_jobs: int | None = None,
    *,
    seed: int = 0,
    span: float | None = None,
    load: str | float = "real",
    machine_procs: int | None = None,
    start: str | None = None,
    only: Mapping[str, str] | None = None,
    users: int | None = None,
    share: Mapping[tuple[str, str], float] | None = None,
    more: Mapping[str, float] | None = None,
) -> Trace:
    """Sample from a fitted model.

    Either ``n_jobs`` or ``span`` (seconds). ``load`` is ``real`` (the real trace's offered load, within 2 %), ``none``
    (as the model makes it) or a number. ``machine_procs`` scales sizes to another machine, ``start`` sets the date of
    the first job, ``only`` asks for jobs with certain labels. Model sessions also takes a number of
    ``users``, for the ``share`` of jobs with a label, ``{("queue", "batch"): 0.3}``, and for ``more`` jobs with a
    resource, ``{"gpus": 1.2}``; the load then is the real one times what follows from that, unless a number is given.
    """
    if n_jobs is not None and span is not None:
        raise UsageError("give either a number of jobs or a span, not both")
    check_seed(seed)
    target = check_load(load)
    what_if = _what_if(fitted, users, share, more, start)
    if span is None:
        _check_amount(n_jobs or fitted.jobs)
        return _shaped(fitted, n_jobs or fitted.jobs, seed, target, machine_procs, start, only, what_if)
    if not span > 0:
        raise UsageError(f"the span must be above 0 seconds, not {span}")
    if not fitted.span > 0:
        raise UsageError(
            "a span needs a trace whose jobs do not all arrive at one instant; give a number of jobs instead"
        )
    count = max(2, round(fitted.jobs * span / fitted.span))
    _check_amount(count)
    for _ in range(6):  # the time that so many jobs take depends on them: approach it, then cut
        made = _shaped(fitted, count, seed, target, machine_procs, start, only, what_if)
        reached = stats.span(made)
        if span <= reached <= 1.02 * span:
            break
        count = (
            max(count + 1, int(count * min(1.01 * span / max(reached, 1e-9), 4.0) + 1))
            if reached < span
            else max(2, int(count * 1.01 * span / reached))
        )
    first = float(made.column("submit_time")[0])
    return made.between(first, first + span)


def _check_amount(n_jobs: int) -> None:
    """Refuse more jobs than memory can hold, which would otherwise end in a killed process."""
    room = memory()
    most = min(MAX_JOBS, room[1] // BYTES_A_JOB) if room else MAX_JOBS
    if n_jobs > most:
        raise UsageError(
            f"about {n_jobs:,} jobs were requested; at most {most:,} can be made at once: request fewer, or write a "
            f"Parquet file with model {DEFAULT_MODEL}, which works in parts"
        )


def chunks(
    fitted: Fitted,
    n_jobs: int,
    *,
    seed: int = 0,
    load: str | float = "real",
    start: str | None = None,
    users: int | None = None,
    share: Mapping[tuple[str, str], float] | None = None,
    more: Mapping[str, float] | None = None,
) -> Iterator[Trace] | None:
    """Sample in parts that one after the other make up a trace of any length; None where a model cannot do that."""
    model = fitted.model
    check_seed(seed)
    target, what_if = check_load(load), _what_if(fitted, users, share, more, start)
    if not isinstance(model, Sessions) or what_if is None or target == "none":
        return None
    size = model.machine.size()
    if target != "real":
        if not size:
            return None
        what_if = replace(what_if, demand=float(target) * size)
    return model.chunks(n_jobs, seed=seed, what_if=what_if)


def check_seed(seed: int) -> None:
    """Refuse a seed that generators of random numbers do not take."""
    if seed < 0:
        raise UsageError(f"the seed must be a whole number from 0, not {seed}")


def check_load(load: str | float) -> str | float:
    """Return ``real``, ``none`` or a positive number; one that looks like per cent is refused."""
    if load in ("real", "none"):
        return load
    return read_load(load)


def _what_if(
    fitted: Fitted,
    users: int | None,
    share: Mapping[tuple[str, str], float] | None,
    more: Mapping[str, float] | None,
    start: str | None,
) -> WhatIf | None:
    """Return the what-if options for model sessions, None for other models; an option they lack is an error."""
    if isinstance(fitted.model, Sessions):
        if users is not None and users < 1:
            raise UsageError(f"--users must be a whole number from 1, not {users}")
        return WhatIf(users, dict(share or {}), dict(more or {}), start=start)
    asked = [flag for flag, value in (("--users", users), ("--share", share), ("--more", more)) if value]
    if asked:
        raise UsageError(f"{asked[0]} is only supported by model sessions, not by {fitted.model.name}")
    return None


def _shaped(
    fitted: Fitted,
    n_jobs: int,
    seed: int,
    target: str | float,
    procs: int | None,
    start: str | None,
    only: Mapping[str, str] | None,
    what_if: WhatIf | None,
) -> Trace:
    if what_if is not None:
        made, steps = _sampled_what_if(fitted, n_jobs, seed, target, procs, only, what_if)
    else:
        made, steps = _sampled(fitted, n_jobs, seed, only, balance=target != "none"), []
    fitted_hosts = bool(made.machine.groups)
    if procs is not None:
        made, factor = scale_machine(made, procs)
        dropped = "; its hosts are not described" if fitted_hosts else ""
        steps.append(f"sizes scaled by {factor:.4g} to a machine of {procs} processors{dropped}")
    if start is not None:
        made = made if what_if is not None else move_start(in_order(made), start)
        steps.append(f"starts at {start}")
    if target != "none":
        made, said = _loaded(made, fitted, target, scaled=procs is not None, what_if=what_if)
        steps.append(said)
    count = int(sum(rows.sum() for rows in never_placed(made).values()))
    if count:
        steps.append(f"{count:,} of {len(made):,} jobs can never be placed on the machine's hosts")
    for step in steps:
        made = made.replace(step=step)
    return made.replace(machine=made.machine.replace(notes=(*made.machine.notes, *steps)))


def _sampled_what_if(
    fitted: Fitted,
    n_jobs: int,
    seed: int,
    target: str | float,
    procs: int | None,
    only: Mapping[str, str] | None,
    what_if: WhatIf,
) -> tuple[Trace, list[str]]:
    """Sample from a model that reaches a load by the number of users, which leaves their hours alone."""
    model = fitted.model
    assert isinstance(model, Sessions)
    size = model.machine.size()
    if target not in ("real", "none") and size:
        what_if = replace(what_if, demand=float(target) * size)
    elif target == "real":
        wanted = fitted.demand if only else fitted.demand * _change(model, what_if)
        # The model knows the load of the jobs that it learnt; rows that were left out may have come for longer.
        if np.isfinite(wanted) and (only or abs(wanted / model.demand(what_if) - 1) > LOAD_NEAR):
            what_if = replace(what_if, demand=wanted)
    made = _rejected(model, n_jobs, seed, only) if only else model.sample(n_jobs, seed=seed, what_if=what_if)
    said = [f"{name} {value}" for name, value in what_if.said().items()]
    return made, [f"asked for {', '.join(said)}"] if said else []


def _loaded(
    made: Trace, fitted: Fitted, target: str | float, *, scaled: bool, what_if: WhatIf | None = None
) -> tuple[Trace, str]:
    """Scale inter-arrival times to the requested load; return also a note on the load reached."""
    size = made.machine.size()
    if target == "real":
        demand = fitted.load * size if scaled and size else fitted.demand
        if what_if is not None and isinstance(fitted.model, Sessions):
            demand *= _change(fitted.model, what_if)
        if not (np.isfinite(demand) and demand > 0):
            return made, "load unchanged: the load of the real trace is unknown"
    elif size:
        demand = float(target) * size
    else:
        raise UsageError(f"--load {target} needs a machine whose size is known; give it with --procs or --machine")
    stretch = 1.0
    if what_if is None or not abs(stats.mean_demand(made) / demand - 1) <= LOAD_NEAR:
        made, stretch = match_load(made, demand)
    reached = stats.mean_demand(made) / demand
    if not np.isfinite(reached):
        return made, "load unchanged: all jobs arrive at one instant"
    if not abs(reached - 1) <= LOAD_TOLERANCE:
        return made, f"load could not be matched: {reached:.3g} times the requested load"
    known = f"{demand / size:.4g}" if size else f"a demand of {demand:.4g} {made.machine.unit}"
    how = "" if f"{stretch:.4g}" == "1" else f" by stretching gaps by {stretch:.4g}"
    return made, f"load matched to {known} (reached {reached:.2%} of it){how}"


def _change(model: Sessions, what_if: WhatIf) -> float:
    """Return how many times the load becomes by what-if options."""
    return model.demand(what_if) / model.demand(WhatIf())


def _sampled(fitted: Fitted, n_jobs: int, seed: int, only: Mapping[str, str] | None, *, balance: bool) -> Trace:
    model = fitted.model
    if isinstance(model, TableModel):
        return model.sample(n_jobs, seed=seed, only=only, balance=balance)
    made: object = _rejected(model, n_jobs, seed, only) if only else model.sample(n_jobs, seed=seed)
    if not isinstance(made, Trace):  # a third-party model
        raise TracekitError(f"model {model.name}: sample returned a {type(made).__name__}, expected a Trace")
    return made


def _rejected(model: Generator, n_jobs: int, seed: int, only: Mapping[str, str]) -> Trace:
    """Keep sampling until enough jobs have the labels; a model without conditions of its own can do no better."""
    wanted, tried, kept = n_jobs, n_jobs, 0
    while True:
        made = model.sample(tried, seed=seed)
        keep = np.ones(len(made), dtype=bool)
        for name, value in only.items():
            if name not in made.jobs.columns or not isinstance(made.jobs[name].dtype, pd.CategoricalDtype):
                raise UsageError(f"--only {name}: model {model.name} does not make that column")
            keep &= (made.jobs[name] == value).to_numpy(dtype=bool, na_value=False)
        kept = int(keep.sum())
        if kept >= wanted:
            return made.take(np.flatnonzero(keep)[:wanted])
        if tried >= MAX_TRIES * wanted and tried >= 100_000:
            said = " and ".join(f"{name}={value}" for name, value in only.items())
            raise TracekitError(
                f"{model.name}: only {kept} of {tried:,} synthetic jobs have {said}; {wanted} are needed. "
                "Request fewer jobs or a more common value, or fit the model to such jobs only"
            )
        tried = int(min(max(1.3 * tried * wanted / max(kept, 1), 2 * tried), max(MAX_TRIES * wanted, 100_000)))
