"""Many simulations at once, on every core: the compiled engine runs without Python's lock, so threads suffice."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.sim.comparing import METRICS
from tracekit.sim.jobs import Table, table
from tracekit.sim.policies import Policy
from tracekit.sim.simulate import SimResult, run_table
from tracekit.sim.switches import Switches
from tracekit.trace import Trace
from tracekit.transform.shaking import SECONDS, shake

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """One simulation to do."""

    jobs: Table
    policy: str | Policy
    backfill: str
    switches: Switches


def run_all(tasks: Iterable[Task], *, threads: int | None = None) -> list[SimResult]:
    """Run every task and return the results in the tasks' order, which does not depend on the number of threads."""
    tasks = list(tasks)
    threads = min(threads or os.cpu_count() or 1, len(tasks))
    if threads <= 1:
        return [_run(task) for task in tasks]
    first = _run(tasks[0])  # alone: compiles, and reports a mistake before threads are started
    with ThreadPoolExecutor(threads) as pool:
        return [first, *pool.map(_run, tasks[1:])]


def _run(task: Task) -> SimResult:
    return run_table(task.jobs, task.policy, task.backfill, task.switches)


def parse_window(text: str) -> tuple[int, int]:
    """Read ``START:COUNT``."""
    start, _, count = text.partition(":")
    if not (start.isdigit() and count.isdigit() and int(count) > 0):
        raise UsageError(f"window '{text}': write START:COUNT, such as 1981:1024")
    return int(start), int(count)


def draw_windows(jobs: int, windows: int, length: int, seed: int) -> list[tuple[int, int]]:
    """Return ``windows`` random windows of ``length`` consecutive jobs; the same seed gives the same ones."""
    if windows < 1 or length < 1:
        raise UsageError("--windows and --jobs must be at least 1")
    if length > jobs:
        raise UsageError(f"windows of {length:,} jobs do not fit into a trace of {jobs:,}")
    rng = np.random.default_rng(seed)
    return [(int(start), length) for start in rng.integers(0, jobs - length + 1, size=windows)]


def shaken_metrics(
    trace: Trace,
    switches: Switches,
    pairs: Sequence[tuple[str, str]],
    parts: Sequence[tuple[int, int]] = (),
    *,
    count: int,
    seconds: float = SECONDS,
    threads: int | None = None,
) -> dict[str, Floats]:
    """Simulate every (policy, backfilling) on ``count`` shaken inputs: for each metric (pairs, inputs), window means.

    The inputs are the same for all pairs, so that they can be compared input by input.
    """
    tables = []
    for number in range(count):
        whole = table(shake(trace, switches.seed, number, seconds=seconds), switches.resolved())
        tables.append([whole.window(*part) for part in parts] or [whole])
    tasks = [Task(jobs, p, b, switches) for p, b in pairs for windows in tables for jobs in windows]
    results = run_all(tasks, threads=threads)
    shape = (len(pairs), count, len(parts) or 1)
    found = {}
    for metric in METRICS:
        values = np.array([result.metrics[metric] for result in results], dtype=np.float64).reshape(shape)
        found[metric] = values.mean(axis=2)
    return found


def mean_summary(results: Sequence[SimResult]) -> dict[str, object]:
    """Return the mean of every number in the windows' summaries."""
    summaries = [result.summary() for result in results]
    found: dict[str, object] = {}
    for key, value in summaries[0].items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            mean = float(np.mean([summary[key] for summary in summaries]))
            found[key] = int(mean) if key in ("jobs", "rejected") and mean.is_integer() else mean
        elif isinstance(value, str):
            found[key] = value
    return found
