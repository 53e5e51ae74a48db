"""The command reproduce: published tables, with their authors' definitions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tracekit.cli.app import Json, app, console, print_json, table
from tracekit.cli.rltune import reproduce_rltune
from tracekit.cli.simulate import Cluster, Procs
from tracekit.errors import UnknownName, UsageError


@app.command()
def reproduce(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="rlscheduler (SC'20): FCFS, WFP3, UNICEP, SJF, F1; rltune (SoCC'25); lsf: the LSF RL scheduler.",
        ),
    ],
    trace: Annotated[str | None, typer.Option("--trace", help="Another trace to run with the same protocol.")] = None,
    procs: Procs = None,
    cluster: Cluster = None,
    jobs: Annotated[int | None, typer.Option("--jobs", help="rltune: jobs per window. [default: 256]")] = None,
    iterations: Annotated[int | None, typer.Option("--iterations", help="rltune: windows. [default: 10]")] = None,
    version: Annotated[str | None, typer.Option("--version", help="lsf: head or 4h2. [default: head]")] = None,
    fixture: Annotated[
        str | None, typer.Option("--fixture", metavar="FILE.json", help="lsf: hosts and jobs by seed.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="lsf: the seed of the fixture.")] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="lsf: first-available, best-fit or worst-fit. [default: first-available]"),
    ] = None,
    json: Json = False,
) -> None:
    """Recompute a published table with the authors' definitions, and show it with the published numbers.

    Without --trace: lublin_256 and lublin_256_new2 from $TRACEKIT_DATA, or from the cache of `tracekit fetch`.
    Study lsf plays a fixture of the LSF RL scheduler (hosts, arrivals and jobs of a seed) by that system's semantics.
    Published numbers are also available for the archive logs SDSC-SP2-1998-4.2-cln and HPC2N-2002-2.2-cln.
    Study rltune needs --trace and --cluster; a cell in which RLTune's own code stops has no values and a note.

    Example: `tracekit reproduce rlscheduler --trace sample.swf`
    """
    from tracekit.api import read
    from tracekit.sim.analysis import reproduce as studies

    of_rltune = {"--cluster": cluster, "--jobs": jobs, "--iterations": iterations}
    of_lsf = {"--version": version, "--fixture": fixture, "--seed": seed, "--policy": policy}
    for name, own in (("rltune", of_rltune), ("lsf", of_lsf)):
        for flag, value in own.items():
            if value is not None and study != name:
                raise UsageError(f"{flag} is only supported by study {name}")
    if study == "rltune":
        if procs is not None:
            raise UsageError("--procs is not supported by study rltune: --cluster has the hosts")
        reproduce_rltune(trace, cluster, jobs, iterations, json=json)
        return
    if study == "lsf":
        _reproduce_lsf(trace, procs, of_lsf, json=json)
        return
    if study != "rlscheduler":
        raise UnknownName("study", study, ["rlscheduler", "rltune", "lsf"])
    files = [trace] if trace is not None else [str(path) for path in studies.default_traces()]
    cells = [
        {"trace": file, **cell} for file in files for cell in studies.rlscheduler(read(file), procs=procs, file=file)
    ]
    if json:
        print_json({"trace": " + ".join(files), "windows": list(studies.WINDOWS), "cells": cells})
        return
    for file in files:
        titles = ["policy", "backfill", "bsld", "published", "utilisation", "published ", ""]
        made = table(
            *titles,
            title=f"{file}: means over {len(studies.WINDOWS)} windows of {studies.WINDOW_JOBS:,} jobs",
            right=titles[2:6],
        )
        for cell in (cell for cell in cells if cell["trace"] == file):
            printed = cell["published"] is not None
            same = printed and studies.agrees(cell)
            made.add_row(
                cell["policy"],
                "yes" if cell["backfill"] else "no",
                f"{cell['bsld']:.2f}",
                f"{cell['published']:.2f}" if printed else "–",
                f"{cell['utilization']:.3f}",
                f"{cell['published_utilization']:.3f}" if printed else "–",
                "" if not printed else "same" if same else "differs",
            )
        console().print(made)


def _reproduce_lsf(trace: str | None, procs: int | None, given: dict[str, Any], *, json: bool) -> None:
    """Play a fixture of the LSF RL scheduler by its own semantics."""
    from tracekit.sim.tasks.pick_host.lsf import reproduce as play

    for flag, value in (("--trace", trace), ("--procs", procs)):
        if value is not None:
            raise UsageError(f"{flag} is not supported by study lsf: --fixture has hosts and jobs")
    for flag in ("--fixture", "--seed"):
        if given[flag] is None:
            raise UsageError(f"reproduce lsf needs {flag}")
    version, policy = given["--version"] or "head", given["--policy"] or "first-available"
    found = play(given["--fixture"], given["--seed"], version, policy)
    if json:
        print_json(
            {"fixture": given["--fixture"], "seed": given["--seed"], "version": version, "policy": policy, **found}
        )
        return
    made = table(
        "metric", "value", title=f"{given['--fixture']}, seed {given['--seed']}: {version}, {policy}", right=["value"]
    )
    for name, value in found.items():
        if value is not None:
            made.add_row(name.replace("_", " "), f"{value:,.10g}")
    console().print(made)
