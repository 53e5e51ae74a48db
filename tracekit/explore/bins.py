"""The bins that all sources of a page share, so that they can be drawn on the same axes.

Times of jobs are counted on one axis of equal quanta. Run times, waits and gaps have bins whose edges grow by about an
eighth; the edges of the classes (a minute, an hour …) are among them. Sizes have a bin for each value, or four bins for
each factor of two where there are more than `MOST_SIZES`. Labels are numbered over all sources, the commonest first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.explore.source import Source
from tracekit.stats import has_calendar

Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]

QUANTA = 1 << 17
WEEK = 7 * 86400.0
MOST_SIZES = 64
MOST_USERS, MOST_QUEUES = 120, 14
#: Edges of the classes of length, and what they are called; as `tracekit plot` has them.
LENGTHS = (60.0, 600.0, 3600.0, 21600.0, 86400.0)
LENGTH_NAMES = ("≤ 1 min", "≤ 10 min", "≤ 1 h", "≤ 6 h", "≤ 1 d", "> 1 d")
_ANCHORS = (1.0, *LENGTHS, WEEK, 30 * 86400.0, 365 * 86400.0)
_GROWTH = 0.12  # of the edges, in logarithms
_CLASSES = 7  # of sizes, at most
_MOST_BINS = 254  # codes are bytes, and one means unknown
#: No axis with a calendar goes further, in Unix seconds: dates end in 2262, where a damaged run time may not.
_LAST_DATE = 9.2e9


@dataclass(frozen=True)
class Axis:
    """The axis of time: seconds (Unix seconds where all sources have a calendar), in quanta of equal width."""

    begin: float
    width: float
    count: int
    calendar: bool
    shifts: tuple[float, ...]  # of each source: added to its submit times
    timezone: str | None

    @classmethod
    def of(cls, sources: Sequence[Source]) -> Axis:
        """Lay the sources on one axis.

        Where their submits overlap by half of the shorter one, each keeps its time; else the others are shifted by
        whole weeks to begin with the first one, so that hours and weekdays stay.
        """
        calendar = all(has_calendar(source.trace) for source in sources)
        bases = [(source.trace.machine.epoch or 0.0) if calendar else 0.0 for source in sources]
        spans = [
            (base + source.submit[0], base + source.submit[-1]) for base, source in zip(bases, sources, strict=True)
        ]
        shifts = []
        for base, (first, last) in zip(bases, spans, strict=True):
            common = min(last, spans[0][1]) - max(first, spans[0][0])
            shorter = min(last - first, spans[0][1] - spans[0][0])
            apart = common < shorter / 2 or common < 0
            shifts.append(base + (WEEK * round((spans[0][0] - first) / WEEK) if apart else 0.0))
        begin = min(source.submit[0] + shift for source, shift in zip(sources, shifts, strict=True))
        end = max(_last(source) + shift for source, shift in zip(sources, shifts, strict=True))
        end = min(end, _LAST_DATE) if calendar else end
        width = max(1.0, (end - begin) / (QUANTA - 1))
        count = int((end - begin) // width) + 1
        return cls(begin, width, count, calendar, tuple(shifts), sources[0].trace.machine.timezone)

    def quantum(self, seconds: Floats) -> NDArray[np.int64]:
        """Return the quanta that times of the axis lie in."""
        return np.clip((seconds - self.begin) // self.width, 0, self.count - 1).astype(np.int64)

    def local(self) -> tuple[Codes, list[list[float]]]:
        """Return each quantum's hour of the week, 0 = Monday midnight, and the clock: [quantum, seconds ahead of UTC].

        Without a calendar, second 0 counts as a Monday midnight.
        """
        seconds = self.begin + self.width * np.arange(self.count)
        if not self.calendar:
            return ((seconds // 3600) % 168).astype(np.uint8), [[0, 0.0]]
        utc = pd.DatetimeIndex(pd.to_datetime(np.floor(seconds), unit="s", utc=True))
        there = utc.tz_convert(self.timezone or "UTC")
        ahead = (there.tz_localize(None) - utc.tz_localize(None)).total_seconds().to_numpy()
        change = np.flatnonzero(np.diff(ahead, prepend=np.nan) != 0)
        hours = (there.day_of_week * 24 + there.hour).to_numpy().astype(np.uint8)
        return hours, [[int(k), float(ahead[k])] for k in change]


def _last(source: Source) -> float:
    """Return the end of a source: its last submit, or the end of all but one in ten thousand jobs."""
    ends = source.end[np.isfinite(source.end)]
    last = float(source.submit[-1])
    return max(last, float(np.quantile(ends, 0.9999))) if len(ends) else last


@dataclass(frozen=True, eq=False)
class Scale:
    """Bins of one quantity: code k is above edge k − 1 and at most edge k; the last code is "unknown"."""

    edges: Floats  # (bins,) upper ones
    klass: Codes  # (bins + 1,) class of each code
    names: tuple[str, ...]  # of the classes, "unknown" last

    @property
    def unknown(self) -> int:
        """The code of unknown values."""
        return len(self.edges)

    def codes(self, values: Floats) -> Codes:
        """Return the bin of each value; NaN is unknown."""
        found = np.searchsorted(self.edges, values, side="left")
        found = np.where(np.isfinite(values), np.minimum(found, len(self.edges) - 1), self.unknown)
        return found.astype(np.uint8)

    def means(self, values: Floats, codes: Codes) -> list[float]:
        """Return the mean value in each bin; the upper edge of empty ones."""
        known = codes < self.unknown
        count = np.bincount(codes[known], minlength=self.unknown)
        total = np.bincount(codes[known], weights=values[known], minlength=self.unknown)
        return [float(mean) for mean in np.where(count > 0, total / np.maximum(count, 1), self.edges)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the page."""
        return {"edges": self.edges.tolist(), "class": self.klass.tolist(), "names": list(self.names)}


def time_scale(longest: float) -> Scale:
    """Return the bins of run times, waits or gaps up to the longest."""
    edges = [_ANCHORS[0]]
    anchors = [*_ANCHORS[1:], max(2 * _ANCHORS[-1], 1.01 * longest)]
    for low, high in zip(_ANCHORS, anchors, strict=True):
        steps = min(max(1, round(np.log(high / low) / _GROWTH)), _MOST_BINS - len(edges))
        edges += (low * (high / low) ** (np.arange(1, steps + 1) / steps)).tolist()
        edges[-1] = high  # exactly
        if high >= longest and high >= LENGTHS[-1]:
            break
    found = np.array(edges)
    klass = np.searchsorted(LENGTHS, found, side="left")
    return Scale(found, np.append(klass, len(LENGTH_NAMES)).astype(np.uint8), (*LENGTH_NAMES, "unknown"))


def size_scale(sizes: Floats) -> Scale:
    """Return the bins of sizes, and at most seven classes, each up to a power of two."""
    known = np.unique(sizes[np.isfinite(sizes)])
    if not len(known):
        return Scale(np.ones(1), np.array([0, 1], np.uint8), ("1", "unknown"))
    edges = known
    if len(known) > MOST_SIZES:
        octaves = float(np.log2(known[-1]) - np.log2(known[0]))
        each = min(4.0, (_MOST_BINS - 2) / octaves)  # bins of a factor of two
        last = np.diff(np.ceil(np.log2(known) * each - 1e-9), append=np.inf) > 0
        edges = known[last]  # the largest size of each bin
    bottom, top = (int(np.ceil(np.log2(max(value, 1)))) for value in (known[0], known[-1]))
    step = max(1, -(-(top - bottom + 1) // _CLASSES))
    bounds = 2.0 ** np.arange(bottom, top + step, step)
    klass = np.searchsorted(bounds, edges - 1e-9, side="left")
    used, klass = np.unique(klass, return_inverse=True)
    place = np.searchsorted(bounds, known - 1e-9, side="left")
    names = []
    for one in used:
        inside = known[place == one]
        low, high = (inside[0], inside[-1]) if len(inside) else (bounds[one], bounds[one])
        names.append(f"{low:,.6g}" if low == high else f"{low:,.6g}–{high:,.6g}")
    return Scale(edges, np.append(klass, len(used)).astype(np.uint8), (*names, "unknown"))


@dataclass(frozen=True, eq=False)
class Labels:
    """Names by number, the commonest first; then all others as one, and unknown."""

    names: tuple[str, ...]
    others: int  # names that have no number of their own

    @classmethod
    def of(cls, sources: Sequence[Source], column: str, most: int) -> Labels:
        """Number the labels of all sources; each source counts the same, however many jobs it has."""
        share: Counter[str] = Counter()
        for source in sources:
            if source.trace.has(column):
                counts = source.trace.jobs[column].value_counts(normalize=True)
                share.update({str(name): float(value) for name, value in counts.items() if value > 0})
        ranked = [name for name, _ in sorted(share.items(), key=lambda one: (-one[1], one[0]))]
        return cls(tuple(ranked[:most]), len(ranked[most:]))

    @property
    def unknown(self) -> int:
        """The code of jobs without a label; the one before is of all other labels."""
        return len(self.names) + 1

    def codes(self, source: Source, column: str) -> Codes:
        """Return the number of each job's label."""
        if not source.trace.has(column):
            return np.full(len(source), self.unknown, np.uint8)
        values = source.trace.jobs[column]
        number = {name: k for k, name in enumerate(self.names)}
        table = [number.get(str(name), len(self.names)) for name in values.cat.categories]
        return np.array([*table, self.unknown], np.uint8)[values.cat.codes.to_numpy()]

    def to_dict(self, wording: str) -> dict[str, Any]:
        """Return plain values for the page."""
        return {"names": [*self.names, f"{self.others:,} other {wording}", "unknown"], "others": self.others}


@dataclass(frozen=True, eq=False)
class Bins:
    """All bins of a page."""

    axis: Axis
    size: Scale
    run: Scale
    wait: Scale
    gap: Scale
    user: Labels
    queue: Labels
    queue_column: str
    met: tuple[float, float]  # jobs waiting at a submit: short up to the first, long above the second

    @classmethod
    def of(cls, sources: Sequence[Source]) -> Bins:
        """Make the bins for some sources."""
        axis = Axis.of(sources)
        column = next((c for c in ("queue", "partition", "pool") if any(s.trace.has(c) for s in sources)), "queue")
        return cls(
            axis,
            size_scale(np.concatenate([source.size for source in sources])),
            time_scale(max(_longest(source.run) for source in sources)),
            time_scale(max(_longest(source.wait) for source in sources)),
            time_scale(max(_longest(np.diff(source.submit)) for source in sources)),
            Labels.of(sources, "user", MOST_USERS),
            Labels.of(sources, column, MOST_QUEUES),
            column,
            _met_bounds(sources[0]),
        )


def _longest(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else 1.0


def _met_bounds(source: Source) -> tuple[float, float]:
    """Return the thirds of the length of the queue that jobs meet in the first source."""
    queue = met(source)
    queue = queue[np.isfinite(queue)]
    if not len(queue):
        return 0.0, 1.0
    low, high = (float(np.floor(value)) for value in np.quantile(queue, [1 / 3, 2 / 3]))
    if high <= low:
        low, high = 0.0, max(float(np.floor(np.quantile(queue[queue > 0], 0.5))) if (queue > 0).any() else 0.0, 1.0)
    return low, high


def met(source: Source) -> Floats:
    """Return how many jobs were waiting when each job was submitted; NaN without waits."""
    from tracekit.stats import queue_met

    if not source.waits_known:
        return np.full(len(source), np.nan)
    known = np.isfinite(source.wait)
    found = np.full(len(source), np.nan)
    found[known] = queue_met(source.submit[known], (source.submit + source.wait)[known])
    return found
