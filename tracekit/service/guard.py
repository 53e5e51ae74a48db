"""Checks of a request before it is processed: unambiguous framing, for this host, and not sent by a web page.

Framing: a proxy in front must see the same end of a request as the service does, or the rest of one request is read as
the next (request smuggling). Host: a web page can point its own name at 127.0.0.1 (DNS rebinding); such a request has
that name as its host. Origin: browsers send it with requests from pages of other sites.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection, Sequence
from email.message import Message
from urllib.parse import urlsplit

from tracekit.service.protocol import MOST_BYTES, Refused

_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")


def check_lines(lines: Sequence[bytes]) -> None:
    """Reject ambiguous header lines: folded, without a colon, with a lone CR or LF."""
    for line in lines:
        if line != b"\r\n" and not _LINE.fullmatch(line):
            raise Refused(400, "a header line is not of the form 'Name: value'")


def length_of(headers: Message, *, needed: bool) -> int:
    """Return the length of the body in bytes; 0 without a body if none is ``needed``."""
    lengths, coded = headers.get_all("Content-Length", []), "Transfer-Encoding" in headers
    if len(lengths) > 1 or any("," in text for text in lengths) or (lengths and coded):
        raise Refused(400, "Content-Length is given more than once")
    if coded or (needed and not lengths):
        raise Refused(411, "the header Content-Length is missing or not valid")
    text = lengths[0].strip() if lengths else "0"
    if not (text.isascii() and text.isdigit()):
        raise Refused(411, "the header Content-Length is missing or not valid")
    if len(text) > 12 or int(text) > MOST_BYTES:
        raise Refused(413, f"the request has more than {MOST_BYTES:,} bytes")
    return int(text)


class Guard:
    """The host names of the service; ``named`` are those given by the user."""

    def __init__(self, named: Collection[str] = ()) -> None:
        self.names = {"localhost", *map(_plain, named), *map(_plain, _own_names(named))}

    def check(self, headers: Message, arrived: str, *, needed: bool) -> None:
        """Reject a request for another host, or from a page of another site.

        ``arrived`` is the address that the client connected to, ``needed`` whether HTTP requires the Host header.
        """
        hosts = headers.get_all("Host", [])
        if len(hosts) > 1 or (needed and not hosts):
            raise Refused(400, "the request needs exactly one Host header")
        if hosts and not self._known(hosts[0].strip(), arrived):
            raise Refused(403, "this host name is not allowed; allow it with tracekit serve --allow-host NAME")
        self._check_origin(headers, hosts[0].strip() if hosts else "")

    def _known(self, host: str, arrived: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            raise Refused(400, "the Host header is not a host name or an address")
        name = _plain(found[1])
        if name in self.names or name == _plain(arrived):
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    def _check_origin(self, headers: Message, host: str) -> None:
        origins = headers.get_all("Origin", [])
        site = headers.get("Sec-Fetch-Site", "none").strip().lower()
        own = [f"{scheme}://{host}".lower() for scheme in ("http", "https")]
        if len(origins) > 1 or any(_origin(origin) not in own for origin in origins) or site == "cross-site":
            raise Refused(403, "requests from web pages of other sites are rejected")


def _origin(text: str) -> str:
    try:
        found = urlsplit(text.strip().lower())
    except ValueError:
        return ""
    return f"{found.scheme}://{found.netloc}" if not (found.path or found.query or found.fragment) else ""


def _plain(name: str) -> str:
    """Return a name for comparison: lower case, no brackets, no dot at the end."""
    return name.strip("[]").rstrip(".").lower()


def _own_names(named: Collection[str]) -> list[str]:
    """Return this machine's name, if the service listens for other machines."""
    return [socket.gethostname()] if {"0.0.0.0", "::", ""} & set(named) else []
