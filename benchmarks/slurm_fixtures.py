"""Make the small listings of a real Slurm under tests/slurm/data/ again: a few jobs of every kind on one of our own.

    python benchmarks/slurm_fixtures.py tests/slurm/data

Takes about a minute and a half (one job runs into its limit). Names of this machine, its user and its folders are
replaced, and blanks of the JSON left out; everything else is as Slurm wrote it.
"""

from __future__ import annotations

import getpass
import json
import re
import socket
import sys
import tempfile
import time
from pathlib import Path

from tracekit.slurm import processes
from tracekit.slurm.own import Own

FIELDS = "JobID,JobIDRaw,Cluster,Partition,Account,User,Submit,Eligible,Start,End,ElapsedRaw,ExitCode,State,NNodes,"
FIELDS += "ReqCPUS,AllocCPUS,NTasks,ReqMem,MaxRSS,TotalCPU,ReqTRES,AllocTRES,TimelimitRaw,NodeList,JobName"
CONF = "JobAcctGatherType=jobacct_gather/linux\nJobAcctGatherFrequency=1\n"


def submit(own: Own, script: str, *words: str) -> str:
    """Submit a script and return its job number."""
    text = f"#!/bin/sh\n{script}\n"
    return own.slurm.call("sbatch", "--parsable", "--output=/dev/null", "--chdir=/", *words, stdin=text).strip()


def make(own: Own) -> dict[str, str]:
    """Run jobs of every kind and return the listings by file name."""
    late = submit(own, "sleep 300", "--job-name=late", "--time=1", "--ntasks=1", "--account=physics")
    submit(own, "srun sleep 2", "--job-name=ok", "--time=2", "--ntasks=2", "--account=physics", "--comment=user=ann")
    first = submit(own, "sleep 1; exit 3", "--job-name=fails", "--time=5", "--ntasks=1", "--mem-per-cpu=100")
    submit(own, "sleep 1", "--job-name=after", "--time=00:30:00", "--ntasks=1", f"--dependency=afterany:{first}")
    submit(own, "sleep $SLURM_ARRAY_TASK_ID", "--job-name=array", "--time=1-00:00:00", "--ntasks=1", "--array=1-3")
    gone = submit(own, "sleep 300", "--job-name=gone", "--time=10", "--nodes=2")
    time.sleep(15)
    own.slurm.call("scancel", gone)
    assert processes.wait_until(lambda: late not in own.slurm.call("squeue", "-h", "-o", "%i"), 150)
    running = submit(own, "sleep 300", "--job-name=long", "--time=UNLIMITED", "--ntasks=3")
    submit(own, "sleep 1", "--job-name=two words", "--time=7", "--ntasks=4")
    submit(own, "sleep 1", "--job-name=held", "--time=8", "--ntasks=1", "--hold")
    assert processes.wait_until(lambda: running in own.slurm.call("squeue", "-h", "-t", "R", "-o", "%i"), 60)
    time.sleep(5)  # for the books
    since = "--starttime=now-1hours"
    return {
        "squeue-22.05.json": own.slurm.call("squeue", "--all", "--states=all", "--json"),
        "sinfo-22.05.json": own.slurm.call("sinfo", "--json"),
        "sacct-22.05.json": own.slurm.call("sacct", "--json", since),
        "sacct-22.05.txt": own.slurm.call("sacct", "--parsable2", since, f"--format={FIELDS}"),
        "jobcomp-22.05.txt": (own.folder / "jobcomp.txt").read_text(),
    }


def scrubbed(text: str, own: Own) -> str:
    """Replace the names of this machine, its user and its folders."""
    cluster = re.search(r"ClusterName=(\w+)", own.conf.read_text())
    assert cluster is not None
    host = socket.gethostname().partition(".")[0]
    text = text.replace(str(own.folder).replace("/", "\\/"), "\\/lab").replace(str(own.folder), "/lab")
    text = text.replace(cluster[1], "lab")
    text = re.sub(rf"\b{re.escape(getpass.getuser())}\b", "ann", text)
    text = re.sub(rf"(?<![\w/]){re.escape(host)}\b", "host", text)
    if text.lstrip().startswith("{"):
        data = json.loads(text)
        for node in data.get("nodes", []):
            node |= {"operating_system": "Linux", "cpu_load": 100, "free_memory": 1000}
        return json.dumps(data, separators=(",", ":")).replace('{"account"', '\n{"account"') + "\n"
    return text


def main(folder: Path) -> None:
    """Write the listings."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tk-") as place:
        own = Own(Path(place) / "lab")
        own.start(4, extra=CONF, with_accounting=True)
        try:
            for name, text in make(own).items():
                (folder / name).write_text(scrubbed(text, own))
        finally:
            own.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
