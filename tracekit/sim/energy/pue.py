"""Cooling: how many watts the facility draws for each watt of IT; constant, by outside temperature, or by load."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import SchemaError, UnknownName
from tracekit.sim.energy.series import Series, read_series

Floats = NDArray[np.float64]
_KEYS = ("temperature", "load", "series")


@dataclass(frozen=True, eq=False)
class Pue:
    """Power usage effectiveness: facility watts / IT watts, 1 or more; between the points it is linear.

    ``load`` is IT watts now / IT watts of the full machine. Beyond the first and last point the value stays.
    """

    by: Literal["constant", "temperature", "load"] = "constant"
    at: Floats | None = None  # (points,) °C or load, rising
    values: Floats | None = None  # (points,)
    constant: float = 1.0
    temperature: Series | None = None  # outside, °C

    def of(self, measured: Floats) -> Floats:
        """Return the PUE at temperatures or loads, of the same shape."""
        if self.at is None or self.values is None:
            return np.full(np.shape(measured), self.constant)
        return np.interp(measured, self.at, self.values)

    def to_dict(self) -> float | dict[str, Any]:
        """Return plain values for a result."""
        if self.at is None or self.values is None:
            return self.constant
        return {self.by: list(zip(self.at.tolist(), self.values.tolist(), strict=True))}


def pue_of(given: Any, origin: str, folder: Path | None = None) -> Pue:
    """Read a PUE: a number, ``{load = points}``, or ``{temperature = points, series = FILE.csv}``.

    Points are a list of pairs, or a table ``{"10" = 1.05, "20" = 1.1}``. The file is looked for in ``folder``.
    """
    if given is None:
        return Pue()
    if not isinstance(given, Mapping):
        return Pue(constant=_value(given, origin))
    for key in given:
        if key not in _KEYS:
            raise UnknownName(f"key of pue in {origin}", str(key), _KEYS)
    kinds: list[Literal["temperature", "load"]] = [k for k in ("temperature", "load") if k in given]
    if len(kinds) != 1:
        raise SchemaError(f"{origin}: pue must be a number, or a table with either temperature or load")
    at, values = _points(given[kinds[0]], kinds[0], origin)
    if kinds[0] == "load":
        if "series" in given:
            raise SchemaError(f"{origin}: pue by load takes no series; leave it out")
        return Pue("load", at, values)
    if not isinstance(given.get("series"), str):
        raise SchemaError(f"{origin}: pue by temperature needs a series of outside temperatures: series = 'FILE.csv'")
    return Pue("temperature", at, values, temperature=read_series((folder or Path()) / given["series"], "temperature"))


def _points(given: Any, kind: str, origin: str) -> tuple[Floats, Floats]:
    """Return the points of a table as two arrays, by rising temperature or load."""
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    fits = isinstance(pairs, Sequence) and not isinstance(pairs, str) and len(pairs) > 0
    if not fits or not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in pairs):
        raise SchemaError(f"{origin}: pue.{kind} must be a list of pairs, such as [[10, 1.05], [30, 1.2]]")
    try:
        at = np.array([float(place) for place, _ in pairs])
    except (TypeError, ValueError):
        raise SchemaError(f"{origin}: pue.{kind} has a point that is not a number") from None
    if not np.isfinite(at).all() or len(np.unique(at)) < len(at):
        raise SchemaError(f"{origin}: the points of pue.{kind} must be different finite numbers")
    order = np.argsort(at)
    return at[order], np.array([_value(value, origin) for _, value in pairs])[order]


def _value(given: Any, origin: str) -> float:
    good = isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)
    if not good or not given >= 1:
        words = f"{given:g}" if good else str(given)[:40]
        raise SchemaError(f"{origin}: pue is facility power / IT power and must be a number from 1, not {words}")
    return float(given)
