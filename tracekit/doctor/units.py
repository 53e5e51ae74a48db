"""Units that look wrong: minutes or milliseconds for seconds, nodes for processors, bytes or MB for KB.

Limits are the best ruler: in every log some jobs run right up to theirs, so run time over limit piles up at 1. Where it
piles up at 1/60 instead, and nothing lies far beyond, run times are minutes. CPU time is the second ruler, the load of
the machine and the rhythm of the day are the third.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracekit import stats
from tracekit.doctor.finding import DAY, LONGEST, YEAR, CannotLook, Finding, Floats, Severity, picture, submits

if TYPE_CHECKING:
    from tracekit.trace import Trace

#: What a column may be in, and the factor that turns it into seconds or KB.
TIME_UNITS = {"minutes": 60.0, "hours": 3600.0, "milliseconds": 1e-3}
MEMORY_UNITS = {"bytes": 1 / 1024, "MB": 1024.0, "GB": 1024.0**2}
MIN_ROWS = 200
MIN_TOGETHER = 100  # jobs of a stretch that is looked at by itself
_NAMES = {"run_time": "run times", "req_time": "limits", "cpu_time": "CPU times", "submit_time": "submit times",
          "req_mem": "requested memory", "used_mem": "used memory", "procs": "sizes"}  # fmt: skip


def units(trace: Trace) -> list[Finding]:
    """Report columns that seem to be in another unit than they should be."""
    found = [*_by_span(trace), *_by_limits(trace)]
    if not any(finding.evidence["column"] == "run_time" for finding in found):
        found += _by_cpu_time(trace)
    if not found:
        found += _by_load(trace)
    return [*found, *_nodes(trace), *_memory(trace)]


def _finding(
    column: str, unit: str, why: str, *, severity: Severity = "warning", rows: NDArray[np.intp] | None = None,
    where: str = "", **evidence: float,
) -> Finding:  # fmt: skip
    some = "" if not where else " in a part of the log"
    return Finding(
        "wrong-units",
        severity,
        f"{_NAMES[column]} look{'s' if column.endswith('mem') else ''} like {unit}{some}: {why}",
        {"column": column, "unit": unit, **evidence},
        np.zeros(0, dtype=np.intp) if rows is None else rows,
        f"convert-units:{column}={unit}{f' where {where}' if where else ''}",
        "look at the source before you convert: this is inferred from the numbers",
        picture("unit_ratio", column=column, rows=rows),
    )


def pile(ratio: Floats, factor: float) -> bool:
    """Return whether run over limit piles up where it would if one of the two were off by ``factor``, and not at 1."""
    at_one = float(((ratio > 0.97) & (ratio < 1.03)).mean())
    scaled = ratio * factor
    there = float(((scaled > 0.95) & (scaled < 1.05)).mean())
    if there < 0.03 or at_one > 0.2 * there:
        return False
    if factor > 1:
        return bool((scaled > 1.5).mean() <= 0.03)  # hardly anything beyond the limit, once it is scaled
    return bool((ratio > 1.5).mean() >= 0.3)


def _by_span(trace: Trace) -> Iterator[Finding]:
    """Take a log of more than a century for one in milliseconds."""
    submit = trace.column("submit_time")
    submit = submit[np.isfinite(submit)]
    years = float(np.ptp(submit)) / YEAR if len(submit) else 0.0
    if years > LONGEST / YEAR:
        why = f"they span {years:,.0f} years"
        yield _finding("submit_time", "milliseconds", why, severity="error", years=years)


def _by_limits(trace: Trace) -> Iterator[Finding]:
    """Compare run times with limits: the whole log, and if that is sound, parts of it."""
    run, limit = trace.column("run_time"), trace.column("req_time")
    usable = (run >= 30) & (limit > 0) & np.isfinite(run) & np.isfinite(limit)
    rows = np.flatnonzero(usable)
    if len(rows) < MIN_ROWS:
        return
    ratio = run[rows] / limit[rows]
    whole = _off(trace, ratio)
    if whole:
        column, unit, peak = whole
        why = f"run time over limit piles up at {peak:.4g}, not at 1"
        yield _finding(column, unit, why, pile_at=peak, jobs=float(len(rows)))
        return
    yield from _stretches_by_limits(trace)


def _stretches_by_limits(trace: Trace) -> Iterator[Finding]:
    """Look for stretches in which hardly any job comes near its limit, or many run far beyond theirs."""
    run, limit = trace.column("run_time"), trace.column("req_time")
    _, rows = submits(trace)
    rows = rows[(run[rows] > 0) & (limit[rows] > 0)]
    ratio = run[rows] / limit[rows]
    for odd, inside in ((ratio < 1.05 / TIME_UNITS["minutes"], 0.98), (ratio > 1.2, 0.5)):
        found: list[tuple[int, int, tuple[str, str, float]]] = []
        for first, last in odd_stretches(odd, inside):
            long = rows[first : last + 1][run[rows[first : last + 1]] >= 30]
            off = _off(trace, run[long] / limit[long]) if 2 * len(long) >= MIN_TOGETHER else None
            if not off or not _several(trace, rows[first : last + 1]):
                continue
            if found and found[-1][2] == off and first - found[-1][1] < 0.1 * (last - found[-1][0]):
                found[-1] = (found[-1][0], last, off)  # next to nothing parts them
            else:
                found.append((first, last, off))
        for first, last, (column, unit, peak) in found:
            mine = rows[first : last + 1]
            why = f"run time over limit piles up at {peak:.4g} there, and at 1 in the rest"
            yield _finding(column, unit, why, rows=mine, where=_between(trace, mine), pile_at=peak,
                           jobs=float(len(mine)))  # fmt: skip


def odd_stretches(odd: NDArray[np.bool_], inside: float) -> list[tuple[int, int]]:
    """Return the stretches (first, last) in which jobs are ``odd`` far more often than in the rest.

    ``inside`` is how often they are odd if something is wrong. The best stretch has the largest likelihood ratio, which
    gives its ends to a few jobs; then what lies to its left and right is searched in turn.
    """
    outside = max(float(odd.mean()), 0.01) if len(odd) else 1.0
    if outside > 0.9 * inside:  # wrong all along, or undecidable
        return []
    gain = np.where(odd, np.log(inside / outside), np.log((1 - inside) / (1 - outside)))
    found, parts = [], [(0, len(odd))]
    while parts:
        low, high = parts.pop()
        if high - low < MIN_TOGETHER:
            continue
        after = np.cumsum(gain[low:high])
        before = after - gain[low:high]
        last = int(np.argmax(after - np.minimum.accumulate(before)))
        first = int(np.argmin(before[: last + 1]))
        if last - first + 1 >= MIN_TOGETHER:
            found.append((low + first, low + last))
            parts += [(low, low + first), (low + last + 1, high)]
    return sorted(found)


def _several(trace: Trace, rows: NDArray[np.intp]) -> bool:
    """Return whether jobs are of several users, where users are known: one user's habit is not evidence of a unit."""
    users = trace.column("user")
    return len(np.unique(users[rows])) >= min(3, len(np.unique(users)))


def _between(trace: Trace, rows: NDArray[np.intp]) -> str:
    submit = trace.column("submit_time")[rows]
    return f"submit>={np.floor(np.nanmin(submit)):.0f} and submit<={np.ceil(np.nanmax(submit)):.0f}"


def _off(trace: Trace, ratio: Floats) -> tuple[str, str, float] | None:
    """Return the column, its unit and where the ratio piles up, if run times or limits are off by a known factor."""
    for unit, factor in TIME_UNITS.items():
        if pile(ratio, factor):  # the run times are too small, or (milliseconds) too large
            return "run_time", unit, 1 / factor
    for unit, factor in TIME_UNITS.items():
        if pile(ratio, 1 / factor):  # the limits are too small, or the run times too large: the load decides
            load = stats.offered_load(trace)
            if unit == "minutes" and load > 3:
                continue
            return "req_time", unit, factor
    return None


def _by_cpu_time(trace: Trace) -> Iterator[Finding]:
    """Compare CPU time per processor with run time: busy jobs have a ratio just below 1."""
    cpu, run = trace.column("cpu_time"), trace.column("run_time")
    usable = (cpu > 0) & (run >= 30) & np.isfinite(cpu) & np.isfinite(run)
    if usable.sum() < MIN_ROWS:
        return
    ratio = cpu[usable] / run[usable]
    half, most = np.quantile(ratio, [0.5, 0.9])
    for unit, factor in TIME_UNITS.items():
        for column, near in (("run_time", factor), ("cpu_time", 1 / factor)):
            if 0.85 * near < most < 1.05 * near and half > 0.3 * near:
                why = f"CPU time is {half:.3g} times the run time in the median, {most:.3g} in the 90% quantile"
                yield _finding(column, unit, why, median_ratio=float(half), jobs=float(usable.sum()))
                return


def rhythm(times: Floats, period: float) -> float:
    """Return how strongly moments keep to a period: 0 not at all, 1 all at the same phase (Rayleigh's R)."""
    return float(np.abs(np.exp(2j * np.pi * times / period).mean()))


def _by_load(trace: Trace) -> Iterator[Finding]:
    """Take an impossible load as a hint, and the rhythm of the day as the ruler of submit times."""
    load = stats.offered_load(trace)
    try:
        submit, _ = submits(trace)
    except CannotLook:
        return
    if not np.isfinite(load) or len(submit) < 1000:
        return
    if np.ptp(np.quantile(submit, [0.01, 0.99])) < 0.8 * np.ptp(submit):
        return  # a few stray jobs stretch the span, so the load says nothing
    for unit, factor in TIME_UNITS.items():
        day = rhythm(np.unique(submit), DAY) if np.ptp(submit) > 3 * DAY else 0.0  # less has no rhythm
        if rhythm(np.unique(submit), DAY / factor) > max(0.15, 3 * day):
            if 0.2 < load / factor < 1.3:
                why = f"their days are {DAY / factor:,.0f} long; the load would be {load / factor:.2f}, not {load:,.3g}"
                yield _finding("submit_time", unit, why, load=load, load_then=load / factor)
                return
        elif (load < 0.05 or load > 5) and 0.3 < load * factor < 1.1:
            why = f"the load is {load:,.3g}, and would be {load * factor:.2f}"
            yield _finding("run_time", unit, why, severity="note" if day < 0.1 else "warning", load=load,
                           load_then=load * factor)  # fmt: skip
            return


def _nodes(trace: Trace) -> Iterator[Finding]:
    """Compare sizes with the machine's nodes: no job beyond them, and a load that makes sense only in nodes."""
    machine, load = trace.machine, stats.offered_load(trace)
    if machine.unit != "procs" or not machine.procs or not machine.nodes or machine.procs < 2 * machine.nodes:
        return
    sizes = trace.sizes()
    largest = float(np.nanmax(sizes)) if np.isfinite(sizes).any() else 0.0
    per_node = machine.procs / machine.nodes
    whole = float((sizes[sizes > 0] % per_node == 0).mean()) if np.any(sizes > 0) else 1.0
    if whole >= 0.7 and per_node == int(per_node):
        yield from _stretches_in_nodes(trace, sizes, per_node)
    elif 0.5 * machine.nodes <= largest <= machine.nodes and load * per_node <= 1.2 and load < 0.4 and whole < 0.5:
        why = (
            f"no job is larger than the {machine.nodes:,} nodes, though there are {machine.procs:,} processors; the "
            f"load would be {load * per_node:.2f}, not {load:.3f}"
        )
        yield _finding("procs", "nodes", why, largest_job=largest, load=load, load_then=load * per_node)


def _stretches_in_nodes(trace: Trace, sizes: Floats, per_node: float) -> Iterator[Finding]:
    """Look, where nearly all jobs take whole nodes, for a stretch in which they do not and all would fit as nodes."""
    _, rows = submits(trace)
    rows = rows[sizes[rows] > 0]
    odd = sizes[rows] % per_node != 0
    for first, last in odd_stretches(odd, 0.7):
        mine = rows[first : last + 1]
        inside, outside = float(odd[first : last + 1].mean()), float(np.delete(odd, slice(first, last + 1)).mean())
        if inside > 0.5 and outside < 0.1 and sizes[mine].max() <= (trace.machine.nodes or 0) and _several(trace, mine):
            why = f"{inside:.0%} of the jobs there take no whole nodes of {per_node:g}, {outside:.0%} elsewhere"
            yield _finding("procs", "nodes", why, rows=mine, where=_between(trace, mine), odd_share=inside,
                           jobs=float(len(mine)))  # fmt: skip


def _memory(trace: Trace) -> Iterator[Finding]:
    """Compare memory per processor with what machines have: 1 TB is too much, 2 MB are too little for most jobs."""
    later = stats.has_calendar(trace) and (trace.machine.epoch or 0.0) + np.nanmin(trace.column("submit_time")) > 1.1e9
    for column in ("req_mem", "used_mem"):
        memory = trace.column(column)
        memory = memory[np.isfinite(memory) & (memory > 0)]
        if len(memory) < 50 or len(np.unique(memory)) < 5:
            continue
        half, most = np.quantile(memory, [0.5, 0.99])
        if half > 1e9:
            why = f"the median would be {half / 1024**3:,.1f} TB a processor"
            yield _finding(column, "bytes", why, median_kb=float(half))
        elif most < (65_536 if later else 2_048):
            why = f"99% of the jobs would do with {most / 1024:,.2f} MB a processor"
            yield _finding(column, "MB", why, severity="warning" if most < 8_192 else "note", p99_kb=float(most))
