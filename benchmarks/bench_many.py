"""Sweeps of many traces: all of them as one queue, against one `tracekit sweep` after the other, in the same run.

    python benchmarks/bench_many.py --traces 8 --jobs 20000 --repeat 3
    python benchmarks/bench_many.py --memory --jobs 100000 300000

Traces are made by the model `lublin`, written as SWF. Both ways use all cores: a single sweep with threads, the queue
with processes. The best wall-clock time of the repetitions counts; CPU seconds include all workers. Results are
compared byte by byte. ``--memory`` shows what a piece of work was thought to take, and what it took.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from bench_scale import measured, show, tracekit

SWEEP = ("--load", "0.6,0.7,0.8,0.9", "--policy", "fcfs,sjf", "--shake", "3", "--estimates", "actual")


def made(folder: Path, count: int, jobs: int) -> list[Path]:
    """Return traces of so many jobs each."""
    if not (folder / "sample.swf").exists():
        measured(tracekit("sample", folder / "sample.swf"))
    files = [folder / f"trace-{jobs}-{number}.swf" for number in range(count)]
    for number, file in enumerate(files):
        words = ("synth", folder / "sample.swf", "--model", "lublin", "--jobs", jobs, "--seed", number, "-o", file)
        measured(tracekit(*words))
    return files


def compare(folder: Path, files: list[Path], repeat: int) -> None:
    """Sweep one after the other and all at once, in turn."""
    best: dict[str, dict[str, float]] = {}
    for number in range(repeat):
        alone, queue = folder / f"alone-{number}", folder / f"queue-{number}"
        found = [measured(tracekit("-q", "sweep", file, *SWEEP, "-o", alone / file.stem)) for file in files]
        one = {key: sum(each[key] for each in found) for key in ("seconds", "cpu_s")}
        all_ = measured(tracekit("-q", "sweep", *files, *SWEEP, "-o", queue))
        for file in files:
            texts = [(place / file.stem / "sweep.csv").read_bytes() for place in (alone, queue)]
            if texts[0] != texts[1]:
                raise SystemExit(f"{file}: other results")
        for name, row in (("one after the other", one), ("one queue", all_)):
            if name not in best or row["seconds"] < best[name]["seconds"]:
                best[name] = {key: row[key] for key in ("seconds", "cpu_s")}
    cost = json.loads((queue / "summary.json").read_text(encoding="utf-8"))["cost"]
    for name, row in best.items():
        show({"way": name, "traces": len(files), **row})
    show({"largest_worker_mb": cost["largest_peak_mb"], "allowed_mb": cost["worker_memory_mb"]})


def memory(folder: Path, jobs: int) -> None:
    """Compare the memory that pieces were thought to take with what they took."""
    files = made(folder, 1, jobs)
    out = folder / f"memory-{jobs}"
    measured(tracekit("-q", "sweep", *files, *SWEEP, "-o", out, "--worker-memory", "3G"))
    for path in sorted(out.glob("tasks/*/result.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["task"]["kind"] == "sweep":
            thought, took = found["task"]["asks"] / 1024**2, found["result"]["peak_mb"]
            show({"jobs": jobs, "load": found["task"]["params"]["load"], "thought_mb": thought, "took_mb": took})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=8)
    parser.add_argument("--jobs", type=int, nargs="+", default=[20_000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="only compare the memory thought of with that taken")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-many-"))
    try:
        for jobs in arguments.jobs:
            if arguments.memory:
                memory(folder, jobs)
            else:
                compare(folder, made(folder, arguments.traces, jobs), arguments.repeat)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
