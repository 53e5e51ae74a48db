"""Traces as the metrics see them where they are larger than memory: read in batches, each job once for all metrics.

They are kept on disk as plain arrays, because intervals are drawn from many views of some weeks each. Jobs have to be
in submit order in the file.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evaluation.chained import Chained, Habits
from evaluation.flat import Flat
from evaluation.spreads import Lagged, log_seconds
from evaluation.view import (
    LABELS,
    MEMORY,
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
from tracekit.large.source import Source, check_disk, whole_needed
from tracekit.large.spreads import Counting, Spread
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
#: Jobs that are looked at at a time.
BATCH = 250_000
_KEPT = {*NUMBERS, *RAW_SIZES}
#: Called with the share of a view's jobs that was read.
Tell = Callable[[float], None]


@dataclass(frozen=True)
class Survey:
    """What has to be known of a trace before its jobs are compared; from one pass over a few columns."""

    source: Source
    jobs: int
    dated: int  # jobs with a submit time
    ends: tuple[float, float]  # first and last submit
    calendar: bool
    left_out: int
    largest: float
    demand: float
    words: Mapping[str, pd.Index]  # of each label, those that occur, sorted

    @classmethod
    def of(cls, source: Source, name: str) -> Survey:
        """Look at all jobs once; raise an error if they are not in submit order."""
        load, later, words = Load(), LaterThan(), {label: set[str]() for label in LABELS}
        missing, dated, largest = 0, 0, 0.0
        for batch in source.batches(("submit_time", "run_time", *RAW_SIZES, *LABELS)):
            load.add(batch)
            submit = batch.column("submit_time")
            known = np.isfinite(submit)
            if later(batch if known.all() else batch.take(known)).any():
                raise whole_needed(
                    source,
                    f"scoring {name}, whose jobs are not in submit order,",
                    "clean --whole --rules sort-by-submit sorts it",
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

    def __init__(
        self,
        name: str,
        survey: Survey,
        flat: Flat,
        folder: Path,
        *,
        tell: Tell = lambda share: None,
        stretches: Sequence[tuple[int, int, float]] | None = None,
    ) -> None:
        self.name, self.survey, self.flat, self.machine, self.tell = name, survey, flat, flat.machine, tell
        #: (first job, job after the last, seconds added to the submit times) of each stretch
        self.stretches = [(0, survey.dated, 0.0)] if stretches is None else list(stretches)
        self.jobs = sum(stop - first for first, stop, _ in self.stretches)
        self.dropped = survey.jobs - survey.dated if stretches is None else 0
        self._number, self.folder = 0, folder
        self._clean = weakref.finalize(self, shutil.rmtree, str(folder), ignore_errors=True)

    def __len__(self) -> int:
        return self.jobs

    def batches(self) -> Iterator[View]:
        """Yield the jobs as views in submit order, some at a time."""
        done, waiting, size = 0, list[tuple[int, int, float]](), 0
        for first, stop, shift in self.stretches:
            while first < stop:
                end = min(stop, first + BATCH - size)
                waiting.append((first, end, shift))
                size, first = size + end - first, end
                if size == BATCH:
                    yield self.flat.read(self.name, waiting)
                    done, size, waiting = done + size, 0, []
                    self.tell(done / self.jobs)
        if size:
            yield self.flat.read(self.name, waiting)

    @cached_property
    def _measured(self) -> _Measured:
        self.folder.mkdir(parents=True, exist_ok=True)
        found = _Measured(self.flat.vocabulary, self.folder)
        for view in self.batches():
            found.add(view)
        found.close()
        return found

    @cached_property
    def _spreads(self) -> dict[str, Spread]:
        return {name: counting.spread() for name, counting in self._measured.numbers.items()}

    @cached_property
    def habits(self) -> Habits:
        """Return how users submit."""
        return self._measured.chained.habits()

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

    def part(self, stretches: Sequence[tuple[int, int, float]]) -> Streamed:
        """Return a view of some stretches of this one."""
        self._number += 1
        place = self.folder / f"part-{self._number}"
        return Streamed(self.name, self.survey, self.flat, place, tell=self.tell, stretches=stretches)


class _Measured:
    """What one pass over the jobs finds."""

    def __init__(self, books: Mapping[str, Sequence[str]], folder: Path) -> None:
        self.books, self.folder = books, folder
        self.numbers: dict[str, Counting] = {}
        self.labels: dict[str, Codes] = {}
        self.hours = np.zeros(168, dtype=np.int64)
        self.arrivals: dict[int, NDArray[Any]] = {seconds: np.zeros(0, dtype=np.int32) for seconds in WINDOWS}
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
            if name in view.numbers:
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
            place = place[place < MOST_WINDOWS].astype(np.int64)
            if not len(place):
                continue
            low, high = int(place[0]), int(place[-1]) + 1
            if high > len(found):
                grown = np.zeros(min(max(high, 2 * len(found)), MOST_WINDOWS), dtype=np.int32)
                grown[: len(found)] = found
                self.arrivals[seconds] = found = grown
            found[low:high] += np.bincount(place - low, minlength=high - low).astype(np.int32)

    def close(self) -> None:
        """Keep counts in as few bytes as they need."""
        for seconds, found in self.arrivals.items():
            self.arrivals[seconds] = found.astype(np.min_scalar_type(found.max(initial=0)))


@dataclass(frozen=True)
class StreamedBlocks:
    """A trace cut into stretches of equal length; see `evaluation.view.Blocks`."""

    view: Streamed
    length: float
    edges: NDArray[np.intp]

    @classmethod
    def cut(cls, view: Streamed, length: float) -> StreamedBlocks:
        """Cut at multiples of ``length`` after the first submit; a last, incomplete stretch joins the one before."""
        assert len(view.stretches) == 1, "only a whole trace is cut"
        low, high = view.survey.ends
        limits = low + length * np.arange(1, max(1, int((high - low) // length)))
        edges = np.zeros(len(limits), dtype=np.intp)
        for submit in view.flat.submits():
            edges += np.searchsorted(submit, limits)
        return cls(view, length, np.concatenate(([0], edges, [len(view)])).astype(np.intp))

    def __len__(self) -> int:
        return len(self.edges) - 1

    def lay(self, chosen: NDArray[np.intp]) -> Streamed:
        """Return the chosen stretches end to end, in the order given."""
        shifts = laid(chosen, self.length, len(self), self.view.survey.ends)
        parts = zip(self.edges[chosen].tolist(), self.edges[chosen + 1].tolist(), shifts, strict=True)
        return self.view.part([(first, stop, float(shift)) for first, stop, shift in parts])


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
    sources: Sequence[Source],
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
    machine, books = replace(reference, hosts=None), books_of(surveys)
    check_disk(folder.parent, 8.0 * sum(survey.dated for survey in surveys) * len(COLUMNS), "scoring in parts")
    views = []
    for number, (survey, name) in enumerate(zip(surveys, names, strict=True)):
        flat = Flat(folder / f"flat-{number}", machine, {label: tuple(words) for label, words in books.items()})
        flat.write(_views(survey, name, books, machine, partial(tell, f"{name}: reading")))
        place = folder / f"view-{number}"
        views.append(Streamed(name, survey, flat, place, tell=partial(tell, f"{name}: measuring")))
    return views


def _views(survey: Survey, name: str, books: Mapping[str, pd.Index], machine: Reference, tell: Tell) -> Iterator[View]:
    """Yield all jobs of a trace as views."""
    done = 0
    for batch in survey.source.batches(COLUMNS):
        found = view_of(batch, name, books, machine, calendar=survey.calendar)
        yield replace(found, trace=None, numbers={n: v for n, v in found.numbers.items() if n in _KEPT})
        done += len(batch)
        tell(done / max(survey.jobs, 1))
