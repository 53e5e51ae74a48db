"""Forecasts of waits as a use of traces: how long jobs will wait on this machine, under each policy.

What is learnt from a trace is a distribution: of the mean bounded slowdown, and of the mean wait, of a window of jobs
under each policy. A held-out window is judged by how far its outcome lies from that distribution, by the continuous
ranked probability score of the logarithms, a proper score (Gneiting & Raftery, JASA 102, 2007): only the true
distribution is best, so a trace with too little load, without bursts or with other sizes forecasts worse. `FORECAST`
is e to the mean score: the factor by which forecasts miss.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evaluation.experiment.heldout import FORECAST, Heldout, Row
from evaluation.experiment.learners import check_settings, drawn_windows
from tracekit.trace import Trace

Floats = NDArray[np.float64]

#: What is forecast of a window, and what is added before the logarithm is taken.
_FORECAST = {"mean_bsld": 0.0, "mean_wait_s": 60.0, "utilization": 0.01}


class ForecastWaits:
    """Learns the distribution of slowdowns and waits under some policies from windows of the training trace."""

    name: ClassVar[str] = "forecast-waits"
    task: ClassVar[str] = "forecast-waits"
    use: ClassVar[str] = "forecasting waits"
    metric: ClassVar[str] = FORECAST
    margin: ClassVar[float] = 0.1
    control: ClassVar[str] = "half-load"
    like_heldout: ClassVar[bool] = (
        True  # learn from windows as long as the judged ones: jobs of longer ones wait longer
    )
    defaults: ClassVar[dict[str, Any]] = {
        "policies": ["fcfs", "sjf", "saf", "f1"],
        "windows": 200,
        "jobs": 128,
        "allocate": None,
    }

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuse unknown settings and policies."""
        from tracekit.sim.policies.builtin import find

        check_settings(self.name, config, self.defaults)
        for policy in (self.defaults | dict(config))["policies"]:
            find(policy)

    def train(
        self, trace: Trace, folder: Path, *, config: Mapping[str, Any], backfill: str, seed: int, untrained: bool
    ) -> None:
        """Simulate every policy on windows of the trace; without training no job is expected to wait."""
        chosen = self.defaults | dict(config)
        found: dict[str, dict[str, list[float]]] = {}
        if untrained:
            idle = {key: [float(np.log(added or 1.0))] for key, added in _FORECAST.items()}
            found = dict.fromkeys(chosen["policies"], idle)
        else:
            windows = drawn_windows(trace, chosen, backfill, seed)
            for policy in chosen["policies"]:
                rows = windows.play(policy)
                found[policy] = {key: sorted(_logs(rows, key)) for key in _FORECAST}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "agent.json").write_text(json.dumps({"ln": found}) + "\n")

    def play(self, folder: Path, heldout: Heldout) -> list[Row]:
        """Return the rows of the first policy, each with how far the forecasts of the window missed."""
        forecasts = json.loads((folder / "agent.json").read_text())["ln"]
        rows: list[Row] = []
        missed = []
        for policy, by_key in forecasts.items():
            played = heldout.play(policy)
            rows = rows or played
            for key, forecast in by_key.items():
                missed.append(crps(np.array(forecast), np.array(_logs(played, key))))
        for row, factor in zip(rows, np.exp(np.mean(missed, axis=0)), strict=True):
            row[FORECAST] = float(factor)
        return rows

    def curve(self, folder: Path) -> list[tuple[int, str, float]]:
        """Return nothing: there are no steps."""
        return []

    def seconds(self, config: Mapping[str, Any]) -> float:
        """Return a guess."""
        chosen = self.defaults | dict(config)
        return 0.3 + 2e-6 * len(chosen["policies"]) * int(chosen["windows"]) * int(chosen["jobs"])


def _logs(rows: list[Row], key: str) -> list[float]:
    return [float(np.log(row[key] + _FORECAST[key])) for row in rows]


def crps(forecast: Floats, outcomes: Floats) -> Floats:
    """Return the continuous ranked probability score of each outcome under an empirical, sorted forecast.

    E|X − y| − ½ E|X − X'|, in the unit of the outcomes.

    >>> crps(np.array([1.0]), np.array([1.0, 3.0])).tolist()
    [0.0, 2.0]
    """
    n = len(forecast)
    below = np.searchsorted(forecast, outcomes, side="right")
    sums = np.concatenate([[0.0], np.cumsum(forecast)])
    distance = (outcomes * (2 * below - n) - 2 * sums[below] + sums[-1]) / n
    spread = float((forecast * (2 * np.arange(1, n + 1) - n - 1)).sum()) / n**2
    return np.asarray(distance - spread)
