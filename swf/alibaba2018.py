"""alibaba-2018: batch jobs of Alibaba's co-located cluster, eight days of 2018 (cluster-trace-v2018). Needs duckdb.

Give the unpacked folder, or the file batch_task or batch_instance: tables without a header row, ``batch_task.csv``,
``batch_instance.csv``, ``machine_meta.csv``, ``container_meta.csv``, plain or compressed, whole or in parts.

A job is all tasks of one job_name; ``job=task`` makes each task a job, ``job=instance`` each instance (this alone reads
batch_instance, which has more than a billion rows).

| their column | our column | unit, remark |
|---|---|---|
| job_name | job_id | its number (``j_123`` is 123); otherwise numbered from 1, and x_job_name. Of tasks: x_job |
| start_time | submit_time | seconds; of the first task. 0 (outside the trace) is unknown |
| | wait_time | never known: the trace has no times of submission |
| end_time | run_time | seconds: end of the last task − start of the first; unknown while a task has not ended |
| plan_cpu / 100 × instance_num | req_procs | cores: the most that its tasks held at once; of a task: all instances |
| plan_mem × instance_num | req_mem | 100 is ``unit_gb`` (1024 GB); the most held at once, in KB per core |
| instance_num | tasks | instances at the moment of the most cores; of a task: all |
| status | status, x_status | Terminated completed, Failed failed (one task fails a job), Cancelled cancelled |
| task_name | prev_job, x_dependencies | ``R4_2_3`` waits for 2 and 3: the last to end (``job=task``); how many |
| | x_tasks, x_instances, x_core_seconds | how many; Σ plan_cpu × instance_num × run time |
| task_type, task_name | x_task_type, x_task_name | with ``job=task`` and ``job=instance`` |
| batch_instance.machine_id | x_machine_id | with ``job=instance`` |
| machine_meta | the machine | hosts, cores (cpu_num), memory (mem_size, 100 is ``unit_gb``) |
| container_meta | | how many cores online services ask for is noted in the machine |

Rows that repeat another are left out. A task that starts and ends in one second counts in that second. Lost: containers
as such, usage, seq_no, failure domains, times of machine_meta and its states, whose words are not documented.
Owners: https://github.com/alibaba/clusterdata (cluster-trace-v2018). See docs/event-tables.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from swf import _alibaba2018, _common
from swf._events import option_number, session
from tracekit.errors import FormatError, UsageError
from tracekit.files import head_of
from tracekit.machine import Machine
from tracekit.schema import counts
from tracekit.trace import Trace


class Batch2018:
    """Reader of the tables of batch jobs."""

    name: ClassVar[str] = "alibaba-2018"
    title: ClassVar[str] = "Alibaba's co-located cluster, 2018: a folder of tables, or batch_task"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone", "job", "unit_gb", "memory"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept rows in the shape of batch_task or batch_instance."""
        return _alibaba2018.kind_of(head) is not None

    def sniff_folder(self, folder: Path) -> bool:
        """Accept a folder that holds batch_task."""
        try:
            return bool(_alibaba2018.places(folder, None)["batch_task"])
        except FormatError:
            return False

    def read(
        self,
        path: Path,
        /,
        *,
        on_error: str = "stop",
        timezone: str | None = None,
        job: str = "job",
        unit_gb: float | str | None = None,
        memory: str | None = None,
    ) -> Trace:
        """Put the tables together, one row per job."""
        if job not in ("job", "task", "instance"):
            raise UsageError(f"option job={job}: choose job, task or instance")
        gigabytes = option_number("unit_gb", unit_gb, _alibaba2018.UNIT_GB)
        files = _alibaba2018.places(path, None if path.is_dir() else _alibaba2018.kind_of(head_of(path)))
        if job == "instance" and not files["batch_instance"]:
            raise FormatError(path, "the table batch_instance is missing")
        wanted = ["batch_task", *(["batch_instance"] if job == "instance" else [])]
        wanted += [name for name in ("machine_meta", "container_meta") if files[name]]
        with session(path, memory) as made:
            remarks = _alibaba2018.load(made, files, wanted, gigabytes, on_error)
            shapes = {"job": _alibaba2018.jobs, "task": _alibaba2018.tasks, "instance": _alibaba2018.instances}
            frame = shapes[job](made)
            machine = Machine(name="Alibaba 2018", timezone=timezone, notes=(_unit(gigabytes),))
            if files["machine_meta"]:
                machine = _hosts(machine, _alibaba2018.machines(made), gigabytes)
            if files["container_meta"]:
                number, cores = _alibaba2018.containers(made)
                note = f"{number:,} containers of online services share it and ask for {cores:,.0f} cores"
                machine = machine.replace(notes=(*machine.notes, note))
        if frame.empty:
            raise FormatError(path, "contains no jobs" + " that can be read" * (on_error == "skip"))
        if "job_id" not in frame:
            frame.insert(0, "job_id", np.arange(1, len(frame) + 1))
        frame["req_procs"] = counts(frame["req_procs"].to_numpy(dtype=np.float64))
        frame["status"] = _common.statuses_of(frame["x_status"], _alibaba2018.STATUS)
        return Trace(frame, machine, tuple(remarks))


def _unit(gigabytes: float) -> str:
    return f"normalised memory: the largest machine is taken for {gigabytes:g} GB; real sizes are not published"


def _hosts(machine: Machine, hosts: pd.DataFrame, gigabytes: float) -> Machine:
    """Return the machine with its hosts; those of unknown size are counted in its notes."""
    known = hosts[hosts["cpu_num"].between(1, 2**20)]
    if len(known) < len(hosts):
        note = f"{len(hosts) - len(known):,} hosts of unknown size are left out"
        machine = machine.replace(notes=(*machine.notes, note))
    sizes = {"cores": known["cpu_num"].round(), "memory": known["mem_size"].clip(0, 100).fillna(0)}
    sizes["memory"] = (sizes["memory"] / 100 * gigabytes * 1024**2).round()
    groups = _common.host_groups(pd.DataFrame({"gpu_type": "", "gpus": 0, **sizes}, index=known.index))
    return machine.replace(procs=int(known["cpu_num"].round().sum()) or None, nodes=len(known) or None, groups=groups)
