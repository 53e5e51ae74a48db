"""Load–wait curves: the same jobs, arriving faster or slower, under several policies.

Inter-arrival times are scaled (`tracekit.transform.scale_load`), so sizes, run times and the order of arrivals stay as
they are. Beyond saturation waits grow with the length of the log: such points only show where a policy saturates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracekit.errors import UsageError
from tracekit.readings import read_load
from tracekit.sim.analysis.compare import mean_interval, shaken_metrics
from tracekit.sim.jobs import extract_jobs
from tracekit.sim.metrics import COMPARED
from tracekit.sim.runs import Run, run_all
from tracekit.sim.switches import Switches
from tracekit.trace import Trace
from tracekit.transform import scale_load

STEP = 0.1


def parse_loads(text: str) -> list[float]:
    """Read ``0.5:1.1`` (in steps of 0.1), ``0.5:1.1:0.05`` or ``0.6,0.8,0.95``.

    >>> parse_loads("0.5:0.8"), parse_loads("0.7,0.9")
    ([0.5, 0.6, 0.7, 0.8], [0.7, 0.9])
    """
    numbers = [read_load(part) for part in text.replace(",", ":").split(":") if part.strip()]
    if ":" in text and 2 <= len(numbers) <= 3 and "," not in text:
        low, high, step = (*numbers, STEP)[:3]
        if 0 < low <= high and step > 0 and (high - low) / step < 1000:
            return [round(low + i * step, 10) for i in range(int((high - low) / step + 1e-9) + 1)]
    elif ":" not in text and numbers and all(np.isfinite(x) and x > 0 for x in numbers):
        return sorted(set(numbers))
    raise UsageError(f"--load {text}: write FROM:TO, FROM:TO:STEP or a list, such as 0.5:1.1 or 0.7,0.9")


def sweep(
    trace: Trace,
    loads: Sequence[float],
    pairs: Sequence[tuple[str, str]],
    switches: Switches,
    *,
    shakes: int = 5,
    windows: Sequence[tuple[int, int]] = (),
    threads: int | None = None,
    tell: Callable[[str], None] = lambda words: None,
) -> list[dict[str, Any]]:
    """Return one row for each load and (policy, backfilling): means with 95 % intervals of every compared metric.

    The intervals are over ``windows`` (start, count) of the scaled trace where there are any, else over ``shakes``
    shaken copies of it.
    """
    if switches.procs is not None:
        trace = trace.replace(
            machine=trace.machine.replace(**{switches.resource or trace.machine.unit: switches.procs})
        )
    rows = []
    for load in loads:
        scaled = scale_load(trace, load)
        if windows:
            whole = extract_jobs(scaled, switches.resolved())
            runs = [Run(whole.window(*part), p, b, switches) for p, b in pairs for part in windows]
            results = run_all(runs, threads=threads)
            values = {
                metric: np.array([result.metrics[metric] for result in results]).reshape(len(pairs), len(windows))
                for metric in COMPARED
            }
        else:
            values = shaken_metrics(scaled, switches, pairs, count=shakes, threads=threads)
        for number, (policy, backfill) in enumerate(pairs):
            found = {metric: mean_interval(part[number]) for metric, part in values.items()}
            if np.isnan(found["mean_bsld"]["mean"]):
                raise UsageError(
                    f"no job is left to measure at load {load:g}: reduce --warmup/--cooldown or use more jobs"
                )
            rows.append({"load": load, "policy": policy, "backfill": backfill, "runs": len(windows) or shakes, **found})
        tell(f"load {load:g}: {len(pairs) * (len(windows) or shakes):,} simulations")
    return rows


def as_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as CSV text: for each metric its mean, low and high."""
    names = ["load", "policy", "backfill", "runs"]
    titles = [*names, *(f"{metric}{end}" for metric in COMPARED for end in ("", "_low", "_high"))]
    lines = [",".join(titles)]
    for row in rows:
        numbers = [row[metric][key] for metric in COMPARED for key in ("mean", "low", "high")]
        lines.append(",".join([*(f"{row[name]}" for name in names), *(f"{number:.10g}" for number in numbers)]))
    return "\n".join(lines) + "\n"
