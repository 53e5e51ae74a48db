"""The comment lines at the top of an SWF file: the machine they describe, and how they are written back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from zoneinfo import ZoneInfo

from tracekit.machine import Machine
from tracekit.trace import Trace

#: Keys of SWF 2.2 and others that real files use. Anything else before a colon is plain text.
KEYS = (
    "Version",
    "Computer",
    "Installation",
    "Acknowledge",
    "Information",
    "Conversion",
    "Copyright",
    "MaxJobs",
    "MaxRecords",
    "Preemption",
    "UnixStartTime",
    "TimeZone",
    "TimeZoneString",
    "StartTime",
    "EndTime",
    "MaxNodes",
    "MaxProcs",
    "MaxRuntime",
    "MaxMemory",
    "AllowOveruse",
    "MaxQueues",
    "Queue",
    "Queues",
    "MaxPartitions",
    "Partition",
    "Partitions",
    "Note",
)
_KEY_LINE = re.compile(rf"^\s*;+\s*({'|'.join(sorted(KEYS, key=len, reverse=True))})\s*:", re.IGNORECASE)
_SPELLING = {key.lower(): key for key in KEYS}
_STEP = "tracekit: "  # a note with this prefix is a step of the trace's history


def key_value(line: str) -> tuple[str, str] | None:
    """Split ``; Key: value``; None for a continuation, a table, or any other text.

    >>> key_value("; MaxNodes: 338 (batch partition; 512 total)")
    ('MaxNodes', '338 (batch partition; 512 total)')
    """
    match = _KEY_LINE.match(line)
    return (_SPELLING[match[1].lower()], line[match.end() :].strip()) if match else None


def leading_number(text: str) -> int | None:
    """Return the whole number that a value starts with: ``"70  (dual)"`` → 70; None for text, zero and below."""
    match = re.match(r"[\d,]+", text)
    digits = match[0].replace(",", "") if match and len(match[0]) < 24 else ""
    return int(digits) if digits and int(digits) > 0 else None


def parse(lines: Iterable[str]) -> Machine:
    """Read the machine from the header. The first value of a key is used; invalid values are ignored."""
    readable = [_readable(line) for line in lines]
    pairs = [pair for pair in map(key_value, readable) if pair]
    first: dict[str, str] = {}
    for key, value in pairs:
        first.setdefault(key, value)
    nodes = leading_number(first.get("MaxNodes", ""))
    return Machine(
        name=" at ".join(first[key] for key in ("Computer", "Installation") if first.get(key)),
        procs=leading_number(first.get("MaxProcs", "")) or nodes,  # a log that counts in nodes gives only nodes
        nodes=nodes,
        epoch=_epoch(first.get("UnixStartTime", "")),
        timezone=_timezone(first),
        queues=_labels(value for key, value in pairs if key == "Queue"),
        partitions=_labels(value for key, value in pairs if key == "Partition"),
        licence=first.get("Copyright", ""),
        header=tuple(lines),
    )


def history(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the history steps that tracekit wrote into the header."""
    pairs = filter(None, (key_value(_readable(line)) for line in lines))
    return tuple(value.removeprefix(_STEP) for key, value in pairs if key == "Note" and value.startswith(_STEP))


def render(trace: Trace) -> list[str]:
    """Return the header lines for a trace: those it was read with, corrected where they no longer hold.

    A line stays verbatim as long as the machine still agrees with it. Counts of jobs, which real files get wrong,
    are corrected only once the trace has been changed.
    """
    machine = trace.machine
    lines = list(machine.header or ())
    said = parse(lines)
    stale = {key for key, value in _facts(machine).items() if value != _facts(said)[key]}
    if machine.header is None:  # not from SWF: write a complete header
        stale |= {"Version", "Computer", "Conversion", "MaxJobs", "MaxRecords"}
    new_steps = [step for step in trace.history if step not in history(lines)]
    if new_steps:
        stale |= {"MaxJobs", "MaxRecords"}
    fresh = _fresh_lines(trace, stale)
    kept = [line for line in lines if (pair := key_value(line)) is None or pair[0] not in stale]
    return kept + fresh + [f"; Note: {_STEP}{step}" for step in new_steps]


def _facts(machine: Machine) -> dict[str, Any]:
    """Return the value by which header lines are compared."""
    return {
        "UnixStartTime": machine.epoch,
        "TimeZoneString": machine.timezone,
        "MaxNodes": machine.nodes,
        "MaxProcs": machine.procs,
        "Queue": dict(machine.queues),
        "Partition": dict(machine.partitions),
    }


def _fresh_lines(trace: Trace, stale: set[str]) -> list[str]:
    machine = trace.machine
    values: dict[str, list[Any]] = {
        "Version": ["2.2"],
        "Computer": [machine.name] if machine.name else [],
        "Conversion": ["tracekit"],
        "MaxJobs": [len(trace)],
        "MaxRecords": [len(trace)],
        "UnixStartTime": [f"{machine.epoch:.0f}"] if machine.epoch is not None else [],
        "TimeZoneString": [machine.timezone] if machine.timezone else [],
        "MaxNodes": [machine.nodes] if machine.nodes else [],
        "MaxProcs": [machine.size() or machine.procs] if machine.size() or machine.procs else [],
        "Queue": [f"{label} {name}" for label, name in machine.queues.items()],
        "Partition": [f"{label} {name}" for label, name in machine.partitions.items()],
    }
    return [f"; {key}: {' '.join(str(value).split())}" for key in values if key in stale for value in values[key]]


def _readable(line: str) -> str:
    """Turn bytes that were kept as surrogates into Latin-1 letters, the most likely encoding."""
    if line.isascii():
        return line
    raw = line.encode("utf-8", "surrogateescape")
    return line if raw == line.encode("utf-8", "replace") else raw.decode("latin-1")


def _epoch(text: str) -> float | None:
    match = re.match(r"-?\d{1,15}(?!\d)", text)
    return float(match[0]) if match and int(match[0]) >= 0 else None


def _timezone(first: dict[str, str]) -> str | None:
    """Return an IANA zone; the deprecated offset in seconds is used only if no name is given."""
    name = first.get("TimeZoneString", "")
    if name and _is_zone(name):
        return name
    match = re.fullmatch(r"([+-]?\d{1,9})", first.get("TimeZone", ""))
    if name or not match or int(match[1]) % 3600:
        return None
    hours = int(match[1]) // 3600
    zone = f"Etc/GMT{-hours:+d}" if hours else "UTC"  # POSIX counts west of Greenwich as positive
    return zone if _is_zone(zone) else None


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return False
    return True


def _labels(values: Iterable[str]) -> dict[str, str]:
    """Read ``1 batch`` lines into {"1": "batch"}; a label without a name gets an empty name."""
    found: dict[str, str] = {}
    for value in values:
        match = re.match(r"(-?\d+)\b\s*(.*)", value)
        if match:
            found.setdefault(match[1], match[2])
    return found
