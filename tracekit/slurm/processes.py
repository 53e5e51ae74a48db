"""Processes that were started here: found by their pid files and by what they run, ended by their ids only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

#: Seconds between two looks.
_BEAT = 0.05


def read_pid(path: Path) -> int | None:
    """Return the number in a pid file; None if there is none."""
    try:
        return int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def command_of(pid: int) -> list[str]:
    """Return the command line of a process; empty if it is gone, or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def runs(pid: int | None, program: str, mark: str, variable: str = "") -> bool:
    """Return whether a process is the program that was started with ``mark`` among its arguments.

    A pid file may be older than the machine's last start, and its number another process's by now. A program without
    arguments (slurmdbd) is known by a ``variable`` of its environment.
    """
    words = command_of(pid) if pid else []
    if not words or Path(words[0]).name != program:
        return False
    return any(mark in word for word in words[1:]) or bool(variable and variable.encode() in _environment_of(str(pid)))


def _environment_of(pid: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def of_jobs(cluster: str, conf: str) -> list[int]:
    """Return the processes of jobs of one Slurm: their steps, and all that carries its name as a job's process does.

    Steps and scripts outlive the daemon of their node. A shell that merely uses the same configuration is none of them.
    """
    job, step, found = f"SLURM_CLUSTER_NAME={cluster}".encode(), f"SLURM_CONF={conf}".encode(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        variables = _environment_of(entry.name)
        try:
            named = (entry / "comm").read_text().strip()
        except OSError:
            continue
        if (job in variables) or (named == "slurmstepd" and step in variables):
            found.append(int(entry.name))
    return found


def end(pids: Iterable[int], *, patience: float = 10.0) -> list[int]:
    """Ask processes to end, then kill those that do not; return those that are still there."""
    left = [pid for pid in pids if _send(pid, signal.SIGTERM)]
    if not wait_until(lambda: not any(map(alive, left)), patience):
        for pid in left:
            _send(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(alive, left)), patience)
    return [pid for pid in left if alive(pid)]


def alive(pid: int) -> bool:
    """Return whether a process is there and has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")


def wait_until(done: Callable[[], bool], patience: float) -> bool:
    """Wait until something is so; False if it does not come about within ``patience`` seconds."""
    limit = time.monotonic() + patience
    while not done():
        if time.monotonic() > limit:
            return False
        time.sleep(_BEAT)
    return True


def _send(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
