"""google-2019: events of Google's Borg cells, May 2019 (ClusterData2019), as exported from BigQuery. Needs duckdb.

Give the folder of a cell: files ``collection_events*``, ``instance_events*`` and ``machine_events*`` (or folders of
these names), as JSON lines, CSV with flattened columns, or Parquet, plain or compressed. A folder of such folders holds
several cells. One file of instance events is a trace too, with the other tables if they are beside it.

A job is a collection with all its instances (``job=instance``: each instance is a job). Only collections of type job
are kept; ``keep=reservations`` takes alloc sets, and the jobs that run in none.

| their column | our column | unit, remark |
|---|---|---|
| collection_id | job_id, x_collection_id | with several cells, and for instances, jobs are numbered from 1 |
| time of the first SUBMIT (0) | submit_time | µs → seconds; 0 (before the trace) and 2⁶³ − 1 (after it) are unknown |
| time of the first SCHEDULE (3) | wait_time | seconds: start − submit |
| time of the last EVICT, FAIL, FINISH, KILL (4–7) | run_time | seconds: end − start, gaps between attempts included |
| resource_request.cpus | req_procs | Σ of the first requests of all instances × ``unit_cores`` (1000) |
| resource_request.memory | req_mem | the same × ``unit_gb`` (1024 GB), in KB per processor |
| instances | tasks | how many |
| last event | status, x_status | FINISH completed, FAIL failed, KILL and EVICT cancelled; others unknown |
| user, collection_logical_name | user, app | labels (hashes) |
| priority | queue, x_priority | tier: free, batch, mid, production, monitoring; 100 to 109 other |
| start_after_collection_ids | prev_job, x_dependencies | of several the one that ended last; how many |
| parent_collection_id, alloc_collection_id | x_… | 0 is none |
| scheduling_class, vertical_scaling, scheduler | x_… | numbers as documented |
| SCHEDULE and EVICT of instances | x_attempts, x_evictions | identical events count once |
| resource_request.cpus × time between SCHEDULE and the next end | x_core_seconds | Σ over known runs of instances |
| missing_type | x_missing_type | the largest; above 0 = the owners made events up |
| machine_events | the machine | hosts, groups of equal capacity; what was missing when: `tracekit outages` |

Where the collection's own events are missing, the first and the last of its instances count, the last end only if all
have ended. At one instant events happen in the order of their numbers. A job without an end, or LOST, has no run time;
one that was evicted, failed or killed without any SCHEDULE ran 0 s. ``edges=cut`` cuts jobs at the edges of the trace
instead: events before it are at 0, jobs still running end at the last event.

Lost: which machine an instance ran on (kept as x_machine_id with ``job=instance``), updates of requests, constraints,
max_per_machine, max_per_switch, collection_name, usage. Owners: https://github.com/google/cluster-data; Tirmazi et al.,
EuroSys 2020. See docs/event-tables.md.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from swf import _common, _google
from swf._events import Outage, names_in, option_number, session
from swf.base import head_lines
from tracekit.errors import FormatError
from tracekit.files import head_of
from tracekit.machine import HostGroup, Machine
from tracekit.schema import counts
from tracekit.trace import Trace


class Google2019:
    """Reader of the events of collections, instances and machines."""

    name: ClassVar[str] = "google-2019"
    title: ClassVar[str] = "Google's Borg cells, 2019: a folder of event tables as exported from BigQuery"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset(
        {"on_error", "timezone", "cell", "job", "keep", "edges", "unit_cores", "unit_gb", "memory"}
    )

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept JSON lines, CSV and Parquet with the columns of events of instances or collections."""
        lines = head_lines(head, limit=1)
        if lines and "collection_id" not in lines[0] and not head.startswith(b"PAR1"):
            return False
        return _google.table_of(names_in(head, path)) in ("instance_events", "collection_events")

    def sniff_folder(self, folder: Path) -> bool:
        """Accept a folder with files of instance events, or with folders that have some."""
        return any(tables["instance_events"] for tables in _google.cells_of(folder).values())

    def read(
        self,
        path: Path,
        /,
        *,
        on_error: str = "stop",
        timezone: str | None = None,
        cell: str | None = None,
        job: str = "collection",
        keep: str = "jobs",
        edges: str = "unknown",
        unit_cores: float | str | None = None,
        unit_gb: float | str | None = None,
        memory: str | None = None,
    ) -> Trace:
        """Put the tables together, one row per job."""
        wanted = _google.Wanted(
            job,
            keep,
            edges,
            option_number("unit_cores", unit_cores, _google.UNIT_CORES),
            option_number("unit_gb", unit_gb, _google.UNIT_GB),
        )
        frames, groups, remarks = [], [], []
        cells = self._cells(path, cell)
        for name, files in cells.items():
            label = f"cell {name}: " if len(cells) > 1 else ""
            with session(path, memory) as made:
                notes = _google.load(made, files, wanted, on_error)
                frames.append(_google.jobs(made, wanted).assign(partition=name))
                if files["machine_events"]:
                    hosts, more = _google.machines(made, files["machine_events"], wanted, on_error)
                    groups += _groups(hosts, wanted, name if len(cells) > 1 else "")
                    notes += more
            remarks += [label + note for note in notes]
        frame = _together(frames, numbered=job == "instance" or len(cells) > 1, several=len(cells) > 1)
        if frame.empty:
            raise FormatError(path, "contains no jobs" + " that can be read" * (on_error == "skip"))
        lost = int((frame["x_status"].astype(object) == "LOST").sum())
        remarks += [f"{lost:,} jobs were LOST: how and when they ended is unknown"] if lost else []
        machine = _machine(groups, wanted, timezone or _zone(cells), "".join(cells) if len(cells) == 1 else "")
        return Trace(frame, machine, tuple(remarks))

    def outages(self, path: Path, /, **options: Any) -> list[Outage]:
        """Return what was missing of the machine, cell by cell added up: (from, to, processors), in seconds."""
        wanted = _google.Wanted(unit_cores=option_number("unit_cores", options.get("unit_cores"), _google.UNIT_CORES))
        found: list[Outage] = []
        for files in self._cells(path, options.get("cell")).values():
            if not files["machine_events"]:
                raise FormatError(path, "the table machine_events, which tells the capacity, is missing")
            with session(path, options.get("memory")) as made:
                _google.machines(made, files["machine_events"], wanted, options.get("on_error", "stop"))
                found += _google.outages(made, wanted)
        return sorted(found)

    def _cells(self, path: Path, cell: str | None) -> dict[str, dict[str, list[Path]]]:
        """Return the files to read by cell and table; a file stands for its table, the others are beside it."""
        if path.is_dir():
            found = _google.chosen(path, cell)
            if not found:
                raise FormatError(path, "holds no files instance_events*")
            return found
        head = head_of(path)
        table = _google.table_of(names_in(head, path)) if head.strip() else None
        if table is None:
            raise FormatError(path, "this is not a table of events of ClusterData2019")
        beside = next(iter(_google.cells_of(path.parent).values()), {}) if path.name.startswith(table) else {}
        tables = {name: beside.get(name, []) for name in _google.COLUMNS}
        return {cell or "": tables | {table: [path]}}


def _together(frames: list[pd.DataFrame], *, numbered: bool, several: bool) -> pd.DataFrame:
    """Return the jobs of all cells in order of submission, with ids and our types."""
    if several:
        plain = [frame.astype(dict.fromkeys(("user", "app", "queue", "x_status"), object)) for frame in frames]
        frame = pd.concat(plain, ignore_index=True).sort_values("submit_time", kind="stable", ignore_index=True)
    else:
        frame = frames[0].drop(columns="partition")
    unknown = [name for name in frame.columns if name[:2] == "x_" and name != "x_status" and frame[name].isna().all()]
    frame = frame.drop(columns=unknown).assign(
        status=_common.statuses_of(frame["x_status"], _google.STATUS),
        req_procs=counts(frame["req_procs"].to_numpy(dtype=np.float64)),
    )
    if not numbered:
        return frame.rename(columns={"x_collection_id": "job_id"})
    ids = np.arange(1, len(frame) + 1)
    if several and "prev_job" in frame and frame["x_collection_id"].is_unique:
        of_id = pd.Series(ids, index=frame["x_collection_id"])
        before = frame["prev_job"].to_numpy(dtype=np.float64, na_value=np.nan)
        frame["prev_job"] = counts(of_id.reindex(before).to_numpy(dtype=np.float64))
    elif "prev_job" in frame:
        frame = frame.drop(columns="prev_job")
    return frame.assign(job_id=ids)


def _groups(hosts: pd.DataFrame, wanted: _google.Wanted, cell: str) -> list[HostGroup]:
    memory = hosts["memory"].fillna(0) * wanted.unit_gb * 1024**2
    cores = np.round(hosts["cpus"] * wanted.unit_cores)
    kinds = pd.DataFrame({"gpu_type": "", "gpus": 0, "cores": cores, "memory": np.round(memory)}, index=hosts.index)
    groups = _common.host_groups(kinds)
    if not cell:
        return list(groups)
    return [
        dataclasses.replace(g, name=f"{_common.host_name(cell)}-{g.name}", pool=_common.host_name(cell)) for g in groups
    ]


def _zone(cells: dict[str, Any]) -> str:
    """Return the zone of the only cell; that of the trace's beginning for several, or for an unknown one."""
    return _google.ZONES.get("".join(cells), "America/Los_Angeles") if len(cells) == 1 else "America/Los_Angeles"


def _machine(groups: list[HostGroup], wanted: _google.Wanted, zone: str, cell: str) -> Machine:
    procs = sum(group.count * (group.cores or 0) for group in groups)
    known = f"the largest machine is taken for {wanted.unit_cores:g} processors and {wanted.unit_gb:g} GB"
    return Machine(
        name=f"Borg cell {cell}" if cell in _google.ZONES else "Borg",
        procs=procs or None,
        nodes=sum(group.count for group in groups) or None,
        epoch=_google.EPOCH,
        timezone=zone,
        groups=tuple(groups),
        licence="CC BY 4.0",
        notes=(f"normalised units: {known}; real sizes are not published",),
    )
