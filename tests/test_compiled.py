"""Where compiled code is kept: a user without a home can read SWF, and folders of others are not trusted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from shared_data import ROOT
from toys import SWF_TEXT

from tracekit.compiled import is_private

NOBODY = 65533  # a user id without an account
WORK = """
import os, sys
import numba, numpy, tracekit, swf.swf, tracekit.compiled
tracekit.read(sys.argv[1].replace(".swf", ".csv"), "csv")
numba.njit(lambda x: x + 1)(1)  # all is imported before: the folder of the interpreter may be closed to others
os.setgid({user})
os.setuid({user})
from swf import _scan
from tracekit.compiled import cache_folder
print(len(tracekit.read(sys.argv[1], "swf")), cache_folder(_scan._HERE))
"""
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter; those of pytest are closed to them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@needs_root
def test_a_user_without_a_home_reads_swf_from_a_folder_that_cannot_be_written(open_folder: Path) -> None:
    temporary, trace = open_folder / "tmp", open_folder / "t.swf"
    temporary.mkdir()
    temporary.chmod(0o1777)
    trace.write_text(SWF_TEXT)
    trace.with_suffix(".csv").write_text("job_id,submit_time,run_time,req_procs\n1,0,5,1\n")
    sources = open_folder / "sources"  # a copy: ours may be in a folder that is closed to others
    for package in ("tracekit", "swf", "generators", "evaluation"):
        shutil.copytree(ROOT / package, sources / package, ignore=shutil.ignore_patterns("__pycache__"))

    def run() -> list[str]:
        code = WORK.format(user=NOBODY)
        around = {"PYTHONPATH": str(sources), "TMPDIR": str(temporary), "PATH": os.environ["PATH"]}
        command = [sys.executable, "-c", code, str(trace)]
        done = subprocess.run(command, env=around, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    jobs, folder = run()
    own = temporary / f"tracekit-{NOBODY}"
    assert int(jobs) > 0
    assert Path(folder).parent == own
    assert own.stat().st_uid == NOBODY
    assert own.stat().st_mode & 0o777 == 0o700
    assert list(own.rglob("*.nbc")), "the compiled code was not kept"
    own.chmod(0o777)
    assert run()[1] == "None", "a folder to which others can write is not used"
    os.chown(own, 0, 0)
    own.chmod(0o755)
    assert run()[1] == "None", "a folder of another user is not used"


def test_links_and_open_folders_are_not_private(tmp_path: Path) -> None:
    assert is_private(tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder").stat().st_mode & 0o777 == 0o700
    (tmp_path / "link").symlink_to(tmp_path / "new" / "folder")
    assert not is_private(tmp_path / "link")
    (tmp_path / "file").write_text("")
    assert not is_private(tmp_path / "file")
    assert not is_private(tmp_path / "file" / "below")
    (tmp_path / "new" / "folder").chmod(0o770)
    assert not is_private(tmp_path / "new" / "folder")
    (tmp_path / "new" / "folder").chmod(0o700)
    (tmp_path / "new").chmod(0o777)
    assert not is_private(tmp_path / "new" / "folder"), "anybody can replace it"


@needs_root
def test_a_folder_of_another_user_is_not_private(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    assert not is_private(folder)
