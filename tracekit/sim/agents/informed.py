"""The predictor of run times that an agent carries in its folder, and the exponent of `predicted-index`.

An agent whose task has ``predict`` is whole by itself: the predictor lies in its folder. It is either trained on the
jobs that the agent learns from (``auto``) or a copy of another one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.errors import UsageError
from tracekit.sim.agents.provenance import fingerprint
from tracekit.sim.agents.splits import windows_from
from tracekit.sim.agents.starts import Course
from tracekit.sim.jobs import extract_jobs
from tracekit.sim.predict.predictor import FACTS, PREDICTOR, Predictor
from tracekit.sim.predict.training import train, untrained
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.trace import Trace

AUTO = "auto"
#: Exponents of the weight in `predicted-index` that training windows choose from, and how many windows.
POWERS, CHOOSING = (0.5, 1.0), 192


def without_predictor(task: Any) -> Any:
    """Return the same task without predictions."""
    return dataclasses.replace(task, predict=None, observer="default") if getattr(task, "predict", None) else task


def with_predictor(trace: Trace, task: Any, course: Course, jobs: int, *, resume: bool) -> Any:
    """Return the task with a predictor in the agent's folder: a new one (auto) or a copy; its exponent is chosen.

    Only jobs of the training part are learnt from, and the exponent is chosen on windows of ``jobs`` jobs there. An
    interrupted training (``resume``) goes on with what is there.
    """
    place = course.out / PREDICTOR
    ready = dataclasses.replace(task, predict=str(place))
    given = None if task.predict == AUTO else Predictor.load(task.predict)
    if resume and (place / FACTS).is_file():
        _check_same(place, given)
        return ready
    if given is None:
        table = extract_jobs(trace, task.switches.resolved())
        rows = np.sort(np.concatenate([table.position[first:last] for first, last in course.parts.train]))
        course.say(f"predictor of run times: learning from {len(rows):,} jobs")
        given = train(trace.replace(jobs=trace.jobs.iloc[rows].reset_index(drop=True)), seed=course.seed)
        learnt = {"jobs_sha256": fingerprint(table), "jobs": len(rows)}
        given = dataclasses.replace(given, facts=given.facts | {"seed": course.seed, "trace": learnt})
    given.save(place, force=True)
    power = best_power(trace, ready, course.parts.train, jobs, course.seed, given, place)
    course.say(f"predicted-index: exponent {power:g}, chosen on training windows")
    return ready


def _check_same(place: Path, given: Predictor | None) -> None:
    """Refuse to go on with another predictor than the training began with."""
    if given is None:
        return
    ours = Predictor.load(place).forest
    same = [np.array_equal(one, other, equal_nan=True) for one, other in zip(ours, given.forest, strict=True)]
    if not all(same):
        raise UsageError(f"{place.parent}: the training began with another predictor; --force begins anew")


def best_power(
    trace: Trace, task: Any, parts: Sequence[Any], jobs: int, seed: int, made: Predictor, place: Path
) -> float:
    """Return the exponent that is best on training windows, by the geometric mean, and save it with the predictor."""
    costs = {}
    for power in POWERS:
        dataclasses.replace(made, power=power).save(place, force=True)
        source = EpisodeSource(trace, task)
        windows = windows_from(source, parts, CHOOSING, jobs, [seed, 50])
        costs[power] = float(np.log(np.maximum(source.policy_costs(windows, ["predicted-index"]), 1e-9)).mean())
    best = min(POWERS, key=lambda power: costs[power])
    dataclasses.replace(made, power=best).save(place, force=True)
    return best


def newborn_predictor(task: Any, out: Path) -> Any:
    """Return the task with a predictor that has learnt nothing, for agents that have learnt nothing."""
    untrained().save(out / PREDICTOR, force=True)
    return dataclasses.replace(task, predict=str(out / PREDICTOR))
