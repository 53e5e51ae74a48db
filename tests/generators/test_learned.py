"""The learned models beyond their contract: interruption, memory, seeds, machines, dates, and the command line."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_contract import need

from generators import MODELS, learned
from generators import synth as library
from generators.clock import Clock
from generators.learned import TableModel, balanced
from generators.parts import Slot, Table
from generators.progress import StderrProgress, Stop, TimeLeft, stoppable
from generators.retime import match_load, move_start, scale_machine
from tracekit import Machine, Trace, stats
from tracekit.errors import FormatError, TracekitError, UnknownName, UsageError

Run = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.usefixtures("tiny_budgets")


class Echo(TableModel):
    """A model that needs nothing installed: it resamples rows from the fitted ones."""

    name = "echo"
    how = "rows drawn again"
    info = learned.ModelInfo(family="baseline", summary="for tests", licence="Apache-2.0")
    most_rows = 300
    rounds = 3

    def _fit_table(self, table: Table, slots: list[Slot], seed: int, stop: Stop) -> None:
        self.table, self.done = table, 0
        for step in range(self.rounds):
            self.during(step)
            self.done = step + 1
            self.progress(self.done, self.rounds, "steps")
            if stop.asked:
                break

    def during(self, step: int) -> None:
        """Do nothing."""

    def _sample_table(self, n_rows: int, seed: int, fixed: Any) -> Table:
        rows = np.random.default_rng(seed).integers(0, len(self.table), n_rows)
        return self.table.iloc[rows].reset_index(drop=True)


class Interrupted(Echo):
    """Gets a Ctrl-C in its second step."""

    def during(self, step: int) -> None:
        if step == 1:
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_keeps_what_was_learnt(real: Trace) -> None:
    model = Interrupted().fit(real, seed=1)
    assert model.done == 2
    assert "interrupted" in model.notes[-1]
    made = model.sample(10, seed=1)
    assert "interrupted" in made.history[-1]


def test_a_second_ctrl_c_stops_at_once() -> None:
    def twice() -> None:
        with stoppable():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        twice()


@pytest.mark.parametrize("name", ["diffusion", "ctgan", "realtabformer"])
def test_ctrl_c_ends_a_real_fit_early(name: str, real: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    need(name)
    from generators import diffusion, realtabformer, sdv

    monkeypatch.setattr(diffusion, "SIZES", {"quick": {"steps": 100_000, "width": 32, "batch": 64}})
    monkeypatch.setattr(realtabformer, "EFFORT", {"quick": (10**9, 10_000)})
    monkeypatch.setattr(sdv.CTGAN, "effort", {"quick": (10**9, 100_000)})
    seen: list[int] = []

    def progress(done: int, total: int, unit: str) -> None:
        seen.append(done)
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    fitted = library.fit(real, name, seed=1, budget="quick", progress=progress)
    assert fitted.interrupted
    assert len(seen) < 10
    assert len(library.make(fitted, 20, seed=1)) == 20


def test_too_many_jobs_are_subsampled_and_said_so(real: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Echo().fit(real, seed=1)
    assert model.notes == ["learnt from 300 random jobs of 400 (limited by time)"]
    assert "learnt from 300" in model.sample(5).history[-1]
    monkeypatch.setattr(learned, "memory", lambda: (1, 1))
    with pytest.raises(TracekitError, match="not enough memory"):
        Echo().fit(real, seed=1)


def test_a_seed_leaves_the_global_generators_alone() -> None:
    torch = pytest.importorskip("torch")
    from generators.seeding import seeded

    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    expected = np.random.rand(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    with seeded(5, "fit"):
        inside = np.random.rand()  # noqa: NPY002
    assert (np.random.rand(), torch.rand(1).item()) == expected  # noqa: NPY002
    with seeded(5, "fit"):
        assert np.random.rand() == inside  # noqa: NPY002


def test_no_model_is_asked_of_a_hub() -> None:
    pytest.importorskip("realtabformer")
    from generators.realtabformer import _library

    _library(lambda *_: None, Stop())
    assert os.environ["HF_HUB_OFFLINE"] == "1"


def test_progress_estimates_the_time_left_once_it_has_measured_a_pace(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    progress = StderrProgress("m", clock=lambda: now[0])
    for done in range(1, 5):
        now[0] = 100.0 * done
        progress(done, 4, "epochs")
    now[0] = 500.0
    progress(10, 1000, "rows")
    assert capsys.readouterr().err.splitlines() == [
        "m: 1 of 4 epochs",
        "m: 2 of 4 epochs, 3:20 left",
        "m: 3 of 4 epochs, 1:40 left",
        "m: 4 of 4 epochs",
        "m: 10 of 1,000 rows",
    ]


def test_the_time_left_is_not_guessed_from_too_little() -> None:
    left = TimeLeft()
    assert left(120, 1000, 50.0) == ""  # the first report: what came before it was something else
    assert left(121, 1000, 51.0) == ""
    assert left(124, 1000, 90.0) == ""
    assert left(220, 1000, 150.0) == ", 13:00 left"
    assert left(300, 1_000_000, 10_000.0) == ""
    assert left(1000, 1000, 900.0) == ""


def test_balancing_brings_the_mean_closer() -> None:
    rng = np.random.default_rng(0)
    work = rng.lognormal(5, 2.5, 5_000)
    mean = float(np.exp(5 + 2.5**2 / 2))
    rows = balanced(work, 4_000, mean, rng)
    assert len(set(rows)) == 4_000
    assert abs(work[rows].mean() - mean) <= abs(work[:4_000].mean() - mean)
    assert (rows == np.arange(4_000)).mean() > 0.8


# ---- thousands of users, GPUs ----------------------------------------------------------------------------------------


def test_thousands_of_users_and_gpus() -> None:
    need("diffusion")
    rng = np.random.default_rng(0)
    n = 6_000
    gpus = rng.choice([0, 1, 2, 8], n)
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(n),
            "submit_time": np.arange(n) * 10.0,
            "run_time": rng.lognormal(5, 1, n).round(),
            "req_gpus": gpus,
            "req_procs": 4 + 8 * gpus,
            "req_mem": rng.choice([1e6, 4e6], n),
            "gpu_type": np.where(gpus > 0, rng.choice(["V100", "A100"], n), None),
            "user": rng.integers(0, 4_000, n).astype(str),
        }
    )
    trace = Trace(jobs, Machine(gpus=64, unit="gpus"))
    trace = trace.take(np.flatnonzero(gpus > 0))
    made = library.synth(trace, "diffusion", 500, seed=1, budget="quick")
    assert set(made.column("req_gpus")) <= {1.0, 2.0, 8.0}
    assert (made.column("req_procs") == 4 + 8 * made.column("req_gpus")).all()
    assert set(made.jobs["gpu_type"].astype(str)) <= {"V100", "A100"}
    assert made.jobs["user"].nunique() > 100
    assert made.machine.unit == "gpus"


# ---- load, machine, start --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weekly() -> Trace:
    """4,000 jobs over eight weeks that mostly arrive by day."""
    rng = np.random.default_rng(1)
    hour = rng.integers(0, 56 * 24, 12_000)
    hour = np.sort(hour[rng.random(len(hour)) < np.where(hour % 24 // 8 == 1, 0.9, 0.1)])[:4_000]
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(len(hour)),
            "submit_time": np.floor(hour * 3600 + rng.uniform(0, 3600, len(hour))),
            "run_time": rng.lognormal(6, 1, len(hour)).round(),
            "req_procs": 2 ** rng.integers(0, 6, len(hour)),
            "user": rng.integers(0, 9, len(hour)).astype(str),
        }
    )
    trace = Trace(jobs, Machine(procs=64, epoch=1_704_067_200.0, timezone="UTC"))
    return trace.take(trace.order())


def by_day(trace: Trace) -> float:
    hour = stats.hour_of_week(trace) % 24
    return float(((hour >= 8) & (hour < 16)).mean())


@pytest.mark.parametrize("factor", [0.3, 1.0, 2.5])
def test_the_load_is_matched_without_moving_the_rush_hour(weekly: Trace, factor: float) -> None:
    demand = factor * stats.mean_demand(weekly)
    made, _ = match_load(weekly, demand)
    assert stats.mean_demand(made) == pytest.approx(demand, rel=0.005)
    assert by_day(made) == pytest.approx(by_day(weekly), abs=0.06)


def test_another_start_keeps_the_week_in_step(weekly: Trace) -> None:
    made = move_start(weekly, "2031-08-23T05:00")
    assert str(stats.local_times(made)[0])[:16] == "2031-08-23 05:00" or made.column("submit_time")[0] == 0
    assert by_day(made) == pytest.approx(by_day(weekly), abs=0.06)
    assert (np.diff(made.column("submit_time")) >= 0).all()
    with pytest.raises(UsageError, match="soon"):
        move_start(weekly, "soon")


def test_sizes_scale_to_another_machine(real: Trace) -> None:
    made, factor = scale_machine(real, 512)
    assert factor == 4
    assert made.machine.procs == 512
    assert made.machine.nodes == 128
    np.testing.assert_array_equal(made.column("req_procs"), 4 * real.column("req_procs"))
    small, _ = scale_machine(real, 16)
    assert small.sizes().min() >= 1
    assert small.sizes().max() <= 16
    assert (small.column("req_procs") == 4 * small.column("req_nodes")).mean() > 0.3
    with pytest.raises(UsageError, match="machine's size is known"):
        scale_machine(real.replace(machine=Machine()), 16)


def test_shapes_together(weekly: Trace) -> None:
    made = library.synth(weekly, "resample", 2_000, seed=1, machine_procs=256, start="2030-01-01", load="real")
    assert len(made) == 2_000
    assert made.machine.procs == 256
    assert made.offered_load() == pytest.approx(weekly.offered_load(), rel=0.02)
    assert str(stats.local_times(made)[0])[:10] == "2030-01-01"
    assert [step.split(" ")[0] for step in made.history[-3:]] == ["sizes", "starts", "load"]


def test_a_span_instead_of_a_number(weekly: Trace) -> None:
    made = library.synth(weekly, "resample", seed=1, span=14 * 86_400.0)
    assert 0.9 * 14 * 86_400 < stats.span(made) <= 14 * 86_400
    assert made.offered_load() == pytest.approx(weekly.offered_load(), rel=0.1)
    with pytest.raises(UsageError, match="either"):
        library.synth(weekly, "resample", 5, span=5.0)


def test_rejection_has_a_bound_and_says_so(weekly: Trace) -> None:
    rare = weekly.assign({"queue": pd.Series(["rare"] + ["usual"] * (len(weekly) - 1))})
    made = library.synth(rare, "resample", 50, only={"queue": "usual"})
    assert set(made.jobs["queue"].astype(str)) == {"usual"}
    with pytest.raises(TracekitError, match=r"only 0 of .* have queue=never; 50 are needed"):
        library.synth(rare, "resample", 50, only={"queue": "never"})


def test_bad_requests(weekly: Trace) -> None:
    with pytest.raises(UsageError, match="--load must be a number"):
        library.synth(weekly, "resample", 5, load="much")
    with pytest.raises(UsageError, match="must be above 0"):
        library.synth(weekly, "resample", 5, load=-1)
    with pytest.raises(UnknownName, match="did you mean diffusion"):
        library.synth(weekly, "difusion", 5)
    with pytest.raises(UsageError, match="seed must be a whole number from 0"):
        library.synth(weekly, "resample", 5, seed=-1)
    with pytest.raises(UsageError, match="option"):
        library.synth(weekly, "resample", 5, colour="red")
    with pytest.raises(UnknownName, match="budget"):
        Echo(budget="huge")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="machine whose size is known"):
        library.synth(weekly.replace(machine=Machine()), "resample", 5, load=0.5)


def test_no_load_to_match_is_said(weekly: Trace) -> None:
    at_once = weekly.assign({"submit_time": np.zeros(len(weekly))})
    made = library.synth(at_once, "resample", 50)
    assert "unknown" in made.history[-1]


def test_ten_times_more_jobs_do_not_repeat_themselves(weekly: Trace) -> None:
    pytest.importorskip("torch")
    made = library.synth(weekly.head(1_000), "diffusion", 10_000, seed=1, budget="quick")
    columns = ["run_time", "req_procs", "user"]
    assert made.jobs[columns].astype(str).duplicated().mean() < 0.9
    assert made.jobs["run_time"].nunique() > 1.5 * weekly.head(1_000).jobs["run_time"].nunique()


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="saved model"):
        library.load(tmp_path)


def test_a_damaged_model_is_refused(real: Trace, tmp_path: Path) -> None:
    need("diffusion")
    library.fit(real, "diffusion", seed=1, budget="quick").save(tmp_path / "kept")
    (tmp_path / "kept" / "weights.safetensors").write_bytes(b"nothing")
    with pytest.raises(FormatError, match="cannot be read as a saved model"):
        library.load(tmp_path / "kept")
    (tmp_path / "kept" / "encoding.json").write_text("{}")
    with pytest.raises(FormatError, match="saved encoding"):
        library.load(tmp_path / "kept")


def test_the_clock_of_made_jobs_is_the_real_one(weekly: Trace) -> None:
    model = Echo().fit(weekly, seed=1)
    made = model.sample(4_000, seed=1)
    ours, theirs = Clock.fit(weekly), Clock.fit(made)
    assert ours is not None
    assert theirs is not None
    assert np.corrcoef(ours.speed, theirs.speed)[0, 1] > 0.9


# ---- the command line ------------------------------------------------------------------------------------------------


def test_synth_on_the_command_line(weekly: Trace, tmp_path: Path, run: Run) -> None:
    weekly.save(tmp_path / "real.swf")
    code, out, err = run(
        "synth",
        tmp_path / "real.swf",
        "-o",
        tmp_path / "made.swf",
        "--model",
        "resample",
        "--jobs",
        300,
        "--seed",
        1,
        "--json",
        "--save",
        tmp_path / "kept",
    )
    assert code == 0, err
    summary = json.loads(out)
    assert summary["jobs"] == 300
    assert summary["offered_load"] == pytest.approx(summary["real_load"], rel=0.02)
    code, _, err = run(
        "synth", "--from-model", tmp_path / "kept", "-o", tmp_path / "again.swf", "--jobs", 300, "--seed", 1
    )
    assert code == 0, err
    assert (tmp_path / "made.swf").read_bytes() == (tmp_path / "again.swf").read_bytes()
    code, _, err = run(
        "synth",
        tmp_path / "real.swf",
        "-o",
        tmp_path / "month.swf",
        "--model",
        "resample",
        "--span",
        "10d",
        "--machine-procs",
        128,
        "--start",
        "2030-01-07",
        "--load",
        "0.4",
        "--only",
        "user=3",
    )
    assert code == 0, err
    assert "2030" in str(stats.local_times(Trace.load(tmp_path / "month.swf"))[0])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--model", "resampel"], 2, "did you mean resample"),
        (["--model", "gaussian-copula"], 1, "too few jobs to learn from"),
        (["--model", "resample", "--jobs", "5", "--span", "3d"], 2, "not both"),
        (["--model", "resample", "--span", "soon"], 2, "--span soon"),
        (["--model", "resample", "--only", "queue"], 2, "--only queue"),
        (["--model", "resample", "--budget", "huge"], 2, "unknown budget"),
        (["--model", "resample", "--encoding", "row"], 2, "did you mean raw"),
        (["--model", "resample", "--load", "much"], 2, "--load"),
        (["--model", "resample", "--from-model", "x"], 2, "either"),
    ],
)
def test_usage_errors(toy_swf: Path, tmp_path: Path, run: Run, arguments: list[str], code: int, words: str) -> None:
    found, _, err = run("synth", toy_swf, "-o", tmp_path / "made.swf", *arguments)
    assert (found, words in err) == (code, True), err
    assert not (tmp_path / "made.swf").exists()


@pytest.mark.parametrize("model", ["lublin", "user-resample", "independent"])
def test_the_classic_models_go_the_same_way(weekly: Trace, tmp_path: Path, run: Run, model: str) -> None:
    weekly.save(tmp_path / "real.swf")
    code, _, err = run("synth", tmp_path / "real.swf", "-o", tmp_path / "made.swf", "--model", model, "--jobs", 500)
    assert code == 0, err
    assert Trace.load(tmp_path / "made.swf").offered_load() == pytest.approx(weekly.offered_load(), rel=0.02)


def test_an_interrupted_fit_still_writes_and_exits_with_130(
    real: Trace, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    real.save(tmp_path / "real.swf")
    monkeypatch.setitem(MODELS._entries, "interrupted", "test_learned:Interrupted")
    code, _, err = run("synth", tmp_path / "real.swf", "-o", tmp_path / "made.swf", "--model", "interrupted")
    assert (code, "interrupted" in err) == (130, True)
    assert len(Trace.load(tmp_path / "made.swf")) == 400


def test_models_are_listed(run: Run) -> None:
    code, out, _ = run("models", "--json")
    rows = {row["name"]: row for row in json.loads(out)["models"]}
    assert code == 0
    assert {
        "ctgan",
        "tvae",
        "copulagan",
        "gaussian-copula",
        "realtabformer",
        "diffusion",
        "lublin",
        "user-resample",
        "resample",
        "independent",
    } <= set(rows)
    assert "BUSL" in rows["ctgan"]["licence"]
    assert rows["ctgan"]["needs_trust"]
    assert rows["resample"]["copies"]
    assert not rows["diffusion"]["copies"]
    code, out, _ = run("models")
    assert code == 0
    assert "diffusion" in out


def test_a_missing_extra_is_named(real: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: Run) -> None:
    real.save(tmp_path / "real.swf")
    monkeypatch.setattr("generators.learned.importlib.util.find_spec", lambda name: None)
    code, _, err = run("synth", tmp_path / "real.swf", "-o", tmp_path / "x.swf", "--model", "diffusion")
    assert code == 3
    assert "pip install 'tracekit-hpc[synth]'" in err


def test_a_file_of_weights_is_never_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from generators.realtabformer import _tensors_only

    class Program:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"weight": Program()}, tmp_path / "bad.pt")
    torch.save({"weight": torch.ones(2)}, tmp_path / "good.pt")
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    plain = torch.load
    with _tensors_only():
        assert torch.load(tmp_path / "good.pt", weights_only=False)["weight"].sum() == 2
        with pytest.raises(Exception, match=r"[Ww]eights"):
            torch.load(tmp_path / "bad.pt", map_location="cpu")
    assert torch.load is plain
    assert not (tmp_path / "ran").exists()
    monkeypatch.setattr(torch, "__version__", "2.5.1")
    with pytest.raises(TracekitError, match=r"torch>=2\.6"), _tensors_only():
        pass
