"""Traces as the metrics see them where they are larger than memory: read in batches, each job once for all metrics.

What needs the order of the jobs needs them in submit order in the file, because a view of some weeks reads these rows.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evaluation.chained import Chained, Habits
from evaluation.spreads import Counting, Lagged, Spread, log_seconds
from evaluation.view import (
    LABELS,
    MEMORY,
    MOST_WATTS,
    MOST_WINDOWS,
    NUMBERS,
    POWER,
    RAW_SIZES,
    SIZES,
    TIMES,
    Codes,
    Floats,
    Reference,
    View,
    laid,
    view_of,
)
from tracekit import stats
from tracekit.large.problems import LaterThan
from tracekit.large.source import Ranged, whole_needed
from tracekit.large.summary import Load
from tracekit.machine import Machine
from tracekit.trace import Trace
from tracekit.units import left_out

#: The families of metrics whose numbers can be had from batches.
FAMILIES_IN_PARTS = ("marginal", "time", "load")
COLUMNS = ("submit_time", *TIMES, *MEMORY, *POWER, *RAW_SIZES, "tasks", *LABELS)
#: Lengths of windows in which arrivals are counted, and lags of autocorrelations.
WINDOWS = (60, 300, 600, 900, 3_600, 21_600, 86_400)
LAGS = 100
#: Called with the share of a view's jobs that was read.
Tell = Callable[[float], None]


@dataclass(frozen=True)
class Survey:
    """What has to be known of a trace before its jobs are compared; from one pass over a few columns."""

    source: Ranged
    jobs: int
    dated: int  # jobs with a submit time
    ends: tuple[float, float]  # first and last submit
    calendar: bool
    left_out: int
    largest: float
    demand: float
    words: Mapping[str, pd.Index]  # of each label, those that occur, sorted

    @classmethod
    def of(cls, source: Ranged, name: str) -> Survey:
        """Look at all jobs once; raise an error if they are not in submit order."""
        load, later, words = Load(), LaterThan(), {label: set[str]() for label in LABELS}
        missing, dated, largest = 0, 0, 0.0
        for batch in source.batches(("submit_time", "run_time", *RAW_SIZES, *LABELS)):
            load.add(batch)
            submit = batch.column("submit_time")
            known = np.isfinite(submit)
            if later(batch if known.all() else batch.take(known)).any():
                raise whole_needed(
                    source, f"scoring {name}, whose jobs are not in submit order,", "or sort it where it fits"
                )
            dated += int(known.sum())
            missing += left_out(batch)
            sizes = batch.sizes()
            largest = max(largest, float(sizes[sizes > 0].max(initial=0.0)))
            for label, there in words.items():
                if label in batch.jobs.columns:
                    there.update(batch.jobs[label].cat.remove_unused_categories().cat.categories)
        first, last = load.known
        ends = pd.DataFrame({"job_id": [1, 2], "submit_time": [first, last], "run_time": np.nan, "req_procs": np.nan})
        calendar = first <= last and stats.has_calendar(Trace(ends, source.machine))
        index = {label: pd.Index(sorted(there), dtype=object) for label, there in words.items()}
        bounds = (load.submit.low, load.submit.high)
        return cls(source, load.jobs, dated, bounds, calendar, missing, largest, load.demand, index)


class Streamed:
    """One trace's jobs, or some stretches of them end to end, for the metrics that need no arrays of all jobs."""

    trace = None

    def __init__(
        self,
        name: str,
        survey: Survey,
        common: tuple[Mapping[str, pd.Index], Reference],
        folder: Path,
        *,
        tell: Tell = lambda share: None,
        stretches: Sequence[tuple[int, int, float]] | None = None,
        jobs: int | None = None,
    ) -> None:
        self.name, self.survey, self.common, self.tell = name, survey, common, tell
        self.books, self.machine = common
        #: (first row, row after the last, seconds added to the submit times) of each stretch
        self.stretches = [(0, survey.jobs, 0.0)] if stretches is None else list(stretches)
        self.jobs = survey.dated if jobs is None else jobs
        self.dropped = 0 if jobs is not None else survey.jobs - survey.dated
        self._number, self.folder = 0, folder
        self._clean = weakref.finalize(self, shutil.rmtree, str(folder), ignore_errors=True)

    def __len__(self) -> int:
        return self.jobs

    def batches(self) -> Iterator[View]:
        """Yield the jobs as views in submit order, some at a time."""
        total, done = max(sum(stop - first for first, stop, _ in self.stretches), 1), 0
        for first, stop, shift in self.stretches:
            for trace in self.survey.source.rows(first, stop, COLUMNS):
                view = view_of(trace, self.name, self.books, self.machine, calendar=self.survey.calendar)
                yield replace(view, submit=view.submit + shift, trace=None) if shift else view
                done += len(trace)
                self.tell(done / total)

    @cached_property
    def _measured(self) -> _Measured:
        self.folder.mkdir(parents=True, exist_ok=True)
        found = _Measured(self.books, self.folder)
        for view in self.batches():
            found.add(view)
        return found

    @cached_property
    def _spreads(self) -> dict[str, Spread]:
        return {name: counting.spread() for name, counting in self._measured.numbers.items()}

    @cached_property
    def habits(self) -> Habits:
        """Return how users submit."""
        return self._measured.chained.habits()

    @property
    def vocabulary(self) -> Mapping[str, Sequence[str]]:
        """Return the labels of all traces of the comparison."""
        return {name: tuple(words) for name, words in self.books.items()}

    @property
    def ends(self) -> tuple[float, float]:
        """Return the first and the last submit."""
        return self._measured.first, self._measured.last

    @property
    def span(self) -> float:
        """Return the seconds from the first to the last submit."""
        return self._measured.last - self._measured.first if self.jobs else float("nan")

    def has(self, name: str) -> bool:
        """Return whether a column holds at least one known value."""
        if name in LABELS:
            return name in self._measured.labels and bool(self._measured.labels[name].any())
        return name in self._spreads and self._spreads[name].count > 0

    def known(self, name: str) -> Spread:
        """Return a column's known values."""
        return self._spreads[name]

    def varies(self, name: str) -> bool:
        """Return whether a column holds at least two different values."""
        if name in LABELS:
            return name in self._measured.labels and int((self._measured.labels[name] > 0).sum()) > 1
        return name in self._spreads and self._spreads[name].low < self._spreads[name].high

    @property
    def gaps(self) -> Spread:
        """Return the seconds between consecutive submits."""
        return self._spreads["interarrival"]

    @property
    def hours(self) -> Codes | None:
        """Return how many jobs were submitted in each local hour of the week; None = no calendar."""
        return self._measured.hours if self.survey.calendar else None

    @property
    def work(self) -> float:
        """Return Σ size·run in unit-seconds."""
        return float(self._measured.work)

    def label_counts(self, name: str) -> Codes:
        """Return how many jobs have each label, by its code."""
        return np.trim_zeros(self._measured.labels[name], "b")

    def arrivals(self, seconds: float) -> Floats:
        """Return how many jobs arrive in each whole window of some seconds after the first submit."""
        found = self._measured.arrivals[int(seconds)]
        bins = min(int(self.span // seconds), MOST_WINDOWS)
        return np.pad(found[:bins], (0, max(bins - len(found), 0))).astype(np.float64)

    def logged(self, name: str) -> Lagged:
        """Return a column, or the gaps as ``interarrival``, as ln(1 + x)."""
        return self._measured.lagged[name]

    def take(self, rows: NDArray[np.intp]) -> View:
        """Return a view in memory of some rows, which must be in order."""
        found, first = [], 0
        for view in self.batches():
            there = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(view))] - first
            first += len(view)
            if len(there):
                found.append(view.take(there))
        return joined(found)

    def cut(self, length: float) -> StreamedBlocks:
        """Cut at multiples of ``length`` after the first submit, in a pass over the submit times."""
        return StreamedBlocks.cut(self, length)

    def part(self, stretches: Sequence[tuple[int, int, float]], jobs: int) -> Streamed:
        """Return a view of some stretches of this one."""
        self._number += 1
        place = self.folder / f"part-{self._number}"
        return Streamed(self.name, self.survey, self.common, place, tell=self.tell, stretches=stretches, jobs=jobs)


class _Measured:
    """What one pass over the jobs finds."""

    def __init__(self, books: Mapping[str, pd.Index], folder: Path) -> None:
        self.books, self.folder = books, folder
        self.numbers: dict[str, Counting] = {}
        self.labels: dict[str, Codes] = {}
        self.hours = np.zeros(168, dtype=np.int64)
        self.arrivals = {seconds: np.zeros(0, dtype=np.int64) for seconds in WINDOWS}
        self.lagged = {name: Lagged(LAGS) for name in ("interarrival", "run_time", *SIZES)}
        self.chained = Chained(len(books["user"]), (*SIZES, "req_time"), folder / "habits")
        self.work = np.longdouble(0)
        self.first = self.last = float("nan")

    def add(self, view: View) -> None:
        """Take the next jobs."""
        if not len(view):
            return
        self.work += np.longdouble(view.work)
        if np.isnan(self.first):
            self.first, self.last = float(view.submit[0]), float("nan")
        before = [] if np.isnan(self.last) else [self.last]
        gaps = np.diff(np.concatenate((before, view.submit)))
        self.last = float(view.submit[-1])
        series = {"interarrival": gaps, **{name: view.numbers[name] for name in ("run_time", *SIZES)}}
        for name, lagged in self.lagged.items():
            lagged.add(log_seconds(series[name]))
        for name in (*NUMBERS, *RAW_SIZES):
            if name in view.numbers and name != MOST_WATTS:
                self._count(name, view.known(name))
        self._count("interarrival", gaps)
        for name, codes in view.labels.items():
            counts = np.bincount(codes[codes >= 0], minlength=len(self.books[name]))
            self.labels[name] = self.labels.get(name, 0) + counts
        if view.hours is not None:
            self.hours += view.hours
        self._arrivals(view.submit)
        user = view.labels.get("user")
        if user is not None:
            unknown = np.full(len(view), np.nan)
            asked = {name: view.numbers.get(name, unknown) for name in ("run_time", *self.chained.asked)}
            self.chained.add(user, view.submit, asked)

    def _count(self, name: str, values: Floats) -> None:
        if name not in self.numbers:
            self.numbers[name] = Counting(self.folder / name)
        self.numbers[name].add(values)

    def _arrivals(self, submit: Floats) -> None:
        for seconds, found in self.arrivals.items():
            place = (submit - self.first) // seconds
            counts = np.bincount(place[place < MOST_WINDOWS].astype(np.int64), minlength=len(found))
            counts[: len(found)] += found
            self.arrivals[seconds] = counts


@dataclass(frozen=True)
class StreamedBlocks:
    """A trace cut into stretches of equal length; see `evaluation.view.Blocks`."""

    view: Streamed
    length: float
    edges: NDArray[np.intp]  # of jobs with a submit time
    rows: NDArray[np.intp]  # of all jobs of the file

    @classmethod
    def cut(cls, view: Streamed, length: float) -> StreamedBlocks:
        """Cut at multiples of ``length`` after the first submit; a last, incomplete stretch joins the one before."""
        assert len(view.stretches) == 1, "only a whole trace is cut"
        low, high = view.survey.ends
        limits = low + length * np.arange(1, max(1, int((high - low) // length)))
        edges, rows = np.zeros(len(limits), dtype=np.intp), np.zeros(len(limits), dtype=np.intp)
        begin = 0
        for batch in view.survey.source.batches(["submit_time"]):
            submit = batch.column("submit_time")
            known = np.flatnonzero(np.isfinite(submit))
            before = np.searchsorted(submit[known], limits)
            edges += before
            ends = before > 0
            rows[ends] = begin + known[before[ends] - 1] + 1
            begin += len(batch)
        whole = view.survey
        return cls(
            view,
            length,
            np.concatenate(([0], edges, [whole.dated])).astype(np.intp),
            np.concatenate(([0], rows, [whole.jobs])).astype(np.intp),
        )

    def __len__(self) -> int:
        return len(self.edges) - 1

    def lay(self, chosen: NDArray[np.intp]) -> Streamed:
        """Return the chosen stretches end to end, in the order given."""
        shifts = laid(chosen, self.length, len(self), self.view.survey.ends)
        stretches = [
            (int(self.rows[k]), int(self.rows[k + 1]), float(shift)) for k, shift in zip(chosen, shifts, strict=True)
        ]
        return self.view.part(stretches, int(np.diff(self.edges)[chosen].sum()))


def joined(views: Sequence[View]) -> View:
    """Return views of consecutive jobs as one."""
    first = views[0]
    return replace(
        first,
        submit=np.concatenate([view.submit for view in views]),
        numbers={name: np.concatenate([view.numbers[name] for view in views]) for name in first.numbers},
        labels={name: np.concatenate([view.labels[name] for view in views]) for name in first.labels},
        hour=None if first.hour is None else np.concatenate([view.hour for view in views if view.hour is not None]),
        dropped=0,
        trace=None,
    )


def books_of(surveys: Sequence[Survey]) -> dict[str, pd.Index]:
    """Return the labels of all traces, coded alike: those of the first, then the new ones of the others."""
    found: dict[str, pd.Index] = {}
    for label in LABELS:
        words: pd.Index = pd.Index([], dtype=object)
        for survey in surveys:
            words = words.union(survey.words[label], sort=False)
        found[label] = words
    return found


def prepare_streamed(
    sources: Sequence[Ranged],
    names: Sequence[str],
    folder: Path,
    cluster: Machine | None,
    tell: Callable[[str, float], None],
) -> list[Streamed]:
    """Return views of the real trace and of the others, with common label codes and the real trace's machine."""
    surveys = []
    for source, name in zip(sources, names, strict=True):
        tell(f"{name}: looking at the jobs", 0.0)
        surveys.append(Survey.of(source, name))
    real = surveys[0]
    reference = Reference.sized(real.source.machine, cluster, lambda: (real.largest, real.demand))
    common = books_of(surveys), replace(reference, hosts=None)
    return [
        Streamed(name, survey, common, folder / str(number), tell=partial(tell, f"{name}: reading"))
        for number, (survey, name) in enumerate(zip(surveys, names, strict=True))
    ]
