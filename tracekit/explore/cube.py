"""Jobs in bins: the cube that the page filters, as rows of codes (time, size, run time, wait, user …) and a count.

A row is one job at the finest level. Where that would be too many rows or bytes, the next level has longer quanta of
time, fewer bins and fewer named users, and jobs that fall into the same cell are one row. Nothing here goes job by job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.explore.bins import Bins, Codes, Labels, Scale, met
from tracekit.explore.source import Source
from tracekit.schema import STATUSES
from tracekit.stats import binned, kinds, steps

Ints = NDArray[np.int64]
#: Kinds of job that are numbered for each user, from the commonest on; the next number is all others.
KINDS = 10
UNKNOWN_KIND = KINDS + 1
REPEAT = 16  # added to the kind of a job that is the same as its user's job before
MET_UNKNOWN = 3
#: Bins of the exact use and queue over time.
SERIES = 1 << 15
#: Rows of a page at most: a browser filters half as many within a tenth of a second.
MOST_ROWS = 2_000_000
COLUMNS = ("size", "run", "wait", "gap", "user", "status", "queue", "kind", "met")


@dataclass(frozen=True)
class Level:
    """How coarse a cube is."""

    quanta: int  # of time that are one
    bins: int  # of run time and wait that are one, within a class
    sizes: int  # the same of sizes
    gaps: int  # the same of gaps
    users: int  # named ones
    kinds: int  # of a user's jobs that are told apart; the others are one

    def words(self, bins: Bins) -> str:
        """Return what was joined."""
        minutes = self.quanta * bins.axis.width / 60
        return f"jobs in cells: times to {minutes:,.3g} min, {min(self.users, len(bins.user.names))} users by name"


#: From fine to coarse; at the first one every job is a row.
LEVELS = (
    Level(1, 1, 1, 1, 120, 10),
    Level(4, 2, 1, 4, 60, 10),
    Level(16, 4, 2, 99, 30, 4),
    Level(64, 99, 99, 99, 8, 1),
    Level(256, 99, 99, 99, 4, 1),
    Level(2048, 99, 99, 99, 4, 1),
)


@dataclass(frozen=True, eq=False)
class Cube:
    """Rows by time, (rows,) each."""

    time: Ints  # quanta of the axis
    codes: dict[str, Codes]  # by `COLUMNS`
    count: Ints | None  # jobs of a row; None: one each
    level: Level

    def __len__(self) -> int:
        return len(self.time)


def coded(source: Source, bins: Bins, shift: float) -> tuple[Ints, dict[str, Codes]]:
    """Return the quantum and the codes of each job of a source, in submit order."""
    status = source.trace.column("status")
    unknown = STATUSES.index("unknown")
    gaps = np.diff(source.submit, prepend=np.nan)
    queue = met(source)
    low, high = bins.met
    classes = np.where(np.isnan(queue), MET_UNKNOWN, (queue > low).astype(int) + (queue > high))
    return bins.axis.quantum(source.submit + shift), {
        "size": bins.size.codes(source.size),
        "run": bins.run.codes(source.run),
        "wait": bins.wait.codes(source.wait),
        "gap": bins.gap.codes(gaps),
        "user": bins.user.codes(source, "user"),
        "status": np.where(status >= 0, status, unknown).astype(np.uint8),
        "queue": bins.queue.codes(source, bins.queue_column),
        "kind": kind_codes(source),
        "met": classes.astype(np.uint8),
    }


def kind_codes(source: Source) -> Codes:
    """Return for each job which of its user's kinds of job it is, 0 = the commonest, plus `REPEAT` if it is repeated.

    A kind is a size and a limit (or a run time to 10 %, without limits); a job is repeated if its user's job before was
    of the same kind.
    """
    if not source.trace.has("user"):
        return np.full(len(source), UNKNOWN_KIND, np.uint8)
    user, kind = source.trace.column("user").astype(np.int64), kinds(source.trace)
    known = user >= 0
    pair = user * (int(kind.max()) + 1) + kind
    pairs, where, counts = np.unique(pair, return_inverse=True, return_counts=True)
    owner = pairs // (int(kind.max()) + 1)
    order = np.lexsort((-counts, owner))
    first = np.flatnonzero(np.diff(owner[order], prepend=owner[order][0] - 1))
    rank = np.empty(len(pairs), np.int64)
    rank[order] = np.arange(len(pairs)) - np.repeat(first, np.diff(np.append(first, len(pairs))))
    by_user = np.argsort(user, kind="stable")
    same = np.zeros(len(user), bool)
    same[by_user[1:]] = pair[by_user[1:]] == pair[by_user[:-1]]
    code = np.minimum(rank[where], KINDS) + np.where(same, REPEAT, 0)
    return np.where(known, code, UNKNOWN_KIND).astype(np.uint8)


def cube(time: Ints, codes: dict[str, Codes], bins: Bins, level: Level) -> Cube:
    """Return the rows of a level."""
    if level is LEVELS[0]:
        return Cube(time, codes, None, level)
    time = time // level.quanta * level.quanta
    codes = {name: table[codes[name]] for name, table in tables(bins, level).items()}
    order = np.lexsort([codes[name] for name in reversed(COLUMNS)] + [time])
    new = np.zeros(len(time), bool)
    new[:1] = True
    columns: list[NDArray[Any]] = [time, *codes.values()]
    for column in columns:
        new[1:] |= column[order][1:] != column[order][:-1]
    first = np.flatnonzero(new)
    rows = order[first]
    count = np.diff(np.append(first, len(time)))
    return Cube(time[rows], {name: column[rows] for name, column in codes.items()}, count, level)


def tables(bins: Bins, level: Level) -> dict[str, Codes]:
    """Return for each column which code stands for each code at a level."""
    kind = np.arange(2 * REPEAT)
    joined = np.where((kind % REPEAT >= level.kinds) & (kind % REPEAT <= KINDS), kind // REPEAT * REPEAT + KINDS, kind)
    same = np.arange(256, dtype=np.uint8)
    return dict.fromkeys(COLUMNS, same) | {
        "size": _joined(bins.size, level.sizes),
        "run": _joined(bins.run, level.bins),
        "wait": _joined(bins.wait, level.bins),
        "gap": _joined(bins.gap, level.gaps),
        "user": _fewer(bins.user, level.users),
        "kind": joined.astype(np.uint8),
    }


def _joined(scale: Scale, step: int) -> Codes:
    """Return for each code the one that stands for it: the middle of ``step`` neighbours of its class."""
    found = np.arange(len(scale.klass), dtype=np.uint8)
    for one in np.unique(scale.klass[: scale.unknown]):
        inside = np.flatnonzero(scale.klass[: scale.unknown] == one)
        groups = np.arange(len(inside)) // step
        middle = np.minimum(groups * step + step // 2, len(inside) - 1)
        found[inside] = inside[middle]
    return found


def _fewer(labels: Labels, named: int) -> Codes:
    found = np.arange(len(labels.names) + 2)
    found[named : len(labels.names)] = len(labels.names)
    return found.astype(np.uint8)


def series(source: Source, bins: Bins, shift: float, most: int = SERIES) -> dict[str, NDArray[np.float64]]:
    """Return the exact use of the machine and length of the queue, as means over up to ``most`` bins of the axis."""
    axis = bins.axis
    count = min(most, axis.count)
    edges = np.linspace(axis.begin, axis.begin + axis.width * axis.count, count + 1) - shift
    ran = np.isfinite(source.start)
    found = {"used": np.zeros(count), "waiting": np.zeros(count)}
    if ran.any():
        found["used"] = binned(*steps(source.start[ran], source.end[ran], source.size[ran]), edges)
    waits = np.isfinite(source.wait)
    if waits.any():
        found["waiting"] = binned(*steps(source.submit[waits], (source.submit + source.wait)[waits]), edges)
    return found


def about(source: Source, bins: Bins, codes: dict[str, Codes]) -> dict[str, Any]:
    """Return what the page must know of a source besides its rows: means in the bins, and what is known."""
    values = {"size": source.size, "run": source.run, "wait": source.wait}
    known = {
        "waits": bool(np.isfinite(source.wait).any()),
        "waits_half": source.waits_known,
        "runs": bool(np.isfinite(source.run).any()),
        "sizes": bool(np.isfinite(source.size).any()),
        "users": source.trace.has("user"),
        "queues": source.trace.has(bins.queue_column),
        "status": bool((codes["status"] != STATUSES.index("unknown")).any()),
        "machine": source.size_known,
    }
    return {
        "name": source.name,
        "kind": source.kind,
        "jobs": len(source),
        "total": source.total,
        "users": int(source.trace.jobs["user"].nunique()) if known["users"] else 0,
        "known": known,
        "means": {name: getattr(bins, name).means(values[name], codes[name]) for name in values},
        "notes": list(source.notes),
    }
