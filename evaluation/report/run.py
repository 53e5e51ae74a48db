"""What the report shows of a finished experiment, read from the files that the run left in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from evaluation.experiment.build import HALF
from evaluation.report.content import Content, Input
from evaluation.score import Scored, Scores
from tracekit.errors import FormatError, TracekitError, loads
from tracekit.trace import Trace

ABOUT, VERDICT, TABLE = "experiment.json", "verdict.json", "results.parquet"


def is_run(folder: str | Path) -> bool:
    """Return whether a folder holds the plan of an experiment."""
    return (Path(folder) / ABOUT).is_file()


@loads("a finished experiment")
def content_of(folder: str | Path) -> Content:
    """Return the content of a report about a run.

    The first sample of every model is drawn and shown in the tables of scores; the verdicts rest on all of them.
    """
    folder = Path(folder)
    about, verdict = _read(folder / ABOUT), _read(folder / VERDICT)
    if not (folder / TABLE).is_file():
        raise FormatError(folder / TABLE, "no such file: the experiment has not finished")
    if "verdicts" in verdict and "headline" not in verdict:
        raise FormatError(
            folder / VERDICT, "an experiment of an earlier version; run it again with --force to draw its report"
        )
    frame = pd.read_parquet(folder / TABLE)
    try:
        return _content(folder, about, verdict, frame)
    except (KeyError, TypeError, IndexError) as error:
        raise FormatError(
            folder, f"is not the folder of a finished experiment: {type(error).__name__} {error}"
        ) from None


def _content(folder: Path, about: Mapping[str, Any], verdict: Mapping[str, Any], frame: pd.DataFrame) -> Content:
    scores = _scores(folder, about)
    drawn = next((use for use in verdict["learners"] if use["heuristics"]), verdict["learners"][0])
    metric = drawn["metric"]
    real = about["real"]
    named = real.get("machine", {}).get("name") or real["name"]
    heuristics = frame[(frame["kind"] == "heuristic") & (frame["arm"] == "") & (frame["key"] == metric)]
    agents = frame[(frame["kind"] == "agent") & (frame["learner"] == drawn["learner"]) & (frame["key"] == metric)]
    agents = agents[agents["arm"] != HALF]
    return Content(
        real=Trace.load(folder / "data" / "train.parquet"),
        synthetic={one.name: Trace.load(folder / about["files"]["traces"][one.name][0]) for one in scores.synthetic},
        scores=scores,
        title=f"Is synthetic as good as {named}, and for what?",
        command=about.get("command", ""),
        verdicts=verdict["verdicts"],
        others=[*verdict["baselines"], *_damaged(verdict["controls"]), *verdict["arms"]],
        scarce=verdict["scarce"],
        uses=verdict["learners"],
        headline=verdict["headline"],
        conclusion=verdict["conclusion"],
        metric=metric,
        learning=_curves(
            frame[frame["learner"].isin([u["learner"] for u in verdict["learners"] if u["metric"] == metric])]
        ),
        windows=_arms(agents)[["arm", "seed", "load", "window", "value"]],
        heuristics=heuristics.rename(columns={"model": "policy"})[["policy", "load", "window", "value"]],
        trust=pd.DataFrame(drawn["predictors"], columns=["key", "rho", "low", "high", "n"]).astype(
            {"rho": "float64", "low": "float64", "high": "float64"}
        ),
        trust_note=f"{drawn['use']}: {drawn['predictors_note']}",
        costs=_costs(frame),
        failures=_failures(about),
        notes=_notes(about, verdict),
        inputs=[
            Input(real.get("path") or real["name"], real.get("sha256") or "", real["jobs"]),
            *(Input(f"{one['name']}: {one['path']}", one["sha256"]) for one in about.get("beside", ())),
        ],
        seeds={"experiment": about["seed"], "samples a model": _samples(about), **_agent_seeds(about)},
        versions=about["versions"],
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        reason = "no such file: " + (
            "give the folder of an experiment" if path.name == ABOUT else "the experiment has not finished"
        )
        raise FormatError(path, reason) from None
    except ValueError as error:
        raise FormatError(path, f"not valid JSON: {error}") from None


def _scores(folder: Path, about: Mapping[str, Any]) -> Scores:
    """Return the first sample of every model in one table, the baselines beside them and the noise floor."""
    shown: list[Scored] = []
    trivial: list[Scored] = []
    files = about["files"]["scores"]
    found = {
        m["name"]: Scores.from_dict(_read(folder / files[m["name"]])) for m in about["models"] if m["name"] in files
    }
    if not found:
        raise TracekitError(f"{folder}: no model produced a trace that could be scored; see {VERDICT}")
    floor = Scores.from_dict(_read(folder / files["noise_floor"])) if "noise_floor" in files else None
    floor = floor or next((one for one in found.values() if one.noise_floor), None)
    family: dict[str, str] = {}
    for model in about["models"]:
        if model["name"] in found:
            one = found[model["name"]]
            family |= one.family
            first = Scored(model["name"], one.synthetic[0].jobs, one.synthetic[0].scores)
            (trivial if model.get("baseline") else shown).append(first)
    if not shown:
        shown, trivial = trivial, []
    any_one = next(iter(found.values()))
    switches = floor.switches if floor is not None else any_one.switches
    for scored in (*shown, *trivial):  # scores that only another model has are listed as missing, with a note
        scored.scores.update({key: _missing() for key in family if key not in scored.scores})
    floors = floor.noise_floor if floor is not None else {}
    return Scores(any_one.real, any_one.real_jobs, shown, trivial, floors, family, switches)


def _missing() -> Any:
    from evaluation.base import absent

    return absent("cannot be computed for this trace")


def _damaged(controls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "model": f"damaged: {row['model']}"} for row in controls]


def _arms(rows: pd.DataFrame) -> pd.DataFrame:
    """Name every arm by its model, or by what it is, and every agent by sample and seed."""
    scarce = rows["arm"].str.startswith("scarce") & (rows["model"] != "")
    named = rows["arm"].isin(["model", "baseline", ""]) & (rows["model"] != "")
    arm = rows["arm"].where(~named, rows["model"]).where(~scarce, "scarce + " + rows["model"])
    arm = arm.where(rows["arm"] != "control", "damaged: " + rows["model"])
    seed = rows["seed"].astype("string").fillna("0") + "." + rows["agent_seed"].astype("string").fillna("0")
    return rows.assign(arm=arm, seed=seed)


def _curves(frame: pd.DataFrame) -> pd.DataFrame:
    curves = _arms(frame[(frame["kind"] == "curve") & (frame["key"] == "score") & (frame["arm"] != HALF)])
    made = curves.rename(columns={"window": "step", "value": "score"})[["arm", "seed", "step", "score"]]
    return made.astype({"step": "float64", "score": "float64"})


def _costs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return CPU seconds by model, or what was trained on, and kind of task."""
    costs = _arms(frame[(frame["kind"] == "cost") & (frame["key"] == "cpu_s")])
    costs = costs.assign(step=costs["note"].astype(str).str.partition(":")[0])
    named = costs.assign(arm=costs["arm"].replace("", "all"))
    summed = named.groupby(["arm", "step"], sort=False)["value"].sum().reset_index()
    return summed.rename(columns={"arm": "model", "value": "seconds"})


def _failures(about: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return every cause once a model; its consequences come later in the list, with the same reason."""
    pairs = [
        (str(one.get("model") or one.get("arm") or one.get("task")), str(one["reason"])) for one in about["failures"]
    ]
    return [{"model": model, "reason": reason} for model, reason in dict.fromkeys(pairs)]


def _samples(about: Mapping[str, Any]) -> int:
    return max((len(paths) for paths in about["files"]["traces"].values()), default=0)


def _agent_seeds(about: Mapping[str, Any]) -> dict[str, Any]:
    seeds = about.get("plan", {}).get("agents", {}).get("seeds")
    return {} if seeds is None else {"agents a sample": seeds}


def _notes(about: Mapping[str, Any], verdict: Mapping[str, Any]) -> list[str]:
    windows, loads = about["windows"], ", ".join(map(str, about["loads"]))
    notes = []
    if windows:
        learners = ", ".join(use["learner"] for use in verdict["learners"])
        notes.append(
            f"agents ({learners}) were trained in the same way on every trace and judged on {len(windows)} held-out "
            f"windows of {windows[0]['jobs']} jobs at these offered loads: {loads}"
        )
    return notes
