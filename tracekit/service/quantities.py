"""Resource quantities of Kubernetes, and what pods and nodes state by them. Keys of JSON match without regard to case.

Go's decoder, which the protocol is defined by, takes ``Pod`` and ``pod`` alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError

Floats = NDArray[np.float64]
_QUANTITY = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([eE][+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i)?)")
_FACTORS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0}
_FACTORS |= {letter: 10.0 ** (3 * power) for power, letter in enumerate("kMGTPE", 1)}
_FACTORS |= {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)}
#: Resources that count as GPUs: their names end with this.
GPU_ENDINGS = ("/gpu", "/gpus")
_MOST = 1e15


def quantity(value: Any) -> float:
    """Return a quantity as a number; `TracekitError` if it is not one.

    >>> quantity("500m"), quantity("1Gi"), quantity("1e3"), quantity(2)
    (0.5, 1073741824.0, 1000.0, 2.0)
    """
    if type(value) in (int, float):
        found = float(value) if abs(value) <= 1e300 else math.inf
    else:
        match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) and len(value) < 100 else None
        if match is None:
            raise TracekitError(f"{str(value)[:40]!r} is not a quantity such as 500m, 2, 1Gi or 1e3")
        sign, digits, exponent, suffix = match.groups()
        found = float(f"{sign}{digits}{exponent or ''}") * _FACTORS[suffix or ""]
    if not 0 <= found <= _MOST * 1024:
        raise TracekitError(f"{str(value)[:40]!r} is not a quantity from 0 to 1e18")
    return found


def get(data: Any, name: str) -> Any:
    """Return a field of an object whatever the case of its name; None if it is missing, or ``data`` is no object."""
    if not isinstance(data, dict):
        return None
    if name in data:
        return data[name]
    low = name.lower()
    return next((value for key, value in data.items() if isinstance(key, str) and key.lower() == low), None)


def path(data: Any, *names: str) -> Any:
    """Return a field of nested objects; None where one is missing."""
    for name in names:
        data = get(data, name)
    return data


def resources(listed: Any, place: str) -> Floats:
    """Return cores, memory (KB) and GPUs of a list of resources, (3,); what is not listed is 0."""
    made = np.zeros(3)
    if listed is None:
        return made
    if not isinstance(listed, dict):
        raise TracekitError(f"{place}: must be an object")
    for name, value in listed.items():
        kind = _kind(str(name).lower())
        if kind is not None:
            try:
                made[kind] += quantity(value) / (1024.0 if kind == 1 else 1.0)
            except TracekitError as error:
                raise TracekitError(f"{place}.{name}: {error}") from None
    return made


def _kind(name: str) -> int | None:
    if name in ("cpu", "memory"):
        return 0 if name == "cpu" else 1
    return 2 if name.endswith(GPU_ENDINGS) else None


def pod_request(pod: Any) -> Floats:
    """Return what a pod asks for, (3,): the sum of its containers, or more if one of its init containers asks for more.

    A resource without a request counts by its limit, as in Kubernetes. Init containers that restart always (sidecars)
    run beside the others. ``spec.overhead`` is added.
    """
    spec = get(pod, "spec")
    if not isinstance(spec, dict):
        raise TracekitError("pod.spec: is missing")
    total = sum(_requests(get(spec, "containers"), "pod.spec.containers"), np.zeros(3))
    beside, peak = np.zeros(3), np.zeros(3)
    listed = get(spec, "initContainers")
    for container, need in zip(
        listed or (), _requests(listed, "pod.spec.initContainers") if listed else (), strict=True
    ):
        if get(container, "restartPolicy") == "Always":
            beside = beside + need
            peak = np.maximum(peak, beside)
        else:
            peak = np.maximum(peak, beside + need)
    found: Floats = np.maximum(total + beside, peak) + resources(get(spec, "overhead"), "pod.spec.overhead")
    return found


def _requests(containers: Any, place: str) -> list[Floats]:
    if containers is None:
        return []
    if not isinstance(containers, list) or not all(isinstance(one, dict) for one in containers):
        raise TracekitError(f"{place}: must be a list of objects")
    made = []
    for i, container in enumerate(containers):
        at = f"{place}[{i}].resources"
        asked, limit = path(container, "resources", "requests"), path(container, "resources", "limits")
        stated = {_kind(str(name).lower()) for name in asked} if isinstance(asked, dict) else set()
        by_limit = resources(limit, f"{at}.limits")
        by_limit[[kind for kind in stated if kind is not None]] = 0.0
        made.append(resources(asked, f"{at}.requests") + by_limit)
    return made


def node_name(node: Any) -> str:
    """Return the name of a node."""
    name = path(node, "metadata", "name")
    if not isinstance(name, str) or not name:
        raise TracekitError("a node has no metadata.name")
    return name


def node_size(node: Any) -> Floats | None:
    """Return what pods can use of a node, (3,); None if it does not state it."""
    listed = path(node, "status", "allocatable") or path(node, "status", "capacity")
    if listed is None:
        return None
    return resources(listed, f"node {node_name(node)}: allocatable")


def used_by_node(pods: Iterable[Any]) -> dict[str, Floats]:
    """Return what the pods that run, or are about to, ask for on each node."""
    used: dict[str, Floats] = {}
    for pod in pods:
        node, phase = path(pod, "spec", "nodeName"), path(pod, "status", "phase")
        if isinstance(node, str) and node and phase not in ("Succeeded", "Failed"):
            used[node] = used.get(node, np.zeros(3)) + pod_request(pod)
    return used
