"""Large tables of Helios and ALCF: converted in parts or as a whole, the same file."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_alcf import PBS_HEADER, PBS_ROWS
from test_helios import HEADER
from test_streaming import same

import tracekit
from tracekit.api import to_parquet
from tracekit.errors import FormatError

HELIOS = [
    f"{k},u{k % 7},vc{k % 3},{k % 5},{k % 9 + 1},1,{'COMPLETED' if k % 4 else 'FAILED'},"
    f"2020-06-09 18:{k // 60 % 60:02}:{k % 60:02},2020-06-09 20:00:00,2020-06-09 21:00:{k % 60:02},"
    f"{3600 + k % 60},{7200 - k // 60 % 60 * 60 - k % 60}\n"
    for k in range(600)
]


def alcf(rows: int) -> str:
    first = PBS_ROWS.splitlines()[0]
    return PBS_HEADER + "\n" + "".join(first.replace("512001", str(600_000 + k)) + "\n" for k in range(rows))


def test_helios(tmp_path: Path) -> None:
    path = tmp_path / "log"
    (tmp_path / "cluster_gpu_number.csv").write_text("date,vcA,total\n2020-06-01,24,24\n")
    path.write_text(HEADER + "".join(HELIOS))
    trace = same(path, tmp_path, part_bytes=5000)
    assert len(trace) == 600
    assert trace.machine.gpus == 24


def test_alcf(tmp_path: Path) -> None:
    path = tmp_path / "polaris.csv"
    path.write_text(alcf(300))
    assert same(path, tmp_path, part_bytes=8000).jobs["job_id"].tolist()[-1] == 600_299


def test_parts_that_do_not_agree_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        HEADER + "".join(row.replace(f",{k % 5},", ",0,", 1) for k, row in enumerate(HELIOS[:300])) + HELIOS[301]
    )
    assert to_parquet(path, tmp_path / "x.parquet", part_bytes=5000) is None
    assert len(tracekit.read(path)) == 301


def test_damage_has_the_line_of_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(HEADER + "".join(HELIOS[:400]) + HELIOS[400].replace("2020-06-09 18", "soon") + HELIOS[401])
    with pytest.raises(FormatError, match="log, line 402: 'soon"):
        to_parquet(path, tmp_path / "x.parquet", part_bytes=5000)
