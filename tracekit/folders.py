"""Folders as outputs: written under a temporary name beside their destination and swapped in by one rename.

A process that is killed leaves the old folder or the new one, never files of both. Where the file system can exchange
two names (renameat2 of Linux) this is one step; elsewhere the old folder is renamed away first, and the next run puts
it back if it finds the place empty. A folder that cannot be renamed at all (a mount point, the current or the home
folder, a read-only parent) gets its files one by one after all are written: old ones go first, so that files of two
runs never lie side by side.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import fnmatch
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tracekit.errors import OutputError
from tracekit.files import check_writable

#: Ending of a folder that is being written, and of one that is being replaced.
NEW, OLD = ".tracekit-new", ".tracekit-old"
#: A folder with more entries of other origin than this is not swapped: linking them all would take too long.
MOST_KEPT = 20_000
_RENAME_EXCHANGE = 2
#: Errors of file systems that cannot exchange names, and of folders that cannot be renamed at all.
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
#: Errors that say that bytes are not on the disk: full, over a quota, damaged.
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_NO_RENAME = (errno.EXDEV, errno.EBUSY, errno.EPERM, errno.EACCES, errno.EROFS)


@contextmanager
def writing_folder(path: str | Path, *, ours: Collection[str] = (), force: bool = False) -> Iterator[Path]:
    """Yield an empty folder to write into; at the end of the block its files are in ``path``, all of them or none.

    ``ours`` are patterns (as of `fnmatch`, relative to ``path``) of what an earlier run may have left there: with
    ``force`` all of it is replaced, not only files of the same name. Everything else in the folder is kept, so that
    no file of the user is lost. Without ``force`` a file of the same name is an error, and nothing changes.
    """
    target = Path(os.path.realpath(path))  # a link to a folder stays a link
    check_folder(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _recover(target)
        with _staged(target) as stage:
            yield stage.folder
            _sync(stage.folder)
            _commit(stage, target, tuple(ours), force=force)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


def check_folder(path: str | Path, names: Sequence[str] = (), *, force: bool = False) -> Path:
    """Raise OutputError before any work: a file in place of a folder, or an existing file without ``force``."""
    if not str(path).strip():
        raise OutputError("the name of the output folder is empty; is a shell variable not set?")
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: is a file, so the output folder cannot be created; choose another name")
    for name in names:
        if (folder / name).exists():
            check_writable(folder / name, force=force)
    return folder


@contextmanager
def writing_together(*paths: str | Path, force: bool = False) -> Iterator[tuple[Path, ...]]:
    """Yield one path for each of the files that belong together; at the end of the block they replace the old ones.

    No call replaces two files at once. So the old companions (all but the first) are removed before the first file is
    replaced, and the new ones follow: a killed process may leave the first file alone, but never beside companions
    of another run.
    """
    for path in paths:
        check_writable(path, force=force)
        if Path(path).exists() and not Path(path).is_file():
            raise OutputError(f"{path}: is not a regular file")
    targets = [Path(os.path.realpath(path)) for path in paths]  # write through a link, as `>` does
    try:
        with ExitStack() as stack:
            made = tuple(stack.enter_context(_staged(target, beside=True)).folder / target.name for target in targets)
            yield made
            for path in paths:
                check_writable(path, force=force)
            for place, target in zip(made, targets, strict=True):
                place.chmod(_mode_of(target, 0o666))
                _sync(place.parent)
            for target in targets[1:]:
                target.unlink(missing_ok=True)
            for place, target in zip(made, targets, strict=True):
                place.replace(target)
            _sync_folder(targets[0].parent)
    except OSError as error:
        raise OutputError(f"{paths[0]}: cannot be written: {error.strerror or error}") from error


# ---- the temporary folder --------------------------------------------------------------------------------------------


@dataclass
class _Stage:
    """A folder that is being written: locked by this process for as long as it lives."""

    folder: Path
    beside: bool  # beside the destination, so that it can be renamed to it; else inside
    seen: set[str] = field(default_factory=set)  # what the destination held when its files were kept


@contextmanager
def _staged(target: Path, *, beside: bool = False) -> Iterator[_Stage]:
    """Make a temporary folder and always remove it at the end; those of dead processes are removed first."""
    beside = beside or _can_swap(target)
    try:
        folder, lock = _made(target, target.parent if beside else target)
    except PermissionError:
        if not target.is_dir():
            raise
        beside, (folder, lock) = False, _made(target, target)
    try:
        if target.is_dir():
            _dress(folder, target)
        yield _Stage(folder, beside)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _made(target: Path, parent: Path) -> tuple[Path, int]:
    """Return a new temporary folder and the handle that locks it."""
    for left in _leftovers(target, parent, NEW):
        with _claimed(left) as free:
            if free:
                shutil.rmtree(left, ignore_errors=True)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_hidden(target), suffix=NEW, dir=parent))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):  # a file system without locks: then no process removes leftovers there either
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder, lock
        os.close(lock)  # mistaken for a leftover before it was locked


def _dress(folder: Path, like: Path) -> None:
    """Give a new folder the owner, the permissions and the access lists of the one that it will replace."""
    about = like.stat()
    with suppress(OSError):
        os.chown(folder, about.st_uid if os.geteuid() == 0 else -1, about.st_gid)
    with suppress(OSError):
        shutil.copystat(like, folder)
    folder.chmod(stat.S_IMODE(folder.stat().st_mode) | 0o700)


def _mode_of(target: Path, new: int) -> int:
    """Return the permissions of what is replaced, or those that the umask leaves of ``new``."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return new & ~umask


def _recover(target: Path) -> None:
    """Clean up after a process killed between two renames: restore the old folder, or remove it."""
    for left in _leftovers(target, target.parent, OLD):
        with _claimed(left) as free:
            if free and target.exists():
                shutil.rmtree(left, ignore_errors=True)
            elif free:
                left.rename(target)


def _hidden(target: Path) -> str:
    """Return how the temporary names of a destination begin; a long name is represented by its hash."""
    name = target.name
    return f".{name if len(os.fsencode(name)) < 200 else hashlib.sha256(os.fsencode(name)).hexdigest()}."


def _leftovers(target: Path, parent: Path, ending: str) -> list[Path]:
    """Return folders of this user with the temporary names of this module, newest first."""
    found, begin = [], _hidden(target)
    size = len(begin) + 8 + len(ending)  # eight letters by tempfile
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(begin) and entry.name.endswith(ending) and len(entry.name) == size:
                about = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid():
                    found.append((about.st_mtime, Path(entry.path)))
    return [path for _, path in sorted(found, reverse=True)]


@contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    """Lock a temporary folder for the block; yield False if another process holds it."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError:
            free = False
        yield free
    finally:
        os.close(handle)


# ---- the swap --------------------------------------------------------------------------------------------------------


def _commit(stage: _Stage, target: Path, ours: tuple[str, ...], *, force: bool) -> None:
    """Make the finished folder the destination."""
    made = _tree(stage.folder)
    if stage.beside and not os.path.lexists(target):
        stage.folder.chmod(_mode_of(target, 0o777))
        try:
            stage.folder.rename(target)
            _sync_folder(target.parent)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise  # else: another process was first
    dropped = _dropped(target, made, ours, force=force)
    if stage.beside and _can_swap(target) and _kept(target, stage, dropped) and _swapped(stage, target):
        _sync_folder(target.parent)
        return
    _move_in(stage.folder, target, made, dropped)


def _tree(folder: Path) -> list[str]:
    """Return the relative names of all files and links below a folder, in order; temporary folders are left out."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.endswith(NEW)]
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        found += [(Path(place) / name).relative_to(folder).as_posix() for name in [*files, *links]]
    return sorted(found)


def _dropped(target: Path, made: list[str], ours: tuple[str, ...], *, force: bool) -> set[str]:
    """Return which files of the destination are replaced; without ``force`` there must be none."""
    same = {name for name in made if os.path.lexists(target / name)}
    folders = [name for name in same if (target / name).is_dir() and not (target / name).is_symlink()]
    if folders:
        raise OutputError(f"{target / folders[0]}: is a folder, but the output needs a file of this name")
    if same and not force:
        raise OutputError(f"{target / min(same)}: exists already; use --force to replace it")
    if not force or not ours:
        return same
    return same | {name for name in _tree(target) if any(_matches(name, pattern) for pattern in ours)}


def _matches(name: str, pattern: str) -> bool:
    """Compare part by part: ``*`` does not match a slash."""
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _can_swap(target: Path) -> bool:
    """Return whether a folder may be replaced by another of its name, as far as can be seen beforehand."""
    if not target.exists():
        return True
    here = Path(os.path.realpath(os.curdir))
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111  (does not fail without a home)
    if target in (here, home, *here.parents, *home.parents) or os.path.ismount(target):
        return False
    return os.access(target.parent, os.W_OK | os.X_OK) and os.geteuid() in (0, target.stat().st_uid)


class _TooMany(Exception):
    """A folder holds too many other files to link them all."""


def _kept(target: Path, stage: _Stage, dropped: set[str]) -> bool:
    """Link everything else that the destination holds into the new folder; False where links are not possible."""
    try:
        _link(target, stage.folder, "", dropped, stage.seen)
    except (OSError, _TooMany):
        return False
    return True


def _link(old: Path, new: Path, prefix: str, dropped: set[str], seen: set[str]) -> None:
    with os.scandir(old) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        name, place = prefix + entry.name, new / entry.name
        if entry.name.endswith(NEW):
            continue  # being written by another process
        seen.add(name)
        if len(seen) > MOST_KEPT:
            raise _TooMany
        if entry.is_dir(follow_symlinks=False):
            fresh = not place.exists()
            if fresh:
                place.mkdir()
                _dress(place, Path(entry.path))
            _link(Path(entry.path), place, name + "/", dropped, seen)
            if fresh and not any(place.iterdir()) and any(Path(entry.path).iterdir()):
                place.rmdir()  # all that it held is replaced
        elif name not in dropped:
            os.link(entry.path, place, follow_symlinks=False)


def _swapped(stage: _Stage, target: Path) -> bool:
    """Exchange the two folders and remove the old one; False where the destination cannot be renamed."""
    try:
        if _exchanged(stage.folder, target):
            _retire(stage.folder, target, stage.seen)
            return True
        away = stage.folder.with_suffix(OLD)
        lock = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)  # else a run that starts now would put the old folder back
            try:
                target.rename(away)
                stage.folder.rename(target)
            except BaseException:
                if not target.exists() and away.exists():
                    away.rename(target)
                raise
            _retire(away, target, stage.seen)
        finally:
            os.close(lock)
    except OSError as error:
        if error.errno not in _NO_RENAME:
            raise
        return False
    return True


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step; False where the system cannot."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here = -100  # AT_FDCWD
    if call(here, os.fsencode(one), here, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number))


def _retire(old: Path, target: Path, seen: set[str]) -> None:
    """Remove a replaced folder; files that were added after it was read move to its successor."""
    for name in _tree(old):
        if name not in seen and not os.path.lexists(target / name):
            with suppress(OSError):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                (old / name).rename(target / name)
    shutil.rmtree(old, ignore_errors=True)


def _move_in(stage: Path, target: Path, made: list[str], dropped: set[str]) -> None:
    """Move finished files into a folder that cannot be swapped: remove the old files first, then move the new ones."""
    target.mkdir(exist_ok=True)
    for name in sorted(dropped):
        (target / name).unlink(missing_ok=True)
    for name in made:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (stage / name).replace(target / name)
    _sync_folder(target)


def _sync(folder: Path) -> None:
    """Sync everything below a folder to disk before it is renamed."""
    for place, _, files in os.walk(folder):
        for name in files:
            path = Path(place) / name
            if path.is_file() and not path.is_symlink():
                _sync_folder(path)
        _sync_folder(Path(place))


def _sync_folder(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:  # not supported by every file system; some say only here that the disk is full
        if error.errno in _NOT_WRITTEN:
            raise
