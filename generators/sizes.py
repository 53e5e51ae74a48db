"""The sizes of a job as one learnable level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from generators.parts import Slot, Table, categorical, codes_of, slot_of
from generators.quantile import Floats
from tracekit.schema import SIZE_COLUMNS
from tracekit.trace import Trace

#: With more combinations than this, memory is learnt as a number of its own.
MAX_COMBINATIONS = 512


@dataclass(frozen=True)
class Sizes:
    """Processors, nodes, GPUs, tasks and the kind of GPU: one ordered level per combination that really occurred.

    On a machine of hosts the memory requested belongs to the combination, while there are at most `MAX_COMBINATIONS`:
    it decides with the rest which hosts have room. Columns that are a fixed multiple of another (64 processors a node)
    or equal to it are left out and re-derived; combinations that nobody ever asked for cannot come back.
    """

    key: ClassVar[str] = "sizes"
    names: tuple[str, ...]
    combos: Floats  # shape (levels, names): sorted by the scheduled unit; NaN = unknown; gpu_type as its position
    shares: Floats  # shape (levels,)
    ratios: dict[str, tuple[str, float]]  # derived column -> (column, factor)
    gpu_types: tuple[str, ...] = ()

    @classmethod
    def fit(cls, trace: Trace) -> Sizes:
        """Find multiples among the size columns and list the combinations of the rest."""
        present = [name for name in (*_sizes_by_unit(trace), "tasks") if trace.has(name)]
        if trace.machine.groups and trace.has("req_mem") and _few(trace, [*present, "req_mem"]):
            present.append("req_mem")
        names: list[str] = []
        ratios: dict[str, tuple[str, float]] = {}
        for name in present:
            found = next(
                (
                    (base, factor)
                    for base in names
                    if (factor := _factor(trace.column(base), trace.column(name))) is not None
                ),
                None,
            )
            if found:
                ratios[name] = found
            else:
                names.append(name)
        gpu_types: tuple[str, ...] = ()
        if trace.has("gpu_type"):
            names.append("gpu_type")
            gpu_types = tuple(trace.jobs["gpu_type"].cat.categories)
        rows = _size_rows(trace, tuple(names))
        combos, inverse = np.unique(np.nan_to_num(rows, nan=-1.0), axis=0, return_inverse=True)
        shares = np.bincount(inverse.ravel(), minlength=len(combos)) / len(rows)
        return cls(tuple(names), np.where(combos == -1.0, np.nan, combos), shares, ratios, gpu_types)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return every column that is written."""
        return (*self.names, *self.ratios)

    @property
    def slots(self) -> list[Slot]:
        """Return one ordered level."""
        return slot_of("size", "ordinal", self.shares)

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return the position of each job's combination; one that was not fitted becomes the nearest by size."""
        rows = np.nan_to_num(_size_rows(trace, self.names), nan=-1.0)
        known = {tuple(combo): i for i, combo in enumerate(np.nan_to_num(self.combos, nan=-1.0).tolist())}
        codes = np.array([known.get(tuple(row), -1) for row in rows.tolist()], dtype=np.int64)
        strange = codes < 0
        if strange.any():
            first = np.nan_to_num(self.combos[:, 0], nan=-1.0)
            codes[strange] = np.searchsorted(first, rows[strange, 0]).clip(0, len(first) - 1)
        return {"size": codes}

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write every size column."""
        rows = self.combos[codes_of(table, "size", len(self.combos))]
        for i, name in enumerate(self.names):
            if name == "gpu_type":
                position = np.nan_to_num(rows[:, i], nan=-1.0).astype(np.int64)
                jobs[name] = categorical(position, self.gpu_types)
            else:
                jobs[name] = rows[:, i]
        for name, (base, factor) in self.ratios.items():
            jobs[name] = np.round(jobs[base] * factor, 6)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        combos = [[None if np.isnan(v) else v for v in row] for row in self.combos.tolist()]
        return {
            "names": self.names,
            "combos": combos,
            "shares": self.shares.tolist(),
            "ratios": self.ratios,
            "gpu_types": self.gpu_types,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Sizes:
        """Read back what `to_dict` gave."""
        ratios = {name: (str(base), float(factor)) for name, (base, factor) in plain["ratios"].items()}
        return cls(
            tuple(plain["names"]),
            np.array(plain["combos"], dtype=np.float64),
            np.array(plain["shares"]),
            ratios,
            tuple(plain["gpu_types"]),
        )


def _sizes_by_unit(trace: Trace) -> list[str]:
    """Return the size columns with what the scheduler hands out first."""
    unit = trace.machine.unit
    return sorted(SIZE_COLUMNS, key=lambda name: (not name.endswith(unit), SIZE_COLUMNS.index(name)))


def _few(trace: Trace, names: list[str]) -> bool:
    """Return whether few enough combinations of some columns occur to be learnt as levels."""
    return len(trace.jobs[names].drop_duplicates()) <= MAX_COMBINATIONS


def _size_rows(trace: Trace, names: tuple[str, ...]) -> Floats:
    columns = [np.where(trace.column(n) < 0, np.nan, trace.column(n)).astype(np.float64) for n in names]
    return np.stack(columns, axis=1)


def _factor(base: Floats, other: Floats) -> float | None:
    """Return k if ``other`` = k·``base`` in every row (unknown in the same ones), else None."""
    known = np.isfinite(base)
    if not known.any() or not np.array_equal(known, np.isfinite(other)) or (base[known] == 0).any():
        return None
    ratio = other[known] / base[known]
    factor = float(ratio[0])
    return factor if np.allclose(ratio, factor, rtol=1e-12, atol=0) else None
