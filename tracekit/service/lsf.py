"""LSF without a plugin: reads ``bhosts -o … -json`` and ``bjobs -o … -json``, and advises ``bmod -m`` for pending jobs.

Both commands write ``{"COMMAND", "HOSTS" or "JOBS", "RECORDS": [{…}]}``. All values are strings; ``-`` means missing.
Memory has a unit (``31.2G``) or is in MB, which is LSF's default. Slots count as cores.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracekit.errors import FormatError, TracekitError
from tracekit.service.host_choice import HostJobs, HostTable, Scorer, decide
from tracekit.service.host_protocol import MOST_CYCLE, MOST_HOSTS
from tracekit.service.protocol import Refused
from tracekit.service.quantities import get

_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_JOB = re.compile(r"[0-9]+(\[[0-9]+\])?")
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGTPE]?)(?:i?B)?", re.IGNORECASE)
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_RUSAGE = re.compile(r"rusage\[([^\]]*)\]", re.IGNORECASE)
_GPU_NUM = re.compile(r"\bnum=([0-9]+)")
_UNITS = {letter: 1024.0**power for power, letter in enumerate("KMGTPE")}  # in KB
_DEFAULT_UNIT = "M"
#: Slots of a host without a limit (MAX is -).
_UNLIMITED = 1e6


@dataclass(frozen=True, eq=False)
class LsfHosts:
    """Hosts that accept jobs, and how many do not, by status."""

    table: HostTable
    closed: dict[str, int]


@dataclass(frozen=True)
class Pending:
    """A pending job: its id as LSF writes it, slots, memory (KB), GPUs, estimate and wait in seconds (NaN unknown)."""

    id: str
    slots: float
    memory: float
    gpus: float
    estimate: float
    wait: float


@dataclass(frozen=True)
class Advice:
    """Hosts for a pending job, best first; none if it fits nowhere now."""

    job: str
    hosts: tuple[str, ...]
    others: bool = False  # other hosts are allowed too, with less preference

    @property
    def preference(self) -> str:
        """The argument of ``bmod -m``: the best host has the largest number."""
        listed = [f"{host}+{len(self.hosts) - i}" for i, host in enumerate(self.hosts)]
        return " ".join([*listed, *(["others"] if self.others else [])])

    @property
    def command(self) -> list[str]:
        """The command as a list of arguments."""
        return ["bmod", "-m", self.preference, self.job]

    def text(self) -> str:
        """Return the command as it is typed."""
        job = f'"{self.job}"' if "[" in self.job else self.job
        return f'bmod -m "{self.preference}" {job}'


def read_records(text: str, source: str, command: str) -> list[dict[str, Any]]:
    """Return the records of a listing; `FormatError` if it is not the JSON of that command."""
    hint = f"write it with {command} -o '…' -json"
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(source, f"not JSON: {error.msg}", line=error.lineno, hint=hint) from None
    except (RecursionError, ValueError):
        raise FormatError(source, "the JSON is nested too deeply or has invalid numbers", hint=hint) from None
    records = get(data, "RECORDS")
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise FormatError(source, "has no list RECORDS", hint=hint)
    said = get(data, "COMMAND")
    if isinstance(said, str) and said.strip() and said.split()[0] != command:
        raise FormatError(source, f"is a listing of {said.split()[0][:20]}, not of {command}", hint=hint)
    return [record for record in records if get(record, "ERROR") is None]


def read_hosts(text: str, source: str = "bhosts") -> LsfHosts:
    """Read the hosts; those whose status is not ok are counted and left out."""
    records = read_records(text, source, "bhosts")
    if len(records) > MOST_HOSTS:
        raise FormatError(source, f"{len(records):,} hosts; at most {MOST_HOSTS:,} are supported")
    names, free, total, closed = list[str](), list[list[float]](), list[list[float]](), dict[str, int]()
    for number, record in enumerate(records, 1):
        place = f"record {number}"
        name = _text(record, "HOST_NAME")
        if name is None or not _HOST.fullmatch(name):
            raise FormatError(source, f"{place}: HOST_NAME is missing or not the name of a host")
        status = _text(record, "STATUS") or "ok"
        if status.lower() != "ok":
            closed[status] = closed.get(status, 0) + 1
            continue
        try:
            have, left = _host(record)
        except TracekitError as error:
            raise FormatError(source, f"{place} ({name}): {error}") from None
        names.append(name)
        total.append(have)
        free.append(left)
    if len(set(names)) < len(names):
        raise FormatError(source, "a host occurs twice")
    shape = (len(names), 3)
    table = HostTable(names, np.array(free, float).reshape(shape), np.array(total, float).reshape(shape))
    return LsfHosts(table, closed)


def _host(record: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Return what a host has and what is free of it."""
    most = _first(record, ("MAX", "NCPUS", "MAX_SLOTS"))
    most = _UNLIMITED if math.isnan(most) else most
    used = _first(record, ("NJOBS",))
    if math.isnan(used):
        used = sum(value for key in ("RUN", "SSUSP", "USUSP", "RSV") if (value := _first(record, (key,))) > 0)
    available, whole = _memory(_text(record, "AVAILABLE_MEM")), _memory(_text(record, "TOTAL_MEM"))
    reserved = _memory(_text(record, "RESERVED_MEM"))
    if math.isnan(whole):
        whole = available + (0.0 if math.isnan(reserved) else reserved) if not math.isnan(available) else math.inf
    if math.isnan(available):
        available = whole - (0.0 if math.isnan(reserved) else reserved)
    gpus, taken = _first(record, ("NGPUS", "NGPUS_PHYSICAL")), _first(record, ("NGPUS_ALLOC",))
    gpus = 0.0 if math.isnan(gpus) else gpus
    idle = gpus - (0.0 if math.isnan(taken) else taken)
    return [most, whole, gpus], [max(most - used, 0.0), max(min(available, whole), 0.0), max(idle, 0.0)]


def read_jobs(text: str, source: str = "bjobs") -> list[Pending]:
    """Read the pending jobs, in the order of the listing."""
    found = []
    for number, record in enumerate(read_records(text, source, "bjobs"), 1):
        if (_text(record, "STAT") or "").upper() != "PEND":
            continue
        try:
            found.append(_job(record))
        except TracekitError as error:
            raise FormatError(source, f"record {number}: {error}") from None
    if len(found) > MOST_CYCLE:
        raise FormatError(source, f"{len(found):,} pending jobs; at most {MOST_CYCLE:,} are supported")
    if len({job.id for job in found}) < len(found):
        raise FormatError(source, "a job occurs twice")
    return found


def _job(record: dict[str, Any]) -> Pending:
    job, index = _text(record, "JOBID") or "", _text(record, "JOBINDEX")
    if index not in (None, "0") and "[" not in job:
        job = f"{job}[{index}]"
    if not _JOB.fullmatch(job):
        raise TracekitError(f"JOBID {job[:40]!r} is missing or not the id of a job")
    slots = _first(record, ("NREQ_SLOT", "MIN_REQ_PROC", "SLOTS", "NALLOC_SLOT"))
    memory = _asked_memory(record)
    limit = _first(record, ("RUNTIMELIMIT", "ESTIMATED_RUN_TIME", "RUNLIMIT")) * 60.0  # minutes
    return Pending(
        job,
        slots if slots >= 1 else 1.0,
        0.0 if math.isnan(memory) else memory,
        _gpus(record),
        limit,
        _first(record, ("PEND_TIME",)),
    )


def _asked_memory(record: dict[str, Any]) -> float:
    """Return the memory (KB) that a job reserves on its host: rusage[mem=…], else the memory limit."""
    for key in ("EFFECTIVE_RESREQ", "COMBINED_RESREQ", "RESREQ"):
        for usage in _RUSAGE.findall(_text(record, key) or ""):
            for part in re.split(r"[,:]", usage):
                name, _, value = part.partition("=")
                if name.strip().lower() == "mem" and value:
                    return _memory(value.strip())
    return _memory(_text(record, "MEMLIMIT"))


def _gpus(record: dict[str, Any]) -> float:
    count = _first(record, ("GPU_NUM",))
    if math.isnan(count):
        found = _GPU_NUM.search(_text(record, "GPU_REQ") or _text(record, "EFFECTIVE_GPU_REQ") or "")
        count = float(found[1]) if found else 0.0
    return count


def _text(record: dict[str, Any], key: str) -> str | None:
    """Return a field as text; None where it is missing, empty or ``-``."""
    value = get(record, key)
    if value is None or isinstance(value, bool | dict | list):
        return None
    text = str(value).strip()
    return None if text in ("", "-", "N/A") else text


def _first(record: dict[str, Any], keys: Sequence[str]) -> float:
    """Return the first of some fields that is known, as a number; NaN if none is."""
    for key in keys:
        text = _text(record, key)
        if text is None:
            continue
        found = _NUMBER.match(text)
        if found is None or not 0 <= float(found[0]) <= 1e12:
            raise TracekitError(f"{key} {text[:40]!r} is not a number from 0")
        return float(found[0])
    return math.nan


def _memory(text: str | None) -> float:
    """Return memory in KB; NaN if it is not known.

    >>> _memory("31.5G"), _memory("512"), _memory("2 T")
    (33030144.0, 524288.0, 2147483648.0)
    """
    if text is None:
        return math.nan
    found = _MEMORY.match(text)
    if found is None:
        raise TracekitError(f"{text[:40]!r} is not an amount of memory such as 31.5G")
    amount = float(found[1]) * _UNITS[found[2].upper() or _DEFAULT_UNIT]
    if amount > 1e15:
        raise TracekitError(f"{text[:40]!r} is more memory than a host can have")
    return amount


def advise(
    hosts: LsfHosts, jobs: Sequence[Pending], scorer: Scorer, *, top: int = 2, others: bool = False
) -> list[Advice]:
    """Return hosts for each pending job in order; each job takes its share of its best host from the later ones."""
    table = hosts.table
    if not len(table):
        return [Advice(job.id, ()) for job in jobs]
    asked = HostJobs(
        [job.id for job in jobs],
        np.array([[job.slots, job.memory, job.gpus] for job in jobs], float).reshape(-1, 3),
        np.array([job.estimate for job in jobs]),
        np.array([job.wait for job in jobs]),
    )
    table = replace(table, free=table.free.copy())
    try:
        found = decide(table, asked, scorer)
    except Refused as refused:
        raise TracekitError(refused.reason) from None
    made = []
    for job, decision in zip(jobs, found, strict=True):
        best = decision.rows[np.argsort(-decision.scores, kind="stable")[:top]]
        made.append(Advice(job.id, tuple(table.names[h] for h in best.tolist()), others))
    return made
