"""The rows of a question that a scheduler outside asks: the features of `rows`, of hosts and jobs that are given.

`tests/service/test_host_agents.py` compares them with those of the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.sim.tasks.base import Question
from tracekit.sim.tasks.pick_host.features import OBSERVERS

Floats = NDArray[np.float64]
_CORES, _MEMORY, _GPUS = range(3)


def question_of(asked: Any, names: tuple[str, ...], constants: Mapping[str, float]) -> Question:
    """Return the rows of the hosts that have room for a job (`tracekit.service.host_choice.HostQuestion`)."""
    table, rows = asked.hosts, asked.rows
    found = _of_hosts(asked, constants) | _of_job(asked, constants)
    missing = [name for name in names if name not in found]
    if missing:
        raise UsageError(f"feature {missing[0]} cannot be worked out from a request")
    made = np.empty((len(rows), len(names)), np.float32)
    for f, name in enumerate(names):
        made[:, f] = found[name]
    return Question(made, [table.names[h] for h in rows.tolist()], asked.now)


def vector_rows(layout: str, vector: list[float], observer: str) -> NDArray[np.float32]:
    """Return the rows of a vector of the LSF plugin, for an agent that was trained on the same layout."""
    if observer != f"lsf-{layout}":
        raise UsageError(
            f"input_vector: this agent was trained on observer {observer}, not on vectors of layout {layout}"
        )
    per_host, width = (4, 2) if layout == "4h2" else (2, 8)
    numbers = np.array(vector, np.float32)
    hosts = numbers[:-width].reshape(-1, per_host)
    made = np.concatenate([hosts, np.broadcast_to(numbers[-width:], (len(hosts), width))], axis=1)
    assert made.shape[1] == len(OBSERVERS[observer])
    return np.ascontiguousarray(made)


def _soft(x: Any, scale: float) -> Any:
    """Return x/(x + scale), 0 for what is below 0."""
    positive = np.maximum(x, 0.0)
    return positive / (positive + scale)


def _limits(total: Floats) -> tuple[float, float, float]:
    """Return the largest host: cores, memory (of those that state it) and GPUs; at least 1 each."""
    memory = total[:, _MEMORY][np.isfinite(total[:, _MEMORY])]
    return (
        max(float(total[:, _CORES].max()), 1.0),
        max(float(memory.max(initial=1.0)), 1.0),
        max(float(total[:, _GPUS].max()), 1.0),
    )


def _estimate(asked: Any, constants: Mapping[str, float]) -> float:
    """Return the job's estimate; a typical one where it is not known."""
    estimate = float(asked.jobs.estimate[asked.place])
    return constants["run_s"] if np.isnan(estimate) else estimate


def _pressure(asked: Any) -> tuple[float, float]:
    """Return what the cycle's jobs ask for: shares of all cores and of all memory."""
    total, need = asked.hosts.total, asked.jobs.need
    memory = total[:, _MEMORY][np.isfinite(total[:, _MEMORY])]
    cores = float(need[:, _CORES].sum()) / max(float(total[:, _CORES].sum()), 1.0)
    return cores, float(need[:, _MEMORY].sum()) / max(float(memory.sum()), 1.0)


def _of_job(asked: Any, constants: Mapping[str, float]) -> dict[str, float]:
    """Return what is the same for every host."""
    table, jobs, place = asked.hosts, asked.jobs, asked.place
    need, hosts, short = jobs.need[place], len(table), constants["run_s"]
    most_cores, most_memory, most_gpus = _limits(table.total)
    core_pressure, memory_pressure = _pressure(asked)
    wait = float(jobs.wait[place])
    wait = 0.0 if np.isnan(wait) else wait
    estimate = _estimate(asked, constants)
    return {
        "job-cores": need[_CORES] / most_cores,
        "job-memory": need[_MEMORY] / most_memory,
        "job-gpus": need[_GPUS] / most_gpus,
        "job-run": float(_soft(estimate, short)),
        "job-wait": float(_soft(wait, short)),
        "queue": float(_soft((len(jobs) - place + asked.deferred) / hosts, 1.0)),
        "core-pressure": float(_soft(core_pressure, 1.0)),
        "memory-pressure": float(_soft(memory_pressure, 1.0)),
        "cluster-free": float(table.free[:, _CORES].sum()) / max(float(table.total[:, _CORES].sum()), 1.0),
        "choices": len(asked.rows) / hosts,
        "lsf-cores": need[_CORES] / constants["job_cores"],
        "lsf-memory": need[_MEMORY] / constants["job_memory"],
        "lsf-run": estimate / constants["job_run"],
        "deferred": 1.0 if wait > 1.0 else 0.0,
        "batch-place": float(np.tanh(place / hosts)),
        "batch-size": float(np.tanh(len(jobs) / hosts)),
        "batch-cores": core_pressure,
        "batch-memory": memory_pressure,
    }


def _of_hosts(asked: Any, constants: Mapping[str, float]) -> dict[str, Floats]:
    """Return what is known of each host that has room, (rows,) each."""
    table, rows = asked.hosts, asked.rows
    need, short = asked.jobs.need[asked.place], constants["run_s"]
    free, total = table.free[rows], table.total[rows]
    size, room, gpus = (np.maximum(total[:, k], 1.0) for k in range(3))
    most_cores, most_memory, most_gpus = _limits(table.total)
    limited, has_gpus = np.isfinite(total[:, _MEMORY]), total[:, _GPUS] > 0
    memory, room = np.where(limited, free[:, _MEMORY], 0.0), np.where(limited, room, 1.0)
    left_cores = (free[:, _CORES] - need[_CORES]) / size
    left_memory = np.where(limited, (memory - need[_MEMORY]) / room, 1.0)
    count, first, last, work = table.about()[rows].T
    busy = count > 0
    ahead = np.where(busy, np.maximum(last - asked.now, 0.0), 0.0)
    used = (work - asked.now * (total[:, _CORES] - free[:, _CORES])) / size
    estimate = _estimate(asked, constants)
    core_pressure, memory_pressure = _pressure(asked)
    queue = (memory_pressure + 1e-3) / (core_pressure + 1e-3)
    fit = (np.maximum(left_memory, 0.0) + 1e-2) / (np.maximum(left_cores, 0.0) + 1e-2) / queue
    core_use = np.where(total[:, _CORES] > 0, 1 - free[:, _CORES] / size, 0.0)
    memory_use = np.where(limited, 1 - memory / room, 0.0)
    return {
        "free-cores": free[:, _CORES] / size,
        "free-memory": np.where(limited, memory / room, 1.0),
        "free-gpus": np.where(has_gpus, free[:, _GPUS] / gpus, 0.0),
        "cores-now": free[:, _CORES] / most_cores,
        "memory-now": np.where(limited, memory / most_memory, 1.0),
        "gpus-now": free[:, _GPUS] / most_gpus,
        "left-cores": left_cores,
        "left-memory": left_memory,
        "left-gpus": np.where(has_gpus, (free[:, _GPUS] - need[_GPUS]) / gpus, 0.0),
        "host-cores": np.minimum(total[:, _CORES] / most_cores, 1.0),
        "host-memory": np.where(limited, room / most_memory, 1.0),
        "jobs-there": _soft(count, 8.0),
        "next-end": np.where(busy, _soft(np.where(busy, first, 0.0) - asked.now, short), 0.0),
        "last-end": _soft(ahead, short),
        "work-there": np.where(busy, _soft(used, short), 0.0),
        "stranded": np.where(limited, left_cores - left_memory, 0.0),
        "like-queue": np.where(limited, np.tanh(np.log(fit)), 0.0),
        "outlasts": np.maximum(estimate - ahead, 0.0) / max(estimate, 1.0),
        "last-core-use": core_use,
        "last-memory-use": memory_use,
        "last-free-cores": total[:, _CORES] * (1 - core_use) / most_cores,
        "last-free-memory": np.where(limited, room, 0.0) * (1 - memory_use) / most_memory,
    }
