"""The reward of each decision, relative to a base policy on the same window at the same time.

The base policy meets the same arrivals, so the difficulty of a window cancels out of the difference. Where
the objective is a mean over jobs, the reward is dense: the sum of rewards from a decision on is the base
policy's remaining cost from that moment on, less the agent's remaining cost, in units of the base policy's total cost.
Otherwise the reward comes at the end of the window.

The critic's inputs may depend on the base policy's whole schedule, because the agent cannot change it, but not on later
actions of the agent: a baseline that depends on later actions biases the gradient. (One exception is left: the rate of
cost is taken just after the choice, so it reveals something of the choice itself.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.tasks.played import Played, cost_to_go
from tracekit.sim.windows import Window

Floats = NDArray[np.float64]

#: Inputs of the critic alone, besides the jobs: the elapsed share of the base policy's schedule, the number of jobs,
#: the base policy's remaining cost and waiting jobs at that time, the rate of cost of base policy and agent, and their
#: difference.
CRITIC_INPUTS = 7


class Baseline:
    """A heuristic's schedules of windows, each computed once."""

    def __init__(self, source: Any, policy: str, *, greedy: bool = False) -> None:
        self.source, self.policy, self.greedy = source, policy, greedy
        self._starts: dict[Window, Floats] = {}

    def starts(self, window: Window) -> Floats:
        """Return the starts of the window's jobs under the policy."""
        if window not in self._starts:
            if len(self._starts) > 4096:
                self._starts.clear()
            self._starts[window] = self.source.schedule(window, self.policy, greedy=self.greedy)
        return self._starts[window]

    def cost(self, window: Window) -> float:
        """Return what that schedule costs."""
        return float(self.source.cost(window, self.starts(window)))


def relative(cost: Floats, base: Floats, least: float = 0.0) -> Floats:
    """Return (base − cost) / max(|base|, |cost|, least): 0 as good as the base policy, towards 1 better, −1 worse."""
    scale = np.maximum(np.maximum(np.abs(base), np.abs(cost)), least)
    return np.divide(base - cost, scale, out=np.zeros_like(cost), where=scale > 0)


def final_rewards(
    played: Played, windows: Sequence[Window], baseline: Baseline, least: float
) -> tuple[Floats, NDArray[np.float32]]:
    """Return `relative` rewards at each window's last decision, and inputs of the critic that know nothing of costs."""
    reward, context = np.zeros(len(played)), np.zeros((len(played), CRITIC_INPUTS), np.float32)
    context[:, 1] = np.log1p(played.count) / 5
    base = np.array([baseline.cost(window) for window in windows])
    last = np.flatnonzero(played.last)
    reward[last] = relative(played.score, base, least)[played.window[last]]
    first = np.searchsorted(played.window, played.window)
    context[:, 0] = (np.arange(len(played)) - first) / 1000
    return reward, context


def rewards(
    played: Played, windows: Sequence[Window], baseline: Baseline, *, dense: bool
) -> tuple[Floats, NDArray[np.float32]]:
    """Return the reward of each decision, (decisions,), and the critic's inputs, (decisions, CRITIC_INPUTS)."""
    reward, context = np.zeros(len(played)), np.zeros((len(played), CRITIC_INPUTS), np.float32)
    dense = dense and len(played.left) == len(played)
    edges = np.searchsorted(played.window, np.arange(len(windows) + 1))
    context[:, 1] = np.log1p(played.count) / 5
    for number, window in enumerate(windows):
        part = slice(edges[number], edges[number + 1])
        if part.start == part.stop:
            continue
        base = baseline.cost(window)
        unit = max(abs(base), 1e-9)
        if not dense:
            reward[part.stop - 1] = (base - played.score[number]) / unit
            context[part, 0] = np.arange(part.stop - part.start) / 1000
            continue
        episode, times = baseline.source.episode(window), played.time[part]
        start = np.asarray(baseline.starts(window))
        count, task, done = episode.counted.sum(), baseline.source.task, np.isfinite(start)
        submit, run, start = episode.ready.table.submit[done], episode.ready.run[done], start[done]
        theirs, pace = cost_to_go(task.objectives, task.switches.bound, submit, run, start, times)
        ours, own_pace = played.left[part].T
        ahead = (theirs / count - ours) / unit
        reward[part] = ahead - np.append(ahead[1:], 0.0)
        waiting = np.searchsorted(submit, times, "right") - np.searchsorted(np.sort(start), times, "right")
        length = max(float(start.max() - submit.min()), 1.0)
        context[part, 0] = (times - submit.min()) / length
        context[part, 2] = theirs / count / unit
        context[part, 3] = np.log1p(np.maximum(waiting, 0)) / 5
        context[part, 4] = np.log1p(pace / count * length / unit)
        context[part, 5] = np.log1p(own_pace * length / unit)
        context[part, 6] = context[part, 5] - context[part, 4]
    return reward, context
