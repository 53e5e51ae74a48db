"""What is written down of a run: experiment.json, which holds all that was decided, and how both files are read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evaluation.experiment import results as tidy
from evaluation.experiment.build import Grid
from evaluation.experiment.grid import Plan
from evaluation.experiment.parts import Parts
from evaluation.experiment.prepared import Study
from evaluation.experiment.tasks import Result, file_digest
from tracekit.errors import FormatError, loads
from tracekit.trace import Trace
from tracekit.units import left_out

ABOUT, TABLE, VERDICT, REPORT = "experiment.json", "results.parquet", "verdict.json", "report.html"


def failed_tasks(grid: Grid, results: Mapping[str, Result]) -> list[dict[str, str]]:
    """Return what went wrong, the cause before its consequences."""
    return [
        {
            "learner": str(task.about.get("learner", "")),
            "arm": str(task.about.get("arm", "")),
            "model": str(task.about.get("model", "")),
            "task": task.label,
            "reason": results[task.key].reason,
        }
        for task in grid.tasks()
        if not results[task.key].ok
    ]


def facts_of(plan: Plan, name: str, real: Trace, parts: Parts) -> dict[str, Any]:
    """Return what experiment.json says of the real trace and its parts."""
    path = Path(plan.real.path) if plan.real.path else None
    return {
        "real": {
            "name": name,
            "path": path.name if path else "",
            "sha256": file_digest(path) if path and path.is_file() else "",
            "jobs": len(real),
            "machine": real.machine.replace(header=None).to_dict(),
            "unit": real.machine.unit,
            "left_out": left_out(real),
            "offered_load": tidy.finite(real.offered_load()),
        },
        "parts": {
            name: {
                "jobs": len(part),
                "first_submit": float(part.column("submit_time").min()),
                "last_submit": float(part.column("submit_time").max()),
            }
            for name, part in parts.items()
        },
    }


def about(study: Study, engine: str, results: Mapping[str, Result], command: str) -> dict[str, Any]:
    """Return experiment.json: all that was decided, where the files are, and what failed."""
    from evaluation.report.content import versions

    grid = study.grid
    done = {key for key, result in results.items() if result.ok}
    agents: dict[str, list[str]] = {}
    for agent in grid.agents:
        if agent.train.key in done:
            label = " ".join(filter(None, [agent.learner, agent.arm, agent.model]))
            agents.setdefault(label, []).append(f"tasks/{agent.train.key}/agent")
    return {
        "identity": study.identity,
        "command": command,
        **study.facts,
        "beside": [
            {"name": name, "path": Path(file).name, "sha256": file_digest(Path(file)) if Path(file).is_file() else ""}
            for name, file in _beside(study.plan)
        ],
        "plan": study.plan.to_dict(),
        "models": [{"name": m.name, "baseline": m.baseline, "copies": m.copies, **m.facts} for m in study.specs],
        "windows": [
            {"window": k, "start": start, "jobs": study.windows["jobs"]}
            for k, start in enumerate(study.windows["starts"])
        ],
        "loads": study.windows["loads"],
        "versions": versions(),
        "seed": study.plan.seed,
        "engine": engine,
        "files": {
            "traces": {
                model: [i.path for i in inputs if not i.task or i.task in done]
                for model, inputs in grid.samples.items()
            },
            "scores": {
                name: f"tasks/{task.key}/score.json"
                for model, task in grid.scores.items()
                for name in (model, *(["noise_floor"] if task.params["floor"] else []))
                if task.key in done
            },
            "agents": agents,
        },
        "failures": failed_tasks(grid, results) if results else [],
    }


def _beside(plan: Plan) -> Iterator[tuple[str, str]]:
    """Return the files that a plan names beside the real trace, each with its role."""
    if plan.other.path:
        yield "other", plan.other.path
    for name, files in plan.models.traces.items():
        yield from ((name, file) for file in files)


def text_of(data: Any) -> str:
    """Return plain values as JSON; what JSON cannot hold is null."""
    return encodable(json.dumps(_plain(data), indent=1, ensure_ascii=False, allow_nan=False)) + "\n"


def encodable(text: str) -> str:
    """Return a text with question marks for the bytes of file names that are no UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _plain(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(value) for value in data]
    data = data.item() if hasattr(data, "item") else data
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _object(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise FormatError(path, "is not a JSON object")
    return found


@loads("a finished experiment")
def read_run(folder: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return experiment.json and verdict.json of a finished run."""
    found = []
    for name in (ABOUT, VERDICT):
        try:
            found.append(_object(Path(folder) / name))
        except OSError:
            raise FormatError(folder, "is not a finished experiment", hint=f"{name} is missing") from None
        except ValueError as error:
            raise FormatError(Path(folder) / name, f"not valid JSON: {error}") from None
    return found[0], found[1]
