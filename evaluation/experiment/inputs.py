"""Which of several files are the same, and what their runs are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.experiment.tasks import digest, file_digest
from tracekit.errors import FormatError, TracekitError, UsageError

#: Folders of ours beside those of the runs.
FOLDERS = ("data", "tasks", "slurm")


@dataclass(frozen=True)
class Given:
    """A file that a user named: its run is the folder ``name``; a file with the content of an earlier one has none."""

    file: str
    name: str
    sha256: str = ""
    same_as: str = ""  # the earlier file
    reason: str = ""  # why it cannot be read


def inputs_of(files: Sequence[str]) -> list[Given]:
    """Look at the content of every file: one that is there twice, under any name, is one input."""
    if "-" in files:
        raise UsageError("several traces cannot come from standard input; name files")
    seen: dict[str, str] = {}
    taken = set(FOLDERS)
    found = []
    for file in files:
        try:
            content = content_digest(Path(file))
        except TracekitError as error:
            found.append(Given(file, _free(file, taken), reason=str(error)))
            continue
        if content in seen:
            found.append(Given(file, "", content, same_as=seen[content]))
            continue
        seen[content] = file
        found.append(Given(file, _free(file, taken), content))
    return found


def content_digest(path: Path) -> str:
    """Return the hash of a file's content, or of all files of a folder and their names."""
    try:
        if not path.is_dir():
            return file_digest(path)
        return digest([[p.relative_to(path).as_posix(), file_digest(p)] for p in _files(path)])
    except FileNotFoundError:
        raise FormatError(path, "no such file") from None
    except OSError as error:
        raise FormatError(path, f"cannot be read: {error.strerror or error}") from None


def _files(folder: Path) -> Iterable[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _free(file: str, taken: set[str]) -> str:
    """Return a name for a run's folder that is not taken: the file's, without endings."""
    stem = Path(file).name.split(".")[0] or "trace"
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    taken.add(name)
    return name
