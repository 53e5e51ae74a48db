"""Search in a running simulation: its costs against slow Python, what it may know, its guard, where it can be used."""

from __future__ import annotations

import heapq
import json
import math
from typing import Any

import numpy as np
import pytest
from shared_data import DATA

import tracekit
from tracekit.errors import TracekitError
from tracekit.sim.orders.cases import Held, Waiting, case_of
from tracekit.sim.orders.evaluate import Case, begin, cost_of, room_for
from tracekit.sim.orders.expected import FIRST_SHARES, History, cost_per_second
from tracekit.sim.orders.later import Later
from tracekit.sim.orders.rolling import SearchPolicy
from tracekit.sim.orders.search import HILL_CLIMB, local_search
from tracekit.sim.policies.protocol import State
from tracekit.sim.setup import Setup
from tracekit.sim.switches import Switches

from .helpers import table_of, trace_of

# ---- costs -----------------------------------------------------------------------------------------------------------


def random_case(rng: np.random.Generator, jobs: int, **changes: Any) -> Case:
    total = int(rng.integers(4, 24))
    held = rng.integers(1, 3, int(rng.integers(0, 3)))
    ends = np.sort(rng.uniform(1, 60, len(held)))
    run = rng.uniform(1, 50, jobs)  # no two jobs end together
    waiting = Waiting(rng.integers(0, 30, jobs) * 1.0, run, run, rng.integers(1, total + 1, jobs), np.zeros(jobs, int))
    case = case_of("bsld", 10.0, waiting, Held(ends, ends, held), total, backfill=False)
    return case._replace(**changes)


def slow_cost(case: Case, order: Any) -> float:
    """The cost of an order, strictly in order, event by event with Python's heap."""
    running = list(zip(case.ends.tolist(), case.held.tolist(), strict=True))
    heapq.heapify(running)
    free, clock, cost = case.free, 0.0, 0.0
    since = [0.0] * len(case.later.size)

    def ends_next() -> None:
        nonlocal free, clock, cost
        end, size = heapq.heappop(running)
        until = max(clock, end)
        for k, (units, rate) in enumerate(zip(case.later.size, case.later.rate, strict=True)):
            if units <= free:
                since[k] = until
            elif units <= free + size:
                cost += 0.5 * rate * (until - since[k]) ** 2 * math.exp(-until / case.horizon)
                since[k] = until
        clock, free = until, free + size

    for job in order:
        while case.size[job] > free:
            ends_next()
        time = clock if math.isinf(case.horizon) else case.horizon * (1 - math.exp(-clock / case.horizon))
        cost += case.linear[job] * time + case.fixed[job]
        cost += max(case.least[job], case.rate[job] * time + case.offset[job])
        cost += case.late * max(clock - case.due[job], 0.0) ** 2
        free -= case.size[job]
        heapq.heappush(running, (clock + case.run[job], case.size[job]))
    while free < max(case.later.size, default=0):
        ends_next()
    return cost


def with_everything(rng: np.random.Generator, case: Case) -> Case:
    jobs, total = len(case.size), case.free + int(case.held.sum())
    later = Later(np.sort(rng.integers(1, total + 1, 3)), rng.uniform(0, 0.01, 3))
    return case._replace(due=rng.uniform(0, 80, jobs), late=0.01, horizon=float(rng.uniform(20, 200)), later=later)


@pytest.mark.parametrize("seed", range(8))
def test_due_times_horizon_and_later_jobs_cost_what_slow_python_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        case = with_everything(rng, random_case(rng, int(rng.integers(1, 30))))
        room, order = room_for(case), rng.permutation(len(case.size))
        begin(case, room)
        assert cost_of(case, order, room, 0, np.inf, False) == pytest.approx(slow_cost(case, order), rel=1e-9)


def test_a_search_that_redoes_suffixes_reports_the_cost_of_its_order() -> None:
    rng = np.random.default_rng(3)
    for _ in range(10):
        case = with_everything(rng, random_case(rng, 40))
        first, best, curve = np.arange(40), np.empty(40, np.int64), np.empty((400, 2))
        count = local_search(case, first, room_for(case), HILL_CLIMB, 400, np.uint64(1), best, curve)
        assert curve[count - 1, 1] == pytest.approx(slow_cost(case, best), rel=1e-9)
        assert slow_cost(case, best) <= slow_cost(case, np.arange(40)) * (1 + 1e-9)


def test_later_jobs_with_backfilling_by_hand() -> None:
    """One job of 4 of 4 units runs until 10, one waits for 6 s of 4 units: nothing fits until 10, then until 16."""
    held = Held(np.array([10.0]), np.array([10.0]), np.array([4]))
    waiting = Waiting(np.zeros(1), np.array([6.0]), np.array([6.0]), np.array([4]), np.zeros(1, int))
    for backfill in (False, True):
        case = case_of("wait", 10.0, waiting, held, 4, backfill=backfill)
        case = case._replace(later=Later(np.array([1]), np.array([0.5])))
        room = room_for(case)
        begin(case, room)
        # the job waits for 10 s; later ones come at 0.5 a second and wait for 5 s of 10 s, and for 3 s of 6 s
        assert cost_of(case, np.array([0]), room, 0, np.inf, False) == pytest.approx(10 + 0.5 * (50 + 18))


# ---- what is expected ------------------------------------------------------------------------------------------------


def history_of(run: list[float], estimate: list[float], user: list[int], now: float) -> tuple[History, State]:
    """Jobs that started at 0 on a machine of their own; the last one waits."""
    from tracekit.sim.jobs import prepare

    jobs = len(run)
    ready = prepare(table_of([0.0] * jobs, run, estimate, [1] * jobs, user, jobs), Switches())
    start = np.array([0.0] * (jobs - 1) + [np.nan])
    running = np.flatnonzero(start + ready.run > now)
    state = State(
        now, ready.table.submit, ready.estimate, ready.table.procs, ready.table.user, start,
        ready.table.position, 1.0, float(jobs), running, start[running] + ready.estimate[running],
    )  # fmt: skip
    history = History(Setup(ready, "none", Switches()))
    history.seen = np.arange(jobs - 1)
    history.look(np.array([jobs - 1]), state)
    return history, state


def test_before_anything_has_ended_shares_of_the_estimate_are_assumed() -> None:
    history, state = history_of([50.0, 99.0], [100.0, 100.0], [0, 0], now=10.0)
    found = history.expected(np.array([1]), state)
    assert found.left[0] == pytest.approx(100 * FIRST_SHARES.mean())
    assert found.inverse[0] == pytest.approx((1 / np.maximum(100 * FIRST_SHARES, 10)).mean())
    running = history.expected(np.array([0]), state)
    longer = FIRST_SHARES[100 * FIRST_SHARES > 10] * 100 - 10  # it has run for 10 s
    assert running.left[0] == pytest.approx(longer.mean())


def test_jobs_of_the_same_user_count_most_and_only_ended_ones_count() -> None:
    run, user = [20.0] * 10 + [90.0] * 10 + [1.0], [1] * 10 + [2] * 10
    of_one, of_two = (history_of(run, [100.0] * 21, [*user, whose], now=95.0) for whose in (1, 2))
    left = [history.expected(np.array([20]), state).left[0] for history, state in (of_one, of_two)]
    assert left[0] < 45 < left[1]
    early, state = history_of(run, [100.0] * 21, [*user, 1], now=5.0)  # nothing has ended: run times are unknown
    assert early.expected(np.array([20]), state).left[0] == pytest.approx(100 * FIRST_SHARES.mean())


def test_later_jobs_are_like_those_that_ended() -> None:
    history, state = history_of([10.0] * 20 + [5.0], [100.0] * 21, [0] * 21, now=1000.0)
    later = history.later("wait", state)
    assert later.size.tolist() == [1] * len(later.size)
    assert later.rate.sum() == pytest.approx(1 / 1000)  # one job has been seen in a queue, 1,000 s ago
    assert history.later("makespan", state).size.size == 0


def test_the_cost_of_a_second() -> None:
    run = np.array([5.0, 100.0])
    assert cost_per_second("bsld:0.5,wait:2", run, 10.0).tolist() == pytest.approx([2.05, 2.005])
    assert cost_per_second("utilization", run, 10.0).tolist() == [0.0, 0.0]


# ---- decisions -------------------------------------------------------------------------------------------------------


def random_trace(seed: int, jobs: int = 120, load: float = 1.1) -> tracekit.Trace:
    """Jobs with estimates of which they use a share, at a load above 1 for a while."""
    rng = np.random.default_rng(seed)
    run = np.round(np.exp(rng.normal(5, 1.5, jobs))) + 1
    limit = np.round(run * rng.uniform(1, 8, jobs))
    size = np.minimum(2 ** rng.integers(0, 6, jobs), 32)
    gap = rng.exponential((run * size).sum() / 32 / load / jobs, jobs)
    rows = zip(np.round(np.cumsum(gap)), run, limit, size, strict=True)
    return trace_of(*rows, procs=32, user=[f"u{k}" for k in rng.integers(0, 8, jobs)])


@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_decisions_do_not_depend_on_what_is_not_known_yet(backfill: str) -> None:
    """Two traces that differ in the run times of some jobs have the same starts until the first of these ends."""
    trace = random_trace(1)
    first = tracekit.simulate(trace, "search:evaluations=60", backfill=backfill)
    moment = float(np.quantile(first.start, 0.5))
    open_then = first.end > moment
    run = trace.column("run_time").copy()
    limit = trace.column("req_time")
    run[open_then] = np.where(first.start[open_then] > moment, limit[open_then], run[open_then])
    run[open_then] = np.maximum(run[open_then], np.minimum(limit[open_then], run[open_then] + 1))
    changed = tracekit.Trace(trace.jobs.assign(run_time=run), trace.machine)
    again = tracekit.simulate(changed, "search:evaluations=60", backfill=backfill)
    assert (run != trace.column("run_time")).sum() > 20
    before = first.start <= moment
    assert again.start[before].tolist() == first.start[before].tolist()


@pytest.mark.parametrize("policy", ["search:evaluations=60", "best-forecast:forecast=learnt", "search:objective=wait"])
def test_the_same_seed_gives_the_same_bytes(policy: str, run: Any, tmp_path: Any) -> None:
    trace = tmp_path / "t.swf"
    tracekit.write(random_trace(2, 80), trace)
    texts = []
    for name in ("a", "b"):
        assert run("simulate", str(trace), "--policy", policy, "--seed", "3", "--out", str(tmp_path / name))[0] == 0
        texts.append(next((tmp_path / name).rglob("schedule.csv")).read_bytes())
    assert texts[0] == texts[1]


@pytest.mark.parametrize("backfill", ["easy", "none"])
@pytest.mark.parametrize("multiple", [2.0, 4.0])
def test_the_longest_wait_is_limited_or_the_result_says_not(backfill: str, multiple: float) -> None:
    kept = 0
    for seed in range(6):
        trace = random_trace(seed)
        policy = SearchPolicy(evaluations=60, max_wait_guard=multiple)
        made = tracekit.simulate(trace, policy, backfill=backfill)
        fair = tracekit.simulate(trace, "fcfs", backfill="easy").wait.max()
        note = made.metrics["max_wait_guard"]
        assert note["fcfs_easy_longest_wait_s"] == pytest.approx(fair)
        assert note["kept"] == (made.wait.max() <= multiple * fair)
        if backfill == "none":
            plain = tracekit.simulate(trace, "fcfs", backfill="none").wait.max()
            assert note["fcfs_longest_wait_s"] == pytest.approx(plain)
            kept += note["kept"] or plain > multiple * fair
        else:
            kept += note["kept"]
    assert kept == 6


def test_the_guard_shortens_the_longest_wait() -> None:
    trace = random_trace(4, 200)
    free = tracekit.simulate(trace, SearchPolicy(evaluations=60, max_wait_guard=0.0))
    tight = tracekit.simulate(trace, SearchPolicy(evaluations=60, max_wait_guard=1.0))
    assert "max_wait_guard" not in free.metrics
    assert tight.wait.max() < free.wait.max()


# ---- where it can be used --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "switches",
    [
        {"backfill": "easy-sjf"},
        {"backfill": "conservative"},
        {"estimates": "last-two"},
        {"predict": "last-two"},
        {"predict": "last-two", "predict_for": "both"},
        {"estimates": "actual"},
        {"cluster": "cooley", "power": "cpu-node", "sleep_after": 60.0},
        {"interval": 60.0},
        {"outages": ((500.0, 900.0, 8.0),)},
    ],
    ids=str,
)
def test_search_works_with_every_backfilling_and_prediction(switches: dict[str, Any]) -> None:
    trace = random_trace(5, 60)
    made = tracekit.simulate(trace, "search:evaluations=20", **switches)
    assert np.isfinite(made.start).all()
    assert (made.start >= made.submit).all()


def test_search_is_a_policy_of_every_command(run: Any, tmp_path: Any) -> None:
    trace = tmp_path / "t.swf"
    tracekit.write(random_trace(6, 60), trace)
    search = "search:evaluations=20"
    shaken = ("--load", "0.8", "--shake", "2", "-o", str(tmp_path / "curves"), "--json")
    status, out, _ = run("sweep", str(trace), "--policy", search, *shaken)
    assert status == 0
    assert search in out
    both = ("--policy", f"fcfs,{search}", "--windows", "2", "--jobs", "40", "--json")
    status, out, _ = run("simulate", str(trace), *both)
    assert status == 0
    assert search in json.dumps(json.loads(out))
    assert run("simulate", str(trace), "--policy", search, "--out", str(tmp_path / "o"))[0] == 0
    made = next((tmp_path / "o").rglob("schedule.csv"))
    status, out, _ = run("explain", str(made), str(trace), "--job", "30")
    assert status == 0
    assert "30" in out


def test_unknown_forecasts_are_named() -> None:
    with pytest.raises(TracekitError, match="learnt"):
        tracekit.simulate(random_trace(1, 10), "search:forecast=learned")


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "swf").exists(), reason="needs the shared traces")
def test_search_beats_heuristics_on_a_log() -> None:
    trace = tracekit.read(DATA / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz")
    found = tracekit.compare(trace, ["search", "saf", "f1", "best-forecast"], "none", 6, seed=1).table
    values = found.set_index("policy").mean_bsld
    assert values["search"] == values.min()
