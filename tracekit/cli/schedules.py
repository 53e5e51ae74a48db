"""Commands about schedules beyond one simulation: sweep over loads, check a schedule, explain a wait."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tracekit.cli.app import Force, Json, Resource, Seed, app, console, json_text, print_json, say, table
from tracekit.cli.many import Address, Engine, Files, WorkerMemory, Workers, spread
from tracekit.cli.simulate import (
    Cluster,
    From,
    MachineFile,
    Outage,
    Procs,
    check_length,
    load_trace,
    names_of,
    outages_of,
    policies_of,
    warn_of_rejections,
)
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from evaluation.spread.run import Reading
    from tracekit.machine import Unit
    from tracekit.sim.switches import Switches

PICTURES = ("sweep.pdf", "sweep.svg", "sweep.png")
SWEPT = ("sweep.csv", "sweep.json", *PICTURES)
WINDOW_JOBS = 5000


@app.command()
def sweep(
    files: Files,
    out: Annotated[
        str, typer.Option("--out", "-o", help="Folder for sweep.csv, sweep.json and the picture (PDF, SVG, PNG).")
    ],
    load: Annotated[str, typer.Option("--load", help="FROM:TO, FROM:TO:STEP, or a list of loads.")] = "0.5:1.1",
    policy: Annotated[str, typer.Option("--policy", help="Policies, separated by commas, as in simulate.")] = "fcfs",
    backfill: Annotated[str, typer.Option("--backfill", help="Backfillings, separated by commas.")] = "easy",
    shake: Annotated[int, typer.Option("--shake", help="Shaken inputs per point; their spread is shown.")] = 5,
    windows: Annotated[
        int | None, typer.Option("--windows", help="Use this many random windows instead of shaken inputs.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", help="Jobs per window (default: 5000).")] = None,
    estimates: Annotated[str, typer.Option("--estimates", help="As in simulate.")] = "requested",
    warmup: Annotated[str, typer.Option("--warmup", help="Exclude from the metrics at the start: 5% or 12h.")] = "5%",
    cooldown: Annotated[str, typer.Option("--cooldown", help="Exclude at the end: 5% or 12h.")] = "5%",
    procs: Procs = None,
    resource: Resource = None,
    seed: Seed = 0,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Simulations in parallel.")] = None,
    engine: Engine = "local",
    address: Address = None,
    worker_memory: WorkerMemory = None,
    machine: MachineFile = None,
    from_: From = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Draw curves of slowdown and wait over load: the same jobs with scaled arrivals, under one or more policies.

    Every point is a mean with its 95 % interval. Beyond saturation, waits grow with the length of the trace.
    Several traces, or --engine, spread the work over workers: each has its files in DIR/<its name>, and DIR/summary.md
    shows all. It can be interrupted; the same command resumes it.

    Example: `tracekit sweep sample.swf --load 0.5:1.1 --policy fcfs,sjf -o curves`
    """
    from evaluation.spread.run import Reading
    from tracekit.folders import check_folder
    from tracekit.sim.analysis.compare import check_count
    from tracekit.sim.analysis.sweep import parse_loads
    from tracekit.sim.analysis.sweep import sweep as run
    from tracekit.sim.jobs import extract_jobs
    from tracekit.sim.policies.builtin import find
    from tracekit.sim.switches import Switches, backfill_for
    from tracekit.sim.windows import random_windows

    loads = parse_loads(load)
    given = {"estimates": estimates, "warmup": warmup, "cooldown": cooldown, "procs": procs}
    given |= {"resource": resource, "seed": seed}
    switches = Switches(**cast("dict[str, Any]", given))  # this checks the names
    pairs = [(p, backfill_for(b, switches)) for p in policies_of(policy) for b in names_of(backfill)]
    for name, _ in pairs:
        if name == "replay":
            raise UsageError("policy replay repeats the recorded schedule and cannot be used in a sweep; remove it")
        find(name)
    check_length(windows, jobs)
    if windows is None:
        check_count(shake)
    length = jobs or WINDOW_JOBS
    workers = Workers(engine, address, worker_memory)
    if workers.wanted(files):
        if threads is not None:
            raise UsageError("--threads is about one trace without workers; --worker-memory bounds how many there are")
        common = {"pairs": pairs, "switches": given, "shake": shake, "windows": windows, "jobs": length}
        pieces = [{"load": value, **common} for value in loads]
        reading = Reading(from_, resource, machine)
        _sweep_many(files, out, switches, pieces, workers, reading, force=force, json=json)
        return
    file, folder = files[0], Path(out)
    check_folder(folder, SWEPT, force=force)
    trace = load_trace(file, from_, machine, resource)
    notes = warn_of_rejections(extract_jobs(trace, switches.resolved()))
    parts = random_windows(len(trace), windows, length, seed) if windows is not None else []
    rows = run(trace, loads, pairs, switches, shakes=shake, windows=parts, threads=threads, tell=say)
    found = {"trace": file, "switches": switches.to_dict(), "loads": loads, "points": rows, "notes": notes}
    write_sweep(found, folder, len(trace), force=force)
    say(f"sweep.csv, sweep.json, {', '.join(PICTURES)} in {out}")
    if json:
        print_json(found)
        return
    titles, lines = _points(rows)
    shown = table(*titles, title=f"{file}: {_SHOWN}", right=titles)
    for line in lines:
        shown.add_row(*line)
    console().print(shown)


_SHOWN = "mean bounded slowdown, ± half of the 95 % interval"


def write_sweep(found: dict[str, Any], folder: Path, jobs: int, *, force: bool) -> None:
    """Write what a sweep of one trace found: the table, the same as JSON, and the pictures."""
    from tracekit import plots
    from tracekit.files import write_text
    from tracekit.folders import writing_folder
    from tracekit.plots.loads import load_curves
    from tracekit.sim.analysis.sweep import as_table

    rows = found["points"]
    with writing_folder(folder, ours=["sweep.*"], force=force) as made:
        write_text(made / "sweep.csv", as_table(rows))
        write_text(made / "sweep.json", json_text(found))
        figure = load_curves(rows, jobs)
        for name in PICTURES:
            plots.save(figure, made / name)


def _points(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the points of a sweep as a table: a row for each load, a column for each policy and backfilling."""
    columns = list(dict.fromkeys(f"{row['policy']}+{row['backfill']}" for row in rows))
    lines = []
    for at in range(0, len(rows), max(len(columns), 1)):
        own = rows[at : at + len(columns)]
        cells = [f"{row['mean_bsld']['mean']:,.2f} ± {_half(row['mean_bsld']):,.2f}" for row in own]
        lines.append([f"{own[0]['load']:g}", *cells])
    return ["load", *columns], lines


def _sweep_many(
    files: list[str],
    out: str,
    switches: Switches,
    pieces: list[dict[str, Any]],
    workers: Workers,
    reading: Reading,
    *,
    force: bool,
    json: bool,
) -> None:
    """Sweep many traces: a piece of work for each load of each."""
    from evaluation.spread.run import Study, contents
    from tracekit.sim.policies.builtin import module_of

    pairs = pieces[0]["pairs"]
    modules = sorted({module for policy, _ in pairs if (module := module_of(policy)) is not None})
    shakes = 0 if pieces[0]["windows"] is not None else pieces[0]["shake"]
    known = {"agents": contents(policy for policy, _ in pairs)}
    pieces = [piece | known for piece in pieces]
    study = Study("sweep", pieces, reading, modules, copies=2 + shakes, results=(1 + len(pairs)) * shakes)

    def write(row: dict[str, Any], folder: Path) -> None:
        loads = [piece["load"] for piece in pieces]
        found = {"trace": row["trace"], "switches": switches.to_dict(), "loads": loads, "points": row["rows"]}
        write_sweep(found | {"notes": row["notes"]}, folder, row["jobs"], force=True)

    def told(traces: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
        titles = ["trace", "load", *(f"{p}+{b}" for p, b in pairs)]
        return titles, [[row["name"], *line] for row in traces for line in _points(row["rows"])[1]]

    spread(study, files, out, workers, caption=_SHOWN, write=write, table_of=told, force=force, json=json)


def _half(interval: dict[str, float]) -> float:
    return (interval["high"] - interval["low"]) / 2


@app.command("check-schedule")
def check_schedule(
    schedule: Annotated[
        str, typer.Argument(metavar="SCHEDULE", help="CSV: job_id,submit_time,start_time,end_time,procs.")
    ],
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="The trace that was scheduled.")],
    procs: Procs = None,
    resource: Resource = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Allow missing jobs: the schedule is of a window.")
    ] = False,
    dependencies: Annotated[
        bool, typer.Option("--dependencies", help="Jobs were submitted think_time after the end of prev_job.")
    ] = False,
    outage: Outage = None,
    cluster: Cluster = None,
    from_: From = None,
    json: Json = False,
) -> None:
    """Check that a schedule from any tool is feasible: exit code 0, or 1 with the first violation of each kind.

    Example: `tracekit check-schedule runs/fcfs__easy/schedule.csv sample.swf`
    """
    from tracekit.sim.analysis.check import check_schedule as check
    from tracekit.sim.analysis.check import read_schedule

    table_ = read_schedule(schedule)
    jobs = load_trace(trace, from_, None, resource)
    if cluster is not None:
        from tracekit.clusters import cluster_of
        from tracekit.sim.hosts.demand import unit_of

        resource = resource or unit_of(jobs, cluster_of(cluster))
        procs = procs or cluster_of(cluster).size(cast("Unit", resource))
    found = check(table_, jobs, procs, resource, partial=partial, dependencies=dependencies, outages=outages_of(outage))
    if cluster is not None:
        from tracekit.sim.analysis.check_hosts import check_hosts

        found += check_hosts(table_, jobs, cluster)
    if json:
        kinds = [{"kind": v.kind, "count": v.count, "first": v.first} for v in found]
        print_json(
            {"schedule": schedule, "trace": trace, "jobs": len(table_), "feasible": not found, "violations": kinds}
        )
    elif not found:
        console().print(f"{schedule}: feasible, {len(table_):,} jobs")
    else:
        for violation in found:
            console().print(f"{schedule}: {violation.kind} ({violation.count:,}×): {violation.first}")
    if found:
        raise typer.Exit(1)


@app.command()
def explain(
    schedule: Annotated[
        str, typer.Argument(metavar="SCHEDULE", help="CSV: job_id,submit_time,start_time,end_time,procs.")
    ],
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="The trace that was scheduled.")],
    job: Annotated[int, typer.Option("--job", help="Id of the job that waited.")],
    procs: Procs = None,
    resource: Resource = None,
    cluster: Cluster = None,
    from_: From = None,
    json: Json = False,
) -> None:
    """Explain why a job waited: full machine, order of jobs, or its own estimate; the parts add up to the wait.

    If the settings of the schedule are known (simulate --out writes switches.json), other estimates are tested by a new
    simulation, otherwise by searching for a gap in the schedule.

    Example: `tracekit explain runs/fcfs__easy/schedule.csv sample.swf --job 5000`
    """
    from tracekit.sim.analysis.explain_text import duration, moment
    from tracekit.sim.analysis.resimulate import explain_file

    found = explain_file(schedule, load_trace(trace, from_, None, resource), job, procs=procs, cluster=cluster)
    if json:
        print_json({"schedule": schedule, "trace": trace, **found.to_dict()})
        return
    out = console()
    out.print(found.text())
    if found.wait <= 0:
        return
    rows = table("cause", "of the wait", "share", right=("of the wait", "share"))
    for name, meaning in _MEANINGS.items():
        if found.parts.get(name, 0.0) > 0:
            rows.add_row(meaning, duration(found.parts[name]), f"{found.parts[name] / found.wait:.0%}")
    out.print(rows)
    for other in found.others:
        change = f"{duration(abs(other.earlier))} {'earlier' if other.earlier > 0 else 'later'}"
        then = f"{moment(found, other.start)}, {change if other.earlier else 'no earlier'}"
        out.print(f"with {other.words} ({duration(other.estimate)}): start at {then}")
    if found.others:
        say(f"other estimates were {found.method}")


_MEANINGS = {
    "full": "the machine was full of jobs that ran before",
    "outage": "part of the machine was away, or about to be",
    "ahead": "jobs submitted before it took the place",
    "overtaken": "jobs submitted after it took the place",
    "fragmentation": "enough was free, but no host had room",
    "held_back": "free processors were kept for others",
    "shifted": "held back for less carbon or a lower price",
    "power_cap": "held back by the power cap",
    "waking": "its hosts were waking up",
    "estimate": "its own estimate was too long",
}
