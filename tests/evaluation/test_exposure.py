"""The limits of the privacy scores, which `share`, the report and verdicts hold alike."""

from __future__ import annotations

import math

from evaluation.base import Score
from evaluation.exposure import LIMITS, alarms, level


def test_alarms_look_at_what_fresh_real_jobs_reach() -> None:
    assert alarms({"privacy.exact_copies": Score(0.08, real=0.07)}) == []
    copies = {"privacy.exact_copies": Score(1.0, real=0.07), "privacy.near_copies": Score(1.0, real=0.05)}
    assert alarms(copies) == ["100% of its jobs are exact copies of real ones (fresh real jobs: 7%)"]
    assert alarms({}) == []


def test_near_copies_alarm_where_there_are_no_exact_ones() -> None:
    (said,) = alarms({"privacy.exact_copies": Score(0.0, real=0.0), "privacy.near_copies": Score(0.6, real=0.05)})
    assert "almost equal" in said


def test_distance_membership_and_users_alarm() -> None:
    assert len(alarms({"privacy.dcr_ratio": Score(0.1, "higher"), "privacy.membership_auc": Score(0.9)})) == 2
    assert level("privacy.membership_auc", Score(0.62, low=0.58)) == "change"
    assert level("privacy.user_linkage", Score(0.5, real=0.4)) == "ok"
    assert level("privacy.user_linkage", Score(0.8, real=0.4)) == "no"


def test_what_was_not_computed_raises_no_alarm() -> None:
    assert alarms(dict.fromkeys(LIMITS, Score(math.nan))) == []
