"""Commands around the simulator: simulate, reproduce, policies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tracekit.cli.app import Force, Json, Seed, app, console, print_json, say, table
from tracekit.cli.shaken import print_shaken, shaken_rows
from tracekit.errors import OutputError, TracekitError, UnknownName, UsageError

if TYPE_CHECKING:
    from tracekit.machine import Unit
    from tracekit.sim.simulate import SimResult
    from tracekit.trace import SizeFrom, Trace

In = Annotated[
    str, typer.Argument(metavar="FILE", help="Trace to read: any known format, plain or compressed; - is stdin.")
]
From = Annotated[str | None, typer.Option("--from", help="Format of the trace (default: found by content).")]
Procs = Annotated[int | None, typer.Option("--procs", help="Size of the machine, in place of what the trace says.")]
Resource = Annotated[str | None, typer.Option("--resource", help="What is scheduled: procs, nodes or gpus.")]
MachineFile = Annotated[str | None, typer.Option("--machine", help="TOML file that describes the machine.")]

Outage = Annotated[
    list[str] | None,
    typer.Option("--outage", help="FROM:TO:PROCS, seconds as in the trace, or a file of such lines; may be repeated."),
]

#: More results than this are written without figures: nobody would look at them all.
MOST_FIGURES = 12


@app.command()
def simulate(
    file: In,
    policy: Annotated[
        str, typer.Option("--policy", help="Policies, by comma; 'tracekit policies' lists them.")
    ] = "fcfs",
    backfill: Annotated[
        str | None,
        typer.Option(
            "--backfill", help="none, easy, easy-sjf, easy++, conservative or rlscheduler, by comma. [default: easy]"
        ),
    ] = None,
    window: Annotated[
        list[str] | None, typer.Option("--window", help="START:COUNT, jobs on an empty machine; may be given again.")
    ] = None,
    windows: Annotated[
        int | None, typer.Option("--windows", help="So many random windows, of --jobs jobs each.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", help="Jobs of a random window (default: 1024).")] = None,
    seed: Seed = 0,
    out: Annotated[str | None, typer.Option("--out", "-o", help="Folder for schedules and figures.")] = None,
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Draw Gantt chart and utilisation into --out.")
    ] = True,
    estimates: Annotated[
        str, typer.Option("--estimates", help="requested, actual, factor:F, noisy:SIGMA or last-two.")
    ] = "requested",
    commit: Annotated[bool, typer.Option("--commit", help="A picked job blocks until it starts.")] = False,
    kill_at_limit: Annotated[bool, typer.Option("--kill-at-limit", help="Jobs end at their limit.")] = False,
    bound: Annotated[float, typer.Option("--bound", help="Seconds, of the bounded slowdown.")] = 10.0,
    interval: Annotated[float, typer.Option("--interval", help="Seconds between passes; 0 = at every event.")] = 0.0,
    dependencies: Annotated[
        bool, typer.Option("--dependencies", help="Jobs are submitted think_time after their predecessor ends.")
    ] = False,
    outage: Outage = None,
    outage_mode: Annotated[
        str, typer.Option("--outage-mode", help="Running jobs in the way: drain (finish), kill or requeue.")
    ] = "drain",
    outage_sudden: Annotated[
        bool, typer.Option("--outage-sudden", help="Nobody knows of an outage before it begins.")
    ] = False,
    predict: Annotated[
        str | None, typer.Option("--predict", help="last-two: backfill by corrected predictions (easy++ does).")
    ] = None,
    warmup: Annotated[
        str, typer.Option("--warmup", help="Left out of the metrics at the start: 5% of the jobs, or 12h.")
    ] = "0",
    cooldown: Annotated[str, typer.Option("--cooldown", help="The same at the end.")] = "0",
    shake: Annotated[
        int | None, typer.Option("--shake", help="Repeat on so many shaken inputs, and say what is noise.")
    ] = None,
    shake_seconds: Annotated[
        float, typer.Option("--shake-seconds", help="How far --shake moves submits, at most.")
    ] = 60.0,
    procs_from: Annotated[str, typer.Option("--procs-from", help="requested, allocated or max.")] = "requested",
    procs: Procs = None,
    resource: Resource = None,
    compat: Annotated[
        str | None, typer.Option("--compat", help="rlscheduler: that system's meanings, all at once.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", help="NAME=VALUE of multifactor, e.g. half_life=86400.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Simulations at once (default: one per core).")
    ] = None,
    machine: MachineFile = None,
    from_: From = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Schedule a trace's jobs under one or more policies and compare what comes out.

    Example: `tracekit simulate sample.swf --policy fcfs,sjf,wfp3 --backfill none,easy`
    """
    from tracekit.sim.analysis.compare import check_count
    from tracekit.sim.jobs import extract_jobs
    from tracekit.sim.policies.builtin import find
    from tracekit.sim.runs import Run, run_all
    from tracekit.sim.switches import Switches, backfill_for
    from tracekit.sim.windows import parse_window

    if shake is not None:
        check_count(shake)
    switches = Switches(
        estimates=estimates,
        dependencies=dependencies,
        outages=outages_of(outage),
        outage_mode=cast("Any", outage_mode),
        outages_announced=not outage_sudden,
        predict=predict,
        warmup=warmup,
        cooldown=cooldown,
        commit=commit,
        kill_at_limit=kill_at_limit,
        bound=bound,
        interval=interval,
        procs_from=cast("SizeFrom", procs_from),  # names are checked there
        procs=procs,
        resource=cast("Unit | None", resource),
        compat=compat,
        seed=seed,
        options=_options(option),
    )
    policies = names_of(policy)
    backfills = names_of(backfill or "easy")
    for name in policies:
        find(name)
    backfills = list(dict.fromkeys(backfill_for(name, switches) for name in backfills))
    if shake is not None and "replay" in policies:
        raise UsageError("replay decides nothing, so shaking its input tells nothing; leave it out")
    if window and windows:
        raise UsageError("give --window START:COUNT or --windows K, not both")
    parts = [parse_window(text) for text in window or []]
    check_length(windows, jobs)
    if out is not None and Path(out).is_file():
        raise OutputError(f"{out}: is a file; --out needs a folder")

    trace = _load(file, from_, machine)
    whole = extract_jobs(trace, switches.resolved())
    if windows is not None:
        parts = random_windows(len(whole), windows, jobs or 1024, seed)
    tables = [whole.window(*part) for part in parts] or [whole]
    pairs = [(p, b) for p in policies for b in (["none"] if p == "replay" else backfills)]
    folders = [f"{p}__{b}" + (f"__w{part[0]}" if parts else "") for p, b in pairs for part in parts or [(0, 0)]]
    if out is not None:
        _check_folders(Path(out), folders, force)
    results = run_all([Run(jobs, p, b, switches) for p, b in pairs for jobs in tables], threads=threads)

    if not any(len(result) for result in results):
        reasons = ", ".join(results[0].rejected) or "it has none"
        raise TracekitError(f"{file}: no job can be simulated ({reasons}); 'tracekit validate {file}' says more")
    if any(result.metrics.get("measured_jobs") == 0 for result in results):
        raise UsageError(f"warm-up {warmup} and cool-down {cooldown} leave no job to measure")
    if out is not None:
        _write(Path(out), dict(zip(folders, results, strict=True)), parts, figures=figures)
    count = len(tables)
    grouped = [results[i : i + count] for i in range(0, len(results), count)]
    rows = [_row(group, parts) for group in grouped]
    shaken = None
    if shake is not None:
        shaken = shaken_rows(trace, switches, pairs, parts, rows, count=shake, seconds=shake_seconds, threads=threads)
    if json:
        found = {"trace": file, "switches": results[0].switches, "results": rows}
        print_json(found if shaken is None else found | {"shake": shaken})
        return
    _print(file, results[:count], rows, parts)
    if shaken is not None:
        print_shaken(rows, shaken)


def outages_of(texts: list[str] | None) -> tuple[Any, ...]:
    """Read what --outage was given."""
    from tracekit.sim.switches import read_outages

    return read_outages(texts) if texts else ()


def names_of(text: str) -> list[str]:
    """Split names at commas; the same name twice is one."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise UsageError(f"'{text}' names nothing; write names with commas between them")
    return names


def check_length(windows: int | None, jobs: int | None) -> None:
    """Refuse a length of windows where nobody asked for any: it would be passed over in silence."""
    if jobs is not None and windows is None:
        raise UsageError(f"--jobs is the length of random windows: add --windows K, or take --window 0:{jobs}")
    if jobs is not None and jobs < 1:
        raise UsageError("--jobs must be at least 1")


def random_windows(count: int, windows: int, jobs: int, seed: int) -> list[tuple[int, int]]:
    """Draw windows from a trace of ``count`` jobs; no more of them than there are places."""
    from tracekit.sim.windows import draw_windows

    places = count - jobs + 1
    if 0 < places < windows:
        raise UsageError(f"--windows {windows:,}: {count:,} jobs hold only {places:,} of {jobs:,} jobs")
    return draw_windows(count, windows, jobs, seed)


def _options(texts: list[str] | None) -> dict[str, float]:
    found = {}
    for text in texts or []:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise UsageError(f"--option {text}: write NAME=NUMBER, such as half_life=86400") from None
    return found


def _load(file: str, format: str | None, machine: str | None) -> Trace:
    from tracekit.api import read

    return read(file, format, machine=machine)


def _check_folders(out: Path, folders: list[str], force: bool) -> None:
    for folder in folders:
        if (out / folder / "schedule.csv").exists() and not force:
            raise OutputError(f"{out / folder / 'schedule.csv'}: exists already; use --force to replace it")


def _write(out: Path, results: dict[str, SimResult], parts: list[tuple[int, int]], *, figures: bool) -> None:
    from tracekit.files import write_text, writing

    draw = figures and len(results) <= MOST_FIGURES
    if figures and not draw:
        say(f"{len(results)} schedules: no figures are drawn for more than {MOST_FIGURES}")
    for number, (folder, result) in enumerate(results.items()):
        place = out / folder
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{place}: cannot be made: {error.strerror}") from None
        with writing(place / "schedule.csv", force=True) as target:
            result.schedule().to_csv(target, index=False, lineterminator="\n")
        made_by = result.made_by(parts[number % len(parts)] if parts else None)
        write_text(place / "switches.json", made_by, force=True)
        if draw:
            from tracekit import plots

            plots.save(plots.gantt(result), place / "gantt.png", force=True)
            plots.save(plots.utilization(result), place / "utilization.png", force=True)
    say(f"{len(results)} schedule{'s' * (len(results) > 1)} in {out}")


def _row(group: list[SimResult], parts: list[tuple[int, int]]) -> dict[str, Any]:
    from tracekit.sim.runs import mean_summary

    if not parts:
        return group[0].summary()
    windows = [{"start": start, **result.summary()} for (start, _), result in zip(parts, group, strict=True)]
    return {**mean_summary(group), "windows": windows}


def _print(file: str, windows: list[SimResult], rows: list[dict[str, Any]], parts: list[tuple[int, int]]) -> None:
    """Show the table, and what is remarkable about the jobs; ``windows`` are the results of the first policy."""
    first = windows[0]
    titles = ["policy", "backfill", "jobs", "wait, s", "bsld", "p95 bsld", "used", "days"]
    over = f", means over {len(parts)} windows" if parts else ""
    made = table(
        *titles,
        title=f"{file}: {first.total:,} {first.switches['resource']}{over}",
        right=titles[2:],
    )
    for row in rows:
        made.add_row(
            row["policy"],
            row["backfill"],
            f"{row['jobs']:,.10g}",
            f"{row['mean_wait_s']:,.0f}",
            f"{row['mean_bsld']:,.2f}",
            f"{row['p95_bsld']:,.1f}",
            f"{row['utilization']:.3f}",
            f"{row['makespan_s'] / 86400:,.2f}",
        )
    console().print(made)
    rejected = Counter[str]()
    for result in windows:
        rejected.update(result.rejected)
    for reason, count in rejected.items():
        say(f"rejected, {reason}: {count:,}")
    for kind in ("dependencies", "outages"):
        counts = Counter[str]()
        for result in windows:
            counts.update(result.metrics.get(kind, {}))
        if counts:
            say(f"{kind}: " + ", ".join(f"{count:,.10g} {word.replace('_', ' ')}" for word, count in counts.items()))
    without = sum(result.metrics["jobs_without_limit"] for result in windows)
    if without and first.switches["estimates"] in ("requested", "last-two"):
        say(f"without a limit, so that the run time serves as the estimate: {without:,}")
    if first.metrics.get("dropped"):
        say(f"of no length and dropped, as RLScheduler does: {first.metrics['dropped']:,}")


@app.command()
def reproduce(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="rlscheduler (SC'20): FCFS, WFP3, UNICEP, SJF, F1.")],
    trace: Annotated[str | None, typer.Option("--trace", help="Another trace under the same protocol.")] = None,
    procs: Procs = None,
    json: Json = False,
) -> None:
    """Recompute a published table with its authors' own meanings, beside the printed numbers.

    Example: `tracekit reproduce rlscheduler --trace sample.swf`
    """
    from tracekit.api import read
    from tracekit.sim.analysis import reproduce as studies

    if study != "rlscheduler":
        raise UnknownName("study", study, ["rlscheduler"])
    files = [trace] if trace is not None else [str(path) for path in studies.default_traces()]
    cells = [{"trace": file, **cell} for file in files for cell in studies.rlscheduler(read(file), procs=procs)]
    if json:
        print_json({"trace": " + ".join(files), "windows": list(studies.WINDOWS), "cells": cells})
        return
    for file in files:
        titles = ["policy", "backfill", "bsld", "published", "utilisation", "published ", ""]
        made = table(
            *titles,
            title=f"{file}: means over {len(studies.WINDOWS)} windows of {studies.WINDOW_JOBS:,} jobs",
            right=titles[2:6],
        )
        for cell in (cell for cell in cells if cell["trace"] == file):
            printed = cell["published"] is not None
            same = printed and studies.agrees(cell)
            made.add_row(
                cell["policy"],
                "yes" if cell["backfill"] else "no",
                f"{cell['bsld']:.2f}",
                f"{cell['published']:.2f}" if printed else "–",
                f"{cell['utilization']:.3f}",
                f"{cell['published_utilization']:.3f}" if printed else "–",
                "" if not printed else "same" if same else "differs",
            )
        console().print(made)


@app.command()
def policies(json: Json = False) -> None:
    """List the scheduling policies with their formulas; the smallest value starts first.

    Example: `tracekit policies`
    """
    from tracekit.sim.policies.builtin import POLICIES
    from tracekit.sim.policies.protocol import BuiltIn

    rows = []
    for name in POLICIES:
        found = POLICIES.get(name)
        if isinstance(found, BuiltIn):
            rows.append({"name": name, "formula": found.formula, "meaning": found.meaning, "paper": found.paper})
        else:
            rows.append({"name": name, "formula": "", "meaning": (found.__doc__ or "").partition("\n")[0], "paper": ""})
    if json:
        print_json({"policies": rows})
        return
    made = table(
        "name", "formula", "meaning", title="s submit, w wait, r estimate (seconds), n processors; smallest first"
    )
    for row in rows:
        made.add_row(row["name"], row["formula"], row["meaning"])
    console().print(made)
