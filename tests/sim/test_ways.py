"""RLTune's ways against its own code's, case by case."""

import json

import pytest
from shared_data import DATA

from tracekit.sim.hosts.ways import by_defrag, by_load_balance, ways


def cases():
    path = DATA.parent / "checks" / "rltune_allocations.json"
    return json.loads(path.read_text())["cases"] if path.is_file() else []


def pairs(assignment):
    return None if assignment is None else tuple(tuple(part) for part in assignment)


@pytest.mark.skipif(not cases(), reason="the checks of published systems are not here")
def test_ways_scores_orders_and_the_greedy_choice_are_those_of_rltune():
    for case in cases():
        found = ways([tuple(part) for part in case["free"]], case["request"], case["gpus_per_node"])
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


def test_ways_by_hand():
    found = ways([(1, 8), (2, 8)], 12, 8)
    assert [w.assignment for w in found.tier1] == [((1, 8), (2, 4)), ((1, 7), (2, 5)), ((1, 6), (2, 6))]
    assert found.greedy == ((1, 6), (2, 6))
    assert ways([(1, 4), (2, 4)], 8, 8).tier1 == ()
    assert ways([(1, 4), (2, 4)], 8, 8).tier2[0].assignment == ((1, 4), (2, 4))
