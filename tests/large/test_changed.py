"""clean, slice, scale and split in parts: the jobs of the commands in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_described import odd_trace

import tracekit
from swf.parts import Parts, in_chunks, write_parts
from tracekit import Trace
from tracekit.cleaning import RULES
from tracekit.errors import TracekitError
from tracekit.large.rules import PREPARED, Cleaned, in_batches

Run = Callable[..., tuple[int, str, str]]
DROPS = "drop-missing-submit-time,drop-duplicate-ids,drop-missing-run-time,unset-negative-wait,drop-missing-procs"
CASES = [
    "clean {in} {out} --rules drop-duplicate-ids,drop-zero-run-time",
    "clean {in} {out} --rules drop-zero-run-time,drop-duplicate-ids,cap-run-at-limit,round-counts,unset-negative-wait",
    "clean {in} {out} --rules " + DROPS + ",drop-zero-procs,recount-header",
    "clean {in} {out} --rules set-machine:procs=64,drop-larger-than-machine,drop-infinite-values",
    "clean {in} {out} --rules unset-too-many-watts,unset-negative-watts,unset-negative-memory,unset-nonpositive-limit",
    "clean {in} {out} --rules convert-units:run_time=minutes",
    "clean {in} {out} --recipe {recipe}",
    "slice {in} {out} --after 500 --before 9000",
    "slice {in} {out} --after 2020-09-13 --before 2030-01-01",
    "slice {in} {out} --user bob,9 --jobs 20",
    "slice {in} {out} --jobs 50:61",
    "slice {in} {out} --user bob --after 100 --jobs 3:5",
    "scale {in} {out} --procs 333",
    "scale {in} {out} --load 0.75",
    "scale {in} {out} --procs 64 --load 1.25",
    "convert {in} {out}",
]


def plain(trace: Trace) -> pd.DataFrame:
    """The jobs with labels as texts: labels that no job has do not matter."""
    labels = [name for name in trace.jobs.columns if isinstance(trace.jobs[name].dtype, pd.CategoricalDtype)]
    return trace.jobs.astype(dict.fromkeys(labels, object))


def prepared(tmp_path: Path, trace: Trace) -> Path:
    header = ("; MaxJobs: 7", "; MaxRecords: 300")
    known = trace.replace(machine=trace.machine.replace(header=header), step="made for a test")
    write_parts(in_chunks(known, 41), tmp_path / "in", part_jobs=90)
    (tmp_path / "recipe.toml").write_text('rules = ["drop-jobs:user=bob and size>2"]\n')
    return tmp_path / "in"


@pytest.mark.parametrize(("case", "seed"), [(case, number % 2) for number, case in enumerate(CASES)])
def test_commands_write_the_same_in_parts(
    tmp_path: Path, run: Run, case: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEKIT_BATCH_JOBS", "97")
    place = prepared(tmp_path, odd_trace(seed))
    said = {}
    for flags in ("--whole", "--parts", "--parts --part-jobs 50", *["--whole --part-jobs 50"] * ("convert" in case)):
        out = tmp_path / f"out{len(said)}.parquet"
        words = case.format(**{"in": place, "out": out, "recipe": tmp_path / "recipe.toml"}).split()
        code, _, error = run(*words, *flags.split())
        assert code == 0, error
        made = tracekit.read(out)
        lines = [line for line in error.splitlines() if "left out where sizes count" not in line]
        said[flags] = [line.replace(str(out), "OUT") for line in lines], made
        if "part-jobs" in flags:
            assert len(list(out.iterdir())) == -(-len(made) // 50)
        if "clean" in case:
            recipe = Path(f"{out}.recipe.toml").read_text()
            said[flags] = (*said[flags], recipe)
    whole = said["--whole"]
    for flags, found in said.items():
        pd.testing.assert_frame_equal(plain(found[1]), plain(whole[1]))
        assert found[1].history == whole[1].history
        source = "the same"
        assert found[1].machine.replace(source=source) == whole[1].machine.replace(source=source), flags
        assert found[2:] == whole[2:]
        assert found[0] == whole[0]


@pytest.mark.parametrize("by", ["user", "week", "month", "3", "7"])
def test_split_writes_the_same_files_in_parts(
    tmp_path: Path, run: Run, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEKIT_BATCH_JOBS", "97")
    trace = odd_trace(0)
    submit = np.sort(np.nan_to_num(trace.column("submit_time"), nan=300.0)) * 200
    place = prepared(tmp_path, trace.assign({"submit_time": submit}))
    compare_splits(tmp_path, place, run, "--by", by)


def test_split_at_moments_in_parts(tmp_path: Path, run: Run) -> None:
    place = prepared(tmp_path, odd_trace(1))
    compare_splits(tmp_path, place, run, *(word for k in range(12) for word in ("--at", str(1000 * k))))


def compare_splits(tmp_path: Path, place: Path, run: Run, *flags: str) -> None:
    listed = []
    for flag in ("--whole", "--parts"):
        code, out, error = run("split", place, "-o", tmp_path / flag[2:], flag, "--json", *flags)
        assert code == 0, error
        listed.append([{**row, "file": Path(row["file"]).name} for row in json.loads(out)["parts"]])
    assert listed[0] == listed[1]
    for row in listed[0]:
        one, other = (tracekit.read(tmp_path / flag / row["file"]) for flag in ("whole", "parts"))
        pd.testing.assert_frame_equal(plain(one), plain(other))
        assert one.history == other.history


def test_an_unsorted_trace_is_not_split_equally_in_parts(tmp_path: Path, run: Run) -> None:
    code, _, error = run("split", prepared(tmp_path, odd_trace(1)), "-o", tmp_path / "x", "--parts", "--by", "3")
    assert code == 1
    assert "GB" in error
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("rule", [name for name in RULES if not in_batches(name)])
def test_rules_that_need_the_whole_trace_are_refused_first(tmp_path: Path, run: Run, rule: str) -> None:
    text = RULES[rule].example or rule
    code, _, error = run("clean", prepared(tmp_path, odd_trace(0)), tmp_path / "o.parquet", "--parts", "--rules", text)
    assert code == 1
    assert "GB" in error
    assert "drop-zero-run-time" in error
    assert not (tmp_path / "o.parquet").exists()


def test_sorting_is_refused_only_where_there_is_something_to_sort(tmp_path: Path, run: Run) -> None:
    folder = prepared(tmp_path, odd_trace(0))
    assert run("clean", folder, tmp_path / "o.parquet", "--parts", "--rules", "sort-by-submit")[0] == 0
    other = tmp_path / "other"
    other.mkdir()
    folder = prepared(other, odd_trace(1))
    code, _, error = run("clean", folder, other / "o.parquet", "--parts", "--rules", "sort-by-submit")
    assert code == 1
    assert "GB" in error


def test_every_rule_is_by_row_prepared_or_refused() -> None:
    refused = {"drop-flurries", "drop-duplicated-blocks", "mend-jumps", "shift-submits", "cut-outages"}
    assert {name for name in RULES if not in_batches(name)} == {*refused, "nodes-from-field-21"}
    assert not any(RULES[name].by_row for name in PREPARED)


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.by_row])
def test_rules_by_row_do_the_same_in_any_batches(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEKIT_BATCH_JOBS", "11")
    trace = odd_trace(2, 120)
    write_parts(in_chunks(trace), tmp_path / "in", part_jobs=90)
    text = "convert-units:req_time=hours" if name == "convert-units" else RULES[name].example or name
    whole = tracekit.read(tmp_path / "in").clean([text])
    with Cleaned(Parts(tmp_path / "in"), [text]) as cleaned:
        write_parts(cleaned.batches(), tmp_path / "out", part_jobs=1000)
    assert whole.history[-1] == cleaned.step()
    pd.testing.assert_frame_equal(plain(tracekit.read(tmp_path / "out")), plain(whole))


def test_nothing_left_is_one_line(tmp_path: Path, run: Run) -> None:
    place = prepared(tmp_path, odd_trace(0))
    for words in (["--after", "1e9"], ["--jobs", "5000:3"]):
        code, _, error = run("slice", place, tmp_path / "o.parquet", "--parts", *words)
        assert code == 1
        assert "no job is left" in error
        assert len(error.strip().splitlines()) == 1
    assert run("slice", place, tmp_path / "o.parquet", "--parts", "--user", "nobody")[0] == 1
    assert run("slice", place, tmp_path / "o.swf", "--parts", "--jobs", "5")[0] == 2
    with pytest.raises(TracekitError, match="GB"):
        Cleaned(Parts(place), ["drop-flurries"])
