"""What an order of waiting jobs costs on a cluster of hosts: the engine plays it, job by job and place by place.

The hosts are those of the simulator (`tracekit.sim.hosts`), and so are the passes (`tracekit.sim.engine.ranked`): the
order is given to them as a static priority, with all jobs submitted at time 0. Every evaluation begins from a copy of
the hosts as they are now.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError, UsageError
from tracekit.sim.compile import jit, jit_internal
from tracekit.sim.engine.capacity import fits, take
from tracekit.sim.engine.profile import empty_profile
from tracekit.sim.engine.rank_tree import EMPTY, empty_tree
from tracekit.sim.engine.ranked import Ranks, run_ranked
from tracekit.sim.engine.running import add, no_jobs_running
from tracekit.sim.engine.session import rules_for
from tracekit.sim.engine.state import Jobs, Simulation, empty_queue, initial_state
from tracekit.sim.hosts.demand import CORES, GPUS, MEMORY, MILLI, MILLI_GPU, PIECES, UNLIMITED, Demand
from tracekit.sim.hosts.model import HostModel
from tracekit.sim.hosts.part import part_of, parts_in
from tracekit.sim.hosts.placements import Placements
from tracekit.sim.hosts.state import (
    CELLS,
    CURSOR,
    FILLED,
    FREE,
    FREE_CORES,
    FREE_GPUS,
    HELD,
    HOSTS,
    LOG,
    NEED,
    SPAN,
    TAIL,
    TOTAL,
    TREE,
    TYPICAL,
    WIDTH,
    AskedHosts,
    Hosts,
)
from tracekit.sim.jobs import NO_JOB, Prepared, Table
from tracekit.sim.orders.cases import some_jobs
from tracekit.sim.orders.evaluate import Case, clear, evaluator, job_cost, room_for, whole_cost
from tracekit.sim.policies.protocol import State
from tracekit.sim.switches import Switches

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class HostCase(NamedTuple):
    """A queue on hosts as a search sees it; waiting jobs have the numbers 0 … on the hosts, running ones those after.

    What a start costs, and when running jobs end, is the same as where processors are counted.
    """

    counted: Case  # the same queue by numbers of processors
    hosts: Hosts  # as they are now

    @property
    def backfill(self) -> bool:
        """Whether gaps are filled."""
        return self.counted.backfill

    @property
    def shares(self) -> list[Floats]:
        """What each waiting job holds of all hosts' cores, memory and GPUs, (jobs,) for each that is limited."""
        data, jobs = self.hosts.data, len(self.counted.size)
        need = data[data[NEED] :][: 8 * jobs].reshape(-1, 8)
        total = data[data[TOTAL] :][: data[WIDTH]].reshape(data[HOSTS], data[CELLS])
        gpus = (need[:, GPUS] * MILLI_GPU + need[:, MILLI]) * need[:, PIECES]
        asked = (need[:, CORES], need[:, MEMORY], gpus)
        there = (total[:, 0], total[:, 1], total[:, 2:])
        found = [a / t.sum() for a, t in zip(asked, there, strict=True) if t.any() and t.max() < UNLIMITED]
        return found or [np.zeros(jobs)]


class HostRoom(NamedTuple):
    """Scratch space: a simulation that every order is played in."""

    sim: Simulation
    ranks: Ranks
    start: Floats  # (jobs,) starts of the waiting jobs
    users: Floats  # (users,)


@room_for.register
def _(case: HostCase) -> HostRoom:
    counted = case.counted
    waiting, running = len(counted.size), len(counted.ends)
    run, estimate = (np.concatenate(parts) for parts in _times(counted))
    start, size = np.zeros(waiting + running), np.concatenate([counted.size, counted.held])
    capacity = Hosts(case.hosts.data.copy(), case.hosts.real.copy())
    sim = Simulation(
        rules_for(Switches().resolved(), "easy" if counted.backfill else "none"),
        initial_state(),
        Jobs(np.zeros(waiting), run, estimate, estimate, size, start),
        capacity,
        capacity,
        no_jobs_running(waiting + running),
        empty_queue(0),
        empty_profile(1),
    )
    tree = empty_tree(np.arange(waiting), waiting)
    users = np.zeros(int(counted.user.max(initial=0)) + 1)
    return HostRoom(sim, Ranks(tree, tree, False), start[:waiting], users)


def _times(counted: Case) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Return how long jobs run and are believed to, from a start at time 0: waiting and running ones."""
    return (counted.run, counted.ends), (counted.estimate, counted.expected)


@some_jobs.register
def _(case: HostCase, rows: Ints) -> HostCase:
    running = len(case.counted.size) + np.arange(len(case.counted.ends))
    return HostCase(some_jobs(case.counted, rows), part_of(case.hosts, rows, running))


@jit_internal
def copy_words(of: Any, other: Any, begin: int, end: int) -> None:
    """Copy a part of one array into another."""
    for k in range(begin, end):
        of[k] = other[k]


@jit_internal
def rewind(case: HostCase, room: HostRoom) -> None:
    """Make the simulation that of now: hosts, running jobs, nobody has arrived."""
    state, running, counted = room.sim.state[0], room.sim.running, case.counted
    now, then = case.hosts.data, room.sim.capacity.data
    # Placements of running jobs are in front of all others in the log, and reservations have stamps: both may stay.
    for place in (FREE_CORES, FREE_GPUS, CURSOR, TAIL):
        then[place] = now[place]
    copy_words(then, now, now[FREE], now[FREE] + now[WIDTH])
    copy_words(then, now, now[TREE], now[NEED])
    copy_words(then, now, now[HELD], now[TYPICAL])
    copy_words(room.sim.capacity.real, case.hosts.real, 0, len(case.hosts.real))
    state.now, state.arrived, state.first_rank = -np.inf, 0, 0
    state.blocked, state.reserved = NO_JOB, False
    waiting = len(counted.size)
    for job in range(waiting):
        room.start[job] = np.nan
    running.tally[0].running = running.tally[0].started = 0
    for k in range(len(counted.ends) - 1, -1, -1):  # as the estimated ends are kept: the next one last
        add(running, waiting + k, counted.ends[k], counted.expected[k])


@jit_internal
def enter_order(room: HostRoom, order: Ints) -> None:
    """Make an order that of the waiting jobs' ranks."""
    tree = room.ranks.policy
    for k in range(len(order)):
        tree.job[k] = order[k]
        tree.rank[order[k]] = k
    for k in range(len(tree.size)):  # jobs that could not start have stayed
        tree.size[k], tree.estimate[k] = EMPTY, np.inf


@jit_internal
def summed(case: HostCase, room: HostRoom) -> float:
    """Return the cost of the schedule that has been played."""
    counted, cost, last = case.counted, 0.0, 0.0
    clear(room.users)
    for job in range(len(counted.size)):
        if room.start[job] >= 0.0:
            last = max(last, room.start[job] + counted.run[job])
    for job in range(len(counted.size)):
        if np.isnan(room.start[job]):  # its hosts are out of service: after all others
            room.start[job] = last
        own = job_cost(counted, job, room.start[job])
        cost += own
        room.users[counted.user[job]] += own * counted.user_weight[job]
    return whole_cost(counted, room.users, cost, last)


def _begin(case: Any, room: Any) -> Any:
    pass


def _cost(case: Any, order: Any, room: Any, first: Any, limit: Any, keeping: Any) -> Any:
    rewind(case, room)
    enter_order(room, order)
    run_ranked(room.sim, room.ranks, ())
    return summed(case, room)


evaluator(HostCase, _begin, _cost)


def placed_case(counted: Case, queue: NDArray[np.intp], running: Ints, state: State) -> Case | HostCase:
    """Return the case of a simulation's queue on its hosts; without hosts the case as it is.

    ``running`` are the jobs that run, in the order of the case. Jobs that may still come do not count on hosts.
    """
    if not isinstance(state.capacity, Hosts | AskedHosts):
        return counted
    return HostCase(counted, part_of(state.capacity, queue, running))


# ---- the hosts of a queue --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class QueueHosts:
    """The hosts of a cluster at one moment, for the waiting jobs of a queue and those that run."""

    ready: Prepared  # the waiting jobs
    switches: Switches  # the allocator, its seed
    model: HostModel
    hosts: Hosts  # waiting jobs have the numbers 0 …, running ones those after

    def beside(self, running: Table, begun: Floats) -> QueueHosts:
        """Return the hosts while jobs run that began at these times, (running,)."""
        return hosts_now(self.ready, self.switches, running, begun)

    def take(self, rows: Ints) -> QueueHosts:
        """Return the hosts for some of the waiting jobs, and those that run."""
        running = np.arange(len(self.ready.units), len(parts_in(self.hosts.data)[FILLED]))
        return dataclasses.replace(self, ready=self.ready.take(rows), hosts=part_of(self.hosts, rows, running))

    def case(self, counted: Case, running: Ints) -> HostCase:
        """Return the queue for compiled code; ``running`` are the running jobs in the order of the case."""
        waiting = len(counted.size)
        return HostCase(counted, part_of(self.hosts, np.arange(waiting), waiting + running))

    def placements(self, hosts: Hosts) -> Placements:
        """Return where each job runs on hosts that were made by `case`."""
        model, parts = self.model, parts_in(hosts.data)
        need, span, log = (parts[part].reshape(-1, width) for part, width in ((NEED, 8), (SPAN, 2), (LOG, 4)))
        return Placements(model.names, model.demand, model.fixed, model.total, need, span, log, parts[FILLED])


def hosts_now(
    ready: Prepared, switches: Switches, running: Table | None = None, begun: Floats | None = None
) -> QueueHosts:
    """Return the hosts for waiting jobs; the allocator places those that run in the order in which they began."""
    demand, units = ready.table.demand, ready.units
    assert demand is not None
    if running is not None and running.demand is not None:
        demand = joined(demand, running.demand)
        units = np.concatenate([units, np.ceil(np.round(running.procs * ready.scale, 6)).astype(np.int64)])
    model = HostModel(demand, switches.allocate, seed=switches.seed)
    if model.asks:
        raise UsageError(
            f"allocator {model.allocator.name} is asked in Python for each job, which is too slow for a search of "
            "orders; use a compiled one, such as first-fit or best-fit"
        )
    batch = model.allocate(1, len(demand.need))
    table = dataclasses.replace(ready.table, demand=demand)
    model.load(batch, 0, dataclasses.replace(ready, table=table, units=units))
    hosts = Hosts(*(array[0] for array in batch))
    if begun is not None:
        numbers = len(ready.units) + np.argsort(begun, kind="stable")
        placed = settle(hosts, numbers)
        if placed < len(numbers):
            raise TracekitError(
                f"{len(numbers):,} jobs ran at that moment by the record of the trace, and {model.allocator.name} has "
                f"room for the first {placed:,} only; try another --allocate or --cluster, or leave out --busy"
            )
    return QueueHosts(ready, switches, model, hosts)


def joined(demand: Demand, other: Demand) -> Demand:
    """Return the demands of two sets of jobs of one trace."""
    names = ("need", "reason", "least_size")
    both = {name: np.concatenate([getattr(demand, name), getattr(other, name)]) for name in names}
    return dataclasses.replace(demand, **both)  # type: ignore[arg-type]


@jit
def settle(hosts: Hosts, jobs: Ints) -> int:
    """Let the allocator place jobs in this order; return how many it placed before one did not fit."""
    for k in range(len(jobs)):
        if not fits(hosts, jobs[k]):
            return k
        take(hosts, jobs[k])
    return len(jobs)
