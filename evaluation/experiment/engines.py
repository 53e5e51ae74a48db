"""Where tasks run: in processes of this machine, on a Ray cluster (`on_ray`), or on Slurm (`on_slurm`).

All give the same files.

An engine takes tasks whose inputs are there and says, in any order, how they ended. A task whose process was killed
comes back as ``lost``; the caller decides whether to retry it.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from evaluation.experiment.cores import ONE_THREAD, cores
from evaluation.experiment.memory import workers
from evaluation.experiment.tasks import Result, Store, Task
from tracekit.errors import UnknownName, UsageError

ENGINES = ("local", "ray", "slurm")
#: How long a process that has stopped answering may take to end by itself, in seconds.
_LAST_WORDS = 10.0


@dataclass(frozen=True)
class Where:
    """Which engine runs the tasks and, for Ray, the cluster's address (default: RAY_ADDRESS, else this machine).

    ``memory``: bytes that a worker may take at most; as many workers run as there is memory for. None = no bound.
    """

    engine: str = "local"
    address: str | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UnknownName("engine", self.engine, ENGINES)
        if self.address is not None and self.engine != "ray":
            raise UsageError("--address is only supported by --engine ray")

    def check(self) -> None:
        """Refuse early, before any work, what is not there."""
        if self.engine == "ray":
            from evaluation.experiment import on_ray

            on_ray.check(self.address)

    def open(self, store: Store) -> Engine:
        """Return the engine, ready to take tasks of a store."""
        if self.engine == "slurm":
            from evaluation.experiment.on_slurm import Arrays

            return Arrays(store, ONE_THREAD, memory=self.memory)
        if self.engine == "ray":
            from evaluation.experiment.on_ray import Ray

            return Ray(store, self.address, memory=self.memory)
        return Local(store, memory=self.memory)


LOCAL = Where()


class Engine(Protocol):
    """A place where tasks run."""

    name: str
    slots: int  # tasks at once
    heavy: int  # heavy ones among them, at most
    memory: int | None  # bytes that one may take; None = any

    def start(self, task: Task) -> None:
        """Begin a task; its inputs are there."""
        ...

    def wait(self, seconds: float) -> list[tuple[Task, Result]]:
        """Return tasks that have ended, at the latest after so many seconds."""
        ...

    def stop(self, task: Task) -> None:
        """End a running task by force; it never comes back."""
        ...

    def close(self) -> None:
        """End everything."""
        ...


class Local:
    """Processes of this machine. Light tasks share a process; a heavy one gets its own, whose memory goes with it."""

    name = "local"

    def __init__(self, store: Store, slots: int | None = None, *, memory: int | None = None) -> None:
        self.store, self.memory = store, memory
        self.slots = slots or workers(cores(), memory)
        self.heavy = 1
        self._idle: list[subprocess.Popen[str]] = []
        self._busy: dict[subprocess.Popen[str], Task] = {}
        self._ears = selectors.DefaultSelector()

    def start(self, task: Task) -> None:
        """Hand the task to an idle process or a new one."""
        worker = self._idle.pop() if self._idle and not task.heavy else self._worker()
        self._busy[worker] = task
        self._ears.register(_pipe(worker), selectors.EVENT_READ, worker)
        run = str(self.store.home(task.key).run)
        order = json.dumps({"task": task.to_dict(), "run": run, "memory": self.memory})
        try:
            worker.stdin.write(order + "\n")  # type: ignore[union-attr]
            worker.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            pass  # it died while idle: `wait` sees the end of its answers and calls the task lost

    def wait(self, seconds: float) -> list[tuple[Task, Result]]:
        """Read the answers of processes that have one, and find those that died."""
        answered = [event.data for event, _ in self._ears.select(seconds)]
        # a child of a dead process may hold its pipe open, which then never says that it has ended
        dead = [worker for worker in self._busy if worker.poll() is not None and worker not in answered]
        ended = []
        for worker in [*answered, *dead]:
            task = self._busy.pop(worker)
            self._ears.unregister(_pipe(worker))
            line = _pipe(worker).readline() if worker in answered else ""
            if line.endswith("\n"):  # a process that dies while answering leaves half a line
                ended.append((task, Result(**json.loads(line))))
                if task.heavy:
                    _end(worker)
                else:
                    self._idle.append(worker)
            else:
                ended.append((task, Result(ok=False, reason=_how_it_died(_left_alone(worker)), lost=True)))
                _end(worker)
        return ended

    def stop(self, task: Task) -> None:
        """Kill the task's process."""
        for worker, own in list(self._busy.items()):
            if own.key == task.key:
                del self._busy[worker]
                self._ears.unregister(_pipe(worker))
                _end(worker)

    def close(self) -> None:
        """Kill all processes."""
        for worker in [*self._idle, *self._busy]:
            _end(worker)
        self._idle.clear()
        self._busy.clear()
        self._ears.close()

    def _worker(self) -> subprocess.Popen[str]:
        paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        return subprocess.Popen(
            [sys.executable, "-m", "evaluation.experiment.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # each task keeps what it prints in its own log
            text=True,
            encoding="utf-8",
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": paths},
            start_new_session=True,
        )


def _pipe(worker: subprocess.Popen[str]) -> Any:
    return worker.stdout


def _left_alone(worker: subprocess.Popen[str]) -> int | None:
    """Return how a process ends whose answers have ended; killed at once, all would seem to die of that."""
    try:
        return worker.wait(_LAST_WORDS)
    except subprocess.TimeoutExpired:
        return None


def _end(worker: subprocess.Popen[str]) -> None:
    """Kill a process with all that it has started: it leads a session of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        try:
            if pipe is not None:
                pipe.close()
        except OSError:
            pass


def _how_it_died(code: int | None) -> str:
    if code is None:
        return "its process stopped answering"
    if code == -signal.SIGKILL:
        return "its process was killed (signal 9), as systems do when memory runs out"
    return f"its process died (signal {-code})" if code < 0 else f"its process ended by itself (code {code})"
