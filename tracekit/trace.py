"""The Trace: a table of jobs, the machine they ran on, and what was done to them since. Start reading here.

formats (swf/) ──▶ Trace ──▶ generators/ ──▶ Trace ──▶ evaluation/      with the simulator (tracekit/sim/) beside it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import notebook
from tracekit.errors import UsageError
from tracekit.machine import Machine, Unit
from tracekit.readings import not_a_share
from tracekit.registry import imported
from tracekit.schema import BY_NAME, COLUMNS, conform

SizeFrom = Literal["requested", "allocated", "max"]
Array = NDArray[Any]
#: Jobs that a notebook shows of a trace.
SHOWN_JOBS = 5


@dataclass(frozen=True, eq=False)
class Trace:
    """Jobs of one machine. Columns and units are those of `tracekit.schema.COLUMNS`.

    ``history`` lists what was done since the jobs were read or made; it is written to every format
    that can hold comments. Methods return new traces; none changes this one. Shortcuts for functions of other modules
    name them as ``module:function``: those modules import Trace, so they are imported only when called.
    """

    jobs: pd.DataFrame  # one row per job, in the source's order
    machine: Machine = field(default_factory=Machine)
    history: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "jobs", conform(self.jobs))

    def __len__(self) -> int:
        return len(self.jobs)

    def __repr__(self) -> str:
        of = f" of {self.machine.name}" if self.machine.name else ""
        size = self.machine.size()
        on = f", {size:,} {self.machine.unit}" if size else ""
        return f"<Trace: {len(self):,} jobs{of}{on}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the machine, the first jobs with the columns that hold values, the history."""
        names = [str(name) for name in self.jobs.columns if self.jobs[name].notna().any()]
        rows = self.jobs.iloc[:SHOWN_JOBS][names].itertuples(index=False, name=None)
        more = [f"… and {len(self) - SHOWN_JOBS:,} more jobs"] if len(self) > SHOWN_JOBS else []
        return notebook.table(repr(self)[1:-1], names, rows, [*more, *self.history])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the jobs as an Arrow stream, so that polars, duckdb and others accept a Trace as a table.

        Unknown values are nulls; labels are dictionaries of strings. Machine and history are not part of the stream.
        """
        import pyarrow as pa

        jobs = pa.Table.from_pandas(self.jobs, preserve_index=False).replace_schema_metadata(None)
        return jobs.__arrow_c_stream__(requested_schema)

    # ---- files ---------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path, format: str | None = None, **options: Any) -> Trace:
        """Read a trace in any known format; the same as `tracekit.read`."""
        import tracekit

        return tracekit.read(path, format, **options)

    def save(self, path: str | Path, format: str | None = None, *, force: bool = False) -> None:
        """Write the trace in the format of the name's ending; the same as `tracekit.write`."""
        import tracekit

        tracekit.write(self, path, format, force=force)

    # ---- looking -------------------------------------------------------------------------------------------------

    def column(self, name: str) -> Array:
        """Return one schema column as a plain array: float64 (NaN = unknown), or int64 codes for labels (−1).

        A column that the trace does not have is returned as all unknown, so callers need no special case.
        """
        kind = BY_NAME[name].kind
        if name not in self.jobs.columns:
            return np.full(len(self), -1, np.int64) if kind in ("label", "status") else np.full(len(self), np.nan)
        values = self.jobs[name]
        if kind in ("label", "status"):
            return values.cat.codes.to_numpy().astype(np.int64)
        if kind == "id":
            return values.to_numpy()
        return values.to_numpy(dtype=np.float64, na_value=np.nan)

    def has(self, name: str) -> bool:
        """Return whether a column exists and has at least one known value."""
        return name in self.jobs.columns and bool(self.jobs[name].notna().any())

    def order(self) -> NDArray[np.intp]:
        """Return row positions by (submit_time, position): the order in which the scheduler sees the jobs."""
        return np.argsort(self.column("submit_time"), kind="stable")

    def arrays(self, columns: Iterable[str] | None = None) -> dict[str, Array]:
        """Return plain arrays in submit order for code that must be fast, such as the simulator.

        ``position`` holds each job's row in ``jobs``. Numbers are float64 with NaN for unknown (job_id is int64),
        labels are int64 codes with −1.
        """
        names = [c.name for c in COLUMNS if c.name in self.jobs.columns] if columns is None else list(columns)
        order = self.order()
        return {"position": order, **{name: self.column(name)[order] for name in names}}

    def sizes(self, resource: Unit | None = None, source: SizeFrom = "requested") -> NDArray[np.float64]:
        """Return how many units of ``resource`` (default: ``machine.unit``) each job takes; NaN = unknown.

        ``requested`` falls back to allocated where the request is unknown, and vice versa.
        """
        resource = resource or self.machine.unit
        names = [name for name in (f"req_{resource}", f"alloc_{resource}") if name in self.jobs.columns]
        if len(names) < 2:
            sizes: NDArray[np.float64] = self.column(names[0] if names else f"req_{resource}")
            return sizes.copy() if names and self.jobs[names[0]].dtype == np.float64 else sizes
        requested, allocated = self.column(f"req_{resource}"), self.column(f"alloc_{resource}")
        if source == "max":
            return np.fmax(requested, allocated)
        first, second = (requested, allocated) if source == "requested" else (allocated, requested)
        return np.where(np.isnan(first), second, first)

    def interarrival(self) -> NDArray[np.float64]:
        """Return the seconds between consecutive submits, in submit order; one fewer than there are jobs."""
        return np.diff(np.sort(self.column("submit_time")))

    def offered_load(self) -> float:
        """Return demand over capacity while jobs were arriving; NaN when the machine's size is unknown."""
        load: float = imported("tracekit.stats:offered_load")(self)
        return load

    def summary(self) -> dict[str, Any]:
        """Return what `tracekit info` shows, as plain values."""
        facts: dict[str, Any] = imported("tracekit.stats:summary")(self)
        return facts

    def validate(self) -> list[Problem]:
        """List every kind of problem with its count, first rows and the cleaning rule that fixes it."""
        problems: list[Problem] = imported("tracekit.validation:validate")(self)
        return problems

    def equals(self, other: Trace) -> bool:
        """Return whether two traces have the same jobs and machine, whatever their history."""
        return self.machine == other.machine and self.jobs.equals(other.jobs)

    # ---- changing ------------------------------------------------------------------------------------------------

    def clean(self, rules: Sequence[str]) -> Trace:
        """Apply named cleaning rules in order; each one's count goes into the history."""
        cleaned: Trace = imported("tracekit.cleaning:clean")(self, rules)[0]
        return cleaned

    def replace(
        self, *, jobs: pd.DataFrame | None = None, machine: Machine | None = None, step: str | None = None
    ) -> Trace:
        """Return a trace with other jobs or another machine; ``step`` describes the change in a few words."""
        history = self.history if step is None else (*self.history, step)
        return Trace(self.jobs if jobs is None else jobs, self.machine if machine is None else machine, history)

    def assign(self, columns: Mapping[str, Any], *, step: str | None = None) -> Trace:
        """Return a trace with columns replaced or added."""
        return self.replace(jobs=self.jobs.assign(**columns), step=step)

    def take(self, rows: Any, *, step: str | None = None) -> Trace:
        """Return a trace of some rows only: positions, a slice, or one boolean per job."""
        return self.replace(jobs=self.jobs.iloc[rows].reset_index(drop=True), step=step)

    def head(self, n_jobs: int) -> Trace:
        """Return the first jobs of the file."""
        return self.take(slice(0, n_jobs), step=f"first {n_jobs} jobs")

    def between(self, after: float = -np.inf, before: float = np.inf) -> Trace:
        """Return the jobs submitted in ``[after, before)``, in seconds since the machine's epoch."""
        submit = self.column("submit_time")
        return self.take((submit >= after) & (submit < before), step=f"submitted from {after} to before {before}")

    def split(self, fraction: float) -> tuple[Trace, Trace]:
        """Split the trace in two by time, never shuffled: the earliest ``fraction`` of its jobs, and the rest."""
        if not 0 < fraction < 1:
            raise not_a_share("split", fraction)
        order = self.order()
        cut = round(len(self) * fraction)
        early, late = np.sort(order[:cut]), np.sort(order[cut:])
        return (
            self.take(early, step=f"earliest {fraction:g} of the jobs"),
            self.take(late, step=f"jobs after the earliest {fraction:g}"),
        )


@dataclass(frozen=True)
class Problem:
    """A check of `tracekit.validation` that found rows. ``first_rows`` are positions in ``trace.jobs``, from 0."""

    rule: str
    count: int
    first_rows: list[int]
    fix: str
    meaning: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "rule": self.rule,
            "count": self.count,
            "first_rows": self.first_rows,
            "fix": self.fix,
            "meaning": self.meaning,
        }


def check_trace(*values: object) -> None:
    """Raise UsageError for anything but a `Trace`, such as a file name."""
    for value in values:
        if not isinstance(value, Trace):
            made = f"use tracekit.read({str(value)!r})" if isinstance(value, (str, Path)) else "see tracekit.read"
            raise UsageError(f"expected a Trace, got {type(value).__name__}; {made}")
