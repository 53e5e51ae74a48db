"""htcondor: job history of HTCondor: the schedd's history files, and what condor_history prints with -long or -json.

A job is one ClassAd: lines ``Name = value``, ended by a line that begins with ``***`` (history files) or by an empty
line (``-long``); or an object of JSON (``-json``, ``-jsonl``). Names in any upper or lower case.

| their attribute | our column | unit, remark |
|---|---|---|
| ClusterId, ProcId | job_id | numbered from 1, and kept as x_jobid (``12.3``), unless every ProcId is 0 |
| QDate | submit_time | Unix seconds |
| JobCurrentStartDate, else JobStartDate | wait_time | start of the last run − QDate |
| RemoteWallClockTime | run_time | seconds, where the job was started once … |
| CompletionDate, else EnteredCurrentStatus | run_time | … else end − start of the last run |
| AllowedJobDuration, else AllowedExecuteDuration, MaxRuntime | req_time | seconds |
| RequestCpus | req_procs | times MinHosts in the parallel universe (11) |
| CpusProvisioned | alloc_procs | of jobs that started |
| RequestGpus, GpusProvisioned | req_gpus, alloc_gpus | |
| RequestMemory | req_mem | MB of the job; KB per processor |
| ResidentSetSize_RAW, ResidentSetSize, else MemoryUsage | used_mem | KB (MemoryUsage MB) of the job; KB per processor |
| RemoteUserCpu + RemoteSysCpu | cpu_time | seconds; mean per processor |
| JobStatus, ExitBySignal, ExitCode | status, x_status | 4 with code 0 completed, else failed; 3 (removed) cancelled |
| Owner, else User | user | |
| AcctGroup, else AccountingGroup | group | |
| ProjectName | project | |
| Cmd | app | |
| RemoteWallClockTime, NumJobStarts, JobUniverse, JobPrio, LastRemoteHost, RemoveReason, GlobalJobId | x_… | kept |

Values that are expressions, as RequestMemory often is, are unknown. Left out and counted in the history: jobs that have
not ended (JobStatus 1, 2, 5, 6, 7). Lost: all other attributes. Attributes as in HTCondor's manual, "Job ClassAd
Attributes"; NOT verified on a real history file: none was available.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from swf._notation import Damage, Numbers, as_labels, shown
from swf._texts import Columns, check_text, known, made_trace, number_jobs
from swf._times import elapsed
from swf.base import check_lines, head_lines
from tracekit.errors import FormatError
from tracekit.files import opened, text_of
from tracekit.machine import Machine
from tracekit.schema import STATUSES, counts, status_codes
from tracekit.trace import Trace

_USED = """ClusterId ProcId QDate JobStartDate JobCurrentStartDate CompletionDate EnteredCurrentStatus JobStatus
RemoteWallClockTime AllowedJobDuration AllowedExecuteDuration MaxRuntime RequestCpus CpusProvisioned RequestGpus
GpusProvisioned RequestMemory ResidentSetSize_RAW ResidentSetSize MemoryUsage RemoteUserCpu RemoteSysCpu ExitBySignal
ExitCode Owner User AcctGroup AccountingGroup ProjectName Cmd NumJobStarts JobUniverse MinHosts JobPrio LastRemoteHost
RemoveReason GlobalJobId"""
USED = {name.lower(): name for name in _USED.split()}
#: Kept as they are, with the prefix x_.
_KEPT_NUMBERS = ("RemoteWallClockTime", "NumJobStarts", "JobUniverse", "JobPrio")
_KEPT_TEXTS = ("LastRemoteHost", "RemoveReason", "GlobalJobId")
_LINE = re.compile(r"\s*([A-Za-z_][\w.]*)\s*=(?!=)\s*(.*?)\s*")
_ESCAPE = re.compile(r"\\(.)")
_PARALLEL = 11
REMOVED, COMPLETED = 3, 4
Ad = dict[str, str]


class HTCondor:
    """Reader of job history."""

    name: ClassVar[str] = "htcondor"
    title: ClassVar[str] = "job history of HTCondor: history files, condor_history -long, -json or -jsonl"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept text that contains a ClusterId, a ProcId and a QDate, as lines or as JSON."""
        lines = head_lines(head, limit=5000)
        text = "\n".join(lines)
        if text.lstrip()[:1] in ("[", "{"):
            return all(re.search(rf'"{name}"\s*:', text, re.IGNORECASE) for name in ("ClusterId", "ProcId", "QDate"))
        found = {match[1].lower() for match in map(_LINE.fullmatch, lines) if match}
        return {"clusterid", "procid", "qdate"} <= found

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read the whole history; ``timezone`` only names the machine's clock."""
        damage = Damage(path, on_error)
        with opened(path) as source:
            data = source.read().removeprefix(b"\xef\xbb\xbf")
        is_json = data.lstrip()[:1] in (b"[", b"{")
        if not is_json:  # JSON may be a single line
            check_lines(data, path)
        text = text_of(data)
        made = _json_ads(text, damage) if is_json else _ads(text.split("\n"), damage)
        found = list(made)
        if not found:
            raise FormatError(path, "contains no HTCondor job (ClusterId, ProcId, QDate)")
        names = list(USED.values())
        rows = [[ad.get(name) for name in names] for _, ad in found]
        table = pd.DataFrame(rows, columns=names, dtype=object)
        return _to_trace(table, np.array([line for line, _ in found]), damage, timezone)


def _ads(lines: list[str], damage: Damage) -> Iterator[tuple[int, Ad]]:
    """Yield the line on which each ClassAd begins, and those of its attributes that we use."""
    ad: Ad = {}
    first = 0
    for place, line in enumerate(lines, 1):
        if line.startswith("***") or not line.strip():
            if ad:
                yield from _checked(first, ad, damage)
            ad, first = {}, 0
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            damage.add(place, f"'{shown(line)}' is not an attribute of a ClassAd (Name = value)")
            continue
        first = first or place
        name = USED.get(match[1].lower())
        if name:
            ad[name] = match[2]
    if ad:
        yield from _checked(first, ad, damage)


def _json_ads(text: str, damage: Damage) -> Iterator[tuple[int, Ad]]:
    """Yield what `_ads` does for a list of objects, or for one object per line."""
    for line, part in _json_values(text, damage):
        for one in part if isinstance(part, list) else [part]:
            if not isinstance(one, dict):
                damage.add(line, f"'{shown(one)}' is not a ClassAd")
                continue
            ad = {USED[name.lower()]: _literal(value) for name, value in one.items() if name.lower() in USED}
            yield from _checked(line, ad, damage)


def _json_values(text: str, damage: Damage) -> Iterator[tuple[int, Any]]:
    """Yield the values of a file, one after the other, and the line on which each begins."""
    decoder, at, line = json.JSONDecoder(), 0, 1
    while True:
        match = re.compile(r"[\s,]*").match(text, at)
        start = match.end() if match else at
        line += text.count("\n", at, start)
        if start == len(text):
            return
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            raise FormatError(damage.path, "invalid JSON", line=line) from None
        check_text(text[start:at], value, damage.path)
        yield line, value
        line += text.count("\n", start, at)


def _literal(value: Any) -> str:
    """Return a JSON value as a ClassAd writes it; expressions remain texts."""
    if isinstance(value, str):
        return (
            value[6:-2] if value.startswith("/Expr(") else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        )
    return json.dumps(value)


def _checked(line: int, ad: Ad, damage: Damage) -> Iterator[tuple[int, Ad]]:
    missing = [name for name in ("ClusterId", "QDate") if name not in ad]
    if missing:
        damage.add(line, f"the ClassAd has no {' and '.join(missing)}")
    else:
        yield line, ad


def _strict(text: str) -> float:
    """Return a number; ``undefined`` is unknown, anything else is invalid."""
    if text.lower() in ("undefined", "null", ""):
        return float("nan")
    value = float(text)
    if not np.isfinite(value) or "_" in text:
        raise ValueError(text)
    return value


def _number(text: str) -> float:
    """Return a number, or unknown for an expression."""
    try:
        return _strict(text)
    except ValueError:
        return float("nan")


def _stamp(text: str) -> float:
    """Return Unix seconds; 0 means that the event has not happened."""
    return _strict(text) or float("nan")


def _text(value: Any) -> str | None:
    r"""Return the content of a quoted text; unknown for anything else.

    >>> _text(r'"say \"hi\""'), _text("undefined")
    ('say "hi"', None)
    """
    if not isinstance(value, str) or len(value) < 2 or not (value[0] == value[-1] == '"'):
        return None
    return _ESCAPE.sub(r"\1", value[1:-1])


def _to_trace(table: pd.DataFrame, lines: Any, damage: Damage, timezone: str | None) -> Trace:
    columns = Columns(table, lines)
    state = columns.numbers(("JobStatus", _strict))
    ended = np.isnan(state) | np.isin(state, (REMOVED, COMPLETED))
    if not ended.any():
        raise FormatError(damage.path, "contains no job that has ended (JobStatus 3 or 4)")
    table, columns, state = table[ended].reset_index(drop=True), Columns(table[ended], lines[ended]), state[ended]
    submit = columns.numbers(("QDate", _stamp))
    start = columns.numbers(("JobCurrentStartDate", _stamp), ("JobStartDate", _stamp))
    procs = columns.numbers(("RequestCpus", _number))
    hosts = columns.numbers(("MinHosts", _number))
    parallel = (columns.numbers(("JobUniverse", _number)) == _PARALLEL) & (hosts > 0)
    procs = np.where(parallel, procs * hosts, procs)
    given = columns.numbers(("CpusProvisioned", _number))
    per = known(np.where(given > 0, given, np.nan), np.where(procs > 0, procs, np.nan), np.ones(len(table)))
    memory = columns.numbers(("ResidentSetSize_RAW", _number), ("ResidentSetSize", _number))
    cpu = columns.numbers(("RemoteUserCpu", _number)) + columns.numbers(("RemoteSysCpu", _number))
    code = columns.numbers(("ExitCode", _number))
    limits = (("AllowedJobDuration", _number), ("AllowedExecuteDuration", _number), ("MaxRuntime", _number))
    jobs: dict[str, Any] = {
        "submit_time": submit,
        "wait_time": elapsed(submit, start),
        "run_time": _run_time(columns, start),
        "req_time": columns.numbers(*limits),
        "req_procs": counts(procs),
        "alloc_procs": counts(np.where(np.isnan(start), np.nan, given)),
        "req_gpus": counts(columns.numbers(("RequestGpus", _number))),
        "alloc_gpus": counts(columns.numbers(("GpusProvisioned", _number))),
        "req_mem": columns.numbers(("RequestMemory", _number)) * 1024 / np.where(procs > 0, procs, 1),
        "used_mem": known(memory, columns.numbers(("MemoryUsage", _number)) * 1024) / per,
        "cpu_time": cpu / per,
        "status": _status(state, code, table["ExitBySignal"].astype(str).str.lower() == "true"),
        "x_status": counts(code),
    }
    names = {"user": ("Owner", "User"), "group": ("AcctGroup", "AccountingGroup"), "project": ("ProjectName",)}
    for ours, theirs in (names | {"app": ("Cmd",)}).items():
        texts = [table[name].map(_text) for name in theirs]
        jobs[ours] = as_labels(texts[0] if len(texts) == 1 else texts[0].where(texts[0].notna(), texts[1]))
    jobs |= {f"x_{name}": columns.numbers((name, _number)) for name in _KEPT_NUMBERS}
    jobs |= {f"x_{name}": table[name].map(_text) for name in _KEPT_TEXTS}
    _number_jobs(jobs, columns)
    trace = made_trace(jobs, columns, damage, Machine(epoch=0.0, timezone=timezone))
    left = int((~ended).sum())
    return trace.replace(step=f"left out {left} jobs that had not ended (JobStatus)") if left else trace


def _run_time(columns: Columns, start: Numbers) -> Numbers:
    """Return the seconds of the last run; unknown for jobs that never started."""
    wall = columns.numbers(("RemoteWallClockTime", _number))
    end = columns.numbers(("CompletionDate", _stamp), ("EnteredCurrentStatus", _stamp))
    once = ~(columns.numbers(("NumJobStarts", _number)) > 1) & (wall > 0)
    return np.where(np.isnan(start), np.nan, np.where(once, wall, known(elapsed(start, end), wall)))


def _number_jobs(jobs: dict[str, Any], columns: Columns) -> None:
    cluster = np.nan_to_num(columns.numbers(("ClusterId", _strict)))
    process = np.nan_to_num(columns.numbers(("ProcId", _strict)))
    parts = [f".{part:.0f}" for part in process] if process.any() else [""] * len(process)
    number_jobs(jobs, cluster.astype(np.int64).tolist(), parts)


def _status(state: Numbers, code: Numbers, signalled: Any) -> pd.Categorical:
    word = np.where(np.isnan(code), STATUSES.index("unknown"), STATUSES.index("failed"))
    word = np.where(code == 0, STATUSES.index("completed"), word)
    word = np.where(signalled.to_numpy(), STATUSES.index("failed"), word)
    return status_codes(np.where(state == REMOVED, STATUSES.index("cancelled"), word))
