"""Predictors of run times as a learner of experiments: what users and the order of their jobs say matters to them.

A held-out window is judged by the error on its jobs, `ERROR`: the factor by which predictions miss in the geometric
mean, e to the mean of |ln predicted − ln run time|. Each window is also scheduled with backfilling by the predictions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evaluation.experiment.heldout import ERROR, Heldout, Row
from evaluation.experiment.learners import check_settings
from tracekit.trace import Trace

#: Seconds of one training on one core, for estimates; a trace of an experiment has some ten thousand jobs.
_SECONDS = 3.0
#: The outputs that windows are judged by.
_USED = ("q50", "ln_mean")
#: The learning curve: its file, the share of the training trace that its predictor learns from, and its points.
_CURVE, _SHARE, _POINTS = "curve.json", 0.8, 12


class PredictRunTime:
    """Settings are those of `tracekit.sim.predict.training.TreeSettings`, without gaps unless these say so.

    Errors on later real jobs are as small without the seconds since a user's last job (docs/experiments.md). With them
    jobs at another load were found worse, which is for forecasts of waits to judge.
    """

    name: ClassVar[str] = "predict-run-time"
    task: ClassVar[str] = "predict-run-time"
    use: ClassVar[str] = "predicting run times"
    metric: ClassVar[str] = ERROR
    margin: ClassVar[float] = (
        0.05  # as errors learnt from two sets of 3,600 jobs of one log differ (docs/experiments.md)
    )
    control: ClassVar[str] = "shuffled-users"

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuse unknown settings."""
        self._settings(config)

    def _settings(self, config: Mapping[str, Any]) -> Any:
        import dataclasses

        from tracekit.sim.predict.training import TreeSettings

        check_settings(self.name, config, [field.name for field in dataclasses.fields(TreeSettings)])
        return TreeSettings(**{"gaps": False, **config})

    def train(
        self, trace: Trace, folder: Path, *, config: Mapping[str, Any], backfill: str, seed: int, untrained: bool
    ) -> None:
        """Learn from a trace; one that has learnt nothing predicts the limit, at most a day."""
        from tracekit.sim.predict import training

        if untrained:
            training.untrained().save(folder)
            return
        self.learn(trace, folder, config=config, seed=seed)
        (folder / _CURVE).write_text(json.dumps(_curve(trace, self._settings(config), seed)) + "\n")

    def learn(self, trace: Trace, folder: Path, *, config: Mapping[str, Any], seed: int) -> None:
        """Learn from a trace, without a learning curve."""
        from tracekit.sim.predict import training

        training.train(trace, self._settings(config), seed=seed, outputs=_USED).save(folder)

    def play(self, folder: Path, heldout: Heldout) -> list[Row]:
        """Schedule every window with backfilling by predictions, and measure the error on its jobs."""
        played = heldout.play("fcfs", predict=f"agent:{folder}")
        return [row | missed for row, missed in zip(played, self.errors(folder, heldout), strict=True)]

    def errors(self, folder: Path, heldout: Heldout) -> list[Row]:
        """Return the error on the jobs of every window, without scheduling them."""
        rows: list[Row] = []
        for load in heldout.loads:
            missed = _missed(folder, heldout.at(load))
            for window, first in enumerate(heldout.starts):
                factor = float(np.exp(np.nanmean(missed[first : first + heldout.jobs])))
                rows.append({"load": load, "window": window, ERROR: factor})
        return rows

    def curve(self, folder: Path) -> list[tuple[int, str, float]]:
        """Return the error on the last fifth of the training trace by trees; the rest is learnt from."""
        place = folder / _CURVE
        points = json.loads(place.read_text()) if place.is_file() else []
        return [(int(trees), str(name), float(value)) for trees, name, value in points]

    def seconds(self, config: Mapping[str, Any]) -> float:
        """Return a guess."""
        return float(_SECONDS * self._settings(config).trees / 150)


def _curve(trace: Trace, settings: Any, seed: int) -> list[tuple[int, str, float]]:
    """Return (trees, "score", factor by which predictions miss) of a predictor that grows on the first part alone."""
    from tracekit.sim.predict import training
    from tracekit.sim.predict.evaluate import ln_errors
    from tracekit.sim.predict.features import features_of

    cut = int(_SHARE * len(trace))
    if cut < training.FEWEST or cut == len(trace):
        return []
    grown = training.train(trace.head(cut), settings, seed=seed, outputs=("q50",))
    rows, limit = features_of(trace)[cut:], trace.column("req_time")[cut:]
    run, (most,) = trace.column("run_time")[cut:], {int(number) for number in grown.forest.first} - {0}
    found = []
    for trees in sorted({round(most * k / _POINTS) for k in range(_POINTS + 1)}):
        part = replace(grown, forest=grown.forest._replace(first=np.minimum(grown.forest.first, trees)))
        missed = np.abs(ln_errors(part.seconds(rows, limit), run))
        found.append((trees, "score", float(np.exp(np.nanmean(missed)))))
    return found


def _missed(folder: Path, test: Trace) -> np.ndarray:
    """Return |ln predicted − ln run time| of every job, (jobs,), by the recorded schedule."""
    from tracekit.sim.predict.evaluate import ln_errors
    from tracekit.sim.predict.features import features_of
    from tracekit.sim.predict.predictor import Predictor

    found = Predictor.load(folder)
    predicted = found.seconds(features_of(test), test.column("req_time"), found.order)
    return np.abs(ln_errors(predicted, test.column("run_time")))
