"""The columns of a trace, as data, and the conversion of any table to their types.

All times are seconds, all memory is KB, all power is watts, all shares are 0 to 1. Missing is NaN in float columns and
NA in the others; the −1 of SWF files never appears here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.errors import SchemaError

Kind = Literal["id", "seconds", "count", "kilobytes", "watts", "share", "label", "status"]


@dataclass(frozen=True)
class Column:
    """One column that a trace may have."""

    name: str
    kind: Kind
    meaning: str
    required: bool = False


COLUMNS: tuple[Column, ...] = (
    Column("job_id", "id", "unique number of the job", required=True),
    Column("submit_time", "seconds", "since machine.epoch; the file's order of jobs is kept", required=True),
    Column("wait_time", "seconds", "from submit to start"),
    Column("run_time", "seconds", "wall-clock time the job ran", required=True),
    Column("req_time", "seconds", "the requested time limit; never filled in from run_time"),
    Column("req_procs", "count", "processors requested"),
    Column("alloc_procs", "count", "processors allocated"),
    Column("req_nodes", "count", "nodes requested"),
    Column("alloc_nodes", "count", "nodes allocated"),
    Column("req_gpus", "count", "GPUs requested"),
    Column("alloc_gpus", "count", "GPUs allocated"),
    Column("req_mem", "kilobytes", "memory requested, per processor"),
    Column("used_mem", "kilobytes", "memory used, per processor"),
    Column("cpu_time", "seconds", "CPU time used, mean per processor"),
    Column("mean_watts", "watts", "electric power of all its nodes, their idle share included, mean over its run"),
    Column("cpu_bound", "share", "share of the run time that scales with the frequency of the processors"),
    Column("status", "status", "how the job ended; the source's own code survives in x_status"),
    Column("user", "label", "the user who submitted it"),
    Column("group", "label", "the user's group"),
    Column("app", "label", "the program that was run"),
    Column("queue", "label", "the queue it was submitted to"),
    Column("partition", "label", "the part of the machine it ran on"),
    Column("project", "label", "the project or account that was charged"),
    Column("gpu_type", "label", "the requested GPU type"),
    Column("tasks", "count", "tasks that its demands are divided among, placed all at once; missing: one"),
    Column("pool", "label", "the pool of hosts (virtual cluster) it must run in"),
    Column("prev_job", "count", "id of the job that had to end before"),
    Column("think_time", "seconds", "between the end of prev_job and the submit"),
)
BY_NAME = {column.name: column for column in COLUMNS}
STATUSES = ("completed", "failed", "cancelled", "timeout", "partial", "unknown")
#: Kinds whose columns are float64.
AMOUNTS = ("seconds", "kilobytes", "watts", "share")
SIZE_COLUMNS = ("req_procs", "alloc_procs", "req_nodes", "alloc_nodes", "req_gpus", "alloc_gpus")


def conform(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return ``jobs`` with every column in its schema type and a plain row index; values are never changed.

    A table that has these types already is returned unchanged. Other columns must start with ``x_``.
    """
    _check_columns(jobs)
    changed: dict[str, Any] = {}
    for name in jobs.columns:
        column = BY_NAME.get(name)
        if column is None and _holds_str(jobs[name].dtype):
            changed[name] = _plain_texts(jobs[name])
        elif column is not None and not _in_shape(jobs[name], column.kind):
            changed[name] = _coerce(jobs[name], column)
    if changed:
        jobs = jobs.assign(**changed)
    order = [c.name for c in COLUMNS if c.name in jobs.columns]
    order += [name for name in jobs.columns if name not in BY_NAME]
    if list(jobs.columns) != order:
        jobs = jobs[order]
    if not (isinstance(jobs.index, pd.RangeIndex) and jobs.index.start == 0 and jobs.index.step == 1):
        jobs = jobs.reset_index(drop=True)
    return jobs


def _check_columns(jobs: pd.DataFrame) -> None:
    names = list(jobs.columns)
    missing = [c.name for c in COLUMNS if c.required and c.name not in names]
    if missing:
        raise SchemaError(f"a trace needs the column{'s' * (len(missing) > 1)} {', '.join(missing)}")
    if not any(name in names for name in SIZE_COLUMNS):
        raise SchemaError("a trace needs at least one column of processors, nodes or gpus, such as req_procs")
    if len(set(names)) < len(names):
        raise SchemaError(f"column {next(n for n in names if names.count(n) > 1)} appears twice")
    strange = [str(name) for name in names if name not in BY_NAME and not str(name).startswith("x_")]
    if strange:
        raise SchemaError(f"names of additional columns must start with x_: {', '.join(strange)}")


def _holds_str(dtype: Any) -> bool:
    """Return whether texts are held in pandas 3's own type ``str`` (missing = NaN), alone or as categories."""
    inner = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    return isinstance(inner, pd.StringDtype) and str(inner) == "str"


def _plain_texts(values: pd.Series) -> pd.Series:
    """Return texts as Python objects, so that a trace has the same types under pandas 2 and 3."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        names: Any = values.cat.categories.astype(object)  # the stubs want a Sequence, which would lose the type
        return values.cat.rename_categories(names)
    return values.astype(object)


def _in_shape(values: pd.Series, kind: Kind) -> bool:
    dtype = values.dtype
    if kind == "id":
        return dtype == np.int64
    if kind in AMOUNTS:
        return dtype == np.float64
    if kind == "count":
        return isinstance(dtype, pd.Int64Dtype) or (dtype == np.float64 and not is_whole(values.to_numpy()))
    if not isinstance(dtype, pd.CategoricalDtype):
        return False
    categories = dtype.categories
    if kind == "status":
        return categories.dtype == object and tuple(categories) == STATUSES
    return categories.dtype == object and all(isinstance(label, str) for label in categories)


_LONG_EXPONENT = r"[eE][+-]?\d{4,}"


#: For `pandas.read_csv`: exact numbers. The default parser of pandas 2 rounds, and crashes on exponents beyond 32 bits;
#: that of pandas 3 is exact, and the option is deprecated there.
EXACT_FLOATS: dict[str, Any] = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}


def to_numeric(values: pd.Series, *, strict: bool = False) -> pd.Series:
    """Return texts as numbers; what is not one becomes missing, or with ``strict`` a ValueError.

    pandas crashes the interpreter on exponents beyond 32 bits ("9e2147483648"): such texts are not numbers here.
    """
    if values.dtype == object or isinstance(values.dtype, pd.StringDtype):
        huge = values.astype(str).str.contains(_LONG_EXPONENT, regex=True).to_numpy(dtype=bool)
        if huge.any():
            if strict:
                raise ValueError(f"{str(values[huge].iloc[0])[:40]!r} is not a number")
            values = values.astype(object)
            values[huge] = np.nan  # a copy: astype made it
    made: pd.Series = pd.to_numeric(values, errors="raise" if strict else "coerce")
    return made


def _coerce(values: pd.Series, column: Column) -> Any:
    try:
        if column.kind == "label":
            return labels(values)
        if column.kind == "status":
            return statuses(values)
        numbers = to_numeric(values, strict=True).to_numpy(dtype=np.float64, na_value=np.nan)
    except (ValueError, TypeError) as error:
        raise SchemaError(f"column {column.name}: {error}") from None
    if column.kind == "id":
        if not is_whole(numbers) or np.isnan(numbers).any():
            raise SchemaError("column job_id must hold whole numbers")
        return to_numeric(values, strict=True).to_numpy(dtype=np.int64)
    return counts(numbers) if column.kind == "count" else numbers


def is_whole(values: NDArray[np.float64]) -> bool:
    """Return whether every known value is a whole number (that fits int64)."""
    with np.errstate(invalid="ignore"):
        return bool(np.all((np.isnan(values) | (values == np.floor(values))) & ~(np.abs(values) >= 2.0**63)))


def counts(values: NDArray[np.float64]) -> Any:
    """Turn numbers with NaN into an Int64 array, or leave them as floats if the source has fractions."""
    if not is_whole(values):
        return values
    missing = np.isnan(values)
    whole = np.where(missing, 0.0, values) if missing.any() else values
    return pd.arrays.IntegerArray(whole.astype(np.int64), missing)


def labels(values: Any) -> pd.Categorical:
    """Turn any values into a category of strings; whole numbers lose their ``.0`` and sort as numbers."""
    if isinstance(values, pd.Series) and isinstance(values.dtype, pd.CategoricalDtype):
        codes, names = values.cat.codes.to_numpy(), values.cat.categories
    else:
        codes, names = pd.factorize(values, sort=True, use_na_sentinel=True)
    texts = [str(int(n)) if isinstance(n, float) and n.is_integer() else str(n) for n in names]
    if len(set(texts)) < len(texts):  # 1 and 1.0 and "1" are one label
        codes = np.append(pd.factorize(np.asarray(texts, dtype=object))[0], -1)[codes]
        texts = list(dict.fromkeys(texts))
    return _category(codes, texts)


def number_labels(values: NDArray[np.float64]) -> pd.Categorical:
    """Turn whole numbers (NaN = unknown) into labels, without sorting texts: fast for SWF."""
    unknown = np.isnan(values)
    if unknown.all():
        return _category(np.full(len(values), -1, np.int8), [])
    low, high = np.nanmin(values), np.nanmax(values)
    if high - low > 10_000_000 or not is_whole(values):
        return labels(values)
    offset = np.where(unknown, low, values).astype(np.int64) - int(low)
    seen = np.zeros(int(high - low) + 1, dtype=bool)
    seen[offset[~unknown]] = True
    present = np.flatnonzero(seen)
    code_of = np.zeros(len(seen), dtype=np.int32)
    code_of[present] = np.arange(len(present), dtype=np.int32)
    codes = code_of[offset]
    codes[unknown] = -1
    return _category(codes, [str(number) for number in (present + int(low)).tolist()])


def sorted_labels(names: Any) -> list[str]:
    """Return distinct labels in their order: by value where all are numbers, by text otherwise."""
    distinct = set(names)
    try:
        return sorted(distinct, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(distinct)


def statuses(values: Any) -> pd.Categorical:
    """Turn status words into the fixed category; missing becomes unknown, any other word is an error."""
    values = pd.Series(values).astype(object)
    values = values.where(values.notna(), "unknown")
    strange = sorted(set(values.unique()) - set(STATUSES), key=str)
    if strange:
        raise SchemaError(f"column status: {strange[0]!r} is not a status; expected one of {', '.join(STATUSES)}")
    return pd.Categorical(values, categories=pd.Index(STATUSES, dtype=object))


def status_codes(codes: NDArray[np.intp]) -> pd.Categorical:
    """Build the status column from positions in `STATUSES`."""
    return _category(codes, list(STATUSES))


def _category(codes: NDArray[Any], names: list[str]) -> pd.Categorical:
    made: Any = pd.Categorical
    return made.from_codes(codes, categories=pd.Index(names, dtype=object))  # type: ignore[no-any-return]
