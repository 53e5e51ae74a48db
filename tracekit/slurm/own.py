"""A Slurm of one's own: started, asked for its state, and stopped. Everything it has is below one folder.

``slurm.conf`` · ``own.json`` (size and ports) · ``munge/`` (key, socket) · ``run/`` (pid files) · ``log/`` · ``state/``
(the controller's memory) · ``spool/`` (of the nodes) · ``jobcomp.txt`` (jobs that have ended) · ``db/`` (accounting).
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError, UsageError
from tracekit.files import read_json, write_text
from tracekit.slurm import accounting, processes
from tracekit.slurm.conf import PROFILES, Layout, check_extra, check_folder, check_size, cluster_name, slurm_conf
from tracekit.slurm.tools import (
    DAEMONS,
    INSTALL_ACCOUNTING,
    Slurm,
    SlurmError,
    find,
    first_line,
    locked,
    require,
)

#: Ports below those that the system gives to outgoing connections.
_PORTS = range(12_000, 32_000)
_START_S, _STOP_S = 60.0, 20.0


@dataclass(frozen=True)
class Status:
    """What runs of a Slurm: daemons, nodes that take jobs, jobs by state."""

    folder: str
    running: bool  # controller and key service
    cpus: int
    nodes: int
    daemons: int  # of nodes
    idle: dict[str, int]  # nodes by state
    jobs: dict[str, int]  # by state
    accounting: bool = False  # whether slurmdbd runs, so that sacct works

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self)}


class Own:
    """A Slurm in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(os.path.realpath(folder))

    @property
    def conf(self) -> Path:
        """Its configuration."""
        return self.folder / "slurm.conf"

    @property
    def slurm(self) -> Slurm:
        """Its commands."""
        return Slurm(self.conf)

    @property
    def exists(self) -> bool:
        """Whether the folder holds a Slurm, running or not."""
        return (self.folder / "own.json").is_file() and self.conf.is_file()

    def check_accounting(self) -> None:
        """Raise UsageError if the Slurm that is here was made without accounting."""
        if not self.layout().accounting:
            raise UsageError(f"{self.folder}: the Slurm here has no accounting; choose another folder")

    def layout(self) -> Layout:
        """Return size and ports, as written by `start`."""
        if not self.exists:
            raise TracekitError(f"{self.folder}: there is no Slurm here; 'tracekit slurm start -o DIR' makes one")
        try:
            return Layout(**read_json(self.folder / "own.json"))
        except TypeError:
            raise TracekitError(f"{self.folder / 'own.json'}: not written by this version of tracekit") from None

    # ---- start -------------------------------------------------------------------------------------------------------

    def start(
        self,
        cpus: int | None = None,
        nodes: int | None = None,
        *,
        profile: str = "easy",
        extra: str = "",
        source: str = "--conf",
        with_accounting: bool = False,
    ) -> Status:
        """Start, or start again with the same size and jobs; what fails on the way is taken down again.

        A Slurm that had accounting keeps it.
        """
        require(*DAEMONS, "squeue", "scontrol")
        if with_accounting:
            require(*accounting.PROGRAMS, what="Slurm's accounting", how=INSTALL_ACCOUNTING)
        check_folder(self.folder)
        if profile not in PROFILES:
            from tracekit.errors import UnknownName

            raise UnknownName("scheduler", profile, PROFILES)
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(Path(tempfile.gettempdir()) / f"tracekit-slurm-{os.getuid()}.lock"):  # ports are chosen here
            if self.running():
                raise TracekitError(f"{self.folder}: a Slurm runs here already; 'tracekit slurm stop' ends it")
            if self.exists:
                layout = self.layout()
                asked = check_size(cpus or layout.cpus, nodes) if cpus or nodes else (layout.cpus, layout.nodes)
                if asked != (layout.cpus, layout.nodes):
                    raise UsageError(
                        f"{self.folder}: the Slurm here has {layout.cpus} CPUs on {layout.nodes} nodes; "
                        "choose another folder for another size"
                    )
                if with_accounting:
                    self.check_accounting()
                self._stop_processes()  # of a Slurm that has partly died
                if not _free(layout.port, layout.ports):
                    layout = Layout(**{**vars(layout), "port": _ports(layout.ports)})
            else:
                self._check_empty()
                size = check_size(64 if cpus is None else cpus, nodes)
                checked = check_extra(extra, source)
                layout = Layout(str(self.folder), *size, 0, profile, checked, with_accounting)
                layout = replace(layout, port=_ports(layout.ports))
            try:
                self._write(layout)
                self._munged()
                if layout.accounting:
                    accounting.start(self.folder, self.slurm, cluster_name(str(self.folder)), layout.dbd_port)
                self._daemons(layout)
            except BaseException:
                self._stop_processes()
                raise
        return self.status()

    def _check_empty(self) -> None:
        """Refuse a folder of something else."""
        ours = {"log", "plan.json", "jobs.jsonl"}
        strangers = [entry.name for entry in self.folder.iterdir() if entry.name not in ours]
        if strangers and not (self.folder / "munge").is_dir():
            raise TracekitError(f"{self.folder}: holds other files ({strangers[0]}, …); choose a new folder")

    def _write(self, layout: Layout) -> None:
        for name in ("munge", "run", "log", "state", "spool"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "munge").chmod(0o711)  # munge refuses a folder that others may change, and needs to pass it
        for number in range(1, layout.nodes + 1):
            (self.folder / "spool" / f"n{number}").mkdir(exist_ok=True)
        key = self.folder / "munge" / "key"
        if not key.exists():
            descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(128))
        write_text(self.conf, slurm_conf(layout), force=True)
        write_text(self.folder / "own.json", json.dumps(layout.to_dict(), indent=2) + "\n", force=True)

    def _munged(self) -> None:
        """Start the key service, with a key, socket and log of its own."""
        place = self.folder / "munge"
        words = [f"--key-file={place}/key", f"--socket={place}/socket", f"--pid-file={self.folder}/run/munged.pid"]
        words += [f"--log-file={self.folder}/log/munged.log", f"--seed-file={place}/seed", "--force"]
        self._run("munged", *words, "--num-threads=2")

    def _daemons(self, layout: Layout) -> None:
        self._run("slurmctld", "-f", str(self.conf), "-i")
        for number in range(1, layout.nodes + 1):
            self._run("slurmd", "-f", str(self.conf), "-N", f"n{number}")

        def up() -> bool:
            states = self._nodes()
            return sum(states.values()) == layout.nodes and set(states) <= {"idle", "mix", "alloc", "comp"}

        if not processes.wait_until(up, _START_S):
            raise SlurmError(f"the nodes did not come up within {_START_S:g} s; see {self.folder / 'log'}")

    def _run(self, name: str, *words: str) -> None:
        """Run a program that puts itself into the background."""
        done = subprocess.run(
            [find(name) or name, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_START_S,
            env=self.slurm.environment,
            check=False,
        )
        if done.returncode != 0:
            why = first_line(done.stderr or done.stdout)
            raise SlurmError(f"{name} could not be started: {why}; see {self.folder / 'log'}")

    # ---- state -------------------------------------------------------------------------------------------------------

    def pids(self) -> dict[str, int]:
        """Return the daemons that run, by the name of their pid file."""
        found = {}
        for path in sorted((self.folder / "run").glob("*.pid")):
            program, pid = path.stem.partition("-")[0], processes.read_pid(path)
            if pid is not None and processes.runs(pid, program, f"{self.folder}/", f"SLURM_CONF={self.conf}"):
                found[path.stem] = pid
        return found

    def running(self) -> bool:
        """Return whether controller and key service run."""
        return {"munged", "slurmctld"} <= set(self.pids())

    def whole(self) -> bool:
        """Return whether all of it runs and answers; one that is just starting or ending gets some time."""

        def answers() -> bool:
            daemons = sum(name.startswith("slurmd-") for name in self.pids())
            return daemons == self.layout().nodes and self.slurm.attempt("squeue", "--noheader").returncode == 0

        return processes.wait_until(lambda: not self.running() or answers(), _STOP_S) and self.running()

    def _nodes(self) -> dict[str, int]:
        """Return the number of nodes by state; empty while the controller does not answer."""
        done = self.slurm.attempt("sinfo", "--noheader", "--format=%t %D")
        states: dict[str, int] = {}
        for line in done.stdout.splitlines() if done.returncode == 0 else ():
            state, _, count = line.partition(" ")
            states[state] = states.get(state, 0) + int(count)
        return states

    def status(self) -> Status:
        """Return what runs."""
        layout, pids = self.layout(), self.pids()
        on = {"munged", "slurmctld"} <= set(pids)
        jobs: dict[str, int] = {}
        if on:
            for state in self.slurm.attempt("squeue", "--all", "--noheader", "--format=%T").stdout.split():
                jobs[state.lower()] = jobs.get(state.lower(), 0) + 1
        daemons = sum(name.startswith("slurmd-") for name in pids)
        nodes = self._nodes() if on else {}
        books = set(accounting.ENDING) <= set(pids)
        return Status(str(self.folder), on, layout.cpus, layout.nodes, daemons, nodes, jobs, books)

    # ---- stop --------------------------------------------------------------------------------------------------------

    def stop(self) -> int:
        """Cancel what runs, end all daemons by their pid files, and return how many processes ended."""
        self.layout()
        if self.running():
            jobs = self.slurm.attempt("squeue", "--noheader", "--states=R,CG", "--format=%i").stdout.split()
            if jobs:
                self.slurm.attempt("scancel", "--quiet", "--state=RUNNING")
                processes.wait_until(lambda: not self._steps(), 5.0)
        return self._stop_processes()

    def _steps(self) -> list[int]:
        return processes.of_jobs(cluster_name(str(self.folder)), str(self.conf))

    def _stop_processes(self) -> int:
        pids = self.pids()
        last = (
            *accounting.ENDING,
            "munged",
        )  # the others still need both
        left = processes.end([pid for name, pid in pids.items() if name not in last], patience=_STOP_S)
        steps = self._steps()
        left += processes.end(steps, patience=_STOP_S)
        for name in last:
            left += processes.end([pids[name]] if name in pids else [], patience=_STOP_S)
        if left:
            raise SlurmError(f"processes {', '.join(map(str, left))} of {self.folder} could not be ended")
        for name in ("run/*.pid", "run/by-replay", "munge/socket*", "db/socket"):
            for path in self.folder.glob(name):
                path.unlink(missing_ok=True)
        return len(pids) + len(steps)


def _ports(count: int) -> int:
    """Return the first of ``count`` ports in a row that nobody uses on this machine."""
    begin = _PORTS.start + secrets.randbelow((len(_PORTS) - count) // 2)
    for first in (*range(begin, _PORTS.stop - count, count), *range(_PORTS.start, begin, count)):
        if _free(first, count):
            return int(first)
    raise SlurmError(f"no {count} free ports in a row from {_PORTS.start} to {_PORTS.stop}")


def _free(first: int, count: int) -> bool:
    for port in range(first, first + count):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
