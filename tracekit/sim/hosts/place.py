"""Packing studies: jobs arrive in random order and none leaves, until the requests exceed the cluster by a factor.

The protocol of Weng et al., "Beware of Fragmentation", USENIX ATC 2023: jobs shuffled by the seed, then copies of
uniformly drawn jobs; hosts in random order, so that ties are; a job that fits nowhere is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UsageError
from tracekit.sim.compile import jit, log_first_compilation
from tracekit.sim.hosts.allocators import Compiled, allocator_name
from tracekit.sim.hosts.choose import choose, has_room
from tracekit.sim.hosts.demand import GPUS, MILLI, MILLI_GPU, PIECES, Demand
from tracekit.sim.hosts.model import HostModel
from tracekit.sim.hosts.operations import commit
from tracekit.sim.hosts.scores import fragmentation
from tracekit.sim.hosts.state import FREE, HOSTS, NOW, SEED, Ints, look

Floats = NDArray[np.float64]

#: Arrived requests, in per cent of the cluster's GPUs, at which the curve is read.
MARKS = (10, 50, 80, 90, 95, 100, 110, 120, 130)
#: More arrivals are taken for a typing error in --inflate.
MOST_ARRIVALS = 50_000_000


def arrivals(asked: Ints, capacity: int, inflate: float, rng: np.random.Generator) -> Ints:
    """Return the order of arrivals: all jobs shuffled, then drawn copies until ``inflate`` × capacity is requested."""
    order = rng.permutation(len(asked))
    missing, mean = inflate * capacity - float(asked.sum()), float(asked.mean())
    parts = [order]
    while missing > 0:
        drawn = rng.integers(0, len(asked), max(int(missing / mean * 1.1), 16))
        reached = np.cumsum(asked[drawn])
        last = int(np.searchsorted(reached, missing)) + 1
        parts.append(drawn[:last])
        missing -= float(reached[min(last, len(drawn)) - 1])
    return np.concatenate(parts).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Study:
    """Idle hosts in random order, and the jobs that arrive, for one seed."""

    model: HostModel
    hosts: Any  # the hosts' arrays
    order: Ints  # (arrivals,) jobs
    asked: Ints  # (jobs,) GPU-thousandths
    capacity: int  # GPU-thousandths


def prepare(demand: Demand, allocate: Any, seed: int, *, inflate: float = 1.3) -> Study:
    """Shuffle jobs and hosts by a seed; an error where the jobs or the cluster have no GPUs."""
    if not (inflate > 0 and np.isfinite(inflate)):
        raise UsageError(f"--inflate must be above 0, not {inflate:g}")
    model = HostModel(demand, allocate)
    capacity = int(model.fixed[:, 2].sum()) * MILLI_GPU
    need = demand.need
    asked = (need[:, GPUS] * MILLI_GPU + need[:, MILLI]) * need[:, PIECES]
    if capacity == 0 or not asked.sum():
        raise TracekitError("place counts GPUs: the cluster or the jobs have none")
    expected = max(inflate * capacity / float(asked.mean()), len(asked))
    if expected > MOST_ARRIVALS:
        raise UsageError(f"--inflate {inflate:g}: {expected:,.0f} jobs would arrive, the limit is {MOST_ARRIVALS:,}")
    rng = np.random.default_rng(seed)
    order = arrivals(asked, capacity, inflate, rng)
    shuffled = rng.permutation(len(model.names))
    model.fixed, model.total = model.fixed[shuffled], model.total[shuffled]
    model.names = [model.names[h] for h in shuffled]
    hosts = model.idle_hosts(demand, seed=int(rng.integers(0, 2**31)))
    return Study(model, hosts, order, asked, capacity)


def place(demand: Demand, allocate: Any, seed: int, *, inflate: float = 1.3) -> dict[str, Any]:
    """Place arriving jobs on idle hosts; return allocated and fragmented shares of the GPUs, and their curves."""
    study = prepare(demand, allocate, seed, inflate=inflate)
    hosts, order, capacity = study.hosts, study.order, study.capacity
    reached = np.cumsum(study.asked[order]) * 100.0 / capacity
    marks = np.searchsorted(reached, np.array(MARKS) - 1e-9)
    known = marks < len(order)
    stops = np.append(marks[known], len(order) - 1).astype(np.int64)
    allocated, stuck = np.zeros(len(stops)), np.zeros(len(stops))
    if isinstance(study.model.allocator, Compiled):
        log_first_compilation("place_all")
        lost = place_all(hosts.data, hosts.real, order, study.asked, demand.reason, stops, allocated, stuck)
    else:
        lost = _place_each(study, demand.reason, stops, allocated, stuck)
    curve: dict[str, Any] = {str(mark): None for mark in MARKS}
    shares = 100.0 * allocated / capacity, 100.0 * stuck / capacity
    for number, mark in enumerate(np.array(MARKS)[known].tolist()):
        curve[str(mark)] = {"allocated_pct": float(shares[0][number]), "fragmented_pct": float(shares[1][number])}
    return {
        "allocate": allocator_name(allocate),
        "seed": seed,
        "allocated_pct": float(shares[0][-1]),
        "fragmented_pct": float(shares[1][-1]),
        "lost": int(lost),
        "arrivals": len(order),
        "curve": curve,
    }


def _place_each(study: Study, reason: Ints, stops: Ints, allocated: Floats, stuck: Floats) -> int:
    """Place jobs in order by an allocator written in Python; as `place_all`."""
    hosts, lost, held, stop = study.hosts, 0, 0, 0
    for i, job in enumerate(study.order.tolist()):
        if reason[job] == 0 and _fits(hosts.data, hosts.real, job):
            study.model.place(hosts, None, job)
            _commit_now(hosts.data, hosts.real, job)
            held += int(study.asked[job])
        else:
            lost += 1
        while stop < len(stops) and stops[stop] == i:
            allocated[stop], stuck[stop] = held, _fragmented(hosts.data, hosts.real)
            stop += 1
    return lost


@jit
def _fits(m: Ints, f: Floats, job: int) -> bool:
    """Return whether a job fits now."""
    look(m, m[FREE], NOW, 0)
    return has_room(m, f, m, job)


@jit
def _commit_now(m: Ints, f: Floats, job: int) -> None:
    """Take what the placement that was just made says."""
    commit(m, f, job, False)


@jit
def _fragmented(m: Ints, f: Floats) -> float:
    """Return F of all hosts."""
    look(m, m[FREE], NOW, 0)
    found = 0.0
    for h in range(m[HOSTS]):
        found += fragmentation(m, f, m, h, 0, 0, 0)
    return found


@jit
def place_all(
    m: Ints, f: Floats, order: Ints, asked: Ints, reason: Ints, stops: Ints, allocated: Floats, stuck: Floats
) -> int:
    """Place jobs in order; write what is allocated, and F of all hosts, after each of the ``stops``. Returns losses."""
    lost, held, stop, seed = 0, 0, 0, m[SEED]
    look(m, m[FREE], NOW, 0)
    for i in range(len(order)):
        job = order[i]
        m[SEED] = seed + i * 1000003
        if reason[job] == 0 and choose(m, f, m, job):
            commit(m, f, job, False)
            held += asked[job]
        else:
            lost += 1
        while stop < len(stops) and stops[stop] == i:
            allocated[stop], stuck[stop] = held, _fragmented(m, f)
            stop += 1
    return lost
