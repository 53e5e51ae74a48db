"""For which use is a trace good enough? Each learner of a plan stands for one use, and is judged by itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.experiment.damage import DAMAGES
from evaluation.experiment.grid import OWN_METRICS, Plan
from evaluation.experiment.heldout import REAL_LOAD, check_load
from evaluation.experiment.learners import LEARNERS
from evaluation.experiment.verdict import bracket, plain_percent
from tracekit.errors import UsageError

#: Of learners that do not say: learners of other packages may have been written before these were asked for.
_MARGIN = 0.1
_CONTROL = "wrong-limits"
#: The learner that notices damaged jobs on most logs, in seconds.
TELLING = "predict-run-time"
#: Signs of what rows come to, by `mark`.
SIGNS = {"good": "✓", "better": "✓", "copies": "=", "worse": "▼", "undecided": "?", "failed": "✕", "blind": "–"}
#: Models that get a sentence each in the conclusion.
MANY = 4


@dataclass(frozen=True)
class Use:
    """What a trace is used for: the learner, how it is judged, and the damage that it should notice."""

    learner: str
    task: str  # name of the task that is learnt
    words: str  # what one would do with the trace: "choosing a heuristic"
    metric: str  # what the held-out windows are judged by; lower is better
    margin: float  # differences below this ratio do not matter
    control: str  # name of a damage; a trace with it must be found worse, or the test cannot tell
    loads: tuple[str, ...] = (REAL_LOAD,)  # of the held-out windows that count
    config: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 1.0  # of one training on one core, a guess

    def facts(self) -> dict[str, Any]:
        """Return what every row of verdict.json says about its use."""
        return {"learner": self.learner, "task": self.task, "metric": self.metric, "margin": self.margin}


def uses_of(plan: Plan) -> list[Use]:
    """Return the uses of a plan, in its order; wrong settings and metrics are refused."""
    wanted = plan.verdict.metric
    if wanted in OWN_METRICS and OWN_METRICS[wanted] not in plan.agents.learner:
        raise UsageError(f"metric {wanted} is measured of one learner only: add {OWN_METRICS[wanted]}")
    found = []
    for name in plan.agents.learner:
        learner = LEARNERS.get(name)()
        like_heldout = {"jobs": plan.windows.jobs} if getattr(learner, "like_heldout", False) else {}
        config = {**like_heldout, **plan.agents.config_of(name), **plan.hosts}
        learner.check(config)
        own = getattr(learner, "metric", "mean_bsld")
        margin = plan.verdict.margin if plan.verdict.margin is not None else getattr(learner, "margin", _MARGIN)
        control = getattr(learner, "control", _CONTROL)
        DAMAGES.target(control)
        found.append(
            Use(
                name,
                getattr(learner, "task", name),
                getattr(learner, "use", name),
                own if own in OWN_METRICS or wanted in OWN_METRICS or not wanted else wanted,
                float(margin),
                control,
                _loads(plan, own),
                config,
                learner.seconds(config),
            )
        )
    return found


def _loads(plan: Plan, metric: str) -> tuple[str, ...]:
    """Return the loads that a use is judged at: predictions and forecasts are about the machine's own, if it is there.

    At another load a forecast is wrong however good its trace is, and then a trace of that load would look best.
    """
    loads = tuple(dict.fromkeys(map(check_load, plan.windows.loads)))
    return (REAL_LOAD,) if metric in OWN_METRICS and REAL_LOAD in loads else loads


def mark(row: Mapping[str, Any]) -> str:
    """Return what a row of verdict.json comes to, in a word, for ticks and colours.

    good, better, copies (good, but its jobs are real ones), worse, undecided, failed, or blind: a test that does not
    notice damaged jobs found nothing bad.
    """
    outcome = str(row["verdict"])
    if outcome in ("worse", "failed"):
        return outcome
    if row.get("sensitive") is False:
        return "blind"
    if not row.get("good_enough", outcome != "undecided"):
        return "undecided" if outcome == "undecided" else "blind"
    return "copies" if row.get("copies") else "better" if outcome == "better" else "good"


def across(found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the heads and rows of one table of all verdicts of verdict.json: a row a trace, a column a use."""
    rows = []
    for kind in ("verdicts", "baselines"):
        for model in dict.fromkeys(str(row["model"]) for row in found[kind]):
            own = {row["learner"]: row for row in found[kind] if row["model"] == model}
            trivial = kind == "baselines"
            cells = [in_short(own.get(use["learner"]), trivial=trivial) for use in found["learners"]]
            rows.append([f"{model} (baseline)" if trivial else model, *cells])
    return ["trace", *(str(use["use"]) for use in found["learners"])], rows


def in_short(row: Mapping[str, Any] | None, *, trivial: bool = False) -> str:
    """Return a row of verdict.json in a sign, a word and a number; a trivial baseline gets no tick."""
    if row is None:
        return "–"
    outcome = mark(row)
    sign = SIGNS[outcome]
    words = {"copies": "copies real jobs", "blind": "cannot tell", "failed": "failed"}.get(outcome, "")
    if outcome in ("good", "better"):
        words = f"at most {plain_percent(max(float(row['at_most_worse']), 0.0))} worse"
    elif outcome == "worse":
        words = f"{plain_percent(float(row['difference']))} worse"
    elif outcome == "undecided":
        words = bracket(float(row["low"]), float(row["high"]))
    return f"{'=' if trivial and sign == '✓' else sign} {words}"


def headline(found: Mapping[str, Any]) -> str:
    """Return the outcome of verdict.json in one sentence: the model that is good enough for most uses, and for which.

    A second one names the uses whose test cannot tell, and a third what may help. A model that copies real jobs does
    not head the page, nor does a trivial baseline.
    """
    blind = [use for use in found["learners"] if use.get("sensitive") is False]
    if not blind:
        return _outcome(found)
    alone = len(blind) == len(found["learners"])
    told: dict[str, list[str]] = {}
    for use in blind:
        if use.get("may_tell"):
            told.setdefault(str(use["may_tell"]), []).append(str(use["use"]))
    helps = [what + (f" for {_listed(uses)}" if len(told) > 1 else "") for what, uses in told.items()]
    if alone and all(use.get("learner") != TELLING for use in blind):
        helps.append(f"another use (--learner {TELLING})")
    may = f" What may tell: {'; or '.join(helps)}." if helps else ""
    if alone:
        return f"{_outcome(found)}{may}"
    words = _listed([str(use["use"]) for use in blind])
    return f"{_outcome(found)} For {words} this test cannot tell good from bad.{may}"


def _outcome(found: Mapping[str, Any]) -> str:
    """Return what was found by the uses that notice damaged jobs."""
    rows = [dict(row) for row in found["verdicts"]]
    if rows and all(row["verdict"] == "failed" for row in rows):
        return "Every model failed."
    by_mark = {name: [row for row in rows if mark(row) == name] for name in ("good", "better", "worse", "undecided")}
    good = by_mark["good"] + by_mark["better"]
    if good:
        counts = Counter(str(row["model"]) for row in good)
        first = max(counts, key=lambda name: (counts[name], -_mean_difference(rows, name)))
        own = [row for row in good if row["model"] == first]
        said = f"{first} is good enough for {_listed([str(row['use']) for row in own])} ({_at_most(own)})"
        return f"{said}{_not_so(first, own, by_mark['worse'])}."
    copies = list(dict.fromkeys(str(row["model"]) for row in rows if mark(row) == "copies" and not _damaged(row)))
    only = f"; only {_listed(copies)}, which copies real jobs, is good enough for a use" if copies else ""
    if by_mark["undecided"]:
        row = min(by_mark["undecided"], key=lambda row: float(row["high"]))
        span = f"{_span(float(row['low']))} and {_span(float(row['high']))}"
        return f"Undecided: for {row['use']}, {row['model']} is between {span} than real jobs{only}."
    telling = [row for row in by_mark["worse"] if not _damaged(row)]
    if telling:
        best = min(telling, key=lambda row: float(row["difference"]))
        said = f"{plain_percent(float(best['difference']))} worse than real jobs for {best['use']}"
        if len({row["model"] for row in telling}) == 1:
            return f"{best['model']} is not good enough: {said}{only}."
        return f"No model is good enough: {best['model']} comes nearest, {said}{only}."
    if copies:
        return f"Nothing but copies of real jobs is good enough for a use: {_listed(copies)}."
    unknown = [str(use["use"]) for use in found["learners"] if use.get("sensitive", False) is None]
    if unknown:
        return f"This test cannot tell good traces from bad ones: damaged jobs came to nothing for {_listed(unknown)}."
    uses = _listed([str(use["use"]) for use in found["learners"]])
    return f"This test cannot tell good traces from bad ones: {uses} did not notice damaged jobs."


def _mean_difference(rows: Sequence[Mapping[str, Any]], model: str) -> float:
    own = [float(row["difference"]) for row in rows if row["model"] == model and row.get("difference") is not None]
    return sum(own) / len(own) if own else math.inf


def _at_most(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the upper limits of some uses, in their order."""
    limits = [max(float(row["at_most_worse"]), 0.0) for row in rows]
    if max(limits) == 0:
        return "at least as good as real jobs"
    return f"at most {_listed([f'{100 * limit:.1f}' for limit in limits])} % worse than real jobs"


def _not_so(first: str, own: Sequence[Mapping[str, Any]], worse: Sequence[Mapping[str, Any]]) -> str:
    """Return which other models are worse for one of the same uses."""
    uses = {row["learner"] for row in own}
    found: dict[str, float] = {}
    for row in worse:
        if row["learner"] in uses and row["model"] != first and not _damaged(row):
            found[str(row["model"])] = max(found.get(str(row["model"]), 0.0), float(row["difference"]))
    if not found:
        return ""
    if len(found) == 1:
        ((name, difference),) = found.items()
        number = f"{100 * difference:.0f} % worse"
        return f"; {name} is not ({number})" if len(uses) == 1 else f"; {name} is {number} for one of them"
    low, high = (f"{100 * end:.0f}" for end in (min(found.values()), max(found.values())))
    names = list(found) if len(found) < MANY else [*list(found)[: MANY - 2], f"{len(found) - MANY + 2} more"]
    if len(uses) == 1:
        return f"; {_listed(names)} are not ({low} to {high} % worse)"
    return f"; {_listed(names)} are {low} to {high} % worse for one of them"


def _damaged(row: Mapping[str, Any]) -> bool:
    return row["model"] in DAMAGES


def _span(value: float) -> str:
    return f"{plain_percent(abs(value))} {'worse' if value > 0 else 'better'}"


def conclusion(found: Mapping[str, Any]) -> str:
    """Return the outcome of verdict.json as sentences: which trace is good enough for which use, what is open.

    A use that would not notice its damaged jobs settles nothing, and trivial baselines are not named. A few models get
    a sentence each; of many models there is a sentence for each use.
    """
    rows = [row for row in found["verdicts"] if mark(row) != "blind"]
    models = list(dict.fromkeys(str(row["model"]) for row in rows))
    if len(models) <= MANY:
        parts = [f"{name}: {_said([row for row in rows if row['model'] == name], 'use')}" for name in models]
    else:
        uses = [(use, [row for row in rows if row["learner"] == use["learner"]]) for use in found["learners"]]
        parts = [f"For {use['use']}: {_said(own, 'model')}" for use, own in uses if own]
    for use in found["learners"]:
        if use["sensitive"] is False:
            parts.append(f"The test of {use['use']} cannot tell good from bad here: {use['advice']}")
    return ". ".join(parts) + ("." if parts else "")


#: What rows come to, in words.
_WORDS = {
    "good": "good enough",
    "copies": "good enough, but copies of real jobs",
    "worse": "worse",
    "undecided": "undecided",
    "failed": "failed",
}


def _said(rows: Sequence[Mapping[str, Any]], key: str) -> str:
    """Return the verdicts of one model by use, or of one use by model."""
    by: dict[str, list[str]] = {}
    for row in rows:
        by.setdefault(mark(row).replace("better", "good"), []).append(_with_number(row, key))
    link = " for" if key == "use" else ":"
    return (", " if key == "use" else "; ").join(
        f"{word}{link} {_listed(by[outcome])}" for outcome, word in _WORDS.items() if outcome in by
    )


def _with_number(row: Mapping[str, Any], key: str) -> str:
    value = row.get("difference")
    if row["verdict"] != "worse" or value is None or not math.isfinite(value):
        return str(row[key])
    return f"{row[key]} (+{100 * value:.0f} %)" if value >= 0.1 else f"{row[key]} (+{100 * value:.1f} %)"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
