"""Label sets of orders, and the training of networks that order a queue: order-labels, and train --task order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tracekit.cli.app import Force, Json, Resource, Seed, Settings, app, console, print_json, say
from tracekit.cli.simulate import From, In, MachineFile, Procs, load_trace
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from tracekit.machine import Unit
    from tracekit.sim.agents import Agent
    from tracekit.sim.orders.task import Order

#: Flags of `train` that mean something for task order.
_FLAGS = {
    *("trace", "out", "task", "config", "objective", "steps", "jobs", "learning_rate", "backfill", "split", "resume"),
    *("estimates", "procs", "resource", "compat", "machine", "from_", "seed", "force", "json", "labels", "ages"),
}
#: … and those that a label set has decided already.
_DECIDED = ("objective", "jobs", "backfill", "split", "estimates", "procs", "resource", "compat", "ages")


@app.command("order-labels")
def order_labels(
    file: In,
    out: Annotated[str, typer.Option("--output", "-o", metavar="FILE.parquet", help="Label set to write.")],
    windows: Annotated[int, typer.Option("--windows", min=1, help="Queues for training.")] = 8000,
    validation: Annotated[int, typer.Option("--validation", min=1, help="Queues for validation.")] = 20,
    test: Annotated[int, typer.Option("--test", min=0, help="Queues for test.")] = 20,
    jobs: Annotated[int, typer.Option("--jobs", min=2, help="Jobs of a queue; some for training have fewer.")] = 64,
    solver: Annotated[
        str, typer.Option("--solver", help="hill-climb, anneal, branch-and-bound or exhaustive.")
    ] = "anneal",
    evaluations: Annotated[int, typer.Option("--evaluations", min=1, help="Budget of each queue.")] = 10_000,
    objective: Annotated[str, typer.Option("--objective", help="As in order.")] = "wait",
    bound: Annotated[
        float | None, typer.Option("--bound", help="Threshold of the bounded slowdown, in seconds. [default: 10]")
    ] = None,
    estimates: Annotated[
        str, typer.Option("--estimates", help="Run times that the search sees: actual or requested.")
    ] = "requested",
    ages: Annotated[str | None, typer.Option("--ages", help="real, or ilos. [default: real]")] = None,
    busy: Annotated[bool, typer.Option("--busy", help="With the jobs that ran at that moment in the trace.")] = False,
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
    """Write a label set: queues from windows of a trace, and the best order of each that a search found.

    Windows for training, validation and test share no job and follow each other in time. An interrupted run continues
    with the same command and ends with the same bytes.

    Example: `tracekit order-labels sample.swf -o labels.parquet --windows 40 --jobs 32 --evaluations 2000`
    """
    from tracekit.sim.agents.provenance import fingerprint
    from tracekit.sim.orders.labels import PARTS, Labelling, write_labels
    from tracekit.sim.orders.task import Queues

    task = task_of(
        objective=objective,
        bound=bound,
        estimates=estimates,
        ages=ages,
        busy=busy,
        backfill=backfill,
        compat=compat,
        procs=procs,
        resource=resource,
    )
    made = Labelling(task, windows, validation, test, jobs, solver, evaluations, split, seed)
    queues = Queues.of(load_trace(file, from_, machine, resource), task)
    progress = labelling_progress()
    found = write_labels(
        queues,
        made,
        out,
        fingerprint=fingerprint(queues.table),
        force=force,
        report=None if progress is None else lambda done, total: progress(done, total, "labels"),
    )
    gains = [1 - label.cost / label.first_cost for label in found.labels if label.first_cost]
    counts = {part: len(found.of(part)) for part in PARTS}
    if json:
        print_json({"labels": out, "trace": file, **counts, "mean_gain": _mean(gains), "made": made.to_dict()})
        return
    told = ", ".join(f"{count:,} for {part}" for part, count in counts.items())
    console().print(f"{out}: {told}; on average {_mean(gains):.1%} below the best heuristic, by {estimates} run times")


def _mean(values: list[float]) -> float:
    return sum(values) / max(len(values), 1)


def labelling_progress() -> Any:
    """Return what shows the progress of labels on stderr; None with -q."""
    from generators.progress import StderrProgress

    return None if Settings.quiet else StderrProgress("order", every=1.0)


def task_of(*, procs: int | None, resource: str | None, ages: str | None, **settings: Any) -> Order:
    """Return the task from flags."""
    from tracekit.sim.orders.task import Order
    from tracekit.sim.switches import Switches

    drawn = ages or ("ilos" if settings.get("compat") == "ilos" else "real")
    switches = Switches(procs=procs, resource=cast("Unit | None", resource))
    return Order(ages=cast("Any", drawn), switches=switches, **settings)


def train_order(given: dict[str, Any], typed: set[str], source: dict[str, Any], report: Any) -> Agent:
    """Train a network by the flags of `train`; those ``typed`` that task order does not have are refused."""
    from tracekit.sim.agents.order.config import OrderConfig
    from tracekit.sim.agents.order.teach import Course
    from tracekit.sim.agents.order.teach import train_order as teach

    for name in sorted(typed - _FLAGS):
        raise UsageError(f"--{name.replace('_', '-')}: not supported by task order")
    decided = [name for name in _DECIDED if name in typed] if given["labels"] is not None else []
    if decided:
        raise UsageError(f"--{decided[0].replace('_', '-')}: the label set decides that; leave it out")
    config = OrderConfig.load(given["config"]) if given["config"] is not None else OrderConfig()
    config = config.replace(steps=given["steps"], jobs=given["jobs"], learning_rate=given["learning_rate"])
    task = task_of(
        objective=given["objective"] or "wait",
        estimates=given["estimates"],
        ages=given["ages"],
        backfill=given["backfill"] or "none",
        compat=given["compat"],
        procs=given["procs"],
        resource=given["resource"],
    )
    course = Course(
        Path(given["out"]),
        given["seed"],
        given["split"],
        Path(given["labels"]) if given["labels"] is not None else None,
        source,
        report,
        say,
        labelling_progress(),
    )
    trace = load_trace(given["trace"], given["from_"], given["machine"], given["resource"])
    return teach(trace, task, config, course, resume=given["resume"], force=given["force"])
