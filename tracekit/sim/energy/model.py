"""Power models: from the power fields of a cluster, or of a file given by ``--power``, to watts per host, core and GPU.

An idle host draws idle_watts + gpus × gpu_idle_watts + memory_watts + nic_watts + other_watts; a busy core adds
core_watts, a busy GPU gpu_watts. Losses turn the watts of a host into (watts + loss_constant) / loss_efficiency.
The machine adds switch_watts (part of IT) and overhead_watts; cooling is IT watts × (PUE − 1).
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import cluster_names, preset
from tracekit.errors import SchemaError, UnknownName
from tracekit.files import read_toml
from tracekit.machine import HostGroup, Machine, Unit, groups_from
from tracekit.sim.energy.pue import Pue, pue_of

Floats = NDArray[np.float64]

#: Watts of a group: per host, except core_watts (per busy core) and gpu_idle_watts, gpu_watts (per GPU).
WATTS = ("idle_watts", "core_watts", "gpu_idle_watts", "gpu_watts", "memory_watts", "nic_watts", "other_watts")
LOSSES = ("loss_constant", "loss_efficiency")
SLEEP = ("sleep_watts", "off_seconds", "off_watts", "on_seconds", "on_watts")
#: Power fields of a group in a power file, and what else it may say of a host.
GROUP_KEYS = (*WATTS, *LOSSES, *SLEEP, "power")
_HOST_KEYS = ("name", "count", "cores", "memory", "gpus", "gpu_type", "pool")
_MACHINE_KEYS = ("switch_watts", "overhead_watts", "pue", "frequency_exponent")
_TEXTS = ("name", "notes", "source", "timezone")
#: Busy watts of a job at a share x of the highest frequency are those at the highest × x to the power of this.
FREQUENCY_EXPONENT = 3.0


@dataclass(frozen=True)
class Sleep:
    """States of a host that sleeps; watts are of the whole host, before losses."""

    sleep_watts: float
    off_seconds: float = 0.0  # to fall asleep
    off_watts: float = 0.0  # meanwhile
    on_seconds: float = 0.0  # to wake up
    on_watts: float = 0.0


@dataclass(frozen=True)
class GroupPower:
    """Power of the hosts of one group; watts before losses. What a file does not state draws nothing."""

    name: str
    hosts: float  # how many; a counter of processors need not be a whole number of hosts
    cores: float | None  # per host; None = not stated
    gpus: float = 0.0  # per host
    idle_watts: float = 0.0
    core_watts: float = 0.0
    gpu_idle_watts: float = 0.0
    gpu_watts: float = 0.0
    memory_watts: float = 0.0
    nic_watts: float = 0.0
    other_watts: float = 0.0
    loss_constant: float = 0.0
    loss_efficiency: float = 1.0
    sleep: Sleep | None = None  # None = cannot sleep

    @property
    def idle(self) -> float:
        """Watts of an idle host, before losses."""
        fixed = self.idle_watts + self.memory_watts + self.nic_watts + self.other_watts
        return fixed + self.gpus * self.gpu_idle_watts

    @property
    def full(self) -> float:
        """Watts of a host whose cores and GPUs are all busy, before losses."""
        return self.idle + (self.cores or 0.0) * self.core_watts + self.gpus * self.gpu_watts

    def after_losses(self, watts: float) -> float:
        """Return what a host takes from the grid for ``watts``."""
        return (watts + self.loss_constant) / self.loss_efficiency


class HostPower(NamedTuple):
    """A power model as plain arrays of shape (hosts,), hosts in the order of the groups; watts before losses."""

    idle: Floats  # of a host that is on and without jobs, all its parts
    core: Floats  # on top, per busy core
    gpu: Floats  # on top, per busy GPU
    loss_constant: Floats
    loss_efficiency: Floats
    sleep: Floats  # watts asleep; NaN = this host cannot sleep
    off_seconds: Floats
    off: Floats  # watts while it falls asleep
    on_seconds: Floats
    on: Floats  # watts while it wakes up


@dataclass(frozen=True, eq=False)
class PowerModel:
    """Power of a machine: its groups of hosts and what they share. Watts of the machine are totals."""

    name: str
    groups: tuple[GroupPower, ...]
    switch_watts: float = 0.0  # always on, after losses; part of IT
    overhead_watts: float = 0.0  # always on; not part of IT, and PUE is not applied to it
    pue: Pue = dataclasses.field(default_factory=Pue)
    frequency_exponent: float = FREQUENCY_EXPONENT

    @property
    def idle_it_watts(self) -> float:
        """IT watts of the machine without jobs: hosts after losses, and switches."""
        return self.switch_watts + sum(group.hosts * group.after_losses(group.idle) for group in self.groups)

    @property
    def full_it_watts(self) -> float:
        """IT watts of the machine with all cores and GPUs busy."""
        return self.switch_watts + sum(group.hosts * group.after_losses(group.full) for group in self.groups)

    def by_host(self) -> HostPower:
        """Return the model as arrays, one entry per host."""
        counts = [int(group.hosts) for group in self.groups]
        none = Sleep(np.nan)

        def column(*names: str) -> Floats:
            rows = [group.sleep or none if names[0] == "sleep" else group for group in self.groups]
            return np.repeat([float(getattr(row, names[-1])) for row in rows], counts)

        return HostPower(
            column("idle"),
            column("core_watts"),
            column("gpu_watts"),
            *(column(name) for name in LOSSES),
            *(column("sleep", name) for name in SLEEP),
        )


def power_names() -> list[str]:
    """Return the names of the presets: clusters that state their power, and nodes for any machine."""
    folder = files("tracekit") / "data" / "power"
    nodes = [place.name.removesuffix(".toml") for place in folder.iterdir() if place.name.endswith(".toml")]
    known = [name for name in cluster_names() if name != "openb" and _states_power(preset(name))]
    return sorted(nodes) + known


def power_of(
    machine: Machine, given: str | Path | None = None, *, unit: Unit | None = None, total: float | None = None
) -> PowerModel:
    """Return the power model of a machine: that of its groups, or of a preset or file that replaces all of it.

    A machine without groups counts ``total`` units (default: its size): processors, nodes or GPUs. A host of the
    power file then has as many processors as cores (default 1), or is one node, or has as many GPUs as it states.
    """
    if given is None:
        if not machine.groups or not _states_power(machine):
            raise SchemaError(
                f"{machine.name or 'the machine'} has no power fields; add idle_watts, core_watts, … to its groups, or "
                f"give --power FILE.toml or one of {', '.join(power_names())}"
            )
        return _resolved(_Source.of_machine(machine), machine, unit, total)
    return _resolved(_source(str(given)), machine, unit, total)


def check_power(given: str) -> None:
    """Raise an error of one line unless ``given`` is a preset or a power file without mistakes."""
    _source(given)


def _states_power(machine: Machine) -> bool:
    return any(getattr(group, key) is not None for group in machine.groups for key in GROUP_KEYS)


@dataclass(frozen=True)
class _Source:
    """What a file, preset or cluster says about power."""

    name: str
    every: HostGroup | None  # for groups that are not named
    groups: Mapping[str, HostGroup]
    values: Mapping[str, Any]  # switch_watts, overhead_watts, frequency_exponent
    pue: Pue

    @classmethod
    def of_machine(cls, machine: Machine) -> _Source:
        """Return the power of a cluster."""
        name = machine.name or "the machine"
        values = {"switch_watts": machine.switch_watts, "overhead_watts": machine.overhead_watts}
        groups = {group.name: group for group in machine.groups}
        every = machine.groups[0] if len(machine.groups) == 1 else None
        return cls(name, every, groups, values, pue_of(machine.pue, name))


def _source(given: str) -> _Source:
    """Read a preset or a file."""
    folder = files("tracekit") / "data" / "power"
    packaged = folder / f"{given}.toml"
    if "/" not in given and packaged.is_file():
        return _from_values(tomllib.loads(packaged.read_text(encoding="utf-8")), given, None)
    if given in cluster_names():
        machine = preset(given)
        if not _states_power(machine):
            raise UnknownName("power model", given, power_names())
        return _Source.of_machine(machine)
    if Path(given).suffix.lower() == ".toml" or "/" in given or Path(given).is_file():
        return _from_values(read_toml(given), given, Path(given).parent)
    raise UnknownName("power model", given, power_names())


def _from_values(values: Mapping[str, Any], origin: str, folder: Path | None) -> _Source:
    """Read a power file: fields of all hosts at the top, and [[groups]] with a name for those that differ."""
    known = (*_MACHINE_KEYS, *_TEXTS, *GROUP_KEYS, *_HOST_KEYS, "groups")
    for key in values:
        if key not in known:
            raise UnknownName(f"key in {origin}", str(key), known)
    machine: dict[str, float] = {}
    for key in ("switch_watts", "overhead_watts", "frequency_exponent"):
        if values.get(key) is not None:
            machine[key] = _amount(values[key], key, origin)
    top = {key: values[key] for key in (*GROUP_KEYS, *_HOST_KEYS) if key in values and key != "name"}
    every = groups_from([{"count": 1, **top}], origin=origin)[0] if top else None
    rows = values.get("groups") or ()
    if isinstance(rows, list | tuple):
        rows = [{"count": 1, **row} if isinstance(row, Mapping) else row for row in rows]
    groups = groups_from(rows, origin=origin)
    if len(groups) > 1 and not all(group.name for group in groups):
        raise SchemaError(f"{origin}: each of several groups needs the name of a group of the cluster")
    if len(groups) == 1 and not groups[0].name:
        every, groups = groups[0], ()
    if every is None and not groups:
        raise SchemaError(f"{origin} has no power fields; write idle_watts, core_watts, …, or [[groups]] with them")
    if every is None and len(groups) == 1 and "count" in values["groups"][0]:  # a cluster of one group
        every = groups[0]
    named = {group.name: group for group in groups}
    return _Source(str(values.get("name") or origin), every, named, machine, pue_of(values.get("pue"), origin, folder))


def _amount(value: Any, key: str, origin: str) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 <= value < 1e15:
        raise SchemaError(f"{origin}: {key} must be a number from 0, not {str(value)[:40]}")
    return float(value)


def _resolved(source: _Source, machine: Machine, unit: Unit | None, total: float | None) -> PowerModel:
    """Return the model of a machine's groups, or of its counter, from what was read."""
    groups: list[GroupPower] = []
    for group in machine.groups:
        power = source.groups.get(group.name, source.every)
        if power is None:
            raise SchemaError(f"{source.name} has no power fields for group {group.name}; it has {_names(source)}")
        groups.append(_group(power, group.name, group.count, group.cores, group.gpus, source.name))
    if not machine.groups:
        unit = unit or machine.unit
        size = machine.size(unit) if total is None else total
        if source.every is None or size is None:
            needs = "fields for all hosts" if source.every is None else f"the number of {unit} (--procs N)"
            raise SchemaError(f"{source.name}: a machine without hosts needs {needs}")
        host = source.every
        in_host = {"procs": host.cores or 1, "nodes": 1, "gpus": host.gpus or 1}[unit]
        groups.append(_group(host, "all", size / in_host, host.cores or 1, host.gpus, source.name))
    unknown = [name for name in source.groups if machine.groups and name not in {g.name for g in machine.groups}]
    if unknown and source.every is None:
        raise UnknownName(f"group in {source.name}", unknown[0], [g.name for g in machine.groups])
    shared = {key: float(value) for key, value in source.values.items() if value is not None}
    return PowerModel(source.name, tuple(groups), pue=source.pue, **shared)


def _names(source: _Source) -> str:
    return ", ".join(source.groups) or "none"


def _group(
    power: HostGroup, name: str, hosts: float, cores: float | None, gpus: float | None, origin: str
) -> GroupPower:
    """Return the power of one group; unknown fields draw nothing and lose nothing."""
    values: dict[str, Any] = {key: float(getattr(power, key) or 0.0) for key in (*WATTS, "loss_constant")}
    if power.idle_watts is None:
        values["idle_watts"] = float(power.power or 0.0)
    efficiency = 1.0 if power.loss_efficiency is None else float(power.loss_efficiency)
    made = GroupPower(name, hosts, cores, float(gpus or 0), loss_efficiency=efficiency, **values)
    if made.full <= 0 and made.core_watts <= 0 and made.gpu_watts <= 0:
        raise SchemaError(f"{origin}: group {name} has no watts; add idle_watts, core_watts, gpu_watts, …")
    if power.sleep_watts is None:
        return made
    times = {key: float(getattr(power, key) or 0.0) for key in ("off_seconds", "on_seconds")}
    watts = {key: made.idle if getattr(power, key) is None else float(getattr(power, key)) for key in SLEEP[2::2]}
    return dataclasses.replace(made, sleep=Sleep(float(power.sleep_watts), **times, **watts))
