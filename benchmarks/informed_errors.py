"""What errors of predicted run times cost an order: the part ``--errors`` of bench_agents_informed.py."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from informed_page import MEANS, signed
from numpy.typing import NDArray

from tracekit.sim.agents.against import against
from tracekit.sim.predict.features import features_of, recorded
from tracekit.sim.predict.training import train as train_predictor
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.windows import Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]

#: How often the predictor learns anew: from what was known before each of so many parts.
REFITS = 8
#: A job ends far sooner than predicted where ln predicted − ln run time is more than this: in less than a seventh.
MUCH = 2.0


class Areas:
    """Smallest area first, by given run times; reservations still go by limits. By true ones: what order could gain."""

    name = "areas"

    def __init__(self, run: Floats, size: Floats) -> None:
        self.area = np.maximum(run, 1.0) * size

    def priority(self, queue: Any, state: Any, /) -> Any:
        """Return the areas of the waiting jobs."""
        return self.area[queue]


def errors(trace: Trace, source: EpisodeSource, known: int, window_jobs: int) -> None:
    """Print what errors of run times cost an order: windows of the jobs between 35 and 60 % of a log.

    A predictor has learnt from the jobs that had ended before, and what it knows of a job is by the recorded schedule.
    """
    first, rng = int(0.35 * len(source)), np.random.default_rng(1)
    windows: list[Window] = [(begin, window_jobs) for begin in range(first, known - window_jobs, 96)]
    ready = [source.episode(window).ready for window in windows]
    run, limit = (trace.column(name) for name in ("run_time", "req_time"))
    true = np.log(np.maximum(run, 1.0))
    limit = np.where(limit > 0, limit, np.exp(true))
    seen, asked = features_of(trace), np.arange(first, known)
    wrong = ln_predicted(trace, [first, known], seen, limit) - true
    edges = np.linspace(first, known, REFITS + 1).astype(int)
    renewed = ln_predicted(trace, edges, seen, limit) - true
    anywhere, near = np.zeros(len(true)), np.zeros(len(true))
    anywhere[asked] = wrong[rng.permutation(asked)]
    for some in np.array_split(asked, len(asked) // 64):
        near[some] = wrong[rng.permutation(some)]
    noise = {"anywhere": anywhere, "among 64 neighbours": near}
    orders = {
        "limits (`saf`)": np.log(limit),
        "true run times": true,
        **{f"true, with its errors dealt out {where}": true + some for where, some in noise.items()},
        "predictor": true + wrong,
        f"predictor, learnt anew {REFITS} times": true + renewed,
        "predictor, but true for jobs that end far sooner": np.where(wrong > MUCH, true, true + wrong),
        "true, but predictor for these jobs": np.where(wrong > MUCH, true + wrong, true),
    }
    base: Floats | None = None
    error, sooner = np.abs(wrong[asked]).mean(), (wrong[asked] > MUCH).mean()
    print(f"{len(windows)} windows; error of the predictor {error:.2f}; {sooner:.0%} end far sooner", flush=True)
    for name, guess in orders.items():
        costs = [
            source.cost(window, source.schedule(window, Areas(np.exp(guess[jobs.table.position]), jobs.table.procs)))
            for window, jobs in zip(windows, ready, strict=True)
        ]
        base = np.array(costs) if base is None else base
        found = against(np.array(costs), base)
        cells = [f"{signed(found[m])} [{signed(found[m + '_low'])}, {signed(found[m + '_high'])}]" for m in MEANS]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def ln_predicted(trace: Trace, edges: Sequence[int], seen: Floats, limit: Floats) -> Floats:
    """Return predicted ln run times, (jobs,): between two edges by a predictor of what was known at the first."""
    found, submit = np.zeros(len(trace)), trace.column("submit_time")
    for begin, end in pairwise(edges):
        made = train_predictor(log_at(trace, submit[begin]), seed=1, outputs=("ln_mean",))
        found[begin:end] = np.log(made.seconds(seen[begin:end], limit[begin:end], "ln_mean"))
    return found


def log_at(trace: Trace, now: float) -> Trace:
    """Return the log as it was at a moment: the jobs submitted by then, run times only of those that have ended."""
    submit, _, end = recorded(trace)
    ended = end <= now
    status = trace.jobs["status"].where(ended, "unknown")
    known = {"run_time": np.where(ended, trace.column("run_time"), np.nan), "status": status}
    return trace.assign(known).take(submit <= now)
