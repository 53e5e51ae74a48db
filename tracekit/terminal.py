"""Text from files for a terminal: characters that could control it or change the reading order are escaped."""

from __future__ import annotations

import re

#: Control characters but tab and newline, surrogates, line separators, and marks that change the reading order.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def escaped(text: str) -> str:
    r"""Return text that a terminal only prints: other characters appear as Python writes them.

    >>> print(escaped("a\x1b[31mb\u202e"))
    a\x1b[31mb\u202e
    """
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def escaped_json(text: str) -> str:
    r"""Return JSON text with the same characters written as ``\uXXXX``, which JSON reads back as they were."""
    return _UNSAFE.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[k]:02x}{units[k + 1]:02x}" for k in range(0, len(units), 2))
