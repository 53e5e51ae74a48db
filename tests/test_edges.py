"""Corners that a careful reader found: odd names, odd numbers, closed streams."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tracekit
from tracekit.errors import FormatError, UsageError

Run = Callable[..., tuple[int, str, str]]
ROW = "{id} 0 5 {run} 4 -1 -1 4 200 -1 {status} {user} 1 3 1 -1 -1 -1"


def swf(tmp_path: Path, *rows: str, head: str = "", name: str = "t.swf") -> Path:
    path = tmp_path / name
    path.write_text(head + "".join(row + "\n" for row in rows))
    return path


def row(id: object = 1, run: object = 100, status: object = 1, user: object = 1) -> str:
    return ROW.format(id=id, run=run, status=status, user=user)


def test_brackets_in_names_are_not_markup(tmp_path: Path, run: Run) -> None:
    path = swf(tmp_path, row(), head="; Computer: IBM [/foo] SP2\n; MaxProcs: 8\n", name="q[red]x.swf")
    code, out, _ = run("info", path)
    assert code == 0
    assert "IBM [/foo] SP2" in out
    for command in ("validate", "simulate"):
        code, out, _ = run(command, path)
        assert code == 0
        assert "q[red]x.swf" in out


@pytest.mark.parametrize("number", ["99999999999999999999", "9007199254740993"])
def test_job_numbers_that_no_float_can_hold_are_refused(tmp_path: Path, number: str) -> None:
    with pytest.raises(FormatError, match=r"line 2.*too large"):
        tracekit.read(swf(tmp_path, row(), row(id=number)), "swf")


def test_odd_numbers_in_status_and_label_columns_come_back(tmp_path: Path) -> None:
    path = swf(tmp_path, row(id=1, user="3.5", status="1.5"), row(id=2, user=3), row(id=3, user=12345678901234567890))
    tracekit.write(tracekit.read(path), tmp_path / "o.swf")
    for line, back in zip(path.read_text().splitlines(), (tmp_path / "o.swf").read_text().splitlines(), strict=True):
        assert [float(word) for word in line.split()] == [float(word) for word in back.split()]


def test_latin1_beyond_field_18_is_text(tmp_path: Path) -> None:
    path = tmp_path / "t.swf"
    path.write_bytes(row().encode() + b" caf\xe9\n")
    assert tracekit.read(path).jobs["x_field19"][0] == "caf\xe9"


def test_a_tab_before_a_comment(tmp_path: Path) -> None:
    assert len(tracekit.read(swf(tmp_path, row(run="1e1") + "\t; note", row(id=2)), "swf")) == 2


def test_json_is_utf8_whatever_the_header_holds(tmp_path: Path) -> None:
    path = tmp_path / "t.swf"
    path.write_bytes(b"; Note: tracekit: caf\xe9\n; MaxProcs: 8\n" + row().encode() + b"\n")
    done = subprocess.run([sys.executable, "-m", "tracekit", "info", path, "--json"], capture_output=True, check=True)
    assert json.loads(done.stdout.decode("utf-8"))["history"] == ["caf\xe9"]


def test_flags_of_the_program_may_stand_anywhere(tmp_path: Path, run: Run) -> None:
    path = swf(tmp_path, row())
    assert run("convert", path, tmp_path / "o.csv", "-q") == (0, "", "")


def test_a_negative_seed_is_a_usage_error(tmp_path: Path, run: Run) -> None:
    path = swf(tmp_path, row(), head="; MaxProcs: 8\n")
    assert run("simulate", path, "--policy", "random", "--seed", "-1")[0] == 2


def test_closed_streams(tmp_path: Path) -> None:
    path = swf(tmp_path, row())
    for command in (f"{sys.executable} -m tracekit info - <&-", f"{sys.executable} -m tracekit convert {path} - >&-"):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "is closed" in done.stderr


def test_a_terminal_without_unicode(tmp_path: Path) -> None:
    path = swf(tmp_path, row().replace(" 200 ", " -1 "))
    done = subprocess.run(
        [sys.executable, "-m", "tracekit", "info", path],
        capture_output=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr


def test_columns_of_like_names_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("submit_time,run_time,req_procs,weird name,weird-name\n0,5,1,a,b\n")
    jobs = tracekit.read(path).jobs
    assert (jobs["x_weird_name"][0], jobs["x_weird_name_2"][0]) == ("a", "b")


def test_a_date_is_no_duration(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("submit_time,run_time,req_procs\n2023-10-29 03:00:00,2023-10-29 03:30:00,1\n")
    with pytest.raises(FormatError, match="column run_time"):
        tracekit.read(path)


def test_one_column_cannot_be_two(tmp_path: Path) -> None:
    from swf._table import parse_map

    with pytest.raises(UsageError, match="twice"):
        parse_map("run_time=n,req_procs=n")


def test_a_trace_that_cannot_be_simulated_says_so(tmp_path: Path, run: Run) -> None:
    path = swf(tmp_path, row(run=-1), head="; MaxProcs: 8\n")
    code, _, error = run("simulate", path)
    assert code == 1
    assert "no job can be simulated" in error


def test_schedules_of_traces_with_doubled_ids_are_feasible(tmp_path: Path, run: Run) -> None:
    path = swf(tmp_path, row(), row(), head="; MaxProcs: 8\n")
    assert run("simulate", path, "--out", tmp_path / "s", "--no-figures")[0] == 0
    schedule = tmp_path / "s" / "fcfs__easy" / "schedule.csv"
    assert run("check-schedule", schedule, path)[0] == 0
    schedule.write_text(schedule.read_text() + schedule.read_text().splitlines()[1] + "\n")
    code, out, _ = run("check-schedule", schedule, path)
    assert code == 1
    assert "doubled" in out
    schedule.write_text(schedule.read_text().splitlines()[0] + "\n")
    assert "missing" in run("check-schedule", schedule, path)[1]
    assert run("check-schedule", schedule, path, "--procs", "0")[0] == 2
