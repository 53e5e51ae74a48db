"""An experiment that is ready to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evaluation.experiment.build import GeneratorSpec, Grid
from evaluation.experiment.grid import Plan
from evaluation.experiment.parts import Parts
from evaluation.experiment.tasks import Input, Store, digest
from evaluation.experiment.uses import Use
from tracekit.trace import Trace


@dataclass(frozen=True)
class Study:
    """An experiment that is ready to run: every task is known, none has been done for it yet."""

    plan: Plan
    real: Trace
    name: str
    parts: Parts
    specs: list[GeneratorSpec]
    uses: list[Use]
    windows: Mapping[str, Any]
    data: Mapping[str, Input]
    grid: Grid
    store: Store
    facts: Mapping[str, Any]  # what experiment.json says of the trace and its parts

    def without_traces(self) -> Study:
        """Return the study without its jobs, which are in files: tasks, verdicts and reports do not need them here."""
        empty = {name: part.head(0) for name, part in self.parts.items()}
        return replace(self, real=self.real.head(0), parts=Parts(**empty))

    @property
    def identity(self) -> str:
        """Return a hash of the plan and data; code and engine are not part of it."""
        paths = {"real": {"path": ""}, "other": {"path": ""}}
        plain = self.plan.to_dict()
        plain = {key: value | paths.get(key, {}) if isinstance(value, dict) else value for key, value in plain.items()}
        plain["models"] = plain["models"] | {"traces": sorted(self.plan.models.traces)}
        return digest([plain, {name: i.digest for name, i in self.data.items()}])
