"""What a training begins with: its output and data, and lessons from a teacher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UsageError
from tracekit.sim.agents.against import mean
from tracekit.sim.agents.config import Config
from tracekit.sim.agents.evaluate import INDEX, heuristics_of
from tracekit.sim.agents.rollout import play
from tracekit.sim.agents.splits import Split, windows_from
from tracekit.sim.tasks.base import Batch
from tracekit.sim.tasks.pick_job.task import TEACHERS
from tracekit.sim.tasks.played import joined
from tracekit.sim.windows import Window

if TYPE_CHECKING:
    from tracekit.sim.agents.networks import ActorCritic

Floats = NDArray[np.float64]
Say = Callable[[str], None]
#: ``imitate:chosen``: like the heuristic that is best on training windows.
CHOSEN = "chosen"
#: What a draw is for, after the seed, as in `tracekit.sim.agents.training`.
LESSON_WINDOWS = 13
NOTHING = (
    "no two jobs ever wait at once in these windows, so there is nothing to learn; use longer windows (jobs), or "
    "raise the load (tracekit scale --load)"
)


class NothingToLearn(TracekitError):
    """Raised when no two jobs ever wait at once in any window, so that there is nothing to choose."""


@dataclass(frozen=True)
class Course:
    """The output of a training, its starting point and its data."""

    out: Path
    seed: int
    init: str | None
    parts: Split
    source: dict[str, Any]  # where the trace comes from
    say: Say
    start: str = ""  # what imitate:chosen means; empty: it is chosen among the heuristics


def imitate(
    name: str | None, model: ActorCritic, batch: Batch, course: Course, config: Config, identity: dict[str, Any]
) -> dict[str, float]:
    """Teach the actor the choices of a teacher; None: of a searched weighted sum of the features.

    With ``teacher_rounds``, the teacher also labels what the actor itself comes to, and the actor learns again.
    """
    from tracekit.sim.agents.imitation import Shelf, clone, lessons, visited_lessons
    from tracekit.sim.agents.search import linear, search

    def windows(count: int, *key: int) -> list[Window]:
        draw = [course.seed, LESSON_WINDOWS, *key]
        return windows_from(batch.source, course.parts.train, count, config.jobs, draw)

    if config.teacher_rounds and (name is None or not callable(batch.task.teacher(batch, windows(1, 1), name)[0])):
        raise UsageError(
            "teacher_rounds are for teachers in Python, such as imitate:search; formulas are repeated without them"
        )
    shown, told = windows(config.teacher_windows, 1), {}
    if name == CHOSEN:
        name = course.start or chosen(batch, windows(config.teacher_windows, 4), config.validate_by)
    if name is not None and (weights := weights_of(name, batch.task)) is not None and not config.hidden:
        course.say(f"beginning as {name}")
        become(model, weights / config.soften)
        return {"imitation_loss": 0.0, "imitation_agreement": 1.0}
    if name is not None:
        course.say(f"imitating {name} on {len(shown)} windows")
        played = lessons(batch, shown, name, Shelf(course.out, identity, course.say))
    else:
        course.say(f"searching for weights of the features, {config.search_rounds} rounds")
        weights, found = search(batch, lambda number: windows(config.search_windows, 2, number), config, course.seed)
        told = {f"search_{key}": value for key, value in found.items()}
        if not config.hidden:
            become(model, weights)
            return told
        played = play(batch, shown, linear(weights))
    if not len(played):
        raise NothingToLearn(NOTHING)
    agreed = clone(model, played, config, course.seed)
    for number in range(1, config.teacher_rounds + 1):
        course.say(f"round {number}: {name} labels what the agent came to")
        visited = visited_lessons(batch, windows(config.teacher_windows, 3, number), str(name), model)
        played = joined([played, visited])
        agreed = clone(model, played, config, course.seed)
    return told | {f"imitation_{key}": value for key, value in agreed.items()}


#: Features that order jobs as a heuristic does, and how much more likely a better job shall be.
_ALIKE = {"saf": "area", "sjf": "request", "smallest": "size", INDEX: "predicted-index"}
_SHARP, _SHARP_PLACE = 100.0, 10.0


def weights_of(name: str, task: Any) -> Floats | None:
    """Return weights of the features, (features,), by which a weighted sum chooses exactly like a heuristic, or None.

    The base policy of the task is one where feature base-place is shown.
    """
    names = list(task.feature_names)
    placed = "base-place" in names and name == getattr(task, "base", None)
    feature = "base-place" if placed else _ALIKE.get(name, "")
    if feature not in names:
        return None
    found = np.zeros(len(names))
    found[names.index(feature)] = -(_SHARP_PLACE if placed else _SHARP)
    return found


def become(model: ActorCritic, weights: Floats) -> None:
    """Give an actor that is a weighted sum (no ``hidden`` layers) its weights, (features,)."""
    from tracekit.sim.agents.networks import load_flat

    load_flat(model.actor, np.append(weights, 0.0).astype(np.float32))


def chosen(batch: Batch, windows: list[Window], by: str) -> str:
    """Return the heuristic, predicted-index among them, that is best on some windows."""
    task = batch.source.task
    known = [name for name in heuristics_of(task) if name in TEACHERS]
    if getattr(task, "predict", None):
        known.append(INDEX)
    costs = [mean(column, by) for column in batch.source.policy_costs(windows, known).T]
    return known[int(np.argmin(costs))]
