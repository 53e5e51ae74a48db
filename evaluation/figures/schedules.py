"""Schedules of the traces: rankings of policies, Gantt charts, queue lengths."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from evaluation.base import Setting
from evaluation.figures.base import INK, SOFT, Drawing, Scene, bare, blank, colour_bar, label, tidy
from evaluation.scheduling import POLICIES, Job, run_windows
from evaluation.view import View
from tracekit.plots import binned, lanes
from tracekit.plots.style import HEAT, PALETTE, NothingToDraw, duration, time_unit
from tracekit.sim.simulate import SimResult, simulate
from tracekit.stats import steps

GANTT_JOBS = 250  # one after the other, from the middle of each trace
QUEUE_JOBS = 50_000  # from the start of each trace
BINS = 240  # of the queue's length over time
_BOXES = 40_000  # of a Gantt chart; fewer jobs are shown where they would be more
_DONE: WeakKeyDictionary[View, SimResult] = WeakKeyDictionary()


def _jobs(scene: Scene, view: View) -> Job:
    if not scene.real.machine.capacity >= 1:
        raise NothingToDraw("nothing can be scheduled: no sizes are known")
    jobs = Job.of(view)
    if len(jobs.submit) < 40:
        raise NothingToDraw("fewer than 40 jobs that a scheduler could run in one of the traces")
    return jobs


def rankings(scene: Scene, backfill: str = "easy") -> pd.DataFrame:
    """Return trace, policy, mean bounded slowdown and rank (1 = least) on windows of every trace."""
    setting = Setting(quick=scene.quick)
    capacity = scene.real.machine.capacity
    begins = None
    rows: list[dict[str, Any]] = []
    for trace, (view, _) in scene.everyone.items():
        runs, begins = run_windows(_jobs(scene, view), begins, capacity, 1.0, setting)
        if (POLICIES[0], backfill) not in runs:
            raise NothingToDraw(f"backfill '{backfill}' was not simulated; with quick=True only easy is")
        means = [float(runs[policy, backfill].mean_slowdown.mean()) for policy in POLICIES]
        ranks = np.argsort(np.argsort(means, kind="stable"), kind="stable") + 1
        rows += [
            {"trace": trace, "policy": policy, "mean_bounded_slowdown": mean, "rank": int(rank)}
            for policy, mean, rank in zip(POLICIES, means, ranks, strict=True)
        ]
    return pd.DataFrame(rows)


def slopes(table: pd.DataFrame, traces: list[str], backfill: str = "easy") -> Drawing:
    """Draw the rank of every policy on each of some traces, the first one being real; crossings are disagreements."""
    table = table[table["trace"].isin(traces)]
    figure, (axis,) = blank(max(5.6, 2.6 + 1.3 * len(traces)), 3.9)
    real = table[table["trace"] == traces[0]].set_index("policy")
    for k, policy in enumerate(real.sort_values("rank").index):
        own = table[table["policy"] == policy].set_index("trace").loc[traces]
        colour = PALETTE[k % len(PALETTE)]
        steady = own["rank"].nunique() == 1
        axis.plot(range(len(traces)), own["rank"], marker="o", markersize=7, color=colour,
                  linewidth=1.4 if steady else 2.4, alpha=0.55 if steady else 1)  # fmt: skip
        values = own["mean_bounded_slowdown"]
        axis.text(-0.08, own["rank"].iloc[0], f"{policy}  {values.iloc[0]:,.1f}", ha="right", va="center", color=INK)
        right = len(traces) - 1 + 0.08
        axis.text(right, own["rank"].iloc[-1], f"{values.iloc[-1]:,.1f}  {policy}", ha="left", va="center", color=INK)
    room = 0.55 + 0.12 * (len(traces) - 2)
    axis.set(xlim=(-room, len(traces) - 1 + room), ylim=(real["rank"].max() + 0.5, 0.5), yticks=[])
    bare(axis)
    axis.set_xticks(range(len(traces)), [label(trace) for trace in traces],
                    rotation=0 if len(traces) < 6 else 20, ha="center" if len(traces) < 6 else "right")  # fmt: skip
    axis.set_title(f"policies by mean bounded slowdown, backfill {backfill}; least on top", color=INK)
    best = real["rank"].idxmin()
    agree = {t: table[(table["trace"] == t) & (table["rank"] == 1)]["policy"].iloc[0] for t in traces[1:]}
    words = f"Rank of {len(real)} scheduling policies on each trace. Best on the real trace: {best}; " + ", ".join(
        f"on {trace}: {policy}" for trace, policy in agree.items()
    )
    return Drawing(figure, table.reset_index(drop=True), words + ".")


def scheduled(scene: Scene, view: View) -> SimResult:
    """Return what first come, first served with EASY backfilling does with a trace's first jobs."""
    if view not in _DONE:
        jobs = _jobs(scene, view)
        count = min(len(jobs.submit), QUEUE_JOBS)
        part = jobs.window(0, count, 0.0, 1.0)
        _DONE[view] = simulate(part.trace(scene.real.machine.capacity), "fcfs", "easy")
    return _DONE[view]


def queues(scene: Scene) -> Drawing:
    """Draw how many jobs wait over time, real beside synthetic, on the same scales."""
    figure, axes = blank(11, 2.8, columns=1 + len(scene.others), sharey=True, sharex=True)
    results = {trace: scheduled(scene, view) for trace, (view, _) in scene.everyone.items()}
    longest = max(float(result.end.max()) for result in results.values())
    unit, name = time_unit(longest)
    rows, means, top = [], [], 1.0
    for axis, (trace, result) in zip(axes, results.items(), strict=True):
        edges = np.linspace(0.0, max(float(result.end.max()), 1.0), BINS + 1)
        waiting = binned(*steps(result.submit, result.start), edges)
        colour = INK if trace == "real" else scene.looks[trace]["color"]
        axis.stairs(waiting, edges / unit, fill=True, color=colour, alpha=0.75)
        axis.set_title(f"{label(trace)}: mean wait {duration(float(result.wait.mean()))}", color=INK)
        axis.set_xlabel(f"{name} since the first submit")
        rows.append(pd.DataFrame({"trace": trace, "from_s": edges[:-1], "to_s": edges[1:], "jobs_waiting": waiting}))
        means.append(f"{trace}: {waiting.mean():,.1f} jobs wait on average, {waiting.max():,.0f} at most")
        top = max(top, float(waiting.max()))
    axes[0].set(ylabel="jobs waiting", ylim=(0, top * 1.05), xlim=(0, longest / unit))
    words = "Jobs waiting over time under first come, first served with EASY backfilling. " + "; ".join(means) + "."
    return Drawing(figure, pd.concat(rows, ignore_index=True), words)


def gantt(scene: Scene) -> Drawing:
    """Draw a Gantt chart of the middle of each trace; the darker, the shorter a job has waited."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LogNorm

    figure, axes = blank(11, 3.4, columns=1 + len(scene.others), sharey=True)
    results = {trace: scheduled(scene, view) for trace, (view, _) in scene.everyone.items()}
    boxes = {trace: _boxes(result) for trace, result in results.items()}
    top = max([10.0, *(float(table["wait_s"].max()) for table in boxes.values())])
    for axis, (trace, table) in zip(axes, boxes.items(), strict=True):
        unit, name = time_unit(float(table["end_s"].max()))
        x = table[["start_s", "end_s"]].to_numpy() / unit
        y = table[["first", "last"]].to_numpy()
        corners = np.stack([x[:, [0, 1, 1, 0]], y[:, [0, 0, 1, 1]]], axis=2)
        drawn = PolyCollection(list(corners), cmap=HEAT, norm=LogNorm(1, top), linewidths=0.3, edgecolors="white")
        drawn.set_array(np.maximum(table["wait_s"].to_numpy(), 1.0))
        drawn.set_rasterized(True)
        axis.add_collection(drawn)
        tidy(axis, grid=False)
        axis.set(xlim=(0, x.max()), ylim=(0, results[trace].total), xlabel=f"{name} since the first start shown")
        axis.set_title(f"{label(trace)}: {table['job'].nunique():,} jobs one after the other", color=INK)
        axis.set_facecolor(SOFT)
    axes[0].set_ylabel(scene.real.machine.unit)
    colour_bar(figure, drawn, axes, "wait (s), 1 or less darkest", pad=0.01)
    waits = ", ".join(f"{t} {duration(float(b.groupby('job')['wait_s'].first().median()))}" for t, b in boxes.items())
    words = f"Gantt charts of consecutive jobs from the middle of each trace, side by side. Median wait shown: {waits}."
    data = pd.concat([table.assign(trace=trace) for trace, table in boxes.items()], ignore_index=True)
    return Drawing(figure, data[["trace", "job", "start_s", "end_s", "first", "last", "wait_s"]], words)


def _boxes(result: SimResult) -> pd.DataFrame:
    """Return the rectangles of some consecutive jobs: seconds after the first start, processors first … last."""
    count = max(20, min(GANTT_JOBS, len(result), int(_BOXES // max(float(result.procs.mean()) ** 0.5, 1.0))))
    first = max(0, len(result) // 2 - count // 2)
    shown = np.arange(first, min(first + count, len(result)))
    begin, end = float(result.start[shown].min()), float(result.end[shown].max())
    near = np.flatnonzero((result.end > begin) & (result.start < end))
    size = np.maximum(np.ceil(result.procs[near]).astype(np.int64), 1)
    places = dict(zip(near, lanes(result.start[near], result.end[near], size, result.total), strict=True))
    rows = [
        (int(job), result.start[job] - begin, result.end[job] - begin, low, low + width, result.wait[job])
        for job in shown
        for low, width in places.get(job, [])
    ]
    if not rows:
        raise NothingToDraw("all run times are zero")
    return pd.DataFrame(rows, columns=["job", "start_s", "end_s", "first", "last", "wait_s"])
