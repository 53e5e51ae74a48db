"""Makes the embedded sample: `python -m generators.sample_trace OUT.swf.gz`. Nothing in it was recorded anywhere.

About 10,000 jobs on 256 processors at an offered load of 0.8, from one seed. Sizes, run times and the shape of the
day follow Lublin and Feitelson, limits follow Tsafrir (`generators.lublin`, `generators.tsafrir`). What those models
leave out is added by hand, with round numbers chosen to look like archive logs:

* users with very unequal shares, in groups, working in *sessions* by day and on working days;
* inside a session, the same few *templates* (program, size, limit) again and again, some seconds or minutes apart;
* jobs that fail at once, are cancelled half-way, or run into their limit;
* waits, from an EASY schedule of the jobs on the empty machine.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators import lublin_model, tsafrir
from tracekit.machine import Machine
from tracekit.schema import STATUSES, status_codes
from tracekit.trace import Trace

Floats = NDArray[np.float64]

SEED = 2024
JOBS = 10_000
PROCS = 256
LOAD = 0.80
EPOCH = 1_704_067_200.0  # 2024-01-01 00:00 UTC, a Monday

USERS = 80
GROUPS = 9
ZIPF = 1.05  # share of the user of rank k: k^−ZIPF
WEEK = np.array([1.0, 1.1, 1.1, 1.05, 0.9, 0.3, 0.25])  # activity from Monday to Sunday
LONGEST_LIMIT = 24 * 3600.0

HABITS = 5  # templates a user has at any time
NEW_TEMPLATE = 0.4  # chance that a session begins with something new, which replaces an old habit
SAME_TEMPLATE = 0.8  # chance that the next job of a session repeats the template of the one before
MAX_WORK = 3_000_000.0  # processor-seconds of a typical job: no site lets one job take the machine for a day
MORE = 0.82  # chance that a session continues after a job
HEAVY, MORE_HEAVY = 300_000.0, 0.45  # users with jobs above this many processor-seconds submit few
SCRIPTED = 0.35  # chance that a session submits by script, seconds apart, rather than by hand
SPREAD = 0.6  # standard deviation of ln(run time) among jobs of one template
FAIL, CANCEL = 0.06, 0.03

#: Queues by limit: label -> (name, longest limit in seconds).
QUEUES = {"1": ("debug", 1800.0), "2": ("normal", 8 * 3600.0), "3": ("long", np.inf)}

NAME = "tracekit sample (made, not recorded)"
WHAT = f"MADE by a seeded script of tracekit (generators/sample_trace.py, seed {SEED}), not recorded on any machine"


@dataclass(frozen=True)
class Template:
    """A kind of job that a user submits again and again."""

    app: int
    procs: int
    limit: float  # seconds
    log_run: float  # typical ln(run time in seconds)

    @property
    def work(self) -> float:
        """Return the processor-seconds that such a job typically takes."""
        return self.procs * float(np.exp(self.log_run))


class Templates:
    """An endless supply of templates: Lublin's sizes and run times, each under one of Tsafrir's modal limits."""

    def __init__(self, rng: np.random.Generator, *, supply: int = 4000) -> None:
        kind = replace(lublin_model.one_type(PROCS), longest=float(np.log(LONGEST_LIMIT)))
        self.procs = lublin_model.sample_sizes(kind, supply, rng)
        self.log_run = lublin_model.sample_log_runs(kind, self.procs, rng)
        fair = self.procs * np.exp(self.log_run) <= MAX_WORK
        self.procs, self.log_run = self.procs[fair], self.log_run[fair]
        # Users ask for more than their jobs usually need; some ask for too little, and meet their limit often.
        needed = np.exp(self.log_run - 0.3 * SPREAD)
        times, shares = tsafrir.modal_limits(JOBS, LONGEST_LIMIT, rng)
        self.limit = tsafrir.assign_limits(needed, times, shares, rng)
        self.app = rng.zipf(1.6, len(self.procs)).clip(max=40)
        self.used = 0

    def next(self) -> Template:
        """Return one that is not in use."""
        k = self.used
        self.used += 1
        return Template(int(self.app[k]), int(self.procs[k]), float(self.limit[k]), float(self.log_run[k]))


def make_jobs(rng: np.random.Generator) -> pd.DataFrame:
    """Return the jobs without waits: sessions of users, merged in order of submission."""
    templates = Templates(rng)
    habits = [[templates.next() for _ in range(HABITS)] for _ in range(USERS)]
    share = (1.0 + np.arange(USERS)) ** -ZIPF
    share /= share.sum()
    rows: list[tuple[int, float, int, Template]] = []  # session, seconds since its start, user, template
    session = 0
    while len(rows) < JOBS:
        user = int(rng.choice(USERS, p=share))
        own = habits[user]
        if rng.random() < NEW_TEMPLATE:
            own[int(rng.integers(HABITS))] = templates.next()
        now, scripted = 0.0, rng.random() < SCRIPTED
        template = own[int(rng.integers(HABITS))]
        while len(rows) < JOBS:
            rows.append((session, now, user, template))
            if rng.random() >= (MORE_HEAVY if template.work > HEAVY else MORE):
                break
            now += _pause(scripted, rng)
            if rng.random() >= SAME_TEMPLATE:
                template = own[int(rng.integers(HABITS))]
        session += 1
    session_of, since, user_of = (np.array([row[k] for row in rows]) for k in range(3))
    columns = {"user": user_of, **_template_columns([row[3] for row in rows])}
    columns |= _outcomes(columns["log_run"], columns["req_time"], rng)
    work = float((columns["req_procs"] * columns["run_time"]).sum())
    submit = _submits(session_of, since, work / (PROCS * LOAD), rng)
    order = np.argsort(submit, kind="stable")
    return _table(submit[order], {name: values[order] for name, values in columns.items()}, rng)


def _pause(scripted: bool, rng: np.random.Generator) -> float:
    """Return the seconds until a user's next submission within a session: seconds by script, minutes by hand."""
    return float(rng.lognormal(np.log(4), 0.8) if scripted else rng.lognormal(np.log(500), 1.2))


def _template_columns(of: list[Template]) -> dict[str, NDArray[Any]]:
    return {
        "app": np.array([t.app for t in of]),
        "req_procs": np.array([t.procs for t in of]),
        "req_time": np.array([t.limit for t in of]),
        "log_run": np.array([t.log_run for t in of]),
    }


def _outcomes(log_run: Floats, limit: Floats, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Draw run times and how the jobs end; nothing runs beyond its limit."""
    n = len(log_run)
    run = np.exp(log_run + SPREAD * rng.normal(size=n))
    u = rng.random(n)
    failed, cancelled = u < FAIL, (u >= FAIL) & (u < FAIL + CANCEL)
    run = np.where(failed, np.minimum(run, rng.exponential(15.0, n)), run)
    run = np.where(cancelled, run * rng.random(n), run)
    run = np.floor(np.maximum(run, 1.0))
    timeout = run >= limit
    status = np.select(
        [timeout, failed, cancelled],
        [STATUSES.index("timeout"), STATUSES.index("failed"), STATUSES.index("cancelled")],
        STATUSES.index("completed"),
    )
    return {"run_time": np.minimum(run, limit), "status": status}


def _submits(session: NDArray[np.intp], since: Floats, span: float, rng: np.random.Generator) -> Floats:
    """Return submit times that stretch over ``span`` seconds: sessions placed at random, denser by day and Mo–Fr.

    ``session`` and ``since`` say to which session each job belongs and how long after its start it is submitted.
    """
    day = lublin_model.day_weights(lublin_model.one_type(PROCS))
    week = np.concatenate([weight * day for weight in WEEK])  # 336 half-hours from Monday 0:00
    edges = np.concatenate([[0.0], np.cumsum(week / week.mean())]) * lublin_model.BUCKET
    clock, length = np.arange(len(edges)) * lublin_model.BUCKET, edges[-1]
    place = np.sort(rng.random(session.max() + 1))

    def submits(busy_span: float) -> Floats:
        busy = place * busy_span
        turn = np.floor(busy / length)
        starts = turn * length + np.interp(busy - turn * length, edges, clock)
        return np.asarray(np.floor(starts[session] + since))

    # Nights and weekends at the ends make the span miss a little; halving finds the one that does not.
    low, high = 0.7 * span, 1.4 * span
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if np.ptp(submits(middle)) < span else (low, middle)
    return submits(high)


def _table(submit: Floats, columns: dict[str, NDArray[Any]], rng: np.random.Generator) -> pd.DataFrame:
    user = columns["user"]
    number_of = rng.permutation(USERS) + 1  # so that a user's number does not give away the rank
    group_of = rng.integers(1, GROUPS + 1, USERS)
    bounds = np.array([longest for _, longest in QUEUES.values()])
    queue = np.array(list(QUEUES), dtype=object)[np.searchsorted(bounds, columns["req_time"])]
    return pd.DataFrame(
        {
            "job_id": np.arange(1, len(submit) + 1),
            "submit_time": submit,
            "run_time": columns["run_time"],
            "req_time": columns["req_time"],
            "req_procs": columns["req_procs"],
            "alloc_procs": columns["req_procs"],
            "status": status_codes(columns["status"]),
            "user": _numbers(number_of[user]),
            "group": _numbers(group_of[user]),
            "app": _numbers(columns["app"]),
            "queue": queue,
        }
    )


def _numbers(values: NDArray[Any]) -> pd.Series:
    return pd.Series(values.astype(np.float64))  # the schema turns whole numbers into labels


def make_sample(seed: int = SEED, *, waits: bool = True) -> Trace:
    """Return the whole sample as a trace; the same seed gives the same jobs."""
    header = (
        "; Version: 2.2",
        f"; Computer: {NAME}",
        f"; Information: {WHAT}",
        f"; MaxJobs: {JOBS}",
        f"; MaxRecords: {JOBS}",
        f"; UnixStartTime: {EPOCH:.0f}",
        "; TimeZoneString: UTC",
        f"; MaxProcs: {PROCS}",
        *(f"; Queue: {label} {name}" for label, (name, _) in QUEUES.items()),
        "; Note: sizes, run times and daily cycle after Lublin & Feitelson, JPDC 63(11), 2003",
        "; Note: limits after Tsafrir, Etsion & Feitelson, JSSPP 2005; users, sessions and repeated jobs by hand",
        "; Note: waits from a simulated EASY schedule",
    )
    machine = Machine(
        name=NAME,
        procs=PROCS,
        epoch=EPOCH,
        timezone="UTC",
        queues={label: name for label, (name, _) in QUEUES.items()},
        source=WHAT,
        licence="Apache-2.0",
        notes=(WHAT,),
        header=header,
    )
    trace = Trace(make_jobs(np.random.default_rng(seed)), machine)
    if waits:
        trace = trace.assign({"wait_time": easy_waits(trace)})
    return trace


def easy_waits(trace: Trace) -> Floats:
    """Return each job's wait in seconds under first come, first served with EASY backfilling."""
    from tracekit.sim.simulate import simulate

    result = simulate(trace, policy="fcfs", backfill="easy")
    wait = np.empty(len(trace))
    wait[result.position] = result.wait
    return wait


def main() -> None:
    """Write the sample to the file named on the command line."""
    import tracekit

    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m generators.sample_trace OUT.swf.gz")
    tracekit.write(make_sample(), Path(sys.argv[1]), force=True)


if __name__ == "__main__":
    main()
