"""Proposes a cluster of hosts for a trace: from the groups of its machine, or from what its jobs ask for."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import completed, describe_groups
from tracekit.errors import TracekitError
from tracekit.machine import MOST_HOSTS, HostGroup, Machine, groups_from
from tracekit.nodelists import Seen, hosts_seen
from tracekit.stats import steps
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

#: The most GPUs and cores of a host that are assumed where the trace does not state on how many hosts a job ran.
ASSUMED_GPUS, ASSUMED_CORES = 8, 64
#: Not allowed in names: schedules and files use these marks.
_MARKS = ":/+,|\n"


@dataclass(frozen=True, eq=False)
class Requests:
    """What jobs ask for, (jobs,) each: totals, and the number of hosts or tasks that they are divided among."""

    cores: Floats
    gpus: Floats
    memory: Floats  # KB
    pieces: Floats  # NaN = not stated
    start: Floats
    end: Floats

    def per_host(self, rows: Flags) -> tuple[int, int, float]:
        """Return the largest request per host in cores, GPUs and memory (KB), 0 where there is none."""
        if not rows.any():
            return 0, 0, 0.0
        stated = np.isfinite(self.pieces[rows])
        gpus, cores = self.gpus[rows], self.cores[rows]
        by_gpus, by_cores = np.ceil(gpus / ASSUMED_GPUS), np.ceil(cores / ASSUMED_CORES)
        parts = np.where(stated, self.pieces[rows], np.maximum(np.where(gpus > 0, by_gpus, by_cores), 1))
        largest = [float((values / parts).max()) for values in (cores, gpus, self.memory[rows])]
        return _power_of_two(largest[0]), _power_of_two(largest[1]), float(_power_of_two(largest[2]))

    def peak(self, rows: Flags, amount: Floats) -> float:
        """Return the most that was held at once, at least the largest job."""
        known = rows & np.isfinite(self.start) & np.isfinite(self.end) & (self.end > self.start) & (amount > 0)
        largest = float(amount[rows].max(initial=0.0))
        if not known.any():
            return largest
        _, held = steps(self.start[known], self.end[known], amount[known])
        return max(largest, float(held.max(initial=0.0)))


def propose(trace: Trace) -> Machine:
    """Return a cluster that fits what a trace states; its notes list the guesses."""
    if trace.machine.groups:
        note = "groups of hosts as stated by the trace"
        machine = Machine(name=_clean(trace.machine.name or "cluster"), groups=trace.machine.groups, notes=(note,))
        return completed(machine, "the trace")
    asked = requests_of(trace)
    if not ((asked.cores > 0) | (asked.gpus > 0)).any():
        raise TracekitError("no job of the trace states processors or GPUs, so no cluster can be proposed")
    notes = ["a proposal from what the jobs ask for: check it before use"]
    rows = _from_nodelists(trace, asked, notes) or _from_requests(trace, asked, notes)
    hosts = sum(int(str(row["count"])) for row in rows)
    if hosts > MOST_HOSTS:
        raise TracekitError(f"the jobs would need {hosts:,} hosts, more than the limit of {MOST_HOSTS:,}")
    groups = groups_from(rows, origin="the proposal")
    made = Machine(name=_clean(trace.machine.name or "proposed"), groups=groups, notes=tuple(notes))
    return completed(made, "the proposal")


def _from_nodelists(trace: Trace, asked: Requests, notes: list[str]) -> list[dict[str, object]]:
    """Return groups of the hosts that the trace names, by pool and by whether they have GPUs; empty if it names none.

    Hosts of a group get the most that was held at once on one of them, or that a job of the pool asks for of one host.
    """
    pools, types = _pools_of(trace, notes), _labels(trace, "gpu_type")
    types = np.where(asked.gpus > 0, [label.split("|")[0] for label in types], "")
    ran = trace.column("run_time") > 0
    times = np.where(ran, asked.start, np.nan), np.where(ran, asked.end, np.nan)
    seen = hosts_seen(trace, (asked.cores, asked.gpus, asked.memory), pools, types, times)
    if seen is None:
        return []
    if seen.shared:
        notes.append(f"{seen.shared:,} hosts ran jobs of several partitions; each is in the one that used it most")
    notes.append("hosts are those that the lists of nodes name, with the most that was held at once on one of them")
    rows: list[dict[str, object]] = []
    for pool in sorted(np.unique(seen.pool)):
        for has_gpus in (True, False):
            hosts = (seen.pool == pool) & ((seen.gpus > 0) == has_gpus)
            if hosts.any():
                rows.append(
                    _named_group(seen, hosts, asked, (pools == pool) & ((asked.gpus > 0) == has_gpus), len(rows))
                )
    return rows


def _named_group(seen: Seen, hosts: Flags, asked: Requests, jobs: Flags, number: int) -> dict[str, object]:
    """Return a group of hosts that the trace names."""
    pieces = np.maximum(np.nan_to_num(asked.pieces, nan=1.0), 1)
    pairs = ((seen.cores, asked.cores), (seen.gpus, asked.gpus), (seen.memory, asked.memory))
    cores, gpus, memory = (
        max(float(held[hosts].max()), float((amount / pieces)[jobs].max(initial=0.0))) for held, amount in pairs
    )
    kinds, counts = np.unique(seen.kind[hosts].astype(str), return_counts=True)
    kind, pool = str(kinds[np.argmax(counts * (kinds != ""))]) if gpus else "", str(seen.pool[hosts][0])
    stated = {"cores": math.ceil(cores), "gpus": math.ceil(gpus), "memory": float(math.ceil(memory))}
    row: dict[str, object] = {key: value for key, value in stated.items() if value}
    row |= {key: value for key, value in (("pool", pool), ("gpu_type", kind)) if value}
    return row | {"count": int(hosts.sum()), "name": _name(pool, kind, math.ceil(gpus), number)}


def _from_requests(trace: Trace, asked: Requests, notes: list[str]) -> list[dict[str, object]]:
    """Return groups that hold what the jobs ask for."""
    rows: list[dict[str, object]] = []
    for (pool, kind), jobs in _kinds(trace, asked, notes):
        cores, gpus, memory = asked.per_host(jobs)
        stated = {"cores": cores, "gpus": gpus, "memory": memory, "pool": pool, "gpu_type": kind}
        row: dict[str, object] = {key: value for key, value in stated.items() if value}
        need = [asked.peak(jobs, amount) / size for amount, size in ((asked.cores, cores), (asked.gpus, gpus)) if size]
        rows.append(row | {"count": max(math.ceil(max(need)), 1), "name": _name(pool, kind, gpus, len(rows))})
    _fit_machine(rows, trace.machine, notes)
    if not np.isfinite(asked.pieces).any():
        notes.append(
            f"the trace states neither nodes nor tasks of jobs; hosts have at most {ASSUMED_CORES} cores "
            f"and {ASSUMED_GPUS} GPUs"
        )
    return rows


def requests_of(trace: Trace) -> Requests:
    """Return what the jobs of a trace ask for, with tasks, else nodes, as the number of hosts."""
    nodes, tasks = trace.sizes("nodes", "requested"), trace.column("tasks")
    cores, gpus = (np.nan_to_num(trace.sizes(unit, "requested"), nan=0.0) for unit in ("procs", "gpus"))
    cores = np.where((cores <= 0) & (gpus <= 0) & (nodes > 0), nodes, np.maximum(cores, 0))  # whole hosts
    pieces = np.where(tasks >= 1, tasks, np.where(nodes >= 1, nodes, np.nan))
    start = trace.column("submit_time") + np.maximum(np.nan_to_num(trace.column("wait_time"), nan=0.0), 0)
    memory = np.maximum(np.nan_to_num(trace.column("req_mem"), nan=0.0), 0) * cores
    return Requests(cores, np.maximum(gpus, 0), memory, pieces, start, start + trace.column("run_time"))


def _kinds(trace: Trace, asked: Requests, notes: list[str]) -> Iterator[tuple[tuple[str, str], Flags]]:
    """Yield pool and GPU type ("" = none) of each group, and its jobs; jobs without GPUs use a pool's GPU hosts."""
    pools = _pools_of(trace, notes)
    types = np.array([label.split("|")[0] for label in _labels(trace, "gpu_type")], dtype=object)
    types = np.where(asked.gpus > 0, types, "")
    for pool in sorted(np.unique(pools)):
        ours = (pools == pool) & ((asked.cores > 0) | (asked.gpus > 0))
        wants = ours & (asked.gpus > 0)
        kinds = sorted(np.unique(types[wants]), key=lambda kind: (-int((types[wants] == kind).sum()), kind))
        if len(kinds) > 1 and kinds[0] == "":
            kinds = kinds[1:] + kinds[:1]
        for number, kind in enumerate(kinds):
            yield (pool, kind), (wants & (types == kind)) | (ours & ~wants if number == 0 else np.zeros_like(ours))
        if not kinds and ours.any():
            yield (pool, ""), ours


def _pools_of(trace: Trace, notes: list[str]) -> NDArray[np.object_]:
    """Return the pool of each job, else its partition, "" where there is none or its name holds marks."""
    pools = _labels(trace, "pool") if trace.has("pool") else _labels(trace, "partition")
    odd = [label for label in np.unique(pools) if any(mark in label for mark in _MARKS)]
    if odd:
        note = f"not made a pool, for the marks in its name: {', '.join(map(repr, odd[:5]))}"
        notes += [note] * (note not in notes)
        pools = np.where(np.isin(pools, odd), "", pools)
    return pools


def _fit_machine(rows: list[dict[str, object]], machine: Machine, notes: list[str]) -> None:
    """Change the numbers of hosts, in proportion, to those that the machine states."""
    counts = np.array([float(str(row["count"])) for row in rows])
    gpus, cores = (np.array([float(str(row.get(key, 0))) for row in rows]) for key in ("gpus", "cores"))
    if machine.nodes:
        factor, why = machine.nodes / counts.sum(), f"{machine.nodes:,} nodes"
    elif machine.gpus and gpus.any():
        factor, why = machine.gpus / (counts * gpus).sum(), f"{machine.gpus:,} GPUs"
    elif machine.procs and cores.any():
        factor, why = machine.procs / (counts * cores).sum(), f"{machine.procs:,} processors"
    else:
        notes.append("numbers of hosts are the most that ran at once, or that the largest job needs")
        return
    for row, count in zip(rows, counts, strict=True):
        row["count"] = max(round(count * factor), 1)
    if machine.nodes and machine.procs and len(rows) == 1 and machine.procs >= machine.nodes:
        rows[0]["cores"] = machine.procs // machine.nodes
    notes.append(f"numbers of hosts are those of the machine, {why}, shared in proportion to the most that ran at once")


def _labels(trace: Trace, column: str) -> NDArray[np.object_]:
    """Return the labels of a column as text, "" where there is none."""
    if not trace.has(column):
        return np.full(len(trace), "", dtype=object)
    return trace.jobs[column].astype(object).where(trace.jobs[column].notna(), "").astype(str).to_numpy(dtype=object)


def _power_of_two(value: float) -> int:
    return 0 if value <= 0 else 1 << max(math.ceil(math.log2(value) - 1e-12), 0)


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() and c not in _MARKS else "-" for c in text)


def _name(pool: str, kind: str, gpus: int, number: int) -> str:
    words = [word for word in (pool, kind or ("gpu" if gpus else "")) if word]
    return _clean(f"{'-'.join(words) or 'host'}-g{number}")


def cluster_toml(machine: Machine) -> str:
    """Return a cluster as TOML that `--cluster` reads."""
    lines = [f"name = {json.dumps(machine.name, ensure_ascii=False)}"]
    if machine.notes:
        lines.append(f"notes = {json.dumps(list(machine.notes), ensure_ascii=False)}")
    for group in machine.groups:
        lines += ["", "[[groups]]", *_group_lines(group)]
    return "\n".join(lines) + "\n"


def _group_lines(group: HostGroup) -> list[str]:
    facts = describe_groups((group,))[0]
    first = [key for key in ("name", "count", "pool", "cores", "memory", "gpus", "gpu_type") if key in facts]
    return [
        f"{key} = {json.dumps(_whole(facts[key]), ensure_ascii=False)}"
        for key in [*first, *(key for key in facts if key not in first)]
    ]


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
