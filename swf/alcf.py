"""alcf: job records of the Argonne Leadership Computing Facility (DIM_JOB_COMPOSITE), Cobalt and PBS years.

Columns are found by name, never by position: the years and machines differ. The second name is that of the older export
of Mira (27 columns).

| their column | our column | unit, remark |
|---|---|---|
| COBALT_JOBID, JOBID, JOB_NAME up to the dot | job_id | the first that has a number for all jobs; else counted from 1 |
| QUEUED_TIMESTAMP | submit_time | seconds since 1970; local time, read as America/Chicago (see below) |
| START_TIMESTAMP, QUEUED_WAIT_SECONDS | wait_time | seconds; the second where given, else start − queued |
| END_TIMESTAMP, RUNTIME_SECONDS | run_time | seconds; the second where given, else end − start |
| WALLTIME_SECONDS | req_time | seconds |
| NODES_REQUESTED / REQUESTED_NODES, NODES_USED / USED_NODES | req_nodes, alloc_nodes | the scheduled unit |
| CORES_REQUESTED / REQUESTED_CORES, CORES_USED / USED_CORES | req_procs, alloc_procs | cores |
| GPUS_REQUESTED | req_gpus | −1 is unknown (PBS years) |
| EXIT_STATUS / EXIT_CODE | status, x_status | 0 completed, any other failed, empty unknown |
| USERNAME_GENID / COBALT_USER_NAME_GENID | user | label |
| PROJECT_NAME_GENID | project | label |
| QUEUE_NAME / QUEUE_GENID | queue | label |
| MACHINE_PARTITION | partition | the block of Mira that the job ran on |
| MACHINE_NAME | the machine | size of Mira, Cooley, Theta, ThetaGPU, Polaris, Aurora from `swf.presets` |
| ALLOCATION_AWARD_CATEGORY, CAPABILITY, and all others | x_allocation_award_category, x_capability, x_… | kept |

START_DATE_ID 0 marks a job that never started: its wait_time is unknown. That the timestamps are Chicago time is an
assumption, the owners do not state it; ``--timezone`` replaces it. Times in the hour that occurs twice in November
are read as the first of the two, and counted in the history. Meanings beyond the names are not documented. Lost on
writing: memory, groups, programs, the second of those two hours.
Owners: https://reports.alcf.anl.gov/data/.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import pandas as pd

from swf import _common, _table
from swf._chunks import traces
from swf._times import stamp_texts
from swf._written import altered_words
from swf.base import Blocks, Unsteady
from swf.presets import preset
from tracekit.machine import Machine
from tracekit.schema import to_numeric
from tracekit.trace import Trace

#: Our column -> their names, the usual one first.
NAMES = {
    "submit_time": ("QUEUED_TIMESTAMP",),
    "start_time": ("START_TIMESTAMP",),
    "end_time": ("END_TIMESTAMP",),
    "wait_time": ("QUEUED_WAIT_SECONDS",),
    "run_time": ("RUNTIME_SECONDS",),
    "req_time": ("WALLTIME_SECONDS",),
    "req_nodes": ("NODES_REQUESTED", "REQUESTED_NODES"),
    "alloc_nodes": ("NODES_USED", "USED_NODES"),
    "req_procs": ("CORES_REQUESTED", "REQUESTED_CORES"),
    "alloc_procs": ("CORES_USED", "USED_CORES"),
    "req_gpus": ("GPUS_REQUESTED",),
    "x_status": ("EXIT_STATUS", "EXIT_CODE"),
    "user": ("USERNAME_GENID", "COBALT_USER_NAME_GENID"),
    "project": ("PROJECT_NAME_GENID",),
    "queue": ("QUEUE_NAME", "QUEUE_GENID"),
    "partition": ("MACHINE_PARTITION",),
}
TEXT = (
    *(name for ours in ("user", "project", "queue", "partition") for name in NAMES[ours]),
    "MACHINE_NAME",
    "CAPABILITY",
    "MODE",
    "SIZE_BUCKETS3",
    "PERCENTILE",
    "DATA_LOAD_STATUS",
    "ALLOCATION_AWARD_CATEGORY",
    "SCIENCE_FIELD_SHORT",
)
NEEDED = ("QUEUED_TIMESTAMP", "START_TIMESTAMP", "END_TIMESTAMP", "RUNTIME_SECONDS", "WALLTIME_SECONDS")
IDS = ("COBALT_JOBID", "JOBID", "JOB_NAME")
ZONE = "America/Chicago"


class ALCF:
    """Reader and writer of ALCF's job records."""

    name: ClassVar[str] = "alcf"
    title: ClassVar[str] = "Argonne's DIM_JOB_COMPOSITE: Mira, Cooley, Theta, ThetaGPU, Polaris, Aurora"
    suffixes: ClassVar[tuple[str, ...]] = (".alcf",)
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept a header row with the three timestamps, both durations and some name of the job."""
        cells = set(_table.header_cells(head))
        return set(NEEDED) <= cells and not cells.isdisjoint(IDS)

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read one file of any machine and year, plain or compressed."""
        frame, remarks = _table.read_delimited(path, on_error=on_error, text=TEXT)
        return self._made(frame, path, on_error, timezone, remarks)[0]

    def chunks(self, source: Blocks, /, *, on_error: str = "stop", timezone: str | None = None) -> Iterator[Trace]:
        """Read a file of any size in parts."""

        def make(frame: pd.DataFrame, path: Path) -> tuple[Trace, str]:
            trace, ids = self._made(frame, path, on_error, timezone, [])
            if not ids:
                raise Unsteady("jobs without job numbers")
            return trace, ids

        return traces(source, on_error, TEXT, make)

    def _made(
        self, frame: pd.DataFrame, path: Path, on_error: str, timezone: str | None, remarks: list[str]
    ) -> tuple[Trace, str]:
        """Translate a table; also return which of their columns is the job number."""
        _common.require(path, frame, NEEDED, self.name)
        mapping = {}
        for ours, theirs in NAMES.items():
            found = [name for name in theirs if name in frame.columns]
            if found:
                mapping[ours] = found[0]
        frame = _never_started(frame)
        numbers, ids = _job_ids(frame)
        keep = frame.columns.difference([*mapping.values()])
        frame = frame.rename(columns={name: f"x_{str(name).lower()}" for name in keep})
        machine, more = _machine(path, frame)
        trace = _table.to_trace(
            frame.assign(job_id=numbers),
            path,
            mapping=mapping,
            timezone=timezone or ZONE,
            machine=machine,
            on_error=on_error,
            remarks=[*remarks, *more],
        )
        return _settled(trace), ids

    def write(self, trace: Trace, out: IO[bytes], /) -> list[str]:
        """Write the columns of the Cobalt years that we can fill, and those that came from such a file."""
        submit = trace.column("submit_time") + (trace.machine.epoch or 0.0)
        start = submit + trace.column("wait_time")
        end = start + trace.column("run_time")
        beyond = int((np.isfinite(start) & (stamp_texts(start, ZONE) == "")).sum())
        own = {name[2:].upper(): name for name in trace.jobs.columns if name.startswith("x_") and name != "x_status"}
        table: dict[str, Any] = {
            "JOB_NAME": _common.text_labels(trace, "x_job_name")
            if "JOB_NAME" in own
            else trace.jobs["job_id"].astype(str),
            "COBALT_JOBID": trace.jobs["job_id"],
            "MACHINE_NAME": trace.machine.name.lower(),
        }
        for stamp, seconds in (("QUEUED", submit), ("START", start), ("END", end)):
            texts = stamp_texts(seconds, ZONE)
            table[f"{stamp}_TIMESTAMP"] = texts
            table[f"{stamp}_DATE_ID"] = [text[:10].replace("-", "") or "0" for text in texts]
        for ours in ("user", "project", "queue", "partition"):
            table[NAMES[ours][0]] = _common.text_labels(trace, ours)
        for ours in ("wait_time", "run_time", "req_time", "req_nodes", "alloc_nodes", "req_procs", "alloc_procs"):
            table[NAMES[ours][0]] = _common.plain(trace.column(ours))
        gpus = trace.sizes("gpus")
        if np.isfinite(gpus).any():
            table["GPUS_REQUESTED"] = _common.plain(gpus, -1)
        table["EXIT_STATUS"] = _exit_codes(trace)
        more = {theirs: trace.jobs[ours] for theirs, ours in own.items() if theirs not in table}
        pd.DataFrame({**table, **more}).to_csv(out, index=False)
        named = {*NAMES, "alloc_gpus", "job_id", "status", *own.values()}
        twice = _in_the_second_hour(np.concatenate([submit, start, end]))
        lost = _common.lost(trace, named, machine="" if trace.machine.name else "the machine", dated=True)
        lost += altered_words(trace)
        lost += [f"{beyond} values of column wait_time that are too large for a date"] if beyond else []
        return [*lost, *([f"{twice} times in the second of two equal hours (read back as the first)"] if twice else [])]


def _never_started(frame: pd.DataFrame) -> pd.DataFrame:
    """Make starts and waits of jobs whose START_DATE_ID is 0 unknown."""
    if "START_DATE_ID" not in frame.columns:
        return frame
    bogus = (to_numeric(frame["START_DATE_ID"]) == 0).to_numpy()
    if not bogus.any():
        return frame
    names = [name for name in ("START_TIMESTAMP", "QUEUED_WAIT_SECONDS") if name in frame.columns]
    return frame.assign(**{name: frame[name].where(~bogus) for name in names})


def _job_ids(frame: pd.DataFrame) -> tuple[Any, str]:
    """Return the first id column with a number for all jobs, and its name; or numbers from 1, and no name."""
    for name in IDS:
        if name not in frame.columns:
            continue
        values = frame[name]
        if name == "JOB_NAME" and not _table.is_numeric(values):
            values = values.astype("string").str.extract(r"^(\d{1,17})(?:\.|$)", expand=False)
        numbers = to_numeric(values).to_numpy(dtype=np.float64, na_value=np.nan)
        whole = np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < 2.0**53)
        if whole.all() and (len(np.unique(numbers)) > len(numbers) // 2 or len(numbers) == 1):
            return numbers.astype(np.int64), name
    return np.arange(1, len(frame) + 1), ""


def _machine(path: Path, frame: pd.DataFrame) -> tuple[Machine, list[str]]:
    if "x_machine_name" not in frame.columns:
        return Machine(unit="nodes"), []
    names = frame["x_machine_name"].value_counts()
    names = names[names > 0]
    if not len(names):
        return Machine(unit="nodes"), []
    name = str(names.index[0])
    remarks = [f"jobs of {len(names)} machines; most are of {name}"] if len(names) > 1 else []
    return preset(name) or Machine(name=name, unit="nodes"), remarks


def _settled(trace: Trace) -> Trace:
    """Set statuses, unknown GPUs, and the scheduled unit."""
    changed: dict[str, Any] = {}
    gpus = trace.column("req_gpus")
    if "req_gpus" in trace.jobs.columns:
        changed["req_gpus"] = np.where(gpus == -1, np.nan, gpus)
    if "x_status" in trace.jobs.columns:
        codes = to_numeric(trace.jobs["x_status"]).to_numpy(dtype=np.float64, na_value=np.nan)
        words = np.where(np.isnan(codes), "unknown", np.where(codes == 0, "completed", "failed"))
        changed |= {"status": words, "x_status": _common.numbered(pd.Series(codes))}
    return _common.unit_first_known(trace.assign(changed), ("nodes", "procs", "gpus"))


def _exit_codes(trace: Trace) -> Any:
    """Return 0 for completed, 1 for any other known end, their own code where it still agrees."""
    status = _common.text_labels(trace, "status", "unknown")
    codes = np.where(status == "completed", 0.0, np.where(status == "unknown", np.nan, 1.0))
    if "x_status" in trace.jobs.columns:
        own = to_numeric(trace.jobs["x_status"]).to_numpy(dtype=np.float64, na_value=np.nan)
        codes = np.where((own != 0) & (codes == 1), own, codes)
    return _common.plain(np.where(np.isnan(codes) & (status == "failed"), 1.0, codes))


def _in_the_second_hour(seconds: Any) -> int:
    """Count instants whose local time is the same as an hour earlier."""
    known = seconds[np.abs(seconds) < 2.5e11]
    local = pd.Series((known * 1e6).astype("int64").view("datetime64[us]")).dt.tz_localize("UTC").dt.tz_convert(ZONE)
    first = local.dt.tz_localize(None).dt.tz_localize(ZONE, ambiguous=np.ones(len(local), bool))
    return int((first != local).sum())
