"""False alarms of verdicts where nothing is wrong, which use finds which damage, and whether ranks are stable.

    python benchmarks/bench_verdict.py KTH-SP2-1996-2.1-cln.swf.gz --splits 100 --learner forecast-waits
    python benchmarks/bench_verdict.py KTH-SP2-1996-2.1-cln.swf.gz --splits 20 --seconds 600 --json
    python benchmarks/bench_verdict.py KTH-SP2-1996-2.1-cln.swf.gz --damages
    python benchmarks/bench_verdict.py KTH-SP2-1996-2.1-cln.swf.gz --ranks sessions,resample,lublin --seeds 5

Real jobs against real jobs of the same log: each split deals the log's weeks (days, if it is short) at random: 30 %
play the real training jobs, 30 % the synthetic ones, 40 % are judged on. Each side is learnt from with the same
seeds. A verdict of *worse* is a false alarm: it should come in 5 % of splits or fewer, and so should *better*.
Printed are also how often the other part was good enough, the spread of the differences, the root mean square of the
intervals' standard errors, and what of these is due to parts of the log that differ.

With --damages half of the blocks are learnt from, as they are and damaged in each way, and the other half is judged on.

With --ranks each model is fitted to half of the blocks and makes one trace for each seed; predictors of run times
learn from these with that seed and are judged on the other half. Kendall's W says how much the seeds agree on the
models' order (1 = the same order for every seed), and the last lines how often each model is ahead of the next one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import tracekit
from evaluation.experiment.control import Controls
from evaluation.experiment.damage import DAMAGES
from evaluation.experiment.grid import OWN_METRICS
from evaluation.experiment.halves import halves
from evaluation.experiment.heldout import Heldout, schedulable, starts
from evaluation.experiment.interleave import interleaved
from evaluation.experiment.learners import LEARNERS
from evaluation.experiment.results import by_window
from evaluation.experiment.single_trace import DEFAULT, SEEDS, WINDOW, WINDOWS
from evaluation.experiment.verdict import between_halves, estimate, judge
from tracekit.trace import Trace

SHARES = (0.3, 0.3, 0.4)
DAMAGED = ("shuffled-users", "shuffled-order", "wrong-limits", "half-load")
SETTINGS: dict[str, dict[str, Any]] = {}
#: Settings of --cheap: fewer trees in larger steps, fewer windows to choose on; predictions are not scheduled.
CHEAP: dict[str, dict[str, Any]] = {
    "predict-run-time": {"trees": 40, "learning_rate": 0.15},
    "pick-heuristic": {"windows": 40},
}
PAIRS = 4  # of halves of the real jobs, as in experiments
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
        half = [
            by_window(_learnt(learner, part, heldout, k // 2), learner.metric)
            for k, (_, part) in enumerate(halves(real, PAIRS, number))
        ]
        parts = between_halves(np.array(half[1::2]) - np.array(half[::2]), sides[""])
        for side in made:
            estimated = estimate((sides[side] - sides[""])[None], seed=number, controls=controls, parts=parts)
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


def ranks(trace: Trace, models: list[str], seeds: int) -> None:
    """Print whether seeds agree on the order of models by what predictors of run times learn from their jobs."""
    from generators import MODELS
    from generators.synth import fit, make

    real, test = (schedulable(part) for part in interleaved(trace, (0.5, 0.5)))
    length = max(16, min(WINDOW, len(test) // 20))
    heldout = Heldout(test, starts(len(test), WINDOWS, length), length, ["real"], "easy")
    learner = LEARNERS.get("predict-run-time")()
    errors: dict[str, list[float]] = {}
    for name in ["real", *models]:
        fitted = None if name == "real" else fit(real, MODELS.get(name), seed=0, budget="quick")
        for seed in range(seeds):
            jobs = real if fitted is None else make(fitted, len(real), seed=seed, load="real")
            missed = by_window(_learnt(learner, schedulable(jobs), heldout, seed), learner.metric)
            errors.setdefault(name, []).append(float(missed.mean()))
        shown = ", ".join(f"{np.exp(value):.3f}" for value in errors[name])
        print(f"{name}: error factor {np.exp(np.mean(errors[name])):.3f} (seeds: {shown})", flush=True)
    table = np.array([errors[name] for name in models])
    places = table.argsort(axis=0).argsort(axis=0) + 1
    sums, (count, times) = places.sum(axis=1), places.shape
    agreement = 12 * float(((sums - sums.mean()) ** 2).sum()) / (times**2 * (count**3 - count))
    print(f"Kendall's W of {times} seeds, {count} models: {agreement:.3f}")
    order = np.argsort(table.mean(axis=1))
    for ahead, behind in pairwise(order):
        wins = int((table[ahead] < table[behind]).sum())
        print(f"{models[ahead]} ahead of {models[behind]}: {wins} of {times} seeds")


def _learnt(learner: Any, trace: Trace, heldout: Heldout, seed: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "agent"
        config = {"jobs": heldout.jobs} if getattr(learner, "like_heldout", False) else {}
        config |= SETTINGS.get(learner.name, {})
        learner.train(trace, place, config=config, backfill="easy", seed=seed, untrained=False)
        play = learner.errors if SETTINGS and hasattr(learner, "errors") else learner.play
        return list(play(place, heldout))


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
    parser.add_argument("--cheap", action="store_true", help="smaller settings of the learners")
    parser.add_argument("--ranks", default="", help="models whose order is compared over seeds")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    learners = asked.learner.split(",")
    SETTINGS.update(CHEAP if asked.cheap else {})
    trace, rows = tracekit.read(asked.trace), []
    trace = trace.head(asked.jobs) if asked.jobs else trace
    if asked.damages:
        damages(trace, learners, asked.seeds)
        return
    if asked.ranks:
        ranks(trace, asked.ranks.split(","), asked.seeds)
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
            "good_enough": int(sum(row["good_enough"] for row in own)),
            "parts": float(np.sqrt(np.mean([np.log1p(row["real_parts_differ"]) ** 2 for row in own]))),
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
