"""Models fitted to traces that are read in batches: the ones fitted to the whole trace."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from generators import streamed
from generators import synth as library
from generators.in_order import Able, Streamed
from generators.lublin_counts import COLUMNS, Counts, Gaps, Look
from generators.lublin_model import JobType
from swf.parts import Parts, in_chunks, write_parts
from tracekit import Machine, Trace, limits
from tracekit.errors import TracekitError
from tracekit.large import amounts, runs
from tracekit.large.amounts import PASSES, Amount, Total
from tracekit.machine import HostGroup

Run = Callable[..., tuple[int, str, str]]
MODELS = ("lublin", "resample", "independent", "user-resample", "sessions")


@pytest.fixture(autouse=True)
def _limits_of_one_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """--limit changes the environment."""
    monkeypatch.setenv(limits.VARIABLE, "")


def odd(seed: int, jobs: int = 900) -> Trace:
    """Jobs of the sample: out of order, with fractions, unknown values and labels that only some parts have."""
    rng = np.random.default_rng(seed)
    trace = tracekit.sample().head(jobs)
    trace = trace.take(rng.permutation(jobs)) if seed % 2 else trace
    submit = np.where(rng.random(jobs) < 0.02, np.nan, trace.column("submit_time"))
    columns: dict[str, Any] = {
        "submit_time": submit,
        "run_time": np.where(rng.random(jobs) < 0.02, np.nan, trace.column("run_time") * rng.lognormal(0, 0.2, jobs)),
        "req_nodes": trace.column("req_procs") * 2 if seed % 3 else rng.integers(1, 9, jobs).astype(float),
        "alloc_procs": np.where(np.arange(jobs) < 500, np.nan, trace.column("req_procs") + 0.5),
        "project": pd.Categorical(rng.choice(["10", "9", "x" if seed % 2 else "1"], jobs)),
        "x_text": rng.choice(["a", "b"], jobs).astype(object),
    }
    return trace.assign(columns)


def stored(trace: Trace, folder: Path, part_jobs: int = 400) -> Parts:
    write_parts(in_chunks(trace, 130), folder, part_jobs=part_jobs)
    return Parts(folder)


def facts(fitted: library.Fitted) -> str:
    return repr((fitted.jobs, fitted.span, fitted.demand, fitted.load, fitted.left_out, fitted.notes))


def bytes_of(trace: Trace, file: Path) -> bytes:
    tracekit.write(trace, file, force=True)
    return file.read_bytes()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_a_model_fitted_in_batches_makes_the_same_bytes(
    tmp_path: Path, model: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "BLOCK", 100)
    monkeypatch.setattr(amounts, "LEAF", 128)
    parts = stored(odd(seed), tmp_path / "parts")
    whole = library.fit(tracekit.read(tmp_path / "parts"), model, seed=1)
    wanted = bytes_of(library.make(whole, 300, seed=2), tmp_path / "one.parquet")
    for batch in ("77", "5000"):
        monkeypatch.setenv("TRACEKIT_BATCH_JOBS", batch)
        fitted = streamed.fit(parts, model, seed=1)
        assert facts(fitted) == facts(whole)
        assert bytes_of(library.make(fitted, 300, seed=2), tmp_path / "other.parquet") == wanted


@pytest.mark.parametrize("model", MODELS)
def test_jobs_that_hosts_cannot_hold_are_left_out_alike(tmp_path: Path, model: str) -> None:
    trace = tracekit.sample().head(600)
    groups = (HostGroup(count=8, cores=16), HostGroup(count=2, cores=32, pool="large"))
    trace = trace.replace(machine=trace.machine.replace(groups=groups)).assign({"tasks": np.ones(600)})
    parts = stored(trace, tmp_path / "parts", 250)
    whole, fitted = library.fit(tracekit.read(tmp_path / "parts"), model, seed=1), streamed.fit(parts, model, seed=1)
    assert facts(fitted) == facts(whole)
    assert fitted.notes[0].endswith("too large for any host")
    pd.testing.assert_frame_equal(library.make(fitted, 90, seed=2).jobs, library.make(whole, 90, seed=2).jobs)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 900), st.integers(0, 99))
def test_sums_of_batches_are_those_of_numpy(jobs: int, batch: int, seed: int) -> None:
    values = np.random.default_rng(seed).lognormal(0, 9, jobs)
    median = Amount((0.5,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(amounts, "LEAF", 200)
        total = Total(jobs)
        for first in range(0, jobs, batch):
            total.add(values[first : first + batch])
        assert total.value == values.sum()
        assert total.mean == values.mean()
    for _ in range(PASSES):
        median.add(values)
        median.next_pass()
    assert median.median() == np.median(values)


def test_a_sum_of_fewer_or_more_values_than_said_is_refused() -> None:
    total = Total(3)
    total.add(np.ones(2))
    with pytest.raises(AssertionError, match="fewer values"):
        _ = total.value
    with pytest.raises(AssertionError, match="more values"):
        total.add(np.ones(2))


class Endless:
    """A source of many jobs that are made when they are read."""

    machine, history, ordered = Machine(name="made", procs=64), (), True
    columns = ("job_id", "submit_time", "run_time", "req_time", "req_procs", "user")

    def __init__(self, batches: int, jobs: int) -> None:
        rng, self.number, self.jobs = np.random.default_rng(1), batches, jobs
        run = rng.integers(1, 9000, jobs).astype(float)
        columns = {
            "job_id": np.arange(jobs),
            "submit_time": np.sort(rng.integers(0, 9000, jobs)).astype(float),
            "run_time": run,
            "req_time": np.ceil(run / 600) * 600,
            "req_procs": rng.integers(1, 65, jobs),
            "user": pd.Categorical(rng.choice(["u1", "u2"], jobs)),
        }
        self.some = Trace(pd.DataFrame(columns), self.machine)

    def batches(self, columns: Iterable[str] | None = None) -> Iterator[Trace]:
        for number in range(self.number):
            yield self.some.assign({"submit_time": self.some.column("submit_time") + number * 9000.0})

    def bytes_whole(self) -> int:
        return self.number * self.jobs * 48


def lublin_counted(source: Endless) -> int:
    """What model lublin does with the jobs; what it does with the counts does not depend on their number."""
    with Streamed("lublin", Able(source), COLUMNS) as jobs:
        look = Look.at(jobs)
        counts = Counts(jobs, look)
        Gaps(jobs, look, JobType()).logarithms(1.0)
    return counts.jobs


def resampled(source: Endless) -> int:
    library.make(streamed.fit(source, "resample"), 50, seed=1)
    return library.make(streamed.fit(source, "independent"), 50, seed=1).jobs.shape[0]


@pytest.mark.parametrize("use", [lublin_counted, resampled])
def test_memory_does_not_grow_with_the_jobs(use: Callable[[Endless], int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amounts, "LEAF", 1024)
    peaks = []
    for batches in (3, 24):
        source = Endless(batches, 2000)
        tracemalloc.start()
        assert use(source) in (50, batches * 2000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] + 1e5  # the submit times of 42,000 more jobs alone have 336 KB
    with pytest.raises(TracekitError, match=r"48,000 jobs.*bytes a job.*--fit-jobs"):
        streamed.fit(Endless(24, 2000), "user-resample", room=1e6)


def test_every_pass_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEKIT_BATCH_JOBS", "200")
    told: list[tuple[int, int, str]] = []
    parts = stored(odd(0), tmp_path / "parts", 500)
    watch = {"jobs": parts.jobs, "progress": lambda *report: told.append(report)}
    library.make(streamed.fit(parts, "resample", **watch), 20, seed=1)  # type: ignore[arg-type]
    assert told[0] == (200, 900, "jobs (pass 1)")
    assert [done for done, _, _ in told if done == 900] == [900] * 4  # looked at, its load, submit times, values


def test_the_command_line_fits_in_parts_as_in_memory_and_saves_it(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "real"
    write_parts(in_chunks(tracekit.sample().head(900), 200), folder, part_jobs=350)
    for model in ("lublin", "user-resample"):
        made = []
        for how in ("--parts", "--whole"):
            out, saved = tmp_path / f"{model}{how}.parquet", tmp_path / f"{model}{how}"
            flags = ("--model", model, "--jobs", "120", "--save", saved, "--limit", "memory=4G")
            code, _, error = run("synth", folder, "-o", out, how, *flags)
            assert code == 0, error
            if how == "--parts":  # a saved model makes the same
                assert run("synth", "--from-model", saved, "-o", out, "--jobs", "120", "--force")[0] == 0
            config = sorted(file.name for file in saved.iterdir())
            made.append([out.read_bytes(), config, *((saved / n).read_bytes() for n in config if n.endswith(".json"))])
        assert made[0] == made[1]
    assert run("synth", folder, "-o", tmp_path / "x.parquet", "--model", "resample", "--limit", "memory=10k")[0] == 0


def test_what_does_not_fit_is_refused_before_it_starts(tmp_path: Path, run: Run) -> None:
    folder, out = tmp_path / "real", tmp_path / "made.parquet"
    stored(odd(1), folder)
    little = ("--limit", "memory=100k")
    cases = (
        (("--model", "sessions", *little), "model sessions needs about 0.01 GB", "150 bytes a job", "--fit-jobs N"),
        (("--model", "sessions", "--skeleton", "modelled", *little), "model sessions needs", "150 bytes a job", ""),
        (("--model", "user-resample", *little), "model user-resample needs about", "120 bytes a job", "--fit-jobs N"),
        (("--model", "eda", "--parts"), "model eda needs the whole trace in memory", "--whole", "--fit-jobs N"),
        (("--model", "eda", *little), "model eda needs about", "bytes a job", "--fit-jobs N"),
        (("--model", "resample", "--parts", "--save", str(tmp_path / "m")), "not in submit order", "whole", ""),
        (("--model", "lublin", "--parts", "--keep-unusable"), "--keep-unusable is only supported", "lublin", ""),
    )
    for flags, *words in cases:
        code, _, error = run("synth", folder, "-o", out, "--jobs", "9", *flags)
        assert code in (1, 2), flags
        assert error.count("\n") <= 2, error
        assert "Traceback" not in error
        assert all(word in error for word in words), error
        assert not out.exists()
    assert not (tmp_path / "m").exists()
    tracekit.sample().head(50).save(tmp_path / "real.swf")
    for model in ("lublin", "sessions"):
        code, _, error = run("synth", tmp_path / "real.swf", "-o", out, "--model", model, "--parts")
        assert (code, "first run tracekit convert" in error) == (2, True), error


def test_damage_inside_a_part_is_named_and_nothing_is_written(tmp_path: Path, run: Run) -> None:
    folder, out = tmp_path / "real", tmp_path / "made.parquet"
    stored(odd(0), folder)
    part = folder / "part-00001.parquet"
    content = part.read_bytes()
    part.write_bytes(content[:200] + bytes(3000) + content[3200:])
    for model in MODELS:
        code, _, error = run("synth", folder, "-o", out, "--model", model, "--parts", "--jobs", "9")
        assert (code, "part-00001.parquet" in error, out.exists()) == (1, True, False), error
    part.unlink()
    code, _, error = run("synth", folder, "-o", out, "--model", "lublin", "--parts")
    assert (code, "is missing" in error) == (1, True)


def test_sessions_learn_from_fewer_columns_the_same(tmp_path: Path) -> None:
    parts = stored(odd(0), tmp_path / "parts")
    columns = streamed.columns_of("sessions")
    assert columns is not None
    some, _ = tracekit.api.read_as(tmp_path / "parts", columns=columns)
    assert "x_text" not in some.jobs.columns
    made = [
        bytes_of(library.make(library.fit(trace, "sessions"), 200, seed=3), tmp_path / "made.parquet")
        for trace in (some, tracekit.read(tmp_path / "parts"))
    ]
    assert made[0] == made[1]
    assert parts.bytes_whole(columns) < parts.bytes_whole()
