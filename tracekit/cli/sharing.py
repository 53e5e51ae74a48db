"""Commands for publishing traces: anonymize, share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli.app import Force, Json, Resource, Seed, app, console, print_json, say
from tracekit.cli.traces import From, In, MachineFile, Out, Procs, TimeZone, To, load, prepare, save
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from evaluation.share import Answer

KEY_VARIABLE = "TRACEKIT_KEY"


@app.command()
def anonymize(
    source: In,
    target: Out,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", help="File with the key; new:FILE creates one; env:NAME or prompt. Default: env:TRACEKIT_KEY."
        ),
    ] = None,
    also: Annotated[str | None, typer.Option("--also", help="Also replace these: queue,partition.")] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", help="Keep these unchanged: columns (app, x_status …) or machine.")
    ] = None,
    shift: Annotated[
        str | None,
        typer.Option("--shift", help="Shift all dates by whole weeks or days (-52w, 30d), or as the key says: key."),
    ] = None,
    from_: From = None,
    to: To = None,
    procs: Procs = None,
    machine: MachineFile = None,
    resource: Resource = None,
    timezone: TimeZone = None,
    force: Force = False,
) -> None:
    """Replace users, groups, projects and programs by labels that cannot be reversed without the key.

    The same key gives the same labels in every file. Header lines, notes, history, extra columns and job ids are
    removed as well. Times and sizes stay: a person with knowledge of a job can still recognise it.

    Example: `tracekit anonymize sample.swf public.swf --key new:site.key`
    """
    from tracekit import anonymize as module

    chosen = prepare(source, target, format=to, force=force)
    if shift:
        module.shift_seconds(shift, b"-")  # check before any work
    secret = _key(key)
    trace, _ = load(source, format=from_, procs=procs, machine=machine, resource=resource, timezone=timezone)
    made = module.anonymize(trace, secret, also=_listed(also), keep=_listed(keep), shift=shift)
    save(made, target, format=chosen, force=force)
    gone = [name for name in trace.jobs.columns if name not in made.jobs.columns]
    say(f"{made.history[-1]}; removed: header lines, notes, history{''.join(f', {name}' for name in gone)}")


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _key(given: str | None) -> bytes:
    """Return the key from the source in the flag; never from the command line itself, which shells record."""
    from tracekit.anonymize import SHORTEST_KEY, new_key, read_key

    if given is None and os.environ.get(KEY_VARIABLE):
        given = f"env:{KEY_VARIABLE}"
    if given is None and sys.stdin is not None and sys.stdin.isatty():
        given = "prompt"
    if given is None:
        raise UsageError(f"a key is needed: create one with --key new:FILE, or use --key FILE or {KEY_VARIABLE}")
    if given.startswith("new:"):
        key = new_key(given.removeprefix("new:"))
        say(f"{given.removeprefix('new:')}: new key written; keep it secret like a password, or delete it")
    elif given.startswith("env:"):
        key = os.environ.get(given.removeprefix("env:"), "").strip().encode()
        if not key:
            raise UsageError(f"the environment variable {given.removeprefix('env:')} is empty")
    elif given == "prompt":
        key = typer.prompt("key", hide_input=True, confirmation_prompt=True, err=True).strip().encode()
    elif not Path(given).exists():
        raise UsageError(
            "--key needs the name of a file, and this file does not exist; a key on the command line would stay in the "
            "shell's history (create a key with --key new:FILE)"
        )
    else:
        key = read_key(given)
    if len(key) < SHORTEST_KEY:
        say(f"warning: a key of {len(key)} characters can be guessed; use at least {SHORTEST_KEY}")
    return key


@app.command()
def share(
    real: Annotated[str, typer.Argument(metavar="REAL", help="The real trace that the model was fitted on.")],
    synth: Annotated[str, typer.Argument(metavar="SYNTH", help="The synthetic trace that you want to publish.")],
    holdout: Annotated[
        str | None,
        typer.Option("--holdout", help="Real jobs that the model was not fitted on; needed for a yes."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller samples: takes seconds, not minutes.")] = False,
    fix: Annotated[
        str | None,
        typer.Option("--fix", metavar="OUT", help="Repair labels, names, dates and seconds into OUT, and judge OUT."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write the document; on a yes also trace and metadata."),
    ] = None,
    licence: Annotated[str, typer.Option("--licence", help="Licence of the published trace, for -o.")] = "",
    from_: From = None,
    resource: Resource = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Check whether a synthetic trace may be published: exit code 0 for yes, 1 for no, with the reasons.

    Known attacks are run on it, each with a control: the same attack on real jobs that the model has not seen.
    --fix gives new labels, a new machine name, other dates and whole minutes, and says what that costs; repeated users
    and jobs cannot be repaired. -o writes sharing.html and sharing.json, on a yes also the trace, a dataset card
    (README.md) and Croissant metadata (croissant.json).

    Example: `tracekit share KTH-SP2.swf.gz synthetic.swf --holdout other-weeks.swf -o published`
    """
    from evaluation.share import share as judge

    chosen = prepare(synth, fix, format=None, force=force) if fix else None
    if out is not None:
        from evaluation.share_files import check_output

        check_output(out, Path(fix or synth).name, force=force)
    ours = load(real, format=from_, resource=resource)[0]
    unit = ours.machine.unit
    theirs, format_ = load(synth, format=from_, resource=unit)
    aside = load(holdout, format=from_, resource=unit)[0] if holdout else None
    changes: list[str] = []
    price: dict[str, dict[str, float]] = {}
    if fix:
        from evaluation.mending import cost, mended

        before = theirs
        theirs, changes = mended(before)
        save(theirs, fix, format=chosen, force=force)
        say("comparing scores before and after …")
        price = cost(ours, before, theirs, seed=seed)
        format_ = chosen or format_
    say("checking for copies, recognisable users and names …")
    answer = judge(ours, theirs, aside, seed=seed, quick=quick)
    if out is not None:
        from evaluation.share_files import About, write_files

        about = About(Path(real).name, Path(fix or synth).name, Path(holdout).name if holdout else None)
        about = about.filled(len(ours), len(theirs), changes, price)
        written = write_files(out, answer, about, theirs, Path(fix or synth), format_, licence, force=force)
        say(f"{out}: {', '.join(written)}")
    if json:
        more = {"fix": {"output": fix, "changes": changes, "cost": price}} if fix else {}
        print_json({"real": real, "synthetic": fix or synth, "holdout": holdout, **answer.to_dict(), **more})
    else:
        _print(answer, fix or synth)
        _print_fix(changes, price)
    if answer.verdict == "no":
        raise typer.Exit(1)


def _print_fix(changes: list[str], price: dict[str, dict[str, float]]) -> None:
    """Print what was repaired, and scores before and after."""
    out = console()
    if changes:
        out.print("Repaired:", style="bold")
    for line in changes:
        out.print(f"  - {line}", soft_wrap=False)
    if price:
        out.print("What that cost (scores against the real trace, before and after):", style="bold")
    for key, values in price.items():
        out.print(f"  {key}: {values['before']:.3f}, {values['after']:.3f}")


def _print(answer: Answer, synth: str) -> None:
    """Print the answer, the checks (worst first), and what to do."""
    out = console()
    shown = answer.answer.upper() if answer.answer != "not without changes" else "NO, not without changes"
    out.print(f"May {synth} be published?  {shown}", style="bold")
    words = {"no": "NO", "change": "change", "unknown": "open", "ok": "ok"}
    for reason in answer.reasons:
        out.print(f"  [{words[reason.verdict]}] {reason.text}", soft_wrap=False)
    if answer.advice:
        out.print("What to do:", style="bold")
    for line in answer.advice:
        out.print(f"  - {line}", soft_wrap=False)
    out.print(answer.caveat, soft_wrap=False)
