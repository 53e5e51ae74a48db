"""A service that listens at once and answers as soon as its code is compiled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tracekit.service.protocol import Refused

#: Seconds for which a request waits for the service to be ready before it is sent away.
PATIENCE_S = 5.0


class Preparable(Protocol):
    """What answers; see `tracekit.service.decide.Decider`."""

    def prepare(self) -> None:
        """Compile or load what the first answer needs; may take a minute."""

    def about(self) -> dict[str, Any]:
        """Return the description of the agent."""

    def answer(self, request: Any) -> dict[str, Any]:
        """Return the jobs of a request in order."""


class Starting:
    """Prepares a decider in a thread of its own; requests that come before it is ready wait a little, or get 503."""

    def __init__(self, decider: Preparable, done: Callable[[], None], patience: float = PATIENCE_S) -> None:
        self._decider, self._done, self._patience = decider, done, patience
        self._ready, self._failure = threading.Event(), ""
        threading.Thread(target=self._prepare, daemon=True).start()

    @property
    def ready(self) -> bool:
        """Return whether requests are answered now."""
        return self._ready.is_set() and not self._failure

    def about(self) -> dict[str, Any]:
        """Return the description of the agent; needs no compiled code."""
        return self._decider.about()

    @property
    def posts(self) -> Mapping[str, Callable[[bytes], Any]]:
        """The paths of the decider; empty = those that every service has."""
        own: Mapping[str, Callable[[bytes], Any]] = getattr(self._decider, "posts", {})
        return {path: self._waiting(answer) for path, answer in own.items()}

    def _waiting(self, answer: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        def answered(body: bytes) -> Any:
            self._wait()
            return answer(body)

        return answered

    def answer(self, request: Any) -> dict[str, Any]:
        """Answer, or refuse with 503 while the code is being compiled."""
        self._wait()
        return self._decider.answer(request)

    def _wait(self) -> None:
        if not self._ready.wait(self._patience):
            raise Refused(503, "starting: the code is being compiled, which takes up to a minute; retry in a moment")
        if self._failure:
            raise Refused(500, f"the service could not start: {self._failure}")

    def _prepare(self) -> None:
        try:
            self._decider.prepare()
        except Exception as error:
            self._failure = f"{type(error).__name__}: {error}"
        self._ready.set()
        self._done()
