"""What became of a replay, as a Trace: from sacct where accounting is on, else from Slurm's job completion log.

jobcomp and sacct have whole seconds. The controller's log of a Slurm of one's own has milliseconds, so submits, starts
and ends are taken from there where they are the same event (within `_SAME_S`). Submit times count from the first
submit; of a job that waits for another one, from the end of that one, when it could start at the earliest.
"""

from __future__ import annotations

import re
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tracekit.api import read
from tracekit.errors import TracekitError
from tracekit.files import read_json
from tracekit.machine import Machine
from tracekit.slurm.plan import Plan, Planned
from tracekit.slurm.tools import Slurm, SlurmError
from tracekit.trace import Trace

#: Seconds between the two records of one event, at most.
_SAME_S = 2.0
_STAMP = r"^\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})\] "
_EVENTS = {
    "submit": re.compile(_STAMP + r"_slurm_rpc_submit_batch_job: JobId=(\d+) "),
    "start": re.compile(_STAMP + r"sched(?:/backfill)?: (?:Allocate|_start_job: Started) JobId=(\d+) "),
    "end": re.compile(_STAMP + r"_job_complete: JobId=(\d+) done"),
}
_SACCT = "JobID,JobName,User,State,Submit,Start,End,ElapsedRaw,TimelimitRaw,ReqCPUS,AllocCPUS,NNodes"
#: Names of one call of sacct, and seconds that its books may lag behind the controller.
_NAMES, _LAG_S = 500, 30.0
#: Seconds between two looks into them.
_LOOK_S = 1.0


def completed(folder: Path, slurm: Slurm | None = None) -> Path | None:
    """Return the job completion log: that of the Slurm in the folder, or of the one that ``slurm`` talks to."""
    if slurm is None or (slurm.conf is not None and Path(slurm.conf).parent == folder):
        return folder / "jobcomp.txt"
    try:
        settings = slurm.config()
    except SlurmError:
        return None
    place = Path(settings.get("JobCompLoc", ""))
    return place if "filetxt" in settings.get("JobCompType", "") and place.is_file() else None


def has_accounting(slurm: Slurm) -> bool:
    """Return whether a Slurm keeps books that sacct reads."""
    try:
        return slurm.config().get("AccountingStorageType") == "accounting_storage/slurmdbd"
    except SlurmError:
        return False


def known_names(folder: Path, plan: Plan, slurm: Slurm) -> dict[str, int]:
    """Return the ids, by name, of jobs of a replay that Slurm has got, by its completion log and its books."""
    path, found = completed(folder, slurm), dict[str, int]()
    if path is not None and path.is_file():
        pattern = re.compile(rf"^JobId=(\d+) .* Name=({re.escape(plan.tag)}-\d+) ", re.MULTILINE)
        found = {name: int(number) for number, name in pattern.findall(path.read_text(errors="replace"))}
    if path is None and has_accounting(slurm):
        rows = (line.split("|") for line in _sacct(slurm, plan, "JobID,JobName").splitlines()[1:])
        found |= {name: int(number) for number, name in rows if number.isdecimal()}
    return found


def read_outcome(folder: Path, plan: Plan, slurm: Slurm | None = None) -> Trace:
    """Return the jobs of a replay with submit, wait and run times as Slurm had them, by submit time.

    ``slurm``, if it runs, is asked for its books where it keeps some.
    """
    moments, own = _moments(folder / "log" / "slurmctld.log"), folder / "own.json"
    nodes = read_json(own).get("nodes") if own.is_file() else None
    made: Trace | TracekitError = SlurmError("neither jobcomp/filetxt nor accounting says how the jobs ended")
    if slurm is not None and has_accounting(slurm):
        made = _by_books(slurm, plan, moments, str(folder), nodes)
        if isinstance(made, Trace) and len(made) == len(plan.jobs):
            return made
    place = completed(folder, slurm)
    if place is None:
        if isinstance(made, TracekitError):
            raise made
        return made
    if not place.is_file():
        raise TracekitError(f"{folder}: no job has ended yet (jobcomp.txt is missing)")
    return outcome_of(read(place, "jobcomp", on_error="skip"), plan, moments, str(folder), nodes)


def _by_books(
    slurm: Slurm, plan: Plan, moments: dict[str, dict[int, float]], source: str, nodes: int | None
) -> Trace | TracekitError:
    """Return what the books say once they have all jobs, or at the last; an error where that is nothing."""
    limit = time.monotonic() + _LAG_S
    while True:
        made: Trace | TracekitError
        try:
            made = outcome_of(_from_sacct(slurm, plan), plan, moments, source, nodes)
        except SlurmError as error:
            return error  # there is nothing to wait for
        except TracekitError:
            made = TracekitError(f"{source}: by the books of sacct none of the jobs of the replay has ended")
        if (isinstance(made, Trace) and len(made) == len(plan.jobs)) or time.monotonic() > limit:
            return made
        time.sleep(_LOOK_S)


def _sacct(slurm: Slurm, plan: Plan, columns: str) -> str:
    """Return sacct's rows of the jobs of a replay, below a header."""
    names, lines = [job.name(plan.tag) for job in plan.jobs], list[str]()
    words = ["--parsable2", "--allocations", "--starttime=now-30days", f"--format={columns}"]
    for first in range(0, len(names), _NAMES):
        text = slurm.call("sacct", *words, f"--name={','.join(names[first : first + _NAMES])}")
        lines += text.splitlines()[1 if lines else 0 :]
    return "\n".join(lines) + "\n"


def _from_sacct(slurm: Slurm, plan: Plan) -> Trace:
    text = _sacct(slurm, plan, _SACCT)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        return read(file.name, "sacct", on_error="skip")


def _moments(path: Path) -> dict[str, dict[int, float]]:
    """Return when each job was submitted, started and ended by the controller's log; the first one counts."""
    found: dict[str, dict[int, float]] = {event: {} for event in _EVENTS}
    if path.is_file():
        with path.open(errors="replace") as lines:
            for line in lines:
                for event, pattern in _EVENTS.items():
                    match = pattern.match(line)
                    if match:
                        moment = datetime.fromisoformat(match[1] + "+00:00").timestamp()  # as jobcomp is read
                        found[event].setdefault(int(match[2]), moment)
                        break
    return found


def outcome_of(
    ended: Trace, plan: Plan, moments: dict[str, dict[int, float]], source: str, nodes: int | None = None
) -> Trace:
    """Match jobs that have ended with a plan, by name; ``nodes`` are the machine's, where known."""
    by_name: dict[str, Planned] = {job.name(plan.tag): job for job in plan.jobs}
    names = ended.jobs["app"].astype(object).to_list() if "app" in ended.jobs.columns else []
    submit, wait, run = (ended.column(name) for name in ("submit_time", "wait_time", "run_time"))
    states = ended.jobs["x_status"].to_list() if "x_status" in ended.jobs.columns else [None] * len(ended)
    rows: dict[int, dict[str, Any]] = {}
    for row, name in enumerate(names):
        job = by_name.get(name)
        if job is None or not (wait[row] >= 0 and run[row] >= 0):  # cancelled before its start; runs by sacct's books
            continue
        number = int(ended.jobs["job_id"].iloc[row])
        start = submit[row] + wait[row]
        times = {"submit": submit[row], "start": start, "end": start + run[row]}
        for event, moment in times.items():
            exact = moments.get(event, {}).get(number)
            times[event] = exact if exact is not None and abs(exact - moment) <= _SAME_S else moment
        rows[job.position] = {"job": job, "slurm": number, "state": states[row], **times}
    if not rows:
        raise TracekitError(f"{source}: none of the jobs of the replay has ended yet")
    for row_ in rows.values():
        before = rows.get(row_["job"].after)
        if before is not None:
            row_["submit"] = max(row_["submit"], before["end"])
    found = sorted(rows.values(), key=lambda one: (one["submit"], one["slurm"]))
    first = found[0]["submit"]
    frame = pd.DataFrame(
        {
            "job_id": np.array([one["job"].job_id for one in found], np.int64),
            "submit_time": np.round([one["submit"] - first for one in found], 3),
            "wait_time": np.round([max(one["start"] - one["submit"], 0.0) for one in found], 3),
            "run_time": np.round([max(one["end"] - one["start"], 0.0) for one in found], 3),
            "req_time": [60.0 * one["job"].limit for one in found],
            "req_procs": [one["job"].procs for one in found],
            "alloc_procs": [one["job"].procs for one in found],
            "user": pd.Categorical([one["job"].user for one in found]),
            "x_position": [one["job"].position for one in found],
            "x_slurm_id": [one["slurm"] for one in found],
            "x_state": [one["state"] for one in found],
        }
    )
    step = f"replayed on Slurm at {plan.speed:g} times its speed: {len(found)} of {len(plan.jobs)} jobs ended"
    return Trace(frame, Machine(name="slurm", procs=plan.cpus, nodes=nodes), (step,))
