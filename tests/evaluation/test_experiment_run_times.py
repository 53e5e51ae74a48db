"""The learner predict-run-time: users and order matter to it, and a trace that has lost them is found out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evaluation.experiment import grid, study
from evaluation.experiment.heldout import ERROR, Heldout, schedulable
from evaluation.experiment.learners import LEARNERS
from evaluation.experiment.run_times import PredictRunTime
from evaluation.experiment.uses import uses_of
from tracekit import Machine, Trace
from tracekit.errors import UnknownName, UsageError

SETTINGS = {"trees": 20, "leaves": 8, "learning_rate": 0.3}


def made(jobs: int = 1500) -> Trace:
    """A trace whose users differ in how long their jobs run, and all ask for a day."""
    rng = np.random.default_rng(5)
    user = rng.integers(0, 10, jobs)
    columns = {
        "job_id": np.arange(1, jobs + 1),
        "submit_time": np.sort(rng.uniform(0, 600.0 * jobs, jobs)).round(),
        "run_time": np.exp(rng.normal(2 + 0.8 * user, 0.3)).round() + 1,
        "req_time": np.full(jobs, 86_400.0),
        "req_procs": rng.choice([1.0, 2.0, 4.0], jobs),
        "user": pd.Categorical(user.astype(str)),
    }
    return Trace(pd.DataFrame(columns), Machine(procs=16))


def mean_error(
    learner: PredictRunTime, trace: Trace, folder: Path, heldout: Heldout, *, untrained: bool = False
) -> float:
    learner.train(trace, folder, config=SETTINGS, backfill="easy", seed=0, untrained=untrained)
    rows = learner.play(folder, heldout)
    assert all(row["mean_bsld"] >= 1 for row in rows)
    return float(np.mean(np.log([row[ERROR] for row in rows])))


def shuffled_users(trace: Trace) -> Trace:
    codes = np.random.default_rng(0).permutation(len(trace))
    return trace.replace(jobs=trace.jobs.assign(user=trace.jobs["user"].to_numpy()[codes]))


def by_gaps(jobs: int, load: float, seed: int) -> Trace:
    """A trace of one user whose jobs that follow at once are short, and all ask for a day."""
    rng = np.random.default_rng(seed)
    gap = np.where(rng.random(jobs) < 0.5, 60.0, 900.0)
    columns = {
        "job_id": np.arange(1, jobs + 1),
        "submit_time": np.cumsum(gap) / load,
        "run_time": np.where(gap < 100, 2.0, 40.0) * np.exp(rng.normal(0, 0.1, jobs)),
        "req_time": np.full(jobs, 86_400.0),
        "req_procs": np.ones(jobs),
        "user": pd.Categorical(["u"] * jobs),
    }
    return Trace(pd.DataFrame(columns), Machine(procs=16))


def test_another_load_is_not_for_predictions_to_find(tmp_path: Path) -> None:
    """Gaps tell much about these run times; half the load turns them round, and is found only by those who look."""
    learner, errors = PredictRunTime(), {}
    heldout = Heldout(by_gaps(800, 1.0, 8), [0, 400], 400, ["real"], "easy")
    for gaps in (True, False):
        for load in (1.0, 0.05):
            config = SETTINGS | ({"gaps": True} if gaps else {})
            folder = tmp_path / f"{gaps}-{load}"
            learner.learn(by_gaps(1200, load, 7), folder, config=config, seed=0)
            errors[gaps, load] = float(np.mean(np.log([row[ERROR] for row in learner.errors(folder, heldout)])))
    assert errors[True, 1.0] < 0.3 * errors[False, 1.0]
    assert errors[True, 0.05] > errors[True, 1.0] + 0.3
    assert errors[False, 0.05] == pytest.approx(errors[False, 1.0], abs=0.3)


def test_the_learning_curve_falls_as_trees_are_added(tmp_path: Path) -> None:
    learner = PredictRunTime()
    learner.train(schedulable(made()), tmp_path / "a", config=SETTINGS, backfill="easy", seed=0, untrained=False)
    steps, names, scores = zip(*learner.curve(tmp_path / "a"), strict=True)
    assert (steps[0], steps[-1], set(names)) == (0, SETTINGS["trees"], {"score"})
    assert scores[-1] < 0.7 * scores[0]
    learner.train(schedulable(made()), tmp_path / "b", config={}, backfill="easy", seed=0, untrained=True)
    assert learner.curve(tmp_path / "b") == []


def test_the_error_rises_when_users_are_shuffled(tmp_path: Path) -> None:
    real = schedulable(made())
    train, test = real.split(0.7)
    heldout = Heldout(test, [100, 200, 300], 100, ["real", "0.8"], "easy")
    learner = PredictRunTime()
    good = mean_error(learner, train, tmp_path / "good", heldout)
    bad = mean_error(learner, shuffled_users(train), tmp_path / "bad", heldout)
    nothing = mean_error(learner, train, tmp_path / "nothing", heldout, untrained=True)
    assert good < 0.6 * bad
    assert bad < nothing


def test_settings_and_metrics_are_checked() -> None:
    learner = LEARNERS.get("predict-run-time")()
    learner.check(SETTINGS)
    assert learner.seconds(SETTINGS) > 0
    with pytest.raises(UnknownName, match="forest"):
        learner.check({"forest": 3})
    plan = grid.from_dict({"agents": {"learner": "pick-heuristic"}, "verdict": {"metric": ERROR}})
    with pytest.raises(UsageError, match="predict-run-time"):
        uses_of(plan)
    both = grid.from_dict({"agents": {"learner": "predict-run-time,pick-heuristic"}})
    assert [(use.metric, use.margin) for use in uses_of(both)] == [(ERROR, 0.05), ("mean_bsld", 0.1)]
    waits = grid.from_dict(
        {"agents": {"learner": "predict-run-time,pick-heuristic"}, "verdict": {"metric": "mean_wait_s"}}
    )
    assert [use.metric for use in uses_of(waits)] == [ERROR, "mean_wait_s"]


def test_an_experiment_tells_a_copy_from_a_trace_without_order(tmp_path: Path) -> None:
    plan = grid.from_dict(
        {
            "models": {"names": ["plugged:Copy"], "samples": 1, "baselines": ["independent"]},
            "agents": {"learner": "predict-run-time", "seeds": 1, "config": SETTINGS},
            "windows": {"count": 10, "jobs": 40, "heuristics": ["fcfs"]},
            "score": {"families": ["marginal"]},
            "verdict": {"draws": 200},
        }
    )
    found = study.run(plan, tmp_path / "run", made(), report=False)
    assert found["metric"] == ERROR
    assert found["verdicts"][0]["verdict"] == "equivalent"
    assert found["baselines"][0]["verdict"] == "worse"
    assert found["sensitivity"]["sensitive"] is True
