"""The experiment end to end, on both engines' common ground: files, addresses, failures, resuming, verdicts."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from shared_data import ROOT

import tracekit
from evaluation.experiment import grid, study
from evaluation.experiment import results as tidy
from evaluation.experiment.ahead import dry_run
from evaluation.experiment.compare import compare
from evaluation.experiment.heldout import Heldout, schedulable
from evaluation.experiment.stages import on_the_same_machine, one_after_the_other
from evaluation.experiment.tasks import Store
from tracekit import Trace
from tracekit.errors import OutputError, SchemaError, TracekitError, UnknownName, UsageError

QUICK: dict[str, Any] = {
    "models": {"names": ["plugged:Copy"], "samples": 2, "baselines": ["independent"]},
    "agents": {"learner": "pick-heuristic", "seeds": 2, "config": {"windows": 8, "jobs": 40}},
    "windows": {"count": 10, "jobs": 40, "heuristics": ["fcfs", "sjf"]},
    "score": {"families": ["marginal", "privacy"]},
    "verdict": {"draws": 500},
}


def plan(**sections: Any) -> grid.Plan:
    return grid.from_dict({**QUICK, **{k: {**QUICK.get(k, {}), **v} for k, v in sections.items()}})


@pytest.fixture(scope="module")
def real() -> Trace:
    return tracekit.sample().head(2500)


@pytest.fixture(scope="module")
def finished(real: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run with everything in it: good, bad and killed models, several loads, scarce jobs, another trace."""
    folder = tmp_path_factory.mktemp("run")
    tracekit.write(tracekit.sample().take(slice(5000, 6000)), folder / "other.swf")
    tracekit.write(real.split(0.6)[0], folder / "mine.parquet")
    names = ["Copy", "Shuffled", "Throws", "OutOfMemory", "Nothing", "Nonsense", "Half", "Killed", "KilledOnce"]
    names += ["Leaves", "LeavesAtOnce", "Speechless", "Endless"]
    chosen = plan(
        models={"names": [f"plugged:{name}" for name in names], "traces": {"mine": [str(folder / "mine.parquet")]}},
        windows={"loads": ["real", 0.9]},
        scarce={"share": 0.3, "models": ["independent", "plugged:Throws"]},
        score={"families": ["marginal", "time", "privacy"]},
    )
    chosen = replace(chosen, other=grid.Source(path=str(folder / "other.swf")), limits=grid.Limits(attempts=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEKIT_TEST_MARK", str(folder / "mark"))
        study.run(chosen, folder / "run", real, report=False)
    assert (folder / "mark").exists()
    return folder / "run"


@pytest.fixture(scope="module")
def twice(real: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same small experiment in the folders a and b."""
    folder = tmp_path_factory.mktemp("twice")
    for name in ("a", "b"):
        study.run(plan(), folder / name, real, report=False)
    return folder


def verdict_of(folder: Path, model: str, part: str = "verdicts") -> dict[str, Any]:
    found = json.loads((folder / "verdict.json").read_text())[part]
    return next(one for one in found if one["model"] == model)


def test_a_copy_is_equivalent_and_flagged(finished: Path) -> None:
    copy = verdict_of(finished, "plugged:Copy")
    assert copy["verdict"] == "equivalent"
    assert copy["difference"] == 0
    assert any("exact copies" in flag for flag in copy["flags"])


def test_shuffled_jobs_do_not_look_perfect(finished: Path) -> None:
    shuffled, copy = (verdict_of(finished, f"plugged:{name}")["fidelity"] for name in ("Shuffled", "Copy"))
    for group in ("acf1", "c2st", "user_repeat"):
        if group in copy and group in shuffled:
            assert copy[group][0] == copy[group][1]
    broken = [group for group, (within, known) in shuffled.items() if within < known]
    assert "acf1" in broken or "user_repeat" in broken


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("Throws", "RuntimeError: no luck today"),
        ("OutOfMemory", "out of memory"),
        ("Nothing", "NoneType"),
        ("Leaves", "it asked its process to end (SystemExit: 4); given up after 2 attempts"),
        ("LeavesAtOnce", "its process ended by itself (code 7)"),
        ("Speechless", "failed: Unspeakable"),
        ("Endless", "0% of"),
        ("Nonsense", "0% of"),
        ("Half", "750 jobs"),
        ("Killed", "signal 9"),
    ],
)
def test_a_model_that_fails_says_why_and_stops_no_other(finished: Path, model: str, reason: str) -> None:
    found = verdict_of(finished, f"plugged:{model}")
    assert found["verdict"] == "failed"
    assert reason in found["sentence"]
    assert found["difference"] is None


def test_the_scarce_jobs_are_judged_against_themselves(finished: Path) -> None:
    assert verdict_of(finished, "independent", "scarce")["verdict"] in ("helps", "hurts", "no difference", "undecided")
    assert verdict_of(finished, "plugged:Throws", "scarce")["verdict"] == "failed"
    assert {arm["model"] for arm in json.loads((finished / "verdict.json").read_text())["arms"]} == {
        "untrained",
        "other",
        "scarce",
    }


def test_the_table_is_tidy(finished: Path) -> None:
    frame = tidy.read(finished / "results.parquet")
    assert list(frame.columns) == list(tidy.COLUMNS)
    key = [c for c in frame.columns if c not in ("value", "real", "low", "high", "better", "note")]
    assert not frame[frame["kind"] != "cost"].duplicated(key).any()
    agents = frame[(frame["kind"] == "agent") & (frame["key"] == "mean_bsld")]
    assert (agents["value"] >= 1).all()
    copy, ours = (agents[(agents["arm"] == arm)] for arm in ("model", "real"))
    copy = copy[(copy["model"] == "plugged:Copy") & (copy["seed"] == 0)]
    pd.testing.assert_series_equal(copy["value"].reset_index(drop=True), ours["value"].reset_index(drop=True))
    assert set(agents["load"]) == {"real", "0.9"}
    assert len(ours) == 2 * 2 * 10  # seeds × loads × windows
    assert set(frame.loc[frame["kind"] == "heuristic", "model"]) == {"fcfs", "sjf"}


def test_differences_can_be_worked_out_again_from_the_table(finished: Path) -> None:
    frame = tidy.read(finished / "results.parquet")
    shuffled = verdict_of(finished, "plugged:Shuffled")
    agents = frame[(frame["kind"] == "agent") & (frame["key"] == "mean_bsld")]
    logs = agents.assign(value=np.log(agents["value"])).groupby(["arm", "model"])["value"].mean()
    ratio = np.exp(logs["model", "plugged:Shuffled"] - logs["real", ""]) - 1
    assert shuffled["difference"] == pytest.approx(ratio)
    rows = frame[(frame["kind"] == "difference") & (frame["model"] == "plugged:Shuffled")]
    assert np.expm1(rows["value"].mean()) == pytest.approx(shuffled["difference"])


def test_parts_do_not_overlap_and_generators_see_train_only(finished: Path, real: Trace) -> None:
    parts = [Trace.load(finished / "data" / f"{name}.parquet") for name in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [1500, 500, 500]
    for early, late in itertools.pairwise(parts):
        assert early.column("submit_time").max() <= late.column("submit_time").min()
    scarce = Trace.load(finished / "data" / "scarce.parquet")
    assert set(scarce.column("job_id")) == set(parts[0].column("job_id")[-450:])
    about = json.loads((finished / "experiment.json").read_text())
    for task in (finished / "tasks").iterdir():
        found = json.loads((task / "result.json").read_text())["task"]
        if found["kind"] == "fit":
            assert {i[0] for i in found["inputs"].values()} <= {"train.parquet", "scarce.parquet"}
        if found["kind"] == "train":
            assert not {"validation.parquet", "test.parquet"} & {i[0] for i in found["inputs"].values()}
    copy = Trace.load(finished / about["files"]["traces"]["plugged:Copy"][0])
    assert np.array_equal(copy.column("run_time"), parts[0].column("run_time"))


def test_the_same_seed_gives_the_same_table(twice: Path, finished: Path) -> None:
    found = compare(twice / "a", twice / "b")
    assert found["same"], found
    assert found["plan"] == []
    found = compare(twice / "a", finished)
    assert not found["same"]
    assert {"key": "scarce.share", "first": 0.0, "second": 0.3} in found["plan"]


def test_a_finished_run_is_not_done_again_and_damage_is(real: Trace, twice: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    shutil.copytree(twice / "b", place)
    before = {path: path.stat().st_mtime_ns for path in place.glob("tasks/*/result.json")}
    tasks = {json.loads(path.read_text())["task"]["kind"]: path.parent for path in before}
    (tasks["fit"] / "sample-0.parquet").write_bytes(b"half a file")
    (tasks["evaluate"] / "windows.json").unlink()
    (tasks["score"] / "result.json").write_text('{"task"')
    shutil.rmtree(tasks["train"])
    (place / "tasks" / ".0123456789abcdef0123.123").mkdir()
    study.run(plan(), place, real, report=False)
    after = {path: path.stat().st_mtime_ns for path in place.glob("tasks/*/result.json")}
    assert set(after) == set(before)
    changed = {path.parent for path in after if after[path] != before[path]}
    assert changed == {tasks[kind] for kind in ("fit", "evaluate", "score", "train")}
    assert not (place / "tasks" / ".0123456789abcdef0123.123").exists()
    assert compare(place, twice / "b")["same"]


def test_another_seed_or_another_configuration_is_another_task(real: Trace, tmp_path: Path) -> None:
    def keys(chosen: grid.Plan) -> dict[str, set[str]]:
        tasks = study.prepare(chosen, tmp_path, real).grid.tasks()
        return {kind: {t.key for t in tasks if t.kind == kind} for kind in ("fit", "score", "train", "evaluate")}

    base, more, other = keys(plan()), keys(plan(agents={"seeds": 3})), keys(plan(windows={"jobs": 39}))
    assert base["fit"] == more["fit"] == other["fit"]
    assert base["train"] < more["train"]
    assert base["train"] == other["train"]
    assert not base["evaluate"] & other["evaluate"]


def test_a_change_of_the_source_is_another_task(real: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evaluation.experiment import source

    module = tmp_path / "grown.py"
    module.write_text("from plugged import Copy\n\nclass Grown(Copy):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    chosen = plan(models={"names": ["grown:Grown"]})
    source.digest_of.cache_clear()
    before = {t.key for t in study.prepare(chosen, tmp_path / "run", real).grid.fits}
    module.write_text(module.read_text() + "    # more\n")
    source.digest_of.cache_clear()
    after = {t.key for t in study.prepare(chosen, tmp_path / "run", real).grid.fits}
    assert len(before & after) == 2  # the baseline, and the damaged jobs


def test_sources_are_followed_but_not_through_the_front_door() -> None:
    from evaluation.experiment.source import sources

    names = {path.relative_to(ROOT).as_posix() for path in sources(["generators.lublin", "generators.synth"])}
    assert {"generators/lublin.py", "generators/lublin_fit.py", "tracekit/trace.py"} <= names
    assert {"tracekit/stats.py", "tracekit/validation.py", "tracekit/cleaning.py"} <= names  # by name from the Trace
    assert not any(name.startswith(("tracekit/cli", "evaluation/")) for name in names)
    assert "generators/sdv.py" not in names


def start(folder: Path, mark: Path, models: str, sleep: float) -> subprocess.Popen[str]:
    """An experiment in a process of its own, that says through ``mark`` that a fit is going on."""
    trace = folder / "real.swf"
    if not trace.exists():
        tracekit.write(tracekit.sample().head(2500), trace)
    config = folder / "plan.toml"
    config.write_text(
        'agents = {learner = "pick-heuristic", seeds = 2, config = {windows = 4, jobs = 40}}\n'
        'windows = {count = 5, jobs = 40, heuristics = ["fcfs"]}\nscore = {families = ["marginal"]}\n'
        "models = {samples = 1, baselines = []}\nverdict = {draws = 200}\n"
    )
    code = (
        "import sys\nfrom evaluation.experiment import grid, study\nfrom dataclasses import replace\n"
        "plan = grid.load(sys.argv[1])\nplan = replace(plan, real=grid.Source(path=sys.argv[2]), "
        "models=replace(plan.models, names=tuple(sys.argv[4].split(','))))\n"
        "study.run(plan, sys.argv[3], report=False)\n"
    )
    paths = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    return subprocess.Popen(
        [sys.executable, "-c", code, str(config), str(trace), str(folder / "run"), models],
        env={**os.environ, "PYTHONPATH": paths, "TRACEKIT_TEST_MARK": str(mark), "TRACEKIT_TEST_SLEEP": str(sleep)},
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(what: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


def test_a_killed_run_goes_on_and_leaves_nobody_behind(tmp_path: Path) -> None:
    mark, tasks = tmp_path / "mark", tmp_path / "run" / "tasks"
    done: dict[Path, int] = {}
    for how in (signal.SIGINT, signal.SIGKILL):
        mark.unlink(missing_ok=True)
        running = start(tmp_path, mark, "plugged:Copy,plugged:Sleeps", 60)
        wait_for(lambda: mark.exists() and mark.read_text())
        wait_for(lambda: len(list(tasks.glob("*/result.json"))) > len(done))  # noqa: B023
        worker = int(mark.read_text())
        running.send_signal(how)
        running.communicate(timeout=60)
        assert running.returncode != 0
        wait_for(lambda: gone(worker))  # noqa: B023
        assert all(path.stat().st_mtime_ns == when for path, when in done.items())
        done = {path: path.stat().st_mtime_ns for path in tasks.glob("*/result.json")}
    running = start(tmp_path, mark, "plugged:Copy,plugged:Sleeps", 0)
    _, said = running.communicate(timeout=240)
    assert running.returncode == 0, said
    found = json.loads((tmp_path / "run/verdict.json").read_text())
    assert {one["verdict"] for one in found["verdicts"]} == {"equivalent"}
    assert all(path.stat().st_mtime_ns == when for path, when in done.items())


def test_a_task_whose_process_is_killed_is_tried_again(finished: Path) -> None:
    assert verdict_of(finished, "plugged:KilledOnce")["verdict"] == "equivalent"


def test_a_task_that_takes_too_long_is_given_up(real: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEKIT_TEST_MARK", str(tmp_path / "mark"))
    chosen = replace(
        plan(models={"names": ["plugged:HasChild"], "samples": 1, "baselines": []}, agents={"seeds": 1}),
        limits=grid.Limits(minutes=0.25),
    )
    found = study.run(chosen, tmp_path / "run", real, report=False)
    assert "longer than" in found["verdicts"][0]["sentence"]
    wait_for(lambda: gone(int((tmp_path / "mark.child").read_text())))  # what the model had started ends with it


def test_one_run_at_a_time_in_a_folder(real: Trace, tmp_path: Path) -> None:
    with study.alone(tmp_path), pytest.raises(OutputError, match="another run"):
        study.run(plan(), tmp_path, real, report=False, force=True)


def test_another_experiment_is_not_replaced_unasked(real: Trace, twice: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="another plan"):
        study.run(plan(agents={"seeds": 1}), twice / "a", real, report=False)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="other files"):
        study.run(plan(), tmp_path, real, report=False)


def test_a_dry_run_writes_nothing(real: Trace, twice: Path, tmp_path: Path) -> None:
    found = dry_run(plan(), tmp_path / "run", real)
    rows = found["tasks"]
    assert not (tmp_path / "run").exists()
    assert {row["kind"]: row["tasks"] for row in rows} == {
        "fit": 2 + 1,  # the damaged jobs
        "score": 2,
        "heuristics": 1,
        "train": 2 * (1 + 1 + 2 * (2 + 1)) + 2 * 7,  # and pairs of halves of the real jobs
        "evaluate": 2 * (1 + 1 + 2 * (2 + 1)) + 2 * 7,
    }
    assert all(row["done"] == row["tasks"] for row in dry_run(plan(), twice / "a", real)["tasks"])
    (power,) = found["power"]
    assert power["basis"] in ("fcfs against sjf", "sjf against fcfs")
    assert power["windows"] == 10
    assert power["detectable"] > 0
    assert power["real_parts_differ"] >= 0
    more = dry_run(
        plan(windows={"jobs": 20, "count": 25}, agents={"learner": "forecast-waits"}), tmp_path / "run", real
    )
    assert more["power"][0]["basis"] == "halves of the training jobs"
    assert 0 <= more["power"][0]["equivalence_power"] <= 1
    alone = plan(
        windows={"jobs": 20, "count": 25}, agents={"learner": "forecast-waits"}, verdict={"halves": 0, "draws": 200}
    )
    (without,) = dry_run(alone, tmp_path / "run", real)["power"]
    assert without["real_parts_differ"] is None
    assert without["detectable"] < more["power"][0]["detectable"]


# ---- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"model": {}}, UnknownName),
        ({"models": {"nmaes": []}}, UnknownName),
        ({"models": 3}, SchemaError),
        ({"models": {"samples": 0}}, SchemaError),
        ({"models": {"samples": 2, "fits": 3}}, UsageError),
        ({"models": {"names": "ctgan"}}, SchemaError),
        ({"verdict": {"margin": -1}}, UsageError),
        ({"verdict": {"metric": "mean_bsdl"}}, UnknownName),
        ({"split": {"train": 0.9, "validation": 0.1}}, UsageError),
        ({"scarce": {"share": 2}}, UsageError),
        ({"windows": {"jobs": 1.5}}, SchemaError),
        ({"windows": {"jobs": float("nan")}}, SchemaError),
        ({"score": {"quick": "yes"}}, SchemaError),
    ],
)
def test_a_wrong_plan_is_refused(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        grid.from_dict(given)


@pytest.mark.parametrize(
    "change",
    [
        {"models": {"names": ["ctgam"]}},
        {"windows": {"heuristics": ["sfj"]}},
        {"windows": {"backfill": "easier"}},
        {"windows": {"loads": ["much"]}},
        {"agents": {"learner": "pop"}},
        {"agents": {"config": {"polices": []}}},
        {"models": {"names": []}},
        {"models": {"traces": {"real": ["x.swf"]}}},
        {"models": {"traces": {"plugged:Copy": ["x.swf"]}}},
    ],
)
def test_wrong_names_are_refused_before_any_work(real: Trace, tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        study.run(plan(**change), tmp_path / "run", real, report=False)
    assert not (tmp_path / "run" / "tasks").exists()


def test_traces_that_are_too_short_or_sizeless_are_refused(real: Trace, tmp_path: Path) -> None:
    with pytest.raises(TracekitError, match="at least 50"):
        study.run(plan(), tmp_path, real.head(100), report=False)
    with pytest.raises(TracekitError, match="too few for 3 windows"):
        study.run(plan(windows={"jobs": 400}), tmp_path, real, report=False)
    with pytest.raises(TracekitError, match="--procs"):
        study.divide(real.replace(machine=real.machine.replace(procs=None)), plan())


def test_paths_of_a_plan_start_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('[real]\npath = "x.swf"\n[models.traces]\nmine = "a.swf"\n')
    found = grid.load(tmp_path / "p.toml")
    assert found.real.path == str(tmp_path / "x.swf")
    assert found.models.traces == {"mine": (str(tmp_path / "a.swf"),)}


# ---- held-out windows, traces ----------------------------------------------------------------------------------------


def test_windows_play_as_the_simulator_does(real: Trace) -> None:
    held = Heldout(schedulable(real), [0, 700], 50, ["real", "1.2"], "easy")
    rows = held.play("sjf")
    assert [(row["load"], row["window"]) for row in rows] == [("real", 0), ("real", 1), ("1.2", 0), ("1.2", 1)]
    alone = tracekit.simulate(real.take(slice(700, 750)), "sjf")
    assert rows[1]["mean_bsld"] == pytest.approx(alone.metrics["mean_bsld"])
    assert held.at("1.2").offered_load() == pytest.approx(1.2, rel=0.01)


def test_two_traces_one_after_the_other(real: Trace) -> None:
    first, second = schedulable(real.head(100)), schedulable(real.take(slice(50, 150)))
    both = one_after_the_other(first, second)
    assert len(both) == 200
    assert (np.diff(both.column("submit_time")) >= 0).all()
    assert both.jobs["job_id"].is_unique
    assert np.array_equal(both.column("run_time")[100:], second.column("run_time"))
    assert list(both.jobs["user"].astype(str)[100:]) == list(second.jobs["user"].astype(str))


def test_a_given_trace_gets_the_real_machine(real: Trace) -> None:
    small = real.replace(machine=real.machine.replace(procs=7, name="elsewhere"))
    assert on_the_same_machine(small, real).machine.procs == real.machine.procs
    with pytest.raises(TracekitError, match="one instant"):
        on_the_same_machine(real.assign({"submit_time": 5.0}), real)


def test_traces_made_elsewhere_are_judged(finished: Path) -> None:
    found = verdict_of(finished, "mine")
    assert found["verdict"] == "equivalent"
    assert found["flags"]


def test_a_damaged_store_has_no_result(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.result("nothing") is None
    (tmp_path / "tasks" / "x").mkdir(parents=True)
    for text in ("", "[]", '{"files": {"a": "b"}, "result": {}}', '{"files": [], "result": {}}'):
        (tmp_path / "tasks" / "x" / "result.json").write_text(text)
        assert store.result("x") is None


def test_what_the_first_look_decides_stays_in_the_table(real: Trace, tmp_path: Path) -> None:
    """A copy is decided at once; while others need a second look, its verdict and its differences are kept."""
    chosen = plan(
        models={"names": ["plugged:Copy", "lublin"], "baselines": [], "samples": 3},
        agents={"seeds": 3},
        verdict={"looks": 2, "margin": 0.001},
        score={"families": ["marginal"]},
    )
    found = study.run(chosen, tmp_path / "run", real, report=False)
    assert found["looks"] == 2
    copy = found["verdicts"][0]
    assert (copy["verdict"], copy["agent_seeds"], copy["samples"]) == ("equivalent", 2, 2)
    table = pd.read_parquet(tmp_path / "run" / "results.parquet")
    differences = table[table["kind"] == "difference"].groupby("model").size()
    assert differences["plugged:Copy"] == differences["lublin"] == 10
