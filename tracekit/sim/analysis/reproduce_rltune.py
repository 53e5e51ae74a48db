"""RLTune's base policies, recomputed with its own semantics: windows of consecutive jobs, greedy placement.

Arya et al., "RLTune", SoCC 2025 (github.com/dshruti20/RLTune). Its paper prints no table of these numbers.
"""

from __future__ import annotations

import hashlib
import operator
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from tracekit.errors import TracekitError
from tracekit.sim.hosts.placements import Placements
from tracekit.sim.hosts.rltune_demand import RLTuneStops
from tracekit.sim.jobs import Table, extract_jobs
from tracekit.sim.policies.rltune import BROKEN, FORMULAS
from tracekit.sim.simulate import SimResult, run_table
from tracekit.sim.switches import Switches
from tracekit.trace import Trace

POLICIES = tuple(FORMULAS)
WINDOW_JOBS, ITERATIONS, SEED = 256, 10, 1
#: The measures of a cell, as the command prints them.
MEASURES = ("bsld", "wait", "turnaround", "utilization", "makespan_starts", "scheduled", "dropped")


@dataclass(frozen=True)
class Window:
    """One window under one policy: its measures, and the start of every scheduled job in the order of starts."""

    start: int  # position of the first job by submit time
    values: dict[str, float]
    started: tuple[tuple[int, float], ...]  # (row in the trace, start in seconds)


def window_starts(jobs: int, length: int = WINDOW_JOBS, count: int = ITERATIONS, seed: int = SEED) -> list[int]:
    """Return the first jobs of the windows as RLTune's scripts draw them (the generator of gym 2019, seeded)."""
    words = hashlib.sha512(str(seed).encode()).digest()[:8]
    draw = np.random.RandomState([int.from_bytes(words[:4], "little"), int.from_bytes(words[4:], "little")])
    return [int(draw.randint(0, max(1, jobs - length))) for _ in range(count)]


def jobs_of(trace: Trace, cluster: str) -> tuple[Table, Switches]:
    """Return the jobs by submit time, and the switches."""
    switches = Switches(compat="rltune", cluster=cluster)
    jobs = extract_jobs(trace, switches.resolved())
    return jobs.take(np.argsort(jobs.submit, kind="stable")), switches


def run_window(jobs: Table, switches: Switches, start: int, length: int, policy: str, *, backfill: bool) -> Window:
    """Simulate one window; `RLTuneStops` where RLTune's own code stops."""
    window = jobs.window(start, length)
    result = run_table(window, policy, "easy" if backfill else "none", switches)
    return Window(start, *_measured(window, result))


def _measured(window: Table, result: SimResult) -> tuple[dict[str, float], tuple[tuple[int, float], ...]]:
    """Return the measures by RLTune's definitions, summed in the order of starts as its code does."""
    places = result.hosts
    assert isinstance(places, Placements)
    order = np.argsort(places.span[:, 0], kind="stable")
    columns = (result.submit, result.start, result.run, result.procs)
    rows = list(zip(*(column[order].tolist() for column in columns), strict=True))
    count = len(rows)
    dropped = ~np.isin(window.position, result.position)
    last = max(float(result.end.max()), float(window.submit[dropped].max(initial=-np.inf)))
    capacity = max(1.0, (last - float(window.submit[0])) * window.total)
    picked = result.start[places.filled == 0]
    if not len(picked):
        raise RLTuneStops("no job is started: RLTune's code stops with a ValueError")
    values: dict[str, float] = {
        "bsld": _sum(max(1.0, (start - submit + run) / max(run, 10)) / count for submit, start, run, _ in rows),
        "wait": _sum((start - submit) / count for submit, start, _, _ in rows),
        "turnaround": _sum((start - submit + run) / count for submit, start, run, _ in rows),
        "utilization": _sum(run * gpus / capacity for _, _, run, gpus in rows),
        "makespan_starts": float(picked.max() - picked.min()),
        "scheduled": count,
        "dropped": int(dropped.sum()),
    }
    return values, tuple(zip(result.position[order].tolist(), result.start[order].tolist(), strict=True))


def _sum(values: Iterable[float]) -> float:
    """Add up one by one; from Python 3.12 on ``sum`` corrects its rounding, which changes the last digit."""
    return reduce(operator.add, values, 0.0)


def rltune(
    trace: Trace,
    cluster: str,
    *,
    length: int = WINDOW_JOBS,
    count: int = ITERATIONS,
    policies: Sequence[str] = POLICIES,
) -> dict[str, Any]:
    """Return the windows and a cell for each base policy, without and with backfilling: means over the windows."""
    jobs, switches = jobs_of(trace, cluster)
    if len(jobs) < length:
        raise TracekitError(f"a window has {length:,} jobs, but the trace has only {len(jobs):,}; give --jobs N")
    starts = window_starts(len(jobs), length, count)
    cells = [
        _cell(jobs, switches, starts, length, policy, backfill=backfill)
        for backfill in (False, True)
        for policy in policies
    ]
    return {"windows": starts, "cells": cells}


def _cell(
    jobs: Table, switches: Switches, starts: list[int], length: int, policy: str, *, backfill: bool
) -> dict[str, Any]:
    """Return the means of one policy; null values and a note where RLTune's own code stops."""
    cell: dict[str, Any] = {"policy": policy, "backfill": backfill, "allocate": "lexicographic"}
    notes = []
    if policy in BROKEN:
        notes.append("RLTune's code stops with an AttributeError as published; computed with the attribute added")
    try:
        made = [run_window(jobs, switches, start, length, policy, backfill=backfill) for start in starts]
    except RLTuneStops as stop:
        notes.append(str(stop))
        cell |= dict.fromkeys(MEASURES)
    else:
        cell |= {name: statistics.mean([window.values[name] for window in made]) for name in MEASURES}
    cell["published"] = None
    return cell | ({"note": "; ".join(notes)} if notes else {})
