"""The predictor of run times that an agent carries in its folder, and the exponent of `predicted-index`.

An agent whose task has ``predict`` is whole by itself: the predictor lies in its folder. It is either trained on the
jobs that the agent learns from (``auto``) or a copy of another one. With ``auto`` the agent learns by the predictions
of two more, each for the half of the training part that it has not learnt from (cross-fitting).
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.errors import UsageError
from tracekit.sim.agents.provenance import fingerprint
from tracekit.sim.agents.splits import windows_from
from tracekit.sim.agents.starts import Course
from tracekit.sim.jobs import Table, extract_jobs
from tracekit.sim.predict.predictor import FACTS, PREDICTOR, Predictor
from tracekit.sim.predict.training import FEWEST, train, untrained
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.windows import Span
from tracekit.trace import Trace

AUTO = "auto"
#: The folder of predictors for training windows, inside an agent's folder until its training ends.
HALVES = "halves"
#: Exponents of the weight in `predicted-index` that training windows choose from, and how many windows.
POWERS, CHOOSING = (0.5, 1.0), 192


def without_predictor(task: Any) -> Any:
    """Return the same task without predictions."""
    return dataclasses.replace(task, predict=None, observer="default") if getattr(task, "predict", None) else task


@dataclass(frozen=True, eq=False)
class Foresight:
    """A predictor of run times, and the parts of the trace whose training windows go by its predictions."""

    predictor: Predictor
    place: Path
    parts: tuple[Span, ...]


def with_predictor(trace: Trace, task: Any, course: Course, jobs: int, *, resume: bool) -> Any:
    """Return the task with a predictor in the agent's folder: a new one (auto) or a copy; its exponent is chosen.

    Only jobs of the training part are learnt from, and the exponent is chosen on windows of ``jobs`` jobs there. An
    interrupted training (``resume``) goes on with what is there.
    """
    place = course.out / PREDICTOR
    ready = dataclasses.replace(task, predict=str(place))
    given = None if task.predict == AUTO else Predictor.load(task.predict)
    table = extract_jobs(trace, task.switches.resolved())
    if resume and (place / FACTS).is_file():
        _check_same(place, given)
        if given is None and not halves(course):  # a training that had ended goes on with more steps
            for one in _cross_fitted(trace, table, course):
                dataclasses.replace(one.predictor, power=Predictor.load(place).power).save(one.place, force=True)
        return ready
    shutil.rmtree(course.out / HALVES, ignore_errors=True)
    used = []
    if given is None:
        given = _learnt(trace, table, course.parts.train, course)
        used = _cross_fitted(trace, table, course)
    used = used or [Foresight(given, course.out / HALVES / "whole", course.parts.train)]
    power = best_power(trace, ready, used, jobs, course.seed)
    dataclasses.replace(given, power=power).save(place, force=True)
    course.say(f"predicted-index: exponent {power:g}, chosen on training windows")
    return ready


def halves(course: Course) -> list[tuple[str, tuple[Span, ...]]]:
    """Return the predictors for training windows and where the windows of each are; none: the agent's own for all."""
    parts = _cut(course.parts.train)
    places = [course.out / HALVES / str(number) for number in range(len(parts))]
    if not all((place / FACTS).is_file() for place in places):
        return []
    return [(str(place), part) for place, part in zip(places, parts, strict=True)]


def _learnt(trace: Trace, table: Table, parts: Sequence[Span], course: Course) -> Predictor:
    """Return a predictor that has learnt from parts of a trace."""
    rows = np.sort(np.concatenate([table.position[first:last] for first, last in parts]))
    course.say(f"predictor of run times: learning from {len(rows):,} jobs")
    made = train(trace.replace(jobs=trace.jobs.iloc[rows].reset_index(drop=True)), seed=course.seed)
    learnt = {"jobs_sha256": fingerprint(table), "jobs": len(rows)}
    return dataclasses.replace(made, facts=made.facts | {"seed": course.seed, "trace": learnt})


def _cross_fitted(trace: Trace, table: Table, course: Course) -> list[Foresight]:
    """Return a predictor for each half of the training part that has learnt from the other half.

    An agent that learnt by predictions for jobs that the predictor has learnt from would trust predictions too much.
    Nothing where the halves are too short to learn from.
    """
    first, second = _cut(course.parts.train)
    if min(sum(last - begin for begin, last in part) for part in (first, second)) < 2 * FEWEST:
        return []
    pairs = ((first, second), (second, first))
    return [
        Foresight(_learnt(trace, table, other, course), course.out / HALVES / str(number), own)
        for number, (own, other) in enumerate(pairs)
    ]


def _cut(parts: Sequence[Span]) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the pieces of a part before and after its middle, counted in jobs.

    >>> _cut([(0, 10), (20, 30)]), _cut([(0, 100)])
    ((((0, 10),), ((20, 30),)), (((0, 50),), ((50, 100),)))
    """
    left = sum(last - first for first, last in parts) // 2
    before: list[Span] = []
    after: list[Span] = []
    for first, last in sorted(parts):
        middle = first + min(left, last - first)
        left -= middle - first
        before += [(first, middle)] if middle > first else []
        after += [(middle, last)] if last > middle else []
    return tuple(before), tuple(after)


def _check_same(place: Path, given: Predictor | None) -> None:
    """Refuse to go on with another predictor than the training began with."""
    if given is None:
        return
    ours = Predictor.load(place).forest
    same = [np.array_equal(one, other, equal_nan=True) for one, other in zip(ours, given.forest, strict=True)]
    if not all(same):
        raise UsageError(f"{place.parent}: the training began with another predictor; --force begins anew")


def best_power(trace: Trace, task: Any, used: Sequence[Foresight], jobs: int, seed: int) -> float:
    """Return the exponent that is best on training windows, by the geometric mean; the predictors are saved with it."""
    costs = {}
    for power in POWERS:
        logs = []
        for number, one in enumerate(used):
            dataclasses.replace(one.predictor, power=power).save(one.place, force=True)
            source = EpisodeSource(trace, dataclasses.replace(task, predict=str(one.place)))
            windows = windows_from(source, one.parts, CHOOSING // len(used), jobs, [seed, 50, number])
            logs.append(np.log(np.maximum(source.policy_costs(windows, ["predicted-index"]), 1e-9)))
        costs[power] = float(np.concatenate(logs).mean())
    best = min(POWERS, key=lambda power: costs[power])
    for one in used:
        dataclasses.replace(one.predictor, power=best).save(one.place, force=True)
    return best


def newborn_predictor(task: Any, out: Path) -> Any:
    """Return the task with a predictor that has learnt nothing, for agents that have learnt nothing."""
    untrained().save(out / PREDICTOR, force=True)
    return dataclasses.replace(task, predict=str(out / PREDICTOR))
