"""The rows of a question that a scheduler outside asks: the features of `rows`, of hosts and jobs that are given.

`tests/service/test_host_agents.py` compares them with those of the environment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.sim.compile import jit
from tracekit.sim.tasks.base import Question
from tracekit.sim.tasks.pick_host.features import CODES, OBSERVERS

Floats = NDArray[np.float64]
_CORES, _MEMORY, _GPUS = range(3)
_LAST = CODES["last-core-use"]
#: What `_write` needs to know beside the hosts: the job's needs, the largest host, now, estimate, typical run, queue.
_GIVEN = ("cores", "memory", "gpus", "most cores", "most memory", "most gpus", "now", "estimate", "run_s", "queue")


def question_of(asked: Any, names: tuple[str, ...], constants: Mapping[str, float]) -> Question:
    """Return the rows of the hosts that have room for a job (`tracekit.service.host_choice.HostQuestion`)."""
    table, rows = asked.hosts, asked.rows
    job = _of_job(asked, constants)
    need = asked.jobs.need[asked.place]
    core_pressure, memory_pressure = _pressure(asked)
    given = np.zeros(len(_GIVEN) + len(CODES))
    given[: len(_GIVEN)] = (
        *need,
        *table.largest[:3],
        asked.now,
        _estimate(asked, constants),
        constants["run_s"],
        (memory_pressure + 1e-3) / (core_pressure + 1e-3),
    )
    for name, value in job.items():
        given[len(_GIVEN) + CODES[name]] = value
    made = np.empty((len(rows), len(names)), np.float32)
    codes = _codes(names)
    _write(made, codes, np.asarray(rows, np.int64), table.free, table.total, table.about(), given)
    return Question(made, _Names(table.names, rows), asked.now)


@cache
def _codes(names: tuple[str, ...]) -> NDArray[np.int64]:
    return np.array([CODES[name] for name in names])


class _Names(Sequence[str]):
    """The names of some hosts, looked up when they are needed."""

    def __init__(self, names: Sequence[str], rows: Any) -> None:
        self._names, self._rows = names, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        return self._names[int(self._rows[at])]


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


def _soft(x: float, scale: float) -> float:
    """Return x/(x + scale), 0 for what is below 0."""
    return max(x, 0.0) / (max(x, 0.0) + scale)


def _estimate(asked: Any, constants: Mapping[str, float]) -> float:
    """Return the job's estimate; a typical one where it is not known."""
    estimate = float(asked.jobs.estimate[asked.place])
    return constants["run_s"] if np.isnan(estimate) else estimate


def _pressure(asked: Any) -> tuple[float, float]:
    """Return what the cycle's jobs ask for: shares of all cores and of all memory."""
    cores, memory = asked.jobs.sums
    largest = asked.hosts.largest
    return cores / largest[3], memory / largest[4]


def _of_job(asked: Any, constants: Mapping[str, float]) -> dict[str, float]:
    """Return what is the same for every host."""
    table, jobs, place = asked.hosts, asked.jobs, asked.place
    need, hosts, short = jobs.need[place], len(table), constants["run_s"]
    most_cores, most_memory, most_gpus = table.largest[:3]
    core_pressure, memory_pressure = _pressure(asked)
    wait = float(jobs.wait[place])
    wait = 0.0 if np.isnan(wait) else wait
    estimate = _estimate(asked, constants)
    return {
        "job-cores": need[_CORES] / most_cores,
        "job-memory": need[_MEMORY] / most_memory,
        "job-gpus": need[_GPUS] / most_gpus,
        "job-run": _soft(estimate, short),
        "job-wait": _soft(wait, short),
        "queue": _soft((len(jobs) - place + asked.deferred) / hosts, 1.0),
        "core-pressure": _soft(core_pressure, 1.0),
        "memory-pressure": _soft(memory_pressure, 1.0),
        "cluster-free": float(table.free[:, _CORES].sum()) / table.largest[3],
        "choices": len(asked.rows) / hosts,
        "lsf-cores": need[_CORES] / constants["job_cores"],
        "lsf-memory": need[_MEMORY] / constants["job_memory"],
        "lsf-run": estimate / constants["job_run"],
        "deferred": 1.0 if wait > 1.0 else 0.0,
        "batch-place": math.tanh(place / hosts),
        "batch-size": math.tanh(len(jobs) / hosts),
        "batch-cores": core_pressure,
        "batch-memory": memory_pressure,
    }


@jit
def _write(out: Any, codes: Any, rows: Any, free: Floats, total: Floats, about: Floats, given: Floats) -> None:
    """Write the features of hosts, as `rows` does; ``given``: what is the same for all (`_GIVEN`), then scratch."""
    spare = given[len(_GIVEN) :]
    cores, memory, gpus = given[0], given[1], given[2]
    most_cores, most_memory, most_gpus = given[3], given[4], given[5]
    now, estimate, short, queue = given[6], given[7], given[8], given[9]
    for r in range(len(rows)):
        h = rows[r]
        size, room, has = max(total[h, 0], 1.0), max(total[h, 1], 1.0), total[h, 2]
        left, space, idle = free[h, 0], free[h, 1], free[h, 2]
        limited = total[h, 1] < np.inf
        count, first, last, work = about[h, 0], about[h, 1], about[h, 2], about[h, 3]
        spare[0], spare[1] = left / size, space / room if limited else 1.0
        spare[2] = idle / has if has > 0 else 0.0
        spare[3], spare[4] = left / most_cores, space / most_memory if limited else 1.0
        spare[5] = idle / most_gpus
        spare[6] = (left - cores) / size
        spare[7] = (space - memory) / room if limited else 1.0
        spare[8] = (idle - gpus) / has if has > 0 else 0.0
        spare[9] = min(total[h, 0] / most_cores, 1.0)
        spare[10] = total[h, 1] / most_memory if limited else 1.0
        spare[11] = count / (count + 8.0)
        spare[12] = spare[13] = spare[14] = ahead = 0.0
        if count > 0:
            ahead = max(last - now, 0.0)
            soon, used = max(first - now, 0.0), max((work - now * (total[h, 0] - left)) / size, 0.0)
            spare[12], spare[13], spare[14] = soon / (soon + short), ahead / (ahead + short), used / (used + short)
        spare[15] = spare[6] - spare[7] if limited else 0.0
        fit = (max(spare[7], 0.0) + 1e-2) / (max(spare[6], 0.0) + 1e-2) / queue
        spare[16] = math.tanh(math.log(fit)) if limited else 0.0
        spare[17] = max(estimate - ahead, 0.0) / max(estimate, 1.0)
        core_use = 1.0 - left / size if total[h, 0] > 0 else 0.0
        memory_use = 1.0 - space / room if limited else 0.0
        spare[_LAST], spare[_LAST + 1] = core_use, memory_use
        spare[_LAST + 2] = total[h, 0] * (1.0 - core_use) / most_cores
        spare[_LAST + 3] = total[h, 1] * (1.0 - memory_use) / most_memory if limited else 0.0
        for f in range(len(codes)):
            out[r, f] = spare[codes[f]]
