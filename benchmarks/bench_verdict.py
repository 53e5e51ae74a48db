"""How often is a verdict wrong where nothing is wrong: real jobs against real jobs of the same log.

    python benchmarks/bench_verdict.py KTH-SP2-1996-2.1-cln.swf.gz --splits 100 --learner forecast-waits
    python benchmarks/bench_verdict.py KTH-SP2-1996-2.1-cln.swf.gz --splits 20 --seconds 600 --json

Each split deals the log's weeks (days, if it is short) out at random: 30 % play the real training jobs, 30 % the
synthetic ones, 40 % are judged on. Each side is learnt from with the same seeds, and judged as an experiment does.
A verdict of *worse* is a false alarm: it should come in 5 % of splits or fewer, and so should *better*.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import tracekit
from evaluation.experiment.control import Controls
from evaluation.experiment.grid import OWN_METRICS
from evaluation.experiment.heldout import Heldout, schedulable, starts
from evaluation.experiment.interleave import interleaved
from evaluation.experiment.learners import LEARNERS
from evaluation.experiment.results import by_window
from evaluation.experiment.single_trace import DEFAULT, SEEDS, WINDOW, WINDOWS
from evaluation.experiment.verdict import estimate, judge
from tracekit.trace import Trace

SHARES = (0.3, 0.3, 0.4)
HEURISTICS = ("fcfs", "sjf", "saf", "wfp3", "unicep", "f1", "random")


def split(trace: Trace, number: int, learners: list[str], seeds: int) -> dict[str, dict[str, Any]]:
    """Return the verdict of every learner on one split."""
    parts = [schedulable(part) for part in interleaved(trace, SHARES, np.random.default_rng(number))]
    test, length = parts[2], max(16, min(WINDOW, len(parts[2]) // 20))
    heldout = Heldout(test, starts(len(test), WINDOWS, length), length, ["real"], "easy")
    earlier = Heldout(parts[0], starts(len(parts[0]), len(parts[0]), length), length, ["real"], "easy")
    played = [[side.play(policy) for policy in HEURISTICS] for side in (heldout, earlier)]
    found = {}
    for name in learners:
        learner = LEARNERS.get(name)()
        sides = [
            np.array([by_window(_learnt(learner, part, heldout, seed), learner.metric) for seed in range(seeds)])
            for part in parts[:2]
        ]
        controls = None
        if learner.metric not in OWN_METRICS:
            inside, outside = (np.array([by_window(rows, learner.metric) for rows in side]).T for side in played)
            controls = Controls(inside, outside)
        made = estimate((sides[1] - sides[0])[None], seed=number, controls=controls)
        found[name] = judge(name, made, margin=learner.margin).to_dict()
    return found


def _learnt(learner: Any, trace: Trace, heldout: Heldout, seed: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "agent"
        learner.train(trace, place, config={}, backfill="easy", seed=seed, untrained=False)
        return list(learner.play(place, heldout))


def main() -> None:
    """Print how often each verdict came."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first split")
    parser.add_argument("--learner", default=",".join(DEFAULT))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--seconds", type=float, default=1e9, help="no further split after so many CPU seconds")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    learners = asked.learner.split(",")
    trace, rows = tracekit.read(asked.trace), []
    for number in range(asked.first, asked.first + asked.splits):
        rows.append(split(trace, number, learners, asked.seeds))
        if time.process_time() > asked.seconds:
            break
    table = {}
    for name in learners:
        own = [row[name] for row in rows]
        count = Counter(row["verdict"] for row in own)
        differences = np.log1p([row["difference"] for row in own])
        table[name] = {
            "splits": len(own),
            **{kind: count[kind] for kind in ("worse", "better", "equivalent", "undecided")},
            "spread": float(np.std(differences)),
            "standard_error": float(np.sqrt(np.mean([row["standard_error"] ** 2 for row in own]))),
            "mean": float(np.mean(differences)),
        }
    if asked.json:
        print(json.dumps(table))
        return
    for name, row in table.items():
        shown = ", ".join(
            f"{key} {value:.4f}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
        )
        print(f"{name}: {shown}")


if __name__ == "__main__":
    main()
