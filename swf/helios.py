"""helios: job logs of SenseTime's GPU clusters Earth, Saturn, Uranus and Venus, 2020 (``cluster_log.csv``).

| their column | our column | unit, remark |
|---|---|---|
| job_id | job_id | Slurm's number |
| user | user | label |
| vc | partition | virtual cluster |
| gpu_num, cpu_num, node_num | req_gpus, req_procs, req_nodes | counts; gpu_num 0 is a CPU job |
| state | status, x_status | COMPLETED, CANCELLED, FAILED, TIMEOUT; NODE_FAIL is failed; others unknown |
| submit_time | submit_time | local time without a zone; read as Asia/Shanghai unless ``--timezone`` is given |
| start_time, end_time | wait_time, run_time | seconds: start − submit, end − start |
| duration, queue | run_time, wait_time | seconds, where a timestamp is missing; x_duration, x_queue if they disagree |
| any other (Lucid's jobname) | x_<name> | kept |

GPUs are the scheduled unit if any job has some. ``cluster_gpu_number.csv`` beside the log (date, GPUs of every virtual
cluster, total) gives the machine: the GPUs of the day with the largest total, and as groups of hosts, one pool for
each virtual cluster, hosts of 8 GPUs (an assumption: the file states GPUs only; cores and memory are unknown). These
logs have no time limits. China's time zone is an assumption; the owners do not state it. Lost on writing: limits,
memory, groups, queues, the machine.
Owners: https://github.com/S-Lab-System-Group/HeliosData; Hu et al., SC 2021.
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
from swf._written import altered_words, fine_digits
from swf.base import Blocks
from tracekit.errors import FormatError
from tracekit.machine import MOST_HOSTS, HostGroup, Machine
from tracekit.trace import Trace

COLUMNS = (
    "job_id",
    "user",
    "vc",
    "gpu_num",
    "cpu_num",
    "node_num",
    "state",
    "submit_time",
    "start_time",
    "end_time",
    "duration",
    "queue",
)
OURS = {
    "partition": "vc",
    "req_gpus": "gpu_num",
    "req_procs": "cpu_num",
    "req_nodes": "node_num",
    "x_status": "state",
    "x_duration": "duration",
    "x_queue": "queue",
}
LABELS = ("user", "vc", "state")
ZONE = "Asia/Shanghai"
#: GPUs of one host, which the log does not state; Hu et al., SC 2021.
HOST_GPUS = 8


class Helios:
    """Reader and writer of the Helios job log."""

    name: ClassVar[str] = "helios"
    title: ClassVar[str] = "SenseTime's Helios GPU clusters, 2020 (cluster_log.csv)"
    suffixes: ClassVar[tuple[str, ...]] = (".helios",)
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept a header row with all twelve names."""
        return set(COLUMNS) <= set(_table.header_cells(head))

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read a job log; the size of the cluster comes from the file beside it."""
        frame, remarks = _table.read_delimited(path, on_error=on_error, text=LABELS)
        options = {"machine": _machine(path), "timezone": timezone or ZONE, "on_error": on_error, "remarks": remarks}
        return _common.settled(_made(frame, path, **options))

    def chunks(self, source: Blocks, /, *, on_error: str = "stop", timezone: str | None = None) -> Iterator[Trace]:
        """Read a job log of any size in parts."""
        options = {"machine": _machine(source.path), "timezone": timezone or ZONE, "on_error": on_error}
        return traces(
            source, on_error, LABELS, lambda frame, part: (_common.settled(_made(frame, part, **options)), None)
        )

    def write(self, trace: Trace, out: IO[bytes], /) -> list[str]:
        """Write the twelve columns; times on China's clock, unknown values empty, no GPUs as 0."""
        submit = trace.column("submit_time") + (trace.machine.epoch or 0.0)
        start = submit + trace.column("wait_time")
        table = {
            "job_id": trace.jobs["job_id"],
            "user": _common.text_labels(trace, "user"),
            "vc": _common.text_labels(trace, "partition"),
            "gpu_num": _common.plain(trace.sizes("gpus"), "" if trace.machine.unit == "gpus" else 0),
            "cpu_num": _common.plain(trace.sizes("procs")),
            "node_num": _common.plain(trace.sizes("nodes")),
            "state": _common.status_words(trace, _common.WORD_OF_STATUS, _common.SLURM_WORDS),
            "submit_time": stamp_texts(submit, ZONE),
            "start_time": stamp_texts(start, ZONE),  # if it is unknown, duration and queue still hold what is known
            "end_time": stamp_texts(start + trace.column("run_time"), ZONE),
            "duration": _common.plain(trace.column("run_time")),
            "queue": _common.plain(trace.column("wait_time")),
        }
        pd.DataFrame(table, columns=list(COLUMNS)).to_csv(out, index=False)
        sizes = {f"{kind}_{unit}" for kind in ("req", "alloc") for unit in ("gpus", "procs", "nodes")}
        held = {"job_id", "user", "partition", "submit_time", "wait_time", "run_time", "status", "x_status", *sizes}
        coarse = fine_digits(trace, ("submit_time", "wait_time", "run_time"))
        return [*coarse, *altered_words(trace, ("user", "partition")), *_common.lost(trace, held, dated=True)]


def _made(frame: pd.DataFrame, path: Path, **options: Any) -> Trace:
    _common.require(path, frame, COLUMNS, Helios.name)
    return _table.to_trace(frame, path, mapping=OURS, **options)


def _machine(path: Path) -> Machine:
    place = _common.beside(path, ["cluster_gpu_number.csv"])
    if place is None:
        return Machine(unit="gpus")
    frame, _ = _table.read_delimited(place)
    if "total" not in frame.columns or not pd.api.types.is_numeric_dtype(frame["total"]):
        raise FormatError(place, "needs a column 'total' with numbers of GPUs")
    machine = Machine(unit="gpus", gpus=max(1, int(frame["total"].max())))
    day = frame.iloc[int(np.argmax(frame["total"].to_numpy()))]
    groups: list[HostGroup] = []
    if machine.gpus is None or machine.gpus > MOST_HOSTS * HOST_GPUS:
        return machine
    for name in frame.columns:
        if name in ("date", "total") or not pd.api.types.is_numeric_dtype(frame[name]) or not day[name] >= 1:
            continue
        whole, rest = divmod(int(day[name]), HOST_GPUS)
        label = _common.host_name(str(name))
        groups += [HostGroup(whole, gpus=HOST_GPUS, pool=label, name=label)] * (whole > 0)
        groups += [HostGroup(1, gpus=rest, pool=label, name=f"{label}-part")] * (rest > 0)
    return machine.replace(groups=tuple(groups), nodes=sum(group.count for group in groups) or None)
