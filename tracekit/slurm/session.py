"""A replay from beginning to end: the Slurm it runs on, the plan, the jobs, the driver, and the outcome."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tracekit.api import write
from tracekit.errors import TracekitError, UsageError
from tracekit.slurm.drive import Driver
from tracekit.slurm.guard import Guard, take_over
from tracekit.slurm.journal import restore_all
from tracekit.slurm.order import orders_of
from tracekit.slurm.outcome import read_outcome
from tracekit.slurm.own import Own
from tracekit.slurm.plan import FILE, Plan, make_plan
from tracekit.slurm.queue import Only
from tracekit.slurm.replay import Replay
from tracekit.slurm.tools import Slurm
from tracekit.trace import Trace

OUTCOME = "outcome.csv"
DRIVE = "drive.jsonl"
#: Says that a replay has started the Slurm of the folder, and not the user.
OURS = "run/by-replay"


@dataclass(frozen=True)
class Wish:
    """What a replay is asked for."""

    trace: Trace
    source: str
    speed: float = 60.0
    cpus: int | None = None
    nodes: int | None = None
    profile: str = "easy"
    conf: str = ""
    drive: str | None = None
    every: float = 1.0
    keep: bool = False  # leave the Slurm running
    sbatch: tuple[str, ...] = ()
    accounting: bool = False  # a Slurm of its own gets a database, and sacct is asked for the outcome


def replay(folder: str | Path, wish: Wish, say: Callable[[str], None]) -> Trace:
    """Replay a trace in a folder and return the outcome; a replay that is there goes on where it stopped.

    The Slurm is that of ``SLURM_CONF``, if it is set, and else one of its own in the folder, which is stopped at the
    end if it was started here.
    """
    own = Own(folder)
    given = os.environ.get("SLURM_CONF")
    foreign = bool(given) and Path(os.path.realpath(str(given))) != own.conf
    if wish.accounting and foreign:
        raise UsageError("--accounting is for a Slurm of its own, and SLURM_CONF names another: unset SLURM_CONF")
    if wish.accounting and own.exists:
        own.check_accounting()
    own.folder.mkdir(parents=True, exist_ok=True)
    steering = None if wish.drive is None else orders_of(wish.drive)  # what is wrong with it is said before all else
    with ExitStack() as stack:
        if foreign:
            slurm = Slurm(given)
            cpus = wish.cpus or _size_of(slurm)
        else:
            slurm = own.slurm
            cpus = wish.cpus or (own.layout().cpus if own.exists else wish.trace.machine.procs or 64)
        plan = _plan(own.folder, wish, cpus, say)
        if not foreign:
            take_over(own.folder)
            restore_all(own.folder / DRIVE)
            if own.running() and not own.whole():
                own.stop()  # left half by a call that was killed while it stopped
            if not own.running():
                size, books = (plan.cpus, wish.nodes), wish.accounting
                own.start(*size, profile=wish.profile, extra=wish.conf, with_accounting=books)
                say(f"a Slurm of {plan.cpus} CPUs runs in {own.folder}")
                (own.folder / OURS).touch()
            if (own.folder / OURS).exists() and not wish.keep:  # also where an earlier call that was killed started it
                stack.callback(own.stop)
                guard = Guard("own", str(own.folder))
                stack.callback(guard.dismiss)
        driver = None
        if steering is not None:
            only = Only(prefix=plan.tag + "-")
            driver = Driver(slurm, steering, own.folder / DRIVE, only=only, every=wish.every, say=say)
            stack.callback(driver.close)
        Replay(own.folder, plan, slurm, say, driver, wish.sbatch).run()
        made = read_outcome(own.folder, plan, slurm)
        if driver is not None:
            say(f"the driver looked {driver.turns} times and set {driver.updates} priorities")
    write(made, own.folder / OUTCOME, force=True)
    return made


def _plan(folder: Path, wish: Wish, cpus: int, say: Callable[[str], None]) -> Plan:
    """Return the plan of the folder, or a new one."""
    if (folder / FILE).is_file():
        plan = Plan.load(folder)
        if (plan.trace, plan.speed, plan.drive) != (wish.source, wish.speed, wish.drive):
            raise TracekitError(
                f"{folder}: holds a replay of {plan.trace} at speed {plan.speed:g} (--drive {plan.drive}); "
                "choose another folder for another replay"
            )
        return plan
    plan = make_plan(wish.trace, wish.source, speed=wish.speed, cpus=cpus, drive=wish.drive)
    for reason, count in plan.rejected.items():
        say(f"{count} jobs are left out: {reason}")
    plan.save(folder)
    return plan


def outcome_in(folder: str | Path) -> tuple[Trace, Plan, str]:
    """Return the outcome of a replay, its plan and the scheduler setting ('' if the Slurm was not its own)."""
    own = Own(folder)
    plan = Plan.load(own.folder)
    if own.exists:
        return read_outcome(own.folder, plan), plan, own.layout().profile
    from tracekit.api import read

    place = own.folder / OUTCOME
    if not place.is_file():
        raise TracekitError(f"{folder}: the replay has not ended yet ({OUTCOME} is missing)")
    return read(place, "csv", procs=plan.cpus), plan, ""


def _size_of(slurm: Slurm) -> int:
    from tracekit.slurm.queue import processors

    return processors(slurm.call("sinfo", "--json"))
