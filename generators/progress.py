"""Progress of a fit, and how it is stopped early."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

#: Called as progress(done, total, unit), for example progress(12, 300, "epochs").
Progress = Callable[[int, int, str], None]


def silent(done: int, total: int, unit: str) -> None:
    """Say nothing: the default for library use."""


class StderrProgress:
    """Writes ``ctgan: 12 of 300 epochs, 0:48 left`` on stderr: in place on a terminal, else a line now and then."""

    def __init__(self, name: str, *, every: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._live = sys.stderr.isatty()
        self._every = every if self._live else 15.0 * every
        self._began = self._said = clock()

    def __call__(self, done: int, total: int, unit: str) -> None:
        """Report, unless the last report is too fresh."""
        now = self._clock()
        if done < total and now - self._said < self._every:
            return
        if done >= total and not self._live and self._said == self._began:  # over before there was anything to say
            return
        self._said = now
        left = (now - self._began) / max(done, 1) * (total - done)
        text = f"{self._name}: {done} of {total} {unit}, {int(left) // 60}:{int(left) % 60:02d} left"
        end = "\n" if done >= total or not self._live else ""
        sys.stderr.write(f"\r{text:<70}{end}" if self._live else text + end)
        sys.stderr.flush()


class Stop:
    """Whether an early stop was requested."""

    asked = False


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Turn the first Ctrl-C (or SIGTERM) into a request to stop after the current step.

    The second one interrupts at once. Outside the main thread signals cannot be caught, and nothing changes.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True
        sys.stderr.write("\nstopping after this step and keeping what was learnt; once more to stop at once\n")

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, on_signal) for number in signals]
    try:
        yield stop
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
