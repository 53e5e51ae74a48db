"""A cluster of three kinds of hosts in two pools, and a trace whose jobs use all of its columns."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tracekit import Machine, Trace
from tracekit.machine import HostGroup

GB = 1024.0**2  # in KB
GROUPS = (
    HostGroup(6, cores=32, memory=128 * GB, gpus=8, gpu_type="V100", pool="train", name="v"),
    HostGroup(2, cores=32, memory=128 * GB, gpus=4, gpu_type="P100", pool="train", name="p"),
    HostGroup(8, cores=16, memory=64 * GB, gpus=2, gpu_type="T4", pool="infer", name="t"),
)
CLUSTER = Machine(name="three kinds", unit="gpus", procs=384, nodes=16, gpus=72, groups=GROUPS)

#: tasks, cores, GPUs (totals), memory of the job in GB, GPU types, pool, share of jobs
KINDS = (
    (None, 2, 0.25, 4, "T4", "infer", 0.25),
    (None, 2, 0.5, 8, "T4", "infer", 0.15),
    (None, 8, 2, 48, None, "infer", 0.1),
    (None, 4, 0, 30, None, "train", 0.1),
    (1, 8, 1, 16, "V100|P100", "train", 0.15),
    (2, 16, 8, 64, "V100|P100", "train", 0.1),
    (4, 64, 32, 256, "V100", "train", 0.05),
    (None, 30, 8, 120, "V100", "train", 0.1),
)
#: What no host can hold: a type of another pool, too much memory, more tasks than the pool has room for.
IMPOSSIBLE = ((1, 1, 1, 4, "T4", "train"), (None, 2, 1, 100, None, "infer"), (9, 72, 72, 72, "V100", "train"))


def hosts_trace(n_jobs: int = 600, *, seed: int = 3, impossible: bool = False) -> Trace:
    """Return jobs of users with a favourite kind each, over six weeks."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 12, n_jobs)
    own = np.random.default_rng(7).integers(0, len(KINDS), 12)
    drawn = rng.choice(len(KINDS), n_jobs, p=[kind[-1] for kind in KINDS])
    rows = [KINDS[k][:-1] for k in np.where(rng.random(n_jobs) < 0.5, own[user], drawn)]
    if impossible:
        rows[: 3 * 5] = IMPOSSIBLE * 5
    tasks, cores, gpus, memory, kind, pool = (list(column) for column in zip(*rows, strict=True))
    procs = np.array(cores, dtype=np.float64)
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(1, n_jobs + 1),
            "submit_time": np.sort(np.round(rng.uniform(0, 42 * 86_400, n_jobs))),
            "run_time": np.ceil(rng.lognormal(9, 1, n_jobs)),
            "req_procs": procs,
            "req_gpus": gpus,
            "req_mem": np.array(memory) * GB / procs,
            "tasks": pd.array([pd.NA if t is None else t for t in tasks], dtype="Int64"),
            "gpu_type": kind,
            "pool": pool,
            "user": [f"u{u}" for u in user],
            "status": rng.choice(["completed", "failed"], n_jobs),
        }
    )
    return Trace(jobs, CLUSTER.replace(epoch=1_704_067_200.0, timezone="UTC"))
