"""Commands that compare traces: score, metrics."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli.app import Json, Resource, Seed, Settings, app, console, print_json, table, tell
from tracekit.cli.large import InParts, is_parquet, opened
from tracekit.cli.simulate import Cluster
from tracekit.cli.traces import From, Procs, load
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracekit.large.source import Source
    from tracekit.trace import Trace

Real = Annotated[str, typer.Argument(metavar="REAL", help="The real trace: any known format.")]
Synth = Annotated[list[str], typer.Argument(metavar="SYNTH…", help="One or more synthetic traces.")]
Holdout = Annotated[
    str | None,
    typer.Option("--holdout", help="Real jobs that the model was not fitted on; the privacy scores need them."),
]
Preset = Annotated[
    str | None, typer.Option("--preset", help="poster: use the definitions of the published study (implies --quick).")
]
Quick = Annotated[bool, typer.Option("--quick", help="Smaller samples, fewer draws and windows: faster.")]
Families = Annotated[
    str | None,
    typer.Option("--families", help="Families to compute: marginal,joint,time,validity,load,privacy,scheduling,hosts."),
]


@app.command()
def score(
    real: Real,
    synth: Synth,
    holdout: Holdout = None,
    preset: Preset = None,
    quick: Quick = False,
    families: Families = None,
    from_: From = None,
    procs: Procs = None,
    resource: Resource = None,
    cluster: Cluster = None,
    parts: InParts = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Score how similar synthetic traces are to a real one, with the noise floor and two trivial baselines.

    Example: `tracekit score KTH-SP2.swf.gz made.swf --holdout other-weeks.swf`
    """
    from evaluation.base import FAMILIES
    from evaluation.score import chosen_metrics, score_parts
    from evaluation.score import score as compare
    from tracekit.clusters import cluster_of

    wanted = families.replace(" ", "").split(",") if families else None
    chosen_metrics(preset, wanted)  # check names before files are read
    known: Any = {
        "quick": quick,
        "seed": seed,
        "names": file_names([real, *synth]),
        "cluster": None if cluster is None else cluster_of(cluster),
    }
    batches = _in_batches(
        [real, *synth], parts, wanted, holdout or preset, format=from_, procs=procs, resource=resource
    )
    if batches is not None:
        with Bar() as bar:
            scores = score_parts(batches[0], batches[1:], families=wanted or list(FAMILIES), progress=bar, **known)
    else:
        traces, aside = load_compared([real, *synth], holdout, format=from_, procs=procs, resource=resource)
        with Bar() as bar:
            scores = compare(
                traces[0], traces[1:], holdout=aside, preset=preset, families=wanted, progress=bar, **known
            )
    if json:
        print_json(scores.to_dict())
        return
    from evaluation.table import LEGEND, notes, tables

    out = console()
    for made in tables(scores):
        out.print(made)
    out.print(LEGEND, soft_wrap=False)
    for line in notes(scores):
        out.print(f"– {line}", soft_wrap=False, markup=False)


def _in_batches(
    paths: list[str], parts: bool | None, wanted: list[str] | None, whole: str | None, **how: Any
) -> list[Source] | None:
    """Return traces that are read in batches, or None; raise an error for what needs more memory than there is.

    ``whole`` is the hold-out or preset that was given, which only traces in memory have.
    """
    from evaluation.base import FAMILIES
    from evaluation.score import check_families
    from evaluation.streamed import FAMILIES_IN_PARTS

    families = list(FAMILIES) if wanted is None else wanted
    if parts and whole is not None:
        raise UsageError("--holdout and --preset need the whole traces in memory: use them without --parts")
    able = set(families) <= set(FAMILIES_IN_PARTS)
    if able and whole is not None:
        return None
    refused = None if able else partial(check_families, families)
    return opened_together(paths, parts, refused=refused, **how)


def opened_together(
    paths: list[str],
    parts: bool | None,
    *,
    refused: Callable[[Sequence[Source]], None] | None = None,
    format: str | None = None,
    procs: int | None = None,
    resource: str | None = None,
) -> list[Source] | None:
    """Return traces that are compared, to be read in batches, or None where they are to be read whole.

    Parquet traces are read in batches and the others whole; all are counted in the first one's unit. Without a flag
    that is so where the Parquet traces would together take half of the free memory. Where what was asked for needs the
    whole traces, ``refused`` raises the error for it: with --parts, or where they take more than is free.
    """
    from swf.parts import readable_parts
    from tracekit.api import SHARE, free_memory, open_parts
    from tracekit.files import is_stream
    from tracekit.large.source import Loaded

    missing = [path for path in paths if not is_stream(path) and not Path(path).exists()]
    if parts is False or missing:
        return None  # reading it reports what is missing
    ours = [path for path in paths if is_parquet(path)] if format in (None, "parquet") else []
    if parts is None:
        known = [readable_parts(Path(path)) for path in ours]
        size = sum(found.bytes_whole() for found in known if found)
        if None in known or size <= (1 if refused else SHARE) * free_memory():
            return None
    elif not ours:
        opened(paths[0], parts, format=format)
        return None
    if refused:
        refused([open_parts(path) for path in ours])
    found: list[Source] = []
    for path in paths:
        count, unit = (procs, resource) if not found else (None, found[0].machine.unit)
        if path in ours:
            found.append(open_parts(path, procs=count, resource=unit))
            tell(path, found[-1].history)
        else:
            found.append(Loaded(load(path, format=format, procs=count, resource=unit)[0]))
    return found


def load_compared(
    paths: list[str], holdout: str | None, *, format: str | None, procs: int | None, resource: str | None
) -> tuple[list[Trace], Trace | None]:
    """Read a real trace, synthetic ones and the hold-out; all are counted in the real trace's unit."""
    real = load(paths[0], format=format, procs=procs, resource=resource)[0]
    unit = real.machine.unit
    others = [load(path, format=format, resource=unit)[0] for path in paths[1:]]
    return [real, *others], load(holdout, format=format, resource=unit)[0] if holdout else None


class Bar:
    """A progress bar on stderr; none with -q or without a terminal."""

    def __enter__(self) -> Bar:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        screen = console(stderr=True)
        self._bar = Progress(
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=screen,
            transient=True,
            disable=Settings.quiet or not screen.is_terminal,
        )
        self._task = self._bar.add_task("")
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int, label: str) -> None:
        """Update the progress bar."""
        self._bar.update(self._task, completed=done, total=total, description=label)


def file_names(paths: list[str]) -> list[str]:
    """Return the file names without folders and suffixes; the full names if two would be equal."""
    short = [Path(path).name.split(".")[0] for path in paths]
    return short if len(set(short)) == len(short) else paths


@app.command()
def metrics(json: Json = False) -> None:
    """List every metric: its family, unit and definition.

    Example: `tracekit metrics`
    """
    from evaluation.base import METRICS

    rows = []
    for name in METRICS.names():
        metric = METRICS.get(name)
        rows.append(
            {
                "name": name,
                "family": metric.family,
                "unit": metric.unit,
                "definition": (metric.__doc__ or "").partition("\n")[0],
            }
        )
    if json:
        print_json({"metrics": rows})
        return
    made = table("metric", "family", "unit", "definition")
    for row in rows:
        made.add_row(*row.values())
    console().print(made, soft_wrap=False)
