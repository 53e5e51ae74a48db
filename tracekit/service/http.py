"""The service over HTTP (POST /v1/decide, GET /v1/agent, /stats and /health) and over lines on stdin and stdout.

It uses Python's threading server: one thread per connection, at most `MOST_CONNECTIONS`. Slow or silent clients
cannot block it: each request has a deadline, and when all connections are in use, a new client replaces one that is
idle. Loopback only, unless a token is set; see `tracekit.service.guard` for what is rejected.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Any, Protocol

from tracekit.service.guard import Guard, check_lines, length_of
from tracekit.service.protocol import MOST_BYTES, Refused, parse

MOST_CONNECTIONS = 64
#: Seconds for a request to arrive in full, and for a connection to be idle between two.
DEADLINE_S = 10.0
#: Seconds for the headers to arrive after the first byte.
HEADERS_S = 5.0
#: Seconds, and bytes, for which a rejected client may continue to send before the connection is closed.
LINGER_S, LINGER_BYTES = 2.0, 1 << 28
_CHUNK = 65536
log = logging.getLogger("tracekit")


class Answers(Protocol):
    """The decider; see `tracekit.service.decide.Decider`."""

    def about(self) -> dict[str, Any]:
        """Return the description of the agent."""

    def answer(self, request: Any) -> dict[str, Any]:
        """Return the jobs of a request in order."""


def posts_of(decider: Answers) -> dict[str, Callable[[bytes], Any]]:
    """Return what answers each path that takes requests; a decider may bring its own (``posts``)."""
    own: Mapping[str, Callable[[bytes], Any]] | None = getattr(decider, "posts", None)
    return dict(own) if own else {"/v1/decide": lambda body: decider.answer(parse(body))}


class Stats:
    """Counts of requests since the start."""

    def __init__(self) -> None:
        self.began, self._lock = time.monotonic(), threading.Lock()
        self.answered: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def count(self, path: str, status: int) -> None:
        """Count an answer by path, or a refusal by status."""
        with self._lock:
            if status == 200:
                self.answered[path] += 1
            else:
                self.refused[str(status)] += 1

    def body(self) -> dict[str, Any]:
        """Return the counts; ``inference_count`` is what the LSF plugin's service calls the number of decisions."""
        with self._lock:
            return {
                "inference_count": sum(self.answered.values()),
                "answered": dict(self.answered),
                "refused": dict(self.refused),
                "uptime_s": round(time.monotonic() - self.began, 3),
            }


class Service(ThreadingHTTPServer):
    """The listening server; ``service.serve_forever()`` runs it, ``service.shutdown()`` from another thread ends it."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        decider: Answers,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        token: str | None = None,
        allowed: Collection[str] = (),
    ) -> None:
        self.decider, self.token = decider, token
        self.posts = posts_of(decider)
        self.stats = Stats()
        self.guard = Guard([host, *allowed])
        self.places = _Places()
        self.door = threading.BoundedSemaphore(MOST_CONNECTIONS)  # clients that are being rejected
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """The address of the service."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread, or reject it if every connection is busy with a request."""
        if self.places.take(request, str(client_address[0])):
            super().process_request(request, client_address)
        elif self.door.acquire(blocking=False):
            threading.Thread(target=self._turn_away, args=(request,), daemon=True).start()
        else:
            self.close_request(request)

    def _turn_away(self, request: Any) -> None:
        """Answer 503: too many connections."""
        text = json.dumps(Refused(503, "too many connections; retry after 1 s").body()).encode()
        head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        try:
            request.settimeout(LINGER_S)
            request.sendall(head.encode() + b"Retry-After: 1\r\nConnection: close\r\n\r\n" + text)
        except OSError:
            pass
        finally:
            self.shutdown_request(request)
            self.door.release()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection without losing the last answer.

        Closing while the client is still sending resets the connection, and a reset discards what the client has not
        yet read. So further input is read and discarded for a while.
        """
        try:
            request.shutdown(socket.SHUT_WR)
            until, left = time.monotonic() + LINGER_S, LINGER_BYTES
            while left > 0 and (patience := until - time.monotonic()) > 0:
                request.settimeout(patience)
                if not (got := request.recv(_CHUNK)):
                    break
                left -= len(got)
        except OSError:
            pass
        self.close_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection and free its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.leave(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a broken connection; the others continue."""
        log.debug("a connection of the service failed", exc_info=True)


class _Places:
    """The connections with a thread: client address, idle since when, and whether a request is being answered."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.since: dict[Any, float] = {}  # time of the last progress; inf while an answer is computed
        self.caller: dict[Any, str] = {}
        self.winding_up: set[Any] = set()  # closed to free a slot; their threads end on their own

    def take(self, request: Any, caller: str) -> bool:
        """Give a connection a slot, if necessary that of an idle one; False if there is none."""
        with self.lock:
            if len(self.since) >= MOST_CONNECTIONS and not self._make_room():
                return False
            self.since[request], self.caller[request] = time.monotonic(), caller
        return True

    def _make_room(self) -> bool:
        """Close the connection that has been idle longest, of the client with most idle connections."""
        waiting = [request for request, since in self.since.items() if since != float("inf")]
        if not waiting or len(self.winding_up) >= MOST_CONNECTIONS:
            return False
        held = Counter(self.caller[request] for request in waiting)
        victim = min(waiting, key=lambda request: (-held[self.caller[request]], self.since[request]))
        self._forget(victim)
        self.winding_up.add(victim)
        with contextlib.suppress(OSError):
            victim.shutdown(socket.SHUT_RDWR)
        return True

    def _forget(self, request: Any) -> None:
        self.since.pop(request, None)
        self.caller.pop(request, None)

    def mark(self, request: Any, *, answering: bool) -> None:
        """Record that a request is being answered, or that the connection is idle again."""
        with self.lock:
            if request in self.since:
                self.since[request] = float("inf") if answering else time.monotonic()

    def leave(self, request: Any) -> None:
        """Free the slot of a connection that has ended."""
        with self.lock:
            self._forget(request)
            self.winding_up.discard(request)


class _Patient:
    """Reads from a socket until a deadline: it covers the whole request, so slow senders cannot extend it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.until = connection, 0.0
        self.kept = b""
        self.lines: list[bytes] = []  # of the request so far

    def begin(self) -> None:
        self.lines = []
        self.until = time.monotonic() + DEADLINE_S
        if not self.kept and self._more():  # idle until here
            self.until = time.monotonic() + min(HEADERS_S, DEADLINE_S)

    def begin_body(self) -> None:
        self.until = time.monotonic() + DEADLINE_S

    def _more(self) -> bool:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left)
        got = self.connection.recv(_CHUNK)
        self.kept += got
        return bool(got)

    def readline(self, limit: int = -1) -> bytes:
        while (end := self.kept.find(b"\n")) < 0 and (limit < 0 or len(self.kept) < limit) and self._more():
            pass
        size = len(self.kept) if end < 0 else end + 1
        self.lines.append(self.take(size if limit < 0 else min(size, limit)))
        return self.lines[-1]

    def read(self, size: int) -> bytes:
        parts, missing = [self.take(size)], 0
        missing = size - len(parts[0])
        while missing > 0 and self._more():
            parts.append(self.take(missing))
            missing -= len(parts[-1])
        return b"".join(parts)

    def take(self, size: int) -> bytes:
        taken, self.kept = self.kept[:size], self.kept[size:]
        return taken

    def close(self) -> None:
        self.kept = b""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tracekit", ""
    wbufsize = -1  # send head and body in one packet
    disable_nagle_algorithm = True
    server: Service

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = self.patient = _Patient(self.connection)  # type: ignore[assignment]

    def handle_one_request(self) -> None:
        self.server.places.mark(self.connection, answering=False)
        try:
            self.patient.begin()
        except OSError:  # a client that is silent or gone
            self.close_connection = True
            return
        super().handle_one_request()  # a TimeoutError closes the connection

    def parse_request(self) -> bool:
        """Read the head and the body completely, so that the next request starts clean; then check it."""
        self.body = b""
        if not super().parse_request():
            return False
        try:
            check_lines(self.patient.lines[1:])
            self._check_address()
            self.body = self._read(length_of(self.headers, needed=self.command == "POST"))
            arrived = str(self.connection.getsockname()[0])
            self.server.guard.check(self.headers, arrived, needed=self.request_version >= "HTTP/1.1")
        except Refused as refused:
            self._refuse(refused)
            return False
        except TimeoutError:
            self._refuse(Refused(408, f"the request did not arrive within {DEADLINE_S:g} seconds"))
            return False
        self.server.places.mark(self.connection, answering=True)
        return True

    def _read(self, size: int) -> bytes:
        self.patient.begin_body()
        body = self.patient.read(size)
        if len(body) < size:
            raise Refused(400, "the request body is shorter than its Content-Length")
        return body

    # ---- the addresses -----------------------------------------------------------------------------------------------

    def do_GET(self) -> None:
        if self.path == "/health":
            ready = getattr(self.server.decider, "ready", True)
            self._send(200 if ready else 503, {"status": "ok" if ready else "starting"})
        elif self.path == "/stats":
            self._guarded(self.server.stats.body)
        else:
            self._guarded(self.server.decider.about)

    def do_POST(self) -> None:
        answer = self.server.posts[self.path]
        self._guarded(lambda: answer(self.body), count=True)

    def _check_address(self) -> None:
        """Reject other paths and methods; the server itself rejects unknown methods."""
        known = dict.fromkeys(self.server.posts, "POST") | dict.fromkeys(("/v1/agent", "/stats", "/health"), "GET")
        if self.command not in known.values() or known.get(self.path) == self.command:
            return
        if self.path in known:
            raise Refused(405, f"{self.path} needs method {known[self.path]}, not {self.command}")
        raise Refused(404, f"unknown path; known: {', '.join(f'{verb} {path}' for path, verb in known.items())}")

    def _guarded(self, answer: Any, *, count: bool = False) -> None:
        refused = None
        try:
            self._check_token()
            found = answer()
        except Refused as error:
            refused = error
        except Exception:
            log.exception("the service failed to answer")
            refused = Refused(500, "internal error; see the log of the service")
        if count:  # before sending: a client that has its answer finds it in /stats
            self.server.stats.count(self.path, refused.status if refused else 200)
        if refused:
            self._refuse(refused)
        else:
            self._send(200, found)

    def _check_token(self) -> None:
        if self.server.token is None:
            return
        sent = self.headers.get("Authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(sent, f"Bearer {self.server.token}".encode()):
            raise Refused(401, "missing or wrong token; send the header Authorization: Bearer TOKEN")

    def _refuse(self, refused: Refused) -> None:
        self.close_connection = True  # the rest of a bad request must not be read as the next one
        self._send(refused.status, refused.body())

    def _send(self, status: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.server.places.mark(self.connection, answering=False)  # a client that does not read can lose its slot
        self.connection.settimeout(DEADLINE_S)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)
        self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer errors of the server itself (invalid request line, endless headers) as JSON, too."""
        self.close_connection = True
        if getattr(self, "request_version", None) == "HTTP/0.9" or not hasattr(self, "request_version"):
            self.request_version = "HTTP/1.0"
        self._send(code, Refused(code, message or self.responses.get(code, ("refused", ""))[0]).body())

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("service: " + format, *args)


def serve_lines(decider: Answers, lines: IO[bytes], out: IO[bytes]) -> None:
    """Answer one JSON request per line with one JSON line each, until the input ends."""
    decide = getattr(decider, "line", None) or posts_of(decider)["/v1/decide"]
    while line := lines.readline(MOST_BYTES + 1):
        if len(line) <= MOST_BYTES and not line.strip():
            continue
        try:
            if len(line) > MOST_BYTES:
                while line and not line.endswith(b"\n"):
                    line = lines.readline(MOST_BYTES)
                raise Refused(413, f"the request has more than {MOST_BYTES:,} bytes")
            answer = decide(line)
        except Refused as refused:
            answer = refused.body()
        except Exception:
            log.exception("the service failed to answer")
            answer = Refused(500, "internal error; see the log of the service").body()
        out.write(json.dumps(answer).encode() + b"\n")
        out.flush()
