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
from tracekit.sim.compile import jit, jit_internal, log_first_compilation
from tracekit.sim.hosts.allocators import Compiled, allocator_name
from tracekit.sim.hosts.choose import candidate, choose, has_room, note_pick
from tracekit.sim.hosts.demand import CORES, GPUS, MILLI, MILLI_GPU, PIECES, TYPES, Demand
from tracekit.sim.hosts.model import HostModel
from tracekit.sim.hosts.operations import commit
from tracekit.sim.hosts.scores import FGD, devices, fragmentation, score
from tracekit.sim.hosts.state import FREE, HOSTS, NOW, PICK, PICKS, SEED, Ints, look

Floats = NDArray[np.float64]

#: Arrived requests, in per cent of the cluster's GPUs, at which the curve is read.
MARKS = (10, 50, 80, 90, 95, 100, 110, 120, 130)
#: More arrivals are taken for a typing error in --inflate.
MOST_ARRIVALS = 50_000_000
#: Scores that are kept for fgd, different requests × hosts; with more they are worked out for every job.
MOST_KEPT = 20_000_000
_SHAPE = [CORES, PIECES, GPUS, MILLI, TYPES]


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
    order, capacity = study.order, study.capacity
    reached = np.cumsum(study.asked[order]) * 100.0 / capacity
    marks = np.searchsorted(reached, np.array(MARKS) - 1e-9)
    known = marks < len(order)
    stops = np.append(marks[known], len(order) - 1).astype(np.int64)
    allocated, stuck = np.zeros(len(stops)), np.zeros(len(stops))
    lost = run(study, order, stops, allocated, stuck)
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


def run(study: Study, order: Ints, stops: Ints, allocated: Floats, stuck: Floats) -> int:
    """Place jobs in order; write what is allocated, and F of all hosts, after each of the ``stops``. Returns losses."""
    model, hosts, reason = study.model, study.hosts, study.model.demand.reason
    if not isinstance(model.allocator, Compiled):
        return _place_each(study, order, stops, allocated, stuck)
    log_first_compilation("place_all")
    shape, kept = np.full(len(reason), -1), np.zeros((0, 0))
    if model.code == FGD:  # what F gains depends on the request and the host only, and few hosts change
        kinds, shape = np.unique(model.demand.need[:, _SHAPE], axis=0, return_inverse=True)
        if len(kinds) * len(model.names) <= MOST_KEPT:
            kept = np.full((len(kinds), len(model.names)), np.nan)
        shape = np.where((model.demand.need[:, PIECES] == 1) & (len(kept) > 0), shape.ravel(), -1)
    jobs = np.stack((study.asked, reason, shape), axis=1).astype(np.int64)
    found = np.zeros((2, len(stops)))
    lost = int(place_all(hosts.data, hosts.real, order, jobs, kept, stops, found))
    allocated[:], stuck[:] = found
    return lost


def _place_each(study: Study, order: Ints, stops: Ints, allocated: Floats, stuck: Floats) -> int:
    """Place jobs in order by an allocator written in Python; as `run`."""
    hosts, lost, held, stop, reason = study.hosts, 0, 0, 0, study.model.demand.reason
    for i, job in enumerate(order.tolist()):
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


@jit_internal
def _choose_kept(m: Ints, f: Floats, job: int, known: Floats) -> bool:
    """Choose the host of a single task as `choose` does; ``known`` holds the scores of hosts since they changed."""
    best, most = -1, -np.inf
    h = candidate(m, f, m, job, 0, -1, True)
    while h >= 0:
        if np.isnan(known[h]):
            known[h] = score(m, f, m, job, h)
        if known[h] > most:
            best, most = h, known[h]
        h = candidate(m, f, m, job, h + 1, -1, True)
    m[PICKS] = 0
    if best >= 0:
        note_pick(m, f, best, 1, devices(m, f, m, job, best))
    return best >= 0


@jit
def place_all(m: Ints, f: Floats, order: Ints, jobs: Ints, kept: Floats, stops: Ints, found: Floats) -> int:
    """Place jobs in order; as `run`. ``jobs`` has GPU-thousandths, reason, and shape (−1: scores are not kept)."""
    lost, held, stop, seed = 0, 0, 0, m[SEED]
    look(m, m[FREE], NOW, 0)
    for i in range(len(order)):
        job = order[i]
        m[SEED] = seed + i * 1000003
        placed = False
        if jobs[job, 1] == 0:
            placed = choose(m, f, m, job) if jobs[job, 2] < 0 else _choose_kept(m, f, job, kept[jobs[job, 2]])
        if placed:
            commit(m, f, job, False)
            held += jobs[job, 0]
            for k in range(m[PICKS] if len(kept) else 0):
                for h in range(m[m[PICK] + 4 * k], m[m[PICK] + 4 * k + 1] + 1):
                    kept[:, h] = np.nan
        else:
            lost += 1
        while stop < len(stops) and stops[stop] == i:
            found[0, stop], found[1, stop] = held, _fragmented(m, f)
            stop += 1
    return lost
