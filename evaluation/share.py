"""May this synthetic trace be published? A plain answer for the people who run a site, with the reasons.

Two things give a site away: jobs or users of the real trace that the synthetic one repeats (judged by the privacy
scores against a hold-out, with the limits of `evaluation.exposure`), and names that came along with the file. It is
advice, documented in docs/sharing.md, and no guarantee.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.base import Score
from evaluation.exposure import LIMITS, level, normal
from evaluation.privacy import row_keys
from evaluation.score import score
from evaluation.view import prepare
from tracekit.schema import BY_NAME
from tracekit.trace import Trace

Verdict = Literal["ok", "unknown", "change", "no"]
ANSWERS = ("yes", "not without changes", "no")

IN_STEP = (0.1, 0.25)  # share of jobs that equal the real job of the same place, above what chance gives
COPIES_ALONE = (0.25, 0.5)  # exact copies without a hold-out: short jobs are often alike by chance
_PEOPLE = ("user", "group", "project", "app")
_PATH = re.compile(r"(?:^|[\s'\"(=:])(/[\w.+-]+(?:/[\w.+-]+)+|~/[\w./+-]+|[A-Za-z]:\\[\w.\\+-]+)")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
#: Header lines that only say what the file is like; anything else is somebody's words.
_TECHNICAL = re.compile(
    r"^[;\s]*(Version|MaxJobs|MaxRecords|Preemption|UnixStartTime|TimeZone(String)?|StartTime|EndTime|MaxNodes|MaxProcs|"
    r"MaxRuntime|MaxMemory|AllowOveruse|MaxQueues|Queues?|MaxPartitions|Partitions?)\s*:|^[;\s]*$"
    r"|^[;\s]*Note:\s*tracekit:"  # steps of our own, which are looked at as history
)


@dataclass(frozen=True)
class Reason:
    """One thing that was looked at, and what it means for publishing."""

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
    """The answer, its reasons (worst first), and what it does not mean."""

    answer: str
    reasons: list[Reason]
    caveat: str = (
        "This is advice, no guarantee: it looks for copies, for users who can be recognised and for names, by known "
        "attacks. It is not differential privacy, and your site's rules come first."
    )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "answer": self.answer,
            "reasons": [reason.to_dict() for reason in self.reasons],
            "caveat": self.caveat,
        }


def share(real: Trace, synth: Trace, holdout: Trace | None = None, *, seed: int = 0, quick: bool = False) -> Answer:
    """Answer whether ``synth``, made from ``real``, may be published.

    Without ``holdout``, real jobs that the model was not fitted on, the answer is never yes: nothing shows then what is
    normal between strangers.
    """
    reasons = [*_copies(real, synth, holdout, seed=seed, quick=quick), *_labels(real, synth), *_words(real, synth)]
    order: tuple[Verdict, ...] = ("no", "change", "unknown", "ok")
    reasons.sort(key=lambda reason: order.index(reason.verdict))
    verdicts = {reason.verdict for reason in reasons}
    answer = "no" if "no" in verdicts else "not without changes" if verdicts & {"change", "unknown"} else "yes"
    return Answer(answer, reasons)


# ---- jobs and users --------------------------------------------------------------------------------------------------

_TEXTS = {
    "privacy.exact_copies": "{value:.1%} of the synthetic jobs equal a real job in every number and label; of real "
    "jobs that the model never saw, {real:.1%} do",
    "privacy.near_copies": "{value:.1%} of the synthetic jobs lie as near to a real job as the nearest 5% of unseen "
    "real jobs do ({real:.1%})",
    "privacy.dcr_ratio": "synthetic jobs lie {value:.2f} times as far from the real ones as unseen real jobs do "
    "(1 or more is good)",
    "privacy.membership_auc": "with the synthetic trace in hand, one can tell real jobs that were used from others "
    "with an AUC of {value:.3f} (0.5 is guessing; at least {low:.3f})",
    "privacy.user_linkage": "{value:.0%} of the users can be matched with themselves by their weekly pattern; from "
    "real weeks that no model has seen it is {real:.0%}",
}
_MEND = {
    "privacy.user_linkage": "give the synthetic users labels that say nothing: tracekit anonymize, with another key",
}
_OTHER_MODEL = "make it again with another model, a higher --privacy (of sessions) or fewer training steps; "
_OTHER_MODEL += "models that copy jobs (resample, user-resample) are not for publishing"


def _copies(real: Trace, synth: Trace, holdout: Trace | None, *, seed: int, quick: bool) -> Iterator[Reason]:
    yield from _in_step(real, synth, seed)
    if holdout is None:
        yield _copies_alone(real, synth)
        yield Reason(
            "privacy",
            "unknown",
            "without a hold-out nobody can say how near is too near, or whether users can be recognised",
            mend="keep some weeks away from the model and give them with --holdout",
        )
        return
    found = score(
        real, synth, holdout=holdout, families=["privacy"], baselines=False, floor=False, seed=seed, quick=quick
    )
    for key in LIMITS:
        yield _judged(key, found[key])


def _in_step(real: Trace, synth: Trace, seed: int) -> Iterator[Reason]:
    """Look for a copy whose numbers were changed a little: job after job of the same size and nearly the same length.

    Both traces are taken in order of submit, so shuffled rows and shifted dates hide nothing.
    """
    count = min(len(real), len(synth))
    size, run = (
        [values[trace.order()][:count] for trace, values in ((real, a), (synth, b))]
        for a, b in ((real.sizes(), synth.sizes()), (real.column("run_time"), synth.column("run_time")))
    )
    if count < 100 or not all(np.isfinite(part).any() for part in (*size, *run)):
        return

    def alike(order: np.ndarray) -> float:
        near = np.abs(run[0][order] - run[1]) <= np.maximum(0.05 * run[0][order], 1.0)
        return float((near & (size[0][order] == size[1])).mean())

    chance = alike(np.random.default_rng(seed).permutation(count))
    value = alike(np.arange(count))
    change, refuse = IN_STEP
    verdict: Verdict = "no" if value - chance > refuse else "change" if value - chance > change else "ok"
    text = (
        f"{value:.1%} of the synthetic jobs, one after the other, have the size and within 5% the run time of the real "
        f"job in the same place; {chance:.1%} would by chance"
    )
    yield Reason("privacy.in_step", verdict, text, value, change, _OTHER_MODEL if verdict != "ok" else "")


def _copies_alone(real: Trace, synth: Trace) -> Reason:
    """Count exact copies without a hold-out; people are not compared, as a trace with new labels is still a copy."""
    ours, theirs = prepare(real, [synth], ["real", "synthetic"])
    numbers = [name for name in ours.numbers if ours.has(name) and theirs.has(name)]
    labels = [name for name in ours.labels if ours.has(name) and theirs.has(name) and name not in _PEOPLE]
    if not numbers:
        return Reason("privacy.exact_copies", "unknown", "the two traces share no column of numbers")
    mine, other = row_keys([ours, theirs], numbers, labels)
    value = float(np.isin(other, mine).mean())
    change, refuse = COPIES_ALONE
    verdict: Verdict = "no" if value > refuse else "change" if value > change else "ok"
    text = (
        f"{value:.1%} of the synthetic jobs equal a real job in every number (without a hold-out, people not compared)"
    )
    return Reason("privacy.exact_copies", verdict, text, value, change, _OTHER_MODEL if verdict != "ok" else "")


def _judged(key: str, found: Score) -> Reason:
    """Hold one privacy score against its limits."""
    if not np.isfinite(found.value):
        return Reason(key, "ok" if key == "privacy.user_linkage" else "unknown", f"not computed: {found.note}")
    verdict: Verdict = level(key, found)
    text = _TEXTS[key].format(value=found.value, real=normal(found), low=found.low)
    mend = "" if verdict == "ok" else _MEND.get(key, _OTHER_MODEL)
    return Reason(key, verdict, text, found.value, LIMITS[key][0], mend)


# ---- names -----------------------------------------------------------------------------------------------------------


def _names(trace: Trace, column: str) -> dict[str, int]:
    """Return the labels and how many jobs each has; labels without jobs count: some formats keep them."""
    if column not in trace.jobs.columns:
        return {}
    return {str(name): int(count) for name, count in trace.jobs[column].value_counts().items()}


def _labels(real: Trace, synth: Trace) -> Iterator[Reason]:
    """Look for labels of people that stand in both traces."""
    for column in _PEOPLE:
        ours, theirs = _names(real, column), _names(synth, column)
        common = sorted(set(ours) & set(theirs), key=lambda name: -theirs[name])
        if not common:
            continue
        mend = "tracekit anonymize, with a key that you throw away"
        words = [name for name in common if not name.isdecimal()]
        given = 2 * max(len(ours), len(theirs))  # numbers given afresh count the labels, and are hardly larger
        large = [name for name in common if name.isdecimal() and int(name) > given]
        if not words and large:
            text = (
                f"{len(large):,} {column} numbers, such as {', '.join(large[:3])}, are the real trace's own: numbers "
                "given afresh would be small"
            )
            yield Reason(f"labels.{column}", "change", text, float(len(large)), 0.0, mend)
        elif words:
            text = f"{len(words):,} real {column} names stand in the synthetic trace: {', '.join(words[:5])}"
            yield Reason(f"labels.{column}", "change", text, float(len(words)), 0.0, mend)
        elif len(common) >= 10 and _same_people(ours, theirs, common):
            text = (
                f"{len(common):,} {column} numbers mean the same {column}s in both traces: the busy ones are busy in "
                "both, so who knows one real number knows the rest"
            )
            yield Reason(f"labels.{column}", "change", text, float(len(common)), 0.0, mend)
        else:
            text = f"{len(common):,} {column} numbers occur in both, as small numbers must; they mean nothing"
            yield Reason(f"labels.{column}", "ok", text)


def _same_people(ours: dict[str, int], theirs: dict[str, int], common: list[str]) -> bool:
    """Tell whether labels have the same ranks in both traces, which numbers given afresh have not."""
    from scipy.stats import spearmanr

    mine, other = ([counts[name] for name in common] for counts in (ours, theirs))
    if len(set(mine)) < 2 or len(set(other)) < 2:
        return False
    found = spearmanr(mine, other)
    return bool(found.statistic > 0.5 and found.pvalue < 0.001)


def _words(real: Trace, synth: Trace) -> Iterator[Reason]:
    """Look for names, addresses and paths in what travels with the jobs: header, notes, history, extra columns."""
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
            text = f"the {place} of the synthetic trace names {', '.join(leaks[:5])}"
            yield Reason(f"words.{place}", "change", text, float(len(leaks)), 0.0, _STRIP)
    copied = sorted(
        {line.strip("; \t") for line in lines["header"]} & {line.strip("; \t") for line in real.machine.header or ()}
    )
    if any(len(line) > 3 for line in copied):
        text = f"{len(copied):,} header lines are the real trace's own words, such as '{copied[-1][:60]}'"
        yield Reason("words.header", "change", text, float(len(copied)), 0.0, _STRIP)
    yield from _extras(real, synth)


_STRIP = "tracekit anonymize removes header lines, notes and history"


def _leaks(text: str, people: set[str]) -> Iterator[str]:
    """Yield paths, mail addresses and names of people that a text holds."""
    for match in _PATH.finditer(text):
        yield f"the path {match[1]}"
    for match in _MAIL.finditer(text):
        yield match[0]
    for word in set(re.findall(r"[\w.-]+", text)) & people:
        yield f"the label {word}"


def _extras(real: Trace, synth: Trace) -> Iterator[Reason]:
    """Look at extra columns: text in them may be names of jobs, of files, of nodes."""
    for column in synth.jobs.columns:
        if column in BY_NAME or column == "x_status":
            continue
        values = set(synth.jobs[column].dropna().astype(str).unique())
        words = {value for value in values if not re.fullmatch(r"-?[\d.]*(e[+-]?\d+)?", value)}
        if not words:
            continue
        ours = set(real.jobs[column].dropna().astype(str).unique()) if column in real.jobs.columns else set()
        common = sorted(words & ours)
        text = f"the extra column {column} holds text" + (
            f", also found in the real trace: {common[0]}" if common else ""
        )
        yield Reason(
            f"extra.{column}", "change", text, float(len(common)), 0.0, "tracekit anonymize removes extra columns"
        )
