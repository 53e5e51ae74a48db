"""The scores in sentences: the closest trace in each family, its weakest points, what was not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.base import FAMILIES
from evaluation.exposure import alarms, complete
from evaluation.score import Scored, Scores, badness
from evaluation.table import number
from evaluation.view import RAW_SIZES


class Bold(str):
    """A part of a sentence that is set in bold: names and outcomes."""

    __slots__ = ()


Words = list[str]  # of a sentence, some of them `Bold`


@dataclass(frozen=True)
class Standing:
    """How one trace does in one family: so many of the scores lie within the noise floor.

    ``judged`` counts the scores that have a noise floor and that any of the traces has: a trace without users, say,
    is not within the noise there.
    """

    name: str
    within: int
    judged: int
    missing: int  # of those judged, how many this trace has no value for
    rank: float  # mean place among the synthetic traces over all keys, 1 = nearest; NaN for baselines

    @property
    def share(self) -> float:
        """Return the share of scores within the noise; NaN where none can be judged."""
        return self.within / self.judged if self.judged else float("nan")

    def __str__(self) -> str:
        return f"{self.within} of {self.judged}" if self.judged else "–"


def counted_keys(scores: Scores, family: str) -> list[str]:
    """Return a family's keys without those that repeat another under the file's or the poster's own name."""
    return [
        key
        for key in scores.keys_of(family)
        if key.rpartition(".")[2] not in RAW_SIZES and not key.startswith("poster.")
    ]


def standings(scores: Scores, family: str, *, baselines: bool = False) -> list[Standing]:
    """Return how every synthetic trace (or every baseline) does in a family, in the order of the scores."""
    keys = counted_keys(scores, family)
    places = _places(scores, keys)
    everyone = [*scores.synthetic, *scores.baselines]
    judged = [key for key in keys if any(scores.within_noise(key, one) is not None for one in everyone)]
    found = []
    for one in scores.baselines if baselines else scores.synthetic:
        held = [scores.within_noise(key, one) for key in judged]
        place = float("nan") if baselines else places[one.name]
        found.append(Standing(one.name, sum(h is True for h in held), len(judged), held.count(None), place))
    return found


def _places(scores: Scores, keys: Sequence[str]) -> dict[str, float]:
    """Return each synthetic trace's mean place over the keys that all of them have; ties share their places."""
    from scipy.stats import rankdata

    table = [[badness(key, one.scores[key]) for one in scores.synthetic] for key in keys]
    known = [row for row in table if np.isfinite(row).all()]
    means = rankdata(known, axis=1).mean(axis=0) if known else np.full(len(scores.synthetic), np.nan)
    return {one.name: float(mean) for one, mean in zip(scores.synthetic, means, strict=True)}


def best(found: Sequence[Standing]) -> list[Standing]:
    """Return the best traces: most scores within the noise; then, unless all are, the better mean rank.

    Several if they are indistinguishable: traces within the noise everywhere cannot be ranked.
    """
    known = [one for one in found if one.judged or np.isfinite(one.rank)]
    if not known:
        return []

    def order(one: Standing) -> tuple[float, float]:
        place = one.rank if np.isfinite(one.rank) and one.share != 1 else np.inf
        return (-one.share if one.judged else 0.0, place)

    top = min(map(order, known))
    return [one for one in known if order(one) == top]


#: The score that says most about a family in one number, and how it is said; {v} value, {r} real, {f} noise floor.
_TELLING: dict[str, tuple[str, str]] = {
    "marginal": ("ks.mean", "mean KS distance of its columns {v} (0 = same; halves of the real trace: {f})"),
    "joint": ("c2st.auc", "a classifier separates its jobs from real ones with AUC {v} (0.5 = it cannot)"),
    "time": ("acf1.run_time", "run times of neighbouring jobs correlate with {v} (real: {r})"),
    "validity": ("validity.share", "{v%} of its rows break a rule (real: {r%})"),
    "load": ("offered_load", "offered load {v} (real: {r})"),
    "privacy": ("privacy.exact_copies", "{v%} of its jobs are copies of real ones (fresh real jobs: {r%})"),
    "scheduling": ("scheduling.kendall_tau", "policies rank as on the real trace with τ = {v} (halves of it: {f})"),
    "hosts": (
        "hosts.packing_curve",
        "the share of GPUs that can be allocated differs by {v} points on average (halves of the real trace: {f})",
    ),
}


def telling(scores: Scores, family: str, scored: Scored) -> str:
    """Return the family's most telling score of one trace in words; empty where it could not be computed."""
    key, phrase = _TELLING[family]
    score = scored.scores.get(key)
    if score is None or np.isnan(score.value):
        return ""
    floor = scores.noise_floor.get(key)
    numbers = {"v": score.value, "r": score.real, "f": float("nan") if floor is None else floor.value}
    for letter, value in numbers.items():
        percent = "unknown" if np.isnan(value) else f"{100 * value:.0f} %" if value >= 0.1 else f"{100 * value:.2g} %"
        phrase = phrase.replace(f"{{{letter}%}}", percent).replace(f"{{{letter}}}", number(value) or "unknown")
    return phrase


def family_sentence(scores: Scores, family: str) -> Words:
    """Return one or two sentences on how the traces compare in a family."""
    found = standings(scores, family)
    top = best(found)
    if not counted_keys(scores, family):
        return ["Not asked for."]
    if family not in measured(scores):
        return ["Not measured: ", _reason(scores, family), "."]
    if family == "privacy":
        return _privacy_sentence(scores)
    first = top[0]
    told = telling(scores, family, next(one for one in scores.synthetic if one.name == first.name))
    told = f"; {told}." if told and len(top) == 1 else "."
    if len(found) == 1:
        said: Words = [f"{first} scores within the real trace's own noise" if first.judged else "No noise floor", told]
    elif len(top) == len(found):
        said = [Bold("All alike"), f": {first} within noise." if first.judged else "."]
    else:
        said = [*_names(top), f": {first} within noise" if first.judged else " nearest", told]
        last = max(found, key=lambda one: (-(one.share if one.judged else 0), one.rank))
        if last.judged and last.share < first.share:
            said += [" Furthest: ", Bold(last.name), f" ({last})."]
    return said + _beaten(scores, family, first)


def _names(found: Sequence[Standing], most: int = 3) -> Words:
    said: Words = []
    for one in found[:most]:
        said += [", " if said else "", Bold(one.name)]
    return [*said, f" and {len(found) - most} more"] if len(found) > most else said


def _privacy_sentence(scores: Scores) -> Words:
    """Name the traces that give real jobs away, and how; these attacks only ever find the plainest leaks."""
    found = [(one.name, alarms(one.scores)) for one in scores.synthetic]
    loud = [(name, reasons) for name, reasons in found if reasons]
    if not loud:
        tried = "" if any(complete(one.scores) for one in scores.synthetic) else " Some attacks need --holdout."
        return [
            Bold("No alarm"),
            f": no attack finds more than it finds on fresh real jobs. No proof of privacy.{tried}",
        ]
    said: Words = []
    for name, reasons in loud[:2]:
        said += [Bold(name), f": {reasons[0]}. "]
    if len(loud) > 2:
        said += [f"So do {len(loud) - 2} more. "]
    quiet = len(found) - len(loud)
    return [*said, f"No alarm for the other{'s' if quiet > 1 else ''}." if quiet else "None is free of it."]


def _beaten(scores: Scores, family: str, first: Standing) -> Words:
    """Return a remark where a trivial baseline does as well as the best model."""
    rivals = [one for one in standings(scores, family, baselines=True) if one.judged and one.share >= first.share]
    if not rivals or not first.judged:
        return []
    rival = max(rivals, key=lambda one: one.share)
    return [f" Trivial baseline {rival.name}: {f'better, {rival}' if rival.share > first.share else 'as good'}."]


def _reason(scores: Scores, family: str) -> str:
    notes = [one.scores[key].note for one in scores.synthetic for key in counted_keys(scores, family)]
    known = [note for note in notes if note]
    return max(dict.fromkeys(known), key=known.count) if known else "no score could be computed"


def measured(scores: Scores) -> list[str]:
    """Return the families in which anything was measured."""
    return [f for f in FAMILIES if any(s.judged or np.isfinite(s.rank) for s in standings(scores, f))]
