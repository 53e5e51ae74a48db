"""Accounting for a Slurm of one's own: a private MariaDB and a private slurmdbd, so that `sacct` works.

The database listens on a socket below the folder only, in a directory that others cannot enter; slurmdbd listens on the
loopback address. ``db/data`` (tables) · ``db/socket`` · ``slurmdbd.conf`` · ``run/mariadbd.pid``, ``run/slurmdbd.pid``.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path

from tracekit.files import write_text
from tracekit.slurm import processes
from tracekit.slurm.tools import Slurm, SlurmError, find, first_line

#: What accounting needs besides Slurm itself, and Debian's packages of it.
PROGRAMS = ("mariadbd", "mariadb-install-db", "slurmdbd", "sacctmgr", "sacct")
#: Daemons of accounting in the order of their end: slurmdbd still writes to the database.
ENDING = ("slurmdbd", "mariadbd")
_START_S = 90.0
#: A few hundred jobs need little memory, and lose nothing if the process dies.
_SMALL = ("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=2")


def dbd_conf(folder: str, port: int) -> str:
    """Return the text of slurmdbd.conf."""
    settings = {
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge/socket",
        "CommunicationParameters": "NoInAddrAny",
        "DbdHost": socket.gethostname().partition(".")[0],
        "DbdAddr": "127.0.0.1",
        "DbdPort": str(port),
        "SlurmUser": pwd.getpwuid(os.getuid()).pw_name,
        "PidFile": f"{folder}/run/slurmdbd.pid",
        "LogFile": f"{folder}/log/slurmdbd.log",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": pwd.getpwuid(os.getuid()).pw_name,
        "StorageLoc": "slurm_acct_db",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def start(folder: Path, slurm: Slurm, cluster: str, port: int) -> None:
    """Start the database and slurmdbd, and enter the cluster; the key service must run."""
    place = folder / "db"
    place.mkdir(exist_ok=True)
    place.chmod(0o700)  # whoever reaches the socket may do everything
    _make_tables(folder)
    _start_database(folder)
    conf = folder / "slurmdbd.conf"
    write_text(conf, dbd_conf(str(folder), port), force=True)
    conf.chmod(0o600)  # slurmdbd refuses to read it otherwise
    variables = {**slurm.environment, "MYSQL_UNIX_PORT": str(place / "socket")}
    _run([find("slurmdbd") or "slurmdbd"], variables, folder)

    def known() -> subprocess.CompletedProcess[str]:
        return slurm.attempt("sacctmgr", "-nP", "list", "cluster", "format=Cluster")

    if not processes.wait_until(lambda: known().returncode == 0, _START_S):
        raise SlurmError(f"slurmdbd does not answer; see {folder / 'log' / 'slurmdbd.log'}")
    if cluster not in known().stdout.split():
        slurm.call("sacctmgr", "--immediate", "add", "cluster", cluster)


def _make_tables(folder: Path) -> None:
    """Make an empty database, once; what an interrupted attempt has left is made again."""
    data, new = folder / "db" / "data", folder / "db" / "data.new"
    if data.is_dir():
        return
    shutil.rmtree(new, ignore_errors=True)
    words = [find("mariadb-install-db") or "mariadb-install-db", "--no-defaults", f"--datadir={new}", "--skip-test-db"]
    words += ["--auth-root-authentication-method=normal", *(["--user=root"] if os.getuid() == 0 else [])]
    _run(words, dict(os.environ), folder)
    new.rename(data)


def _start_database(folder: Path) -> None:
    place, log = folder / "db", folder / "log" / "mariadbd.log"
    name = pwd.getpwuid(os.getuid()).pw_name
    user = f"'{name}'@localhost"
    (place / "first.sql").write_text(f"CREATE USER IF NOT EXISTS {user};\nGRANT ALL ON *.* TO {user};\n")
    words = [find("mariadbd") or "mariadbd", "--no-defaults", f"--datadir={place}/data", f"--socket={place}/socket"]
    words += [f"--pid-file={folder}/run/mariadbd.pid", f"--log-error={log}", "--skip-networking", *_SMALL]
    words += [f"--init-file={place}/first.sql", *(["--user=root"] if os.getuid() == 0 else [])]
    shell = '"$@" </dev/null >/dev/null 2>&1 & echo $!'  # it stays in the foreground by itself
    begun = subprocess.run(
        ["/bin/sh", "-c", shell, "sh", *words], capture_output=True, start_new_session=True, check=True
    )
    pid = int(begun.stdout)
    write_text(folder / "run" / "mariadbd.pid", f"{pid}\n", force=True)  # its own comes late, and an end may come first
    processes.wait_until(lambda: not processes.alive(pid) or _answers(place / "socket"), _START_S)
    if not _answers(place / "socket"):
        processes.end([pid])
        raise SlurmError(f"mariadbd could not be started; see {log}")


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _run(words: list[str], variables: dict[str, str], folder: Path) -> None:
    """Run a program that ends, or puts itself into the background."""
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_START_S, env=variables, check=False
    )
    if done.returncode != 0:
        why = first_line(done.stderr or done.stdout)
        raise SlurmError(f"{Path(words[0]).name} could not be started: {why}; see {folder / 'log'}")
