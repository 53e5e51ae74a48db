"""sge: accounting files of Grid Engine (SGE, Son of Grid Engine, Univa and Altair Grid Engine).

One line a job, 45 fields between colons (older versions 43), as in the manual page accounting(5). Univa Grid Engine
(8.2 and later) appends more fields and writes milliseconds where the others write seconds; the values show which.

| # | their field | our column | unit, remark |
|---|---|---|---|
| 6, 36 | job_number, task_number | job_id | with array tasks numbered from 1, and kept as x_jobid (``12.3``) |
| 9 | submission_time | submit_time | Unix seconds |
| 10 | start_time | wait_time | start − submission; 0 means that the job never started |
| 11 | end_time | run_time | end − start |
| 35 | slots | alloc_procs | |
| 40 | category: ``-pe NAME N`` | req_procs | slots where it is a range or is missing |
| 40 | category: ``-l h_rt``, else ``s_rt`` | req_time | seconds or HH:MM:SS |
| 40 | ``-l m_mem_free``, ``mem_free``, ``h_vmem``, ``s_vmem`` | req_mem | KB per slot, the first that exists |
| 40 | category: ``-l gpu``, ``gpus``, ``ngpus`` | req_gpus | taken as GPUs of the job; a site may count them per slot |
| 48, else 43 | maxrss (Univa), maxvmem | used_mem | bytes of the job; KB per slot |
| 37 | cpu | cpu_time | seconds; mean per slot |
| 12, 13 | failed, exit_status | status | both 0 completed; 37, or 100 (killed) at the limit, timeout; else failed |
| 12, 13 | failed, exit_status | x_failed, x_status | |
| 47 | qdel_info (Univa) | status | a job that was deleted is cancelled |
| 4, 3, 1, 5, 32 | owner, group, qname, job_name, project | user, group, queue, app, project | labels; NONE is unknown |
| 2, 7, 8, 33, 34 | hostname, account, priority, department, granted_pe | x_hostname … | kept |

Left out and counted in the history: records of the tasks of one parallel job (pe_taskid), and attempts after which the
job was started again (failed, or exit status 99, and a later record of the same job). Lost: the other resource usage,
and what Univa writes after maxrss. Verified on 4 lines that Open XDMoD publishes; other rows follow the manual.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from swf._notation import Damage, Numbers, as_labels, duration, number, on_unique, shown
from swf._texts import Columns, known, made_trace, number_jobs
from swf._times import elapsed
from swf.base import head_lines, is_number, read_text
from tracekit.errors import FormatError
from tracekit.machine import Machine
from tracekit.schema import STATUSES, counts, status_codes
from tracekit.trace import Trace

_FIELDS = """qname hostname group owner job_name job_number account priority submission_time start_time end_time failed
exit_status ru_wallclock ru_utime ru_stime ru_maxrss ru_ixrss ru_ismrss ru_idrss ru_isrss ru_minflt ru_majflt ru_nswap
ru_inblock ru_oublock ru_msgsnd ru_msgrcv ru_nsignals ru_nvcsw ru_nivcsw project department granted_pe slots task_number
cpu mem io category iow pe_taskid maxvmem arid ar_submission_time job_class qdel_info maxrss"""
FIELDS = tuple(_FIELDS.split())
MIN_FIELDS = FIELDS.index("maxvmem") + 1
_CATEGORY = FIELDS.index("category")
_NUMBERS = [FIELDS.index(name) for name in ("job_number", "submission_time", "start_time", "end_time", "slots")]
_WHOLE = re.compile(r"-?\d{1,18}")
#: Times from here on are milliseconds: as seconds it would be the year 5138, as milliseconds it is 1973.
_MILLISECONDS = 1e11
_RETRY_STATUS = 99  # exit status with which a script requests a restart
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)")
_FACTOR = {"": 1.0} | {letter: 1000.0**k for k, letter in enumerate("kmgt", 1)}
_FACTOR |= {letter: 1024.0**k for k, letter in enumerate("KMGT", 1)}
_MEMORY = ("m_mem_free", "mem_free", "h_vmem", "s_vmem")
_LIMITS, _GPUS = ("h_rt", "s_rt"), ("gpu", "gpus", "ngpus")


class SGE:
    """Reader of accounting files."""

    name: ClassVar[str] = "sge"
    title: ClassVar[str] = "accounting files of Grid Engine: SGE, Son of Grid Engine, Univa (UGE), Altair"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept lines of at least 43 fields between colons, with numbers where accounting(5) has them."""
        lines = [line for line in head_lines(head, limit=50) if not _is_comment(line)]
        good = sum(_is_record(line.split(":")) for line in lines)
        return good > 0 and good * 2 >= len(lines)

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read one accounting file; ``timezone`` only names the machine's clock."""
        damage = Damage(path, on_error)
        lines = read_text(path).split("\n")
        rows, places = [], []
        for place, line in enumerate(lines, 1):
            if _is_comment(line):
                continue
            row = _rejoined(line.rstrip("\r").split(":"))
            if _is_record(row):
                rows.append((row + [""] * len(FIELDS))[: len(FIELDS)])
                places.append(place)
            else:
                damage.add(place, f"'{shown(line)}' is not an accounting record of Grid Engine")
        if not rows:
            raise FormatError(path, "contains no accounting record of Grid Engine")
        table = pd.DataFrame(rows, columns=list(FIELDS), dtype=object)
        return _to_trace(table, np.array(places), damage, timezone)


def _is_comment(line: str) -> bool:
    return len(line.strip()) <= 1 or line.startswith("#")


def _rejoined(row: list[str]) -> list[str]:
    """Join a category that contains colons (``h_rt=10:00:00``): iow, pe_taskid and maxvmem follow it."""
    for k in range(_CATEGORY + 1, len(row) - 2):
        if (
            is_number(row[k])
            and is_number(row[k + 2])
            and not is_number(row[k + 1])
            and not set("= ") & set(row[k + 1])
        ):
            return [*row[:_CATEGORY], ":".join(row[_CATEGORY:k]), *row[k:]]
    return row


def _is_record(row: list[str]) -> bool:
    return len(row) >= MIN_FIELDS and all(_WHOLE.fullmatch(row[k]) for k in _NUMBERS)


def _to_trace(table: pd.DataFrame, lines: Any, damage: Damage, timezone: str | None) -> Trace:
    keep, remarks = _final(table)
    table, columns = table[keep].reset_index(drop=True), Columns(table[keep].reset_index(drop=True), lines[keep])
    submit, start, end = (_seconds(columns, name) for name in ("submission_time", "start_time", "end_time"))
    slots = columns.numbers(("slots", number))
    asked = table["category"].map(requests)
    limit = _asked(columns, asked, _LIMITS, duration)
    per = np.where(slots > 0, slots, np.nan)
    rss = columns.numbers(("maxrss", number))
    failed, code = columns.numbers(("failed", number)), columns.numbers(("exit_status", number))
    deleted = ~table["qdel_info"].isin(["", "NONE"]).to_numpy()
    jobs: dict[str, Any] = {
        "submit_time": submit,
        "wait_time": elapsed(submit, start),
        "run_time": elapsed(start, end),
        "req_time": limit,
        "req_procs": counts(known(_asked(columns, asked, ("pe",), number), slots)),
        "alloc_procs": counts(np.where(np.isnan(start), np.nan, slots)),
        "req_gpus": counts(_asked(columns, asked, _GPUS, number)),
        "req_mem": _asked(columns, asked, _MEMORY, size),
        "used_mem": known(np.where(rss > 0, rss, np.nan), columns.numbers(("maxvmem", size_in_bytes))) / 1024 / per,
        "cpu_time": columns.numbers(("cpu", number)) / per,
        "status": _status(failed, code, deleted, at_limit=(end - start) >= limit),
        "x_status": counts(code),
        "x_failed": counts(failed),
    }
    names = {"user": "owner", "group": "group", "queue": "qname", "app": "job_name", "project": "project"}
    kept = ("hostname", "account", "priority", "department", "granted_pe")
    texts = table.mask(table.isin(["NONE", "none", ""]))
    jobs |= {ours: as_labels(texts[theirs]) for ours, theirs in names.items()}
    jobs |= {f"x_{name}": texts[name] for name in kept}
    task = [text if text not in ("0", "", "undefined") else "" for text in table["task_number"]]
    number_jobs(jobs, [int(text) for text in table["job_number"]], [text and f".{text}" for text in task])
    trace = made_trace(jobs, columns, damage, Machine(epoch=0.0, timezone=timezone))
    for remark in remarks:
        trace = trace.replace(step=remark)
    return trace


def _final(table: pd.DataFrame) -> tuple[Any, list[str]]:
    """Return which records are whole jobs, and remarks on those that are not."""
    part = ~table["pe_taskid"].isin(["NONE", ""]).to_numpy()
    later = table[~part].duplicated(["job_number", "task_number"], keep="last").reindex(table.index, fill_value=False)
    again = (table["exit_status"] == str(_RETRY_STATUS)) | (table["failed"] != "0")
    attempt = later.to_numpy() & again.to_numpy()
    facts = {
        f"left out {part.sum()} records of the tasks of parallel jobs": part.any(),
        f"left out {attempt.sum()} attempts after which the job was started again": attempt.any(),
    }
    return ~part & ~attempt, [text for text, holds in facts.items() if holds]


def _seconds(columns: Columns, name: str) -> Numbers:
    """Return Unix seconds of a column of seconds or milliseconds; 0 and below are unknown."""
    values = columns.numbers((name, number))
    values = np.where(values >= _MILLISECONDS, values / 1000, values)
    return np.where(values > 0, values, np.nan)


def requests(category: str) -> dict[str, str]:
    """Return what a category requests: the resources of ``-l``, and the slots of ``-pe`` as ``pe``.

    >>> requests("-u ann -l h_rt=36000,gpu=1 -pe threads 16")
    {'h_rt': '36000', 'gpu': '1', 'pe': '16'}
    """
    found: dict[str, str] = {}
    words = re.sub("[\xff\udcff]", ":", category).split()  # Grid Engine writes a colon within a field as the byte 255
    for k, word in enumerate(words[:-1]):
        if word == "-l":
            found |= dict(pair.partition("=")[::2] for pair in words[k + 1].split(","))
        elif word == "-pe" and k + 2 < len(words) and words[k + 2].isdecimal():
            found["pe"] = words[k + 2]
    return found


def _asked(columns: Columns, asked: pd.Series, names: tuple[str, ...], parse: Any) -> Numbers:
    """Return the first of some requests that is known in each row."""
    values = []
    for name in names:
        made, wrong = on_unique(pd.Series([found.get(name) for found in asked], dtype=object), parse)
        columns.note("category", wrong)
        values.append(made)
    return known(*values)


def size_in_bytes(text: str) -> float:
    """Return the bytes of ``1.5G`` (1024³) or ``1.5g`` (1000³), as Grid Engine writes them.

    >>> size_in_bytes("1.5K"), size_in_bytes("2m"), size_in_bytes("100")
    (1536.0, 2000000.0, 100.0)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return number(text)
    return float(match[1]) * _FACTOR[match[2]]


def size(text: str) -> float:
    """Return the KB of a size as Grid Engine writes it."""
    return size_in_bytes(text) / 1024


def _status(failed: Numbers, code: Numbers, deleted: Any, *, at_limit: Any) -> pd.Categorical:
    word = np.where((failed == 0) & (code == 0), STATUSES.index("completed"), STATUSES.index("failed"))
    word = np.where(deleted, STATUSES.index("cancelled"), word)
    word = np.where((failed == 37) | ((failed == 100) & at_limit), STATUSES.index("timeout"), word)
    return status_codes(np.where(np.isnan(failed) & np.isnan(code), STATUSES.index("unknown"), word))
