"""Experiments on many traces: one queue, the runs that each trace would have alone, and what goes wrong with some."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_experiment import plan

import tracekit
from evaluation.experiment import grid, many, study
from evaluation.experiment.compare import compare
from evaluation.experiment.engines import Where
from evaluation.experiment.runner import Status
from tracekit.errors import OutputError

Run = Callable[..., tuple[int, str, str]]
SMALL: dict[str, Any] = {
    "models": {"names": ["plugged:Copy"], "samples": 1, "baselines": []},
    "agents": {"learner": "pick-heuristic", "seeds": 2, "config": {"windows": 4, "jobs": 40}},
    "windows": {"count": 8, "jobs": 40, "heuristics": ["fcfs", "sjf"]},
    "score": {"families": ["marginal"]},
    "verdict": {"halves": 0},
}


def small(**sections: Any) -> grid.Plan:
    return plan(**{**SMALL, **sections})


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two traces, one of them under two names, and a file that is none."""
    folder = tmp_path_factory.mktemp("traces")
    sample = tracekit.sample()
    tracekit.write(sample.head(1500), folder / "one.swf")
    tracekit.write(sample.take(slice(3000, 4500)), folder / "two.swf")
    tracekit.write(sample.take(slice(6000, 7000)), folder / "other.swf")
    (folder / "again.swf").write_bytes((folder / "one.swf").read_bytes())
    (folder / "bad.swf").write_text("no trace\n")
    return folder


FILES = ("one.swf", "bad.swf", "again.swf", "two.swf", "none.swf")
TWICE = "one.swf"


@pytest.fixture(scope="module")
def finished(traces: Path) -> Path:
    """A run on all of them that was interrupted once, with a trace beside that is learnt from in each."""
    chosen = replace(small(), other=grid.Source(path=str(traces / "other.swf")))
    seen: list[Status] = []

    def interrupt(status: Status) -> None:
        seen.append(status)
        if status.counted == "tasks" and status.done >= 5:
            raise KeyboardInterrupt

    files = [str(traces / name) for name in (*FILES, TWICE)]
    with pytest.raises(KeyboardInterrupt):
        many.run(chosen, files, traces / "run", progress=interrupt, report=False)
    done = {path.parent.name for path in (traces / "run").glob("*/tasks/*/result.json")}
    assert 5 <= len(done) < seen[-1].total
    again: list[Status] = []
    many.run(chosen, files, traces / "run", where=Where(memory=2**30), progress=again.append, report=False)
    assert next(status.done for status in again if status.counted == "tasks") >= len(done)
    assert again[-1].counted == "traces reported"
    study.run(replace(chosen, real=grid.Source(path=files[0])), traces / "alone", report=False)
    return traces / "run"


def test_every_run_is_the_one_that_the_trace_has_alone(finished: Path) -> None:
    assert compare(finished.parent / "alone", finished / "one")["same"]
    texts = [(folder / "verdict.json").read_bytes() for folder in (finished.parent / "alone", finished / "one")]
    assert texts[0] == texts[1]
    addresses = [
        {path.name for path in (folder / "tasks").iterdir()} for folder in (finished / "one", finished / "two")
    ]
    assert addresses[0] & addresses[1], "what is learnt from the other trace is learnt once, and in both folders"
    assert addresses[0] == {path.name for path in (finished.parent / "alone" / "tasks").iterdir()}
    shared = (addresses[0] & addresses[1]).pop()
    places = [finished / name / "tasks" / shared / "result.json" for name in ("one", "two")]
    assert places[0].stat().st_ino == places[1].stat().st_ino


def test_the_summary_tells_of_all_traces(finished: Path) -> None:
    summary = json.loads((finished / "summary.json").read_text())
    *others, twice = summary["traces"]
    rows = {Path(row["trace"]).name: row for row in others}
    assert tuple(rows) == FILES
    assert (twice["name"], twice["same_as"], twice["verdicts"]) == ("", rows[TWICE]["trace"], [])
    assert rows["one.swf"]["verdicts"][0]["verdict"] == "equivalent"
    assert rows["two.swf"]["verdicts"][0]["model"] == "plugged:Copy"
    assert "no format recognises it" in rows["bad.swf"]["failed"]
    assert "no such file" in rows["none.swf"]["failed"]
    assert rows["again.swf"]["same_as"] == rows["one.swf"]["trace"]
    assert sorted(path.name for path in finished.iterdir() if path.is_dir()) == ["one", "two"]
    cost = summary["cost"]
    assert cost["worker_memory_mb"] == 1024
    assert 50 < cost["largest_peak_mb"] < 1024
    page = (finished / "summary.md").read_text()
    assert page.count("| plugged:Copy |") == 2
    assert "1,024 MB allowed" in page


def test_another_plan_does_not_replace_the_runs(finished: Path) -> None:
    files = [str(finished.parent / name) for name in ("one.swf", "two.swf")]
    with pytest.raises(OutputError, match="another plan"):
        many.run(replace(small(), seed=5), files, finished, report=False)


def test_what_does_not_fit_is_refused_before_it_starts_and_can_be_done_later(traces: Path, tmp_path: Path) -> None:
    chosen = replace(small(), real=grid.Source(path=str(traces / "one.swf")))
    few = Where(memory=400 * 1024**2)  # what Python takes, and no job
    found = study.run(chosen, tmp_path / "run", where=few, report=False)
    assert "more than the 0.42 GB of a worker" in found["verdicts"][0]["sentence"]
    assert not list((tmp_path / "run/tasks").iterdir())


def test_a_worker_that_wants_more_than_its_share_fails_and_the_failure_is_not_kept(
    traces: Path, tmp_path: Path
) -> None:
    chosen = replace(
        small(models={"names": ["plugged:Hungry"], "samples": 1, "baselines": []}),
        real=grid.Source(path=str(traces / "one.swf")),
    )
    found = study.run(chosen, tmp_path / "run", where=Where(memory=700 * 1024**2), report=False)
    assert "out of memory: it needs more than 0.73 GB" in found["verdicts"][0]["sentence"]
    kept = [json.loads(path.read_text()) for path in tmp_path.glob("run/tasks/*/result.json")]
    assert kept
    assert all(one["result"]["ok"] for one in kept)


def test_a_foreign_summary_and_the_run_of_one_trace_are_left_alone(traces: Path, tmp_path: Path) -> None:
    files = [str(traces / "one.swf"), str(traces / "two.swf")]
    for name in ("summary.md", "experiment.json"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("mine")
        with pytest.raises(OutputError, match="another folder"):
            many.run(small(), files, tmp_path / name, report=False)
        assert (tmp_path / name / name).read_text() == "mine"


def test_the_command(traces: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(traces)
    lines = ['[models]\nnames = ["plugged:Copy"]\nbaselines = []\nsamples = 1\n[agents]\nlearner = "pick-heuristic"\n']
    lines += ["seeds = 1\nconfig = { windows = 2, jobs = 40 }\n[windows]\ncount = 4\njobs = 40\n"]
    lines += ['heuristics = ["fcfs"]\n[score]\nfamilies = ["marginal"]\n[verdict]\nhalves = 0\n']
    (tmp_path / "plan.toml").write_text("".join(lines))
    words = ("experiment", "one.swf", "bad.swf", "--config", str(tmp_path / "plan.toml"))
    code, out, error = run(*words, "-o", str(tmp_path / "run"), "--json", "--worker-memory", "1G")
    assert code == 1, error
    assert "1 of 2 traces failed, the others are finished; bad.swf: " in error
    assert [row["name"] for row in json.loads(out)["traces"]] == ["one", "bad"]
    assert (tmp_path / "run/one/report.html").is_file()
    for more, said in (
        (("--worker-memory", "lots"), "such as 2G"),
        (("--worker-memory", "1M"), "give more"),
        (("--worker-memory", "99999G"), "are free"),
        (("--dry-run",), "about one trace"),
    ):
        code, out, error = run(*words, "-o", str(tmp_path / "new"), *more)
        assert code in (1, 2)
        assert said in error
        assert not out
        assert len(error.strip().splitlines()) == 1
        assert not (tmp_path / "new" / "one").exists()
