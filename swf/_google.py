"""The tables of ClusterData2019, and the queries that turn their events into jobs and machines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from swf._events import FAR, PAIR, SECOND_OF_PAIR, Column, Outage, Session, Table, files_of
from tracekit.errors import FormatError, UsageError

#: Events of collections and instances by number, and the statuses that the last of them means.
WORDS = ("SUBMIT", "QUEUE", "ENABLE", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST")
STATUS = {"FINISH": "completed", "FAIL": "failed", "KILL": "cancelled", "EVICT": "cancelled"}
#: Where the priorities of the tiers begin (Tirmazi et al., EuroSys 2020, section 3).
TIERS = ((360, "monitoring"), (120, "production"), (116, "mid"), (110, "batch"), (100, "other"), (-(2**31), "free"))
#: What one normalised unit is taken for: thousandths of the largest machine's CPU, and 1 TB of memory.
UNIT_CORES, UNIT_GB = 1000.0, 1024.0
#: Unix time of second 0: the trace begins 600 s later, on 1 May 2019 at 00:00 Pacific time.
EPOCH = 1_556_693_400.0
LENGTH = 600.0 + 31 * 86_400.0
ZONES = {
    **dict.fromkeys("acd", "America/New_York"),
    **dict.fromkeys("bf", "America/Chicago"),
    "e": "Europe/Helsinki",
    "g": "Asia/Singapore",
    "h": "Europe/Brussels",
}

_COMMON = (
    Column("time", required=True),
    Column("type", required=True),
    Column("collection_id", required=True),
    Column("scheduling_class"),
    Column("missing_type"),
    Column("collection_type"),
    Column("priority"),
    Column("alloc_collection_id"),
)
COLUMNS = {
    "instance_events": (
        *_COMMON,
        Column("instance_index", required=True),
        Column("machine_id"),
        Column("cpus", "DOUBLE", places=("resource_request.cpus", "resource_request_cpus")),
        Column("memory", "DOUBLE", places=("resource_request.memory", "resource_request_memory")),
    ),
    "collection_events": (
        *_COMMON,
        Column("user", "VARCHAR"),
        Column("collection_logical_name", "VARCHAR"),
        Column("parent_collection_id"),
        Column("start_after_collection_ids", "VARCHAR"),
        Column("vertical_scaling"),
        Column("scheduler"),
    ),
    "machine_events": (
        Column("time", required=True),
        Column("machine_id", required=True),
        Column("type", required=True),
        Column("cpus", "DOUBLE", places=("capacity.cpus", "capacity_cpus")),
        Column("memory", "DOUBLE", places=("capacity.memory", "capacity_memory")),
        Column("platform_id", "VARCHAR"),
    ),
}
#: Columns that only one of the tables has, for telling them apart.
OWN = {
    "instance_events": {"time", "type", "collection_id", "instance_index"},
    "collection_events": {"time", "type", "collection_id"},
    "machine_events": {"time", "type", "machine_id"},
}

IMPOSSIBLE = "a negative time, a type of event that does not exist, or an amount beyond 0 to 1,000"


def table_of(names: frozenset[str]) -> str | None:
    """Return which table has these columns."""
    if "start_time" in names or "average_usage" in names:
        return None  # instance_usage, or a join of all tables
    return next((table for table, own in OWN.items() if own <= names), None)


@dataclass(frozen=True)
class Wanted:
    """What a job is to be, and what the units are taken for."""

    job: str = "collection"
    keep: str = "jobs"
    edges: str = "unknown"
    unit_cores: float = UNIT_CORES
    unit_gb: float = UNIT_GB

    def __post_init__(self) -> None:
        choices = {"job": ("collection", "instance"), "keep": ("jobs", "reservations"), "edges": ("unknown", "cut")}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise UsageError(f"option {name}={getattr(self, name)}: choose {' or '.join(allowed)}")


# ---- files -----------------------------------------------------------------------------------------------------------


def cells_of(path: Path) -> dict[str, dict[str, list[Path]]]:
    """Return the files of each table by cell: those of a folder, or of the folders in it."""
    here = {table: files_of(path, table) for table in COLUMNS}
    if any(here.values()):
        return {_letter(path): here}
    try:
        folders = [entry for entry in sorted(path.iterdir()) if entry.is_dir()]
    except OSError:
        return {}
    found = {_letter(folder): {table: files_of(folder, table) for table in COLUMNS} for folder in folders}
    return {cell: tables for cell, tables in found.items() if any(tables.values())}


def _letter(folder: Path) -> str:
    match = re.search(r"(?:^|[_\-.])([a-h])$", folder.resolve().name)
    return match[1] if match else folder.resolve().name


def chosen(path: Path, cell: str | None) -> dict[str, dict[str, list[Path]]]:
    """Return the cells that are wanted; without a choice the only one there is."""
    found = cells_of(path)
    names = [name.strip() for name in (cell or "").split(",") if name.strip()]
    if names == ["all"]:
        names = list(found)
    if not names:
        if len(found) > 1:
            raise FormatError(
                path, f"holds {len(found)} cells: {', '.join(found)}", hint="choose with --read cell=a, or cell=all"
            )
        names = list(found)
    absent = [name for name in names if name not in found]
    if absent:
        raise UsageError(f"option cell={cell}: {path} has no cell {absent[0]}; it has {', '.join(found) or 'none'}")
    return {name: found[name] for name in names}


# ---- events to jobs --------------------------------------------------------------------------------------------------

#: The life of a thing from its events: its key, the first submit, the first and the last start, the last end with its
#: number, when it was lost, and what it asked for at first. Identical events count once, whatever their order.
_LIFE = f"""
    min(collection_type) AS collection_type,
    min(time) FILTER (type = 0) AS submit,
    min(time) FILTER (type = 3) AS started,
    max(time) FILTER (type = 3) AS restarted,
    max(time * 16 + type) FILTER (type BETWEEN 4 AND 7) AS ended,
    max(time) FILTER (type = 8) AS lost,
    max(missing_type) AS missing,
    {SECOND_OF_PAIR.format("min(" + PAIR.format("time * 16 + type", "priority + 2147483648") + ")")} - 2147483648
        AS priority,
    max(scheduling_class) AS scheduling_class,
    max(alloc_collection_id) AS alloc"""

#: How a thing ended: the last end holds unless it was started or lost after it.
_STATE = """CASE WHEN lost >= greatest(coalesce(ended // 16, -1), coalesce(restarted, -1)) THEN 8
    WHEN ended // 16 >= coalesce(restarted, -1) THEN ended % 16
    WHEN restarted IS NOT NULL THEN 3 ELSE 0 END"""


def load(session: Session, files: dict[str, list[Path]], wanted: Wanted, on_error: str) -> list[str]:
    """Make the tables ``instances`` and ``collections``: one row per thing, with its life. Return remarks."""
    if not files["instance_events"]:
        raise FormatError(session.path, "the table instance_events, which holds the sizes, is missing")
    remarks = _stage(session, files, wanted, on_error)
    final = session.final = int(session.one(_last(), "the last event")[0] or 0)
    run = f"CASE WHEN next_type BETWEEN 4 AND 7 AND time > 0 AND next_time < {FAR} THEN next_time - time END"
    if wanted.edges == "cut":
        until = f"least(coalesce(next_time, {FAR}), {final})"
        run = f"CASE WHEN coalesce(next_type, 7) BETWEEN 4 AND 7 THEN greatest({until} - time, 0) END"
    session.run(
        f"""CREATE OR REPLACE TABLE runs AS SELECT collection_id, instance_index,
            count(*) FILTER (type = 3) AS attempts, count(*) FILTER (type = 4) AS evictions,
            sum(CASE WHEN type = 3 THEN {run} END)::BIGINT AS busy,
            max(machine_id) FILTER (next_type IS NULL OR next_type > 3) AS machine
        FROM (SELECT collection_id, instance_index, time, type, machine_id,
                lead(time) OVER w AS next_time, lead(type) OVER w AS next_type
              FROM instance_events WHERE type BETWEEN 3 AND 8
              WINDOW w AS (PARTITION BY collection_id, instance_index ORDER BY time, type))
        WHERE NOT (coalesce(next_type, -1) = type AND next_time = time) GROUP BY ALL""",
        "runs of instances",
    )
    key = "time * 16 + type"
    session.run(
        f"""CREATE OR REPLACE TABLE instances AS
        SELECT l.*, coalesce(attempts, 0) AS attempts, coalesce(evictions, 0) AS evictions, busy, machine FROM (
            SELECT *, {_STATE} AS state FROM (SELECT collection_id, instance_index, {_LIFE},
                {SECOND_OF_PAIR.format("min(" + PAIR.format(key, "cpus") + ")")} AS cpus,
                {SECOND_OF_PAIR.format("min(" + PAIR.format(key, "memory") + ")")} AS memory
            FROM instance_events GROUP BY collection_id, instance_index)) l
        LEFT JOIN runs r ON r.collection_id = l.collection_id AND r.instance_index = l.instance_index""",
        "instances",
    )
    session.run("DROP TABLE instance_events; DROP TABLE runs", "")
    session.run(
        f"""CREATE OR REPLACE TABLE collections AS SELECT *, {_STATE} AS state FROM (
            SELECT collection_id, {_LIFE}, min("user") AS "user", min(collection_logical_name) AS app,
                max(parent_collection_id) AS parent, max(start_after_collection_ids) AS after_ids,
                max(vertical_scaling) AS vertical_scaling, max(scheduler) AS scheduler
            FROM collection_events GROUP BY collection_id)""",
        "collections",
    )
    session.run("DROP TABLE collection_events", "")
    return remarks


def _last() -> str:
    times = " UNION ALL ".join(
        f"SELECT max(time) AS t FROM {name} WHERE time < {FAR}" for name in ("instance_events", "collection_events")
    )
    return f"SELECT max(t) FROM ({times})"


def _stage(session: Session, files: dict[str, list[Path]], wanted: Wanted, on_error: str) -> list[str]:
    """Read the tables of events; amounts become whole billionths of a processor and thousandths of a KB."""
    scale = {"cpus": wanted.unit_cores * 1e9, "memory": wanted.unit_gb * 1024**2 * 1e3}
    remarks = []
    for name in ("instance_events", "collection_events"):
        table = Table(name, COLUMNS[name], files[name], impossible=IMPOSSIBLE)
        values = {c.name: c.name if c.kind != "VARCHAR" else f'"{c.name}"' for c in table.columns}
        values["time"] = f"least(time, {FAR})"
        values |= {
            amount: f"TRY_CAST(round({amount} * {factor}) AS BIGINT)"
            for amount, factor in scale.items()
            if amount in values
        }
        sound = "time >= 0 AND type BETWEEN 0 AND 10 AND coalesce(abs(priority), 0) < 2147483648"
        if name == "instance_events":
            sound += " AND coalesce(cpus, 0) BETWEEN 0 AND 1000 AND coalesce(memory, 0) BETWEEN 0 AND 1000"
        if not table.files:
            empty = ", ".join(f'NULL::{c.kind} AS "{c.name}"' for c in table.columns)
            session.run(f"CREATE OR REPLACE TABLE {name} AS SELECT {empty} LIMIT 0", "")
            remarks.append(f"no table {name}: users, names and dependencies are unknown")
            continue
        session.add(table, on_error=on_error)
        count = session.typed(table, values, valid=sound, on_error=on_error, what=f"reading {name}")
        if count:
            remarks.append(f"{name}: {count:,} damaged lines were left out")
    return remarks


def jobs(session: Session, wanted: Wanted) -> pd.DataFrame:
    """Return one row per job, in order of submission, with our names of columns."""
    seconds = f"CASE WHEN {{0}} > 0 AND {{0}} < {FAR} THEN {{0}} END"
    over = ""
    if wanted.edges == "cut":
        seconds = f"least({{0}}, {session.final})"
        over = f"WHEN state = 3 AND start_at IS NOT NULL THEN {session.final}"
    life = _collections() if wanted.job == "collection" else _instances()
    kept = "coalesce(collection_type, 0) = 0"
    if wanted.keep == "reservations":
        kept = "(coalesce(collection_type, 0) = 1 OR coalesce(alloc, 0) = 0)"
    session.run(
        f"""CREATE OR REPLACE TABLE jobs AS SELECT *, (start - submit) / 1e6 AS wait,
            CASE WHEN start_at IS NULL AND state IN (4, 5, 7) AND finish IS NOT NULL THEN 0.0
                 ELSE (finish - start) / 1e6 END AS run
        FROM (SELECT *, {seconds.format("submit_at")} AS submit, {seconds.format("start_at")} AS start,
                CASE {over} WHEN true THEN {seconds.format("end_at")} END AS finish
              FROM ({life}) WHERE {kept})""",
        "jobs",
    )
    tier = "CASE " + " ".join(f"WHEN priority >= {low} THEN '{name}'" for low, name in TIERS) + " END"
    word = "CASE state " + " ".join(f"WHEN {k} THEN '{name}'" for k, name in enumerate(WORDS) if k not in (0, 3))
    word += " WHEN 0 THEN 'PENDING' WHEN 3 THEN 'RUNNING' END"
    single = wanted.job == "instance"
    extra = "instance_index AS x_instance_index, machine AS x_machine_id, " if single else ""
    after_one = "NULL::BIGINT AS prev_job" if single else "prev_job"
    return session.frame(
        f"""SELECT collection_id AS x_collection_id, {extra}submit / 1e6 AS submit_time, wait AS wait_time,
            run AS run_time, cpus / 1e9 AS req_procs,
            CASE WHEN cpus > 0 THEN memory::DOUBLE / 1e3 / (cpus / 1e9) END AS req_mem,
            {word} AS x_status, "user", app, {tier} AS queue, tasks, {after_one},
            priority AS x_priority, scheduling_class AS x_scheduling_class, vertical_scaling AS x_vertical_scaling,
            scheduler AS x_scheduler, collection_type AS x_collection_type, nullif(alloc, 0) AS x_alloc_collection_id,
            nullif(parent, 0) AS x_parent_collection_id, dependencies AS x_dependencies, attempts AS x_attempts,
            evictions AS x_evictions, used / 1e15 AS x_core_seconds, missing AS x_missing_type
        FROM jobs {"" if single else f"LEFT JOIN ({_previous()}) p USING (collection_id)"}
        ORDER BY submit NULLS LAST, collection_id{", instance_index" if single else ""}""",
        "jobs",
        labels=("user", "app", "queue", "x_status"),
    )


#: Of each instance: what it used in billionths of a processor times microseconds.
_USED = "cpus::HUGEINT * busy"
_ABOUT = 'c."user", c.app, c.parent, c.after_ids, c.vertical_scaling, c.scheduler'
_DEPENDENCIES = "len(regexp_extract_all(coalesce(after_ids, ''), '[0-9]+'))"


def _collections() -> str:
    """Return the query of jobs that are collections: their own events, else those of their instances."""
    return f"""SELECT coalesce(c.collection_id, i.collection_id) AS collection_id,
        coalesce(c.collection_type, i.collection_type) AS collection_type,
        coalesce(c.submit, i.submit) AS submit_at, coalesce(c.started, i.started) AS start_at,
        CASE WHEN c.state BETWEEN 4 AND 7 THEN c.ended // 16
             WHEN coalesce(c.state, 0) <> 8 AND i.all_ended THEN i.ended // 16 END AS end_at,
        CASE WHEN c.state >= 4 THEN c.state WHEN i.all_ended THEN i.ended % 16
             ELSE greatest(coalesce(c.state, 0), coalesce(i.state, 0)) END AS state,
        coalesce(c.priority, i.priority) AS priority,
        coalesce(c.scheduling_class, i.scheduling_class) AS scheduling_class,
        coalesce(c.alloc, i.alloc) AS alloc, greatest(c.missing, i.missing) AS missing,
        i.cpus, i.memory, i.tasks, i.attempts, i.evictions, i.used, {_ABOUT}, {_DEPENDENCIES} AS dependencies
    FROM collections c FULL OUTER JOIN (
        SELECT collection_id, min(collection_type) AS collection_type, min(submit) AS submit, min(started) AS started,
            bool_and(coalesce(state, 0) BETWEEN 4 AND 7) AS all_ended, max(ended) AS ended,
            max(CASE WHEN state = 8 THEN 8 WHEN state = 3 THEN 3 ELSE 0 END) AS state,
            max(priority) AS priority, max(scheduling_class) AS scheduling_class, max(alloc) AS alloc,
            max(missing) AS missing, sum(cpus) AS cpus, sum(memory) AS memory, count(*) AS tasks,
            sum(attempts)::BIGINT AS attempts, sum(evictions)::BIGINT AS evictions, sum({_USED}) AS used
        FROM instances GROUP BY collection_id) i ON i.collection_id = c.collection_id"""


def _instances() -> str:
    """Return the query of jobs that are instances."""
    return f"""SELECT i.collection_id, i.instance_index, i.machine,
        coalesce(i.collection_type, c.collection_type) AS collection_type, i.submit AS submit_at, i.started AS start_at,
        CASE WHEN i.state BETWEEN 4 AND 7 THEN i.ended // 16 END AS end_at, i.state,
        coalesce(i.priority, c.priority) AS priority, coalesce(i.scheduling_class, c.scheduling_class)
        AS scheduling_class, coalesce(i.alloc, c.alloc) AS alloc, i.missing, i.cpus, i.memory, 1::BIGINT AS tasks,
        i.attempts, i.evictions, {_USED} AS used, {_ABOUT}, {_DEPENDENCIES} AS dependencies
    FROM instances i LEFT JOIN collections c ON c.collection_id = i.collection_id"""


def _previous() -> str:
    """Return the query of the collection that each one had to wait for: of several, the one that ended last."""
    pair = PAIR.format(f"coalesce(e.finish, {FAR})", "e.collection_id")
    return f"""SELECT a.collection_id, {SECOND_OF_PAIR.format(f"max({pair})")} AS prev_job FROM (
        SELECT DISTINCT collection_id, unnest(regexp_extract_all(after_ids, '[0-9]+'))::HUGEINT AS before
        FROM collections WHERE after_ids IS NOT NULL) a
    JOIN jobs e ON e.collection_id = a.before GROUP BY a.collection_id"""


# ---- machines --------------------------------------------------------------------------------------------------------


def machines(session: Session, files: list[Path], wanted: Wanted, on_error: str) -> tuple[pd.DataFrame, list[str]]:
    """Make the table ``machine_events``; return each machine's largest capacity, and remarks."""
    table = Table("machine_events", COLUMNS["machine_events"], files, impossible=IMPOSSIBLE)
    session.add(table, on_error=on_error)
    values = {c.name: c.name for c in table.columns}
    values["time"] = f"least(time, {FAR})"
    sound = "time >= 0 AND type BETWEEN 1 AND 3 AND coalesce(cpus, 0) BETWEEN 0 AND 1000"
    sound += " AND coalesce(memory, 0) BETWEEN 0 AND 1000"
    count = session.typed(table, values, valid=sound, on_error=on_error, what="reading machine_events")
    remarks = [f"machine_events: {count:,} damaged lines were left out"] if count else []
    hosts = session.frame(
        """SELECT machine_id, max(cpus) AS cpus, max(memory) AS memory
        FROM machine_events GROUP BY machine_id ORDER BY machine_id""",
        "machines",
    )
    unknown = int(hosts["cpus"].isna().sum())
    if unknown:
        remarks.append(f"machine_events: {unknown:,} machines of unknown capacity were left out")
    return hosts[hosts["cpus"].notna()], remarks


def outages(session: Session, wanted: Wanted) -> list[Outage]:
    """Return how much of the machine was missing from when to when, from the table ``machine_events``."""
    steps = session.frame(
        f"""WITH state AS (
            SELECT machine_id, time, type, CASE WHEN type = 2 THEN 0 ELSE coalesce(cpus,
                last_value(cpus IGNORE NULLS) OVER w, 0) END AS has
            FROM (SELECT DISTINCT machine_id, time, type, max(cpus) OVER (PARTITION BY machine_id, time, type) AS cpus
                  FROM machine_events)
            WINDOW w AS (PARTITION BY machine_id ORDER BY time, type ROWS UNBOUNDED PRECEDING)),
        change AS (SELECT time, round((has - lag(has, 1, 0) OVER (PARTITION BY machine_id ORDER BY time, type))
            * {wanted.unit_cores * 1e6})::BIGINT AS more FROM state)
        SELECT time / 1e6 AS time, sum(more)::BIGINT AS more FROM change WHERE time < {FAR} GROUP BY 1 ORDER BY 1""",
        "capacity over time",
    )
    total = session.one(
        f"""SELECT sum(round(cpus * {wanted.unit_cores * 1e6})::BIGINT)::BIGINT
        FROM (SELECT max(cpus) AS cpus FROM machine_events GROUP BY machine_id)"""
    )[0]
    missing = int(total or 0) - steps["more"].cumsum()
    begin = steps["time"].tolist()
    end = [*begin[1:], max(LENGTH, begin[-1] + 1.0) if begin else 0.0]
    found = zip(begin, end, missing.tolist(), strict=True)
    early = [(0.0, begin[0], total / 1e6)] if begin and begin[0] > 0 else []
    return early + [(a, b, units / 1e6) for a, b, units in found if units > 0]
