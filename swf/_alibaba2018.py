"""The tables of cluster-trace-v2018, and the queries that turn tasks into jobs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from swf._events import PAIR, Column, Session, Table, files_of
from swf.base import head_lines
from tracekit.errors import FormatError

#: 1.0 of the largest machine's memory is published as 100.
UNIT_GB = 1024.0
STATUS = {"Terminated": "completed", "Failed": "failed", "Cancelled": "cancelled"}

_TASK = (Column("start_time"), Column("end_time"))
COLUMNS = {
    "batch_task": (
        Column("task_name", "VARCHAR", required=True),
        Column("instance_num"),
        Column("job_name", "VARCHAR", required=True),
        Column("task_type", "VARCHAR"),
        Column("status", "VARCHAR"),
        *_TASK,
        Column("plan_cpu", "DOUBLE"),
        Column("plan_mem", "DOUBLE"),
    ),
    "batch_instance": (
        Column("instance_name", "VARCHAR"),
        Column("task_name", "VARCHAR", required=True),
        Column("job_name", "VARCHAR", required=True),
        Column("task_type", "VARCHAR"),
        Column("status", "VARCHAR"),
        *_TASK,
        Column("machine_id", "VARCHAR"),
        *(Column(name, "VARCHAR") for name in ("seq_no", "total_seq_no", "cpu_avg", "cpu_max", "mem_avg", "mem_max")),
    ),
    "machine_meta": (
        Column("machine_id", "VARCHAR", required=True),
        Column("time_stamp"),
        Column("failure_domain_1", "VARCHAR"),
        Column("failure_domain_2", "VARCHAR"),
        Column("cpu_num", "DOUBLE"),
        Column("mem_size", "DOUBLE"),
        Column("status", "VARCHAR"),
    ),
    "container_meta": (
        Column("container_id", "VARCHAR", required=True),
        Column("machine_id", "VARCHAR"),
        Column("time_stamp"),
        Column("app_du", "VARCHAR"),
        Column("status", "VARCHAR"),
        Column("cpu_request", "DOUBLE"),
        Column("cpu_limit", "DOUBLE"),
        Column("mem_size", "DOUBLE"),
    ),
}
_INT, _REAL, _STATE = r"\d*", r"(?:-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)?", "[A-Z][a-z]+"
SHAPES = {
    "batch_task": re.compile(f"[^,]+,{_INT},j_\\d+,{_INT},{_STATE},{_INT},{_INT},{_REAL},{_REAL}"),
    "batch_instance": re.compile(
        f"[^,]*,[^,]+,j_\\d+,{_INT},{_STATE},{_INT},{_INT},[^,]*,{_INT},{_INT}" + f",{_REAL}" * 4
    ),
}
IMPOSSIBLE = "amounts below 0 or above 1,000,000,000, or times beyond a trillion seconds"
#: A task of a DAG: a letter, its number, and the numbers of the tasks before it; some names end with _Stg and a number.
DAG = "[^_]*[A-Za-z][0-9]+(_[0-9]*)*(_Stg[0-9]+)?"


def kind_of(head: bytes) -> str | None:
    """Return which table a file is, by most of its first rows; some copies have a header row added."""
    lines = [line.strip() for line in head_lines(head, limit=50) if line.strip()]
    for table, shape in SHAPES.items():
        rows = lines[1:] if lines and lines[0].split(",") == [c.name for c in COLUMNS[table]] else lines
        if sum(bool(shape.fullmatch(row)) for row in rows) > len(rows) // 2:
            return table
    return None


def places(path: Path, table: str | None) -> dict[str, list[Path]]:
    """Return the files of each table: those of a folder, or a file with the others beside it."""
    folder = path if path.is_dir() else path.parent
    found = {name: files_of(folder, name) for name in COLUMNS}
    if path.is_file():
        if table is None:
            raise FormatError(path, "this is not the table batch_task or batch_instance of cluster-trace-v2018")
        if not path.name.startswith(table):
            found = {name: [] for name in COLUMNS}
        found[table] = [path]
    if not found["batch_task"]:
        raise FormatError(path, "the table batch_task, which holds the sizes, is missing")
    return found


def load(session: Session, files: dict[str, list[Path]], names: list[str], unit_gb: float, on_error: str) -> list[str]:
    """Make tables of the files: times of 0 are unknown, amounts whole millionths of a core and thousandths of a KB."""
    remarks = []
    for name in names:
        table = Table(name, COLUMNS[name], files[name], headless=True, impossible=IMPOSSIBLE)
        values = {column.name: column.name for column in table.columns}
        scale = {"plan_cpu": 1e4, "plan_mem": unit_gb / 100 * 1024**2 * 1e3}
        values |= {n: f"TRY_CAST(round({n} * {by}) AS BIGINT)" for n, by in scale.items() if n in values}
        values |= {n: f"nullif({n}, 0)" for n in ("start_time", "end_time") if n in values}
        sound = "true"
        if name == "batch_task":
            sound = (
                "coalesce(instance_num, 0) BETWEEN 0 AND 1000000000 AND coalesce(plan_cpu, 0) BETWEEN 0 AND 1000000000"
            )
            sound += " AND coalesce(plan_mem, 0) BETWEEN 0 AND 1000000 AND coalesce(abs(start_time), 0) < 1000000000000"
            sound += " AND coalesce(abs(end_time), 0) < 1000000000000"
        session.add(table, on_error=on_error)
        count = session.typed(table, values, valid=sound, on_error=on_error, what=f"reading {name}")
        remarks += [f"{name}: {count:,} damaged lines were left out"] if count else []
        if name in SHAPES:
            rows = session.one(f"SELECT count(*) FROM {name}")[0]
            session.run(f"CREATE OR REPLACE TABLE {name} AS SELECT DISTINCT * FROM {name}", f"{name}: equal rows")
            twice = rows - session.one(f"SELECT count(*) FROM {name}")[0]
            remarks += [f"{name}: {twice:,} rows that repeat another were left out"] if twice else []
    numbered = session.one("SELECT bool_and(regexp_full_match(job_name, 'j_[0-9]{1,15}')) FROM batch_task")[0]
    session.job = "CAST(job_name[3:] AS BIGINT)" if numbered else "job_name"
    return remarks


_CORES, _MEMORY = "instance_num::HUGEINT * plan_cpu", "instance_num::HUGEINT * plan_mem"
_SECONDS = "greatest(end_time - start_time, 0)"
_STATUS = """CASE WHEN bool_or(status = 'Failed') THEN 'Failed' WHEN bool_and(status = 'Terminated') THEN 'Terminated'
    WHEN bool_or(status = 'Cancelled') THEN 'Cancelled' ELSE max(status) FILTER (status <> 'Terminated') END"""
_DEPENDS = f"""CASE WHEN regexp_full_match(task_name, '{DAG}') THEN list_distinct((regexp_extract_all(
    regexp_replace(regexp_replace(task_name, '_Stg[0-9]+$', ''), '^[^_]*', ''), '[0-9]{{1,9}}'))::BIGINT[])
    ELSE []::BIGINT[] END"""
_NUMBER = f"""CASE WHEN regexp_full_match(task_name, '{DAG}')
    THEN regexp_extract(task_name, '^[^_]*?([0-9]{{1,9}})(_|$)', 1) END"""


def jobs(session: Session) -> pd.DataFrame:
    """Return one row per job: what its tasks held at most at once."""
    session.run(
        f"""CREATE OR REPLACE TABLE peaks AS SELECT job_name, max(cores) AS cores, max(memory) AS memory,
            max({PAIR.format("cores", "parts")}) % 18446744073709551616 AS parts
        FROM (SELECT job_name, sum(cores) OVER w AS cores, sum(memory) OVER w AS memory, sum(parts) OVER w AS parts
            FROM (SELECT job_name, coalesce(start_time, -1) AS moment, 1 AS phase, {_CORES} AS cores,
                    {_MEMORY} AS memory, instance_num AS parts FROM batch_task
                UNION ALL SELECT job_name, greatest(coalesce(end_time, {1 << 50}), coalesce(start_time, -1)),
                    CASE WHEN end_time <= start_time THEN 2 ELSE 0 END, -({_CORES}), -({_MEMORY}),
                    -instance_num FROM batch_task)
            WINDOW w AS (PARTITION BY job_name ORDER BY moment, phase RANGE UNBOUNDED PRECEDING))
        GROUP BY job_name""",
        "what jobs held at once",
    )
    job = session.job
    name = "job_name AS x_job_name, " if job == "job_name" else f"{job} AS job_id, "
    return session.frame(
        f"""SELECT {name}submit_time::DOUBLE AS submit_time, (ended - submit_time)::DOUBLE AS run_time,
            CASE WHEN known THEN cores / 1e6 END AS req_procs,
            CASE WHEN cores > 0 AND sized THEN (memory / 1e3) / (cores / 1e6) END AS req_mem, parts::BIGINT AS tasks,
            x_status, x_tasks, x_instances::BIGINT AS x_instances, x_dependencies::BIGINT AS x_dependencies,
            used / 1e6 AS x_core_seconds
        FROM (SELECT job_name, min(start_time) AS submit_time, CASE WHEN count(end_time) = count(*)
                OR {_STATUS} IN ('Terminated', 'Failed', 'Cancelled') THEN max(end_time) END AS ended,
                count(plan_cpu) > 0 AS known, count(plan_mem) > 0 AS sized, {_STATUS} AS x_status,
                count(*) AS x_tasks, sum(instance_num) AS x_instances, sum(len({_DEPENDS})) AS x_dependencies,
                sum({_CORES} * {_SECONDS}) AS used
            FROM batch_task GROUP BY job_name) JOIN peaks USING (job_name)
        ORDER BY submit_time NULLS LAST, {job}""",
        "jobs",
        labels=("x_status",),
    )


def tasks(session: Session) -> pd.DataFrame:
    """Return one row per task, with the task that it had to wait for: of several, the one that ended last."""
    session.run(
        f"""CREATE OR REPLACE TABLE tasks AS SELECT *, {session.job} AS job, TRY_CAST({_NUMBER} AS BIGINT) AS number,
            {_DEPENDS} AS before, row_number() OVER (ORDER BY start_time NULLS LAST, {session.job}, task_name,
                task_type, status, end_time, instance_num, plan_cpu, plan_mem) AS job_id FROM batch_task""",
        "tasks",
    )
    pair = PAIR.format("coalesce(d.end_time, 1125899906842624)", "d.job_id")
    previous = f"""SELECT t.job_id, (max({pair}) % 18446744073709551616)::BIGINT AS prev_job
        FROM (SELECT job_id, job_name, unnest(before) AS number FROM tasks) t
        JOIN tasks d ON d.job_name = t.job_name AND d.number = t.number AND d.job_id <> t.job_id GROUP BY t.job_id"""
    return session.frame(
        f"""SELECT job_id, start_time::DOUBLE AS submit_time, (end_time - start_time)::DOUBLE AS run_time,
            {_CORES} / 1e6 AS req_procs, CASE WHEN plan_cpu > 0 THEN (plan_mem / 1e3) / (plan_cpu / 1e6) END AS req_mem,
            instance_num AS tasks, prev_job, status AS x_status, task_type AS x_task_type, job AS x_job,
            task_name AS x_task_name, len(before)::BIGINT AS x_dependencies
        FROM tasks LEFT JOIN ({previous}) p USING (job_id) ORDER BY job_id""",
        "tasks",
        labels=("x_status", "x_task_type"),
    )


def instances(session: Session) -> pd.DataFrame:
    """Return one row per instance, with the size that its task asked for."""
    return session.frame(
        f"""SELECT i.start_time::DOUBLE AS submit_time, (i.end_time - i.start_time)::DOUBLE AS run_time,
            plan_cpu / 1e6 AS req_procs, CASE WHEN plan_cpu > 0 THEN (plan_mem / 1e3) / (plan_cpu / 1e6) END AS req_mem,
            1::BIGINT AS tasks, i.status AS x_status, i.task_type AS x_task_type,
            {session.job.replace("job_name", "i.job_name")} AS x_job, i.task_name AS x_task_name,
            i.machine_id AS x_machine_id
        FROM batch_instance i LEFT JOIN (SELECT job_name, task_name, max(plan_cpu) AS plan_cpu,
            max(plan_mem) AS plan_mem FROM batch_task GROUP BY job_name, task_name) t
            ON t.job_name = i.job_name AND t.task_name = i.task_name
        ORDER BY i.start_time NULLS LAST, x_job, i.task_name, i.instance_name, i.end_time, i.machine_id, seq_no""",
        "instances",
        labels=("x_status", "x_task_type", "x_machine_id", "x_task_name"),
    )


def machines(session: Session) -> pd.DataFrame:
    """Return each machine's largest size."""
    return session.frame(
        """SELECT machine_id, max(cpu_num) AS cpu_num, max(mem_size) AS mem_size FROM machine_meta
        GROUP BY machine_id ORDER BY machine_id""",
        "machines",
    )


def containers(session: Session) -> tuple[int, float]:
    """Return how many containers there are, and the cores that they ask for together."""
    found: Any = session.one(
        """SELECT count(*), sum(cpu_request)::DOUBLE FROM (SELECT container_id, max(cpu_request) AS cpu_request
        FROM container_meta GROUP BY container_id)"""
    )
    return int(found[0]), float(found[1] or 0) / 100
