"""What `validate` finds, from batches: the same problems, counts and rows as in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.large.runs import Repeats
from tracekit.large.source import Source
from tracekit.trace import Problem, Trace
from tracekit.validation import CHECKS, Mask

#: First rows that a problem names.
SHOWN = 5


@dataclass(frozen=True)
class Findings:
    """The problems of a trace, and how many of its jobs could be scheduled as they are."""

    jobs: int
    schedulable: int
    problems: list[Problem]

    @property
    def usable(self) -> bool:
        """Whether at least half of the jobs could be scheduled as they are."""
        return self.jobs > 0 and self.schedulable / self.jobs >= 0.5


class LaterThan:
    """Which jobs were submitted before a job of their batch or of an earlier one."""

    def __init__(self) -> None:
        self.latest = -np.inf

    def __call__(self, batch: Trace) -> Mask:
        """Return the jobs of the next batch that are out of order."""
        submit = batch.column("submit_time")
        if not len(submit):
            return np.zeros(0, dtype=bool)
        before = np.fmax.accumulate(np.concatenate(([self.latest], submit)))
        self.latest = float(before[-1])
        return np.asarray(submit < before[:-1])


def validate(source: Source) -> Findings:
    """List every kind of problem, in one pass; repeated job ids take a pass before, or two."""
    counts = dict.fromkeys((check.name for check in CHECKS), 0)
    rows: dict[str, list[int]] = {name: [] for name in counts}
    jobs = schedulable = 0
    unsorted = LaterThan()
    with Repeats.of(source) as repeats:
        for batch in source.batches():
            sound = np.ones(len(batch), dtype=bool)
            for check in CHECKS:
                if check.name == "unsorted":
                    found = unsorted(batch)
                elif check.name == "duplicate-ids":
                    found = repeats.at(jobs, len(batch))
                else:
                    found = check.find(batch)
                if not check.harmless:
                    sound &= ~found
                counts[check.name] += int(found.sum())
                room = SHOWN - len(rows[check.name])
                if room:
                    rows[check.name] += [jobs + int(row) for row in np.flatnonzero(found)[:room]]
            jobs += len(batch)
            schedulable += int(sound.sum())
    problems = [
        Problem(check.name, counts[check.name], rows[check.name], check.fix, check.meaning)
        for check in CHECKS
        if counts[check.name]
    ]
    return Findings(jobs, schedulable, problems)
