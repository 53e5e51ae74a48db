"""The service against hostile callers: requests with two ends, other hosts, web pages, connections that only wait."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from email.message import Message

import pytest
from test_http import ShortestFirst, ask, raw
from test_protocol import body

from tracekit.service import http as service
from tracekit.service.guard import Guard
from tracekit.service.protocol import Refused

HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SMUGGLED = b"GET /v1/agent HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def server() -> Iterator[service.Service]:
    with service.Service(ShortestFirst(), allowed=["scheduler.example"]) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def statuses(answer: bytes) -> list[int]:
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]


def test_the_body_of_a_get_is_not_the_next_request(server: service.Service) -> None:
    length = b"Content-Length: %d\r\n\r\n" % len(SMUGGLED)
    assert statuses(raw(server, HEAD + length + SMUGGLED)) == [200]
    assert statuses(raw(server, HEAD + length + SMUGGLED + SMUGGLED)) == [200, 200]
    elsewhere = HEAD.replace(b"/health", b"/nowhere")
    assert statuses(raw(server, elsewhere + length + SMUGGLED)) == [404]


@pytest.mark.parametrize("method", [b"GET /health", b"POST /v1/decide"])
@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"Content-Length: 2\r\nContent-Length: 44\r\n", 400),
        (b"Content-Length: 2\r\nContent-Length: 2\r\n", 400),
        (b"Content-Length: 2, 44\r\n", 400),
        (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n", 411),
        (b"Transfer-Encoding: identity\r\n", 411),
        (b"Content-Length: +2\r\n", 411),
        (b"Content-Length: 0x2\r\n", 411),
        (b"Content-Length : 2\r\n", 400),
        (b"X-Other: a\r\n Content-Length: 2\r\n", 400),
        (b"X-Other: a\rContent-Length: 2\r\n", 400),
        (b"X-Other: a\nContent-Length: 2\r\n", 400),
        (b"X-Other: a\x00b\r\n", 400),
        (b"no colon\r\n", 400),
    ],
)
def test_a_request_with_two_possible_ends_is_refused_and_nothing_after_it_is_read(
    server: service.Service, method: bytes, lines: bytes, status: int
) -> None:
    head = method + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    assert statuses(raw(server, head + lines + b"\r\n" + b"{}" + SMUGGLED)) == [status]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:99", "localhost", "LOCALHOST.:8765", "[::1]:1", "127.9.9.9"])
def test_loopback_hosts_are_served(server: service.Service, host: str) -> None:
    assert ask(server, "GET", "/health", Host=host)[0] == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:8765", 403),
        ("192.0.2.1", 403),
        ("127.0.0.1@evil.example", 400),
        ("", 400),
        ("a b", 400),
    ],
)
@pytest.mark.parametrize("path", ["/health", "/v1/agent"])
def test_other_hosts_are_refused(server: service.Service, host: str, status: int, path: str) -> None:
    assert ask(server, "GET", path, Host=host)[0] == status


def test_one_host_is_needed(server: service.Service) -> None:
    assert statuses(raw(server, b"GET /health HTTP/1.1\r\n\r\n")) == [400]
    assert statuses(raw(server, HEAD + b"Host: localhost\r\n\r\n")) == [400]
    assert b" 200 " in raw(server, b"GET /health HTTP/1.0\r\n\r\n")


def test_a_named_host_is_served(server: service.Service) -> None:
    assert ask(server, "GET", "/health", Host="Scheduler.Example:80")[0] == 200
    headers = Message()
    headers["Host"] = "192.0.2.1:8765"
    Guard(["192.0.2.1"]).check(headers, "127.0.0.1", needed=True)
    Guard(["0.0.0.0"]).check(headers, "192.0.2.1", needed=True)  # the address that was connected to
    with pytest.raises(Refused):
        Guard(["0.0.0.0"]).check(headers, "192.0.2.7", needed=True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://localhost:8765", "Host": "localhost:8765"}, 200),
        ({"Origin": "http://localhost:3000", "Host": "localhost:8765"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[", "Host": "localhost"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
def test_web_pages_of_other_sites_are_refused(server: service.Service, headers: dict[str, str], status: int) -> None:
    assert ask(server, "POST", "/v1/decide", body(), **headers)[0] == status


@pytest.mark.parametrize("sent", [b"", b"GET /hea", HEAD, b"POST /v1/decide HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"])
def test_slow_connections_do_not_shut_others_out(server: service.Service, sent: bytes) -> None:
    held = [
        socket.create_connection(server.server_address[:2], timeout=20) for _ in range(2 * service.MOST_CONNECTIONS)
    ]
    try:
        for connection in held:
            connection.sendall(sent)
        for _ in range(5):
            assert ask(server, "POST", "/v1/decide", body())[0] == 200
        assert len(server.places.since) <= service.MOST_CONNECTIONS
    finally:
        for connection in held:
            connection.close()


def test_the_caller_with_most_connections_loses_one_first() -> None:
    places, ends = service._Places(), []
    for number in range(service.MOST_CONNECTIONS):
        ours, theirs = socket.socketpair()
        ends += [ours, theirs]
        assert places.take(ours, "one" if number == 0 else "many")
    places.mark(ends[2], answering=True)
    ours, theirs = socket.socketpair()
    ends += [ours, theirs]
    assert places.take(ours, "new")
    assert ends[0] in places.since
    assert ends[2] in places.since
    assert ends[4] not in places.since  # the oldest of the others
    assert ends[5].recv(1) == b""
    for end in ends:
        end.close()
