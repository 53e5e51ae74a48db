"""For which use is a trace good enough? Each learner of a plan stands for one use, and is judged by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
#: Models that get a sentence each in the conclusion.
MANY = 4


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
        like_heldout = {"jobs": plan.windows.jobs} if getattr(learner, "like_heldout", False) else {}
        config = {**like_heldout, **plan.agents.config_of(name), **plan.hosts}
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

    A use that would not notice its damaged jobs settles nothing, and trivial baselines are not named. A few models get
    a sentence each; of many models there is a sentence for each use.
    """
    rows = [row for row in found["verdicts"] if row["sensitive"] is not False or row["verdict"] in ("worse", "failed")]
    models = list(dict.fromkeys(str(row["model"]) for row in rows))
    if len(models) <= MANY:
        parts = [f"{name}: {_said([row for row in rows if row['model'] == name], 'use')}" for name in models]
    else:
        uses = [(use, [row for row in rows if row["learner"] == use["learner"]]) for use in found["learners"]]
        parts = [f"For {use['use']}: {_said(own, 'model')}" for use, own in uses if own]
    for use in found["learners"]:
        if use["sensitive"] is False:
            parts.append(f"The test of {use['use']} cannot tell good from bad here: {use['advice']}")
    return ". ".join(parts) + ("." if parts else "")


def _said(rows: Sequence[Mapping[str, Any]], key: str) -> str:
    """Return the verdicts of one model by use, or of one use by model."""
    by: dict[str, list[str]] = {}
    for row in rows:
        by.setdefault(str(row["verdict"]).replace("better", "equivalent"), []).append(_with_number(row, key))
    words = {"equivalent": "as good as real jobs", "worse": "worse", "undecided": "undecided", "failed": "failed"}
    link = " for" if key == "use" else ":"
    return (", " if key == "use" else "; ").join(
        f"{word}{link} {_listed(by[verdict])}" for verdict, word in words.items() if verdict in by
    )


def _with_number(row: Mapping[str, Any], key: str) -> str:
    value = row.get("difference")
    if row["verdict"] != "worse" or value is None or not math.isfinite(value):
        return str(row[key])
    return f"{row[key]} (+{100 * value:.0f} %)" if value >= 0.1 else f"{row[key]} (+{100 * value:.1f} %)"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
