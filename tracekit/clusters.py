"""Clusters of hosts: presets of the package, TOML files, and machines of traces; each is a `Machine` with groups."""

from __future__ import annotations

import dataclasses
import os
from functools import cache
from importlib.resources import files
from pathlib import Path

from tracekit.errors import FormatError, TracekitError, UnknownName
from tracekit.files import read_toml
from tracekit.machine import UNITS, HostGroup, Machine
from tracekit.registry import imported

#: Made from a list of nodes that must be on this computer: name -> files that are looked for.
FOUND = {"openb": ("openb_node_list_gpu_node.csv", "openb_node_list_all_node.csv")}


def cluster_names() -> list[str]:
    """Return the names of the presets."""
    folder = files("tracekit") / "data" / "clusters"
    packaged = sorted(place.name.removesuffix(".toml") for place in folder.iterdir() if place.name.endswith(".toml"))
    return [*packaged, *FOUND]


@cache
def preset(name: str) -> Machine:
    """Return a preset by its name; `UnknownName` with a suggestion if there is none."""
    if name in FOUND:
        return _from_node_list(name)
    if name not in cluster_names():
        raise UnknownName("cluster", name, cluster_names())
    import tomllib

    text = (files("tracekit") / "data" / "clusters" / f"{name}.toml").read_text(encoding="utf-8")
    return completed(Machine.from_dict(tomllib.loads(text), origin=name), name)


def cluster_of(given: str | Path | Machine) -> Machine:
    """Return the cluster that is meant: a `Machine` with groups, a preset's name, or the path of a TOML file."""
    if isinstance(given, Machine):
        return completed(given, given.name or "the machine")
    text = str(given)
    if text in cluster_names():
        return preset(text)
    if Path(text).suffix.lower() == ".toml" or "/" in text or Path(text).is_file():
        return completed(Machine.from_dict(read_toml(text), origin=text), text)
    raise UnknownName("cluster", text, cluster_names())


def completed(machine: Machine, origin: str) -> Machine:
    """Return a cluster whose groups have names and whose totals are those of its hosts."""
    if not machine.groups:
        raise FormatError(
            origin, "no hosts", hint="a cluster needs [[groups]] with count, cores, memory (KB), gpus, gpu_type, pool"
        )
    named = tuple(
        group if group.name else dataclasses.replace(group, name=f"group{number}")
        for number, group in enumerate(machine.groups)
    )
    cores = [group.cores for group in named]
    procs = None if None in cores else sum(group.count * (group.cores or 0) for group in named)
    gpus = sum(group.count * (group.gpus or 0) for group in named)
    nodes = sum(group.count for group in named)
    return machine.replace(groups=named, procs=procs, nodes=nodes, gpus=gpus or None)


def with_hosts(machine: Machine, given: str | Path | Machine) -> Machine:
    """Return a trace's machine with the hosts, and the totals as far as these are known, of a cluster."""
    cluster = cluster_of(given)
    totals = {unit: size for unit in UNITS if (size := cluster.size(unit)) is not None}
    return machine.replace(groups=cluster.groups, **totals)


def host_names(machine: Machine) -> list[str]:
    """Return the name of every host, ``<group>-<i>``, in the order of the groups."""
    return [f"{group.name}-{i}" for group in machine.groups for i in range(group.count)]


def pool_names(machine: Machine) -> list[str]:
    """Return the pools in the order of their first group; hosts without a pool are in the pool ""."""
    return list(dict.fromkeys(group.pool or "" for group in machine.groups))


def gpu_types(machine: Machine) -> list[str]:
    """Return the GPU types that the cluster names, in the order of the groups."""
    return list(dict.fromkeys(g.gpu_type for g in machine.groups if g.gpus and g.gpu_type))


def data_folder() -> Path:
    """Return the folder of traces that are not part of the package: $TRACEKIT_DATA, or the one beside the sources."""
    return Path(os.environ.get("TRACEKIT_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def _from_node_list(name: str) -> Machine:
    folder = data_folder()
    for file in FOUND[name]:
        for place in (folder / "alibaba" / file, folder / file):
            if place.is_file():
                machine: Machine = imported("swf.alibaba:node_list")(place)
                return completed(machine.replace(name=name), str(place))
    raise TracekitError(
        f"cluster {name}: {' or '.join(FOUND[name])} is not in {folder}; set TRACEKIT_DATA to the folder of the file"
    )


def describe_groups(groups: tuple[HostGroup, ...]) -> list[dict[str, object]]:
    """Return the groups as plain values without what is unknown, as `tracekit info` shows them."""
    return [{k: v for k, v in dataclasses.asdict(group).items() if v not in (None, "")} for group in groups]
