"""What an agent sees of each job it may choose: features by name, and observers, which are lists of features.

Every feature is a float32 without a unit, about 0 … 1. Features of the machine are repeated in every slot, so that
one small network per job sees them too. A time t that has no upper end becomes t/(t + h), 0.5 at the constant h;
requests and areas, which span six orders of magnitude, are logarithms. Constants are declared in `CONSTANTS` or
taken from a trace (`constants_of`), and are stored with the task, so an agent sees another trace on the scale it
learnt on. Empty slots are zeros; a count and a mask give the valid slots, never a value.

On a cluster of hosts, *its hosts* are those that a job may use by its pool and GPU type; there GPUs are counted where
the job asks for GPUs, else cores. Features in `OF_HOSTS` need a cluster, those in `OF_COUNTERS` a machine without one.

The features of RLScheduler are those of its class HPCEnv (Zhang et al., SC 2020), bit for bit but for empty slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName
from tracekit.sim.hosts.demand import (
    CORES,
    FACTS,
    FRAGMENTATION,
    FREE_SHARE,
    GPUS,
    MEMORY,
    MILLI,
    SOON,
    STARTS,
    WAYS,
    Demand,
    usable_groups,
)
from tracekit.sim.jobs import Prepared
from tracekit.sim.predict.predictor import OUTPUTS
from tracekit.sim.tasks.jobgraph import link_names
from tracekit.sim.tasks.pick_job.features_links import LINKED
from tracekit.trace import Trace

Floats = NDArray[np.float64]

#: What features are divided by. Those that are None come from the trace, see `constants_of`.
CONSTANTS: dict[str, float | None] = {
    "log_time_s": 7 * 86400.0,  # a request of this length is 1 on the logarithmic scale
    "short_s": 3600.0,  # waits and delays: 0.5 on the short scale
    "long_s": 86400.0,  # waits and backlog: 0.5 on the long scale
    "queue_jobs": 32.0,  # waiting jobs: 0.5
    "wait_s": 12 * 3600.0,  # RLScheduler's longest wait
    "max_request_s": None,  # largest of the trace
    "max_procs": None,  # the machine's size
    "max_memory_kb": None,
    "max_user": None,
    "max_group": None,
    "max_app": None,
}
#: No feature is larger, not even that of a request of a million years on a scale learnt elsewhere.
LARGEST = 4.0
#: Place in the order of the base policy that is 0.5.
PLACES = 4.0
ALMOST_ONE, ALMOST_ZERO = 1.0 - 1e-5, 1e-5  # RLScheduler's ends of the scale


@dataclass(frozen=True, eq=False)
class Facts:
    """Columns that only features need, by row of the trace, (jobs,); NaN = unknown."""

    memory: Floats
    user: Floats
    group: Floats
    app: Floats
    project: Floats = field(default_factory=lambda: np.empty(0))  # numbered from 0 here, −1 = unknown
    origin: float = 0.0  # first submit time, seconds


def facts_of(trace: Trace) -> Facts:
    """Read them from a trace; a label that is a number counts as that number, others by their position in the list."""

    def numbers(name: str) -> Floats:
        codes = trace.column(name)
        if not len(codes) or codes.max() < 0:
            return np.full(len(codes), np.nan)
        labels = [str(label) for label in trace.jobs[name].cat.categories]
        plain = all(label.isdigit() for label in labels)
        number = np.array([int(label) if plain else i for i, label in enumerate(labels)], dtype=np.float64)
        return np.where(codes >= 0, number[codes], np.nan)

    project: Any = trace.column("project" if trace.has("project") else "group")
    origin = float(np.nanmin(trace.column("submit_time"), initial=np.inf))
    return Facts(
        trace.column("req_mem"),
        numbers("user"),
        numbers("group"),
        numbers("app"),
        project.astype(np.float64),
        origin if np.isfinite(origin) else 0.0,
    )


def constants_of(facts: Facts, requests: Floats, procs: float) -> dict[str, float]:
    """Return every constant, those of the trace included; a column without known values has the constant 1."""

    def largest(values: Floats) -> float:
        top = float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
        return top if top > 0 else 1.0

    found = {
        "max_request_s": largest(requests),
        "max_procs": float(procs),
        "max_memory_kb": largest(facts.memory),
        "max_user": largest(facts.user),
        "max_group": largest(facts.group),
        "max_app": largest(facts.app),
    }
    return {name: found[name] if value is None else value for name, value in CONSTANTS.items()}


# ---- features that do not change while a job waits: numpy, once per window ------------------------------------------

Fixed = Callable[[Prepared, Facts, Mapping[str, float]], Floats]


def _log(values: Floats, top: float) -> Floats:
    return np.asarray(np.log1p(np.maximum(values, 0.0)) / np.log1p(top))


def _request(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """Requested time (the estimate), logarithmic: log(1 + r) / log(1 + log_time_s); orders like sjf."""
    return _log(ready.estimate, constant["log_time_s"])


def _size(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """Processors / the machine's: n / N; orders like smallest."""
    return ready.table.procs / ready.table.total


def _log_size(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """Processors, logarithmic: log(1 + n) / log(1 + N)."""
    return _log(ready.table.procs, ready.table.total)


def _area(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """Requested time × processors, logarithmic: log(1 + r·n) / log(1 + log_time_s·N); orders like saf."""
    return _log(ready.estimate * ready.table.procs, constant["log_time_s"] * ready.table.total)


def _log_request_size(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """Request × size, that is log(1 + r)·n, the part of f1 that differs between jobs of one window."""
    return _request(ready, facts, constant) * _size(ready, facts, constant)


def _capped(values: Floats, top: float) -> Floats:
    return np.where(np.isnan(values), 1.0, np.minimum(values / top, ALMOST_ONE))


def _request_share(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """Requested time / max_request_s, at most 1 − 1e−5 (RLScheduler)."""
    return _capped(ready.estimate, constant["max_request_s"])


def _procs_share(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """Processors / max_procs, at most 1 − 1e−5 (RLScheduler)."""
    return _capped(ready.table.procs, constant["max_procs"])


def _memory(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """Requested memory / max_memory_kb, at most 1 − 1e−5; unknown = 1 (RLScheduler)."""
    return _capped(facts.memory[ready.table.position], constant["max_memory_kb"])


def _user(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """Number of the user / max_user, at most 1 − 1e−5; unknown = 1 (RLScheduler)."""
    return _capped(facts.user[ready.table.position], constant["max_user"])


def _group(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """Number of the group / max_group, at most 1 − 1e−5; unknown = 1 (RLScheduler)."""
    return _capped(facts.group[ready.table.position], constant["max_group"])


def _app(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """Number of the application / max_app, at most 1 − 1e−5; unknown = 1 (RLScheduler)."""
    return _capped(facts.app[ready.table.position], constant["max_app"])


def asked_of_hosts(demand: Demand) -> tuple[Floats, Floats]:
    """Return the GPUs (of jobs that ask for none, the cores) of each job, and those of its hosts; 0 = not limited."""
    need, groups = demand.need, demand.cluster.groups
    wants = (need[:, GPUS] > 0) | (need[:, MILLI] > 0)
    usable = usable_groups(demand).astype(np.float64)
    theirs = np.array([group.count * (group.gpus or 0) for group in groups], np.float64) @ usable
    cores = np.array([group.count * (group.cores or 0) for group in groups], np.float64) @ usable
    return np.where(wants, demand.gpus, need[:, CORES] / demand.scale), np.where(wants, theirs, cores)


def _pool_share(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """GPUs / GPUs of its hosts; cores where it asks for no GPUs."""
    asked, there = asked_of_hosts(_demand(ready))
    return np.divide(asked, there, out=np.zeros(len(asked)), where=there > 0)


def _pool_area(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """Requested time × GPUs (cores), logarithmic: log(1 + r·g) / log(1 + log_time_s·G), G of its hosts."""
    asked, there = asked_of_hosts(_demand(ready))
    return _log(ready.estimate * asked, constant["log_time_s"]) / np.maximum(
        _log(constant["log_time_s"] * there, constant["log_time_s"]), 1.0
    )


def _memory_share(ready: Prepared, facts: Facts, constant: Mapping[str, float]) -> Floats:
    """Memory / that of its hosts; 0 where the cluster does not state its memory."""
    demand = _demand(ready)
    size = [group.count * (group.memory or 0.0) for group in demand.cluster.groups]
    there = np.array(size, np.float64) @ usable_groups(demand).astype(np.float64)
    return np.divide(demand.need[:, MEMORY], there, out=np.zeros(len(there)), where=there > 0)


def _demand(ready: Prepared) -> Demand:
    assert ready.table.demand is not None  # PickJob refuses these features without a cluster
    return ready.table.demand


FIXED: dict[str, Fixed] = {
    "request": _request,
    "size": _size,
    "log-size": _log_size,
    "area": _area,
    "request-size": _log_request_size,
    "request-share": _request_share,
    "procs-share": _procs_share,
    "memory": _memory,
    "user": _user,
    "group": _group,
    "app": _app,
    "pool-share": _pool_share,
    "pool-area": _pool_area,
    "memory-share": _memory_share,
    **LINKED,
}

#: Features computed at every decision; their position in this table is their number in compiled code.
CHANGING: dict[str, str] = {
    "wait": "Wait so far: w / (w + short_s).",
    "long-wait": "Wait so far on the long scale: w / (w + long_s).",
    "stretch": "Wait against request: w / (w + max(r, bound)), that is 1 − 1 / slowdown by estimate.",
    "starts-now": "1 if the job fits into the free processors, else 0.",
    "fill": "Share of the free processors that the job would take, n / free; 1 if it does not fit.",
    "delay": "Time until the job could start by estimates if nothing else started: d / (d + short_s); 0 = now.",
    "free": "Free processors / the machine's.",
    "queue": "Waiting jobs: q / (q + queue_jobs).",
    "backlog": "Waiting work, Σ r·n / N seconds: b / (b + long_s).",
    "filling": "1 while jobs are backfilled before a reservation, 0 while a job is picked.",
    "spare": "While backfilling: processors that remain free beside the reserved job / the machine's; else 0.",
    "shadow": "While backfilling: time until the reservation, d / (d + short_s); else 0.",
    "ends-in-time": "While backfilling: 1 if the job ends, by estimate, before the reservation; else 0.",
    "next-end": "Time until the first running job ends by estimate: d / (d + short_s); 1 if none runs.",
    "user-average": "Mean bounded slowdown of the user's jobs started so far / the worst-off user's; 0 = none yet.",
    "wait-share": "Wait so far / wait_s, at most 1 − 1e−5 (RLScheduler).",
    "can-start": "1 − 1e−5 if the job fits into the free processors, else 1e−5 (RLScheduler).",
    "base-place": "Place among the jobs shown in the order of the base policy (--base): p / (p + 4), 0 = first.",
    "pool-free": "Free share of its hosts.",
    "pool-fragmentation": "Share of what is free on its hosts that is on partly used hosts.",
    "ways": "Hosts with room for the job (several tasks: how often all fit into one pool), at most 4, / 4.",
    "soon": "Share of its hosts that is free, or becomes free within short_s by estimates.",
    "predicted-mean": "Predicted run time, the mean of its logarithm: ln t / log(1 + log_time_s); needs --predict.",
    "predicted-q50": "Predicted median of the run time, logarithmic.",
    "predicted-q75": "Predicted upper quartile of the run time, logarithmic.",
    "predicted-q90": "Predicted 90 % quantile of the run time, logarithmic.",
    "predicted-expected": "Predicted expected run time E, logarithmic.",
    "predicted-weight": "−ln v / log(1 + log_time_s), v = E[10/max(run, 10)] predicted: what a second of wait costs.",
    "predicted-area": "E × processors, logarithmic: ln(E·n) / log(1 + log_time_s·N).",
    "predicted-index": "The value of policy predicted-index / (2·log(1 + log_time_s)).",
    "link-free": "Link of the graph of jobs: free processors · 2^−22.",
    "rltune-wait": "Wait / 12 h. With --compat rltune this and the following are as RLTune's code computes them.",
    "rltune-gpus": "GPUs / GPUs of the largest pool that the job may use.",
    "rltune-demand": "GPUs / free GPUs of its pools, at most 1.",
    "rltune-availability": "(Free GPUs − those of the visible jobs that share its pools + all) / (2 · all).",
    "rltune-fragmentation": "Partly used hosts / hosts of its pools.",
    "rltune-ways": "Ways on as few hosts as can be (0, 1, 2 for more) + 1 for ways on one more, / 3.",
    "rltune-start": "1 if there is a way on as few hosts as can be, 0.5 on one more only, else 0.",
}
RLTUNE = tuple(name for name in CHANGING if name.startswith("rltune-"))
#: Features that need a predictor of run times: its outputs in their order, and what follows from them.
PREDICTED = tuple(name for name in CHANGING if name.startswith("predicted-"))
CODES = {name: code + 1 for code, name in enumerate(CHANGING)}  # 0 = fixed

_DEFAULT = (
    "request",
    "size",
    "log-size",
    "area",
    "request-size",
    "wait",
    "long-wait",
    "stretch",
    "starts-now",
    "fill",
    "delay",
    "free",
    "queue",
    "backlog",
    "filling",
    "spare",
)
_HOSTS = (
    *(name for name in _DEFAULT if name != "spare"),
    "shadow",
    "ends-in-time",
    "pool-share",
    "pool-area",
    "memory-share",
    "pool-free",
    "pool-fragmentation",
    "ways",
    "soon",
)
_INFORMED = ("predicted-mean", "predicted-q50", "predicted-q90", "predicted-weight", "predicted-index")
#: Features that need a cluster of hosts, and those that a cluster does not have.
OF_HOSTS = ("pool-share", "pool-area", "memory-share", "pool-free", "pool-fragmentation", "ways", "soon", *RLTUNE)
OF_COUNTERS = ("spare", "base-place")
_RLSCHEDULER = ("wait-share", "request-share", "procs-share", "memory", "user", "group", "app", "can-start")
#: Observers by name.
OBSERVERS: dict[str, tuple[str, ...]] = {
    "default": _DEFAULT,
    "fair": (*_DEFAULT, "user-average"),
    "hosts": _HOSTS,
    "hosts-fair": (*_HOSTS, "user-average"),
    "rlscheduler": _RLSCHEDULER,
    "rltune": RLTUNE,
    "informed": (*_DEFAULT, *_INFORMED, "base-place"),
    "rlscheduler-fair": (*_RLSCHEDULER, "user-average"),
}
#: Observers with the links of the graph of jobs, and the observers that they add them to.
GRAPHS = {"graph": "default", "hosts-graph": "hosts"}


def features_of(observer: str) -> tuple[str, ...]:
    """Return the features of an observer: its name, or names of features with commas.

    ``graph`` and ``hosts-graph`` add the links of the graph of jobs, of all kinds of edges or of those behind a colon.

    >>> features_of("request,wait")
    ('request', 'wait')
    >>> features_of("graph:none") == (*features_of("default"), *["link-none"] * 8)
    True
    """
    if observer in OBSERVERS:
        return OBSERVERS[observer]
    name, _, edges = observer.partition(":")
    if name in GRAPHS:
        return (*OBSERVERS[GRAPHS[name]], *link_names(edges or "all"))
    names = tuple(name.strip() for name in observer.split(","))
    for name in names:
        if name not in FIXED and name not in CHANGING:
            raise UnknownName("observer or feature", name, [*OBSERVERS, *GRAPHS, *FIXED, *CHANGING])
    return names


def outputs_of(features: tuple[str, ...]) -> list[str]:
    """Return the outputs of a predictor of run times that some features show.

    >>> outputs_of(("request", "predicted-mean", "predicted-q90", "predicted-area"))
    ['ln_mean', 'q90', 'expected']
    """
    shown = [*OUTPUTS, "expected"]  # predicted-area follows from the expected run time
    return [shown[PREDICTED.index(name)] for name in features if name in PREDICTED[: len(shown)]]


_FACT = {"delay": STARTS, "pool-free": FREE_SHARE, "pool-fragmentation": FRAGMENTATION, "ways": WAYS, "soon": SOON}


def facts_of_hosts(features: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return which facts about hosts some features need, (facts,)."""
    wanted = np.zeros(FACTS, np.bool_)
    wanted[[_FACT[name] for name in features if name in _FACT]] = True
    return wanted


def codes_of(features: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the numbers of the features in compiled code, 0 for those that do not change."""
    return np.array([CODES.get(name, 0) for name in features], dtype=np.int64)


def fixed_columns(
    features: tuple[str, ...], ready: Prepared, facts: Facts, constants: Mapping[str, float]
) -> NDArray[np.float32]:
    """Return the static features, (jobs, features); the columns of changing features are 0."""
    found = np.zeros((len(ready.table), len(features)), dtype=np.float32)
    for i, name in enumerate(features):
        if name in FIXED:
            found[:, i] = np.clip(FIXED[name](ready, facts, constants), 0.0, LARGEST)
    return found
