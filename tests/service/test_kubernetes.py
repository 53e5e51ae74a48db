"""The scheduler extender: quantities, requests of pods, both variants of nodes, errors as the protocol has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tracekit.errors import TracekitError
from tracekit.service.host_choice import Baseline
from tracekit.service.kubernetes import Extender
from tracekit.service.protocol import Refused
from tracekit.service.quantities import pod_request, quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", 0.5),
        ("2", 2),
        (2, 2),
        (0.5, 0.5),
        ("1Gi", 2**30),
        ("1e3", 1000),
        ("1E3", 1000),
        ("128974848", 128974848),
        ("129M", 129e6),
        ("123Mi", 123 * 2**20),
        ("0.1", 0.1),
        (".5", 0.5),
        ("5.", 5),
        ("+2", 2),
        ("1k", 1000),
        ("100u", 1e-4),
        ("100n", 1e-7),
        ("2Ti", 2 * 2**40),
        ("1E", 1e18),
        ("0", 0),
    ],
)
def test_quantities(text: Any, value: float) -> None:
    assert quantity(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["", "x", "1GB", "1 G", "-1", "1e", "1Ki1", None, [], True, "1e999", "NaN", "٣", "9" * 200]
)
def test_what_is_not_a_quantity(text: Any) -> None:
    with pytest.raises(TracekitError):
        quantity(text)


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": one} for one in containers], **spec}}


def test_requests_of_a_pod() -> None:
    two = pod(
        {"requests": {"cpu": "500m", "memory": "1Gi"}}, {"requests": {"cpu": 1}, "limits": {"nvidia.com/gpu": "2"}}
    )
    assert pod_request(two).tolist() == [1.5, 2**20, 2]
    init = pod({"requests": {"cpu": "1"}}, initContainers=[{"resources": {"requests": {"cpu": "4", "memory": "1Ki"}}}])
    assert pod_request(init).tolist() == [4, 1, 0]
    side = [
        {"resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"},
        {"resources": {"requests": {"cpu": "3"}}},
    ]
    assert pod_request(pod({"requests": {"cpu": "2"}}, initContainers=side)).tolist() == [4, 0, 0]
    assert pod_request(pod({"requests": {"cpu": "1"}}, overhead={"cpu": "250m"})).tolist() == [1.25, 0, 0]
    assert pod_request(pod({"requests": {"cpu": "1"}, "limits": {"cpu": "8"}})).tolist() == [1, 0, 0]
    assert pod_request(pod({})).tolist() == [0, 0, 0]


def node(name: str, cpu: Any, memory: str, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110", **more}},
    }


NODES = [
    node("n1", "16", "64Gi"),
    node("n2", 4, "8Gi"),
    node("n3", "900m", "64Gi"),
    node("g", "16", "64Gi", **{"nvidia.com/gpu": "2"}),
]
POD = pod({"requests": {"cpu": "1", "memory": "2Gi"}})


def extender(policy: str = "best-fit", **files: Any) -> Extender:
    made = Extender(Baseline(policy), policy, **files)
    made.prepare()
    return made


def send(data: Any) -> bytes:
    return json.dumps(data).encode()


def test_filter_and_prioritize_with_nodes() -> None:
    asked = {"Pod": POD, "Nodes": {"kind": "NodeList", "items": NODES}, "NodeNames": None}
    found = extender().filter(send(asked))
    assert [one["metadata"]["name"] for one in found["Nodes"]["items"]] == ["n1", "n2", "g"]
    assert found["Nodes"]["kind"] == "NodeList"
    assert found["Nodes"]["items"][0] == NODES[0]
    assert found["NodeNames"] is None
    assert found["Error"] == ""
    assert {**found["FailedNodes"], **found["FailedAndUnresolvableNodes"]} == {"n3": "insufficient cpu"}
    scores = {row["Host"]: row["Score"] for row in extender().prioritize(send(asked))}
    assert scores["n2"] == 10
    assert scores["n3"] == 0
    assert all(type(score) is int and 0 <= score <= 10 for score in scores.values())
    assert set(scores) == {"n1", "n2", "n3", "g"}


def test_keys_match_in_any_case() -> None:
    low = {"pod": POD, "nodes": {"Items": NODES}}
    assert len(extender().filter(send(low))["Nodes"]["items"]) == 3
    names = {"pod": POD, "nodenames": ["a", "b"]}
    assert extender().filter(send(names))["NodeNames"] == ["a", "b"]
    assert extender().prioritize(send(names)) == [{"Host": "a", "Score": 0}, {"Host": "b", "Score": 0}]


def test_what_runs_where_comes_from_kubectls_lists(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.json", tmp_path / "pods.json"
    nodes.write_text(json.dumps({"items": NODES}))
    there = pod({"requests": {"cpu": "3500m"}}, nodeName="n2") | {"status": {"phase": "Running"}}
    over = pod({"requests": {"cpu": "16"}}, nodeName="n1") | {"status": {"phase": "Succeeded"}}
    pods.write_text(json.dumps({"items": [there, over, pod({"requests": {"cpu": "2"}})]}))
    made = extender("worst-fit", nodes=nodes, pods=pods)
    asked = send({"Pod": POD, "NodeNames": ["n1", "n2", "n9"]})
    found = made.filter(asked)
    assert found["NodeNames"] == ["n1", "n9"]
    assert found["FailedNodes"] == {"n2": "insufficient cpu"}
    assert [row["Score"] for row in made.prioritize(asked)] == [10, 0, 0]
    pods.write_text('{"items": []}   ')
    assert made.filter(asked)["NodeNames"] == ["n1", "n2", "n9"]
    pods.write_text("half")  # a file that is being written: the last state stays
    assert made.filter(asked)["NodeNames"] == ["n1", "n2", "n9"]
    with pytest.raises(TracekitError):
        extender(pods=tmp_path / "missing.json")


BAD = [
    b"",
    b"[]",
    b"{",
    b"\xff",
    b"[" * 100_000,
    send({}),
    send({"Pod": None, "NodeNames": []}),
    send({"Pod": POD}),
    send({"Pod": {}, "NodeNames": ["a"]}),
    send({"Pod": POD, "NodeNames": [1]}),
    send({"Pod": POD, "NodeNames": ["a", "a"]}),
    send({"Pod": POD, "Nodes": {"items": [1]}}),
    send({"Pod": POD, "Nodes": {"items": [{}]}}),
    send({"Pod": POD, "Nodes": 5}),
    send({"Pod": pod({"requests": {"cpu": "lots"}}), "NodeNames": ["a"]}),
    send({"Pod": pod({"requests": 5}), "NodeNames": ["a"]}),
    send({"Pod": pod({"requests": {"cpu": "-1"}}), "NodeNames": ["a"]}),
    send({"Pod": {"spec": {"containers": 5}}, "NodeNames": ["a"]}),
    send({"Pod": POD, "Nodes": {"items": [node("x", "NaN", "1")]}}),
    send({"Pod": POD, "NodeNames": [f"n{i}" for i in range(100_000)]}),
]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_errors_are_answers_of_filter_and_refusals_of_prioritize(body: bytes) -> None:
    found = extender().filter(body)
    assert found["Error"]
    assert "\n" not in found["Error"]
    with pytest.raises(Refused) as refused:
        extender().prioritize(body)
    assert 400 <= refused.value.status < 500


def test_no_nodes() -> None:
    assert extender().filter(send({"Pod": POD, "NodeNames": []}))["NodeNames"] == []
    assert extender().prioritize(send({"Pod": POD, "Nodes": {"items": None}})) == []
