"""Folders appear whole or not at all, keep what the user put there, and survive a kill at every step."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shared_data import ROOT

from tracekit import folders
from tracekit.errors import OutputError
from tracekit.folders import check_folder, writing_folder, writing_together

Run = Callable[..., tuple[int, str, str]]
Paths = dict[str, str]


def fill(folder: Path, files: Paths) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def tree(folder: Path) -> Paths:
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def put(target: Path, files: Paths, **options: Any) -> None:
    with writing_folder(target, **options) as made:
        fill(made, files)


def interrupted(target: Path, failure: type[BaseException]) -> None:
    with writing_folder(target, force=True) as made:
        fill(made, NEW)
        raise failure


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


OLD = {"a.csv": "old", "sub/b.csv": "old", "sub/c.csv": "old"}
NEW = {"a.csv": "new", "sub/b.csv": "new", "deep/er/d.csv": "new"}


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_exchanged", lambda one, other: False)


def without_rename(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(one: Path, other: Path) -> bool:
        raise OSError(errno.EBUSY, "busy")

    monkeypatch.setattr(folders, "_exchanged", refuse)


def without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)


def as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pass


@pytest.mark.parametrize("system", [as_it_is, without_exchange, without_rename, without_links])
def test_earlier_outputs_are_replaced_and_other_files_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: Callable[[pytest.MonkeyPatch], None]
) -> None:
    system(monkeypatch)
    target = tmp_path / "out"
    put(target, OLD)
    fill(target, {"notes.txt": "mine", "sub/notes.txt": "mine", "own/x.csv": "mine"})
    (target / "link").symlink_to("notes.txt")
    put(target, NEW, ours=["*.csv", "sub/*.csv"], force=True)
    assert tree(target) == NEW | {
        "notes.txt": "mine",
        "sub/notes.txt": "mine",
        "own/x.csv": "mine",
        "link": "mine",
    }
    assert (target / "link").is_symlink()
    assert names(tmp_path) == ["out"]


def test_without_force_files_are_added_and_none_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "new" / "out"
    put(target, {"a": "1"})
    put(target, {"b": "2"}, ours=["*"])
    assert tree(target) == {"a": "1", "b": "2"}
    with pytest.raises(OutputError, match="--force"):
        put(target, {"b": "3", "c": "3"})
    assert tree(target) == {"a": "1", "b": "2"}
    assert names(tmp_path / "new") == ["out"]


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, OSError, SystemExit])
def test_an_error_leaves_nothing(tmp_path: Path, failure: type[BaseException]) -> None:
    put(tmp_path / "out", OLD)
    for target in (tmp_path / "out", tmp_path / "fresh"):
        with pytest.raises((failure, OutputError)):
            interrupted(target, failure)
    assert tree(tmp_path) == {f"out/{name}": text for name, text in OLD.items()}


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    for target in (tmp_path / "file", tmp_path / "file" / "out", Path("  ")):
        with pytest.raises(OutputError):
            put(target, NEW, force=True)
    with pytest.raises(OutputError, match="is a file"):
        check_folder(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "precious"
    (tmp_path / "out" / "a.csv").mkdir(parents=True)
    with pytest.raises(OutputError, match="is a folder"):
        put(tmp_path / "out", NEW, force=True)
    assert tree(tmp_path / "out") == {}


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    put(tmp_path / "real", OLD)
    (tmp_path / "link").symlink_to("real")
    put(tmp_path / "link", NEW, force=True)
    assert (tmp_path / "link").is_symlink()
    assert tree(tmp_path / "real")["a.csv"] == "new"


@pytest.mark.parametrize("where", ["current", "home", "above"])
def test_the_current_and_the_home_folder_are_never_swapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    target = tmp_path / "here"
    fill(target, OLD | {"notes.txt": "mine", "below/x": "mine"})
    before = target.stat().st_ino
    if where == "home":
        monkeypatch.setenv("HOME", str(target))
    else:
        monkeypatch.chdir(target if where == "current" else target / "below")
    put(target, NEW, ours=["*.csv", "sub/*.csv"], force=True)
    assert target.stat().st_ino == before
    assert tree(target) == NEW | {"notes.txt": "mine", "below/x": "mine"}


def test_permissions_are_those_of_the_old_folder_or_of_the_umask(tmp_path: Path) -> None:
    put(tmp_path / "out", OLD)
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "out").chmod(0o2750)
    put(tmp_path / "out", NEW, force=True)
    assert (tmp_path / "out").stat().st_mode & 0o7777 == 0o2750


def test_leftovers_of_dead_processes_go_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    dead, other = tmp_path / ".out.abcdefgh.tracekit-new", tmp_path / ".out.x.abcdefgh.tracekit-new"
    fill(dead, NEW)
    fill(other, NEW)
    with writing_folder(tmp_path / "out", force=True) as first, writing_folder(tmp_path / "out", force=True) as second:
        fill(first, OLD)
        fill(second, NEW)
        assert not dead.exists()
        assert first.is_dir()
    assert tree(other) == NEW
    assert names(tmp_path) == [other.name, "out"]


def test_a_folder_renamed_away_comes_back(tmp_path: Path) -> None:
    fill(tmp_path / ".out.abcdefgh.tracekit-old", OLD)
    with pytest.raises(RuntimeError), writing_folder(tmp_path / "out", force=True):
        raise RuntimeError
    assert tree(tmp_path / "out") == OLD


def test_a_file_that_comes_during_the_swap_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    put(target, OLD)
    plain = folders._exchanged

    def late(one: Path, other: Path) -> bool:
        fill(target, {"late.txt": "mine"})
        return plain(one, other)

    monkeypatch.setattr(folders, "_exchanged", late)
    put(target, NEW, ours=["*.csv", "sub/*.csv"], force=True)
    assert tree(target) == NEW | {"late.txt": "mine"}


def test_files_that_belong_together_are_replaced_together(tmp_path: Path) -> None:
    page, beside = tmp_path / "a.html", tmp_path / "a.json"
    for text in ("old", "new"):
        with writing_together(page, beside, force=True) as made:
            for place in made:
                place.write_text(text)
    with pytest.raises(OutputError), writing_together(page, beside, force=True) as made:
        made[0].write_text("only one of the two")
    assert tree(tmp_path) == {"a.html": "new", "a.json": "new"}
    with pytest.raises(OutputError, match="--force"), writing_together(page, beside):
        pass
    with pytest.raises(OutputError), writing_together("/dev/null", beside, force=True):
        pass


# ---- kills -----------------------------------------------------------------------------------------------------------


def killed(root: Path, **order: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "killing.py"],
        input=json.dumps({"root": str(root), **order}),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("exchange", [True, False])
def test_a_command_killed_at_any_step_leaves_the_old_folder_or_the_new_one(
    toy_swf: Path, tmp_path: Path, exchange: bool
) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "t.swf").write_bytes(toy_swf.read_bytes())
    found = killed(
        root,
        old=["split", "t.swf", "-o", "parts", "--by", "2"],
        new=["split", "t.swf", "-o", "parts", "--by", "2", "--to", "csv", "--force"],
        outputs=["parts"],
        foreign="parts/notes.txt",
        exchange=exchange,
    )
    assert found["bad"] == []
    assert found["found"]["old"] > 5
    assert found["found"]["new"] > 1


def test_a_trace_and_its_recipe_are_never_of_two_runs(toy_swf: Path, tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "t.swf").write_bytes(toy_swf.read_bytes())
    found = killed(
        root,
        old=["clean", "t.swf", "c.swf", "--rules", "sort-by-submit"],
        new=["clean", "t.swf", "c.swf", "--rules", "drop-zero-run-time", "--force"],
        outputs=["c.swf", "c.swf.recipe.toml"],
    )
    assert [bad for bad in found["bad"] if not bad["state"].startswith("part of")] == []
    assert found["found"]["new"] >= 1
