"""The command that draws a report: report."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli.app import Force, Json, Resource, Seed, app, print_json, say
from tracekit.cli.score import Bar, Holdout, Preset, Quick, file_names, load_compared
from tracekit.cli.simulate import Cluster, check_energy
from tracekit.cli.traces import From, Procs
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from evaluation.report.content import Content

Sources = Annotated[
    list[str],
    typer.Argument(metavar="REAL SYNTH… | RUN", help="A real trace and synthetic ones, or an experiment's folder."),
]
Output = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FILE.html", help="The HTML page; the scores are written to FILE.json."),
]
Title = Annotated[str, typer.Option("--title", help="Title of the page.")]


@app.command()
def report(
    sources: Sources,
    output: Output,
    title: Title = "",
    holdout: Holdout = None,
    preset: Preset = None,
    quick: Quick = False,
    from_: From = None,
    procs: Procs = None,
    resource: Resource = None,
    cluster: Cluster = None,
    power: Annotated[
        str | None, typer.Option("--power", help="Power model: adds a section on energy; a TOML file or a preset.")
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write one self-contained HTML page that compares synthetic traces, or shows an experiment.

    With --power, a section shows what each trace draws on the real machine under that power model.

    Example: `tracekit report KTH-SP2.swf.gz tvae.swf lublin.swf --holdout other-weeks.swf -o report.html`
    """
    from evaluation.report.page import targets, write
    from evaluation.report.run import content_of, is_run

    page, beside = targets(output, force=force)  # before any work
    check_energy(power, None, None)
    with Bar() as bar:
        if is_run(sources[0]):
            if len(sources) > 1 or holdout or preset or from_ or resource or cluster or procs is not None:
                raise UsageError("the report of an experiment takes only its folder: give RUN and -o")
            content = content_of(sources[0])
            content = replace(content, title=title) if title else content
        else:
            content = _scored(sources, title, holdout, preset, quick, from_, procs, resource, cluster, seed, bar)
        if power is not None:
            content = replace(
                content, power=power, command=f"{content.command} --power {shlex.quote(Path(power).name)}"
            )
        write(content, page, force=force, progress=bar)
    size = page.stat().st_size
    if json:
        print_json({"report": str(page), "scores": str(beside), "bytes": size})
    else:
        say(f"{page}: {size / 1e6:.1f} MB, open it in a browser; the scores are in {beside}")


def _scored(
    sources: list[str],
    title: str,
    holdout: str | None,
    preset: str | None,
    quick: bool,
    format: str | None,
    procs: int | None,
    resource: str | None,
    cluster: str | None,
    seed: int,
    bar: Bar,
) -> Content:
    """Read and score the traces; return what the page shows of them."""
    from evaluation.report.content import Content, Input
    from evaluation.score import chosen_metrics, score
    from tracekit.clusters import cluster_of

    chosen_metrics(preset, None)  # check names before files are read
    hosts = None if cluster is None else cluster_of(cluster)
    if len(sources) < 2:
        what = "is not the folder of an experiment" if Path(sources[0]).is_dir() else "is only one trace"
        raise UsageError(f"{sources[0]} {what}: give a real trace and at least one synthetic one, or a folder RUN")
    traces, aside = load_compared(sources, holdout, format=format, procs=procs, resource=resource)
    names = file_names(sources)
    if len(set(names)) < len(names):
        raise UsageError("the same file was given twice")
    scores = score(
        traces[0],
        traces[1:],
        holdout=aside,
        preset=preset,
        quick=quick,
        seed=seed,
        names=names,
        cluster=hosts,
        progress=bar,
    )
    inputs = [Input.of(path, name, len(trace)) for path, name, trace in zip(sources, names, traces, strict=True)]
    if holdout and aside is not None:
        inputs.append(Input.of(holdout, "hold-out", len(aside)))
    words = ["tracekit", "report", *(Path(path).name for path in sources)]
    words += ["--holdout", Path(holdout).name] if holdout else []
    words += ["--preset", preset] if preset else []
    words += ["--cluster", Path(cluster).name] if cluster else []
    words += (["--quick"] if quick else []) + (["--seed", str(seed)] if seed else [])
    return Content(
        real=traces[0],
        synthetic=dict(zip(names[1:], traces[1:], strict=True)),
        scores=scores,
        title=title,
        command=shlex.join(words),
        inputs=inputs,
        seeds={"scores": seed},
    )
