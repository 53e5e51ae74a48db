"""Tasks as job arrays of the Slurm at hand. The run's folder must be seen by its nodes, as home folders are.

Tasks that are ready together become one array. A task whose job ends without an answer (killed, node lost, cancelled)
is lost, and the runner tries it again; Slurm itself queues jobs of a failed node again. Options for sbatch, such as a
partition or an account, come from its own variables (``SBATCH_PARTITION``, ``SBATCH_ACCOUNT`` …).
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
import time
from pathlib import Path

from evaluation.experiment.tasks import Result, Store, Task
from tracekit.slurm.queue import processors
from tracekit.slurm.tools import Slurm, SlurmError, require

#: Seconds between two looks at the queue, at least, and tasks of one array.
_LOOK_S, _MOST_TASKS = 2.0, 1000
#: Looks in a row at which a job must be missing before it counts as lost: its answer may come late over the network.
_MISSING = 3
#: States of jobs that may still give an answer.
_ALIVE = {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED", "RESIZING", "SIGNALING"}


class Arrays:
    """Job arrays of a Slurm."""

    name = "slurm"

    def __init__(
        self, store: Store, threads: dict[str, str], slurm: Slurm | None = None, *, memory: int | None = None
    ) -> None:
        require("sbatch", "squeue", "scancel", "sinfo")
        self.store, self.threads, self.memory = store, threads, memory
        self.slurm = slurm or Slurm(os.environ.get("SLURM_CONF") or None, options=True)
        self.slots = min(processors(self.slurm.call("sinfo", "--json")), _MOST_TASKS)
        self.heavy = max(1, self.slots // 2)
        self.folder = store.run.resolve() / "slurm"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.job_name = "tracekit-" + hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]
        self.slurm.attempt("scancel", "--quiet", f"--name={self.job_name}")  # of an earlier run that was killed
        self._ready: list[Task] = []
        self._running: dict[str, tuple[Task, Path]] = {}  # "job_task" -> task, answer
        self._missing: dict[str, int] = {}
        self._looked = 0.0

    def start(self, task: Task) -> None:
        """Take a task; it is submitted together with the others that are ready now."""
        self._ready.append(task)

    def _submit(self) -> None:
        tasks, self._ready = self._ready[:_MOST_TASKS], self._ready[_MOST_TASKS:]
        number = len(list(self.folder.glob("*.json"))) + 1
        order = self.folder / f"{number:05d}.json"
        runs = [str(self.store.home(task.key).run.resolve()) for task in tasks]
        plain = {"runs": runs, "tasks": [task.to_dict() for task in tasks], "memory": self.memory}
        order.write_text(json.dumps(plain), encoding="utf-8")
        paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        variables = {**self.threads, "PYTHONPATH": paths}
        lines = ["#!/bin/sh", *(f"export {name}={shlex.quote(value)}" for name, value in variables.items())]
        command = [sys.executable, "-m", "evaluation.experiment.array_task", str(order)]
        lines += [f"cd {shlex.quote(str(Path.cwd()))}", f"exec {shlex.join(command)}", ""]
        words = ["--parsable", f"--job-name={self.job_name}", f"--array=0-{len(tasks) - 1}", "--ntasks=1", "--requeue"]
        words += [f"--mem={-(-self.memory // 1024**2)}M"] if self.memory is not None else []
        log = str(order.with_suffix("")) + ".%a.log"
        job = self.slurm.call("sbatch", *words, f"--output={log}", stdin="\n".join(lines)).strip().partition(";")[0]
        for place, task in enumerate(tasks):
            self._running[f"{job}_{place}"] = (task, order.with_suffix(f".{place}.answer"))

    def wait(self, seconds: float) -> list[tuple[Task, Result]]:
        """Submit what is ready, and return tasks with an answer, or whose job has ended without one."""
        while self._ready:
            self._submit()
        limit = time.monotonic() + seconds
        while True:
            ended = self._answers()
            if not ended and time.monotonic() - self._looked > _LOOK_S:
                self._looked = time.monotonic()
                ended = self._lost()
            if ended or time.monotonic() > limit:
                return ended
            time.sleep(min(0.2, seconds))

    def _answers(self) -> list[tuple[Task, Result]]:
        ended = []
        for name, (task, answer) in list(self._running.items()):
            try:
                found = Result(**json.loads(answer.read_text(encoding="utf-8")))
            except (OSError, ValueError, TypeError):
                continue
            del self._running[name]
            ended.append((task, found))
        return ended

    def _lost(self) -> list[tuple[Task, Result]]:
        """Return tasks whose job is in no state from which an answer may come."""
        try:
            text = self.slurm.call("squeue", "--noheader", "--array", f"--name={self.job_name}", "--format=%F_%K %T")
        except SlurmError:
            return []  # the controller is away: nothing is known
        alive = {line.split()[0] for line in text.splitlines() if line.split()[1:] and line.split()[1] in _ALIVE}
        ended = []
        for name, (task, _) in list(self._running.items()):
            self._missing[name] = 0 if name in alive else self._missing.get(name, 0) + 1
            if self._missing[name] >= _MISSING:
                del self._running[name]
                reason = f"Slurm's job {name} ended without an answer (killed, cancelled, or its node was lost)"
                ended.append((task, Result(ok=False, reason=reason, lost=True)))
        return ended

    def stop(self, task: Task) -> None:
        """Cancel the task's job."""
        self._ready = [own for own in self._ready if own.key != task.key]
        for name, (own, _) in list(self._running.items()):
            if own.key == task.key:
                del self._running[name]
                self.slurm.attempt("scancel", "--quiet", name)

    def close(self) -> None:
        """Cancel all jobs of this run."""
        self._ready.clear()
        self._running.clear()
        self.slurm.attempt("scancel", "--quiet", f"--name={self.job_name}")
