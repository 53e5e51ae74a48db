"""The command energy: what a schedule draws, by part, by job and by user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli.app import Force, Json, Resource, app, console, json_text, print_json, say, table
from tracekit.cli.simulate import Carbon, Cluster, From, In, Power, Price, Procs, draw_energy

if TYPE_CHECKING:
    import pandas as pd

    from tracekit.sim.energy.integrate import Energy

OUTPUTS = ("energy.json", "schedule.csv", "users.csv", "power.png", "load-duration.png")
#: Users that the table shows.
SHOWN_USERS = 5


@app.command()
def energy(
    trace: In,
    schedule: Annotated[
        str | None,
        typer.Option("--schedule", help="CSV: job_id,start_time,end_time,procs[,hosts] (default: as recorded)."),
    ] = None,
    cluster: Cluster = None,
    power: Power = None,
    carbon: Carbon = None,
    price: Price = None,
    until: Annotated[
        str | None, typer.Option("--until", help="End of the window: seconds, or a time stamp. [default: the last end]")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Folder for energy.json, schedule.csv, users.csv and pictures.")
    ] = None,
    procs: Procs = None,
    resource: Resource = None,
    from_: From = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Work out the energy of a schedule from any tool: kWh by part, of jobs and of idle hosts, peak, carbon and cost.

    The window goes from the first submit to --until. Without --power the power fields of --cluster count.

    Example: `tracekit energy sample.swf --power cpu-node`
    """
    from tracekit.cli.traces import load
    from tracekit.folders import check_folder, writing_folder
    from tracekit.sim.analysis.check import read_schedule
    from tracekit.sim.energy.account import Asked, energy_of_schedule, recorded_schedule, rows_of, users_of

    if out is not None:
        check_folder(Path(out), OUTPUTS, force=force)
    asked = Asked(power, carbon, price, until)
    asked.check()
    ran = None if schedule is None else read_schedule(schedule)
    jobs = load(trace, format=from_, procs=procs, resource=resource)[0]
    if ran is None:
        ran, rows = recorded_schedule(jobs)
        if len(rows) < len(jobs):
            say(f"{len(jobs) - len(rows):,} of {len(jobs):,} jobs have no recorded wait, run time or size: left out")
    else:
        rows = rows_of(ran, jobs)
    made = energy_of_schedule(ran, jobs, cluster, asked, rows)
    users = users_of(made, jobs, rows)
    found = {"trace": trace, "schedule": schedule, "jobs": len(ran), **made.to_dict(), "users": users}
    if out is not None:
        with writing_folder(Path(out), ours=[*OUTPUTS], force=force) as folder:
            _write(folder, found, ran.assign(energy_kwh=made.job_kwh), made)
        say(f"{', '.join(OUTPUTS)} in {out}")
    if json:
        print_json(found)
        return
    print_energy(made, f"{schedule or trace}: {made.model}")
    shown = table("user", "jobs", "kWh", right=("jobs", "kWh"))
    for user in users[:SHOWN_USERS]:
        shown.add_row(user["user"] or "unknown", f"{user['jobs']:,}", f"{user['energy_kwh']:,.1f}")
    console().print(shown)
    for note in made.notes:
        say(note)


def _write(folder: Path, found: dict[str, Any], schedule: pd.DataFrame, made: Energy) -> None:
    import pandas as pd

    from tracekit.files import write_text

    write_text(folder / "energy.json", json_text(found))
    schedule.to_csv(folder / "schedule.csv", index=False, lineterminator="\n")
    pd.DataFrame(found["users"]).to_csv(folder / "users.csv", index=False, lineterminator="\n")
    draw_energy(made, folder)


def print_energy(made: Energy, title: str) -> None:
    """Print the table of one schedule."""
    facts = made.to_dict()
    shown = table("energy", "kWh", "share", title=title, right=("kWh", "share"))
    rows = [("jobs", made.jobs_kwh), ("idle", made.idle_kwh), ("overhead", made.overhead_kwh)]
    total = made.total_kwh
    for name, kwh in [*rows, ("total", total), *((f"  {part}", kwh) for part, kwh in made.parts_kwh.items() if kwh)]:
        shown.add_row(name, f"{kwh:,.1f}", f"{kwh / total:.1%}" if total else "")
    console().print(shown)
    words = [f"peak {made.peak_kw:,.1f} kW", f"mean {facts['mean_kw']:,.1f} kW"]
    words += [f"PUE {facts['mean_pue']:.3f}"] if facts["mean_pue"] is not None else []
    words += [f"{made.carbon_kg:,.1f} kg of CO2"] if made.carbon_kg is not None else []
    words += [f"cost {made.cost:,.2f}"] if made.cost is not None else []
    console().print(", ".join(words))
