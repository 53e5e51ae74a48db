"""Model private: noise against closed forms, the account, refusals, and that only released numbers leave the trace."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("opendp", reason="model private needs opendp: pip install 'tracekit-hpc[dp]'")

import tracekit
from generators import synth as library
from generators.private import Private, estimate
from generators.private.noise import Mechanism, epsilon_of, rho_of
from generators.private.released import SHARES
from tracekit.cli import main
from tracekit.errors import MissingExtra, TracekitError, UnknownName, UsageError
from tracekit.machine import Machine
from tracekit.trace import Trace


def log_of(users: int = 80, jobs: int = 3000, seed: int = 3) -> Trace:
    rng = np.random.default_rng(seed)
    who = np.sort(np.concatenate([np.arange(users), rng.integers(0, users, jobs - users)]))
    rng.shuffle(who)
    limit = rng.choice([600.0, 3600.0, 14_400.0], jobs)
    table = pd.DataFrame(
        {
            "job_id": np.arange(1, jobs + 1),
            "submit_time": np.sort(rng.integers(0, 60 * 86_400, jobs)).astype(float),
            "run_time": np.ceil(limit * rng.random(jobs)),
            "req_time": limit,
            "req_procs": 2 ** rng.integers(0, 7, jobs),
            "user": [f"person {w}" for w in who],
            "queue": rng.choice(["secret queue", "b"], jobs),
        }
    )
    machine = Machine(
        name="Secret", procs=128, epoch=1_704_067_200.0, timezone="Europe/Berlin", source="secret.swf",
        notes=("3 jobs of person 1 removed",), queues={"1": "secret queue"}, header=("; Secret",),
    )  # fmt: skip
    return Trace(table, machine, ("removed 17 jobs",))


@pytest.fixture(scope="module")
def real() -> Trace:
    return log_of()


@pytest.fixture(scope="module")
def model(real: Trace) -> Private:
    return Private(noise_seed=4).fit(real)


# ---- noise and account ---------------------------------------------------------------------------------------------


def test_scales_are_those_of_the_closed_forms(model: Private) -> None:
    rho = rho_of(model.epsilon, model.delta)
    assert len(model.spent) == len(SHARES)
    for line, share in zip(model.spent, (SHARES[k] for k in _ORDER), strict=True):
        assert line.rho == pytest.approx(rho * share / sum(SHARES.values()), rel=1e-6)
        assert line.scale == pytest.approx(line.sensitivity / np.sqrt(2 * line.rho), rel=1e-6)


_ORDER = ("activity", "end", "begin", "limit", "run", "size", "joint", "week", "pairs", "load")


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 30.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-4])
def test_the_budget_is_never_exceeded(epsilon: float, delta: float) -> None:
    rho = rho_of(epsilon, delta)
    spent = epsilon_of(rho, delta)
    assert 0.999 * epsilon < spent <= epsilon
    # zCDP gives at most rho + 2 √(rho ln 1/delta) (Bun & Steinke 2016, proposition 1.3)
    assert spent <= rho + 2 * np.sqrt(rho * np.log(1 / delta))


def test_all_that_was_spent_is_within_the_claim(model: Private) -> None:
    assert 0.999 * model.epsilon < model.total() <= model.epsilon


def test_the_noise_is_gaussian_of_that_scale_and_secret() -> None:
    mechanism = Mechanism(1.0)
    found, scale = mechanism.gaussian("x", np.zeros(4000, np.int64), 50.0, 0.5)
    assert scale == pytest.approx(50.0, rel=1e-6)
    assert found.std() == pytest.approx(50.0, rel=0.08)
    assert abs(found.mean()) < 4 * 50 / np.sqrt(4000)
    again, _ = Mechanism(1.0).gaussian("x", np.zeros(4000, np.int64), 50.0, 0.5)
    assert (found != again).any()


def test_selection_prefers_high_scores_with_the_stated_odds() -> None:
    mechanism = Mechanism(1e9)
    rho = 0.5  # scale 1: a score of 2 more is e² times as likely
    picks = np.array([mechanism.choose("x", np.array([0, 2], np.int64), rho) for _ in range(400)])
    assert picks.mean() == pytest.approx(np.exp(2) / (1 + np.exp(2)), abs=0.08)


def test_spending_more_than_there_is_fails() -> None:
    mechanism = Mechanism(0.1)
    mechanism.gaussian("x", np.zeros(2, np.int64), 1.0, 0.09)
    with pytest.raises(AssertionError, match="overdrawn"):
        mechanism.gaussian("y", np.zeros(2, np.int64), 1.0, 0.09)


# ---- only released numbers leave -----------------------------------------------------------------------------------


def test_nothing_of_the_real_trace_is_in_the_result(real: Trace, model: Private, tmp_path: Path) -> None:
    fitted = library.fit(real, "private", noise_seed=4)
    fitted.save(tmp_path / "kept")
    made = library.make(fitted, seed=1)
    tracekit.write(made, tmp_path / "made.swf")
    texts = [path.read_text() for path in [*(tmp_path / "kept").iterdir(), tmp_path / "made.swf"]]
    for text in texts:
        assert not any(word in text.lower() for word in ("secret", "person", "removed"))
    plain = json.loads((tmp_path / "kept" / "provenance.json").read_text())
    assert plain["jobs"] != len(real)
    assert plain["load"] == pytest.approx(fitted.load)
    assert made.machine.procs == 128
    assert made.machine.timezone == "Europe/Berlin"


def test_the_spending_is_in_the_history(model: Private) -> None:
    made = model.sample(50, seed=1)
    assert made.history[0].startswith("MADE by tracekit")
    for line in model.spent:
        assert any(line.what in step and "rho" in step for step in made.history)
    assert any("NOT PRIVATE" in step for step in made.history)


def test_secret_noise_differs_and_says_nothing_of_a_seed(real: Trace) -> None:
    first, other = (Private().fit(real, seed=1) for _ in range(2))
    assert first.released != other.released
    assert not any("NOT PRIVATE" in note for note in first.notes)


def test_traces_of_a_saved_model_are_the_same(model: Private, tmp_path: Path) -> None:
    model.save(tmp_path)
    assert Private.load(tmp_path).sample(300, seed=2).equals(model.sample(300, seed=2))


# ---- what is made --------------------------------------------------------------------------------------------------


def test_jobs_are_possible(model: Private) -> None:
    made = model.sample(4000, seed=1)
    limit, run, size = made.column("req_time"), made.column("run_time"), made.sizes()
    assert (run <= np.where(np.isnan(limit), np.inf, limit)).all()
    assert size.min() >= 1
    assert size.max() <= 128
    assert (np.diff(made.column("submit_time")) >= 0).all()
    assert set(made.validate()) == set() or all(p.rule != "too-large" for p in made.validate())


def test_with_much_budget_the_trace_is_matched(real: Trace) -> None:
    made = library.synth(real, "private", len(real), seed=1, epsilon=500.0, noise_seed=2, recorded=60 * 86_400.0)
    for name in ("run_time", "req_time", "req_procs"):
        ours, theirs = np.sort(real.column(name)), np.sort(made.column(name))
        points = np.concatenate([ours, theirs])
        gap = np.searchsorted(ours, points, side="right") / len(ours) - np.searchsorted(
            theirs, points, side="right"
        ) / len(theirs)
        assert np.abs(gap).max() < 0.15, name
    assert made.offered_load() / real.offered_load() == pytest.approx(1, abs=0.15)


def test_shares_follow_the_data_or_the_prior() -> None:
    prior = np.array([0.5, 0.3, 0.2])
    counts = np.array([100.0, 200.0, 700.0])
    assert estimate.posterior(counts, 0.01, prior, 8.0) == pytest.approx(counts / 1000, abs=1e-3)
    assert estimate.posterior(counts, 1e6, prior, 8.0) == pytest.approx(prior)
    assert estimate.nearest_shares(np.array([0.9, 0.4, -0.3])).sum() == pytest.approx(1)


def test_a_trace_without_a_calendar_buys_no_week(real: Trace) -> None:
    timeless = real.replace(machine=real.machine.replace(epoch=None, timezone=None))
    fitted = Private(noise_seed=1).fit(timeless)
    assert "hours of the week" not in [line.what for line in fitted.spent]
    assert fitted.total() > 0.999 * fitted.epsilon
    assert fitted.sample(20, seed=1).machine.epoch is None


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["user", "job"])
@pytest.mark.parametrize(("users", "jobs"), [(1, 1), (1, 150), (2, 100)])
def test_one_or_two_users_are_refused(users: int, jobs: int, unit: str) -> None:
    with pytest.raises(TracekitError, match="released number"):
        Private(epsilon=50.0, unit=unit).fit(log_of(users, jobs))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"epsilon": 0.0}, "--epsilon"),
        ({"epsilon": float("nan")}, "--epsilon"),
        ({"delta": 0.0}, "--delta"),
        ({"delta": 0.5}, "--delta"),
        ({"cap": 0.0}, "--cap"),
        ({"recorded": -5.0}, "--recorded"),
    ],
)
def test_bad_budgets_are_refused(real: Trace, options: dict[str, float], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        Private(**options).fit(real)


def test_bad_units_machines_and_columns_are_refused(real: Trace) -> None:
    with pytest.raises(UnknownName, match="unit"):
        Private(unit="group").fit(real)
    with pytest.raises(UsageError, match="--procs"):
        Private().fit(real.replace(machine=real.machine.replace(procs=None)))
    with pytest.raises(UsageError, match="users"):
        Private().fit(real.replace(jobs=real.jobs.drop(columns="user")))
    with pytest.raises(UsageError, match="epsilon"):
        library.synth(real, "resample", 10, epsilon=1.0)


def test_without_opendp_the_pip_line_is_given(real: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "opendp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opendp", None)
    with pytest.raises(MissingExtra, match=r"\[dp\]"):
        Private().fit(real)


def test_the_command_prints_the_spending(real: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tracekit.write(real, tmp_path / "real.swf")
    words = ["synth", str(tmp_path / "real.swf"), "-o", str(tmp_path / "made.swf"), "--model", "private"]
    assert main([*words, "--epsilon", "2", "--delta", "1e-7", "--unit", "user", "--noise-seed", "1", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["model"] == "private"
    assert "epsilon 2, delta 1e-07, per user" in printed.err
    assert printed.err.count("rho") >= 10
    assert main([*words, "--unit", "group", "--force"]) == 2
    assert main([*words, "--epsilon", "-1", "--force"]) == 2
    words[-1] = "resample"
    assert main([*words, "--epsilon", "1", "--force"]) == 2
