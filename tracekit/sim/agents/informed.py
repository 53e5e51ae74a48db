"""The predictor of run times that an agent carries in its folder, the form of `predicted-index`, and the start.

An agent whose task has ``predict`` is whole by itself: the predictor lies in its folder. It is either trained on the
jobs that the agent learns from (``auto``) or a copy of another one. With ``auto`` the agent learns by the predictions
of two more, each for the half of the training part that it has not learnt from (cross-fitting).
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.sim.agents.against import against, mean
from tracekit.sim.agents.config import Config
from tracekit.sim.agents.evaluate import INDEX, heuristics_of
from tracekit.sim.agents.grounds import at_load
from tracekit.sim.agents.provenance import fingerprint
from tracekit.sim.agents.rollout import play
from tracekit.sim.agents.starts import Course
from tracekit.sim.jobs import Table, extract_jobs
from tracekit.sim.predict.index import FORMS, Form
from tracekit.sim.predict.predictor import FACTS, IN_INDEX, OUTPUTS, PREDICTOR, Predictor
from tracekit.sim.predict.training import FEWEST, train, untrained
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.features import outputs_of
from tracekit.sim.tasks.pick_job.task import is_static
from tracekit.sim.windows import Span, Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]

AUTO = "auto"
#: The folder of predictors for training windows, inside an agent's folder until its training ends.
HALVES = "halves"
#: How many training windows choose the heuristic to begin with and the form of `predicted-index`.
CHOOSING = 256


def without_predictor(task: Any) -> Any:
    """Return the same task without predictions."""
    return dataclasses.replace(task, predict=None, observer="default") if getattr(task, "predict", None) else task


@dataclass(frozen=True, eq=False)
class Foresight:
    """A predictor of run times, and the parts of the trace whose training windows go by its predictions."""

    predictor: Predictor
    place: Path
    parts: tuple[Span, ...]


def with_predictor(trace: Trace, task: Any, course: Course, config: Config, *, resume: bool) -> tuple[Any, str]:
    """Return the task with a predictor in the agent's folder, a new one (auto) or a copy, and what to begin with.

    Only jobs of the training part are learnt from, and the heuristic to begin with and the form of `predicted-index`
    are chosen on windows there (`choice_of`). An interrupted training (``resume``) goes on with what is there.
    """
    place = course.out / PREDICTOR
    given = None if task.predict == AUTO else Predictor.load(task.predict)
    table = extract_jobs(trace, task.switches.resolved())
    if resume and (place / FACTS).is_file():
        _check_same(place, given)
        found = Predictor.load(place)
        if given is None and not halves(course):  # a training that had ended goes on with more steps
            for one in _cross_fitted(trace, table, course, task):
                dataclasses.replace(one.predictor, index=found.index).save(one.place, force=True)
        choice = found.facts["choice"]
        return _ready(task, place, choice["base"]), choice["start"]
    shutil.rmtree(course.out / HALVES, ignore_errors=True)
    used = []
    if given is None:
        given = _learnt(trace, table, course.parts.train, course, OUTPUTS)
        used = _cross_fitted(trace, table, course, task)
    used = used or [Foresight(given, course.out / HALVES / "whole", course.parts.train)]
    for one in used:
        one.predictor.save(one.place, force=True)
    choice, form = choice_of(trace, task, [*used, *_unseen(given, course)], config)
    for one in used:
        dataclasses.replace(one.predictor, index=form).save(one.place, force=True)
    dataclasses.replace(given, index=form, facts=given.facts | {"choice": choice}).save(place, force=True)
    course.say(_told(choice, form))
    return _ready(task, place, choice["base"]), choice["start"]


def _ready(task: Any, place: Path, base: str) -> Any:
    """Return the task with its predictor and the base policy whose order agents are shown."""
    return dataclasses.replace(task, predict=str(place), base=base)


def _told(choice: dict[str, Any], form: Form) -> str:
    """Return what was chosen, in words."""
    low, high = (f"{choice['geometric' + end]:+.1%}" for end in ("_low", "_high"))
    found = f"{choice['geometric']:+.1%} [{low}, {high}], arithmetic mean {choice['arithmetic']:+.1%}"
    begins = "it is the start" if choice["start"] == INDEX else f"not shown to be better: {choice['base']} is the start"
    return (
        f"best heuristic on {choice['windows']} training windows: {choice['base']}; predicted-index (trust "
        f"{form.trust:g}, sizes {form.sizes:g}, power {form.power:g}) against it: {found}; {begins}"
    )


def halves(course: Course) -> list[tuple[str, tuple[Span, ...]]]:
    """Return the predictors for training windows and where the windows of each are; none: the agent's own for all."""
    parts = _cut(course.parts.train)
    places = [course.out / HALVES / str(number) for number in range(len(parts))]
    if not all((place / FACTS).is_file() for place in places):
        return []
    return [(str(place), part) for place, part in zip(places, parts, strict=True)]


def _learnt(trace: Trace, table: Table, parts: Sequence[Span], course: Course, outputs: Collection[str]) -> Predictor:
    """Return a predictor that has learnt from parts of a trace."""
    rows = np.sort(np.concatenate([table.position[first:last] for first, last in parts]))
    course.say(f"predictor of run times: learning from {len(rows):,} jobs")
    made = train(trace.replace(jobs=trace.jobs.iloc[rows].reset_index(drop=True)), seed=course.seed, outputs=outputs)
    learnt = {"jobs_sha256": fingerprint(table), "jobs": len(rows)}
    return dataclasses.replace(made, facts=made.facts | {"seed": course.seed, "trace": learnt})


def _cross_fitted(trace: Trace, table: Table, course: Course, task: Any) -> list[Foresight]:
    """Return a predictor for each half of the training part that has learnt from the other half.

    An agent that learnt by predictions for jobs that the predictor has learnt from would trust predictions too much.
    Nothing where the halves are too short to learn from. They learn no outputs but those that are looked at.
    """
    first, second = _cut(course.parts.train)
    if min(_jobs(first), _jobs(second)) < 2 * FEWEST:
        return []
    pairs, outputs = ((first, second), (second, first)), {*outputs_of(task.feature_names), *IN_INDEX}
    return [
        Foresight(_learnt(trace, table, other, course, outputs), course.out / HALVES / str(number), own)
        for number, (own, other) in enumerate(pairs)
    ]


def _unseen(given: Predictor, course: Course) -> list[Foresight]:
    """Return the agent's predictor for the windows of the validation part, which it has not learnt from."""
    if course.parts.overlap:
        return []
    place = course.out / HALVES / "later"
    given.save(place, force=True)
    return [Foresight(given, place, course.parts.validation)]


def _cut(parts: Sequence[Span]) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the pieces of a part before and after its middle, counted in jobs.

    >>> _cut([(0, 10), (20, 30)]), _cut([(0, 100)])
    ((((0, 10),), ((20, 30),)), (((0, 50),), ((50, 100),)))
    """
    left = _jobs(parts) // 2
    before: list[Span] = []
    after: list[Span] = []
    for first, last in sorted(parts):
        middle = first + min(left, last - first)
        left -= middle - first
        before += [(first, middle)] if middle > first else []
        after += [(middle, last)] if last > middle else []
    return tuple(before), tuple(after)


def _jobs(parts: Sequence[Span]) -> int:
    """Return the jobs of a part."""
    return sum(last - first for first, last in parts)


def _check_same(place: Path, given: Predictor | None) -> None:
    """Refuse to go on with another predictor than the training began with."""
    if given is None:
        return
    ours = Predictor.load(place).forest
    same = [np.array_equal(one, other, equal_nan=True) for one, other in zip(ours, given.forest, strict=True)]
    if not all(same):
        raise UsageError(f"{place.parent}: the training began with another predictor; --force begins anew")


def choice_of(trace: Trace, task: Any, used: Sequence[Foresight], config: Config) -> tuple[dict[str, Any], Form]:
    """Return the best heuristic on training windows, the best form of `predicted-index`, and which to begin with.

    The heuristic has static priorities and the smallest mean (``validate_by``). The form has the smallest costs against
    it, half by the geometric mean and half by the arithmetic mean, on the same windows, also at the highest of
    ``loads``. An agent begins with the index only where its geometric mean is below the heuristic's by more than a
    standard error (block bootstrap over windows in the order of time) and its arithmetic mean is not above it. The
    heuristic was chosen by its mean alone: to ask the index for more would keep what is worse in most cases.
    """
    known = [name for name in heuristics_of(task) if is_static(name)]
    plain = dataclasses.replace(task, observer="request")  # nothing else is looked at
    by_heuristic: list[Floats] = []  # (windows,) of the best one, for each load
    by_form: list[Floats] = []  # (windows, forms)
    for load in dict.fromkeys((1.0, max(config.loads, default=1.0))):
        jobs = trace if load == 1 else at_load(trace, load)
        made = []
        for one in used:
            source = EpisodeSource(jobs, dataclasses.replace(plain, predict=str(one.place)))
            share = _jobs(one.parts) / sum(_jobs(other.parts) for other in used)
            windows = _spread(one.parts, config.jobs, max(round(CHOOSING * share), 1))
            made.append(_costs(source, windows, known, config))
        by_heuristic.append(np.concatenate([costs for costs, _ in made]))
        by_form.append(np.concatenate([costs for _, costs in made]))
        base = int(np.argmin([mean(column, config.validate_by) for column in by_heuristic[-1].T]))
        known, by_heuristic[-1] = [known[base]], by_heuristic[-1][:, base]
    return _best_form(known[0], np.stack(by_heuristic), np.stack(by_form))


def _best_form(name: str, base: Floats, costs: Floats) -> tuple[dict[str, Any], Form]:
    """Return the choice; ``base`` (loads, windows) and ``costs`` (loads, windows, forms)."""
    logs = np.log(np.maximum(costs, 1e-9)) - np.log(np.maximum(base, 1e-9))[:, :, None]
    shares = np.log(np.maximum(costs.mean(1), 1e-9)) - np.log(np.maximum(base.mean(1), 1e-9))[:, None]
    best = int(np.argmin((logs.mean((0, 1)) + shares.mean(0)) / 2))
    each = np.exp(logs[:, :, best].mean(0))  # against a base of 1, all loads of a window together
    found = against(each, np.ones(len(each)))
    arithmetic = float(np.exp(shares[:, best].mean()) - 1)
    error = (found["geometric_high"] - found["geometric_low"]) / 4  # the interval is two standard errors either side
    shown = found["geometric"] + error < 0 and arithmetic <= 0
    told = {key: found[key] for key in ("windows", "geometric", "geometric_low", "geometric_high")}
    return {"base": name, "start": INDEX if shown else name, **told, "arithmetic": round(arithmetic, 9)}, FORMS[best]


def _costs(source: EpisodeSource, windows: list[Window], known: list[str], config: Config) -> tuple[Floats, Floats]:
    """Return the costs of heuristics, (windows, heuristics), and of the forms of the index, (windows, forms)."""
    threads = config.threads or None
    batch = source.task.batch(source, lanes=min(len(windows), 64), threads=threads)
    teacher = source.task.teacher(batch, windows, INDEX)
    made = []
    for form in FORMS:
        batch.freeze(form)
        made.append(play(batch, windows, None, teacher=teacher, keep=False).score)
    return source.policy_costs(windows, known, threads=threads), np.stack(made, 1)


def _spread(parts: Sequence[Span], jobs: int, most: int) -> list[Window]:
    """Return at most so many windows in the order of time, evenly spread, that overlap by half at most.

    >>> _spread([(0, 100)], 40, 9), _spread([(0, 1000)], 10, 3), _spread([(5, 20)], 40, 9)
    ([(0, 40), (20, 40), (40, 40), (60, 40)], [(0, 10), (495, 10), (990, 10)], [(5, 15)])
    """
    found: list[Window] = []
    for first, last in sorted(parts):
        size = min(jobs, last - first)
        found += [(start, size) for start in range(first, last - size + 1, max(size // 2, 1))]
    if len(found) > most:
        found = [found[k] for k in np.linspace(0, len(found) - 1, most).round().astype(int)]
    return found


def newborn_predictor(task: Any, out: Path) -> Any:
    """Return the task with a predictor that has learnt nothing, for agents that have learnt nothing."""
    untrained().save(out / PREDICTOR, force=True)
    return dataclasses.replace(task, predict=str(out / PREDICTOR))
