"""Replace names by labels that cannot be reversed without a key; one key gives the same labels in every file.

Labels are numbers of 13 digits from HMAC-SHA256 over the column's name and the label, so SWF can hold them, and user 7
and group 7 get unrelated labels. Without the key, names cannot be tested; another key gives other labels.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tracekit.errors import FormatError, OutputError, UnknownName, UsageError, loads
from tracekit.files import opened
from tracekit.machine import Machine
from tracekit.provenance import synthetic_mark
from tracekit.schema import BY_NAME, counts
from tracekit.trace import Trace

#: Labels of people and their work, always replaced; those of the site, replaced on request.
PEOPLE = ("user", "group", "project", "app")
SITE = ("queue", "partition")
SHORTEST_KEY = 16  # bytes: a shorter one can be guessed
_DIGITS = 13  # below 2**53, so that every tool reads them exactly
_SHIFT = re.compile(r"^(-?\d+)([dw])$")
WEEK = 7 * 86_400


def new_key(path: str | Path) -> bytes:
    """Write a fresh random key to a file that only its owner can read, and return it; never over an existing file."""
    key = secrets.token_hex(32)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(key + "\n")
    except FileExistsError:
        raise OutputError(f"{path}: exists already; key files are never overwritten, choose another name") from None
    return key.encode()


@loads("a key")
def read_key(path: str | Path) -> bytes:
    """Read a key from a file; white space around it is ignored."""
    with opened(path) as source:
        key = source.read(64 * 1024).strip()
    if not key:
        raise FormatError(path, "the key file is empty", hint="create a key with --key new:FILE")
    return key


def label(key: bytes, column: str, name: str) -> str:
    """Return the label that replaces a name of a column.

    >>> label(b"a secret of thirty-two characters", "user", "ann") == label(b"another one", "user", "ann")
    False
    """
    digest = hmac.new(key, f"{column}\0{name}".encode("utf-8", "surrogateescape"), hashlib.sha256).digest()
    return str(10 ** (_DIGITS - 1) + int.from_bytes(digest, "big") % (9 * 10 ** (_DIGITS - 1)))


def anonymize(
    trace: Trace, key: bytes, *, also: Iterable[str] = (), keep: Iterable[str] = (), shift: str | None = None
) -> Trace:
    """Return the trace with people's names replaced, and with everything removed that could name them or the site.

    ``also``: further columns to replace, of `SITE`. ``keep``: columns of people that stay as they are, or extra columns
    (x_…) that would be removed, or ``machine`` for the machine's name. ``shift``: whole days or weeks by which all
    dates move, such as ``-52w``, or ``key`` for a number of weeks that follows from the key. Job ids become 1, 2, 3 …
    in submit order. Numbers of the jobs stay as they are; unknown stays unknown.
    """
    also, keep = tuple(also), tuple(keep)
    if not key:
        raise UsageError("the key is empty")
    for name in also:
        if name not in SITE:
            raise UnknownName("column to replace", name, SITE)
    extras = [name for name in trace.jobs.columns if name not in BY_NAME]
    for name in keep:
        if name not in (*PEOPLE, *extras, "machine"):
            raise UnknownName("column to keep", name, [*PEOPLE, *extras, "machine"])
    replaced = [name for name in (*PEOPLE, *also) if name in trace.jobs.columns and name not in keep]
    jobs = trace.jobs.drop(columns=[name for name in extras if name not in keep])
    jobs = jobs.assign(**{name: _relabelled(key, name, jobs[name]) for name in replaced}, **_renumbered(trace))
    seconds = shift_seconds(shift, key) if shift else 0
    machine = _bare(trace.machine, also, keep_name="machine" in keep)
    if seconds and machine.epoch:
        machine = machine.replace(epoch=machine.epoch + seconds)
    elif seconds:
        jobs = jobs.assign(submit_time=jobs["submit_time"] + seconds)
    mark = synthetic_mark(trace)
    if mark:
        machine = machine.replace(source=f"{mark}; anonymized", notes=(mark,))
    step = f"anonymized: {', '.join(replaced) or 'no labels'} replaced" + (", dates shifted" if seconds else "")
    return Trace(jobs, machine, (mark, step) if mark else (step,))


def _relabelled(key: bytes, column: str, values: pd.Series) -> pd.Categorical:
    """Replace each category; two names with the same label, which is very unlikely, are an error."""
    names = [str(name) for name in values.cat.categories]
    made = [label(key, column, name) for name in names]
    if len(set(made)) < len(made):
        raise UsageError(f"two labels of column {column} become equal under this key; use another key")
    order = np.argsort(np.array(made, dtype=object), kind="stable")  # must not reveal the old order of names
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    codes = values.cat.codes.to_numpy()
    moved = np.where(codes >= 0, place[np.maximum(codes, 0)] if len(place) else -1, -1)
    build: Any = pd.Categorical
    return build.from_codes(moved, categories=pd.Index([made[k] for k in order], dtype=object))  # type: ignore[no-any-return]


def _renumbered(trace: Trace) -> dict[str, Any]:
    """Number the jobs 1, 2, 3 … in submit order; references are updated, those to absent jobs become unknown."""
    number = np.empty(len(trace), dtype=np.int64)
    number[trace.order()] = np.arange(1, len(trace) + 1)
    changed: dict[str, Any] = {"job_id": number}
    if "prev_job" in trace.jobs.columns:
        known = pd.Series(number, index=trace.jobs["job_id"].to_numpy())
        known = known[~known.index.duplicated()]
        changed["prev_job"] = counts(known.reindex(trace.column("prev_job")).to_numpy(dtype=np.float64))
    return changed


def _bare(machine: Machine, replaced: tuple[str, ...], *, keep_name: bool) -> Machine:
    """Return the machine's numbers without its texts: header lines, notes, sources and names may contain anything."""
    return Machine(
        name=machine.name if keep_name else "",
        procs=machine.procs,
        nodes=machine.nodes,
        gpus=machine.gpus,
        unit=machine.unit,
        epoch=machine.epoch,
        timezone=machine.timezone,
        queues={} if "queue" in replaced else machine.queues,
        partitions={} if "partition" in replaced else machine.partitions,
        groups=machine.groups,
        source="anonymized",
    )


def shift_seconds(text: str, key: bytes) -> int:
    """Return the seconds of a shift: ``-52w``, ``30d``, or ``key`` for 1 to 520 weeks back that follow from the key."""
    if text == "key":
        return -WEEK * (1 + int.from_bytes(hmac.new(key, b"shift", hashlib.sha256).digest()[:8], "big") % 520)
    match = _SHIFT.match(text)
    if not match:
        raise UsageError(f"--shift must be whole days or weeks, such as -52w or 30d, or the word key, not '{text}'")
    return int(match[1]) * (WEEK if match[2] == "w" else 86_400)
