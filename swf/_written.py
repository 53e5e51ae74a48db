"""Replaces what text formats cannot hold before it is written: control characters in labels, infinite numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from swf._delimited import UNKNOWN
from swf.base import is_number
from tracekit.trace import Trace

#: Control characters, line and paragraph separators, the byte order mark, and halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")
_PLAIN = re.compile(r"0|-?(?:[1-9]\d*|(?:0|[1-9]\d*)\.\d*[1-9])")
_DATE = re.compile(r"\d{1,4}[-/:]\d")


def writable(trace: Trace, *, text: bool) -> tuple[Trace, list[str]]:
    r"""Return a trace that can be written, and what had to be changed, one short phrase each.

    Characters that would break a line, or that have no bytes, are written as escapes such as ``\x0d``; infinite
    numbers become unknown. ``text=False`` is for files that hold any number and any character except lone surrogates.
    """
    unsafe = _UNSAFE if text else _HALF
    changed: dict[str, Any] = {}
    phrases: list[str] = []
    for name, values in _texts(trace):
        escaped = _escaped_values(values, unsafe)
        if escaped is not None:
            changed[name] = escaped
            phrases.append(f"control characters in column {name} (written as escapes such as \\x0d)")
    for name, numbers in _infinite(trace) if text else ():
        changed[name] = np.where(np.isinf(numbers), np.nan, numbers)
        phrases.append(f"{int(np.isinf(numbers).sum())} infinite values in column {name} (written as unknown)")
    machine, history = _described(trace, unsafe)
    if (machine, history) != (trace.machine, trace.history):
        phrases.append("control characters in the description of the machine or in the history")
    if not phrases:
        return trace, []
    return Trace(trace.jobs.assign(**changed), machine, history), phrases


def _texts(trace: Trace) -> Iterator[tuple[str, pd.Series]]:
    for name in trace.jobs.columns:
        values = trace.jobs[name]
        if isinstance(values.dtype, pd.CategoricalDtype) or pd.api.types.is_object_dtype(values.dtype):
            yield name, values
        elif isinstance(values.dtype, pd.StringDtype):
            yield name, values.astype(object)


def _infinite(trace: Trace) -> Iterator[tuple[str, Any]]:
    for name in trace.jobs.columns:
        if pd.api.types.is_float_dtype(trace.jobs[name].dtype):
            numbers = trace.jobs[name].to_numpy(dtype=np.float64, na_value=np.nan)
            if np.isinf(numbers).any():
                yield name, numbers


def _escaped_values(values: pd.Series, unsafe: re.Pattern[str]) -> pd.Series | None:
    """Return the values with escapes, or None if nothing has to be escaped."""
    # pandas treats all lone surrogates as one text, so its unique() would miss some
    found = values.cat.categories if isinstance(values.dtype, pd.CategoricalDtype) else {*values.dropna().tolist()}
    bad = {text: escaped(text, unsafe) for text in found if isinstance(text, str) and unsafe.search(text)}
    if not bad:
        return None
    return values.astype(object).map(lambda value: bad.get(value, value) if isinstance(value, str) else value)


def escaped(text: str, unsafe: re.Pattern[str] = _UNSAFE) -> str:
    r"""Return a text with escapes for what cannot be written.

    >>> print(escaped("a\rb\u2028"))
    a\x0db\u2028
    """
    return unsafe.sub(
        lambda match: f"\\x{ord(match[0]):02x}" if match[0] < "\u0100" else f"\\u{ord(match[0]):04x}", text
    )


def _described(trace: Trace, unsafe: re.Pattern[str]) -> tuple[Any, tuple[str, ...]]:
    machine = trace.machine
    names = {key: {k: escaped(v, unsafe) for k, v in getattr(machine, key).items()} for key in ("queues", "partitions")}
    history = tuple(escaped(step, unsafe) for step in trace.history)
    if names == {key: dict(getattr(machine, key)) for key in names} and not unsafe.search(machine.name):
        return machine, history
    return machine.replace(name=escaped(machine.name, unsafe), **names), history


# ---- what single formats cannot hold --------------------------------------------------------------------------------


def _known(trace: Trace, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    return ((name, trace.column(name)) for name in names if name in trace.jobs.columns)


def minus_ones(trace: Trace, names: Iterable[str]) -> list[str]:
    """Report values of −1 in formats where −1 means unknown."""
    found = ((name, int((values == -1).sum())) for name, values in _known(trace, names))
    return [f"{count} values of -1 in column {name} (read back as unknown)" for name, count in found if count]


def altered_words(trace: Trace, names: Iterable[str] | None = None) -> list[str]:
    """Report labels that a delimited table reads back as something else: ``NA`` as unknown, ``007`` as a number."""
    lost = []
    for name, values in _texts(trace):
        if names is None or name in names:
            words = [str(word) for word in values.dropna().unique()]
            unknown = sorted(set(words) & set(UNKNOWN))
            other = [word for word in words if _looks_other(word, label=not name.startswith("x_"))]
            lost += [f"labels {', '.join(unknown)} of column {name} (read back as unknown)"] if unknown else []
            lost += (
                [f"labels such as {other[0]} of column {name} (may be read back as numbers or dates)"] if other else []
            )
    return lost


def _looks_other(word: str, *, label: bool) -> bool:
    """Return whether a column of such words may be read as numbers, dates or truth values, and so look different."""
    if word.lower() in ("true", "false") or (_DATE.match(word) and not label):
        return True
    return is_number(word) and not (label and is_plain_number(word))


def is_plain_number(label: str) -> bool:
    """Return whether a label is a number in its only usual notation.

    >>> [is_plain_number(label) for label in ("7", "007", "1.5", "1.0", "-0", "1e5")]
    [True, False, True, False, False, False]
    """
    return _PLAIN.fullmatch(label) is not None and len(label) <= 17 and abs(float(label)) < 2.0**53


def fine_digits(trace: Trace, names: Iterable[str], digits: int = 6) -> list[str]:
    """Report times that are finer than a format keeps them."""
    found = ((name, values[np.isfinite(values)]) for name, values in _known(trace, names))
    return [f"decimals of column {name} beyond the {digits}th" for name, v in found if (np.round(v, digits) != v).any()]


def not_positive(trace: Trace, names: Iterable[str]) -> list[str]:
    """Report values of zero and below in formats that cannot store them."""
    found = ((name, int((values <= 0).sum())) for name, values in _known(trace, names))
    return [f"{count} values of zero or below in column {name}" for name, count in found if count]


def fractions(trace: Trace, names: Iterable[str]) -> list[str]:
    """Report fractions in formats that round up to whole numbers."""
    found = ((name, values[np.isfinite(values)]) for name, values in _known(trace, names))
    return [f"fractions in column {name} (rounded up)" for name, values in found if (np.ceil(values) != values).any()]
