"""Users found by their submit gaps, whatever is done to labels and times; and not found where they are not repeated."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.attacks.gaps import SubmitGaps, SubmitRhythm
from evaluation.attacks.tokens import Tokens, found_in, found_in_other_weeks
from evaluation.base import Score, Setting
from evaluation.exposure import Attack
from evaluation.view import prepare
from tracekit import Machine, Trace

WEEK = 7 * 86_400


def trace(seed: int, users: int = 40, jobs: int = 60, weeks: int = 8) -> Trace:
    """Users that submit at random times, to the second."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, weeks * WEEK, (users, jobs)), axis=1).astype(float)
    table = {
        "job_id": np.arange(1, users * jobs + 1),
        "submit_time": submit.ravel(),
        "wait_time": rng.integers(0, 4000, users * jobs).astype(float),
        "run_time": rng.lognormal(6, 2, users * jobs).round(),
        "req_procs": rng.integers(1, 64, users * jobs),
        "user": np.repeat([f"u{k}" for k in range(users)], jobs),
    }
    import pandas as pd

    return Trace(pd.DataFrame(table).sort_values("submit_time", ignore_index=True), Machine(procs=64))


REAL, FRESH, HOLDOUT = trace(1), trace(2), trace(3)


def attacked(synth: Trace, holdout: Trace | None = HOLDOUT, real: Trace = REAL) -> dict[str, Score]:
    others = [synth] if holdout is None else [synth, holdout]
    ours, theirs, *aside = prepare(real, others, ["real", "synthetic", "hold-out"][: len(others) + 1])
    setting = Setting(holdout=aside[0] if aside else None)
    rng = np.random.default_rng(0)
    return SubmitGaps()(ours, theirs, setting=setting, rng=rng) | SubmitRhythm()(ours, theirs, setting=setting, rng=rng)


def alarmed(scores: dict[str, Score]) -> set[str]:
    return {key for key, score in scores.items() if Attack.of(key, score).alarm}


def moved(synth: Trace, submit: np.ndarray) -> Trace:
    return synth.assign({"submit_time": submit, "wait_time": np.nan, "user": "n" + synth.jobs["user"].astype(str)})


def test_a_copy_with_new_labels_is_linked_and_fresh_users_are_not() -> None:
    submit = REAL.column("submit_time")
    for holdout in (HOLDOUT, None):
        copied = attacked(moved(REAL, submit + 12_345), holdout)
        assert copied["privacy.submit_gaps"].value == 1
        assert alarmed(copied) == {"privacy.submit_gaps", "privacy.submit_rhythm"}
        assert not alarmed(attacked(moved(FRESH, FRESH.column("submit_time")), holdout))


@pytest.mark.parametrize("how", ["scaled", "jittered", "minutes", "starts"])
def test_dodges_do_not_hide_users(how: str) -> None:
    submit, rng = REAL.column("submit_time"), np.random.default_rng(0)
    times = {
        "scaled": np.round(submit * 1.237),
        "jittered": submit + rng.integers(-1, 2, len(submit)),
        "minutes": np.round(submit / 60) * 60,
        "starts": submit + REAL.column("wait_time"),
    }[how]
    assert alarmed(attacked(moved(REAL, times)))


def test_half_the_users_copied_is_an_alarm_too() -> None:
    import pandas as pd

    old = moved(REAL, REAL.column("submit_time")).jobs
    new = moved(FRESH, FRESH.column("submit_time")).jobs.assign(user=lambda jobs: "m" + jobs["user"].astype(str))
    few = [f"nu{k}" for k in range(20)]
    both = pd.concat([old[old["user"].isin(few)].assign(user=lambda j: j["user"].astype(str)), new])
    both = both.sort_values("submit_time", ignore_index=True).assign(job_id=np.arange(1, len(both) + 1))
    found = attacked(Trace(both, Machine(procs=64)))
    assert found["privacy.submit_gaps"].value == pytest.approx(20 / 60, abs=0.02)
    assert "privacy.submit_gaps" in alarmed(found)


def test_traces_without_users_have_none_to_find() -> None:
    bare = REAL.replace(jobs=REAL.jobs.drop(columns="user"))
    assert all(np.isnan(score.value) for score in attacked(bare).values())


def sequences(*rows: tuple[int, int, int]) -> Tokens:
    key, user, block = np.array(rows, dtype=np.int64).T
    return Tokens(key.astype(np.uint64), user, block)


def test_only_sequences_of_a_single_owner_name_a_user() -> None:
    among = sequences((1, 7, 0), (1, 7, 1), (2, 7, 0), (2, 8, 0), (3, 9, 0))
    assert found_in(sequences((1, 100, 0), (2, 101, 0), (4, 102, 0)), among).tolist() == [100]


def test_the_control_looks_in_other_weeks_only() -> None:
    real = sequences((1, 7, 0), (1, 8, 1), (2, 9, 0), (2, 9, 0), (3, 5, 0), (3, 5, 1), (3, 6, 1))
    # 1: each of 7 and 8 finds the other; 2: in one week only; 3: week 0 finds 5 and 6, week 1 finds 5 alone
    assert found_in_other_weeks(real, real).tolist() == [5, 6, 7, 8]
