"""What a replay submits: the jobs of a trace with compressed times, limits in whole minutes, and a mark for each."""

from __future__ import annotations

import json
import math
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.errors import TracekitError, UsageError
from tracekit.files import read_json, write_text
from tracekit.sim.jobs import extract_jobs, prepare
from tracekit.sim.switches import Switches
from tracekit.trace import Trace

FILE = "plan.json"
VERSION = 1
#: Limit, in minutes, of a job without one; Slurm needs some limit to make reservations.
_MARGIN_S = 5.0


@dataclass(frozen=True)
class Planned:
    """One job as Slurm gets it. Times in seconds from the beginning of the replay, after compression."""

    position: int  # row in the trace
    job_id: int
    submit: float
    run: float
    limit: int  # minutes
    procs: int
    user: str | None = None
    after: int | None = None  # position of the job that must have ended before

    def name(self, tag: str) -> str:
        """Return the job's name, by which it is found again."""
        return f"{tag}-{self.position}"


@dataclass(frozen=True)
class Plan:
    """All jobs of a replay by submit time, and where they come from."""

    trace: str
    speed: float
    cpus: int
    tag: str
    jobs: tuple[Planned, ...]
    drive: str | None = None  # policy that sets priorities
    rejected: dict[str, int] = field(default_factory=dict)
    version: int = VERSION

    def save(self, folder: Path) -> None:
        """Write the plan."""
        write_text(folder / FILE, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Plan:
        """Read what `save` wrote."""
        if not (folder / FILE).is_file():
            raise TracekitError(f"{folder}: no replay here ({FILE} is missing); 'tracekit slurm replay' makes one")
        data: dict[str, Any] = read_json(folder / FILE)
        try:
            jobs = tuple(Planned(**job) for job in data.pop("jobs"))
            return cls(jobs=jobs, **data)
        except (TypeError, KeyError, AttributeError):
            raise TracekitError(f"{folder / FILE}: not a plan of this version of tracekit") from None


def limit_minutes(limit: float, run: float) -> int:
    """Return a limit as Slurm takes it: whole minutes, rounded up, at least one. Without a limit: what the job needs.

    >>> limit_minutes(60.0, 10.0), limit_minutes(61.0, 10.0), limit_minutes(float("nan"), 118.0)
    (1, 2, 3)
    """
    seconds = limit if limit > 0 else run + _MARGIN_S
    return max(1, math.ceil(round(seconds / 60.0, 6)))


def make_plan(trace: Trace, source: str, *, speed: float, cpus: int, drive: str | None = None) -> Plan:
    """Return the plan for a trace; jobs larger than ``cpus`` and jobs without run time or size are counted.

    A job that ran longer than its limit would be killed by Slurm as it was then: it runs to its limit.
    """
    if not (speed > 0 and math.isfinite(speed)):
        raise UsageError(f"--speed must be above 0, not {speed:g}")
    table = extract_jobs(trace, Switches(procs=cpus))
    ready = prepare(table, Switches(procs=cpus))
    kept = ready.table
    if not len(kept):
        raise TracekitError(
            f"{source}: no job can be replayed on {cpus} CPUs: {ready.rejected or 'the trace is empty'}"
        )
    users = trace.jobs["user"].astype(object).to_list() if "user" in trace.jobs.columns else [None] * len(trace)
    before = _predecessors(trace, kept.position)
    first = float(kept.submit[0])
    jobs = []
    for row in range(len(kept)):
        position = int(kept.position[row])
        run, limit = float(kept.run[row]) / speed, float(kept.limit[row]) / speed
        minutes = limit_minutes(limit, run)
        user = users[position]
        jobs.append(
            Planned(
                position,
                int(kept.job_id[row]),
                round((float(kept.submit[row]) - first) / speed, 3),
                round(min(run, 60.0 * minutes), 3),
                minutes,
                math.ceil(float(kept.procs[row])),
                None if user is None or user != user else str(user),
                before.get(position),
            )
        )
    return Plan(source, speed, cpus, f"tk{secrets.token_hex(3)}", tuple(jobs), drive, dict(ready.rejected))


def _predecessors(trace: Trace, kept: np.ndarray[Any, Any]) -> dict[int, int]:
    """Return, by position, the position of the job that must end before; only where both are replayed, in order."""
    if "prev_job" not in trace.jobs.columns:
        return {}
    wanted, ids = trace.column("prev_job"), trace.column("job_id")
    place = {int(ids[p]): int(p) for p in kept.tolist() if ids[p] == ids[p]}
    found = {}
    for position in kept.tolist():
        previous = wanted[position]
        if previous == previous and int(previous) in place and place[int(previous)] < position:
            found[int(position)] = place[int(previous)]
    return found
