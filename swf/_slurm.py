"""Slurm's notation: states, resource strings, memory per node or per CPU."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swf._notation import UNKNOWN, Numbers, distinct, memory, number, on_unique

STATUS_OF_STATE = {
    "COMPLETED": "completed",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "BOOT_FAIL": "failed",
    "LAUNCH_FAILED": "failed",
    "RECONFIG_FAIL": "failed",
    "SPECIAL_EXIT": "failed",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "CANCELLED": "cancelled",
    "PREEMPTED": "cancelled",
    "REVOKED": "cancelled",
    "REQUEUED": "partial",
}
#: States of jobs that have not ended: how long they will run is unknown.
OPEN_STATES = frozenset(
    {"PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "REQUEUE_FED", "REQUEUE_HOLD"}
    | {"RESV_DEL_HOLD", "SIGNALING", "STAGE_OUT", "STOPPED"}
)
SHORT_STATES = {
    "CD": "COMPLETED",
    "F": "FAILED",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "BF": "BOOT_FAIL",
    "TO": "TIMEOUT",
    "DL": "DEADLINE",
    "CA": "CANCELLED",
    "PR": "PREEMPTED",
    "RV": "REVOKED",
    "RQ": "REQUEUED",
    "PD": "PENDING",
    "R": "RUNNING",
    "S": "SUSPENDED",
}
_NO_ENERGY = 2.0**63  # joules: Slurm writes 2**64 - 2 for an energy that it does not know
_TRES_NUMBERS = {"1": "cpu", "2": "mem", "3": "energy", "4": "node"}  # spelling of the database
_PER_CPU = 2.0**31  # the bit that marks memory per CPU, in MB, which some versions print as part of the number


def state_word(text: str) -> str:
    """Return the state without its suffix: ``CANCELLED by 1001`` → CANCELLED.

    >>> state_word("CANCELLED by 1001"), state_word("oom")
    ('CANCELLED', 'OUT_OF_MEMORY')
    """
    word = (text.split() or [""])[0].rstrip("+").upper()
    return SHORT_STATES.get(word, word)


def is_state(text: str) -> bool:
    """Return whether a text is a state that Slurm writes."""
    word = state_word(text)
    return word in STATUS_OF_STATE or word in OPEN_STATES


def joules(text: str) -> float:
    """Return an energy in joules, with its prefix in steps of 1000; NaN for 0 and for Slurm's mark of an unknown one.

    >>> joules("1.50K"), joules("7200000"), joules("18446744073709551614")
    (1500.0, 7200000.0, nan)
    """
    text = text.strip()
    if text.lower() in UNKNOWN:
        return float("nan")
    prefix = "KMGTP".find(text[-1].upper()) + 1
    value = float(text[:-1] if prefix else text) * 1000.0**prefix
    if not np.isfinite(value) or "_" in text:
        raise ValueError(text)
    return value if 0 < value < _NO_ENERGY else float("nan")


class Tres:
    """A column of resource strings such as ``cpu=12,gres/gpu:a100=2,mem=31000M,node=1``, read once per distinct one."""

    def __init__(self, texts: Any) -> None:
        self.codes, found = distinct(texts)
        self.parsed: list[dict[str, Any] | None] = []
        for text in found:
            try:
                self.parsed.append(_tres(str(text)))
            except ValueError:
                self.parsed.append(None)
        self.wrong = np.array([parts is None for parts in self.parsed] + [False])[self.codes]

    def numbers(self, name: str) -> Numbers:
        """Return cpu, node, gpu, mem (KB) or energy (J) of each row; NaN if not given, but 0 for GPUs."""
        unnamed = 0.0 if name == "gpu" else np.nan
        table = [float(parts.get(name, unnamed)) if parts else np.nan for parts in self.parsed]
        found: Numbers = np.array([*table, np.nan])[self.codes]
        return found

    def labels(self, name: str) -> NDArray[Any]:
        """Return a text of each row, such as gpu_type, None where it is not given."""
        table = [(parts or {}).get(name) for parts in self.parsed]
        found: NDArray[Any] = np.array([*table, None], dtype=object)[self.codes]
        return found


def _tres(text: str) -> dict[str, Any]:
    """Read one resource string; GPUs are counted by type where the total is not given.

    >>> _tres("billing=12,cpu=12,gres/gpu:a100=2,mem=62.50G,node=1")
    {'cpu': 12.0, 'mem': 65536000.0, 'node': 1.0, 'gpu': 2.0, 'gpu_type': 'a100'}
    """
    parts: dict[str, Any] = {}
    typed: dict[str, float] = {}
    for item in filter(None, text.strip().split(",")):
        key, _, value = item.partition("=")
        gres = re.fullmatch(r"(?:gres[/:])?gpu(?::([^:=]+))?:(\d+)(?:\(.*\))?", item)  # the older gpu:a100:2
        if gres and "=" not in item:
            key, value = "gres/gpu" + (f":{gres[1]}" if gres[1] else ""), gres[2]
        name = _TRES_NUMBERS.get(key, key)
        if name in ("cpu", "node"):
            parts[name] = number(value)
        elif name == "mem":
            parts["mem"] = number(value) * 1024 if key == "2" else memory(value)
        elif name == "energy":
            parts[name] = joules(value)
        elif name in ("gres/gpu", "gres:gpu"):
            parts["gpu"] = number(value)
        elif name.startswith(("gres/gpu:", "gres:gpu:")):
            typed[name.split(":")[-1]] = number(value)
    if typed:
        parts.setdefault("gpu", sum(typed.values()))
        parts["gpu_type"] = "+".join(sorted(typed))
    return parts


def mem_per_proc(texts: Any, nodes: Numbers, procs: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return requested KB per processor: ``4Gc`` is per CPU, ``48000Mn`` per node, ``4G`` (from 21.08 on) the job's."""
    amount, wrong = on_unique(texts, memory)
    ends, _ = on_unique(texts, lambda text: {"c": 1.0, "n": 2.0}.get(text.strip()[-1:].lower(), 0.0))
    per_cpu = amount / 1024 >= _PER_CPU
    amount = np.where(per_cpu, amount - _PER_CPU * 1024, amount)
    kind = np.where(per_cpu, 1.0, ends)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(kind == 1, amount, np.where(kind == 2, amount * nodes, amount) / procs)
    return np.where((amount > 0) & np.isfinite(found), found, np.nan), wrong  # 0 means all of a node
