"""Cleaning rules on a trace that is read in batches.

Most rules look at one job at a time. Three look at all jobs and work all the same: whether jobs are in order, repeated
ids and the number of jobs are found in passes before. The others need the whole trace in memory and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tracekit.cleaning import RULES, parsed, step_of
from tracekit.doctor.fixes import recounted
from tracekit.large.problems import LaterThan
from tracekit.large.runs import Repeats
from tracekit.large.source import Source, whole_needed
from tracekit.trace import Trace

#: Rules that are not by row, and work in batches: they are given what passes before have found.
PREPARED = ("sort-by-submit", "drop-duplicate-ids", "recount-header")
Apply = Callable[[Trace], tuple[Trace, int]]


def in_batches(name: str) -> bool:
    """Return whether a rule works on a trace that is read in batches."""
    return RULES[name].by_row or name in PREPARED


class Cleaned:
    """A source with cleaning rules applied in order.

    ``counts`` are the rows that each rule changed or removed in the last full iteration over `batches`.
    """

    def __init__(self, source: Source, rules: Sequence[str]) -> None:
        self.source, self.machine, self.history = source, source.machine, source.history
        self.counts: dict[str, int] = {}
        self._steps: list[tuple[str, Callable[[], Apply]]] = []
        chosen = [(text, *parsed(text)) for text in rules]
        for text, rule, _ in chosen:
            if not in_batches(rule.name):
                able = ", ".join(name for name in RULES if in_batches(name))
                raise whole_needed(source, f"the rule {text}", f"rules that work in parts: {able}")
        for text, rule, arguments in chosen:
            if rule.by_row:
                self._steps.append((text, _plain(rule.apply, arguments)))
            else:
                self._steps.append((text, self._prepared(rule.name)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the jobs."""
        return self.source.columns

    @property
    def ordered(self) -> bool:
        """Whether a trace read whole has its labels in their usual order."""
        return self.source.ordered

    def bytes_whole(self) -> int:
        """Return about how much memory the whole trace would take."""
        return self.source.bytes_whole()

    def batches(self, columns: Iterable[str] | None = None) -> Iterator[Trace]:
        """Yield the cleaned jobs; all columns are read, because rules may look at any."""
        self.counts = {text: 0 for text, _ in self._steps}
        steps = [(text, start()) for text, start in self._steps]
        for batch in self.source.batches():
            for text, apply in steps:
                batch, changed = apply(batch)
                self.counts[text] += changed
            self.machine = batch.machine
            yield Trace(batch.jobs, batch.machine)

    def step(self) -> str:
        """Return what goes into the history after the jobs were read."""
        return step_of(self.counts)

    def _prepared(self, name: str) -> Callable[[], Apply]:
        """Look at the trace as the rules before leave it, and return the rule for its batches."""
        if name == "sort-by-submit":
            later = LaterThan()
            if any(later(batch).any() for batch in self.batches()):
                raise whole_needed(self, "sorting")
            return lambda: lambda batch: (batch, 0)
        if name == "recount-header":
            jobs = sum(len(batch) for batch in self.batches())
            return lambda: lambda batch: _recounted(batch, jobs)
        repeats = Repeats.of(self)
        return lambda: _Distinct(repeats)


class _Distinct:
    """Removes jobs with an id that an earlier job has; called with batch after batch."""

    def __init__(self, repeats: Repeats) -> None:
        self.repeats, self.first = repeats, 0

    def __call__(self, batch: Trace) -> tuple[Trace, int]:
        found = self.repeats.at(self.first, len(batch))
        self.first += len(batch)
        return (batch.take(~found), int(found.sum())) if found.any() else (batch, 0)


def _plain(apply: Callable[..., tuple[Trace, int]], arguments: list[Any]) -> Callable[[], Apply]:
    return lambda: lambda batch: apply(batch, *arguments)


def _recounted(batch: Trace, jobs: int) -> tuple[Trace, int]:
    machine = recounted(batch.machine, jobs)
    return (batch, 0) if machine is batch.machine else (batch.replace(machine=machine), len(batch))
