"""A Slurm of one's own for tests; those that need one skip, with the reason, where it is not installed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_lab import submit

from tracekit.slurm import processes
from tracekit.slurm.own import Own


@pytest.fixture(autouse=True)
def _no_other_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_CONF", raising=False)


@pytest.fixture
def room() -> Iterator[Path]:
    """A folder with a short name, as sockets need: that of tmp_path is too long where tests run in parallel."""
    with tempfile.TemporaryDirectory(prefix="tk-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    """A small Slurm for all tests of a process."""
    made = Own(tmp_path_factory.mktemp("slurm") / "lab")
    made.start(4)
    yield made
    made.stop()
    assert not made.pids()


@pytest.fixture
def queue(own: Own) -> Iterator[list[int]]:
    """One job that fills the machine, and four that wait: limits 4, 3, 2, 1 minutes; the last one is held."""
    full = submit(own, "--ntasks=4", "--time=9", sleep=500)  # longer than any test
    assert processes.wait_until(lambda: "RUNNING" in own.slurm.call("squeue", "-h", "-o", "%T"), 30)
    jobs = [submit(own, "--ntasks=1", f"--time={4 - k}") for k in range(4)]
    own.slurm.call("scontrol", "hold", str(jobs[3]))
    yield jobs
    own.slurm.call("scancel", *map(str, (full, *jobs)))
    assert processes.wait_until(lambda: not own.slurm.call("squeue", "-h").strip(), 30)
