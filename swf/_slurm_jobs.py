"""Turns a table of Slurm's texts, one row a job, into a Trace. Used by sacct and jobcomp."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swf._common import watts_of
from swf._notation import Damage, Numbers, as_labels, distinct, duration, number
from swf._slurm import OPEN_STATES, STATUS_OF_STATE, Tres, mem_per_proc, state_word
from swf._texts import Columns
from tracekit.errors import FormatError, SchemaError
from tracekit.machine import Machine
from tracekit.schema import STATUSES, counts, status_codes
from tracekit.trace import Trace

#: Columns that the translation uses; any other is kept as x_<name>.
_USED = """jobid jobidraw submit start end elapsed elapsedraw timelimit timelimitraw reqcpus ncpus alloccpus reqnodes
nnodes allocnodes reqtres alloctres reqgres allocgres reqmem state user group account partition jobname totalcpu maxrss
consumedenergyraw consumedenergy ntasks cluster used_kb joules job_id"""
USED = frozenset(_USED.split())


def to_trace(
    table: pd.DataFrame, lines: NDArray[np.int64], damage: Damage, *, timezone: str | None, cluster: str = ""
) -> Trace:
    """Turn a table of texts, columns named as sacct does in lower case, into a Trace. Missing texts are None or empty.

    ``lines`` holds the file's line of each row. ``job_id`` must be there, as numbers.
    """
    reader = _Columns(table, lines)
    submit = reader.stamps("submit", timezone)
    start, end = reader.stamps("start", timezone), reader.stamps("end", timezone)
    elapsed = reader.first(("elapsedraw", duration), ("elapsed", duration))
    limit = reader.first(("timelimitraw", _minutes), ("timelimit", _minutes))
    asked, given = reader.tres("reqtres", "reqgres"), reader.tres("alloctres", "allocgres")
    if asked["gpu"] is not None and given["gpu"] is not None:  # a request without GPUs for a job that got some
        asked["gpu"] = np.where((asked["gpu"] == 0) & (given["gpu"] > 0), np.nan, asked["gpu"])
    sizes: dict[str, Numbers | None] = {
        "req_procs": reader.first(("reqcpus", number), default=asked["cpu"]),
        "alloc_procs": reader.first(("alloccpus", number), ("ncpus", number), default=given["cpu"]),
        "req_nodes": reader.first(("reqnodes", number), default=asked["node"]),
        "alloc_nodes": reader.first(("allocnodes", number), ("nnodes", number), default=given["node"]),
        "req_gpus": asked["gpu"],
        "alloc_gpus": given["gpu"],
    }
    run = elapsed if elapsed is not None else (None if start is None or end is None else end - start)
    has_size = any(values is not None for values in sizes.values())
    if submit is None or run is None or not has_size:
        needed = {"Submit": submit is not None, "Elapsed": run is not None, "ReqCPUS or AllocTRES": has_size}
        names = ", ".join(name for name, there in needed.items() if not there)
        hint = "'tracekit sacct-command' prints a command that exports all needed columns"
        raise FormatError(damage.path, f"missing column {names}; it has: {', '.join(table.columns[:12])}", hint=hint)
    jobs: dict[str, Any] = {"job_id": table["job_id"].to_numpy(), "submit_time": submit}
    procs = _first_known(sizes["alloc_procs"], sizes["req_procs"], len(table))
    codes, states = distinct(table["state"]) if "state" in table else (np.full(len(table), -1), np.array([]))
    words = [state_word(str(state)) for state in states]
    still_open = np.array([*(word in OPEN_STATES for word in words), False])[codes]
    jobs["run_time"] = np.where(still_open, np.nan, run)
    if start is not None:
        jobs["wait_time"] = start - submit
    if limit is not None:
        jobs["req_time"] = limit
    jobs |= {name: counts(values) for name, values in sizes.items() if values is not None}
    jobs |= _memory_and_cpu(reader, sizes, procs, asked)
    energy = given["energy"]
    if "joules" in table:
        measured = table["joules"].to_numpy(dtype=np.float64)
        energy = measured if energy is None else np.where(np.isnan(measured), energy, measured)
    if energy is not None:
        jobs["mean_watts"] = watts_of(energy, jobs["run_time"])
    if "state" in table:
        meant = [STATUSES.index(STATUS_OF_STATE.get(word, "unknown")) for word in [*words, ""]]
        jobs["status"] = status_codes(np.array(meant)[codes])
        jobs["x_status"] = _text(table["state"])
    labels = {"user": "user", "group": "group", "app": "jobname", "partition": "partition", "project": "account"}
    for ours, theirs in labels.items():
        if theirs in table:
            jobs[ours] = as_labels(table[theirs])
    kinds = _first_texts(asked["gpu_type"], given["gpu_type"])
    if kinds is not None:
        jobs["gpu_type"] = as_labels(kinds)
    for name in map(str, table.columns):
        if name not in USED:
            jobs[name if name.startswith("x_") else "x_" + re.sub(r"\W+", "_", name)] = _text(table[name])
    bad = reader.bad(damage)
    frame = pd.DataFrame(jobs)
    frame = frame[~bad].reset_index(drop=True) if bad.any() else frame
    if not len(frame):
        raise FormatError(damage.path, "none of its lines could be read")
    machine = Machine(name=cluster, epoch=0.0, timezone=timezone)
    try:
        return Trace(frame, machine, (*reader.remarks, *damage.remarks()))
    except SchemaError as error:
        raise FormatError(damage.path, str(error)) from None


def _text(values: pd.Series) -> Any:
    """Return a column that is kept as it is: texts as plain strings, numbers as numbers."""
    return values.astype(object) if isinstance(values.dtype, pd.CategoricalDtype) else values


def _minutes(text: str) -> float:
    return duration(text, plain=60.0)


def _memory_and_cpu(
    reader: _Columns, sizes: dict[str, Numbers | None], procs: Numbers, asked: dict[str, Any]
) -> dict[str, Numbers]:
    found: dict[str, Numbers] = {}
    n = len(reader.table)
    requested = _first_known(sizes["req_procs"], sizes["alloc_procs"], n)
    nodes = _first_known(sizes["req_nodes"], sizes["alloc_nodes"], n)
    with np.errstate(divide="ignore", invalid="ignore"):
        if asked["mem"] is not None:
            found["req_mem"] = _finite(asked["mem"] / requested)
        if "reqmem" in reader.table:
            values, wrong = mem_per_proc(reader.table["reqmem"], nodes, requested)
            reader.note("reqmem", wrong)
            found["req_mem"] = np.where(np.isnan(values), found.get("req_mem", np.full(n, np.nan)), values)
        if "used_kb" in reader.table:
            found["used_mem"] = _finite(reader.table["used_kb"].to_numpy(dtype=np.float64) / procs)
        cpu = reader.first(("totalcpu", duration))
        if cpu is not None:
            found["cpu_time"] = _finite(cpu / procs)
    return found


def _finite(values: Numbers) -> Numbers:
    return np.where(np.isfinite(values), values, np.nan)


def _first_known(first: Numbers | None, second: Numbers | None, n: int) -> Numbers:
    """Return the first of two columns that is known and above zero in each row."""
    one = np.full(n, np.nan) if first is None else first
    two = np.full(n, np.nan) if second is None else second
    return np.where(one > 0, one, two)


def _first_texts(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    return np.where(pd.notna(first), first, second)


class _Columns(Columns):
    """Columns of texts, resource strings among them."""

    def tres(self, name: str, older: str) -> dict[str, Any]:
        """Return the resources in a column of resource strings; None for resources that no row contains."""
        made = [(column, Tres(self.table[column])) for column in (name, older) if column in self.table]
        found: dict[str, Any] = dict.fromkeys(("cpu", "node", "gpu", "mem", "energy", "gpu_type"))
        for column, tres in made:
            self.note(column, tres.wrong)
            for key in ("cpu", "node", "gpu", "mem", "energy"):
                values = tres.numbers(key)
                if found[key] is None and not np.isnan(values).all():
                    found[key] = values
            kinds = tres.labels("gpu_type")
            if found["gpu_type"] is None and pd.notna(kinds).any():
                found["gpu_type"] = kinds
        return found
