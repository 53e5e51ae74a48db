"""Commands about clusters of hosts: clusters, cluster from, place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tracekit.cli.app import Force, Json, app, console, json_text, print_json, say, table
from tracekit.cli.many import Address, Engine, Files, WorkerMemory, Workers, spread
from tracekit.cli.simulate import From, In, allocators_of
from tracekit.errors import TracekitError, UnknownName, UsageError


@app.command()
def clusters(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show the groups of one cluster.")] = None,
    json: Json = False,
) -> None:
    """List the clusters that --cluster knows by name: hosts, cores, GPUs, pools.

    Example: `tracekit clusters`
    """
    from tracekit.clusters import cluster_names, cluster_of, describe_groups, pool_names

    found: list[dict[str, Any]] = []
    for one in [name] if name is not None else cluster_names():
        try:
            machine = cluster_of(one)
        except TracekitError as error:
            if name is not None:
                raise
            found.append({"name": one, "note": str(error)})
            continue
        found.append(
            {
                "name": one,
                "hosts": machine.nodes,
                "cores": machine.procs,
                "gpus": machine.gpus or 0,
                "pools": [pool for pool in pool_names(machine) if pool],
                "groups": describe_groups(machine.groups),
            }
        )
    if json:
        print_json({"clusters": found})
        return
    titles = ["cluster", "hosts", "cores", "GPUs", "pools"]
    if name is not None:
        titles = ["group", "hosts", "cores", "memory, GB", "GPUs", "type", "pool"]
        shown = table(*titles, title=name, right=titles[1:5])
        for group in found[0]["groups"]:
            memory = f"{group['memory'] / 1024**2:,.4g}" if "memory" in group else ""
            cells = [f"{group['count']:,}", str(group.get("cores", "")), memory, str(group.get("gpus", 0))]
            shown.add_row(group["name"], *cells, group.get("gpu_type", ""), group.get("pool", ""))
        console().print(shown)
        return
    shown = table(*titles, right=titles[1:4])
    for row in found:
        if "note" in row:
            shown.add_row(row["name"], "", "", "", row["note"])
        else:
            cores = "" if row["cores"] is None else f"{row['cores']:,}"
            shown.add_row(row["name"], f"{row['hosts']:,}", cores, f"{row['gpus']:,}", ", ".join(row["pools"]))
    console().print(shown)


@app.command()
def cluster(
    action: Annotated[str, typer.Argument(metavar="from", help="What to make the cluster from: 'from TRACE'.")],
    file: In,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="TOML file to write (default: print to stdout).")
    ] = None,
    from_: From = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Propose a cluster of hosts for a trace, as TOML for --cluster: from its machine, or from what its jobs ask for.

    Example: `tracekit cluster from sample.swf -o cluster.toml`
    """
    import sys

    from tracekit.api import read_requests
    from tracekit.clusters import describe_groups
    from tracekit.files import write_text
    from tracekit.proposal import cluster_toml, propose
    from tracekit.sim.hosts.demand import demand_of

    if action != "from":
        raise UnknownName("action", action, ["from"])
    trace = read_requests(file, from_)
    made = propose(trace)
    never = {why: int(jobs.sum()) for why, jobs in demand_of(trace, made).reasons().items()}
    for note in made.notes:
        say(note)
    for why, count in never.items():
        say(f"{count:,} jobs do not fit on this cluster: {why}")
    if output is not None:
        write_text(output, cluster_toml(made), force=force)
        say(f"{made.nodes:,} hosts in {len(made.groups)} group{'s' * (len(made.groups) > 1)}: {output}")
    if json:
        print_json({"name": made.name, "groups": describe_groups(made.groups), "notes": made.notes, "rejected": never})
    elif output is None:
        sys.stdout.write(cluster_toml(made))


def seeds_of(text: str) -> list[int]:
    """Read ``42`` or ``42:51``, both ends included."""
    first, colon, last = text.partition(":")
    if not (first.isdigit() and (last.isdigit() or not colon)):
        raise UsageError(f"seeds '{text}': write one number, or FIRST:LAST")
    begin, end = int(first), int(last or first)
    if not begin <= end < begin + 10_000:
        raise UsageError(f"seeds '{text}': the last must not be before the first, and at most 10,000 are taken")
    return list(range(begin, end + 1))


PLACE_OUTPUTS = ("place.json", "place.csv", "place.png", "place.svg", "place.pdf")


def write_place(found: dict[str, Any], folder: Path, *, force: bool) -> None:
    """Write the results of a packing study: JSON, a row for each point of the curves, and the pictures."""
    from tracekit import plots
    from tracekit.files import write_text
    from tracekit.folders import writing_folder
    from tracekit.plots.packing import packing_curves

    rows = found["results"]
    lines = ["allocate,seed,arrived_pct,allocated_pct,fragmented_pct"]
    for row in rows:
        for mark, point in row["curve"].items():
            if point is not None:
                shares = f"{point['allocated_pct']!r},{point['fragmented_pct']!r}"
                lines.append(f"{row['allocate']},{row['seed']},{mark},{shares}")
    with writing_folder(folder, ours=[*PLACE_OUTPUTS], force=force) as made:
        write_text(made / "place.json", json_text(found))
        write_text(made / "place.csv", "\n".join(lines) + "\n")
        figure = packing_curves(rows, f"{Path(found['file']).name} on {found['cluster']}")
        for name in PLACE_OUTPUTS[2:]:
            plots.save(figure, made / name)


@app.command()
def place(
    files: Files,
    cluster: Annotated[str, typer.Option("--cluster", help="A preset of 'tracekit clusters', or a TOML file.")],
    allocate: Annotated[str, typer.Option("--allocate", help="Allocators, by comma.")] = "first-fit",
    inflate: Annotated[
        float, typer.Option("--inflate", help="Jobs arrive until they ask for so many times the GPUs.")
    ] = 1.3,
    seeds: Annotated[str, typer.Option("--seeds", help="FIRST:LAST, both included: orders of arrival.")] = "42",
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Folder for place.json, place.csv and the curves.")
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    worker_memory: WorkerMemory = None,
    from_: From = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Let jobs arrive in random order, none leaves, and see how much of the GPUs can be allocated before they fragment.

    Several traces, or --engine, spread the work over workers: each has its files in DIR/<its name>, and DIR/summary.md
    shows all. It can be interrupted; the same command resumes it.

    Example: `tracekit place openb_pod_list_default.csv --cluster openb --allocate random,best-fit,fgd --seeds 42:51`
    """
    from tracekit.api import read_requests
    from tracekit.clusters import cluster_of
    from tracekit.folders import check_folder
    from tracekit.sim.hosts.demand import demand_of
    from tracekit.sim.hosts.place import place as place_jobs

    numbers, names = seeds_of(seeds), allocators_of(cluster, allocate)
    workers = Workers(engine, address, worker_memory)
    if workers.wanted(files):
        common = {"cluster": cluster_of(cluster).to_dict(), "inflate": inflate}
        pieces = [{**common, "allocate": name, "seed": seed} for name in names for seed in numbers]
        _place_many(files, out, cluster, pieces, workers, format=from_, force=force, json=json)
        return
    file = files[0]
    if out is not None:
        check_folder(Path(out), PLACE_OUTPUTS, force=force)
    demand = demand_of(read_requests(file, from_), cluster_of(cluster))
    rows = [place_jobs(demand, name, seed, inflate=inflate) for name in names for seed in numbers]
    found = {"file": file, "cluster": cluster, "inflate": inflate, "results": rows}
    if out is not None:
        write_place(found, Path(out), force=force)
        say(f"{', '.join(PLACE_OUTPUTS)} in {out}")
    if json:
        print_json(found)
        return
    titles = ["allocate", "seed", "allocated, %", "fragmented, %", "lost"]
    shown = table(*titles, title=f"{file} on {cluster}", right=titles[1:])
    for row in rows:
        shares = [f"{row[key]:.2f}" for key in ("allocated_pct", "fragmented_pct")]
        shown.add_row(row["allocate"], str(row["seed"]), *shares, f"{row['lost']:,}")
    console().print(shown)


def _place_many(
    files: list[str],
    out: str | None,
    cluster: str,
    pieces: list[dict[str, Any]],
    workers: Workers,
    *,
    format: str | None,
    force: bool,
    json: bool,
) -> None:
    """Place the jobs of many traces: a piece of work for each allocator and seed of each."""
    from evaluation.spread.run import Reading, Study, contents
    from tracekit.sim.policies.builtin import module_of

    names = list(dict.fromkeys(piece["allocate"] for piece in pieces))
    modules = [module for module in map(module_of, names) if module is not None]
    known = {"agents": contents(names)}
    pieces = [piece | known for piece in pieces]
    study = Study("place", pieces, Reading(format, requests=True), modules)

    def write(row: dict[str, Any], folder: Path) -> None:
        found = {"file": row["trace"], "cluster": cluster, "inflate": pieces[0]["inflate"], "results": row["rows"]}
        write_place(found, folder, force=True)

    def told(traces: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
        titles = ["trace", "allocate", "seeds", "allocated, %", "fragmented, %", "lost"]
        lines = []
        for row in traces:
            for name in names if row["rows"] else ():
                own = [one for one in row["rows"] if one["allocate"] == name]
                means = [sum(one[key] for one in own) / len(own) for key in ("allocated_pct", "fragmented_pct", "lost")]
                lines.append([row["name"], name, str(len(own)), *(f"{mean:,.2f}" for mean in means)])
        return titles, lines

    caption = f"means over the seeds, on {cluster}"
    spread(study, files, out, workers, caption=caption, write=write, table_of=told, force=force, json=json)
