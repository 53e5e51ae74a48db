"""Progress of work that a reader does on the user's behalf: who shows it says so, and who works reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Called with what is being done, and the share that is done.
Listener = Callable[[str, float], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard(listener: Listener | None) -> Iterator[None]:
    """Pass all reports of the block to ``listener``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(what: str, share: float) -> None:
    """Tell whoever listens how far some work has come, 0 to 1.

    >>> with heard(lambda what, share: print(what, share)):
    ...     report("reading", 0.5)
    reading 0.5
    """
    listener = _listener.get()
    if listener is not None:
        listener(what, share)
