"""Made events of Google's cells and of Alibaba's batch jobs, and what they mean, in slow and plain Python.

The references are written from the tables in the docstrings of `swf.google` and `swf.alibaba2018`, thing by thing.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

END = 2**63 - 1
Row = dict[str, Any]
NAMES = ("SUBMIT", "QUEUE", "ENABLE", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST")
MEANS = {"FINISH": "completed", "FAIL": "failed", "KILL": "cancelled", "EVICT": "cancelled"}


# ---- files -----------------------------------------------------------------------------------------------------------


def json_lines(rows: Iterable[Row]) -> bytes:
    """Return rows as BigQuery exports them: whole numbers as texts, nothing for NULL."""

    def plain(value: Any) -> Any:
        return str(value) if isinstance(value, int) else [str(v) for v in value] if isinstance(value, list) else value

    text = (json.dumps({k: plain(v) for k, v in row.items() if v is not None}) + "\n" for row in rows)
    return "".join(text).encode()


def flat(rows: Iterable[Row]) -> list[Row]:
    """Return rows with nested values as columns of their own."""
    made = []
    for row in rows:
        new: Row = {}
        for key, value in row.items():
            if isinstance(value, dict):
                new |= {f"{key}.{inner}": v for inner, v in value.items()}
            else:
                new[key] = value
        made.append(new)
    return made


def csv_text(rows: list[Row]) -> bytes:
    out = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def write_cell(folder: Path, tables: dict[str, list[Row]], *, kind: str = "json.gz", shards: int = 1) -> Path:
    """Write tables as files of a cell."""
    import pyarrow as pa
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        for number in range(shards):
            part, path = rows[number::shards], folder / f"{name}-{number:012}.{kind}"
            if not part:
                continue
            if kind.startswith("json"):
                text = json_lines(part)
                path.write_bytes(gzip.compress(text) if kind.endswith(".gz") else text)
            elif kind == "csv":
                path.write_bytes(csv_text(flat(part)))
            else:
                names = dict.fromkeys(name for row in part for name in row)
                whole = [
                    {name: row.get(name) for name in names} for row in part
                ]  # else the first row tells the columns
                pa.parquet.write_table(pa.Table.from_pylist(whole), path, compression="gzip")
    return folder


# ---- Google: making --------------------------------------------------------------------------------------------------


def _life(rng: np.random.Generator, begin: int) -> list[tuple[int, int]]:
    """Return events (time, type) of one thing: attempts with evictions and failures, and at last an end, or none."""
    events, now = [(begin, 0)], begin
    if rng.random() < 0.3:
        events += [(now, 1), (now + 1000, 2)]
    for _ in range(int(rng.integers(1, 4))):
        now += int(rng.integers(0, 5)) * 1_000_000
        events.append((now, 3))
        now += int(rng.integers(0, 5)) * 1_000_000
        if rng.random() < 0.4:
            events += [(now, 4 + int(rng.integers(2))), (now + int(rng.integers(2)) * 500, 0)]
            continue
        break
    events.append((now, int(rng.choice([5, 6, 7, 8, 10]))))
    return events


def _spoiled(rng: np.random.Generator, events: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return events some of which are missing, at the edges of the trace, or doubled."""
    if rng.random() < 0.3 and events:
        events = [event for event in events if rng.random() > 0.3]
    if rng.random() < 0.15 and events:
        events = [(0, events[0][1]), *events[1:]]
    if rng.random() < 0.15 and events:
        events = [*events[:-1], (END, events[-1][1])]
    if rng.random() < 0.2:
        events = events + [event for event in events if rng.random() < 0.5]
    return events


def google_events(seed: int, collections: int = 60) -> dict[str, list[Row]]:
    """Return made tables, shuffled."""
    rng = np.random.default_rng(seed)
    tables: dict[str, list[Row]] = {"collection_events": [], "instance_events": [], "machine_events": []}
    for number in range(collections):
        cid, begin = 1000 + number, 600_000_000 + int(rng.integers(0, 50)) * 1_000_000
        kind, alloc = int(rng.random() < 0.2), int(rng.choice([0, 0, 1003]))
        about = {"collection_type": kind, "priority": int(rng.choice([0, 99, 105, 110, 118, 200, 400]))}
        about |= {"alloc_collection_id": alloc, "missing_type": int(rng.random() < 0.1)}
        more: Row = {"user": f"u{number % 7}", "collection_logical_name": f"n{number % 5}"}
        if rng.random() < 0.3:
            more["start_after_collection_ids"] = [int(c) for c in 1000 + rng.integers(0, collections, 2)]
        if rng.random() < 0.9:
            for time, event in _spoiled(rng, _life(rng, begin)):
                tables["collection_events"].append({"time": time, "type": event, "collection_id": cid, **about, **more})
        for index in range(int(rng.integers(0, 5))):
            cpus, memory = float(rng.integers(0, 64)) / 1024, float(rng.integers(0, 64)) / 2048
            for time, event in _spoiled(rng, _life(rng, begin)):
                row = {"time": time, "type": event, "collection_id": cid, "instance_index": index, **about}
                if rng.random() < 0.9:
                    row["resource_request"] = {"cpus": cpus, "memory": memory}
                tables["instance_events"].append(row | {"machine_id": int(rng.integers(1, 9))})
    for machine in range(1, 9):
        now, size = int(rng.integers(0, 2)) * 700_000_000, float(rng.choice([0.25, 0.5, 1.0]))
        for event in (1, 2, 1, 3)[: int(rng.integers(1, 5))]:
            row = {"time": now, "machine_id": machine, "type": event, "platform_id": "p"}
            if event != 2:
                size = size if event == 1 else size / 2
                row["capacity"] = {"cpus": size, "memory": size}
            tables["machine_events"].append(row)
            now += int(rng.integers(1, 100)) * 1_000_000
    for rows in tables.values():
        rng.shuffle(rows)  # type: ignore[arg-type]
    return tables


# ---- Google: the reference -------------------------------------------------------------------------------------------


def _of(rows: list[Row], name: str, pick: Any = max) -> Any:
    known = [row[name] for row in rows if row.get(name) is not None]
    return pick(known) if known else None


def _first(rows: list[Row], value: Any) -> Any:
    """Return the value of the earliest event that has one; of equal ones the least."""
    known = [(row["time"], row["type"], value(row)) for row in rows if value(row) is not None]
    return min(known)[2] if known else None


def _story(rows: list[Row]) -> Row:
    """Return what happened to one thing."""
    events = sorted({(row["time"], row["type"]) for row in rows})
    starts = [time for time, event in events if event == 3]
    ends = [(time, event) for time, event in events if 4 <= event <= 7]
    lost = [time for time, event in events if event == 8]
    last_start = max(starts, default=-1)
    state, end = ("RUNNING", None) if starts else ("PENDING", None)
    if ends and ends[-1][0] >= last_start:
        end, state = ends[-1][0], NAMES[ends[-1][1]]
    if lost and lost[-1] >= max(last_start, ends[-1][0] if ends else -1):
        state, end = "LOST", None
    submits = [time for time, event in events if event == 0]
    turns = [(time, event) for time, event in events if 3 <= event <= 8]
    busy = []
    for (time, event), (later, after) in itertools.pairwise(turns):
        if event == 3 and 4 <= after <= 7 and time > 0 and later < END:
            busy.append(later - time)
    return {
        "submit": min(submits, default=None),
        "start": min(starts, default=None),
        "end": end,
        "state": state,
        "attempts": len(starts),
        "evictions": sum(event == 4 for _, event in events),
        "busy": sum(busy) if busy else None,
        "ended": bool(ends) and state in MEANS,
        "last_end": ends[-1] if ends else None,
    }


def _seconds(time: int | None) -> float:
    return math.nan if time is None or time in (0, END) else time / 1e6


def _tier(priority: int | None) -> str | None:
    if priority is None:
        return None
    ranges = ((99, "free"), (109, "other"), (115, "batch"), (119, "mid"), (359, "production"))
    return next((name for most, name in ranges if priority <= most), "monitoring")


def _job(rows: list[Row], story: Row, requests: list[tuple[Any, Any, Row]]) -> Row:
    submit, start, end = _seconds(story["submit"]), _seconds(story["start"]), _seconds(story["end"])
    run = end - start
    if story["start"] is None and story["state"] in ("EVICT", "FAIL", "KILL") and not math.isnan(end):
        run = 0.0
    cpus = [cpu for cpu, _, _ in requests if cpu is not None]
    memory = [mem for _, mem, _ in requests if mem is not None]
    procs = sum(cpus) * 1000 if cpus else math.nan
    used = [cpu * 1000 * one["busy"] / 1e6 for cpu, _, one in requests if cpu is not None and one["busy"] is not None]
    return {
        "submit_time": submit,
        "wait_time": start - submit,
        "run_time": run,
        "req_procs": procs,
        "req_mem": sum(memory) * 2**30 / procs if memory and procs > 0 else math.nan,
        "x_status": story["state"],
        "status": MEANS.get(story["state"], "unknown"),
        "queue": _tier(_first(rows, lambda row: row.get("priority"))),
        "x_attempts": sum(one["attempts"] for _, _, one in requests) if requests else math.nan,
        "x_evictions": sum(one["evictions"] for _, _, one in requests) if requests else math.nan,
        "x_core_seconds": sum(used) if used else math.nan,
        "tasks": len(requests) if requests else math.nan,
    }


def google_reference(tables: dict[str, list[Row]], *, instances: bool = False, keep: str = "jobs") -> list[Row]:
    """Return the jobs that tables of events mean, by the definitions in the docs."""
    own: dict[int, list[Row]] = defaultdict(list)
    parts: dict[int, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in tables.get("collection_events", []):
        own[row["collection_id"]].append(row)
    for row in tables["instance_events"]:
        parts[row["collection_id"]][row["instance_index"]].append(row)
    made: list[Row] = []
    for cid in sorted(set(own) | set(parts)):
        stories = {index: _story(rows) for index, rows in parts[cid].items()}
        every = [row for rows in parts[cid].values() for row in rows]
        requests = {
            index: (
                _first(rows, lambda row: row.get("resource_request", {}).get("cpus")),
                _first(rows, lambda row: row.get("resource_request", {}).get("memory")),
                stories[index],
            )
            for index, rows in parts[cid].items()
        }
        first = own[cid] or every
        kind, alloc = _of(first, "collection_type", min) or 0, _of(first, "alloc_collection_id") or 0
        if (kind != 0) if keep == "jobs" else (kind != 1 and alloc != 0):
            continue
        if instances:
            for index, rows in sorted(parts[cid].items()):
                job = _job(rows, stories[index], [requests[index]])
                made.append(job | {"collection": cid, "instance": index, "user": _of(own[cid], "user", min)})
            continue
        story = _story(own[cid])
        if not own[cid]:
            story["state"] = "PENDING"
        of_parts = {
            name: min((s[name] for s in stories.values() if s[name] is not None), default=None)
            for name in ("submit", "start")
        }
        for name, value in of_parts.items():
            story[name] = value if story[name] is None else story[name]
        if story["state"] in ("PENDING", "RUNNING"):
            if stories and all(one["ended"] for one in stories.values()):
                last = max(one["last_end"] for one in stories.values())
                story["end"], story["state"] = last[0], NAMES[last[1]]
            elif any(one["state"] == "LOST" for one in stories.values()):
                story["state"] = "LOST"
            elif any(one["state"] == "RUNNING" for one in stories.values()):
                story["state"] = "RUNNING"
        after = {c for row in own[cid] for c in row.get("start_after_collection_ids") or []}
        job = _job(own[cid] or every, story, list(requests.values()))
        made.append(
            job | {"collection": cid, "user": _of(own[cid], "user", min), "after": after, "ended": story["end"]}
        )
    if not instances:
        ends = {job["collection"]: job["ended"] for job in made}
        for job in made:
            there = [(END if _unknown(ends[c]) else ends[c], c) for c in job["after"] if c in ends]
            job["prev_job"] = max(there)[1] if there else math.nan
    key = "instance" if instances else "collection"
    return sorted(
        made,
        key=lambda job: (
            math.isnan(job["submit_time"]),
            0 if math.isnan(job["submit_time"]) else job["submit_time"],
            job["collection"],
            job[key],
        ),
    )


def _unknown(time: int | None) -> bool:
    return time is None or time in (0, END)


def google_missing(rows: list[Row], moment: float) -> float:
    """Return how much of the machine, in thousandths of the largest, was not there at a moment in seconds."""
    missing = 0.0
    for machine in {row["machine_id"] for row in rows}:
        mine = [row for row in rows if row["machine_id"] == machine]
        events = sorted((row["time"], row["type"], row.get("capacity", {}).get("cpus")) for row in mine)
        most = max((cpus for _, _, cpus in events if cpus is not None), default=0.0)
        now = size = 0.0
        for time, event, cpus in events:
            if time / 1e6 <= moment:
                size = size if cpus is None else cpus
                now = 0.0 if event == 2 else size
        missing += most - now
    return missing * 1000


# ---- Alibaba ---------------------------------------------------------------------------------------------------------

TASK = (
    "task_name",
    "instance_num",
    "job_name",
    "task_type",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
)


def alibaba_tasks(seed: int, jobs: int = 80) -> list[tuple[Any, ...]]:
    """Return made rows of batch_task, shuffled, some of them twice."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    for number in range(jobs):
        size, begin = int(rng.integers(1, 6)), int(rng.integers(1, 100))
        for task in range(1, size + 1):
            before = [str(k) for k in range(1, task) if rng.random() < 0.4]
            name = "_".join([f"{rng.choice(['M', 'R', 'J'])}{task}", *before]) + "_Stg1" * (rng.random() < 0.1)
            name = f"task_{number}x{task}==" if rng.random() < 0.2 else name
            start = begin + int(rng.integers(0, 20))
            end = start + int(rng.integers(0, 10))
            status = str(rng.choice(["Terminated", "Terminated", "Terminated", "Failed", "Running", "Waiting"]))
            start, end = (0 if rng.random() < 0.05 else start), (0 if rng.random() < 0.1 else end)
            cpu: Any = float(rng.choice([50, 100, 130]))
            memory: Any = float(rng.integers(1, 100)) / 100
            cpu, memory = ("", "") if rng.random() < 0.1 else (cpu, memory)
            rows.append((name, int(rng.integers(1, 9)), f"j_{number}", "1", status, start, end, cpu, memory))
    rows += [row for row in rows if rng.random() < 0.05]
    rng.shuffle(rows)  # type: ignore[arg-type]
    return [tuple(row) for row in rows]


def plain_rows(rows: Iterable[Iterable[Any]]) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def _dag(name: str) -> tuple[int | None, set[int]]:
    match = re.fullmatch(r"[^_]*[A-Za-z](\d+)((?:_\d*)*?)(_Stg\d+)?", name)
    return (int(match[1]), {int(n) for n in match[2].split("_") if n}) if match else (None, set())


def _time(value: int) -> int | None:
    return None if value == 0 else value


def alibaba_jobs(rows: list[tuple[Any, ...]]) -> list[Row]:
    """Return the jobs that rows of batch_task mean."""
    jobs: dict[int, list[Row]] = defaultdict(list)
    for row in set(rows):
        task = dict(zip(TASK, row, strict=True))
        jobs[int(task["job_name"][2:])].append(task)
    made = []
    for number, tasks in jobs.items():
        starts = [task["start_time"] for task in tasks if task["start_time"]]
        ends = [task["end_time"] for task in tasks if task["end_time"]]
        words = {task["status"] for task in tasks}
        status = "unknown"
        if "Failed" in words or words == {"Terminated"}:
            status = "failed" if "Failed" in words else "completed"
        over = len(ends) == len(tasks) or status != "unknown"
        moments = [-1, *starts, *ends]
        best, memory = (0.0, 0), 0.0
        for moment in moments:
            for instant in (False, True):  # with, or without, what only lasted that second
                there = [task for task in tasks if _holds(task, moment, instant)]
                cores = sum(task["instance_num"] * task["plan_cpu"] / 100 for task in there if task["plan_cpu"] != "")
                count = sum(task["instance_num"] for task in there)
                amount = sum(task["instance_num"] * task["plan_mem"] for task in there if task["plan_mem"] != "")
                best, memory = max(best, (round(cores, 6), count)), max(memory, amount)
        sized = any(task["plan_cpu"] != "" for task in tasks)
        made.append(
            {
                "job_id": number,
                "submit_time": min(starts, default=math.nan),
                "run_time": max(ends) - min(starts) if starts and ends and over else math.nan,
                "status": status,
                "req_procs": best[0] if sized else math.nan,
                "tasks": best[1] if sized else math.nan,
                "req_mem": memory / 100 * 2**30 / best[0] if sized and best[0] else math.nan,
                "x_tasks": len(tasks),
                "x_dependencies": sum(len(_dag(task["task_name"])[1]) for task in tasks),
            }
        )
    return sorted(
        made, key=lambda job: (math.isnan(job["submit_time"]), np.nan_to_num(job["submit_time"]), job["job_id"])
    )


def _holds(task: Row, moment: int, instant: bool) -> bool:
    """Return whether a task holds its share at a moment; a task of less than a second only at that very moment."""
    start = task["start_time"] or -1
    end = task["end_time"] or 2**50
    if end <= start:
        return start == moment and instant
    return bool(start <= moment < end)


def alibaba_previous(rows: list[tuple[Any, ...]]) -> dict[tuple[str, str], set[str]]:
    """Return, for each task with dependencies, the names of those that ended last."""
    tasks = [dict(zip(TASK, row, strict=True)) for row in set(rows)]
    found = {}
    for task in tasks:
        before = [
            (other["end_time"] or 2**50, other["task_name"])
            for other in tasks
            if other["job_name"] == task["job_name"] and _dag(other["task_name"])[0] in _dag(task["task_name"])[1]
        ]
        if before:
            last = max(end for end, _ in before)
            found[task["job_name"], task["task_name"]] = {name for end, name in before if end == last}
    return found
