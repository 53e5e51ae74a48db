"""The queue of a Slurm, from ``squeue --json`` and ``sinfo --json``: which jobs wait, and which of them may be touched.

The JSON differs between versions: numbers may be objects ({set, infinite, number}), states may be lists, and ``sinfo``
lists nodes (22.05) or groups of nodes. A job that cannot be understood is left alone and counted.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tracekit.errors import FormatError
from tracekit.service.snapshots import read_squeue
from tracekit.sim.snapshot import Snapshot
from tracekit.slurm.tools import Slurm, SlurmError

#: Slurm adds this to a job's nice value.
_NICE_OFFSET = 0x80000000
#: Reasons by which Slurm says that a job is held, besides a priority of 0.
_HELD = {"JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue"}
#: Nodes in these states give no processors.
_AWAY = {"down", "drain", "drained", "draining", "fail", "error", "unknown", "future", "power_down", "powered_down"}


@dataclass(frozen=True)
class Job:
    """A pending job that is eligible: it may start as far as its user, its dependencies and its time are concerned."""

    id: int
    priority: int
    nice: int
    user: str = ""
    account: str = ""
    partition: str = ""
    name: str = ""


@dataclass(frozen=True)
class Only:
    """Which jobs may be touched; None = any."""

    users: frozenset[str] | None = None
    accounts: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    prefix: str = ""  # of the job's name

    def allows(self, job: Job) -> bool:
        """Return whether a job may be touched."""
        given = ((self.users, job.user), (self.accounts, job.account), (self.partitions, job.partition))
        return all(allowed is None or value in allowed for allowed, value in given) and job.name.startswith(self.prefix)


@dataclass(frozen=True)
class Queue:
    """A Slurm at one moment."""

    snapshot: Snapshot
    jobs: tuple[Job, ...]  # pending, eligible and not held, as squeue lists them
    notes: dict[str, int] = field(default_factory=dict)  # jobs that are left alone, by reason


def number(value: Any) -> float | None:
    """Return a number of Slurm's JSON, plain or as an object; None if it is not set.

    >>> number(5), number({"set": True, "infinite": False, "number": 7}), number({"set": False, "number": 0})
    (5.0, 7.0, None)
    """
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def nice_of(value: Any) -> int:
    """Return a nice value, which some versions write with an offset and some not at all.

    >>> nice_of(None), nice_of(100), nice_of(2147483748)
    (0, 100, 100)
    """
    found = number(value)
    if found is None:
        return 0
    return int(found - _NICE_OFFSET if found > _NICE_OFFSET // 2 else found)


def processors(text: str) -> int:
    """Return the processors of nodes that are in service, from ``sinfo --json``."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise FormatError("sinfo", f"not JSON: {error}") from None
    total = 0
    for node in (data.get("nodes") or []) if isinstance(data, dict) else []:
        if isinstance(node, dict) and not _states(node) & _AWAY:
            total += int(number(node.get("cpus")) or 0)
    for group in (data.get("sinfo") or []) if isinstance(data, dict) else []:  # newer versions
        counts = group.get("cpus") if isinstance(group, dict) else None
        if isinstance(counts, dict) and not _states(group.get("node") or {}) & _AWAY:
            total += int(number(counts.get("total")) or 0)
    if total < 1:
        raise FormatError("sinfo", "names no node that is in service")
    return total


def _states(node: dict[str, Any]) -> set[str]:
    given = node.get("state")
    words = given if isinstance(given, list) else [given, *(node.get("state_flags") or [])]
    return {re.split(r"[+*~#!%$@^-]", str(word).lower())[0] for word in words}


def read_queue(squeue: str, sinfo: str, now: float | None = None) -> Queue:
    """Read both listings; ``now`` is when they were made, in Unix seconds."""
    procs = processors(sinfo)
    snapshot = read_squeue(squeue, procs, now)
    listed = json.loads(squeue)["jobs"]
    startable = set(map(str, snapshot.waiting.id))
    jobs, notes = list[Job](), Counter[str]()
    for entry in listed:
        states = entry.get("job_state")
        if "PENDING" not in (states if isinstance(states, list) else [states]):
            continue
        priority, job = number(entry.get("priority")), number(entry.get("job_id"))
        if job is None or priority is None:
            notes["not understood"] += 1
        elif priority == 0 or entry.get("hold") is True or entry.get("state_reason") in _HELD:
            notes["held"] += 1
        elif str(int(job)) not in startable:
            notes["may not start yet"] += 1
        else:
            words = {
                ours: str(entry.get(theirs) or "")
                for ours, theirs in (("user", "user_name"), ("account", "account"), ("name", "name"))
            }
            partition = str(entry.get("partition") or "")
            jobs.append(Job(int(job), int(priority), nice_of(entry.get("nice")), partition=partition, **words))
    return Queue(snapshot, tuple(jobs), dict(notes))


def look(slurm: Slurm) -> Queue:
    """Ask a Slurm."""
    before = time.time()
    squeue = slurm.call("squeue", "--all", "--json")
    sinfo = slurm.call("sinfo", "--json")
    if not squeue.lstrip().startswith("{"):
        raise SlurmError("squeue --json does not work here: this Slurm was built without its JSON plugin")
    return read_queue(squeue, sinfo, before)


def priorities(slurm: Slurm) -> dict[int, tuple[int, int]]:
    """Return priority and nice value of every pending job, by number; 0 = held."""
    text = slurm.call(
        "squeue", "--all", "--noheader", "--states=PENDING", "--Format=JobArrayID:|,PriorityLong:|,Nice:|"
    )
    found = {}
    for line in text.splitlines():
        words = [word.strip() for word in line.split("|")]
        job = re.match(r"\d+", words[0])
        if job and len(words) >= 3 and words[1].isdigit():
            nice = words[2]
            found[int(job[0])] = (int(words[1]), int(nice) if re.fullmatch(r"-?\d+", nice) else 0)
    return found
