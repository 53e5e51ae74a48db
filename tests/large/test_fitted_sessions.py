"""Model sessions fitted to traces that are read in batches: the model of the whole trace, with its jobs on disk."""

from __future__ import annotations

import errno
import gc
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from generators import quantile, streamed
from generators import synth as library
from generators.quantile import grain_of
from generators.sessions import shelf
from generators.sessions.histories import RETURN, campaigns_of
from generators.sessions.learnt import apart, numbered
from generators.sessions.model import BYTES_A_JOB
from generators.sessions.shelf import MEMORY, Shelf, blocks, groups_in_blocks, ranked, whole
from swf.parts import Parts, in_chunks, write_parts
from tracekit import Machine, Trace, limits
from tracekit.api import write_chunks
from tracekit.errors import OutputError, TracekitError
from tracekit.large import source
from tracekit.machine import HostGroup

Run = Callable[..., tuple[int, str, str]]
SKELETONS = ("resampled", "modelled")


@pytest.fixture(autouse=True)
def _limits_of_one_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """--limit changes the environment."""
    monkeypatch.setenv(limits.VARIABLE, "")


def odd(seed: int, jobs: int = 800) -> Trace:
    """Jobs of the sample: out of order, with fractions, unknown values and labels that only some parts have."""
    rng = np.random.default_rng(seed)
    trace = tracekit.sample().head(jobs)
    trace = trace.take(rng.permutation(jobs)) if seed % 2 else trace
    columns: dict[str, Any] = {
        "submit_time": np.where(rng.random(jobs) < 0.02, np.nan, trace.column("submit_time")),
        "run_time": np.where(rng.random(jobs) < 0.02, np.nan, trace.column("run_time") * rng.lognormal(0, 0.2, jobs)),
        "alloc_procs": np.where(np.arange(jobs) < 500, np.nan, trace.column("req_procs") + 0.5),
        "project": pd.Categorical(rng.choice(["10", "9", "x" if seed % 2 else "1"], jobs)),
    }
    return trace.assign(columns)


def rich(jobs: int = 1200) -> Trace:
    """Jobs with everything that is measured, of users some of whom are unknown, where the clock changes."""
    rng, trace = np.random.default_rng(7), tracekit.sample().head(jobs)
    user = trace.jobs["user"].astype(object).where(rng.random(jobs) > 0.1, None)
    columns: dict[str, Any] = {
        "cpu_time": np.where(rng.random(jobs) < 0.1, np.nan, trace.column("run_time") * rng.random(jobs)),
        "used_mem": np.where(rng.random(jobs) < 0.1, np.nan, rng.lognormal(8, 1, jobs).round()),
        "mean_watts": np.where(rng.random(jobs) < 0.1, np.nan, rng.lognormal(5, 0.3, jobs)),
        "group": pd.Categorical(rng.choice([f"g{k}" for k in range(40)], jobs)),
        "app": pd.Categorical(rng.choice(["a", "b", "c"], jobs, p=[0.6, 0.39, 0.01])),
        "user": pd.Categorical(user),
    }
    machine = trace.machine.replace(timezone="Europe/Berlin", epoch=1_696_500_000.0)
    return trace.replace(machine=machine).assign(columns)


def nameless() -> Trace:
    trace = tracekit.sample().head(900)
    return trace.replace(jobs=trace.jobs.drop(columns="user"))


def hosted() -> Trace:
    trace = tracekit.sample().head(600)
    groups = (HostGroup(count=8, cores=16), HostGroup(count=2, cores=32, pool="large"))
    return trace.replace(machine=trace.machine.replace(groups=groups)).assign({"tasks": np.ones(600)})


TRACES = {"in order": lambda: odd(0), "out of order": lambda: odd(1), "rich": rich, "no users": nameless}
TRACES |= {"hosts": hosted}


def stored(trace: Trace, folder: Path, part_jobs: int = 350) -> Parts:
    write_parts(in_chunks(trace, 130), folder, part_jobs=part_jobs)
    return Parts(folder)


def bytes_of(trace: Trace, file: Path) -> bytes:
    tracekit.write(trace, file, force=True)
    return file.read_bytes()


def both(
    trace: Trace, folder: Path, monkeypatch: pytest.MonkeyPatch, batch: int = 111, **options: Any
) -> tuple[library.Fitted, library.Fitted]:
    """Return the model of a whole trace, and the one of its parts that goes through the jobs in small blocks."""
    parts = stored(trace, folder)
    whole_one = library.fit(tracekit.read(folder), "sessions", seed=1, **options)
    monkeypatch.setenv("TRACEKIT_BATCH_JOBS", str(batch))
    monkeypatch.setattr(shelf, "BLOCK", 83)
    return whole_one, streamed.fit(parts, "sessions", seed=1, **options)


@pytest.mark.parametrize("skeleton", SKELETONS)
@pytest.mark.parametrize("name", TRACES)
def test_jobs_on_disk_make_the_same_bytes(
    tmp_path: Path, name: str, skeleton: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = TRACES[name]()
    models = both(trace, tmp_path / "parts", monkeypatch, skeleton=skeleton)
    assert models[0].notes == models[1].notes
    for jobs, seed in ((len(trace), 2), (150, 3), (int(2.3 * len(trace)), 4)):
        made = [bytes_of(library.make(model, jobs, seed=seed), tmp_path / "made.parquet") for model in models]
        assert made[0] == made[1]
    started = [library.make(model, 300, seed=5, start="2031-03-13", load=0.4) for model in models]
    assert bytes_of(started[0], tmp_path / "a.parquet") == bytes_of(started[1], tmp_path / "b.parquet")


@pytest.mark.parametrize(
    "options",
    [
        {"skeleton": "resampled", "privacy": 2},
        {"skeleton": "modelled", "privacy": 3},
        {"skeleton": "modelled", "privacy": 5, "sharing": True},
        {"skeleton": "resampled", "keep_unusable": True},
        {"skeleton": "modelled", "keep_unusable": True},
    ],
)
def test_options_of_the_fit_make_the_same_bytes(
    tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = rich()
    if options.get("keep_unusable"):
        trace = trace.assign({"run_time": np.where(np.arange(len(trace)) % 9, trace.column("run_time"), np.nan)})
    models = both(trace, tmp_path / "parts", monkeypatch, **options)
    made = [bytes_of(library.make(model, 1000, seed=2), tmp_path / "made.parquet") for model in models]
    assert made[0] == made[1]


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_what_if_and_chunks_make_the_same_bytes(tmp_path: Path, skeleton: str, monkeypatch: pytest.MonkeyPatch) -> None:
    models = both(tracekit.sample().head(1500), tmp_path / "parts", monkeypatch, skeleton=skeleton)
    made: list[list[bytes]] = []
    for model in models:
        asked = library.make(model, 700, seed=2, users=30, share={("queue", "2"): 0.3}, more={"procs": 1.5})
        chunks = library.chunks(model, 3400, seed=7)
        assert chunks is not None
        write_chunks(chunks, tmp_path / "chunks.parquet", force=True)
        made.append([bytes_of(asked, tmp_path / "asked.parquet"), (tmp_path / "chunks.parquet").read_bytes()])
    assert made[0] == made[1]


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_the_command_line_and_a_saved_model_make_the_same(tmp_path: Path, skeleton: str, run: Run) -> None:
    folder = tmp_path / "real"
    stored(odd(1), folder)
    made = []
    for how in ("--parts", "--whole"):
        out, saved = tmp_path / f"made{how}.parquet", tmp_path / f"model{how}"
        words = ("-o", out, "--jobs", "400", "--skeleton", skeleton, "--limit", "memory=4G")
        code, _, error = run("synth", folder, how, "--save", saved, *words)
        assert code == 0, error
        made.append([out.read_bytes(), (saved / "config.json").read_bytes(), (saved / "provenance.json").read_bytes()])
        assert run("synth", "--from-model", saved, "-o", out, "--jobs", "400", "--force")[0] == 0
        made[-1].append(out.read_bytes())
    assert made[0] == made[1]
    assert made[0][0] == made[0][3], "and as the model that was saved"


def test_a_model_that_fits_only_in_parts_is_fitted_in_parts(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a flag: the trace would fit into memory, the model of the whole trace would not."""
    stored(tracekit.sample().head(900), tmp_path / "real")
    used: list[str] = []
    fit = streamed.fit
    monkeypatch.setattr(streamed, "fit", lambda *given, **more: used.append("parts") or fit(*given, **more))
    needed = 900 * BYTES_A_JOB["resampled"][1]
    for memory, how in ((needed, ["parts"]), (4 * needed, [])):
        used.clear()
        words = ("-o", tmp_path / "made.parquet", "--jobs", "20", "--force", "--limit", f"memory={memory}")
        code, _, error = run("synth", tmp_path / "real", *words)
        assert (code, used) == (0, how), error


class Endless:
    """A source of many jobs of forty users that are made when they are read."""

    machine, history, ordered = Machine(name="made", procs=64), (), True
    columns = ("job_id", "submit_time", "run_time", "req_time", "req_procs", "user")

    def __init__(self, batches: int, jobs: int) -> None:
        rng, self.number, self.jobs = np.random.default_rng(1), batches, jobs
        run = np.round(rng.lognormal(5, 0.5, jobs))
        columns = {
            "job_id": np.arange(jobs),
            "submit_time": np.sort(rng.integers(0, 7 * 86_400, jobs)).astype(float),
            "run_time": run,
            "req_time": np.ceil(run / 600) * 600,
            "req_procs": 2 ** rng.integers(0, 7, jobs),
            "user": pd.Categorical([f"u{k}" for k in rng.integers(0, 40, jobs)]),
        }
        self.some = Trace(pd.DataFrame(columns), self.machine)

    def batches(self, columns: Iterable[str] | None = None) -> Iterator[Trace]:
        for number in range(self.number):
            yield self.some.assign({"submit_time": self.some.column("submit_time") + number * 7 * 86_400.0})

    def bytes_whole(self) -> int:
        return self.number * self.jobs * 48


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_memory_for_each_job_is_what_is_reckoned_with(skeleton: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "BLOCK", 2000)
    monkeypatch.setattr(quantile, "GRAIN_BLOCK", 2000)
    library.make(streamed.fit(Endless(2, 2000), "sessions", skeleton=skeleton), 50, seed=1)  # compiles
    peaks = []
    for number in (5, 30):
        tracemalloc.start()
        fitted = streamed.fit(Endless(number, 4000), "sessions", skeleton=skeleton)
        assert len(library.make(fitted, 2000, seed=1)) == 2000
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        del fitted
    assert (peaks[1] - peaks[0]) / (25 * 4000) < BYTES_A_JOB[skeleton][0]
    with pytest.raises(TracekitError, match=rf"120,000 jobs.*{BYTES_A_JOB[skeleton][0]} bytes a job.*--fit-jobs"):
        streamed.fit(Endless(30, 4000), "sessions", room=1e6, skeleton=skeleton)


def test_files_go_with_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fitted = streamed.fit(Endless(2, 500), "sessions")
    (folder,) = tmp_path.iterdir()
    kept = len(list(folder.iterdir()))
    library.make(fitted, 50, seed=1)
    gc.collect()
    assert len(list(folder.iterdir())) == kept, "what waited while a period was made is gone"
    del fitted
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_a_small_disk_is_refused_and_a_full_one_is_named(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "real", tmp_path / "made.parquet"
    stored(tracekit.sample().head(300), folder)
    command = ("synth", folder, "-o", out, "--parts", "--jobs", "20")
    with monkeypatch.context() as patch:
        patch.setattr(source.shutil, "disk_usage", lambda _: SimpleNamespace(free=100.0))
        code, _, error = run(*command)
    assert (code, "TMPDIR" in error, len(error.strip().splitlines()), out.exists()) == (1, True, 1, False), error

    written, append = [0], shelf.append

    def full(file: Path, values: Any) -> None:
        written[0] += 1
        if written[0] > 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(file, values)

    monkeypatch.setattr(shelf, "append", full)
    code, _, error = run(*command)
    assert (code, "No space left" in error, out.exists()) == (1, True, False), error
    with pytest.raises(OutputError, match="cannot be written"):
        Shelf(on_disk=True).keep(np.arange(3))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-3, 3), max_size=60), st.integers(1, 9))
def test_arrays_in_files_and_blocks_are_those_in_memory(values: list[int], block: int) -> None:
    array = np.array(values, dtype=np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shelf, "BLOCK", block)
        on_disk, rows = Shelf(on_disk=True), np.arange(len(array))[::-2]
        for made in (on_disk.keep(array), MEMORY.keep(array)):
            assert len(made) == len(array)
            assert np.array_equal(whole(made), array)
            assert np.array_equal(made[rows], array[rows])
            assert np.array_equal(np.concatenate([array[:0], *(made[part] for part in blocks(len(array)))]), array)
        begins = array > 0
        if len(array):
            begins[0] = True
        parts = list(groups_in_blocks(begins))
        assert [row for part in parts for row in range(part.start, part.stop)] == list(range(len(array)))
        assert all(begins[part.start] for part in parts)
    if len(array):
        found, code = np.unique(array, return_inverse=True)
        assert [one.tolist() for one in ranked(array)] == [code.tolist(), found.tolist()]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=60), st.integers(1, 9))
def test_campaigns_and_requests_are_numbered_as_all_at_once(jobs: list[tuple[int, int]], block: int) -> None:
    turn, kind = np.array(jobs).T
    turn[0] = RETURN
    key = np.cumsum(turn >= RETURN) * 9 + kind
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shelf, "BLOCK", block)
        assert campaigns_of(turn, kind).tolist() == np.unique(key, return_inverse=True)[1].tolist()
    rows = pd.DataFrame({"a": turn, "b": np.where(kind > 0, kind, np.nan)})
    code, table = apart(rows)
    pd.testing.assert_frame_equal(table.iloc[code].reset_index(drop=True), rows)
    pd.testing.assert_frame_equal(table, rows.drop_duplicates(ignore_index=True))
    again, first = numbered(rows)
    pd.testing.assert_frame_equal(rows.iloc[first[again]].reset_index(drop=True), rows)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([1.0, 250.5, 0.25, 0.125, 1 / 3, 3e13, 2e14, np.nan, np.inf]), max_size=9))
def test_the_grain_of_blocks_is_that_of_all(values: list[float]) -> None:
    array = np.array(values)
    wanted = grain_of(array)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantile, "GRAIN_BLOCK", 2)
        assert grain_of(array) == wanted
