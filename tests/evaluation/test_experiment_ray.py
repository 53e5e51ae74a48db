"""The same experiment on a real Ray of this machine: the same numbers, and a killed worker does no harm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_experiment import plan

import tracekit
from evaluation.experiment import study
from evaluation.experiment.compare import compare
from evaluation.experiment.engines import Where
from evaluation.experiment.tasks import Store
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
        found = study.run(chosen, tmp_path / "ray", real, where=Where("ray"), report=False)
    finally:
        ray.shutdown()
    assert mark.exists(), "no worker was killed"
    by_model = {one["model"]: one for one in found["verdicts"]}
    assert by_model["plugged:KilledOnce"]["verdict"] == "equivalent"
    assert by_model["plugged:Throws"]["sentence"] == "failed: RuntimeError: no luck today"
    study.run(chosen, tmp_path / "local", real, report=False)  # the mark is there now: nobody is killed
    assert compare(tmp_path / "local", tmp_path / "ray")["same"]
    places = [{path.parent.name for path in (tmp_path / run).glob("tasks/*/result.json")} for run in ("local", "ray")]
    assert places[0] == places[1]
    assert json.loads((tmp_path / "ray" / "experiment.json").read_text())["engine"] == "ray"


def test_no_cluster_is_one_clear_line(tmp_path: Path) -> None:
    from evaluation.experiment.engines import Ray

    with pytest.raises(TracekitError, match="no Ray cluster at"):
        Ray(Store(tmp_path), address="127.0.0.1:1")
