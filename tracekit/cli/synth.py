"""Commands about models: synth makes a synthetic trace, models lists the models."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli.app import Force, Json, Resource, Seed, Settings, app, console, print_json, say, table
from tracekit.cli.large import InParts, PartJobs, is_parquet, opened, save_batches
from tracekit.cli.simulate import Cluster
from tracekit.cli.traces import Epoch, From, MachineFile, Map, OnError, TimeZone, To
from tracekit.errors import MissingExtra, UnknownName, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from generators.synth import Fitted
    from swf.parts import Parts
    from tracekit.large.source import Source
    from tracekit.machine import Machine
    from tracekit.trace import Trace

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
#: From this many jobs on, a Parquet file is written in parts.
_LARGE = 200_000
_BUDGETS = ("quick", "normal", "thorough")


@app.command()
def synth(
    real: Annotated[str | None, typer.Argument(metavar="REAL", help="Trace to fit the model on; - is stdin.")] = None,
    out: Annotated[
        str | None, typer.Option("--output", "-o", metavar="OUT", help="File to write; - is stdout.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Model to fit; see tracekit models (default: sessions).")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Number of jobs (default: as in REAL).")] = None,
    span: Annotated[str | None, typer.Option("--span", help="Time span instead, such as 30d, 12h or 4w.")] = None,
    seed: Seed = 0,
    budget: Annotated[
        str, typer.Option("--budget", help="Fitting time: quick, normal or thorough, about 1, 5, 30 minutes.")
    ] = "normal",
    encoding: Annotated[
        str, typer.Option("--encoding", help="Encoding: default (only feasible jobs), or raw columns.")
    ] = "default",
    load: Annotated[str, typer.Option("--load", help="Offered load: real, none (not scaled) or a number.")] = "real",
    machine_procs: Annotated[
        int | None, typer.Option("--machine-procs", help="Scale to a machine of this size (as --procs).")
    ] = None,
    start: Annotated[str | None, typer.Option("--start", help="Date of the first job, such as 2025-03-01.")] = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="Only jobs with queue=3; may be repeated.")] = None,
    skeleton: Annotated[
        str | None, typer.Option("--skeleton", help="sessions: resampled (users' shifted calendars) or modelled.")
    ] = None,
    privacy: Annotated[
        int | None,
        typer.Option("--privacy", min=1, help="sessions: minimum number of users behind every learnt value."),
    ] = None,
    for_sharing: Annotated[
        bool,
        typer.Option(
            "--for-sharing", help="sessions: repeat no user's calendar, requests or names; for traces to publish."
        ),
    ] = False,
    keep_unusable: Annotated[
        bool,
        typer.Option("--keep-unusable", help="sessions: keep the share of rows without a run time or a size."),
    ] = False,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="private: privacy budget; smaller is safer (default: 3).")
    ] = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="private: chance that epsilon does not hold (default: 1e-6).")
    ] = None,
    unit: Annotated[
        str | None, typer.Option("--unit", help="private: what is protected, user (default; all its jobs) or job.")
    ] = None,
    cap: Annotated[
        float | None, typer.Option("--cap", help="private: jobs that a user counts for; default: chosen privately.")
    ] = None,
    recorded: Annotated[
        str | None,
        typer.Option("--recorded", help="private: length of the log if it is public, such as 300d; default: bought."),
    ] = None,
    noise_seed: Annotated[
        int | None, typer.Option("--noise-seed", min=0, help="private: for tests; the result is NOT private.")
    ] = None,
    users: Annotated[
        int | None, typer.Option("--users", min=1, help="sessions: number of users of the synthetic trace.")
    ] = None,
    share: Annotated[
        list[str] | None, typer.Option("--share", help="sessions: share of jobs, such as queue=batch:0.3.")
    ] = None,
    more: Annotated[
        list[str] | None, typer.Option("--more", help="sessions: factor on the number of such jobs, such as gpus:1.2.")
    ] = None,
    save: Annotated[
        str | None, typer.Option("--save", metavar="DIR", help="Save the fitted model in this folder.")
    ] = None,
    from_model: Annotated[str | None, typer.Option("--from-model", metavar="DIR", help="Use a saved model.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Load a saved model even if it can run code.")] = False,
    from_: From = None,
    to: To = None,
    procs: Annotated[
        int | None,
        typer.Option("--procs", help="Scale to a machine of this size; or REAL's size, if the file has none."),
    ] = None,
    machine: MachineFile = None,
    resource: Resource = None,
    cluster: Cluster = None,
    map_: Map = None,
    epoch: Epoch = None,
    timezone: TimeZone = None,
    on_error: OnError = "stop",
    fit_jobs: Annotated[
        int | None,
        typer.Option(
            "--fit-jobs",
            min=1,
            help="Learn from so many consecutive jobs in the middle of REAL, and make as many (default: all).",
        ),
    ] = None,
    in_parts: InParts = None,
    part_jobs: PartJobs = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Make a synthetic trace from a real one, or with --model eda or lublin from default parameters.

    Ctrl-C while the model is fitted stops the fit; the trace is then made from the best state so far (exit code 130).

    The default model is sessions. Only sessions supports --users, --share and --more, and reaches a load by changing
    the number of users; other models scale inter-arrival times. Without REAL, model eda draws its hosts too (or takes
    --cluster), and lublin needs --procs. Model private is differentially private: --epsilon, --delta and --unit set
    its budget, the spending is printed line by line, and its noise is secret, so the same seed gives other jobs.

    --for-sharing sets --skeleton modelled and --privacy 10, deals out what single users did in a row, gives new labels,
    moves the dates, and leaves the machine's name and all texts of REAL out.

    Example: `tracekit synth sample.swf -o made.swf --jobs 1000 --seed 1`
    """
    from generators import MODELS, sharing, streamed
    from generators import synth as library
    from swf.parts import Parts
    from tracekit.api import free_memory
    from tracekit.cli import traces
    from tracekit.clusters import cluster_of, with_hosts
    from tracekit.machine import Machine

    if budget not in _BUDGETS:
        raise UnknownName("budget", budget, _BUDGETS)
    if encoding not in ("default", "raw"):
        raise UnknownName("encoding", encoding, ("default", "raw"))
    if real is not None and from_model is not None:
        raise UsageError("give either a trace to fit or --from-model DIR")
    if real is None and (from_model is None) == (model is None):
        raise UsageError("give a trace to fit, --from-model DIR, or --model NAME with default parameters (eda, lublin)")
    if real is not None and model is None:
        model = library.DEFAULT_MODEL
    if jobs is not None and span is not None:
        raise UsageError("give either --jobs or --span, not both")
    if out is None and sys.stdout.isatty():
        raise UsageError("missing output: give -o OUT, or -o - for stdout")
    out = out or "-"
    if json and out == "-":
        raise UsageError("--json prints on stdout, so the trace needs a file: -o OUT")
    library.check_load(load)
    seconds, conditions = _parse_span(span), _parse_only(only)
    shares, times = _parse_share(share), _parse_more(more)
    options = _options(model, skeleton, privacy)
    if keep_unusable:
        if real is None:
            raise UsageError("--keep-unusable is for fitting; a saved model keeps such rows if it was fitted so")
        options["keep_unusable"] = True
    if for_sharing:
        if from_model is not None or real is None:
            raise UsageError("--for-sharing fits the model itself: give the real trace, without --from-model")
        if save is not None:
            raise UsageError(
                "--for-sharing with --save: a saved model holds real values; save it without --for-sharing"
            )
        options = sharing.for_sharing(str(model), options, conditions)
    options |= _private_options(
        model,
        {
            "epsilon": epsilon,
            "delta": delta,
            "unit": unit,
            "cap": cap,
            "recorded": _parse_span(recorded, "--recorded"),
            "noise_seed": noise_seed,
        },
    )
    if cluster is not None and from_model is not None:
        raise UsageError("--cluster is for learning; a saved model already has its machine")
    hosts = None if cluster is None else cluster_of(cluster)
    if model is not None and model not in MODELS:
        raise UnknownName("model", model, MODELS)
    chosen = traces.prepare(real or "", out, format=to, force=force, part_jobs=part_jobs)
    if save is not None:
        library.check_folder(save, force=force)
    if real is None and fit_jobs is not None:
        raise UsageError("--fit-jobs is for fitting: give the real trace")
    if real is not None and model is not None:
        reading: dict[str, Any] = {"machine": machine, "resource": resource, "timezone": timezone, "map_": map_}
        texts: dict[str, Any] = {"on_error": on_error, "epoch": epoch}
        parts = _in_parts(real, model, from_, in_parts, fit_jobs, reading | {"epoch": epoch}, options)
        if parts is not None:
            parts.machine, machine_procs = _sized(parts.machine, procs, machine_procs)
            parts.machine = parts.machine if hosts is None else with_hosts(parts.machine, hosts)
            watch = {"jobs": Parts(real).jobs, "progress": _progress(model)}
            fitted = streamed.fit(parts, model, seed=seed, room=free_memory(), **watch, **options)
        else:
            if fit_jobs is not None:
                trace = _stretch(real, fit_jobs, from_, reading, texts)
            else:
                _check_room(real, model, from_, options)
                trace, _ = traces.load(real, format=from_, columns=streamed.columns_of(model), **texts, **reading)
            described, machine_procs = _sized(trace.machine, procs, machine_procs)
            trace = trace.replace(machine=described if hosts is None else with_hosts(described, hosts))
            fitted = library.fit(
                trace, model, seed=seed, budget=budget, encoding=encoding, progress=_progress(model), **options
            )
    elif model is not None:
        cluster_ = hosts if hosts is not None or procs is None else Machine(name=f"{procs} processors", procs=procs)
        fitted = library.from_defaults(model, cluster=cluster_, seed=seed)
    else:
        fitted = library.load(str(from_model), trust=trust)
    for note in fitted.notes:
        say(f"{fitted.model.name}: {note}")
    if save is not None:
        fitted.save(save, force=force)
        say(f"{save}: model {fitted.model.name}")
    count = fitted.jobs if jobs is None else jobs
    if (
        not for_sharing
        and chosen == "parquet"
        and (count > _LARGE or part_jobs is not None)
        and out != "-"
        and not (seconds or conditions or machine_procs)
    ):
        pieces = library.chunks(fitted, count, seed=seed, load=load, start=start, users=users, share=shares, more=times)
        if pieces is not None:
            _write_parts(pieces, count, out, fitted, seed, part_jobs, force=force, json=json)
            return
    made = library.make(
        fitted,
        jobs,
        seed=seed,
        span=seconds,
        load=load,
        machine_procs=machine_procs,
        start=start,
        only=conditions,
        users=users,
        share=shares,
        more=times,
    )
    for step in made.history[-3:]:
        if step.startswith("load"):
            say(step)
    if for_sharing:
        made = sharing.published(made, seed, dated=start is not None)
        say("for sharing: before you publish it, run tracekit share with weeks that were held out")
    traces.save(made, out, format=chosen, force=force, part_jobs=part_jobs)
    if json:
        print_json(_told(fitted, made, out, seed))
    if real is not None and fitted.interrupted:
        raise typer.Exit(130)


def _stretch(real: str, jobs: int, format: str | None, reading: dict[str, Any], texts: dict[str, Any]) -> Trace:
    """Return consecutive jobs in the middle of a trace; of a Parquet trace the rest never is in memory."""
    from tracekit import transform
    from tracekit.cli.traces import load
    from tracekit.large.changes import window
    from tracekit.large.source import in_memory

    known = _known(real, format)
    if known is not None and reading["map_"] is None and (source := opened(real, True, **reading)) is not None:
        return in_memory(window(source, max(0, (known.jobs - jobs) // 2), jobs))
    trace, _ = load(real, format=format, **texts, **reading)
    return transform.window(trace, max(0, (len(trace) - jobs) // 2), jobs)


def _in_parts(
    real: str,
    model: str,
    format: str | None,
    parts: bool | None,
    fit_jobs: int | None,
    reading: dict[str, Any],
    options: dict[str, Any],
) -> Source | None:
    """Return a trace that a model learns from in batches, or None where it learns from jobs in memory."""
    from generators import streamed
    from tracekit.api import SHARE, free_memory

    if parts and not is_parquet(real):
        return opened(real, parts, format=format, **reading)  # which says what to do
    if fit_jobs is not None or (not streamed.works_in_batches(model) and (not parts or streamed.columns_of(model))):
        return None
    known = None if parts is not None or reading["map_"] is not None else _known(real, format)
    if known is not None and streamed.works_in_batches(model):
        needed = streamed.bytes_needed(model, known.jobs, in_parts=False, **options)
        parts = True if needed > SHARE * free_memory() else None
    return opened(real, parts, format=format, **reading)


def _known(real: str, format: str | None) -> Parts | None:
    """Return a Parquet trace that can be read in batches."""
    from pathlib import Path

    from swf.parts import readable_parts

    return readable_parts(Path(real)) if is_parquet(real) and format in (None, "parquet") else None


def _check_room(real: str, model: str, format: str | None, options: dict[str, Any]) -> None:
    """Refuse before a Parquet trace is read if reading it, or the model, would need more memory than there is."""
    from generators import streamed
    from tracekit.api import free_memory

    known = _known(real, format)
    if known is not None:
        reading = known.bytes_whole(streamed.columns_of(model))
        streamed.check_room(model, known.jobs, free_memory(), reading, skeleton=options.get("skeleton"))


def _sized(machine: Machine, procs: int | None, machine_procs: int | None) -> tuple[Machine, int | None]:
    """Give REAL's machine the size of --procs if it has none, else return --procs as the size to scale to."""
    size, unit = machine.size(), machine.unit
    if procs is None or procs == size:
        return machine, machine_procs
    if procs < 1:
        raise UsageError(f"--procs must be at least 1, not {procs}")
    if size is None:
        return machine.replace(**{unit: procs}), machine_procs
    if machine_procs is not None:
        raise UsageError("--procs and --machine-procs both name the size to scale to: give one of them")
    say(f"the real machine has {size:,} {unit}: jobs are scaled to {procs:,} (--machine FILE corrects the real size)")
    return machine, procs


def _write_parts(
    parts: Iterator[Trace],
    jobs: int,
    out: str,
    fitted: Fitted,
    seed: int,
    part_jobs: int | None,
    *,
    force: bool,
    json: bool,
) -> None:
    """Write a long trace part by part, so that memory does not grow with it."""
    from generators.progress import StderrProgress, silent

    progress = silent if Settings.quiet else StderrProgress("writing")

    def chunks() -> Iterator[Trace]:
        done = 0
        for part in parts:
            yield part
            done += len(part)
            progress(done, jobs, "jobs")

    written, history = save_batches(chunks(), out, part_jobs=part_jobs, force=force, how=", written in parts")
    if json:
        notes = {"notes": fitted.notes, "history": history}
        print_json({"model": fitted.model.name, "output": out, "jobs": written, "seed": seed, **notes})


def _progress(model: str) -> Any:
    from generators.progress import StderrProgress

    return None if Settings.quiet else StderrProgress(model)


def _told(fitted: Fitted, made: Any, out: str, seed: int) -> dict[str, Any]:
    """Return what --json prints."""
    return {
        "model": fitted.model.name,
        "output": out,
        "jobs": len(made),
        "seed": seed,
        "offered_load": made.offered_load(),
        "real_load": fitted.load,
        "unit": made.machine.unit,
        "left_out": fitted.left_out,
        "notes": fitted.notes,
        "history": list(made.history),
    }


def _parse_span(text: str | None, flag: str = "--span") -> float | None:
    if text is None:
        return None
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([smhdw]?)\s*", text)
    if not found or float(found[1]) <= 0:
        raise UsageError(f"{flag} {text}: expected a time such as 30d, 12h or 4w")
    return float(found[1]) * _SECONDS[found[2] or "s"]


def _parse_only(given: list[str] | None) -> dict[str, str] | None:
    conditions = {}
    for text in given or []:
        for part in text.split(","):
            name, equals, value = part.partition("=")
            if not equals or not name.strip() or not value.strip():
                raise UsageError(f"--only {text}: expected a condition such as queue=3")
            conditions[name.strip()] = value.strip()
    return conditions or None


def _options(model: str | None, skeleton: str | None, privacy: int | None) -> dict[str, Any]:
    """Return the fit options that only model sessions supports."""
    given = {name: value for name, value in (("skeleton", skeleton), ("privacy", privacy)) if value is not None}
    if given and model != "sessions":
        where = f"not by model {model}" if model else "and only when it is fitted"
        raise UsageError(f"--{next(iter(given))} is only supported by model sessions, {where}")
    return given


def _private_options(model: str | None, values: dict[str, Any]) -> dict[str, Any]:
    """Return the fit options that only model private supports."""
    given = {name: value for name, value in values.items() if value is not None}
    if given and model != "private":
        where = f"not by model {model}" if model else "and only when it is fitted"
        raise UsageError(f"--{next(iter(given)).replace('_', '-')} is only supported by model private, {where}")
    return given


def _parse_share(given: list[str] | None) -> dict[tuple[str, str], float]:
    wanted = {}
    for text in given or []:
        found = re.fullmatch(r"\s*(\w+)\s*=\s*(.+):\s*([0-9.]+)\s*(%?)\s*", text)
        if not found:
            raise UsageError(f"--share {text}: expected a share such as queue=batch:0.3")
        wanted[found[1], found[2].strip()] = _number(found[3], f"--share {text}") / (100 if found[4] else 1)
    return wanted


def _parse_more(given: list[str] | None) -> dict[str, float]:
    wanted = {}
    for text in given or []:
        found = re.fullmatch(r"\s*(\w+)\s*:\s*([0-9.]+)\s*", text)
        if not found:
            raise UsageError(f"--more {text}: expected a factor such as gpus:1.2")
        wanted[found[1]] = _number(found[2], f"--more {text}")
    return wanted


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{what}: {text} is not a number") from None


@app.command()
def models(json: Json = False) -> None:
    """List the models with their licences, required extras and typical fitting times.

    Example: `tracekit models`
    """
    from generators import MODELS

    rows: list[dict[str, Any]] = []
    for name in MODELS:
        try:
            info = MODELS.get(name).info
        except MissingExtra as error:
            rows.append({"name": name, "family": "", "summary": str(error), "installed": False})
            continue
        rows.append(
            {
                "name": name,
                "family": info.family,
                "summary": info.summary,
                "licence": info.licence,
                "extra": info.extra,
                "installed": _installed(info.extra),
                "minutes": info.minutes,
                "copies": info.copies,
                "paper": info.paper,
                "needs_trust": bool(info.trust),
            }
        )
    if json:
        print_json({"models": rows})
        return
    shown = table("model", "family", "what", "licence", "extra", "copies jobs", "typical fit", title=None)
    for row in rows:
        extra = f"{row['extra']}{'' if row['installed'] else ' (not installed)'}" if row.get("extra") else "-"
        shown.add_row(
            row["name"],
            row["family"],
            row["summary"],
            str(row.get("licence", "")).split(" (")[0],
            extra,
            "yes, by design" if row.get("copies") else "no",
            _minutes(row.get("minutes", 0.0)),
        )
    console().print(shown)
    say(
        "typical fit: 30,000 jobs on two cores at --budget normal. BUSL-1.1: free to use, but not for offering "
        "synthetic data as a commercial service"
    )


def _installed(extra: str | None) -> bool:
    from importlib.util import find_spec

    from tracekit.registry import EXTRAS

    return extra is None or all(find_spec(package) for package, name in EXTRAS.items() if name == extra)


def _minutes(value: float) -> str:
    return "seconds" if value < 0.5 else f"{value:g} min"
