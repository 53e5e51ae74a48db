"""jobcomp: the text file that Slurm's jobcomp/filetxt plugin appends one ``Key=value`` line a job to.

| their key | our column | unit, remark |
|---|---|---|
| JobId | job_id | |
| SubmitTime | submit_time | Unix seconds; dates on the clock of ``--timezone`` (default UTC) |
| StartTime | wait_time | StartTime − SubmitTime |
| EndTime | run_time | EndTime − StartTime |
| TimeLimit | req_time | minutes; UNLIMITED and Partition_Limit are unknown |
| ProcCnt, NodeCnt | alloc_procs, alloc_nodes | |
| Tres | req_procs, req_nodes, req_gpus, req_mem | the request: cpu, node, gres/gpu, mem (KB per processor) |
| JobState | status, x_status | as sacct |
| UserId, GroupId ``name(number)`` | user, group | the name; the number is kept as x_uid, x_gid |
| Account, Partition, Name | project, partition, app | labels |
| Cluster | the machine's name | |
| NodeList, WorkDir, QOS, EligibleTime, ExitCode and any other | x_<key in lower case> | kept as text |

A value may contain blanks (job names do): it ends where the next ``Key=`` of a known key begins. Older versions write
no SubmitTime; such a file has no submit times and is rejected.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from swf import _slurm_jobs
from swf._notation import UNKNOWN, Damage, shown
from swf.base import head_lines, read_text
from tracekit.errors import FormatError
from tracekit.trace import Trace

#: Their keys, and the names of sacct for them.
KEYS = {
    "JobId": "jobid",
    "UserId": "user",
    "GroupId": "group",
    "Name": "jobname",
    "JobState": "state",
    "Partition": "partition",
    "TimeLimit": "timelimitraw",
    "StartTime": "start",
    "EndTime": "end",
    "NodeList": "nodelist",
    "NodeCnt": "nnodes",
    "ProcCnt": "ncpus",
    "WorkDir": "workdir",
    "ReservationName": "reservation",
    "Tres": "reqtres",
    "Gres": "reqgres",
    "Account": "account",
    "QOS": "qos",
    "WcKey": "wckey",
    "Cluster": "cluster",
    "SubmitTime": "submit",
    "EligibleTime": "eligible",
    "ArrayJobId": "arrayjobid",
    "ArrayTaskId": "arraytaskid",
    "HetJobId": "hetjobid",
    "HetJobOffset": "hetjoboffset",
    "DerivedExitCode": "derivedexitcode",
    "ExitCode": "exitcode",
}
_SPLIT = re.compile(rf"(?:^|\s)({'|'.join(sorted(KEYS, key=len, reverse=True))})=")
_NAME_AND_NUMBER = re.compile(r"^(.*)\((\d+)\)")


class Jobcomp:
    """Reader of the plugin's text file."""

    name: ClassVar[str] = "jobcomp"
    title: ClassVar[str] = "Slurm's job completion log (jobcomp/filetxt), Key=value"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept lines that begin with JobId= and hold a state and a user."""
        lines = [line for line in head_lines(head, limit=50) if line.strip()]
        good = sum(line.startswith("JobId=") and " JobState=" in line and " UserId=" in line for line in lines)
        return good > 0 and good * 2 >= len(lines)

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read the jobs; ``timezone`` is the clock of the machine that wrote the file."""
        damage = Damage(path, on_error)
        texts = read_text(path).split("\n")
        rows, lines = [], []
        for line, text in enumerate(texts, 1):
            if not text.strip():
                continue
            row = _row(text)
            if row.get("jobid", "").isdecimal() and len(row["jobid"]) < 16:
                rows.append(row)
                lines.append(line)
            else:
                damage.add(line, f"no JobId=number in '{shown(text.strip())}'")
        if not rows:
            raise FormatError(path, "none of its lines could be read as a finished job")
        table = pd.DataFrame(rows, dtype=object)
        table["job_id"] = table["jobid"].map(int).to_numpy(dtype=np.int64)
        for name, number in (("user", "x_uid"), ("group", "x_gid")):
            if name in table:
                split = table[name].fillna("").str.extract(_NAME_AND_NUMBER)
                table[number] = split[1]
                table[name] = split[0].where(split[0].notna(), table[name])
        clusters = {name for name in table.get("cluster", []) if isinstance(name, str) and name.lower() not in UNKNOWN}
        cluster = clusters.pop() if len(clusters) == 1 else ""
        counted = np.array(lines, dtype=np.int64)
        return _slurm_jobs.to_trace(table, counted, damage, timezone=timezone, cluster=cluster)


def _row(text: str) -> dict[str, str]:
    """Split one line into its keys and values.

    >>> _row("JobId=1 UserId=cc(1000) Name=my job JobState=COMPLETED Tres=cpu=4,node=1 ")
    {'jobid': '1', 'user': 'cc(1000)', 'jobname': 'my job', 'state': 'COMPLETED', 'reqtres': 'cpu=4,node=1'}
    """
    parts = _SPLIT.split(text)
    return {KEYS[key]: value.strip() for key, value in zip(parts[1::2], parts[2::2], strict=True)}
