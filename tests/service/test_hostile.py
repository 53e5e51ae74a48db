"""Hostile requests against the running service: always JSON with 4xx (or the protocol's way), and it stays alive."""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared_data import ROOT

from tracekit.service.host_choice import Baseline
from tracekit.service.host_decide import HostDecider
from tracekit.service.http import Service
from tracekit.service.kubernetes import Extender

GOOD = {
    "version": 1,
    "kind": "pick-host",
    "now": 10,
    "hosts": [
        {
            "name": "a",
            "total_cores": 8,
            "free_cores": 4,
            "total_memory": 100,
            "free_memory": 50,
            "total_gpus": 1,
            "free_gpus": 1,
        },
        {"name": "b", "free_cores": 4, "running": [{"cores": 2, "ends": 30}]},
    ],
    "jobs": [{"id": 1, "cores": 2, "memory": 10, "gpus": 0, "estimate": 60, "wait": 5}],
}
POD = {
    "Pod": {
        "spec": {
            "containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
            "initContainers": [{"resources": {"requests": {"cpu": "1"}}}],
        }
    },
    "Nodes": {"items": [{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}]},
    "NodeNames": None,
}


def serving(decider: Any) -> Iterator[Service]:
    service = Service(decider)
    thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield service
    service.shutdown()
    service.server_close()
    thread.join()


@pytest.fixture(scope="module")
def hosts() -> Iterator[Service]:
    yield from serving(HostDecider(Baseline("best-fit"), "best-fit"))


@pytest.fixture(scope="module")
def pods() -> Iterator[Service]:
    yield from serving(Extender(Baseline("best-fit"), "best-fit"))


def post(service: Service, path: str, body: bytes) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", service.server_address[1], timeout=20)
    try:
        connection.request("POST", path, body=body, headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def check(path: str, status: int, found: Any) -> None:
    if path == "/filter":
        assert status == 200
        assert isinstance(found["Error"], str)
    elif status == 200:
        assert isinstance(found, list) if path == "/prioritize" else isinstance(found, dict)
    else:
        assert 400 <= status < 500, found
        assert "\n" not in found["error"]


PATHS = ("/v1/decide", "/select_host", "/filter", "/prioritize")
HOSTILE = [
    b"",
    b"null",
    b"[]",
    b"0",
    b'"x"',
    b"{",
    b"}",
    b"\x00",
    b"\xff\xfe{}",
    b"[" * 200_000,
    b'{"a":' * 100_000,
    b"NaN",
    b"1e999",
    b'{"hosts": NaN}',
    b'{"hosts": [{"name": "a", "free_cores": 1e999}], "job": {"cores": 1}}',
    b"9" * 10_000,
    b'{"input_vector": [' + b"1," * 300_000 + b"1]}",
    b'{"version": 1, "version": 2}',
    b'{"Pod": {"spec": null}, "NodeNames": []}',
    json.dumps({"hosts": [{"name": f"h{i}", "free_cores": 1} for i in range(100_000)], "job": {"cores": 1}}).encode(),
    json.dumps({"hosts": [{"name": "\ud800", "free_cores": 1}], "job": {"cores": 1}}).encode(),
]


@pytest.mark.parametrize("path", PATHS)
def test_hostile_bodies(path: str, hosts: Service, pods: Service) -> None:
    service = pods if path in ("/filter", "/prioritize") else hosts
    for body in HOSTILE:
        check(path, *post(service, path, body))
    text = json.dumps(POD if service is pods else GOOD).encode()
    for end in range(0, len(text), 7):
        check(path, *post(service, path, text[:end]))
    status, _ = post(service, path, text)
    assert status == 200


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("500m") | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=_anything, at=st.integers(0, 10**6), drop=st.booleans())
def test_any_value_in_any_field(value: Any, at: int, drop: bool, hosts: Service, pods: Service) -> None:
    for path, good, service in (("/select_host", GOOD, hosts), ("/filter", POD, pods), ("/prioritize", POD, pods)):
        data = json.loads(json.dumps(good))
        known = places(data)
        *where, last = known[at % len(known)]
        inner: Any = data
        for key in where:
            inner = inner[key]
        if drop:
            del inner[last]
        else:
            inner[last] = value
        check(path, *post(service, path, json.dumps(data).encode("utf-8", "surrogatepass")))


def test_bytes_changed_at_random(hosts: Service, pods: Service) -> None:
    rng = random.Random(1)
    for path, good, service in (("/v1/decide", GOOD, hosts), ("/filter", POD, pods)):
        text = json.dumps(good).encode()
        for _ in range(150):
            changed = bytearray(text)
            for _ in range(rng.randint(1, 4)):
                changed[rng.randrange(len(changed))] = rng.randrange(256)
            check(path, *post(service, path, bytes(changed)))


def test_counts_and_other_addresses(hosts: Service, pods: Service) -> None:
    before = _get(hosts, "/stats")[1]["inference_count"]
    post(hosts, "/select_host", json.dumps(GOOD).encode())
    status, stats = _get(hosts, "/stats")
    assert (status, stats["inference_count"]) == (200, before + 1)
    assert post(hosts, "/filter", b"{}")[0] == 404
    assert post(pods, "/select_host", b"{}")[0] == 404
    assert _get(pods, "/filter")[0] == 405
    assert _get(pods, "/v1/agent")[1]["protocol"] == "kubernetes"
    assert _get(pods, "/health")[0] == 200


def _get(service: Service, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", service.server_address[1], timeout=20)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def test_the_example_client_of_the_docs(hosts: Service) -> None:
    command = [sys.executable, str(ROOT / "docs" / "examples" / "ask_hosts.py"), f"127.0.0.1:{hosts.server_address[1]}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["a", "h1", "b", "h2"]
