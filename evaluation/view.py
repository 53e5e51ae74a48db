"""Traces as the metrics see them: plain arrays in submit order, labels coded alike in all traces compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, overload

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evaluation.spreads import Lagged, Values, log_seconds
from tracekit import stats
from tracekit.clusters import cluster_of
from tracekit.machine import UNITS, Machine, Unit
from tracekit.sim.hosts.demand import demand_of
from tracekit.trace import Trace
from tracekit.watts import most_watts

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

DAY = 86_400.0
WEEK = 7 * DAY
#: Windows of arrivals that are counted, at most; longer traces are looked at from their start.
MOST_WINDOWS = 5_000_000

#: Columns of numbers that describe a job. Sizes are what a scheduler sees: requested, else allocated.
TIMES = ("run_time", "req_time", "cpu_time")
SIZES = ("procs", "nodes", "gpus")
MEMORY = ("req_mem", "used_mem")
POWER = ("mean_watts", "cpu_bound")
NUMBERS = ("run_time", "req_time", *SIZES, "tasks", *MEMORY, "cpu_time", *POWER)
#: The same sizes as the file has them; scored under their own names too, but not counted twice in means.
RAW_SIZES = ("req_procs", "alloc_procs", "req_nodes", "alloc_nodes", "req_gpus", "alloc_gpus")
LABELS = ("status", "user", "group", "app", "queue", "partition", "project", "gpu_type", "pool")
#: A column of its own: 1 for jobs that the cluster's hosts can never hold, else 0. Only where there are hosts.
UNPLACED = "unplaced"
#: Watts that a job's nodes can draw at most, on the real machine. Only where mean watts are known.
MOST_WATTS = "most_watts"

#: A machine of unknown size is taken to be as large as makes the real trace's offered load this, or as its largest job.
ASSUMED_LOAD = 0.7


@dataclass(frozen=True)
class Reference:
    """The machine that all traces of one comparison are measured against: the real one's."""

    unit: Unit
    capacity: float  # NaN when nothing is known of any size
    note: str = ""
    hosts: Machine | None = None  # the cluster; None = a machine without hosts
    power: Machine | None = None  # the machine whose watts count: the cluster, or the real one

    @classmethod
    def of(cls, real: Trace, cluster: Machine | None = None) -> Reference:
        """Take the real trace's machine, with a note on what was assumed where it is unknown.

        Its hosts are those of ``cluster``, or its own.
        """

        def jobs() -> tuple[float, float]:
            sizes = real.sizes()
            return float(sizes[sizes > 0].max(initial=0.0)), stats.mean_demand(real)

        return cls.sized(real.machine, cluster, jobs)

    @classmethod
    def sized(cls, machine: Machine, cluster: Machine | None, jobs: Callable[[], tuple[float, float]]) -> Reference:
        """Take the machine of the real trace; ``jobs`` returns its largest size and the mean demand, if needed."""
        hosts = hosts_of(machine, cluster)
        return replace(cls._counted(machine, hosts, jobs), hosts=hosts, power=hosts or machine)

    @classmethod
    def _counted(cls, machine: Machine, hosts: Machine | None, jobs: Callable[[], tuple[float, float]]) -> Reference:
        unit = machine.unit
        size = machine.size() or (None if hosts is None else hosts.size(unit))
        if size:
            return cls(unit, float(size))
        largest, demand = jobs()
        if not largest > 0:
            return cls(unit, float("nan"), "no sizes are known")
        largest = float(np.floor(largest))
        assumed = float(np.ceil(demand / ASSUMED_LOAD)) if np.isfinite(demand) else 0.0
        if largest >= assumed:
            return cls(unit, largest, f"machine size unknown: taken as the largest real job, {largest:,.0f} {unit}")
        return cls(unit, assumed, f"machine size unknown: {assumed:,.0f} {unit} make the real load {ASSUMED_LOAD}")


def hosts_of(machine: Machine, cluster: Machine | None) -> Machine | None:
    """Return whose hosts jobs are placed on: those of the cluster, or of the real trace's machine, if it has some."""
    return cluster or (cluster_of(machine) if machine.groups else None)


@dataclass(frozen=True, eq=False)
class View:
    """One trace's jobs as arrays, all of shape (jobs,), in submit order."""

    name: str
    submit: Floats  # seconds
    numbers: Mapping[str, Floats]  # NaN = unknown
    labels: Mapping[str, Codes]  # codes shared by all views of one comparison; −1 = unknown
    vocabulary: Mapping[str, Sequence[str]]
    hour: Codes | None  # local hour of the week, 0 = Monday midnight; None = no calendar
    machine: Reference
    dropped: int = 0  # jobs without a submit time, which have no place in any order
    trace: Trace | None = None  # the source; None for a resampled view

    def __len__(self) -> int:
        return len(self.submit)

    def has(self, name: str) -> bool:
        """Return whether a column holds at least one known value."""
        if name in self.labels:
            return bool((self.labels[name] >= 0).any())
        return name in self.numbers and bool(np.isfinite(self.numbers[name]).any())

    def known(self, name: str) -> Floats:
        """Return a column's known values."""
        values = self.numbers[name]
        return values[np.isfinite(values)]

    def varies(self, name: str) -> bool:
        """Return whether a column holds at least two different values."""
        known: NDArray[Any]
        if name in self.labels:
            known = self.labels[name][self.labels[name] >= 0]
        else:
            known = self.known(name) if name in self.numbers else np.empty(0)
        return len(known) > 1 and bool((known != known[0]).any())

    @cached_property
    def gaps(self) -> Floats:
        """Return the seconds between consecutive submits, shape (jobs − 1,)."""
        return np.diff(self.submit)

    @property
    def size(self) -> Floats:
        """Return how much of the scheduled unit each job takes."""
        return self.numbers[self.machine.unit]

    @property
    def span(self) -> float:
        """Return the seconds from the first to the last submit."""
        return float(self.submit[-1] - self.submit[0]) if len(self) else float("nan")

    @property
    def ends(self) -> tuple[float, float]:
        """Return the first and the last submit."""
        return float(self.submit[0]), float(self.submit[-1])

    @property
    def hours(self) -> Codes | None:
        """Return how many jobs were submitted in each local hour of the week, shape (168,); None = no calendar."""
        return None if self.hour is None else np.bincount(self.hour, minlength=168)

    @property
    def work(self) -> float:
        """Return Σ size·run in unit-seconds; a job with either unknown or below zero counts as no work."""
        run, size = self.numbers["run_time"], self.size
        return float(np.where((size > 0) & (run > 0), size * run, 0.0).sum())

    def label_counts(self, name: str) -> Codes:
        """Return how many jobs have each label, by its code."""
        codes = self.labels[name]
        return np.bincount(codes[codes >= 0])

    def arrivals(self, seconds: float) -> Floats:
        """Return how many jobs arrive in each whole window of some seconds after the first submit."""
        bins = min(int(self.span // seconds), MOST_WINDOWS)
        place = ((self.submit - self.submit[0]) // seconds).astype(np.int64)
        return np.bincount(place[place < bins], minlength=bins).astype(np.float64)

    def logged(self, name: str) -> Floats:
        """Return a column, or the gaps as ``interarrival``, as ln(1 + x)."""
        return log_seconds(self.gaps if name == "interarrival" else self.numbers[name])

    def cut(self, length: float) -> Blocks:
        """Cut into stretches of some seconds."""
        return Blocks.cut(self, length)

    def take(self, rows: NDArray[Any], submit: Floats | None = None) -> View:
        """Return a view of some rows, at other submit times if given; ``rows`` must keep submit order."""
        return replace(
            self,
            submit=self.submit[rows] if submit is None else submit,
            trace=None,
            dropped=0,
            numbers={name: values[rows] for name, values in self.numbers.items()},
            labels={name: codes[rows] for name, codes in self.labels.items()},
            hour=None if self.hour is None else self.hour[rows],
        )


def prepare(real: Trace, others: Sequence[Trace], names: Sequence[str], cluster: Machine | None = None) -> list[View]:
    """Return views of the real trace and of the others, with common label codes and the real trace's machine."""
    traces = [real, *others]
    reference = Reference.of(real, cluster)
    books = {label: _vocabulary(traces, label) for label in LABELS}
    return [view_of(trace, name, books, reference) for trace, name in zip(traces, names, strict=True)]


def _vocabulary(traces: Sequence[Trace], label: str) -> pd.Index:
    words: pd.Index = pd.Index([], dtype=object)
    for trace in traces:
        if label in trace.jobs.columns:
            words = words.union(trace.jobs[label].cat.categories, sort=False)
    return words


def view_of(
    trace: Trace, name: str, books: Mapping[str, pd.Index], reference: Reference, *, calendar: bool | None = None
) -> View:
    """Return the view of a trace; ``calendar`` says whether its submit times are dates, if that is known."""
    submit = trace.column("submit_time")
    order = trace.order()
    order = order[np.isfinite(submit[order])]
    numbers: dict[str, Floats] = {unit: trace.sizes(unit)[order] for unit in UNITS}
    for column in (*TIMES, *MEMORY, *POWER, *RAW_SIZES, "tasks", "wait_time"):
        if column in trace.jobs.columns:
            numbers[column] = trace.column(column)[order]
    if "mean_watts" in numbers:
        numbers[MOST_WATTS] = most_watts(trace, reference.power)[order]
    if reference.hosts is not None:
        demand = demand_of(trace, reference.hosts)
        numbers[UNPLACED] = (demand.reason[order] > 0).astype(np.float64)
    labels: dict[str, Codes] = {}
    for label, words in books.items():
        if label in trace.jobs.columns:
            code_of = words.get_indexer(trace.jobs[label].cat.categories).astype(np.int64)
            labels[label] = np.append(code_of, -1)[trace.column(label)][order]
    if "status" in labels and len(books["status"]):
        unknown = books["status"].get_indexer(pd.Index(["unknown"], dtype=object))[0]
        labels["status"] = np.where(labels["status"] == unknown, -1, labels["status"])
    dated = trace if len(order) == len(trace) else trace.take(order)
    hour = None
    if stats.has_calendar(trace) if calendar is None else calendar:
        hour = stats.hour_of_week(dated)[order] if dated is trace else stats.hour_of_week(dated)
    return View(
        name,
        submit[order],
        numbers,
        labels,
        {k: tuple(v) for k, v in books.items()},
        hour,
        reference,
        dropped=len(trace) - len(order),
        trace=trace,
    )


# ---- cutting a trace into weeks, and laying weeks end to end ---------------------------------------------------------


def weeks(view: View, time: Floats) -> Codes:
    """Return the week of each time, from 0; quarters of a trace that is shorter than four weeks."""
    length = WEEK if view.span >= 4 * WEEK else max(view.span / 4, 1.0)
    return np.asarray((time - view.submit[0]) // length, dtype=np.int64)


@dataclass(frozen=True)
class Blocks:
    """A view cut into stretches of equal length: ``edges[k]:edges[k + 1]`` are the rows of stretch k."""

    view: View
    length: float  # seconds
    edges: NDArray[np.intp]  # shape (blocks + 1,)

    @classmethod
    def cut(cls, view: View, length: float) -> Blocks:
        """Cut at multiples of ``length`` after the first submit; a last, incomplete stretch joins the one before."""
        count = max(1, int(view.span // length)) if len(view) else 0
        limits = view.submit[0] + length * np.arange(1, count) if count else np.empty(0)
        inner = np.searchsorted(view.submit, limits)
        return cls(view, length, np.concatenate([[0], inner, [len(view)]]).astype(np.intp))

    def __len__(self) -> int:
        return len(self.edges) - 1

    def lay(self, chosen: NDArray[np.intp]) -> View:
        """Return the chosen stretches end to end, in the order given: hours of day and week stay what they were."""
        rows = np.concatenate([np.arange(self.edges[k], self.edges[k + 1]) for k in chosen])
        shifts = laid(chosen, self.length, len(self), self.view.ends)
        moved = self.view.submit[rows] + np.repeat(shifts, np.diff(self.edges)[chosen])
        return self.view.take(rows, moved)


def laid(chosen: NDArray[np.intp], length: float, count: int, ends: tuple[float, float]) -> list[float]:
    """Return by how many seconds each chosen stretch of ``count`` is moved, so that they lie end to end."""
    shifts, at = [], 0.0
    for k in chosen:
        shifts.append(at - length * k)
        last = k == count - 1  # may be longer than the others
        at += length * np.ceil((ends[1] - ends[0] + 1) / length - k) if last else length
    return shifts


class Stretches(Protocol):
    """A trace cut into stretches of equal length: whole weeks, for instance."""

    @property
    def edges(self) -> NDArray[np.intp]:
        """The jobs ``edges[k]`` up to ``edges[k + 1]`` are in stretch k."""

    def __len__(self) -> int: ...

    def lay(self, chosen: NDArray[np.intp]) -> Seen:
        """Return the chosen stretches end to end."""


class Seen(Protocol):
    """What most metrics look at: a `View`, or a trace that is read in batches (`evaluation.streamed`)."""

    def __len__(self) -> int: ...

    @property
    def name(self) -> str:
        """What the trace is called."""

    @property
    def machine(self) -> Reference:
        """The machine of the comparison."""

    @property
    def dropped(self) -> int:
        """Jobs without a submit time."""

    @property
    def span(self) -> float:
        """Seconds from the first to the last submit."""

    @property
    def gaps(self) -> Values:
        """Seconds between consecutive submits."""

    @property
    def hours(self) -> Codes | None:
        """Jobs by local hour of the week; None = no calendar."""

    @property
    def work(self) -> float:
        """Unit-seconds of all jobs."""

    def has(self, name: str) -> bool:
        """Return whether a column holds a known value."""

    def known(self, name: str) -> Values:
        """Return a column's known values."""

    def varies(self, name: str) -> bool:
        """Return whether a column holds two different values."""

    def label_counts(self, name: str) -> Codes:
        """Return how many jobs have each label, by its code."""

    def arrivals(self, seconds: float) -> Floats:
        """Return how many jobs arrive in each window."""

    def logged(self, name: str) -> Floats | Lagged:
        """Return a column, or the gaps, as ln(1 + x) in submit order."""

    def take(self, rows: NDArray[np.intp]) -> View:
        """Return some jobs in memory."""

    def cut(self, length: float) -> Stretches:
        """Cut into stretches of some seconds."""


@overload
def halves(view: View) -> tuple[Blocks, NDArray[np.intp], NDArray[np.intp], str]: ...
@overload
def halves(view: Seen) -> tuple[Stretches, NDArray[np.intp], NDArray[np.intp], str]: ...
def halves(view: Seen) -> tuple[Stretches, NDArray[np.intp], NDArray[np.intp], str]:
    """Cut a real trace for the noise floor: odd and even weeks, or two halves if it is shorter than four weeks."""
    if view.span >= 4 * WEEK:
        blocks = view.cut(WEEK)
        full = np.flatnonzero(np.diff(blocks.edges))  # a trace of every other week must not end up in one half
        return blocks, full[0::2], full[1::2], f"odd against even weeks of {len(full)}"
    pieces = min(20, max(2, len(view) // 50))
    pieces -= pieces % 2
    blocks = view.cut(max(view.span / pieces * (1 - 1e-9), 1e-9))
    parts = np.arange(len(blocks))
    middle = len(parts) // 2
    return blocks, parts[:middle], parts[middle:], "first against second half: shorter than four weeks"


def resampled(blocks: Stretches, chosen: NDArray[np.intp], rng: np.random.Generator, times: int) -> Iterator[Seen]:
    """Yield views made of the chosen stretches drawn with replacement; draws of a job or none are drawn again."""
    for _ in range(times):
        drawn = rng.choice(chosen, len(chosen))
        while np.diff(blocks.edges)[drawn].sum() < 2:
            drawn = rng.choice(chosen, len(chosen))
        yield blocks.lay(drawn)
