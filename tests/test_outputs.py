"""Outputs appear whole or not at all, and never at the cost of a file that was there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from toys import SWF_TEXT

from tracekit import files
from tracekit.errors import OutputError

Run = Callable[..., tuple[int, str, str]]


def test_an_existing_file_is_kept_without_force(toy_swf: Path, tmp_path: Path, run: Run) -> None:
    target = tmp_path / "o.swf"
    target.write_text("precious")
    code, _, error = run("convert", toy_swf, target)
    assert code == 1
    assert "--force" in error
    assert target.read_text() == "precious"
    assert run("convert", toy_swf, target, "--force")[0] == 0
    assert target.read_text() == SWF_TEXT


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_convert_onto_itself_is_refused(toy_swf: Path, tmp_path: Path, run: Run, force: list[str]) -> None:
    link = tmp_path / "link.swf"
    link.symlink_to(toy_swf)
    for target in (toy_swf, link, tmp_path / "." / toy_swf.name):
        code, _, error = run("convert", toy_swf, target, *force)
        assert code == 1
        assert "same file" in error
    assert toy_swf.read_text() == SWF_TEXT


def test_a_directory_and_a_missing_folder_are_refused(toy_swf: Path, tmp_path: Path, run: Run) -> None:
    for target in (tmp_path, tmp_path / "none" / "o.swf"):
        code, _, error = run("convert", toy_swf, target)
        assert code == 1
        assert error.count("\n") == 1


def test_a_full_disk_leaves_nothing_behind(
    toy_swf: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    code, _, error = run("convert", toy_swf, "/dev/full", "--to", "swf")
    assert code == 1
    assert "No space left" in error

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    target = tmp_path / "o.swf"
    target.write_text("precious")
    code, _, error = run("convert", toy_swf, target, "--force")
    assert code == 1
    assert "No space left" in error
    assert target.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o.swf", "toy.swf"]


def test_a_failure_half_way_keeps_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "o.txt"
    target.write_text("precious")

    def fail() -> None:
        with files.writing(target, force=True) as out:
            out.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert target.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_half_way(tmp_path: Path, which: signal.Signals) -> None:
    target = tmp_path / "o.swf"
    target.write_text("precious")
    fifo = tmp_path / "slow.swf"
    os.mkfifo(fifo)  # the command waits for a writer
    command = [sys.executable, "-m", "tracekit", "convert", str(fifo), str(target), "--force", "--from", "swf"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with fifo.open("wb"):  # opens when the command has opened it to read, and then writes nothing
        process.send_signal(which)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.strip() == "error: interrupted"
    assert target.read_text() == "precious"


def test_permissions_follow_the_old_file_or_the_umask(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("x")
    old.chmod(0o640)
    files.write_text(old, "y", force=True)
    assert old.stat().st_mode & 0o777 == 0o640
    umask = os.umask(0o027)
    try:
        files.write_text(tmp_path / "new", "y")
    finally:
        os.umask(umask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


def test_links_are_written_through(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("a")
    link.symlink_to(real)
    files.write_text(link, "b", force=True)
    assert link.is_symlink()
    assert real.read_text() == "b"


def test_same_data_same_bytes(toy_swf: Path, tmp_path: Path, run: Run) -> None:
    for name in ("a", "b"):
        for suffix in ("swf.gz", "swf.xz", "swf.bz2", "parquet"):
            assert run("convert", toy_swf, tmp_path / f"{name}.{suffix}")[0] == 0
    for suffix in ("swf.gz", "swf.xz", "swf.bz2", "parquet"):
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_check_writable_names_the_trouble(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="directory"):
        files.check_writable(tmp_path)
    files.check_writable("-")


def test_a_reader_that_goes_away_is_no_error(toy_swf: Path) -> None:
    shell = f"{sys.executable} -m tracekit convert {toy_swf} - | head -n 1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
    assert done.stdout == "; Version: 2.2\n"
    assert "Traceback" not in done.stderr
