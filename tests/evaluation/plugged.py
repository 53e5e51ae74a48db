"""Third-party generators, as an experiment may use them: plugged in as ``plugged:Copy`` and so on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from generators.base import ModelInfo
from tracekit import Trace


class _Plugged:
    name: ClassVar[str] = "plugged"
    info: ClassVar[ModelInfo] = ModelInfo("test", "for tests", "Apache-2.0")

    def fit(self, trace: Trace, /, *, seed: int) -> Self:
        self.trace = trace
        return self

    def sample(self, n_jobs: int, /, *, seed: int) -> Any:
        raise NotImplementedError


class Copy(_Plugged):
    """Gives the fitted jobs back."""

    def sample(self, n_jobs: int, /, *, seed: int) -> Trace:
        return self.trace


class Shuffled(_Plugged):
    """The fitted jobs at the fitted instants, in another order."""

    def sample(self, n_jobs: int, /, *, seed: int) -> Trace:
        rows = np.random.default_rng(seed).permutation(len(self.trace))
        columns = [c for c in self.trace.jobs.columns if c not in ("job_id", "submit_time")]
        return self.trace.assign({c: self.trace.jobs[c].array.take(rows) for c in columns})


class Throws(_Plugged):
    def fit(self, trace: Trace, /, *, seed: int) -> Self:
        raise RuntimeError("no luck\ntoday")


class OutOfMemory(_Plugged):
    def fit(self, trace: Trace, /, *, seed: int) -> Self:
        raise MemoryError


class Nothing(_Plugged):
    def sample(self, n_jobs: int, /, *, seed: int) -> Any:
        return None


class Nonsense(_Plugged):
    """As many jobs as wanted, but none that could run."""

    def sample(self, n_jobs: int, /, *, seed: int) -> Trace:
        return self.trace.assign({"run_time": np.full(len(self.trace), np.nan), "req_procs": -3})


class Half(_Plugged):
    def sample(self, n_jobs: int, /, *, seed: int) -> Trace:
        return self.trace.head(n_jobs // 2)


class Killed(_Plugged):
    """Its process is killed, every time."""

    def fit(self, trace: Trace, /, *, seed: int) -> Self:
        os.kill(os.getpid(), signal.SIGKILL)
        return self


class Leaves(_Plugged):
    """Asks its process to end."""

    def fit(self, trace: Trace, /, *, seed: int) -> Self:
        raise SystemExit(4)


class LeavesAtOnce(_Plugged):
    """Its process is gone without a word."""

    def fit(self, trace: Trace, /, *, seed: int) -> Self:
        os._exit(7)


class Speechless(_Plugged):
    """Throws what cannot even be printed."""

    def fit(self, trace: Trace, /, *, seed: int) -> Self:
        class Unspeakable(Exception):
            def __str__(self) -> str:
                raise ValueError

        raise Unspeakable


class Endless(_Plugged):
    """Run times without end."""

    def sample(self, n_jobs: int, /, *, seed: int) -> Trace:
        return self.trace.assign({"run_time": np.full(len(self.trace), np.inf)})


class HasChild(_Plugged):
    """Waits for a program that it has started."""

    def fit(self, trace: Trace, /, *, seed: int) -> Self:
        child = subprocess.Popen(["sleep", "600"])
        Path(os.environ["TRACEKIT_TEST_MARK"]).with_suffix(".child").write_text(str(child.pid))
        child.wait()
        return self


class KilledOnce(Copy):
    """Its process is killed the first time."""

    def fit(self, trace: Trace, /, *, seed: int) -> Self:
        mark = Path(os.environ["TRACEKIT_TEST_MARK"])
        if not mark.exists():
            mark.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(trace, seed=seed)


class Sleeps(Copy):
    """Takes its time, and says that it has begun."""

    def fit(self, trace: Trace, /, *, seed: int) -> Self:
        Path(os.environ["TRACEKIT_TEST_MARK"]).write_text(str(os.getpid()))
        time.sleep(float(os.environ.get("TRACEKIT_TEST_SLEEP", "60")))
        return super().fit(trace, seed=seed)


class Hungry(Copy):
    """Takes a gigabyte for a moment."""

    def fit(self, trace: Trace, /, *, seed: int) -> Self:
        np.empty(2**30, np.uint8)
        return super().fit(trace, seed=seed)
