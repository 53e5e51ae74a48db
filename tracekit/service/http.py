"""The service over HTTP (POST /v1/decide, GET /v1/agent, GET /health) and over lines on stdin and stdout.

Python's own threading server carries it: one thread per connection, at most `MOST_CONNECTIONS`, each connection with a
deadline for a whole request, so that slow or silent callers cannot hold it up. Loopback only, unless a token is set.
"""

from __future__ import annotations

import hmac
import json
import logging
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Any, Protocol

from tracekit.service.protocol import MOST_BYTES, Refused, parse

MOST_CONNECTIONS = 64
#: Seconds for a request to arrive in full, and for a connection to stand idle between two.
DEADLINE_S = 10.0
#: Seconds, and bytes, for which a refused caller may go on sending before the connection is cut.
LINGER_S, LINGER_BYTES = 2.0, 1 << 28
_CHUNK = 65536
log = logging.getLogger("tracekit")


class Answers(Protocol):
    """Whoever decides; see `tracekit.service.decide.Decider`."""

    def about(self) -> dict[str, Any]:
        """Return who answers."""

    def answer(self, request: Any) -> dict[str, Any]:
        """Return the jobs of a request in order."""


class Service(ThreadingHTTPServer):
    """The listening server; ``service.serve_forever()`` runs it, ``service.shutdown()`` from another thread ends it."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, decider: Answers, host: str = "127.0.0.1", port: int = 0, *, token: str | None = None) -> None:
        self.decider, self.token = decider, token
        self.places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.door = threading.BoundedSemaphore(MOST_CONNECTIONS)  # callers who are being turned away
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """Where the service is reached."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread, or turn it away when all places are taken."""
        if self.places.acquire(blocking=False):
            super().process_request(request, client_address)
        elif self.door.acquire(blocking=False):
            threading.Thread(target=self._turn_away, args=(request,), daemon=True).start()
        else:
            self.close_request(request)

    def _turn_away(self, request: Any) -> None:
        """Say that all places are taken."""
        text = json.dumps(Refused(503, "all places are taken; ask again in a moment").body()).encode()
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
        """Close a connection without taking back the last answer.

        To close while the caller is still sending resets the connection, and a reset throws away what the caller has
        not yet read. So what still comes is read and forgotten, for a while.
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
        """Serve one connection and free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note a connection that broke; the others go on."""
        log.debug("a connection of the service broke", exc_info=True)


class _Patient:
    """Reads from a socket until a deadline: a caller who sends a byte a second does not live longer by that."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.until = connection, 0.0
        self.kept = b""

    def begin(self) -> None:
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
        return self.take(size if limit < 0 else min(size, limit))

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
    wbufsize = -1  # head and body leave in one packet
    disable_nagle_algorithm = True
    server: Service

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = self.patient = _Patient(self.connection)  # type: ignore[assignment]

    def handle_one_request(self) -> None:
        self.patient.begin()
        super().handle_one_request()  # a TimeoutError closes the connection

    # ---- the three addresses -----------------------------------------------------------------------------------------

    def do_GET(self) -> None:
        if self.path == "/health":
            ready = getattr(self.server.decider, "ready", True)
            self._send(200 if ready else 503, {"status": "ok" if ready else "starting"})
        elif self.path == "/v1/agent":
            self._guarded(self.server.decider.about)
        else:
            self._refuse(self._elsewhere("GET"))

    def do_POST(self) -> None:
        if self.path == "/v1/decide":
            self._guarded(lambda: self.server.decider.answer(parse(self._body())))
        else:
            self._refuse(self._elsewhere("POST"))

    def _elsewhere(self, method: str) -> Refused:
        known = {"/v1/decide": "POST", "/v1/agent": "GET", "/health": "GET"}
        if self.path in known:
            return Refused(405, f"{self.path} is asked with {known[self.path]}, not {method}")
        return Refused(404, f"no such address; known: {', '.join(f'{verb} {path}' for path, verb in known.items())}")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding"):
            raise Refused(411, "send the length of the body (Content-Length)")
        text = self.headers.get("Content-Length", "")
        if not (text.isascii() and text.isdigit()):
            raise Refused(411, "send the length of the body (Content-Length)")
        if len(text) > 12 or int(text) > MOST_BYTES:
            raise Refused(413, f"the request has more than {MOST_BYTES:,} bytes")
        body = self.rfile.read(int(text))
        if len(body) < int(text):
            raise Refused(400, "the request ended before its announced length")
        return body

    def _guarded(self, answer: Any) -> None:
        try:
            self._check_token()
            found = answer()
        except Refused as refused:
            self._refuse(refused)
        except TimeoutError:
            self._refuse(Refused(408, f"the request did not arrive within {DEADLINE_S:g} seconds"))
        except OSError:
            self.close_connection = True
        except Exception:
            log.exception("the service could not answer")
            self._refuse(Refused(500, "the service failed on this request; its log says why"))
        else:
            self._send(200, found)

    def _check_token(self) -> None:
        if self.server.token is None:
            return
        sent = self.headers.get("Authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(sent, f"Bearer {self.server.token}".encode()):
            raise Refused(401, "send the token: Authorization: Bearer TOKEN")

    def _refuse(self, refused: Refused) -> None:
        self.close_connection = True  # what is left of a bad request must not be read as the next one
        self._send(refused.status, refused.body())

    def _send(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)
        self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what the server itself refuses (a request line that is none, headers without end) as JSON, too."""
        self.close_connection = True
        if getattr(self, "request_version", None) == "HTTP/0.9" or not hasattr(self, "request_version"):
            self.request_version = "HTTP/1.0"
        self._send(code, Refused(code, message or self.responses.get(code, ("refused", ""))[0]).body())

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("service: " + format, *args)


def serve_lines(decider: Answers, lines: IO[bytes], out: IO[bytes]) -> None:
    """Answer one JSON request per line with one JSON line each, until the input ends."""
    while line := lines.readline(MOST_BYTES + 1):
        if len(line) <= MOST_BYTES and not line.strip():
            continue
        try:
            if len(line) > MOST_BYTES:
                while line and not line.endswith(b"\n"):
                    line = lines.readline(MOST_BYTES)
                raise Refused(413, f"the request has more than {MOST_BYTES:,} bytes")
            answer = decider.answer(parse(line))
        except Refused as refused:
            answer = refused.body()
        except Exception:
            log.exception("the service could not answer")
            answer = Refused(500, "the service failed on this request; its log says why").body()
        out.write(json.dumps(answer).encode() + b"\n")
        out.flush()
