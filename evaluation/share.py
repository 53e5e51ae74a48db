"""May this synthetic trace be published? An answer with reasons for the administrators of a site.

Two things can identify a site: jobs or users of the real trace that the synthetic one repeats (found by the attacks of
`evaluation.exposure`, each with its control), and names in the file. `decide` is the one decision, for
``tracekit share`` and for the report. It is advice, documented in docs/sharing.md, not a guarantee.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evaluation.attacks.distance import NO_HOLDOUT
from evaluation.base import Score
from evaluation.exposure import ATTACKS, Attack, attacks
from evaluation.score import score
from tracekit.schema import BY_NAME
from tracekit.trace import Trace

Verdict = Literal["ok", "unknown", "change", "no"]
ANSWERS = ("yes", "not without changes", "no")

_PEOPLE = ("user", "group", "project", "app")
_PATH = re.compile(r"(?:^|[\s'\"(=:])(/[\w.+-]+(?:/[\w.+-]+)+|~/[\w./+-]+|[A-Za-z]:\\[\w.\\+-]+)")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
#: Header lines that only describe the file; any other line is free text.
_TECHNICAL = re.compile(
    r"^[;\s]*(Version|MaxJobs|MaxRecords|Preemption|UnixStartTime|TimeZone(String)?|StartTime|EndTime|MaxNodes|MaxProcs|"
    r"MaxRuntime|MaxMemory|AllowOveruse|MaxQueues|Queues?|MaxPartitions|Partitions?)\s*:|^[;\s]*$"
    r"|^[;\s]*Note:\s*tracekit:"  # our own steps, which are checked as history
)


@dataclass(frozen=True)
class Reason:
    """One check, and its result for publication."""

    check: str
    verdict: Verdict
    text: str  # for a site's administrator
    value: float | None = None
    limit: float | None = None
    mend: str = ""  # what to do about it

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "check": self.check,
            "verdict": self.verdict,
            "text": self.text,
            "value": self.value,
            "limit": self.limit,
            "mend": self.mend or None,
        }


@dataclass(frozen=True)
class Answer:
    """The answer, its reasons (worst first), the attacks that were tried, and what it does not mean."""

    answer: str  # one of ANSWERS
    reasons: list[Reason]
    attacks: list[Attack]
    caveat: str = (
        "This is advice, not a guarantee: it checks for copies, for recognisable users and for names, by known "
        "attacks. It is not differential privacy, and your site's rules take precedence."
    )

    @property
    def verdict(self) -> Literal["yes", "no"]:
        """Return yes if the trace may be published as it is, else no."""
        return "yes" if self.answer == "yes" else "no"

    @property
    def advice(self) -> list[str]:
        """Return what to do, most urgent first; empty if nothing has to be done."""
        return list(dict.fromkeys(reason.mend for reason in self.reasons if reason.mend))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "verdict": self.verdict,
            "attacks": [attack.to_dict() for attack in self.attacks],
            "advice": self.advice,
            "answer": self.answer,
            "reasons": [reason.to_dict() for reason in self.reasons],
            "caveat": self.caveat,
        }


def share(real: Trace, synth: Trace, holdout: Trace | None = None, *, seed: int = 0, quick: bool = False) -> Answer:
    """Answer whether ``synth``, generated from ``real``, may be published.

    Without ``holdout``, real jobs that the model was not fitted on, the answer is never yes: some attacks have no
    control then.
    """
    found = score(
        real, synth, holdout=holdout, families=["privacy"], baselines=False, floor=False, seed=seed, quick=quick
    )
    return decide(real, synth, found.synthetic[0].scores)


def decide(real: Trace, synth: Trace, scores: Mapping[str, Score]) -> Answer:
    """Answer whether ``synth`` may be published, from its privacy scores and from the names in it."""
    found = attacks(scores)
    reasons = [*_attacked(found, scores), *_labels(real, synth), *_words(real, synth)]
    order: tuple[Verdict, ...] = ("no", "change", "unknown", "ok")
    reasons.sort(key=lambda reason: order.index(reason.verdict))
    verdicts = {reason.verdict for reason in reasons}
    answer = "no" if "no" in verdicts else "not without changes" if verdicts & {"change", "unknown"} else "yes"
    return Answer(answer, reasons, found)


# ---- jobs and users --------------------------------------------------------------------------------------------------


def _attacked(found: list[Attack], scores: Mapping[str, Score]) -> Iterator[Reason]:
    """Turn every attack into a reason; those that lacked a hold-out share one reason."""
    if not found:
        yield Reason("privacy", "unknown", "no attack was run", mend="run tracekit share on the two traces")
        return
    lacking = [attack for attack in found if scores[attack.key].note == NO_HOLDOUT]
    if lacking:
        names = ", ".join(attack.name for attack in lacking)
        yield Reason(
            "privacy",
            "unknown",
            f"without a hold-out these attacks have no control and were not run: {names}",
            mend="leave some weeks out of the fit and give them with --holdout",
        )
    for attack in found:
        if attack not in lacking:
            yield _reason(attack)


def _reason(attack: Attack) -> Reason:
    limit = ATTACKS[attack.key].margin
    if attack.rate != attack.rate:  # NaN: a trace without users has none to find
        return Reason(attack.key, "ok" if attack.target == "user" else "unknown", attack.text)
    return Reason(attack.key, "no" if attack.alarm else "ok", attack.text, attack.rate, limit, attack.advice)


# ---- names -----------------------------------------------------------------------------------------------------------


def _names(trace: Trace, column: str) -> dict[str, int]:
    """Return the labels and how many jobs each has; labels without jobs are included: some formats keep them."""
    if column not in trace.jobs.columns:
        return {}
    return {str(name): int(count) for name, count in trace.jobs[column].value_counts().items()}


def _labels(real: Trace, synth: Trace) -> Iterator[Reason]:
    """Check for labels of people that occur in both traces."""
    for column in _PEOPLE:
        ours, theirs = _names(real, column), _names(synth, column)
        common = sorted(set(ours) & set(theirs), key=lambda name: -theirs[name])
        if not common:
            continue
        mend = "tracekit anonymize, with a key that you delete afterwards"
        words = [name for name in common if not name.isdecimal()]
        given = 2 * max(len(ours), len(theirs))  # new numbers count the labels, and are hardly larger
        large = [name for name in common if name.isdecimal() and int(name) > given]
        if not words and large:
            text = (
                f"{len(large):,} {column} numbers, such as {', '.join(large[:3])}, are those of the real trace: new "
                "numbers would be small"
            )
            yield Reason(f"labels.{column}", "change", text, float(len(large)), 0.0, mend)
        elif words:
            text = f"{len(words):,} real {column} names occur in the synthetic trace: {', '.join(words[:5])}"
            yield Reason(f"labels.{column}", "change", text, float(len(words)), 0.0, mend)
        elif len(common) >= 10 and _same_people(ours, theirs, common):
            text = (
                f"{len(common):,} {column} numbers are the same {column}s in both: the active ones are the same in "
                "both traces, so one known number reveals the others"
            )
            yield Reason(f"labels.{column}", "change", text, float(len(common)), 0.0, mend)
        else:
            text = f"{len(common):,} {column} numbers occur in both traces, as is expected of small numbers"
            yield Reason(f"labels.{column}", "ok", text)


def _same_people(ours: dict[str, int], theirs: dict[str, int], common: list[str]) -> bool:
    """Return whether labels have the same ranks in both traces, which new numbers do not have."""
    from scipy.stats import spearmanr

    mine, other = ([counts[name] for name in common] for counts in (ours, theirs))
    if len(set(mine)) < 2 or len(set(other)) < 2:
        return False
    found = spearmanr(mine, other)
    return bool(found.statistic > 0.5 and found.pvalue < 0.001)


def _words(real: Trace, synth: Trace) -> Iterator[Reason]:
    """Check for names, addresses and paths in the header, notes, history and extra columns."""
    machine = synth.machine
    lines = {
        "header": [line for line in machine.header or () if not _TECHNICAL.match(line)],
        "notes": [*machine.notes, machine.source, machine.licence],
        "history": list(synth.history),
        "machine": [machine.name],
    }
    people = {name for column in _PEOPLE for name in _names(real, column) if len(name) >= 3 and not name.isdigit()}
    for place, texts in lines.items():
        leaks = sorted({leak for text in texts for leak in _leaks(text, people)})
        if leaks:
            text = f"the {place} of the synthetic trace contains {', '.join(leaks[:5])}"
            yield Reason(f"words.{place}", "change", text, float(len(leaks)), 0.0, _STRIP)
    copied = sorted(
        {line.strip("; \t") for line in lines["header"]} & {line.strip("; \t") for line in real.machine.header or ()}
    )
    if any(len(line) > 3 for line in copied):
        text = f"{len(copied):,} header lines are copied from the real trace, such as '{copied[-1][:60]}'"
        yield Reason("words.header", "change", text, float(len(copied)), 0.0, _STRIP)
    yield from _extras(real, synth)


_STRIP = "tracekit anonymize removes header lines, notes and history"


def _leaks(text: str, people: set[str]) -> Iterator[str]:
    """Yield the paths, mail addresses and names of people in a text."""
    for match in _PATH.finditer(text):
        yield f"the path {match[1]}"
    for match in _MAIL.finditer(text):
        yield match[0]
    for word in set(re.findall(r"[\w.-]+", text)) & people:
        yield f"the label {word}"


def _extras(real: Trace, synth: Trace) -> Iterator[Reason]:
    """Check extra columns: their texts may be names of jobs, files or nodes."""
    for column in synth.jobs.columns:
        if column in BY_NAME or column == "x_status":
            continue
        values = set(synth.jobs[column].dropna().astype(str).unique())
        words = {value for value in values if not re.fullmatch(r"-?[\d.]*(e[+-]?\d+)?", value)}
        if not words:
            continue
        ours = set(real.jobs[column].dropna().astype(str).unique()) if column in real.jobs.columns else set()
        common = sorted(words & ours)
        text = f"the extra column {column} contains text" + (
            f", also found in the real trace: {common[0]}" if common else ""
        )
        yield Reason(
            f"extra.{column}", "change", text, float(len(common)), 0.0, "tracekit anonymize removes extra columns"
        )
