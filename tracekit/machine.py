"""The machine that a trace was recorded on, or that it is to run on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self
from zoneinfo import ZoneInfo

from tracekit.errors import SchemaError, UnknownName, reading
from tracekit.files import read_toml

Unit = Literal["procs", "nodes", "gpus"]
UNITS: tuple[Unit, ...] = ("procs", "nodes", "gpus")


#: The most hosts that a machine may have; more is taken for a typing error.
MOST_HOSTS = 1_000_000
#: KB of memory of one host, at most: 1,024 TB.
MOST_MEMORY = 2**40
#: The most GPUs of one host.
MOST_GPUS = 32


@dataclass(frozen=True)
class HostGroup:
    """Identical hosts; a machine may consist of several such groups.

    None means unknown: cores and memory are then not limited, there are no GPUs, and nothing is drawn. Watts are per
    host, except core_watts (per busy core, on top of idle), gpu_idle_watts and gpu_watts (per GPU, idle and on top when
    busy). Losses turn the watts of a host into (watts + loss_constant) / loss_efficiency (`tracekit.sim.energy.model`).
    """

    count: int
    cores: int | None = None
    memory: float | None = None  # KB per host
    gpus: int | None = None
    gpu_type: str | None = None
    pool: str | None = None
    power: float | None = None  # watts per idle host; the same as idle_watts
    name: str = ""  # hosts are called <name>-<i>, i from 0
    idle_watts: float | None = None
    core_watts: float | None = None
    gpu_idle_watts: float | None = None
    gpu_watts: float | None = None
    memory_watts: float | None = None
    nic_watts: float | None = None
    other_watts: float | None = None
    loss_constant: float | None = None
    loss_efficiency: float | None = None
    sleep_watts: float | None = None
    off_seconds: float | None = None
    off_watts: float | None = None
    on_seconds: float | None = None
    on_watts: float | None = None


@dataclass(frozen=True)
class Machine:
    """What is known about the machine; None means unknown."""

    name: str = ""
    procs: int | None = None
    nodes: int | None = None
    gpus: int | None = None
    unit: Unit = "procs"  # the scheduled unit
    epoch: float | None = None  # Unix seconds at submit_time 0; None = the trace has no calendar
    timezone: str | None = None  # an IANA name, for hours of day and days of week
    queues: Mapping[str, str] = field(default_factory=dict)  # label -> name
    partitions: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[HostGroup, ...] = ()
    switch_watts: float | None = None  # of all switches, always on
    overhead_watts: float | None = None  # of the facility, always on
    pue: float | Mapping[str, Any] | None = None  # a number, or a table by temperature or load (`sim.energy.pue`)
    source: str = ""  # the file or the model of the jobs
    licence: str = ""
    notes: tuple[str, ...] = ()
    header: tuple[str, ...] | None = None  # header lines of an SWF source, verbatim (odd bytes as surrogates)

    def size(self, resource: Unit | None = None) -> int | None:
        """Return how many units of ``resource`` (default: the scheduled one) there are, or None."""
        return {"procs": self.procs, "nodes": self.nodes, "gpus": self.gpus}[resource or self.unit]

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, origin: str = "machine") -> Self:
        """Build a machine from plain values; unknown keys and wrong types are errors that name ``origin``."""
        values = dict(values)
        known = {f.name for f in dataclasses.fields(cls)}
        for key in values:
            if key not in known:
                raise UnknownName(f"key in {origin}", str(key), known)
        for key, (fits, wanted) in _WANTED.items():
            if values.get(key) is not None and not fits(values[key]):
                raise SchemaError(f"{origin}: {key} must be {wanted}, not {str(values[key])[:60]!r}")
        values["groups"] = groups_from(values.get("groups") or (), origin=origin)
        values |= {key: values.get(key) or "" for key in ("name", "source", "licence")}
        values["notes"] = tuple(values.get("notes") or ())
        values["header"] = None if values.get("header") is None else tuple(values["header"])
        if values.get("unit", "procs") not in UNITS:
            raise UnknownName(f"unit in {origin}", str(values["unit"]), UNITS)
        for key in ("queues", "partitions"):
            values[key] = {str(label): str(name) for label, name in (values.get(key) or {}).items()}
        return cls(**values)

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Read a machine from a small TOML file whose keys are the fields of this class."""
        with reading(path, "a description of a machine"):
            return cls.from_dict(read_toml(path), origin=str(path))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _is_watts(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _is_pue(value: Any) -> bool:
    return isinstance(value, Mapping) or (_is_number(value) and value >= 1)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_text, value))


def _is_text(value: Any) -> bool:
    """Return whether a value is text that can be written: halves of characters only where they stand for odd bytes."""
    try:
        value.encode("utf-8", "surrogateescape")
    except (AttributeError, UnicodeEncodeError):
        return False
    return True


def is_zone(value: Any) -> bool:
    """Return whether a value names an IANA time zone."""
    try:
        ZoneInfo(value)
    except (TypeError, ValueError, OSError, KeyError):
        return False
    return True


def _are_names(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_text(str(text)) for pair in value.items() for text in pair)


#: What the fields of a machine must be when they come from a file: a test, and the words for it.
_WANTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("procs", "nodes", "gpus"), (_is_count, "a whole number from 1")),
    **dict.fromkeys(("name", "source", "licence"), (_is_text, "text")),
    **dict.fromkeys(("queues", "partitions"), (_are_names, "a table of names")),
    **dict.fromkeys(("notes", "header"), (_are_texts, "a list of texts")),
    "timezone": (is_zone, "an IANA time zone such as Europe/Berlin"),
    "epoch": (_is_number, "Unix seconds"),
    **dict.fromkeys(("switch_watts", "overhead_watts"), (_is_watts, "a number from 0")),
    "pue": (_is_pue, "a number from 1 (facility power / IT power), or a table"),
}


def groups_from(rows: Any, *, origin: str) -> tuple[HostGroup, ...]:
    """Build groups of hosts from plain values; every mistake is one line that names ``origin`` and the group."""
    known = [f.name for f in dataclasses.fields(HostGroup)]
    if not isinstance(rows, (list, tuple)) or not all(isinstance(row, Mapping) for row in rows):
        raise SchemaError(f"{origin}: groups must be a list of tables, [[groups]] in TOML")
    found: list[HostGroup] = []
    for number, row in enumerate(rows, 1):
        place = f"{origin}: group {' '.join(str(row.get('name') or number).split())}"
        for key in row:
            if key not in known:
                raise UnknownName(f"key in {place}", str(key), known)
        if "count" not in row:
            raise SchemaError(f"{place} has no count: how many hosts it has")
        _check_group(row, place)
        found.append(HostGroup(**{str(key): value for key, value in row.items()}))
    hosts = sum(group.count for group in found)
    if hosts > MOST_HOSTS:
        raise SchemaError(f"{origin}: {hosts:,} hosts are more than the limit of {MOST_HOSTS:,}")
    names = [group.name for group in found if group.name]
    for name in names:
        if names.count(name) > 1:
            raise SchemaError(f"{origin}: two groups are called '{name}'; hosts need different names")
    return tuple(found)


#: Lowest and highest value of the whole numbers of a group.
_WHOLE = {"count": (1, MOST_HOSTS), "cores": (0, 2**20), "gpus": (0, MOST_GPUS)}
_WORDS = ("name", "gpu_type", "pool")


def _check_group(row: Mapping[str, Any], place: str) -> None:
    """Raise a `SchemaError` for the first value of a group that is not possible."""
    for key, value in row.items():
        if value is None:
            continue
        if key in _WORDS:
            if not isinstance(value, str) or any(mark in value for mark in ":/+,|\n"):
                raise SchemaError(f"{place}: {key} must be text without : / + , |, not {value!r}")
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 2**63:
            raise SchemaError(f"{place}: {key} must be a number, not {str(value)[:40]}")
        elif key in _WHOLE:
            low, high = _WHOLE[key]
            if value != int(value) or not low <= value <= high:
                raise SchemaError(f"{place}: {key} must be a whole number from {low} to {high:,}, not {value:g}")
        elif key == "memory" and value > MOST_MEMORY:
            raise SchemaError(f"{place}: memory (KB per host) must be at most {MOST_MEMORY:,}, not {value:g}")
        elif key == "loss_efficiency" and not 0 < value <= 1:
            raise SchemaError(f"{place}: loss_efficiency must be above 0 and at most 1, not {value:g}")
        elif value < 0:
            raise SchemaError(f"{place}: {key} must be 0 or more, not {value:g}")
