"""The LSF RL scheduler: its own numbers, an oracle in plain Python on many small fixtures, and mistakes in fixtures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shared_data import DATA

from tracekit.cli import main
from tracekit.errors import FormatError, UnknownName
from tracekit.sim.tasks.pick_host.lsf import POLICIES, LsfEpisode, read_fixture, reproduce

from .lsf_oracle import LsfOracle, random_fixture

NAMES = {"first_available": "first-available", "best_fit_cores": "best-fit", "worst_fit_cores": "worst-fit"}
THEIRS = {
    "completed": "total_jobs_completed",
    "avg_wait_as_coded": "avg_waiting_time_as_coded",
    "avg_wait": "avg_waiting_time_counted_once",
    "defer_rate": "defer_rate",
    "core_utilization": "avg_host_core_utilization",
    "memory_utilization": "avg_host_memory_utilization",
    "makespan": "makespan",
    "steps": "steps",
    "still_running": "still_running",
    "still_waiting": "still_waiting",
    "failed": "failed",
}


@pytest.fixture(scope="module")
def checks() -> dict[str, Any]:
    path = DATA.parent / "checks" / "lsf_seed42.json"
    if not path.exists():
        pytest.skip("needs checks/lsf_seed42.json beside the shared data")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_its_own_numbers(checks: dict[str, Any], tmp_path: Path) -> None:
    for row in checks["restated"]:
        file = tmp_path / f"{row['fixture']}.json"
        file.write_text(json.dumps(checks["fixture"][row["fixture"]]))
        found = reproduce(file, row["seed"], row["version"], NAMES[row["policy"]])
        assert {name: found[name] for name in THEIRS} == {name: row["metrics"][key] for name, key in THEIRS.items()}
        if row["version"] == "head":
            assert found["return"] == pytest.approx(row["metrics"]["episode_return"], abs=1e-6)


def test_its_own_observation_and_return(checks: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "fixture.json"
    file.write_text(json.dumps(checks["fixture"]["9092f38"]))
    episode = LsfEpisode(read_fixture(file, 42), "head")
    hosts, total = len(episode.fixture.hosts), 0.0
    episode.reset()
    for _ in range(99):  # its first step decides nothing
        total += episode.step(np.linspace(1, 0, hosts))
    assert episode.observation() == pytest.approx(np.array(checks["head_own_code"]["obs_after_step_100"]), abs=2e-7)
    while not episode.lanes.done[0]:
        total += episode.step(np.linspace(1, 0, hosts))
    assert total == pytest.approx(checks["head_own_code"]["return"], abs=1e-6)
    assert episode.metrics()["completed"] == checks["head_own_code"]["metrics"]["total_jobs_completed"]


@pytest.mark.parametrize("version", ["head", "4h2"])
def test_equals_a_plain_oracle(version: str, tmp_path: Path) -> None:
    rng, file = np.random.default_rng(5), tmp_path / "fixture.json"
    odd = {"failed": 0, "waiting": 0, "empty": 0}
    for turn in range(150):
        fixture = random_fixture(rng)
        file.write_text(json.dumps({"7": fixture}))
        policy = list(POLICIES)[turn % 3]
        wanted = LsfOracle(fixture, version).play(policy)
        found = reproduce(file, 7, version, policy)
        assert {name: found[name] for name in wanted} == wanted, fixture
        odd["failed"] += wanted["failed"]
        odd["waiting"] += wanted["still_waiting"]
        odd["empty"] += 0 in fixture["arrivals"]
    assert odd["waiting"] > 0
    assert odd["empty"] > 0
    assert (odd["failed"] > 0) == (version == "4h2")


GOOD: dict[str, Any] = {
    "hosts_cores_mem": [[4, 8]],
    "arrivals": [1, 0],
    "cores": [1],
    "memory_mb": [1],
    "duration": [1],
    "max_time": 2,
}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"hosts_cores_mem": []}, "no hosts"),
        ({"hosts_cores_mem": [[0, 8]]}, "0 cores"),
        ({"hosts_cores_mem": [[4, float("nan")]]}, "nan"),
        ({"hosts_cores_mem": [[4]]}, "hosts_cores_mem[0]"),
        ({"arrivals": [2, 0]}, "2 jobs"),
        ({"arrivals": None}, "arrivals"),
        ({"cores": [0]}, "cores"),
        ({"cores": [1.5]}, "cores[0]"),
        ({"duration": [-1]}, "duration[0]"),
        ({"max_time": 0}, "max_time"),
    ],
)
def test_mistakes_in_fixtures_are_one_line(changes: dict[str, Any], word: str, tmp_path: Path) -> None:
    file = tmp_path / "fixture.json"
    file.write_text(json.dumps({"1": GOOD | changes}))
    with pytest.raises(FormatError) as caught:
        reproduce(file, 1, "head")
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_names_are_errors(tmp_path: Path) -> None:
    file = tmp_path / "fixture.json"
    file.write_text(json.dumps({"1": GOOD}))
    with pytest.raises(FormatError):
        reproduce(file, 2, "head")
    with pytest.raises(UnknownName):
        reproduce(file, 1, "tail")
    with pytest.raises(UnknownName):
        reproduce(file, 1, "head", "random")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fixture.json"
    file.write_text(json.dumps({"1": GOOD}))
    assert main(["reproduce", "lsf", "--fixture", str(file), "--seed", "1", "--version", "4h2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["version"], found["policy"], found["completed"], found["steps"]) == ("4h2", "first-available", 1, 3)
    assert main(["reproduce", "lsf", "--seed", "1"]) == 2
    assert main(["reproduce", "rlscheduler", "--seed", "1"]) == 2
