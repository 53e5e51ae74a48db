"""The command that takes an agent and an allocator apart: ablation."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tracekit.cli.app import Force, Json, Seed, app, console, json_text, print_json, say, table
from tracekit.cli.simulate import From, In, MachineFile, load_trace, names_of
from tracekit.folders import check_folder, writing_folder

OUTPUTS = ("ablation.json", "ablation.csv", "ablation.md", "ablation.png", "ablation.svg")
AGENTS = "agents"
_NAMES = {
    "wait": "mean wait, s",
    "jct": "job completion time, s",
    "bsld": "bounded slowdown",
    "makespan": "makespan, s",
    "fragmentation": "fragmentation",
    "gpu_utilization": "GPU utilisation",
    "utilization": "utilisation",
}


@app.command()
def ablation(
    file: In,
    cluster: Annotated[str, typer.Option("--cluster", help="A preset of 'tracekit clusters', or a TOML file.")],
    out: Annotated[str, typer.Option("--output", "-o", help="Folder for agents, figures and the page.")],
    base: Annotated[str, typer.Option("--base", help="Base policies, by comma.")] = "fcfs,sjf,wfp3,f1",
    greedy: Annotated[str, typer.Option("--greedy", help="The plain allocator.")] = "lexicographic",
    allocate: Annotated[str, typer.Option("--allocate", help="The allocator whose effect is measured.")] = "milp",
    backfill: Annotated[str, typer.Option("--backfill", help="none, easy or easy-sjf, for all arms.")] = "easy",
    estimates: Annotated[
        str, typer.Option("--estimates", help="requested, actual, factor:F or noisy:SIGMA, for all arms.")
    ] = "requested",
    objective: Annotated[str, typer.Option("--objective", help="What agents minimise.")] = "wait",
    windows: Annotated[int, typer.Option("--windows", help="Held-out windows.")] = 30,
    jobs: Annotated[int, typer.Option("--jobs", help="Jobs per window.")] = 256,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Decisions that each agent learns from.")] = 60_000,
    init: Annotated[
        str,
        typer.Option(
            "--init", help="Start of a training: search, base (as the base policy), imitate:POLICY or agent:DIR."
        ),
    ] = "search",
    seed: Seed = 0,
    machine: MachineFile = None,
    from_: From = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare base policies alone, with an allocator, with an agent, and with both, on the same held-out windows.

    Agents are trained on the first 70 % of the trace, on top of each base policy. Differences to the base policy are in
    pairs, with 95 % intervals. An interrupted run continues: agents in the folder are used if their settings are equal.

    Example: `tracekit ablation jobs.csv --cluster rltune-helios --base fcfs,sjf -o run`
    """
    from tracekit.files import write_text
    from tracekit.plots import save
    from tracekit.plots.ablation import effects
    from tracekit.sim.analysis.ablation import Plan
    from tracekit.sim.analysis.ablation import ablation as take_apart

    folder = check_folder(out, OUTPUTS, force=force)
    plan = Plan(
        cluster,
        tuple(names_of(base)),
        greedy,
        allocate,
        backfill,
        objective,
        windows,
        jobs,
        steps,
        init,
        seed,
        {"estimates": estimates},
    )
    trace = load_trace(file, from_, machine, None)
    found = take_apart(trace, plan, folder / AGENTS, say=say)
    plain = {"trace": file} | found.to_dict()
    with writing_folder(folder, ours=[*OUTPUTS], force=force) as made:
        write_text(made / OUTPUTS[0], json_text(plain))
        write_text(made / OUTPUTS[1], "\n".join(_lines(plain)) + "\n")
        write_text(made / OUTPUTS[2], page(plain))
        figure = effects(plain)
        for name in OUTPUTS[3:]:
            save(figure, made / name)
    say(f"{', '.join(OUTPUTS)} in {folder}")
    if json:
        print_json(plain)
    else:
        _print(plain)


def _lines(plain: dict[str, Any]) -> list[str]:
    """Return the table as CSV, a row for each base policy, arm and measure."""
    lines = ["base,arm,measure,mean,paired_difference,low,high,p"]
    for row in plain["rows"]:
        for name in _NAMES:
            if name in row:
                cells = [row[name].get(key, "") for key in ("mean", "paired_difference", "low", "high", "p")]
                lines.append(f"{row['base']},{row['arm']},{name}," + ",".join(_number(cell) for cell in cells))
    return lines


def _number(value: Any) -> str:
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def _cell(value: dict[str, Any]) -> str:
    """Return a mean, with the difference to the base policy and its interval."""
    text = f"{value['mean']:,.4g}"
    if "paired_difference" in value:
        text += f" ({value['paired_difference']:+,.3g}; {value['low']:+,.3g} … {value['high']:+,.3g})"
    return text


def page(plain: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    plan, rows = plain["plan"], plain["rows"]
    measures = [name for name in _NAMES if name in rows[0]]
    text = [
        f"# Base policies on {plan['cluster']}: alone, with {plan['allocate']}, with an agent, with both",
        "",
        f"{plain['trace']}, {len(plain['windows'])} held-out windows of {plan['jobs']:,} jobs, backfilling "
        f"{plan['backfill']}, estimates {plan['switches']['estimates']}. `base` and `agent` place by {plan['greedy']}. "
        f"Agents minimise {plan['objective']} ({plan['steps']:,} decisions, start: {plan['init']}). In brackets: the "
        "difference to the base policy in pairs, and its 95 % interval.",
        "",
        *(f"Note: {note}." for note in plain["notes"]),
        "",
        "![Change against the base policy](ablation.png)",
        "",
        "| base | arm | " + " | ".join(_NAMES[name] for name in measures) + " |",
        "|---|---|" + "---|" * len(measures),
    ]
    text += [
        f"| {row['base']} | {row['arm']} | " + " | ".join(_cell(row[name]) for name in measures) + " |" for row in rows
    ]
    pools = sorted({pool for row in rows for pool in row["pools"]})
    if len(pools) > 1:
        text += ["", "Mean wait by pool, in seconds:", "", "| base | arm | " + " | ".join(pools) + " |"]
        text += ["|---|---|" + "---|" * len(pools)]
        text += [
            f"| {row['base']} | {row['arm']} | "
            + " | ".join(f"{row['pools'][pool]:,.4g}" if pool in row["pools"] else "" for pool in pools)
            + " |"
            for row in rows
        ]
    return "\n".join(text) + "\n"


def _print(plain: dict[str, Any]) -> None:
    """Print the measures that RLTune reports."""
    shown = (
        ("wait", "jct", "gpu_utilization") if "gpu_utilization" in plain["rows"][0] else ("wait", "jct", "utilization")
    )
    titles = ["base", "arm", *(_NAMES[name] for name in shown)]
    made = table(*titles, title=f"{plain['trace']} on {plain['plan']['cluster']}", right=titles[2:])
    for row in plain["rows"]:
        made.add_row(row["base"], row["arm"], *(_cell(row[name]) for name in shown))
    console().print(made)
    for note in plain["notes"]:
        say(note)
