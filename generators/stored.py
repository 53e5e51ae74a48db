"""Jobs that a model keeps, to draw from: in memory, or on disk, where they are looked up when they are drawn.

From disk, the jobs that are drawn are found in passes over the trace: memory grows with the jobs that are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.common import NOT_WORKLOAD, check_enough, save_batches, save_trace
from generators.in_order import Able
from tracekit.large.runs import Runs
from tracekit.large.source import whole_needed
from tracekit.machine import Machine
from tracekit.schema import sorted_labels
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Places = NDArray[np.integer[Any]]


class Stored(Protocol):
    """Jobs in submit order, by their places from 0."""

    machine: Machine
    history: tuple[str, ...]

    def __len__(self) -> int: ...

    @property
    def columns(self) -> list[str]:
        """The columns that are drawn, in their order: what a scheduler did is none of them."""
        ...

    def submit(self, places: Places) -> Floats:
        """Return when some of the jobs were submitted."""
        ...

    def take(self, places: Mapping[str, Places]) -> dict[str, Any]:
        """Return values of columns, of jobs that are given for each column."""
        ...

    def users(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return when each job was submitted, and by whom: the place of the user among the labels, −1 = unknown."""
        ...

    def save(self, folder: Path) -> None:
        """Write the jobs to ``trace.parquet``."""
        ...


def drawn_columns(names: Iterable[str]) -> list[str]:
    """Return which columns are drawn."""
    return [name for name in names if name not in NOT_WORKLOAD]


class InMemory:
    """The jobs of a trace that is in submit order."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.machine, self.history = trace, trace.machine, trace.history
        self._submit = trace.column("submit_time")

    def __len__(self) -> int:
        return len(self.trace)

    @property
    def columns(self) -> list[str]:
        """The columns that are drawn."""
        return drawn_columns(map(str, self.trace.jobs.columns))

    def submit(self, places: Places) -> Floats:
        """Return when some of the jobs were submitted."""
        return np.asarray(self._submit[places])

    def take(self, places: Mapping[str, Places]) -> dict[str, Any]:
        """Return values of columns."""
        return {name: self.trace.jobs[name].array.take(at) for name, at in places.items()}

    def users(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return when and by whom each job was submitted."""
        return self._submit, self.trace.column("user")

    def save(self, folder: Path) -> None:
        """Write the jobs."""
        save_trace(self.trace, folder)


class OnDisk:
    """The jobs of a trace that is read in batches; those not in submit order are sorted on disk for each look-up."""

    def __init__(self, name: str, able: Able) -> None:
        check_enough(name, able.timed)
        self.name, self.able = name, able
        self.machine, self.history = able.source.machine, able.source.history

    def __len__(self) -> int:
        return self.able.timed

    @property
    def columns(self) -> list[str]:
        """The columns that are drawn."""
        return drawn_columns(self.able.source.columns)

    def submit(self, places: Places) -> Floats:
        """Return when some of the jobs were submitted."""
        if self.able.sorted:
            return np.asarray(self._found({"submit_time": places})["submit_time"], dtype=np.float64)
        return self._in_order(places)[0]

    def take(self, places: Mapping[str, Places]) -> dict[str, Any]:
        """Return values of columns."""
        if self.able.sorted:
            return self._found(places)
        different = {id(at): at for at in places.values()}
        in_file = {key: self._in_order(at)[1] for key, at in different.items()}
        return self._found({name: in_file[id(at)] for name, at in places.items()})

    def users(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return when and by whom each job was submitted: 16 bytes a job, and some more while they are sorted."""
        submit, codes = np.empty(len(self)), np.empty(len(self), dtype=np.int32)
        labels = Labels()
        first = 0
        for batch in self.able.batches(["submit_time", "user"]):
            rows = slice(first, first + len(batch))
            submit[rows] = batch.column("submit_time")
            codes[rows] = labels.add(batch.jobs["user"]) if "user" in batch.jobs.columns else -1
            first += len(batch)
        place = labels.places(ordered=self.able.source.ordered)[1]
        user = place[codes]
        if not self.able.sorted:
            order = np.argsort(submit, kind="stable")
            submit, user = submit[order], user[order]
        return submit, user

    def save(self, folder: Path) -> None:
        """Write the jobs, batch by batch."""
        source = self.able.source
        if not self.able.sorted:
            raise whole_needed(source, f"saving model {self.name}, learnt from jobs that are not in submit order,")
        batches = (Trace(batch.jobs, self.machine, source.history) for batch in self.able.batches(source.columns))
        save_batches(batches, self.machine, folder)

    @contextmanager
    def _sorted(self) -> Iterator[Runs]:
        with TemporaryDirectory(prefix="tracekit-") as folder:
            runs, first = Runs(Path(folder)), 0
            for batch in self.able.batches(["submit_time"]):
                runs.add(batch.column("submit_time"), np.arange(first, first + len(batch)))
                first += len(batch)
            yield runs

    def _in_order(self, places: Places) -> tuple[Floats, NDArray[np.int64]]:
        """Return when jobs, given by their places in submit order, were submitted, and where they are in the file."""
        order = np.argsort(places, kind="stable")
        ranked, first = places[order], 0
        submit, in_file = np.empty(len(places)), np.empty(len(places), dtype=np.int64)
        with self._sorted() as runs:
            for values, positions in runs.blocks():
                assert positions is not None
                low, high = np.searchsorted(ranked, [first, first + len(values)])
                here = ranked[low:high] - first
                submit[order[low:high]], in_file[order[low:high]] = values[here], positions[here]
                first += len(values)
        return submit, in_file

    def _found(self, places: Mapping[str, Places]) -> dict[str, Any]:
        """Return values of columns of jobs, given by their places in the file, in one pass."""
        orders = {id(at): np.argsort(at, kind="stable") for at in places.values()}
        ranked = {id(at): at[orders[id(at)]] for at in places.values()}
        pieces: dict[str, list[Any]] = {name: [] for name in places}
        labels: dict[str, Labels] = {}
        first = 0
        for batch in self.able.batches(list(places)):
            for name, at in places.items():
                mine = ranked[id(at)]
                low, high = np.searchsorted(mine, [first, first + len(batch)])
                here, values = mine[low:high] - first, batch.jobs[name]
                if isinstance(values.dtype, pd.CategoricalDtype):
                    pieces[name].append(labels.setdefault(name, Labels()).add(values)[here])
                elif high > low:
                    pieces[name].append(values.array.take(here))
            first += len(batch)
        made: dict[str, Any] = {}
        for name, at in places.items():
            back = np.empty(len(at), dtype=np.int64)
            back[orders[id(at)]] = np.arange(len(at))
            if name in labels:
                names, place = labels[name].places(ordered=self.able.source.ordered and name != "status")
                codes = place[np.concatenate(pieces.pop(name))[back]]
                made[name] = pd.Categorical.from_codes(codes, categories=pd.Index(names, dtype=object))
            else:
                made[name] = _joined(pieces.pop(name)).take(back)
        return made


class Labels:
    """The labels of a column, numbered as they come."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def add(self, values: pd.Series) -> NDArray[np.int32]:
        """Return the number of each job's label; −1 = unknown."""
        codes = self.numbers(values)
        return np.array([*codes, -1], dtype=np.int32)[values.cat.codes.to_numpy()]

    def numbers(self, values: pd.Series) -> list[int]:
        """Return the number of each category."""
        number = self.number
        return [number.setdefault(str(name), len(number)) for name in values.cat.categories]

    def places(self, *, ordered: bool) -> tuple[list[str], NDArray[np.int64]]:
        """Return the labels, in their usual order or as they came, and the place of each number; that of −1 is −1."""
        names = sorted_labels(self.number) if ordered else list(self.number)
        place = np.full(len(names) + 1, -1, dtype=np.int64)
        place[[self.number[name] for name in names]] = np.arange(len(names))
        return names, place


def _joined(pieces: Sequence[Any]) -> Any:
    """Return arrays one after another; whole numbers of one batch and fractions of another are fractions."""
    if len({piece.dtype for piece in pieces}) > 1:
        pieces = [pd.Series(piece).to_numpy(dtype=np.float64, na_value=np.nan) for piece in pieces]
    return pd.concat([pd.Series(piece) for piece in pieces], ignore_index=True).array
