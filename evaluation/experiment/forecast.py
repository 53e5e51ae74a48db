"""Forecasts of waits as a use of traces: how long jobs will wait under each policy, and how busy the machine is.

What is learnt from a trace is a distribution over its windows: of the mean wait and mean bounded slowdown under each
policy, and of the utilisation. The trace is scheduled without a break, so that queues are as long as on the machine;
a window is a stretch of its jobs. A held-out window, in the flow of its own jobs, is judged by how far its outcome
lies from that distribution, by the continuous ranked probability score of the logarithms, a proper score (Gneiting &
Raftery, JASA 102, 2007): only the true distribution is best, so a trace with too little load, without bursts or with
other sizes forecasts worse. Waits and utilisation count half each: where no job waits, the load still shows.
`FORECAST` is e to the mean score: the factor by which forecasts miss.
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

#: What is forecast of a window, and what is added before the logarithm is taken: of waits under each policy, and once.
_WAITS = {"mean_bsld": 0.0, "mean_wait_s": 60.0}
_LOAD = {"utilization": 0.05}


class ForecastWaits:
    """Learns the distribution of slowdowns and waits under some policies from windows of the training trace."""

    name: ClassVar[str] = "forecast-waits"
    task: ClassVar[str] = "forecast-waits"
    use: ClassVar[str] = "forecasting waits"
    metric: ClassVar[str] = FORECAST
    margin: ClassVar[float] = 0.1
    control: ClassVar[str] = "half-load"
    like_heldout: ClassVar[bool] = True  # learn from windows as long as the judged ones: means of more jobs vary less
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
        """Simulate every policy on the trace, and take windows of it; without training no job is expected to wait."""
        chosen = self.defaults | dict(config)
        windows = None if untrained else drawn_windows(trace, chosen, backfill, seed)
        found: dict[str, dict[str, list[float]]] = {}
        for policy in chosen["policies"]:
            keys = _WAITS if found else _WAITS | _LOAD  # how busy the machine is hardly depends on the policy
            if windows is None:
                found[policy] = {key: [float(np.log(added or 1.0))] for key, added in keys.items()}
            else:
                rows = windows.flow(policy)
                found[policy] = {key: sorted(_logs(rows, key, added)) for key, added in keys.items()}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "agent.json").write_text(json.dumps({"ln": found}) + "\n")

    def play(self, folder: Path, heldout: Heldout) -> list[Row]:
        """Return the rows of the first policy, each with how far the forecasts of the window missed."""
        forecasts = json.loads((folder / "agent.json").read_text())["ln"]
        rows: list[Row] = []
        missed: dict[bool, list[Floats]] = {True: [], False: []}  # of the load, and of waits
        for policy, by_key in forecasts.items():
            played = heldout.flow(policy)
            rows = rows or played
            for key, forecast in by_key.items():
                outcomes = _logs(played, key, (_WAITS | _LOAD)[key])
                missed[key in _LOAD].append(crps(np.array(forecast), np.array(outcomes)))
        score = np.mean([np.mean(part, axis=0) for part in missed.values()], axis=0)
        for row, factor in zip(rows, np.exp(score), strict=True):
            row[FORECAST] = float(factor)
        return rows

    def curve(self, folder: Path) -> list[tuple[int, str, float]]:
        """Return nothing: there are no steps."""
        return []

    def seconds(self, config: Mapping[str, Any]) -> float:
        """Return a guess."""
        chosen = self.defaults | dict(config)
        return 0.3 + 1e-4 * len(chosen["policies"]) * int(chosen["windows"])


def _logs(rows: list[Row], key: str, added: float) -> list[float]:
    return [float(np.log(row[key] + added)) for row in rows]


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
