"""slurmsim: events files of the UB CCR Slurm simulator, one ``submit_batch_job`` line a job.

``-dt SECONDS -e submit_batch_job | -sim-walltime S --uid=USER -J jobid_ID -N NODES -n TASKS -t LIMIT … SCRIPT``

| their option | our column | unit, remark |
|---|---|---|
| -dt | submit_time | seconds since the simulation's start |
| -sim-walltime | run_time | seconds; 0 ends at once, −1 runs to its limit |
| -J, --job-name | job_id | the number behind ``jobid_``; numbered from 1, the names being app, where there is none |
| -n × -c | req_procs | --ntasks, --cpus-per-task |
| -N | req_nodes | --nodes; for ``2-4`` the smaller |
| -t | req_time | --time; D-HH:MM:SS, or minutes |
| --mem-per-cpu, --mem | req_mem | MB where no unit is given; --mem is per node, shared by its processors |
| --gres=gpu:2, gpu:a100:2 | req_gpus, gpu_type | per node; --gpus is per job |
| --uid, -A, -p, -q | user, project, partition, x_qos | --account, --partition, --qos |
| the script, any other option | x_script, x_<option> | kept |

Lines of other events (cancel_job …) are left out and counted. There is no calendar. Lost on writing: the calendar
(-dt then counts from the first job), waits, allocated sizes, status, queue unless there is no partition; fractions of a
second of limits (rounded up); jobs of unknown run time or size are left out.
Format: https://github.com/ubccr-slurm-simulator/slurm_sim_tools
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import pandas as pd

from swf._common import lost
from swf._notation import Damage, as_labels, duration, memory, number, shown
from swf._texts import Columns, table_of, without_unknown
from swf._written import fractions, not_positive
from swf.base import head_lines, read_text
from tracekit.errors import FormatError, SchemaError, TracekitError
from tracekit.machine import Machine
from tracekit.schema import counts, to_numeric
from tracekit.trace import Trace

_EVENT = re.compile(r"\s*-dt\s+(\S+)\s+-e\s+(\S+)\s*(?:\|\s*(.*))?")
_LONG = {
    "-J": "job-name",
    "-N": "nodes",
    "-n": "ntasks",
    "-c": "cpus-per-task",
    "-t": "time",
    "-q": "qos",
    "-p": "partition",
    "-A": "account",
    "-G": "gpus",
    "-C": "constraint",
    "-sim-walltime": "sim-walltime",
}
_OURS = frozenset({*_LONG.values(), "uid", "mem", "mem-per-cpu", "gres", "dt"}) - {"qos", "constraint"}


class SlurmSim:
    """Reader and writer of events files."""

    name: ClassVar[str] = "slurmsim"
    title: ClassVar[str] = "events of the UB CCR Slurm simulator"
    suffixes: ClassVar[tuple[str, ...]] = (".events",)
    options: ClassVar[frozenset[str]] = frozenset({"on_error"})

    def sniff(self, head: bytes, path: Path) -> bool:
        """Accept lines of events, most of which submit jobs."""
        lines = [line for line in head_lines(head, limit=50) if line.strip() and not line.lstrip().startswith("#")]
        good = sum(_EVENT.match(line) is not None for line in lines)
        return good > 0 and good * 2 >= len(lines)

    def read(self, path: Path, /, *, on_error: str = "stop") -> Trace:
        """Read the submitted jobs."""
        damage = Damage(path, on_error)
        texts = read_text(path).split("\n")
        rows, lines, others = [], [], 0
        for line, text in enumerate(texts, 1):
            if not text.strip() or text.lstrip().startswith("#"):
                continue
            match = _EVENT.match(text.rstrip("\r"))
            if match is None:
                damage.add(line, f"'{shown(text)}' is not an event")
            elif match[2] != "submit_batch_job":
                others += 1
            else:
                rows.append({"dt": match[1], **options_of(match[3] or "")})
                lines.append(line)
        if not rows:
            raise FormatError(path, "contains no event that submits a job")
        trace = _to_trace(table_of(rows, path), lines, damage)
        return trace.replace(step=f"left out {others} events that do not submit a job") if others else trace

    def write(self, trace: Trace, out: IO[bytes], /) -> list[str]:
        """Write one event a job, in the order of submission."""
        submit, run, procs = trace.column("submit_time"), trace.column("run_time"), trace.sizes()
        fits = np.isfinite(submit) & (run >= 0) & np.isfinite(run) & (procs > 0) & (procs == np.floor(procs))
        if not fits.any():
            raise TracekitError("nothing to write for slurmsim: no job has submit time, run time and a whole size")
        dated = trace.machine.epoch is not None
        zero = float(submit[fits].min()) if fits.any() and (dated or submit[fits].min() < 0) else 0.0
        nodes, limit, mem = trace.sizes("nodes"), np.ceil(trace.column("req_time")), trace.column("req_mem")
        gpus, ids = trace.sizes("gpus"), trace.jobs["job_id"].to_numpy()
        place = "partition" if trace.has("partition") else "queue"
        texts = {
            option: trace.jobs[name].astype(object)
            for option, name in (("--uid=", "user"), ("-q ", "x_qos"), ("-p ", place), ("-A ", "project"))
            if name in trace.jobs
        }
        order = [row for row in trace.order().tolist() if fits[row]]
        per_node = np.where(nodes > 0, gpus / np.where(nodes > 0, nodes, 1), np.nan)
        for row in order:
            words = [
                f"-dt {_short(round(submit[row] - zero, 6))} -e submit_batch_job | -sim-walltime {_short(run[row])}"
            ]
            words += [option + _word(texts[option][row]) for option in ("--uid=",) if _known(texts, option, row)]
            words.append(f"-J jobid_{ids[row]}")
            if nodes[row] > 0 and nodes[row] == np.floor(nodes[row]):
                words.append(f"-N {nodes[row]:.0f}")
            words.append(f"-n {procs[row]:.0f}")
            if limit[row] > 0:
                words.append(f"-t {_limit(int(limit[row]))}")
            words += [
                option + _word(texts[option][row]) for option in ("-q ", "-p ", "-A ") if _known(texts, option, row)
            ]
            if mem[row] > 0:
                words.append(f"--mem-per-cpu={np.ceil(mem[row]):.0f}K")
            if per_node[row] > 0 and float(per_node[row]).is_integer():
                words.append(f"--gres=gpu:{per_node[row]:.0f}")
            elif gpus[row] > 0:
                words.append(f"--gpus={np.ceil(gpus[row]):.0f}")
            out.write(" ".join([*words, "pseudo.job"]).encode() + b"\n")
        left = int((~fits).sum())
        held = {"job_id", "submit_time", "run_time", "req_time", "req_mem", "user", "project", "x_qos", place}
        held |= {f"{kind}_{unit}" for kind in ("req", "alloc") for unit in ("procs", "nodes", "gpus")}
        return [
            *lost(trace, held, calendar=False),
            *not_positive(trace, ("req_time", "req_mem")),
            *fractions(trace, ("req_time", "req_mem")),
            *_altered(trace, ("user", "x_qos", place, "project")),
            *([f"{left} jobs without a run time or a whole size"] if left else []),
        ]


def _known(texts: dict[str, Any], option: str, row: int) -> bool:
    return option in texts and isinstance(texts[option][row], str) and bool(texts[option][row].strip())


def _word(text: str) -> str:
    """Return a label as one word of a command line."""
    return re.sub(r"[\s|'\"]+", "_", text.strip())


def _altered(trace: Trace, names: tuple[str, ...]) -> list[str]:
    """Report labels that are not one word of a command line."""
    texts = ((name, trace.jobs[name].dropna().astype(str).unique()) for name in names if name in trace.jobs.columns)
    return [
        f"blanks and quotes in column {name} (written as _)" for name, found in texts if any(map(_is_altered, found))
    ]


def _is_altered(text: str) -> bool:
    return _word(text) != text


def _short(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else repr(float(value))


def _limit(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    return f"{days}-{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"


def options_of(text: str) -> dict[str, str]:
    """Split the options of one job; short ones get their long names.

    >>> options_of("-sim-walltime  7.00 --uid=u1 -n 16 --exclusive run.job")
    {'sim-walltime': '7.00', 'uid': 'u1', 'ntasks': '16', 'exclusive': 'yes', 'script': 'run.job'}
    """
    found: dict[str, str] = {}
    words = text.split()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            found[name] = value if equals else "yes"
        elif word in _LONG:
            found[_LONG[word]] = words[at] if at < len(words) else ""
            at += 1
        else:
            found["script"] = f"{found['script']} {word}" if "script" in found else word
    return found


def _to_trace(table: pd.DataFrame, lines: list[int], damage: Damage) -> Trace:
    columns = Columns(table, lines)
    run = columns.numbers(("sim-walltime", number))
    limit = columns.numbers(("time", lambda text: duration(text, plain=60.0)))
    tasks, cpus = columns.numbers(("ntasks", number)), columns.numbers(("cpus-per-task", number))
    procs = tasks * np.where(cpus > 0, cpus, 1.0)
    nodes = columns.numbers(("nodes", lambda text: number(text.partition("-")[0])))
    gres = columns.numbers(("gres", lambda text: _gpus(text)[0]))
    hosts = np.where(nodes > 0, nodes, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_node = columns.numbers(("mem", _megabytes)) * hosts / procs
    jobs: dict[str, Any] = {
        "submit_time": columns.numbers(("dt", number)),
        "run_time": np.where(run == -1, limit, run),
        "req_time": limit,
        "req_procs": counts(procs),
        "req_nodes": counts(nodes),
        "req_gpus": counts(np.where(np.isnan(gres), columns.numbers(("gpus", number)), gres * hosts)),
        "req_mem": np.where(np.isfinite(per_node), per_node, columns.numbers(("mem-per-cpu", _megabytes))),
    }
    for ours, theirs in (("user", "uid"), ("project", "account"), ("partition", "partition")):
        if theirs in table:
            jobs[ours] = as_labels(table[theirs])
    if "gres" in table:
        jobs["gpu_type"] = as_labels(table["gres"].map(lambda text: _gpus(text)[1], na_action="ignore"))
    names = table["job-name"] if "job-name" in table else pd.Series("", table.index)
    ids = to_numeric(names.str.extract(r"^jobid_([0-9]{1,15})$")[0]).to_numpy(dtype=np.float64)
    if np.isnan(ids).any() or len(np.unique(ids)) < len(ids):
        jobs["job_id"], jobs["app"] = np.arange(1, len(table) + 1), as_labels(names)
    else:
        jobs["job_id"] = ids.astype(np.int64)
    for key in map(str, table.columns):
        if key not in _OURS:
            jobs["x_" + re.sub(r"\W+", "_", key)] = table[key]
    bad = columns.bad(damage)
    frame = pd.DataFrame(without_unknown(jobs))[~bad]
    if not len(frame):
        raise FormatError(damage.path, "none of its events could be read")
    machine = Machine() if np.isfinite(procs).any() else Machine(unit="nodes")
    try:
        return Trace(frame, machine, tuple(damage.remarks()))
    except SchemaError as error:
        raise FormatError(damage.path, str(error)) from None


def _megabytes(text: str) -> float:
    return memory(text if text[-1:].isalpha() else f"{text}M")


def _gpus(text: str) -> tuple[float, str]:
    """Read ``gpu:2``, ``gpu:a100:2``, ``gpu``; how many, and of which kind."""
    kind, total = "", 0.0
    for item in str(text).split(","):
        parts = item.split(":")
        if parts[0] == "gpu":
            last = parts[-1]
            total += float(last) if last.isdecimal() else 1.0
            kind = parts[1] if len(parts) > 1 and not parts[1].isdecimal() else kind
    return total, kind
