"""Users, groups, queues, statuses …: labels as learnable levels, or looked up from one another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from generators.parts import Slot, Table, categorical, codes_of, slot_of
from generators.quantile import Floats
from tracekit.schema import BY_NAME, STATUSES, status_codes
from tracekit.trace import Trace

#: A label needs this many jobs to be learnt by itself, and no column has more labels than this.
LABEL_JOBS, MAX_LABELS = 3, 256


@dataclass(frozen=True)
class Label:
    """Users, queues, statuses …: an unordered level each; rare ones share a pool and are drawn from it again."""

    key: ClassVar[str] = "label"
    name: str
    labels: tuple[str | None, ...]  # None = unknown; commonest first
    shares: Floats  # shape (labels,), then one more for the pool if there is one
    pool: tuple[str, ...] = ()
    pool_shares: Floats = field(default_factory=lambda: np.zeros(0))  # shape (pool,)

    @classmethod
    def fit(cls, trace: Trace, name: str) -> Label:
        """Count the labels and pool the rare ones."""
        codes, categories = trace.column(name), list(trace.jobs[name].cat.categories)
        count = np.bincount(codes + 1, minlength=len(categories) + 1)
        order = [int(i) for i in np.argsort(-count, kind="stable") if count[i]]
        rare = [i for rank, i in enumerate(order) if i and (count[i] < LABEL_JOBS or rank >= MAX_LABELS)]
        if len(rare) < 2 or name == "status":
            rare = []
        kept = [i for i in order if i not in set(rare)]
        shares = np.array([count[i] for i in kept] + ([count[rare].sum()] if rare else []), dtype=np.float64)
        weights = count[rare] / max(int(count[rare].sum()), 1) if rare else np.zeros(0)
        return cls(
            name,
            tuple(categories[i - 1] if i else None for i in kept),
            shares / shares.sum(),
            tuple(categories[i - 1] for i in rare),
            weights,
        )

    @property
    def slots(self) -> list[Slot]:
        """Return one unordered level."""
        return slot_of(self.name, "category", self.shares)

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return each label's code; rare labels, and ones that were not fitted, get the pool's, or the commonest's."""
        pool = len(self.labels) if self.pool else 0
        code_of = {label: code for code, label in enumerate(self.labels)}
        categories = list(trace.jobs[self.name].cat.categories) if self.name in trace.jobs.columns else []
        table = np.array([*(code_of.get(c, pool) for c in categories), code_of.get(None, pool)], dtype=np.int64)
        return {self.name: table[trace.column(self.name)]}  # −1, unknown, is the last entry

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write the labels; each job of the pool draws one of the pool's, as often as it really occurred."""
        codes = codes_of(table, self.name, len(self.shares))
        known = [label for label in self.labels if label is not None]
        names = [*known, *self.pool]
        position = {label: i for i, label in enumerate(names)}
        to_name = np.array([-1 if label is None else position[label] for label in self.labels] + [0], dtype=np.int64)
        pooled = codes >= len(self.labels)
        result = to_name[np.minimum(codes, len(self.labels))]
        if pooled.any():
            result[pooled] = len(known) + rng.choice(len(self.pool), int(pooled.sum()), p=self.pool_shares)
        if self.name == "status":
            jobs[self.name] = status_codes(
                np.array([STATUSES.index(n) for n in names] + [STATUSES.index("unknown")])[result]
            )
        else:
            jobs[self.name] = categorical(result, names)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "name": self.name,
            "labels": self.labels,
            "shares": self.shares.tolist(),
            "pool": self.pool,
            "pool_shares": self.pool_shares.tolist(),
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Label:
        """Read back what `to_dict` gave."""
        return cls(
            plain["name"],
            tuple(plain["labels"]),
            np.array(plain["shares"]),
            tuple(plain["pool"]),
            np.array(plain["pool_shares"]),
        )


@dataclass(frozen=True)
class Lookup:
    """A label that another label determines (a user's group): not learnt, looked up again."""

    key: ClassVar[str] = "lookup"
    name: str
    of: str
    table: dict[str, str | None]
    unknown: str | None = None  # the label where the other one is unknown

    @classmethod
    def fit(cls, trace: Trace, name: str, of: str) -> Lookup:
        """List which label goes with which."""
        pairs = trace.jobs[[of, name]].drop_duplicates(of).astype(object)
        table = {
            key: (None if pd.isna(value) else str(value))
            for key, value in pairs.itertuples(index=False)
            if pd.notna(key)
        }
        unknown = next(
            (value for key, value in pairs.itertuples(index=False) if pd.isna(key) and pd.notna(value)), None
        )
        return cls(name, of, table, unknown)

    @property
    def slots(self) -> list[Slot]:
        """Return nothing: there is nothing to learn."""
        return []

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Look the labels up; needs the other label that was decoded before."""
        other = jobs[self.of]
        names = list(dict.fromkeys([v for v in [*self.table.values(), self.unknown] if v is not None]))
        position = {label: i for i, label in enumerate(names)}
        found = [self.table.get(category) for category in other.categories] + [self.unknown]
        codes = np.array([-1 if label is None else position[label] for label in found], dtype=np.int64)[other.codes]
        jobs[self.name] = categorical(codes, names)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"name": self.name, "of": self.of, "table": self.table, "unknown": self.unknown}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Lookup:
        """Read back what `to_dict` gave."""
        return cls(plain["name"], plain["of"], dict(plain["table"]), plain["unknown"])


def determines(trace: Trace, of: str, name: str) -> bool:
    """Return whether every label of ``of`` has one label of ``name`` only, and not merely because it is rare."""
    codes, other = trace.column(of), trace.column(name)
    count = np.bincount(codes + 1)
    if (count[codes + 1] >= 5).mean() < 0.8 or len(np.unique(codes)) < 2:
        return False
    width = int(other.max()) + 2
    return len(np.unique((codes + 1) * width + other + 1)) == len(np.unique(codes))


LABELS = tuple(name for name, column in BY_NAME.items() if column.kind in ("label", "status") and name != "gpu_type")
