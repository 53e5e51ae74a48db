"""What a driver has changed, written down before it is changed, so that it can be put back whatever happens.

One JSON object a line: ``{"open": conf, "method": "priority" or "nice"}``, then ``{"job", "from", "to", "time"}`` for
each change (priorities, or nice values) and ``{"closed": time}`` once all is put back.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tracekit.slurm.queue import priorities
from tracekit.slurm.tools import Slurm, SlurmError

#: How often putting back is tried while the controller does not answer, and the pause between.
_TRIES, _PAUSE_S = 30, 2.0


class Journal:
    """The file of one driver."""

    def __init__(self, path: Path, slurm: Slurm, method: str) -> None:
        self.path, self.slurm, self.method = path, slurm, method
        self.original: dict[int, int] = {}
        self.last: dict[int, int] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("a", encoding="utf-8")
        self.write({"open": slurm.conf, "method": method, "time": time.time()})

    def write(self, entry: dict[str, Any], *, sync: bool = True) -> None:
        """Append a line; it is on the disk when this returns."""
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()
        if sync:
            os.fsync(self.file.fileno())

    def before(self, changes: Sequence[tuple[int, int, int]]) -> None:
        """Write down changes (job, from, to) that are about to be made."""
        for job, old, new in changes:
            self.original.setdefault(job, old)
            self.last[job] = new
            self.write({"job": job, "from": old, "to": new, "time": round(time.time(), 3)}, sync=False)
        os.fsync(self.file.fileno())

    def restore(self) -> int:
        """Put back what this driver changed, and close the file; returns how many jobs were put back."""
        count = put_back(self.slurm, self.method, self.original, self.last)
        self.close()
        return count

    def close(self) -> None:
        """Say that nothing is left to put back."""
        self.write({"closed": time.time()})
        self.file.close()


def unfinished(path: Path) -> tuple[Slurm, str, dict[int, int], dict[int, int]] | None:
    """Read a journal: Slurm, method, original and last values of what has not been put back; None if all has."""
    if not path.is_file():
        return None
    slurm, method = Slurm(), ""
    original: dict[int, int] = {}
    last: dict[int, int] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # cut short when the driver died: the change was not made yet
        if "open" in entry:
            slurm, method = Slurm(entry["open"]), entry["method"]
        elif "closed" in entry:
            original, last = {}, {}
        elif "job" in entry:
            original.setdefault(entry["job"], entry["from"])
            last[entry["job"]] = entry["to"]
    return (slurm, method, original, last) if original else None


def restore_all(path: Path) -> int:
    """Put back what a driver that died has changed, and say so in its journal; returns how many jobs."""
    found = unfinished(path)
    if found is None:
        return 0
    slurm, method, original, last = found
    count = put_back(slurm, method, original, last)
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps({"closed": time.time(), "restored": count}) + "\n")
    return count


def put_back(slurm: Slurm, method: str, original: dict[int, int], last: dict[int, int]) -> int:
    """Give pending jobs their first values again.

    Only jobs that still have the value that was set last, and are not held: what others have changed is theirs.
    """
    for attempt in range(_TRIES):
        try:
            now = priorities(slurm)
            break
        except SlurmError:
            if attempt == _TRIES - 1:
                raise
            time.sleep(_PAUSE_S)
    place = 0 if method == "priority" else 1
    mine = {
        job: original[job]
        for job, value in last.items()
        if job in now and now[job][0] > 0 and now[job][place] == value and value != original[job]
    }
    apply(slurm, method, mine)
    return len(mine)


def apply(slurm: Slurm, method: str, values: dict[int, int]) -> list[str]:
    """Set priorities or nice values through one process, and return the messages of those that were refused."""
    if not values:
        return []
    word = "Priority" if method == "priority" else "Nice"
    lines = [f"update JobId={job} {word}={value}" for job, value in values.items()]
    done = slurm.attempt("scontrol", stdin="\n".join([*lines, "quit"]) + "\n")
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    denied = [line for line in said if "denied" in line.lower()]
    if denied:
        raise SlurmError(f"scontrol: {denied[0]}; only an operator of this Slurm may steer it")
    return said
