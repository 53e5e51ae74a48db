"""pbs: accounting logs of PBS Pro, OpenPBS and Torque, one file or a whole folder of daily files.

Every line is ``MM/DD/YYYY HH:MM:SS;TYPE;jobid;key=value key=value …``. A job is read from its E (ended) record; the
others add what that one does not contain.

| their key | our column | unit, remark |
|---|---|---|
| job id up to the first dot | job_id | numbered from 1, and kept as x_jobid, where there are array jobs ``12[3]`` |
| ctime, else qtime | submit_time | Unix seconds |
| start | wait_time | start − ctime |
| end | run_time | end − start; x_resources_used_walltime leaves out suspensions |
| Resource_List.walltime | req_time | HH:MM:SS or seconds |
| Resource_List.select, else nodes, procs, ncpus | req_procs | ``4:ppn=8``, ``1:ncpus=4+2:ncpus=8`` |
| Resource_List.nodect, else nodes | req_nodes | nodect may be a whole request, ``1:ppn=24:gpu=4`` |
| exec_vnode ncpus, else total_execution_slots, exec_host, resources_used.ncpus | alloc_procs | |
| exec_host, else unique_node_count | alloc_nodes | distinct hosts |
| Resource_List.ngpus, else select or nodes | req_gpus | |
| exec_vnode ngpus, else exec_gpus | alloc_gpus | |
| Resource_List.mem, else pmem | req_mem | KB per processor; pmem is per processor already |
| resources_used.mem | used_mem | KB per processor |
| resources_used.cput | cpu_time | seconds, mean per processor; HH:MM:SS or seconds |
| Exit_status | status, x_status | 0 completed, 271 (SIGTERM) cancelled, −29 and −11 at the limit timeout, else failed |
| D records | status | a job that was deleted and did not end with 0 is cancelled |
| R records | x_reruns | how often the job was requeued |
| user, group, queue, account (else project), jobname | user, group, queue, project, app | labels |
| any other of the E record | x_<key> | kept as text |

Left out and counted in the history: jobs without an E record (still waiting or running, or deleted before they
started) and the records of whole arrays ``12[]``. Times are Unix seconds, so ``--timezone`` only names the machine's
clock. Verified on Torque logs; PBS Pro's notations on single records from its documentation and public examples.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from swf import _pbs_places as places
from swf._notation import Damage, Numbers, as_labels, duration, memory, number, shown
from swf._texts import Columns, known, made_trace, table_of
from swf.base import head_lines, read_text
from tracekit.errors import FormatError
from tracekit.files import head_of
from tracekit.machine import Machine
from tracekit.schema import STATUSES, counts, status_codes
from tracekit.trace import Trace

_LINE = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z]{1,2};[^;]*;")
_ID = re.compile(r"(\d+)(\[\d*\]|-\d+)?(?:\..*)?")
_USED = """ctime qtime start end Resource_List.walltime Resource_List.select Resource_List.nodes Resource_List.procs
Resource_List.ncpus Resource_List.nodect exec_vnode total_execution_slots exec_host unique_node_count exec_gpus
Resource_List.ngpus Resource_List.mem Resource_List.pmem resources_used.mem resources_used.cput resources_used.ncpus
Exit_status user group queue account jobname"""
USED = frozenset(_USED.split())


class PBS:
    """Reader of accounting logs."""

    name: ClassVar[str] = "pbs"
    title: ClassVar[str] = "accounting logs of PBS Pro, OpenPBS and Torque: a file, or a folder of daily files"
    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset({"on_error", "timezone"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept lines that begin with a date, a type and a job id, separated by semicolons."""
        lines = [line for line in head_lines(head, limit=50) if line.strip()]
        good = sum(_LINE.match(line) is not None for line in lines)
        return good > 0 and good * 2 >= len(lines)

    def sniff_folder(self, path: Path) -> bool:
        """Accept a folder in which at least one of the first files is an accounting log."""
        try:
            return any(self.sniff(head_of(file), file) for file in _candidates(path)[:20])
        except (OSError, FormatError):
            return False

    def read(self, path: Path, /, *, on_error: str = "stop", timezone: str | None = None) -> Trace:
        """Read one log, or every log of a folder in the order of their names."""
        damage = Damage(path, on_error)
        log = _Log()
        files, others = _files(path, self)
        for file in files:
            damage.path = file
            log.add(read_text(file).split("\n"), damage)
        damage.path = path
        trace = _to_trace(log, damage, timezone)
        remarks = [*log.remarks(), *([f"skipped {others} files that are not accounting logs"] if others else [])]
        for remark in remarks:
            trace = trace.replace(step=remark)
        return trace


def _files(path: Path, format: PBS) -> tuple[list[Path], int]:
    if not path.is_dir():
        return [path], 0
    found = _candidates(path)
    logs = [file for file in found if format.sniff(head_of(file), file)]
    if not logs:
        raise FormatError(path, "the folder contains no accounting log of PBS or Torque")
    return logs, len(found) - len(logs)


def _candidates(path: Path) -> list[Path]:
    return [file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith(".")]


class _Log:
    """The records as they come in, the last E record of each job kept."""

    def __init__(self) -> None:
        self.ended: dict[str, tuple[int, str]] = {}  # job -> line, text of its E record
        self.seen: set[str] = set()
        self.deleted: set[str] = set()
        self.reruns: dict[str, int] = {}
        self.repeated = 0
        self.arrays = 0

    def add(self, texts: list[str], damage: Damage) -> None:
        for line, text in enumerate(texts, 1):
            if not text.strip():
                continue
            parts = text.rstrip("\r").split(";", 3)
            if len(parts) < 4 or _LINE.match(text) is None:
                damage.add(line, f"'{shown(text)}' is not an accounting record")
                continue
            _, kind, job, rest = parts
            match = _ID.fullmatch(job)
            if match is None or len(match[1]) > 15:
                if kind in "QSEDRAC":  # other records, of licences and reservations, do not belong to a job
                    damage.add(line, f"'{shown(job)}' is not a job id")
                continue
            if match[2] == "[]":
                self.arrays += kind == "E"
                continue
            self.seen.add(job)
            if kind == "E":
                self.repeated += job in self.ended
                self.ended[job] = (line, rest)
            elif kind == "D":
                self.deleted.add(job)
            elif kind == "R":
                self.reruns[job] = self.reruns.get(job, 0) + 1

    def remarks(self) -> list[str]:
        """Return notes on what was left out."""
        left = len(self.seen) - len(self.ended)
        facts = {
            f"left out {left} jobs that had not ended (no E record)": left,
            f"left out {self.repeated} E records of jobs that ended again later": self.repeated,
            f"left out {self.arrays} records of whole arrays": self.arrays,
        }
        return [text for text, count in facts.items() if count]


def pairs(text: str) -> dict[str, str]:
    """Split ``key=value key="a value"``; a word without ``=`` belongs to the value before it.

    >>> pairs('user=ann group="A B" Resource_List.select=1:ncpus=4 ')
    {'user': 'ann', 'group': 'A B', 'Resource_List.select': '1:ncpus=4'}
    """
    words = text.split()
    if '"' not in text and all("=" in word[1:] for word in words):
        return dict(word.split("=", 1) for word in words)
    found: dict[str, list[str]] = {}
    value: list[str] = []
    for word in words:
        name, equals, first = word.partition("=")
        quoted = bool(value) and value[0].startswith('"') and (value[-1][-1:] != '"' or value == ['"'])
        if equals and name and not quoted:
            value = found[name] = [first]
        elif found:
            value.append(word)
    return {name: " ".join(words).strip('"') for name, words in found.items()}


def _to_trace(log: _Log, damage: Damage, timezone: str | None) -> Trace:
    if not log.ended:
        raise FormatError(damage.path, "contains no job that has ended (no E record)")
    names = list(log.ended)
    table = table_of([pairs(rest) for _, rest in log.ended.values()], damage.path)
    columns = Columns(table, [line for line, _ in log.ended.values()])
    submit = columns.numbers(("ctime", number), ("qtime", number))
    start, end = columns.numbers(("start", _stamp)), columns.numbers(("end", _stamp))
    limit = columns.numbers(("Resource_List.walltime", duration))
    asked = _counts(columns, ("Resource_List.select", places.select), ("Resource_List.nodes", places.nodes))
    nodect = _counts(columns, ("Resource_List.nodect", places.nodect))
    given = _counts(columns, ("exec_vnode", places.exec_vnode))
    hosts = _counts(columns, ("exec_host", places.exec_host))
    slots = columns.numbers(("total_execution_slots", number))
    used_cpus = columns.numbers(("resources_used.ncpus", number))
    totals = columns.numbers(("Resource_List.procs", number), ("Resource_List.ncpus", number))
    procs = known(asked["procs"], nodect["procs"], totals)
    alloc = known(_positive(given["procs"]), slots, hosts["procs"], used_cpus)
    per = np.where(alloc > 0, alloc, np.where(procs > 0, procs, np.nan))
    total = columns.numbers(("Resource_List.mem", memory)) / np.where(procs > 0, procs, per)
    gpus = known(columns.numbers(("Resource_List.ngpus", number)), asked["gpus"], nodect["gpus"])
    jobs: dict[str, Any] = {
        "submit_time": submit,
        "wait_time": start - submit,
        "run_time": end - start,
        "req_time": limit,
        "req_procs": counts(procs),
        "alloc_procs": counts(alloc),
        "req_nodes": counts(known(nodect["nodes"], asked["nodes"])),
        "alloc_nodes": counts(known(hosts["nodes"], columns.numbers(("unique_node_count", number)))),
        "req_gpus": counts(gpus),
        "alloc_gpus": counts(known(given["gpus"], _counts(columns, ("exec_gpus", places.exec_gpus))["gpus"])),
        "req_mem": known(total, columns.numbers(("Resource_List.pmem", memory))),
        "used_mem": columns.numbers(("resources_used.mem", memory)) / per,
        "cpu_time": columns.numbers(("resources_used.cput", duration)) / per,
    }
    code = columns.numbers(("Exit_status", number))
    deleted = np.array([name in log.deleted for name in names])
    jobs["status"] = _status(code, deleted, at_limit=(end - start) >= limit)
    jobs["x_status"] = counts(code)
    for ours, theirs in (("user", "user"), ("group", "group"), ("queue", "queue"), ("app", "jobname")):
        if theirs in table:
            jobs[ours] = as_labels(table[theirs])
    if "account" in table or "project" in table:
        jobs["project"] = as_labels(table["account"] if "account" in table else table["project"])
    _number(jobs, names)
    if log.reruns:
        jobs["x_reruns"] = counts(np.array([float(log.reruns.get(name, 0)) for name in names]))
    for key in map(str, table.columns):
        if key not in USED:
            jobs["x_" + re.sub(r"\W+", "_", key)] = table[key]
    servers = {name.partition(".")[2] for name in names}
    machine = Machine(name=servers.pop() if len(servers) == 1 else "", epoch=0.0, timezone=timezone)
    return made_trace(jobs, columns, damage, machine)


def _number(jobs: dict[str, Any], names: list[str]) -> None:
    """Keep the job numbers if every job has one, otherwise count from 1."""
    plain = [match and not match[2] for match in map(_ID.fullmatch, names)]
    if all(plain):
        jobs["job_id"] = np.array([int(name.partition(".")[0]) for name in names], dtype=np.int64)
    else:
        jobs["job_id"] = np.arange(1, len(names) + 1)
        jobs["x_jobid"] = np.array(names, dtype=object)


def _stamp(text: str) -> float:
    """Return Unix seconds; 0 means that the job never started."""
    return number(text) or float("nan")


def _status(code: Numbers, deleted: Any, *, at_limit: Any) -> pd.Categorical:
    word = np.where(np.isnan(code), STATUSES.index("unknown"), STATUSES.index("failed"))
    word = np.where(code == 0, STATUSES.index("completed"), word)
    word = np.where((code == 271) | (deleted & (code != 0)), STATUSES.index("cancelled"), word)
    word = np.where((code == -29) | ((code == -11) & at_limit), STATUSES.index("timeout"), word)
    return status_codes(word)


def _positive(values: Numbers) -> Numbers:
    return np.where(values > 0, values, np.nan)


def _counts(columns: Columns, *choices: tuple[str, Callable[[str], places.Counts]]) -> dict[str, Numbers]:
    """Return procs, nodes and gpus of the first key that is known in each row."""

    def one(parse: Callable[[str], places.Counts], what: str) -> Callable[[str], float]:
        return lambda text: parse(text).get(what, float("nan"))

    return {
        what: columns.numbers(*((name, one(parse, what)) for name, parse in choices))
        for what in ("procs", "nodes", "gpus")
    }
