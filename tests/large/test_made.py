"""Synthetic traces in parts: the same jobs whatever the size of the parts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from test_changed import plain

import tracekit
from tracekit.schema import COLUMNS

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Eight hundred jobs of the sample."""
    tracekit.sample().head(800).save(tmp_path / "real.parquet")
    return tmp_path / "real.parquet"


def test_made_jobs_are_the_same_bytes_whatever_the_size_of_parts(tmp_path: Path, source: Path, run: Run) -> None:
    made = []
    for size in (311, 1000, 9000):
        out = tmp_path / f"made{size}"
        code, told, error = run("synth", source, "-o", out, "--jobs", "3000", "--part-jobs", str(size), "--json")
        assert code == 0, error
        assert json.loads(told)["jobs"] == 3000
        assert len(list(out.iterdir())) == -(-3000 // size)
        trace = tracekit.read(out)
        one = tmp_path / f"one{size}.parquet"
        tracekit.write(trace.replace(machine=trace.machine.replace(source="")), one)
        made.append(one.read_bytes())
    assert made[0] == made[1] == made[2]
    assert tracekit.read(tmp_path / "made311").validate() == []
    assert {column.name for column in COLUMNS} > {*trace.jobs.columns}


def test_models_that_make_all_at_once_write_parts_too(tmp_path: Path, source: Path, run: Run) -> None:
    folder, file = tmp_path / "parts", tmp_path / "file.parquet"
    for out, flags in ((folder, ["--part-jobs", "40"]), (file, [])):
        assert run("synth", source, "-o", out, "--model", "resample", "--jobs", "90", *flags)[0] == 0
    assert len(list(folder.iterdir())) == 3
    pd.testing.assert_frame_equal(plain(tracekit.read(folder)), plain(tracekit.read(file)))
    assert run("synth", source, "-o", folder, "--model", "resample", "--jobs", "9", "--part-jobs", "40")[0] == 1


def test_a_model_learns_from_a_stretch_in_parts_as_in_memory(tmp_path: Path, run: Run) -> None:
    real = tmp_path / "real.swf"
    tracekit.write(tracekit.sample().head(900), real)
    assert run("convert", real, tmp_path / "real", "--part-jobs", "250")[0] == 0
    made = []
    for source, out in (
        (real, "text"),
        (tmp_path / "real", "parts"),
        (tmp_path / "real" / "part-00001.parquet", "one"),
    ):
        flags = ["--fit-jobs", "300" if out != "one" else "100", "--limit", "memory=1M"] if out != "text" else []
        code, _, error = run(
            "synth", source, "-o", tmp_path / f"{out}.parquet", *(flags or ["--fit-jobs", "300"]), "--model", "resample"
        )
        assert code == 0, error
        made.append(tracekit.read(tmp_path / f"{out}.parquet"))
    assert len(made[0]) == 300
    assert len(made[2]) == 100
    pd.testing.assert_frame_equal(plain(made[0]), plain(made[1]))
    assert "300 jobs from position 300" in made[1].history
    assert run("synth", "--model", "lublin", "--procs", "64", "--fit-jobs", "3", "-o", tmp_path / "x.swf")[0] == 2


@pytest.mark.parametrize("jobs", ["90", "1700"])
def test_made_parts_read_in_batches_are_one_file_of_the_same_bytes(
    tmp_path: Path, source: Path, run: Run, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    monkeypatch.setattr("swf._spill.ROW_GROUP", 130)
    made = set()
    for size, batch in (("60", "77"), ("60", "900"), ("401", "77"), ("5000", "5000")):
        monkeypatch.setenv("TRACEKIT_BATCH_JOBS", batch)
        out, one = tmp_path / f"made{size}-{batch}", tmp_path / "one.parquet"
        assert run("synth", source, "-o", out, "--jobs", jobs, "--part-jobs", size)[0] == 0
        code, _, error = run("convert", "--parts", out, one, "--force")
        assert code == 0, error
        made.add(one.read_bytes())
    assert len(made) == 1
    assert len(tracekit.read(one)) == int(jobs)


def test_more_jobs_begin_with_the_whole_periods_of_fewer(tmp_path: Path, source: Path, run: Run) -> None:
    made = []
    for jobs in ("1700", "2500"):
        assert run("synth", source, "-o", tmp_path / jobs, "--jobs", jobs, "--part-jobs", "400")[0] == 0
        made.append(plain(tracekit.read(tmp_path / jobs).head(1500)))
    pd.testing.assert_frame_equal(*made)
