"""Pictures of traces that are read in batches: the same as of the whole trace, in up to three passes over the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tracekit import stats
from tracekit.large.problems import LaterThan
from tracekit.large.runs import Runs
from tracekit.large.source import Source, whole_needed
from tracekit.large.spreads import Counting, Floats, Spread
from tracekit.plots.arriving import Submits, draw_arrivals, draw_hour_of_week, plain_hours
from tracekit.plots.catalogue import PICTURES, Drawn, chosen
from tracekit.plots.jobs import QUANTITIES, draw_cdfs
from tracekit.plots.outcomes import Endings, Waited, draw_failures, draw_waits
from tracekit.plots.people import Shares, draw_users
from tracekit.plots.recorded import MOST_ENDS, Use, draw_usage, use_edges
from tracekit.plots.style import NothingToDraw
from tracekit.recorded import assumptions
from tracekit.schema import SIZE_COLUMNS
from tracekit.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The pictures that can be drawn of batches; the others look at all jobs at once.
IN_PARTS = ("cdfs", "arrivals", "hour-of-week", "usage", "users", "failures", "waits")
_COLUMNS = ("submit_time", "run_time", "req_time", "wait_time", "status", "user", *SIZE_COLUMNS)
#: Called with what is being done, and how many jobs were read.
Tell = Callable[[str, int], None]


def check_pictures(source: Source, names: Iterable[str]) -> None:
    """Raise an error if pictures were asked for that need the whole trace."""
    whole = [name for name in names if name not in IN_PARTS]
    if whole:
        several = len(whole) > 1
        text = f"the picture{'s' * several} {', '.join(whole)}, of all jobs at once,"
        raise whole_needed(source, text, f"--only {','.join(IN_PARTS)} works in parts; slice makes a stretch to draw")


class _First:
    """What the first pass finds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = 0
        self.amounts = {name: Counting(folder / name.replace(" ", "-")) for name in QUANTITIES}
        self.hours, self.plain = np.zeros(168, dtype=np.int64), np.zeros(168, dtype=np.int64)
        self.ends, self.sizes = [np.inf, -np.inf], [np.inf, -np.inf]
        self.dated = True  # all submit times can be dates
        self.later, self.in_order, self.last = LaterThan(), True, np.empty(0)
        self.user_jobs: dict[str, int] = {}
        self.user_work: dict[str, float] = {}
        self.ran = self.waited = 0  # jobs that ran, and of these the ones with a known wait

    def add(self, batch: Trace) -> None:
        self.jobs += len(batch)
        submit, size = batch.column("submit_time"), batch.sizes()
        self._submits(batch.take(np.isfinite(submit)))
        given = {"run time": "run_time", "limit asked for": "req_time", "wait": "wait_time"}
        for name, values in [*((name, batch.column(column)) for name, column in given.items()), ("size", size)]:
            self.amounts[name].add(values[np.isfinite(values)])
        known = size[np.isfinite(size) & (size > 0)]
        self.sizes = [min(self.sizes[0], known.min(initial=np.inf)), max(self.sizes[1], known.max(initial=-np.inf))]
        if "user" in batch.jobs.columns:
            codes, names = batch.column("user"), list(batch.jobs["user"].cat.categories)
            there = codes >= 0
            jobs = np.bincount(codes[there], minlength=len(names))
            used = np.bincount(codes[there], weights=stats.work(batch)[there], minlength=len(names))
            for k in np.flatnonzero(jobs).tolist():
                self.user_jobs[names[k]] = self.user_jobs.get(names[k], 0) + int(jobs[k])
                self.user_work[names[k]] = self.user_work.get(names[k], 0.0) + float(used[k])
        ran, wait = _ran(batch)
        self.ran += int(ran.sum())
        self.waited += int((ran & (wait >= 0)).sum())

    def _submits(self, batch: Trace) -> None:
        """Take jobs whose submit time is known."""
        submit = batch.column("submit_time")
        if not len(submit):
            return
        self.ends = [min(self.ends[0], submit.min()), max(self.ends[1], submit.max())]
        self.plain += plain_hours(submit)
        self.dated = self.dated and stats.has_calendar(batch)
        if self.dated:
            self.hours += np.bincount(stats.hour_of_week(batch), minlength=168)
        self.in_order = self.in_order and not self.later(batch).any()
        if self.in_order:
            self.amounts["gap between submits"].add(np.diff(np.concatenate((self.last, submit))))
            self.last = submit[-1:]

    @property
    def waits_known(self) -> bool:
        return self.ran > 0 and self.waited / self.ran >= 0.5


def _ran(batch: Trace) -> tuple[np.ndarray, Floats]:
    """Return which jobs have a submit time, a run time and a size, and the waits, −1 = unknown."""
    submit, run, wait = (batch.column(name) for name in ("submit_time", "run_time", "wait_time"))
    size = batch.sizes()
    ran = np.isfinite(submit) & (run > 0) & (size > 0) & np.isfinite(run) & np.isfinite(size)
    return ran, np.where(np.isfinite(wait) & (wait >= 0), wait, -1.0)


class _Usage:
    """The use of the machine, in two passes: when jobs ended, and what was used in each bin of time."""

    def __init__(self, first: _First, source: Source, folder: Path) -> None:
        self.waits_known, self.source = first.waits_known, source
        self.jobs, self.begin = 0, np.inf
        self.ended = Counting(folder / "ended")
        self.edges = np.empty(0)

    def of(self, batch: Trace) -> tuple[Floats, Floats, Floats, Floats]:
        """Return submit, start, end and size of the jobs that are drawn."""
        ran, wait = _ran(batch)
        if self.waits_known:
            ran &= wait >= 0
        submit = batch.column("submit_time")[ran]
        start = submit + np.maximum(wait[ran], 0.0)
        return submit, start, start + batch.column("run_time")[ran], batch.sizes()[ran]

    def look(self, batch: Trace) -> None:
        """Take a batch in the pass before."""
        submit, _, end, _ = self.of(batch)
        self.jobs += len(submit)
        self.begin = min(self.begin, float(submit.min(initial=np.inf)))
        self.ended.add(end)

    def ready(self) -> None:
        """Choose the bins."""
        if not self.jobs:
            raise NothingToDraw("no job has a submit time, a run time and a size above zero")
        self.edges = use_edges(self.begin, float(self.ended.spread().quantiles([MOST_ENDS])[0]))
        self.used, self.waiting = _Bins(self.edges), _Bins(self.edges)

    def add(self, batch: Trace) -> None:
        """Take a batch in the last pass."""
        submit, start, end, size = self.of(batch)
        self.used.add(start, end, size)
        self.waiting.add(submit, start, np.ones(len(submit)))

    def draw(self) -> Figure:
        """Draw the picture."""
        machine = self.source.machine
        total = machine.size()
        assert total is not None, "checked before"
        waiting = self.waiting.mean() if self.waits_known else None
        remark = assumptions(self.waits_known, size_known=True)
        return draw_usage(
            Use(self.edges, self.used.mean() / total, waiting, self.jobs, total, machine.unit, True, remark)
        )


class _Bins:
    """The mean of a sum of intervals over each bin of time."""

    def __init__(self, edges: Floats) -> None:
        self.edges, self.width = edges, np.diff(edges)
        self.area = np.zeros(len(edges) - 1, dtype=np.longdouble)  # in the bins where an interval begins or ends
        self.level = np.zeros(len(edges), dtype=np.longdouble)  # what begins in a bin holds in all later ones

    def add(self, begin: Floats, end: Floats, amount: Floats) -> None:
        bins = len(self.width)
        for times, sign in ((begin, 1), (end, -1)):
            place = np.clip(np.searchsorted(self.edges, times, side="right") - 1, 0, bins)
            inside = place < bins
            at = place[inside]
            left = amount[inside] * (self.edges[at + 1] - times[inside])
            self.area += sign * np.bincount(at, weights=left, minlength=bins)
            self.level += sign * np.bincount(np.minimum(place + 1, bins), weights=amount, minlength=bins + 1)

    def mean(self) -> Floats:
        level = np.cumsum(self.level)[: len(self.width)]
        return np.asarray((self.area + level * self.width) / self.width, dtype=np.float64)


def draw_parts(
    source: Source, names: Iterable[str], folder: Path, tell: Tell = lambda what, jobs: None
) -> Iterator[Drawn]:
    """Draw pictures of a trace that is read in batches; ``folder`` is for numbers that are sorted on disk."""
    wanted = chosen(names)
    check_pictures(source, wanted)
    first = _First(folder)
    for batch in _told(source, tell, "first pass"):
        first.add(batch)
    ends = (float(first.sizes[0]), float(first.sizes[1]))
    endings, waited, used = Endings(ends), Waited(ends, folder / "waits"), _Usage(first, source, folder)
    if {"failures", "waits", "usage"} & set(wanted):
        for batch in _told(source, tell, "second pass"):
            endings.add(batch)
            waited.add(batch)
            used.look(batch)
    unit = source.machine.unit
    pictures: dict[str, Callable[[], Figure]] = {
        "cdfs": lambda: draw_cdfs(_known(first, source), source.machine, first.jobs),
        "arrivals": lambda: draw_arrivals(_submits(first, source)),
        "hour-of-week": lambda: draw_hour_of_week(_submits(first, source)),
        "usage": lambda: _used(used, partial(_told, source, tell, "third pass")),
        "users": lambda: draw_users(_shares(first, unit)),
        "failures": lambda: draw_failures(endings, unit),
        "waits": lambda: draw_waits(waited, unit),
    }
    for name in wanted:
        shows = PICTURES[name][0]
        try:
            yield Drawn(name, shows, pictures[name]())
        except NothingToDraw as reason:
            yield Drawn(name, shows, None, str(reason))


def _told(source: Source, tell: Tell, what: str) -> Iterator[Trace]:
    """Yield all jobs, telling how many were read."""
    done = 0
    for batch in source.batches(_COLUMNS):
        yield batch
        done += len(batch)
        tell(what, done)


def _used(used: _Usage, batches: Callable[[], Iterator[Trace]]) -> Figure:
    if used.jobs and used.source.machine.size() is None:
        raise NothingToDraw(
            "the size of the machine is unknown: give --procs (only the whole trace shows its largest use)"
        )
    used.ready()
    for batch in batches():
        used.add(batch)
    return used.draw()


def _known(first: _First, source: Source) -> dict[str, Spread]:
    """Return what the trace knows of the quantities; gaps of jobs out of order are sorted on disk."""
    found = {name: counting.spread() for name, counting in first.amounts.items()}
    if not first.in_order:
        counting = Counting(first.folder / "gaps")
        (first.folder / "submits").mkdir()
        runs, last = Runs(first.folder / "submits"), np.empty(0)
        for batch in source.batches(["submit_time"]):
            submit = batch.column("submit_time")
            runs.add(submit[np.isfinite(submit)])
        for submit, _ in runs.blocks():
            counting.add(np.diff(np.concatenate((last, submit))))
            last = submit[-1:]
        found["gap between submits"] = counting.spread()
    return {name: spread for name, spread in found.items() if len(spread)}


def _submits(first: _First, source: Source) -> Submits:
    low, high = first.ends
    return Submits(first.hours, first.plain, low, high, first.dated, source.machine.timezone)


def _shares(first: _First, unit: str) -> Shares:
    names = sorted(first.user_jobs)
    jobs, used = ([table[name] for name in names] for table in (first.user_jobs, first.user_work))
    return Shares(np.array(names, dtype=object), np.array(jobs, dtype=np.float64), np.array(used), unit)
