"""A training on disk: one file with everything that the next iteration depends on, replaced at the end of each.

A training that is killed at any moment resumes from either the old file or the new one. The log is written before it
and cut back to it on resuming, so that both agree.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError, OutputError, UsageError, loads
from tracekit.files import write_text, writing
from tracekit.folders import writing_folder
from tracekit.sim.agents.agent import CHECKPOINT, FACTS, LOG, SETTINGS, WEIGHTS

Arrays = dict[str, NDArray[Any]]
#: What a training may have left in its folder.
_LEFT = (FACTS, WEIGHTS, CHECKPOINT, LOG, SETTINGS, "tensorboard/*", "lessons/*")
#: Windows that a slow teacher has played, and what they depend on, until a training has learnt from them.
LESSONS, _IDENTITY = "lessons", "lessons/identity.json"


def keep_identity(folder: Path, now: dict[str, Any]) -> None:
    """Write down what lessons depend on."""
    (folder / LESSONS).mkdir(exist_ok=True)
    write_text(folder / _IDENTITY, json.dumps(now), force=True)


def has_lessons(folder: Path, now: dict[str, Any]) -> bool:
    """Return whether a training was interrupted during its lessons; refuse to resume it with other settings."""
    path = folder / _IDENTITY
    if not path.is_file():
        return False
    try:
        before = json.loads(path.read_text())
    except ValueError as error:
        raise FormatError(path, f"damaged, cannot be resumed: {error}") from None
    check_same(folder, before, now)
    return True


def check_free(folder: Path, *, force: bool) -> None:
    """Refuse a folder that holds an agent or a training, unless ``force``."""
    there = [name for name in (CHECKPOINT, FACTS, WEIGHTS) if (folder / name).exists()]
    if there and not force:
        goes_on = "--resume continues it, " if there[0] == CHECKPOINT else ""
        raise OutputError(f"{folder}: {there[0]} exists already; {goes_on}--force replaces it")


def begin(folder: Path, *, force: bool) -> None:
    """Create the folder for a new training; an existing agent or training is kept unless ``force``."""
    check_free(folder, force=force)
    with writing_folder(folder, ours=_LEFT, force=True):
        pass  # an empty folder takes the place of the old training in one step


def write(folder: Path, arrays: Arrays, facts: dict[str, Any]) -> None:
    """Replace the checkpoint."""
    from safetensors.numpy import save

    plain = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    with writing(folder / CHECKPOINT, force=True) as out:
        out.write(save(plain, metadata={"facts": json.dumps(facts)}))


@loads("a checkpoint of a training")
def read(folder: Path) -> tuple[Arrays, dict[str, Any]] | None:
    """Return what the last checkpoint holds, or None where there is none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = folder / CHECKPOINT
    if not path.is_file():
        return None
    data = path.read_bytes()
    try:
        arrays = {name: value.copy() for name, value in load(data).items()}
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return arrays, json.loads(header["__metadata__"]["facts"])
    except (SafetensorError, ValueError, KeyError) as error:
        raise FormatError(path, f"damaged, cannot be resumed: {error}") from None


def check_same(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to resume with other settings than the training was started with.

    ``steps`` may grow: a longer training with a constant schedule continues where the shorter one ended.
    """
    for name, value in json.loads(json.dumps(now)).items():  # as JSON stores it: tuples are lists
        if before.get(name) != value:
            raise UsageError(
                f"{folder}: was started with {name} = {before.get(name)!r}, not {value!r}; resume with the same "
                "settings, or start a new training"
            )


def cut_log(folder: Path, iteration: int) -> None:
    """Drop the lines of iterations after the checkpoint."""
    path = folder / LOG
    if not path.is_file():
        return
    kept = []
    for line in path.read_text().splitlines():
        try:
            if json.loads(line)["iteration"] <= iteration:
                kept.append(line)
        except (ValueError, KeyError):  # a line cut short by the kill
            break
    write_text(path, "".join(line + "\n" for line in kept), force=True)


def log(folder: Path, line: dict[str, Any]) -> None:
    """Add a line to the log."""
    with (folder / LOG).open("a") as out:
        out.write(json.dumps(line) + "\n")


@loads("a log of a training")
def read_log(folder: str | Path) -> list[dict[str, Any]]:
    """Return the log of an agent or of a training, line by line."""
    path = Path(folder) / LOG
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
