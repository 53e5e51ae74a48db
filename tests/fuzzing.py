"""Damage for any file: bytes, lines, fields, numbers, encodings, compression, and values inside JSON."""

from __future__ import annotations

import bz2
import copy
import gzip
import json
import lzma
import re
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
NUMBERS = (
    "0 -1 -0 1e999 -1e308 nan inf 65536 2147483648 -9223372036854775809 18446744073709551616 1e22 9007199254740993 "
    f"0x10 1_000 1,5 1e-400 99999999999999999999999 {'9' * 5000} 253402300800 -62135596801 1e18 ٣ ²"
).split()
TEXTS = [
    *(
        "",
        " ",
        '"',
        "'",
        "\\",
        "|",
        ",",
        ";",
        "\t",
        "\r",
        "\0",
        "\x1b[31m",
        "\x07",
        "\x9b",
        "\u202e",
        "\u2028",
        "\ufeff",
    ),
    *("é", "😀", "[", "{", "]", "}", "=", ":", "..", "%s", "{0}", "NaT", "None", "Unknown", "9999-12-31 23:59:59"),
    *("0001-01-01 00:00:00", "2023-99-99 99:99:99", "2024-02-30T25:61:61", "2020-01-01T00:00:00+99:99", "+25:00"),
    *("1-00:00:00", "99999999-23:59:59", "gpu:" * 50, "(" * 300, "[" * 300, "1-9999999999", "[red]x[/]", "$x^{$"),
]
RAW = (b"\xed\xa0\x80", b"\xff\xfe", b"\xc3", b"\x80", b"\xf4\x90\x80\x80", b"\x00" * 20, b"\x1f\x8b", b"PAR1", b"\r")
VALUES: list[Any] = [
    *(None, True, False, [], {}, "", "x", -1, 0, 1.5, 10**30, -(10**400), 1e308, float("nan"), float("inf"), "\ud800"),
    *([[]], [None], {"a": []}, {"": {}}, "9" * 50, [1, "a", None], "2099-13-01", 2**63, 2**31, ["gpu0"], 1e-320, -5),
]


def _at(data: bytes, rng: Rng) -> int:
    return int(rng.integers(0, len(data) + 1))


def truncated(data: bytes, rng: Rng) -> bytes:
    return data[: _at(data, rng)]


def beheaded(data: bytes, rng: Rng) -> bytes:
    return data[_at(data, rng) :]


def flipped(data: bytes, rng: Rng) -> bytes:
    made = bytearray(data)
    for at in rng.integers(0, max(1, len(made)), int(rng.integers(1, 10))):
        if at < len(made):
            made[at] ^= 1 << int(rng.integers(0, 8))
    return bytes(made)


def overwritten(data: bytes, rng: Rng) -> bytes:
    made = bytearray(data)
    for at in rng.integers(0, max(1, len(made)), int(rng.integers(1, 10))):
        if at < len(made):
            made[at] = int(rng.integers(0, 256))
    return bytes(made)


def inserted(data: bytes, rng: Rng) -> bytes:
    at = _at(data, rng)
    junk = [*RAW, *(text.encode() for text in TEXTS), rng.bytes(int(rng.integers(1, 30)))]
    return data[:at] + junk[int(rng.integers(len(junk)))] * int(rng.choice([1, 1, 1, 7])) + data[at:]


def removed(data: bytes, rng: Rng) -> bytes:
    at = _at(data, rng)
    return data[:at] + data[at + int(rng.integers(1, 40)) :]


def repeated(data: bytes, rng: Rng) -> bytes:
    at = _at(data, rng)
    piece = data[at : at + int(rng.integers(1, 80))]
    return data[:at] + piece * int(rng.integers(2, 30)) + data[at:]


def relined(data: bytes, rng: Rng) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    k, j = (int(x) for x in rng.integers(0, len(lines), 2))
    ways: list[list[bytes]] = [
        [*lines[:k], lines[j], *lines[k:]],
        [*lines[:k], *lines[k + 1 :]],
        [lines[int(i)] for i in rng.permutation(len(lines))],
        [*lines[:k], lines[k].rstrip(b"\r\n"), *lines[k + 1 :]],
        [*lines, lines[k][: _at(lines[k], rng)]],
    ]
    return b"".join(ways[int(rng.integers(len(ways)))])


def refielded(data: bytes, rng: Rng) -> bytes:
    """Change the fields of one line, or of one column: swap, drop, double, replace."""
    separator = max((b",", b"|", b" ", b"\t", b";", b":", b"="), key=data.count)
    rows = [line.split(separator) for line in data.split(b"\n")]
    whole = rng.random() < 0.3
    k = int(rng.integers(0, max(map(len, rows))))
    j = int(rng.integers(0, max(map(len, rows))))
    how = int(rng.integers(5))
    junk = (NUMBERS + TEXTS)[int(rng.integers(len(NUMBERS) + len(TEXTS)))].encode()
    only = int(rng.integers(len(rows)))
    for number, row in enumerate(rows):
        if (not whole and number != only) or k >= len(row):
            continue
        if how == 0 and j < len(row):
            row[k], row[j] = row[j], row[k]
        elif how == 1:
            del row[k]
        elif how == 2:
            row.insert(k, row[k])
        else:
            row[k] = junk
    return b"\n".join(separator.join(row) for row in rows)


def renumbered(data: bytes, rng: Rng) -> bytes:
    """Replace numbers by others that are huge, odd, or not numbers."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    if not found:
        return data
    for _ in range(int(rng.integers(1, 4))):
        match = found[int(rng.integers(len(found)))]
        new = NUMBERS[int(rng.integers(len(NUMBERS)))].encode()
        data = data[: match.start()] + new + data[match.end() :]
    return data


def reencoded(data: bytes, rng: Rng) -> bytes:
    text = data.decode("utf-8", "replace")
    ways: list[Callable[[], bytes]] = [
        lambda: text.encode("utf-16"),
        lambda: text.encode("utf-16-le"),
        lambda: b"\xef\xbb\xbf" + data,
        lambda: text.replace("e", "é").encode("latin-1", "replace"),
        lambda: text.replace("a", "\ud800").encode("utf-8", "surrogatepass"),
        lambda: data.replace(b"\n", b"\r\n"),
        lambda: data.replace(b"\n", b"\r"),
        lambda: data.replace(b"\n", b""),
        lambda: text.upper().encode(),
        lambda: text.swapcase().encode(),
        lambda: data.replace(b" ", b"\xc2\xa0"),
        lambda: data.replace(b"2", b""),
    ]
    return ways[int(rng.integers(len(ways)))]()


def packed(data: bytes, rng: Rng) -> bytes:
    """Compress, and mostly damage what comes out."""
    made = (gzip.compress(data, mtime=0), bz2.compress(data), lzma.compress(data))[int(rng.integers(3))]
    return (flipped, overwritten, truncated, removed, inserted, lambda d, _: d, lambda d, _: d + d)[
        int(rng.integers(7))
    ](made, rng)


def rewritten(data: bytes, rng: Rng) -> bytes:
    """Replace a value anywhere in a JSON file, or rename or drop a key."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return flipped(data, rng)
    return json.dumps(revalued(content, rng)).encode()


def revalued(content: Any, rng: Rng) -> Any:
    """Return JSON values with one of them, at any depth, replaced, dropped or renamed."""
    content = copy.deepcopy(content)
    places: list[tuple[Any, Any]] = []
    heap = [content]
    while heap:
        one = heap.pop()
        for key in list(one) if isinstance(one, dict) else range(len(one)):
            places.append((one, key))
            if isinstance(one[key], dict | list):
                heap.append(one[key])
    if not places or rng.random() < 0.02:
        return VALUES[int(rng.integers(len(VALUES)))]
    holder, key = places[int(rng.integers(len(places)))]
    how = rng.random()
    if how < 0.15:
        del holder[key]
    elif how < 0.25 and isinstance(holder, dict):
        holder[TEXTS[int(rng.integers(len(TEXTS)))]] = holder.pop(key)
    elif how < 0.35:
        other, name = places[int(rng.integers(len(places)))]
        holder[key] = copy.deepcopy(other[name])
    else:
        holder[key] = VALUES[int(rng.integers(len(VALUES)))]
    return content


BYTES = (truncated, beheaded, flipped, overwritten, inserted, removed, repeated)
TEXT = (*BYTES, relined, refielded, refielded, renumbered, renumbered, reencoded)


def mutated(data: bytes, rng: Rng) -> bytes:
    """Return a damaged copy of a file."""
    if data[:1] in b"{[" and rng.random() < 0.5:
        made = rewritten(data, rng)
    else:
        ways = BYTES if b"\0" in data[:4096] else TEXT
        made = data
        for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
            made = ways[int(rng.integers(len(ways)))](made, rng)
    return packed(made if rng.random() < 0.3 else data, rng) if rng.random() < 0.1 else made
