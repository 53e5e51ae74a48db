"""Arrays over jobs that wait until they are looked at: in memory, or as files, so that few are in memory at a time.

A model learnt from more jobs than fit keeps some twenty numbers of each. They lie on disk as plain arrays, one file
each; a step reads those that it needs, one after the other, and goes through them in blocks, so that what it computes
on the way takes no memory for each job either. In blocks or not, on disk or not: the numbers are the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.errors import OutputError

Array = NDArray[Any]

#: Jobs that are gone through at a time.
BLOCK = 500_000


class _Folder:
    """A folder for temporary files, which is removed with everything that keeps it."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="tracekit-"))
        weakref.finalize(self, rmtree, self.path, ignore_errors=True)


class Filed:
    """An array in a file, which is removed with it. Reads the whole file, or a slice of it, each time it is asked."""

    def __init__(self, file: Path, dtype: np.dtype[Any], length: int, folder: _Folder) -> None:
        self.file, self.dtype, self._length, self._folder = file, dtype, length, folder
        weakref.finalize(self, file.unlink, missing_ok=True)

    def __len__(self) -> int:
        return self._length

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.fromfile(self.file, self.dtype).astype(dtype or self.dtype, copy=False)

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, slice):
            first, last, step = rows.indices(self._length)
            if step == 1:
                return np.fromfile(self.file, self.dtype, max(last - first, 0), offset=first * self.dtype.itemsize)
        return np.fromfile(self.file, self.dtype)[rows]


#: An array over jobs: look at it with ``array[rows]``, or read it with `whole`.
Column = Array | Filed


def append(file: Path, values: Array) -> None:
    """Write an array at the end of a file."""
    with file.open("ab") as out:
        out.write(values.view(np.uint8).data)


class Growing:
    """An array that is put together of pieces of one type."""

    def __init__(self, file: tuple[Path, _Folder] | None) -> None:
        self._file, self._pieces, self._length = file, list[Array](), 0
        self._dtype: np.dtype[Any] = np.dtype(np.float64)

    def add(self, values: Array) -> None:
        """Append a piece."""
        self._dtype = values.dtype if not self._length else self._dtype
        self._length += len(values)
        if self._file is None:
            self._pieces.append(values)
        if self._file is None or not len(values):
            return
        try:
            append(self._file[0], np.ascontiguousarray(values, dtype=self._dtype))
        except OSError as error:
            raise OutputError(f"{self._file[1].path}: cannot be written: {error.strerror or error}") from None

    def done(self) -> Column:
        """Return the array."""
        if not self._length:
            return np.empty(0, dtype=self._dtype)
        if self._file is None:
            return self._pieces[0] if len(self._pieces) == 1 else np.concatenate(self._pieces)
        return Filed(self._file[0], self._dtype, self._length, self._file[1])


class Shelf:
    """Where arrays are kept: in memory, or in a folder for temporary files."""

    def __init__(self, *, on_disk: bool = False) -> None:
        self._folder = _Folder() if on_disk else None
        self._files = 0

    @property
    def on_disk(self) -> bool:
        """Whether arrays are files."""
        return self._folder is not None

    def growing(self) -> Growing:
        """Return an array to be put together."""
        if self._folder is None:
            return Growing(None)
        self._files += 1
        return Growing((self._folder.path / f"{self._files}.array", self._folder))

    def keep(self, values: Array) -> Column:
        """Keep an array, and return what stands for it."""
        if self._folder is None:
            return values
        growing = self.growing()
        growing.add(values)
        return growing.done()


MEMORY = Shelf()


def whole(values: Column) -> Array:
    """Return all of an array; for one in memory the array itself."""
    return np.asarray(values)


def blocks(count: int) -> Iterator[slice]:
    """Yield the rows of so many jobs, some at a time."""
    for first in range(0, count, BLOCK):
        yield slice(first, min(first + BLOCK, count))


def groups_in_blocks(begins: NDArray[np.bool_]) -> Iterator[slice]:
    """Yield the rows of groups that lie one after the other, some whole groups at a time; ``begins``: a new group."""
    first = 0
    while first < len(begins):
        last = first + BLOCK
        rest = begins[last : last + BLOCK]
        while len(rest) and not rest.any():
            last += BLOCK
            rest = begins[last : last + BLOCK]
        last = last + int(rest.argmax()) if len(rest) else len(begins)
        yield slice(first, last)
        first = last


def small(values: Array) -> Array:
    """Return whole numbers in four bytes each where they fit; computing with them needs eight again."""
    edge = np.iinfo(np.int32).max
    fits = not len(values) or (-edge <= values.min() and values.max() <= edge)
    return values.astype(np.int32, copy=False) if fits else values


def ranked(key: Array) -> tuple[Array, Array]:
    """Return the rank of each key among the different ones, and these: as np.unique does, in less memory."""
    code, found = pd.factorize(key)
    order = np.argsort(found, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return small(rank)[code], found[order]
