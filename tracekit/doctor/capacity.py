"""Demand against capacity: logs that ask for more than their machine has, or had more in use than there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracekit import stats
from tracekit.doctor.finding import DAY, WEEK, CannotLook, Finding, picture, submits, when
from tracekit.recorded import NothingRan, Recorded

if TYPE_CHECKING:
    from tracekit.trace import Trace

TOO_MUCH = 1.0  # offered load
ROLLING = 1.2  # offered load of four weeks on end
TOO_LITTLE = 0.05
MIN_JOBS = 100  # jobs
OVER_TIME = (0.01, 0.05)  # share of time above capacity: note, warning
_SLACK = 1.02  # the machine may have had a few processors more for a while


def weekly_demand(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Return the start of each week, seconds, and the work submitted in it over the machine's capacity."""
    size = trace.machine.size()
    submit, rows = submits(trace)
    if not size or len(submit) < 2 or submit[-1] <= submit[0]:
        raise CannotLook("the machine's size is unknown" if not size else "all jobs were submitted at one instant")
    week = ((submit - submit[0]) // WEEK).astype(np.int64)
    used = np.bincount(week, weights=stats.work(trace)[rows])
    seconds = np.full(len(used), WEEK)
    seconds[-1] = max(submit[-1] - submit[0] - WEEK * (len(used) - 1), DAY)
    return submit[0] + WEEK * np.arange(len(used)), used / (size * seconds)


def demand(trace: Trace) -> list[Finding]:
    """Report a log that asks for more than its machine has, overall or for four weeks, or for next to nothing."""
    begins, weekly = weekly_demand(trace)
    if len(trace) < MIN_JOBS:
        raise CannotLook(f"fewer than {MIN_JOBS} jobs: too few for a load")
    load, size, unit = stats.offered_load(trace), trace.machine.size(), trace.machine.unit
    over = int((weekly > 1).sum())
    evidence: dict[str, float | int | str] = {
        "offered_load": round(load, 4),
        "machine_size": int(size or 0),
        "weeks": len(weekly),
        "weeks_over_capacity": over,
        "worst_week": round(float(weekly.max()), 4),
    }
    worst = f"{over} of {len(weekly)} weeks are over 100%, the worst, from {when(trace, begins[weekly.argmax()])}, is "
    worst += f"{weekly.max():.0%}"
    if load > TOO_MUCH:
        return [
            Finding(
                "demand-over-capacity",
                "note" if stats.span(trace) < 3 * DAY else "error" if load > 1.2 else "warning",
                f"the jobs ask for {load:.0%} of {size:,} {unit}: no schedule can serve that, waits only grow; {worst}",
                evidence,
                advice="check the machine's size (--procs) and the units; tracekit scale --load 0.9 thins it out",
                draw=picture("demand_over_time"),
            )
        ]
    found = []
    full = weekly[:-1] if len(weekly) > 1 else weekly  # the last week may be a short one
    if len(full) >= 8:
        four = np.convolve(full, np.ones(4) / 4, mode="valid")
        if four.max() > ROLLING:
            k = int(four.argmax())
            found.append(
                Finding(
                    "demand-over-capacity",
                    "note",
                    f"for four weeks from {when(trace, begins[k])} on the jobs ask for {four.max():.0%} of the "
                    f"machine, {load:.0%} over the whole log",
                    evidence | {"worst_four_weeks": round(float(four.max()), 4)},
                    advice="waits of that time say more of the overload than of the scheduler",
                    draw=picture("demand_over_time"),
                )
            )
    if load < TOO_LITTLE:
        found.append(
            Finding(
                "low-demand",
                "note",
                f"the jobs ask for {load:.2%} of {size:,} {unit} only: no job would ever wait on such a machine",
                evidence,
                advice="check the machine's size and the units, or whether only a part of the jobs was recorded",
                draw=picture("demand_over_time"),
            )
        )
    return found


def usage(trace: Trace) -> list[Finding]:
    """Report recorded starts and ends that put more in use than the machine has."""
    size = trace.machine.size()
    if not size:
        raise CannotLook("the machine's size is unknown")
    try:
        seen = Recorded.of(trace)
    except NothingRan as reason:
        raise CannotLook(str(reason)) from None
    if not seen.waits_known:
        raise CannotLook("waits, and so start times, are unknown")
    times, level = stats.steps(seen.start, seen.end, seen.procs)
    length, level = np.diff(times), level[:-1]
    share = float(length[level > _SLACK * size].sum() / max(length.sum(), 1e-9))
    if share < OVER_TIME[0]:
        return []
    return [
        Finding(
            "usage-over-capacity",
            "warning" if share >= OVER_TIME[1] else "note",
            f"by the recorded starts and ends more than all {size:,} {trace.machine.unit} were in use for {share:.1%} "
            f"of the time, {level.max():,.0f} at the peak",
            {"share_of_time": round(share, 5), "peak": float(level.max()), "machine_size": int(size)},
            advice="the size, the waits or the run times are not those of this machine, or jobs shared processors",
            draw=picture("usage"),
        )
    ]
