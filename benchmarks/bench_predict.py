"""Predicted run times: speed, what they do to waits, and which synthetic jobs they can be learnt from.

    python benchmarks/bench_predict.py speed
    python benchmarks/bench_predict.py waits TRACE [--jobs 40000] [--share 0.6] [--seeds 3]
    python benchmarks/bench_predict.py models TRACE [--jobs 40000] [--seeds 2]

``waits`` trains on the first share of a log and schedules the later jobs; differences are over blocks of 500 jobs, in
pairs. ``models`` fits generators on the first 60 % and measures the error on the last 20 %. Times are CPU seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tracekit
from tracekit.intervals import compare
from tracekit.sim.jobs import extract_jobs
from tracekit.sim.predict.evaluate import baselines, ln_errors
from tracekit.sim.predict.features import features_of
from tracekit.sim.predict.training import train
from tracekit.sim.predict.trees import evaluated, forest_of
from tracekit.sim.simulate import run_table
from tracekit.sim.switches import Switches
from tracekit.trace import Trace

BLOCK = 500
MODELS = ("sessions", "user-resample", "resample", "gaussian-copula", "independent")


def read(path: str, jobs: int) -> Trace:
    """Read the first jobs of a trace."""
    return tracekit.read(path).head(jobs)


def speed() -> None:
    """Print the time of features, of one training, and of trees here and in scikit-learn."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    trace = tracekit.sample()
    copies = 100_000 // len(trace) + 1
    span = float(np.ptp(trace.column("submit_time"))) + 1
    jobs = pd.concat(
        [trace.jobs.assign(submit_time=trace.jobs["submit_time"] + k * span) for k in range(copies)], ignore_index=True
    )
    long = trace.replace(jobs=jobs.assign(job_id=np.arange(1, len(jobs) + 1))).head(100_000)
    features_of(trace)  # compiles
    begin = time.process_time()
    seen = features_of(long)
    print(f"features of {len(long):,} jobs: {time.process_time() - begin:.2f} s")
    begin = time.process_time()
    made = train(long.head(20_000), outputs=("q50",))
    print(f"one output learnt from 20,000 jobs: {time.process_time() - begin:.1f} s")
    model = HistGradientBoostingRegressor(max_iter=150, max_leaf_nodes=15, early_stopping=False)
    model.fit(seen[:20_000], np.log(np.maximum(long.column("run_time")[:20_000], 1)))
    made = dataclasses.replace(made, forest=forest_of([model]))  # the same trees
    evaluated(made.forest, seen[:10])  # compiles
    for rows, times in ((1, 100), (100_000, 1)):
        ours = _seconds(lambda part: evaluated(made.forest, part), seen[:rows], times)
        theirs = _seconds(model.predict, seen[:rows], times)
        print(f"{rows:,} rows: scikit-learn takes {theirs / ours:.1f} times as long as the trees' {1e3 * ours:.3f} ms")


def _seconds(work: Callable[[np.ndarray], Any], rows: np.ndarray, times: int) -> float:
    """Return the CPU seconds of one call."""
    begin = time.process_time()
    for _ in range(times):
        work(rows)
    return (time.process_time() - begin) / times


def errors(trace: Trace, first: int, names: dict[str, Any]) -> None:
    """Print the error of predictors and baselines on the jobs from ``first`` on."""
    seen = features_of(trace)[first:]
    run, limit = trace.column("run_time")[first:], trace.column("req_time")[first:]
    known = run >= 0
    seen, run, limit = seen[known], run[known], limit[known]
    for name, values in baselines(seen, limit).items():
        print(f"{name:16} error {np.abs(ln_errors(values, run)).mean():.2f}")
    for name, made in names.items():
        row = [np.abs(ln_errors(m.seconds(seen, limit, out), run)).mean() for out in ("q50", "ln_mean") for m in made]
        half = len(row) // 2
        print(f"{name:16} error {np.mean(row[:half]):.2f} (median), {np.mean(row[half:]):.2f} (mean of ln)")


def waits(path: str, jobs: int, share: float, seeds: int) -> None:
    """Print bounded slowdowns of later jobs by limits, predictions and true run times."""
    trace = read(path, jobs)
    first = int(share * len(trace))
    part = extract_jobs(trace, Switches()).window(first, len(trace) - first)
    made = [train(trace.head(first), seed=seed) for seed in range(seeds)]
    print(f"{Path(path).name}: trained on {first:,} jobs, {len(part):,} later jobs")
    errors(trace, first, {"agent": made})

    def bsld(policy: str, backfill: str, **switches: Any) -> np.ndarray:
        result = run_table(part, policy, backfill, Switches(**switches))
        return np.maximum((result.wait + result.run) / np.maximum(result.run, 10.0), 1.0)

    with tempfile.TemporaryDirectory() as scratch:
        for seed, one in enumerate(made):
            one.save(f"{scratch}/{seed}")
        agents = [f"agent:{scratch}/{seed}" for seed in range(seeds)]
        for policy, backfill in (("fcfs", "easy"), ("fcfs", "easy-sjf"), ("sjf", "easy"), ("saf", "easy")):
            rows: dict[str, list[np.ndarray]] = {
                "limits": [bsld(policy, backfill)],
                "last-two": [bsld(policy, backfill, predict="last-two")],
                "agent, backfill": [bsld(policy, backfill, predict=agent) for agent in agents],
                "true run times": [bsld(policy, backfill, estimates="actual")],
            }
            if policy != "fcfs":
                rows["agent, order"] = [bsld(policy, backfill, predict=a, predict_for="order") for a in agents]
            if policy == "saf":
                rows["predicted-index"] = [
                    bsld("predicted-index", backfill, predict=a, predict_for="order") for a in agents
                ]
            blocks = {name: _blocks(np.mean(values, axis=0)) for name, values in rows.items()}
            for name, values in rows.items():
                found = compare(blocks[name], blocks["limits"])
                print(f"{policy} {backfill:9} {_row(name, values)}", *([_minus(found)] if name != "limits" else []))


def _row(name: str, values: list[np.ndarray]) -> str:
    """Return the bounded slowdowns of one way to estimate, over seeds."""
    each = [float(one.mean()) for one in values]
    geometric = float(np.exp(np.mean([np.log(one).mean() for one in values])))
    spread = f" ({min(each):.1f}–{max(each):.1f})" if len(each) > 1 else ""
    return f"{name:16} bsld {np.mean(each):7.2f}{spread}, geometric {geometric:.3f}"


def _minus(found: dict[str, Any]) -> str:
    return f" minus limits {found['paired_difference']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"


def _blocks(values: np.ndarray) -> np.ndarray:
    """Return the means of consecutive blocks of jobs."""
    count = len(values) // BLOCK
    return np.array([block.mean() for block in np.array_split(values, count)])


def models(path: str, jobs: int, seeds: int) -> None:
    """Print the error on later real jobs of predictors that learnt from each generator's jobs."""
    from generators import MODELS as KNOWN
    from generators.synth import fit, make

    trace = read(path, jobs)
    first, last = int(0.6 * len(trace)), int(0.8 * len(trace))
    learnt = trace.head(first)
    made = {"real": [train(learnt, seed=seed, outputs=("q50", "ln_mean")) for seed in range(seeds)]}
    for name in MODELS:
        fitted = fit(learnt, KNOWN.get(name), seed=0, budget="quick")
        samples = [make(fitted, first, seed=seed, load="real") for seed in range(seeds)]
        samples = [one.replace(machine=one.machine.replace(procs=learnt.machine.procs)) for one in samples]
        made[name] = [train(one, seed=k, outputs=("q50", "ln_mean")) for k, one in enumerate(samples)]
    print(f"{Path(path).name}: learnt from {first:,} jobs, error on the last {len(trace) - last:,}, in ln seconds")
    errors(trace, last, made)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "waits", "models"))
    parser.add_argument("trace", nargs="?")
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--share", type=float, default=0.6)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    if given.what == "speed":
        speed()
    elif given.trace is None:
        parser.error("name a trace")
    elif given.what == "waits":
        waits(given.trace, given.jobs, given.share, given.seeds)
    else:
        models(given.trace, given.jobs, given.seeds)


if __name__ == "__main__":
    main()
