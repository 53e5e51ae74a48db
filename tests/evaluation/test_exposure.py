"""When an attack is an alarm: the same for `share`, the report and verdicts."""

from __future__ import annotations

import math

from evaluation.base import METRICS, Score
from evaluation.exposure import ATTACKS, Attack, alarms, attacks, complete


def alarm(key: str, score: Score) -> bool:
    return Attack.of(f"privacy.{key}", score).alarm


def test_alarms_look_at_what_fresh_real_jobs_reach() -> None:
    close = Score(0.08, real=0.075, detail={"p": 1e-6})
    assert alarms({"privacy.exact_copies": close}) == []
    copies = {"privacy.exact_copies": Score(1.0, real=0.07), "privacy.near_copies": Score(1.0, real=0.05)}
    (said,) = alarms(copies)
    assert "100.0%" in said
    assert alarms({}) == []


def test_near_copies_alarm_where_there_are_no_exact_ones() -> None:
    (said,) = alarms({"privacy.exact_copies": Score(0.0, real=0.0), "privacy.near_copies": Score(0.6, real=0.05)})
    assert "almost equal" in said


def test_distance_membership_and_users_alarm() -> None:
    near = {"privacy.nearer_fitted": Score(0.8, real=0.5), "privacy.membership_auc": Score(0.9, real=0.4)}
    assert len(alarms(near)) == 2
    assert not alarm("user_linkage", Score(0.5, real=0.45))
    assert alarm("user_linkage", Score(0.8, real=0.4))
    assert not alarm("membership_auc", Score(0.55, real=0.53))  # fresh real jobs reach as much
    assert not alarm("membership_auc", Score(0.52, real=0.4))  # guessing is the least that a control reaches


def test_linked_users_alarm_above_what_chance_explains() -> None:
    assert alarm("submit_gaps", Score(0.8, real=0.01, detail={"p": 1e-9}))
    assert not alarm("submit_gaps", Score(0.06, real=0.02, detail={"p": 0.1}))
    assert alarm("submit_gaps", Score(0.4))  # no control and no test


def test_what_was_not_computed_raises_no_alarm() -> None:
    nothing = dict.fromkeys(ATTACKS, Score(math.nan, note="why"))
    assert alarms(nothing) == []
    assert [attack.to_dict()["rate"] for attack in attacks(nothing)] == [None] * len(ATTACKS)
    assert not complete(nothing)


def test_every_attack_is_a_score_of_some_metric() -> None:
    family = {name for name in METRICS.names() if METRICS.get(name).family == "privacy"}
    assert {"submit_gaps", "submit_rhythm", "in_step", "same_numbers"} <= family
