"""Commands that train on synthetic traces and evaluate on real ones: experiment, verdict, compare."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli.app import Force, Json, Resource, app, console, print_json, say, search_here, table
from tracekit.cli.many import Address, Display, Engine, WorkerMemory, clock, fail_for_some, resumable
from tracekit.cli.simulate import Cluster
from tracekit.cli.traces import From, Procs
from tracekit.errors import TracekitError, UsageError

if TYPE_CHECKING:
    from evaluation.experiment.grid import Plan

_LEARNERS = (
    "pick-heuristic, forecast-waits (seconds), predict-run-time (a minute), order, ppo, pick-host (minutes; the last "
    "with --cluster)"
)


@app.command()
def experiment(
    real: Annotated[
        list[str] | None,
        typer.Argument(metavar="REAL...", help="The real trace, or several; may be given in the plan instead."),
    ] = None,
    out: Annotated[str, typer.Option("--output", "-o", metavar="RUN", help="Folder of the run.")] = "",
    models: Annotated[
        str | None, typer.Option("--models", help="Models, separated by commas: names, or your own module:Class.")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="PLAN.toml", help="The plan; see docs/experiments.md.")
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    worker_memory: WorkerMemory = None,
    learner: Annotated[
        str | None,
        typer.Option("--learner", help=f"One or several, separated by commas: {_LEARNERS}. [default: ppo]"),
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", help="Policies to compare with, separated by commas, as in simulate.")
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", min=1, help="Synthetic traces per model.")] = None,
    agents: Annotated[int | None, typer.Option("--agents", min=1, help="Agents trained per trace.")] = None,
    looks: Annotated[
        int | None,
        typer.Option("--looks", min=1, help="Begin with few samples and agents; add more until all is decided."),
    ] = None,
    other: Annotated[str | None, typer.Option("--other", help="Another real trace to train on as well.")] = None,
    cluster: Cluster = None,
    allocate: Annotated[
        str | None, typer.Option("--allocate", help="With --cluster: the allocator. [default: first-fit]")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print what it costs and, from a pilot on real jobs, what it could tell."),
    ] = False,
    procs: Procs = None,
    resource: Resource = None,
    from_: From = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Same seed, same result.")] = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Test whether agents trained on synthetic jobs match agents trained on real jobs.

    It can be interrupted at any time; the same command resumes it. Several traces share one queue of tasks: each has
    its run in RUN/<its name>, and RUN/summary.md shows all verdicts.

    Example: `tracekit experiment sample.swf --models lublin,user-resample --learner pick-heuristic -o run`
    """
    from evaluation.experiment import ahead, many
    from evaluation.experiment import study as library
    from evaluation.experiment.cores import cores
    from evaluation.experiment.engines import Where
    from evaluation.experiment.memory import read_memory

    where, files = Where(engine, address, read_memory(worker_memory)), real or []
    several = len(files) > 1
    if not out:
        raise UsageError("missing output folder: give -o RUN")
    if not dry_run and not several:
        library.check_folder(Path(out), force=force)
    plan = _changed(
        _plan(config),
        real={"path": files[0] if files else None, "procs": procs, "format": from_, "resource": resource},
        models={"names": _names(models), "samples": samples},
        agents={"learner": _names(learner), "seeds": agents},
        windows={"heuristics": _names(policy), "cluster": cluster, "allocate": allocate},
        verdict={"looks": looks},
        other={"path": other},
        seed=seed,
    )
    search_here(
        [
            *plan.models.names,
            *plan.windows.heuristics,
            plan.windows.allocate,
            *(policy for name in plan.agents.learner for policy in plan.agents.config_of(name).get("policies", ())),
        ]
    )
    if dry_run:
        if several:
            raise UsageError("--dry-run is about one trace; name one")
        _show_plan(ahead.dry_run(plan, out, slots=cores()), json)
        return
    command = shlex.join(["tracekit", *sys.argv[1:]]) if Path(sys.argv[0]).name == "tracekit" else ""
    with resumable(out) as display:
        if several:
            found = many.run(plan, files, out, where=where, force=force, progress=display, command=command)
        else:
            found = library.run(plan, out, where=where, force=force, progress=display, command=command)
    if several:
        _end_of_many(found, out, json)
        return
    if json:
        print_json(found)
    else:
        show(found)
        say(f"{out}: report.html, summary.md, results.parquet, verdict.json")
    _fail_if_nothing_worked(found)


@app.command()
def verdict(
    real: Annotated[str, typer.Argument(metavar="REAL", help="The real trace.")],
    synth: Annotated[str, typer.Argument(metavar="SYNTH", help="The synthetic trace, from any tool.")],
    learner: Annotated[
        str, typer.Option("--learner", help=f"Uses of the trace, separated by commas: {_LEARNERS}.")
    ] = "pick-heuristic,forecast-waits,predict-run-time",
    margin: Annotated[
        float | None,
        typer.Option("--margin", help="Differences below this ratio count as equivalent. [default: the learner's own]"),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--output", "-o", metavar="RUN", help="Keep the run and its report in this folder.")
    ] = None,
    procs: Procs = None,
    resource: Resource = None,
    from_: From = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Same seed, same result.")] = 0,
    json: Json = False,
    force: Force = False,
) -> None:
    """Tell for which uses a synthetic trace is as good as the real one: what is learnt from it is tried on real jobs.

    Example: `tracekit verdict sample.swf made.swf --learner pick-heuristic`
    """
    from evaluation.experiment import single_trace

    with Display() as display:
        found = single_trace.verdict(
            real,
            synth,
            learner=learner,
            margin=margin,
            folder=out,
            procs=procs,
            format=from_,
            resource=resource,
            seed=seed,
            force=force,
            progress=display,
        )
    if json:
        print_json(found)
        return
    show(found)
    if found["left_out"]:
        say(f"{real}: {found['left_out']:,} jobs have no {found['unit']} and are left out where sizes count")
    rows = table("fidelity", "synthetic", "real", "best is")
    for key in single_trace.SHOWN:
        score = found["scores"].get(key)
        if score and score["value"] is not None:
            shown = [f"{score[name]:.3f}" if score[name] is not None else "" for name in ("value", "real")]
            rows.add_row(key, *shown, single_trace.SHOWN[key])
    console().print(rows)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="RUN1", help="A finished experiment.")],
    second: Annotated[str, typer.Argument(metavar="RUN2", help="Another one.")],
    json: Json = False,
) -> None:
    """Compare two experiments: differences in the plan, the numbers and the verdicts.

    Example: `tracekit compare run1 run2`
    """
    from evaluation.experiment.compare import compare as library

    found = library(first, second)
    if json:
        print_json(found)
        return
    out = console()
    out.print(found["sentence"])
    for line in found["plan"]:
        out.print(f"– plan: {line['key']}: {line['first']} → {line['second']}")
    rows = table("learner", "model", first, second)
    for row in found["verdicts"]:
        rows.add_row(
            row["learner"], row["model"], *((row[side] or {}).get("sentence", "–") for side in ("first", "second"))
        )
    out.print(rows, soft_wrap=False)


def _plan(config: str | None) -> Plan:
    from evaluation.experiment import grid

    return grid.load(config) if config else grid.Plan()


def _changed(plan: Plan, **sections: Any) -> Plan:
    """Overwrite the plan with the given flags; None has no effect."""
    import dataclasses

    for name, given in sections.items():
        if isinstance(given, dict):
            changes = {key: value for key, value in given.items() if value is not None}
            plan = dataclasses.replace(plan, **{name: dataclasses.replace(getattr(plan, name), **changes)})
        elif given is not None:
            plan = dataclasses.replace(plan, **{name: given})
    return plan


def _names(text: str | None) -> tuple[str, ...] | None:
    from evaluation.experiment.grid import names_in

    return names_in(text) if text is not None else None


def _show_plan(found: dict[str, Any], json: bool) -> None:
    rows = found["tasks"]
    total = {key: sum(row[key] for row in rows) for key in ("tasks", "done", "seconds")}
    if json:
        print_json(found | {"total": total})
        return
    shown = table("kind", "tasks", "done already", "left, about", right=("tasks", "done already", "left, about"))
    for row in [*rows, {"kind": "all", **total}]:
        shown.add_row(row["kind"], str(row["tasks"]), str(row["done"]), clock(row["seconds"]))
    console().print(shown)
    titles = ["margin", "differences found from", "chance to show none", "real parts differ by", "agents take, about"]
    shown = table("learner", *titles, "spread taken from", right=titles)
    for row in found["power"]:
        shown.add_row(
            row["learner"],
            f"±{row['margin']:.0%}",
            f"{row['detectable']:.1%}",
            f"{row['equivalence_power']:.0%}",
            "not measured" if row["real_parts_differ"] is None else f"{row['real_parts_differ']:.1%}",
            clock(row["seconds"]),
            f"{row['basis']}, {row['windows']} windows",
        )
    console().print(shown)
    say(
        "differences found from: in four of five runs, if samples and seeds are alike; else it takes more. "
        "Small chances: more or longer held-out windows ([windows] count, jobs), or a higher load; "
        "where parts of the real trace differ by as much as the margin, only a longer real trace helps"
    )


def show(found: dict[str, Any]) -> None:
    """Print the verdicts as a table for each use, and the conclusion."""
    from evaluation.experiment.comparisons import KINDS_OF_ROWS
    from evaluation.experiment.uses import SIGNS, across, mark

    out = console()
    for use in found["learners"]:
        own = {kind: [row for row in found[kind] if row["learner"] == use["learner"]] for kind in KINDS_OF_ROWS}
        shown = table("", "trained on", "verdict", title=f"{use['use']} ({use['learner']})")
        for one in [*own["verdicts"], *own["baselines"], *own["arms"]]:
            trivial = one in own["baselines"] or one in own["arms"]
            sign = SIGNS[mark(one)]
            shown.add_row("=" if trivial and sign == "✓" else sign, one["model"], one["sentence"])
        for one in own["controls"]:
            shown.add_row(SIGNS[mark(one)], f"damaged: {one['model']}", one["sentence"])
        for one in own["scarce"]:
            said = str(one["sentence"]).removeprefix(f"{one['verdict']}: ")
            shown.add_row("", f"scarce + {one['model']}", f"{one['verdict']}: {said}")
        out.print(shown, soft_wrap=False)
        out.print(
            f"%: {use['metric']} on held-out real windows, relative to agents trained on real jobs; + is worse; "
            f"less than {100 * use['margin']:g} % worse is good enough (✓); = is good enough, but trivial or a copy"
        )
        out.print(f"would a bad trace be noticed? {use['sentence']}")
        if use["predictors"]:
            out.print(f"scores that predict the verdict: {use['predictors_note']}")
    if len(found["learners"]) > 1:
        heads, rows = across(found)
        shown = table(*heads, title="for which use is which trace good enough?")
        for row in rows:
            shown.add_row(*row)
        out.print(shown, soft_wrap=False)
    for model, flags in {one["model"]: one["flags"] for one in found["verdicts"]}.items():
        if flags:
            more = f" (and {len(flags) - 1} more; tracekit share tells them all)" if len(flags) > 1 else ""
            out.print(f"! {model}: {flags[0]}{more}")
    if found["conclusion"]:
        out.print(found["conclusion"])
    out.print(found["headline"])


def _end_of_many(found: dict[str, Any], out: str, json: bool) -> None:
    """Print the verdicts on all traces; an error if one of them came to nothing."""
    from evaluation.experiment import together
    from evaluation.experiment.uses import SIGNS

    if json:
        print_json(found)
    else:
        shown = table("trace", "", "trained on", "verdict")
        for row in found["traces"]:
            if row["failed"] or row["same_as"]:
                sign = SIGNS["failed"] if row["failed"] else "="
                said = row["failed"] or f"the same as {row['same_as']}"
                shown.add_row(row["name"] or row["trace"], sign, "", said)
            for one in row["verdicts"]:
                shown.add_row(row["name"], SIGNS[one["answer"]], f"{one['model']}, {one['learner']}", one["sentence"])
        console().print(shown, soft_wrap=False)
        say(together.memory_in_words(found["cost"]))
        say(f"{out}: {together.PAGE}, {together.SUMMARY}, and a folder with report.html for each trace")
    fail_for_some(found)


def _fail_if_nothing_worked(found: dict[str, Any]) -> None:
    if found["verdicts"] and all(one["verdict"] == "failed" for one in found["verdicts"]):
        raise TracekitError(f"every model failed; {found['verdicts'][0]['model']}: {found['verdicts'][0]['sentence']}")
