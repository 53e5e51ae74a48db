"""What a part of the default encoding is: it turns a few columns of a trace into a few learnable ones, and back.

A part is fitted to the real jobs and from then on *decodes anything*: whatever a model writes into the encoded
columns, the values that come out are ones that the real trace shows to be possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.quantile import Codes, Floats, level_codes
from tracekit.trace import Trace

Kind = Literal["number", "ordinal", "category"]
Table = pd.DataFrame  # one float64 column per number, one int64 column per ordinal or category


@dataclass(frozen=True)
class Slot:
    """One learnable column: a standard-normal number, an ordered level or an unordered one (codes from 0)."""

    name: str
    kind: Kind
    shares: Floats = field(default_factory=lambda: np.zeros(0))  # shape (levels,): how often each code was seen

    @property
    def levels(self) -> int:
        """Return the number of codes; 0 for a number."""
        return len(self.shares)


class Part(Protocol):
    """Some columns of a trace, learnable. Parts are decoded in order and may look at what came before."""

    key: ClassVar[str]

    @property
    def slots(self) -> list[Slot]:
        """Return the learnable columns; constants need none."""
        ...

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return the learnable columns of a trace in submit order."""
        ...

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write the trace's columns into ``jobs``; other parts' results may be there already."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        ...

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """Read back what `to_dict` gave."""
        ...


def categorical(codes: NDArray[np.integer[Any]], names: Sequence[str]) -> pd.Categorical:
    """Return a column of labels; code −1 is unknown."""
    return pd.Categorical.from_codes(codes.tolist(), categories=pd.Index(list(names), dtype=object))


def codes_of(table: Table, name: str, n_levels: int) -> Codes:
    """Return a column's codes, made possible; a column that was constant, and so was never learnt, is all 0."""
    if name not in table.columns or n_levels < 2:
        return np.zeros(len(table), np.int64)
    return level_codes(table[name].to_numpy(), n_levels)


def numbers_of(table: Table, name: str) -> Floats:
    """Return a column's numbers; one that was constant, and so was never learnt, is all 0."""
    return table[name].to_numpy(dtype=np.float64) if name in table.columns else np.zeros(len(table))


def slot_of(name: str, kind: Kind, shares: Floats) -> list[Slot]:
    """Return a slot for levels, or none where there is only one."""
    return [Slot(name, kind, shares)] if len(shares) > 1 else []


def to_grain(values: Floats, grain: float) -> Floats:
    """Round to multiples of ``grain``; 0 leaves the values as they are."""
    if not grain:
        return values
    rounded: Floats = np.round(np.round(values / grain) * grain, 9)
    return rounded
