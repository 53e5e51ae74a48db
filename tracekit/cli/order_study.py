"""The command that compares starts of a search for the best order: order-study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from tracekit.cli.app import Force, Json, Resource, Seed, Settings, app, console, json_text, print_json, say, table
from tracekit.cli.order_agents import labelling_progress, task_of
from tracekit.cli.simulate import From, In, MachineFile, Procs, load_trace
from tracekit.errors import UsageError

OUTPUTS = ("study.json", "study.csv", "windows.csv", "study.md", "study.png", "study.svg")


@app.command("order-study")
def order_study(
    file: In,
    out: Annotated[str, typer.Option("--output", "-o", help="Folder for agents, figures and tables.")],
    agent: Annotated[
        list[str] | None,
        typer.Option("--agent", help="An agent of task order; may be repeated. [default: they are trained here]"),
    ] = None,
    windows: Annotated[int, typer.Option("--windows", min=2, help="Windows, later than those learnt from.")] = 20,
    jobs: Annotated[int, typer.Option("--jobs", min=2, help="Jobs of a queue.")] = 64,
    evaluations: Annotated[str, typer.Option("--evaluations", help="Budgets, with commas.")] = "50,200,1000,2000,10000",
    estimates: Annotated[
        str, typer.Option("--estimates", help="Run times that are seen: requested, actual, or both.")
    ] = "both",
    solver: Annotated[str, typer.Option("--solver", help="Search from both starts, as in order.")] = "hill-climb",
    decode: Annotated[
        str,
        typer.Option(
            "--decode", help="Orders of the network, at most half of the evaluations: greedy, sample:K or beam:K."
        ),
    ] = "sample:100",
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Seeds of each search.")] = 3,
    reference: Annotated[
        int, typer.Option("--reference", min=0, help="Evaluations of the search for best known orders.")
    ] = 100_000,
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE.toml", help="Settings of the trainings, as in train.")
    ] = None,
    objective: Annotated[str, typer.Option("--objective", help="As in order.")] = "wait",
    ages: Annotated[str | None, typer.Option("--ages", help="real, or ilos. [default: real]")] = None,
    backfill: Annotated[str, typer.Option("--backfill", help="none or easy; both keep the given order.")] = "none",
    compat: Annotated[str | None, typer.Option("--compat", help="ilos: as in order.")] = None,
    split: Annotated[
        float, typer.Option("--split", help="Share of the trace, in time, to train on; half of the rest validates.")
    ] = 0.7,
    procs: Procs = None,
    resource: Resource = None,
    seed: Seed = 0,
    machine: MachineFile = None,
    from_: From = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare heuristics, a network, and searches from both at equal evaluations, on windows later than it learnt from.

    Once with requested run times, as a scheduler knows them, and once with actual ones. An interrupted study
    continues with the same command: trainings and finished parts in the folder are used.

    Example: `tracekit order-study sample.swf -o study --windows 4 --jobs 16 --config small.toml --reference 1000`
    """
    from tracekit.cli.learn import progress_of_training, source_of
    from tracekit.files import write_text
    from tracekit.folders import check_folder, writing_folder
    from tracekit.plots import save
    from tracekit.plots.orders import study_figure
    from tracekit.sim.agents.order.config import OrderConfig
    from tracekit.sim.analysis.order_study import SEEN, Plan, Sources, study

    folder = check_folder(out, OUTPUTS, force=force)
    if estimates not in (*SEEN, "both"):
        raise UsageError(f"--estimates {estimates}: write requested, actual or both")
    task = task_of(objective=objective, ages=ages, backfill=backfill, compat=compat, procs=procs, resource=resource)
    plan = Plan(task, windows, jobs, _budgets(evaluations), solver, decode, repeats, reference, split, seed)
    sources = Sources(
        folder,
        _given(agent or []),
        OrderConfig.load(config) if config is not None else OrderConfig(),
        source_of(file),
        say,
        None if Settings.quiet else progress_of_training(),
        labelling_progress(),
    )
    trace = load_trace(file, from_, machine, resource)
    found = study(trace, plan, sources, SEEN if estimates == "both" else (cast("Any", estimates),))
    plain = {"trace": Path(file).name} | found.to_dict()
    figure = study_figure(found, Path(file).name)
    with writing_folder(folder, ours=[*OUTPUTS], force=force) as made:
        write_text(made / OUTPUTS[0], json_text(plain))
        write_text(made / OUTPUTS[1], "\n".join(_lines(plain)) + "\n")
        write_text(made / OUTPUTS[2], "\n".join(_windows(found)) + "\n")
        write_text(made / OUTPUTS[3], page(plain))
        for name in OUTPUTS[4:]:
            save(figure, made / name)
    say(f"{', '.join(OUTPUTS)} in {folder}")
    if json:
        print_json(plain)
    else:
        _print(plain)


def _budgets(text: str) -> tuple[int, ...]:
    """Read numbers of evaluations."""
    words = [word.strip().replace("_", "") for word in text.split(",")]
    if not all(word.isdigit() and int(word) > 0 for word in words):
        raise UsageError(f"--evaluations {text}: write numbers above 0 with commas, such as 50,200,1000")
    return tuple(sorted({int(word) for word in words}))


def _given(agents: list[str]) -> dict[str, str]:
    """Return agents by the run times that they see."""
    from tracekit.sim.agents import Agent
    from tracekit.sim.agents.order.solver import network_of

    found: dict[str, str] = {}
    for name in agents:
        loaded = Agent.load(name.removeprefix("agent:"))
        network_of(loaded)
        seen = loaded.task["estimates"]
        if seen in found:
            raise UsageError(f"--agent {name}: sees {seen} run times, as {found[seen]} does; give one of them")
        found[seen] = name.removeprefix("agent:")
    return found


def _lines(plain: dict[str, Any]) -> list[str]:
    """Return a row for each arm."""
    lines = ["estimates,start,evaluations,value,value_low,value_high,gap,gap_low,gap_high,difference,low,high,p"]
    for row in plain["rows"]:
        cells = [row[name][key] for name in ("value", "gap") for key in ("mean", "low", "high")]
        other = row.get("gap_difference", {})
        cells += [other.get(key, "") for key in ("paired_difference", "low", "high", "p")]
        words = (f"{cell:.8g}" if isinstance(cell, float) else str(cell) for cell in cells)
        lines.append(f"{row['estimates']},{row['start']},{row['evaluations']}," + ",".join(words))
    return lines


def _windows(found: Any) -> list[str]:
    """Return a row for each arm and window."""
    lines = ["estimates,start,evaluations,window,jobs,value,gap"]
    for seen, arms in found.arms.items():
        for arm in arms:
            gaps = found.gap(seen, arm)
            lines += [
                f"{seen},{arm.start},{arm.evaluations},{start},{jobs},{value:.10g},{gap:.6g}"
                for (start, jobs), value, gap in zip(found.windows, arm.value, gaps, strict=True)
            ]
    return lines


_SEEN = {
    "requested": "requested run times, as a scheduler knows them",
    "actual": "actual run times, which nobody knows",
}


def page(plain: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    plan = plain["plan"]
    goal = plan["task"]["objective"]
    text = [
        f"# Orders of {plain['trace']}: heuristic, network, search",
        "",
        f"{len(plain['windows'])} windows of {plan['jobs']} jobs, later than those learnt from; {plan['solver']}, "
        f"means of {plan['repeats']} seeds; network by {plan['decode']}, each of its orders is an evaluation. Values "
        f"are means of {goal} with actual run times; gaps are to the lowest cost known, by the run times seen. In "
        "brackets: 95 % intervals over windows.",
        "",
        *(f"Note: {note}.\n" for note in plain["notes"]),
        "![Values and gaps](study.png)",
        "",
    ]
    for seen in dict.fromkeys(row["estimates"] for row in plain["rows"]):
        text += [
            f"## With {_SEEN[seen]}",
            "",
            "| start | evaluations | mean " + goal + " | gap | network − heuristic |",
        ]
        text += ["|---|---|---|---|---|"]
        text += ["| " + " | ".join(_cells(row)) + " |" for row in _shown(plain, seen)]
        text += ["", *_goal(plain, seen), ""]
    return "\n".join([*text, *_gain(plain)]) + "\n"


def _shown(plain: dict[str, Any], seen: str) -> list[dict[str, Any]]:
    rows = [row for row in plain["rows"] if row["estimates"] == seen]
    return [row for row in rows if row["start"] in ("heuristic", "network")]


def _cells(row: dict[str, Any]) -> list[str]:
    gap, other = row["gap"], row.get("gap_difference")
    return [
        "best heuristic" if row["evaluations"] == 0 else row["start"],
        f"{row['evaluations']:,}",
        f"{row['value']['mean']:,.5g}",
        f"{gap['mean']:.2%} [{gap['low']:.2%}, {gap['high']:.2%}]",
        f"{other['paired_difference']:+.2%} [{other['low']:+.2%}, {other['high']:+.2%}]" if other else "",
    ]


def _goal(plain: dict[str, Any], seen: str) -> list[str]:
    """Return the sentence about few evaluations from the network and many from the heuristic."""
    goal = plain["goal"][seen]
    if goal is None:
        return []
    other = goal["difference"]
    return [
        f"Network and {goal['network']:,} evaluations against heuristic and {goal['heuristic']:,}: gap "
        f"{goal['mean']:.2%} against {other['mean']:.2%}, difference {other['paired_difference']:+.2%} "
        f"[{other['low']:+.2%}, {other['high']:+.2%}]."
    ]


def _gain(plain: dict[str, Any]) -> list[str]:
    """Return how the gain is made up."""
    gain = plain["parts_of_gain"]
    if gain is None:
        return []
    search, knowing = gain["search"], gain["knowing_run_times"]
    shares = f" ({search['share']:.0%} and {knowing['share']:.0%})" if search["share"] is not None else ""
    return [
        f"Of the gain of a search with {gain['evaluations']:,} evaluations and actual run times over the best "
        f"heuristic with requested ones ({gain['whole']:,.4g} of {gain['heuristic']:,.4g}), {search['mean']:,.4g} "
        f"[{search['low']:,.4g}, {search['high']:,.4g}] is search and {knowing['mean']:,.4g} [{knowing['low']:,.4g}, "
        f"{knowing['high']:,.4g}] is knowing run times{shares}."
    ]


def _print(plain: dict[str, Any]) -> None:
    """Print the tables."""
    for seen in dict.fromkeys(row["estimates"] for row in plain["rows"]):
        titles = ["start", "evaluations", f"mean {plain['plan']['task']['objective']}", "gap", "network − heuristic"]
        made = table(*titles, title=f"{plain['trace']}: {_SEEN[seen]}", right=titles[1:])
        for row in _shown(plain, seen):
            made.add_row(*_cells(row))
        console().print(made)
        for line in _goal(plain, seen):
            console().print(line)
    for line in (*_gain(plain), *plain["notes"]):
        console().print(line)
