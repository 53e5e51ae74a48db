"""What is known of the jobs of a machine that goes on: events come one after another, new users and jobs among them.

The compiled functions are those of `tracekit.sim.predict.history`, so a job has the features here that it has in a
simulation, or in a trace, with the same events.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.sim.predict.features import (
    CANCEL,
    END,
    REQUEUE,
    START,
    SUBMIT,
    history_of,
    own_features,
    recorded,
    replay,
    replay_recorded,
)
from tracekit.sim.predict.history import FEATURES, GROUPS, new_groups, no_history
from tracekit.stats import is_date
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Names of events.
EVENTS = {"submit": SUBMIT, "start": START, "end": END, "requeue": REQUEUE, "cancel": CANCEL}
#: What a job must be doing before an event; None: it must not be known.
_BEFORE = {SUBMIT: None, START: "waiting", END: "running", REQUEUE: "running", CANCEL: "waiting"}
_WAITS = np.nan


@dataclass(frozen=True, eq=False)
class Submits:
    """Jobs as they are submitted, column by column, (jobs,) each; NaN or None = unknown."""

    time: Floats  # seconds
    size: Floats  # units of the machine
    limit: Floats  # seconds
    user: Sequence[str | None]
    queue: Sequence[str | None]


@dataclass(frozen=True, eq=False)
class Events:
    """Events in their order, column by column, (events,) each."""

    kind: Ints  # of EVENTS
    time: Floats  # seconds
    id: Sequence[str]  # of the jobs
    run: Floats  # seconds that a job ran that ends; NaN = from its last start to its end
    submits: Submits  # of the events that are submits, in their order


class Ongoing:
    """The history of a machine. Times are Unix seconds; on another clock there are no hours."""

    def __init__(self, timezone: str | None = None) -> None:
        self.zone = ZoneInfo(timezone or "UTC")
        self.now = -np.inf  # time of the last event, seconds
        self.ended = 0  # jobs
        self._history = no_history()
        self._numbers: dict[Hashable, int] = {}  # of groups
        self._run = np.zeros(0)  # (places,) seconds
        self._found = np.zeros((0, len(FEATURES)))  # (places, FEATURES)
        self._free: list[int] = []  # places without a job
        self._live: dict[str, tuple[int, float]] = {}  # jobs that wait or run: place, and start or NaN

    @classmethod
    def of(cls, trace: Trace, timezone: str | None = None) -> Ongoing:
        """Return the history at the end of a trace, by its recorded schedule; times are Unix seconds if it has dates.

        Jobs without a run time are still running, as in `tracekit.sim.predict.features.features_of`.
        """
        made = cls(timezone or trace.machine.timezone)
        size, limit = trace.sizes(), np.nan_to_num(trace.column("req_time"), nan=-1.0)
        history, found = history_of(trace, size), np.full((len(trace), len(FEATURES)), np.nan)
        replay_recorded(trace, history, found)
        offset = trace.machine.epoch or 0.0
        for name in ("submitted", "started", "ended"):
            history.user[name] += offset
        submit, start, end = recorded(trace)
        made.now = float(np.nanmax(np.concatenate((submit, start, end)), initial=-np.inf)) + offset
        made.ended = int(np.isfinite(end).sum())
        users, queues = _labels(trace, "user"), _labels(trace, "queue")
        for column, kind in enumerate(GROUPS):
            numbers, rows = np.unique(history.member[:, column], return_index=True)
            for number, row in zip(numbers.tolist(), rows.tolist(), strict=True):
                made._numbers[_key(kind, users[row], queues[row], size[row], limit[row])] = number
        live = np.flatnonzero(np.isfinite(submit) & ~np.isfinite(end))
        history = history._replace(own=history.own[live], member=history.member[live])
        made._history, made._run, made._found = history, np.zeros(len(live)), found[live]
        ids = trace.column("job_id")[live].tolist()
        made._live = {str(ids[k]): (k, float(start[row] + offset)) for k, row in enumerate(live.tolist())}
        made._grow(0, 0)
        return made

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs wait, run and have ended, and how many users there are."""
        waiting = sum(start != start for _, start in self._live.values())
        users = sum(isinstance(key, tuple) and key[0] == "user" for key in self._numbers)
        return {"waiting": waiting, "running": len(self._live) - waiting, "ended": self.ended, "users": users}

    def apply(self, events: Events) -> Floats:
        """Let events happen, all or none of them; return the features of the submitted jobs, (submits, FEATURES).

        Raises `TracekitError` for an event that cannot be: of a job that is not known, or before the last event.
        """
        self._check_times(events.time, "events[{}].time")
        if len(late := np.flatnonzero(np.diff(events.time) < 0)):
            raise TracekitError(f"events[{late[0] + 1}].time: is before that of the event before it")
        changed = self._changes(events)
        places = self._admit(events.submits)
        job = np.empty(len(events.kind), np.int64)
        new, gone = iter(places), []
        run_of: dict[str, int] = {}  # places of jobs that this call has seen
        for i, (kind, name) in enumerate(zip(events.kind.tolist(), events.id, strict=True)):
            if kind == SUBMIT:
                run_of[name] = next(new)
            job[i] = place = run_of[name] if name in run_of else self._live[name][0]
            if kind in (END, CANCEL):
                gone.append(place)
                run_of.pop(name, None)
                self._live.pop(name, None)
        self._run[job[events.kind == END]] = changed.run
        replay(self._history, self._run, events.time, events.kind, job, self._found)
        for name, start in changed.left.items():
            self._live[name] = (run_of[name] if name in run_of else self._live[name][0], start)
        self.now = float(events.time[-1]) if len(events.time) else self.now
        self.ended += len(changed.run)
        self._free += gone
        return self._found[places]

    def ask(self, jobs: Submits) -> Floats:
        """Return the features, (jobs, FEATURES), that jobs would have if they were submitted now; none of them is.

        Each counts as waiting for those after it.
        """
        self._check_times(jobs.time, "jobs[{}].submit_time")
        known = len(self._numbers)
        places = self._admit(jobs)
        history, order = self._history, np.argsort(jobs.time, kind="stable")
        users = np.unique(history.member[places, 0])
        before = history.user[users].copy()
        kind = np.full(len(places), SUBMIT)
        replay(history, self._run, jobs.time[order], kind, np.array(places, np.int64)[order], self._found)
        history.user[users] = before
        for key in list(self._numbers)[known:]:
            del self._numbers[key]
        self._free += places
        return self._found[places]

    def _check_times(self, time: Floats, field: str) -> None:
        """Refuse times before that of the last event, which is ``now``; what was known then is not kept."""
        late = np.flatnonzero(time < self.now)
        if len(late):
            last = f"the last event was at {self.now:.15g}"
            raise TracekitError(f"{field.format(late[0])}: {time[late[0]]:.15g} lies in the past, {last}")

    def _changes(self, events: Events) -> _Changes:
        """Return what events change, or refuse them; changes nothing."""
        left: dict[str, float | None] = {}  # start of each job that is touched, NaN = waits, None = gone
        runs = []
        for i, (kind, name) in enumerate(zip(events.kind.tolist(), events.id, strict=True)):
            start = left[name] if name in left else self._live.get(name, (0, None))[1]
            state = None if start is None else "waiting" if start != start else "running"
            if state != _BEFORE[kind]:
                what = next(word for word, code in EVENTS.items() if code == kind)
                is_now = "not known" if state is None else f"already {state}"
                raise TracekitError(f"events[{i}]: {what} of job {name}, which is {is_now}")
            now = float(events.time[i])
            if kind == END:
                ran = float(events.run[i])
                runs.append(now - start if ran != ran and start is not None else ran)
            left[name] = now if kind == START else None if kind in (END, CANCEL) else _WAITS
        return _Changes({name: start for name, start in left.items() if start is not None}, np.array(runs))

    def _admit(self, jobs: Submits) -> list[int]:
        """Give jobs places, and write what is known of them by themselves."""
        limit = np.where(np.isnan(jobs.limit), -1.0, jobs.limit)
        member = np.empty((len(jobs.time), len(GROUPS)), np.int64)
        columns = (jobs.user, jobs.queue, jobs.size.tolist(), limit.tolist())
        for row, (user, queue, size, most) in enumerate(zip(*columns, strict=True)):
            for column, kind in enumerate(GROUPS):
                key = _key(kind, user, queue, size, most)
                member[row, column] = self._numbers.setdefault(key, len(self._numbers))
        self._grow(len(member), len(self._numbers))
        places = [self._free.pop() for _ in range(len(member))]
        own = own_features(jobs.limit, jobs.size)
        for row, time in enumerate(jobs.time.tolist()):
            if is_date(time):
                stamp = datetime.fromtimestamp(np.floor(time), self.zone)
                own[row, 2:] = stamp.hour, stamp.weekday()
        self._history.own[places], self._history.member[places] = own, member
        return places

    def _grow(self, places: int, groups: int) -> None:
        """Make room for more jobs than there are free places, and for the groups."""
        history = self._history
        if places > len(self._free):
            first = len(history.own)
            size = 2 * (first + places)
            self._run, self._found = _longer(self._run, size), _longer(self._found, size)
            history = history._replace(own=_longer(history.own, size), member=_longer(history.member, size))
            self._free += range(size - 1, first - 1, -1)
        if groups > len(history.group) or len(history.user) < len(history.group):
            size = max(2 * groups, len(history.group))
            group, user = new_groups(size - len(history.group), size - len(history.user))
            history = history._replace(
                group=np.concatenate((history.group, group)), user=np.concatenate((history.user, user))
            )
        self._history = history


@dataclass(frozen=True, eq=False)
class _Changes:
    left: dict[str, float]  # jobs that wait (NaN) or run (start) afterwards
    run: Floats  # (ends,) seconds


def _key(kind: str, user: str | None, queue: str | None, size: float, limit: float) -> Hashable:
    """Return what the jobs of a group have in common."""
    return ("user", user) if kind == "user" else ("queue", queue) if kind == "queue" else (user, size, limit)


def _labels(trace: Trace, name: str) -> list[str | None]:
    if name not in trace.jobs.columns:
        return [None] * len(trace)
    names: Iterable[object] = trace.jobs[name].cat.categories
    known = [str(label) for label in names]
    return [known[code] if code >= 0 else None for code in trace.column(name).tolist()]


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    made = np.zeros((size, *array.shape[1:]), array.dtype)
    made[: len(array)] = array
    return made
