"""Random little clusters, traces and switches, and the comparison of the compiled hosts with the slow reference."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tracekit.clusters import completed, gpu_types, host_names
from tracekit.machine import HostGroup, Machine
from tracekit.sim.analysis.check_hosts import check_hosts
from tracekit.sim.engine.dependencies import predecessors, thinking
from tracekit.sim.hosts.demand import CORES, GPUS, MEMORY, MILLI, PIECES, POOL, SPREAD, TYPES
from tracekit.sim.jobs import extract_jobs, prepare
from tracekit.sim.simulate import run_table
from tracekit.sim.switches import Switches, backfill_for
from tracekit.trace import Trace

from . import reference
from .reference_hosts import Cluster, Host, Need, Simulation

POLICIES = ("fcfs", "lcfs", "sjf", "ljf", "saf", "largest", "smallest", "wfp3", "f1", "multifactor", "adaptive")
ALLOCATORS = (
    *("first-fit", "best-fit", "worst-fit", "random", "round-robin", "dot-product", "packing", "clustering", "fgd"),
    *("lexicographic", "defrag", "load-balance", "tiers"),
)


class World(NamedTuple):
    """One simulation to be compared."""

    cluster: Machine
    trace: Trace
    policy: str
    backfill: str
    allocate: str
    switches: dict[str, Any]


def pick(rng, *values):
    return values[rng.integers(len(values))]


def cluster_of(rng):
    """Return a few groups of hosts, with or without GPUs, types, memory limits and pools."""
    gpus, pools, memory, alike = rng.random(4) < (0.7, 0.5, 0.5, 0.2)
    groups, devices = [], int(rng.integers(0, 5))
    for number in range(rng.integers(1, 4)):
        devices = devices if rng.random() < 0.5 else int(rng.integers(0, 5))
        groups.append(
            HostGroup(
                int(rng.integers(1, 4)),
                cores=1 if alike else int(rng.integers(1, 9)),
                memory=int(rng.integers(4, 40)) if memory else None,
                gpus=devices if gpus else 0,
                gpu_type=pick(rng, "a", "b", None) if gpus and devices else None,
                pool=pick(rng, "p", "q") if pools else None,
                name=f"g{number}",
            )
        )
    return completed(Machine(name="test", groups=tuple(groups)), "test")


def rows_of(rng, cluster):
    """Return jobs for a cluster, some of which cannot fit: gap, run, limit, cores, memory per core, gpus, tasks …"""
    most = sum(group.count * group.cores for group in cluster.groups)
    devices, pools = cluster.gpus or 0, sorted({group.pool for group in cluster.groups if group.pool}) or ["p"]
    kinds = sorted({group.gpu_type for group in cluster.groups if group.gpu_type}) or ["a"]
    large = rng.random()
    rows = []
    for _ in range(rng.integers(1, 23)):
        spreads = rng.random() < large
        gpus = pick(rng, 0, 0, 0, 0.25, 0.5, 0.6, 1, 1, 2, 3, 4) if devices else 0
        if devices and spreads and rng.random() < 0.7:
            gpus = int(rng.integers(1, devices + 1))
        cores = int(rng.integers(1, most + 1)) if spreads and gpus < 1 else pick(rng, 1, 1, 2, int(rng.integers(1, 9)))
        rows.append(
            (
                pick(rng, 0, int(rng.integers(0, 8))),
                int(rng.integers(0, 13)),
                int(rng.integers(0, 13)),
                cores,
                pick(rng, 0, 0, 0, 1, 2),
                gpus,
                None if spreads else pick(rng, None, None, 1, 2, 3),
                pick(rng, None, None, None, pick(rng, *kinds), "a|b", pick(rng, "a", "b")),
                pick(rng, None, None, None, pick(rng, *pools), pick(rng, *pools), pick(rng, "p", "q")),
            )
        )
    return rows


def trace_of(rows, **columns):
    """Make a trace of (gap, run, limit, cores, memory, gpus, tasks, GPU type, pool); cores and shares per task."""
    gap, run, limit, cores, memory, gpus, tasks, kind, pool = zip(*rows, strict=True)
    cores = [c * (t or 1) for c, t in zip(cores, tasks, strict=True)]
    table = {
        "job_id": np.arange(1, len(rows) + 1),
        "submit_time": np.cumsum(gap).astype(float),
        "run_time": np.array(run, float),
        "req_time": np.array(limit, float),
        "req_procs": cores,
        "req_mem": np.array(memory, float),
        "req_gpus": [g * (t or 1) if g < 1 else g for g, t in zip(gpus, tasks, strict=True)],
        "tasks": pd.array(tasks, "Int64"),
        "gpu_type": pd.Categorical(kind, ["a", "b", "a|b"]),
        "pool": pd.Categorical(pool, ["p", "q"]),
    }
    return Trace(pd.DataFrame(table | columns), Machine(procs=sum(cores)))


def switches_of(rng, cluster, backfill):
    """Return switches that go together."""
    found = {
        "commit": bool(rng.random() < 0.3),
        "interval": pick(rng, 0.0, 0.0, 0.0, 7.0),
        "seed": int(rng.integers(9)),
    }
    found["kill_at_limit"] = bool(rng.random() < 0.2)
    kind = pick(rng, "requested", "requested", "actual", "last-two", "predict", "arrivals", "compat")
    if kind in ("arrivals", "compat"):
        return found | ({"ties": "arrivals"} if kind == "arrivals" else {"compat": "rlscheduler"})
    if kind == "predict":
        found |= {"predict": "last-two", "predict_for": pick(rng, "backfill", "backfill", "order", "both")}
    else:
        found["estimates"] = kind
    found["dependencies"] = bool(rng.random() < 0.3)
    if rng.random() < 0.35 and backfill != "rlscheduler":
        names, outages = host_names(cluster), []
        for _ in range(rng.integers(1, 4)):
            begin, hosts = float(rng.integers(0, 60)), rng.choice(names, rng.integers(1, 3))
            outages.append((begin, begin + float(rng.integers(1, 40)), "+".join(sorted(set(hosts)))))
        found |= {"outages": tuple(outages), "outage_mode": pick(rng, "drain", "kill", "requeue")}
        found["outages_announced"] = bool(rng.random() < 0.5)
    return found


def world_of(seed, backfill, allocate, policy=None):
    """Return the world of a seed."""
    rng = np.random.default_rng(seed)
    cluster = cluster_of(rng)
    rows, chosen = rows_of(rng, cluster), switches_of(rng, cluster, backfill)
    if "predict" in chosen and rng.random() < 0.5:  # predictions are corrected by minutes: let some jobs live so long
        rows = [(gap, run * 100, limit * 200, *rest) for gap, run, limit, *rest in rows]
    count = len(rows)
    columns = {"user": pd.Categorical(rng.choice(["u", "v", "w"], count))}
    if chosen.get("dependencies"):
        columns["prev_job"] = pd.array([pick(rng, None, None, int(rng.integers(1, count + 2))) for _ in rows], "Int64")
        columns["think_time"] = rng.choice([0.0, 3.0, 50.0, np.nan], count)
    return World(cluster, trace_of(rows, **columns), policy or pick(rng, *POLICIES), backfill, allocate, chosen)


def compare(world):
    """Simulate a world both ways, compare, and check what must always hold; None if no job can run."""
    chosen = Switches(cluster=world.cluster, allocate=world.allocate, **world.switches)
    table = extract_jobs(world.trace, chosen.resolved())
    ready = prepare(table, chosen.resolved())
    if not len(ready.table):
        return None
    ours = run_table(table, world.policy, world.backfill, chosen)
    slow = by_reference(world, ready, typical_of(ready.table, gpu_types(world.cluster)))
    slow.run_all()
    scale = table.demand.scale
    assert ours.start.tolist() == [job.start for job in slow.jobs], world
    assert ours.submit.tolist() == [job.submit for job in slow.jobs], world
    assert ours.run.tolist() == [job.run for job in slow.jobs], world
    assert list(ours.hosts) == [placed(job, host_names(world.cluster), scale) for job in slow.jobs], world
    check_held(ours)
    found = check_hosts(ours.schedule(), world.trace, world.cluster)
    assert not found, (found, world)
    overtaken = chosen.dependencies or chosen.interval  # followers may come first; passes may be late
    if world.policy == "fcfs" and chosen.estimates == "actual" and not overtaken:
        for job, reserved in slow.first_reservation.items():  # EASY's guarantee
            assert ours.start[job] <= reserved, (job, world)
    return ours


def check_held(result):
    """Check device by device that no host is ever over-committed, that gangs are whole and pools are not mixed."""
    places = result.hosts
    held = np.zeros((len(result.start), *places.total.shape), np.int64)
    for job, asked in enumerate(places.need[: len(result.start)]):
        begin, count = places.span[job]
        pieces, pools = 0, set()
        for first, last, each, devices in places.log[begin : begin + count]:
            for h in range(first, last + 1):
                pieces += each
                pools.add(places.fixed[h, 0])
                whole = 1000 if asked[GPUS] else asked[MILLI]
                bits = [devices >> d & 1 for d in range(places.total.shape[1] - 2)]
                cores, memory = (each * asked[c] // asked[PIECES] for c in (CORES, MEMORY))
                held[job, h] += [cores, memory, *(bit * whole for bit in bits)]
                assert sum(bits) == each * max(asked[GPUS], asked[MILLI] > 0)
                assert asked[TYPES] < 0 or not any(bits) or places.demand.types[asked[TYPES], places.fixed[h, 1]]
        assert pieces == asked[PIECES]
        assert len(pools) == 1
        assert asked[POOL] in (-1, *pools)
        assert held[job, :, 0].sum() == asked[CORES] or asked[SPREAD]
    for now in np.unique(result.start):
        running = (result.start <= now) & (now < result.end)
        assert (held[running].sum(axis=0) <= places.total).all()


def by_reference(world, ready, typical):
    """Return the reference's simulation of prepared jobs."""
    cluster, table = world.cluster, ready.table
    scale, names = table.demand.scale, host_names(cluster)
    chosen = Switches(cluster=cluster, **world.switches).resolved()
    backfill = backfill_for(world.backfill, chosen)
    hosts = [
        Host(g.cores * scale, 2**40 if g.memory is None else int(g.memory), g.gpus or 0, g.gpu_type, g.pool or "")
        for g in cluster.groups
        for _ in range(g.count)
    ]
    jobs = {
        "submit": table.submit.tolist(),
        "run": ready.run.tolist(),
        "estimate": ready.estimate.tolist(),
        "procs": table.procs.tolist(),
        "user": table.user.tolist(),
        "previous": predecessors(ready)[0].tolist() if chosen.dependencies else [-1] * len(table),
        "think": thinking(ready).tolist(),
    }
    rules = reference.Rules(
        total=table.total,
        commit=chosen.commit,
        arrivals_first=chosen.ties == "arrivals",
        interval=chosen.interval,
        last_two=chosen.estimates == "last-two",
        predict=chosen.predict_for if chosen.predict is not None else "",
        outages=tuple((b, e, [names.index(name) for name in text.split("+")]) for b, e, text in chosen.outages),
        announced=chosen.outages_announced,
        outage_mode=chosen.outage_mode,
        compat=chosen.compat is not None,
    )
    made = Cluster(hosts, world.allocate, typical, scale, chosen.seed)
    needs = [need_of(world.trace.jobs.iloc[row], cluster, scale) for row in table.position]
    return Simulation(made, needs, jobs, world.policy, backfill, rules)


def need_of(job, cluster, scale):
    kinds = gpu_types(cluster)
    return Need(
        int(job["req_procs"]) * scale,
        int(job["req_procs"] * job["req_mem"]),
        float(job["req_gpus"]),
        None if pd.isna(job["tasks"]) else int(job["tasks"]),
        None if not kinds or pd.isna(job["gpu_type"]) else frozenset(job["gpu_type"].split("|")),
        None if pd.isna(job["pool"]) or not any(g.pool for g in cluster.groups) else job["pool"],
    )


def typical_of(table, kinds):
    """Return typical tasks as the definition has them: the most frequent shapes, up to 95 % of the jobs."""
    need = table.demand.need
    sets = [frozenset(k for k, allowed in zip(kinds, row, strict=False) if allowed) for row in table.demand.types]
    counts = {}
    for c, _, pieces, whole, milli, _, types, _ in need.tolist():
        shape = (c // pieces, whole or milli / 1000, types)
        counts[shape] = counts.get(shape, 0) + 1
    order = sorted(counts, key=lambda s: (-counts[s], s[0], s[1] if s[1] >= 1 else 0, s[1], s[2]))
    kept, seen = [], 0
    for shape in order:
        if seen >= 0.95 * len(need):
            break
        kept.append(shape)
        seen += counts[shape]
    return [((c, g, None if t < 0 else sets[t]), counts[(c, g, t)] / seen) for c, g, t in kept]


def placed(job, names, scale):
    """Return where a job of the reference ran, as schedules write it."""
    held = {}
    for h, cores, _, gpus in job.parts:
        before = held.get(h, (0, 0))
        held[h] = (before[0] + cores, before[1] + sum(gpus.values()))
    return "+".join(f"{names[h]}:{held[h][0] / scale:.10g}/{held[h][1] / 1000:.10g}" for h in sorted(held))
