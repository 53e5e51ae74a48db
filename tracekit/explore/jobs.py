"""Single jobs of a source: which are on the page, where they lie in the Gantt chart, and why they waited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import host_names
from tracekit.errors import UsageError
from tracekit.explore.bins import Bins, Codes
from tracekit.explore.cube import COLUMNS
from tracekit.explore.pack import Pack
from tracekit.explore.source import Source
from tracekit.lanes import lanes, most_at_once, whole_lanes
from tracekit.sim.analysis.reasons import explained
from tracekit.sim.hosts.parse import Parts, parse_hosts
from tracekit.stats import has_calendar

Rows = NDArray[np.intp]
#: Up to so many jobs of a source are on the page one by one.
FEW = 20_000
#: Of larger ones so many from the middle, unless a window is named.
MIDDLE = 5_000
#: With a window come the jobs that ran beside it, up to so many in all.
MOST = 40_000


def chosen(source: Source, window: tuple[int, int] | None) -> Rows:
    """Return the jobs that are shown one by one: all if they are few, or the window and what ran beside it."""
    count = len(source)
    if window is None:
        if count <= FEW:
            return np.arange(count)
        window = ((count - MIDDLE) // 2, MIDDLE)
    first, length = window
    if not length:
        return np.arange(0)
    if first >= count:
        raise UsageError(f"--window {first}:{length}: {source.name} has only {count:,} jobs, numbered from 0")
    if length > MOST:
        raise UsageError(f"--window {first}:{length}: at most {MOST:,} single jobs fit on a page")
    inside = np.zeros(count, bool)
    inside[first : first + length] = True
    begins, ends = source.start[inside], source.end[inside]
    known = np.isfinite(begins)
    if known.any():  # the end of 19 of 20, because one job that waited for months would bring in all others
        low, high = begins[known].min(), float(np.quantile(ends[known], 0.95))
        beside = inside | ((source.end > low) & (source.start < high))
        if beside.sum() <= MOST:
            inside = beside
    return np.flatnonzero(inside)


def between(source: Source, after: float, before: float) -> tuple[int, int]:
    """Return the window of the jobs that were submitted in a range of the source's seconds; it may be empty."""
    first, last = (int(place) for place in np.searchsorted(source.submit, [after, before]))
    return first, max(0, last - first)


def packed(source: Source, bins: Bins, shift: float, codes: dict[str, Codes], rows: Rows, pack: Pack) -> dict[str, Any]:
    """Keep the single jobs of a source in a block; return where they are."""
    job, first, count, host, tracks = places(source, rows)
    texts = reasons(source, rows)
    ids = source.trace.column("job_id")[rows].astype(np.float64)
    found: dict[str, Any] = {
        "n": len(rows),
        "all": len(rows) == len(source),
        "row": pack.add(rows, "u4"),
        "id": pack.add(ids, "f8"),
        "submit": pack.add(source.submit[rows] + shift - bins.axis.begin, "f8"),
        "wait": pack.add(source.wait[rows], "f8"),
        "run": pack.add(source.run[rows], "f8"),
        "size": pack.add(source.size[rows], "f8"),
        "limit": pack.add(source.trace.column("req_time")[rows], "f8"),
        "codes": {name: pack.add(codes[name][rows], "u1") for name in COLUMNS},
        "box": {
            "job": pack.add(job, "u4"),
            "first": pack.add(first, "f4"),
            "count": pack.add(count, "f4"),
            "host": pack.add(host, "u4"),
        },
        "tracks": tracks,
        "users": pack.add_texts(_labels(source, "user", rows)),
        "texts": pack.add_texts(texts),
    }
    return found


def _labels(source: Source, column: str, rows: Rows) -> list[str]:
    if not source.trace.has(column):
        return []
    return source.trace.jobs[column].astype(object).iloc[rows].fillna("").astype(str).tolist()


def reasons(source: Source, rows: Rows) -> list[str]:
    """Return why each of the jobs waited, in sentences; nothing where waits are unknown."""
    recorded = source.recorded()
    if recorded is None:
        return []
    schedule, jobs = recorded
    place = np.full(len(source), -1)
    place[jobs] = np.arange(len(jobs))
    drawn = np.flatnonzero(place[rows] >= 0)
    machine = source.trace.machine
    epoch = machine.epoch if has_calendar(source.trace) else None
    texts = [""] * len(rows)
    for at, why in zip(drawn.tolist(), explained(schedule, place[rows][drawn]), strict=True):
        if why is not None:
            texts[at] = replace(why, epoch=epoch, timezone=machine.timezone).text()
    return texts


def places(source: Source, rows: Rows) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """Return the boxes of the Gantt chart: job (its place in ``rows``), first unit, units and host; and the tracks."""
    drawn = np.flatnonzero(np.isfinite(source.start[rows]))
    start, end, size = (values[rows][drawn] for values in (source.start, source.end, source.size))
    if source.hosts is not None:
        return _on_hosts(source, rows, drawn)
    units, total = whole_lanes(start, end, size, max(int(np.ceil(source.total)), 1))
    found = lanes(start, end, units, total)
    job = np.repeat(drawn, [len(runs) for runs in found])
    runs = np.array([run for one in found for run in one], dtype=np.int64).reshape(-1, 2)
    return job, runs[:, 0], runs[:, 1], np.zeros(len(job)), {"kind": "processors", "height": total, "names": []}


def _on_hosts(source: Source, rows: Rows, drawn: Rows) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """Place jobs within the hosts that the schedule names: by share of the host's GPUs, or of its cores."""
    texts = [str(source.hosts[k]) for k in rows[drawn]] if source.hosts is not None else []
    names = host_names(source.cluster) if source.cluster is not None else _named(texts)
    parts = parse_hosts(texts, names)
    used = np.unique(parts.host[parts.host >= 0])
    job, first, count, host = [], [], [], []
    start, end = source.start[rows][drawn][parts.row], source.end[rows][drawn][parts.row]
    by_gpus = _counted_in_gpus(parts)
    for number, one in enumerate(used.tolist()):
        here = np.flatnonzero(parts.host == one)
        amount = parts.gpus[here] if by_gpus else parts.cores[here]
        held = np.maximum(np.ceil(amount).astype(np.int64), 1)
        total = most_at_once(start[here], end[here], held)
        for part, runs in zip(here.tolist(), lanes(start[here], end[here], held, total), strict=True):
            for low, units in runs:
                job.append(int(drawn[parts.row[part]]))
                first.append(low / total)
                count.append(units / total)
                host.append(number)
    labels = [names[k] for k in used.tolist()]
    tracks = {"kind": "hosts", "height": max(len(labels), 1), "names": labels, "by": "GPUs" if by_gpus else "cores"}
    return np.array(job, np.int64), np.array(first), np.array(count), np.array(host, np.int64), tracks


def _named(texts: Sequence[str]) -> list[str]:
    """Return the hosts that a schedule names, in order of appearance."""
    return list(dict.fromkeys(part.rpartition(":")[0] for text in texts for part in text.split("+") if text))


def _counted_in_gpus(parts: Parts) -> bool:
    return bool((parts.gpus > 0).mean() > 0.5) if len(parts.gpus) else False
