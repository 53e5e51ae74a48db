"""Mean watts and CPU-bound shares: made by every model that keeps optional columns, and fitting the job's size."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from generators import MODELS
from generators import synth as library
from generators.amounts import Amount
from generators.encode import DefaultEncoding, learnable
from generators.learned import TableModel
from tracekit import Machine, Trace

pytestmark = pytest.mark.usefixtures("tiny_budgets")
#: Models of sizes and run times alone; they have no optional columns.
BARE = ("lublin", "eda", "private")
NAMES = [name for name in MODELS.names() if name not in BARE]
LEARNED = [name for name in NAMES if issubclass(MODELS.get(name), TableModel)]
#: How far the correlation of ln watts with ln nodes may be from the real one.
DISTANCE = 0.05
IDLE, BUSY = 200.0, 800.0


@pytest.fixture(scope="module")
def measured() -> Trace:
    """600 jobs whose nodes draw between IDLE and BUSY watts, by program and user; a fifth was not measured."""
    rng = np.random.default_rng(8)
    n = 600
    nodes = 2.0 ** rng.integers(0, 7, n)
    limit = rng.choice([600.0, 3_600.0, 14_400.0], n)
    user = rng.integers(0, 6, n)
    load = np.clip(0.1 + 0.12 * user + 0.1 * rng.random(n), 0, 1)
    watts = np.round(nodes * (IDLE + (BUSY - IDLE) * load), 1)
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(1, n + 1),
            "submit_time": np.cumsum(rng.integers(1, 4_000, n)).astype(float),
            "run_time": np.floor(limit * rng.random(n)) + 1,
            "req_time": limit,
            "req_nodes": nodes,
            "mean_watts": np.where(rng.random(n) < 0.2, np.nan, watts),
            "cpu_bound": np.round(rng.beta(2, 2, n), 2),
            "user": user.astype(str),
        }
    )
    return Trace(jobs, Machine(name="toy", nodes=128, unit="nodes", epoch=1_700_000_000.0, timezone="UTC"))


def correlation(trace: Trace) -> float:
    """Return the correlation of ln watts with ln nodes over the jobs whose watts are known."""
    watts, nodes = trace.column("mean_watts"), trace.sizes("nodes")
    known = watts > 0
    return float(np.corrcoef(np.log(watts[known]), np.log(nodes[known]))[0, 1])


def made_by(name: str, trace: Trace, jobs: int = 600) -> Trace:
    if name in LEARNED and find_spec("torch") is None:
        pytest.skip(f"{name} needs torch")
    if name in LEARNED and name != "diffusion" and find_spec("sdv") is None:
        pytest.skip(f"{name} needs sdv")
    return library.fit(trace, name, seed=5, budget="quick").model.sample(jobs, seed=3)


SLOW = ("ctgan", "copulagan", "tvae", "realtabformer")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in NAMES])
def test_power_is_made_and_fits_the_size(name: str, measured: Trace) -> None:
    made = made_by(name, measured)
    watts, share = made.column("mean_watts"), made.column("cpu_bound")
    known = np.isfinite(watts)
    assert known.mean() > 0.5  # 0.8 in the real trace
    assert known.mean() < 0.95 or name in SLOW  # networks may forget that some are missing, at this budget
    assert ((share >= 0) & (share <= 1)).all()
    if name != "independent":  # which breaks what ties columns together
        each = watts[known] / made.sizes("nodes")[known]
        assert (each >= IDLE * 0.99).all()
        assert (each <= BUSY * 1.01).all()
        assert abs(correlation(made) - correlation(measured)) < DISTANCE
    else:
        assert abs(correlation(made)) < 0.2


def test_watts_per_node_stay_with_their_users(measured: Trace) -> None:
    """The real spread of the users' mean watts per node is 72 W a user."""

    def means(trace: Trace) -> np.ndarray:
        each = pd.Series(trace.column("mean_watts") / trace.sizes("nodes"))
        return np.sort(each.groupby(trace.column("user")).mean().to_numpy())

    real, made = means(measured), means(made_by("sessions", measured))
    assert real[-1] - real[0] > 300
    assert made[-1] - made[0] > 0.8 * (real[-1] - real[0])


@pytest.mark.parametrize("name", ["sessions", "gaussian-copula"])
def test_processors_where_no_nodes_are_known(name: str, measured: Trace) -> None:
    jobs = measured.jobs.rename(columns={"req_nodes": "req_procs"})
    made = made_by(name, Trace(jobs, Machine(procs=128)), 200)
    each = made.column("mean_watts") / made.sizes("procs")
    assert np.nanmin(each) >= IDLE * 0.99
    assert np.nanmax(each) <= BUSY * 1.01


def test_encoded_and_back(measured: Trace) -> None:
    trace, _ = learnable(measured)
    encoding = DefaultEncoding.fit(trace)
    again = encoding.decode(encoding.encode(trace))
    np.testing.assert_allclose(again.column("mean_watts"), trace.column("mean_watts"), atol=0.011)
    np.testing.assert_allclose(again.column("cpu_bound"), trace.column("cpu_bound"), atol=1e-9)


def test_amounts_saved_before_there_was_power(measured: Trace) -> None:
    part = Amount.fit(measured, "mean_watts")
    assert Amount.from_dict(part.to_dict()).per == "nodes"
    plain = part.to_dict() | {"name": "cpu_time"}
    del plain["per"]
    assert Amount.from_dict(plain).per == "run_time"


@pytest.mark.parametrize("name", ["sessions", "gaussian-copula"])
def test_nothing_else_is_made_where_there_is_no_power(name: str, measured: Trace) -> None:
    bare = Trace(measured.jobs.drop(columns=["mean_watts", "cpu_bound"]), measured.machine)
    assert {"mean_watts", "cpu_bound"}.isdisjoint(made_by(name, bare, 100).jobs.columns)
