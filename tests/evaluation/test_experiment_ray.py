"""The same experiment on a real Ray of this machine: the same numbers, and a killed worker does no harm."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_experiment import plan

import tracekit
from evaluation.experiment import many, on_ray, study
from evaluation.experiment.compare import compare
from evaluation.experiment.engines import Where
from evaluation.experiment.runner import Status
from evaluation.experiment.tasks import Store
from evaluation.spread import run as spread
from tracekit.errors import TracekitError

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, on other threads too


@pytest.fixture(scope="module")
def mark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A place that the workers of Ray know before they start."""
    place = tmp_path_factory.mktemp("ray") / "mark"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEKIT_TEST_MARK", str(place))
        yield place


def test_ray_gives_the_same_numbers_although_a_worker_is_killed(mark: Path, tmp_path: Path) -> None:
    real = tracekit.sample().head(2500)
    chosen = plan(
        models={"names": ["plugged:KilledOnce", "plugged:Throws"], "baselines": ["independent"], "samples": 1},
        score={"families": ["marginal"]},
    )
    try:
        on_ray._connect(ray, None)  # one Ray for all of this test
        found = study.run(chosen, tmp_path / "ray", real, where=Where("ray"), report=False)
        there = on_two_traces(tmp_path / "there", Where("ray", memory=2**30))
        with pytest.raises(TracekitError, match="the largest node of the Ray cluster has"):
            Where("ray", memory=2**50).open(Store(tmp_path))  # Ray would wait for such a node
    finally:
        ray.shutdown()
    assert there == on_two_traces(tmp_path / "here", Where(memory=2**30))
    assert mark.exists(), "no worker was killed"
    by_model = {one["model"]: one for one in found["verdicts"]}
    assert by_model["plugged:KilledOnce"]["verdict"] == "equivalent"
    assert by_model["plugged:Throws"]["sentence"] == "failed: RuntimeError: no luck today"
    study.run(chosen, tmp_path / "local", real, report=False)  # the mark exists now: no process is killed
    assert compare(tmp_path / "local", tmp_path / "ray")["same"]
    places = [{path.parent.name for path in (tmp_path / run).glob("tasks/*/result.json")} for run in ("local", "ray")]
    assert places[0] == places[1]
    assert json.loads((tmp_path / "ray" / "experiment.json").read_text())["engine"] == "ray"


def on_two_traces(folder: Path, where: Where) -> dict[str, Any]:
    """Return what an experiment and a sweep on two traces find; one of the files is there twice."""
    folder.mkdir()
    sample, files = tracekit.sample(), [str(folder / f"{name}.swf") for name in ("one", "two", "again")]
    for file, first in zip(files, (0, 3000, 0), strict=True):
        tracekit.write(sample.take(slice(first, first + 1500)), file)
    chosen = plan(
        models={"names": ["plugged:Copy"], "baselines": [], "samples": 1},
        agents={"seeds": 1, "config": {"windows": 2, "jobs": 40}},
        score={"families": ["marginal"]},
        verdict={"halves": 0},
    )
    many.run(chosen, files, folder / "experiments", where=where, report=False)
    switches = {"estimates": "requested", "warmup": "5%", "cooldown": "5%", "procs": None, "resource": None, "seed": 0}
    common = {"pairs": [("sjf", "easy")], "switches": switches, "shake": 2, "windows": None, "jobs": 5000}
    pieces = [{"load": load, **common} for load in (0.7, 0.9)]
    swept = spread.run(spread.Study("sweep", pieces), files, folder / "sweeps", where=where)
    assert swept["cost"]["worker_memory_mb"] == 1024
    assert 0 < swept["cost"]["largest_peak_mb"] < 1024
    verdicts = [(folder / "experiments" / name / "verdict.json").read_text() for name in ("one", "two")]
    return {"verdicts": verdicts, "points": [row["rows"] for row in swept["traces"]]}


@contextlib.contextmanager
def node(*options: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A node of Ray with one processor, started apart from this process; only its own processes are stopped.

    Without a mode of its own, a head asks for a token where the home folder has one, and other nodes bring none.
    """
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1"]
    command += ["--object-store-memory=100000000", "--disable-usage-stats", *options]
    started = subprocess.Popen(
        command,
        env={"RAY_AUTH_MODE": "disabled", **os.environ, "RAY_USAGE_STATS_ENABLED": "0", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert started.stdout is not None
        lines = []
        for line in started.stdout:
            lines.append(line)
            if "--block" in line:  # it runs, and waits for its end
                break
        else:
            pytest.fail("Ray did not start: " + "".join(lines))
        yield started
    finally:
        kill(started)
        started.communicate()


def kill(started: subprocess.Popen[str]) -> None:
    """Kill all processes of a node at once, as a power failure would."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)


@contextlib.contextmanager
def cluster(**environment: str) -> Iterator[str]:
    """A Ray of one node."""
    place = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # sockets have short names only
    ports = [free_port() for _ in range(2)]
    options = ["--head", f"--port={ports[0]}", f"--ray-client-server-port={ports[1]}", f"--temp-dir={place}"]
    options += ["--include-dashboard=false", "--node-ip-address=127.0.0.1"]
    try:
        with node(*options, **environment):
            yield f"127.0.0.1:{ports[0]}"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


ASK = """
import sys
from pathlib import Path
from evaluation.experiment.on_ray import Ray
from evaluation.experiment.tasks import Store
from tracekit.errors import TracekitError

try:
    engine = Ray(Store(Path(".")), *sys.argv[1:])
except TracekitError as error:
    sys.exit(str(error))
print(engine.slots, engine.ray.get_runtime_context().gcs_address)
engine.close()
"""


def test_a_cluster_with_tokens_is_found_by_the_environment_and_a_missing_token_is_one_line() -> None:
    given = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
    with cluster(**given) as address:
        missing = {"RAY_AUTH_MODE": "token", "HOME": "/nonexistent"}
        answers = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", ASK, *words],
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for words, environment in (([address], missing), ([], {"RAY_ADDRESS": address, **given}))
        ]
        (_, refused), (found, _) = (answer.communicate() for answer in answers)
    assert [answer.returncode for answer in answers] == [1, 0]
    assert refused.count("\n") == 1
    assert "RAY_AUTH_MODE" in refused
    slots, used = found.split()
    assert slots == "1"
    assert used.endswith(address[address.index(":") :])


@pytest.mark.slow
def test_a_node_that_dies_in_the_middle_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes on one machine; the second finishes a task, begins another, and is killed at that."""
    real = tracekit.sample().head(2500)
    chosen = plan(models={"names": ["plugged:Copy", "plugged:Shuffled"]}, score={"families": ["marginal"]})
    finished, working, killed = tmp_path / "finished", tmp_path / "working", []
    usual = on_ray._work_far_away

    def work(*sent: Any) -> Any:  # nested, so that it is sent to Ray's workers as it stands
        if "TRACEKIT_TEST_SECOND" in os.environ:
            if finished.exists():
                working.touch()
                time.sleep(600)
            finished.touch()
        return usual(*sent)

    def watch(status: Status) -> None:
        if working.exists() and not killed:
            killed.append(status)
            kill(second)

    monkeypatch.setattr(on_ray, "_work_far_away", work)
    with cluster() as address:
        place = [f"--address={address}", "--node-ip-address=127.0.0.2"]
        with node(*place, TRACEKIT_TEST_SECOND="1") as second:
            study.run(chosen, tmp_path / "ray", real, where=Where("ray", address), report=False, progress=watch)
    assert len(killed) == 1, "the second node got no work"
    assert killed[0].done < killed[0].total
    study.run(chosen, tmp_path / "local", real, report=False)
    texts = [(tmp_path / run / "verdict.json").read_text() for run in ("ray", "local")]
    assert texts[0] == texts[1]
    assert compare(tmp_path / "local", tmp_path / "ray")["same"]


def test_no_cluster_is_one_clear_line(tmp_path: Path) -> None:
    from evaluation.experiment.on_ray import Ray

    with pytest.raises(TracekitError, match="no Ray cluster at"):
        Ray(Store(tmp_path), address="127.0.0.1:1")
