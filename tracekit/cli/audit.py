"""Command audit-privacy: a lower bound on a model's epsilon, from trainings with and without a canary user."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tracekit.cli.app import Json, Resource, Seed, Settings, app, console, print_json, say
from tracekit.cli.traces import From, In, MachineFile, Procs, TimeZone, load
from tracekit.errors import UnknownName


@app.command("audit-privacy")
def audit_privacy(
    real: In,
    model: Annotated[str, typer.Option("--model", help="Model to audit; see tracekit models.")] = "private",
    runs: Annotated[int, typer.Option("--runs", min=4, help="Trainings with the canary, and as many without.")] = 100,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="private: the claimed budget.")] = None,
    delta: Annotated[float, typer.Option("--delta", help="Delta at which epsilon is bounded.")] = 1e-6,
    unit: Annotated[str, typer.Option("--unit", help="The canary is a user (200 jobs), or a job.")] = "user",
    skeleton: Annotated[str | None, typer.Option("--skeleton", help="sessions: resampled or modelled.")] = None,
    privacy: Annotated[int | None, typer.Option("--privacy", min=1, help="sessions: users behind every value.")] = None,
    seed: Seed = 0,
    from_: From = None,
    procs: Procs = None,
    machine: MachineFile = None,
    resource: Resource = None,
    timezone: TimeZone = None,
    json: Json = False,
) -> None:
    """Find out how much one user's presence shows: a lower bound on a model's epsilon, with its confidence.

    The model is fitted many times with a conspicuous user added, and as many times without. A bound above the claim
    refutes it; a bound below the claim proves nothing. Ctrl-C ends the trainings and uses those that are done (exit
    code 130).

    Example: `tracekit audit-privacy sample.swf --model resample --runs 10`
    """
    from generators import MODELS
    from generators.audit import audit
    from generators.progress import StderrProgress

    if model not in MODELS:
        raise UnknownName("model", model, MODELS)
    trace, _ = load(real, format=from_, procs=procs, machine=machine, resource=resource, timezone=timezone)
    given = {"epsilon": epsilon, "skeleton": skeleton, "privacy": privacy}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    _check_options(model, options)
    progress = None if Settings.quiet else StderrProgress(f"audit of {model}")
    found = audit(trace, model, runs, seed=seed, progress=progress, delta=delta, unit=unit, **options)
    if json:
        print_json(found.to_dict())
    else:
        out = console()
        claim = "none" if found.claimed_epsilon is None else f"{found.claimed_epsilon:g}"
        out.print(
            f"{model}: epsilon is at least {found.lower_bound:.3g} ({found.confidence:.0%} confidence)", style="bold"
        )
        out.print(f"claimed: {claim}, at delta {found.delta:g}, per {found.unit}")
        out.print(f"attack: {found.attack}; {found.runs} trainings with the canary and {found.runs} without")
        out.print(f"right guesses: {found.guessed_with:.0%} with the canary, {found.guessed_without:.0%} without")
        out.print(f"so many trainings can show {found.largest_possible:.3g} at most")
    if found.claimed_epsilon is not None and found.lower_bound > found.claimed_epsilon:
        say("the claim does NOT hold: please report this")
        raise typer.Exit(1)
    if found.interrupted:
        raise typer.Exit(130)


def _check_options(model: str, options: dict[str, Any]) -> None:
    from tracekit.errors import UsageError

    owners = {"epsilon": "private", "skeleton": "sessions", "privacy": "sessions"}
    for name in options:
        if owners[name] != model:
            raise UsageError(f"--{name} is only supported by model {owners[name]}, not by model {model}")
