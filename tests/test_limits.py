"""Files made to take all time and memory are refused, by a limit that has a name and can be raised."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from toys import SWF_TEXT

import tracekit
from swf.base import check_lines, whole_lines
from tracekit import limits
from tracekit.errors import FormatError, UsageError
from tracekit.files import opened, read_json, read_toml
from tracekit.sim.analysis.check import read_schedule

Run = Callable[..., tuple[int, str, str]]
ROW = "1 0 5 100 4 -1 -1 4 200 -1 1 1 1 3 1 -1 -1 -1\n"
CSV = "job_id,submit_time,run_time,req_procs\n"


@pytest.fixture(autouse=True)
def _own_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.VARIABLE, "")
    monkeypatch.setattr(limits, "FREE_BYTES", 200_000)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("text", [CSV + "1,0,5,1\n" * 200_000, SWF_TEXT + ROW * 50_000], ids=["csv", "swf"])
def test_a_file_that_grows_a_hundredfold_is_refused(
    pack: Callable[[bytes], bytes], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(pack(text.encode()))
    with pytest.raises(FormatError, match="expansion"):
        tracekit.read(path)
    monkeypatch.setenv(limits.VARIABLE, "expansion=none")
    assert len(tracekit.read(path)) >= 50_000


def test_logs_that_compress_well_are_read(tmp_path: Path) -> None:
    rows = "".join(f"{k},{k * 37 % 86400},{k * 7919 % 5000},{k % 64 + 1}\n" for k in range(1, 60_000))
    path = tmp_path / "log.csv.xz"
    path.write_bytes(lzma.compress((CSV + rows).encode()))
    assert len(tracekit.read(path)) == 59_999


def test_streaming_counts_as_well(tmp_path: Path) -> None:
    path = tmp_path / "bomb.swf.gz"
    path.write_bytes(gzip.compress((SWF_TEXT + ROW * 100_000).encode()))
    with pytest.raises(FormatError, match="expansion"):
        tracekit.api.to_parquet(path, tmp_path / "o.parquet")
    assert not (tmp_path / "o.parquet").exists()


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.VARIABLE, "line=64K")
    path = tmp_path / "t.swf"
    long = "1 " * 100_000
    for text, line in ((SWF_TEXT + long, 12), (f"{SWF_TEXT}{long}\n{ROW}", 12), (f"; Note: {long}\n{ROW}", 1)):
        path.write_text(text)
        with pytest.raises(FormatError, match="'line'") as found:
            tracekit.read(path, "swf")
        assert found.value.line == line


def test_lines_are_counted_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.VARIABLE, "line=100")
    path = tmp_path / "t"
    path.write_bytes(b"\xef\xbb\xbfa\n" + b"b" * 90 + b"\nc\n" + b"d" * 200 + b"\n")
    for size in (7, 50, 1000):
        with opened(path) as source, pytest.raises(FormatError) as found:
            list(whole_lines(source, size, path))
        assert found.value.line == 4
    monkeypatch.setenv(limits.VARIABLE, "line=none")
    for size in (7, 50, 1000):
        with opened(path) as source:
            assert b"".join(whole_lines(source, size, path)) == path.read_bytes()[3:]
    check_lines(path.read_bytes(), path)


def test_fields_do_not_wrap_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.swf"
    path.write_text(SWF_TEXT + ROW.rstrip() + " 7" * 65_536 + "\n")
    with pytest.raises(FormatError, match="65,554 fields"):
        tracekit.read(path)
    monkeypatch.setenv(limits.VARIABLE, "fields=100000")
    with pytest.raises(FormatError, match="65554 fields"):
        tracekit.read(path)


def test_tables_and_records_with_too_many_columns(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text(CSV.rstrip() + "".join(f",c{k}" for k in range(3000)) + "\n" + "1," * 3003 + "1\n")
    with pytest.raises(FormatError, match="'fields'"):
        tracekit.read(path, "csv")
    stamp = "04/16/2025 10:00:00"
    path.write_text("".join(f"{stamp};E;{k}.s;ctime=1 start=2 end=3 ncpus=1 k{k}=1\n" for k in range(1, 2500)))
    with pytest.raises(FormatError, match="'fields'"):
        tracekit.read(path, "pbs")
    pd.DataFrame({f"c{k}": [1] for k in range(2500)}).to_parquet(path)
    with pytest.raises(FormatError, match="'fields'"):
        tracekit.read(path, "parquet")


def test_parquet_with_absurdly_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame(dict.fromkeys(("job_id", "submit_time", "run_time", "req_procs"), [1] * 2_000_000)).to_parquet(path)
    with pytest.raises(FormatError, match="expansion"):
        tracekit.read(path)
    monkeypatch.setenv(limits.VARIABLE, "expansion=1G")
    assert len(tracekit.read(path)) == 2_000_000


def test_settings_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings"
    for reader in (read_toml, read_json):
        path.write_text("a = " + "[" * 100_000)
        with pytest.raises(FormatError):
            reader(path)
    path.write_text('{"a": ' + "[" * 100_000)
    with pytest.raises(FormatError):
        read_json(path)
    monkeypatch.setenv(limits.VARIABLE, "document=1000")
    path.write_text('a = "' + "x" * 2000 + '"\n')
    with pytest.raises(FormatError, match="'document'"):
        read_toml(path)


def test_patterns_take_no_quadratic_time(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("; Note: " + " " * 500_000 + "x\n" + SWF_TEXT)
    assert len(tracekit.read(path, "swf")) == 3
    line = f"JobId=1 UserId={'(' * 300_000} GroupId=g(1) Name=n JobState=COMPLETED SubmitTime=2020-01-01T00:00:00"
    path.write_text(f"{line} StartTime=2020-01-01T00:00:00 EndTime=2020-01-01T00:00:05 ProcCnt=4 NodeCnt=1\n")
    assert len(tracekit.read(path, "jobcomp")) == 1
    words = "a " * 500_000
    path.write_text(f'04/16/2025 10:00:00;E;1.s;ctime=1 start=2 end=3 Resource_List.ncpus=1 k="{words}"\n')
    assert len(tracekit.read(path, "pbs")) == 1


def test_exponents_that_crash_pandas(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for value in ("9e2147483648", "9e4294967296", "9" * 60 + "e22999999999999"):
        path.write_text(f"{CSV}1,0,5,1\n2,{value},late,1\n")
        with pytest.raises(FormatError):
            tracekit.read(path)
        path.write_text(f"job_id,submit_time,start_time,end_time,procs\n1,0,0,{value},1\n")
        with pytest.raises(FormatError):
            read_schedule(path)


def test_the_flag_raises_a_limit(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "t.swf.gz"
    path.write_bytes(gzip.compress((SWF_TEXT + ROW * 50_000).encode()))
    code, _, error = run("info", path)
    assert code == 1
    assert "--limit expansion=" in error
    assert run("info", path, "--limit", "expansion=100000")[0] == 0
    assert run("--limit=expansion=none", "info", path)[0] == 0
    assert run("info", path, "--limit", "depth=1")[0] == 2
    assert run("info", path, "--limit", "line=much")[0] == 2
    assert run("info", path, "--limit", "line=0")[0] == 2


def test_a_limit_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.VARIABLE, "line=2K, fields=none")
    assert limits.limit("line") == 2048
    assert limits.limit("fields") == float("inf")
    monkeypatch.setenv(limits.VARIABLE, "speed=1")
    with pytest.raises(UsageError):
        limits.limit("line")
