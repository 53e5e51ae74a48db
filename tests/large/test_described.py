"""info and validate in batches: the numbers of the whole trace."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from swf.parts import Parts, in_chunks, write_parts
from tracekit import Machine, Trace, stats
from tracekit.large import runs
from tracekit.large.amounts import PASSES, Amount
from tracekit.large.problems import validate
from tracekit.large.runs import Repeats, Runs
from tracekit.large.summary import summary
from tracekit.validation import schedulable

Run = Callable[..., tuple[int, str, str]]


def odd_trace(seed: int, jobs: int = 300) -> Trace:
    """A trace with every kind of oddity: unknown, infinite, negative and repeated values, and jobs out of order."""
    rng = np.random.default_rng(seed)
    submit = np.cumsum(rng.integers(0, 90, jobs)).astype(float)
    if seed % 2:
        submit = submit[rng.permutation(jobs)]
    run = rng.choice([0, 1, 60, 3600, -5, np.nan, 1e5], jobs)
    ids = rng.integers(1, jobs, jobs) if seed % 3 else np.arange(jobs)
    columns: dict[str, Any] = {
        "job_id": ids,
        "submit_time": np.where(rng.random(jobs) < 0.02, np.nan, submit),
        "wait_time": rng.choice([0, -1, 5, np.nan, 800], jobs),
        "run_time": run,
        "req_time": rng.choice([60, 3600, np.nan, 0], jobs),
        "req_procs": rng.choice([1, 2, 64, np.nan, 0, -2, 1000], jobs),
        "alloc_procs": rng.choice([1, 1.5, 2, np.nan], jobs),
        "used_mem": rng.choice([10, np.inf, -1, np.nan], jobs),
        "mean_watts": rng.choice([100.0, 1e9, np.nan, -1], jobs),
        "status": rng.choice(["completed", "failed", "cancelled"], jobs),
        "user": pd.Categorical(rng.choice(["ann", "bob", "10", "9"], jobs)).remove_categories("ann"),
    }
    table = pd.DataFrame(columns)
    return Trace(table, Machine(name="odd", procs=128, nodes=16, epoch=1.6e9, timezone="Europe/Berlin"))


def stored(trace: Trace, folder: Path, part_jobs: int) -> Parts:
    write_parts(in_chunks(trace, 41), folder, part_jobs=part_jobs)
    return Parts(folder)


@pytest.mark.parametrize("batch", [1, 37, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_summary_and_problems_are_those_of_the_whole_trace(
    tmp_path: Path, seed: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEKIT_BATCH_JOBS", str(batch))
    monkeypatch.setattr(runs, "BLOCK", 50)
    trace = odd_trace(seed, 60 if batch == 1 else 300)
    parts = stored(trace, tmp_path / "parts", 90)
    there = tracekit.read(tmp_path / "parts")
    assert summary(parts) == stats.summary(there)
    found = validate(parts)
    assert found.problems == there.validate()
    assert (found.jobs, found.schedulable) == (len(there), int(schedulable(there).sum()))


def test_fractions_have_the_same_quantiles_and_nearly_the_same_sums(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    jobs = pd.DataFrame({"job_id": range(500), "submit_time": np.sort(rng.random(500)) * 1e6})
    jobs = jobs.assign(run_time=rng.lognormal(5, 3, 500), req_procs=1, wait_time=np.nan)
    trace = Trace(jobs, Machine(procs=9))
    got, wanted = summary(stored(trace, tmp_path / "parts", 77)), stats.summary(trace)
    for name in ("run_time", "interarrival"):
        assert {**got[name], "mean": 0} == {**wanted[name], "mean": 0}
        assert got[name]["mean"] == pytest.approx(wanted[name]["mean"], rel=1e-14)
    assert got["offered_load"] == pytest.approx(wanted["offered_load"], rel=1e-14)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(allow_nan=True, width=64), min_size=0, max_size=40), st.integers(1, 7))
def test_quantiles_are_those_of_numpy(values: list[float], size: int) -> None:
    shares = (0.0, 0.25, 0.5, 0.9, 1.0)
    amount = Amount(shares)
    numbers = np.array([v for v in values if not math.isfinite(v) or abs(v) < 1e300], dtype=np.float64)
    for _ in range(PASSES):
        for first in range(0, len(numbers), size):
            amount.add(numbers[first : first + size])
        amount.next_pass()
    known = numbers[np.isfinite(numbers)]
    assert amount.count == len(known)
    if len(known):
        assert amount.quantiles() == np.quantile(known, shares).tolist()
        assert (amount.low, amount.high) == (known.min(), known.max())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=6), st.integers(2, 40))
def test_runs_are_sorted(tmp_path_factory: pytest.TempPathFactory, given_runs: list[list[int]], block: int) -> None:
    folder = tmp_path_factory.mktemp("runs")
    made, at = Runs(folder), 0
    for values in given_runs:
        made.add(np.array(values, dtype=np.int64), np.arange(at, at + len(values)))
        at += len(values)
    before, runs.BLOCK = runs.BLOCK, block
    try:
        blocks = list(made.blocks())
    finally:
        runs.BLOCK = before
    everything = np.array([v for values in given_runs for v in values], dtype=np.int64)
    order = np.argsort(everything, kind="stable")
    assert np.concatenate([np.empty(0), *(b[0] for b in blocks)]).tolist() == everything[order].tolist()
    assert np.concatenate([np.empty(0), *(b[1] for b in blocks if b[1] is not None)]).tolist() == order.tolist()
    for one, other in itertools.pairwise(blocks):
        assert one[0][-1] < other[0][0]


def test_repeated_ids_are_found_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEKIT_BATCH_JOBS", "13")
    trace = odd_trace(1)
    with Repeats.of(stored(trace, tmp_path / "parts", 50)) as found:
        assert found.at(0, len(trace)).tolist() == trace.jobs["job_id"].duplicated().tolist()
        assert found.at(20, 30).tolist() == trace.jobs["job_id"].duplicated().tolist()[20:50]


@pytest.mark.parametrize("command", ["info", "validate"])
def test_commands_print_the_same_in_parts(tmp_path: Path, run: Run, toy: Trace, command: str) -> None:
    stored(toy, tmp_path / "parts", 90)
    whole, parts = (run(command, tmp_path / "parts", flag, "--json") for flag in ("--whole", "--parts"))
    assert json.loads(whole[1]) == json.loads(parts[1])
    assert run(command, tmp_path / "parts", "--whole")[1] == run(command, tmp_path / "parts", "--parts")[1]


def test_flags_about_the_machine_work_in_parts(tmp_path: Path, run: Run) -> None:
    stored(odd_trace(2), tmp_path / "parts", 90)
    for flags in (["--procs", "7"], ["--resource", "nodes"], ["--timezone", "UTC"]):
        whole, parts = (run("info", tmp_path / "parts", flag, "--json", *flags) for flag in ("--whole", "--parts"))
        assert whole[0] == parts[0] == 0
        assert json.loads(whole[1]) == json.loads(parts[1])


def test_the_unit_that_most_jobs_have_is_chosen_in_parts(tmp_path: Path, toy: Trace, run: Run) -> None:
    renamed = toy.replace(jobs=toy.jobs.rename(columns={"req_procs": "req_nodes"}), machine=Machine(name="m", nodes=64))
    stored(renamed, tmp_path / "parts", 90)
    whole, parts = (run("info", tmp_path / "parts", flag, "--json") for flag in ("--whole", "--parts"))
    assert json.loads(whole[1]) == json.loads(parts[1])
    assert json.loads(parts[1])["machine"]["unit"] == "nodes"
