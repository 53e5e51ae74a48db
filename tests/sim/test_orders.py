"""Orders of a queue: against numbers of ILOS' own code, a slow evaluator, the engine, and exact optima."""

from __future__ import annotations

import dataclasses
import itertools
import json
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order_toys import random_queue, slow_starts
from shared_data import DATA, shared

import tracekit
from tracekit.clusters import completed
from tracekit.errors import TracekitError, UsageError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.orders.bounds import lower_bound
from tracekit.sim.orders.cases import GOALS
from tracekit.sim.orders.evaluate import begin, cost_of, costs, room_for
from tracekit.sim.orders.problem import CANDIDATES, HEURISTICS, QueueProblem, check_order, order_cost
from tracekit.sim.orders.rolling import SearchPolicy
from tracekit.sim.orders.solve import SOLVERS, solve
from tracekit.sim.snapshot import Snapshot
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.objectives import OBJECTIVES

NAMES = {"FCFS": "fcfs", "SJF": "sjf", "SAF": "saf", "F1": "f1", "WFP": "wfp3", "UNICEP": "unicep"}
METRICS = {"wait": ("wait", 10.0), "bsld300": ("bsld", 300.0), "bsld10": ("bsld", 10.0)}


@cache
def checked() -> dict[str, Any]:
    path = DATA.parent / "checks" / "ilos_lublin1.json"
    if not path.exists():
        pytest.skip("needs checks/ilos_lublin1.json beside the shared data")
    return dict(json.loads(path.read_text())["trace"])


@cache
def lublin() -> Any:
    return tracekit.read(shared("swf/lublin_256.swf"))


def ilos(row: dict[str, Any], metric: str) -> QueueProblem:
    objective, bound = METRICS[metric]
    size = Switches(procs=row.get("P", 256))
    return QueueProblem.from_trace(
        lublin(),
        row["start"],
        len(row["run"]),
        ages="ilos",
        switches=size,
        objective=objective,
        bound=bound,
        compat="ilos",
    )


@pytest.mark.parametrize("metric", METRICS)
def test_heuristics_and_bounds_are_those_of_ilos(metric: str) -> None:
    rows = [*checked()["N64"], *checked()["tiny"]["7"], *checked()["tiny"]["9"]]
    for row in rows:
        queue = ilos(row, metric)
        assert queue.job_id.tolist() == row["job_ids"]
        assert queue.age.tolist() == row["age"]
        for name, values in row["heur"].items():
            plain = name.removesuffix("_actual")
            order = queue.heuristic(NAMES[plain], "requested" if plain == name else "actual")
            assert queue.value(order) == pytest.approx(values[metric], rel=1e-9), (row["start"], name)
        assert lower_bound(queue.case("actual")) == pytest.approx(row["lb"][metric], rel=1e-9)
        known = row.get("best_order", row.get("opt_order"))[metric]
        assert queue.value(np.array(known)) == pytest.approx(row.get("best", row.get("opt"))[metric], rel=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_exact_solvers_find_the_optima_of_tiny_windows(metric: str) -> None:
    for jobs in ("7", "8", "9"):
        for row in checked()["tiny"][jobs][::5]:
            queue = ilos(row, metric)
            exhaustive = solve(queue, "exhaustive")
            bounded = solve(queue, "branch-and-bound", evaluations=100_000)
            for found in (exhaustive, bounded):
                assert found.value == pytest.approx(row["opt"][metric], rel=1e-9)
                assert found.optimal
            assert solve(queue, "anneal", evaluations=300).value >= row["opt"][metric] * (1 - 1e-9)


def test_search_comes_near_the_best_known_orders() -> None:
    gaps = {2000: [], 10_000: []}
    for row in checked()["N64"]:
        queue = ilos(row, "wait")
        for evaluations, found in gaps.items():
            solution = solve(queue, evaluations=evaluations, seed=1)
            assert solution.lower_bound <= solution.value * (1 + 1e-9)
            found.append(solution.value / row["best"]["wait"] - 1)
    assert np.mean(gaps[2000]) <= 0.04
    assert np.mean(gaps[10_000]) <= 0.02


@given(seed=st.integers(0, 10**6), jobs=st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_starts_equal_a_slow_evaluator(seed: int, jobs: int) -> None:
    rng = np.random.default_rng(seed)
    queue = random_queue(rng, jobs)
    order = rng.permutation(jobs)
    assert queue.starts(order).tolist() == slow_starts(queue, order).tolist()


@given(seed=st.integers(0, 10**6), jobs=st.integers(2, 60))
@settings(max_examples=60, deadline=None)
def test_a_changed_order_is_not_redone_from_its_start_and_costs_the_same(seed: int, jobs: int) -> None:
    rng = np.random.default_rng(seed)
    case = random_queue(rng, jobs, objective="bsld:0.7,wait:0.3").case("actual")
    room = room_for(case)
    begin(case, room)
    order = rng.permutation(jobs)
    cost_of(case, order, room, 0, np.inf, True)
    a, b = sorted(rng.integers(0, jobs, 2).tolist())
    order[a], order[b] = order[b], order[a]
    whole = order_cost(case, order)
    assert cost_of(case, order, room, a, np.inf, False) == pytest.approx(whole, rel=1e-12)
    assert cost_of(case, order, room, a, whole * (1 + 1e-9), False) == pytest.approx(whole, rel=1e-12)
    limited = cost_of(case, order, room, a, whole * 0.9, False)
    assert limited == np.inf or limited == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("goal", [*sorted(set(GOALS) & set(OBJECTIVES)), "bsld:0.5,wait:0.5", "bsld:1,utilization:2"])
@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_the_search_sees_the_objective_itself(goal: str, backfill: str) -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        queue = random_queue(rng, 12, objective=goal, backfill=backfill)
        queue = random_queue(rng, 12, objective=goal, backfill=backfill, estimate=queue.run, run=queue.run)
        orders = np.array([rng.permutation(12) for _ in range(5)])
        found = np.empty(5)
        exact = queue._case(queue.run, queue.run, queue.ends, queue.expected_ends)
        costs(exact, orders, room_for(exact), found)
        for order, cost in zip(orders, found, strict=True):
            assert cost == pytest.approx(queue.value(order), rel=1e-9)


@given(seed=st.integers(0, 10**6), jobs=st.integers(2, 25))
@settings(max_examples=40, deadline=None)
def test_easy_keeps_the_order_as_the_engine_does(seed: int, jobs: int) -> None:
    """The engine, given the order as priorities and all jobs submitted at once, makes the same schedule."""
    rng = np.random.default_rng(seed)
    total, run = int(rng.integers(4, 40)), rng.integers(0, 50, jobs).astype(np.float64)
    frame = pd.DataFrame(
        {
            "job_id": np.arange(1, jobs + 1),
            "submit_time": np.full(jobs, 5.0),
            "run_time": run,
            "req_time": run + rng.integers(0, 40, jobs),
            "req_procs": rng.integers(1, total + 1, jobs),
        }
    )
    trace = tracekit.Trace(frame, Machine(name="test", procs=total))
    order = rng.permutation(jobs)

    class Given:
        name = "given"

        def priority(self, waiting: Any, state: Any) -> Any:
            return np.argsort(order)[waiting].astype(np.float64)

    for backfill in ("none", "easy"):
        made = tracekit.simulate(trace, Given(), backfill=backfill)
        queue = QueueProblem.from_trace(trace, 0, jobs, backfill=backfill)
        assert (made.start - 5.0).tolist() == queue.starts(order).tolist()


@pytest.mark.parametrize("solver", ["none", "hill-climb", "anneal", "branch-and-bound"])
def test_solvers_keep_their_promises(solver: str) -> None:
    rng = np.random.default_rng(8)
    for jobs in (1, 2, 7, 30):
        queue = random_queue(rng, jobs)
        found = solve(queue, solver, evaluations=500, seed=3)
        again = solve(queue, solver, evaluations=500, seed=3)
        assert found.order.tolist() == again.order.tolist()
        assert sorted(found.order.tolist()) == list(range(jobs))
        assert found.evaluations <= 500
        assert found.value <= found.init_value * (1 + 1e-9)
        assert found.value >= found.lower_bound - 1e-9
        assert (np.diff(found.curve[:, 1]) <= 0).all()
        assert (np.diff(found.curve[:, 0]) >= 0).all()
        assert found.curve[-1, 1] == pytest.approx(found.value, rel=1e-9)


@pytest.mark.parametrize("solver", ["none", "hill-climb", "anneal", "branch-and-bound"])
def test_restarts_keep_to_the_budget_and_never_lose_the_best_order(solver: str) -> None:
    queue = QueueProblem.from_trace(tracekit.sample(), 200, 12, objective="bsld")
    once = solve(queue, solver, evaluations=40, restarts=0, seed=3)
    for restarts in (1, 3, 39):
        found = solve(queue, solver, evaluations=40, restarts=restarts, seed=3)
        again = solve(queue, solver, evaluations=40, restarts=restarts, seed=3)
        assert found.order.tolist() == again.order.tolist()
        assert found.evaluations <= max(40, once.evaluations)
        assert (np.diff(found.curve[:, 0]) > 0).all()
        assert (np.diff(found.curve[:, 1]) < 0).all()
        assert found.value == pytest.approx(found.curve[-1, 1])
        assert found.value <= found.init_value * (1 + 1e-12)
    with pytest.raises(UsageError, match="--restarts"):
        solve(queue, solver, evaluations=40, restarts=40)


def test_a_random_first_order_is_that_of_the_seed() -> None:
    queue = random_queue(np.random.default_rng(2), 12)
    one, same, other = (solve(queue, "none", init="random", seed=seed).order for seed in (1, 1, 2))
    assert one.tolist() == same.tolist() != other.tolist()
    assert sorted(one) == list(range(12))


def test_exhaustive_search_sees_every_order() -> None:
    queue = random_queue(np.random.default_rng(2), 6, backfill="easy", objective="bsld")
    found = solve(queue, "exhaustive", estimates="requested")
    case = queue.case("requested")
    best = min(order_cost(case, np.array(order)) for order in itertools.permutations(range(6)))
    assert found.evaluations == 720
    assert found.curve[-1, 1] == pytest.approx(best, rel=1e-12)


def test_with_requested_times_the_search_sees_no_run_times() -> None:
    rng = np.random.default_rng(5)
    queue = random_queue(rng, 20)
    other = random_queue(rng, 20)
    same = QueueProblem(**{**{n: getattr(queue, n) for n in queue.__dataclass_fields__}, "run": other.run})
    a, b = (solve(q, estimates="requested", evaluations=400, seed=1) for q in (queue, same))
    assert a.order.tolist() == b.order.tolist()
    assert a.curve.tolist() == b.curve.tolist()
    assert a.value != b.value


def test_a_busy_machine_comes_from_the_record_or_a_snapshot() -> None:
    trace = tracekit.sample()
    last = int(np.searchsorted(trace.column("submit_time"), 1_425_600))
    busy = QueueProblem.from_trace(trace, last - 20, 20, busy=True)
    empty = QueueProblem.from_trace(trace, last - 20, 20)
    assert len(busy.held) > 0
    assert len(empty.held) == 0
    order = np.arange(len(busy))
    assert busy.value(order) >= empty.value(order)
    snapshot = Snapshot.from_trace(trace, 1_425_600)
    queue = QueueProblem.from_snapshot(snapshot, objective="bsld")
    assert len(queue) == len(snapshot.waiting)
    assert queue.held.sum() == snapshot.running.size.sum()
    assert solve(queue, evaluations=500).value <= queue.value(queue.heuristic("fcfs", "actual"))


def test_bad_input_is_named() -> None:
    queue = random_queue(np.random.default_rng(1), 12)
    with pytest.raises(UsageError, match="exhaustive"):
        solve(queue, "exhaustive")
    with pytest.raises(UsageError, match="branch-and-bound"):
        solve(random_queue(np.random.default_rng(1), 5, backfill="easy"), "branch-and-bound")
    with pytest.raises(UsageError, match="--evaluations"):
        solve(queue, evaluations=0)
    with pytest.raises(UsageError, match="--restarts must be 0"):
        solve(queue, restarts=-1)
    for bound in (0.0, -5.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="bound"):
            dataclasses.replace(queue, bound=bound)
    with pytest.raises(UsageError, match="positions"):
        check_order([0, 0, 1], 3)
    with pytest.raises(TracekitError, match="solver"):
        SOLVERS.get("aneal")
    with pytest.raises(TracekitError, match="heuristic"):
        queue.heuristic("sfj", "actual")
    assert set(CANDIDATES) <= set(HEURISTICS)


# ---- search in a running simulation ----------------------------------------------------------------------------------


def test_forecasts_and_search_schedule_every_job_and_repeat_themselves() -> None:
    trace = tracekit.sample().head(300)
    for backfill in ("none", "easy"):
        fcfs = tracekit.simulate(trace, "fcfs", backfill=backfill)
        for policy in ("best-forecast", "search:evaluations=50", "search:objective=wait+evaluations=50"):
            made = tracekit.simulate(trace, policy, backfill=backfill)
            assert made.policy == policy
            assert made.start.tolist() == tracekit.simulate(trace, policy, backfill=backfill).start.tolist()
            assert made.metrics["mean_bsld"] <= fcfs.metrics["mean_bsld"]
            assert (made.start >= made.submit).all()


def test_a_policy_object_serves_many_simulations() -> None:
    """A policy that remembers things is made afresh for each simulation."""
    trace = tracekit.sample().head(200)
    policy = SearchPolicy(evaluations=30)
    first = tracekit.simulate(trace, policy).start
    tracekit.simulate(trace.head(120), policy)
    assert tracekit.simulate(trace, policy).start.tolist() == first.tolist()


def test_the_longest_wait_stays_near_the_guard() -> None:
    trace = tracekit.sample().head(600)
    fair = tracekit.simulate(trace, "fcfs", backfill="easy").wait.max()
    free, guarded = (
        tracekit.simulate(trace, SearchPolicy(evaluations=50, max_wait_guard=guard)).wait.max() for guard in (0.0, 1.5)
    )
    assert guarded <= 1.5 * 1.2 * fair  # by what was known on the way
    assert guarded <= max(free, 1.5 * 1.2 * fair)


def test_search_works_on_hosts_and_with_other_estimates() -> None:
    trace = tracekit.sample().head(150)
    cluster = completed(Machine(name="test", groups=(HostGroup(32, cores=8, name="n"),)), "test")
    made = tracekit.simulate(trace, "search:evaluations=20", cluster=cluster)
    assert made.hosts is not None
    assert len(made) + sum(made.rejected.values()) == 150
    assert len(tracekit.simulate(trace, "best-forecast", estimates="last-two")) == 150


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ("search:evaluation=5", "evaluations"),
        ("search:evaluations=many", "evaluations"),
        ("search:objective=bslt", "objective"),
        ("search:max_wait_guard=0.5", "max_wait_guard"),
        ("best-forecast:evaluations=5", "evaluations"),
        ("search:evaluations=-1", "evaluations"),
    ],
)
def test_wrong_options_of_search_are_named(policy: str, named: str) -> None:
    with pytest.raises(TracekitError, match=named):
        tracekit.simulate(tracekit.sample().head(20), policy)


# ---- the command -----------------------------------------------------------------------------------------------------


def test_order_prints_what_the_contract_says(run: Any, tmp_path: Any) -> None:
    trace = tmp_path / "t.swf"
    tracekit.write(tracekit.sample(), trace)
    status, out, _ = run("order", str(trace), "--window", "100:12", "--evaluations", "200", "--json")
    found = json.loads(out)
    assert status == 0
    keys = {"jobs", "ages", "order", "value", "init_value", "lower_bound", "optimal", "evaluations", "curve"}
    assert keys <= set(found)
    assert sorted(found["order"]) == sorted(found["jobs"])
    folder = tmp_path / "out"
    args = ("order", str(trace), "--window", "100:12", "--window", "200:12", "--solver", "anneal", "-o", str(folder))
    assert run(*args)[0] == 0
    assert {path.name for path in folder.iterdir()} == {"order.json", "order.csv", "order.png", "order.svg"}
    assert run(*args)[0] == 1  # is there already
    for wrong in (["--solver", "anneel"], ["--compat", "ilso"], ["--ages", "young"], ["--objective", "weight"]):
        status, out, err = run("order", str(trace), "--window", "100:12", *wrong)
        assert status == 2, (wrong, err)
        assert wrong[1] in err
        assert not out
    for wrong in (
        ["--window", "0:12x"],
        ["--evaluations", "0"],
        ["--window", "999999:5"],
        ["--ages", "ilos", "--busy"],
    ):
        assert run("order", str(trace), *(wrong if wrong[0] == "--window" else ["--window", "0:12", *wrong]))[0] in (
            1,
            2,
        )
