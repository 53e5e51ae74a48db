"""How fast the simulator is, and how it grows; the yardstick (`easy_heapq`) runs in the same run on the same jobs.

    python benchmarks/simulator.py [--quick] [--json] [--trace FILE.swf.gz]

Times are CPU seconds of the calling thread, the best of a few runs from a warm cache: on a shared machine wall-clock
time measures the neighbours. Only the engine is timed where it says "engine"; "simulate" adds preparation and metrics.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent))
import easy_heapq

import tracekit
from tracekit.sim.jobs import extract_jobs, prepare
from tracekit.sim.policies.builtin import find
from tracekit.sim.setup import Setup
from tracekit.sim.simulate import outcome, simulate
from tracekit.sim.switches import Switches
from tracekit.trace import Machine, Trace

KTH = "KTH-SP2-1996-2.1-cln.swf.gz"


def best(work: Callable[[], Any], times: int) -> float:
    """Return the least CPU seconds of a few runs."""
    least = float("inf")
    for _ in range(times):
        begin = time.thread_time()
        work()
        least = min(least, time.thread_time() - begin)
    return least


def synthetic(jobs: int, load: float, procs: int = 256, seed: int = 1) -> Trace:
    """Make a trace: sizes log-uniform (1 in 4 serial), run times log-normal, limits 1–10 × that, Poisson arrivals."""
    rng = np.random.default_rng(seed)
    size = np.floor(2 ** rng.uniform(0, np.log2(procs) - 1, jobs)).astype(np.int64)
    size[rng.random(jobs) < 0.25] = 1
    return _arriving(size, np.ceil(np.exp(rng.normal(6.0, 1.8, jobs))).clip(1, 172_800), load, procs, rng)


def crowded(jobs: int, load: float = 1.06, procs: int = 256, seed: int = 1) -> Trace:
    """Make a trace of jobs that are much alike, so that the queue of an overloaded machine is as long as it can be."""
    rng = np.random.default_rng(seed)
    return _arriving(rng.integers(8, 25, jobs), np.ceil(np.exp(rng.normal(7.0, 0.2, jobs))), load, procs, rng)


def _arriving(size: Any, run: Any, load: float, procs: int, rng: np.random.Generator) -> Trace:
    limit = np.minimum(np.ceil(run * rng.uniform(1, 10, len(run)) / 60) * 60, 259_200.0)
    gap = rng.exponential(1.0, len(run))
    submit = np.floor(np.cumsum(gap) * ((size * run).sum() / (load * procs) / gap.sum()))
    columns = {"submit_time": submit, "run_time": run, "req_time": limit, "req_procs": size}
    return Trace(
        pd.DataFrame({"job_id": np.arange(1, len(run) + 1), **columns}), Machine(name="synthetic", procs=procs)
    )


def engine_seconds(trace: Trace, policy: str, backfill: str, times: int, *, replan: bool = False) -> tuple[float, Any]:
    """Return the best CPU seconds of the engine alone, and the start times; ``replan``: by the general loop."""
    from tracekit.sim.engine.session import Session
    from tracekit.sim.policies.formulas import GIVEN, values_for

    switches = Switches()
    ready = prepare(extract_jobs(trace, switches), switches)
    least, start = float("inf"), None
    for _ in range(times):
        begin = time.thread_time()
        run = Session(Setup(ready, backfill, switches))
        code, given = values_for(policy, ready, switches)
        if code == GIVEN and run.can_rank(given) and not replan:
            run.ranked(given)
        else:
            run.run(code, given)
        least, start = min(least, time.thread_time() - begin), run.jobs.start
    return least, start


def real_log(path: str | None) -> Trace:
    """Return the log to measure on: the one given, KTH-SP2 if it is at hand, else a synthetic one of its size."""
    folder = Path(os.environ.get("TRACEKIT_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    place = Path(path) if path else folder / "swf" / KTH
    if place.is_file():
        return tracekit.read(place)
    print(f"({place} is not here: measuring on a synthetic log of 28,000 jobs)", file=sys.stderr)
    return synthetic(28_000, 0.7, procs=100)


def yardstick(trace: Trace, times: int) -> tuple[float, list[float]]:
    """Return the best CPU seconds of the plain-Python EASY, and its start times."""
    ready = prepare(extract_jobs(trace, Switches()), Switches())
    columns = (ready.table.submit.tolist(), ready.run.tolist(), ready.estimate.tolist(), ready.units.tolist())
    found: list[list[float]] = []
    seconds = best(lambda: found.append(easy_heapq.easy(*columns, ready.total)), times)
    return seconds, found[-1]


def array_bytes(trace: Trace, policy: str, backfill: str) -> float:
    """Return the bytes per job of all arrays that the engine holds, views counted once."""
    import tracemalloc

    switches = Switches()
    ready = prepare(extract_jobs(trace, switches), switches)
    tracemalloc.start()
    engine_input = sum(a.nbytes for a in (ready.table.submit, ready.run, ready.estimate, ready.units))
    outcome(Setup(ready, backfill, switches), find(policy))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (engine_input + peak) / len(trace)


def command_seconds(trace: Trace) -> tuple[float, float]:
    """Return the wall-clock and the CPU seconds of `tracekit simulate` on 5,000 jobs, import included."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.swf"
        tracekit.write(trace.head(5000), path)
        command = [sys.executable, "-m", "tracekit", "simulate", str(path), "--policy", "fcfs", "--json"]
        seconds = []
        for _ in range(5):
            begin, before = time.perf_counter(), os.times()
            subprocess.run(command, check=True, capture_output=True)
            after = os.times()
            cpu = after.children_user + after.children_system - before.children_user - before.children_system
            seconds.append((time.perf_counter() - begin, cpu))
    return min(seconds)


def long_queues(note: Callable[..., None], jobs: int) -> None:
    """Measure conservative backfilling where many jobs wait: kept plans against new ones, and policies without any."""
    from tracekit.sim.metrics import queue_length

    crowd = synthetic(jobs, 1.15)
    exact = crowd.assign({"req_time": crowd.column("run_time")})
    kinds = [(policy, "users'", crowd) for policy in ("fcfs", "largest", "ljf", "sjf", "saf", "wfp3", "unicep")]
    for policy, limits, trace in (("fcfs", "exact", exact), ("wfp3", "exact", exact), *kinds):
        engine_seconds(trace.head(500), policy, "conservative", 1)  # compiled, if it was not
        seconds, start = engine_seconds(trace, policy, "conservative", 2)
        found: dict[str, Any] = {"longest_queue": f"{queue_length(trace.column('submit_time'), start)[1]:,}"}
        if policy not in ("wfp3", "unicep"):  # whose orders change while jobs wait: nothing is kept
            engine_seconds(trace.head(500), policy, "conservative", 1, replan=True)
            slow, again = engine_seconds(trace, policy, "conservative", 1, replan=True)
            note(f"engine: {policy}, {limits} limits, new plans at every event", len(trace), slow)
            found |= {"ratio": f"{slow / seconds:.1f}× new plans", "same_starts": bool(np.array_equal(start, again))}
        note(f"engine: {policy} + conservative, {limits} limits, load 1.15", len(trace), seconds, **found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs, fewer repetitions")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--conservative", action="store_true", help="only conservative backfilling with long queues")
    parser.add_argument("--trace", help="the real log to measure on (default: KTH-SP2 in TRACEKIT_DATA)")
    asked = parser.parse_args()
    times, big = (3, 100_000) if asked.quick else (7, 1_000_000)
    rows: list[dict[str, Any]] = []

    def note(what: str, jobs: int, seconds: float, target: float | None = None, **more: Any) -> None:
        rows.append({"what": what, "jobs": jobs, "jobs_per_s": round(jobs / seconds), "target": target, **more})
        if not asked.json:
            wanted = f"  (wanted {target:,.0f})" if target else ""
            extra = "".join(f"  {key} {value}" for key, value in more.items())
            print(f"{what:<44}{jobs:>12,} jobs {jobs / seconds:>13,.0f} jobs/s{wanted}{extra}", flush=True)

    if asked.conservative:
        long_queues(note, 5_000 if asked.quick else 40_000)
        if asked.json:
            print(json.dumps({"benchmark": "simulator", "rows": rows}, indent=2))
        return
    log = real_log(asked.trace)
    slow, theirs = yardstick(log, max(times // 2, 1))
    fast, ours = engine_seconds(log, "fcfs", "easy", times * 3)
    same = bool(np.array_equal(ours, theirs))
    note("yardstick: plain Python, heapq, EASY", len(log), slow)
    note("engine: fcfs + easy", len(log), fast, 1.5e6, ratio=f"{slow / fast:.1f}× yardstick", same_starts=same)
    for policy, backfill, target in (
        ("fcfs", "none", None),
        ("sjf", "easy", None),
        ("f1", "easy-sjf", None),
        ("wfp3", "easy", 1e5),
        ("multifactor", "easy", None),
        ("fcfs", "conservative", 5e4),
        ("wfp3", "conservative", 5e4),
    ):
        note(f"engine: {policy} + {backfill}", len(log), engine_seconds(log, policy, backfill, times)[0], target)
    note("simulate: fcfs + easy, preparation included", len(log), best(lambda: simulate(log), times))

    calm, full = synthetic(big, 0.9), crowded(big)
    note("engine: fcfs + easy, load 0.9", big, engine_seconds(calm, "fcfs", "easy", 3)[0], 1e6)
    seconds, start = engine_seconds(full, "fcfs", "easy", 2)
    from tracekit.sim.metrics import queue_length

    longest = queue_length(full.column("submit_time"), start)[1]
    note("engine: fcfs + easy, load 1.06", big, seconds, 2e5, longest_queue=f"{longest:,}")
    for policy, backfill in (("sjf", "easy"), ("fcfs", "easy-sjf")):
        note(f"engine: {policy} + {backfill}, load 1.06", big, engine_seconds(full, policy, backfill, 1)[0])

    long_queues(note, 5_000 if asked.quick else 40_000)
    sizes = (10_000, 100_000) if asked.quick else (10_000, 100_000, 1_000_000, 10_000_000)
    for jobs in sizes:
        trace = synthetic(jobs, 0.9)
        note(
            "growth: fcfs + easy, load 0.9", jobs, engine_seconds(trace, "fcfs", "easy", 7 if jobs <= 100_000 else 1)[0]
        )
    for policy, backfill in (("fcfs", "easy"), ("sjf", "easy-sjf"), ("wfp3", "conservative")):
        used = array_bytes(synthetic(100_000, 0.9), policy, backfill)
        rows.append({"what": f"memory: {policy} + {backfill}", "bytes_per_job": round(used), "target": 200})
        if not asked.json:
            print(f"{f'memory: {policy} + {backfill}':<44}{used:>17,.0f} bytes a job  (wanted at most 200)")
    wall, cpu = command_seconds(log)
    rows.append(
        {
            "what": "command: tracekit simulate, 5,000 jobs",
            "seconds": round(wall, 2),
            "cpu_seconds": round(cpu, 2),
            "target": 2.0,
        }
    )
    if asked.json:
        print(json.dumps({"benchmark": "simulator", "rows": rows}, indent=2))
    else:
        print(f"{'command: tracekit simulate, 5,000 jobs':<44}{wall:>17.2f} s wall-clock, {cpu:.2f} s CPU  (wanted 2)")


if __name__ == "__main__":
    main()
