"""Slurm's commands: found, called with a time limit, and their failures as one line."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tracekit.errors import TracekitError

#: The command that installs everything on Debian and Ubuntu.
INSTALL = "apt-get install --no-install-recommends slurm-wlm munge"
#: … and what accounting needs besides.
INSTALL_ACCOUNTING = "apt-get install --no-install-recommends slurmdbd mariadb-server"
#: Folders of daemons that a bare PATH lacks.
_SYSTEM = ("/usr/sbin", "/sbin", "/usr/local/sbin")
#: Seconds for one command.
PATIENCE_S = 120.0
DAEMONS = ("munged", "slurmctld", "slurmd")


class SlurmError(TracekitError):
    """Slurm is not installed, does not answer, or refused a command."""


class NotInstalled(SlurmError):
    """A program of Slurm or munge is not on this machine; the message has the command that installs it."""

    exit_code = 3

    def __init__(self, names: Sequence[str], what: str = "Slurm", how: str = INSTALL) -> None:
        super().__init__(f"{what} is not installed ({', '.join(names)} not found); on Debian or Ubuntu: sudo {how}")


def find(name: str) -> str | None:
    """Return the path of a program, also where daemons are."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(_SYSTEM))


def require(*names: str, what: str = "Slurm", how: str = INSTALL) -> None:
    """Raise `NotInstalled` if one of the programs is missing."""
    missing = [name for name in names if find(name) is None]
    if missing:
        raise NotInstalled(missing, what, how)


class Slurm:
    """The Slurm that commands talk to: that of a configuration file, or the machine's own (``conf`` None)."""

    def __init__(self, conf: str | Path | None = None, *, options: bool = False) -> None:
        self.conf = None if conf is None else str(conf)
        self.options = options  # whether the user's own variables for Slurm's commands hold

    @classmethod
    def here(cls) -> Slurm:
        """Return the Slurm of ``SLURM_CONF``, or else of this machine."""
        return cls(os.environ.get("SLURM_CONF") or None)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a command; times are printed as numbers that do not depend on the user's settings."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if self.options or not name.startswith(("SBATCH_", "SQUEUE_", "SCANCEL_", "SACCT_", "SINFO_", "SALLOC_"))
        }
        kept.pop("SLURM_TIME_FORMAT", None)
        if self.conf is not None:
            kept["SLURM_CONF"] = self.conf
        return kept

    def call(self, *words: str, stdin: str | None = None, patience: float = PATIENCE_S) -> str:
        """Run a command of Slurm and return what it prints; `SlurmError` names the command and its message."""
        done = self.attempt(*words, stdin=stdin, patience=patience)
        if done.returncode != 0:
            raise SlurmError(f"{words[0]} failed: {first_line(done.stderr or done.stdout)}")
        return done.stdout

    def attempt(
        self, *words: str, stdin: str | None = None, patience: float = PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of Slurm; the caller looks at how it ended."""
        program = find(words[0])
        if program is None:
            raise NotInstalled([words[0]])
        try:
            return subprocess.run(
                [program, *words[1:]],
                input=stdin if stdin is not None else "",
                capture_output=True,
                text=True,
                errors="replace",
                timeout=patience,
                env=self.environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SlurmError(f"{words[0]} did not answer within {patience:g} s") from None

    def config(self) -> dict[str, str]:
        """Return the settings that the controller uses, by name."""
        return parse_config(self.call("scontrol", "show", "config"))


def parse_config(text: str) -> dict[str, str]:
    r"""Read ``scontrol show config``.

    >>> parse_config("Configuration data as of now\nPriorityType            = priority/basic\n")
    {'PriorityType': 'priority/basic'}
    """
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def first_line(text: str) -> str:
    """Return the first line of a message that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "no message"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, so that two runs do not do the same at once."""
    import fcntl

    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def merged(settings: Mapping[str, str], extra: str) -> list[str]:
    r"""Return lines of a configuration; lines of ``extra`` replace settings of the same name.

    >>> merged({"A": "1", "B": "2"}, "# mine\nB=3\nNodeName=x")
    ['A=1', '# mine', 'B=3', 'NodeName=x']
    """
    own = [line.strip() for line in extra.splitlines()]
    named = {line.partition("=")[0].strip().lower() for line in own if "=" in line and not line.startswith("#")}
    kept = [f"{name}={value}" for name, value in settings.items() if name.lower() not in named]
    return [*kept, *own]
