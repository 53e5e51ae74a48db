"""Commands that make traces from traces: merge, split, shake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from tracekit.cli.app import Force, Json, Resource, Seed, app, print_json, say
from tracekit.cli.large import InParts, opened
from tracekit.cli.traces import From, In, MachineFile, Procs, To, load, prepare, save, second
from tracekit.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from tracekit.large.source import Source
    from tracekit.trace import Trace

Folder = Annotated[str, typer.Option("--out", "-o", help="Folder for the files; created if missing.")]


@app.command()
def merge(
    files: Annotated[list[str], typer.Argument(metavar="IN IN… OUT", help="Traces to merge, then the file to write.")],
    machines: Annotated[
        str, typer.Option("--machines", help="Machines: same (years of one machine), add (several clusters), or auto.")
    ] = "auto",
    labels: Annotated[
        str,
        typer.Option("--labels", help="Users, queues …: apart (A:7, B:7), join (equal labels are the same), or auto."),
    ] = "auto",
    align: Annotated[
        str,
        typer.Option(
            "--align", help="Times: calendar, start (all begin together), append (one after another), or auto."
        ),
    ] = "auto",
    from_: From = None,
    to: To = None,
    resource: Resource = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Merge traces: years of one machine, or several clusters.

    Clashing job ids are renumbered (the old ones are kept in x_job_id), prev_job is adjusted, x_source is the file. The
    choices of auto and the overlap of the traces are printed.

    Example: `tracekit merge first.swf second.swf both.parquet`
    """
    from tracekit.transform import merging

    for flag, value, known in (
        ("--machines", machines, merging.Machines),
        ("--labels", labels, merging.Labels),
        ("--align", align, merging.Align),
    ):
        if value not in get_args(known):
            raise UnknownName(flag, value, get_args(known))
    if len(files) < 3:
        raise UsageError("give at least two traces and then the file to write: tracekit merge A B OUT")
    *sources, target = files
    for source in sources:
        chosen = prepare(source, target, format=to, force=force)
    made = merging.merge(
        [load(source, format=from_, resource=resource)[0] for source in sources],
        [_stem(source) for source in sources],
        machines=machines,  # type: ignore[arg-type]  # checked above
        labels=labels,  # type: ignore[arg-type]
        align=align,  # type: ignore[arg-type]
    )
    save(made.trace, target, format=chosen, force=force)
    facts = {
        "out": target,
        "jobs": len(made.trace),
        "machines": made.machines,
        "labels": made.labels,
        "align": made.align,
        "renumbered": made.renumbered,
        "machine": {"name": made.trace.machine.name, made.trace.machine.unit: made.trace.machine.size()},
        "remarks": list(made.remarks),
    }
    if json:
        print_json(facts)
        return
    say(f"machines {made.machines}, labels {made.labels}, aligned by {made.align}")
    if made.renumbered:
        say("job ids clashed and were renumbered; the old ones are in x_job_id")
    for remark in made.remarks:
        say(remark)


@app.command()
def split(
    file: In,
    outputs: Annotated[
        list[str] | None, typer.Argument(metavar="[OUT_A OUT_B]", help="The two files of --alternate-weeks.")
    ] = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="Folder for the files; created if missing.")] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", help="week, month, user, queue, partition, group, project, app, or a number of parts."),
    ] = None,
    at: Annotated[list[str] | None, typer.Option("--at", help="Split at this date or second; may be repeated.")] = None,
    alternate: Annotated[
        bool, typer.Option("--alternate-weeks", help="Write every other week to OUT_A, the weeks between to OUT_B.")
    ] = False,
    to: To = None,
    from_: From = None,
    procs: Procs = None,
    machine: MachineFile = None,
    resource: Resource = None,
    parts: InParts = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Split a trace into files: by week or month, by user or queue, into equal parts, or at given times.

    Every job is in exactly one file. Files are named NAME_PART with the input's suffix, unless --to gives a format.
    --alternate-weeks writes two files: one to fit a model on, and one to hold out, for `tracekit share`.

    Example: `tracekit split sample.swf -o weeks --by week`
    """
    from tracekit.transform.splitting import file_names, split_at
    from tracekit.transform.splitting import split as cut

    if alternate:
        if by is not None or at or out is not None or len(outputs or ()) != 2:
            raise UsageError(
                "--alternate-weeks takes two files, no --by, --at or -o: split FILE OUT_A OUT_B --alternate-weeks"
            )
        _alternate(file, outputs or [], to, load(file, format=from_, procs=procs, machine=machine)[0], force, json)
        return
    if out is None or outputs:
        raise UsageError("missing output folder: give -o DIR (two files only with --alternate-weeks)")
    if (by is None) == (at is None):
        raise UsageError("give either --by week|month|user|queue|partition|N or --at DATE")
    batches = opened(file, parts, format=from_, procs=procs, machine=machine, resource=resource)
    if batches is not None:
        _split_batches(batches, file, out, by, at or [], to, force, json)
        return
    trace, found = load(file, format=from_, procs=procs, machine=machine, resource=resource)
    pieces = cut(trace, by) if by is not None else split_at(trace, [second(trace, text, 0.0) for text in at or []])
    names = file_names([name for name, _ in pieces])
    written = _write_all(
        Path(out),
        {f"{_stem(file)}_{name}": part for name, (_, part) in zip(names, pieces, strict=True)},
        file,
        to or found,
        force=force,
    )
    if json:
        rows = [{"part": n, "jobs": len(t), "file": str(p)} for (n, t), p in zip(pieces, written, strict=True)]
        print_json({"trace": file, "parts": rows})
    else:
        say(f"{len(written):,} files, {len(trace):,} jobs, in {out}")


def _split_batches(
    batches: Source, file: str, out: str, by: str | None, at: list[str], to: str | None, force: bool, json: bool
) -> None:
    """Split a trace that is read in parts into Parquet files."""
    from tracekit.api import write_split
    from tracekit.folders import check_folder
    from tracekit.large import cutting
    from tracekit.large.source import edges
    from tracekit.transform.splitting import file_names

    if to not in (None, "parquet"):
        raise UsageError("a trace that is read in parts is split into Parquet files: leave --to out")
    check_folder(out)
    cut = cutting.by(batches, by) if by is not None else None
    if cut is None:
        ends = edges(batches)
        cut = cutting.at([second(ends, text, 0.0) for text in at])
    stem = _stem(file)
    written = write_split(
        batches, cut, out, lambda names: [f"{stem}_{name}.parquet" for name in file_names(names)], force=force
    )
    if json:
        print_json({"trace": file, "parts": [{"part": n, "jobs": j, "file": str(p)} for n, j, p in written]})
    else:
        say(f"{len(written):,} files, {sum(jobs for _, jobs, _ in written):,} jobs, in {out}")


def _alternate(file: str, outputs: list[str], to: str | None, trace: Trace, force: bool, json: bool) -> None:
    """Write every other week to the first file and the weeks between to the second."""
    from tracekit.transform.splitting import alternate_weeks

    formats = [prepare(file, target, format=to, force=force) for target in outputs]
    parts = alternate_weeks(trace)
    for part, target, chosen in zip(parts, outputs, formats, strict=True):
        save(part, target, format=chosen, force=force)
    if json:
        rows = [{"part": n, "jobs": len(t), "file": f} for n, t, f in zip("AB", parts, outputs, strict=True)]
        print_json({"trace": file, "parts": rows})
    else:
        say(f"{len(parts[0]):,} jobs in {outputs[0]}, {len(parts[1]):,} in {outputs[1]}")


@app.command()
def shake(
    file: In,
    out: Folder,
    count: Annotated[int, typer.Option("-k", "--count", min=1, help="Number of copies.")] = 10,
    seed: Seed = 0,
    seconds: Annotated[float, typer.Option("--seconds", help="Largest shift of submit times.")] = 60.0,
    run_share: Annotated[
        float, typer.Option("--run-share", help="Largest relative change of run times, e.g. 0.05.")
    ] = 0.0,
    to: To = None,
    from_: From = None,
    machine: MachineFile = None,
    resource: Resource = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write slightly perturbed copies of a trace, to distinguish effects from artefacts of one input.

    The perturbations are those of `simulate --shake`: copy i of seed S is the same in both.

    Example: `tracekit shake sample.swf -o shaken -k 5`
    """
    from tracekit.transform.shaking import check_amounts
    from tracekit.transform.shaking import shake as perturb

    check_amounts(seconds, run_share)
    trace, found = load(file, format=from_, machine=machine, resource=resource)
    width = len(str(count - 1))
    made = {
        f"{_stem(file)}_shake{number:0{width}d}": perturb(trace, seed, number, seconds=seconds, run_share=run_share)
        for number in range(count)
    }
    written = _write_all(Path(out), made, file, to or found, force=force)
    if json:
        print_json({"trace": file, "seed": seed, "seconds": seconds, "files": [str(path) for path in written]})
    else:
        say(f"{len(written):,} perturbations in {out}")


def _stem(path: str) -> str:
    """Return a file's name without suffixes."""
    from tracekit.files import COMPRESSED_SUFFIXES

    name = Path(path)
    if name.suffix.lower() in COMPRESSED_SUFFIXES:
        name = name.with_suffix("")
    return name.stem if path != "-" else "stdin"


def _write_all(out: Path, traces: dict[str, Trace], source: str, format: str, *, force: bool) -> list[Path]:
    """Write every trace into the folder, or none; raise OutputError first if any file exists already."""
    from tracekit.api import write
    from tracekit.folders import check_folder, writing_folder

    ending = _ending(source, format)
    names = [f"{name}{ending}" for name in traces]
    check_folder(out, names, force=force)
    with writing_folder(out, force=force) as folder:
        for name, trace in zip(names, traces.values(), strict=True):
            write(trace, folder / name, format)
    return [out / name for name in names]


def _ending(source: str, format: str) -> str:
    """Return the suffix for a format: the source's if it is of that format, else the format's first one."""
    from swf import FORMATS
    from swf.base import WritableFormat
    from tracekit.files import plain_suffix

    known: Any = FORMATS.get(format)
    if not issubclass(known, WritableFormat):
        raise UsageError(f"{format} can be read but not written; choose another with --to, such as swf or parquet")
    own = plain_suffix(source)
    return own if own in known.suffixes else str(known.suffixes[0])
