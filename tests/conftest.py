from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

# Tests run side by side, and threads of each that wait for the other's take several times as long. Read by numpy.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

from toys import SWF_TEXT

from tracekit import Machine, Trace
from tracekit.cli import main

# No test of properties fails because the machine is busy, or because of examples that other runs do not have.
settings.register_profile("tracekit", deadline=None, derandomize=True)
settings.load_profile("tracekit")

# A shell starts what runs in its background with Ctrl-C ignored, and commands inherit that; ours must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _logs_of_sb3(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep stable-baselines3 from leaving folders in the system's temporary directory."""
    os.environ.setdefault("SB3_LOGDIR", str(tmp_path_factory.mktemp("sb3")))


@pytest.fixture
def toy_swf(tmp_path: Path) -> Path:
    """A small SWF file of three jobs."""
    path = tmp_path / "toy.swf"
    path.write_text(SWF_TEXT)
    return path


@pytest.fixture
def toy() -> Trace:
    """A trace of 200 jobs of four users, with limits, waits and a calendar."""
    rng = np.random.default_rng(5)
    n = 200
    run = rng.integers(1, 5000, n).astype(float)
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(1, n + 1),
            "submit_time": np.cumsum(rng.integers(1, 600, n)).astype(float),
            "wait_time": rng.integers(0, 900, n).astype(float),
            "run_time": run,
            "req_time": np.ceil(run / 600) * 600,
            "req_procs": 2 ** rng.integers(0, 5, n),
            "status": rng.choice(["completed", "failed", "cancelled"], n),
            "user": rng.choice(["ann", "bob", "cem", "dee"], n),
            "queue": rng.choice(["short", "long"], n),
        }
    )
    return Trace(jobs, Machine(name="toy", procs=32, epoch=1_700_000_000.0, timezone="Europe/Berlin"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call the command line in this process: run("info", "x.swf") -> exit code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
