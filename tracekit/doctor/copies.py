"""Blocks of records that occur twice in a log: files joined with an overlap, or a part that was read twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.doctor.finding import CannotLook, Finding, Floats, picture
from tracekit.schema import BY_NAME

if TYPE_CHECKING:
    from tracekit.trace import Trace

SHORTEST = 12  # records in a row
_VARIED = 0.5  # of a block's records must differ from each other: rows of equal jobs are not copies
_NOT_COMPARED = {"job_id", "submit_time", "prev_job", "think_time"}


def twins(trace: Trace) -> NDArray[np.bool_]:
    """Return for each row whether it repeats an earlier one as a part of a block, whatever its job id.

    Two blocks are the same when all their records agree in everything but ids and dates, and in the gaps between their
    submits; or, where copies are side by side because the file was sorted, in their submits as well.
    """
    found = _shifted_blocks(trace, np.arange(len(trace)))
    by_id = np.argsort(trace.jobs["job_id"].to_numpy(), kind="stable")
    if (np.diff(by_id) < 0).any():  # a copy that was sorted in by its dates may still be contiguous by its ids
        found |= _shifted_blocks(trace, by_id)
    found |= _side_by_side(trace)
    return found


def _content(trace: Trace, *, with_submit: bool) -> NDArray[np.uint64]:
    """Return a hash of each record without its id; without its date unless asked for."""
    columns = {}
    for name in trace.jobs.columns:
        if name in _NOT_COMPARED or name not in BY_NAME:
            continue
        values = trace.column(name)
        columns[name] = np.nan_to_num(values.astype(np.float64), nan=-1.0)
    if with_submit:
        columns["submit_time"] = np.nan_to_num(trace.column("submit_time"), nan=-1.0)
    return np.asarray(pd.util.hash_pandas_object(pd.DataFrame(columns), index=False), dtype=np.uint64)


def _shifted_blocks(trace: Trace, order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Find blocks of records, in this order, that repeat an earlier block: same content, same gaps between submits."""
    n = len(trace)
    marked = np.zeros(n, dtype=bool)
    if n < 2 * SHORTEST:
        return marked
    content = _content(trace, with_submit=False)
    ordered = content[order]
    submit = trace.column("submit_time")[order]
    gap: Floats = np.concatenate(([0.0], np.diff(submit)))
    # a fingerprint of SHORTEST records on end: contents, and the gaps between them
    mixed = ordered ^ (np.nan_to_num(gap, nan=-1.0).astype(np.int64).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    windows = n - SHORTEST + 1
    finger = ordered[:windows].copy()
    for k in range(1, SHORTEST):
        finger = finger * np.uint64(0x100000001B3) ^ mixed[k : k + windows]
    first = pd.Series(np.arange(windows)).groupby(finger, sort=False).transform("min").to_numpy()
    again = np.flatnonzero(first + SHORTEST <= np.arange(windows))
    # windows that follow each other in both copies make one block
    for run in np.split(again, np.flatnonzero((np.diff(again) != 1) | (np.diff(first[again]) != 1)) + 1):
        block = order[run[0] : run[-1] + SHORTEST] if len(run) else order[:0]
        if _believable(trace, block, content):
            marked[block] = True
    return marked


def _side_by_side(trace: Trace) -> NDArray[np.bool_]:
    """Find stretches, in submit order, in which nearly every record occurs exactly twice with the same submit time."""
    order = trace.order()
    content = _content(trace, with_submit=True)
    hashes = pd.Series(content[order])
    twice = (hashes.groupby(hashes, sort=False).transform("size") == 2).to_numpy()
    again = twice & hashes.duplicated().to_numpy()
    marked = np.zeros(len(trace), dtype=bool)
    width = 2 * SHORTEST
    if len(order) < width:
        return marked
    sums = np.concatenate(([0], np.cumsum(twice)))
    dense = np.flatnonzero(sums[width:] - sums[:-width] >= 0.8 * width)
    submit = trace.column("submit_time")
    for run in np.split(dense, np.flatnonzero(np.diff(dense) != 1) + 1):
        if not len(run):
            continue
        part = slice(run[0], run[-1] + width)
        rows = order[part][again[part]]
        moments = len(np.unique(submit[rows]))
        if moments >= 0.4 * len(rows) and _believable(trace, rows, content):
            marked[rows] = True
    return marked


def _believable(trace: Trace, rows: NDArray[np.intp], content: NDArray[np.uint64]) -> bool:
    """Return whether rows are copies: records must differ, and be of several users or of many lengths."""
    if len(rows) < SHORTEST or len(np.unique(content[rows])) < _VARIED * len(rows):
        return False
    users = trace.column("user")[rows]
    if (users >= 0).any():
        return len(np.unique(users)) >= 2
    run = trace.column("run_time")[rows]  # without users, a longer run is needed to rule out chance
    return len(rows) >= 3 * SHORTEST and len(np.unique(run[run > 60])) >= 0.6 * len(rows)


def duplicates(trace: Trace) -> list[Finding]:
    """Report blocks of records that occur twice."""
    if len(trace) < 2 * SHORTEST:
        raise CannotLook(f"fewer than {2 * SHORTEST} jobs")
    marked = twins(trace)
    rows = np.flatnonzero(marked)
    if not len(rows):
        return []
    breaks = np.flatnonzero(np.diff(rows) > SHORTEST) + 1
    blocks = np.split(rows, breaks)
    submit = trace.column("submit_time")
    spans = [(float(np.nanmin(submit[block])), float(np.nanmax(submit[block]))) for block in blocks]
    return [
        Finding(
            "duplicated-block",
            "warning",
            f"{len(rows):,} records repeat earlier ones in {len(blocks):,} block{'s' if len(blocks) > 1 else ''}: same "
            "sizes, times and users, same gaps between submits",
            {"records": len(rows), "blocks": len(blocks), "share": round(len(rows) / len(trace), 6)},
            rows,
            "drop-duplicated-blocks",
            "two files were joined with an overlap, or one was read twice",
            picture("submits_over_time", spans=spans, label="repeated"),
        )
    ]
