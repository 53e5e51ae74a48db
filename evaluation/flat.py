"""The jobs of a trace on disk as plain arrays, one file a column, so that any stretch of them is read at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.view import Reference, View
from tracekit.errors import OutputError

#: Types on disk: numbers, codes of labels, hours of the week.
_TYPES: dict[str, np.dtype[Any]] = {
    "number": np.dtype(np.float64),
    "label": np.dtype(np.int32),
    "hour": np.dtype(np.int16),
}

_SUBMITS = 1_000_000


class Flat:
    """Arrays of the jobs with a submit time, in submit order."""

    def __init__(self, folder: Path, machine: Reference, vocabulary: Mapping[str, Sequence[str]]) -> None:
        self.folder, self.machine, self.vocabulary = folder, machine, vocabulary
        self.kinds: dict[str, str] = {}
        self.jobs = 0

    def write(self, views: Iterable[View]) -> None:
        """Keep views of consecutive jobs, which all have the same columns."""
        try:
            self.folder.mkdir(parents=True)
            with ExitStack() as stack:
                files: dict[str, Any] = {}
                for view in views:
                    for name, kind, values in _columns(view):
                        if name not in files:
                            self.kinds[name] = kind
                            files[name] = stack.enter_context((self.folder / name).open("wb"))
                        values.astype(_TYPES[kind]).tofile(files[name])
                    self.jobs += len(view)
        except OSError as error:
            raise OutputError(f"{self.folder.parent}: cannot be written: {error.strerror or error}") from None

    def read(self, name: str, stretches: Iterable[tuple[int, int, float]]) -> View:
        """Return the view of some stretches: first job, job after the last, seconds added to the submit times."""
        there = list(stretches)
        columns: dict[str, NDArray[Any]] = {}
        for column, kind in self.kinds.items():
            found = [self._read(column, kind, first, stop) for first, stop, _ in there]
            if column == "submit":
                found = [part + shift for part, (_, _, shift) in zip(found, there, strict=True)]
            columns[column] = np.concatenate(found)
        numbers = {n.removeprefix("number-"): v for n, v in columns.items() if n.startswith("number-")}
        labels = {n.removeprefix("label-"): v.astype(np.int64) for n, v in columns.items() if n.startswith("label-")}
        hour = columns["hour"].astype(np.int64) if "hour" in columns else None
        return View(name, columns["submit"], numbers, labels, self.vocabulary, hour, self.machine)

    def submits(self) -> Iterator[NDArray[np.float64]]:
        """Yield the submit times, some at a time."""
        for first in range(0, self.jobs, _SUBMITS):
            yield self._read("submit", "number", first, min(first + _SUBMITS, self.jobs))

    def _read(self, column: str, kind: str, first: int, stop: int) -> NDArray[Any]:
        size = _TYPES[kind].itemsize
        return np.fromfile(self.folder / column, dtype=_TYPES[kind], count=stop - first, offset=first * size)


def _columns(view: View) -> list[tuple[str, str, NDArray[Any]]]:
    """Return the columns of a view: file name, kind, values."""
    found: list[tuple[str, str, NDArray[Any]]] = [("submit", "number", view.submit)]
    found += [(f"number-{name}", "number", values) for name, values in view.numbers.items()]
    found += [(f"label-{name}", "label", codes) for name, codes in view.labels.items()]
    return found if view.hour is None else [*found, ("hour", "hour", view.hour)]
