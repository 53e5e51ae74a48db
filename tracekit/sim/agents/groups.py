"""Group-relative advantages: a window is played several times, and each play is measured against the others.

Shao et al., "DeepSeekMath: pushing the limits of mathematical reasoning in open language models", 2024, call it group
relative policy optimisation. No critic is learnt: what is hard about a window is the same for all of its plays. Where
the objective is a mean over jobs, a decision is measured by what its play still had to pay from that moment on, less
what the other plays of the window had to pay from the same moment on (leave one out), so that it is not blamed for
what came before it. The unit is the mean cost of the window's plays, so that every window counts alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.tasks.played import Played

Floats = NDArray[np.float64]


def group_advantages(played: Played, plays: int) -> Floats:
    """Return the advantage of every decision, (decisions,); ``plays`` windows in a row are plays of the same one."""
    edges = np.searchsorted(played.window, np.arange(len(played.score) + 1))
    found = np.zeros(len(played))
    dense = len(played.left) == len(played)
    for first in range(0, len(played.score), plays):
        group = range(first, first + plays)
        score = played.score[first : first + plays]
        unit = max(float(np.abs(score).mean()), 1e-9)
        parts = [slice(edges[number], edges[number + 1]) for number in group]
        there = [part for part in parts if part.stop > part.start]
        for number, part in zip(group, parts, strict=True):
            if part.stop == part.start:
                continue
            if not dense:
                found[part] = (score.sum() - played.score[number]) / (plays - 1) - played.score[number]
            else:
                times, others = played.time[part], [other for other in there if other is not part]
                left = [np.interp(times, played.time[other], played.left[other, 0]) for other in others]
                found[part] = (np.mean(left, axis=0) if left else 0.0) - played.left[part, 0]
            found[part] /= unit
    return found
