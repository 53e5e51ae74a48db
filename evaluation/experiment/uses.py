"""For which use is a trace good enough? Each learner of a plan stands for one use, and is judged by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evaluation.experiment.damage import DAMAGES
from evaluation.experiment.grid import OWN_METRICS, Plan
from evaluation.experiment.heldout import REAL_LOAD, check_load
from evaluation.experiment.learners import LEARNERS
from tracekit.errors import UsageError

#: Of learners that do not say: learners of other packages may have been written before these were asked for.
_MARGIN = 0.1
_CONTROL = "wrong-limits"


@dataclass(frozen=True)
class Use:
    """What a trace is used for: the learner, how it is judged, and the damage that it should notice."""

    learner: str
    task: str  # name of the task that is learnt
    words: str  # what one would do with the trace: "choosing a heuristic"
    metric: str  # what the held-out windows are judged by; lower is better
    margin: float  # differences below this ratio do not matter
    control: str  # name of a damage; a trace with it must be found worse, or the test cannot tell
    loads: tuple[str, ...] = (REAL_LOAD,)  # of the held-out windows that count
    config: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 1.0  # of one training on one core, a guess

    def facts(self) -> dict[str, Any]:
        """Return what every row of verdict.json says about its use."""
        return {"learner": self.learner, "task": self.task, "metric": self.metric, "margin": self.margin}


def uses_of(plan: Plan) -> list[Use]:
    """Return the uses of a plan, in its order; wrong settings and metrics are refused."""
    wanted = plan.verdict.metric
    if wanted in OWN_METRICS and OWN_METRICS[wanted] not in plan.agents.learner:
        raise UsageError(f"metric {wanted} is measured of one learner only: add {OWN_METRICS[wanted]}")
    found = []
    for name in plan.agents.learner:
        learner = LEARNERS.get(name)()
        config = {**plan.agents.config_of(name), **plan.hosts}
        learner.check(config)
        own = getattr(learner, "metric", "mean_bsld")
        margin = plan.verdict.margin if plan.verdict.margin is not None else getattr(learner, "margin", _MARGIN)
        control = getattr(learner, "control", _CONTROL)
        DAMAGES.target(control)
        found.append(
            Use(
                name,
                getattr(learner, "task", name),
                getattr(learner, "use", name),
                own if own in OWN_METRICS or wanted in OWN_METRICS or not wanted else wanted,
                float(margin),
                control,
                _loads(plan, own),
                config,
                learner.seconds(config),
            )
        )
    return found


def _loads(plan: Plan, metric: str) -> tuple[str, ...]:
    """Return the loads that a use is judged at: predictions and forecasts are about the machine's own, if it is there.

    At another load a forecast is wrong however good its trace is, and then a trace of that load would look best.
    """
    loads = tuple(dict.fromkeys(map(check_load, plan.windows.loads)))
    return (REAL_LOAD,) if metric in OWN_METRICS and REAL_LOAD in loads else loads


def conclusion(found: Mapping[str, Any]) -> str:
    """Return the outcome of verdict.json as sentences that can be repeated: which trace is good enough for which use.

    A use that would not notice its damaged jobs settles nothing, and trivial baselines are not named.
    """
    blind = [use for use in found["learners"] if use["sensitive"] is False]
    parts = [text for model in _models(found["verdicts"]) if (text := _of_model(model, found["verdicts"]))]
    for use in blind:
        parts.append(f"The test of {use['use']} cannot tell good from bad here: {use['advice']}")
    return ". ".join(parts) + ("." if parts else "")


def _models(rows: list[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(row["model"]) for row in rows))


def _of_model(model: str, rows: list[Mapping[str, Any]]) -> str:
    by: dict[str, list[str]] = {}
    for row in rows:
        if row["model"] == model and (row["sensitive"] is not False or row["verdict"] in ("worse", "failed")):
            by.setdefault(str(row["verdict"]), []).append(_with_number(row))
    said = []
    good = [*by.get("equivalent", ()), *by.get("better", ())]
    if good:
        said.append(f"as good as real jobs for {_listed(good)}")
    if "worse" in by:
        said.append(f"worse for {_listed(by['worse'])}")
    if "undecided" in by:
        said.append(f"undecided for {_listed(by['undecided'])}")
    if "failed" in by:
        said.append(f"failed for {_listed(by['failed'])}")
    return f"{model}: {', '.join(said)}" if said else ""


def _with_number(row: Mapping[str, Any]) -> str:
    value = row.get("difference")
    if row["verdict"] != "worse" or value is None or not math.isfinite(value):
        return str(row["use"])
    return f"{row['use']} (+{100 * value:.0f} %)" if value >= 0.1 else f"{row['use']} (+{100 * value:.1f} %)"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
