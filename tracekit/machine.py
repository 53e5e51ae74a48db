"""The machine that a trace was recorded on, or that it is to run on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from tracekit.errors import SchemaError, UnknownName
from tracekit.files import read_toml

Unit = Literal["procs", "nodes", "gpus"]
UNITS: tuple[Unit, ...] = ("procs", "nodes", "gpus")


@dataclass(frozen=True)
class HostGroup:
    """Hosts that are alike; a machine may consist of several such groups."""

    count: int
    cores: int | None = None
    memory: float | None = None  # KB per host
    gpus: int | None = None
    gpu_type: str | None = None
    pool: str | None = None
    power: float | None = None  # watts per host at rest


@dataclass(frozen=True)
class Machine:
    """What is known of the machine; None means that the source does not say."""

    name: str = ""
    procs: int | None = None
    nodes: int | None = None
    gpus: int | None = None
    unit: Unit = "procs"  # what the scheduler hands out
    epoch: float | None = None  # Unix seconds at submit_time 0; None = the trace has no calendar
    timezone: str | None = None  # an IANA name, for hours of day and days of week
    queues: Mapping[str, str] = field(default_factory=dict)  # label -> name
    partitions: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[HostGroup, ...] = ()
    source: str = ""  # the file or the model that the jobs come from
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
                raise UnknownName(f"key in {origin}", key, known)
        try:
            values["groups"] = tuple(HostGroup(**group) for group in values.get("groups", ()))
        except TypeError as error:
            raise SchemaError(f"{origin}: groups: {error}") from None
        values["notes"] = tuple(values.get("notes", ()))
        values["header"] = None if values.get("header") is None else tuple(values["header"])
        for key in ("procs", "nodes", "gpus"):
            value = values.get(key)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise SchemaError(f"{origin}: {key} must be a whole number from 1, not {value!r}")
        if values.get("unit", "procs") not in UNITS:
            raise UnknownName(f"unit in {origin}", str(values["unit"]), UNITS)
        for key in ("queues", "partitions"):
            values[key] = {str(label): str(name) for label, name in dict(values.get(key, {})).items()}
        return cls(**values)

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Read a machine from a small TOML file whose keys are the fields of this class."""
        return cls.from_dict(read_toml(path), origin=str(path))
