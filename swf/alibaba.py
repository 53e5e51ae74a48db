"""Alibaba's GPU cluster traces: ``alibaba-pai`` (2020; job, task and instance tables) and ``alibaba-openb`` (2023).

**alibaba-pai**: tables without a header row. Give the folder, or any of the tables; the others are found beside it
under the owners' names (``pai_job_table.csv``, ``pai_task_table.csv``, ``pai_instance_table.csv``,
``pai_machine_spec.csv``, plain or compressed). Sizes are in the task table, so that one is needed.

| their column | our column | unit, remark |
|---|---|---|
| job.job_name, job.inst_id | x_job_name, x_inst_id | jobs are numbered from 1 |
| job.user | user | label |
| job.status | status, x_status | Terminated completed, Failed failed; Running and Waiting unknown |
| job.start_time | submit_time | seconds; without a job table, the first task's start |
| task.start_time | wait_time | seconds: first task's start − submit; unknown without a job table |
| job.end_time | run_time | seconds: end − first task's start; without a job table, the last task's end |
| task.plan_cpu × inst_num / 100 | req_procs | cores, summed over tasks; may be fractions |
| task.plan_gpu × inst_num / 100 | req_gpus | GPUs, summed over tasks; may be fractions |
| task.plan_mem × inst_num | req_mem | GB → KB, summed and divided by the cores |
| task.gpu_type | gpu_type | of the first task that has one |
| Σ task.inst_num | tasks | instances of all tasks, placed all at once; each gets an even part of the totals |
| tasks, inst_num | x_tasks, x_instances | how many |
| instance.machine | alloc_nodes | how many different machines; only if the instance table exists |
| machine_spec | the machine | nodes, cores, GPUs, groups |

Seconds count from a fictitious date, but hours and weekdays are right in UTC+8: the calendar is that of epoch 0 in
Asia/Shanghai. Sensor, group tag and machine metric tables are not read.
Owners: https://github.com/alibaba/clusterdata (cluster-trace-gpu-v2020); Weng et al., NSDI 2022.

**alibaba-openb**: the list of pods, with a header row.

| their column | our column | unit, remark |
|---|---|---|
| name | x_name | jobs are numbered from 1 |
| cpu_milli | req_procs | thousandths of a core; may be fractions |
| num_gpu × gpu_milli / 1000 | req_gpus | a pod with one GPU may use a fraction of it; also x_num_gpu, x_gpu_milli |
| memory_mib | req_mem | MiB → KB, divided by the cores |
| | tasks | 1: a pod is on one node |
| gpu_spec | gpu_type | acceptable types, such as V100M16 or V100M32, separated by a bar |
| qos | x_qos | LS, BE, Burstable, Guaranteed |
| pod_phase | status, x_status | Succeeded completed, Failed failed; Running and Pending unknown |
| creation_time | submit_time | seconds, no calendar |
| scheduled_time, deletion_time | wait_time, run_time | seconds: scheduled − creation, deletion − scheduled |

``openb_node_list_all_node.csv`` or ``openb_node_list_gpu_node.csv`` beside it gives the machine. The multigpu variants
have no times and cannot be read. Owners: the same repository, cluster-trace-gpu-v2023; Weng et al., USENIX ATC 2023.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from swf import _common, _pai, _table
from tracekit.errors import FormatError
from tracekit.files import head_of
from tracekit.machine import Machine
from tracekit.schema import counts
from tracekit.trace import Trace

ZONE = "Asia/Shanghai"
PODS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
POD_TIMES = ("creation_time", "deletion_time", "scheduled_time")
NODE_LISTS = ("openb_node_list_all_node.csv", "openb_node_list_gpu_node.csv")


class PAI:
    """Reader of the tables of cluster-trace-gpu-v2020."""

    name: ClassVar[str] = "alibaba-pai"
    title: ClassVar[str] = "Alibaba PAI GPU cluster, 2020: a folder of tables, or its job or task table"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept rows in the shape of one of the three tables."""
        return _pai.kind_of(head) is not None

    def sniff_folder(self, folder: Path) -> bool:
        """Accept a folder that holds one of the three tables under the owners' name."""
        return _common.beside(folder, [f"pai_{table}_table.csv" for table in _pai.TABLES]) is not None

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Put the tables together, one row per job."""
        places = _pai.places(path, None if path.is_dir() else _pai.kind_of(head_of(path)))
        frame, remarks = _pai.jobs(places, on_error)
        machine = _pai.machine(path).replace(epoch=0.0, timezone=timezone or ZONE)
        trace = _table.to_trace(frame, path, machine=machine, timezone=timezone or ZONE, remarks=remarks)
        trace = trace.assign({"status": _common.statuses_of(trace.jobs["x_status"], _pai.WORDS)})
        return _common.gpus_if_any(trace)


class OpenB:
    """Reader of the pod lists of cluster-trace-gpu-v2023."""

    name: ClassVar[str] = "alibaba-openb"
    title: ClassVar[str] = "Alibaba's GPU-sharing cluster, 2023 (openb_pod_list_*.csv)"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept a header row with the five names that all pod lists share."""
        return set(PODS) <= set(_table.header_cells(head))

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read a pod list."""
        frame, remarks = _table.read_delimited(path, on_error=on_error, text=("gpu_spec", "qos", "pod_phase"))
        _common.require(path, frame, PODS, self.name)
        absent = [name for name in POD_TIMES if name not in frame.columns]
        if absent:
            raise FormatError(path, f"the pod list has no column {', '.join(absent)}: submit and end times are unknown")
        theirs = {"start_time": "scheduled_time", "end_time": "deletion_time", "submit_time": "creation_time"}
        theirs |= {"req_procs": "cpu_milli", "req_mem": "memory_mib", "req_gpus": "num_gpu"}
        more = {"gpu_type": "gpu_spec", "x_status": "pod_phase", "x_name": "name"}
        theirs |= {ours: name for ours, name in more.items() if name in frame.columns}
        numbers, skipped = _table.numeric(frame, path, ["gpu_milli"], on_error=on_error)
        machine = _nodes(path).replace(timezone=timezone)
        trace = _table.to_trace(
            numbers, path, mapping=theirs, machine=machine, on_error=on_error, remarks=[*remarks, *skipped], dates=False
        )
        return _common.gpus_if_any(trace.assign(_scaled(trace)))


def requests(path: Path) -> Trace:
    """Read what the pods of a list ask for; times, where the list has none, are unknown. For packing studies."""
    frame, remarks = _table.read_delimited(path, text=("gpu_spec", "qos", "pod_phase"))
    _common.require(path, frame, PODS, OpenB.name)
    theirs = {"req_procs": "cpu_milli", "req_mem": "memory_mib", "req_gpus": "num_gpu", "x_name": "name"}
    theirs |= {"gpu_type": "gpu_spec"} if "gpu_spec" in frame.columns else {}
    numbers, skipped = _table.numeric(frame, path, ["gpu_milli"])
    numbers = numbers.drop(columns=[name for name in POD_TIMES if name in numbers.columns])
    numbers = numbers.assign(submit_time=np.arange(float(len(numbers))), run_time=np.nan)
    machine = _nodes(path)
    trace = _table.to_trace(numbers, path, mapping=theirs, machine=machine, remarks=[*remarks, *skipped], dates=False)
    return trace.assign(_scaled(trace))


def _scaled(trace: Trace) -> dict[str, Any]:
    """Turn thousandths into units and MiB of the pod into KB per core."""
    procs = trace.column("req_procs") / 1000
    gpus = trace.column("req_gpus")
    with np.errstate(divide="ignore", invalid="ignore"):
        memory = np.where(procs > 0, trace.column("req_mem") * 1024 / procs, np.nan)
    changed = {
        "req_procs": counts(procs),
        "req_gpus": counts(gpus * trace.jobs["x_gpu_milli"].to_numpy() / 1000),
        "req_mem": memory,
        "x_num_gpu": counts(gpus),
        "x_gpu_milli": _common.numbered(trace.jobs["x_gpu_milli"]),
        "tasks": counts(np.ones(len(trace))),
    }
    if "x_status" in trace.jobs.columns:
        words = {"Succeeded": "completed", "Failed": "failed"}
        changed["status"] = _common.statuses_of(trace.jobs["x_status"], words)
    return changed


def _nodes(path: Path) -> Machine:
    place = _common.beside(path, NODE_LISTS)
    return Machine(name="Alibaba openb", unit="gpus") if place is None else node_list(place)


def node_list(place: Path) -> Machine:
    """Return the cluster that a list of nodes describes."""
    known = Machine(name="Alibaba openb", unit="gpus")
    frame, _ = _table.read_delimited(place, text=("model",))
    _common.require(place, frame, ("cpu_milli", "memory_mib", "gpu"), "the node list")
    frame, _ = _table.numeric(frame, place, ["cpu_milli", "memory_mib", "gpu"])
    model = frame["model"].astype(object) if "model" in frame.columns else pd.Series("", frame.index)
    alike = pd.DataFrame(
        {
            "gpu_type": model,
            "gpus": frame["gpu"],
            "cores": frame["cpu_milli"] // 1000,
            "memory": frame["memory_mib"] * 1024,
        }
    )
    groups = _common.host_groups(alike)
    sizes = {"procs": int(frame["cpu_milli"].sum() / 1000), "gpus": int(frame["gpu"].sum())}
    return known.replace(nodes=len(frame), groups=groups, **{unit: size or None for unit, size in sizes.items()})
