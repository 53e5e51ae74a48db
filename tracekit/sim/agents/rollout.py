"""Playing windows: an agent (or a teacher) decides in many windows side by side, and what happened is written down.

A window is played from end to end by one compiled call, environment and network together, without Python's lock.
Whatever is drawn depends on the window's own key, so neither the number of threads nor the company of other windows
changes a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.sim.agents.inference import Net, Scratch, no_net, room
from tracekit.sim.agents.play import (
    BROKEN,
    FULL,
    GREEDY,
    IMITATE,
    OVER,
    PLACING,
    SAMPLE,
    Manner,
    Tape,
    blank,
    play_lane,
)
from tracekit.sim.policies.formulas import UNICEP, WFP3
from tracekit.sim.tasks.objectives import Objective
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.windows import Window

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Decisions and rows that a tape has room for before it is copied away.
_TAPE = (4096, 131_072)


@dataclass(frozen=True, eq=False)
class Played:
    """Decisions, window after window in the order in which they were made; D decisions on R rows in W windows.

    Decisions without a choice are not kept; what followed from them is counted with the decision before.
    """

    rows: NDArray[np.float32]  # (R, features) the jobs that were there, and skipping where that is allowed
    first: Ints  # (D,) a decision's first row …
    count: Ints  # (D,) … and how many it has
    chosen: Ints  # (D,) which of its rows was chosen
    window: Ints  # (D,) number of the window
    time: Floats  # (D,) seconds, when it was made
    last: NDArray[np.bool_]  # (D,) is it the window's last?
    score: Floats  # (W,) cost of each window; smaller is better
    left: Floats  # (D, 2) what the window cost from then on, and how fast it grew (per second), both per job; empty
    # where the objective cannot be told by time
    skips: NDArray[np.bool_]  # (D,) does its last row stand for skipping?
    slots: int

    def __len__(self) -> int:
        return len(self.count)


@dataclass(eq=False)
class _Window:
    """What happened in one window: pieces of tape, what it cost, and what was still to come at each decision."""

    pieces: list[tuple[NDArray[Any], ...]]  # rows, count, chosen, time, skips
    score: float
    left: Floats


def play(
    batch: Batch,
    windows: Sequence[Window],
    net: Net | None,
    *,
    keys: NDArray[np.uint64] | None = None,
    teacher: Ints | None = None,
    keep: bool = True,
) -> Played:
    """Play windows to their ends, in as many threads as the batch says; with ``keys`` by chance, else greedily.

    A ``teacher``, the number of a formula for each window, decides in place of the network. ``keep`` = False writes
    down scores only.
    """
    played: list[_Window] = []
    chosen = net or no_net()
    threads = max(1, min(batch.threads, len(windows), batch.lanes))
    with ThreadPoolExecutor(threads) as pool:
        for begin in range(0, len(windows), batch.lanes):
            some = windows[begin : begin + batch.lanes]
            batch.reset(range(len(some)), some)
            edges = [len(some) * i // threads for i in range(threads + 1)]

            def part(number: int, edges: list[int] = edges, begin: int = begin) -> list[_Window]:
                scratch = room(chosen, batch.task.slots + 1)
                width = batch.features.shape[2]
                tape = blank(*(_TAPE if keep else (0, 0)), width)
                return [
                    _play(batch, lane, chosen, _manner(batch, begin + lane, keys, teacher), scratch, tape)
                    for lane in range(edges[number], edges[number + 1])
                ]

            played += [window for windows in pool.map(part, range(threads)) for window in windows]
    return _joined(played, batch)


def _play(batch: Batch, lane: int, net: Net, manner: Manner, scratch: Scratch, tape: Tape) -> _Window:
    """Play the window in a lane."""
    arrays, turn, pieces = batch.arrays, np.zeros(1, np.int64), []
    ended = FULL
    while ended != OVER:
        tape.used[:] = 0
        ended = play_lane(arrays, batch.rules, lane, net, manner, scratch, tape, turn)
        while ended == PLACING:
            batch.place_jobs([lane])
            ended = play_lane(arrays, batch.rules, lane, net, manner, scratch, tape, turn)
        if ended == BROKEN:
            raise TracekitError("the network's scores are not numbers; the agent is damaged or has diverged")
        made, rows = tape.used
        pieces.append((tape.rows[:rows].copy(), *(part[:made].copy() for part in tape[1:5])))
    start, jobs = batch.starts(lane), slice(0, int(arrays.length[lane]))
    left = np.empty((0, 2))
    if len(tape.size) and batch.task.objectives.additive:
        time = np.concatenate([piece[3] for piece in pieces])
        schedule = arrays.jobs.submit[lane, jobs], arrays.jobs.run[lane, jobs], start
        left = np.stack(cost_to_go(batch.task.objectives, batch.task.switches.bound, *schedule, time), 1)
        left /= arrays.question["counted"][lane]
    return _Window(pieces, batch.source.cost(batch.windows[lane], start), left)


def _manner(batch: Batch, number: int, keys: NDArray[np.uint64] | None, teacher: Ints | None) -> Manner:
    """Return how the window of a number is played."""
    mode = IMITATE if teacher is not None else GREEDY if keys is None else SAMPLE
    code = 0 if teacher is None else int(teacher[number])
    as_coded = batch.task.switches.compat is not None and code in (WFP3, UNICEP)
    key = np.uint64(0) if keys is None else keys[number]
    return Manner(mode, key, code, as_coded, batch.source.table.total)


def cost_to_go(
    objectives: Objective, bound: float, submit: Floats, run: Floats, start: Floats, times: Floats
) -> tuple[Floats, Floats]:
    """Return what a schedule costs from each of ``times`` on, and how fast it grows then, both summed over jobs.

    What a job waited before is settled. A job that waits costs at a constant rate (for the bounded slowdown
    1 / max(run, bound), from where its slowdown exceeds 1), so that the whole cost is a broken line.
    """
    bounded, plain, wait, response = objectives.weights()
    total, pace = np.zeros(len(times)), np.zeros(len(times))
    for free, rate in (
        (np.maximum(bound - run, 0.0), bounded / np.maximum(run, bound)),
        (np.zeros(len(run)), plain / np.maximum(run, 1.0) + wait + response),
    ):
        begin = submit + free
        waited = np.flatnonzero((start > begin) & (rate != 0))
        if not len(waited):
            continue
        at = np.concatenate([begin[waited], start[waited]])
        order = np.argsort(at, kind="stable")
        at, slope = at[order], np.cumsum(np.concatenate([rate[waited], -rate[waited]])[order])
        spent = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(at))])
        place = np.searchsorted(at, times, side="right") - 1
        known = np.maximum(place, 0)
        now = np.where((place >= 0) & (times < at[-1]), slope[known], 0.0)
        so_far = np.where(place >= 0, spent[known] + now * (times - at[known]), 0.0)
        total += np.maximum(spent[-1] - so_far, 0.0)
        pace += np.maximum(now, 0.0)
    return total, pace


def _joined(played: Sequence[_Window], batch: Batch) -> Played:
    """Put the windows together."""
    pieces = [piece for window in played for piece in window.pieces]
    rows, count, chosen, time, skips = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
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
    )
