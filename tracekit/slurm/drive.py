"""Steer a Slurm by a policy or an agent: the priorities of waiting jobs are permuted among them.

Only priorities that the jobs have already are handed around, so jobs that may not be touched keep their place among
the others. Equal priorities are told apart by raising them by one each. A turn moves at most ``most`` jobs, the head
of the queue first. Changes are journalled first (`journal`); a guard puts them back if the driver dies.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tracekit.errors import TracekitError
from tracekit.slurm.guard import Guard
from tracekit.slurm.journal import Journal, apply, restore_all
from tracekit.slurm.order import Orders
from tracekit.slurm.queue import Job, Only, Queue, look, priorities
from tracekit.slurm.tools import Slurm, SlurmError

#: Seconds between two turns, and jobs that one turn may move.
EVERY_S, MOST = 1.0, 200
#: Turns in a row that may fail before the driver gives up.
_FAILURES = 10


@dataclass(frozen=True)
class Change:
    """A job whose priority changes."""

    job: int
    old: int
    new: int


@dataclass(frozen=True)
class Turn:
    """What one look at the queue came to."""

    waiting: int
    touchable: int
    order: tuple[int, ...]
    changes: tuple[Change, ...]
    notes: dict[str, int] = field(default_factory=dict)


def method_of(slurm: Slurm) -> str:
    """Return how this Slurm is steered: by Priority under priority/basic, by Nice under priority/multifactor.

    A priority that is set by hand stays fixed under multifactor until the job is held and released.
    """
    plugin = slurm.config().get("PriorityType", "")
    if plugin not in ("priority/basic", "priority/multifactor"):
        raise SlurmError(f"PriorityType={plugin or '?'} cannot be steered; basic and multifactor can")
    return "priority" if plugin == "priority/basic" else "nice"


def targets(jobs: Sequence[Job], order: Sequence[int], most: int = MOST) -> list[Change]:
    """Return the changes of priority that bring jobs into an order; jobs that are not in it come after the others.

    >>> jobs = [Job(1, 30, 0), Job(2, 20, 0), Job(3, 10, 0)]
    >>> [(c.job, c.old, c.new) for c in targets(jobs, [3, 1, 2])]
    [(3, 10, 30), (1, 30, 20), (2, 20, 10)]
    """
    rank = {job: place for place, job in enumerate(order)}
    wanted = sorted(jobs, key=lambda job: (rank.get(job.id, len(rank)), -job.priority, job.id))
    present = sorted(jobs, key=lambda job: (-job.priority, job.id))  # as Slurm orders them now
    values = sorted((job.priority for job in jobs), reverse=True)
    for place in range(len(values) - 2, -1, -1):
        values[place] = max(values[place], values[place + 1] + 1)
    # exchange jobs from the head on: the queue is a permutation at every point, wherever the limit ends it
    slots = list(present)
    where = {job.id: place for place, job in enumerate(slots)}
    start = {job.id: job.priority for job in jobs}
    moved: set[int] = {job.id for place, job in enumerate(slots) if values[place] != job.priority}
    for place, job in enumerate(wanted):
        other = slots[place]
        if other.id == job.id:
            continue
        if len(moved | {job.id, other.id}) > most:
            break
        moved |= {job.id, other.id}
        slots[place], slots[where[job.id]] = job, other
        where[other.id], where[job.id] = where[job.id], place
    after = [Change(job.id, start[job.id], values[place]) for place, job in enumerate(slots)]
    return [change for change in after if change.old != change.new]


def alone(slurm: Slurm) -> IO[str]:
    """Return a lock that one driver of a Slurm holds on this machine; two would undo each other's changes."""
    import fcntl

    mark = hashlib.sha256((slurm.conf or "this machine").encode()).hexdigest()[:12]
    file = (Path(tempfile.gettempdir()) / f"tracekit-drive-{os.getuid()}-{mark}.lock").open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise SlurmError("another driver steers this Slurm already; end it first") from None
    return file


class Driver:
    """Looks at the queue of a Slurm every ``every`` seconds and sets priorities."""

    def __init__(
        self,
        slurm: Slurm,
        orders: Orders,
        journal: Path | None,
        *,
        only: Only | None = None,
        most: int = MOST,
        every: float = EVERY_S,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.slurm, self.orders, self.only, self.most = slurm, orders, only or Only(), most
        self.every, self.say = every, say
        self.method = method_of(slurm)
        self.dry = journal is None
        self.turns = self.updates = self.failures = 0
        self._next = 0.0
        if journal is not None:
            self._lock = alone(slurm)
            left = restore_all(journal)
            if left:
                say(f"put back the priorities of {left} jobs that an earlier driver had left changed")
            self.guard = Guard("drive", str(journal.resolve()))
            self.journal = Journal(journal, slurm, self.method)

    def plan(self, queue: Queue) -> Turn:
        """Return what a turn would change; nothing is changed."""
        mine = [job for job in queue.jobs if self.only.allows(job)]
        order = tuple(self.orders.order(queue.snapshot)) if mine else ()
        own = {job.id for job in mine}
        order = tuple(job for job in order if job in own)
        notes = dict(queue.notes)
        if len(mine) < len(queue.jobs):
            notes["may not be touched"] = len(queue.jobs) - len(mine)
        changes = tuple(targets(mine, order, self.most))
        return Turn(len(queue.snapshot.waiting), len(mine), order, changes, notes)

    def once(self) -> Turn:
        """Look at the queue and set priorities."""
        queue = look(self.slurm)
        turn = self.plan(queue)
        self.turns += 1
        if self.dry or not turn.changes:
            return turn
        jobs = {job.id: job for job in queue.jobs}
        now = priorities(self.slurm)  # a job that was held, changed or started since then is left alone
        same = [c for c in turn.changes if c.job in now and now[c.job][0] == c.old]
        if self.method == "priority":
            steps = [(c.job, c.old, c.new) for c in same]
        else:
            steps = [(c.job, jobs[c.job].nice, jobs[c.job].nice + c.old - c.new) for c in same]
        self.journal.before(steps)
        apply(self.slurm, self.method, {job: new for job, _, new in steps})
        self.updates += len(steps)
        return turn

    def turn(self) -> None:
        """Do `once` if it is time to; a Slurm that does not answer for a while is no reason to give up."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self.every
        try:
            self.once()
            self.failures = 0
        except TracekitError as error:
            self.failures += 1
            self.say(f"driver: {error}")
            if self.failures >= _FAILURES or "operator" in str(error):
                raise

    def close(self, *, restore: bool = True) -> int:
        """Put all priorities back (unless they are to stay), and return how many."""
        if self.dry:
            return 0
        count = self.journal.restore() if restore else 0
        if not restore:
            self.journal.file.close()
        self.guard.dismiss()
        self._lock.close()
        return count
