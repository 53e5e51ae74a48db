"""From the tidy table of an experiment to verdict.json: which arms are compared, and the sentences about them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from evaluation.base import Score
from evaluation.experiment.build import AUGMENTED, BASELINE, MODEL, OTHER, REAL, SCARCE, UNTRAINED, GeneratorSpec
from evaluation.experiment.grid import Plan
from evaluation.experiment.heldout import check_load
from evaluation.experiment.predictors import predictors
from evaluation.experiment.results import finite, heuristic_scores, log_scores
from evaluation.experiment.verdict import Estimate, Floats, Verdict, bracket, estimate, failed, judge, percent
from evaluation.exposure import alarms
from evaluation.noise import Floor
from evaluation.score import badness

Logs = dict[int, dict[int, dict[str, Floats]]]  # sample -> agent's seed -> load -> (windows,)

#: What is said of a model that is added to scarce real jobs.
_HELP = {"better": "helps", "worse": "hurts", "equivalent": "no difference"}


class Judge:
    """Compares every arm with the agents trained on real jobs."""

    def __init__(self, frame: pd.DataFrame, plan: Plan, failures: Sequence[Mapping[str, str]]) -> None:
        self.frame, self.plan, self.failures = frame, plan, failures
        self.logs: dict[tuple[str, str], Logs] = log_scores(frame, plan.verdict.judged)
        self.loads = list(dict.fromkeys(map(check_load, plan.windows.loads)))  # as the table has them
        self.differences: list[dict[str, Any]] = []  # rows for the tidy table

    def differences_of(self, arm: str, model: str, base: str, loads: Sequence[str]) -> Floats | None:
        """Return log scores minus those of the base arm, (samples, seeds, windows), means over loads.

        Only what is whole counts: seeds that the base has, and samples with all of them.
        """
        ours, theirs = self.logs.get((arm, model), {}), self.logs.get((base, ""), {}).get(0, {})
        if not theirs:
            return None
        whole = [agents for agents in ours.values() if set(theirs) <= set(agents)]
        if not whole:
            return None

        def mean(logs: Mapping[str, Floats]) -> Floats:
            return np.asarray(np.mean([logs[load] for load in loads], axis=0))

        return np.array([[mean(agents[a]) - mean(theirs[a]) for a in sorted(theirs)] for agents in whole])

    def compare(self, arm: str, model: str, name: str, *, base: str = REAL, against: str = "") -> Verdict:
        """Return the verdict on one arm."""
        rules = self.plan.verdict
        pooled = self.differences_of(arm, model, base, self.loads)
        if pooled is None:
            return failed(name, self._reason(arm, model, base))
        said = {"against": against} if against else {}
        verdict = judge(name, self._estimate(pooled), margin=rules.margin, alpha=rules.alpha, **said)
        by_load = []
        for load in self.loads:
            part = self.differences_of(arm, model, base, [load])
            if part is None:
                continue
            one = judge(name, self._estimate(part), margin=rules.margin, alpha=rules.alpha)
            by_load.append({"load": load, **{k: getattr(one, k) for k in ("verdict", "difference", "low", "high")}})
            for window, value in enumerate(part.mean(axis=(0, 1))):
                place = {"arm": arm, "model": model, "load": load, "window": window}
                self.differences.append({"kind": "difference", **place, "key": rules.judged, "value": value})
        planned = len(self.logs.get((arm, model), {}))
        lost = max(self._samples(arm, model), planned) - len(pooled)
        facts = verdict.facts | {"by_load": by_load, "samples_lost": lost}
        but = "; ".join(self._reservations(arm, model, base, pooled.shape, lost))
        return dataclasses.replace(verdict, sentence=verdict.sentence + (f" ({but})" if but else ""), facts=facts)

    def _reservations(self, arm: str, model: str, base: str, shape: tuple[int, ...], lost: int) -> Iterator[str]:
        """Return caveats for the sentence: what is missing, and what could not vary."""
        samples, seeds, _ = shape
        if lost:
            yield f"{lost} of its samples failed"
        if seeds < self.plan.agents.seeds:
            yield f"{self.plan.agents.seeds - seeds} of the {self.plan.agents.seeds} agents to compare with failed"
        if seeds == 1:
            yield "one agent a trace: others may differ"
        if samples == 1 and self._samples(arm, model) == 1 and self._is_drawn(arm, model):
            yield "one sample: others may differ"
        yield from self._notes(arm, model, "its agents")
        yield from self._notes(base, "", "the agents to compare with")

    def _notes(self, arm: str, model: str, who: str) -> Iterator[str]:
        """Return the learners' notes about their agents, with counts."""
        rows = self.frame[(self.frame["kind"] == "agent") & (self.frame["arm"] == arm) & (self.frame["model"] == model)]
        agents = rows.fillna({"seed": 0}).groupby(["seed", "agent_seed"])["note"].first()
        for note, count in agents[agents != ""].value_counts().items():
            yield f"{count} of {who}: {note}" if count < len(agents) else f"{who}: {note}"

    def heuristics(self) -> list[dict[str, Any]]:
        """Return what every heuristic reaches on the same windows, and how agents trained on real jobs compare."""
        theirs = self.logs.get((REAL, ""), {}).get(0, {})
        found = []
        for policy, logs in heuristic_scores(self.frame, self.plan.verdict.judged).items():
            ours = np.mean([logs[load] for load in self.loads], axis=0)
            row: dict[str, Any] = {"policy": policy, "mean": float(np.exp(ours).mean())}
            if theirs:
                gaps = np.array([[ours - np.mean([a[load] for load in self.loads], axis=0) for a in theirs.values()]])
                made = self._estimate(gaps)
                low, high = made.interval(self.plan.verdict.alpha)
                values = zip(("difference", "low", "high"), (made.value, low, high), strict=True)
                row |= {name: math.expm1(value) for name, value in values}
            found.append(row)
        return sorted(found, key=lambda row: float(row["mean"]))

    def _estimate(self, differences: Floats) -> Estimate:
        return estimate(differences, draws=self.plan.verdict.draws, seed=self.plan.seed)

    def _samples(self, arm: str, model: str) -> int:
        if not self._is_drawn(arm, model):
            return len(self.plan.models.traces.get(model, ())) or 1
        return self.plan.models.samples

    def _is_drawn(self, arm: str, model: str) -> bool:
        """Return whether a generator made the jobs, so that samples vary; a given trace is fixed."""
        return arm in (MODEL, BASELINE, AUGMENTED) and model not in self.plan.models.traces

    def _reason(self, arm: str, model: str, base: str) -> str:
        for wanted in ((arm, model), (base, "")):
            for failure in self.failures:
                if (failure["arm"], failure["model"]) == wanted:
                    return failure["reason"]
        return "no agent was evaluated"


def verdicts(
    frame: pd.DataFrame, plan: Plan, specs: Sequence[GeneratorSpec], failures: Sequence[Mapping[str, str]], real: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return verdict.json as plain values, and the rows of paired differences for the tidy table."""
    judge_ = Judge(frame, plan, failures)
    scores = scores_by_model(frame)
    floors = _floors(frame)
    found: dict[str, list[dict[str, Any]]] = {"verdicts": [], "baselines": [], "arms": [], "scarce": []}
    differences: dict[str, float] = {}
    open_ = 0
    untrained, beside = judge_.compare(UNTRAINED, "", UNTRAINED), judge_.heuristics()
    noticed = sensitivity(untrained, beside, plan.verdict.margin)
    for spec in specs:
        verdict = judge_.compare(BASELINE if spec.baseline else MODEL, spec.name, spec.name)
        if verdict.verdict == "equivalent" and noticed["sensitive"] is False:
            verdict = dataclasses.replace(verdict, sentence=f"{verdict.sentence}; but a bad trace would not be noticed")
        own = scores.get(spec.name, {})
        extra = {
            "flags": [f"privacy: {alarm}" for alarm in alarms(own)],
            "fidelity": within_noise(own, floors),
            "copies": spec.copies,
        }
        found["baselines" if spec.baseline else "verdicts"].append(verdict.to_dict() | extra)
        if verdict.verdict != "failed":
            differences[spec.name] = verdict.difference
            open_ += verdict.verdict == "undecided"
    arms = {arm for arm, _ in judge_.logs} | {failure["arm"] for failure in failures}
    found["arms"].append(untrained.to_dict())
    if OTHER in arms:
        found["arms"].append(judge_.compare(OTHER, "", OTHER).to_dict())
    if SCARCE in arms:
        found["arms"].append(judge_.compare(SCARCE, "", SCARCE).to_dict())
        against = "agents trained on the scarce real jobs alone"
        for model in dict.fromkeys(m for arm, m in [*judge_.logs, *_failed_arms(failures)] if arm == AUGMENTED):
            verdict = judge_.compare(AUGMENTED, model, model, base=SCARCE, against=against)
            plain = verdict.to_dict()
            found["scarce"].append(plain | {"verdict": _HELP.get(verdict.verdict, verdict.verdict)})
    rows, note = predictors(_badness(scores), differences, seed=plan.seed)
    if rows and open_:
        note += f"; {open_} of the {len(differences)} differences are undecided, and so is their order"
    return {
        "real": real,
        "margin": plan.verdict.margin,
        "metric": plan.verdict.judged,
        "alpha": plan.verdict.alpha,
        "confidence": 1 - 2 * plan.verdict.alpha,
        "learner": plan.agents.learner,
        **found,
        "heuristics": beside,
        "sensitivity": noticed,
        "predictors": rows,
        "predictors_note": note,
    }, judge_.differences


def _failed_arms(failures: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
    return [(failure["arm"], failure["model"]) for failure in failures]


def sensitivity(untrained: Verdict, heuristics: Sequence[Mapping[str, Any]], margin: float) -> dict[str, Any]:
    """Return whether this experiment could notice a bad training trace at all: an untrained agent must score worse.

    The assay sensitivity of equivalence trials (ICH E10): where even choosing jobs at random, or an agent that has
    learnt nothing, is equivalent, so is everything.
    """
    known: dict[str, Mapping[str, Any]] = {}
    for row in heuristics:
        if row["policy"] == "random" and "low" in row:
            known["jobs in random order"] = row
    if untrained.verdict != "failed":
        known["agents that learnt nothing"] = untrained.to_dict()
    if not known:
        return {"sensitive": None, "sentence": f"unknown: agents without training: {untrained.sentence}"}
    said = "; ".join(
        f"{who}: {percent(row['difference'])} {bracket(row['low'], row['high'])}" for who, row in known.items()
    )
    if any(row["low"] > margin for row in known.values()):
        return {"sensitive": True, "sentence": f"yes ({said})"}
    return {
        "sensitive": False,
        "sentence": f"no ({said}): not clearly beyond the margin of ±{margin * 100:g} %, so that an equivalence says "
        "little about the jobs",
    }


def scores_by_model(frame: pd.DataFrame) -> dict[str, dict[str, Score]]:
    """Return every model's scores, means over its samples."""
    found: dict[str, dict[str, Score]] = {}
    chosen = frame[(frame["kind"] == "score") & frame["value"].notna()]
    for (model, key), part in chosen.groupby(["model", "key"], sort=False):
        means = part[["value", "real", "low", "high"]].mean()
        better: Any = str(part["better"].iloc[0])
        found.setdefault(str(model), {})[str(key)] = Score(
            float(means["value"]), better, float(means["real"]), float(means["low"]), float(means["high"])
        )
    return found


def _floors(frame: pd.DataFrame) -> dict[str, Floor]:
    rows = frame[frame["kind"] == "floor"]
    columns = zip(rows["key"], rows["value"], rows["low"], rows["high"], strict=True)
    return {str(key): Floor(float(value), float(low), float(high)) for key, value, low, high in columns}


def within_noise(scores: Mapping[str, Score], floors: Mapping[str, Floor]) -> dict[str, list[int]]:
    """Return for each group of keys how many scores are within the noise floor, and of how many."""
    found: dict[str, list[int]] = {}
    for key, score in scores.items():
        held = floors[key].holds(score) if key in floors else None
        if held is not None:
            counts = found.setdefault(key.partition(".")[0], [0, 0])
            counts[0] += int(held)
            counts[1] += 1
    return found


def _badness(scores: Mapping[str, Mapping[str, Score]]) -> dict[str, dict[str, float]]:
    return {
        model: {key: value for key, score in own.items() if finite(value := badness(key, score)) is not None}
        for model, own in scores.items()
    }
