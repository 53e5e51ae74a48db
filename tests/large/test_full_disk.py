"""The disk full in the middle: an output appears whole or not at all, an old one stays, and one line says why."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.feather
import pyarrow.parquet
import pytest

import tracekit
from swf.parts import in_chunks, write_parts
from tracekit import Trace

Run = Callable[..., tuple[int, str, str]]
FULL = "No space left on device"
#: What is written, and the commands that write it; {in} is a folder of parts, {out} the output.
COMMANDS = {
    "convert-folder": "convert {in} {out} --parts --part-jobs 50",
    "convert-file": "convert {in} {out}.parquet --parts",
    "clean": "clean {in} {out} --parts --part-jobs 50 --rules drop-duplicate-ids,drop-zero-run-time",
    "clean-file": "clean {in} {out}.parquet --parts --rules drop-duplicate-ids",
    "slice": "slice {in} {out} --parts --part-jobs 50 --jobs 150",
    "split": "split {in} -o {out} --parts --by 3",
    "synth": "synth {in} -o {out} --jobs 60 --part-jobs 50",
    "synth-file": "synth {in} -o {out}.parquet --model resample --jobs 120",
}
#: Where bytes go to the disk: chunks that wait, row groups, sorted numbers, and the last flush of a file.
WRITES = {
    "chunks": (pyarrow.feather, "write_feather"),
    "row groups": (pyarrow.parquet.ParquetWriter, "write_table"),
    "sorted numbers": (np, "save"),
    "flushes": (os, "fsync"),
}


@pytest.fixture
def parts(tmp_path: Path, toy: Trace, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hundred jobs, whose ids have to be sorted to find those that repeat."""
    monkeypatch.setenv("TRACEKIT_BATCH_JOBS", "60")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    ids = np.random.default_rng(0).permutation(len(toy)) + 1
    write_parts(in_chunks(toy.assign({"job_id": ids})), tmp_path / "in", part_jobs=80)
    return tmp_path / "in"


def words(line: str, place: Path) -> list[str]:
    return line.format(**{"in": place, "out": place.parent / "out"}).split()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class Full:
    """The n-th call of a function finds the disk full, and all later ones, too."""

    def __init__(self, original: Any, number: int) -> None:
        self.original, self.left, self.hit = original, number, False

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else lambda *given, **more: self(instance, *given, **more)

    def __call__(self, *given: Any, **more: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            self.hit = True
            raise OSError(errno.ENOSPC, FULL)
        return self.original(*given, **more)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("what", WRITES)
def test_a_full_disk_at_any_write_leaves_nothing(
    parts: Path, run: Run, command: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(parts.parent)
    where, name = WRITES[what]
    number = 0
    while number < 30:
        with monkeypatch.context() as patch:
            full = Full(getattr(where, name), number)
            patch.setattr(where, name, full)
            code, _, error = run(*words(COMMANDS[command], parts))
        if not full.hit:
            assert code == 0, error
            break
        assert code == 1, f"{what} {number}: {error}"
        (line,) = [line for line in error.splitlines() if line.startswith("error: ")]
        assert FULL in line
        left = contents(parts.parent)
        if command == "clean" and "recipe.toml" in line:  # written after the trace, which is whole by then
            assert len(tracekit.read(parts.parent / "out")) == 200
            left = {name: data for name, data in left.items() if not name.startswith("out")}
            shutil.rmtree(parts.parent / "out")
        assert left == before
        number += 1 if not number else 9  # the first ones, and some later ones
    assert number < 30


@pytest.mark.parametrize("command", ["convert-folder", "convert-file", "clean-file", "split"])
def test_a_full_disk_keeps_the_old_output(parts: Path, run: Run, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = words(COMMANDS[command], parts)
    assert run(*line)[0] == 0
    before = contents(parts.parent)
    for where, name in (WRITES["chunks"], WRITES["row groups"], WRITES["flushes"]):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, Full(getattr(where, name), 0))
            code, _, error = run(*line, "--force")
        assert code == 1, error
        assert FULL in error
        assert contents(parts.parent) == before


#: Runs commands on a file system of so many KB that is really full, in a process that may mount one.
SCRIPT = """
import contextlib, io, json, os, subprocess, sys
from pathlib import Path
from tracekit.cli import main
place, commands = Path(sys.argv[1]), json.loads(sys.argv[2])
for name, line in commands.items():
    for size in (4, 40, 80, 4096):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", place], check=True)
        os.environ["TMPDIR"] = str(place)
        error = io.StringIO()
        with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
            code = main(line)
        left = sorted(str(path.relative_to(place)) for path in place.rglob("*"))
        print(json.dumps([name, size, code, error.getvalue(), left]), flush=True)
        subprocess.run(["umount", place], check=True)
"""


def test_a_file_system_that_is_really_full(parts: Path, tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    unshare = shutil.which("unshare")
    prefix = [str(unshare), "-rm"]
    if unshare is None or subprocess.run([*prefix, "mount", "-t", "tmpfs", "none", place], check=False).returncode:
        pytest.skip("no small file system can be mounted here")
    lines = {
        name: line.format(**{"in": parts, "out": place / "out"}).split()
        for name, line in COMMANDS.items()
        if name in ("convert-folder", "convert-file", "clean", "slice", "synth-file")
    }
    done = subprocess.run(
        [*prefix, sys.executable, "-c", SCRIPT, str(place), json.dumps(lines)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    codes: dict[str, list[int]] = {}
    for name, size, code, error, left in rows:
        codes.setdefault(name, []).append(code)
        if code:
            assert code == 1, error
            (line,) = [line for line in error.splitlines() if line.startswith("error: ")]
            assert "space" in line, (name, size, error)
            assert left == [], (name, size)
        else:
            assert any(path.startswith("out") for path in left)
            assert not any(".tracekit" in path or ".tmp" in path or ".waiting" in path for path in left)
    assert {name: (found[0], found[-1]) for name, found in codes.items()} == dict.fromkeys(lines, (1, 0))
    assert tracekit.read(parts)
