"""Arrays and facts as one block of bytes that the page's script unpacks: compressed by deflate, written in base64."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Types as the script knows them.
_TYPES = {"u1": "<u1", "u2": "<u2", "u4": "<u4", "f4": "<f4", "f8": "<f8"}


class Pack:
    """A block that grows: `add` keeps an array and returns where it is; `base64` closes it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._at = 0

    def add(self, values: Any, kind: str) -> dict[str, Any]:
        """Keep an array of ``kind`` u1, u2, u4, f4 or f8; return where it lies."""
        return self._kept(np.ascontiguousarray(values, dtype=_TYPES[kind]).tobytes(), kind, len(values))

    def add_rising(self, values: NDArray[np.int64]) -> dict[str, Any]:
        """Keep whole numbers that do not fall: their differences, byte by byte, which deflate makes small."""
        return self._planes(np.diff(values, prepend=0), "rising")

    def add_counts(self, values: NDArray[np.int64]) -> dict[str, Any]:
        """Keep whole numbers below 2³², most of them small."""
        return self._planes(values, "planes")

    def add_texts(self, texts: list[str]) -> dict[str, Any]:
        """Keep texts."""
        return self._kept(json.dumps(texts, ensure_ascii=False).encode("utf-8", "replace"), "json", len(texts))

    def _planes(self, values: NDArray[np.int64], kind: str) -> dict[str, Any]:
        planes = np.ascontiguousarray(values, dtype="<u4").view(np.uint8).reshape(-1, 4).T
        return self._kept(planes.tobytes(), kind, len(values))

    def _kept(self, data: bytes, kind: str, count: int) -> dict[str, Any]:
        where = {"at": self._at, "bytes": len(data), "type": kind, "n": count}
        self._parts.append(data)
        self._at += len(data)
        return where

    def base64(self, facts: Any) -> str:
        """Return facts and arrays as text: their length in four bytes, the facts as JSON, the arrays."""
        head = json.dumps(facts, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        whole = b"".join([len(head).to_bytes(4, "little"), head, *self._parts])
        return base64.b64encode(zlib.compress(whole, 9)).decode("ascii")
