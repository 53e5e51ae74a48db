"""Which host: named rules as in the simulator, requests checked field by field, vectors of the LSF plugin."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tracekit
from generators.eda import draw
from tracekit.cli import main
from tracekit.clusters import host_names
from tracekit.errors import UnknownName
from tracekit.service.host_choice import BASELINES, Baseline, HostJobs, HostTable, decide
from tracekit.service.host_decide import HostDecider
from tracekit.service.protocol import Refused

HOSTS: list[dict[str, Any]] = [
    {"name": "a", "total_cores": 64, "free_cores": 10, "total_memory": 1000, "free_memory": 900},
    {"name": "b", "total_cores": 32, "free_cores": 32, "total_memory": 1000, "free_memory": 100},
    {"name": "c", "total_cores": 16, "free_cores": 8, "total_memory": 1000, "free_memory": 1000},
]


def ask(policy: str, data: Any) -> dict[str, Any]:
    made: dict[str, Any] = HostDecider(Baseline(policy), policy).select(json.dumps(data).encode())
    return made


@pytest.mark.parametrize(
    ("policy", "host"),
    [
        ("first-fit", "a"),
        ("first-available", "a"),
        ("best-fit", "c"),
        ("worst-fit", "b"),
        ("least-loaded", "b"),
        ("dot-product", "c"),
        ("lsf-order", "b"),
    ],
)
def test_the_named_rules(policy: str, host: str) -> None:
    answer = ask(policy, {"hosts": HOSTS, "job": {"id": "x", "cores": 4}})
    assert answer["host"] == host
    assert len(answer["scores"]) == 3
    assert ask(policy, {"hosts": HOSTS, "job": {"cores": 4, "memory": 950}})["host"] == "c"
    assert ask(policy, {"hosts": HOSTS, "job": {"cores": 4, "gpus": 1}})["host"] is None


def test_round_robin_goes_on_and_random_takes_any() -> None:
    decider = HostDecider(Baseline("round-robin"), "round-robin")
    body = json.dumps({"hosts": HOSTS, "job": {"cores": 1}}).encode()
    assert [decider.select(body)["host"] for _ in range(4)] == ["a", "b", "c", "a"]
    decider = HostDecider(Baseline("random"), "random")
    assert {decider.select(body)["host"] for _ in range(40)} == {"a", "b", "c"}


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(UnknownName):
        Baseline("bestfit")
    assert main(["serve", "--policy", "bestfit"]) == 2
    assert main(["serve"]) == 2
    assert main(["serve", "default", "--protocol", "soap"]) == 2
    assert main(["serve", "--policy", "best-fit", "--nodes", "x"]) == 2


def test_a_cycle_takes_what_it_places() -> None:
    jobs = [{"id": i, "cores": 8} for i in range(7)] + [{"id": "big", "cores": 100}]
    answer = ask("first-fit", {"hosts": HOSTS, "jobs": jobs})
    assert [entry["host"] for entry in answer["decisions"]] == ["a", "b", "b", "b", "b", "c", None, None]
    assert answer["notes"]
    assert "scores" not in answer["decisions"][0]
    scored = ask("first-fit", {"hosts": HOSTS, "jobs": jobs[:1], "scores": True})
    assert len(scored["decisions"][0]["scores"]) == 3


@pytest.mark.parametrize("rule", [name for name in BASELINES if name not in ("random",)])
def test_rules_choose_as_the_simulators_allocators_do(rule: str) -> None:
    machine, trace = draw(3, jobs=300, hosts=8, load=1.0)
    result = tracekit.simulate(trace, "fcfs", "none", cluster=machine, allocate=rule)
    names = host_names(machine)
    size = np.array([[g.cores, g.memory, 0] for g in machine.groups for _ in range(g.count)], float)
    table, scorer = HostTable(names, size.copy(), size), Baseline(rule)
    need = np.column_stack(
        [trace.column("req_procs"), trace.column("req_mem") * trace.column("req_procs"), np.zeros(len(trace))]
    )[result.position]
    ends: list[tuple[float, int, int]] = []
    hosts = result.schedule()["hosts"].tolist()
    for job in np.lexsort((np.arange(len(result)), result.start)).tolist():
        for end in [e for e in ends if e[0] <= result.start[job]]:
            table.free[end[2]] += need[end[1]]
            ends.remove(end)
        one = HostJobs([job], need[job : job + 1], np.full(1, np.nan), np.full(1, np.nan))
        found = decide(table, one, scorer)[0].host
        assert hosts[job].startswith(f"{names[found]}:"), (rule, job)
        ends.append((result.end[job], job, found))


BAD = [
    {},
    {"hosts": []},
    {"hosts": HOSTS},
    {"hosts": HOSTS, "job": {"cores": 1}, "jobs": []},
    {"hosts": HOSTS, "job": 5},
    {"hosts": HOSTS, "job": {}},
    {"hosts": HOSTS, "job": {"cores": -1}},
    {"hosts": HOSTS, "job": {"cores": "4"}},
    {"hosts": HOSTS, "job": {"cores": True}},
    {"hosts": HOSTS, "job": {"cores": float("nan")}},
    {"hosts": HOSTS, "job": {"cores": float("inf")}},
    {"hosts": HOSTS, "job": {"cores": 10**400}},
    {"hosts": HOSTS, "job": {"cores": 1, "id": []}},
    {"hosts": HOSTS, "job": {"cores": 1}, "now": "x"},
    {"hosts": HOSTS, "jobs": [{"cores": 1, "id": 1}, {"cores": 1, "id": 1}]},
    {"hosts": [*HOSTS, HOSTS[0]], "job": {"cores": 1}},
    {"hosts": [{"name": "a"}], "job": {"cores": 1}},
    {"hosts": [{"free_cores": 1}], "job": {"cores": 1}},
    {"hosts": [{"name": 1, "free_cores": 1}], "job": {"cores": 1}},
    {"hosts": [{"name": "a", "total_cores": 1, "free_cores": 2}], "job": {"cores": 1}},
    {"hosts": [{"name": "a", "free_cores": float("nan")}], "job": {"cores": 1}},
    {"hosts": [{"name": "a", "free_cores": 1, "free_memory": float("inf")}], "job": {"cores": 1}},
    {"hosts": [{"name": "a", "free_cores": 1, "free_memory": "1G"}], "job": {"cores": 1}},
    {"hosts": [{"name": "a", "free_cores": 1, "running": 3}], "job": {"cores": 1}},
    {"hosts": [{"name": "a", "free_cores": 1, "running": [{"cores": 1}]}], "job": {"cores": 1}},
    {"hosts": [{"name": f"h{i}", "free_cores": 1} for i in range(60_000)], "job": {"cores": 1}},
    {"hosts": [{"name": f"h{i}", "free_cores": 1} for i in range(2000)], "jobs": [{"cores": 1}] * 15_000},
    {"input_vector": 3},
    {"input_vector": []},
    {"input_vector": [1.0] * 11},
    {"input_vector": ["1"] * 12},
    {"input_vector": [float("nan")] * 12},
    {"input_vector": [10**400] * 12},
    {"input_vector": [1.0] * 12, "layout": "4h2"},
    {"input_vector": [1.0] * 12, "layout": "x"},
]


@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
def test_bad_requests_are_refused_with_the_field(data: Any) -> None:
    with pytest.raises(Refused) as refused:
        ask("best-fit", data)
    assert 400 <= refused.value.status < 500
    assert "\n" not in refused.value.reason


@pytest.mark.parametrize("rule", BASELINES)
def test_hosts_without_cores_and_without_limits(rule: str) -> None:
    hosts = [{"name": "none", "total_cores": 0, "free_cores": 0}, {"name": "some", "free_cores": 3}]
    assert ask(rule, {"hosts": hosts, "job": {"cores": 1}})["host"] == "some"
    assert ask(rule, {"hosts": hosts[:1], "job": {"cores": 1}})["host"] is None
    assert ask(rule, {"hosts": hosts, "job": {"cores": 0}})["host"] in ("none", "some")


def test_vectors_of_both_layouts() -> None:
    head = [0.5, 0.5, 0.2, 0.9, 0.05, 0.9, 0.9, 0.9, 0.1, 0.1, 0, 0, 0, 0, 0, 0]
    assert ask("worst-fit", {"input_vector": head})["scores"] == [
        pytest.approx(2 / 3, abs=1e-5),
        pytest.approx(1 / 3, abs=1e-5),
        0,
        1,
    ]
    old = [0.5, 0.5, 1, 1, 0.0, 0.0, 0.5, 0.5, 0.1, 0.1]  # 4·2 + 2 = 2·1 + 8
    assert len(ask("first-fit", {"input_vector": old, "layout": "4h2"})["scores"]) == 2
    assert len(ask("first-fit", {"input_vector": old})["scores"]) == 1
    assert ask("first-available", {"input_vector": head})["scores"][0] == 1
