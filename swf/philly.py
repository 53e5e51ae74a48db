"""philly: job log of Microsoft's Philly GPU cluster, August to December 2017 (``cluster_job_log``, one JSON list).

| their key | our column | unit, remark |
|---|---|---|
| jobid | x_job_id | a name; jobs are numbered from 1 |
| user | user | label |
| vc | partition | virtual cluster |
| submitted_time | submit_time | local time; America/Los_Angeles unless it has a zone or ``--timezone`` is given |
| attempts[first].start_time | wait_time | seconds: start − submit |
| attempts[first].start_time, attempts[last].end_time | run_time | seconds: end − start, gaps included |
| attempts[].start_time, end_time | x_busy_time | seconds: the sum over attempts, without the gaps |
| attempts[first].detail[].gpus | alloc_gpus | how many GPUs |
| attempts[first].detail | alloc_nodes | how many machines |
| number of attempts | x_attempts | |
| status | status, x_status | Pass completed, Failed failed, Killed cancelled |

Wait, run time and GPUs are defined as in the owners' notebook. null and "None" are unknown. A job without attempts
never ran: its run time and GPUs are unknown. A job whose last attempt has no end was still running: its run time is
unknown. The log has no requested sizes and no time limits. Times may end in PST or PDT. ``cluster_machine_list`` beside
the log gives the machine: nodes, GPUs, and groups of hosts with equal numbers of GPUs and equal memory of a GPU, which
is taken as its type. That times are Pacific time follows from the owners' utilisation logs, whose
times end in PDT and PST.
Owners: https://github.com/msr-fiddle/philly-traces; Jeon et al., USENIX ATC 2019.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swf import _common, _table
from swf._texts import check_text
from swf._times import seconds_of
from swf.base import head_lines
from swf.gpw import STATUS_OF_WORD
from tracekit.errors import FormatError
from tracekit.files import head_of, opened, text_of
from tracekit.machine import MOST_GPUS, HostGroup, Machine
from tracekit.trace import Trace

ZONE = "America/Los_Angeles"
KEYS = ("status", "vc", "jobid", "attempts", "submitted_time", "user")
#: Columns of cluster_machine_list.
MACHINES = ("machineId", "number of GPUs", "single GPU mem")
_NEXT = re.compile(r'\{\s*"(?:' + "|".join(KEYS) + r')"\s*:')
_GAP = re.compile(r"[\s,]*")


class Philly:
    """Reader of the Philly job log."""

    name: ClassVar[str] = "philly"
    title: ClassVar[str] = "Microsoft's Philly GPU cluster, 2017 (cluster_job_log, JSON)"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept a JSON list whose first object has attempts and submitted_time."""
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return text.startswith(b"[") and all(b'"%s"' % key.encode() in text for key in ("attempts", "submitted_time"))

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read the log; a record that is not a job is reported by its line, or left out and counted."""
        log = _Log(path, skip=on_error == "skip")
        jobs = list(log.jobs())
        frame = _frame(jobs, timezone or ZONE, log) if jobs else pd.DataFrame()
        if frame.empty:
            raise FormatError(path, "contains no jobs" + " that can be read" * bool(log.damaged))
        trace = _table.to_trace(
            frame,
            path,
            timezone=timezone or ZONE,
            machine=_machine(path).replace(epoch=0.0),
            on_error=on_error,
            remarks=log.remarks(),
        )
        return trace.assign({"status": _common.statuses_of(trace.jobs["x_status"], STATUS_OF_WORD)})


class _Log:
    """The records of a file, read one by one, so that a damaged one does not affect the others."""

    def __init__(self, path: Path, *, skip: bool) -> None:
        self.path, self.skip = path, skip
        self.damaged: list[tuple[int, str]] = []
        self.clock: list[str] = []  # notes on hours that occurred twice or never
        self.bad: set[int] = set()  # jobs with an invalid time
        if b"\0" in head_of(path):
            raise FormatError(path, "contains binary data, expected JSON")
        with opened(path) as source:
            self.text = text_of(source.read()).lstrip("\ufeff")

    def jobs(self) -> Iterator[dict[str, Any]]:
        decode = json.JSONDecoder().raw_decode
        start = self.text.find("[")
        if start < 0 or self.text[:start].strip():
            raise FormatError(self.path, "this is not a JSON list of jobs")
        at = _GAP.match(self.text, start + 1).end()  # type: ignore[union-attr]
        while at < len(self.text) and self.text[at] != "]":
            try:
                record, end = decode(self.text, at)
                problem = _problem(record)
            except (ValueError, RecursionError) as error:
                record, end, problem = None, at + 1, f"not valid JSON: {getattr(error, 'msg', 'nested too deeply')}"
                at = max(at, getattr(error, "pos", at))
            if not problem:
                check_text(self.text[at:end], record, self.path)
                yield record
            else:
                self.damage(at, problem)
                found = _NEXT.search(self.text, end)
                end = found.start() if found else len(self.text)
            at = _GAP.match(self.text, end).end()  # type: ignore[union-attr]
        if at >= len(self.text) and not self.damaged:
            self.damage(at, "the list of jobs is truncated: no closing ]")

    def damage(self, at: int, problem: str) -> None:
        """Raise FormatError, or record what is wrong at a position of the text."""
        line = 0 if self.damaged else self.text.count("\n", 0, at) + 1  # only the first is shown
        if not self.skip:
            raise FormatError(self.path, problem, line=line, hint="--on-error skip leaves such records out")
        self.damaged.append((line, problem))

    def remarks(self) -> list[str]:
        if not self.damaged:
            return self.clock
        line, problem = self.damaged[0]
        return [f"skipped {len(self.damaged)} damaged records (first: line {line}, {problem})", *self.clock]


def _problem(record: Any) -> str:
    """Return why a record is not a job, or an empty text."""
    if not isinstance(record, dict):
        return "the record is not an object"
    missing = [key for key in ("submitted_time", "attempts") if key not in record]
    if missing:
        return f"the job has no {' and '.join(missing)}"
    attempts = record["attempts"]
    if not isinstance(attempts, list) or not all(isinstance(attempt, dict) for attempt in attempts):
        return "attempts is not a list of objects"
    for attempt in attempts:
        hosts = attempt.get("detail") or []
        if not isinstance(hosts, list) or not all(
            isinstance(host, dict) and isinstance(host.get("gpus") or [], list) for host in hosts
        ):
            return "detail is not a list of hosts with their gpus"
    odd = [key for key in KEYS if key != "attempts" and isinstance(record.get(key), (dict, list))]
    return f"{odd[0]} is not a text" if odd else ""


def _frame(jobs: list[dict[str, Any]], timezone: str, log: _Log) -> pd.DataFrame:
    """Turn records into columns; attempts are flattened and summed per job."""
    owner = np.array([row for row, job in enumerate(jobs) for _ in job["attempts"]], dtype=np.int64)
    attempts = [attempt for job in jobs for attempt in job["attempts"]]
    n = len(jobs)
    times = _Times(timezone, log)
    submit = times.seconds([job["submitted_time"] for job in jobs], "submitted_time", np.arange(n))
    start = times.seconds([attempt.get("start_time") for attempt in attempts], "start_time", owner)
    end = times.seconds([attempt.get("end_time") for attempt in attempts], "end_time", owner)
    rows = np.arange(len(owner))
    last, first = np.full((2, n), -1, dtype=np.int64)  # −1: the entry after the last, which is unknown
    last[owner] = rows  # a later attempt overwrites an earlier one
    first[owner[::-1]] = rows[::-1]
    begun, ended = np.append(start, np.nan)[first], np.append(end, np.nan)[last]
    busy = pd.Series(end - start).groupby(owner).sum(min_count=1).reindex(range(n)).to_numpy()
    hosts = [attempt.get("detail") or [] for attempt in attempts]
    gpus = np.array([sum(len(host.get("gpus") or []) for host in found) for found in hosts] + [np.nan])
    nodes = np.array([len(found) for found in hosts] + [np.nan])
    frame = pd.DataFrame(
        {
            "submit_time": submit,
            "wait_time": begun - submit,
            "run_time": ended - begun,
            "alloc_nodes": nodes[first],
            "alloc_gpus": gpus[first],
            "user": [_text(job.get("user")) for job in jobs],
            "partition": [_text(job.get("vc")) for job in jobs],
            "x_job_id": [_text(job.get("jobid")) for job in jobs],
            "x_status": [_text(job.get("status")) for job in jobs],
            "x_attempts": np.bincount(owner, minlength=n),
            "x_busy_time": busy,
        }
    )
    return frame.drop(index=sorted(log.bad)).reset_index(drop=True)


def _text(value: Any) -> str | None:
    return None if value is None or value == "None" else str(value)


class _Times:
    """Times as the log writes them; a job with an invalid time is marked as damaged."""

    def __init__(self, timezone: str, log: _Log) -> None:
        self.timezone, self.log = timezone, log

    def seconds(self, values: list[Any], key: str, owner: NDArray[np.int64]) -> NDArray[np.float64]:
        texts = pd.Series([_text(value) for value in values], dtype="string").str.strip()
        for zone, offset in (("PST", "-08:00"), ("PDT", "-07:00")):
            if zone in self.log.text:
                texts = texts.str.replace(rf"\s*{zone}$", offset, regex=True)
        seconds, remarks = seconds_of(texts, self.timezone)
        for row in np.flatnonzero(np.isnan(seconds) & texts.fillna("").ne("").to_numpy()):
            text = str(values[row])
            at = 0 if self.log.damaged else max(0, self.log.text.find(json.dumps(values[row])))
            self.log.damage(at, f"'{text[:40]}' in {key} is not a date")
            self.log.bad.add(int(owner[row]))
        self.log.clock += [f"{key}: {remark}" for remark in remarks]
        return seconds


def _machine(path: Path) -> Machine:
    place = _common.beside(path, ["cluster_machine_list"])
    if place is None:
        return Machine(name="Philly", unit="gpus")
    lines = head_lines(head_of(place), limit=1)
    headed = bool(lines) and not any(cell.strip().isdecimal() for cell in lines[0].split(","))
    names = None if headed or not lines else MACHINES[: 1 + lines[0].count(",")]
    frame, _ = _table.read_delimited(place, names=names)
    column = frame.iloc[:, 1] if frame.shape[1] > 1 else frame.iloc[:, 0]
    if not _table.is_numeric(column):
        raise FormatError(place, "needs numbers of GPUs in its second column")
    known = Machine(name="Philly", unit="gpus", nodes=len(frame), gpus=max(1, int(column.sum())))
    if not column.between(0, MOST_GPUS).all():
        return known
    memory = frame.iloc[:, 2].astype(str).str.strip() if frame.shape[1] > 2 else pd.Series("", frame.index)
    groups = []
    for gpus in sorted(set(column.astype(int).tolist())):
        kinds, counts = np.unique(memory[column == gpus].to_numpy(dtype=str), return_counts=True)
        for kind, count in zip(map(_common.host_name, kinds.tolist()), counts.tolist(), strict=True):
            name = f"{gpus}x-{kind}" if kind else f"{gpus}x"
            groups.append(HostGroup(count, gpus=gpus, gpu_type=kind or None, name=name))
    return known.replace(groups=tuple(groups))
