"""Numbers sorted on disk, and the job ids that occur more than once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import OutputError
from tracekit.large.source import Source

Floats = NDArray[np.float64]
#: About how many numbers of all runs are in memory at a time.
BLOCK = 1_000_000


class Runs:
    """Sorted runs of numbers in a folder, with a number, or a row of them, beside each, merged block by block."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sizes = folder, list[int]()

    def add(self, values: NDArray[Any], beside: NDArray[Any] | None = None) -> None:
        """Sort some numbers and keep them; equal ones stay in their order."""
        if not len(values):
            return
        order = np.argsort(values, kind="stable")
        place = self.folder / str(len(self.sizes))
        try:
            np.save(place.with_suffix(".values.npy"), values[order])
            if beside is not None:
                np.save(place.with_suffix(".beside.npy"), beside[order])
        except OSError as error:
            raise OutputError(f"{self.folder}: cannot be written: {error.strerror or error}") from None
        self.sizes.append(len(values))

    def blocks(self) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        """Yield all numbers in order, equal ones in the order in which they came and never in two blocks."""
        numbers_of = range(len(self.sizes))
        step = max(1, BLOCK // (8 * max(1, len(self.sizes))))
        samples = [np.array(self._open(number, "values")[::step]) for number in numbers_of]
        sampled = np.sort(np.concatenate(samples)) if samples else np.empty(0)
        cuts = np.unique(sampled[:: max(1, BLOCK // step)])[1:]
        begin = [0] * len(self.sizes)
        for cut in [*cuts.tolist(), None]:
            # opened again for each block: what was read of a mapped file counts as memory until it is closed
            runs, beside = ([self._open(number, what) for number in numbers_of] for what in ("values", "beside"))
            end = [len(run) if cut is None else int(np.searchsorted(run, cut, side="left")) for run in runs]
            slices = [slice(one, other) for one, other in zip(begin, end, strict=True)]
            values = np.concatenate([run[part] for run, part in zip(runs, slices, strict=True)]) if runs else sampled
            order = np.argsort(values, kind="stable")
            numbers = None
            if beside and beside[0] is not None:
                numbers = np.concatenate([run[part] for run, part in zip(beside, slices, strict=True)])[order]
            if len(values):
                yield values[order], numbers
            begin = end

    def _open(self, number: int, what: str) -> Any:
        place = self.folder / f"{number}.{what}.npy"
        return np.load(place, mmap_mode="r") if place.exists() else None


class Repeats:
    """Which jobs have an id that an earlier job has, too: one bit a job."""

    def __init__(self, bits: NDArray[np.uint8] | None = None) -> None:
        self.bits = bits  # of all jobs, eight in a byte; None = no id repeats

    @classmethod
    def of(cls, source: Source) -> Self:
        """Look at the ids of all jobs: where they only grow, once; else they are sorted on disk."""
        last, jobs, growing = -np.inf, 0, True
        for batch in source.batches(["job_id"]):
            ids = batch.column("job_id")
            growing = growing and (not len(ids) or (ids[0] > last and bool((np.diff(ids) > 0).all())))
            last, jobs = ids[-1] if len(ids) else last, jobs + len(ids)
        if growing:
            return cls()
        bits = np.zeros(-(-jobs // 8), dtype=np.uint8)
        with TemporaryDirectory(prefix="tracekit-") as folder:
            runs, at = Runs(Path(folder)), 0
            for batch in source.batches(["job_id"]):
                runs.add(batch.column("job_id"), np.arange(at, at + len(batch)))
                at += len(batch)
            for ids, places in runs.blocks():
                assert places is not None
                again = places[1:][ids[1:] == ids[:-1]]
                np.bitwise_or.at(bits, again >> 3, (1 << (again & 7)).astype(np.uint8))
        return cls(bits)

    def at(self, first: int, count: int) -> NDArray[np.bool_]:
        """Return for ``count`` jobs from position ``first`` on whether an earlier job has the same id."""
        if self.bits is None:
            return np.zeros(count, dtype=bool)
        bits = np.unpackbits(self.bits[first >> 3 : -(-(first + count) // 8)], bitorder="little")
        return bits[first & 7 : (first & 7) + count].astype(bool)
