"""Playing windows: an agent (or a teacher) decides in many windows side by side, and the decisions are recorded.

Where a task has compiled code for it and the network a compiled forward pass, a window is played from end to end by
one compiled call, without Python's lock; else step by step, slower and with the same outcome. Whatever is drawn depends
on the window's own key, so neither the number of threads nor the other windows change a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.registry import imported
from tracekit.sim.agents.actor import Actor
from tracekit.sim.agents.inference import Net, no_net
from tracekit.sim.tasks.base import Batch
from tracekit.sim.tasks.played import Played, cost_to_go
from tracekit.sim.windows import Window

Floats = NDArray[np.float64]
Piece = tuple[NDArray[Any], ...]  # rows, count, chosen, time, skips, and priorities or what was earned, if any


@dataclass(eq=False)
class _Window:
    """One played window: pieces of tape, its cost, and the cost still to come at each decision."""

    pieces: list[Piece]
    score: float
    left: Floats
    start: Floats


def play(
    batch: Batch,
    windows: Sequence[Window],
    actor: Net | Actor | None,
    *,
    keys: NDArray[np.uint64] | None = None,
    teacher: Any = None,
    teacher_labels: bool = False,
    keep: bool = True,
) -> Played:
    """Play windows to their ends, in the batch's number of threads; with ``keys`` choices are sampled, else greedy.

    A ``teacher`` (`tracekit.sim.tasks.base.Task.teacher`: one entry for each window) decides in place of the network.
    With ``teacher_labels`` the network decides, and the teacher's choices are recorded in place of its own.
    ``keep`` = False records scores only.
    """
    chosen = Actor(actor) if isinstance(actor, Net) else actor or Actor(no_net())
    played: list[_Window] = []
    for begin in range(0, len(windows), batch.lanes):
        some = slice(begin, min(begin + batch.lanes, len(windows)))
        batch.reset(range(some.stop - begin), windows[some])
        key, own = (None if given is None else given[some] for given in (keys, teacher))
        if batch.player is not None and chosen.net is not None and not teacher_labels:
            played += _play_compiled(batch, some.stop - begin, chosen.net, key, own, keep)
        else:
            played += _play_steps(batch, some.stop - begin, chosen, key, own, keep, teacher_labels)
    return _joined(played, batch)


def _play_compiled(batch: Batch, lanes: int, net: Net, keys: Any, teacher: Any, keep: bool) -> list[_Window]:
    """Play the windows of the first lanes by the task's compiled code, in threads."""
    one = imported(str(batch.player))
    threads = max(1, min(batch.threads, lanes))
    edges = [lanes * i // threads for i in range(threads + 1)]

    def window(lane: int) -> _Window:
        key, own = (None if given is None else given[lane] for given in (keys, teacher))
        return _finished(batch, lane, one(batch, lane, net, key, own, keep=keep), keep)

    def part(number: int) -> list[_Window]:
        return [window(lane) for lane in range(edges[number], edges[number + 1])]

    with ThreadPoolExecutor(threads) as pool:
        return [made for found in pool.map(part, range(threads)) for made in found]


def _play_steps(
    batch: Batch, lanes: int, actor: Actor, keys: Any, teacher: Any, keep: bool, labels: bool
) -> list[_Window]:
    """Play the windows of the first lanes step by step; a teacher's entry is called with (batch, lane)."""
    slots, vector = batch.task.slots, batch.task.actions_are == "priorities"
    rows: list[list[Any]] = [[] for _ in range(lanes)]
    turns = np.zeros(lanes, np.int64)
    while not batch.done[:lanes].all():
        actions = np.zeros((batch.lanes, slots) if vector else batch.lanes, np.float32 if vector else np.int64)
        for lane in np.flatnonzero(~batch.done[:lanes]):
            count = int(batch.count[lane])
            skip = batch.mask.shape[1] > slots and bool(batch.mask[lane, slots])
            if teacher is not None:
                label = teacher[lane](batch, int(lane))
            if teacher is not None and not labels:
                action = label
            elif count + skip == 1:
                action = np.zeros(1, np.float32) if vector else 0
            else:
                found = actor.distribution(batch.features[lane, :count], skip)
                action = found.best() if keys is None else found.draw(keys[lane], int(turns[lane]))
            turns[lane] += 1
            if keep and count + skip > 1:
                seen = batch.features[lane, :count].copy()
                seen = np.concatenate([seen, np.ones((1, seen.shape[1]), np.float32)]) if skip else seen
                rows[lane].append((seen, label if labels else action, batch.now(int(lane)), skip))
            if vector:
                actions[lane, :count] = action
            else:
                actions[lane] = action if action < count else slots
        batch.step(actions)
    return [_finished(batch, lane, [_piece(made, batch, vector)], keep) for lane, made in enumerate(rows)]


def _piece(made: list[Any], batch: Batch, vector: bool) -> Piece:
    """Return the decisions of one window as arrays."""
    width = len(batch.task.feature_names)
    seen, taken, time, skips = zip(*made, strict=True) if made else ((), (), (), ())
    count = np.array([len(rows) for rows in seen], np.int64)
    packed = np.concatenate(seen) if made else np.empty((0, width), np.float32)
    chosen = np.zeros(len(made), np.int64) if vector else np.array(taken, np.int64)
    piece = (packed, count, chosen, np.array(time, np.float64), np.array(skips, np.bool_))
    return (*piece, np.concatenate(taken).astype(np.float64) if made else np.empty(0)) if vector else piece


def _finished(batch: Batch, lane: int, pieces: list[Piece], keep: bool) -> _Window:
    """Return the record of a lane whose window is over."""
    start, window, task = batch.starts(lane), batch.windows[lane], batch.task
    left = np.empty((0, 2))
    if keep and task.objectives.additive:
        episode = batch.source.episode(window)
        time = np.concatenate([piece[3] for piece in pieces])
        plain = np.asarray(start)
        done = np.isfinite(plain)
        schedule = episode.ready.table.submit[done], episode.ready.run[done], plain[done]
        left = np.stack(cost_to_go(task.objectives, task.switches.bound, *schedule, time), 1)
        left /= episode.counted.sum() if np.isfinite(episode.opening) else len(start)
    return _Window(pieces, batch.source.cost(window, start), left, start)


def _joined(played: Sequence[_Window], batch: Batch) -> Played:
    """Concatenate the windows."""
    pieces = [piece for window in played for piece in window.pieces]
    rows, count, chosen, time, skips, *more = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    nothing, vector = np.empty(0), batch.task.actions_are == "priorities"
    made = [sum(len(piece[1]) for piece in window.pieces) for window in played]
    window = np.repeat(np.arange(len(played)), made)
    return Played(
        rows=rows,
        first=np.cumsum(count) - count,
        count=count,
        chosen=chosen,
        window=window,
        time=time,
        last=np.append(window[1:] != window[:-1], True) if len(window) else np.zeros(0, np.bool_),
        score=np.array([window.score for window in played]),
        left=np.concatenate([window.left for window in played]),
        skips=skips,
        slots=batch.task.slots,
        action=more[0] if vector else nothing,
        earned=more[0] if more and not vector else nothing,
        starts=tuple(window.start for window in played),
    )
