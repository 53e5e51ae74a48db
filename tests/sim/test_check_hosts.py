"""The checker of schedules on hosts finds each kind of mistake in a schedule of any tool, and nothing that is right."""

import itertools

import numpy as np
import pandas as pd
import pytest

from tracekit.clusters import completed
from tracekit.errors import FormatError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.analysis.check_hosts import check_hosts, fits_devices
from tracekit.trace import Trace

CLUSTER = completed(
    Machine(
        groups=(
            HostGroup(2, cores=8, memory=80, gpus=2, gpu_type="a", pool="p", name="n"),
            HostGroup(1, cores=8, gpus=2, gpu_type="b", pool="q", name="m"),
        )
    ),
    "test",
)
GOOD = {"req_procs": 4, "req_gpus": 1.0, "req_mem": 5.0, "tasks": 1, "gpu_type": "a", "pool": "p", "hosts": "n-0:4/1"}


def kinds(*jobs):
    """Return the kinds of mistakes of jobs that all run at the same time."""
    rows = [GOOD | job for job in jobs]
    table = pd.DataFrame(rows).assign(job_id=np.arange(1, len(rows) + 1), submit_time=0.0, run_time=10.0)
    trace = Trace(table.drop(columns="hosts").astype({"gpu_type": "category", "pool": "category"}), Machine())
    schedule = table[["job_id", "hosts"]].assign(start_time=0.0, end_time=10.0)
    return [violation.kind for violation in check_hosts(schedule, trace, CLUSTER)]


@pytest.mark.parametrize(
    ("jobs", "kind"),
    [
        ([{}, {}], None),
        ([{}] * 3, "over-committed-cores"),
        ([{"req_procs": 1, "hosts": "n-0:1/1"}] * 3, "over-committed-gpus"),
        ([{"req_mem": 15.0}] * 2, "over-committed-memory"),
        ([{"tasks": 2, "req_gpus": 2.0, "hosts": "n-0:2/1+m-0:2/1"}], "pool-mixing"),
        ([{"gpu_type": "a|b", "hosts": "m-0:4/1"}], "wrong-pool"),
        ([{"gpu_type": "b"}], "wrong-gpu-type"),
        ([{"tasks": 2, "hosts": "n-0:1/0.5+n-1:3/0.5"}], "split-gang"),
        ([{"hosts": "n-0:3/1"}], "too-little"),
        ([{"hosts": "x-0:4/1"}], "unknown-host"),
        ([{"hosts": ""}], "not-placed"),
    ],
)
def test_each_kind_of_mistake_is_found(jobs, kind):
    found = kinds(*jobs)
    assert found == [] if kind is None else kind in found


def share(size):
    return {"req_procs": 1, "req_gpus": size, "hosts": f"n-0:1/{size}"}


@pytest.mark.parametrize(
    ("sizes", "possible"),
    [
        ([0.5, 0.5, 0.5, 0.5], True),
        ([0.6, 0.6, 0.4, 0.4], True),
        ([0.6, 0.6, 0.6], False),  # 1.8 of 2 GPUs, but no two of them share one
        ([0.5, 0.6, 0.7], False),
        ([1.0, 0.6, 0.4], True),
        ([0.4, 0.4, 0.4, 0.4, 0.4], False),
        ([0.3, 0.3, 0.3, 0.3, 0.3, 0.3], True),
    ],
)
def test_shares_that_cannot_be_on_the_devices_of_a_host(sizes, possible):
    assert kinds(*(share(size) for size in sizes)) == ([] if possible else ["over-committed-devices"])


def test_tasks_of_a_gang_are_shares_of_their_own():
    job = {"req_procs": 3, "req_gpus": 1.8, "tasks": 3, "hosts": "n-0:3/1.8"}
    assert kinds(job) == ["over-committed-devices"]


def test_shares_fit_where_some_division_between_the_devices_is_possible():
    rng = np.random.default_rng(0)
    for _ in range(150):
        sizes = rng.integers(1, 11, rng.integers(1, 6)) * 100
        needed = min(
            len(set(where))
            for where in itertools.product(range(len(sizes)), repeat=len(sizes))
            if all(sum(s for s, w in zip(sizes, where, strict=True) if w == d) <= 1000 for d in set(where))
        )
        held = {int(size): int((sizes == size).sum()) for size in np.unique(sizes)}
        assert [fits_devices(held, devices) for devices in range(1, 6)] == [needed <= n for n in range(1, 6)]


def test_a_column_that_cannot_be_read_is_an_error():
    with pytest.raises(FormatError, match="host:cores/gpus"):
        kinds({"hosts": "n-0"})
