"""Jobs damaged on purpose: one thing is lost, and the rest stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tracekit
from evaluation.experiment import grid, study
from evaluation.experiment.build import Grid
from evaluation.experiment.damage import DAMAGES, Damage
from tracekit import Trace
from tracekit.errors import TracekitError

WHO, TIME, LIMIT = {"user", "group", "project"}, {"submit_time"}, {"req_time"}
CHANGED = {"shuffled-users": WHO, "half-load": TIME, "wrong-limits": LIMIT}


@pytest.fixture(scope="module")
def real() -> Trace:
    return tracekit.sample().head(1500)


def damaged(name: str, real: Trace, seed: int = 0) -> Trace:
    return DAMAGES.get(name)().fit(real).sample(len(real), seed=seed)


@pytest.mark.parametrize("name", CHANGED)
def test_only_one_thing_changes(real: Trace, name: str) -> None:
    made = damaged(name, real)
    differ = {column for column in real.jobs.columns if not made.jobs[column].equals(real.jobs[column])}
    assert differ
    assert differ <= CHANGED[name]
    for column in differ - TIME:
        assert sorted(made.jobs[column].astype(str)) == sorted(real.jobs[column].astype(str))


def test_random_order_keeps_whole_jobs(real: Trace) -> None:
    made = damaged("shuffled-order", real)
    columns = ["user", "run_time", "req_time", "req_procs"]
    assert made.jobs["submit_time"].equals(real.jobs["submit_time"])
    assert sorted(map(tuple, made.jobs[columns].astype(str).to_numpy())) == sorted(
        map(tuple, real.jobs[columns].astype(str).to_numpy())
    )
    assert not made.jobs["run_time"].equals(real.jobs["run_time"])


def test_half_the_load_is_half(real: Trace) -> None:
    assert damaged("half-load", real).offered_load() == pytest.approx(real.offered_load() / 2, rel=0.01)


@pytest.mark.parametrize("name", list(DAMAGES))
def test_same_seed_same_jobs_and_it_is_said_that_they_are_made(real: Trace, name: str) -> None:
    first, again = damaged(name, real, 3), damaged(name, real, 3)
    assert first.jobs.equals(again.jobs)
    assert any("MADE by tracekit" in str(step) for step in first.history)
    if name not in ("half-load", "one-size"):  # nothing is drawn
        assert not first.jobs.equals(damaged(name, real, 4).jobs)


def test_wrong_use_is_refused(real: Trace, tmp_path: Path) -> None:
    kind: type[Damage] = DAMAGES.get("half-load")
    with pytest.raises(TracekitError, match="fit it first"):
        kind().sample(5)
    with pytest.raises(TracekitError, match="1,500 jobs"):
        kind().fit(real).sample(5000)
    with pytest.raises(TracekitError):
        kind().save(tmp_path)
    with pytest.raises(TracekitError):
        kind.load(tmp_path)


def test_jobs_out_of_order_are_put_in_order_first(real: Trace) -> None:
    rows = np.random.default_rng(0).permutation(len(real))
    made = damaged("half-load", real.take(rows))
    assert (np.diff(made.column("submit_time")) >= 0).all()


def test_damages_are_models_by_name_and_keep_their_load(real: Trace, tmp_path: Path) -> None:
    """Half the load stays half; other models are brought to the real load."""
    plan = grid.from_dict(
        {
            "models": {"names": ["half-load", "lublin"], "baselines": [], "samples": 1},
            "agents": {"learner": "forecast-waits", "seeds": 1},
            "windows": {"count": 3, "jobs": 50},
        }
    )
    fits = {task.about["model"]: task for task in study.prepare(plan, tmp_path, real).grid.fits}
    assert fits["lublin"].params["load"] == "real"
    assert fits["half-load"].params["load"] == "none"


def test_a_decided_model_leaves_the_damage_of_its_name_alone(real: Trace, tmp_path: Path) -> None:
    """At the second look, agents of a decided model are not trained; those of a damage of that name are."""
    plan = grid.from_dict(
        {
            "models": {"names": ["half-load", "lublin"], "baselines": [], "samples": 4},
            "agents": {"learner": "forecast-waits", "seeds": 4},
            "windows": {"count": 3, "jobs": 50},
            "scarce": {"share": 0.5, "models": ["half-load"]},
            "verdict": {"looks": 2},
        }
    )
    whole = study.prepare(plan, tmp_path, real).grid
    left = whole.until({"forecast-waits": 2}, {("forecast-waits", "half-load")})

    def later(some: Grid, arm: str, model: str) -> int:
        return sum(a.look == 2 for a in some.agents if (a.arm, a.model) == (arm, model))

    assert later(left, "model", "half-load") == 0
    for arm, model in (("control", "half-load"), ("scarce+model", "half-load"), ("model", "lublin")):
        assert later(left, arm, model) == later(whole, arm, model) > 0
