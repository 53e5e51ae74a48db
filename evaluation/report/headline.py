"""The first sentences of the page: what a busy person should take home."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.base import FAMILIES
from evaluation.exposure import alarms, complete
from evaluation.report.content import Content
from evaluation.report.summary_text import Bold, Words, best, measured, standings
from evaluation.score import Scored, Scores


def headline(content: Content) -> Words:
    """Return what a busy person should take home, in two or three sentences."""
    outcome = content.headline or content.conclusion
    said: Words = [outcome] if outcome else _score_headline(content.scores)
    return said + _caution(content)


def _score_headline(scores: Scores) -> Words:
    families = [family for family in measured(scores) if family != "privacy"]
    if len(scores.synthetic) == 1:
        found = {family: standings(scores, family)[0] for family in families}
        within, judged = (sum(getattr(s, what) for s in found.values()) for what in ("within", "judged"))
        ranked = sorted((s for s in found.items() if s[1].judged), key=lambda item: item[1].share)
        said: Words = [
            Bold(scores.synthetic[0].name),
            f": {within} of {judged} scores within the real trace's own noise",
        ]
        if len(ranked) > 1 and ranked[0][1].share < ranked[-1][1].share:
            said += [f"; best in {ranked[-1][0]}, worst in {ranked[0][0]}"]
        return [*said, "."]
    said = _leaders(scores, families, scores.synthetic)
    perfect = [one.name for one in scores.synthetic if _all_within(scores, one.name)]
    if perfect:
        return [*said, f" Within the real trace's own noise everywhere: {listed(perfect)}."]
    return [*said, " None stays within the real trace's own noise everywhere."]


def _leaders(scores: Scores, families: Sequence[str], among: Sequence[Scored]) -> Words:
    """Return which trace is closest in which families, as a sentence."""
    won: dict[str, list[str]] = {}
    names = {one.name for one in among}
    for family in families:
        top = best([one for one in standings(scores, family) if one.name in names])
        if len(top) == 1:
            won.setdefault(top[0].name, []).append(family)
    if not won:
        return ["No model is clearly closer than the others."]
    said: Words = []
    for name, where in sorted(won.items(), key=lambda item: -len(item[1]))[:3]:
        said += [
            "; " if said else "",
            Bold(name),
            f" is closest in {listed(where)}" if not said else f" in {listed(where)}",
        ]
    return [*said, "."]


def _all_within(scores: Scores, name: str) -> bool:
    found = [s for f in FAMILIES if f != "privacy" for s in standings(scores, f) if s.name == name and s.judged]
    return bool(found) and all(one.within == one.judged for one in found)


def _caution(content: Content) -> Words:
    """State what must not be overlooked: alarms, or that some attacks were not tried."""
    scores = content.scores
    if "privacy" not in measured(scores):
        return [" Privacy was not measured: a plain copy would look perfect here."]
    copying = [one for one in scores.synthetic if alarms(one.scores)]
    if not copying and not any(complete(one.scores) for one in scores.synthetic):
        return [" No alarm on privacy so far, but the attacks that need --holdout were not tried."]
    honest = [one for one in scores.synthetic if one not in copying]
    if not copying:
        return []
    said: Words = [" ", Bold(f"Privacy alarm for {listed([one.name for one in copying])}")]
    said += [f": {alarms(copying[0].scores)[0]}." if len(copying) == 1 else "."]
    if content.verdicts or not honest:
        return said
    if len(honest) == 1:
        return [*said, " Without alarm: ", Bold(honest[0].name), "."]
    families = [family for family in measured(scores) if family != "privacy"]
    return [*said, " Of those without alarm, ", *_leaders(scores, families, honest)]


def listed(names: Sequence[str], most: int = 4) -> str:
    """Join names as one would say them; of many only the first.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(list("abcdef"))
    ('a', 'a, b and c', 'a, b, c and 3 more')
    """
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
