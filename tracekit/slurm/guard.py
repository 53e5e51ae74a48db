"""A process that outlives a replay or a driver that is killed, and clears up after it. Not for people.

It reads its standard input. The word ``done`` sends it away. If the pipe ends without it, its parent has died: it puts
changed priorities back (``drive`` journals), waits until no job is left in the queue, and stops the Slurm of the folder
(``own``). A replay that goes on later takes over from it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tracekit.slurm import processes
from tracekit.slurm.own import Own
from tracekit.slurm.tools import locked

PID = "run/guard.pid"


class Guard:
    """The parent's side: started before anything is changed, dismissed when all is put right."""

    def __init__(self, *words: str) -> None:
        paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tracekit.slurm.guard", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """Send it away: there is nothing left to clear up."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(b"done\n")
            self.process.stdin.close()
        except (BrokenPipeError, ValueError):
            pass
        self.process.wait(30)


def take_over(folder: Path) -> None:
    """End the guard of an earlier run, which would stop the Slurm of the folder; one that is at it may finish first."""
    with locked(_lock(folder)):
        pid = processes.read_pid(folder / PID)
        if pid is not None and "tracekit.slurm.guard" in processes.command_of(pid):
            processes.end([pid])
        (folder / PID).unlink(missing_ok=True)


def _lock(folder: Path) -> Path:
    (folder / "log").mkdir(exist_ok=True)
    return folder / "log" / "guard.lock"


def main(words: list[str]) -> int:
    """Wait for the parent's last word; ``own DIR`` or ``drive JOURNAL``."""
    kind, place = words[0], Path(words[1])
    if kind == "own":
        (place / PID).write_text(f"{os.getpid()}\n")
    said = sys.stdin.buffer.read()
    if said.strip() != b"done":
        if kind == "drive":
            from tracekit.slurm.journal import restore_all

            restore_all(place)
        else:
            _stop_when_idle(Own(place))
    if kind == "own":
        (place / PID).unlink(missing_ok=True)
    return 0


def _stop_when_idle(own: Own) -> None:
    """Wait until the jobs in the queue have ended, and stop; jobs that can never start are not waited for."""
    for journal in sorted(own.folder.glob("drive*.jsonl")):
        from tracekit.slurm.journal import restore_all

        restore_all(journal)
    still = 0
    while own.running():
        states = own.status().jobs
        still = 0 if states.get("running") or states.get("completing") else still + 1
        if not states or still > 60:
            break
        time.sleep(1.0)
    with locked(_lock(own.folder)):
        own.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
