"""Command evaluate: an agent beside heuristics on the same windows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tracekit.cli.app import Force, Json, Resource, Seed, app, console, print_json, say, table
from tracekit.cli.learn import Allocate, In, one_allocator, typed
from tracekit.cli.predict import EVALUATING, check_options, evaluate_predictor, is_predictor
from tracekit.cli.simulate import (
    Carbon,
    Cluster,
    From,
    MachineFile,
    Power,
    PowerCap,
    Price,
    Procs,
    SleepAfter,
    load_trace,
    names_of,
    policies_of,
    warn_of_rejections,
)
from tracekit.errors import UsageError
from tracekit.sim.predict import TASK as PREDICT_RUN_TIME

if TYPE_CHECKING:
    from tracekit.machine import Unit
    from tracekit.sim.agents import Evaluation


@app.command()
def evaluate(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Folder of an agent; 'default' is the packaged one.")],
    trace: In,
    window: Annotated[
        list[str] | None, typer.Option("--window", help="START:COUNT, jobs on an empty machine; may be repeated.")
    ] = None,
    windows: Annotated[int | None, typer.Option("--windows", min=1, help="Number of random windows.")] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Jobs per window (default: as in training).")
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=0, help="Sample the agent's actions this many times; 0 = its best action.")
    ] = 0,
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="Policies to compare with, as in simulate. [default: every heuristic]"),
    ] = None,
    backfill: Annotated[
        str | None, typer.Option("--backfill", help="Backfilling, if not that of the training.")
    ] = None,
    procs: Procs = None,
    resource: Resource = None,
    cluster: Cluster = None,
    allocate: Allocate = None,
    power: Power = None,
    carbon: Carbon = None,
    price: Price = None,
    sleep_after: SleepAfter = None,
    power_cap: PowerCap = None,
    frequency: Annotated[
        float | None, typer.Option("--frequency", help="Share of the highest frequency, if not that of the training.")
    ] = None,
    plot: Annotated[str | None, typer.Option("--plot", metavar="FILE.png", help="Draw a box plot.")] = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Default: one per core.")] = None,
    machine: MachineFile = None,
    from_: From = None,
    seed: Seed = 0,
    update_card: Annotated[
        bool, typer.Option("--update-card", help="Add the result to the agent's card (README.md in its folder).")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare an agent with every heuristic, a random policy and the best heuristic of each window, window by window.

    Default windows: the agent's test part if this is the trace it was trained on, else twenty random ones.

    Example: `tracekit evaluate default sample.swf --windows 4 --jobs 128 --seed 1`
    """
    given = dict(locals())
    import dataclasses

    from tracekit.files import check_writable
    from tracekit.sim.agents import Agent
    from tracekit.sim.agents import evaluate as judge
    from tracekit.sim.agents.card import judgement
    from tracekit.sim.agents.evaluate import agent_task, chosen_windows, heuristics_of
    from tracekit.sim.tasks.episodes import EpisodeSource
    from tracekit.sim.windows import parse_window

    if is_predictor(agent):
        check_options(PREDICT_RUN_TIME, typed(evaluate, given), EVALUATING)
        read = load_trace(trace, from_, machine, resource)
        evaluate_predictor(
            agent, trace, read, policies_of(policy or "fcfs,sjf"), names_of(backfill or "easy-sjf"), json=json
        )
        return
    if window and windows:
        raise UsageError("give --window START:COUNT or --windows K, not both")
    parts = [parse_window(text) for text in window or []]
    if plot is not None:
        check_writable(plot, force=force)
    found = Agent.load(agent)
    if update_card and not Path(agent.removeprefix("agent:")).is_dir():
        raise UsageError(f"--update-card: {agent} comes with the package; it is only for agents in a folder of yours")
    trained = agent_task(found)
    if trained.name == "order":
        raise UsageError(
            f"{agent}: orders a queue that stands still; compare it with heuristics and searches by "
            f"'tracekit order-study {trace} --agent {agent} -o DIR'"
        )
    policies = None if policy is None else tuple(policies_of(policy))
    for name in policies or heuristics_of(trained):
        trained.check_heuristic(name)
    changes: dict[str, Any] = {"power": power, "carbon": carbon, "price": price, "sleep_after": sleep_after}
    changes |= {"power_cap": power_cap, "frequency": frequency}
    if getattr(trained, "on_hosts", False):
        own = None if trained.switches.cluster is None else "its own"
        placing = None if allocate is None else one_allocator(cluster or own, allocate)
        changes |= {"cluster": cluster, "allocate": placing}
    switches = dataclasses.replace(
        trained.switches,
        procs=procs if procs is not None else None,
        resource=cast("Unit | None", resource) if resource is not None else None,
        **{name: value for name, value in changes.items() if value is not None},
    )
    task = dataclasses.replace(
        trained, backfill=backfill or trained.backfill, switches=switches, **_hosts(found, trained, cluster, allocate)
    )
    source = EpisodeSource(load_trace(trace, from_, machine, resource), task)
    warnings = warn_of_rejections(source.table)
    chosen, remark = chosen_windows(found, source, parts, windows, jobs, seed)
    result = judge(found, source, chosen, sample=sample, seed=seed, policies=policies, threads=threads)
    if plot is not None:
        from tracekit.plots.agents import scores
        from tracekit.plots.style import save

        values = {found.name: result.score, **result.baselines}
        save(scores(values, label=result.objective, agent=found.name), plot, force=force)
    if update_card:
        _update_card(found, agent, judgement(trace, seed, result.to_dict()))
    if json:
        summary = result.to_dict()
        print_json({"agent": agent, "trace": trace, **summary, "notes": [*warnings, *summary.get("notes", [])]})
        return
    _print(result, trace)
    for note in (remark, *result.notes):
        if note:
            say(note)


def _update_card(found: Any, folder: str, entry: dict[str, Any]) -> None:
    """Write an evaluation into agent.json and README.md of an agent's folder."""
    import dataclasses

    from tracekit.sim.agents.card import CARD, with_judgement

    place = Path(folder.removeprefix("agent:"))
    dataclasses.replace(found, facts=with_judgement(found.facts, entry)).save(place)
    say(f"{place / CARD}: updated")


def _hosts(agent: Any, trained: Any, cluster: str | None, allocate: str | None) -> dict[str, Any]:
    """Return the cluster and the allocator that an agent is evaluated on, as changes of its task."""
    if getattr(trained, "on_hosts", False):
        return {}  # the switches have them
    own = getattr(trained, "cluster", None)
    if own is None:
        if cluster is not None or allocate is not None:
            raise UsageError(
                f"{agent.name} was trained on a counter of processors; for --cluster train one with 'tracekit train "
                "--cluster'"
            )
        return {}
    if trained.needs_hosts:
        if allocate is not None:
            raise UsageError(f"{agent.name} chooses the hosts itself; name allocators to compare with by --policy")
        return {"cluster": own if cluster is None else cluster}
    chosen = trained.allocate if allocate is None else one_allocator(cluster or own.name or "its own", allocate)
    if allocate is None and ":" in str(chosen):  # a file must not choose what is imported
        raise UsageError(
            f"{agent.name} was trained with the allocator {chosen}: give it again with --allocate {chosen}"
        )
    return {"cluster": own if cluster is None else cluster, "allocate": chosen}


def _print(result: Evaluation, trace: str) -> None:
    summary = result.to_dict()
    titles = ["policy", "mean", "agent − policy", "95 % interval", "p", "effect", "agent better"]
    drawn = f", mean of {summary['samples']} draws" if summary["samples"] > 1 else ""
    made = table(
        *titles,
        title=f"{trace}: {result.objective}, {len(result.windows)} windows of {result.windows[0][1]:,} jobs{drawn}",
        right=titles[1:],
    )
    interval = f"{summary['low']:,.4g} … {summary['high']:,.4g}"
    made.add_row(result.agent, f"{summary['mean']:,.4g}", "", interval, "", "", "")
    for name, row in sorted(summary["baselines"].items(), key=lambda item: item[1]["mean"]):
        made.add_row(
            name,
            f"{row['mean']:,.4g}",
            f"{row['paired_difference']:+,.4g}",
            f"{row['low']:+,.4g} … {row['high']:+,.4g}",
            f"{row['p']:.3g}",
            f"{row['effect_size']:+.2f}",
            f"{row['windows_smaller']} of {len(result.windows)}",
        )
    console().print(made)
    _print_against(result)
    if "defer_rate" in next(iter(summary["measures"].values()), {}):
        _print_hosts(summary["measures"])


def _print_against(result: Evaluation) -> None:
    """Print costs as shares above those of the heuristic that was chosen on training windows."""
    rows = result.against_chosen
    if not rows:
        return
    titles = ["geometric mean", "95 % interval", "arithmetic mean", "95 %  interval"]
    title = f"cost against {result.chosen}, chosen on training windows (blocks of {next(iter(rows.values()))['block']})"
    made = table("policy", *titles, title=title, right=titles)
    for name, row in rows.items():
        cells = []
        for mean in ("geometric", "arithmetic"):
            cells += [f"{row[mean]:+.1%}", f"{row[mean + '_low']:+.1%} … {row[mean + '_high']:+.1%}"]
        hindsight = name not in (result.agent, "predicted-index")
        made.add_row(f"{name} (in hindsight)" if hindsight else name, *cells)
    console().print(made)


def _print_hosts(rows: dict[str, dict[str, float]]) -> None:
    """Print the metrics of task pick-host, of the agent and of every allocator."""
    from tracekit.sim.tasks.pick_host.measures import METRICS

    titles = [name.replace("_s", " (s)").replace("_", " ") for name in METRICS]
    made = table("policy", *titles, title="means over windows", right=titles)
    for name, values in rows.items():
        made.add_row(name, *(f"{values[key]:,.4g}" for key in METRICS))
    console().print(made)
