"""Schedules as trace events, which Perfetto and chrome://tracing show: tracks of processors or hosts, jobs as slices.

The format is Google's "Trace Event Format" (JSON): complete events ("X"), counters ("C") and names ("M"), times in
microseconds. A track (pid, tid) is a processor, or one of the lanes of a host: two jobs of one track never overlap.

* Processors: a job has a slice on each processor that it holds, so the durations of all slices add up to the used
  processor-seconds. Where that would be more than `MOST_SLICES`, it has one slice for each run of neighbouring
  processors, on the track of the first; ``args.procs`` says how many processors a slice stands for. Where jobs hold
  fractions, there are as many tracks as these jobs need.
* Hosts: each host is a process; a job has one slice on each of its hosts, and ``args.cores`` and ``args.gpus`` say what
  it holds there.

Everything is written as it is made, one line an event.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tracekit.lanes import lanes, whole_lanes
from tracekit.machine import Machine
from tracekit.sim.analysis.explain import Recorded
from tracekit.sim.analysis.explain_levers import LeverFacts
from tracekit.sim.analysis.reasons import explained, short
from tracekit.sim.hosts.parse import parse_hosts
from tracekit.sim.simulate import SimResult
from tracekit.stats import has_calendar, steps
from tracekit.trace import Trace

#: With more slices than this, neighbouring processors of a job share one.
MOST_SLICES = 400_000
_MICRO = 1e6


@dataclass(frozen=True, eq=False)
class Timeline:
    """One schedule to write: its name, the result, and the trace that was scheduled."""

    name: str
    result: SimResult
    trace: Trace
    cluster: Machine | None = None  # the hosts of the schedule
    window: tuple[int, int] | None = None  # of the trace's jobs, where only these were simulated

    @property
    def recorded(self) -> Recorded:
        """The schedule as `explain` reads it; what levers of energy did is found by simulating again."""
        result = self.result
        if self.cluster is None:
            room = None
        else:
            from tracekit.sim.analysis.explain_hosts import room_of

            room = room_of(result.schedule(), self.trace, self.cluster, result.switches["procs_from"])
        outages = tuple(tuple(outage) for outage in result.switches["outages"])
        announced = bool(result.switches["outages_announced"])
        return Recorded(
            result.job_id, result.submit, result.start, result.end, result.procs, float(result.total), outages,
            announced, room, self._levers(),
        )  # fmt: skip

    def _levers(self) -> LeverFacts | None:
        from tracekit.sim.analysis.resimulate import Resimulation, provenance_from

        result = self.result
        made = provenance_from(json.loads(result.made_by(self.window)))
        if not made.switches.levers or not len(result):
            return None
        return Resimulation(made, self.trace, int(result.job_id[0])).levers(result.job_id)


def write_timelines(timelines: Sequence[Timeline], out: IO[bytes]) -> dict[str, Any]:
    """Write schedules as one file of trace events; return how much of what was written."""
    counts = {"slices": 0, "counters": 0, "tracks": 0, "explained": 0}
    about = {"made by": "tracekit", "schedules": [one.name for one in timelines], "unit of time": "microseconds"}
    out.write(f'{{"displayTimeUnit":"ms","otherData":{_json(about)},"traceEvents":[\n'.encode())
    lines: list[str] = []
    first, pid = True, 1
    for one in timelines:
        names = _Names(one.name, pid)
        for kind, line in _events(one, names):
            counts[kind] += 1
            lines.append(line)
            if len(lines) >= 4096:
                first = _flush(lines, out, first=first)
        counts["tracks"] += len(names.tracks)
        lines += names.events()
        counts["explained"] += names.explained
        pid = names.next_pid
    _flush(lines, out, first=first)
    out.write(b"\n]}\n")
    return counts


def _flush(lines: list[str], out: IO[bytes], *, first: bool) -> bool:
    """Write lines that were kept, with commas between all events of the file; return whether none was written yet."""
    if not lines:
        return first
    out.write((("" if first else ",\n") + ",\n".join(lines)).encode("utf-8", "replace"))
    lines.clear()
    return False


class _Names:
    """The names of processes and tracks of one schedule, written after its events."""

    def __init__(self, title: str, pid: int) -> None:
        self.machine, self.next_pid = pid, pid + 1
        self.processes = {pid: title}
        self.tracks: dict[tuple[int, int], str] = {}
        self.explained = 0

    def process(self, name: str) -> int:
        pid, self.next_pid = self.next_pid, self.next_pid + 1
        self.processes[pid] = name
        return pid

    def events(self) -> Iterator[str]:
        for pid, name in self.processes.items():
            yield f'{{"ph":"M","name":"process_name","pid":{pid},"tid":0,"args":{{"name":{_json(name)}}}}}'
            yield f'{{"ph":"M","name":"process_sort_index","pid":{pid},"tid":0,"args":{{"sort_index":{pid}}}}}'
        for (pid, tid), name in self.tracks.items():
            yield f'{{"ph":"M","name":"thread_name","pid":{pid},"tid":{tid},"args":{{"name":{_json(name)}}}}}'
            yield f'{{"ph":"M","name":"thread_sort_index","pid":{pid},"tid":{tid},"args":{{"sort_index":{tid}}}}}'


def _events(one: Timeline, names: _Names) -> Iterator[tuple[str, str]]:
    begin, length = micros(one.result.start, one.result.end)
    facts = _facts(one, names)
    slices = _on_processors(one, names) if one.cluster is None else _on_hosts(one, one.cluster, names)
    by_start = np.argsort(one.result.start, kind="stable")
    begins, lengths = begin.tolist(), length.tolist()
    for job in by_start.tolist():
        first = True
        head, told, more = facts[job]
        for pid, tid, held in slices[job]:
            about = f"{held},{told}{more if first else ''}"
            yield (
                "slices",
                (
                    f'{{"ph":"X","name":{head},"cat":"job","ts":{begins[job]},"dur":{lengths[job]},"pid":{pid},'
                    f'"tid":{tid},"args":{{{about}}}}}'
                ),
            )
            first = False
    for line in _counters(one, names.machine):
        yield "counters", line


def micros(start: NDArray[np.float64], end: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return starts and durations in whole microseconds; both ends are rounded, so jobs that touch still touch."""
    begin = np.rint(start * _MICRO).astype(np.int64)
    return begin, np.rint(np.maximum(start, end) * _MICRO).astype(np.int64) - begin


def _facts(one: Timeline, names: _Names) -> list[tuple[str, str, str]]:
    """Return for each job its name, what all of its slices say, and what only the first of them says."""
    result, trace = one.result, one.trace
    user = trace.jobs["user"].astype(object).to_numpy()[result.position] if trace.has("user") else None
    epoch = trace.machine.epoch if has_calendar(trace) else None
    found = []
    for job, why in enumerate(explained(one.recorded, np.arange(len(result)))):
        told = f'"job":{result.job_id[job]}'
        more = f',"job_procs":{result.procs[job]:.10g},"submit_s":{result.submit[job]:.15g}'
        more += f',"wait_s":{result.wait[job]:.15g}'
        if user is not None and isinstance(user[job], str):
            more += f',"user":{_json(user[job])}'
        if result.energy is not None:
            more += f',"energy_kwh":{result.energy.job_kwh[job]:.6g}'
        if why is not None:
            names.explained += 1
            told += f',"reason":{_json(short(why))}'
            more += f',"explain":{_json(replace(why, epoch=epoch, timezone=trace.machine.timezone).text())}'
        found.append((f'"job {result.job_id[job]}"', told, more))
    return found


def _on_processors(one: Timeline, names: _Names) -> list[list[tuple[int, int, str]]]:
    """Return the slices of each job: process, track, and what it holds there."""
    result, pid = one.result, names.machine
    size, total = whole_lanes(result.start, result.end, result.procs, result.total)
    places = lanes(result.start, result.end, size, total)
    each = int(size.sum()) <= MOST_SLICES
    slices = []
    for runs, share in zip(places, (result.procs / size).tolist(), strict=True):
        if each:
            ours = [(pid, first + k + 1, f'"procs":{share:.10g}') for first, count in runs for k in range(count)]
        else:
            ours = [(pid, first + 1, f'"procs":{count * share:.10g}') for first, count in runs]
        slices.append(ours)
    unit = one.result.switches["resource"].removesuffix("s")
    for number in sorted({tid for ours in slices for _, tid, _ in ours}):
        names.tracks[pid, number] = f"{unit} {number - 1}"
    return slices


def _on_hosts(one: Timeline, cluster: Machine, names: _Names) -> list[list[tuple[int, int, str]]]:
    """Return the slices of each job: one on each of its hosts, on the lowest lane that is free there."""
    from tracekit.clusters import host_names

    hosts = host_names(cluster)
    parts = parse_hosts(one.result.hosts or (), hosts)
    slices: list[list[tuple[int, int, str]]] = [[] for _ in range(len(one.result))]
    start, end = one.result.start[parts.row], one.result.end[parts.row]
    order = np.argsort(parts.host, kind="stable")
    bounds = np.flatnonzero(np.diff(parts.host[order], prepend=-2))
    for rows in np.split(order, bounds[1:]) if len(order) else ():
        pid = names.process(f"{names.processes[names.machine]}: {hosts[parts.host[rows[0]]]}")
        ones = np.ones(len(rows), np.int64)
        for part, runs in zip(rows.tolist(), lanes(start[rows], end[rows], ones, len(rows)), strict=True):
            tid = runs[0][0] + 1
            names.tracks[pid, tid] = f"jobs {tid}"
            held = f'"cores":{parts.cores[part]:.10g},"gpus":{parts.gpus[part]:.10g}'
            slices[parts.row[part]].append((pid, tid, held))
    return slices


def _counters(one: Timeline, pid: int) -> Iterator[str]:
    """Yield the curves over time: jobs that wait, units in use and their share, and power where it is known."""
    result = one.result
    if not len(result):
        return
    yield from _counter(pid, "queue", {"jobs": steps(result.submit, result.start)})
    times, used = steps(result.start, result.end, result.procs)
    yield from _counter(pid, f"{result.switches['resource']} in use", {"in use": (times, used)})
    yield from _counter(pid, "utilisation", {"per cent": (times, 100 * used / result.total)})
    if result.energy is not None:
        energy = result.energy
        yield from _counter(pid, "power", {"kW": (energy.times, np.append(energy.total_watts, 0.0) / 1000)})


def _counter(pid: int, name: str, curves: dict[str, tuple[Any, Any]]) -> Iterable[str]:
    for key, (times, level) in curves.items():
        keep = np.append(True, np.diff(level) != 0) if len(level) else np.zeros(0, bool)
        moments = np.rint(times[keep] * _MICRO).astype(np.int64).tolist()
        for moment, value in zip(moments, np.round(level[keep], 6).tolist(), strict=True):
            yield f'{{"ph":"C","name":"{name}","ts":{moment},"pid":{pid},"tid":0,"args":{{"{key}":{value:.10g}}}}}'


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)
