"""`tracekit lsf advise`: hosts for pending jobs of LSF, as bmod commands."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from tracekit.cli.app import Json, app, print_json, say
from tracekit.errors import TracekitError, UnknownName, UsageError, reading

#: Seconds for one bmod.
_PATIENCE_S = 60.0


@app.command()
def lsf(
    action: Annotated[str, typer.Argument(metavar="advise", help="What to do: 'advise' names hosts.")],
    hosts: Annotated[str, typer.Option("--hosts", metavar="FILE", help="Output of bhosts -o … -json; - is stdin.")],
    jobs: Annotated[str, typer.Option("--jobs", metavar="FILE", help="Output of bjobs -o … -json; - is stdin.")],
    agent: Annotated[str | None, typer.Option("--agent", metavar="DIR", help="An agent of task pick-host.")] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", help="A rule instead: best-fit, worst-fit, first-fit, lsf-order, ….")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, max=100, help="Hosts to name for each job.")] = 2,
    others: Annotated[bool, typer.Option("--others", help="Allow all other hosts too, with less preference.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Run the commands instead of printing them.")] = False,
    json: Json = False,
) -> None:
    """Advise hosts for pending jobs of LSF: one bmod command for each that fits on some host now.

    Jobs are taken in the order of the listing; each takes its share of its best host from the later ones. Without
    --others a job may only run on the hosts that are named. Fields that are read are in docs/deploy-hosts.md.

    Example: `tracekit lsf advise --policy best-fit --hosts bhosts.json --jobs bjobs.json`
    """
    if action != "advise":
        raise UnknownName("action", action, ["advise"])
    from tracekit.service import lsf as library
    from tracekit.service.host_decide import scorer_of

    if hosts == "-" and jobs == "-":
        raise UsageError("only one of --hosts and --jobs can be read from stdin")
    if agent is None and policy is None:
        raise UsageError("give either --agent DIR or --policy NAME")
    scorer, _ = scorer_of(policy, agent)
    if apply and shutil.which("bmod") is None:
        raise TracekitError("--apply: bmod is not on the path; source LSF's profile first")
    listed = library.read_hosts(_read(hosts), hosts)
    waiting = library.read_jobs(_read(jobs), jobs)
    made = library.advise(listed, waiting, scorer, top=top, others=others)
    advised = [one for one in made if one.hosts]
    if json:
        rows = [{"job": one.job, "hosts": list(one.hosts), "command": one.command} for one in advised]
        print_json({"advice": rows, "unplaced": [one.job for one in made if not one.hosts], "closed": listed.closed})
    elif not apply:
        for one in advised:
            sys.stdout.write(one.text() + "\n")
    say(
        f"{len(waiting)} pending jobs: {len(advised)} advised, {len(made) - len(advised)} fit no host now; "
        f"{len(listed.table)} hosts open, {sum(listed.closed.values())} closed"
    )
    if apply:
        _run([one.command for one in advised])


def _read(path: str) -> str:
    if path == "-":
        return sys.stdin.read()
    with reading(path, "a listing of LSF"), Path(path).open(encoding="utf-8") as file:
        return file.read()


def _run(commands: list[list[str]]) -> None:
    """Run each command; those that fail are reported, and the others still run."""
    failed = 0
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
            why = "" if done.returncode == 0 else (done.stderr or done.stdout).strip().splitlines()[:1]
        except (OSError, subprocess.TimeoutExpired) as error:
            why = [type(error).__name__]
        if why != "":
            failed += 1
            say(f"bmod failed for job {command[-1]}: {why[0] if why else 'no message'}")
    say(f"{len(commands) - failed} jobs changed")
    if failed:
        raise TracekitError(f"bmod failed for {failed} of {len(commands)} jobs")
