"""The command about the order of a queue: order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tracekit.cli.app import Force, Json, Resource, Seed, app, console, json_text, print_json, say, table
from tracekit.cli.learn import Allocate
from tracekit.cli.simulate import Cluster, From, In, MachineFile, Procs, allocators_of, load_trace
from tracekit.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from tracekit.machine import Unit
    from tracekit.sim.orders.solve import Solution

OUTPUTS = ("order.json", "order.csv", "order.png", "order.svg")


@app.command()
def order(
    file: In,
    window: Annotated[
        list[str],
        typer.Option("--window", help="START:COUNT, the jobs that wait; may be repeated.", show_default=False),
    ],
    solver: Annotated[
        str,
        typer.Option(
            "--solver", help="none, hill-climb, anneal, branch-and-bound, exhaustive (up to 9 jobs), or agent:DIR."
        ),
    ] = "hill-climb",
    evaluations: Annotated[int, typer.Option("--evaluations", help="Budget: schedules that are evaluated.")] = 10_000,
    restarts: Annotated[
        int, typer.Option("--restarts", help="Begin again so many times from the best order so far, within the budget.")
    ] = 0,
    objective: Annotated[
        str, typer.Option("--objective", help="wait, bsld, slowdown, response, utilization, fair-mean, fair-max.")
    ] = "wait",
    bound: Annotated[
        float | None, typer.Option("--bound", help="Threshold of the bounded slowdown, in seconds. [default: 10]")
    ] = None,
    estimates: Annotated[
        str, typer.Option("--estimates", help="Run times that the search sees: actual or requested.")
    ] = "actual",
    init: Annotated[
        str, typer.Option("--init", help="First order: a policy, best: the best of the heuristics, or agent:DIR.")
    ] = "best",
    decode: Annotated[
        str, typer.Option("--decode", help="Orders of an agent: greedy, sample:K or beam:K; each is an evaluation.")
    ] = "greedy",
    ages: Annotated[
        str | None,
        typer.Option("--ages", help="How long jobs have waited: real, or ilos: drawn as ILOS does. [default: real]"),
    ] = None,
    busy: Annotated[
        bool,
        typer.Option("--busy", help="With the jobs that ran at that moment in the trace, not on an empty machine."),
    ] = False,
    backfill: Annotated[str, typer.Option("--backfill", help="none or easy; both keep the given order.")] = "none",
    compat: Annotated[
        str | None, typer.Option("--compat", help="ilos: its jobs, ages, bound of 300 s, formulas and ties.")
    ] = None,
    cluster: Cluster = None,
    allocate: Allocate = None,
    procs: Procs = None,
    resource: Resource = None,
    seed: Seed = 0,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Folder for order.json, order.csv and the pictures.")
    ] = None,
    machine: MachineFile = None,
    from_: From = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the best order of a queue: jobs that all wait at one moment, none arrive later.

    The value is the mean over the jobs with their actual run times; --estimates requested lets the search see
    requested run times only, as a scheduler does. Several windows are solved one by one. With --cluster jobs are placed
    on its hosts, by the allocator.

    Example: `tracekit order sample.swf --window 200:64 --objective bsld --evaluations 2000`
    """
    from tracekit.folders import check_folder
    from tracekit.sim.orders.problem import ILOS_BOUND, QueueProblem
    from tracekit.sim.orders.solve import AGENT, find_solver, parse_decoding, solve
    from tracekit.sim.switches import Switches
    from tracekit.sim.windows import parse_window

    if compat not in (None, "ilos"):
        raise UnknownName("compatibility", str(compat), ["ilos"])
    if backfill not in ("none", "easy"):
        raise UnknownName("backfilling of an order", backfill, ["none", "easy"])
    parse_decoding(decode)
    for name in (solver, init):
        if name is solver or name.startswith(AGENT):
            find_solver(name, decode)
    if out is not None:
        check_folder(Path(out), OUTPUTS, force=force)
    windows = [parse_window(text) for text in window]
    allocator, *others = allocators_of(cluster, allocate)
    if others:
        raise UsageError(f"order takes one allocator, not {allocate}")
    switches = Switches(
        procs=procs,
        resource=cast("Unit | None", resource),
        cluster=cluster,
        allocate=allocator,
        seed=seed,
    )
    settings: dict[str, Any] = {
        "objective": objective,
        "bound": bound if bound is not None else ILOS_BOUND if compat == "ilos" else 10.0,
        "backfill": backfill,
        "compat": compat,
    }
    drawn = ages or ("ilos" if compat == "ilos" else "real")
    trace = load_trace(file, from_, machine, resource)
    found: list[tuple[int, Solution]] = []
    for start, count in windows:
        problem = QueueProblem.from_trace(
            trace,
            start,
            count,
            ages=cast("Any", drawn),
            switches=switches,
            busy=busy,
            **settings,
        )
        solution = solve(
            problem,
            solver,
            evaluations=evaluations,
            estimates=cast("Any", estimates),
            init=init,
            decode=decode,
            restarts=restarts,
            seed=seed,
        )
        found.append((start, solution))
    rows = [_plain(solution) | {"window": f"{start}:{len(solution.problem)}"} for start, solution in found]
    shown = {"trace": file, "switches": _switches(found[0][1], drawn, busy)} | (
        rows[0] if len(rows) == 1 else {"windows": rows}
    )
    if out is not None:
        _write(shown, found, Path(out), force=force)
        say(f"{', '.join(OUTPUTS)} in {out}")
    if json:
        print_json(shown)
        return
    _print(found, file)


def _plain(solution: Solution) -> dict[str, Any]:
    """Return a solution as plain values; on a cluster with the hosts of each job, in the order found."""
    problem = solution.problem
    places = problem.places(solution.order)
    return {
        "jobs": problem.job_id.tolist(),
        "ages": problem.age.tolist(),
        "order": problem.job_id[solution.order].tolist(),
        "value": solution.value,
        "init": solution.init,
        "init_value": solution.init_value,
        "lower_bound": solution.lower_bound,
        "optimal": solution.optimal,
        "evaluations": solution.evaluations,
        "curve": [[int(count), cost] for count, cost in solution.curve.tolist()],
        "rejected": dict(problem.rejected),
    } | ({} if places is None else {"hosts": [places[job] for job in solution.order.tolist()]})


def _switches(solution: Solution, ages: str, busy: bool) -> dict[str, Any]:
    """Return what the result depends on."""
    problem, hosts = solution.problem, solution.problem.hosts
    on_hosts = {} if hosts is None else {"cluster": hosts.model.cluster.name, "allocate": hosts.switches.allocate}
    return {
        "objective": problem.objective,
        "bound": problem.bound,
        "estimates": solution.estimates,
        "ages": ages,
        "busy": busy,
        "backfill": problem.backfill,
        "compat": problem.compat,
        "solver": solution.solver,
        "procs": problem.total // problem.scale,
        **on_hosts,
    }


def _print(found: list[tuple[int, Solution]], file: str) -> None:
    """Print one line for each window, and what the search saw."""
    from tracekit.sim.orders.solve import relative_change

    one = found[0][1]
    title = f"{file}: mean {one.problem.objective} by {one.solver}"
    titles = ["window", "jobs", "first order", "its value", "found", "change", "lower bound", "evaluations"]
    shown = table(*titles, title=title, right=titles[3:])
    for start, solution in found:
        change = f"{relative_change(solution):+.1%}" if solution.init_value else ""
        shown.add_row(
            f"{start}:{len(solution.problem)}",
            f"{len(solution.problem):,}",
            solution.init,
            f"{solution.init_value:,.6g}",
            f"{solution.value:,.6g}" + " (optimal)" * solution.optimal,
            change,
            f"{solution.lower_bound:,.6g}",
            f"{solution.evaluations:,}",
        )
    console().print(shown)
    if one.estimates == "actual":
        say("the search saw actual run times, which no scheduler knows; --estimates requested: without them")
    for start, solution in found:
        for reason, count in solution.problem.rejected.items():
            say(f"window {start}: {count:,} jobs are left out: {reason}")


def _write(shown: dict[str, Any], found: list[tuple[int, Solution]], folder: Path, *, force: bool) -> None:
    """Write the result, a row for each job, and the pictures: of the first window, or a box plot of all."""
    from tracekit import plots
    from tracekit.files import write_text
    from tracekit.folders import writing_folder
    from tracekit.plots.orders import before_and_after, over_windows

    lines = ["window,place,job_id,age_s,start_s,wait_s,run_time_s,procs"]
    if found[0][1].problem.hosts is not None:
        lines[0] += ",hosts"
    for start, solution in found:
        problem, begin = solution.problem, solution.problem.starts(solution.order)
        places = problem.places(solution.order)
        for place, job in enumerate(solution.order.tolist()):
            values = (problem.age[job], begin[job], begin[job] + problem.age[job], problem.run[job])
            cells = ",".join(f"{value:.10g}" for value in (*values, problem.size[job] / problem.scale))
            where = "" if places is None else f",{places[job]}"
            lines.append(f"{start},{place},{problem.job_id[job]},{cells}{where}")
    solutions = [solution for _, solution in found]
    figure = before_and_after(solutions[0]) if len(solutions) == 1 else over_windows(solutions)
    with writing_folder(folder, ours=[*OUTPUTS], force=force) as made:
        write_text(made / OUTPUTS[0], json_text(shown))
        write_text(made / OUTPUTS[1], "\n".join(lines) + "\n")
        for name in OUTPUTS[2:]:
            plots.save(figure, made / name)
