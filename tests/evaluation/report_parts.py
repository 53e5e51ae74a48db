"""Made-up parts of an experiment, shaped like real ones, for tests of the page only. No number here was measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

HOSTILE = '<script>window.hacked = 1</script>"\'><img src=x onerror="window.hacked = 2"> $\\frac{$ & co'
LONG = "module:AVeryLongNameWithoutAnyPlaceToBreakItSoThatItMustBeBrokenAnyhow"
#: What the made-up agents are for.
USE = {"learner": "ppo", "use": "scheduling", "sensitive": True}


def parts_of_an_experiment(models: list[str]) -> dict[str, Any]:
    """Verdicts, tables and failures for some models: the first is worse, the second equivalent, one failed."""
    rng = np.random.default_rng(0)
    effect = {"real": 0.0, models[0]: 0.3, models[-1]: 0.0, "untrained": 0.9}
    base = np.exp(rng.normal(3, 0.8, 12))
    windows = pd.DataFrame(
        [
            (arm, seed, load, window, base[window] * np.exp(worse + rng.normal(0, 0.05)) * (1 if load == "real" else 2))
            for arm, worse in effect.items()
            for seed in range(2)
            for load in ("real", "0.9")
            for window in range(len(base))
        ],
        columns=["arm", "seed", "load", "window", "value"],
    )
    learning = pd.DataFrame(
        [(arm, seed, 1000 * k, 30 * np.exp(worse + 1 / k)) for arm, worse in effect.items() for seed in range(2)
         for k in range(1, 6)],
        columns=["arm", "seed", "step", "score"],
    )  # fmt: skip
    heuristics = windows[windows["arm"] == "real"].assign(policy="sjf")[["policy", "load", "window", "value"]]

    def verdict(model: str, outcome: str, difference: float, sentence: str, **more: Any) -> dict[str, Any]:
        low, high = difference - 0.02, difference + 0.02
        found = {"model": model, "verdict": outcome, "difference": difference, "low": low, "high": high, **USE}
        return found | {"sentence": sentence, **more}

    failed = {"model": "tvae", "verdict": "failed", "difference": None, "low": None, "high": None, **USE}
    flags = ["privacy: 100 % exact copies"]
    return {
        "verdicts": [
            verdict(models[0], "worse", 0.3, "worse by 30 %"),
            verdict(models[-1], "equivalent", 0.0, "equivalent to agents trained on real jobs", flags=flags),
            {**failed, "sentence": "failed: out of memory"},
        ],
        "others": [verdict("untrained", "worse", 1.4, "worse by 140 %")],
        "scarce": [verdict(models[0], "helps", -0.1, "helps by 10 %")],
        "uses": [{**USE, "margin": 0.05, "metric": "mean_bsld", "sentence": "yes (damaged jobs: +40 %)", "looks": 1}],
        "conclusion": f"{models[-1]}: as good as real jobs for scheduling. {models[0]}: worse for scheduling (+30 %).",
        "windows": windows,
        "learning": learning,
        "heuristics": heuristics,
        "trust": pd.DataFrame([("acf1.run_time", 0.9, 0.2, 1.0, 4), ("ks.mean", np.nan, np.nan, np.nan, 1)],
                              columns=["key", "rho", "low", "high", "n"]),
        "costs": pd.DataFrame([(models[0], "fit", 3.0), (models[0], "sample", 1.0), (models[-1], "fit", 20.0)],
                              columns=["model", "step", "seconds"]),
        "failures": [{"model": "ctgan", "reason": "diverged"}],
        "notes": ["a note"],
        "command": "tracekit experiment real.swf",
    }  # fmt: skip
