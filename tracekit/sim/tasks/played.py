"""Records of played episodes: the decisions, packed, and their costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.tasks.objectives import Objective

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Played:
    """Decisions, window after window in the order in which they were made; D decisions on R rows in W windows.

    Decisions without a choice are not kept; their costs count with the decision before.
    """

    rows: NDArray[np.float32]  # (R, features) the options, and skipping where that is allowed
    first: Ints  # (D,) a decision's first row …
    count: Ints  # (D,) … and how many it has
    chosen: Ints  # (D,) which of its rows was chosen
    window: Ints  # (D,) number of the window
    time: Floats  # (D,) seconds, when it was made
    last: NDArray[np.bool_]  # (D,) is it the window's last?
    score: Floats  # (W,) cost of each window; smaller is better
    left: Floats  # (D, 2) what the window cost from then on, and how fast it grew (per second), both per job; empty
    # where the objective cannot be divided over time
    skips: NDArray[np.bool_]  # (D,) whether its last row is skipping
    slots: int
    action: Floats = field(default_factory=lambda: np.empty(0))  # (R,) priorities, where actions are such; else empty
    earned: Floats = field(default_factory=lambda: np.empty(0))  # (D,) the environment's own rewards, where it has them
    starts: tuple[Floats, ...] = ()  # (W) starts of each window's jobs

    def __len__(self) -> int:
        return len(self.count)


def joined(parts: Sequence[Played]) -> Played:
    """Return the windows of several records, one after the other."""
    names = ("rows", "count", "chosen", "time", "last", "score", "left", "skips", "action", "earned")
    made = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    windows = np.cumsum([0, *(len(part.score) for part in parts)]).tolist()
    window = np.concatenate([part.window + before for part, before in zip(parts, windows, strict=False)])
    starts = tuple(start for part in parts for start in part.starts)
    first = np.cumsum(made["count"]) - made["count"]
    return Played(**made, first=first, window=window, slots=parts[0].slots, starts=starts)


def cost_to_go(
    objectives: Objective, bound: float, submit: Floats, run: Floats, start: Floats, times: Floats
) -> tuple[Floats, Floats]:
    """Return what a schedule costs from each of ``times`` on, and how fast it grows then, both summed over jobs.

    The wait before that time no longer counts. A job that waits costs at a constant rate (for the bounded slowdown
    1 / max(run, bound), from where its slowdown exceeds 1), so the total cost is piecewise linear.
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
