"""Keyed labels: consistent, unguessable, and nothing that names anybody is left."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracekit
from tracekit import Machine, Trace
from tracekit.anonymize import WEEK, anonymize, label, new_key, read_key, shift_seconds
from tracekit.errors import OutputError, UnknownName, UsageError

Run = Callable[..., tuple[int, str, str]]
KEY = b"0123456789abcdef0123456789abcdef"


@pytest.fixture
def named(toy: Trace) -> Trace:
    """A trace that names its people everywhere it can."""
    machine = toy.machine.replace(
        header=("; Note: ann@site.example ran this",), notes=("made by ann",), source="/home/ann/log.swf",
        licence="ask ann", name="ann's cluster",
    )  # fmt: skip
    jobs = toy.jobs.assign(
        group=["staff"] * len(toy), project=["secret"] * len(toy), app=["solver"] * len(toy), x_host="ann-node",
        prev_job=pd.array([pd.NA, *toy.jobs["job_id"][:-1]], dtype="Int64"), job_id=toy.jobs["job_id"] + 0,
    )  # fmt: skip
    return Trace(jobs, machine, ("read from /home/ann/log.swf",))


@given(st.text(min_size=1), st.text(min_size=1), st.sampled_from(["user", "group", "app"]))
def test_labels_are_numbers_that_depend_on_key_column_and_name(one: str, other: str, column: str) -> None:
    made = label(KEY, column, one)
    assert re.fullmatch(r"[1-9]\d{12}", made)
    assert float(made) == int(made)
    assert made == label(KEY, column, one)
    assert made != label(KEY + b"x", column, one)
    assert made != label(KEY, "queue", one)
    assert (made == label(KEY, column, other)) == (one == other)


def test_nothing_of_the_names_is_left_in_any_format(named: Trace, tmp_path: Path) -> None:
    made = anonymize(named, KEY)
    for ending in ("swf", "parquet", "csv"):
        path = tmp_path / f"out.{ending}"
        tracekit.write(made, path)
        for word in (b"ann", b"bob", b"secret", b"solver", b"staff", b"/home", b"site.example"):
            assert word not in path.read_bytes(), (ending, word)


def test_who_is_who_stays_and_numbers_stay(named: Trace) -> None:
    made = anonymize(named, KEY)
    for name in ("user", "group", "project", "app"):
        pairs = set(zip(named.jobs[name].astype(str), made.jobs[name].astype(str), strict=True))
        assert len(pairs) == named.jobs[name].nunique() == made.jobs[name].nunique()
        assert all(new == label(KEY, name, old) for old, new in pairs)
    for name in ("submit_time", "wait_time", "run_time", "req_time", "req_procs"):
        assert np.array_equal(made.column(name), named.column(name))
    assert made.jobs["queue"].astype(str).tolist() == named.jobs["queue"].astype(str).tolist()
    assert made.machine.procs == named.machine.procs
    assert "x_host" not in made.jobs.columns


def test_two_files_of_one_key_agree_also_through_swf(named: Trace, tmp_path: Path) -> None:
    early, late = named.split(0.5)
    tracekit.write(anonymize(early, KEY), tmp_path / "a.swf")
    tracekit.write(anonymize(late, KEY), tmp_path / "b.parquet")
    first, second = tracekit.read(tmp_path / "a.swf"), tracekit.read(tmp_path / "b.parquet")
    expected = {label(KEY, "user", name) for name in ("ann", "bob", "cem", "dee")}
    assert set(first.jobs["user"].astype(str)) == set(second.jobs["user"].astype(str)) == expected


def test_the_order_of_labels_does_not_show_the_order_of_names() -> None:
    names = [f"u{k:03d}" for k in range(200)]
    jobs = pd.DataFrame({"job_id": range(200), "submit_time": 0.0, "run_time": 1.0, "req_procs": 1, "user": names})
    made = anonymize(Trace(jobs, Machine(procs=4)), KEY)
    assert list(made.jobs["user"].cat.categories) == sorted(made.jobs["user"].cat.categories)


def test_job_ids_are_renumbered_and_references_follow(named: Trace) -> None:
    shuffled = named.take(np.random.default_rng(0).permutation(len(named)))
    shuffled = shuffled.assign(
        {"job_id": shuffled.jobs["job_id"] * 7 + 5, "prev_job": shuffled.jobs["prev_job"] * 7 + 5}
    )
    made = anonymize(shuffled, KEY)
    assert np.array_equal(made.jobs["job_id"].to_numpy()[made.order()], np.arange(1, 201))
    known = made.jobs["prev_job"].notna().to_numpy()
    assert known.sum() == 199
    old = dict(zip(made.jobs["job_id"], shuffled.jobs["job_id"], strict=True))
    assert [old[k] for k in made.jobs["prev_job"][known]] == shuffled.jobs["prev_job"][known].tolist()


def test_unknown_labels_stay_unknown(toy: Trace) -> None:
    gaps = toy.assign({"user": toy.jobs["user"].astype(object).where(np.arange(200) % 3 > 0)})
    assert np.array_equal(anonymize(gaps, KEY).jobs["user"].isna(), gaps.jobs["user"].isna())


def test_dates_move_by_whole_weeks_and_hours_stay(toy: Trace) -> None:
    moved = anonymize(toy, KEY, shift="-2w")
    assert moved.machine.epoch == (toy.machine.epoch or 0) - 2 * WEEK
    bare = toy.replace(machine=toy.machine.replace(epoch=None))
    assert np.array_equal(
        anonymize(bare, KEY, shift="3d").column("submit_time"), bare.column("submit_time") + 3 * 86400
    )
    assert shift_seconds("key", KEY) % WEEK == 0
    assert -521 * WEEK < shift_seconds("key", KEY) < 0
    assert shift_seconds("key", KEY) != shift_seconds("key", KEY + b"1")


def test_what_is_kept_or_replaced_besides(named: Trace) -> None:
    made = anonymize(named, KEY, also=["queue"], keep=["app", "x_host", "machine"])
    assert made.jobs["app"].astype(str).unique().tolist() == ["solver"]
    assert made.machine.name == "ann's cluster"
    assert "x_host" in made.jobs.columns
    assert "short" not in set(made.jobs["queue"].astype(str))
    for wrong in ({"also": ["user"]}, {"keep": ["usr"]}):
        with pytest.raises(UnknownName):
            anonymize(named, KEY, **wrong)
    with pytest.raises(UsageError, match="shift"):
        anonymize(named, KEY, shift="2h")
    with pytest.raises(UsageError, match="key is empty"):
        anonymize(named, b"")


def test_new_keys_are_private_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key"
    key = new_key(path)
    assert len(key) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key(path) == key
    with pytest.raises(OutputError, match="never overwritten"):
        new_key(path)


def test_the_command(tmp_path: Path, toy_swf: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACEKIT_KEY", raising=False)
    key = tmp_path / "key"
    code, _, error = run("anonymize", toy_swf, tmp_path / "a.swf", "--key", f"new:{key}")
    assert (code, "new key" in error) == (0, True)
    assert run("anonymize", toy_swf, tmp_path / "b.swf", "--key", key)[0] == 0
    assert (tmp_path / "a.swf").read_bytes() == (tmp_path / "b.swf").read_bytes()
    monkeypatch.setenv("TRACEKIT_KEY", key.read_text())
    assert run("anonymize", toy_swf, tmp_path / "c.swf")[0] == 0
    assert (tmp_path / "a.swf").read_bytes() == (tmp_path / "c.swf").read_bytes()
    monkeypatch.setenv("OTHER", "short")
    code, _, error = run("anonymize", toy_swf, tmp_path / "d.swf", "--key", "env:OTHER")
    assert (code, "can be guessed" in error) == (0, True)
    assert (tmp_path / "a.swf").read_bytes() != (tmp_path / "d.swf").read_bytes()
    code, _, error = run("anonymize", toy_swf, tmp_path / "e.swf", "--key", "hunter2")
    assert (code, "history" in error, "hunter2" in error) == (2, True, False)
    assert run("anonymize", toy_swf, tmp_path / "a.swf", "--key", key)[0] == 1
    assert run("anonymize", toy_swf, tmp_path / "f.swf", "--key", key, "--also", "usr")[0] == 2
    assert run("anonymize", toy_swf, tmp_path / "f.swf", "--key", key, "--shift", "1y")[0] == 2
    assert run("anonymize", toy_swf, tmp_path / "f.swf", "--key", "env:ABSENT")[0] == 2
    assert not (tmp_path / "f.swf").exists()


def test_queues_that_only_the_header_lists_go_as_well(toy: Trace) -> None:
    listed = toy.machine.replace(queues={"1": "smiths-lab"})
    bare = Trace(toy.jobs.drop(columns="queue", errors="ignore"), listed)
    assert anonymize(bare, b"a key of sixteen bytes", also=["queue"]).machine.queues == {}
    assert anonymize(bare, b"a key of sixteen bytes").machine.queues


@pytest.mark.parametrize("ending", ["swf", "parquet"])
def test_a_synthetic_trace_stays_marked_as_synthetic(toy: Trace, tmp_path: Path, ending: str) -> None:
    note = "MADE by tracekit, not recorded: model lublin (secret) fitted to 9 jobs of ann's cluster, seed 1"
    synthetic = toy.replace(machine=toy.machine.replace(notes=(note,), source=note), step=note)
    tracekit.write(synthetic, tmp_path / f"synthetic.{ending}")
    once = anonymize(tracekit.read(tmp_path / f"synthetic.{ending}"), KEY)
    tracekit.write(once, tmp_path / f"once.{ending}")
    twice = anonymize(tracekit.read(tmp_path / f"once.{ending}"), KEY)
    for made in (once, twice):
        assert made.history[0] == made.machine.notes[0] == "MADE by tracekit, not recorded: model lublin"
        assert "ann" not in made.machine.source
    assert not any("MADE" in step for step in anonymize(toy, KEY).history)


def test_other_commands_keep_the_mark(tmp_path: Path, run: Run) -> None:
    from tracekit.cleaning import RULES

    start, second = tmp_path / "start.swf", tmp_path / "second.swf"
    assert run("sample", start)[0] == run("sample", second)[0] == 0
    commands = {
        "slice": ("slice", start, tmp_path / "slice.swf", "--jobs", "500"),
        "scale": ("scale", start, tmp_path / "scale.swf", "--load", "0.5"),
        "clean": ("clean", start, tmp_path / "clean.swf", "--rules", next(iter(RULES))),
        "merge": ("merge", start, second, tmp_path / "merge.swf"),
        "convert": ("convert", start, tmp_path / "convert.parquet"),
    }
    for name, words in commands.items():
        code, _, said = run(*words)
        assert code == 0, said
        found = tracekit.read(words[3] if name == "merge" else words[2])
        assert any("MADE by" in line for line in (*found.history, *(found.machine.header or ()))), name
