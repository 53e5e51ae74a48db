"""From the tidy table of an experiment to verdict.json: which arms are compared, and the sentences about them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from evaluation.base import Score
from evaluation.experiment.build import (
    AUGMENTED,
    BASELINE,
    CONTROL,
    HALF,
    MODEL,
    OTHER,
    REAL,
    SCARCE,
    UNTRAINED,
    GeneratorSpec,
    units_at,
)
from evaluation.experiment.control import Controls
from evaluation.experiment.damage import DAMAGES
from evaluation.experiment.grid import OWN_METRICS, Plan
from evaluation.experiment.predictors import predictors
from evaluation.experiment.results import EARLIER, finite, heuristic_scores, log_scores
from evaluation.experiment.uses import Use, conclusion, headline
from evaluation.experiment.verdict import (
    Between,
    Estimate,
    Floats,
    Verdict,
    between_halves,
    bracket,
    estimate,
    failed,
    judge,
    percent,
    spent,
)
from evaluation.exposure import alarms
from evaluation.noise import Floor
from evaluation.score import badness

Logs = dict[int, dict[int, dict[str, Floats]]]  # sample -> agent's seed -> load -> (windows,)

#: Lists of rows in verdict.json, one row a use and a model or an arm.
KINDS_OF_ROWS = ("verdicts", "baselines", "controls", "arms", "scarce")
#: What is said of a model that is added to scarce real jobs.
_HELP = {"better": "helps", "worse": "hurts", "equivalent": "no difference"}


class Judge:
    """Compares every arm of one use with the agents trained on real jobs."""

    def __init__(
        self, frame: pd.DataFrame, plan: Plan, use: Use, failures: Sequence[Mapping[str, str]], look: int
    ) -> None:
        self.frame, self.plan, self.use, self.look = frame, plan, use, look
        self.failures = [failure for failure in failures if failure["learner"] in ("", use.learner)]
        self.logs: dict[tuple[str, str], Logs] = log_scores(frame, use.learner, use.metric)
        self.loads = list(use.loads)
        self.differences: list[dict[str, Any]] = []  # rows for the tidy table
        self.alpha = spent(plan.verdict.alpha, look, plan.verdict.looks)
        self.parts = self._between_parts()

    def _between_parts(self) -> Between | None:
        """Return how much real jobs differ among each other; None where no pair of halves came through."""
        sides = [self.logs.get((HALF, ""), {}).get(side, {}) for side in (0, 1)]
        pairs = sorted(set(sides[0]) & set(sides[1]))
        if not pairs:
            return None
        mean = self._mean
        gaps = [mean(sides[1][pair], self.loads) - mean(sides[0][pair], self.loads) for pair in pairs]
        return between_halves(np.array(gaps))

    @staticmethod
    def _mean(logs: Mapping[str, Floats], loads: Sequence[str]) -> Floats:
        return np.asarray(np.mean([logs[load] for load in loads], axis=0))

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
        mean = self._mean
        return np.array([[mean(agents[a], loads) - mean(theirs[a], loads) for a in sorted(theirs)] for agents in whole])

    def compare(self, arm: str, model: str, name: str, *, base: str = REAL, against: str = "") -> Verdict:
        """Return the verdict on one arm."""
        pooled = self.differences_of(arm, model, base, self.loads)
        if pooled is None:
            return failed(name, self._reason(arm, model, base))
        verdict = self._judge(name, pooled, self.loads, against)
        by_load = []
        for load in self.loads:
            part = self.differences_of(arm, model, base, [load])
            if part is None:
                continue
            one = self._judge(name, part, [load])
            by_load.append({"load": load, **{k: getattr(one, k) for k in ("verdict", "difference", "low", "high")}})
            for window, value in enumerate(part.mean(axis=(0, 1))):
                place = {"learner": self.use.learner, "arm": arm, "model": model, "load": load, "window": window}
                self.differences.append({"kind": "difference", **place, "key": self.use.metric, "value": value})
        planned = len(self.logs.get((arm, model), {}))
        lost = max(self._samples(arm, model), planned) - len(pooled)
        facts = verdict.facts | {"by_load": by_load, "samples_lost": lost, **self.use.facts()}
        but = "; ".join(self._reservations(arm, model, base, pooled.shape, lost))
        return dataclasses.replace(verdict, sentence=verdict.sentence + (f" ({but})" if but else ""), facts=facts)

    def _reservations(self, arm: str, model: str, base: str, shape: tuple[int, ...], lost: int) -> Iterator[str]:
        """Return caveats for the sentence: what is missing, and what could not vary."""
        samples, seeds, _ = shape
        if lost:
            yield f"{lost} of its samples failed"
        planned = units_at(self.look, self.plan.agents.seeds, self.plan.verdict.looks)
        if seeds < planned:
            yield f"{planned - seeds} of the {planned} agents to compare with failed"
        if seeds == 1:
            yield "one agent a trace: others may differ"
        if samples == 1 and self._samples(arm, model) == 1 and self._is_drawn(arm, model):
            yield "one sample: others may differ"
        yield from self._notes(arm, model, "its agents")
        yield from self._notes(base, "", "the agents to compare with")

    def _notes(self, arm: str, model: str, who: str) -> Iterator[str]:
        """Return the learners' notes about their agents, with counts."""
        own = (self.frame["kind"] == "agent") & (self.frame["learner"] == self.use.learner)
        rows = self.frame[own & (self.frame["arm"] == arm) & (self.frame["model"] == model)]
        agents = rows.fillna({"seed": 0}).groupby(["seed", "agent_seed"])["note"].first()
        for note, count in agents[agents != ""].value_counts().items():
            yield f"{count} of {who}: {note}" if count < len(agents) else f"{who}: {note}"

    def heuristics(self) -> list[dict[str, Any]]:
        """Return what every heuristic reaches on the same windows, and how agents trained on real jobs compare."""
        theirs = self.logs.get((REAL, ""), {}).get(0, {})
        found = []
        for policy, logs in heuristic_scores(self.frame, self.use.metric).items():
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

    def _judge(self, name: str, differences: Floats, loads: Sequence[str], against: str = "") -> Verdict:
        found = self._estimate(differences, self._controls(loads))
        said = {"against": against} if against else {}
        return judge(name, found, margin=self.use.margin, alpha=self.alpha, **said)

    def _estimate(self, differences: Floats, controls: Controls | None = None) -> Estimate:
        settings = self.plan.verdict
        return estimate(differences, draws=settings.draws, seed=self.plan.seed, controls=controls, parts=self.parts)

    def _controls(self, loads: Sequence[str]) -> Controls | None:
        """Return the heuristics' scores on the same windows, means over loads.

        None where they have no such metric, and where the held-out windows are a time of their own: then windows of the
        training jobs are no guide to them.
        """
        if not self.plan.split.interleave:
            return None
        sides = [heuristic_scores(self.frame, self.use.metric, arm) for arm in ("", EARLIER)]
        if not all(sides):
            return None
        inside, outside = (
            np.array([np.mean([logs[load] for load in loads], axis=0) for logs in side.values()]).T for side in sides
        )
        return Controls(inside, outside)

    def _samples(self, arm: str, model: str) -> int:
        if not self._is_drawn(arm, model):
            return len(self.plan.models.traces.get(model, ())) or 1
        return units_at(self.look, self.plan.models.samples, self.plan.verdict.looks)

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
    frame: pd.DataFrame,
    plan: Plan,
    specs: Sequence[GeneratorSpec],
    uses: Sequence[Use],
    failures: Sequence[Mapping[str, str]],
    real: str,
    *,
    looks: Mapping[str, int] | None = None,
    decided: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return verdict.json as plain values, and the rows of paired differences for the tidy table.

    ``looks``: how often each learner's verdicts have been looked at, this time included (default: as often as planned).
    ``decided``: rows of (learner, model) that an earlier look has settled; they stay as they are.
    """
    looks = looks or {use.learner: plan.verdict.looks for use in uses}
    scores, floors = scores_by_model(frame), _floors(frame)
    badness_, rows = _badness(scores), []
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ("learners", *KINDS_OF_ROWS)}
    for use in uses:
        judge_ = Judge(frame, plan, use, failures, looks[use.learner])
        untrained, beside = judge_.compare(UNTRAINED, "", UNTRAINED), judge_.heuristics()
        control = judge_.compare(CONTROL, use.control, use.control)
        noticed = sensitivity(use, control, untrained, beside)
        said = {"use": use.words, "sensitive": noticed["sensitive"], "looks": looks[use.learner]}
        differences: dict[str, float] = {}
        open_ = 0
        for spec in specs:
            row = dict((decided or {}).get((use.learner, spec.name), {}))
            if not row:
                verdict = judge_.compare(BASELINE if spec.baseline else MODEL, spec.name, spec.name)
                if verdict.facts["good_enough"] and noticed["sensitive"] is False:
                    but = "but this test cannot tell: damaged jobs were not noticed"
                    verdict = dataclasses.replace(verdict, sentence=f"{verdict.sentence}; {but}")
                row = verdict.to_dict()
            own = scores.get(spec.name, {})
            row = (
                said
                | row
                | use.facts()
                | {"sensitive": said["sensitive"], "flags": [f"privacy: {alarm}" for alarm in alarms(own)]}
            )
            row |= {"fidelity": within_noise(own, floors), "copies": spec.copies or _copied(own)}
            row["good_enough"] = bool(row["good_enough"]) and noticed["sensitive"] is True
            found["baselines" if spec.baseline else "verdicts"].append(row)
            if row["verdict"] != "failed":
                differences[spec.name] = row["difference"]
                open_ += row["verdict"] == "undecided"
        trusted, note = predictors(badness_, differences, seed=plan.seed)
        if trusted and open_:
            note += f"; {open_} of the {len(differences)} differences are undecided, and so is their order"
        of_learner = {"heuristics": beside, "predictors": trusted, "predictors_note": note}
        found["learners"].append(use.facts() | said | noticed | of_learner)
        for name, arms in _other_arms(judge_, untrained, control).items():
            claimed = noticed["sensitive"] is True
            found[name] += [
                row | use.facts() | said | {"good_enough": bool(row["good_enough"]) and claimed} for row in arms
            ]
        rows += judge_.differences
    first = found["learners"][0]
    whole = {
        "real": real,
        "margin": first["margin"],
        "metric": first["metric"],
        "alpha": plan.verdict.alpha,
        "confidence": 1 - 2 * plan.verdict.alpha,
        "looks": max(looks.values()),
        "learner": first["learner"],
        **found,
        "heuristics": next((one["heuristics"] for one in found["learners"] if one["heuristics"]), []),
        "sensitivity": {name: first[name] for name in ("sensitive", "sentence")},
        "predictors": first["predictors"],
        "predictors_note": first["predictors_note"],
    }
    return whole | {"headline": headline(whole), "conclusion": conclusion(whole)}, rows


def _copied(scores: Mapping[str, Score]) -> bool:
    """Return whether most jobs of a trace are real ones, wherever it was made."""
    return "privacy.exact_copies" in scores and scores["privacy.exact_copies"].value > 0.5


def is_open(row: Mapping[str, Any]) -> bool:
    """Return whether another look could settle a row: neither decided, nor shown to be at most so much worse."""
    limit = row["at_most_worse"]
    return row["verdict"] == "undecided" and not (limit is not None and limit < row["margin"])


def _other_arms(judge_: Judge, untrained: Verdict, control: Verdict) -> dict[str, list[dict[str, Any]]]:
    """Return the rows that are about no model: agents without training, controls, another trace, few real jobs."""
    failures = [(failure["arm"], failure["model"]) for failure in judge_.failures]
    arms = {arm for arm, _ in [*judge_.logs, *failures]}
    found: dict[str, list[dict[str, Any]]] = {"controls": [control.to_dict()], "arms": [untrained.to_dict()]}
    found["arms"] += [judge_.compare(arm, "", arm).to_dict() for arm in (OTHER, SCARCE) if arm in arms]
    found["scarce"] = []
    if SCARCE in arms:
        against = "agents trained on the scarce real jobs alone"
        for model in dict.fromkeys(m for arm, m in [*judge_.logs, *failures] if arm == AUGMENTED):
            verdict = judge_.compare(AUGMENTED, model, model, base=SCARCE, against=against)
            found["scarce"].append(verdict.to_dict() | {"verdict": _HELP.get(verdict.verdict, verdict.verdict)})
    return found


def sensitivity(
    use: Use, control: Verdict, untrained: Verdict, heuristics: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return whether a bad training trace would be noticed at all: one damaged on purpose must be found worse.

    The assay sensitivity of equivalence trials (ICH E10): where damaged jobs are as good as real ones, so is
    everything, and an equivalence says nothing.
    """
    words = DAMAGES.get(use.control).words
    others = {row["policy"]: row for row in heuristics if row["policy"] == "random" and "low" in row}
    known = {f"real jobs with {words}": control, "agents that learnt nothing": untrained}
    said = [f"{who}: {_shown(row.to_dict())}" for who, row in known.items() if row.verdict != "failed"]
    said += [f"jobs in random order: {_shown(row)}" for row in others.values()]
    if control.verdict == "failed":
        return {"sensitive": None, "sentence": f"unknown: {control.sentence}", "advice": "", "may_tell": ""}
    if control.verdict == "worse":
        return {"sensitive": True, "sentence": f"yes ({'; '.join(said)})", "advice": "", "may_tell": ""}
    may_tell = _may_tell(use, control)
    return {
        "sensitive": False,
        "sentence": f"no ({'; '.join(said)}), so an equivalence says nothing about the jobs",
        "advice": f"real jobs with {words} gave {_shown(control.to_dict())}; {may_tell} may tell",
        "may_tell": may_tell,
    }


def _may_tell(use: Use, control: Verdict) -> str:
    """Return what may help where damaged jobs were not noticed."""
    about, own = control.facts, use.metric in OWN_METRICS
    if control.verdict != "undecided":  # shown not to matter on these windows
        return "a longer or busier real trace" if own else "windows at a higher load"
    if about.get("more_windows") is not None:
        more = f"about {about['more_windows']:,} more held-out windows"
    elif 2 * math.log1p(about.get("real_parts_differ", 0.0)) ** 2 > about.get("standard_error_other_jobs", 0.0) ** 2:
        more = "a longer real trace"
    else:
        more = "more samples and seeds"
    return more if own else f"{more} or a higher load"


def _shown(row: Mapping[str, Any]) -> str:
    return f"{percent(row['difference'])} {bracket(row['low'], row['high'])}"


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
