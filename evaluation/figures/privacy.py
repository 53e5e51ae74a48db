"""How near synthetic jobs come to the real ones, beside what fresh real jobs do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from evaluation.figures.base import INK, REAL, Drawing, blank, label
from evaluation.score import Scored
from tracekit.plots.style import NothingToDraw

SHARES = {
    "privacy.exact_copies": "exact copies of a real job",
    "privacy.near_copies": "nearer than the nearest 5 % of fresh jobs",
    "privacy.user_linkage": "users recognised by their week",
}


def copies(everyone: Sequence[Scored], looks: Mapping[str, Mapping[str, Any]]) -> Drawing:
    """Draw the shares of copies of every trace, and the hold-out's own share as a line."""
    keys = [key for key in SHARES if any(key in s.scores and np.isfinite(s.scores[key].value) for s in everyone)]
    if not keys:
        raise NothingToDraw("privacy was not measured: it needs real jobs that the models were not fitted on")
    figure, axes = blank(11, 1.2 + 0.3 * len(everyone), columns=len(keys), sharey=True)
    rows = []
    for axis, key in zip(axes, keys, strict=True):
        for k, scored in enumerate(everyone):
            score = scored.scores[key]
            if np.isnan(score.value):
                continue
            axis.barh(k, 100 * score.value, height=0.62, color=looks.get(scored.name, {}).get("color", "#8a8a8a"))
            if np.isfinite(score.real):
                axis.plot([100 * score.real] * 2, [k - 0.42, k + 0.42], color=REAL, linewidth=2.2)
            rows.append({"key": key, "trace": scored.name, "share": score.value, "holdout": score.real})
        axis.set(xlim=(0, 100), ylim=(len(everyone) - 0.4, -0.6), xlabel="%")
        axis.set_title(SHARES[key], color=INK, fontsize=10)
        axis.grid(visible=False, axis="y")
        axis.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(everyone)), [label(scored.name) for scored in everyone])
    data = pd.DataFrame(rows)
    first = data[data["key"] == keys[0]]
    words = f"Bars: shares of {SHARES[keys[0]]}: " + ", ".join(
        f"{trace} {share:.0%}" for trace, share in zip(first["trace"], first["share"], strict=True)
    )
    return Drawing(figure, data, words + ". A line marks what fresh real jobs reach.")
