"""An agent is a folder: weights.safetensors, agent.json, log.jsonl. It loads without torch and without running code."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError, OutputError
from tracekit.files import write_text, writing
from tracekit.sim.agents.inference import KINDS, Net, weights_in

WEIGHTS, FACTS, LOG, CHECKPOINT = "weights.safetensors", "agent.json", "log.jsonl", "checkpoint.safetensors"
#: Of the folder's layout; an agent of another version is refused, not guessed at.
VERSION = 1
#: Agents that come with the package.
PACKAGED = Path(__file__).resolve().parents[2] / "data" / "agents"


@dataclass(frozen=True, eq=False)
class Agent:
    """A trained network, the task that it was trained for, and where it comes from."""

    network: str  # kernel, attention or mlp
    sizes: tuple[int, ...]
    flat: NDArray[np.float32]
    features: tuple[str, ...]  # what it sees of a job, by name
    task: dict[str, Any]  # of `tracekit.sim.tasks.pick_job.task.PickJob`
    facts: dict[str, Any] = field(default_factory=dict)  # configuration, seed, trace, split, metrics, versions
    folder: Path | None = None

    @property
    def name(self) -> str:
        """What tables call the agent."""
        return f"agent:{self.folder}" if self.folder is not None else "agent"

    def net(self) -> Net:
        """Return the network for `tracekit.sim.agents.inference`."""
        return Net(KINDS[self.network], np.array(self.sizes, np.int64), self.flat, len(self.features))

    # ---- files -------------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> Agent:
        """Write weights and facts into a folder, each whole or not at all; facts last, so that they mean it is done."""
        from safetensors.numpy import save

        folder = Path(folder)
        make_folder(folder)
        with writing(folder / WEIGHTS, force=True) as out:
            out.write(save(layers_of(self.network, self.sizes, self.flat)))
        facts = {
            "version": VERSION,
            "network": self.network,
            "sizes": list(self.sizes),
            "features": list(self.features),
            "task": self.task,
            **self.facts,
        }
        write_text(folder / FACTS, json.dumps(facts, indent=2, ensure_ascii=False) + "\n", force=True)
        return Agent(self.network, self.sizes, self.flat, self.features, self.task, self.facts, folder)

    @classmethod
    def load(cls, folder: str | Path) -> Agent:
        """Read an agent's folder; ``default`` and other names of packaged agents stand for theirs."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        place = find_folder(folder)
        facts = _facts(place)
        try:
            network, sizes = facts.pop("network"), tuple(int(size) for size in facts.pop("sizes"))
            features, task = tuple(facts.pop("features")), facts.pop("task")
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(place / FACTS, f"lacks what an agent needs: {error}") from None
        if network not in KINDS:
            raise FormatError(place / FACTS, f"unknown network '{network}'")
        try:
            arrays = load((place / WEIGHTS).read_bytes())
        except FileNotFoundError:
            raise FormatError(place / WEIGHTS, "no such file; the agent is not complete") from None
        except (SafetensorError, OSError, ValueError) as error:
            raise FormatError(place / WEIGHTS, f"damaged: {error}") from None
        flat = _flat(arrays, network, sizes, place)
        return cls(network, sizes, flat, features, task, facts, Path(folder))


def find_folder(folder: str | Path) -> Path:
    """Return the folder of an agent, or of one that comes with the package; an error says what is missing.

    The prefix of policies, ``agent:``, is understood as well.
    """
    place = Path(str(folder).removeprefix("agent:"))
    if not place.is_dir() and len(place.parts) == 1 and (PACKAGED / place / FACTS).is_file():
        return PACKAGED / place
    if not (place / FACTS).is_file():
        if (place / CHECKPOINT).is_file():
            raise FormatError(
                place, "holds a training that has not ended; continue it with 'tracekit train … --resume'"
            )
        known = [path.name for path in sorted(PACKAGED.glob("*")) if (path / FACTS).is_file()]
        hint = f"packaged agents: {', '.join(known)}" if known else "make one with 'tracekit train'"
        raise FormatError(place, "is no agent: it has no agent.json" if place.is_dir() else "no such agent", hint=hint)
    return place


def _facts(place: Path) -> dict[str, Any]:
    try:
        facts = json.loads((place / FACTS).read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FormatError(place / FACTS, f"cannot be read: {error}") from None
    if not isinstance(facts, dict) or facts.pop("version", None) != VERSION:
        raise FormatError(place / FACTS, f"not the facts of an agent of version {VERSION}")
    return facts


def make_folder(folder: Path) -> None:
    """Make a folder for an agent, or say why it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made: {error.strerror}") from None


def shapes_of(network: str, sizes: tuple[int, ...]) -> list[tuple[str, int, int]]:
    """Return (name, in, out) of every layer, in the order of the flat weights."""
    found = [(f"layer{i}", wide, narrow) for i, (wide, narrow) in enumerate(pairwise(sizes))]
    if network == "attention":
        found[1:1] = [(name, sizes[1], sizes[1]) for name in ("query", "key", "value")]
    return found


def layers_of(network: str, sizes: tuple[int, ...], flat: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    """Cut the flat weights into named arrays: ``<layer>.weight`` (in, out) and ``<layer>.bias`` (out,)."""
    arrays, at = {}, 0
    for name, wide, narrow in shapes_of(network, sizes):
        arrays[f"{name}.weight"] = flat[at : at + wide * narrow].reshape(wide, narrow)
        arrays[f"{name}.bias"] = flat[at + wide * narrow : at + (wide + 1) * narrow]
        at += (wide + 1) * narrow
    return arrays


def _flat(arrays: dict[str, NDArray[Any]], network: str, sizes: tuple[int, ...], place: Path) -> NDArray[np.float32]:
    """Put named arrays together again; shapes and numbers must be right."""
    parts: list[NDArray[np.float32]] = []
    for name, wide, narrow in shapes_of(network, sizes):
        for part, shape in ((f"{name}.weight", (wide, narrow)), (f"{name}.bias", (narrow,))):
            if part not in arrays or arrays[part].shape != shape:
                raise FormatError(place / WEIGHTS, f"{part} should have the shape {shape} that {FACTS} tells")
            parts.append(arrays[part].astype(np.float32).reshape(-1))
    flat = np.concatenate(parts)
    if len(flat) != weights_in(network, np.array(sizes)) or not np.isfinite(flat).all():
        raise FormatError(place / WEIGHTS, "holds numbers that are not finite, or too many")
    return flat
