"""How PBS and Torque write places: exec_host, exec_vnode, select and nodes, each summed into counts."""

from __future__ import annotations

import re

from swf._notation import number

_CPUS = re.compile(r"[^/]+(?:/([\d,\-]+))?(?:\*(\d+))?")
_GPU_KEYS = ("ngpus", "gpus", "gpu")
Counts = dict[str, float]


def exec_host(text: str) -> Counts:
    """Count slots and hosts of ``c1/0+c1/1``, ``c3/24-31``, ``n1/0-3,8`` (Torque) and ``n1/0*8+n2/0*8`` (PBS).

    >>> exec_host("c3/24-31+c4/0"), exec_host("n1/0*8+n2/0*8")
    ({'procs': 9.0, 'nodes': 2.0}, {'procs': 16.0, 'nodes': 2.0})
    """
    procs, hosts = 0.0, set()
    for place in filter(None, text.strip().split("+")):
        match = _CPUS.fullmatch(place)
        if match is None:
            raise ValueError(text)
        hosts.add(place.partition("/")[0])
        procs += float(match[2]) if match[2] else _slots(match[1] or "0")
    return {"procs": procs, "nodes": float(len(hosts))}


def _slots(text: str) -> float:
    """Count ``0-3,8``."""
    total = 0
    for part in text.split(","):
        low, dash, high = part.partition("-")
        total += int(high) - int(low) + 1 if dash else 1
    return float(total)


def exec_vnode(text: str) -> Counts:
    """Sum ``(n1:ncpus=4:ngpus=1:mem=1kb)+(n2:ncpus=4+n3:ncpus=4)`` over its virtual nodes.

    >>> exec_vnode("(n1:ncpus=4:ngpus=1)+(n2:ncpus=4)")
    {'procs': 8.0, 'nodes': 2.0, 'gpus': 1.0}
    """
    hosts = set()
    found: Counts = {"procs": 0.0, "nodes": 0.0}
    for place in filter(None, re.split(r"[()+\s]+", text)):
        host, *parts = place.split(":")
        hosts.add(re.sub(r"\[\d+\]$", "", host))  # one host may be split into several virtual nodes
        for key, value in (part.partition("=")[::2] for part in parts):
            if key == "ncpus":
                found["procs"] += float(value)
            elif key in _GPU_KEYS:
                found["gpus"] = found.get("gpus", 0.0) + float(value)
    found["nodes"] = float(len(hosts))
    return found


def select(text: str) -> Counts:
    """Sum ``1:ncpus=4:ngpus=1+2:ncpus=8`` over its chunks; a chunk without ncpus has one.

    >>> select("1:ncpus=4:ngpus=1+2:ncpus=8")
    {'procs': 20.0, 'gpus': 1.0}
    """
    return _chunks(text, "ncpus")


def nodes(text: str) -> Counts:
    """Sum Torque's ``4:ppn=8:gpus=1+node07:ppn=2``; a name is one node, and a node without ppn has one processor.

    >>> nodes("4:ppn=8"), nodes("c1:ppn=4+2")
    ({'procs': 32.0, 'nodes': 4.0}, {'procs': 6.0, 'nodes': 3.0})
    """
    counts = [part.split(":")[0] for part in text.partition("#")[0].split("+")]
    total = sum(float(count) if count.isdecimal() else 1.0 for count in counts)
    found = _chunks(text.partition("#")[0], "ppn")
    return {"procs": found.pop("procs"), "nodes": total, **found}


def nodect(text: str) -> Counts:
    """Return the nodes of a plain number; some sites write a whole request of nodes there.

    >>> nodect("2"), nodect("1:ppn=24:gpu=4")
    ({'nodes': 2.0}, {'procs': 24.0, 'nodes': 1.0, 'gpus': 4.0})
    """
    try:
        return {"nodes": number(text)}
    except ValueError:
        return nodes(text)


def _chunks(text: str, cpus: str) -> Counts:
    found: Counts = {"procs": 0.0}
    for chunk in text.strip().split("+"):
        first, *parts = chunk.split(":")
        number = float(first) if first.isdecimal() else 1.0
        if not first.isdecimal():
            parts = [first, *parts]
        values = dict(part.partition("=")[::2] for part in parts)
        found["procs"] += number * float(values.get(cpus) or 1)
        for key in _GPU_KEYS:
            if values.get(key):
                found["gpus"] = found.get("gpus", 0.0) + number * float(values[key])
    return found


def exec_gpus(text: str) -> Counts:
    """Count Torque's ``n1-gpu/0+n1-gpu/1``."""
    return {"gpus": float(len([place for place in text.split("+") if place]))}
