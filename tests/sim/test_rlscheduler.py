"""RLScheduler's meanings, re-stated as plainly as can be, on jobs with neither run time nor limit."""

import math
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest

import tracekit
from tracekit.machine import Machine
from tracekit.sim.jobs import extract_jobs, prepare
from tracekit.sim.switches import Switches

NAN = float("nan")


def trace_of(rows, procs):
    """Return a trace of (submit, run, limit, procs); NaN is unknown."""
    submit, run, limit, size = map(list, zip(*rows, strict=True))
    jobs = {"job_id": range(1, len(rows) + 1), "submit_time": submit, "run_time": run, "req_time": limit}
    return tracekit.Trace(pd.DataFrame(jobs | {"req_procs": size}), Machine(procs=procs))


def test_the_limit_is_copied_before_the_run_time_is_replaced():
    """Limit and run time as their loader leaves them: −1 stays −1, and 10 s are run."""
    trace = trace_of([(0, NAN, NAN, 1), (0, NAN, 60, 1), (0, 30, NAN, 1), (0, 0, 5, 1), (0, -7, NAN, 1)], procs=4)
    switches = Switches(compat="rlscheduler").resolved()
    ready = prepare(extract_jobs(trace, switches), switches)
    assert ready.estimate.tolist() == [-1, 60, 30, -7]
    assert ready.run.tolist() == [10, 10, 30, 10]


def test_worked_by_hand():
    """Four processors. Job 1 holds three until 100 (its limit: 50), so that job 2 waits; reservation: 0 + 50.

    Job 3 has neither run time nor limit: 2 − 1 < 50, it starts at once and runs 10 s. Job 4 does not fit beside it
    until 12; then 12 + 37 < 50, and it starts. Job 5 (limit −1 again) comes at 60: 60 − 1 < 50 is false.
    """
    rows = [(0, 100, 50, 3), (1, 10, 10, 2), (2, NAN, NAN, 1), (3, 37, 37, 1), (60, NAN, NAN, 1)]
    result = tracekit.simulate(trace_of(rows, procs=4), "fcfs", "easy", compat="rlscheduler")
    assert result.start.tolist() == [0, 100, 2, 12, 100]


@dataclass(eq=False)
class Job:
    """One job as their loader leaves it."""

    number: int
    submit: float
    run: float
    limit: float
    procs: int
    start: float = -1
    limit_end = property(lambda self: self.start + self.limit)
    end = property(lambda self: self.start + self.run)


def loaded(rows):
    """Apply their rules in their order."""
    found = []
    for number, (submit, run, limit, procs) in enumerate(rows):
        run, limit = (-1 if math.isnan(value) else value for value in (run, limit))
        limit = run if limit == -1 else limit
        run = 10 if run < 0 else run
        if run > 0:
            found.append(Job(number, submit, run, limit, procs))
    return found


SCORES = {
    "fcfs": lambda job: job.submit,
    "sjf": lambda job: (job.limit, job.submit),
    "f1": lambda job: math.log10(max(job.limit, 0) or 0.1) * job.procs + 870 * math.log10(job.submit or 0.1),
    "wfp3": lambda job: -(((-1 - job.submit) / job.limit) ** 3) * job.procs,
    "unicep": lambda job: -(-1 - job.submit + 1e-15) / (math.log2(job.procs + 1e-15) * job.limit),
}


@dataclass
class Theirs:
    """Their loop: one picked job at a time, and one event at a time while it waits."""

    jobs: list[Job]
    total: int
    now: float = 0
    arrived: int = 0
    queue: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)

    def run(self, score, backfill):
        while True:
            while not self.queue:
                if self.arrived == len(self.jobs):
                    return {job.number: job.start for job in self.jobs}
                self.step()
            pick = min(self.queue, key=score)
            if not self.fits(pick):
                until = self.reservation(pick)
                while not self.fits(pick):
                    for job in sorted(self.queue, key=lambda job: job.submit) if backfill else ():
                        if self.now + job.limit < until and self.fits(job):
                            self.begin(job)
                    self.step()
            self.begin(pick)

    def fits(self, job):
        return sum(other.procs for other in self.running) + job.procs <= self.total

    def begin(self, job):
        job.start = self.now
        self.queue.remove(job)
        self.running.append(job)

    def reservation(self, pick):
        free = self.total - sum(job.procs for job in self.running)
        for job in sorted(self.running, key=lambda job: job.limit_end):
            free += job.procs
            if free >= pick.procs:
                return job.limit_end
        raise AssertionError

    def step(self):
        """Let the next job arrive, or the first running job end."""
        self.running.sort(key=lambda job: job.end)
        release = self.running[0].end if self.running else math.inf
        if self.arrived < len(self.jobs) and self.jobs[self.arrived].submit <= release:
            self.now = max(self.now, self.jobs[self.arrived].submit)
            self.queue.append(self.jobs[self.arrived])
            self.arrived += 1
        else:
            self.now = max(self.now, release)
            self.running.pop(0)


@pytest.mark.parametrize("backfill", ["none", "easy"])
@pytest.mark.parametrize("policy", SCORES)
def test_as_their_loop(policy, backfill):
    rng = np.random.default_rng(5)
    for _ in range(40):
        submit = np.cumsum(rng.integers(0, 30, 60)) + 1
        run = rng.choice([NAN, 0, 5, 20, 90, 300], 60, p=[0.3, 0.1, 0.2, 0.2, 0.1, 0.1])
        limit = np.where(rng.random(60) < 0.6, NAN, rng.integers(5, 200, 60))
        rows = list(zip(submit.tolist(), run.tolist(), limit.tolist(), rng.integers(1, 9, 60).tolist(), strict=True))
        ours = tracekit.simulate(trace_of(rows, procs=8), policy, backfill, compat="rlscheduler")
        jobs = loaded(rows)
        assert ours.start.tolist() == list(Theirs(jobs, 8).run(SCORES[policy], backfill == "easy").values())
