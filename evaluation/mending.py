"""Repairs of a synthetic trace before it is given away: labels, names, dates and seconds; and what they cost.

What repeats users or jobs cannot be repaired, only made anew (``tracekit synth --for-sharing``).
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from evaluation.score import score
from tracekit.anonymize import anonymize
from tracekit.trace import Trace

#: Submit times and waits become multiples of this many seconds.
ROUNDED = 60.0
NAMELESS = "synthetic machine"
#: Scores that are compared before and after, where there are such.
COMPARED = (
    "ks.mean",
    "ks.interarrival",
    "correlation.mad_spearman",
    "c2st.auc",
    "hour_of_week.tv",
    "sessions.think_time",
    "offered_load",
)


def mended(trace: Trace, key: bytes | None = None) -> tuple[Trace, list[str]]:
    """Return a trace with new labels, no texts, a new machine name, moved dates and whole minutes, and what was done.

    The key of the labels is random and not kept. Dates move by whole weeks, so hours of the week stay.
    """
    done = ["users, groups, projects and programs have new labels; the key was not kept"]
    done.append("header lines, notes, history and extra columns are removed")
    dated = trace.machine.epoch is not None
    made = anonymize(trace, key or secrets.token_bytes(32), shift="key" if dated else None)
    if dated:
        done.append("all dates are moved back by a random number of weeks")
    made = made.replace(machine=made.machine.replace(name=NAMELESS))
    done.append(f"the machine is called '{NAMELESS}'")
    rounded: dict[str, Any] = {}
    for name in ("submit_time", "wait_time"):
        values = made.column(name) if name in made.jobs.columns else np.empty(0)
        if np.isfinite(values).any():
            rounded[name] = np.floor(values / ROUNDED) * ROUNDED
    done.append("submit times and waits are whole minutes")
    return made.assign(rounded, step="times rounded to minutes"), done


def cost(real: Trace, before: Trace, after: Trace, *, seed: int = 0) -> dict[str, dict[str, float]]:
    """Return what a repair changed: scores of both traces against the real one, by key."""
    families = ["marginal", "joint", "time", "load"]
    found = [
        score(real, one, families=families, baselines=False, floor=False, quick=True, seed=seed).synthetic[0].scores
        for one in (before, after)
    ]
    return {
        key: {"before": float(found[0][key].value), "after": float(found[1][key].value)}
        for key in COMPARED
        if all(key in scores and np.isfinite(scores[key].value) for scores in found)
    }
