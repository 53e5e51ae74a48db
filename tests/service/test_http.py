"""The service over HTTP and over lines: right answers, bad callers, many callers."""

from __future__ import annotations

import http.client
import io
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from test_protocol import body

from tracekit.service import http as service
from tracekit.service.protocol import Request


class ShortestFirst:
    """Stands in for an agent."""

    def about(self) -> dict[str, Any]:
        return {"agent": "toy"}

    def answer(self, request: Request) -> dict[str, Any]:
        if request.now == 666:
            raise RuntimeError("a fault inside")
        return {"version": 1, "order": [{"id": name} for name in request.jobs.id]}


@pytest.fixture
def server() -> Iterator[service.Service]:
    with service.Service(ShortestFirst()) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server: service.Service, method: str, path: str, sent: bytes | None = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=20)
    try:
        connection.request(method, path, body=sent, headers=headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def raw(server: service.Service, sent: bytes) -> bytes:
    with socket.create_connection(server.server_address[:2], timeout=20) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


def test_the_three_addresses_answer(server: service.Service) -> None:
    assert ask(server, "GET", "/health") == (200, {"status": "ok"})
    assert ask(server, "GET", "/v1/agent") == (200, {"agent": "toy"})
    status, answer = ask(server, "POST", "/v1/decide", body())
    assert status == 200
    assert answer["order"] == [{"id": "a"}, {"id": 7}]


def test_one_connection_carries_many_requests(server: service.Service) -> None:
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=20)
    for _ in range(50):
        connection.request("POST", "/v1/decide", body=body())
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read()
    connection.close()


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "words"),
    [
        ("POST", "/v1/decide", b"{", 400, "not JSON"),
        ("POST", "/v1/decide", body(now="x"), 422, "now: must be a number"),
        ("POST", "/v2/decide", b"{}", 404, "known: POST /v1/decide"),
        ("GET", "/v1/decide", None, 405, "POST"),
        ("POST", "/health", b"", 405, "GET"),
        ("DELETE", "/health", None, 501, "Unsupported method"),
        ("POST", "/v1/decide", body(now=666, jobs=[]), 500, "log"),
    ],
)
def test_refusals_say_why(
    server: service.Service, method: str, path: str, sent: bytes | None, status: int, words: str
) -> None:
    found, answer = ask(server, method, path, sent)
    assert found == status
    assert words in answer["error"]
    assert ask(server, "GET", "/health")[0] == 200


def test_lengths_are_checked_before_anything_is_read(server: service.Service) -> None:
    head = b"POST /v1/decide HTTP/1.1\r\nHost: x\r\n"
    assert b" 411 " in raw(server, head + b"\r\n")
    assert b" 411 " in raw(server, head + b"Content-Length: -5\r\n\r\n")
    assert b" 411 " in raw(server, head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert b" 413 " in raw(server, head + b"Content-Length: 99999999999999999999\r\n\r\n")
    assert b"Content-Length" in raw(server, head + b"Content-Length: 50\r\n\r\n{}")
    assert b" 400 " in raw(server, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
    assert b" 414 " in raw(server, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize(("path", "status"), [("/v1/decide", 413), ("/nowhere", 404), ("/health", 405)])
def test_a_refusal_reaches_a_caller_who_is_still_sending(server: service.Service, path: str, status: int) -> None:
    assert ask(server, "POST", path, b" " * (4 * service.MOST_BYTES))[0] == status


def test_a_refused_caller_who_never_stops_sending_is_cut_off(
    server: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LINGER_S", 0.3)

    def send_for_ever(connection: socket.socket) -> None:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
        while True:
            connection.sendall(b" " * 4096)
            time.sleep(0.01)

    address = server.server_address[:2]
    cut = pytest.raises((BrokenPipeError, ConnectionResetError))
    with socket.create_connection(address, timeout=20) as connection, cut:
        send_for_ever(connection)


def test_a_slow_caller_is_sent_away_and_others_go_on(server: service.Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "DEADLINE_S", 0.5)
    slow = [socket.create_connection(server.server_address[:2], timeout=20) for _ in range(20)]
    for connection in slow:
        connection.sendall(b"POST /v1/decide HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
    assert ask(server, "POST", "/v1/decide", body())[0] == 200
    for connection in slow:
        assert b" 408 " in connection.recv(65536)
        connection.close()


def test_when_every_place_is_being_answered_callers_are_refused(
    server: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_now, asked = threading.Event(), threading.Semaphore(0)

    def about() -> dict[str, Any]:
        asked.release()
        answer_now.wait(20)
        return {}

    monkeypatch.setattr(server.decider, "about", about)
    held = [socket.create_connection(server.server_address[:2], timeout=20) for _ in range(service.MOST_CONNECTIONS)]
    try:
        for connection in held:
            connection.sendall(b"GET /v1/agent HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        for _ in held:
            assert asked.acquire(timeout=20)
        assert b" 503 " in raw(server, b"GET /health HTTP/1.1\r\n\r\n")
        status, answer = ask(server, "POST", "/v1/decide", b" " * service.MOST_BYTES)
        assert (status, answer["status"]) == (503, 503)
        assert "connections" in answer["error"]
        answer_now.set()
        for connection in held:
            assert b" 200 " in connection.recv(65536)
    finally:
        answer_now.set()
        for connection in held:
            connection.close()


def test_a_token_is_asked_for() -> None:
    with service.Service(ShortestFirst(), token="secret") as made:
        threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        assert ask(made, "POST", "/v1/decide", body())[0] == 401
        assert ask(made, "POST", "/v1/decide", body(), Authorization="Bearer wrong")[0] == 401
        assert ask(made, "POST", "/v1/decide", body(), Authorization="Bearer secret")[0] == 200
        assert ask(made, "GET", "/health")[0] == 200
        made.shutdown()


def test_hostile_requests_from_many_sides_leave_it_alive(server: service.Service) -> None:
    def attack(seed: int) -> None:
        rng = random.Random(seed)
        good = body()
        for _ in range(60):
            spoilt = bytearray(good)
            for _ in range(rng.randrange(1, 6)):
                spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
            kind = rng.randrange(4)
            if kind == 0:
                status, _ = ask(server, "POST", "/v1/decide", bytes(spoilt))
                assert status in (200, 400, 422)
            elif kind == 1:
                raw(server, rng.randbytes(rng.randrange(1, 400)))
            elif kind == 2:
                raw(server, b"POST /v1/decide HTTP/1.1\r\nContent-Length: 9999\r\n\r\n" + bytes(spoilt))
            else:
                socket.create_connection(server.server_address[:2]).close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(attack, range(8)))
    assert ask(server, "POST", "/v1/decide", body())[0] == 200


def test_lines_are_answered_one_by_one() -> None:
    good, faulty, huge = body(), body(now=666, jobs=[]), b" " * (service.MOST_BYTES + 5)
    sent = io.BytesIO(b"\n".join([good, b"", b"nonsense", huge, faulty, good]))
    out = io.BytesIO()
    service.serve_lines(ShortestFirst(), sent, out)
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [answer.get("status", 200) for answer in answers] == [200, 400, 413, 500, 200]
