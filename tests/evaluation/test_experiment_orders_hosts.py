"""The learners order and pick-host: what limits say of run times, and what jobs ask of hosts, matters to them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tracekit
from evaluation.experiment import grid, study
from evaluation.experiment.damage import DAMAGES, OneSize
from evaluation.experiment.heldout import ORDER_WAIT, Heldout, schedulable
from evaluation.experiment.learners import LEARNERS
from evaluation.experiment.uses import uses_of
from tracekit import Machine, Trace
from tracekit.errors import UnknownName, UsageError
from tracekit.machine import HostGroup

pytest.importorskip("torch")

ORDER: dict[str, Any] = {
    "width": 16,
    "heads": 2,
    "steps": 6_000,
    "batch": 8,
    "validate_every": 10,
    "windows": 40,
    "validation_windows": 6,
    "jobs": 16,
    "evaluations": 200,
}
HOSTS: dict[str, Any] = {"steps": 400, "windows": 4, "jobs": 40, "validation_windows": 2}


def small_cluster() -> Machine:
    return Machine(
        name="small", groups=(HostGroup(count=2, name="thin", cores=16), HostGroup(count=1, name="fat", cores=32))
    )


def misleading(jobs: int = 800) -> Trace:
    """Jobs of one size that run the shorter the more time they ask for."""
    rng = np.random.default_rng(3)
    asked = rng.choice([600.0, 3600.0, 86_400.0], jobs)
    columns = {
        "job_id": np.arange(1, jobs + 1),
        "submit_time": np.arange(jobs) * 60.0,
        "run_time": np.round(3e6 / asked),
        "req_time": asked,
        "req_procs": np.full(jobs, 4.0),
    }
    return Trace(pd.DataFrame(columns), Machine(procs=8))


def order_wait(trace: Trace, folder: Path, heldout: Heldout, *, untrained: bool = False) -> list[float]:
    learner = LEARNERS.get("order")()
    learner.train(trace, folder, config=ORDER, backfill="easy", seed=1, untrained=untrained)
    return [float(row[ORDER_WAIT]) for row in learner.play(folder, heldout)]


def test_orders_are_learnt_from_actual_run_times_and_wrong_limits_are_noticed(tmp_path: Path) -> None:
    train, test = schedulable(misleading()).split(0.7)
    heldout = Heldout(test, [0, 60, 120], 40, ["real", "0.5"], "easy")
    real = order_wait(train, tmp_path / "real", heldout)
    again = order_wait(train, tmp_path / "again", heldout)
    wrong = order_wait(DAMAGES.get("wrong-limits")().fit(train).sample(len(train)), tmp_path / "wrong", heldout)
    none = order_wait(train, tmp_path / "none", heldout, untrained=True)
    assert real == again
    assert len(real) == 6
    assert np.mean(real) < 0.8 * np.mean(wrong)
    assert np.mean(real) < 0.8 * np.mean(none)
    curve = LEARNERS.get("order")().curve(tmp_path / "real")
    assert {name for _, name, _ in curve} == {"score", "heuristic"}
    assert LEARNERS.get("order")().curve(tmp_path / "none") == []


def test_pick_host_places_jobs_and_repeats(tmp_path: Path) -> None:
    trace = schedulable(tracekit.sample().head(900).replace(machine=small_cluster()), "first-fit")
    train, test = trace.split(0.7)
    heldout = Heldout(test, [0, 100], 60, ["real"], "easy", "first-fit")
    learner = LEARNERS.get("pick-host")()
    config = HOSTS | {"allocate": "first-fit"}
    for name, untrained in (("a", False), ("b", False), ("none", True)):
        learner.train(train, tmp_path / name, config=config, backfill="easy", seed=1, untrained=untrained)
    one, two = (learner.play(tmp_path / name, heldout) for name in ("a", "b"))
    assert one == two
    assert all(row["mean_bsld"] >= 1 for row in [*one, *learner.play(tmp_path / "none", heldout)])
    other = dataclasses.replace(heldout, allocate="worst-fit").play("fcfs")
    assert [row["window"] for row in one] == [row["window"] for row in other]


def test_one_size_leaves_everything_but_sizes() -> None:
    trace = tracekit.sample().head(300)
    gpus = trace.replace(jobs=trace.jobs.assign(req_gpus=np.where(np.arange(300) % 2, 4.0, 0.0)))
    made = OneSize().fit(gpus).sample(300)
    assert set(made.sizes()) == {1.0}
    assert set(made.column("req_gpus")) == {0.0, 1.0}
    for name in ("submit_time", "run_time", "req_time"):
        assert np.array_equal(made.column(name), gpus.column(name), equal_nan=True)


@pytest.mark.parametrize(
    ("learner", "windows", "config", "error", "match"),
    [
        ("order", {"cluster": "cooley"}, {}, UsageError, "counts processors"),
        ("pick-host", {}, {}, UsageError, "needs hosts"),
        ("order", {}, {"widthh": 3}, UnknownName, "width"),
        ("pick-host", {"cluster": "cooley"}, {"stesp": 3}, UnknownName, "steps"),
    ],
)
def test_plans_that_do_not_fit_the_learner_are_refused(
    learner: str, windows: dict[str, str], config: dict[str, int], error: type[Exception], match: str
) -> None:
    plan = grid.from_dict({"agents": {"learner": learner, "config": config}, "windows": windows})
    with pytest.raises(error, match=match):
        uses_of(plan)


def test_the_metric_of_orders_belongs_to_them() -> None:
    plan = grid.from_dict({"agents": {"learner": "pick-heuristic"}, "verdict": {"metric": ORDER_WAIT}})
    with pytest.raises(UsageError, match="add order"):
        uses_of(plan)
    both = grid.from_dict({"agents": {"learner": ["pick-heuristic", "order"]}, "verdict": {"metric": "mean_wait_s"}})
    assert [use.metric for use in uses_of(both)] == ["mean_wait_s", ORDER_WAIT]


def test_an_experiment_with_orders_beside_heuristics(tmp_path: Path) -> None:
    plan = grid.from_dict(
        {
            "models": {"names": ["plugged:Copy"], "samples": 1, "baselines": []},
            "agents": {
                "learner": ["pick-heuristic", "order"],
                "seeds": 1,
                "config": {"order": ORDER, "pick-heuristic": {"windows": 4, "jobs": 40}},
            },
            "windows": {"count": 4, "jobs": 30, "heuristics": ["fcfs"]},
            "score": {"families": ["marginal"]},
            "verdict": {"draws": 200},
        }
    )
    found = study.run(plan, tmp_path / "run", misleading(), report=False)
    by = {row["learner"]: row for row in found["verdicts"]}
    assert set(by) == {"pick-heuristic", "order"}
    assert by["order"]["verdict"] == "equivalent"
    assert by["order"]["metric"] == ORDER_WAIT
    controls = {row["learner"]: row for row in found["controls"]}
    assert controls["order"]["difference"] > 0.1
    about = {row["learner"]: row for row in found["learners"]}
    assert about["order"]["use"] == "ordering a standing queue"
    assert about["order"]["heuristics"] == []  # they schedule windows; a standing queue has another measure
