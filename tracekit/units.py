"""Which unit a trace is scheduled in: processors, nodes or GPUs. One rule for every command.

1. The unit given by the caller (``--resource``, or ``unit`` in a machine file) is used.
2. The unit set by the format's reader (GPUs for Helios) is kept if at least half of the jobs have a positive
   count of it; the unit in one of our Parquet files is kept if any job has one.
3. Otherwise the unit that covers most jobs is used: the one with the most positive counts. Units within 1 % of the
   best are equal, and the first of processors, GPUs and nodes is chosen among them.

Jobs without a positive count of the chosen unit cannot be scheduled, used for training or scored by size. They stay in
the trace, and `left_out` and `note` count them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tracekit.errors import UnknownName
from tracekit.machine import UNITS, Unit
from tracekit.trace import Trace

#: Preferred order of units that cover equally many jobs. Jobs with GPUs compete for GPUs, not for hosts.
PREFERRED: tuple[Unit, ...] = ("procs", "gpus", "nodes")
#: A unit that the file states is kept when it covers this share of the jobs.
ENOUGH = 0.5
#: Units whose coverage is this close to the best one (as a share of it) count as equal.
EQUAL = 0.01

WORDS: Mapping[Unit, str] = {"procs": "processors", "nodes": "nodes", "gpus": "GPUs"}


def coverage(trace: Trace) -> dict[Unit, int]:
    """Return how many jobs have a positive count of each unit."""
    return {unit: int((trace.sizes(unit) > 0).sum()) for unit in UNITS}


def chosen_unit(covered: Mapping[Unit, int], jobs: int, stated: Unit | None = None, *, enough: float = ENOUGH) -> Unit:
    """Return the unit to schedule in.

    ``stated`` is the unit of the file or its format (or None), ``enough`` the share of jobs that must have it.

    >>> chosen_unit({"procs": 0, "nodes": 15000, "gpus": 15000}, 15000)
    'gpus'
    >>> chosen_unit({"procs": 11597, "nodes": 15000, "gpus": 3403}, 15000)
    'nodes'
    """
    best = max(covered.values())
    if not best:
        return stated or PREFERRED[0]
    if stated and covered[stated] and covered[stated] >= enough * jobs:
        return stated
    order = (stated, *PREFERRED) if stated else PREFERRED
    return next(unit for unit in order if covered[unit] >= (1 - EQUAL) * best)


def scheduled_in(trace: Trace, unit: Unit) -> Trace:
    """Return the trace with that scheduled unit."""
    return trace if trace.machine.unit == unit else trace.replace(machine=trace.machine.replace(unit=unit))


def with_unit(trace: Trace, asked: str | None = None, *, stated: bool = False) -> Trace:
    """Apply the rule to a trace that was just read.

    ``asked`` is the caller's unit; ``stated`` is true if the file stated its unit, even processors, the default.
    """
    tally = Tally()
    tally.add(trace)
    unit, steps = tally.decide(asked, stated=stated)
    made = scheduled_in(trace, unit)
    return Trace(made.jobs, made.machine, (*made.history, *steps)) if steps else made


class Tally:
    """Counts the jobs that each unit covers, over one trace or over the parts of one."""

    def __init__(self) -> None:
        self.jobs, self.covered = 0, dict.fromkeys(UNITS, 0)
        self.read: Unit = "procs"  # the unit set by the format's reader, or the default

    def add(self, part: Trace) -> None:
        """Count one more part."""
        self.jobs += len(part)
        for unit, count in coverage(part).items():
            self.covered[unit] += count
        self.read = part.machine.unit if self.read == "procs" else self.read

    def over(self, parts: Iterable[Trace]) -> Iterator[Trace]:
        """Yield the parts, counting each."""
        for part in parts:
            self.add(part)
            yield part

    def decide(self, asked: str | None, *, stated: bool = False) -> tuple[Unit, list[str]]:
        """Return the unit by the rule, and a note for the history if it is not the one that was read."""
        if asked is not None:
            return checked(asked), []
        named = self.read if stated or self.read != "procs" else None
        unit = chosen_unit(self.covered, self.jobs, named, enough=0.0 if stated else ENOUGH)
        return unit, [] if unit == self.read else [self._changed(unit)]

    def _changed(self, unit: Unit) -> str:
        return (
            f"counted in {unit}: {self.covered[unit]:,} of {self.jobs:,} jobs have {WORDS[unit]}, "
            f"{self.covered[self.read]:,} have {WORDS[self.read]}; --resource chooses another unit"
        )


def checked(asked: str) -> Unit:
    """Return the unit of that name; any other name is an error."""
    unit = next((one for one in UNITS if one == asked), None)
    if unit is None:
        raise UnknownName("resource", asked, UNITS)
    return unit


def left_out(trace: Trace) -> int:
    """Return how many jobs have no positive count of the scheduled unit."""
    return int((~(trace.sizes() > 0)).sum())


def note(trace: Trace) -> str | None:
    """Return a note on the jobs that have none of the scheduled unit; None if every job has some."""
    missing = left_out(trace)
    if not missing:
        return None
    unit, covered = trace.machine.unit, coverage(trace)
    better = [f"--resource {other} covers {count:,}" for other, count in covered.items() if count > covered[unit]]
    also = f"; {', '.join(better)}" if better else ""
    return f"{missing:,} of {len(trace):,} jobs have no {WORDS[unit]} and are left out where sizes count{also}"
