"""An agent is a folder: weights.safetensors, agent.json, README.md (its card), log.jsonl.

It loads without torch and without running code.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError, UsageError, loads
from tracekit.files import read_json, write_text
from tracekit.folders import writing_folder
from tracekit.registry import imported
from tracekit.sim.agents.actor import Actor
from tracekit.sim.agents.card import CARD, card_text
from tracekit.sim.agents.config import NETWORKS
from tracekit.sim.agents.inference import KINDS, Layout, Net, layout_of
from tracekit.sim.predict import TASK as PREDICT_RUN_TIME
from tracekit.sim.predict.predictor import PREDICTOR, Predictor
from tracekit.sim.tasks.base import TASKS, task_from_dict

WEIGHTS, FACTS, LOG, CHECKPOINT = "weights.safetensors", "agent.json", "log.jsonl", "checkpoint.safetensors"
SETTINGS = "config.toml"  # of the training, for --config
#: Of the folder's layout; an agent of an unknown version is rejected. Version 1 (tracekit 0.1.0) had
#: one task and did not record its name.
VERSION, KNOWN_VERSIONS = 2, (1, 2)
#: Agents that come with the package.
PACKAGED = Path(__file__).resolve().parents[2] / "data" / "agents"


@dataclass(frozen=True, eq=False)
class Agent:
    """A trained network, the task that it was trained for, and its provenance."""

    network: str  # a name of `tracekit.sim.agents.config.NETWORKS`
    sizes: tuple[int, ...]  # widths from input to output; hidden widths of networks without a compiled forward pass
    flat: NDArray[np.float32]
    features: tuple[str, ...]  # what it sees of each row (of each job, for pick-job), by name
    task: dict[str, Any]  # `to_dict` of its task, with the task's name
    facts: dict[str, Any] = field(default_factory=dict)  # configuration, seed, trace, split, metrics, versions
    folder: Path | None = None
    layout: Layout = ()  # of the weights, where it does not follow from network and sizes

    @property
    def name(self) -> str:
        """The agent's name in tables."""
        return f"agent:{self.folder}" if self.folder is not None else "agent"

    def net(self) -> Net:
        """Return the network for `tracekit.sim.agents.inference`."""
        return Net(KINDS[self.network], np.array(self.sizes, np.int64), self.flat, len(self.features))

    def actor(self) -> Actor:
        """Return the decision maker: compiled where possible, else torch."""
        if not self.layout:
            return Actor(self.net())
        task = task_from_dict(self.task)
        hidden = self.sizes if self.network not in KINDS else self.sizes[1:-1]
        network = NETWORKS.get(self.network)(len(self.features), task.slots + 1, hidden)
        network.decide(task.actions_are)
        imported("tracekit.sim.agents.networks:load_flat")(network, self.flat)
        return Actor(None, network)

    # ---- files -------------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> Agent:
        """Write weights and facts into a folder, both or neither; other files in it, such as a checkpoint, stay."""
        from safetensors.numpy import save

        folder = Path(folder)
        weights = save(arrays_of(self.flat, self.layout or layout_of(self.network, self.sizes)))
        facts = {
            "version": VERSION,
            "network": self.network,
            "sizes": list(self.sizes),
            "features": list(self.features),
            "task": self.task | ({"predict": PREDICTOR} if self.task.get("predict") else {}),
            **({"layout": [[name, list(shape)] for name, shape in self.layout]} if self.layout else {}),
            **self.facts,
        }
        predictor = self.task.get("predict")
        if predictor and Path(predictor).resolve() != (folder / PREDICTOR).resolve():
            Predictor.load(predictor).save(folder / PREDICTOR, force=True)
        with writing_folder(folder, force=True) as made:
            (made / WEIGHTS).write_bytes(weights)
            write_text(made / FACTS, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
            write_text(made / CARD, card_text(facts))
        return dataclasses.replace(self, folder=folder)

    @classmethod
    @loads("an agent")
    def load(cls, folder: str | Path) -> Agent:
        """Read an agent's folder; ``default`` and other names refer to packaged agents."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        place = find_folder(folder)
        facts = _facts(place)
        if facts.get("task") == {"name": PREDICT_RUN_TIME}:
            raise FormatError(place, "predicts run times only; use it with 'tracekit simulate --predict agent:DIR'")
        try:
            network, sizes = facts.pop("network"), tuple(int(size) for size in facts.pop("sizes"))
            features, task = tuple(facts.pop("features")), {"name": "pick-job", **facts.pop("task")}
            layout = tuple((str(name), tuple(int(n) for n in shape)) for name, shape in facts.pop("layout", ()))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(place / FACTS, f"is incomplete: {error}") from None
        if network not in NETWORKS or (network not in KINDS and not layout):
            raise FormatError(place / FACTS, f"unknown network '{network}'")
        try:
            arrays = load((place / WEIGHTS).read_bytes())
        except FileNotFoundError:
            raise FormatError(place / WEIGHTS, "no such file; the agent is not complete") from None
        except (SafetensorError, OSError, ValueError) as error:
            raise FormatError(place / WEIGHTS, f"damaged: {error}") from None
        if task.get("predict"):  # in its own folder, wherever that is now
            task["predict"] = str(place / PREDICTOR)
            Predictor.load(task["predict"])
        if task["name"] in TASKS:  # others may be registered later
            _check_task(task, features, place)
        flat = _flat(arrays, layout or layout_of(network, sizes), place)
        return cls(network, sizes, flat, features, task, facts, Path(folder), layout)


def _check_task(task: dict[str, Any], features: tuple[str, ...], place: Path) -> None:
    """Refuse settings of a task that make no sense, or that show other features than the network was made for."""
    try:
        shown = tuple(task_from_dict(task).feature_names)
    except UsageError as error:
        raise FormatError(place / FACTS, f"task: {error}") from None
    if shown != features:
        raise FormatError(place / FACTS, "the features do not match those of the task")


def find_folder(folder: str | Path) -> Path:
    """Return the folder of an agent, or of one that comes with the package; the error names what is missing.

    The prefix ``agent:`` of policies is accepted too.
    """
    place = Path(str(folder).removeprefix("agent:"))
    if not place.is_dir() and len(place.parts) == 1 and (PACKAGED / place / FACTS).is_file():
        return PACKAGED / place
    if not (place / FACTS).is_file():
        if (place / CHECKPOINT).is_file():
            raise FormatError(place, "holds an unfinished training; continue it with 'tracekit train … --resume'")
        known = [path.name for path in sorted(PACKAGED.glob("*")) if (path / FACTS).is_file()]
        hint = f"packaged agents: {', '.join(known)}" if known else "make one with 'tracekit train'"
        raise FormatError(
            place, "is not an agent: agent.json is missing" if place.is_dir() else "no such agent", hint=hint
        )
    return place


def _facts(place: Path) -> dict[str, Any]:
    facts = read_json(place / FACTS)
    if not isinstance(facts, dict) or facts.pop("version", None) not in KNOWN_VERSIONS:
        raise FormatError(place / FACTS, f"is not an agent file of version {' or '.join(map(str, KNOWN_VERSIONS))}")
    return facts


def arrays_of(flat: NDArray[np.float32], layout: Layout) -> dict[str, NDArray[np.float32]]:
    """Cut the flat weights into named arrays."""
    arrays, at = {}, 0
    for name, shape in layout:
        count = math.prod(shape)
        arrays[name] = flat[at : at + count].reshape(shape)
        at += count
    return arrays


def _flat(arrays: dict[str, NDArray[Any]], layout: Layout, place: Path) -> NDArray[np.float32]:
    """Put named arrays together again; shapes and numbers must be right."""
    parts: list[NDArray[np.float32]] = []
    for name, shape in layout:
        if name not in arrays or arrays[name].shape != shape:
            raise FormatError(place / WEIGHTS, f"{name} must have the shape {shape}, as stated in {FACTS}")
        parts.append(arrays[name].astype(np.float32).reshape(-1))
    flat = np.concatenate(parts)
    if len(arrays) != len(layout) or not np.isfinite(flat).all():
        raise FormatError(place / WEIGHTS, "contains numbers that are not finite, or too many numbers")
    return flat
