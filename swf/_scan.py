"""Compiled scanner for lines of numbers: turns a block of SWF text into columns without a Python object per field."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from tracekit.compiled import compiled

#: What a line turned out to be.
BLANK, COMMENT, DATA, ODD = 0, 1, 2, 3

_NEWLINE, _SEMICOLON, _MINUS, _PLUS, _POINT, _ZERO, _NINE = 10, 59, 45, 43, 46, 48, 57
_EXACT = 2**53  # a mantissa up to here, divided by an exact power of ten, is correctly rounded
_POWERS = 10.0 ** np.arange(23)


_HERE = Path(__file__).resolve().parent


@partial(compiled, sources=_HERE, inline="always")
def _ends_word(c: int) -> bool:
    """Return whether a byte is a blank or a line end; control characters are part of a (damaged) word."""
    return c == 32 or 9 <= c <= 13


@partial(compiled, sources=_HERE)
def scan(
    text: np.ndarray,  # uint8 (bytes,), ends with a newline
    fields: np.ndarray,  # float64 (columns, lines), filled with −1 where a line is short
    kinds: np.ndarray,  # uint8 (lines,)
    starts: np.ndarray,  # int64 (lines + 1,), where each line begins
    row_line: np.ndarray,  # int64 (lines,), the line of each row
    widths: np.ndarray,  # int64 (lines,), number of fields of each row
    tails: np.ndarray,  # int64 (lines,), where the fields beyond the last column begin, or −1
) -> int:
    """Fill the arrays from a block of whole lines and return the number of rows.

    Lines that hold anything but plain decimal numbers in the first columns are marked ODD; they get a row, too, for
    the caller to fill in or to drop.
    """
    columns = fields.shape[0]
    size, step = np.uintp(len(text)), np.uintp(1)  # unsigned: no test for negative indices in the inner loop
    at = np.uintp(0)
    line, row = 0, 0
    # The text ends with a newline, so the inner loops stop at one and need no test against the size.
    while at < size:
        starts[line] = np.int64(at)
        kind, width, tail = BLANK, 0, np.int64(-1)
        while True:  # one field after the other, up to the end of the line
            c = text[at]
            while c != _NEWLINE and _ends_word(c):
                at += step
                c = text[at]
            if c == _NEWLINE:
                break
            if c == _SEMICOLON:
                if kind == BLANK:
                    kind = COMMENT
                while text[at] != _NEWLINE:
                    at += step
                break
            if kind == BLANK:
                kind = DATA
            if width >= columns:  # beyond the columns we read: record where the extra fields begin, count them
                if tail < 0:
                    tail = np.int64(at)
                while not _ends_word(text[at]):
                    at += step
                width += 1
                continue
            negative = c == _MINUS
            if negative or c == _PLUS:
                at += step
            mantissa, digits, decimals = 0, 0, 0
            # Eighteen digits fit into an int64; a longer number leaves a digit behind and becomes ODD below.
            while _ZERO <= text[at] <= _NINE and digits < 18:
                mantissa = mantissa * 10 + (text[at] - _ZERO)
                digits += 1
                at += step
            if text[at] == _POINT:
                at += step
                while _ZERO <= text[at] <= _NINE and digits < 18:
                    mantissa = mantissa * 10 + (text[at] - _ZERO)
                    digits += 1
                    decimals += 1
                    at += step
            # Exponents, hexadecimals, words and too many digits: rare, so the caller parses the line in Python.
            if digits == 0 or mantissa > _EXACT or not _ends_word(text[at]):
                kind = ODD
                while not _ends_word(text[at]):
                    at += step
            # One division of two exact numbers is correctly rounded: the same float64 as Python's float().
            value = mantissa / _POWERS[decimals]
            fields[width, row] = -value if negative else value
            width += 1
        kinds[line] = kind
        if kind >= DATA:
            row_line[row], widths[row], tails[row] = line, width, tail
            for column in range(width, columns):
                fields[column, row] = -1.0
            row += 1
        line += 1
        at += step
    starts[line] = len(text)
    return row
