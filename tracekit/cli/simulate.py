"""Commands around the simulator: simulate, policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tracekit.cli.app import Force, Json, Resource, Seed, app, console, print_json, say, search_here, table
from tracekit.cli.compared import SUMMARY, TABLES, check_summary, print_comparison, write_summary
from tracekit.cli.shaken import print_shaken, shaken_rows
from tracekit.cli.timelines import TimelineFile, check_timeline, write_timeline
from tracekit.errors import UsageError
from tracekit.folders import check_folder, writing_folder

if TYPE_CHECKING:
    from tracekit.machine import Unit
    from tracekit.sim.analysis.grid import Grid
    from tracekit.sim.energy.integrate import Energy
    from tracekit.sim.jobs import Table
    from tracekit.sim.simulate import SimResult
    from tracekit.trace import SizeFrom, Trace

In = Annotated[
    str, typer.Argument(metavar="FILE", help="Trace to read: any known format, plain or compressed; - is stdin.")
]
From = Annotated[str | None, typer.Option("--from", help="Format of the trace (default: detected from content).")]
Procs = Annotated[int | None, typer.Option("--procs", help="Size of the machine, instead of the size in the trace.")]
MachineFile = Annotated[str | None, typer.Option("--machine", help="TOML file that describes the machine.")]

Outage = Annotated[
    list[str] | None,
    typer.Option(
        "--outage",
        help="FROM:TO:PROCS (on a cluster FROM:TO:HOST+HOST), seconds as in the trace, or a file; may be repeated.",
    ),
]
Cluster = Annotated[
    str | None, typer.Option("--cluster", help="Hosts: a preset of 'tracekit clusters', or a TOML file.")
]

Power = Annotated[
    str | None,
    typer.Option("--power", help="Power model: a TOML file or a preset, such as frontier, cpu-node or gat-drl."),
]
Carbon = Annotated[
    str | None, typer.Option("--carbon", help="CSV of a time and kg (or g_per_kwh) of CO2 per kWh; see docs/energy.md.")
]
Price = Annotated[
    str | None, typer.Option("--price", help="CSV of a time and a price per kWh (or eur_per_mwh), as --carbon.")
]
SleepAfter = Annotated[
    float | None, typer.Option("--sleep-after", help="With --cluster: seconds after which idle hosts go to sleep.")
]
PowerCap = Annotated[
    float | None, typer.Option("--power-cap", help="kW that the machine may draw; starts wait for it.")
]

#: More results than this are written without figures.
MOST_FIGURES = 12


@app.command()
def simulate(
    file: In,
    policy: Annotated[
        str,
        typer.Option(
            "--policy", help="Policies: a,b,c; 'tracekit policies' lists them. Also agent:DIR and module:Class."
        ),
    ] = "fcfs",
    backfill: Annotated[
        str | None,
        typer.Option(
            "--backfill", help="A list of none, easy, easy-sjf, easy++, conservative, rlscheduler. [default: easy]"
        ),
    ] = None,
    window: Annotated[
        list[str] | None, typer.Option("--window", help="START:COUNT, jobs on an empty machine; may be repeated.")
    ] = None,
    windows: Annotated[
        int | None, typer.Option("--windows", help="Number of random windows, of --jobs jobs each.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", help="Jobs per random window (default: 1024).")] = None,
    seed: Seed = 0,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Policy to compare with over windows (default: the first).")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Folder for schedules, figures and the summary over windows.")
    ] = None,
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Draw Gantt charts, utilisation and comparisons into --out.")
    ] = True,
    estimates: Annotated[
        str, typer.Option("--estimates", help="Estimates: requested, actual, factor:F, noisy:SIGMA or last-two.")
    ] = "requested",
    commit: Annotated[bool, typer.Option("--commit", help="A picked job blocks others until it starts.")] = False,
    kill_at_limit: Annotated[bool, typer.Option("--kill-at-limit", help="Jobs are killed at their limit.")] = False,
    bound: Annotated[float, typer.Option("--bound", help="Threshold of the bounded slowdown, in seconds.")] = 10.0,
    interval: Annotated[float, typer.Option("--interval", help="Seconds between passes; 0 = every event.")] = 0.0,
    reaction: Annotated[
        float,
        typer.Option(
            "--reaction", help="Seconds from an event (at intervals: the first) to its pass; see docs/slurm.md."
        ),
    ] = 0.0,
    group_ends: Annotated[
        float,
        typer.Option("--group-ends", help="For EASY's reservation, ends within so many seconds count as one."),
    ] = 0.0,
    dependencies: Annotated[
        bool, typer.Option("--dependencies", help="Submit jobs think_time after prev_job ends.")
    ] = False,
    outage: Outage = None,
    outage_mode: Annotated[
        str, typer.Option("--outage-mode", help="Running jobs at an outage: drain (finish), kill or requeue.")
    ] = "drain",
    outage_sudden: Annotated[
        bool, typer.Option("--outage-sudden", help="Outages are unplanned: not known in advance.")
    ] = False,
    predict: Annotated[
        str | None,
        typer.Option(
            "--predict",
            help="Predict run times at submit: last-two (as easy++ does), or agent:DIR of task predict-run-time.",
        ),
    ] = None,
    predict_for: Annotated[
        str, typer.Option("--predict-for", help="What goes by the predictions: backfill, order or both.")
    ] = "backfill",
    warmup: Annotated[
        str, typer.Option("--warmup", help="Exclude from the metrics at the start: 5% of the jobs, or 12h.")
    ] = "0",
    cooldown: Annotated[str, typer.Option("--cooldown", help="The same at the end of the trace.")] = "0",
    shake: Annotated[
        int | None, typer.Option("--shake", help="Repeat on this many shaken inputs; mark what is noise.")
    ] = None,
    shake_seconds: Annotated[
        float, typer.Option("--shake-seconds", help="Largest shift of submit times by --shake.")
    ] = 60.0,
    procs_from: Annotated[str, typer.Option("--procs-from", help="Sizes: requested, allocated or max.")] = "requested",
    procs: Procs = None,
    resource: Resource = None,
    compat: Annotated[
        str | None, typer.Option("--compat", help="rlscheduler, rltune, slurm: use all definitions of that system.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", help="NAME=VALUE of multifactor, e.g. half_life=86400.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Simulations in parallel (default: one per core).")
    ] = None,
    cluster: Cluster = None,
    allocate: Annotated[
        str | None,
        typer.Option("--allocate", help="With --cluster: allocators, by comma, or module:Class. [default: first-fit]"),
    ] = None,
    power: Power = None,
    carbon: Carbon = None,
    price: Price = None,
    energy_until: Annotated[
        str | None,
        typer.Option("--energy-until", help="End of the window of the energy: seconds or a time stamp (default: end)."),
    ] = None,
    sleep_after: SleepAfter = None,
    power_cap: PowerCap = None,
    frequency: Annotated[
        float, typer.Option("--frequency", help="Share of the highest frequency; jobs take longer and draw less.")
    ] = 1.0,
    max_extra_wait: Annotated[
        float, typer.Option("--max-extra-wait", help="Seconds to hold jobs back for less --carbon or --price.")
    ] = 0.0,
    timeline: TimelineFile = None,
    machine: MachineFile = None,
    from_: From = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Simulate a trace under one or more policies and compare the results.

    Over windows, means have 95 % intervals, and policies are compared with the baseline window by window: difference
    of the bounded slowdown, its interval, and the p value of Wilcoxon's test. --out also writes summary.csv,
    summary.json and two pictures. With --power, results have the energy of the schedule. --timeline writes the
    schedules for Perfetto (ui.perfetto.dev) or chrome://tracing.

    Example: `tracekit simulate sample.swf --policy fcfs,sjf,wfp3 --backfill none,easy`
    """
    from tracekit.sim.analysis.compare import check_count
    from tracekit.sim.analysis.comparison import Comparison, check_baseline
    from tracekit.sim.analysis.grid import Grid, pairs_of
    from tracekit.sim.analysis.lean import lean_columns
    from tracekit.sim.switches import Switches
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
        predict_for=predict_for,
        warmup=warmup,
        cooldown=cooldown,
        commit=commit,
        kill_at_limit=kill_at_limit,
        bound=bound,
        interval=interval,
        reaction=reaction,
        group_ends=group_ends,
        procs_from=cast("SizeFrom", procs_from),  # this checks the names
        procs=procs,
        resource=cast("Unit | None", resource),
        compat=compat,
        seed=seed,
        options=_options(option),
        cluster=cluster,
        power=power,
        carbon=carbon,
        price=price,
        energy_until=energy_until,
        sleep_after=sleep_after,
        power_cap=power_cap,
        frequency=frequency,
        max_extra_wait=max_extra_wait,
    )
    check_energy(power, carbon, price, energy_until, switches.levers)
    allocators = allocators_of(cluster, allocate)
    policies = policies_of(policy)
    pairs = pairs_of(policies, names_of(backfill or "easy"), switches)
    if shake is not None and "replay" in policies:
        raise UsageError("policy replay repeats the recorded schedule and cannot be used with --shake; remove it")
    if window and windows:
        raise UsageError("give --window START:COUNT or --windows K, not both")
    parts = [parse_window(text) for text in window or []]
    check_length(windows, jobs)
    compared = windows is not None or len(parts) > 1
    check_baseline(baseline, policies)
    if baseline is not None and not compared:
        raise UsageError("--baseline needs several windows: add --windows K, or repeat --window")
    place = None if out is None else Path(out)
    if place is not None:
        check_folder(place)
    check_timeline(timeline, force=force)

    # where only these simulations are made of the trace, the columns that they look at are enough
    columns = lean_columns(pairs, switches) if shake is None and timeline is None else None
    loaded = load_trace(file, from_, machine, resource, columns)
    grids = [
        Grid.of(
            loaded,
            pairs,
            replace(switches, allocate=name),
            parts if windows is None else windows,
            jobs,
            name=file,
            suffix=f"__{name}" * (len(allocators) > 1),
            lean=columns is not None,
        )
        for name in allocators
    ]
    grid = grids[0]
    trace = loaded if columns is None else None
    del loaded  # a large trace takes more memory than its simulation
    if len(grids) > 1:
        compared = False  # differences are between policies of one allocator
    warnings = warn_of_rejections(grid.jobs)
    if place is not None and not force:
        for one in grids:
            one.check_folders(place)
        check_summary(place, compared=compared, figures=figures)
    made = [one.run(threads=threads) for one in grids]
    results = [result for each in made for result in each]
    if any(result.metrics.get("measured_jobs") == 0 for result in results):
        raise UsageError("no job left to measure: reduce --warmup/--cooldown or use more jobs")
    comparison = Comparison.of(grid, results, baseline=baseline) if compared else None
    notes = grid.training_notes() if comparison is None else comparison.notes
    if place is not None:
        outputs = [name for one in grids for name in one.outputs()]
        with writing_folder(place, ours=[*outputs, *SUMMARY], force=force) as folder:
            for one, each in zip(grids, made, strict=True):
                _write(one, each, folder, figures=figures)
            if comparison is not None:
                write_summary(comparison, folder, file, figures=figures)
        say(f"{len(results)} schedule{'s' * (len(results) > 1)} in {out}")
        if comparison is not None:
            say(f"{' and '.join(TABLES)} in {out}")
    if timeline is not None and trace is not None:
        write_timeline(timeline, list(zip(grids, made, strict=True)), trace, cluster, force=force)
    rows = [row for one, each in zip(grids, made, strict=True) for row in one.rows(each)]
    shaken = None
    if shake is not None and trace is not None:
        named = list(grid.names)
        shaken = shaken_rows(
            trace, switches, named, list(grid.windows), rows, count=shake, seconds=shake_seconds, threads=threads
        )
    if json:
        found = {"trace": file, "switches": results[0].switches, "results": rows, "notes": [*warnings, *notes]}
        if comparison is not None:
            found["comparison"] = comparison.to_dict()["comparison"]
        print_json(found if shaken is None else found | {"shake": shaken})
        return
    if comparison is not None:
        print_comparison(comparison, file)
    else:
        _print(file, results[0], rows, len(grid.windows))
    _remark(results[: len(grid.windows) or 1])
    for note in notes:
        say(note)
    if shaken is not None:
        print_shaken(rows, shaken)


def check_energy(
    power: str | None, carbon: str | None, price: str | None, until: str | None = None, levers: Sequence[str] = ()
) -> None:
    """Read the files of the energy before any simulation; those that would have no effect are errors."""
    if power is None and until is not None:
        raise UsageError("--energy-until is the end of the window of the energy: add --power FILE.toml or a preset")
    if power is None and carbon is None and price is None:
        return
    if power is None and not levers:
        flag = "--carbon" if carbon is not None else "--price"
        raise UsageError(f"{flag} is about the energy of the schedule: add --power FILE.toml or a preset")
    from tracekit.sim.energy.account import Asked

    Asked(power, carbon, price).check()


def warn_of_rejections(jobs: Table) -> list[str]:
    """Print a warning on stderr where most of the trace is rejected; return it for the JSON output."""
    from tracekit.sim.jobs import rejection_warning

    warning = rejection_warning(jobs)
    if warning:
        say(warning)
    return [warning] if warning else []


def allocators_of(cluster: str | None, text: str | None) -> list[str]:
    """Split names of allocators at commas; unknown names are errors before any trace is read."""
    from tracekit.sim.hosts.allocators import find_allocator

    if text is not None and cluster is None:
        raise UsageError("--allocate chooses among hosts: add --cluster NAME or FILE.toml")
    names = names_of(text or "first-fit")
    search_here(names)
    for name in names:
        find_allocator(name)
    return names


def outages_of(texts: list[str] | None) -> tuple[Any, ...]:
    """Read the values of --outage."""
    from tracekit.sim.switches import read_outages

    return read_outages(texts) if texts else ()


def names_of(text: str) -> list[str]:
    """Split names at commas; the same name twice is one."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise UsageError(f"'{text}' contains no name; write names separated by commas")
    return names


def policies_of(text: str) -> list[str]:
    """Split names of policies at commas; the user's modules may be in the current folder."""
    names = names_of(text)
    search_here(names)
    return names


def check_length(windows: int | None, jobs: int | None) -> None:
    """Raise UsageError for a window length without windows: it would have no effect."""
    if jobs is not None and windows is None:
        raise UsageError(f"--jobs is the length of random windows: add --windows K, or use --window 0:{jobs}")
    if jobs is not None and jobs < 1:
        raise UsageError("--jobs must be at least 1")


def _options(texts: list[str] | None) -> dict[str, float]:
    found = {}
    for text in texts or []:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise UsageError(f"--option {text}: write NAME=NUMBER, such as half_life=86400") from None
    return found


def load_trace(
    file: str, format: str | None, machine: str | None, resource: str | None, columns: Sequence[str] | None = None
) -> Trace:
    """Read the trace to schedule; print on stderr which unit was chosen and which jobs have none of it."""
    from tracekit.cli.traces import load

    return load(file, format=format, machine=machine, resource=resource, columns=columns)[0]


def _write(grid: Grid, results: list[SimResult], out: Path, *, figures: bool) -> None:
    written = grid.write(out, results)
    draw = figures and len(written) <= MOST_FIGURES
    if figures and not draw:
        say(f"{len(written)} schedules: figures are only drawn for up to {MOST_FIGURES}")
    for place, result in written.items() if draw else ():
        from tracekit import plots

        plots.save(plots.gantt(result), place / "gantt.png", force=True)
        plots.save(plots.utilization(result), place / "utilization.png", force=True)
        if result.hosts is not None:
            draw_hosts(result, place)
        if result.energy is not None:
            draw_energy(result.energy, place)


def draw_hosts(result: SimResult, place: Path) -> None:
    """Draw the pictures of a schedule on hosts; say which of them cannot be drawn."""
    from tracekit import plots
    from tracekit.plots.hosts import HOST_PICTURES

    for name, picture in HOST_PICTURES.items():
        try:
            plots.save(picture(result), place / name, force=True)
        except plots.NothingToDraw as reason:
            say(f"{name} is not drawn: {reason}")


def draw_energy(made: Energy, folder: Path) -> None:
    """Draw power over time and the load-duration curve."""
    from tracekit import plots
    from tracekit.plots.energy import ENERGY_PICTURES

    for name, picture in ENERGY_PICTURES.items():
        plots.save(picture(made), folder / name, force=True)


def _print(file: str, first: SimResult, rows: list[dict[str, Any]], windows: int) -> None:
    hosts, energy = "allocate" in rows[0], "energy" in rows[0]
    titles = ["policy", "backfill", *["allocate"] * hosts, "jobs", "wait, s", "bsld", "p95 bsld", "used", "days"]
    titles += ["kWh", "peak, kW"] * energy
    over = ", one window" if windows else ""
    made = table(
        *titles,
        title=f"{file}: {first.total:,} {first.switches['resource']}{over}",
        right=titles[2 + hosts :],
    )
    for row in rows:
        made.add_row(
            row["policy"],
            row["backfill"],
            *[row["allocate"]] * hosts if hosts else (),
            f"{row['jobs']:,.10g}",
            f"{row['mean_wait_s']:,.0f}",
            f"{row['mean_bsld']:,.2f}",
            f"{row['p95_bsld']:,.1f}",
            f"{row['utilization']:.3f}",
            f"{row['makespan_s'] / 86400:,.2f}",
            *([f"{row['energy']['total_kwh']:,.1f}", f"{row['energy']['peak_kw']:,.1f}"] if energy else ()),
        )
    console().print(made)


def _remark(windows: list[SimResult]) -> None:
    """Print notes on the jobs; ``windows`` are the results of the first policy."""
    first = windows[0]
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
        say(f"without a limit, so that the run time is the estimate: {without:,}")
    if first.metrics.get("dropped"):
        why = (
            "that never fit and dropped, as in RLTune"
            if first.switches["compat"] == "rltune"
            else ("with run time 0 and dropped, as in RLScheduler")
        )
        say(f"{why}: {first.metrics['dropped']:,}")


@app.command()
def policies(json: Json = False) -> None:
    """List the scheduling policies with their formulas; the job with the smallest value starts first.

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
            meaning = (found.__doc__ or "").partition("\n")[0]
            rows.append({"name": name, "formula": getattr(found, "formula", ""), "meaning": meaning, "paper": ""})
    if json:
        print_json({"policies": rows})
        return
    made = table(
        "name", "formula", "meaning", title="s submit, w wait, r estimate (seconds), n processors; smallest first"
    )
    for row in rows:
        made.add_row(row["name"], row["formula"], row["meaning"])
    console().print(made)
