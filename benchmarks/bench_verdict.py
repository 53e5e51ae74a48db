"""False alarms of verdicts where nothing is wrong, which use finds which damage, and whether ranks are stable.

    python benchmarks/bench_verdict.py KTH-SP2-1996-2.1-cln.swf.gz --splits 100 --learner forecast-waits
    python benchmarks/bench_verdict.py KTH-SP2-1996-2.1-cln.swf.gz --splits 20 --seconds 600 --record splits.jsonl
    python benchmarks/bench_verdict.py KTH-SP2-1996-2.1-cln.swf.gz --damages
    python benchmarks/bench_verdict.py KTH-SP2-1996-2.1-cln.swf.gz --ranks sessions,resample,lublin --seeds 5

Real jobs against real jobs of the same log: each split deals the log's weeks (days, if it is short) at random: 30 %
play the real training jobs, 30 % the synthetic ones, 40 % are judged on. Each side is learnt from with the same
seeds. A verdict of *worse* is a false alarm: it should come in 5 % of splits or fewer, and so should *better*.
Printed are also how often the other part was good enough, the spread of the differences, the root mean square of the
intervals' standard errors, what of these is due to parts of the log that differ, the median of the degrees of freedom,
and mean and spread of z, the differences in standard errors: a mean far from 0 is a bias. With --record the scores of
every split are a line of a file: the same command goes on where it was stopped, and judges again what is there.

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
from evaluation.experiment.grid import OWN_METRICS, VerdictSettings
from evaluation.experiment.halves import halves
from evaluation.experiment.heldout import Heldout, schedulable, starts
from evaluation.experiment.interleave import interleaved
from evaluation.experiment.learners import LEARNERS
from evaluation.experiment.results import by_window
from evaluation.experiment.single_trace import DEFAULT, SEEDS, WINDOW, WINDOWS
from evaluation.experiment.verdict import between_halves, estimate, judge
from tracekit.errors import TracekitError
from tracekit.files import write_text
from tracekit.trace import Trace

SHARES = (0.3, 0.3, 0.4)
DAMAGED = ("shuffled-users", "shuffled-order", "wrong-limits", "half-load")
SETTINGS: dict[str, dict[str, Any]] = {}
#: Settings of --cheap: fewer trees in larger steps and no learning curve, fewer windows to choose on; predictions are
#: not scheduled.
CHEAP: dict[str, dict[str, Any]] = {
    "predict-run-time": {"trees": 40, "learning_rate": 0.15},
    "pick-heuristic": {"windows": 40},
}
PAIRS = VerdictSettings().halves  # of the real jobs, as in experiments
Scores = dict[str, Any]
HEURISTICS = ("fcfs", "sjf", "saf", "wfp3", "unicep", "f1", "random")


def split(trace: Trace, number: int, learners: list[str], seeds: int) -> dict[str, Scores]:
    """Return what every learner reached on one split."""
    real, made, test = interleaved(trace, SHARES, np.random.default_rng(number))
    return played(real, {"real": made}, test, learners, seeds, number)


def played(
    real: Trace, made: dict[str, Trace], test: Trace, learners: list[str], seeds: int, number: int = 0
) -> dict[str, Scores]:
    """Return learner → log scores: of what was made, (seeds, windows) each, of the real jobs, of their halves."""
    real, test = schedulable(real), schedulable(test)
    length = max(16, min(WINDOW, len(test) // 20))
    heldout = Heldout(test, starts(len(test), WINDOWS, length), length, ["real"], "easy")
    earlier = Heldout(real, starts(len(real), len(real), length), length, ["real"], "easy")
    half = list(halves(real, PAIRS, number))
    found: dict[str, Scores] = {}
    for name in learners:
        learner = LEARNERS.get(name)()

        def scores(jobs: Trace, seed: int, learner: Any = learner) -> list[float]:
            return by_window(_learnt(learner, jobs, heldout, seed), learner.metric).tolist()

        own: Scores = {
            "made": {side: [scores(schedulable(jobs), seed) for seed in range(seeds)] for side, jobs in made.items()},
            "real": [scores(real, seed) for seed in range(seeds)],
            "halves": [scores(part, k // 2) for k, (_, part) in enumerate(half)],
        }
        if learner.metric not in OWN_METRICS:
            for side, windows in (("inside", heldout), ("outside", earlier)):
                rows = [by_window(windows.play(policy), learner.metric) for policy in HEURISTICS]
                own[side] = np.array(rows).T.tolist()
        found[name] = own
    return found


def judged(learner: str, scores: Scores, number: int = 0) -> dict[str, dict[str, Any]]:
    """Return the verdict on each of what was made."""
    real, half = np.array(scores["real"]), np.array(scores["halves"])
    controls = Controls(np.array(scores["inside"]), np.array(scores["outside"])) if "inside" in scores else None
    parts, found = between_halves(half[1::2] - half[::2]), {}
    for side, ours in scores["made"].items():
        estimated = estimate((np.array(ours) - real)[None], seed=number, controls=controls, parts=parts)
        found[side] = judge(side, estimated, margin=LEARNERS.get(learner)().margin).to_dict()
    return found


def damages(trace: Trace, learners: list[str], seeds: int) -> None:
    """Print which use finds which damage."""
    real, test = interleaved(trace, (0.5, 0.5))
    real = schedulable(real)
    made = {name: DAMAGES.get(name)().fit(real).sample(len(real), seed=1) for name in DAMAGED}
    for learner in learners:
        for damage, row in judged(learner, played(real, made, test, [learner], seeds)[learner]).items():
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
        if SETTINGS and hasattr(learner, "learn"):
            learner.learn(trace, place, config=config, seed=seed)
        else:
            learner.train(trace, place, config=config, backfill="easy", seed=seed, untrained=False)
        play = learner.errors if SETTINGS and hasattr(learner, "errors") else learner.play
        return list(play(place, heldout))


def summed(rows: list[dict[str, Any]]) -> dict[str, int | float]:
    """Return what the verdicts on many splits come to."""
    count = Counter(row["verdict"] for row in rows)
    differences, errors = (
        np.log1p([row["difference"] for row in rows]),
        np.array([row["standard_error_other_jobs"] for row in rows]),
    )
    z = differences[errors > 0] / errors[errors > 0]
    return {
        "splits": len(rows),
        **{kind: count[kind] for kind in ("worse", "better", "equivalent", "undecided")},
        "good_enough": int(sum(row["good_enough"] for row in rows)),
        "mean": float(np.mean(differences)),
        "spread": float(np.std(differences)),
        "standard_error": float(np.sqrt(np.mean(errors**2))),
        "parts": float(np.sqrt(np.mean([np.log1p(row["real_parts_differ"]) ** 2 for row in rows]))),
        "degrees_of_freedom": float(np.median([row["degrees_of_freedom_other_jobs"] or np.inf for row in rows])),
        "z_mean": float(np.mean(z)) if len(z) else 0.0,
        "z_spread": float(np.std(z)) if len(z) else 0.0,
    }


def _recorded(path: Path | None, settings: dict[str, Any]) -> dict[int, dict[str, Scores]]:
    """Return the splits that were recorded with these settings, by number; an unfinished last line is left out."""
    if path is None or not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        write_text(path, "".join(lines[:-1]), force=True)
    whole = [json.loads(line) for line in lines if line.endswith("\n")]
    if any(line["settings"] != settings for line in whole):
        raise TracekitError(f"{path}: holds splits of other settings; give another file")
    return {line["split"]: line["found"] for line in whole}


def _record(path: Path | None, settings: dict[str, Any], number: int, found: dict[str, Scores]) -> None:
    if path is not None:
        with path.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"settings": settings, "split": number, "found": found}) + "\n")


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
    parser.add_argument("--record", type=Path, help="file of splits that are done, which the same command goes on with")
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
    settings = {"trace": Path(asked.trace).name, "learners": learners}
    settings |= {name: getattr(asked, name) for name in ("seeds", "jobs", "cheap")}
    done = _recorded(asked.record, settings)
    for number in range(asked.first, asked.first + asked.splits):
        fresh = number not in done
        if fresh:
            done[number] = split(trace, number, learners, asked.seeds)
            _record(asked.record, settings, number, done[number])
        rows.append({name: judged(name, own, number)["real"] for name, own in done[number].items()})
        if fresh:
            said = ", ".join(f"{name} {row['verdict']} {row['difference']:+.3f}" for name, row in rows[-1].items())
            print(f"split {number}: {said}", file=sys.stderr, flush=True)
        if time.process_time() > asked.seconds:
            break
    table = {name: summed([row[name] for row in rows]) for name in learners}
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
