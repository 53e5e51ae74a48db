"""Requests: what is read, and what is refused with which words."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.service.protocol import MOST_BYTES, MOST_JOBS, Refused, parse

JOB = {"id": "a", "submit_time": 4000, "procs": 32, "req_time": 3600, "user": "u1"}


def request(**changes: Any) -> dict[str, Any]:
    plain = {
        "version": 1,
        "kind": "pick-job",
        "now": 5000,
        "cluster": {"procs": 64, "running": [{"procs": 40, "ends": 5600}]},
        "jobs": [JOB, {"id": 7, "submit_time": 4500.5, "procs": 1}],
    }
    return plain | changes


def body(**changes: Any) -> bytes:
    return json.dumps(request(**changes)).encode()


def test_a_request_is_read_field_by_field() -> None:
    asked = parse(body(hosts=[{}]))
    assert (asked.now, asked.procs, asked.hosts) == (5000.0, 64, True)
    assert asked.running_procs.tolist() == [40]
    assert asked.running_ends.tolist() == [5600]
    assert asked.jobs.id == ["a", 7]
    assert asked.jobs.submit_time.tolist() == [4000, 4500.5]
    assert asked.jobs.user == ["u1", None]
    assert asked.jobs.req_time[0] == 3600
    assert np.isnan(asked.jobs.req_time[1])


def test_an_empty_queue_and_an_idle_machine_are_fine() -> None:
    asked = parse(body(jobs=[], cluster={"procs": 1}))
    assert len(asked.jobs) == 0
    assert len(asked.running_procs) == 0


REFUSALS: list[tuple[bytes, int, str]] = [
    (b"", 400, "not JSON"),
    (b"\xff\xfe", 400, "not UTF-8"),
    (b"[1, 2]", 400, "must be a JSON object"),
    (b"[" * 100_000, 400, "JSON"),
    (b'{"now": ' + b"9" * 10_000 + b"}", 400, "JSON"),
    (body(version=2), 422, "version"),
    (body(version=True), 422, "version"),
    (body(kind="train"), 422, "kind: must be pick-job"),
    (body(now="today"), 422, "now: must be a number, not 'today'"),
    (body(now=None), 422, "now: must be a number"),
    (body(now=float("nan")), 422, "now: must be a finite number"),
    (body(cluster=5), 422, "cluster: must be an object"),
    (body(cluster={"procs": 0}), 422, "cluster.procs: must be a whole number of at least 1"),
    (body(cluster={"procs": 1.5}), 422, "cluster.procs: must be a whole number"),
    (body(cluster={"procs": 64, "running": {}}), 422, "cluster.running: must be a list"),
    (body(cluster={"procs": 64, "running": [{"procs": 65, "ends": 1}]}), 422, "uses 65 processors of 64"),
    (body(cluster={"procs": 64, "running": [{"procs": 6}]}), 422, "cluster.running[0].ends: must be a number"),
    (body(jobs=None), 422, "jobs: must be a list of objects"),
    (body(jobs=[JOB, 3]), 422, "jobs: must be a list of objects"),
    (body(jobs=[JOB, JOB]), 422, "two jobs have the same id"),
    (body(jobs=[JOB, {"submit_time": 1, "procs": 1}]), 422, "jobs[1].id: must be a string or a whole number"),
    (body(jobs=[JOB | {"id": [1]}]), 422, "jobs[0].id"),
    (body(jobs=[JOB | {"procs": -1}]), 422, "jobs[0].procs: must be a whole number of at least 1"),
    (body(jobs=[JOB | {"procs": True}]), 422, "jobs[0].procs: must be a number, not True"),
    (body(jobs=[JOB | {"procs": 10**400}]), 422, "jobs[0].procs: must be a finite number"),
    (body(jobs=[JOB | {"submit_time": 5001}]), 422, "jobs[0].submit_time: 5001 is after now (5000)"),
    (body(jobs=[JOB | {"req_time": -5}]), 422, "leave it out if it is unknown"),
    (body(jobs=[JOB | {"req_time": float("inf")}]), 422, "jobs[0].req_time"),
    (body(jobs=[JOB | {"user": {"name": "x"}}]), 422, "jobs[0].user: must be a string"),
    (body(hosts="all"), 422, "hosts: must be a list"),
    (body(jobs=[{"id": i} for i in range(MOST_JOBS + 1)]), 413, "at most 20,000"),
    (b" " * (MOST_BYTES + 1), 413, "more than"),
]


@pytest.mark.parametrize(("sent", "status", "words"), REFUSALS, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_refused_by_name(sent: bytes, status: int, words: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse(sent)
    assert refusal.value.status == status
    assert words in refusal.value.reason
    assert "\n" not in refusal.value.reason
    assert len(refusal.value.reason) < 300


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    place=st.sampled_from(["version", "kind", "now", "cluster", "jobs", "hosts"]),
    field=st.sampled_from(["id", "submit_time", "procs", "req_time", "req_mem", "user", "group", "app"]),
    value=json_values,
)
def test_nothing_but_a_request_or_a_refusal_comes_out(place: str, field: str, value: Any) -> None:
    for sent in (body(**{place: value}), body(jobs=[JOB | {field: value}]), body(cluster={"procs": 9, field: value})):
        with contextlib.suppress(Refused):  # anything else is a fault of ours
            parse(sent)
