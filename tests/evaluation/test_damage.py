"""Jobs damaged on purpose: one thing is lost, and the rest stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tracekit
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
    if name != "half-load":
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
