"""False alarms of verdicts where nothing is wrong, and which use of a trace finds which damage.

    python benchmarks/bench_verdict.py KTH-SP2-1996-2.1-cln.swf.gz --splits 100 --learner forecast-waits
    python benchmarks/bench_verdict.py KTH-SP2-1996-2.1-cln.swf.gz --splits 20 --seconds 600 --json
    python benchmarks/bench_verdict.py KTH-SP2-1996-2.1-cln.swf.gz --damages

Real jobs against real jobs of the same log: each split deals the log's weeks (days, if it is short) out at random: 30 %
play the real training jobs, 30 % the synthetic ones, 40 % are judged on. Each side is learnt from with the same seeds.
A verdict of *worse* is a false alarm: it should come in 5 % of splits or fewer, and so should *better*.

With --damages half of the blocks are learnt from, as they are and damaged in each way, and the other half is judged on.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import tracekit
from evaluation.experiment.control import Controls
from evaluation.experiment.damage import DAMAGES
from evaluation.experiment.grid import OWN_METRICS
from evaluation.experiment.heldout import Heldout, schedulable, starts
from evaluation.experiment.interleave import interleaved
from evaluation.experiment.learners import LEARNERS
from evaluation.experiment.results import by_window
from evaluation.experiment.single_trace import DEFAULT, SEEDS, WINDOW, WINDOWS
from evaluation.experiment.verdict import estimate, judge
from tracekit.trace import Trace

SHARES = (0.3, 0.3, 0.4)
DAMAGED = ("shuffled-users", "shuffled-order", "wrong-limits", "half-load")
HEURISTICS = ("fcfs", "sjf", "saf", "wfp3", "unicep", "f1", "random")


def split(trace: Trace, number: int, learners: list[str], seeds: int) -> dict[str, dict[str, Any]]:
    """Return the verdict of every learner on one split."""
    real, made, test = interleaved(trace, SHARES, np.random.default_rng(number))
    return {name: found["real"] for name, found in judged(real, {"real": made}, test, learners, seeds, number).items()}


def judged(
    real: Trace, made: dict[str, Trace], test: Trace, learners: list[str], seeds: int, number: int = 0
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return learner → name of what was made → verdict."""
    real, test = schedulable(real), schedulable(test)
    length = max(16, min(WINDOW, len(test) // 20))
    heldout = Heldout(test, starts(len(test), WINDOWS, length), length, ["real"], "easy")
    earlier = Heldout(real, starts(len(real), len(real), length), length, ["real"], "easy")
    played = [[side.play(policy) for policy in HEURISTICS] for side in (heldout, earlier)]
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in learners:
        learner = LEARNERS.get(name)()
        sides = {
            side: np.array([by_window(_learnt(learner, jobs, heldout, seed), learner.metric) for seed in range(seeds)])
            for side, jobs in {"": real, **made}.items()
        }
        controls = None
        if learner.metric not in OWN_METRICS:
            inside, outside = (np.array([by_window(rows, learner.metric) for rows in side]).T for side in played)
            controls = Controls(inside, outside)
        for side in made:
            estimated = estimate((sides[side] - sides[""])[None], seed=number, controls=controls)
            found.setdefault(name, {})[side] = judge(side, estimated, margin=learner.margin).to_dict()
    return found


def damages(trace: Trace, learners: list[str], seeds: int) -> None:
    """Print which use finds which damage."""
    real, test = interleaved(trace, (0.5, 0.5))
    real = schedulable(real)
    made = {name: DAMAGES.get(name)().fit(real).sample(len(real), seed=1) for name in DAMAGED}
    for learner in learners:
        for damage, row in judged(real, made, test, [learner], seeds)[learner].items():
            print(f"{learner}, {damage}: {row['sentence']}", flush=True)


def _learnt(learner: Any, trace: Trace, heldout: Heldout, seed: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "agent"
        config = {"jobs": heldout.jobs} if getattr(learner, "like_heldout", False) else {}
        learner.train(trace, place, config=config, backfill="easy", seed=seed, untrained=False)
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
    parser.add_argument("--jobs", type=int, help="only the first so many")
    parser.add_argument("--damages", action="store_true", help="which use finds which damage")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    learners = asked.learner.split(",")
    trace, rows = tracekit.read(asked.trace), []
    trace = trace.head(asked.jobs) if asked.jobs else trace
    if asked.damages:
        damages(trace, learners, asked.seeds)
        return
    for number in range(asked.first, asked.first + asked.splits):
        rows.append(split(trace, number, learners, asked.seeds))
        said = ", ".join(f"{name} {row['verdict']} {row['difference']:+.3f}" for name, row in rows[-1].items())
        print(f"split {number}: {said}", file=sys.stderr, flush=True)
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
