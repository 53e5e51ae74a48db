"""Orders of a queue on a cluster of hosts: against the engine, brute force, and the simulation that is forecast."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.clusters import completed
from tracekit.errors import TracekitError, UsageError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.engine.session import Session
from tracekit.sim.hosts.model import HostModel
from tracekit.sim.jobs import extract_jobs, prepare
from tracekit.sim.orders.bounds import lower_bound
from tracekit.sim.orders.cases import GOALS, Held, Waiting, case_of, some_jobs
from tracekit.sim.orders.evaluate import begin, cost_of, costs, room_for
from tracekit.sim.orders.on_hosts import HostCase, placed_case
from tracekit.sim.orders.problem import QueueProblem, order_cost
from tracekit.sim.orders.solve import solve
from tracekit.sim.setup import Setup
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.objectives import OBJECTIVES
from tracekit.trace import Trace

from .host_worlds import ALLOCATORS, cluster_of, rows_of, trace_of


def world(seed: int, most: int = 22) -> tuple[Machine, Trace, np.random.Generator]:
    """Return a little cluster and jobs that are all submitted at once, some of which can run there."""
    rng = np.random.default_rng(seed)
    while True:
        cluster = cluster_of(rng)
        trace = trace_of([(0, *row[1:]) for row in rows_of(rng, cluster)[:most]])
        jobs = prepare(extract_jobs(trace, Switches(cluster=cluster).resolved()), Switches())
        if len(jobs.table) > 1:
            return cluster, trace, rng


def queue_of(cluster: Machine, trace: Trace, allocate: str = "first-fit", **settings: Any) -> QueueProblem:
    switches = Switches(cluster=cluster, allocate=allocate, seed=3)
    return QueueProblem.from_trace(trace, 0, len(trace), switches=switches, **settings)


def session(queue: QueueProblem, order: Any, setup: Setup) -> Session:
    """Simulate the jobs of a queue with an order as priorities; jobs are told by their ids."""
    rank = dict(zip(queue.job_id[order].tolist(), range(len(queue)), strict=True))
    made = Session(setup)
    made.ranked(np.array([float(rank.get(job, -1)) for job in setup.ready.table.job_id.tolist()]))
    return made


@given(seed=st.integers(0, 10**6), allocate=st.sampled_from(ALLOCATORS), backfill=st.sampled_from(["none", "easy"]))
@settings(max_examples=80, deadline=None)
def test_starts_and_places_are_those_of_a_simulation(seed: int, allocate: str, backfill: str) -> None:
    cluster, trace, rng = world(seed)
    queue = queue_of(cluster, trace, allocate, backfill=backfill)
    order = rng.permutation(len(queue))
    switches = Switches(cluster=cluster, allocate=allocate, seed=3).resolved()
    ready = prepare(extract_jobs(trace, switches), switches)
    model = HostModel(ready.table.demand, allocate, seed=3)
    made = session(queue, order, Setup(ready, backfill, switches, model))
    assert queue.starts(order).tolist() == made.jobs.start.tolist()
    assert list(queue.places(order) or ()) == list(model.hosts(made.sim.capacity))


@given(seed=st.integers(0, 10**6), allocate=st.sampled_from(ALLOCATORS), backfill=st.sampled_from(["none", "easy"]))
@settings(max_examples=60, deadline=None)
def test_running_jobs_are_placed_as_a_warm_start_places_them(seed: int, allocate: str, backfill: str) -> None:
    """Some jobs have begun one after the other; the rest waits. Numbers of jobs differ, and so would random hosts."""
    cluster, trace, rng = world(seed)
    switches = Switches(cluster=cluster, allocate="best-fit" if allocate == "random" else allocate).resolved()
    waiting, clock = int(rng.integers(1, len(trace))), 50.0
    running = len(trace) - waiting
    begun = clock - 1 - rng.permutation(running)
    jobs = trace.jobs.copy()
    jobs["submit_time"] = np.concatenate([begun, np.full(waiting, clock)])
    jobs["wait_time"] = np.concatenate([np.zeros(running), np.full(waiting, np.nan)])
    jobs.loc[: running - 1, "run_time"] = clock - begun + rng.integers(1, 13, running)
    trace = Trace(jobs, trace.machine)
    try:
        queue = QueueProblem.from_trace(trace, running, waiting, busy=True, switches=switches, backfill=backfill)
    except TracekitError:  # they do not all fit at once, or none of the waiting ones ever does
        return
    ready = prepare(extract_jobs(trace, switches), switches)
    start = np.where(ready.table.submit < clock, ready.table.submit, np.nan)
    model = HostModel(ready.table.demand, switches.allocate)
    order = rng.permutation(len(queue))
    made = session(queue, order, Setup(ready, backfill, switches, model, start, clock))
    ours = np.isnan(start)
    assert queue.starts(order).tolist() == (made.jobs.start[ours] - clock).tolist()
    hosts = np.array(list(model.hosts(made.sim.capacity)))
    assert list(queue.places(order) or ())[: len(queue)] == hosts[ours].tolist()


@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_solvers_against_all_orders(backfill: str) -> None:
    for seed in range(12):
        cluster, trace, _ = world(seed, 6)
        queue = queue_of(cluster, trace, ALLOCATORS[seed % len(ALLOCATORS)], backfill=backfill, objective="bsld")
        case = queue.case("actual")
        assert isinstance(case, HostCase)
        every = np.array(list(itertools.permutations(range(len(queue)))))
        found = np.empty(len(every))
        costs(case, every, room_for(case), found)
        best = found.min()
        exact = solve(queue, "exhaustive")
        assert exact.curve[-1, 1] == pytest.approx(best, rel=1e-12)
        assert exact.evaluations == len(every)
        assert lower_bound(case) <= best * (1 + 1e-12)
        for solver in ("hill-climb", "anneal"):
            made = solve(queue, solver, evaluations=400, seed=1)
            assert made.curve[-1, 1] == pytest.approx(best, rel=1e-9)
            assert made.order.tolist() == solve(queue, solver, evaluations=400, seed=1).order.tolist()
            assert (np.diff(made.curve[:, 1]) <= 0).all()


@pytest.mark.parametrize("goal", [*sorted(set(GOALS) & set(OBJECTIVES)), "bsld:0.5,wait:0.5"])
def test_nothing_is_below_the_bound_and_costs_are_the_objective(goal: str) -> None:
    for seed in range(20):
        cluster, trace, rng = world(seed)
        queue = queue_of(cluster, trace, objective=goal, backfill=("none", "easy")[seed % 2])
        queue = QueueProblem(**{n: getattr(queue, n) for n in queue.__dataclass_fields__} | {"estimate": queue.run})
        order = rng.permutation(len(queue))
        cost = order_cost(queue.case("actual"), order)
        assert cost == pytest.approx(queue.value(order), rel=1e-9, abs=1e-9)
        assert lower_bound(queue.case("actual")) <= cost + 1e-9 * abs(cost)


def two_hosts() -> Machine:
    return completed(Machine(name="two", groups=(HostGroup(2, cores=4, name="n"),)), "two")


def test_four_jobs_on_two_hosts_worked_out_by_hand() -> None:
    """Jobs of 3, 3, 2 and 2 cores, 10, 10, 5 and 5 s: counted, 8 cores hold 3 + 3 + 2; on hosts of 4 they do not."""
    rows = [(0, run, run, cores, 0, 0, None, None, None) for run, cores in ((10, 3), (10, 3), (5, 2), (5, 2))]
    trace = trace_of(rows)
    queue = queue_of(two_hosts(), trace)
    counted = QueueProblem.from_trace(trace, 0, 4, switches=Switches(procs=8))
    assert counted.starts(np.arange(4)).tolist() == [0, 0, 0, 5]
    assert queue.starts(np.arange(4)).tolist() == [0, 0, 10, 10]
    assert queue.starts(np.array([2, 3, 0, 1])).tolist() == [0, 5, 0, 0]
    assert list(queue.places(np.array([2, 3, 0, 1])) or ()) == ["n-1:3/0", "n-0:3/0", "n-0:2/0", "n-0:2/0"]
    assert solve(queue, "exhaustive").value == pytest.approx(1.25)


class Forecasting:
    """Orders by chance; once all jobs have been submitted, it forecasts the rest of the simulation and keeps to it."""

    name = "forecasting"

    def __init__(self, backfill: str, seed: int, last: float) -> None:
        self.backfill, self.rng, self.last = backfill, np.random.default_rng(seed), last
        self.order: dict[int, float] = {}
        self.expected: dict[int, float] = {}
        self.shortened: list[float] = []

    def priority(self, queue: Any, state: Any) -> Any:
        if state.now >= self.last and not self.order:
            shuffled = self.rng.permutation(len(queue))
            case = self.case(queue, state)
            room = room_for(case)
            begin(case, room)
            cost_of(case, shuffled, room, 0, np.inf, False)
            self.expected = {int(job): state.now + start for job, start in zip(queue, room.start, strict=True)}
            self.order = {int(queue[job]): float(rank) for rank, job in enumerate(shuffled.tolist())}
            first = shuffled[: max(len(queue) // 2, 1)]  # a queue of the first jobs alone
            self.shortened = [order_cost(some_jobs(case, first), np.arange(len(first))), self.whole(case, room, first)]
        return np.array([self.order.get(int(job), float(job)) for job in queue])

    def case(self, queue: Any, state: Any) -> Any:
        estimate, ends = state.estimate[queue], state.expected_end - state.now
        size = np.round(state.procs).astype(np.int64)
        waiting = Waiting(state.now - state.submit[queue], estimate, estimate, size[queue], np.zeros(len(queue), int))
        held = Held(ends, ends, size[state.running])
        counted = case_of("wait", 10.0, waiting, held, int(state.total), backfill=self.backfill == "easy")
        return placed_case(counted, queue, state.running, state)

    def whole(self, case: Any, room: Any, first: Any) -> float:
        counted = case.counted
        return float((counted.linear[first] * room.start[first] + counted.fixed[first]).sum())


@given(seed=st.integers(0, 10**6), backfill=st.sampled_from(["none", "easy"]))
@settings(max_examples=60, deadline=None)
def test_a_forecast_from_the_middle_of_a_simulation_comes_true(seed: int, backfill: str) -> None:
    rng = np.random.default_rng(seed)
    cluster = cluster_of(rng)
    trace = trace_of([(gap, max(run, 1), *rest) for gap, run, *rest in rows_of(rng, cluster)])
    policy = Forecasting(backfill, seed, float(trace.column("submit_time").max()))
    allocate = ALLOCATORS[seed % len(ALLOCATORS)]
    if allocate == "random":  # hosts drawn by a job's number, which a forecast does not keep
        allocate = "worst-fit"
    made = tracekit.simulate(trace, policy, backfill, cluster=cluster, allocate=allocate, estimates="actual")
    for job, start in policy.expected.items():
        assert made.start[job] == pytest.approx(start)
    if policy.shortened and backfill == "none":  # jobs behind do not matter to those in front
        assert policy.shortened[0] == pytest.approx(policy.shortened[1])


@pytest.mark.parametrize(("allocate", "backfill"), [("best-fit", "easy"), ("fgd", "conservative"), ("milp", "none")])
def test_search_and_forecasts_simulate_on_hosts(allocate: str, backfill: str) -> None:
    rng = np.random.default_rng(1)
    rows = [(int(rng.integers(0, 3)), 20, 30, 2, 0, int(rng.integers(1, 3)), None, None, None) for _ in range(30)]
    trace = trace_of(rows)
    cluster = completed(Machine(name="t", groups=(HostGroup(3, cores=8, gpus=2, name="n"),)), "t")
    for policy in ("search:evaluations=20", "best-forecast"):
        made = tracekit.simulate(trace, policy, backfill, cluster=cluster, allocate=allocate)
        again = tracekit.simulate(trace, policy, backfill, cluster=cluster, allocate=allocate)
        assert made.start.tolist() == again.start.tolist()
        assert len(made) + sum(made.rejected.values()) == len(trace)


def test_search_looks_at_places() -> None:
    """Two jobs of 3 cores and two of 2 on hosts of 4: counting would start three at once, places tell better."""
    rows = [(0, 100, 100, 3, 0, 0, None, None, None)]  # occupies a host while the others arrive
    rows += [(0, run, run, cores, 0, 0, None, None, None) for run, cores in ((50, 3), (5, 2), (5, 2), (5, 2))]
    made = tracekit.simulate(
        trace_of(rows), "search:objective=wait", "none", cluster=two_hosts(), estimates="actual", allocate="first-fit"
    )
    best = solve(queue_of(two_hosts(), trace_of(rows)), "exhaustive").value
    assert made.metrics["mean_wait_s"] == pytest.approx(best)


def test_bad_input_is_named() -> None:
    cluster, trace, _ = world(3)
    queue = queue_of(cluster, trace)
    with pytest.raises(UsageError, match="no hosts"):
        solve(queue, "branch-and-bound")
    with pytest.raises(UsageError, match="milp"):
        queue_of(completed(Machine(name="g", groups=(HostGroup(2, cores=9, gpus=1, name="n"),)), "g"), trace, "milp")


def test_order_on_a_cluster(run: Any, tmp_path: Any) -> None:
    trace, cluster = tmp_path / "t.swf", tmp_path / "c.toml"
    tracekit.write(tracekit.sample(), trace)
    cluster.write_text('name = "c"\n[[groups]]\nname = "n"\ncount = 32\ncores = 8\n')
    args = ("order", str(trace), "--window", "100:12", "--evaluations", "100", "--cluster", str(cluster))
    status, out, _ = run(*args, "--allocate", "best-fit", "--backfill", "easy", "--json")
    found = json.loads(out)
    assert status == 0
    assert len(found["hosts"]) == len(found["order"]) == 12
    assert found["hosts"][0].startswith("n-")
    assert (found["switches"]["cluster"], found["switches"]["allocate"]) == ("c", "best-fit")
    folder = tmp_path / "out"
    status, _, err = run(*args, "-o", str(folder))
    assert status == 0, err
    assert (folder / "order.csv").read_text().splitlines()[0].endswith(",hosts")
    for wrong in (["--allocate", "first-fitt"], ["--allocate", "first-fit,best-fit"], ["--cluster", "nowhere"]):
        status, out, err = run(*args, *wrong)
        assert status in (1, 2)
        assert wrong[1].split(",")[0] in err
        assert not out
    status, _, err = run("order", str(trace), "--window", "100:12", "--allocate", "best-fit")
    assert (status, "--cluster" in err) == (2, True)
