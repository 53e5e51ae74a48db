"""Where training windows come from: the training part of the trace, the same at other loads, and other traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracekit.sim.agents.config import Config
from tracekit.sim.agents.splits import windows_from
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.rewards import Baseline
from tracekit.sim.windows import Span, Window
from tracekit.trace import Trace
from tracekit.transform.scaling import stretch


@dataclass(frozen=True, eq=False)
class Ground:
    """Jobs that training windows are drawn from, and what plays them."""

    episodes: EpisodeSource
    parts: tuple[Span, ...]
    batch: Any
    baseline: Baseline

    def windows(self, count: int, jobs: int, key: Sequence[int]) -> list[Window]:
        """Draw windows."""
        return windows_from(self.episodes, self.parts, count, jobs, key)


def batch_for(episodes: EpisodeSource, config: Config) -> Any:
    """Return what plays training windows; run times are predicted once a window, unless the settings say otherwise."""
    batch = episodes.task.batch(episodes, lanes=min(config.windows, 256), threads=config.threads or None)
    if not config.live and hasattr(batch, "freeze"):
        batch.freeze()
    return batch


def at_load(trace: Trace, factor: float) -> Trace:
    """Return the same jobs at so many times the load; submits of jobs do not depend on jobs after them."""
    return stretch(trace, 1 / factor, step=f"inter-arrivals divided by {factor:g}")


def more_sources(
    trace: Trace, kinds: Sequence[tuple[Any, tuple[Span, ...]]], loads: Sequence[float], others: Sequence[Trace]
) -> list[tuple[EpisodeSource, tuple[Span, ...]]]:
    """Return what else windows are drawn from, with the parts to draw from: the trace at other loads, other traces.

    ``kinds`` are tasks, one for each part of the trace that has its own, with the constants of the trace, so that all
    are seen on one scale. Other traces are played with the last of them.
    """
    found = []
    for factor in loads:
        if factor != 1:
            found += [(EpisodeSource(at_load(trace, factor), task), parts) for task, parts in kinds]
    for other in others:
        source = EpisodeSource(other, kinds[-1][0])
        found.append((source, ((0, len(source)),)))
    return found


def drawn(grounds: Sequence[Ground], key: Sequence[int]) -> Ground:
    """Return the ground of an iteration: each is as likely as any other."""
    if len(grounds) == 1:
        return grounds[0]
    return grounds[int(np.random.default_rng(key).integers(len(grounds)))]
