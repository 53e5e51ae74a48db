"""What if: more users, another load, another share of a queue, more GPU jobs. All of it changes only *how many*.

Every option becomes a rate at which jobs like each real job are made (1 = as often as in the real trace). The plan is
made at the highest of these rates; then, of what should be rarer, whole groups of jobs (all of one rate in one session)
are left out. What a job of a kind looks like, when it comes and what follows it stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.sessions.shelf import Array
from tracekit.errors import UnknownName, UsageError
from tracekit.readings import not_a_share

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Resources that `more` can name, and the columns in which a job may ask for them.
RESOURCES = {
    "gpus": ("req_gpus", "alloc_gpus"),
    "nodes": ("req_nodes", "alloc_nodes"),
    "procs": ("req_procs", "alloc_procs"),
    "mem": ("req_mem",),
}


@dataclass(frozen=True)
class WhatIf:
    """What-if options of a synthetic trace. The default changes nothing."""

    users: int | None = None  # as many users at a time as if the real trace had had so many
    share: Mapping[tuple[str, str], float] = field(default_factory=dict)  # (column, label) -> share of jobs
    more: Mapping[str, float] = field(default_factory=dict)  # resource -> how many times as many jobs that use it
    demand: float | None = None  # mean busy units; None = what follows from the other options
    start: str | None = None  # date of the first job

    def said(self) -> dict[str, str]:
        """Return the options about users and jobs in words."""
        found = {} if self.users is None else {"users": f"{self.users:,}"}
        found |= {f"share {column}={label}": f"{share:g}" for (column, label), share in self.share.items()}
        return found | {f"more {name}": f"{times:g} times" for name, times in self.more.items()}

    def rates(self, table: pd.DataFrame, kind: Array, users: int) -> Floats:
        """Return the rate of each template's jobs, shape (templates,); ``kind``: template of each real job."""
        rate = np.ones(len(table))
        if self.users is not None:
            if not users:
                raise UsageError("--users needs a trace with users")
            rate *= self.users / users
        for (column, label), wanted in self.share.items():
            rate *= _shifted(_has_label(table, column, label), wanted, f"{column}={label}", rate, kind)
        for name, times in self.more.items():
            if not times >= 0:
                raise UsageError(f"--more {name}: the factor must be 0 or more, not {times}")
            rate *= np.where(_uses(table, name), times, 1.0)
        if not rate.any():
            raise UsageError("no jobs would be left: every job's rate is 0")
        return rate


def _has_label(table: pd.DataFrame, column: str, label: str) -> NDArray[np.bool_]:
    labels = [name for name in table.columns if isinstance(table[name].dtype, pd.CategoricalDtype)]
    if not labels:
        raise UsageError(f"--share {column}: the trace has no labels (queues, partitions …)")
    if column not in labels:
        raise UsageError(f"--share {column}: only {', '.join(labels)} can be set")
    known = [str(value) for value in table[column].cat.categories]
    if label not in known:
        raise UnknownName(column, label, known)
    return np.asarray((table[column].astype(object) == label).to_numpy(dtype=bool, na_value=False))


def _shifted(mine: NDArray[np.bool_], wanted: float, what: str, rate: Floats, kind: Array) -> Floats:
    """Return rates that bring the marked jobs to the wanted share and leave the number of jobs what it was."""
    if not 0 <= wanted <= 1:
        raise not_a_share(f"--share {what}:", wanted)
    each = rate[kind]
    now = float(each[mine[kind]].sum() / each.sum())
    del each
    if (now == 0 and wanted > 0) or (now == 1 and wanted < 1):
        raise UsageError(f"--share {what}: {now:.0%} of the jobs have it, so the share cannot be changed")
    return np.where(mine, wanted / now if now else 1.0, (1 - wanted) / (1 - now) if now < 1 else 1.0)


def _uses(table: pd.DataFrame, name: str) -> NDArray[np.bool_]:
    if name not in RESOURCES:
        raise UnknownName("resource", name, RESOURCES)
    columns = [column for column in RESOURCES[name] if column in table.columns]
    used = [table[c].to_numpy(dtype=np.float64, na_value=np.nan) > 0 for c in columns]
    if not used or not np.any(used):
        raise UsageError(f"--more {name}: no job of this trace uses any")
    return np.asarray(np.logical_or.reduce(used))


def thinned(group: Ints, keep: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Choose whole groups so that jobs are kept with the given chances, shape (jobs,), equal within a group.

    Groups come in random order, those of one chance after the other; each stays if that brings the number of jobs kept
    nearer to the number that should have been kept by then.
    """
    if (keep >= 1).all():
        return np.ones(len(group), dtype=bool)
    first, size = np.unique(group, return_index=True, return_counts=True)[1:]
    chance = keep[first]
    stays = np.zeros(len(first), dtype=bool)
    for one in np.unique(chance):
        order = rng.permutation(np.flatnonzero(chance == one))
        owed = (rng.random() - 0.5) * float(size[order].mean())  # where the rounding begins is a matter of chance
        for k in order:
            owed += one * size[k]
            if owed >= size[k] / 2:
                stays[k] = True
                owed -= size[k]
    return np.asarray(stays[np.searchsorted(group[first], group)])
