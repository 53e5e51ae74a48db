"""The configuration of a Slurm of one's own: many nodes that are all this machine, on the loopback address only."""

from __future__ import annotations

import os
import pwd
import re
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from tracekit.errors import UsageError
from tracekit.slurm.tools import merged

#: Daemons of nodes that one machine takes: about 1 MB each.
MOST_NODES = 1024
MOST_CPUS = 65_536
#: Sockets of job steps lie below the folder, and the system allows 107 bytes for their names.
LONGEST_FOLDER = 70
PARTITION = "batch"
#: Scheduler settings by name. ``fast`` reacts within a second; ``default`` is Slurm's own; ``easy`` is fast with one
#: reservation; ``none`` is fast without backfilling.
_FAST = "bf_interval=1,bf_resolution=1,sched_min_interval=1,batch_sched_delay=0,sched_interval=1"
_DEEP = "bf_max_job_test=1000,default_queue_depth=1000,bf_window=10080"
PROFILES: dict[str, tuple[str, str]] = {
    "conservative": ("sched/backfill", f"{_FAST},{_DEEP}"),
    "easy": ("sched/backfill", f"{_FAST},{_DEEP},bf_job_part_count_reserve=1"),
    "none": ("sched/builtin", _FAST),
    "default": ("sched/backfill", ""),
}


@dataclass(frozen=True)
class Layout:
    """What a Slurm of one's own looks like: size, ports, scheduler."""

    folder: str
    cpus: int
    nodes: int
    port: int  # of the controller; the nodes have the ones that follow
    profile: str = "easy"
    extra: str = ""  # lines of the user
    accounting: bool = False  # whether slurmdbd and a database run beside it

    @property
    def ports(self) -> int:
        """How many ports in a row it uses: of the controller, the nodes and slurmdbd."""
        return self.nodes + 2

    @property
    def dbd_port(self) -> int:
        """The port of slurmdbd."""
        return self.port + self.nodes + 1

    @property
    def per_node(self) -> int:
        """CPUs of a node."""
        return self.cpus // self.nodes

    def to_dict(self) -> dict[str, object]:
        """Return plain values."""
        return asdict(self)


def check_size(cpus: int, nodes: int | None) -> tuple[int, int]:
    """Return CPUs and nodes; nodes default to one CPU each, as far as one machine takes so many."""
    if not 1 <= cpus <= MOST_CPUS:
        raise UsageError(f"--cpus: {cpus:,} is not from 1 to {MOST_CPUS:,}")
    if nodes is None:
        nodes = next(n for n in range(min(cpus, MOST_NODES), 0, -1) if cpus % n == 0)
    if not 1 <= nodes <= min(cpus, MOST_NODES):
        raise UsageError(f"--nodes: {nodes:,} is not from 1 to {min(cpus, MOST_NODES):,}")
    if cpus % nodes:
        raise UsageError(f"--cpus {cpus} cannot be divided evenly among --nodes {nodes}")
    return cpus, nodes


def check_folder(folder: Path) -> None:
    """Refuse a folder whose name is too long for sockets, or that a configuration file cannot hold."""
    if len(os.fsencode(folder)) > LONGEST_FOLDER:
        raise UsageError(
            f"{folder}: the full name has more than {LONGEST_FOLDER} bytes, too long for the sockets of job steps; "
            "choose a shorter one"
        )
    if not re.fullmatch(r"[\w./+:@-]+", str(folder)):
        raise UsageError(f"{folder}: Slurm cannot work in a folder with blanks or signs such as % and # in its name")


def check_extra(text: str, source: str) -> str:
    """Refuse settings that would lead out of the folder or off the loopback address."""
    ours = {"slurmctldhost", "slurmctldport", "slurmdport", "authtype", "authinfo", "nodename", "nodeaddr"}
    ours |= {"statesavelocation", "slurmdspooldir", "slurmctldpidfile", "slurmdpidfile", "communicationparameters"}
    ours |= {"slurmctldlogfile", "slurmdlogfile", "jobcomploc", "include", "slurmuser", "clustername"}
    ours |= {"prolog", "epilog", "prologslurmctld", "epilogslurmctld", "jobcomptype"}
    ours |= {f"accountingstorage{word}" for word in ("type", "host", "backuphost", "externalhost", "port", "pass")}
    for number, line in enumerate(text.splitlines(), 1):
        name = re.split(r"[=\s]", line.strip(), maxsplit=1)[0].lower()
        if name in ours:
            raise UsageError(f"{source}, line {number}: {name} is set by tracekit and cannot be changed")
    return text


def slurm_conf(layout: Layout) -> str:
    """Return the text of slurm.conf."""
    folder, host = layout.folder, socket.gethostname().partition(".")[0]
    scheduler, parameters = PROFILES[layout.profile]
    settings = {
        "ClusterName": cluster_name(layout.folder),
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmUser": pwd.getpwuid(os.getuid()).pw_name,
        "SlurmdUser": pwd.getpwuid(os.getuid()).pw_name,
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge/socket",
        "CredType": "cred/munge",
        "CommunicationParameters": "NoCtldInAddrAny,NoInAddrAny",
        "SlurmctldPort": str(layout.port),
        "SlurmdPort": str(layout.port + 1),
        "StateSaveLocation": f"{folder}/state",
        "SlurmdSpoolDir": f"{folder}/spool/%n",
        "SlurmctldPidFile": f"{folder}/run/slurmctld.pid",
        "SlurmdPidFile": f"{folder}/run/slurmd-%n.pid",
        "SlurmctldLogFile": f"{folder}/log/slurmctld.log",
        "SlurmdLogFile": f"{folder}/log/slurmd-%n.log",
        "LogTimeFormat": "iso8601_ms",
        "SlurmctldDebug": "info",
        "SlurmdDebug": "error",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SwitchType": "switch/none",
        "MpiDefault": "none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerType": scheduler,
        "SchedulerParameters": parameters,
        "PriorityType": "priority/basic",
        "JobCompType": "jobcomp/filetxt",
        "JobCompLoc": f"{folder}/jobcomp.txt",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "TreeWidth": "65533",
        "SlurmdParameters": "config_overrides",
        "SlurmdTimeout": "0",
        "InactiveLimit": "0",
        "KillWait": "2",
        "MinJobAge": "300",
        "MaxJobCount": "100000",
        "MaxArraySize": "10001",
        "ReturnToService": "2",
    }
    if layout.accounting:
        settings["AccountingStorageType"] = "accounting_storage/slurmdbd"
        settings["AccountingStorageHost"] = "127.0.0.1"
        settings["AccountingStoragePass"] = f"{folder}/munge/socket"  # with munge: where to reach it
        settings["AccountingStoragePort"] = str(layout.dbd_port)
        settings["AccountingStoreFlags"] = "job_comment"
    if not parameters:
        del settings["SchedulerParameters"]
    node = (
        f"NodeName=n[1-{layout.nodes}] NodeHostname={host} NodeAddr=127.0.0.1 "
        f"Port=[{layout.port + 1}-{layout.port + layout.nodes}] CPUs={layout.per_node} Boards=1 SocketsPerBoard=1 "
        f"CoresPerSocket={layout.per_node} ThreadsPerCore=1 RealMemory=1000 State=UNKNOWN"
    )
    if layout.nodes == 1:
        node = node.replace("n[1-1]", "n1").replace(f"[{layout.port + 1}-{layout.port + 1}]", str(layout.port + 1))
    partition = f"PartitionName={PARTITION} Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO"
    lines = ["# written by tracekit slurm start", *merged(settings, layout.extra), node]
    if not re.search(r"^\s*PartitionName=", layout.extra, re.MULTILINE | re.IGNORECASE):
        lines.append(partition)
    return "\n".join(lines) + "\n"


def cluster_name(folder: str) -> str:
    """Return a name of this Slurm that no other on this machine has."""
    import hashlib

    return "tk" + hashlib.sha256(folder.encode()).hexdigest()[:10]
