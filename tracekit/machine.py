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


@dataclass(frozen=True)
class HostGroup:
    """Identical hosts; a machine may consist of several such groups."""

    count: int
    cores: int | None = None
    memory: float | None = None  # KB per host
    gpus: int | None = None
    gpu_type: str | None = None
    pool: str | None = None
    power: float | None = None  # watts per idle host


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
        try:
            values["groups"] = tuple(HostGroup(**group) for group in values.get("groups") or ())
        except TypeError as error:
            raise SchemaError(f"{origin}: groups: {error}") from None
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


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_text, value))


def _are_groups(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(_is_group(group) for group in value)


def _is_group(value: Any) -> bool:
    """Return whether values describe hosts: counts and sizes that are numbers from 0, names that are texts."""
    if not isinstance(value, dict) or not _is_count(value.get("count")):
        return False
    numbers = [value.get(key) for key in ("cores", "memory", "gpus", "power")]
    texts = [value.get(key) for key in ("gpu_type", "pool")]
    return all(n is None or (_is_number(n) and n >= 0) for n in numbers) and all(
        text is None or isinstance(text, str) for text in texts
    )


def _is_text(value: Any) -> bool:
    """Return whether a value is text that can be written: halves of characters only where they stand for odd bytes."""
    try:
        value.encode("utf-8", "surrogateescape")
    except (AttributeError, UnicodeEncodeError):
        return False
    return True


def _is_zone(value: Any) -> bool:
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
    "timezone": (_is_zone, "an IANA time zone such as Europe/Berlin"),
    "epoch": (_is_number, "Unix seconds"),
    "groups": (_are_groups, "a list of host groups, each with count, and numbers from 0"),
}
