"""acme: job logs of Shanghai AI Lab's LLM clusters Seren and Kalos, 2023 (``trace_seren.csv``, ``trace_kalos.csv``).

| their column | our column | unit, remark |
|---|---|---|
| job_id | job_id (Seren), x_job_id (Kalos) | Kalos has names; its jobs are numbered from 1 |
| user | user | label |
| node_num, gpu_num, cpu_num | req_nodes, req_gpus, req_procs | counts |
| type | x_type | kind of work in the development of a model |
| state | status, x_status | COMPLETED, CANCELLED, FAILED, TIMEOUT; NODE_FAIL is failed; others unknown |
| submit_time | submit_time | with an offset (+08:00 Seren, +00:00 Kalos) |
| start_time, end_time | wait_time, run_time | seconds: start − submit, end − start; may be empty |
| duration, queue | run_time, wait_time | seconds, where a timestamp is missing; x_duration, x_queue if they disagree |
| gpu_time | x_gpu_time | GPU-seconds, duration × gpu_num |
| mem_per_pod_GB, shared_mem_per_pod | x_mem_per_pod_GB, x_shared_mem_per_pod | the number of pods is not given |
| fail_time, stop_time | x_fail_time, x_stop_time | seconds since 1970 |

In the published rows of Kalos, duration is end − submit although the owners describe it as end − start: run_time is
computed from the timestamps. Hours of the day are in China's time zone unless ``--timezone`` is given. GPUs are the
scheduled unit if any job has some. These logs have no time limits.
Owners: https://github.com/InternLM/AcmeTrace; Hu et al., NSDI 2024.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from swf import _common, _table
from swf._times import seconds_of
from tracekit.machine import Machine
from tracekit.trace import Trace

COLUMNS = (
    "job_id",
    "user",
    "node_num",
    "gpu_num",
    "cpu_num",
    "type",
    "state",
    "submit_time",
    "start_time",
    "end_time",
    "duration",
    "queue",
    "gpu_time",
)
OURS = {
    "req_nodes": "node_num",
    "req_gpus": "gpu_num",
    "req_procs": "cpu_num",
    "x_status": "state",
    "x_duration": "duration",
    "x_queue": "queue",
}
ZONE = "Asia/Shanghai"


class Acme:
    """Reader of the Acme job logs."""

    name: ClassVar[str] = "acme"
    title: ClassVar[str] = "Shanghai AI Lab's Acme GPU clusters Seren and Kalos, 2023"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept a header row with all thirteen names that the two logs share."""
        return set(COLUMNS) <= set(_table.header_cells(head))

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read a log of either cluster."""
        frame, remarks = _table.read_delimited(path, on_error=on_error, text=("user", "type", "state"))
        _common.require(path, frame, COLUMNS, self.name)
        if not _table.is_numeric(frame["job_id"]):
            frame = frame.rename(columns={"job_id": "x_job_id"})
        kalos = "mem_per_pod_GB" in frame.columns
        machine = Machine(name="Kalos" if kalos else "Seren", unit="gpus")
        trace = _table.to_trace(
            frame,
            path,
            mapping=OURS,
            timezone=timezone or ZONE,
            machine=machine,
            on_error=on_error,
            remarks=remarks,
        )
        stops = {f"x_{name}": trace.jobs[f"x_{name}"] for name in ("fail_time", "stop_time") if name in frame.columns}
        return _common.settled(trace.assign({name: seconds_of(values, ZONE)[0] for name, values in stops.items()}))
