"""Requests to another scheduler over HTTP: one connection that is kept, a deadline for each answer, named failures."""

from __future__ import annotations

import contextlib
import http.client
import io
import ipaddress
import json
import os
import socket
import time
from typing import Any
from urllib.parse import urlsplit

from tracekit.errors import TracekitError, UsageError
from tracekit.service.protocol import MOST_BYTES

#: Seconds for one answer to arrive in full, and seconds for which an answer 503 (starting) is asked for again.
TIMEOUT_S, STARTING_S = 10.0, 90.0
_PAUSE_S = 0.25
#: Names of hosts that may be asked beside loopback, with commas.
ALLOW = "TRACEKIT_ALLOW_HOSTS"
_HEAD = "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: application/json\r\n{token}"


class Caller:
    """Sends JSON to one address and returns the JSON that comes back. Not for several threads at once."""

    def __init__(self, url: str, timeout: float = TIMEOUT_S, starting: float = STARTING_S) -> None:
        self.url, self.timeout, self.starting = url, timeout, starting
        self.host, self.port, self.path = address_of(url)
        token = os.environ.get("TRACEKIT_TOKEN", "").strip()
        line = f"Authorization: Bearer {token}\r\n" if token else ""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        self._head = _HEAD.format(path=self.path, host=f"{shown}:{self.port}", token=line)
        self._socket: socket.socket | None = None

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def ask(self, body: bytes) -> Any:
        """Return the answer to a request as JSON; every failure is a `TracekitError` of one line."""
        give_up = time.monotonic() + self.starting
        while True:
            status, answer = self._exchange(body)
            if status != 503 or time.monotonic() >= give_up:
                break
            time.sleep(_PAUSE_S)
        if 300 <= status < 400:
            raise self._failed(f"answered with a redirect ({status}), which is not followed")
        found = self._json(answer)
        if status != 200:
            why = found.get("error") if isinstance(found, dict) else None
            raise self._failed(f"answered {status}: {_line(why) if isinstance(why, str) else 'no error text'}")
        return found

    def _json(self, answer: bytes) -> Any:
        try:
            return json.loads(answer.decode())
        except UnicodeDecodeError:
            raise self._failed("the answer is not UTF-8 text") from None
        except json.JSONDecodeError as error:
            raise self._failed(f"the answer is not JSON: {error.msg} at character {error.pos}") from None
        except (RecursionError, ValueError):
            raise self._failed("the answer is nested too deeply or has invalid numbers") from None

    def _exchange(self, body: bytes) -> tuple[int, bytes]:
        """Send a request; once more on a new connection if the other side has closed the kept one meanwhile."""
        kept = self._socket is not None
        try:
            return self._once(body)
        except (ConnectionError, http.client.BadStatusLine, http.client.IncompleteRead) as error:
            self.close()
            if not kept:
                raise self._failed(_why(error)) from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._failed(_why(error, self.timeout)) from None
        try:
            return self._once(body)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._failed(_why(error, self.timeout)) from None

    def _once(self, body: bytes) -> tuple[int, bytes]:
        until = time.monotonic() + self.timeout
        if self._socket is None:
            self._socket = socket.create_connection((self.host, self.port), timeout=self.timeout)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(self.timeout)
        self._socket.sendall(f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = http.client.HTTPResponse(_Timed(self._socket, until), method="POST")  # type: ignore[arg-type]
        answer.begin()
        text = answer.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            self.close()
            raise self._failed(f"the answer has more than {MOST_BYTES:,} bytes")
        if answer.will_close or not answer.isclosed():
            self.close()
        return answer.status, text

    def _failed(self, what: str) -> TracekitError:
        return TracekitError(f"{self.url}: {what}")


class _Timed(io.RawIOBase):
    """The reading side of a socket with one deadline for all that is read; what `http.client` calls a socket."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        self.connection, self.until = connection, until

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self, 65536)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left)
        return self.connection.recv_into(buffer)


def address_of(url: str) -> tuple[str, int, str]:
    """Return host, port and the path of decisions of ``http://HOST:PORT[/PREFIX]``.

    Only loopback addresses are allowed, and the hosts named in TRACEKIT_ALLOW_HOSTS: requests hold the jobs of the
    trace, and travel unencrypted.

    >>> address_of("http://127.0.0.1:8765")
    ('127.0.0.1', 8765, '/v1/decide')
    """
    try:
        found = urlsplit(url)
        host, port = found.hostname or "", found.port
    except ValueError as error:
        raise UsageError(f"{url}: not a valid address ({error}); write http://127.0.0.1:PORT") from None
    if found.scheme != "http":
        raise UsageError(f"{url}: only http:// is supported; write http://127.0.0.1:PORT")
    if not host or not port or found.username or found.query or found.fragment or not url.isascii() or " " in url:
        raise UsageError(f"{url}: not a valid address; write http://127.0.0.1:PORT")
    allowed = {name.strip().lower() for name in os.environ.get(ALLOW, "").split(",")}
    if not (_is_loopback(host) or host in allowed):
        raise UsageError(f"{url}: {host} is not a loopback address; allow it with {ALLOW}={host}")
    return host, port, f"{found.path.rstrip('/').removesuffix('/v1/decide')}/v1/decide"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _why(error: BaseException, timeout: float = TIMEOUT_S) -> str:
    """Return what went wrong, in one line."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; is the scheduler running?"
    if isinstance(error, TimeoutError):
        return f"no complete answer within {timeout:g} seconds"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer ended early"
    if isinstance(error, http.client.RemoteDisconnected | ConnectionError):
        return "the connection was closed before the answer was complete"
    if isinstance(error, OSError):
        return f"cannot be reached: {error.strerror or error}"
    return f"the answer is not HTTP: {_line(str(error) or type(error).__name__)}"


def _line(text: str) -> str:
    """Return a foreign text as one short line."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text[:400]).split())
    return plain if len(plain) <= 200 else plain[:200] + "…"
