"""The attacks on privacy: the result of each, its result on fresh real jobs (the control), and when it is an alarm.

This is the one place where a privacy score becomes an alarm, for `share`, for the report and for verdicts. The limits
are a convention of this program, documented in docs/sharing.md. They are not a guarantee, and not differential privacy.
A further attack is a metric of family privacy (`evaluation.base.METRICS`) and one entry of `ATTACKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.base import Score

Target = Literal["user", "job"]
NEARER = 0.1  # share of jobs nearer to a fitted than to a hold-out job, above that of fresh real jobs
UNCONTROLLED = 0.05  # share of linked users that is an alarm where there is no control

OTHER_MODEL = (
    "use a model that does not copy jobs (see tracekit models), a higher --privacy or fewer "
    "training steps; resample and user-resample are not suited for publication"
)
MODELLED = (
    "use --model sessions --skeleton modelled --privacy 5, or another model that does not repeat "
    "users' submit times; new labels, rounded or scaled times do not help"
)
RELABEL = "replace the labels: tracekit anonymize with a new key"


def normal(score: Score) -> float:
    """Return the result on fresh real jobs; 0 if unknown."""
    return score.real if np.isfinite(score.real) else 0.0


@dataclass(frozen=True)
class Spec:
    """One attack: what it finds, its alarm limit, and the text of its outcome."""

    target: Target
    limit: float  # of what `excess` returns
    excess: Callable[[Score], float]  # how far a score is from harmless; an alarm if above the limit
    text: str  # of {value} and {real}
    advice: str = OTHER_MODEL


def _over(score: Score) -> float:
    """Return how much larger a share is than its control; 0 if their intervals overlap."""
    low, high = score.detail.get("low", score.value), score.detail.get("control_high", normal(score))
    return score.value - normal(score) if low > (high if np.isfinite(high) else normal(score)) else 0.0


def _linked(score: Score) -> float:
    """Return how much larger the share of linked users is than its control; 0 if chance explains it."""
    usual = score.detail.get("expected", np.nan)
    usual = usual if np.isfinite(usual) else UNCONTROLLED
    return score.value - normal(score) if score.detail.get("low", score.value) > usual else 0.0


def _times(score: Score) -> float:
    return score.value / max(normal(score), 0.01)


def _surplus(score: Score) -> float:
    """Return the share of jobs above the control, relative to the rest."""
    return (score.value - normal(score)) / max(1 - normal(score), 1e-9)


def _certain(score: Score) -> float:
    """Return the lower end of the AUC's interval, minus what fresh real jobs reach above guessing."""
    value = score.low if np.isfinite(score.low) else score.value
    return value - max(score.real - 0.5, 0.0) if np.isfinite(score.real) else value


def _nearness(score: Score) -> float:
    """Return how near to real jobs the synthetic ones are; 0 if they are as near to the hold-out.

    Jobs of a model that generates only common jobs are near to all real jobs, which reveals no job.
    """
    usual = score.detail.get("nearer_control", 0.5)
    surplus = score.detail.get("nearer_low", 1.0) - (max(usual, 0.5) if np.isfinite(usual) else 0.5)
    return -score.value if surplus > NEARER else -np.inf


def _recognised(score: Score) -> float:
    return score.value - max(normal(score), 2 * score.detail.get("chance", 0.0))


#: Attacks by the key of their score, in the order in which they are listed.
ATTACKS: dict[str, Spec] = {
    "privacy.submit_gaps": Spec(
        "user",
        0.01,
        _linked,
        "{value:.0%} of the synthetic users have three consecutive submit gaps that exactly one real user has (fresh "
        "real users: {real:.0%})",
        MODELLED,
    ),
    "privacy.submit_rhythm": Spec(
        "user",
        0.01,
        _linked,
        "{value:.0%} of the synthetic users have five submit gaps in the ratios of exactly one real user (fresh real "
        "users: {real:.0%})",
        MODELLED,
    ),
    "privacy.user_linkage": Spec(
        "user",
        0.1,
        _recognised,
        "{value:.0%} of the users can be matched with themselves by their weekly pattern (from fresh real weeks: "
        "{real:.0%})",
        RELABEL,
    ),
    "privacy.exact_copies": Spec(
        "job",
        0.01,
        _over,
        "{value:.1%} of the synthetic jobs are exact copies of real ones, with labels (fresh real jobs: {real:.1%})",
    ),
    "privacy.near_copies": Spec(
        "job", 2.0, _times, "{value:.1%} of the synthetic jobs almost equal a real one (fresh real jobs: {real:.1%})"
    ),
    "privacy.dcr_ratio": Spec(
        "job",
        -0.8,
        _nearness,
        "synthetic jobs are {value:.2f} times as far from real ones as fresh real jobs are",
    ),
    "privacy.membership_auc": Spec(
        "job",
        0.53,
        _certain,
        "jobs that the model was fitted on can be distinguished from others with AUC {value:.3f} (0.5 is guessing; "
        "by fresh real jobs: {real:.3f})",
    ),
    "privacy.in_step": Spec(
        "job",
        0.1,
        _over,
        "{value:.1%} of the synthetic jobs have the size and nearly the run time of the real job at the same position "
        "(by chance: {real:.1%})",
    ),
    "privacy.same_numbers": Spec(
        "job",
        0.25,
        _surplus,
        "{value:.1%} of the synthetic jobs equal a real one in every number (real jobs of other weeks: {real:.1%})",
    ),
}


@dataclass(frozen=True)
class Attack:
    """The result of an attack. NaN = not computed; ``text`` is the outcome, or the reason why there is none."""

    key: str
    target: Target
    rate: float
    low: float
    high: float
    control: float
    control_low: float
    control_high: float
    alarm: bool
    text: str
    advice: str  # empty without an alarm

    @property
    def name(self) -> str:
        """Return the name of the attack: its key without the family."""
        return self.key.removeprefix("privacy.")

    @classmethod
    def of(cls, key: str, score: Score) -> Attack:
        """Evaluate one score."""
        spec = ATTACKS[key]
        known = bool(np.isfinite(score.value))
        alarm = known and spec.excess(score) > spec.limit
        detail = score.detail
        ends = (detail.get("control_low", np.nan), detail.get("control_high", np.nan))
        text = spec.text.format(value=score.value, real=normal(score)) if known else f"not computed: {score.note}"
        low, high = detail.get("low", score.low), detail.get("high", score.high)
        return cls(
            key, spec.target, score.value, low, high, score.real, *ends, alarm, text, spec.advice if alarm else ""
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        numbers = ("rate", "low", "high", "control", "control_low", "control_high")
        plain = {name: float(v) if np.isfinite(v := getattr(self, name)) else None for name in numbers}
        return {"name": self.name, "target": self.target, **plain, "alarm": self.alarm, "text": self.text}


def attacks(scores: Mapping[str, Score]) -> list[Attack]:
    """Return the outcome of every attack that was run, in the order of `ATTACKS`."""
    return [Attack.of(key, scores[key]) for key in ATTACKS if key in scores]


def alarms(scores: Mapping[str, Score]) -> list[str]:
    """Return a sentence for each attack that raised an alarm; empty = none did."""
    found = {attack.key: attack.text for attack in attacks(scores) if attack.alarm}
    if "privacy.exact_copies" in found or "privacy.same_numbers" in found:
        found.pop("privacy.near_copies", None)  # they are the same jobs
    return list(found.values())


def complete(scores: Mapping[str, Score]) -> bool:
    """Return whether the attacks that need a hold-out were run, too."""
    return "privacy.exact_copies" in scores and bool(np.isfinite(scores["privacy.exact_copies"].value))
