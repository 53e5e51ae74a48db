"""The audit of privacy: its bound against known answers, and what it says of single models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tracekit
from generators.audit import audit, canary_of, largest_bound, look_alikes, lower_bound, with_canary
from tracekit.cli import main
from tracekit.errors import UsageError
from tracekit.trace import Trace


@pytest.fixture(scope="module")
def real() -> Trace:
    return tracekit.sample()


def test_a_known_epsilon_is_not_exceeded_and_nearly_reached() -> None:
    # randomised response: the truth with probability e / (1 + e), so epsilon is 1
    rng = np.random.default_rng(1)
    right = np.e / (1 + np.e)
    bounds = []
    for _ in range(40):
        with_ = (rng.random(4000) < right).astype(float)
        without = (rng.random(4000) >= right).astype(float)
        bounds.append(lower_bound(with_, without, 0.0)[0])
    assert np.mean([bound <= 1.0 for bound in bounds]) >= 0.9
    assert np.median(bounds) > 0.8


def test_equal_worlds_show_nothing() -> None:
    rng = np.random.default_rng(2)
    bounds = [lower_bound(rng.normal(size=100), rng.normal(size=100), 1e-6)[0] for _ in range(30)]
    assert np.mean([bound > 0 for bound in bounds]) <= 0.1


def test_the_largest_bound_is_the_closed_form() -> None:
    # 50 of 50 right: the exact limit of a share is (0.025) ^ (1 / 50)
    low = 0.025 ** (1 / 50)
    assert largest_bound(100, delta=0.0) == pytest.approx(np.log(low / (1 - low)))
    assert lower_bound(np.zeros(100), np.ones(100), 0.0)[0] == pytest.approx(largest_bound(100, delta=0.0))


def test_the_canary_is_one_conspicuous_user(real: Trace) -> None:
    canary = canary_of(real, 40)
    both = with_canary(real, canary)
    assert len(both) == len(real) + 40
    assert both.jobs["user"].nunique() == real.jobs["user"].nunique() + 1
    assert both.column("submit_time").max() <= real.column("submit_time").max()
    assert look_alikes(both, canary) > look_alikes(real, canary)
    assert with_canary(real, canary.head(0)).column("run_time").tolist() == real.column("run_time").tolist()


def test_resampling_shows_as_much_as_so_many_runs_can(real: Trace) -> None:
    found = audit(real, "resample", 20, seed=1)
    assert found.claimed_epsilon is None
    assert found.lower_bound == pytest.approx(found.largest_possible)
    assert found.lower_bound > 0.8


def test_the_private_model_keeps_its_claim(real: Trace) -> None:
    pytest.importorskip("opendp", reason="model private needs opendp: pip install 'tracekit-hpc[dp]'")
    found = audit(real, "private", 12, epsilon=1.0, unit="job")
    assert found.claimed_epsilon == 1.0
    assert found.lower_bound <= 1.0


def test_the_command(real: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tracekit.write(real, tmp_path / "real.swf")
    assert (
        main(["-q", "audit-privacy", str(tmp_path / "real.swf"), "--model", "resample", "--runs", "8", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["claimed_epsilon"] is None
    assert {"lower_bound", "confidence", "largest_possible", "runs"} <= set(found)
    for words in (["--model", "resampel"], ["--model", "resample", "--epsilon", "2"], ["--runs", "1"]):
        assert main(["-q", "audit-privacy", str(tmp_path / "real.swf"), *words]) == 2


def test_wrong_units_are_refused(real: Trace) -> None:
    with pytest.raises(UsageError, match="--unit"):
        audit(real, "resample", 8, unit="group")
