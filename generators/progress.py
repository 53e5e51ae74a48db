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


class TimeLeft:
    """Estimates the time left from the work since the first report, once there is enough of it to mean something."""

    FEWEST_SECONDS, SMALLEST_SHARE = 5.0, 0.01

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None  # work done and time at the first report

    def __call__(self, done: float, total: float, now: float) -> str:
        """Return ``, 0:48 left``; empty while less than 5 s or 1 % of the work has been measured, and at the end."""
        if self._first is None or done < self._first[0]:
            self._first = (done, now)
        work, seconds = done - self._first[0], now - self._first[1]
        if done >= total or seconds < self.FEWEST_SECONDS or work < max(self.SMALLEST_SHARE * total, 1e-9):
            return ""
        left = round(seconds / work * (total - done))
        hours, minutes = divmod(left // 60, 60)
        return f", {hours}:{minutes:02d}:{left % 60:02d} left" if hours else f", {minutes}:{left % 60:02d} left"


class StderrProgress:
    """Writes ``ctgan: 12 of 300 epochs, 0:48 left`` on stderr: in place on a terminal, else a line now and then."""

    def __init__(self, name: str, *, every: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._live = sys.stderr.isatty()
        self._every = every if self._live else 15.0 * every
        self._began = self._said = clock()
        self._unit, self._left = "", TimeLeft()

    def __call__(self, done: int, total: int, unit: str) -> None:
        """Report, unless the last report is too fresh."""
        now = self._clock()
        if unit != self._unit:  # another part of the work, with a pace of its own
            self._unit, self._left = unit, TimeLeft()
        left = self._left(done, total, now)
        if done < total and now - self._said < self._every:
            return
        if done >= total and not self._live and self._said == self._began:  # over before there was anything to say
            return
        self._said = now
        text = f"{self._name}: {done:,} of {total:,} {unit}{left}"
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
