"""Rare templates made common: limits and sizes are rounded until enough users share the result.

A template that fewer than k users asked for is first rounded, from fine to coarse: the limit up to a multiple of a
minute, five minutes … a day, then the sizes to a power of two as well. A rounded template is taken when k users have
it, counting those whose own template was rounded to it or equals it. Large and long jobs, which few users have, keep
their work that way; taking the nearest common template would lose much of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.schema import SIZE_COLUMNS

Ints = NDArray[np.int64]

#: Seconds of which a limit becomes a multiple.
STEPS = (60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 24 * 3600.0)


def generalised(table: pd.DataFrame, user: Ints, k: int) -> pd.DataFrame:
    """Round rare rows of a table of templates, shape (jobs, columns), until ``k`` users share each; some may stay rare.

    A rounded template whose size and limit a few real users, fewer than k, asked for themselves is not used: it would
    point at them.
    """
    found = table.copy()
    asked = [name for name in table.columns if name in (*SIZE_COLUMNS, "req_time")]
    rare = _owners(found, user)[0] < k
    for rounded in _levels(table):
        if not rare.any():
            break
        tried = found.copy()
        for name, values in rounded.items():
            tried.loc[rare, name] = values[rare].astype(tried[name].dtype)
        now, _ = _owners(tried, user)
        _, before = _owners(tried[asked], user, table[asked])
        enough = rare & (now >= k) & ((before == 0) | (before >= k))
        found.loc[enough] = tried.loc[enough]
        rare &= ~enough
    return found


def _owners(table: pd.DataFrame, user: Ints, before: pd.DataFrame | None = None) -> tuple[Ints, Ints]:
    """Return how many users have each row of a table, and had it before; all rows without a user count as one."""
    both = table if before is None else pd.concat([table, before], ignore_index=True)
    kind = np.column_stack([pd.factorize(both[name])[0] for name in both.columns])
    code = np.unique(kind, axis=0, return_inverse=True)[1].ravel()
    codes = int(code.max(initial=-1)) + 1

    def users(part: Ints) -> Ints:
        return np.bincount(np.unique(np.column_stack([part, user]), axis=0)[:, 0], minlength=codes)

    mine = code[: len(table)]
    return users(mine)[mine], users(code[len(table) :])[mine] if before is not None else np.zeros_like(mine)


def _levels(table: pd.DataFrame) -> Iterator[dict[str, pd.Series]]:
    """Yield rounded columns, from fine to coarse."""
    sizes: dict[str, pd.Series] = {}
    for name in SIZE_COLUMNS:
        if name in table.columns:
            value = table[name].astype("Float64")
            power = np.exp2(np.round(np.log2(value.clip(lower=1).to_numpy(dtype=np.float64, na_value=np.nan))))
            sizes[name] = pd.Series(np.minimum(power, value.max()), index=table.index).where(value > 0, value)
    for shape in ({}, sizes):
        if shape:
            yield dict(shape)
        if "req_time" in table.columns:
            limit = table["req_time"]
            for step in STEPS:
                yield {**shape, "req_time": np.ceil(limit / step) * step}
