"""A trace as job scripts and a plan by which a site submits it to its own Slurm.

``plan.csv`` has one row a submission, ``jobs/`` one script each. ``submit.sh`` submits them at their times and keeps in
``submitted.txt`` how far it is. Jobs of one user that are alike but for their run times and were submitted at
the same moment become an array, each task with its own run time.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tracekit.errors import UsageError
from tracekit.folders import writing_folder
from tracekit.slurm.plan import Planned, make_plan
from tracekit.trace import Trace

#: Tasks of one array, as Slurm's default MaxArraySize allows.
MOST_TASKS = 1000
#: What an earlier export may have left.
_OURS = ("plan.csv", "submit.sh", "jobs", "jobs/*")
_LARGEST = 1 << 30


@dataclass(frozen=True)
class Exported:
    """What was written."""

    jobs: int
    submissions: int
    arrays: int
    rejected: dict[str, int]


@dataclass(frozen=True)
class _Ask:
    """What a script asks for beside what is in the plan."""

    gpus: int = 0
    memory_mb: int = 0  # per CPU
    partition: str = ""


def export(
    trace: Trace, folder: str | Path, *, speed: float = 1.0, arrays: bool = True, force: bool = False
) -> Exported:
    """Write scripts and plan; all of it or nothing."""
    largest = int(np.nanmax(trace.sizes(), initial=1))
    if largest > _LARGEST:
        raise UsageError(f"a job of {largest:,} CPUs cannot be exported")
    plan = make_plan(trace, "trace", speed=speed, cpus=max(largest, 1))
    asked = _asks(trace)
    groups = _groups(plan.jobs, asked) if arrays else [[job] for job in plan.jobs]
    rows = []
    with writing_folder(folder, ours=_OURS, force=force) as place:
        (place / "jobs").mkdir()
        for number, group in enumerate(groups, 1):
            name = f"{number:06d}.sh"
            (place / "jobs" / name).write_text(script(group, asked.get(group[0].position, _Ask())))
            first = group[0]
            after = "" if first.after is None else str(first.after)
            ids = "+".join(str(job.position) for job in group)
            rows.append(
                [number, f"{first.submit:.3f}", f"jobs/{name}", len(group), first.procs, first.limit, after, ids]
            )
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["submission", "at_s", "script", "tasks", "cpus", "limit_min", "after_position", "positions"])
        writer.writerows(rows)
        (place / "plan.csv").write_text(text.getvalue())
        (place / "submit.sh").write_text(_SUBMIT)
        (place / "submit.sh").chmod(0o755)
    many = sum(len(group) > 1 for group in groups)
    return Exported(len(plan.jobs), len(groups), many, plan.rejected)


def _asks(trace: Trace) -> dict[int, _Ask]:
    """Return GPUs, memory and partition of each job that has any, by position."""
    gpus = trace.column("req_gpus")
    gpus = np.where(np.isnan(gpus), trace.column("alloc_gpus"), gpus)
    memory = trace.column("req_mem")  # KB per processor
    found = {}
    for position in range(len(trace)):
        devices = math.ceil(gpus[position]) if gpus[position] > 0 else 0
        amount = math.ceil(memory[position] / 1024) if memory[position] > 0 else 0
        if devices or amount:
            found[position] = _Ask(devices, amount)
    return found


def _groups(jobs: tuple[Planned, ...], asked: dict[int, _Ask]) -> list[list[Planned]]:
    """Return jobs that can be one array together, in order of submission."""
    waited_for = {job.after for job in jobs}
    groups: list[list[Planned]] = []
    for job in jobs:
        last = groups[-1][-1] if groups else None
        same = last is not None and all(
            getattr(last, name) == getattr(job, name) for name in ("submit", "limit", "procs", "user")
        )
        if (
            same
            and last is not None
            and len(groups[-1]) < MOST_TASKS
            and job.after is None
            and last.after is None
            and not {job.position, last.position} & waited_for
            and asked.get(job.position) == asked.get(last.position)
        ):
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups


def script(group: list[Planned], ask: _Ask) -> str:
    """Return the script of a job, or of an array of jobs."""
    first = group[0]
    lines = ["#!/bin/sh", f"#SBATCH --job-name=trace-{first.job_id}", f"#SBATCH --ntasks={first.procs}"]
    lines += [f"#SBATCH --time={first.limit}", "#SBATCH --output=/dev/null"]
    lines += [f"#SBATCH --gpus={ask.gpus}"] if ask.gpus else []
    lines += [f"#SBATCH --mem-per-cpu={ask.memory_mb}M"] if ask.memory_mb else []
    if first.user is not None:
        lines.append(f"#SBATCH --comment=user={_safe(first.user)}")
    if len(group) == 1:
        return "\n".join([*lines, f"exec sleep {first.run:.3f}", ""])
    runs = " ".join(f"{job.run:.3f}" for job in group)
    lines += [f"#SBATCH --array=0-{len(group) - 1}", f"set -- {runs}", 'shift "$SLURM_ARRAY_TASK_ID"']
    return "\n".join([*lines, 'exec sleep "$1"', ""])


def _safe(text: str) -> str:
    """Return a label as one word of plain letters: it becomes part of a script."""
    return "".join(c if (c.isalnum() and c.isascii()) or c in "._-" else "_" for c in text)[:60]


_SUBMIT = r"""#!/bin/sh
# Submits the jobs of plan.csv at their times, counted from now. Options of this script are passed on to sbatch, e.g.
#   ./submit.sh --partition=test --account=me
# Called again after an interruption it goes on with the next one.
set -eu
cd "$(dirname "$0")"
touch submitted.txt
begin=
tail -n +2 plan.csv | while IFS=, read -r number at script tasks cpus limit after positions; do
  if grep -q "^$number " submitted.txt; then continue; fi
  seconds=${at%.*}
  if [ -z "$begin" ]; then begin=$(($(date +%s) - seconds)); fi
  pause=$((begin + seconds - $(date +%s)))
  if [ "$pause" -gt 0 ]; then sleep "$pause"; fi
  wait_for=
  if [ -n "$after" ]; then
    id=$(awk -v p="$after" '{ n = split($3, a, "+"); for (i = 1; i <= n; i++) if (a[i] == p) print $2 }' submitted.txt)
    if [ -n "$id" ]; then wait_for=--dependency=afterany:$id; fi
  fi
  id=$(sbatch --parsable $wait_for "$@" "$script" </dev/null)
  echo "$number ${id%%;*} $positions" >> submitted.txt
done
"""
