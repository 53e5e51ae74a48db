"""What the classic models share: checks on input, the note that a trace is synthetic, and folders of plain files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError, NotFitted, TracekitError, UsageError
from tracekit.files import read_json
from tracekit.machine import Machine
from tracekit.trace import Trace

#: Columns that describe what a scheduler did, or that point at another job: synthetic jobs were not scheduled, and the
#: jobs pointed at do not exist.
NOT_WORKLOAD = ("wait_time", "prev_job", "think_time")


class Learnt(Protocol):
    """Jobs that were learnt from, of a machine."""

    @property
    def machine(self) -> Machine:
        """Their machine."""
        ...

    def __len__(self) -> int: ...


def check_jobs(name: str, trace: Trace, *, least: int = 2) -> Trace:
    """Return the jobs with a known submit time, in submit order; refuse when fewer than ``least`` are left."""
    order = trace.order()
    submit = trace.column("submit_time")[order]
    order = order[np.isfinite(submit)]
    check_enough(name, len(order), least)
    return trace.take(order)


def check_enough(name: str, jobs: int, least: int = 2) -> None:
    """Refuse to learn from fewer than ``least`` jobs."""
    if jobs < least:
        raise TracekitError(f"{name}: needs at least {least} jobs with a known submit time, this trace has {jobs}")


def check_count(name: str, n_jobs: int) -> int:
    """Return ``n_jobs`` if it is a whole number from 1."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs < 1:
        raise UsageError(f"{name}: the number of jobs to make must be a whole number from 1, not {n_jobs!r}")
    return int(n_jobs)


def not_fitted(name: str) -> NotFitted:
    """Return the error for a model that has not been fitted."""
    return NotFitted(f"model {name} is not fitted: call fit(trace, seed=…) or load(folder) first")


def made_note(name: str, how: str, real: Learnt, seed: int) -> str:
    """Return the sentence that states how a trace was made; it goes into its machine's notes and its history."""
    of = f" of {real.machine.name}" if real.machine.name else ""
    return f"MADE by tracekit, not recorded: model {name} ({how}) fitted to {len(real)} jobs{of}, seed {seed}"


def made_machine(machine: Machine, note: str) -> Machine:
    """Return ``machine`` marked as that of a synthetic trace, without the recorded log's header."""
    source = f"{note}; machine of {machine.source}" if machine.source else note
    return machine.replace(source=source, header=None, notes=(note, *machine.notes))


def submits_from_gaps(first: float, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return submit times, shape (gaps + 1,): ``first``, then one job after each gap (all in seconds)."""
    return first + np.concatenate([[0.0], np.cumsum(gaps)])


def save_trace(trace: Trace, folder: Path) -> None:
    """Write a model's fitted jobs to ``trace.parquet`` in its folder."""
    trace.save(Path(folder) / "trace.parquet", "parquet", force=True)


def save_batches(batches: Iterable[Trace], machine: Machine, folder: Path) -> None:
    """Write a model's fitted jobs batch by batch; only the first batch has the history."""
    from tracekit.api import write_chunks

    write_chunks(batches, Path(folder) / "trace.parquet", force=True, machine=lambda _: (machine, []))


def load_trace(folder: Path, source: str) -> Trace:
    """Read back what `save_trace` wrote, with the source that the jobs came from rather than this file."""
    trace = Trace.load(Path(folder) / "trace.parquet", "parquet")
    return trace.replace(machine=trace.machine.replace(source=source))


def write_config(folder: Path, name: str, values: dict[str, Any]) -> None:
    """Write ``config.json`` of a saved model, making the folder if it is missing."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"model": name, "version": 1, **values}, indent=1, sort_keys=True, allow_nan=False)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """Read what `write_config` wrote; a folder of another model, or of none, is a `FormatError`."""
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise FormatError(path, "no such file", hint="a saved model is a folder with config.json in it")
    values = read_json(path)
    if not isinstance(values, dict) or values.get("model") != name:
        found = values.get("model") if isinstance(values, dict) else None
        raise FormatError(path, f"contains model {found!r}, not {name!r}")
    return values
