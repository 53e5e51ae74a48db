"""Fifty kinds of damaged input: one clear line, exit code 1, no traceback, and no file lost."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from toys import SWF_TEXT

from tracekit.cli import main

ROW = "1 0 5 100 4 -1 -1 4 200 -1 1 1 1 3 1 -1 -1 -1\n"
GOOD = ROW * 3
GPW = "u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status\n0,1,0,4,1,0,10,60,Pass\n"
OURS = "job_id,submit_time,run_time,req_procs\n1,0,5,1\n2,3,4,1\n"


def parquet(**columns: object) -> bytes:
    buffer = io.BytesIO()
    pd.DataFrame(columns).to_parquet(buffer)
    return buffer.getvalue()


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("t.swf", SWF_TEXT)
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("t.swf")
        member.size = len(SWF_TEXT)
        archive.addfile(member, io.BytesIO(SWF_TEXT.encode()))
    return buffer.getvalue()


#: name -> (file name, content, a word that the message must hold)
DAMAGE: dict[str, tuple[str, bytes, str]] = {
    "empty": ("a.swf", b"", "empty"),
    "only blanks": ("a.swf", b"  \n\n \t\n", "empty"),
    "only a header": ("a.swf", b"; Version: 2.2\n; MaxProcs: 4\n", "no jobs"),
    "only a semicolon": ("a.swf", b";\n", "recognises"),
    "random bytes": ("a.swf", bytes(range(256)) * 40, "binary"),
    "an executable": ("a.swf", b"\x7fELF\x02\x01\x01" + bytes(100), "binary"),
    "a picture": ("a.swf", b"\x89PNG\r\n\x1a\n" + bytes(60), "binary"),
    "text in two-byte letters": ("a.swf", SWF_TEXT.encode("utf-16"), "UTF-16"),
    "a poem": ("a.swf", b"The queue is long\nand I have spent my share\n", "recognises"),
    "a web page": ("a.swf", b"<!doctype html><html><body>404 Not Found</body></html>\n", "HTML page"),
    "JSON": ("a.json", b'{"jobs": []}\n', "recognises"),
    "a list in JSON": ("a.json", b"[1, 2, 3]\n", "recognises"),
    "a cut row": ("a.swf", (GOOD + "4 5 6").encode(), "line 4"),
    "a row cut in a number": ("a.swf", (GOOD + ROW[:-2]).encode(), "line 4"),
    "two rows run together": ("a.swf", (GOOD + ROW.rstrip() + " " + ROW).encode(), "line 4"),
    "a word among numbers": ("a.swf", (GOOD + ROW.replace("100", "fast")).encode(), "fast"),
    "a date among numbers": ("a.swf", (GOOD + ROW.replace("100", "2024-01-01")).encode(), "line 4"),
    "a decimal comma": ("a.swf", (GOOD + ROW.replace("100", "1,5")).encode(), "1,5"),
    "a NUL in a row": ("a.swf", (GOOD + ROW.replace("100", "1\0")).encode(), "line 4"),
    "a hexadecimal number": ("a.swf", (GOOD + ROW.replace("100", "0x64")).encode(), "0x64"),
    "not a number": ("a.swf", (GOOD + ROW.replace("100", "NaN")).encode(), "NaN"),
    "infinity": ("a.swf", (GOOD + ROW.replace("100", "inf")).encode(), "inf"),
    "fractional job number": ("a.swf", (GOOD + "4.5" + ROW[1:]).encode(), "not whole"),
    "a stray letter at the end": ("a.swf", (GOOD + "x\n").encode(), "line 4"),
    "semicolons between fields": ("a.swf", GOOD.replace(" ", ";").encode(), "looks like SWF"),
    "commas between fields": ("a.swf", GOOD.replace(" ", ",").encode(), "looks like SWF"),
    "three columns only": ("a.swf", b"; Version: 2\n1 2 3\n4 5 6\n", ""),
    "gzip cut short": ("a.swf.gz", gzip.compress(SWF_TEXT.encode() * 500)[:150], "compressed data"),
    "gzip with a wrong sum": ("a.swf.gz", gzip.compress(SWF_TEXT.encode())[:-8] + bytes(8), "damaged"),
    "gzip of nothing": ("a.swf.gz", gzip.compress(b""), "empty"),
    "gzip header only": ("a.swf.gz", b"\x1f\x8b\x08\x00", "compressed data"),
    "bz2 cut short": ("a.swf.bz2", b"BZh91AY&SY", ""),
    "xz cut short": ("a.swf.xz", b"\xfd7zXZ\x00\x00\x04", ""),
    "gzip of a gzip": ("a.swf.gz", gzip.compress(gzip.compress(SWF_TEXT.encode())), "binary"),
    "a zip archive": ("a.zip", zipped(), "zip"),
    "a tar archive": ("a.tar.gz", tarred(), "tar"),
    "Parquet cut short": ("a.parquet", parquet(submit_time=[1], run_time=[2], req_procs=[3])[:-20], "Parquet"),
    "Parquet mark only": ("a.parquet", b"PAR1", "Parquet"),
    "Parquet of something else": ("a.parquet", parquet(colour=["red"], weight=[3]), "--map"),
    "Parquet with words for times": (
        "a.parquet",
        parquet(submit_time=["x"], run_time=[2], req_procs=[3]),
        "column submit_time",
    ),
    "csv without its columns": ("a.csv", b"name,colour,weight\na,b,c\n", "--map"),
    "csv with only a header": ("a.csv", b"job_id,submit_time,run_time,req_procs\n", "no jobs"),
    "csv with a short row": ("a.csv", (OURS + "3,4\n").encode(), "2 fields"),
    "csv with a long row": ("a.csv", (OURS + "3,4,5,6,7\n").encode(), "5 fields"),
    "csv with a word for a number": ("a.csv", (OURS + "3,late,5,6\n").encode(), "late"),
    "csv without sizes": ("a.csv", b"job_id,submit_time,run_time\n1,2,3\n", ""),
    "csv with a doubled column": ("a.csv", b"submit_time,run_time,run_time,req_procs\n1,2,3,4\n", "twice"),
    "csv with an unknown status": ("a.csv", b"submit_time,run_time,req_procs,status\n1,2,3,meh\n", "meh"),
    "gpw with a short row": ("a.csv", (GPW + "1,2\n").encode(), "2 fields"),
    "gpw with a word for a number": ("a.csv", (GPW + "1,1,0,many,1,0,10,60,Pass\n").encode(), "many"),
    "gpw with only a header": ("a.csv", GPW.splitlines(keepends=True)[0].encode(), "no jobs"),
    "gpw cut short": ("a.csv", (GPW * 2)[:-70].encode(), ""),
}


def one_line(error: str) -> bool:
    return (
        error.startswith("error: ")
        and error.count("\n") == 1
        and "unexpected" not in error
        and error.strip().isprintable()
    )


@pytest.mark.parametrize("name", DAMAGE)
def test_one_clear_line(name: str, tmp_path: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    file_name, content, word = DAMAGE[name]
    path = tmp_path / file_name
    path.write_bytes(content)
    target = tmp_path / "out.swf"
    target.write_text("precious")
    code, out, error = run("convert", path, target, "--force")
    assert code == 1, error
    assert one_line(error), error
    assert word in error
    assert file_name in error
    assert out == ""
    assert target.read_text() == "precious"
    assert path.read_bytes() == content
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([file_name, "out.swf"])


def test_there_are_fifty() -> None:
    assert len(DAMAGE) >= 50


def test_a_directory_a_missing_file_and_a_missing_folder(
    tmp_path: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    for path in (tmp_path, tmp_path / "none.swf", tmp_path / "no" / "such.swf"):
        code, _, error = run("info", path)
        assert code == 1
        assert one_line(error)


def test_no_permission(
    tmp_path: Path, toy_swf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real_open = Path.open

    def refuse(self: Path, *args: object, **kwargs: object) -> object:
        if self.name == toy_swf.name:
            raise PermissionError(13, "Permission denied", str(self))
        return real_open(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "open", refuse)  # the tests may run as root, which ignores file modes
    assert main(["info", str(toy_swf)]) == 1
    assert "permission" in capsys.readouterr().err
