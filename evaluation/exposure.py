"""The attacks on privacy: what each attacker knows, its result, its control, and when it is an alarm.

This is the one place where a privacy score becomes an alarm, for `share`, for the report and for verdicts. An alarm
needs a rate that exceeds the control's by a margin, and a test that says so at a level divided by the number of attacks
(Bonferroni): weeks of the same log that are judged as if they were synthetic raise any alarm at most so often. These
rules are a convention of this program, documented in docs/sharing.md. They are not a guarantee, and not differential
privacy. A further attack is a metric of family privacy (`evaluation.base.METRICS`) and one entry of `ATTACKS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.base import Score

Target = Literal["user", "job"]
Risk = Literal["singling out", "linkability", "inference", "membership"]

#: Chance of any alarm at all on weeks of the same log, over all attacks together.
FAMILY_WISE = 0.05
#: A smaller share of users is no alarm, whatever the control.
FEW_USERS = 0.03
#: How far a rate must exceed its control: shares of users and of jobs, and AUC.
OF_USERS, OF_JOBS, OF_AUC = 0.01, 0.05, 0.03

OTHER_MODEL = (
    "use tracekit synth --for-sharing, or another model that does not copy jobs (see tracekit models); resample and "
    "user-resample are not suited for publication"
)
MODELLED = "use tracekit synth --for-sharing; new labels, rounded or scaled times do not help"
RELABEL = "replace the labels: tracekit anonymize with a new key"


def normal(score: Score) -> float:
    """Return the result on fresh real jobs; 0 if unknown."""
    return score.real if np.isfinite(score.real) else 0.0


@dataclass(frozen=True)
class Spec:
    """One attack: whom it finds, what the attacker is assumed to know, its margin, and the text of its outcome."""

    target: Target
    risk: Risk
    knows: str  # what the attacker is assumed to know beside the synthetic trace
    text: str  # of {value} and {real}
    margin: float = OF_USERS
    advice: str = OTHER_MODEL

    def alarming(self, score: Score, level: float) -> bool:
        """Return whether a score exceeds its control by the margin and the test agrees, where there is one."""
        usual = max(normal(score), 2 * score.detail.get("chance", 0.0))
        if self.margin == OF_AUC:
            usual = max(usual, 0.5)
        if self.target == "user" and score.value <= FEW_USERS:
            return False
        p = score.detail.get("p", np.nan)
        return bool(score.value > usual + self.margin and not p > level)


#: Attacks by the key of their score, in the order in which they are listed.
ATTACKS: dict[str, Spec] = {
    "privacy.submit_gaps": Spec(
        "user",
        "singling out",
        "when four jobs of a person were submitted or started, to the second",
        "{value:.0%} of the synthetic users have three consecutive submit gaps that exactly one real user has (fresh "
        "real users: {real:.0%})",
        advice=MODELLED,
    ),
    "privacy.submit_rhythm": Spec(
        "user",
        "singling out",
        "when six jobs of a person were submitted, roughly or on another scale of time",
        "{value:.0%} of the synthetic users have five submit gaps in the ratios of exactly one real user (fresh real "
        "users: {real:.0%})",
        advice=MODELLED,
    ),
    "privacy.rare_requests": Spec(
        "user",
        "singling out",
        "one unusual size and limit that a person asked for",
        "{value:.0%} of the synthetic users have a size and limit that exactly one real user has asked for (fresh real "
        "users: {real:.0%})",
        advice=MODELLED,
    ),
    "privacy.request_sequences": Spec(
        "user",
        "singling out",
        "sizes and limits of six jobs of a person in a row",
        "{value:.0%} of the synthetic users have six requests in a row that exactly one real user has (fresh real "
        "users: {real:.0%})",
        advice=MODELLED,
    ),
    "privacy.run_times": Spec(
        "user",
        "singling out",
        "sizes and run times of four jobs of a person in a row",
        "{value:.0%} of the synthetic users have four run times in a row that exactly one real user has (fresh real "
        "users: {real:.0%})",
        advice=MODELLED,
    ),
    "privacy.session_sequences": Spec(
        "user",
        "singling out",
        "three sessions of a person: number of jobs, length, think times, each to about a quarter",
        "{value:.0%} of the synthetic users have three sessions in a row like those of exactly one real user (fresh "
        "real users: {real:.0%})",
        advice=MODELLED,
    ),
    "privacy.hours_of_week_profile": Spec(
        "user",
        "linkability",
        "the hours of the week at which each person submits",
        "{value:.0%} of the synthetic users point at one real user by their hours of the week (fresh real users: "
        "{real:.0%})",
        advice=MODELLED,
    ),
    "privacy.job_shapes": Spec(
        "user",
        "linkability",
        "the histogram of sizes, limits and run times of each person",
        "{value:.0%} of the synthetic users point at one real user by their job shapes (fresh real users: {real:.0%})",
        advice=MODELLED,
    ),
    "privacy.session_habits": Spec(
        "user",
        "linkability",
        "the lengths of sessions and the gaps between jobs of each person",
        "{value:.0%} of the synthetic users point at one real user by their sessions (fresh real users: {real:.0%})",
        advice=MODELLED,
    ),
    "privacy.user_linkage": Spec(
        "user",
        "linkability",
        "the label of each person, and the hours of the week",
        "{value:.0%} of the users can be matched with themselves by their weekly pattern (from fresh real weeks: "
        "{real:.0%})",
        margin=0.1,
        advice=RELABEL,
    ),
    "privacy.linkability": Spec(
        "user",
        "linkability",
        "a person's hours and sessions from one source, job shapes without a name from another",
        "the two halves of {value:.0%} of the real users are linked by one synthetic user (of fresh real weeks: "
        "{real:.0%})",
        advice=MODELLED,
    ),
    "privacy.inference_user": Spec(
        "user",
        "inference",
        "everything about a person but the run times",
        "the typical run time of {value:.0%} of the real users is guessed from the most similar synthetic user (of "
        "fresh real weeks: {real:.0%})",
        advice=MODELLED,
    ),
    "privacy.exact_copies": Spec(
        "job",
        "singling out",
        "a job in every number and label",
        "{value:.1%} of the synthetic jobs are exact copies of real ones, with labels (fresh real jobs: {real:.1%})",
        margin=0.01,
    ),
    "privacy.near_copies": Spec(
        "job",
        "singling out",
        "the numbers of a job",
        "{value:.1%} of the synthetic jobs almost equal a real one (fresh real jobs: {real:.1%})",
        margin=OF_JOBS,
    ),
    "privacy.nearer_fitted": Spec(
        "job",
        "membership",
        "the numbers of all fitted jobs, and of as many others",
        "{value:.1%} of the synthetic jobs are nearer to a fitted job than to any other real one (fresh real jobs: "
        "{real:.1%}; half is chance)",
        margin=OF_AUC,
    ),
    "privacy.membership_auc": Spec(
        "job",
        "membership",
        "the numbers of a job",
        "jobs that the model was fitted on can be distinguished from others with AUC {value:.3f} (0.5 is guessing; "
        "by fresh real jobs: {real:.3f})",
        margin=OF_AUC,
    ),
    "privacy.membership_classifier": Spec(
        "job",
        "membership",
        "the numbers of a job, and of the jobs of half the weeks whether they were fitted",
        "a trained classifier distinguishes fitted jobs from others with AUC {value:.3f} (0.5 is guessing; by fresh "
        "real jobs: {real:.3f})",
        margin=OF_AUC,
    ),
    "privacy.isolated_jobs": Spec(
        "job",
        "singling out",
        "nothing: every synthetic job is tried as a description",
        "{value:.1%} of the real jobs are the only one that some synthetic job describes (of fresh real weeks: "
        "{real:.1%})",
        margin=OF_JOBS,
    ),
    "privacy.inference_job": Spec(
        "job",
        "inference",
        "size, limit and hour of the week of a job",
        "the run time of {value:.1%} of the real jobs is guessed from the most similar synthetic job (of fresh real "
        "weeks: {real:.1%})",
        margin=OF_JOBS,
    ),
    "privacy.in_step": Spec(
        "job",
        "singling out",
        "the position of a job in the log",
        "{value:.1%} of the synthetic jobs have the size and nearly the run time of the real job at the same position "
        "(by chance: {real:.1%})",
        margin=0.1,
    ),
    "privacy.same_numbers": Spec(
        "job",
        "singling out",
        "every number of a job, no names",
        "{value:.1%} of the synthetic jobs equal a real one in every number (fresh real jobs: {real:.1%})",
        margin=OF_JOBS,
    ),
}

#: Level of each single test.
LEVEL = FAMILY_WISE / len(ATTACKS)


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
    found: float = np.nan  # users or jobs that it concerns …
    trials: float = np.nan  # … of so many
    worst: str = ""  # the user whom it finds best, by rank

    @property
    def name(self) -> str:
        """Return the name of the attack: its key without the family."""
        return self.key.removeprefix("privacy.")

    @classmethod
    def of(cls, key: str, score: Score) -> Attack:
        """Evaluate one score."""
        spec = ATTACKS[key]
        known = bool(np.isfinite(score.value))
        alarm = known and spec.alarming(score, LEVEL)
        detail = score.detail
        ends = (detail.get("control_low", np.nan), detail.get("control_high", np.nan))
        text = spec.text.format(value=score.value, real=normal(score)) if known else f"not computed: {score.note}"
        low, high = detail.get("low", score.low), detail.get("high", score.high)
        advice = spec.advice if alarm else ""
        counts = detail.get("found", np.nan), detail.get("of", np.nan)
        return cls(
            key, spec.target, score.value, low, high, score.real, *ends, alarm, text, advice, *counts, _worst(detail)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        numbers = ("rate", "low", "high", "control", "control_low", "control_high")
        plain = {name: float(v) if np.isfinite(v := getattr(self, name)) else None for name in numbers}
        spec = ATTACKS[self.key]
        counts = {name: int(v) if np.isfinite(v := getattr(self, name)) else None for name in ("found", "trials")}
        more = {"risk": spec.risk, "attacker_knows": spec.knows, **counts, "worst": self.worst or None}
        return {"name": self.name, "target": self.target, **plain, "alarm": self.alarm, "text": self.text, **more}


def _worst(detail: Mapping[str, float]) -> str:
    """Return who is found best, in words; empty if nobody is, or jobs are attacked."""
    rank, matches = (int(detail.get(name, 0)) for name in ("worst_rank", "worst_matches"))
    return f"rank {rank} by number of jobs, {matches:,} matches" if rank else ""


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
