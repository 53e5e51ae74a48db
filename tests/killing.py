"""Run commands in child processes and kill each at one of its steps: a driver for tests, run as a script.

Standard input is JSON: ``root`` (folder to work in), ``old`` and ``new`` (commands, lists of words, that write
``outputs``), ``outputs`` (names below the root), ``first`` and ``every`` (kill at that step and at each so many-th one
after it), ``exchange`` (false: without the system call that exchanges names), ``foreign`` (a file of the user in an
output folder, which must stay). Standard output is JSON: how many kills, and what was found after each bad one.

A step is anything that Python reports to its audit hooks about a file below the root: open, rename, remove, mkdir,
link. The child kills itself with SIGKILL just before it, so the points are the same on every machine.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from tracekit.cli import main as cli

_FILE_EVENTS = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.chmod", "ctypes.dlsym")


def child(command: list[str], root: Path, kill_at: int | None) -> int:
    """Run a command in a child; return how many steps it took, or -1 if it was killed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        steps, below = 0, os.fsencode(root)

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal steps
            if event not in _FILE_EVENTS:
                return
            named = [os.fsencode(a) for a in arguments[:2] if isinstance(a, (str, bytes, os.PathLike))]
            if (event == "ctypes.dlsym" and "renameat2" in arguments) or any(below in name for name in named):
                steps += 1
                if steps == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        code = cli(command)
        os.write(write, f"{code} {steps}".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        report = pipe.read()
    os.waitpid(pid, 0)
    if not report:
        return -1
    code, steps = map(int, report.split())
    if code:
        raise SystemExit(f"{command}: exit code {code}")
    return steps


def content(root: Path, outputs: list[str]) -> dict[str, bytes]:
    """Return all files of the outputs, by name."""
    found = {}
    for name in outputs:
        place = root / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file():
                found[str(path.relative_to(root))] = path.read_bytes()
    return found


def leftovers(root: Path) -> list[str]:
    """Return temporary files and folders that are still there."""
    return [str(path.relative_to(root)) for path in root.rglob(".*") if path.name.startswith(".")]


def state(now: dict[str, bytes], old: dict[str, bytes], new: dict[str, bytes]) -> str:
    """Return what is there: the old run, the new one, a part of one of them, or files of both."""
    if now in (old, new):
        return "old" if now == old else "new"
    if all(old.get(name) == data for name, data in now.items()):
        return "part of old"
    if all(new.get(name) == data for name, data in now.items()):
        return "part of new"
    return "mixed"


def restore(root: Path, keep: Path) -> None:
    """Put back what was there before the kill."""
    shutil.rmtree(root)
    shutil.copytree(keep, root, symlinks=True)
    os.chdir(root)


def main() -> None:
    """Do what the order on standard input asks for."""
    order = json.load(sys.stdin)
    root, outputs = Path(order["root"]), order["outputs"]
    if not order.get("exchange", True):
        import tracekit.folders

        tracekit.folders._exchanged = lambda one, other: False
    out, sys.stdout = sys.stdout, Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stdout
    os.chdir(root)
    if cli(order["old"]) or not Path(order["outputs"][0]).exists():  # here, so that all is imported when children start
        raise SystemExit(f"{order['old']}: failed")
    if "foreign" in order:
        (root / order["foreign"]).write_text("mine")
    old = content(root, outputs)
    keep = root.with_name(root.name + "-kept")
    shutil.copytree(root, keep, symlinks=True)
    child(order["new"], root, None)
    new = content(root, outputs)
    if "foreign" in order and order["foreign"] not in new:
        raise SystemExit("a file of the user is gone")
    restore(root, keep)
    found: dict[str, int] = {}
    bad: list[dict[str, Any]] = []
    at, kills = order.get("first", 1), 0
    while True:
        ended = child(order["new"], root, at) >= 0
        seen = state(content(root, outputs), old, new)
        if not order.get("exchange", True) and seen not in ("old", "new") and not ended:
            child(order["new"], root, None)  # the next run repairs it
            seen = "repaired" if content(root, outputs) == new else state(content(root, outputs), old, new)
        found[seen] = found.get(seen, 0) + 1
        if seen not in ("old", "new", "repaired"):
            bad.append({"step": at, "state": seen, "files": sorted(content(root, outputs))})
        if ended:
            break
        kills += 1
        if leftovers(root) and (kills - 1) % order.get("clean", 10) == 0:
            child(order["new"], root, None)  # the next run removes what a killed one left
            if leftovers(root):
                bad.append({"step": at, "state": "leftovers", "files": leftovers(root)})
        restore(root, keep)
        at += order.get("every", 1)
    json.dump({"kills": kills, "found": found, "bad": bad}, out)


if __name__ == "__main__":
    main()
