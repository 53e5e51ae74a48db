"""A scheduler in another process as a policy: the same schedule as in process, and every failure named."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shared_data import ROOT
from test_decide import agent_of

import tracekit
from generators.eda import draw
from tracekit.cli import main
from tracekit.errors import TracekitError, UsageError
from tracekit.service import caller
from tracekit.service.decide import Decider
from tracekit.service.http import Service
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import PickJob

Answer = Callable[[dict[str, Any]], Any]


@contextmanager
def running(server: Any) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def scheduler(answer: Answer, *, chunked: bool = False) -> Iterator[str]:
    """Run a scheduler of a few lines; ``answer`` returns the object to send, or bytes, or (status, bytes)."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = answer(request)
            status, text = found if isinstance(found, tuple) else (200, found)
            text = text if isinstance(text, bytes) else json.dumps(text).encode()
            self.send_response(status)
            if chunked:
                self.send_header("Transfer-Encoding", "chunked")
                text = b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text)
            else:
                self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args: Any) -> None:
            pass

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url


def by(key: Callable[[dict[str, Any]], Any]) -> Answer:
    return lambda request: {"order": [{"id": job["id"]} for job in sorted(request["jobs"], key=key)]}


SJF = by(lambda job: (job["req_time"], job["submit_time"], job["id"]))


@pytest.fixture(scope="module")
def trace() -> tracekit.Trace:
    return tracekit.sample().head(1500)


@pytest.mark.parametrize("backfill", ["easy", "none", "easy-sjf"])
def test_our_own_service_makes_the_schedule_of_the_agent_in_process(
    trace: tracekit.Trace, backfill: str, tmp_path: Path
) -> None:
    task = Batch(trace.head(200), PickJob(), lanes=1).task
    agent_of(task).save(tmp_path / "agent")
    inside = tracekit.simulate(trace, f"agent:{tmp_path / 'agent'}", backfill)
    decider = Decider.load(str(tmp_path / "agent"))
    decider.prepare()  # compiles, which may take longer than a caller waits
    with running(Service(decider)) as url:
        outside = tracekit.simulate(trace, url, backfill)
    np.testing.assert_array_equal(outside.start, inside.start)
    assert outside.policy == url
    assert (inside.wait > 0).sum() > 50


@pytest.mark.parametrize("backfill", ["easy", "none"])
def test_a_scheduler_of_one_line_makes_the_schedule_of_the_same_policy(trace: tracekit.Trace, backfill: str) -> None:
    short = trace.head(600)
    with scheduler(SJF, chunked=True) as url:
        outside = tracekit.simulate(short, url, backfill)
    np.testing.assert_array_equal(outside.start, tracekit.simulate(short, "sjf", backfill).start)


def test_commands_compare_it_with_others(trace: tracekit.Trace, tmp_path: Path) -> None:
    trace.head(400).save(tmp_path / "t.swf")
    given = [str(tmp_path / "t.swf"), "--windows", "3", "--jobs", "60"]
    with scheduler(SJF) as url:
        assert main(["simulate", *given, "--policy", f"fcfs,{url}", "--out", str(tmp_path / "out")]) == 0
        assert (
            main(["sweep", *given, "--policy", f"{url},agent:default", "--load", "0.9", "-o", str(tmp_path / "sweep")])
            == 0
        )
    made = sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir())
    port = url.rpartition(":")[2]
    assert len([name for name in made if name.startswith(f"127.0.0.1:{port}__easy__w")]) == 3


BAD: dict[str, Any] = {
    "not json": b"hello",
    "cut short": b'{"order": [',
    "not utf-8": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "a list": [],
    "no order": {"version": 1},
    "order of numbers": {"order": [1, 2]},
    "unknown id": {"order": [{"id": 10**9}]},
    "text id": {"order": [{"id": "1"}]},
    "true": {"order": [{"id": True}]},
    "partial": {"order": []},
    "redirect": (302, b""),
    "an error": (422, json.dumps({"error": "jobs: too\nmany\x1b[31m"}).encode()),
    "an error without text": (500, b"[]"),
    "huge": b" " * (9 * 1024 * 1024),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_answers_are_named_in_one_line_and_nothing_is_written(
    name: str, trace: tracekit.Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace.head(100).save(tmp_path / "t.swf")
    with scheduler(lambda request: BAD[name]) as url:
        out = tmp_path / "out"
        assert main(["simulate", str(tmp_path / "t.swf"), "--policy", f"fcfs,{url}", "--out", str(out)]) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if url in line]
    assert len(said) == 1
    assert "\x1b" not in said[0]
    assert not out.exists() or not any(out.iterdir())


def test_a_job_twice_is_an_error(trace: tracekit.Trace) -> None:
    def twice(request: dict[str, Any]) -> Any:
        return {"order": [{"id": request["jobs"][0]["id"]}] * len(request["jobs"])}

    with scheduler(twice) as url, pytest.raises(TracekitError, match="more than once"):
        tracekit.simulate(trace.head(100), url)


def test_no_listener_a_silent_one_and_one_that_drips(trace: tracekit.Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(TracekitError, match="refused"):
        tracekit.simulate(trace.head(50), f"http://127.0.0.1:{port}")
    monkeypatch.setattr(caller.Caller.__init__, "__defaults__", (0.2, 0.2))
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TracekitError, match="within"):
        tracekit.simulate(trace.head(50), f"http://127.0.0.1:{silent.getsockname()[1]}")
    with socket.create_server(("127.0.0.1", 0)) as drips:
        stop = threading.Event()

        def drip() -> None:
            connection, _ = drips.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while not stop.wait(0.02):
                    try:
                        connection.sendall(b"X-More: 1\r\n")
                    except OSError:
                        return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        with pytest.raises(TracekitError, match="within"):
            tracekit.simulate(trace.head(50), f"http://127.0.0.1:{drips.getsockname()[1]}")
        stop.set()
        thread.join()


def test_a_connection_that_the_other_side_closes_is_opened_again(trace: tracekit.Trace) -> None:
    answers = 0
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            nonlocal answers
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, connection.makefile("rb") as lines:
                    size = 0
                    while (line := lines.readline()) not in (b"\r\n", b""):
                        size = int(line.split(b":")[1]) if line.lower().startswith(b"content-length") else size
                    if not size:
                        continue
                    text = json.dumps(SJF(json.loads(lines.read(size)))).encode()
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
                    answers += 1  # says nothing of closing, and closes

        threading.Thread(target=serve, daemon=True).start()
        outside = tracekit.simulate(trace.head(100), f"http://127.0.0.1:{server.getsockname()[1]}")
        server.shutdown(socket.SHUT_RDWR)
    np.testing.assert_array_equal(outside.start, tracekit.simulate(trace.head(100), "sjf").start)
    assert answers > 1


@pytest.mark.parametrize(
    "url",
    [
        "http:",
        "http://",
        "http://127.0.0.1",
        "https://127.0.0.1:1",
        "http://example.org:80",
        "http://127.0.0.1:x",
        "http://10.0.0.1:80",
        "http://a@127.0.0.1:80",
        "http://127.0.0.1:80/?q",
        "http://127.0.0.1:99999",
    ],
)
def test_only_loopback_addresses_are_asked(url: str, trace: tracekit.Trace) -> None:
    with pytest.raises(UsageError):
        tracekit.simulate(trace.head(20), url)


def test_other_hosts_can_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEKIT_ALLOW_HOSTS", "sched.example.org")
    assert caller.address_of("http://sched.example.org:80/api/") == ("sched.example.org", 80, "/api/v1/decide")


def test_a_reservation_is_refused_where_it_makes_no_sense(trace: tracekit.Trace) -> None:
    from test_protocol import body

    from tracekit.service.protocol import Refused, parse

    decider = Decider(agent_of(Batch(trace.head(50), PickJob(), lanes=1).task), "toy")
    jobs = [
        {"id": 1, "submit_time": 0, "procs": 60, "req_time": 100},
        {"id": 2, "submit_time": 0, "procs": 4, "req_time": 100},
        {"id": 3, "submit_time": 0, "procs": 20, "req_time": 9000},
        {"id": 4, "submit_time": 0, "procs": 65, "req_time": 10},
    ]
    order = decider.answer(parse(body(jobs=jobs, reserved=1)))["order"]
    assert [entry["id"] for entry in order if entry["score"] is not None] == [2]
    assert [entry["id"] for entry in order] == [2, 1, 3, 4]
    for wrong in (2, 4, 9, True, [1]):
        with pytest.raises(Refused):
            decider.answer(parse(body(jobs=jobs, reserved=wrong)))


def test_a_cluster_of_hosts(trace: tracekit.Trace) -> None:
    machine, jobs = draw(3, jobs=150, hosts=4, load=1.2)
    given: dict[str, Any] = {"cluster": machine, "allocate": "best-fit"}
    with scheduler(SJF) as url:
        outside = tracekit.simulate(jobs, url, **given)
    inside = tracekit.simulate(jobs, "sjf", **given)
    np.testing.assert_array_equal(outside.start, inside.start)
    assert list(outside.hosts or ()) == list(inside.hosts or ())


def test_the_example_scheduler_of_the_docs(trace: tracekit.Trace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, str(ROOT / "docs" / "examples" / "scheduler.py"), str(port)]
    with subprocess.Popen(command) as process:
        try:
            for _ in range(200):
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.05)
            outside = tracekit.simulate(trace.head(200), f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
    np.testing.assert_array_equal(outside.start, tracekit.simulate(trace.head(200), "sjf").start)
