"""A predictor is a folder: trees.safetensors and agent.json. Loading it runs no code."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError, TracekitError, loads
from tracekit.files import read_json, write_text
from tracekit.folders import writing_folder
from tracekit.sim.predict import TASK
from tracekit.sim.predict.history import FEATURES
from tracekit.sim.predict.index import USUAL, Form
from tracekit.sim.predict.trees import BOUND, Forest, checked, evaluated

Floats = NDArray[np.float64]

TREES, FACTS = "trees.safetensors", "agent.json"
#: The folder of a predictor inside that of an agent that goes by its predictions.
PREDICTOR = "predictor"
#: Of the folder's layout.
VERSION = 2
#: Every output is a logarithm: the expected ln run time, quantiles of the run time, its mean, and the mean of
#: 10 / max(run time, 10), which is what a second of waiting costs in bounded slowdown.
OUTPUTS = ("ln_mean", "q50", "q75", "q90", "expected", "weight")
#: What policy predicted-index goes by.
IN_INDEX = ("ln_mean", "expected", "weight")


@dataclass(frozen=True, eq=False)
class Predictor:
    """Trees that predict the run time of a job from what is known at its submit."""

    forest: Forest
    order: str = "q50"  # the output that orders go by
    backfill: str = "ln_mean"  # the output that backfilling goes by
    index: Form = USUAL  # of policy predicted-index
    facts: dict[str, Any] = field(default_factory=dict)  # seed, trace, settings, errors, versions
    folder: Path | None = None

    @property
    def use(self) -> tuple[str, str]:
        """The outputs that orders and backfilling go by."""
        return self.order, self.backfill

    @property
    def outputs_in_use(self) -> NDArray[np.int64]:
        """The columns for orders, for backfilling, and those of IN_INDEX, (5,)."""
        return np.array([self.output(name) for name in (*self.use, *IN_INDEX)], np.int64)

    def output(self, name: str) -> int:
        """Return the column of an output."""
        return OUTPUTS.index(name)

    def seconds(self, rows: Floats, limit: Floats, name: str = "q50") -> Floats:
        """Return predicted run times, (jobs,), for rows of features; at most the limits (NaN = none), at least 1."""
        return self.outputs(rows, limit)[:, self.output(name)]

    def outputs(self, rows: Floats, limit: Floats) -> Floats:
        """Return every output, (jobs, OUTPUTS): seconds as `seconds` gives them, and the weight.

        A weight is at most 1, and at least that of a job that runs to its limit.
        """
        made = np.exp(evaluated(self.forest, rows))
        most = np.where(limit > 0, np.maximum(limit, 1.0), np.nan)
        least = np.where(np.isnan(most), 0.0, BOUND / np.fmax(most, BOUND))
        found = np.fmin(np.maximum(made, 1.0), most[:, None])
        weight = OUTPUTS.index("weight")
        found[:, weight] = np.minimum(np.maximum(made[:, weight], least), 1.0)
        return found

    def save(self, folder: str | Path, *, force: bool = False) -> None:
        """Write the trees and the facts into a folder, both or neither."""
        from safetensors.numpy import save

        facts = {
            "version": VERSION,
            "task": {"name": TASK},
            "features": list(FEATURES),
            "outputs": list(OUTPUTS),
            "use": {"order": self.order, "backfill": self.backfill, **self.index._asdict()},
            **self.facts,
        }
        with writing_folder(Path(folder), ours=[TREES, FACTS], force=force) as made:
            (made / TREES).write_bytes(save(self.forest._asdict()))
            write_text(made / FACTS, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")

    @classmethod
    @loads("a predictor")
    def load(cls, folder: str | Path) -> Predictor:
        """Read a predictor's folder; ``agent:DIR`` is accepted too."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        place = Path(str(folder).removeprefix("agent:"))
        facts = facts_of(place)
        if facts is None:
            hint = f"make one with 'tracekit train --task {TASK}'"
            raise FormatError(place, "is not an agent that predicts run times", hint=hint)
        if facts.pop("version", None) != VERSION or facts.pop("features", None) != list(FEATURES):
            raise FormatError(place / FACTS, "was made by another version of tracekit; train it again")
        try:
            arrays = load((place / TREES).read_bytes())
            use = facts.pop("use")
            if facts.pop("outputs") != list(OUTPUTS) or not {use["order"], use["backfill"]} <= set(OUTPUTS):
                raise ValueError("outputs")
            forest = checked(arrays, len(FEATURES))
            use = {"share": USUAL.share} | use  # predictors of earlier versions have none
            index = Form(*(float(use[name]) for name in Form._fields))
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, TracekitError) as error:
            raise FormatError(place, f"is damaged: {error}") from None
        if len(forest.base) != len(OUTPUTS) or not np.isfinite(index).all():
            raise FormatError(place, "is damaged: other outputs than stated")
        return cls(forest, use["order"], use["backfill"], index, facts, place)


def facts_of(folder: str | Path) -> dict[str, Any] | None:
    """Return agent.json of a folder that holds a predictor; None for any other folder."""
    place = Path(str(folder).removeprefix("agent:")) / FACTS
    if not place.is_file():
        return None
    facts = read_json(place)
    task = facts.get("task") if isinstance(facts, dict) else None
    return facts if isinstance(task, dict) and task.get("name") == TASK else None
