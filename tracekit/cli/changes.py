"""Commands that change a trace: clean, slice, scale; in memory, or in parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli.app import Force, Json, Resource, app, console, print_json, say, table
from tracekit.cli.large import InParts, PartJobs, opened, save_batches
from tracekit.cli.traces import From, In, MachineFile, Out, Procs, To, human, load, prepare, save, second
from tracekit.errors import TracekitError, UsageError

if TYPE_CHECKING:
    from tracekit.large.source import Source


@app.command()
def clean(
    source: In,
    target: Out,
    rules: Annotated[
        str | None, typer.Option("--rules", help="Rules in order, such as sort-by-submit,drop-zero-run-time.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option("--recipe", help="TOML file with the rules, as written by an earlier clean.")
    ] = None,
    from_: From = None,
    to: To = None,
    procs: Procs = None,
    machine: MachineFile = None,
    resource: Resource = None,
    parts: InParts = None,
    part_jobs: PartJobs = None,
    force: Force = False,
) -> None:
    """Apply named cleaning rules, and write the applied recipe next to the output.

    No rule is applied unless it is given; `tracekit rules` lists them.

    Example: `tracekit clean sample.swf clean.swf --rules sort-by-submit,drop-zero-run-time`
    """
    from tracekit import cleaning
    from tracekit.files import check_writable, write_text
    from tracekit.folders import writing_together

    if (rules is None) == (recipe is None):
        raise UsageError("give either --rules a,b or --recipe FILE; 'tracekit rules' lists the rules")
    names = (
        [name.strip() for name in rules.split(",") if name.strip()]
        if rules is not None
        else cleaning.read_recipe(str(recipe))
    )
    if not names:
        raise UsageError("no rules given; 'tracekit rules' lists them")
    chosen = prepare(source, target, format=to, force=force, part_jobs=part_jobs)
    beside = f"{target}.recipe.toml"
    if target != "-":
        check_writable(beside, force=force)
    given: dict[str, Any] = {"format": from_, "procs": procs, "machine": machine, "resource": resource}
    batches: Source | None = opened(source, parts, **given)
    if batches is not None:
        counts = _clean_batches(batches, names, source, target, chosen, part_jobs, force=force)
    else:
        trace, _ = load(source, **given)
        cleaned, counts = cleaning.clean(trace, names)
        if target == "-":
            save(cleaned, target, format=chosen, force=force)
        elif part_jobs is not None:
            save(cleaned, target, part_jobs=part_jobs, force=force)
            write_text(beside, cleaning.recipe_text(counts, source=Path(source).name), force=force)
        else:
            with writing_together(target, beside, force=force) as (file, text):
                save(cleaned, str(file), format=chosen, named=target)
                write_text(text, cleaning.recipe_text(counts, source=Path(source).name))
    for name, changed in counts.items():
        say(f"  {name}: {changed:,} rows")
    if target != "-":
        say(f"recipe: {beside}")


def _clean_batches(
    batches: Source, names: list[str], source: str, target: str, format: str, part_jobs: int | None, *, force: bool
) -> dict[str, int]:
    """Clean a trace that is read in parts, and write it and its recipe; return the counts."""
    from tracekit import cleaning
    from tracekit.files import write_text
    from tracekit.folders import writing_together
    from tracekit.large.rules import Cleaned

    cleaned = Cleaned(batches, names)

    def write(place: str, *, replace: bool, named: str | None = None) -> None:
        save_batches(
            cleaned.batches(),
            place,
            format=format,
            part_jobs=part_jobs,
            finish=lambda known: (known, [*cleaned.history, cleaned.step()]),
            force=replace,
            named=named,
        )

    def recipe() -> str:
        return cleaning.recipe_text(cleaned.counts, source=Path(source).name)

    if part_jobs is not None or target == "-":
        write(target, replace=force)
        write_text(f"{target}.recipe.toml", recipe(), force=force)
    else:
        with writing_together(target, f"{target}.recipe.toml", force=force) as (file, text):
            write(str(file), replace=False, named=target)
            write_text(text, recipe())
    return cleaned.counts


@app.command()
def rules(json: Json = False) -> None:
    """List the cleaning rules and what each one does.

    Example: `tracekit rules`
    """
    from tracekit.cleaning import RULES

    if json:
        print_json({"rules": [{"name": rule.name, "meaning": rule.meaning} for rule in RULES.values()]})
        return
    rows = table("rule", "what it does")
    for rule in RULES.values():
        rows.add_row(rule.name, rule.meaning)
    console().print(rows)


@app.command("slice")
def slice_(
    source: In,
    target: Out,
    after: Annotated[str | None, typer.Option("--after", help="Submitted at or after this date or second.")] = None,
    before: Annotated[str | None, typer.Option("--before", help="Submitted before this date or second.")] = None,
    jobs: Annotated[
        str | None, typer.Option("--jobs", help="The first COUNT jobs, or START:COUNT from a 0-based position.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only these users, separated by commas.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="Only these queues, separated by commas.")] = None,
    from_: From = None,
    to: To = None,
    procs: Procs = None,
    machine: MachineFile = None,
    resource: Resource = None,
    parts: InParts = None,
    part_jobs: PartJobs = None,
    force: Force = False,
) -> None:
    """Extract a part of a trace: by time, by position, by user or queue.

    Dates are in the machine's time zone; plain numbers are seconds since the trace's epoch.

    Example: `tracekit slice sample.swf week.swf --after 2024-01-08 --before 2024-01-15`
    """
    from tracekit import transform
    from tracekit.large import changes
    from tracekit.large.source import edges

    chosen = prepare(source, target, format=to, force=force, part_jobs=part_jobs)
    window = None if jobs is None else _start_and_count(jobs)
    kept = {
        column: [label.strip() for label in labels.split(",")]
        for column, labels in (("user", user), ("queue", queue))
        if labels is not None
    }
    given: dict[str, Any] = {"format": from_, "procs": procs, "machine": machine, "resource": resource}
    batches: Source | None = opened(source, parts, **given)
    if batches is not None:
        if after is not None or before is not None:
            ends = edges(batches)
            times = second(ends, after, float("-inf")), second(ends, before, float("inf"))
            batches = changes.between(batches, *times)
        for column, labels in kept.items():
            batches = changes.with_labels(batches, column, labels)
        if window is not None:
            batches = changes.window(batches, *window)
        _save_changed(batches, target, chosen, part_jobs, force=force)
        return
    whole, _ = load(source, **given)
    trace = whole
    if after is not None or before is not None:
        from_second = second(trace, after, float("-inf"))
        trace = trace.between(from_second, second(trace, before, float("inf")))
    for column, labels in kept.items():
        trace = transform.with_labels(trace, column, labels)
    if window is not None:
        trace = transform.window(trace, *window)
    if not len(trace):
        facts = whole.summary()
        first, last = facts["first_submit"] or "second 0", facts["last_submit"] or human(facts["span_s"])
        raise TracekitError(f"no job is left to write: the {len(whole):,} jobs were submitted from {first} to {last}")
    save(trace, target, format=chosen, force=force, part_jobs=part_jobs)


def _start_and_count(text: str) -> tuple[int, int]:
    """Read COUNT or START:COUNT."""
    start, _, count = text.rpartition(":")
    try:
        return int(start or 0), int(count)
    except ValueError:
        raise UsageError(f"--jobs must be COUNT or START:COUNT, not '{text}'") from None


def _save_changed(batches: Source, target: str, format: str, part_jobs: int | None, *, force: bool) -> None:
    """Write a trace that is changed while it is read in parts."""
    save_batches(
        batches.batches(),
        target,
        format=format,
        part_jobs=part_jobs,
        finish=lambda _: (batches.machine, [*batches.history]),
        force=force,
    )


@app.command()
def scale(
    source: In,
    target: Out,
    load_: Annotated[
        str | None, typer.Option("--load", help="Offered load to reach by scaling inter-arrival times: 0.9 or 90%.")
    ] = None,
    procs: Annotated[
        int | None, typer.Option("--procs", help="Size of another machine; job sizes are scaled to it.")
    ] = None,
    from_: From = None,
    to: To = None,
    machine: MachineFile = None,
    resource: Resource = None,
    parts: InParts = None,
    part_jobs: PartJobs = None,
    force: Force = False,
) -> None:
    """Scale a trace to another load, or to a machine of another size.

    Example: `tracekit scale sample.swf busy.swf --load 0.95`
    """
    from tracekit import transform
    from tracekit.large import changes
    from tracekit.large.source import Changed
    from tracekit.large.summary import Load
    from tracekit.readings import read_load

    wanted = None if load_ is None else read_load(load_)
    if load_ is None and procs is None:
        raise UsageError("nothing to scale: give --load X, --procs N, or both")
    chosen = prepare(source, target, format=to, force=force, part_jobs=part_jobs)
    batches: Source | None = opened(source, parts, format=from_, machine=machine, resource=resource)
    if batches is not None:
        if procs is not None:
            batches = changes.scale_procs(batches, procs)
        if wanted is not None:
            batches = changes.scale_load(batches, wanted)
        reached = Load()
        counted = Changed(batches, reached.over, batches.machine)
        _save_changed(counted, target, chosen, part_jobs, force=force)
        say(f"offered load is now {reached.offered(batches.machine.size()):.4f}")
        return
    trace, _ = load(source, format=from_, machine=machine, resource=resource)
    if procs is not None:
        trace = transform.scale_procs(trace, procs)
    if wanted is not None:
        trace = transform.scale_load(trace, wanted)
    save(trace, target, format=chosen, force=force, part_jobs=part_jobs)
    say(f"offered load is now {trace.offered_load():.4f}")
