"""Forecasts of waits: the score is proper, and a trace with another load forecasts worse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tracekit
from evaluation.experiment.damage import DAMAGES
from evaluation.experiment.forecast import ForecastWaits, crps
from evaluation.experiment.grid import from_dict
from evaluation.experiment.heldout import FORECAST, Heldout, schedulable
from evaluation.experiment.interleave import interleaved
from evaluation.experiment.uses import uses_of
from tracekit import Trace
from tracekit.errors import TracekitError, UnknownName, UsageError

SETTINGS = {"policies": ["fcfs", "sjf"], "windows": 60, "jobs": 60}


def test_the_score_is_what_its_definition_says() -> None:
    rng = np.random.default_rng(0)
    forecast, outcomes = np.sort(rng.normal(size=40)), rng.normal(size=7)
    slow = [np.abs(forecast - y).mean() - 0.5 * np.abs(forecast[:, None] - forecast[None, :]).mean() for y in outcomes]
    assert crps(forecast, outcomes) == pytest.approx(slow)


def test_the_true_distribution_is_best() -> None:
    rng = np.random.default_rng(1)
    outcomes = rng.normal(size=4000)
    scores = {
        (shift, scale): crps(np.sort(shift + scale * rng.normal(size=4000)), outcomes).mean()
        for shift in (-0.5, 0.0, 0.5)
        for scale in (0.5, 1.0, 2.0)
    }
    assert min(scores, key=lambda key: scores[key]) == (0.0, 1.0)


def judged(trace: Trace, test: Trace, folder: Path, *, untrained: bool = False) -> float:
    learner = ForecastWaits()
    learner.train(trace, folder, config=SETTINGS, backfill="easy", seed=0, untrained=untrained)
    jobs = schedulable(test)
    rows = learner.play(folder, Heldout(jobs, list(range(0, len(jobs) - 60, 60)), 60, ["real"], "easy"))
    assert all(row[FORECAST] >= 1 for row in rows)
    return float(np.mean([np.log(row[FORECAST]) for row in rows]))


def test_half_the_load_and_no_training_forecast_worse(tmp_path: Path) -> None:
    train, test = interleaved(tracekit.sample().head(6000), (0.5, 0.5))
    right = judged(train, test, tmp_path / "real")
    half = DAMAGES.get("half-load")().fit(train).sample(len(train), seed=0)
    assert judged(half, test, tmp_path / "half") > right
    assert judged(train, test, tmp_path / "none", untrained=True) > 1.2 * right


def test_a_window_that_is_the_whole_trace_flows_as_it_is_played() -> None:
    jobs = schedulable(tracekit.sample().head(300))
    whole = Heldout(jobs, [0], len(jobs), ["real", "0.9"], "easy")
    for flow, played in zip(whole.flow("sjf"), whole.play("sjf"), strict=True):
        assert {key: flow[key] for key in ("load", "mean_bsld", "mean_wait_s")} == pytest.approx(
            {key: played[key] for key in ("load", "mean_bsld", "mean_wait_s")}
        )
        assert 0 < flow["utilization"] <= 1


def test_jobs_in_the_flow_wait_longer_than_on_an_empty_machine() -> None:
    jobs = schedulable(tracekit.sample().head(2000))
    windows = Heldout(jobs, list(range(0, 1950, 50)), 50, ["real"], "easy")
    flow, alone = (
        np.mean([row["mean_wait_s"] for row in rows]) for rows in (windows.flow("fcfs"), windows.play("fcfs"))
    )
    assert flow > 2 * alone


def test_settings_are_checked() -> None:
    with pytest.raises(UnknownName, match="window"):
        ForecastWaits().check({"window": 3})
    with pytest.raises(UsageError):
        ForecastWaits().check({"policies": ["sfj"]})


def test_too_few_jobs_are_named(tmp_path: Path) -> None:
    with pytest.raises(TracekitError, match="too few"):
        ForecastWaits().train(
            tracekit.sample().head(1), tmp_path, config=SETTINGS, backfill="easy", seed=0, untrained=False
        )


def test_forecasts_are_learnt_from_windows_as_long_as_those_that_are_judged() -> None:
    """Jobs of longer windows wait longer: forecasts from them would be too high, and half the load would look good."""
    for own, jobs in (({}, 50), ({"jobs": 80}, 80)):
        plan = from_dict({"agents": {"learner": "forecast-waits", "config": own}, "windows": {"jobs": 50}})
        assert uses_of(plan)[0].config["jobs"] == jobs
