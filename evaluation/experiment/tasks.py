"""Pieces of work that are done once: each has an address made of what goes into it, and a folder that holds its result.

The address is a hash of the kind of work, its parameters (seeds among them), the addresses of its inputs and the code
that does it. Requesting the same work again finds the folder; a change of anything relevant does not.
A folder is written under another name and renamed, and its files are listed with their hashes: what is half there,
damaged or cut short counts as not there.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

RESULT = "result.json"
#: Folders of work that is half done: a hidden address, and who does it.
_SCRATCH = re.compile(r"\.[0-9a-f]{20}\..+")
LOG = "log.txt"  # what libraries print while the work is done
#: Errors of disks that are full, or over a quota.
FULL = (errno.ENOSPC, errno.EDQUOT)
#: Bytes that a process takes before the first job (Python, libraries, compiled code), and for each job that it reads.
BASE, PER_JOB = 400 * 1024**2, 300


@dataclass(frozen=True)
class Input:
    """A file that a task reads: one of the run's own data, or an output of another task."""

    file: str  # name inside the folder of the task, or inside data/
    task: str = ""  # address of the task that makes it; empty = data/
    digest: str = ""  # of the content, for data/
    jobs: int = 0  # in it; 0 = unknown

    @property
    def path(self) -> str:
        """Return the place relative to the run's folder."""
        return f"tasks/{self.task}/{self.file}" if self.task else f"data/{self.file}"


@dataclass(frozen=True)
class Task:
    """One piece of work."""

    kind: str  # a name of `steps.STEPS`
    params: Mapping[str, Any]  # plain values
    inputs: Mapping[str, Input]
    code: str  # hash of the source that does it
    about: Mapping[str, Any] = field(default_factory=dict)  # arm, model, seed …: for people, no part of the address
    heavy: bool = False  # needs much memory: one at a time
    cost: float = 1.0  # seconds of one core, a guess
    asks: int = 0  # bytes of memory that it takes, a guess; 0 = go by the jobs that it reads

    @cached_property
    def key(self) -> str:
        """Return the address."""
        inputs = {name: f"{i.task}/{i.file}" if i.task else i.digest for name, i in self.inputs.items()}
        return digest({"kind": self.kind, "params": self.params, "inputs": inputs, "code": self.code})

    @property
    def memory(self) -> int:
        """Return how many bytes it takes at least, as far as that is known beforehand."""
        return self.asks or BASE + PER_JOB * sum(i.jobs for i in self.inputs.values())

    @property
    def needs(self) -> set[str]:
        """Return the addresses of the tasks that must be done before."""
        return {i.task for i in self.inputs.values() if i.task}

    @property
    def label(self) -> str:
        """Return a few words for progress displays."""
        parts = [self.kind, self.about.get("model") or self.about.get("arm", ""), self.about.get("learner", "")]
        numbers = [str(self.about[n]) for n in ("seed", "agent_seed") if self.about.get(n) is not None]
        return " ".join(filter(None, [*parts, "/".join(numbers)]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, from which `of` makes the same task again in another process."""
        return {
            "kind": self.kind,
            "params": dict(self.params),
            "inputs": {name: [i.file, i.task, i.digest, i.jobs] for name, i in self.inputs.items()},
            "code": self.code,
            "about": dict(self.about),
            "heavy": self.heavy,
            "cost": self.cost,
            "asks": self.asks,
        }

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Task:
        """Make a task from plain values."""
        inputs = {name: Input(*parts) for name, parts in values["inputs"].items()}
        return cls(**{**values, "inputs": inputs})


@dataclass(frozen=True)
class Result:
    """How a task ended.

    ``lost``: its process was killed, which says nothing about the work: try again. ``cramped``: it was not given the
    memory, the disk or the software that it wanted, so another run may well do it. Neither is kept.
    """

    ok: bool
    reason: str = ""  # why not
    lost: bool = False
    cramped: bool = False
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_mb: float = 0.0

    @property
    def final(self) -> bool:
        """Return whether doing the task again would end in the same way."""
        return not (self.lost or self.cramped)


def digest(data: Any) -> str:
    """Return a short hash of plain values."""
    text = json.dumps(data, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def file_digest(path: Path) -> str:
    """Return the hash of a file's content."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def code_digest(paths: Iterable[Path]) -> str:
    """Return the hash of source files: of their contents and names, not of where they lie."""
    return digest([[path.name, file_digest(path)] for path in sorted(paths)])


class Store:
    """The folders of finished tasks in ``RUN/tasks``."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.folder = run / "tasks"

    def home(self, key: str) -> Store:
        """Return the store that a task works in: this one."""
        return self

    def share(self, key: str) -> None:
        """Give a finished task to all stores that need it: there is this one only."""

    def place(self, key: str) -> Path:
        """Return where the task of an address lives."""
        return self.folder / key

    def result(self, key: str) -> Result | None:
        """Return how a task ended; None if it has not been done, or its folder is damaged."""
        place = self.place(key)
        try:
            plain = json.loads((place / RESULT).read_text(encoding="utf-8"))
            for name, expected in plain["files"].items():
                if file_digest(place / name) != expected:
                    return None
            return Result(**plain["result"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def scratch(self, key: str) -> Path:
        """Make and return an empty folder to work in."""
        made = self.folder / f".{key}.{os.getpid()}"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        return made

    def keep(self, task: Task, scratch: Path, result: Result) -> None:
        """Make a worked-in folder the task's own: all of it or nothing."""
        files = {
            path.relative_to(scratch).as_posix(): file_digest(path)
            for path in sorted(scratch.rglob("*"))
            if path.is_file() and path.name != LOG
        }
        plain = {"task": task.to_dict(), "result": vars(result), "files": files}
        text = json.dumps(plain, indent=1, default=str) + "\n"  # escaped: file names may be no UTF-8
        (scratch / RESULT).write_text(text, encoding="utf-8")
        place = self.place(task.key)
        if place.exists():  # damaged, or it would have been used
            shutil.rmtree(place)
        scratch.replace(place)

    def sweep(self) -> None:
        """Remove what an interrupted run left half done."""
        for left in self.folder.glob(".*"):
            if _SCRATCH.fullmatch(left.name):  # the folder may be one in which a user keeps other things, too
                shutil.rmtree(left, ignore_errors=True)


class Stores(Store):
    """The stores of several runs, for one queue over all of them: a task that two runs need is done once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.homes: dict[str, list[Store]] = {}

    def add(self, store: Store, tasks: Iterable[Task]) -> None:
        """Take the tasks of one run."""
        for task in tasks:
            homes = self.homes.setdefault(task.key, [])
            if store not in homes:
                homes.append(store)

    def home(self, key: str) -> Store:
        """Return the store of the first run that needs the task."""
        return self.homes[key][0]

    def result(self, key: str) -> Result | None:
        """Return how a task ended, in whichever run it was done."""
        for store in self.homes[key]:
            found = store.result(key)
            if found is not None:
                if store is not self.homes[key][0]:
                    self.homes[key].sort(key=lambda other: other is not store)
                return found
        return None

    def share(self, key: str) -> None:
        """Link a finished task into the other runs that need it, so that each folder is whole by itself."""
        first, *others = self.homes[key]
        for store in others:
            if first.place(key).is_dir() and store.result(key) is None:
                scratch = store.scratch(key)
                shutil.copytree(first.place(key), scratch, copy_function=_linked, dirs_exist_ok=True)
                shutil.rmtree(store.place(key), ignore_errors=True)
                scratch.replace(store.place(key))


def _linked(source: str, target: str) -> None:
    """Give a file a second name, or copy it where the file system has none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
