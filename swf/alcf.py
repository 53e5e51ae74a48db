"""alcf: job records of the Argonne Leadership Computing Facility (DIM_JOB_COMPOSITE), Cobalt and PBS years.

Columns are found by name, in upper or lower case, never by position: the years and machines differ (exports of 57, 58,
66 and 67 columns are known). The second name is that of the older export of Mira (27 columns).

| their column | our column | unit, remark |
|---|---|---|
| COBALT_JOBID, JOBID, JOB_NAME up to the dot | job_id | the first with a number above 0, see below |
| JOB_NAME | x_job_name | `1234567.polaris-pbs-01…`, kept as it is |
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
| CAPABILITY | x_capability | 1 capability, 0 not, else unknown; words, truth values and numbers are understood |
| CAPABILITY | x_capability_text | as it is written |
| ALLOCATION_AWARD_CATEGORY | x_allocation_award_category | as it is written: INCITE, ALCC, Discretionary … |
| LOCATION | x_location | as it is written; long lists are cut in some exports, so nodes are never counted from it |
| all others | x_… | kept |

Job ids: COBALT_JOBID is 0 in the PBS years, where JOB_NAME identifies the job. Of different JOB_NAMEs with one number
(array jobs, two servers) the first keeps it; the others, and jobs without any number, are numbered after the largest.
A JOB_NAME that occurs twice has its id twice: `duplicate-ids` finds it.

START_DATE_ID 0 marks a job that never started: its wait_time is unknown. That the timestamps are Chicago time is an
assumption, the owners do not state it; ``--timezone`` replaces it. Times in the hour that occurs twice in November
are read as the first of the two, and counted in the history. Meanings beyond the names are not documented. Lost on
writing: memory, groups, programs, the second of those two hours.
Owners: https://reports.alcf.anl.gov/data/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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
    "LOCATION",
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
#: Marks job numbers that need the whole file.
NOT_UNIQUE = "not unique"
#: The same names as some exports write them.
ANY_CASE = (*TEXT, *(name.lower() for name in TEXT))
#: Flags of capability jobs, without blanks and dashes.
_CAPABLE = frozenset({"capable", "capability", "true", "t", "yes", "y", "1", "1.0"})
_NOT_CAPABLE = frozenset(f"{no}{word}" for no in ("not", "non") for word in ("capable", "capability"))
_NOT_CAPABLE |= {"false", "f", "no", "n", "0", "0.0"}
ZONE = "America/Chicago"


class ALCF:
    """Reader and writer of ALCF's job records."""

    name: ClassVar[str] = "alcf"
    title: ClassVar[str] = "Argonne's DIM_JOB_COMPOSITE: Mira, Cooley, Theta, ThetaGPU, Polaris, Aurora"
    suffixes: ClassVar[tuple[str, ...]] = (".alcf",)
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept a header row with the three timestamps, both durations and some name of the job."""
        cells = {cell.upper() for cell in _table.header_cells(head)}
        return set(NEEDED) <= cells and not cells.isdisjoint(IDS)

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read one file of any machine and year, plain or compressed."""
        frame, remarks = _table.read_delimited(path, on_error=on_error, text=ANY_CASE)
        return self._made(frame, path, on_error, timezone, remarks)[0]

    def chunks(self, source: Blocks, /, *, on_error: str = "stop", timezone: str | None = None) -> Iterator[Trace]:
        """Read a file of any size in parts."""

        def make(frame: pd.DataFrame, path: Path) -> tuple[Trace, tuple[str, ...]]:
            trace, ids = self._made(frame, path, on_error, timezone, [])
            if NOT_UNIQUE in ids:
                raise Unsteady("job numbers that are missing or not unique")
            return trace, ids

        return traces(source, on_error, ANY_CASE, make)

    def _made(
        self, frame: pd.DataFrame, path: Path, on_error: str, timezone: str | None, remarks: list[str]
    ) -> tuple[Trace, tuple[str, ...]]:
        """Translate a table; also return where the job numbers are from."""
        frame = _upper_case(frame)
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
        if "CAPABILITY_TEXT" in own:
            own["CAPABILITY"] = own.pop("CAPABILITY_TEXT")
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
        named = {*NAMES, "alloc_gpus", "job_id", "status", "x_capability", *own.values()}
        twice = _in_the_second_hour(np.concatenate([submit, start, end]))
        lost = _common.lost(trace, named, machine="" if trace.machine.name else "the machine", dated=True)
        lost += altered_words(trace)
        lost += [f"{beyond} values of column wait_time that are too large for a date"] if beyond else []
        return [*lost, *([f"{twice} times in the second of two equal hours (read back as the first)"] if twice else [])]


def _upper_case(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with column names in upper case, unless two would then be the same."""
    names = frame.columns.str.upper()
    return frame if names.has_duplicates else frame.set_axis(names, axis=1)


def _never_started(frame: pd.DataFrame) -> pd.DataFrame:
    """Make starts and waits of jobs whose START_DATE_ID is 0 unknown."""
    if "START_DATE_ID" not in frame.columns:
        return frame
    bogus = (to_numeric(frame["START_DATE_ID"]) == 0).to_numpy()
    if not bogus.any():
        return frame
    names = [name for name in ("START_TIMESTAMP", "QUEUED_WAIT_SECONDS") if name in frame.columns]
    return frame.assign(**{name: frame[name].where(~bogus) for name in names})


def _job_ids(frame: pd.DataFrame) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return a number for each job, and where the numbers are from: id columns, and what follows in JOB_NAME.

    `NOT_UNIQUE` is among the latter if numbers had to be changed, or might have to be with other jobs of the file. The
    first id column with a number above 0 counts, for each job by itself; a column that mostly repeats itself is none.
    """
    numbers, identity = np.full(len(frame), np.nan), np.full(len(frame), "", dtype=object)
    used: list[str] = []
    for name in (name for name in IDS if name in frame.columns):
        found, texts = _numbered(frame[name], name)
        known = found > 0
        distinct = len(pd.unique(texts[known] if any(texts) else found[known]))
        if distinct <= known.sum() // 2 and known.sum() != 1:
            continue
        mine = known & np.isnan(numbers)
        if mine.any():
            numbers[mine], identity[mine] = found[mine], texts[mine]
            used.append(name)
    forms = {re.sub(r"^\d+", "", str(text)) for text in pd.unique(identity)}
    made, renumbered = _unique(numbers, identity)
    return made, (*used, *sorted(forms), *([NOT_UNIQUE] if renumbered or len(forms) > 1 else []))


def _numbered(values: pd.Series, name: str) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return the job number in each value, NaN if there is none, and the text that tells jobs of one number apart."""
    texts = np.full(len(values), "", dtype=object)
    if name == "JOB_NAME" and not _table.is_numeric(values):
        texts = values.astype(object).where(values.notna(), "").astype(str).to_numpy(dtype=object)
        values = pd.Series(texts, dtype="string").str.extract(r"^(\d{1,15})(?:\[\d*\])?(?:\.|$)", expand=False)
    numbers = to_numeric(values).to_numpy(dtype=np.float64, na_value=np.nan)
    whole = np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < 2.0**53)
    return np.where(whole, numbers, np.nan), texts


def _unique(numbers: NDArray[np.float64], identity: NDArray[Any]) -> tuple[NDArray[np.int64], bool]:
    """Give later identities of a number, and jobs without one, the numbers after the largest, in the file's order."""
    jobs = pd.DataFrame({"number": numbers, "identity": identity})
    first = jobs.groupby("number")["identity"].transform("first")
    other = (jobs["number"].isna() | (jobs["identity"] != first)).to_numpy()
    made = np.where(np.isnan(numbers), 0.0, numbers).astype(np.int64)
    if not other.any():
        return made, False
    apart = jobs[other].assign(row=np.where(np.isnan(numbers[other]), np.flatnonzero(other), -1))
    order = apart.groupby(["number", "identity", "row"], dropna=False, sort=False).ngroup()
    made[other] = made.max(initial=0) + 1 + order.to_numpy()
    return made, True


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
    if "x_capability" in trace.jobs.columns:
        written = trace.jobs["x_capability"]
        changed |= {"x_capability": _capability(written), "x_capability_text": written}
    return _common.unit_first_known(trace.assign(changed), ("nodes", "procs", "gpus"))


def _capability(words: pd.Series) -> NDArray[np.float64]:
    """Return 1 for capability jobs, 0 for others, NaN where the word is not known."""
    codes, names = pd.factorize(words.astype(object))
    plain = [re.sub(r"[\s_-]", "", str(name)).lower() for name in names]
    flags = [1.0 if word in _CAPABLE else 0.0 if word in _NOT_CAPABLE else np.nan for word in plain]
    return np.array([*flags, np.nan])[codes]


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
