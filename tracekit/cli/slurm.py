"""`tracekit slurm …`: a Slurm of one's own, traces replayed on it, the simulator beside it, a policy that steers it."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli.app import Force, Json, app, console, print_json, say, search_here, table
from tracekit.errors import TracekitError, UsageError

if TYPE_CHECKING:
    from tracekit.slurm.drive import Turn
    from tracekit.trace import Trace

slurm = typer.Typer(
    name="slurm",
    help="Run a Slurm of your own, replay traces on it, compare it with the simulator, steer it, write job scripts.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.add_typer(slurm)

Folder = Annotated[str, typer.Argument(metavar="DIR", help="Folder of the Slurm.")]
Out = Annotated[str, typer.Option("--output", "-o", metavar="DIR", help="Folder; all that belongs to it is below it.")]
In = Annotated[str, typer.Argument(metavar="TRACE", help="Trace to read: any known format, plain or compressed.")]
From = Annotated[str | None, typer.Option("--from", help="Format of the trace (default: detected from content).")]
Nodes = Annotated[int | None, typer.Option("--nodes", min=1, help="Nodes; they share the CPUs evenly (default: N).")]
Conf = Annotated[str | None, typer.Option("--conf", metavar="FILE", help="More lines for slurm.conf.")]
Scheduler = Annotated[
    str,
    typer.Option(
        "--scheduler", help="easy (one reservation), conservative (all), none, or default (Slurm's own pace)."
    ),
]
Accounting = Annotated[
    bool, typer.Option("--accounting", help="With slurmdbd and a private MariaDB, so that sacct works.")
]
Window = Annotated[
    str | None, typer.Option("--window", metavar="START:COUNT", help="COUNT jobs from 0-based position START only.")
]


@slurm.command()
def start(
    output: Out,
    cpus: Annotated[int, typer.Option("--cpus", min=1, metavar="N", help="CPUs in all.")] = 64,
    nodes: Nodes = None,
    scheduler: Scheduler = "easy",
    accounting: Accounting = False,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Start a Slurm of your own: own key, ports and folders below DIR, on the loopback address only.

    Its nodes are all this machine, which is not the smaller for it: it takes as many jobs as they claim to have CPUs.
    A folder with a stopped Slurm starts again with its jobs. Needs Debian's packages slurm-wlm and munge; with
    --accounting also slurmdbd and mariadb-server.

    Example: `tracekit slurm start -o lab --cpus 64`
    """
    from tracekit.slurm.own import Own

    own = Own(output)
    extra, source = _conf(conf), conf or "--conf"
    status_ = own.start(cpus, nodes, profile=scheduler, extra=extra, source=source, with_accounting=accounting)
    _show(status_, json)
    say(f"export SLURM_CONF={own.conf} lets squeue, sbatch and the others talk to it")


@slurm.command()
def status(folder: Folder, json: Json = False) -> None:
    """Say what runs of the Slurm in DIR: daemons, nodes by state, jobs by state.

    Example: `tracekit slurm status lab`
    """
    from tracekit.slurm.own import Own

    _show(Own(folder).status(), json)


@slurm.command()
def stop(folder: Folder, json: Json = False) -> None:
    """Stop the Slurm in DIR: running jobs are cancelled, waiting ones are there when it starts again.

    Only processes of this Slurm are ended, by its pid files. Another Slurm on the machine is not touched.

    Example: `tracekit slurm stop lab`
    """
    from tracekit.slurm.guard import take_over
    from tracekit.slurm.own import Own

    own = Own(folder)
    own.layout()
    take_over(own.folder)
    count = own.stop()
    if json:
        print_json({"folder": str(own.folder), "ended": count})
    else:
        say(f"{count} processes ended" if count else "nothing was running")


def _show(found: Any, json: bool) -> None:
    if json:
        print_json(found.to_dict())
        return
    shown = table("what", "how many", right=["how many"])
    shown.add_row("running", "yes" if found.running else "no")
    shown.add_row("CPUs", f"{found.cpus:,}")
    shown.add_row("nodes, with a daemon", f"{found.nodes:,}, {found.daemons:,}")
    shown.add_row("accounting", "yes" if found.accounting else "no")
    for title, counts in (("nodes", found.idle), ("jobs", found.jobs)):
        for state, count in sorted(counts.items()):
            shown.add_row(f"{title}: {state}", f"{count:,}")
    console().print(shown)


def _conf(path: str | None) -> str:
    if path is None:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TracekitError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _read(file: str, from_: str | None, window: str | None) -> Trace:
    import tracekit
    from tracekit.sim.windows import parse_window

    trace = tracekit.read(file, from_)
    if window is not None:
        first, count = parse_window(window)
        if first + count > len(trace):
            raise UsageError(f"window {window} does not lie within the {len(trace):,} jobs of the trace")
        trace = trace.take(slice(first, first + count))
    return trace


@slurm.command()
def replay(
    file: In,
    output: Out,
    speed: Annotated[float, typer.Option("--speed", help="Times are divided by this.")] = 60.0,
    cpus: Annotated[int | None, typer.Option("--cpus", min=1, metavar="N", help="CPUs (default: the trace's).")] = None,
    nodes: Nodes = None,
    scheduler: Scheduler = "easy",
    drive: Annotated[
        str | None, typer.Option("--drive", metavar="POLICY", help="Set priorities: agent:DIR or a policy's name.")
    ] = None,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two looks of --drive.")] = 1.0,
    window: Window = None,
    accounting: Accounting = False,
    conf: Conf = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the Slurm running at the end.")] = False,
    sbatch: Annotated[
        list[str] | None, typer.Option("--sbatch", metavar="WORD", help="One more word for sbatch; may be repeated.")
    ] = None,
    from_: From = None,
    json: Json = False,
) -> None:
    """Submit the jobs of a trace to a real Slurm at their times, as jobs that sleep, and read the outcome back.

    The Slurm is one of its own in DIR, or that of SLURM_CONF where it is set. Limits become whole minutes, at least
    one. Users become comments, predecessors dependencies. Killed, it goes on where it stopped when it is called again.
    DIR/outcome.csv is the outcome as a trace.

    Example: `tracekit slurm replay jobs.swf -o lab --speed 60 --cpus 64`
    """
    from tracekit.slurm.session import OUTCOME, Wish
    from tracekit.slurm.session import replay as library

    search_here([drive or ""])
    wish = Wish(
        _read(file, from_, window),
        file if window is None else f"{file} {window}",
        speed,
        cpus,
        nodes,
        scheduler,
        _conf(conf),
        drive,
        every,
        keep,
        tuple(sbatch or ()),
        accounting,
    )
    made = library(output, wish, say)
    place = str(Path(output) / OUTCOME)
    wait = float(made.column("wait_time").mean())
    if json:
        print_json({"jobs": len(made), "mean_wait_s": wait, "outcome": place, "drive": drive})
    else:
        say(f"{len(made)} jobs ended, mean wait {wait:.1f} s of Slurm's; {place}")


@slurm.command()
def compare(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of a replay.")],
    policy: Annotated[
        str | None, typer.Option("--policy", help="Policy of the simulation (default: --drive's).")
    ] = None,
    backfill: Annotated[
        str | None,
        typer.Option("--backfill", help="Backfilling of the simulation (default: as the Slurm's scheduler)."),
    ] = None,
    reaction: Annotated[
        float | None, typer.Option("--reaction", min=0, help="Seconds from an event to the pass that it causes.")
    ] = None,
    fit: Annotated[
        list[str] | None,
        typer.Option(
            "--fit", metavar="DIR", help="Fit the reaction on another replay, without backfilling; repeatable."
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", min=0, help="Passes every S seconds from the first start on; no reaction.")
    ] = 0.0,
    nodes: Annotated[
        bool,
        typer.Option("--nodes/--counts", help="With backfilling: on the Slurm's nodes, or a number of CPUs."),
    ] = True,
    figure: Annotated[str | None, typer.Option("--figure", metavar="FILE.png", help="Draw both schedules.")] = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Compare a replay, start by start, with the simulation of the same jobs under matching switches.

    The simulation gets the submit times, limits (whole minutes) and run times that Slurm had.

    Example: `tracekit slurm compare lab --json`
    """
    from tracekit.slurm import compare as library
    from tracekit.slurm.session import outcome_in

    real, plan, profile = outcome_in(folder)
    if (reaction is not None) + bool(fit) + bool(interval) > 1:
        raise UsageError("give one of --reaction, --fit and --interval")
    if fit:
        others = [outcome_in(one) for one in fit]
        if any(setting not in ("", "none") for _, _, setting in others):
            raise UsageError("--fit needs replays with --scheduler none: single starts of backfilled jobs are chaotic")
        reaction = library.fit_reaction(*(other for other, _, _ in others))
    rule = backfill or library.matching(profile or "easy")
    reaction = library.USUAL_REACTION_S if reaction is None else reaction
    switches: dict[str, Any] = {"reaction": reaction, "interval": interval, "nodes": nodes}
    found = library.compare(real, policy=policy or plan.drive or "fcfs", backfill=rule, **switches)
    facts = found.to_dict() | {"ended": len(real), "planned": len(plan.jobs)}
    if figure is not None:
        from tracekit.plots.slurm import draw_agreement

        draw_agreement(found, figure, force=force)
    if json:
        print_json(facts)
        return
    shown = table("measure", "Slurm", "simulated", right=["Slurm", "simulated"], title=f"{len(real)} jobs")
    for name, key in (("mean wait, s", "mean_wait"), ("95 % wait, s", "p95_wait")):
        shown.add_row(name, f"{facts[f'{key}_slurm_s']:.1f}", f"{facts[f'{key}_simulated_s']:.1f}")
    shown.add_row("utilisation", f"{facts['utilization_slurm']:.3f}", f"{facts['utilization_simulated']:.3f}")
    console().print(shown)
    errors = facts["start_error_s"]
    console().print(
        f"starts differ by {errors['mean']:.2f} s on average (median {errors['p50']:.2f}, 90 % {errors['p90']:.2f}, "
        f"longest {errors['max']:.2f}); order: Kendall's tau {facts['order_agreement']:.3f}"
    )
    say(f"simulated: {facts['policy']} + {rule}, reaction {reaction:g} s")


@slurm.command()
def drive(
    policy: Annotated[str, typer.Option("--policy", help="agent:DIR, a policy's name, search, or module:Class.")],
    folder: Annotated[
        str | None,
        typer.Option("--dir", metavar="DIR", help="A Slurm of 'slurm start' (default: SLURM_CONF, or here)."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One look; what it sets stays.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be set, and set nothing.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two looks.")] = 1.0,
    most: Annotated[int, typer.Option("--most", min=2, help="Jobs whose priority one look may change.")] = 200,
    turns: Annotated[int | None, typer.Option("--turns", min=1, help="Stop after so many looks.")] = None,
    user: Annotated[list[str] | None, typer.Option("--user", help="Only jobs of this user; may be repeated.")] = None,
    account: Annotated[list[str] | None, typer.Option("--account", help="Only jobs of this account.")] = None,
    partition: Annotated[list[str] | None, typer.Option("--partition", help="Only jobs of this partition.")] = None,
    log: Annotated[
        str, typer.Option("--log", metavar="FILE", help="Every change is written here first, to be put back.")
    ] = "slurm-drive.jsonl",
    restore: Annotated[bool, typer.Option("--restore", help="Only put back what the log says was changed.")] = False,
    json: Json = False,
) -> None:
    """Steer a Slurm: set the priorities of waiting jobs as a policy or an agent orders them.

    Only priorities that these jobs have are handed around among them. Held jobs, jobs that wait for others, and jobs
    that the filters leave out are never touched. All is put back at the end, also when this process is killed. Under
    priority/multifactor it sets Nice, else Priority. Try --dry-run first.

    Example: `tracekit slurm drive --policy saf --dir lab --dry-run`
    """
    from tracekit.slurm.drive import Driver
    from tracekit.slurm.journal import restore_all
    from tracekit.slurm.order import orders_of
    from tracekit.slurm.own import Own
    from tracekit.slurm.queue import Only
    from tracekit.slurm.tools import Slurm

    if restore:
        say(f"{restore_all(Path(log))} jobs put back")
        return
    search_here([policy])
    orders = orders_of(policy)
    if folder is not None:
        Own(folder).layout()
    target = Slurm.here() if folder is None else Own(folder).slurm
    users, accounts, partitions = (frozenset(given) if given else None for given in (user, account, partition))
    only = Only(users, accounts, partitions)
    driver = Driver(target, orders, None if dry_run else Path(log), only=only, most=most, every=every, say=say)
    if once or dry_run:
        try:
            turn = driver.once()
        except BaseException:
            driver.close()
            raise
        driver.close(restore=False)
        _told(turn, policy, json, dry=dry_run)
        if turn.changes and not dry_run:
            say(f"what was set stays; put it back with: tracekit slurm drive --policy {policy} --restore --log {log}")
        return
    say(f"steering by {policy}; Ctrl-C puts all priorities back and ends")
    try:
        while turns is None or driver.turns < turns:
            driver.turn()
            time.sleep(min(every, 0.2))
    finally:
        count = driver.close()
        say(f"{driver.turns} looks, {driver.updates} priorities set, {count} put back")
    if json:
        print_json({"policy": policy, "turns": driver.turns, "updates": driver.updates, "restored": count})


def _told(turn: Turn, policy: str, json: bool, *, dry: bool) -> None:
    """Print one look at the queue."""
    if json:
        changes = [{"job": c.job, "from": c.old, "to": c.new} for c in turn.changes]
        facts = {"policy": policy, "dry_run": dry, "waiting": turn.waiting, "touchable": turn.touchable}
        print_json(facts | {"order": list(turn.order), "changes": changes, "left_alone": turn.notes})
        return
    for change in turn.changes:
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.write(f"job {change.job}: priority {change.old} to {change.new}\n")
    left = ", ".join(f"{count} {reason}" for reason, count in turn.notes.items())
    say(
        f"{turn.waiting} jobs can start, {turn.touchable} of them may be touched, {len(turn.changes)} change"
        + (f"; left alone: {left}" if left else "")
    )


@slurm.command()
def export(
    file: In,
    output: Out,
    speed: Annotated[float, typer.Option("--speed", help="Times are divided by this.")] = 1.0,
    window: Window = None,
    arrays: Annotated[bool, typer.Option("--arrays/--no-arrays", help="Like jobs of one moment as an array.")] = True,
    from_: From = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Write job scripts and a plan by which a site can submit a trace to its own Slurm: submit.sh, plan.csv, jobs/.

    Scripts ask for CPUs, GPUs, memory and a limit, and sleep for the run time; put a real program in place of it.

    Example: `tracekit slurm export jobs.swf -o scripts`
    """
    from tracekit.slurm.export import export as library

    made = library(_read(file, from_, window), output, speed=speed, arrays=arrays, force=force)
    facts = dataclasses.asdict(made)
    if json:
        print_json(facts)
    else:
        say(f"{made.jobs} jobs as {made.submissions} submissions in {output}; run {output}/submit.sh there")
