"""A service that is still compiling: it listens, answers 503, and decides once it is ready."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tracekit.service.protocol import Refused
from tracekit.service.starting import Starting


class Slow:
    """Becomes ready when it is let go."""

    def __init__(self, error: Exception | None = None) -> None:
        self.go, self.error = threading.Event(), error

    def prepare(self) -> None:
        self.go.wait(30)
        if self.error:
            raise self.error

    def about(self) -> dict[str, Any]:
        return {"agent": "slow"}

    def answer(self, request: Any) -> dict[str, Any]:
        return {"order": [request]}


def test_requests_are_refused_until_it_is_ready() -> None:
    slow, done = Slow(), threading.Event()
    starting = Starting(slow, done.set, patience=0.0)
    assert not starting.ready
    assert starting.about() == {"agent": "slow"}
    with pytest.raises(Refused) as refused:
        starting.answer(1)
    assert refused.value.status == 503
    slow.go.set()
    assert done.wait(30)
    assert starting.ready
    assert starting.answer(1) == {"order": [1]}


def test_a_failure_is_reported_to_every_caller() -> None:
    slow, done = Slow(RuntimeError("no compiler")), threading.Event()
    slow.go.set()
    starting = Starting(slow, done.set)
    assert done.wait(30)
    assert not starting.ready
    with pytest.raises(Refused) as refused:
        starting.answer(1)
    assert refused.value.status == 500
