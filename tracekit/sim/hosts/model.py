"""Makes machines of hosts for simulations, and tells afterwards where each job ran."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.clusters import gpu_types, host_names, pool_names
from tracekit.errors import TracekitError, UnknownName, UsageError
from tracekit.sim.hosts import capacity as _capacity  # noqa: F401  # registers what the engine calls
from tracekit.sim.hosts import rltune
from tracekit.sim.hosts import state as of
from tracekit.sim.hosts.allocators import Allocator, Compiled, Snapshot, find_allocator
from tracekit.sim.hosts.asked import hosts_and_parts, place_from_python, slots_from_python
from tracekit.sim.hosts.demand import CORES, GPUS, MEMORY, MILLI, MILLI_GPU, PIECES, SPREAD, UNLIMITED, Demand
from tracekit.sim.hosts.facts import fact
from tracekit.sim.hosts.milp import Milp
from tracekit.sim.hosts.operations import do, when
from tracekit.sim.hosts.placements import Placements
from tracekit.sim.hosts.rltune_demand import ANY_POOL, pools_by
from tracekit.sim.hosts.scores import ASKED, FGD
from tracekit.sim.hosts.sleep import SleepTimes, granted, sleep_words, write
from tracekit.sim.hosts.state import (
    BESIDE,
    FREE,
    NOW,
    SLOTS,
    AskedHosts,
    Hosts,
    Ints,
    build_tree,
    moved,
    parts_of,
    tree_levels,
)
from tracekit.sim.hosts.tiers import TIERED_RULES, common_multiple, scratch_words
from tracekit.sim.hosts.typical import shapes_of, typical_tasks
from tracekit.sim.jobs import Prepared

#: Most placements of jobs on several hosts that are kept, for schedules to name them.
MOST_ENTRIES = 2**26
#: Outages of hosts have a bit each.
MOST_OUTAGES = 60


class HostModel:
    """The machine model of a cluster: `tracekit.simulate` takes it as ``machine``."""

    name = "hosts"

    def __init__(
        self,
        demand: Demand,
        allocate: str | Allocator | Compiled = "first-fit",
        *,
        seed: int = 0,
        outages: Sequence[Any] = (),
        tier1_only: bool = False,
        sleep: SleepTimes | None = None,
    ) -> None:
        self.cluster = cluster = demand.cluster
        self.demand, self.seed, self.tier1_only, self.sleep = demand, seed, tier1_only, sleep
        self.allocator = find_allocator(allocate)
        self.asks = not isinstance(self.allocator, Compiled)  # Python places the jobs
        self.kind: Any = AskedHosts if self.asks else Hosts
        self.names = host_names(cluster)
        self.rounded = self.fragments = False
        self.upcoming: Ints = np.zeros(0, np.int64)  # the next waiting jobs, in policy order
        self.ahead = 0  # how many of them come before the job to be placed
        self.filling = False  # whether the job to be placed fills a gap
        if isinstance(self.allocator, Milp):
            self.allocator.as_coded = demand.as_coded
            self.allocator.combined = demand.as_coded and pools_by(cluster) == ANY_POOL
            self.allocator.check(cluster.gpus or 0, bool((demand.need[:, [GPUS, MILLI]] > 0).any()))
        ordered = sorted(outages, key=lambda outage: outage[0])
        if len(ordered) > MOST_OUTAGES:
            raise UsageError(f"{len(ordered)} outages of hosts are more than the limit of {MOST_OUTAGES}")
        self._outages = [(begin, end, 2.0**k) for k, (begin, end, _) in enumerate(ordered)]
        self.down = np.array([self._named(names) for _, _, names in ordered], bool).reshape(-1, len(self.names))
        counts = [group.count for group in cluster.groups]
        types, pools = gpu_types(cluster), pool_names(cluster)
        rows = [
            (
                pools.index(g.pool or ""),
                types.index(g.gpu_type) if g.gpus and g.gpu_type else -1,
                g.gpus or 0,
            )
            for g in cluster.groups
        ]
        self.fixed = np.repeat(np.array(rows, np.int64), counts, axis=0)
        most = int(self.fixed[:, 2].max())
        idle = [
            [
                UNLIMITED if g.cores is None else g.cores * demand.scale,
                UNLIMITED if g.memory is None else int(g.memory),
                *[MILLI_GPU] * (g.gpus or 0),
                *[0] * (most - (g.gpus or 0)),
            ]
            for g in cluster.groups
        ]
        self.total = np.repeat(np.array(idle, np.int64), counts, axis=0)
        need = demand.need[demand.reason == 0]
        spread = need[:, SPREAD] > 0
        entries = np.where(spread, np.minimum(need[:, PIECES], len(self.names)), need[:, PIECES])
        self._most_pieces = int(entries.max(initial=1))
        self._entries, self._room = entries, dict[int, int]()
        self._idle: dict[int, list[Ints]] = {}  # parts of a lane with idle hosts, by its room for jobs
        self.typical, self.share = typical_tasks(demand)
        self._most_typical = len(shapes_of(demand)[0])  # of any window

    def _named(self, names: str) -> NDArray[np.bool_]:
        """Return which hosts names joined by + stand for: hosts, or all hosts of a group."""
        groups = np.repeat([group.name for group in self.cluster.groups], [g.count for g in self.cluster.groups])
        found, place = np.zeros(len(self.names), bool), {name: h for h, name in enumerate(self.names)}
        for name in names.split("+"):
            if name in place:
                found[place[name]] = True
            elif (groups == name).any():
                found |= groups == name
            else:
                raise UnknownName("host", name, [*self.names[:10000], *(g.name for g in self.cluster.groups)])
        return found

    def outage_bits(self, outages: Sequence[Any], /) -> list[tuple[float, float, float]]:
        """Return the outages that this model was made for, each with a bit of its own."""
        return self._outages

    # ---- what the engine asks for ------------------------------------------------------------------------------------

    def most_running(self, jobs: int, units: int) -> int:
        """Return how many of ``jobs`` jobs can run at once."""
        return jobs

    def _shapes(self, jobs: int) -> dict[int, tuple[int, ...]]:
        """Return the shape of every part of the hosts' array."""
        hosts, cells = self.total.shape
        if jobs not in self._room:
            self._room[jobs] = min(self._most_entries(jobs), MOST_ENTRIES)
        entries = self._room[jobs]
        return {
            of.FREE: (hosts * cells,),
            of.TOTAL: (hosts * cells,),
            of.FIXED: (hosts, 3),
            of.OVER: (2, hosts * cells),
            of.STAMP: (2, hosts),
            of.TREE: (tree_levels(hosts)[-1], 2),
            of.NEED: (jobs, 8),
            of.TYPESETS: self.demand.types.shape,
            of.SPAN: (jobs, 2),
            of.LOG: (entries, 4),
            of.PICK: (self._most_pieces + 1, 4),
            of.SLOTS: (2, hosts),
            of.COUNT: (len(pool_names(self.cluster)),),
            of.HELD: (hosts, cells - 1),
            of.TYPICAL: (self._most_typical if self._fragments else 0, 4),
            of.DOWNS: self.down.shape,
            of.WAYS: (scratch_words(hosts) if self._tiered or self.demand.as_coded else 0,),
            of.LABEL: (jobs,),
            of.FILLED: (jobs,),
        }

    def _most_entries(self, jobs: int) -> int:
        """Return how many placements ``jobs`` consecutive jobs make at most; of the whole trace half as many more."""
        before = np.concatenate([[0], np.cumsum(self._entries)])
        some = min(jobs, len(self._entries))
        most = int((before[some:] - before[: len(before) - some]).max(initial=0))
        return (most if some < len(self._entries) else most * 3 // 2) + 2 * self._most_pieces + jobs

    @property
    def code(self) -> int:
        """The allocator's code."""
        return self.allocator.code if isinstance(self.allocator, Compiled) else ASKED

    @property
    def _tiered(self) -> int:
        """How jobs that spread by GPUs follow RLTune's tiers: 0 not, 1 tier 1 only, 2 both tiers."""
        ruled = self.code in TIERED_RULES or bool(getattr(self.allocator, "tiered", False))
        return (1 if self.tier1_only else 2) if ruled and self.fixed[:, 2].any() else 0

    @property
    def _fragments(self) -> bool:
        return self.fragments or self.code == FGD

    def allocate(self, lanes: int, jobs: int) -> Any:
        """Return hosts for ``lanes`` machines with room for ``jobs``."""
        hosts, cells = self.total.shape
        shapes = self._shapes(jobs)
        head = np.zeros(of.HEAD, np.int64)
        words = of.HEAD
        for part, shape in shapes.items():
            head[part] = words
            words += int(np.prod(shape))
        levels, limited = tree_levels(hosts), self.total[:, 0] < UNLIMITED
        head[of.LEVELS], head[of.LEVELS + 1 : of.LEVELS + 1 + len(levels)] = len(levels) - 1, levels
        values = {
            of.HOSTS: hosts,
            of.CELLS: cells,
            of.WIDTH: hosts * cells,
            of.RULE: self.code,
            of.SEED: self.seed,
            of.POOLS: shapes[of.COUNT][0],
            of.KINDS: self.demand.types.shape[1],
            of.OUTAGES: len(self.down),
            of.ENTRIES: shapes[of.LOG][0],
            of.TASKS: shapes[of.TYPICAL][0],
            of.ROUNDED: int(self.rounded),
            of.TIERED: self._tiered,
            of.COMMON: common_multiple(self.fixed[:, 2]),
            of.DO: (rltune.do if self.demand.as_coded else do).address,
            of.WHEN: (rltune.when if self.demand.as_coded else when).address,
            of.FACT: fact.address,
            of.SLEEP: shapes[of.TYPICAL][0] + hosts if self.sleep else 0,
            of.MOST_CORES: max(int(self.total[limited, 0].max(initial=1)), 1),
            of.MOST_GPUS: int(self.fixed[:, 2].max()) * MILLI_GPU,
            of.TOTAL_CORES: int(self.total[:, 0].sum()),
            of.TOTAL_GPUS: int(self.fixed[:, 2].sum()) * MILLI_GPU,
        }
        for place, value in values.items():
            head[place] = value
        try:
            data = np.zeros((lanes, words), np.int64)
        except MemoryError:
            need = f"{lanes} machines of {hosts:,} hosts need {lanes * words * 8 / 2**30:,.0f} GB"
            raise TracekitError(f"{need}; use fewer windows at once (windows in --config) or shorter ones") from None
        data[:, : of.HEAD] = head
        real = np.full((lanes, shapes[of.TYPICAL][0] + hosts + (sleep_words(hosts, jobs) if self.sleep else 0)), np.nan)
        return self.kind(data, real)

    def idle_hosts(self, demand: Demand, seed: int) -> Any:
        """Return idle hosts of one lane for demands without a simulation, scored as openb does."""
        self.rounded, self.fragments = True, True
        batch = self.allocate(1, len(demand.need))
        one = type(batch)(*(array[0] for array in batch))
        self._fill(one, demand, len(demand.need), (self.typical, self.share))
        one.data[of.SEED] = seed
        return one

    def fill(self, capacity: Any, demand: Demand) -> None:
        """Write demands, and idle hosts, into the only lane."""
        self._fill(type(capacity)(*(array[0] for array in capacity)), demand, max(len(demand.need), 1), None)

    def twin(self, capacity: Any) -> Any:
        """Return the same hosts: a reservation is kept as differences to what is free now."""
        return capacity

    def load(self, capacity: Any, lane: int, ready: Prepared) -> None:
        """Write jobs, and idle hosts, into a lane."""
        demand = ready.table.demand
        if demand is None:
            raise UsageError("a machine of hosts needs jobs that were read for it: simulate(..., cluster=...)")
        one = type(capacity)(*(array[lane] for array in capacity))
        head, jobs = one.data, int((one.data[of.TYPESETS] - one.data[of.NEED]) // 8)
        if self._fragments or jobs not in self._idle:
            self._fill(one, demand, jobs, typical_tasks(demand) if self._fragments else None)
            self._idle[jobs] = [head[part].copy() for part in of.fixed_parts(head)]
        else:
            of.fill_again(one, demand.need, 0 if demand.label is None else demand.label, self._idle[jobs])
        head[of.UNIT], head[of.SCALE] = ready.table.resource == "gpus", ready.scale
        head[of.BOUND] = self._bound(ready)
        head[of.COUNTABLE] = self._alike and self._countable(demand)
        if self.sleep is not None:
            write(one.data, one.real, self.sleep, float(ready.table.submit[0]))

    def grown(self, before: Any, made: Any) -> Any:
        """Return hosts with room for more jobs, in the state of those before; for lanes in the middle of an episode."""
        jobs = (before.data[0, of.TYPESETS] - before.data[0, of.NEED]) // 8
        lengths = {part: int(np.prod(shape)) for part, shape in self._shapes(int(jobs)).items()}
        moved(before.data, made.data, lengths | {of.LOG: 4 * int(before.data[:, of.TAIL].max())})
        made.real[:] = before.real
        return made

    def _fill(self, one: Any, demand: Demand, jobs: int, typical: tuple[Ints, Any] | None) -> None:
        """Write demands and idle hosts into one lane's arrays."""
        head, parts = one.data, parts_of(one.data, self._shapes(jobs))
        parts.total[:] = self.total.ravel()
        parts.free[:] = parts.total
        parts.fixed[:], parts.typesets[:], parts.downs[:] = self.fixed, self.demand.types, self.down
        parts.need[: len(demand.need)] = demand.need
        parts.label[: len(demand.need)] = 0 if demand.label is None else demand.label
        parts.stamp[:] = -1
        head[of.TASKS] = 0 if typical is None else len(typical[0])
        if typical is not None:
            parts.typical[: len(typical[0])], one.real[: len(typical[1])] = typical
        one.real[int(head[of.TASKS]) :] = np.nan
        for place in (of.EPOCH, of.SCRATCH_EPOCH, of.CURSOR, of.TAIL, of.DOWN, of.FULL):
            head[place] = 0
        head[int(head[of.HELD]) : int(head[of.TYPICAL])] = 0
        head[of.FREE_CORES], head[of.FREE_GPUS] = head[of.TOTAL_CORES], head[of.TOTAL_GPUS]
        build_tree(head, parts)

    @cached_property
    def _alike(self) -> bool:
        """Whether hosts are alike, without GPUs, in one pool, and never away."""
        host = self.total[0]
        if self.kind is AskedHosts or self.fixed[:, 2].any() or (self.total != host).any() or host[0] >= UNLIMITED:
            return False
        return not ((self.fixed[:, 0] != self.fixed[0, 0]).any() or len(self.down))

    def _countable(self, demand: Demand) -> bool:
        """Return whether every job takes whole hosts, where these are alike."""
        need, host = demand.need, self.total[0]
        whole = (need[:, CORES] % host[0] == 0) & (
            (need[:, SPREAD] > 0) | (need[:, CORES] == need[:, PIECES] * host[0])
        )
        parts = np.maximum(need[:, CORES] // host[0], 1)
        return bool((whole & (need[:, MEMORY] <= parts * host[1])).all())

    def _bound(self, ready: Prepared) -> int:
        """Return how `largest_startable` may skip jobs by their size."""
        need, demand = ready.table.demand.need, self.demand  # type: ignore[union-attr]
        if not len(need) or demand.as_coded:
            return 0
        if ready.table.resource == "procs":
            held = need[:, CORES]
        elif ready.table.resource == "gpus":
            held = (need[:, GPUS] * MILLI_GPU + need[:, MILLI]) * need[:, PIECES] * demand.scale // MILLI_GPU
        else:
            return 0
        if np.any(ready.units > held):  # sizes of something else
            return 0
        return 1 if need[:, PIECES].max() == 1 else 2

    # ---- Python is asked ---------------------------------------------------------------------------------------------

    def place(self, capacity: Any, at_shadow: Any | None, job: int) -> None:
        """Ask an allocator written in Python, and write its choice down."""
        allocator, mode = self.allocator, NOW if at_shadow is None else BESIDE
        if isinstance(allocator, Compiled):
            return
        if self.demand.as_coded:
            capacity.data[capacity.data[of.FILLED] + job] = self.filling
        slots_from_python(capacity.data, capacity.real, mode, job)
        answer = allocator.choose(self.snapshot(capacity, job))
        try:
            chosen = hosts_and_parts(answer)
        except (TypeError, ValueError):
            raise TracekitError(f"allocator {allocator.name}: choose() returned {answer!r}, not host numbers") from None
        if len(chosen) and not ((chosen[:, 0] >= 0) & (chosen[:, 0] < len(self.names))).all():
            raise TracekitError(f"allocator {allocator.name}: there is no host {int(chosen[:, 0].max())}")
        placed = place_from_python(capacity.data, capacity.real, mode, job, chosen)
        pieces = capacity.data[capacity.data[of.NEED] + job * 8 + PIECES]
        if placed < pieces:
            raise TracekitError(
                f"allocator {allocator.name}: {placed} of {pieces} tasks of job number {job} have room on the hosts "
                "that choose() returned"
            )

    def snapshot(self, capacity: Any, job: int) -> Snapshot:
        """Return what an allocator written in Python sees, after the room for the job was worked out."""
        hosts, cells = self.total.shape
        data, scale = capacity.data, self.demand.scale
        free = data[data[FREE] : data[FREE] + hosts * cells].reshape(hosts, cells)
        asked = data[data[of.NEED] + job * 8 :][:8]
        there = np.arange(cells - 2) < self.fixed[:, 2:3]
        each = asked[GPUS] if asked[GPUS] else asked[MILLI] / MILLI_GPU
        return Snapshot(
            names=self.names,
            free_cores=free[:, 0] / scale,
            free_memory=free[:, 1].astype(np.float64),
            free_gpus=np.where(there, free[:, 2:] / MILLI_GPU, np.nan),
            total_cores=self.total[:, 0] / scale,
            total_memory=self.total[:, 1].astype(np.float64),
            gpus=self.fixed[:, 2].copy(),
            pool=self.fixed[:, 0].copy(),
            fits=data[data[SLOTS] : data[SLOTS] + hosts].copy(),
            job=job,
            pieces=int(asked[PIECES]),
            spreads=bool(asked[SPREAD]),
            fewest=data[data[of.COUNT] : data[of.COUNT] + data[of.POOLS]].copy(),
            cores=asked[CORES] / scale,
            memory=float(asked[MEMORY]),
            job_gpus=float(each * asked[PIECES]),
            upcoming=self._asks_of(data),
            ahead=self.ahead,
            filling=self.filling,
        )

    def _asks_of(self, data: Ints) -> NDArray[np.float64]:
        """Return GPUs, cores and memory of the next waiting jobs, (jobs, 3)."""
        rows = data[data[of.NEED] : data[of.TYPESETS]].reshape(-1, 8)[self.upcoming].astype(np.float64)
        gpus = (rows[:, GPUS] + rows[:, MILLI] / MILLI_GPU) * rows[:, PIECES]
        return np.stack([gpus, rows[:, CORES] / self.demand.scale, rows[:, MEMORY]], axis=1)

    def hosts(self, capacity: Any) -> Placements:
        """Return where each job of one lane's capacity ran."""
        data = capacity.data
        if data[of.FULL]:
            raise TracekitError(
                f"more than {MOST_ENTRIES:,} placements on several hosts: simulate windows of the trace (--window)"
            )
        jobs = int((data[of.TYPESETS] - data[of.NEED]) // 8)
        parts = parts_of(data, self._shapes(jobs))
        return Placements(
            *(self.names, self.demand, self.fixed, self.total, parts.need, parts.span, parts.log, parts.filled),
            granted(data, capacity.real),
        )
