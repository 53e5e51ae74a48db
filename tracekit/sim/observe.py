"""What an agent sees of each job it may choose: features by name, and observers, which are lists of features.

Every feature is a float32 without a unit, about 0 … 1. Features of the machine are repeated in every slot, so that
one small network per job sees them too. A time t that has no upper end becomes t/(t + h), 0.5 at the constant h;
requests and areas, which span six orders of magnitude, are logarithms. Constants are declared in `CONSTANTS` or
taken from a trace (`constants_of`), and are stored with the task, so an agent sees another trace on the scale it
learnt on. Empty slots are zeros; which slots are valid is told by a count and a mask, never by a value.

The features of RLScheduler are those of its class HPCEnv (Zhang et al., SC 2020), bit for bit but for empty slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName
from tracekit.sim.capacity import Processors, most
from tracekit.sim.compile import internal
from tracekit.sim.jobs import Prepared
from tracekit.sim.lanes import FILLED, FILLING, MAY_SKIP, PHASE, Rules, World
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
_ALMOST_ONE, _ALMOST_ZERO = 1.0 - 1e-5, 1e-5  # RLScheduler's ends of the scale


@dataclass(frozen=True, eq=False)
class Facts:
    """Columns that only features need, by row of the trace, (jobs,); NaN = unknown."""

    memory: Floats
    user: Floats
    group: Floats
    app: Floats


def facts_of(trace: Trace) -> Facts:
    """Read them from a trace; a label that is a number counts as that number, others by their place in the list."""

    def numbers(name: str) -> Floats:
        codes = trace.column(name)
        if not len(codes) or codes.max() < 0:
            return np.full(len(codes), np.nan)
        labels = [str(label) for label in trace.jobs[name].cat.categories]
        plain = all(label.isdigit() for label in labels)
        number = np.array([int(label) if plain else i for i, label in enumerate(labels)], dtype=np.float64)
        return np.where(codes >= 0, number[codes], np.nan)

    return Facts(trace.column("req_mem"), numbers("user"), numbers("group"), numbers("app"))


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
    return np.log1p(np.maximum(values, 0.0)) / np.log1p(top)


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
    """Request × size, that is log(1 + r)·n, the part of f1 that tells jobs of one window apart."""
    return _request(ready, facts, constant) * _size(ready, facts, constant)


def _capped(values: Floats, top: float) -> Floats:
    return np.where(np.isnan(values), 1.0, np.minimum(values / top, _ALMOST_ONE))


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
}

#: Features worked out at every decision; their place in this table is the number that compiled code knows them by.
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
    "filling": "1 while gaps before a reservation are filled, 0 while a job is picked.",
    "spare": "While filling: processors that remain free beside the reserved job / the machine's; else 0.",
    "shadow": "While filling: time until the reservation, d / (d + short_s); else 0.",
    "ends-in-time": "While filling: 1 if the job ends, by estimate, before the reservation; else 0.",
    "next-end": "Time until the first running job ends by estimate: d / (d + short_s); 1 if none runs.",
    "user-average": "Mean bounded slowdown of the user's jobs started so far / the worst-off user's; 0 = none yet.",
    "wait-share": "Wait so far / wait_s, at most 1 − 1e−5 (RLScheduler).",
    "can-start": "1 − 1e−5 if the job fits into the free processors, else 1e−5 (RLScheduler).",
}
_CODES = {name: code + 1 for code, name in enumerate(CHANGING)}  # 0 = fixed
_WAIT, _LONG_WAIT, _STRETCH, _STARTS_NOW, _FILL, _DELAY, _FREE, _QUEUE, _BACKLOG = range(1, 10)
_FILLING, _SPARE, _SHADOW, _IN_TIME, _NEXT_END, _USER_AVERAGE, _WAIT_SHARE, _CAN_START = range(10, 18)

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
_RLSCHEDULER = ("wait-share", "request-share", "procs-share", "memory", "user", "group", "app", "can-start")
#: Observers by name.
OBSERVERS: dict[str, tuple[str, ...]] = {
    "default": _DEFAULT,
    "fair": (*_DEFAULT, "user-average"),
    "rlscheduler": _RLSCHEDULER,
    "rlscheduler-fair": (*_RLSCHEDULER, "user-average"),
}


def features_of(observer: str) -> tuple[str, ...]:
    """Return the features of an observer: its name, or names of features with commas.

    >>> features_of("request,wait")
    ('request', 'wait')
    """
    if observer in OBSERVERS:
        return OBSERVERS[observer]
    names = tuple(name.strip() for name in observer.split(","))
    for name in names:
        if name not in FIXED and name not in CHANGING:
            raise UnknownName("observer or feature", name, [*OBSERVERS, *FIXED, *CHANGING])
    return names


def codes_of(features: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the numbers by which compiled code knows the features, 0 for those that do not change."""
    return np.array([_CODES.get(name, 0) for name in features], dtype=np.int64)


def fixed_columns(
    features: tuple[str, ...], ready: Prepared, facts: Facts, constants: Mapping[str, float]
) -> NDArray[np.float32]:
    """Return what does not change, (jobs, features); the columns of changing features are 0."""
    found = np.zeros((len(ready.table), len(features)), dtype=np.float32)
    for i, name in enumerate(features):
        if name in FIXED:
            found[:, i] = np.clip(FIXED[name](ready, facts, constants), 0.0, LARGEST)
    return found


# ---- features that change: compiled ---------------------------------------------------------------------------------


@internal
def observe_lane(world: World, rules: Rules, lane: int) -> None:
    """Write features and mask of the choices on offer in a lane; a finished lane has none."""
    count, filled = world.count[lane], world.state[lane, FILLED]
    out, mask, visible, fixed = world.features[lane], world.mask[lane], world.visible[lane], world.fixed[lane]
    submit, size, estimate = world.submit[lane], world.size[lane], world.estimate[lane]
    waits, sizes = world.key[lane], world.scratch[lane]  # of the slots, side by side
    now, width = world.time[lane, 0], out.shape[1]
    for i in range(count):
        job = visible[i]
        mask[i] = True
        waits[i], sizes[i] = now - submit[job], size[job]
        for f in range(width):
            out[i, f] = fixed[job, f]
    for i in range(count, filled):
        mask[i] = False
        for f in range(width):
            out[i, f] = 0.0
    if rules.skip:
        mask[rules.slots] = world.state[lane, MAY_SKIP] == 1
    world.state[lane, FILLED] = count
    if count == 0:
        return

    room, shadow = most(Processors(world.free[lane])), world.shadow[lane, 0]
    short, long, longest = world.constants[1], world.constants[2], world.constants[4]
    filling = world.state[lane, PHASE] == FILLING
    for f in range(width):  # one loop over the slots for each feature, and all in one function: calls would cost more
        code = world.codes[f]
        if code == 0:
            continue
        if code == _WAIT:
            for i in range(count):
                out[i, f] = waits[i] / (waits[i] + short)
        elif code == _LONG_WAIT:
            for i in range(count):
                out[i, f] = waits[i] / (waits[i] + long)
        elif code == _STRETCH:
            for i in range(count):
                out[i, f] = waits[i] / (waits[i] + max(estimate[visible[i]], rules.bound))
        elif code == _WAIT_SHARE:
            for i in range(count):
                out[i, f] = min(waits[i] / longest, _ALMOST_ONE)
        elif code == _STARTS_NOW:
            for i in range(count):
                out[i, f] = 1.0 if sizes[i] <= room else 0.0
        elif code == _CAN_START:
            for i in range(count):
                out[i, f] = _ALMOST_ONE if sizes[i] <= room else _ALMOST_ZERO
        elif code == _FILL:
            for i in range(count):
                out[i, f] = sizes[i] / room if sizes[i] <= room else 1.0
        elif code == _DELAY:
            _delays(
                count,
                sizes,
                out,
                f,
                now,
                room,
                world.tally[lane, 0],
                size,
                world.limit[lane],
                world.limit_job[lane],
                world.stair[lane],
                short,
            )
        elif code == _IN_TIME:
            for i in range(count):
                out[i, f] = 1.0 if filling and now + estimate[visible[i]] <= shadow else 0.0
        elif code == _USER_AVERAGE:
            _user_averages(count, visible, out, f, world.user[lane], world.by_user[lane])
        else:
            value = 0.0
            if code == _FREE:
                value = room / world.total[lane]
            elif code == _QUEUE:
                value = world.waiting_count[lane, 0] / (world.waiting_count[lane, 0] + world.constants[3])
            elif code == _BACKLOG:
                waiting, work = world.waiting[lane], 0.0
                for i in range(world.waiting_count[lane, 0]):
                    work += estimate[waiting[i]] * size[waiting[i]]
                value = work / (work + long * world.total[lane])
            elif code == _NEXT_END:
                running = world.tally[lane, 0]
                ahead = max(world.limit[lane, running - 1] - now, 0.0) if running > 0 else np.inf
                value = ahead / (ahead + short) if running > 0 else 1.0
            elif filling and code == _FILLING:
                value = 1.0
            elif filling and code == _SPARE:
                value = most(Processors(world.later[lane])) / world.total[lane]
            elif filling and code == _SHADOW:
                value = max(shadow - now, 0.0) / (max(shadow - now, 0.0) + short)
            for i in range(count):
                out[i, f] = value


@internal
def _delays(
    count: int,
    sizes: NDArray[np.int64],
    out: NDArray[np.float32],
    f: int,
    now: float,
    room: int,
    running: int,
    size: NDArray[np.int64],
    limit: Floats,
    limit_job: NDArray[np.int64],
    stair: NDArray[np.int64],
    half: float,
) -> None:
    """Write when each job could start by estimates: climb the stairs of processors that running jobs give back."""
    free = room
    stair[0] = free
    for i in range(running):  # stair[i]: free once i running jobs have ended
        free += size[limit_job[running - 1 - i]]
        stair[i + 1] = free
    for i in range(count):
        units = sizes[i]
        if units <= room:
            out[i, f] = 0.0
            continue
        low, high = 1, running
        while low < high:
            middle = (low + high) >> 1
            if stair[middle] < units:
                low = middle + 1
            else:
                high = middle
        ahead = max(limit[running - low] - now, 0.0)
        out[i, f] = ahead / (ahead + half)


@internal
def _user_averages(
    count: int,
    visible: NDArray[np.int64],
    out: NDArray[np.float32],
    f: int,
    user: NDArray[np.int64],
    by_user: Floats,
) -> None:
    largest = 0.0
    for each in range(len(by_user)):
        if by_user[each, 1] > 0:
            largest = max(largest, by_user[each, 0] / by_user[each, 1])
    for i in range(count):
        each = user[visible[i]]
        out[i, f] = by_user[each, 0] / by_user[each, 1] / largest if by_user[each, 1] > 0 else 0.0
