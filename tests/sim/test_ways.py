"""RLTune's ways against its own code's, case by case; and the compiled choice against the ways."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared_data import DATA

import tracekit
from tracekit.clusters import completed
from tracekit.machine import HostGroup, Machine
from tracekit.sim.hosts.demand import demand_of
from tracekit.sim.hosts.model import HostModel
from tracekit.sim.hosts.operations import FITS, TAKE, do
from tracekit.sim.hosts.state import build_tree, parts_of
from tracekit.sim.hosts.ways import by_defrag, by_load_balance, candidates, candidates_of, ways
from tracekit.trace import Trace

RULES = ("lexicographic", "defrag", "load-balance", "tiers")


def cases():
    path = DATA.parent / "checks" / "rltune_allocations.json"
    return json.loads(path.read_text())["cases"] if path.is_file() else []


def pairs(assignment):
    return None if assignment is None else tuple(tuple(part) for part in assignment)


def trace_of(request):
    table = {"job_id": [1], "submit_time": [0.0], "run_time": [1.0], "req_gpus": [float(request)]}
    return Trace(pd.DataFrame(table), Machine())


def compiled_choice(allocate, free, request, gpus, **options):
    """Return where the compiled code places a job of so many GPUs, or None; hosts without free GPUs are full."""
    hosts = max(host for host, _ in free) + 1
    cluster = completed(Machine(name="t", groups=(HostGroup(hosts, gpus=gpus, name="n"),)), "t")
    demand = demand_of(trace_of(request), cluster)
    if demand.reason[0]:
        return None
    model = HostModel(demand, allocate, **options)
    one = model.idle_hosts(demand, 0)
    parts = parts_of(one.data, model._shapes(1))
    left = dict(free)
    cells = parts.free.reshape(hosts, -1)
    for host in range(hosts):
        cells[host, 2:] = [1000 if d < left.get(host, 0) else 0 for d in range(gpus)]
    build_tree(one.data, parts)
    data, real = one.data.ctypes.data, one.real.ctypes.data
    if not do.ctypes(data, real, FITS, 0, data, data):
        return None
    do.ctypes(data, real, TAKE, 0, data, data)
    taken = np.array([left.get(h, 0) for h in range(hosts)]) - (cells[:, 2:] >= 1000).sum(axis=1)
    return tuple((h, int(n)) for h, n in enumerate(taken) if n)


def expected_choice(allocate, free, request, gpus):
    """Return the same by the definition: tier 1 first, then tier 2; a job that one host can take stays on one."""
    found = ways(free, request, gpus)
    order = {"load-balance": by_load_balance, "lexicographic": lambda w: sorted(w, key=lambda way: way.assignment)}
    tiers = [order.get(allocate, by_defrag)(tier) for tier in (found.tier1, found.tier2)]
    if request <= gpus:
        tiers[1] = []
    if allocate == "tiers" and all(tiers) and tiers[1][0].frag_delta < tiers[0][0].frag_delta:
        tiers.reverse()
    return next((tier[0].assignment for tier in tiers if tier), None)


@pytest.mark.skipif(not cases(), reason="the checks of published systems are not here")
def test_ways_scores_orders_and_the_greedy_choice_are_those_of_rltune():
    for case in cases():
        free = [tuple(part) for part in case["free"]]
        found = ways(free, case["request"], case["gpus_per_node"])
        for ours, theirs in ((found.tier1, case["tier1"]), (found.tier2, case["tier2"])):
            scores = {w.assignment: (w.frag_delta, w.waste_delta, pytest.approx(w.lb_delta, abs=1e-12)) for w in ours}
            listed = {pairs(w["assignment"]): (w["frag_delta"], w["waste_delta"], w["lb_delta"]) for w in theirs}
            assert scores == listed
        assert [w.assignment for w in by_defrag(found.tier1)] == [pairs(a) for a in case["tier1_defrag_order"]]
        assert [w.assignment for w in by_load_balance(found.tier1)] == [pairs(a) for a in case["tier1_lb_order"]]
        for order, first in ((by_defrag, "tier2_defrag_first"), (by_load_balance, "tier2_lb_first")):
            best = order(found.tier2)
            assert (best[0].assignment if best else None) == pairs(case[first])
        assert found.greedy == pairs(case["greedy_lex"])
        named = candidates(free, case["request"], case["gpus_per_node"])
        assert {n: w.assignment for n, w in named.items()} == {w["label"]: pairs(w["assignment"]) for w in case["ways"]}


@pytest.mark.skipif(not cases(), reason="the checks of published systems are not here")
def test_the_compiled_choice_is_the_first_of_rltune_s_order():
    orders = {"lexicographic": "greedy_lex", "defrag": "tier1_defrag_order", "load-balance": "tier1_lb_order"}
    for case in cases():
        free, gpus = [tuple(part) for part in case["free"]], case["gpus_per_node"]
        for rule, key in orders.items():
            first = case[key] if rule == "lexicographic" else next(iter(case[key]), None)
            assert compiled_choice(rule, free, case["request"], gpus, tier1_only=True) == pairs(first), (rule, case)
        for rule, key in (("defrag", "tier2_defrag_first"), ("load-balance", "tier2_lb_first")):
            if not case["tier1"] and case["request"] > gpus:
                assert compiled_choice(rule, free, case["request"], gpus) == pairs(case[key]), (rule, case)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_the_compiled_choice_is_the_first_way(data):
    gpus = data.draw(st.sampled_from([2, 3, 4, 6, 8]))
    free = data.draw(st.lists(st.integers(0, gpus), min_size=1, max_size=7))
    free = [(h, left) for h, left in enumerate(free) if left]
    request = data.draw(st.integers(1, 3 * gpus + 3))
    if free:
        for rule in RULES:
            assert compiled_choice(rule, free, request, gpus) == expected_choice(rule, free, request, gpus), rule


def test_ways_by_hand():
    found = ways([(1, 8), (2, 8)], 12, 8)
    assert [w.assignment for w in found.tier1] == [((1, 8), (2, 4)), ((1, 7), (2, 5)), ((1, 6), (2, 6))]
    assert found.greedy == ((1, 6), (2, 6))
    assert ways([(1, 4), (2, 4)], 8, 8).tier1 == ()
    assert ways([(1, 4), (2, 4)], 8, 8).tier2[0].assignment == ((1, 4), (2, 4))


def test_tier_1_only_waits_where_tier_2_would_start():
    free = [(0, 4), (1, 4), (2, 4)]
    for rule in RULES:
        assert compiled_choice(rule, free, 12, 8) == ((0, 4), (1, 4), (2, 4))
        assert compiled_choice(rule, free, 12, 8, tier1_only=True) is None


def test_tiers_takes_one_host_more_where_that_leaves_fewer_partly_used():
    free = [(0, 8), (1, 8), (2, 4), (3, 4)]
    assert compiled_choice("defrag", free, 16, 8) == ((0, 8), (1, 8))
    assert compiled_choice("tiers", free, 16, 8) == ((0, 8), (2, 4), (3, 4))


class FirstCandidate:
    """Takes RLTune's first candidate, in Python."""

    name = "first-candidate"
    tiered = True

    def choose(self, hosts, /):
        first = next(iter(candidates_of(hosts).values())).assignment
        return first if hosts.spreads else first[0][0]


@pytest.mark.parametrize(("preset", "pools"), [("rltune-helios", ["0", "1"]), ("rltune-alibaba", ["MISC", "P100"])])
def test_candidates_of_a_snapshot_give_the_compiled_schedule(preset, pools):
    """The first candidate is defrag's first way."""
    rng = np.random.default_rng(1)
    size = rng.integers(1, 30, 150).astype(float)
    table = {"job_id": np.arange(1, 151), "submit_time": np.sort(rng.integers(0, 4000, 150)).astype(float)}
    table |= {"run_time": rng.integers(1, 900, 150).astype(float), "req_gpus": size}
    trace = Trace(pd.DataFrame(table | {"pool": pd.Categorical(rng.choice(pools, 150), pools)}), Machine())
    compiled, asked = (
        tracekit.simulate(trace, "fcfs", "none", cluster=preset, allocate=rule) for rule in ("defrag", FirstCandidate())
    )
    np.testing.assert_array_equal(compiled.start, asked.start)
    assert list(compiled.hosts) == list(asked.hosts)
    assert max(text.count("+") for text in compiled.hosts) >= 3
