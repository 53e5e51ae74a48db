"""lsf: IBM Spectrum LSF's ``lsb.acct``, one line a record; JOB_FINISH records are the jobs.

Fields are separated by blanks, texts are in double quotes with a quote inside doubled, and lists are preceded by
their length, so the positions of later fields depend on them.

| their field | our column | unit, remark |
|---|---|---|
| jobId | job_id | numbered from 1, and kept as x_jobid with its index, where there are array jobs (idx > 0) |
| submitTime | submit_time | Unix seconds |
| startTime | wait_time | startTime − submitTime; 0 means that the job never started |
| event time | run_time | event time − startTime; 0 for a job that never started |
| runLimit | req_time | seconds; 0 and below are unknown |
| numProcessors | req_procs | |
| execHosts | alloc_procs, alloc_nodes | ``16*host`` counts 16; distinct hosts |
| ru_utime + ru_stime | cpu_time | seconds, mean per processor |
| maxRMem | used_mem | KB per processor; of all processes of the job |
| jStatus 64, 32 | status, x_status | DONE completed, EXIT failed; never started is cancelled |
| exitInfo | status, x_exitinfo | 5, 6 (limit, deadline) timeout; 1, 8, 9, 14, 15, 23 (killed) cancelled |
| exitStatus | x_exitstatus | |
| userName, queue, projectName | user, queue, project | labels |
| app, else jobName | app | the application profile, where the site uses them |
| resReq, fromHost, jobGroupName | x_resreq, x_fromhost, x_jobgroup | kept as text |

Lost: the command, files and directories, the other resource usage, all fields after runLimit. Fields that an older
version does not write are unknown. Order of the fields: IBM's page on lsb.acct, and records of versions 9.11 and 10.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swf._notation import Damage, as_labels, shown
from swf._texts import without_unknown
from swf.base import head_lines, read_text
from tracekit.errors import FormatError, SchemaError
from tracekit.machine import Machine
from tracekit.schema import STATUSES, counts, status_codes
from tracekit.trace import Trace

_FIELD = re.compile(r'"([^"]*(?:""[^"]*)*)"|([^\s"]+)')
_RUSAGE = 19
_LIMIT_REASONS = (5, 6)  # run limit, deadline
_KILL_REASONS = (1, 8, 9, 14, 15, 23)  # preempted; forced or asked for by the owner or an administrator; bucket kill


class LSF:
    """Reader of lsb.acct."""

    name: ClassVar[str] = "lsf"
    title: ClassVar[str] = "IBM Spectrum LSF accounting (lsb.acct, JOB_FINISH records)"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept lines that begin with the quoted name of a record and a version."""
        lines = [line for line in head_lines(head, limit=50) if line.strip() and not line.startswith("#")]
        named = [re.match(r'"[A-Z_]+" "[\d.]+" \d+ ', line) for line in lines]
        return any(line.startswith('"JOB_FINISH" ') for line in lines) and all(named)

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read the finished jobs; ``timezone`` names the machine's clock, as times are Unix seconds."""
        damage = Damage(path, on_error)
        texts = read_text(path).split("\n")
        rows: list[dict[str, Any]] = []
        others = 0
        for line, text in enumerate(texts, 1):
            if not text.startswith('"JOB_FINISH"'):
                others += text.startswith('"')
                if text.strip() and not text.startswith(('"', "#")):
                    damage.add(line, f"'{shown(text)}' is not a record of lsb.acct")
                continue
            try:
                rows.append(record(text))
            except (ValueError, IndexError) as error:
                damage.add(line, f"damaged JOB_FINISH record: {shown(error)}")
        if not rows:
            raise FormatError(path, "contains no finished job (no JOB_FINISH record)")
        trace = _to_trace(pd.DataFrame(rows), damage, timezone)
        return trace.replace(step=f"left out {others} records that are not finished jobs") if others else trace


class _Fields:
    """The fields of one record, taken one after the other."""

    def __init__(self, text: str) -> None:
        if text.count('"') % 2:
            raise ValueError("unclosed quote")
        self.values: list[str] = [plain or quoted.replace('""', '"') for quoted, plain in _FIELD.findall(text)]
        self.at = 0

    def text(self) -> str:
        if self.at >= len(self.values):
            raise IndexError(f"the record ends after field {len(self.values)}")
        self.at += 1
        return self.values[self.at - 1]

    def number(self) -> float:
        at, text = self.at + 1, self.text()
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"'{text}' is not a number (field {at})") from None
        if not np.isfinite(value):
            raise ValueError(f"'{text}' is not a number (field {at})")
        return value

    def list(self, width: int = 1) -> list[str]:
        """Take a list preceded by its length; each element is ``width`` fields."""
        length = self.number()
        if not 0 <= length * width <= len(self.values) - self.at or length != int(length):
            raise ValueError(f"a list of {length:g} elements is longer than the record (field {self.at})")
        start, self.at = self.at, self.at + int(length) * width
        return self.values[start : self.at]

    def skip(self, count: int) -> None:
        """Skip fields that are not used."""
        self.at += count

    def later(self, take: Callable[[], Any], default: Any) -> Any:
        """Take a field that older versions do not write."""
        return take() if self.at < len(self.values) else default


def record(text: str) -> dict[str, Any]:
    """Parse one JOB_FINISH record."""
    fields = _Fields(text)
    nan = float("nan")
    fields.skip(2)  # the record's name, the version
    row: dict[str, Any] = {"event": fields.number(), "jobid": fields.number()}
    fields.skip(2)  # userId, options
    row["procs"], row["submit"] = fields.number(), fields.number()
    fields.skip(2)  # beginTime, termTime
    row["start"] = fields.number()
    row["user"], row["queue"], row["x_resreq"] = fields.text(), fields.text(), fields.text()
    fields.skip(2)  # dependCond, preExecCmd
    row["x_fromhost"] = fields.text()
    fields.skip(5)  # cwd, inFile, outFile, errFile, jobFile
    fields.list()  # requested hosts
    row["alloc"], row["hosts"] = _hosts(fields.list())
    row["status"] = fields.number()
    fields.skip(1)  # hostFactor
    row["name"] = fields.text()
    fields.skip(1)  # command
    user, system = fields.number(), fields.number()
    row["cpu"] = user + max(system, 0.0) if user >= 0 else nan
    fields.skip(_RUSAGE - 2 + 1)  # the other usage, mailUser
    row["project"], row["x_exitstatus"] = fields.text(), fields.number()
    fields.skip(3)  # maxNumProcessors, loginShell, timeEvent
    row["idx"] = fields.later(fields.number, 0.0)
    row["memory"] = fields.later(fields.number, nan)
    row |= {"exitinfo": nan, "app": "", "x_jobgroup": "", "limit": nan}
    with suppress(ValueError, IndexError):  # versions differ here: fields that were not reached stay unknown
        _newer_fields(fields, row)
    return row


def _newer_fields(fields: _Fields, row: dict[str, Any]) -> None:
    """Take the fields after maxRMem, as far as this version of LSF writes them."""
    fields.skip(7)  # maxRSwap, inFileSpool, commandSpool, rsvId, sla, exceptMask, additionalInfo
    row["exitinfo"] = fields.number()
    fields.skip(4)  # warningAction, warningTimePeriod, chargedSAAP, licenseProject
    row["app"] = fields.text()
    fields.skip(2)  # postExecCmd, runtimeEstimation
    row["x_jobgroup"] = fields.text()
    fields.skip(6)  # requeueEvalues, options2, resizeNotifyCmd, lastResizeTime, rsvId, jobDescription
    fields.list(2)  # extensions of the submission: keys and values
    fields.list(6)  # usage per host: name, memory, swap, user and system time, length of an extension
    row["limit"] = fields.number()  # IBM's page puts options3 first; records of 9.11 and 10.1 have it second


def _hosts(names: list[str]) -> tuple[float, float]:
    """Count slots and distinct hosts of ``16*host1 16*host2`` or ``host1 host1 host2``."""
    slots, hosts = 0, set()
    for name in names:
        count, star, host = name.partition("*")
        slots += int(count) if star and count.isdecimal() else 1
        hosts.add(host if star and count.isdecimal() else name)
    return float(slots), float(len(hosts))


def _to_trace(table: pd.DataFrame, damage: Damage, timezone: str | None) -> Trace:
    def column(name: str) -> NDArray[np.float64]:
        return table[name].to_numpy(dtype=np.float64)

    submit, start, end = column("submit"), column("start"), column("event")
    started = start > 0
    alloc, procs = column("alloc"), column("procs")
    per = np.where(alloc > 0, alloc, np.where(procs > 0, procs, np.nan))
    limit = column("limit")
    jobs: dict[str, Any] = {
        "submit_time": submit,
        "wait_time": np.where(started, start - submit, np.nan),
        "run_time": np.where(started, end - start, 0.0),
        "req_time": np.where(limit > 0, limit, np.nan),
        "req_procs": counts(procs),
        "alloc_procs": counts(alloc),
        "alloc_nodes": counts(column("hosts")),
        "cpu_time": column("cpu") / per,
        "used_mem": np.where(column("memory") >= 0, column("memory"), np.nan) / per,
        "status": _status(column("status"), column("exitinfo"), started),
        "x_status": counts(column("status")),
        "x_exitinfo": counts(column("exitinfo")),
        "x_exitstatus": counts(column("x_exitstatus")),
        "user": as_labels(table["user"]),
        "queue": as_labels(table["queue"]),
        "project": as_labels(table["project"]),
        "app": as_labels(table["app"].where(table["app"] != "", table["name"])),
        **{name: table[name] for name in ("x_resreq", "x_fromhost", "x_jobgroup")},
    }
    ids, index = column("jobid"), column("idx")
    jobs["job_id"] = np.arange(1, len(table) + 1) if (index > 0).any() else ids
    if (index > 0).any():
        jobs["x_jobid"] = [f"{i:.0f}[{k:.0f}]" if k > 0 else f"{i:.0f}" for i, k in zip(ids, index, strict=True)]
    try:
        return Trace(
            pd.DataFrame(without_unknown(jobs)), Machine(epoch=0.0, timezone=timezone), tuple(damage.remarks())
        )
    except SchemaError as error:
        raise FormatError(damage.path, str(error)) from None


def _status(code: NDArray[np.float64], reason: NDArray[np.float64], started: NDArray[np.bool_]) -> pd.Categorical:
    word = np.select([code == 64, code == 32], [STATUSES.index("completed"), STATUSES.index("failed")], -1)
    word = np.where(word < 0, STATUSES.index("unknown"), word)
    ended = code == 32
    word = np.where(ended & (np.isin(reason, _KILL_REASONS) | ~started), STATUSES.index("cancelled"), word)
    return status_codes(np.where(ended & np.isin(reason, _LIMIT_REASONS), STATUSES.index("timeout"), word))
