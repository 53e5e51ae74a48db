"""sacct: what Slurm's accounting command prints with ``-P`` (``--parsable2``), fields separated by ``|``.

| sacct field (any case, any order) | our column | unit, remark |
|---|---|---|
| JobIDRaw, else JobID | job_id | numbered from 1 where JobID holds ``123_4`` or ``123+0`` and JobIDRaw is missing |
| JobID | x_jobid | kept where it is not the job_id |
| Submit | submit_time | Unix seconds; dates on the clock of ``--timezone`` (default UTC) |
| Start | wait_time | Start − Submit, seconds; Unknown and None are unknown |
| ElapsedRaw, else Elapsed, else End − Start | run_time | seconds; unknown for jobs that have not ended |
| TimelimitRaw (minutes), Timelimit | req_time | seconds; UNLIMITED and Partition_Limit are unknown |
| ReqCPUS, else ReqTRES cpu | req_procs | |
| AllocCPUS, else NCPUS, else AllocTRES cpu | alloc_procs | |
| ReqNodes, else ReqTRES node | req_nodes | |
| AllocNodes, else NNodes, else AllocTRES node | alloc_nodes | |
| ReqTRES, AllocTRES gres/gpu (older: ReqGRES, AllocGRES) | req_gpus, alloc_gpus, gpu_type | 0 if not given |
| ReqMem, else ReqTRES mem | req_mem | KB per processor; ``Mc`` per CPU, ``Mn`` per node, else the job's; 0 is unknown |
| MaxRSS × NTasks, the largest step | used_mem | KB per processor; x_maxrss_kb keeps the largest MaxRSS |
| TotalCPU | cpu_time | seconds, mean per allocated processor |
| ConsumedEnergyRaw, else ConsumedEnergy, else AllocTRES energy | mean_watts | J of job or largest step ÷ run_time |
| State | status, x_status | PREEMPTED is cancelled, DEADLINE timeout, REQUEUED partial, NODE_FAIL failed |
| User (else UID), Group (else GID), Account, Partition, JobName | user, group, project, partition, app | labels |
| Cluster | the machine's name | kept as x_cluster where there are several |
| QOS, Eligible, ExitCode, NodeList and any other | x_<name in lower case> | kept as text |

Rows of steps (``101.batch``, ``101.0``) are folded into the job above them and then left out. A pending array
``123_[1-3]`` is one job. A job name that holds ``|`` makes a row too long; it is joined again if the other
fields are then valid. Without a header row the 26 fields of Open XDMoD are expected. `tracekit sacct-command` prints
the command to run. Fields: https://slurm.schedmd.com/sacct.html
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from swf import _sacct_rows, _slurm_jobs
from swf._notation import UNKNOWN, Damage, distinct, on_unique, shown
from swf._sacct_rows import XDMOD, Lines, header_of, makes_sense
from swf.base import Blocks, check_lines, head_lines
from tracekit.errors import FormatError
from tracekit.files import opened
from tracekit.trace import Trace

#: The fields of `tracekit sacct-command`: all that we can use, steps included.
FIELDS = (
    "JobID,JobIDRaw,Cluster,Partition,QOS,Account,Group,User,Submit,Eligible,Start,End,ElapsedRaw,ExitCode,State,"
    "ReqNodes,NNodes,ReqCPUS,AllocCPUS,NTasks,ReqMem,MaxRSS,TotalCPU,ConsumedEnergyRaw,ReqTRES,AllocTRES,TimelimitRaw,NodeList,JobName"
)


class Sacct:
    """Reader of sacct's parsable output."""

    name: ClassVar[str] = "sacct"
    title: ClassVar[str] = "Slurm accounting: the output of sacct -P, with or without a header row"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept a header row of sacct's fields above rows in Slurm's notation, or XDMoD's 26 fields without one."""
        lines = [line for line in head_lines(head, limit=50) if line.strip()]
        if not lines or "|" not in lines[0]:
            return False
        names = header_of(lines[0])
        if names is None:
            rows = [line.split("|") for line in lines]
            return sum(len(row) >= len(XDMOD) and makes_sense(row, XDMOD) for row in rows) > len(rows) // 2
        rows = [line.split("|") for line in lines[1:]]
        return sum(makes_sense(row, names) for row in rows) * 2 >= len(rows)

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read the jobs; ``timezone`` is the time zone that sacct ran in."""
        damage = Damage(path, on_error)
        with opened(path) as source:
            data = source.read().removeprefix(b"\xef\xbb\xbf")
        if data.lstrip()[:1] == b"{":
            from swf.slurm_json import read_jobs

            return read_jobs(data, path, on_error)
        check_lines(data, path)
        data = Blocks(path).utf8(data if data.endswith(b"\n") else data + b"\n")
        table, lines = _sacct_rows.split_rows(data, _sacct_rows.columns_of(data, damage), damage)
        facts = _Facts()
        facts.add(table)
        return _to_trace(table, lines, damage, timezone, facts)

    def chunks(self, source: Blocks, /, *, on_error: str = "stop", timezone: str | None = None) -> Iterator[Trace]:
        """Read a file of any size in two passes: how the jobs are numbered, then the jobs."""
        passing = Damage(source.path, "skip")
        facts = _Facts()
        for table, _ in _sacct_rows.tables(source, passing, only=("jobid", "jobidraw", "cluster")):
            facts.add(table)
        first_id = 1
        for table, lines in _sacct_rows.tables(source, damage := Damage(source.path, on_error)):
            if len(table):
                trace = _to_trace(table, lines, damage, timezone, facts, first_id=first_id)
                first_id += len(trace)
                yield trace
                damage.found.clear()


class _Facts:
    """Facts about the whole file: how its jobs are numbered, and its clusters."""

    def __init__(self) -> None:
        self.plain, self.same_ids = True, True
        self.clusters: set[str] = set()

    def add(self, table: pd.DataFrame) -> None:
        """Update the facts from one part of the file."""
        self.plain &= _sacct_rows.ids_are_plain(table)
        if "jobid" in table and "jobidraw" in table:
            self.same_ids &= bool((table["jobid"].astype(object) == table["jobidraw"].astype(object)).all())
        if "cluster" in table:
            found = (str(name) for name in distinct(table["cluster"])[1].tolist())
            self.clusters |= {name for name in found if name.lower() not in UNKNOWN}


def _to_trace(
    table: pd.DataFrame, lines: Lines, damage: Damage, timezone: str | None, facts: _Facts, *, first_id: int = 1
) -> Trace:
    """Fold the steps into their jobs and number the jobs."""
    if not len(table):
        raise FormatError(damage.path, "contains no jobs, only a header")
    table, lines, orphans = _sacct_rows.fold_steps(table, lines, damage)
    if not len(table):
        raise FormatError(damage.path, "contains job steps only, no jobs")
    key = "jobidraw" if "jobidraw" in table else "jobid"
    if facts.plain:
        ids, _ = on_unique(table[key], _id)
        bad = np.isnan(ids)
        for row in np.flatnonzero(bad):
            damage.add(int(lines[row]), f"'{shown(table[key].iloc[row])}' is not a job number")
        if bad.any():
            table, lines, ids = table[~bad].reset_index(drop=True), lines[~bad], ids[~bad]
        table = table.assign(job_id=ids.astype(np.int64))
    else:
        table = table.assign(job_id=np.arange(first_id, first_id + len(table)))
    if "jobid" in table and not (facts.plain and facts.same_ids):
        table["x_jobid"] = table["jobid"]
    for name, number in (("user", "uid"), ("group", "gid")):
        if name not in table and number in table:
            table = table.rename(columns={number: name})
    if len(facts.clusters) > 1:
        table["x_cluster"] = table["cluster"]
    name = next(iter(facts.clusters)) if len(facts.clusters) == 1 else ""
    trace = _slurm_jobs.to_trace(table, lines, damage, timezone=timezone, cluster=name)
    return trace.replace(step=f"left out {orphans} steps whose job is not in the file") if orphans else trace


def _id(text: str) -> float:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else float("nan")
