"""Small traces for the generators' tests, made on the spot."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tracekit.machine import Machine
from tracekit.schema import status_codes
from tracekit.trace import Trace

#: 2024-01-01 00:00 UTC, a Monday.
MONDAY = 1_704_067_200.0


def make_trace(n_jobs: int = 400, *, seed: int = 5, calendar: bool = True, days: float = 35.0) -> Trace:
    """Return a trace with every kind of column, some of it missing; submitted by day, limits above run times."""
    rng = np.random.default_rng(seed)
    day = rng.integers(0, max(int(days), 1), n_jobs)
    submit = np.sort(np.round((day + rng.beta(6, 5, n_jobs)) * 86_400.0))
    run = np.ceil(rng.lognormal(6, 2, n_jobs))
    limit = np.select([run <= 600, run <= 3600, run <= 14_400], [600.0, 3600.0, 14_400.0], 86_400.0)
    run = np.minimum(run, limit)
    procs = 2.0 ** rng.integers(0, 6, n_jobs)
    procs[rng.random(n_jobs) < 0.2] = 3
    status = np.where(run == limit, 3, rng.choice([0, 1, 2], n_jobs, p=[0.9, 0.06, 0.04]))
    limit[rng.random(n_jobs) < 0.05] = np.nan
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(100, 100 + n_jobs),
            "submit_time": submit,
            "wait_time": rng.exponential(100, n_jobs),
            "run_time": run,
            "req_time": limit,
            "req_procs": procs,
            "alloc_procs": np.where(rng.random(n_jobs) < 0.1, np.nan, procs),
            "used_mem": np.where(rng.random(n_jobs) < 0.5, np.nan, 1024.0),
            "status": status_codes(status),
            "user": rng.choice(["ada", "bob", "cyd", None], n_jobs, p=[0.6, 0.2, 0.1, 0.1]),
            "queue": rng.choice(["short", "long"], n_jobs),
            "prev_job": pd.array([pd.NA] * n_jobs, dtype="Int64"),
            "x_note": rng.choice(["a", "b"], n_jobs),
        }
    )
    machine = Machine(
        name="toy",
        procs=64,
        epoch=MONDAY if calendar else None,
        timezone="UTC" if calendar else None,
        header=("; Computer: Toy",),
    )
    return Trace(jobs, machine, ("read from toy",))


@pytest.fixture(scope="session")
def toys() -> Callable[..., Trace]:
    """Return the maker of toy traces, for tests that need another size, seed or calendar."""
    return make_trace


@pytest.fixture
def toy() -> Trace:
    return make_trace()


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of recorded and published traces; tests that need it are skipped where it is absent."""
    default = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("TRACEKIT_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no trace data at {folder}; set TRACEKIT_DATA")
    return folder


@pytest.fixture(scope="module")
def tiny_budgets() -> Iterator[None]:
    """Make every budget tiny."""
    from generators import diffusion, par, realtabformer, sdv

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diffusion, "SIZES", {b: {"steps": 25, "width": 32, "batch": 64} for b in diffusion.SIZES})
        patch.setattr(realtabformer, "EFFORT", dict.fromkeys(realtabformer.EFFORT, (400, 1)))
        for kind in (sdv.CTGAN, sdv.CopulaGAN, sdv.TVAE, par.PAR):
            patch.setattr(kind, "effort", dict.fromkeys(kind.effort, (400, 1)))
        yield


@pytest.fixture(scope="module")
def real() -> Trace:
    """400 jobs of eight users with limits, queues and a calendar; processors are 4 per node."""
    rng = np.random.default_rng(3)
    n = 400
    limit = rng.choice([600.0, 3_600.0, 14_400.0], n, p=[0.5, 0.3, 0.2])
    nodes = 2 ** rng.integers(0, 5, n)
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(1, n + 1),
            "submit_time": np.cumsum(rng.integers(1, 4_000, n)).astype(float),
            "wait_time": 5.0,
            "run_time": np.where(rng.random(n) < 0.1, limit, np.floor(limit * rng.random(n)) + 1),
            "req_time": limit,
            "req_procs": 4 * nodes,
            "req_nodes": nodes,
            "status": rng.choice(["completed", "failed"], n),
            "user": rng.integers(0, 8, n).astype(str),
            "queue": np.where(limit > 3_000, "long", "short"),
        }
    )
    return Trace(
        jobs, Machine(name="toy", procs=128, nodes=32, unit="procs", epoch=1_700_000_000.0, timezone="Europe/Berlin")
    )
