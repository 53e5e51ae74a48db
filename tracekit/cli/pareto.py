"""The command pareto: energy, carbon, cost or peak power against wait, over policies and levers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tracekit.cli.app import Force, Json, Seed, app, console, json_text, print_json, say, table
from tracekit.cli.simulate import (
    Carbon,
    Cluster,
    From,
    In,
    MachineFile,
    Power,
    Price,
    Procs,
    allocators_of,
    load_trace,
    names_of,
    policies_of,
    warn_of_rejections,
)
from tracekit.errors import UnknownName, UsageError

FILES = ("pareto.csv", "pareto.json", "pareto.png")


@app.command()
def pareto(
    file: In,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder for pareto.csv, pareto.json and pareto.png.")],
    policy: Annotated[str, typer.Option("--policy", help="Policies, separated by commas.")] = "fcfs",
    backfill: Annotated[str, typer.Option("--backfill", help="Backfillings, separated by commas.")] = "easy",
    against: Annotated[
        str, typer.Option("--against", help="What to weigh against the wait: energy, carbon, cost or peak.")
    ] = "energy",
    sleep_after: Annotated[str, typer.Option("--sleep-after", help="Values to try, such as none,60,600.")] = "none",
    power_cap: Annotated[str, typer.Option("--power-cap", help="Values to try, kW, such as none,50,40.")] = "none",
    frequency: Annotated[str, typer.Option("--frequency", help="Values to try, such as 1,0.9,0.8.")] = "1",
    max_extra_wait: Annotated[str, typer.Option("--max-extra-wait", help="Values to try, such as 0,14400.")] = "0",
    cluster: Cluster = None,
    allocate: Annotated[
        str | None, typer.Option("--allocate", help="Allocators to try; the second and more with sleep only.")
    ] = None,
    power: Power = None,
    carbon: Carbon = None,
    price: Price = None,
    window: Annotated[str | None, typer.Option("--window", help="START:COUNT, jobs on an empty machine.")] = None,
    estimates: Annotated[str, typer.Option("--estimates", help="As in simulate.")] = "requested",
    procs: Procs = None,
    seed: Seed = 0,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Simulations in parallel.")] = None,
    machine: MachineFile = None,
    from_: From = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Weigh energy against wait: every combination of policies and levers, and which of them no other one beats.

    Energy is over the same window for all, to the last end of any. The delay of a job is its wait and the time by
    which a lower frequency stretches its run.

    Example: `tracekit pareto sample.swf --power cpu-node --frequency 1,0.9,0.8 --policy fcfs,sjf -o front`
    """
    from tracekit import plots
    from tracekit.files import write_text
    from tracekit.folders import check_folder, writing_folder
    from tracekit.plots.pareto import pareto_picture
    from tracekit.sim.analysis.pareto import MEASURES, as_table, compare_settings, mark_front, parse_list, settings_of
    from tracekit.sim.jobs import Table, extract_jobs
    from tracekit.sim.switches import Switches
    from tracekit.sim.windows import parse_window

    if against not in MEASURES:
        raise UnknownName("measure", against, MEASURES)
    common = Switches(
        estimates=estimates, procs=procs, seed=seed, cluster=cluster, power=power, carbon=carbon, price=price
    )
    names = allocators_of(cluster, allocate)
    values: dict[str, list[Any]] = {"allocate": names} if cluster is not None else {}
    values |= {"sleep_after": parse_list(sleep_after, "--sleep-after")}
    values |= {"power_cap": parse_list(power_cap, "--power-cap")}
    values |= {"frequency": [1.0 if x is None else x for x in parse_list(frequency, "--frequency")]}
    values |= {"max_extra_wait": [x or 0.0 for x in parse_list(max_extra_wait, "--max-extra-wait")]}
    policies = policies_of(policy)
    if "replay" in policies:
        raise UsageError("policy replay repeats the recorded schedule and cannot be compared here; remove it")
    settings = settings_of(policies, names_of(backfill), common, values)
    folder, part = Path(out), None if window is None else parse_window(window)
    check_folder(folder, FILES, force=force)
    trace = load_trace(file, from_, machine, None)

    def jobs_for(switches: Switches) -> Table:
        whole = extract_jobs(trace, switches.resolved())
        return whole if part is None else whole.window(*part)

    notes = warn_of_rejections(jobs_for(common))
    rows = mark_front(compare_settings(jobs_for, settings, threads=threads, tell=say), against)
    found = {"trace": file, "against": against, "settings": rows, "notes": notes}
    with writing_folder(folder, ours=list(FILES), force=force) as made:
        write_text(made / FILES[0], as_table(rows))
        write_text(made / FILES[1], json_text(found))
        plots.save(pareto_picture(rows, against), made / FILES[2])
    say(f"{', '.join(FILES)} in {out}")
    if json:
        print_json(found)
        return
    shown = table(
        "front", "setting", "delay, s", "wait, s", against, "peak, kW", right=("delay, s", "wait, s", against)
    )
    for row in rows:
        if row["front"]:
            number = f"{row[MEASURES[against]]:,.1f}"
            waits = f"{row['delay_s']:,.0f}", f"{row['mean_wait_s']:,.0f}"
            shown.add_row("*", row["label"], *waits, number, f"{row['peak_kw']:,.1f}")
    console().print(shown)
