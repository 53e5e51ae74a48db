"""What an agent sees when it picks a policy: a row per policy, and rows of the jobs where it sees their graph.

Everything is about 0 … 1, times t without an upper end are t / (t + h). Features of the queue and the machine are the
same in every policy's row. Forecasts take the machine for one server: the waiting jobs run one after the
other in the policy's order, each with all processors, by estimates. They are cheap, and compare policies; they are
not predictions of waits.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit
from tracekit.sim.engine.capacity import fits, free_units, total_units
from tracekit.sim.engine.capped import Capped
from tracekit.sim.engine.loop import evaluate
from tracekit.sim.engine.state import Simulation
from tracekit.sim.policies.capability import SHARE
from tracekit.sim.tasks.jobgraph import CONTEXT, LINK_UNIT, NODE_FEATURES, links_of, node_features
from tracekit.sim.tasks.pick_policy.run import PolicyRun
from tracekit.sim.tasks.sorting import merge_sort

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Of a policy: its first job, and how it compares with the others by forecast.
OF_POLICY = (
    "first-size",  # processors of the job that it would start first / the machine's
    "first-request",  # its requested time, logarithmic, 1 = a week
    "first-wait",  # its wait, h = 1 h
    "first-fits",  # 1 if it fits now
    "starts",  # jobs that start in its order until one does not fit, n / (n + 8)
    "fills",  # free processors that these take
    "forecast-bsld",  # least mean bounded slowdown of all policies, by forecast / the policy's; 1 = the best
    "forecast-wait",  # the same of mean waits
)
#: Of the queue and the machine.
OF_MACHINE = (
    "queue",  # waiting jobs, q / (q + 32)
    "backlog",  # waiting work, Σ r·n / N, h = 1 day
    "oldest",  # longest wait, h = 1 day
    "mean-wait",  # mean wait, h = 1 h
    "free",  # free processors / the machine's
    "can-start",  # share of the waiting jobs that fit now
    "capability",  # share of the waiting work that is of capability jobs (a fifth of the machine or more)
    "next-end",  # time until a running job ends by estimate, h = 1 h; 1 = none runs
    "running",  # running jobs, r / (r + 32)
    "running-work",  # what running jobs have left by estimate, Σ n·left / N, h = 1 day
    "morning",  # (1 + sin) / 2 of the time of day …
    "night",  # … and (1 + cos) / 2; UTC where the zone is unknown; without a date submit time 0 counts as midnight
)
#: Of the machine, where tasks have a power cap.
OF_CAP = ("watts-left",)  # what the cap leaves to more jobs now / to all jobs; 1 = no cap
_HOUR, _DAY, _WEEK = 3600.0, 86400.0, 7 * 86400.0


class Sorting(NamedTuple):
    """Scratch space to sort up to n waiting jobs."""

    key: Floats  # (2, n)
    row: Ints  # (2, n)


@jit
def survey(
    sim: Simulation, dynamics: Any, codes: Ints, given: Floats, bound: float, scratch: Sorting, out: Floats
) -> None:
    """Write `OF_POLICY` and `OF_MACHINE` but for the time of day into ``out`` (policies, …)."""
    policies, many = len(codes), 8
    work = _machine(sim, out[0], many)
    for p in range(policies):
        for f in range(many, out.shape[1] - 2):
            out[p, f] = out[0, f]
        evaluate(sim, dynamics, codes[p], given[p])
        _forecast(sim, bound, work, scratch, out[p])
    for f in range(many - 2, many):
        least = np.inf
        for p in range(policies):
            least = min(least, out[p, f])
        for p in range(policies):
            out[p, f] = least / out[p, f] if out[p, f] > 0.0 else 1.0


@jit
def _forecast(sim: Simulation, bound: float, work: float, scratch: Sorting, out: Floats) -> None:
    """Write what a policy's order, in ``queue.value``, means: its first job, and the means by forecast."""
    queue, jobs, now, total = sim.queue, sim.jobs, sim.state[0].now, float(total_units(sim.capacity))
    count, free = queue.length[0], float(free_units(sim.capacity))
    for i in range(count):
        scratch.key[0, i], scratch.row[0, i] = queue.value[i], queue.job[i]
    order = scratch.row[merge_sort(scratch.key, scratch.row, count)]
    first = order[0]
    out[0] = jobs.size[first] / total
    out[1] = math.log1p(max(jobs.asked[first], 0.0)) / math.log1p(_WEEK)
    wait = now - jobs.submit[first]
    out[2] = wait / (wait + _HOUR)
    out[3] = 1.0 if fits(sim.capacity, first) else 0.0
    starts, taken, slowdowns, waits, ahead, open_ = 0.0, 0.0, 0.0, 0.0, work, True
    for i in range(count):
        job = order[i]
        size, asked = float(jobs.size[job]), max(jobs.asked[job], 0.0)
        if open_ and taken + size <= free:
            starts, taken = starts + 1.0, taken + size
        else:
            open_ = False
        wait = now - jobs.submit[job] + ahead
        slowdowns += max(1.0, (wait + asked) / max(asked, bound))
        waits += wait
        ahead += asked * size / total
    out[4] = starts / (starts + 8.0)
    out[5] = taken / free if free > 0.0 else 0.0
    out[6], out[7] = slowdowns / count, waits / count


@jit
def _machine(sim: Simulation, out: Floats, at: int) -> float:
    """Write `OF_MACHINE` but for the time of day; return the running work, in seconds of the whole machine."""
    queue, jobs, running, now = sim.queue, sim.jobs, sim.running, sim.state[0].now
    count, total, there = float(queue.length[0]), float(total_units(sim.capacity)), running.tally[0].running
    work, large, waits, oldest, able = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(queue.length[0]):
        job = queue.job[i]
        area, wait = max(jobs.asked[job], 0.0) * jobs.size[job] / total, now - jobs.submit[job]
        work, waits, oldest = work + area, waits + wait, max(oldest, wait)
        if jobs.size[job] >= SHARE * total:
            large += area
        if fits(sim.capacity, job):
            able += 1.0
    left, soon = 0.0, np.inf
    for i in range(there):
        rest = max(running.limits[i].time - now, 0.0)
        left, soon = left + rest * jobs.size[running.limits[i].job] / total, min(soon, rest)
    out[at] = count / (count + 32.0)
    out[at + 1] = work / (work + _DAY)
    out[at + 2] = oldest / (oldest + _DAY)
    out[at + 3] = waits / (waits + count * _HOUR)
    out[at + 4] = free_units(sim.capacity) / total
    out[at + 5] = able / count
    out[at + 6] = large / work if work > 0.0 else 0.0
    out[at + 7] = soon / (soon + _HOUR) if there > 0 else 1.0
    out[at + 8] = there / (there + 32.0)
    out[at + 9] = left / (left + _DAY)
    return left


class JobColumns(NamedTuple):
    """What is known of an episode's jobs beside the simulation, (jobs,) each."""

    project: Ints  # numbered, −1 = unknown
    midnight: float  # the submit time that is midnight, seconds


class Observer:
    """Makes the rows of the questions of one episode."""

    def __init__(self, run: PolicyRun, columns: JobColumns, kinds: tuple[str, ...], jobs: int, *, watts: bool) -> None:
        self.run, self.columns, self.kinds, self.jobs, self.watts = run, columns, kinds, jobs, watts
        self._policies = len(run.codes)
        most = len(run.ready.table)
        self._scratch = Sorting(np.empty((2, most)), np.empty((2, most), np.int64))
        self._seen = np.zeros((self._policies, len(OF_POLICY) + len(OF_MACHINE)))
        self._origin = float(run.jobs.submit.min(initial=0.0))

    def rows(self) -> NDArray[np.float32]:
        """Return a row per policy, (policies, features), and below them the jobs where they are shown."""
        run, seen = self.run, self._seen
        bound = float(run.switches.bound)
        survey(run.sim, run.dynamics, run.codes, run.given, bound, self._scratch, seen)
        angle = 2 * math.pi * ((run.now - self.columns.midnight) % _DAY) / _DAY
        seen[:, -2], seen[:, -1] = (1 + math.sin(angle)) / 2, (1 + math.cos(angle)) / 2
        cap = [np.full((self._policies, 1), self._watts_left())] if self.watts else []
        own = np.hstack([np.eye(self._policies), seen, *cap])
        if not self.jobs:
            return own.astype(np.float32)
        nodes = self._nodes()
        rows = np.zeros((self._policies + len(nodes), own.shape[1] + nodes.shape[1]), np.float32)
        rows[: self._policies, : own.shape[1]] = own
        rows[self._policies :, own.shape[1] :] = nodes
        return rows

    def _watts_left(self) -> float:
        """Return what the power cap leaves to more jobs, as a share of what it leaves to all."""
        room = self.run.sim.capacity
        return float(room.left[0] / max(room.most[0], 1)) if isinstance(room, Capped) else 1.0

    def _nodes(self) -> NDArray[np.float64]:
        """Return features and links of jobs: the waiting ones that came first, then running ones by estimated end."""
        run = self.run
        sim, jobs, table = run.sim, run.jobs, run.ready.table
        waiting = sim.queue.job[: min(sim.queue.length[0], self.jobs)]
        count = int(sim.running.tally["running"][0])
        by_end = sim.running.limits[:count][::-1][: self.jobs - len(waiting)]  # the engine keeps the next end last
        chosen = np.concatenate([waiting, by_end["job"]])
        waits = np.arange(len(chosen)) < len(waiting)
        size, total = jobs.size[chosen].astype(np.float64), float(run.ready.total)
        free = total - run.held()
        left = np.concatenate([np.zeros(len(waiting)), np.maximum(by_end["time"] - run.now, 0.0)])
        wait = np.where(waits, run.now - jobs.submit[chosen], 0.0)
        features = node_features(waits, size, jobs.asked[chosen], wait, left, free, total)
        links = links_of(
            table.user[chosen],
            self.columns.project[chosen],
            jobs.submit[chosen] - self._origin,
            np.where(waits, size, 0.0),
            free,
            total,
            self.kinds,
        )
        links[:, CONTEXT] = LINK_UNIT
        return np.hstack([features, links])


def feature_names(policies: tuple[str, ...], links: tuple[str, ...], *, watts: bool) -> tuple[str, ...]:
    """Return the features of a row: of policies, and, with links, of jobs; ``watts``: those of a power cap as well."""
    own = (*(f"is-{policy}" for policy in policies), *OF_POLICY, *OF_MACHINE, *(OF_CAP if watts else ()))
    return (*own, *(f"job-{name}" for name in NODE_FEATURES), *links) if links else own
