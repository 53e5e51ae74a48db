"""A trace as a table that models can learn, and back with validity by construction. One encoding for all models.

Plain tables make every model fail: jobs run longer than their limits, request sizes and limits that never occur, and
have no daily or weekly cycle. Here a trace is taken apart (`generators.parts`) into standard-normal numbers and small
codes; *any* table of that shape decodes to a trace whose rows are possible on the real machine, so a poor model gives a
poor distribution, but never an impossible job.

``decode(encode(trace))`` gives the trace back: times to their own resolution (the coarsest of 1, 0.1, 0.01, 0.001 s
that fits the column; full precision otherwise), sizes, limits and labels exactly. Not kept, by design: job ids (fresh,
from 1), waits and links between jobs (the synthetic jobs have not been scheduled), columns of the source's own
(``x_…``), limits of zero (they become unknown), overruns of a limit where fewer than one job in a thousand has one
(they end at the limit), and which rare label of a pool it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.amounts import Amount
from generators.arrivals import Arrivals
from generators.hosts import ASKS_FOR_NOTHING, Requests, never_placed
from generators.labels import LABELS, Label, Lookup, determines
from generators.parts import Part, Slot, Table, categorical
from generators.quantile import level_codes
from generators.run_time import Limit, RunTime
from generators.sizes import Sizes
from tracekit.errors import FormatError, TracekitError
from tracekit.machine import Machine, Unit
from tracekit.schema import to_numeric
from tracekit.sim.hosts.demand import NO_GPUS, TOO_LARGE, TOO_LARGE_POOL
from tracekit.trace import Trace
from tracekit.units import WORDS, coverage

EncodingName = Literal["default", "raw"]
PARTS: dict[str, Any] = {part.key: part for part in (Sizes, Limit, RunTime, Amount, Label, Lookup, Arrivals, Requests)}
#: Amounts that are known when a job has run, in the order in which they are learnt.
OUTCOMES = ("used_mem", "cpu_time", "mean_watts", "cpu_bound")
#: Why jobs cannot be learnt from.
_NO_RUN, _LARGER = "no run time, or one below 0", "larger than the machine"
#: With fewer jobs than this a model of tables has nothing to learn.
LEAST_JOBS = 20


class Encoding(Protocol):
    """What a model that learns tables needs to know of traces."""

    name: ClassVar[EncodingName]

    @property
    def slots(self) -> list[Slot]:
        """Return the learnable columns, in the order in which they are best learnt one after another."""
        ...

    def encode(self, trace: Trace, /, *, seed: int = 0) -> Table:
        """Return one row per job; ``trace`` is in submit order (see `learnable`)."""
        ...

    def decode(self, table: Table, /, *, seed: int = 0) -> Trace:
        """Return one job per row, in the same order."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        ...


def learnable(trace: Trace, least: int = LEAST_JOBS, *, keep_unusable: bool = False) -> tuple[Trace, list[str]]:
    """Return the jobs that can be learnt from, in submit order, and what was left out and why.

    A job needs a known submit time, a run time from 0 and a size (in the scheduled unit) that fits the machine. On a
    machine of hosts it needs a request that these can hold; a job without GPUs is then one that asks for cores only.
    Submit times before the epoch are fine: only the gaps between them are learnt. ``keep_unusable``: jobs without a
    run time or a size stay. Fewer than ``least`` jobs are an error.
    """
    notes, bad = [], np.zeros(len(trace), dtype=bool)
    for reason, rows in faults(trace, keep_unusable=keep_unusable).items():
        if rows.any():
            notes.append(left_out_note(int(rows.sum()), reason))
        bad |= rows
    order = trace.order()
    order = order[~bad[order]]
    usable = int((~(without_run_time(trace) | without_size(trace)))[order].sum())
    if usable < least:
        raise too_few(usable, len(trace), notes, least, other_unit(coverage(trace), trace.machine.unit))
    return trace.take(order), notes


def faults(trace: Trace, *, keep_unusable: bool = False) -> dict[str, NDArray[np.bool_]]:
    """Return which jobs cannot be learnt from, by reason; no job is there twice."""
    size, capacity = trace.sizes(), trace.machine.size()
    no_run, no_size = without_run_time(trace), without_size(trace)
    hosts = never_placed(trace)
    if keep_unusable:
        hosts = {reason: rows & ~no_size for reason, rows in hosts.items()}
    with np.errstate(invalid="ignore"):
        too_large = size > (np.inf if capacity is None else capacity)
    unusable = {_NO_RUN: no_run, f"no {WORDS[trace.machine.unit]}": no_size}
    reasons = {
        "no submit time": ~np.isfinite(trace.column("submit_time")),
        **({} if keep_unusable else unusable),
        **hosts,
        _LARGER: too_large,
    }
    bad = np.zeros(len(trace), dtype=bool)
    for reason in reasons:
        reasons[reason] = reasons[reason] & ~bad
        bad |= reasons[reason]
    return reasons


def in_order_of_faults(reasons: Iterable[str], machine: Machine, *, ordered: bool) -> list[str]:
    """Return reasons that came in several batches in the order of `faults`; ``ordered``: labels in theirs."""
    first = ("no submit time", _NO_RUN, f"no {WORDS[machine.unit]}")
    last = (NO_GPUS, TOO_LARGE, TOO_LARGE_POOL, ASKS_FOR_NOTHING, _LARGER)

    def place(reason: str) -> tuple[int, str]:
        if reason in first:
            return first.index(reason), ""
        if reason in last:
            return len(first) + 1 + last.index(reason), ""
        return len(first), reason if ordered else ""

    return sorted(reasons, key=place)


def left_out_note(count: int, reason: str) -> str:
    """Say how many jobs are left out, and why."""
    return f"{count} jobs not learnt from: {reason}"


def too_few(usable: int, jobs: int, notes: list[str], least: int, better: str) -> TracekitError:
    """Return the error for a trace with too few jobs to learn from; ``better``: another unit to schedule in."""
    why = f" ({'; '.join(notes)})" if notes else ""
    return TracekitError(
        f"too few jobs to learn from: {usable} of {jobs} are usable{why}; "
        f"at least {least} {'is' if least == 1 else 'are'} needed, some thousands are better{better}"
    )


def without_run_time(trace: Trace) -> NDArray[np.bool_]:
    """Return which jobs have no run time, or one below 0."""
    run = trace.column("run_time")
    with np.errstate(invalid="ignore"):
        return np.asarray(~(np.isfinite(run) & (run >= 0)))


def without_size(trace: Trace) -> NDArray[np.bool_]:
    """Return which jobs have no size in the scheduled unit."""
    size = trace.sizes()
    with np.errstate(invalid="ignore"):
        if trace.machine.groups and trace.machine.unit == "gpus":  # hosts also have cores to give
            return np.asarray(size < 0)
        return np.asarray(~(np.isfinite(size) & (size > 0)))


def other_unit(covered: Mapping[Unit, int], scheduled: Unit) -> str:
    """Return which units more jobs have than the scheduled one, for an error message."""
    better = [unit for unit, count in covered.items() if count > covered[scheduled]]
    return f"; more jobs have {' and '.join(better)}: --resource {better[0]}" if better else ""


@dataclass(frozen=True)
class DefaultEncoding:
    """The encoding that gives back only possible jobs. Its parts are decoded in order."""

    name: ClassVar[EncodingName] = "default"
    parts: tuple[Part, ...]
    machine: Machine

    @classmethod
    def fit(cls, trace: Trace) -> DefaultEncoding:
        """Collect what the trace has: dependencies, levels, scales, labels, its week."""
        parts: list[Part] = []
        labels = [name for name in LABELS if trace.has(name)]
        kept: list[str] = []
        lookups: list[Part] = []
        for name in labels:
            of = next((k for k in kept if name != "status" and determines(trace, k, name)), None)
            if of:
                lookups.append(Lookup.fit(trace, name, of))
            elif name != "status":
                kept.append(name)
        parts += [Label.fit(trace, name) for name in kept]
        parts += lookups
        sizes = Sizes.fit(trace)
        parts += [sizes, Limit.fit(trace)]
        parts += [Amount.fit(trace, "req_mem")] if trace.has("req_mem") and "req_mem" not in sizes.columns else []
        parts += [Requests.fit(trace)] if trace.machine.groups else []
        parts += [RunTime.fit(trace)]
        parts += [Amount.fit(trace, name) for name in OUTCOMES if trace.has(name)]
        parts += [Label.fit(trace, "status")] if "status" in labels else []
        parts += [Arrivals.fit(trace)]
        return cls(tuple(parts), trace.machine)

    @property
    def slots(self) -> list[Slot]:
        """Return the learnable columns: user, size, times, status, arrival."""
        return [slot for part in self.parts for slot in part.slots]

    @property
    def arrivals(self) -> Arrivals:
        """Return the part that holds the clock."""
        return next(part for part in self.parts if isinstance(part, Arrivals))

    @property
    def dependencies(self) -> list[str]:
        """Return which columns are not learnt because they are constant or determined by others."""
        found = []
        for part in self.parts:
            if isinstance(part, Sizes):
                found += [f"{name} = {factor:g}·{base}" for name, (base, factor) in part.ratios.items()]
            if isinstance(part, Lookup):
                found.append(f"{part.name} follows from {part.of}")
            if isinstance(part, (Label, Limit, Sizes)) and len(part.shares) == 1:
                found.append(f"{'size' if isinstance(part, Sizes) else getattr(part, 'name', 'req_time')} is constant")
        return found

    def encode(self, trace: Trace, /, *, seed: int = 0) -> Table:
        """Return one row per job of a trace in submit order; ties are spread over their step by ``seed``."""
        rng = np.random.default_rng([seed, 0xE])
        columns: dict[str, Any] = {}
        for part in self.parts:
            columns |= part.encode(trace, rng)
        return pd.DataFrame({slot.name: columns[slot.name] for slot in self.slots})

    def decode(self, table: Table, /, *, seed: int = 0) -> Trace:
        """Return one possible job per row, whatever the rows hold; ``seed`` draws from the pools of rare labels."""
        rng = np.random.default_rng([seed, 0xD])
        jobs: dict[str, Any] = {"job_id": np.arange(1, len(table) + 1)}
        for part in self.parts:
            part.decode(table, jobs, rng)
        return Trace(pd.DataFrame(jobs), self.machine)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        parts = [{"part": part.key, **part.to_dict()} for part in self.parts]
        return {"name": self.name, "machine": self.machine.to_dict(), "parts": parts}


@dataclass(frozen=True)
class RawEncoding:
    """The plain numeric columns, as in the published studies: nothing is promised about what comes back.

    Labels that are numbers stay numbers, others become their position; unknown is −1, as in SWF; only the status is a
    category. Decoding changes nothing that a model wrote, except that what was unknown somewhere is unknown below 0.
    """

    name: ClassVar[EncodingName] = "raw"
    columns: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]
    unknown: tuple[str, ...]  # columns with missing values
    statuses: tuple[str, ...]
    status_shares: tuple[float, ...]
    start: float
    machine: Machine

    @classmethod
    def fit(cls, trace: Trace) -> RawEncoding:
        """List the columns."""
        skip = {"job_id", "submit_time", "wait_time", "prev_job", "think_time", "status"}
        columns = tuple(
            name for name in trace.jobs.columns if not name.startswith("x_") and name not in skip and trace.has(name)
        )
        labels = {
            name: tuple(trace.jobs[name].cat.categories) for name in columns if name in LABELS or name == "gpu_type"
        }
        unknown = tuple(name for name in columns if bool(trace.jobs[name].isna().any()))
        count = trace.jobs["status"].value_counts(normalize=True) if trace.has("status") else pd.Series(dtype=float)
        count = count[count > 0]
        return cls(
            columns,
            labels,
            unknown,
            tuple(map(str, count.index)),
            tuple(count.tolist()),
            float(trace.column("submit_time")[0]),
            trace.machine,
        )

    @property
    def slots(self) -> list[Slot]:
        """Return the columns as they are, with the interval since the job before."""
        status = [Slot("status", "category", np.array(self.status_shares))] if len(self.statuses) > 1 else []
        return [*(Slot(name, "number") for name in self.columns), *status, Slot("interval", "number")]

    def _label_numbers(self, name: str) -> np.ndarray:
        numbers = to_numeric(pd.Series(self.labels[name], dtype=object)).to_numpy(dtype=np.float64)
        return numbers if np.isfinite(numbers).all() else np.arange(len(numbers), dtype=np.float64)

    def encode(self, trace: Trace, /, *, seed: int = 0) -> Table:
        """Return the plain columns of a trace in submit order."""
        table: dict[str, Any] = {}
        for name in self.columns:
            values = trace.column(name)
            if name in self.labels:
                values = np.append(self._label_numbers(name), np.nan)[values]
            table[name] = np.nan_to_num(values.astype(np.float64), nan=-1.0)
        if len(self.statuses) > 1:
            position = {status: i for i, status in enumerate(self.statuses)}
            table["status"] = trace.jobs["status"].astype(object).map(position).to_numpy(dtype=np.int64)
        table["interval"] = np.diff(trace.column("submit_time"), prepend=self.start)
        return pd.DataFrame(table)

    def decode(self, table: Table, /, *, seed: int = 0) -> Trace:
        """Return the columns as the model wrote them."""
        submit = self.start + np.cumsum(np.nan_to_num(table["interval"].to_numpy(dtype=np.float64)))
        jobs: dict[str, Any] = {"job_id": np.arange(1, len(table) + 1), "submit_time": submit}
        for name in self.columns:
            values = table[name].to_numpy(dtype=np.float64)
            if name in self.unknown:
                values = np.where(values < 0, np.nan, values)
            if name in self.labels and not np.array_equal(self._label_numbers(name), np.arange(len(self.labels[name]))):
                values = np.round(values)
            elif name in self.labels:
                position = level_codes(values, len(self.labels[name]))
                jobs[name] = categorical(position, self.labels[name])
                continue
            jobs[name] = values
        if self.statuses:
            codes = level_codes(table["status"].to_numpy(), len(self.statuses)) if "status" in table.columns else 0
            jobs["status"] = np.array(self.statuses, dtype=object)[codes * np.ones(len(table), np.int64)]
        return Trace(pd.DataFrame(jobs), self.machine)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "name": self.name,
            "machine": self.machine.to_dict(),
            "columns": self.columns,
            "labels": self.labels,
            "unknown": self.unknown,
            "statuses": self.statuses,
            "status_shares": self.status_shares,
            "start": self.start,
        }


def fit_encoding(trace: Trace, name: EncodingName = "default") -> Encoding:
    """Fit the encoding of that name to a trace that `learnable` gave."""
    return RawEncoding.fit(trace) if name == "raw" else DefaultEncoding.fit(trace)


def encoding_from_dict(plain: dict[str, Any]) -> Encoding:
    """Read back what an encoding's `to_dict` gave; a damaged one is a `FormatError`."""
    try:
        machine = Machine.from_dict(plain["machine"])
        if plain["name"] == "raw":
            return RawEncoding(
                tuple(plain["columns"]),
                {k: tuple(v) for k, v in plain["labels"].items()},
                tuple(plain["unknown"]),
                tuple(plain["statuses"]),
                tuple(plain["status_shares"]),
                float(plain["start"]),
                machine,
            )
        parts = [PARTS[part.pop("part")].from_dict(part) for part in map(dict, plain["parts"])]
        return DefaultEncoding(tuple(parts), machine)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError("encoding.json", f"is not a saved encoding: {error!r}") from None
