"""How near is too near: the limits of the privacy scores, the same for `share`, for the report and for verdicts.

They are a convention of this program, documented in docs/sharing.md; they are no guarantee, and nothing here is
differential privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from evaluation.base import Score

Level = Literal["ok", "change", "no"]

#: key -> (from here on a change is needed, from here on it is too much); what is compared is said in `level`.
LIMITS: dict[str, tuple[float, float]] = {
    "privacy.exact_copies": (0.01, 0.05),  # share of jobs above that of the hold-out
    "privacy.near_copies": (2.0, 4.0),  # times the hold-out's share
    "privacy.dcr_ratio": (0.8, 0.5),  # below
    "privacy.membership_auc": (0.53, 0.6),  # lower end of the interval
    "privacy.user_linkage": (0.1, 0.25),  # share of users above that of the hold-out
}
_ALARMS = {
    "privacy.exact_copies": "{value:.0%} of its jobs are exact copies of real ones (fresh real jobs: {real:.0%})",
    "privacy.near_copies": "{value:.0%} of its jobs almost equal a real one (fresh real jobs: {real:.0%})",
    "privacy.dcr_ratio": "its jobs lie {value:.2f} times as far from real ones as fresh real jobs do",
    "privacy.membership_auc": "one can tell which real jobs it was fitted on (AUC {value:.2f})",
    "privacy.user_linkage": "{value:.0%} of its users can be linked with real ones (from fresh real weeks: {real:.0%})",
}


def normal(score: Score) -> float:
    """Return what fresh real jobs reach; 0 where nobody knows."""
    return score.real if np.isfinite(score.real) else 0.0


def level(key: str, score: Score) -> Level:
    """Hold one privacy score against its limits; a score that could not be computed raises no alarm."""
    usual = normal(score)
    compared = {
        "privacy.exact_copies": score.value - usual,
        "privacy.near_copies": score.value / max(usual, 0.01),
        "privacy.dcr_ratio": -score.value,
        "privacy.membership_auc": score.low if np.isfinite(score.low) else score.value,
        "privacy.user_linkage": score.value - max(usual, 2 * score.detail.get("chance", 0.0)),
    }[key]
    change, refuse = (-limit if key == "privacy.dcr_ratio" else limit for limit in LIMITS[key])
    return "no" if compared > refuse else "change" if compared > change else "ok"


def alarms(scores: Mapping[str, Score]) -> list[str]:
    """Say what in the privacy scores should make one look twice before sharing a trace; empty = nothing found."""
    found = {key: text for key, text in _ALARMS.items() if key in scores and level(key, scores[key]) == "no"}
    if "privacy.exact_copies" in found:
        found.pop("privacy.near_copies", None)  # they are the same jobs
    return [text.format(value=scores[key].value, real=normal(scores[key])) for key, text in found.items()]
