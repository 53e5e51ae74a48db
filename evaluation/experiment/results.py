"""The tidy table of an experiment: one row a number, for people's own plots.

Rows and their order depend on plan, data and seed alone; only those of kind ``cost`` differ between two runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from evaluation.experiment.build import Agent, Grid
from evaluation.experiment.grid import OWN_METRICS
from evaluation.experiment.heldout import MEASURED
from evaluation.experiment.tasks import Result, Store
from tracekit.errors import FormatError, loads

KINDS = ("score", "floor", "agent", "heuristic", "difference", "curve", "cost")
COLUMNS: dict[str, str] = {
    "kind": "string",
    "learner": "string",
    "arm": "string",
    "model": "string",
    "seed": "Int64",
    "agent_seed": "Int64",
    "load": "string",
    "window": "Int64",
    "key": "string",
    "value": "float64",
    "real": "float64",
    "low": "float64",
    "high": "float64",
    "better": "string",
    "note": "string",
}
#: The arm of heuristics on windows of the training jobs.
EARLIER = "earlier"
_SORTED = ("kind", "learner", "arm", "model", "seed", "agent_seed", "load", "window", "key")
_HIGHER = ("utilization",)


def table_of(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as the tidy table; what a row does not say is empty, NA or NaN."""
    frame = pd.DataFrame(list(rows), columns=list(COLUMNS))
    for name, kind in COLUMNS.items():
        if kind == "string":
            frame[name] = frame[name].astype("string").fillna("")
    frame = frame.astype(COLUMNS)
    frame["kind"] = pd.Categorical(frame["kind"], KINDS)
    frame = frame.sort_values(list(_SORTED), kind="stable", na_position="first").reset_index(drop=True)
    return frame.assign(kind=frame["kind"].astype("string"))


@loads("a table of an experiment")
def read(path: Path) -> pd.DataFrame:
    """Read a run's table."""
    try:
        frame = pd.read_parquet(path)
        if "learner" not in frame.columns:  # written by version 0.1, which had one learner to a run
            frame = frame.assign(learner="")
        return frame.astype(COLUMNS)
    except FileNotFoundError:
        raise FormatError(path, "no such file", hint="give the folder of a finished tracekit experiment") from None
    except (OSError, ValueError, KeyError) as error:
        raise FormatError(path, f"is not the table of an experiment: {error}") from None


def collected(grid: Grid, store: Store, results: Mapping[str, Result]) -> list[dict[str, Any]]:
    """Return the rows of everything that came out of the tasks."""
    rows: list[dict[str, Any]] = []
    for model, task in grid.scores.items():
        if results[task.key].ok:
            rows += _scores(model, _json(store.place(task.key) / "score.json"))
    for agent in grid.agents:
        if results[agent.evaluate.key].ok:
            rows += _agent(agent, _json(store.place(agent.evaluate.key) / "windows.json"))
    beside = grid.heuristics
    if beside is not None and results[beside.key].ok:
        for arm, file in (("", "windows.json"), (EARLIER, "earlier.json")):
            for policy, windows in _json(store.place(beside.key) / file).items():
                for window in windows:
                    rows += _measured({"kind": "heuristic", "arm": arm, "model": policy}, window)
    for each in grid.tasks():
        result = results[each.key]
        about = {name: each.about.get(name) for name in ("learner", "arm", "model", "seed", "agent_seed")}
        note = each.kind if result.ok else f"{each.kind}: {result.reason}"
        for key in ("cpu_s", "wall_s", "peak_mb"):
            rows.append({"kind": "cost", **about, "key": key, "value": getattr(result, key), "note": note})
    return rows


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _scores(model: str, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for seed, scored in enumerate(found["synthetic"]):
        for key, score in scored["scores"].items():
            numbers = {name: _number(score[name]) for name in ("value", "real", "low", "high")}
            about = {"better": score["better"], "note": score["note"]}
            rows.append({"kind": "score", "model": model, "seed": seed, "key": key, **numbers, **about})
    for key, floor in found["noise_floor"].items():
        numbers = {name: _number(floor[name]) for name in ("value", "low", "high")}
        rows.append({"kind": "floor", "key": key, **numbers, "note": floor["note"]})
    return rows


def _agent(agent: Agent, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    about = {name: getattr(agent, name) for name in ("learner", "arm", "model", "seed", "agent_seed")}
    rows: list[dict[str, Any]] = []
    for window in found["windows"]:
        rows += _measured({"kind": "agent", **about, "note": found.get("note", "")}, window)
    for step, key, value in found["curve"]:
        rows.append({"kind": "curve", **about, "window": step, "key": key, "value": _number(value)})
    return rows


def _measured(about: Mapping[str, Any], window: Mapping[str, Any]) -> list[dict[str, Any]]:
    place = {"load": window["load"], "window": window["window"]}
    return [
        {**about, **place, "key": key, "value": _number(window[key]), "better": "higher" if key in _HIGHER else "lower"}
        for key in (*MEASURED, *OWN_METRICS)
        if key in window
    ]


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def log_scores(
    frame: pd.DataFrame, learner: str, metric: str
) -> dict[tuple[str, str], dict[int, dict[int, dict[str, np.ndarray]]]]:
    """Return the log scores of a learner's agents: (arm, model) → sample → agent's seed → load → (windows,).

    A score of 0 (no job waited) counts as the smallest positive one would: 1 second; slowdowns are never below 1.
    """
    found: dict[tuple[str, str], dict[int, dict[int, dict[str, np.ndarray]]]] = {}
    chosen = frame[(frame["kind"] == "agent") & (frame["learner"] == learner) & (frame["key"] == metric)]
    by = ["arm", "model", "seed", "agent_seed", "load"]
    for group, part in chosen.fillna({"seed": 0}).groupby(by, sort=True):
        arm, model, seed, agent, load = map(str, cast("tuple[Any, ...]", group))
        logs = logs_of(part.sort_values("window")["value"])
        found.setdefault((arm, model), {}).setdefault(int(seed), {}).setdefault(int(agent), {})[load] = logs
    return found


def heuristic_scores(frame: pd.DataFrame, metric: str, arm: str = "") -> dict[str, dict[str, np.ndarray]]:
    """Return the heuristics' log scores: policy → load → (windows,); ``arm`` `EARLIER`: on the training jobs."""
    chosen = frame[(frame["kind"] == "heuristic") & (frame["arm"] == arm) & (frame["key"] == metric)]
    found: dict[str, dict[str, np.ndarray]] = {}
    for (policy, load), part in chosen.groupby(["model", "load"], sort=True):
        logs = logs_of(part.sort_values("window")["value"])
        found.setdefault(str(policy), {})[str(load)] = logs
    return found


def logs_of(values: pd.Series) -> np.ndarray:
    """Return the logarithms that differences are taken of; below 1 (no wait at all) counts as 1."""
    return np.asarray(np.log(np.maximum(values.to_numpy(), 1.0)))


def by_window(rows: Sequence[Mapping[str, Any]], metric: str, loads: Sequence[str] = ("real",)) -> np.ndarray:
    """Return the mean logarithm of every window over the loads, (windows,), of what an agent or a policy reached."""
    frame = pd.DataFrame([row for row in rows if row["load"] in loads])
    return np.asarray(frame.assign(log=logs_of(frame[metric])).groupby("window")["log"].mean().to_numpy())


def finite(value: float) -> float | None:
    """Return None for what JSON cannot hold."""
    return value if math.isfinite(value) else None
