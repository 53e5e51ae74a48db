"""Fidelity on hosts: whether jobs pack onto the cluster's hosts, and fragment them, as the real ones do.

Two views of it. *Packing*: jobs arrive in random order and none leaves (`tracekit.sim.hosts.place`), under several
allocators; what counts is only what jobs ask for. *Fragmentation over time*: windows of consecutive jobs are scheduled
by first-fit, fcfs and easy, so run times and arrivals count as well. Both need a cluster: the real machine's groups of
hosts, or the one that is given. The cost is bounded by counts: a large cluster is packed with fewer hosts of each
group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from evaluation.base import Better, Score, Setting, absent
from evaluation.marginal import ks
from evaluation.validity import NO_HOSTS
from evaluation.view import SIZES, UNPLACED, Floats, View
from tracekit.clusters import completed
from tracekit.machine import Machine
from tracekit.sim.hosts.demand import GPUS, MILLI, MILLI_GPU, PIECES, Demand, demand_of
from tracekit.trace import Trace

ALLOCATORS = ("first-fit", "best-fit", "worst-fit", "random", "dot-product", "packing", "clustering", "fgd")
INFLATE = 1.3
#: Most jobs of a trace that packing draws from, and the least and most orders of arrival.
MAX_JOBS, MIN_ORDERS, MAX_ORDERS = 20_000, 4, 64
_MIN_JOBS = 20  # in a window
_LABELS = ("gpu_type", "pool", "partition")
PACKING: dict[str, Better] = {
    "hosts.packing_curve": "lower",
    "hosts.fragmentation_curve": "lower",
    "hosts.allocator_tau": "higher",
}
OVER_TIME: dict[str, Better] = {"hosts.rejected": "lower", "hosts.fragmentation": "real"}


def trace_of(view: View) -> Trace:
    """Return a view's jobs with what a scheduler of hosts looks at."""
    columns: dict[str, Any] = {"job_id": np.arange(1, len(view) + 1), "submit_time": view.submit}
    columns["run_time"] = view.numbers["run_time"]
    columns |= {f"req_{name}": view.numbers[name] for name in SIZES}
    columns |= {name: view.numbers[name] for name in ("req_time", "req_mem", "tasks") if view.has(name)}
    for name in _LABELS:
        if view.has(name):
            words = pd.Index(list(view.vocabulary[name]), dtype=object)
            columns[name] = pd.Categorical.from_codes(view.labels[name].tolist(), categories=words)
    return Trace(pd.DataFrame(columns), Machine(unit=view.machine.unit))


# ---- packing ---------------------------------------------------------------------------------------------------------


def gpus_asked(demand: Demand) -> Floats:
    """Return the GPUs that each job asks for."""
    need = demand.need
    return (need[:, GPUS] * MILLI_GPU + need[:, MILLI]) * need[:, PIECES] / MILLI_GPU


@dataclass(frozen=True)
class Plan:
    """How both traces are packed: the hosts, and how many orders of arrival."""

    cluster: Machine
    orders: int
    note: str

    @classmethod
    def of(cls, cluster: Machine, mean: float, setting: Setting) -> Plan:
        """Choose fewer hosts, or more orders, so that about `Setting.host_steps` hosts are looked at in each order."""
        hosts = cluster.nodes or 0
        cost = INFLATE * (cluster.gpus or 0) / mean * hosts
        share = min(1.0, (setting.host_steps / cost) ** 0.5)
        orders = int(np.clip(setting.host_steps / cost, MIN_ORDERS, MAX_ORDERS))
        if share == 1.0:
            return cls(cluster, orders, "")
        groups = tuple(replace(group, count=max(1, round(group.count * share))) for group in cluster.groups)
        fewer = completed(cluster.replace(groups=groups), cluster.name)
        return cls(fewer, orders, f"packed onto {fewer.nodes:,} of {hosts:,} hosts")


@dataclass(frozen=True)
class Packed:
    """Allocated and fragmented shares of the GPUs in per cent, shape (allocators, orders, marks) each."""

    allocated: Floats
    fragmented: Floats


def pack(view: View, plan: Plan, rng: np.random.Generator) -> Packed:
    """Let as many jobs arrive as ask for 130 % of the GPUs, in several orders, under every allocator."""
    from tracekit.sim.hosts.place import MARKS, place

    trace = trace_of(view).take(np.flatnonzero(view.numbers[UNPLACED] == 0))
    if len(trace) > MAX_JOBS:
        trace = trace.take(np.sort(rng.choice(len(trace), MAX_JOBS, replace=False)))
    demand = demand_of(trace, plan.cluster)
    count = int(np.clip(np.ceil((plan.cluster.gpus or 0) / gpus_asked(demand).mean()), 1, len(trace)))
    shares = np.full((2, len(ALLOCATORS), plan.orders, len(MARKS)), np.nan)
    for order in range(plan.orders):
        some = demand.take(np.sort(rng.choice(len(trace), count, replace=False)))
        if not gpus_asked(some).any():
            continue
        for number, name in enumerate(ALLOCATORS):
            curve = place(some, name, order, inflate=INFLATE)["curve"]
            for place_, mark in enumerate(MARKS):
                if curve[str(mark)] is not None:
                    shares[:, number, order, place_] = [
                        curve[str(mark)][key] for key in ("allocated_pct", "fragmented_pct")
                    ]
    return Packed(*shares)


def _curves(real: Floats, synth: Floats) -> Floats:
    """Return the distance of mean curves in points of the GPUs, shape (allocators, marks)."""
    return np.asarray(np.abs(np.nanmean(real, axis=1) - np.nanmean(synth, axis=1)))


def _tau(real: Floats, synth: Floats) -> float:
    """Return Kendall's τ-b between the rankings of allocators by what is fragmented in the end; NaN without any."""
    ours, theirs = (np.asarray(np.round(np.nanmean(side[:, :, -1], axis=1), 6)) for side in (real, synth))
    if np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return float("nan")
    return round(float(scipy_stats.kendalltau(ours, theirs).statistic), 12)


def compare_packed(real: Packed, synth: Packed, note: str, times: int, rng: np.random.Generator) -> dict[str, Score]:
    """Return the distances between the curves and the agreement on allocators, with intervals over the orders."""
    orders = real.allocated.shape[1]
    draws = [(rng.integers(0, orders, orders), rng.integers(0, orders, orders)) for _ in range(times)]
    scores: dict[str, Score] = {}
    for key, what in (("packing_curve", "allocated"), ("fragmentation_curve", "fragmented")):
        ours, theirs = getattr(real, what), getattr(synth, what)
        gaps = _curves(ours, theirs)
        value = float(np.nanmean(gaps))
        half = 1.96 * float(np.std([np.nanmean(_curves(ours[:, a], theirs[:, b])) for a, b in draws]))
        detail = {"max": float(np.nanmax(gaps))}
        detail |= {name: float(np.nanmean(row)) for name, row in zip(ALLOCATORS, gaps, strict=True)}
        scores[f"hosts.{key}"] = Score(value, low=max(0.0, value - half), high=value + half, note=note, detail=detail)
    ours, theirs = real.fragmented, synth.fragmented
    value = _tau(ours, theirs)
    if np.isnan(value):
        return scores | {"hosts.allocator_tau": absent("no allocator makes a difference", "higher")}
    drawn = [_tau(ours[:, a], theirs[:, b]) for a, b in draws]
    low, high = np.nanquantile([*drawn, value], [0.025, 0.975])
    low, high = min(float(low), value), max(float(high), value)
    return scores | {"hosts.allocator_tau": Score(value, "higher", low=low, high=high, note=note)}


# ---- fragmentation over time -----------------------------------------------------------------------------------------


def fragmentation(view: View, cluster: Machine, setting: Setting) -> Floats:
    """Return the time mean of fragmentation of each window under first-fit, fcfs and easy, between its submits."""
    from tracekit.sim.jobs import extract_jobs
    from tracekit.sim.simulate import run_table
    from tracekit.sim.switches import Switches

    switches = Switches(cluster=cluster)
    windows, most = setting.host_windows
    trace = trace_of(view)
    trace = trace.take(np.flatnonzero((view.numbers[UNPLACED] == 0) & (view.numbers["run_time"] >= 0)))
    count = min(most, len(trace))  # what a window shows depends on its length: windows of short traces overlap
    found = []
    for first in np.linspace(0, len(trace) - count, windows).astype(int):
        table = extract_jobs(trace.take(np.arange(first, first + count)), switches.resolved())
        found.append(_time_mean(run_table(table, "fcfs", "easy", switches)))
    return np.array(found)


def _time_mean(result: Any) -> float:
    """Return the mean fragmentation from the first to the last submit; NaN if these are one instant."""
    from tracekit.sim.hosts.metrics import fragmentation_over_time

    if not len(result.start):
        return float("nan")
    times, values = fragmentation_over_time(result.hosts, result.start, result.run, fgd=False)
    begin, end = float(result.submit.min()), float(result.submit.max())
    lengths = np.diff(np.clip(np.append(times, np.inf), begin, end))
    return float((lengths * values["share"]).sum() / (end - begin)) if end > begin else float("nan")


def _beside(ours: Floats, theirs: Floats) -> Score:
    """Return the mean over windows beside the real one."""
    ours, theirs = ours[np.isfinite(ours)], theirs[np.isfinite(theirs)]
    if not len(ours) or not len(theirs):
        return absent("all jobs of a window arrive at one instant", "real")
    half = 1.96 * float(np.sqrt(ours.var() / len(ours) + theirs.var() / len(theirs)))
    mean = float(theirs.mean())
    return Score(mean, "real", real=float(ours.mean()), low=max(0.0, mean - half), high=mean + half)


def _rejected(real: View, synth: View, cluster: Machine) -> Score:
    """Return the share of jobs that can never be placed, with the shares by reason as detail."""
    ours, theirs = (float(view.numbers[UNPLACED].mean()) for view in (real, synth))
    half = 1.96 * float(np.sqrt(ours * (1 - ours) / len(real) + theirs * (1 - theirs) / len(synth)))
    reasons = demand_of(trace_of(synth), cluster).reasons()
    detail = {reason: float(rows.mean()) for reason, rows in reasons.items()}
    return Score(theirs, real=ours, low=max(0.0, theirs - half), high=theirs + half, detail=detail)


class Packing:
    """hosts.*: how alike jobs pack onto the cluster's hosts and fragment them.

    packing_curve, fragmentation_curve: mean distance, in points of the GPUs, of the allocated (fragmented) share along
    arrived requests of 10 … 130 %, over eight allocators; allocator_tau: τ-b between the allocators' rankings by
    fragmentation; fragmentation: time mean under first-fit, fcfs and easy; rejected: share that can never be placed.
    """

    name: ClassVar[str] = "hosts"
    family: ClassVar[str] = "hosts"
    unit: ClassVar[str] = "points of the GPUs; τ; share"
    resampled: ClassVar[bool] = False
    _done: ClassVar[WeakKeyDictionary[View, dict[Any, Any]]] = WeakKeyDictionary()

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Pack and schedule both traces on the real trace's hosts."""
        cluster = real.machine.hosts
        if cluster is None:
            return {key: absent(NO_HOSTS, better) for key, better in (PACKING | OVER_TIME).items()}
        scores = {"hosts.rejected": _rejected(real, synth, cluster)}
        placed = [int((view.numbers[UNPLACED] == 0).sum()) for view in (real, synth)]
        if min(placed) < 2 * _MIN_JOBS:
            reason = f"fewer than {2 * _MIN_JOBS} jobs that the hosts can hold in one of the traces"
            return scores | {k: absent(reason, b) for k, b in (PACKING | OVER_TIME).items() if k not in scores}
        done = self._done.setdefault(real, {})
        if ("time", setting.quick) not in done:
            done["time", setting.quick] = fragmentation(real, cluster, setting)
        scores["hosts.fragmentation"] = _beside(done["time", setting.quick], fragmentation(synth, cluster, setting))
        return scores | self._packing(real, synth, setting, rng)

    def _packing(self, real: View, synth: View, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        cluster = real.machine.hosts
        assert cluster is not None
        means = [np.nan_to_num(view.numbers["gpus"]).mean() for view in (real, synth)]
        if not cluster.gpus or not min(means) > 0:
            reason = "packing counts GPUs: the cluster or one of the traces has none"
            return {key: absent(reason, better) for key, better in PACKING.items()}
        done = self._done.setdefault(real, {})
        if ("packed", setting.quick) not in done:
            plan = Plan.of(cluster, float(means[0]), setting)
            done["packed", setting.quick] = plan, pack(real, plan, np.random.default_rng(1))
        plan, ours = done["packed", setting.quick]
        return compare_packed(ours, pack(synth, plan, np.random.default_rng(2)), plan.note, setting.draws, rng)


class HostRequests:
    """hosts.gpu_type_tv, hosts.pool_tv, hosts.memory_ks: distances of requests, weighted by what they take up on hosts.

    Total variation of the shares of requested GPUs (cores where no job asks for GPUs) by GPU type and by pool; KS of
    the memory of a whole job (KB), requested per processor × processors.
    """

    name: ClassVar[str] = "host_requests"
    family: ClassVar[str] = "hosts"
    unit: ClassVar[str] = "share of GPUs; share of jobs"
    resampled: ClassVar[bool] = True

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Compare what the real trace has."""
        scores = {}
        unit = "gpus" if np.any(real.numbers["gpus"] > 0) else "procs"
        for name in ("gpu_type", "pool"):
            if not real.varies(name):
                continue
            if not synth.has(name):
                scores[f"hosts.{name}_tv"] = absent(f"the synthetic trace has no {name}")
                continue
            width = len(real.vocabulary[name]) + 1
            ours, theirs = (
                np.bincount(v.labels[name] + 1, np.maximum(np.nan_to_num(v.numbers[unit]), 0), width)
                for v in (real, synth)
            )
            if not (ours.sum() > 0 and theirs.sum() > 0):
                scores[f"hosts.{name}_tv"] = absent(f"one of the traces has no {unit}")
                continue
            shift = np.abs(ours / ours.sum() - theirs / theirs.sum())
            scores[f"hosts.{name}_tv"] = Score(float(0.5 * shift.sum()))
        if real.has("req_mem") and real.has("procs"):
            scores["hosts.memory_ks"] = _memory(real, synth)
        return scores


def _memory(real: View, synth: View) -> Score:
    if not (synth.has("req_mem") and synth.has("procs")):
        return absent("the synthetic trace has no memory requests or no processors")
    totals = [view.numbers["req_mem"] * view.numbers["procs"] for view in (real, synth)]
    ours, theirs = (total[np.isfinite(total)] for total in totals)
    if not len(ours) or not len(theirs):
        return absent("no job has both memory and processors")
    return Score(float(ks(ours, theirs)))
