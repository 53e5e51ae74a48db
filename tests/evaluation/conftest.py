"""A made trace with everything that the metrics look for: users, sessions, repeats, limits, a daily cycle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from evaluation.base import METRICS, Score, Setting
from evaluation.view import View, prepare
from tracekit import Machine, Trace

WEEKS = 16
DAY = 86_400


def make_trace(seed: int = 0, weeks: int = WEEKS) -> Trace:
    """Sessions of a handful of similar jobs in office hours; cpu = 4·node; run time below its limit."""
    rng = np.random.default_rng(seed)
    taste = np.random.default_rng(99)  # the users stay the same people
    users = 12
    size, limit = 2 ** taste.integers(0, 6, users), taste.choice([600, 1800, 3600, 7200, 14400], users)
    hour = taste.uniform(8, 18, users)
    rows = []
    for day in range(7 * weeks):
        if day % 7 >= 5:
            continue
        for _ in range(rng.poisson(9)):
            user = int(users * rng.beta(1, 2))
            start = day * DAY + 3600 * (hour[user] + rng.normal(0, 1))
            nodes = int(size[user]) if rng.random() < 0.8 else 2 ** int(rng.integers(0, 6))
            asked = float(limit[user]) if rng.random() < 0.8 else float(rng.choice([600, 3600, 14400]))
            typical = asked * rng.beta(1, 3)
            for job in range(1 + rng.geometric(0.25)):
                run = float(np.clip(np.round(typical * rng.lognormal(0, 0.3)), 1, asked))
                rows.append((start + 90 * job + rng.exponential(60), run, asked, nodes, user))
    submit, run_time, req_time, nodes_, user_ = (np.array(column) for column in zip(*sorted(rows), strict=True))
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(1, len(rows) + 1),
            "submit_time": np.round(submit),
            "run_time": run_time,
            "req_time": req_time,
            "req_nodes": nodes_.astype(int),
            "req_procs": 4 * nodes_.astype(int),
            "status": np.where(run_time >= req_time, "timeout", "completed"),
            "user": [f"u{u}" for u in user_],
            "queue": np.where(req_time > 3600, "long", "short"),
        }
    )
    return Trace(jobs, Machine(name="made", nodes=64, procs=256, unit="nodes", epoch=1_704_067_200.0, timezone="UTC"))


@pytest.fixture(scope="session")
def real() -> Trace:
    return make_trace()


def shuffle_order(trace: Trace) -> Trace:
    """The same jobs at the same instants, in another order."""
    rows = np.random.default_rng(1).permutation(len(trace))
    columns = [c for c in trace.jobs.columns if c not in ("job_id", "submit_time")]
    return trace.replace(jobs=trace.jobs.assign(**{c: trace.jobs[c].array.take(rows) for c in columns}))


def permute_users(trace: Trace) -> Trace:
    """Every user has as many jobs as before, but not the same ones."""
    rows = np.random.default_rng(2).permutation(len(trace))
    return trace.assign({"user": trace.jobs["user"].array.take(rows)})


def rename_users(trace: Trace) -> Trace:
    """New names for everybody."""
    return trace.assign({"user": "x" + trace.jobs["user"].astype(str)})


def double_load(trace: Trace) -> Trace:
    """Twice as many jobs an hour: every gap halved."""
    submit = trace.column("submit_time")
    return trace.assign({"submit_time": submit[0] + (submit - submit[0]) / 2})


@pytest.fixture(scope="session")
def damage() -> dict[str, Callable[[Trace], Trace]]:
    return {
        "copy": lambda t: t,
        "order": shuffle_order,
        "users": permute_users,
        "names": rename_users,
        "load": double_load,
    }


Compare = Callable[..., dict[str, Score]]


@pytest.fixture(scope="session")
def compare() -> Compare:
    """Run one registered metric: compare("ks", real, synth) -> scores by key."""

    def run(name: str, real: Trace, synth: Trace, holdout: Trace | None = None) -> dict[str, Score]:
        others = [synth] if holdout is None else [synth, holdout]
        views: list[View] = prepare(real, others, ["real", "synthetic", "hold-out"][: 1 + len(others)])
        setting = Setting(quick=True, holdout=views[2] if holdout is not None else None)
        return METRICS.get(name)()(views[0], views[1], setting=setting, rng=np.random.default_rng(0))

    return run
