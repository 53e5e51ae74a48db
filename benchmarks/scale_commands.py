"""The commands that read traces in parts, and streaming synthesis: the part ``commands`` of bench_scale.py.

The trace is made by ``synth`` from the embedded sample, in parts; the files stay in --folder for the next run. With
--copies a trace of ten times as many jobs is ten copies of the one before, one after the other with new ids, which is
faster than making it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from bench_scale import measured, show, tracekit

#: Jobs of a part, and the commands; {in} is the trace, {out} what is written and removed afterwards.
PART_JOBS = 1_000_000
COMMANDS = {
    "info": "info {in} --parts",
    "validate": "validate {in} --parts",
    "clean": "clean {in} {out} --parts --rules drop-duplicate-ids,drop-zero-run-time,cap-run-at-limit",
    "slice": "slice {in} {out} --parts --user u1,u2,u3",
    "scale": "scale {in} {out} --parts --load 0.6 --procs 512",
    "convert": "convert {in} {out} --parts",
    "parts": "convert {in} {out} --parts --part-jobs 5000000",  # parts of another size
    "split": "split {in} -o {out} --parts --by queue",
    "simulate": "simulate {in} --policy fcfs --backfill easy",  # in memory, only the columns that it needs
    "score": "score {in} {in} --parts --quick --families marginal,time,load",
    "plot": "plot {in} -o {out} --parts",
}
#: Ten copies of a trace, one after the other: runs in a process of its own, like the commands.
COPY = """
import sys
from swf.parts import Parts, write_parts
from tracekit.large.source import edges
one, many, part_jobs = sys.argv[1:]
parts = Parts(one)
low, high = edges(parts).column("submit_time")
def copies():
    for k in range(10):
        for batch in parts.batches():
            ids, submit = batch.column("job_id") + k * parts.jobs, batch.column("submit_time") + k * (high - low + 60)
            yield batch.assign({"job_id": ids, "submit_time": submit})
write_parts(copies(), many, part_jobs=int(part_jobs), machine=lambda known: (known, [*parts.history, "ten copies"]))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/tracekit-scale"))
    parser.add_argument("--only", nargs="+", choices=sorted(COMMANDS), default=list(COMMANDS))
    parser.add_argument("--copies", action="store_true", help="traces above a million jobs are copies of smaller ones")
    parser.add_argument("--whole", action="store_true", help="also info and validate of the whole trace in memory")


def run(arguments: argparse.Namespace) -> None:
    folder: Path = arguments.folder
    for jobs in arguments.jobs:
        made = made_trace(jobs, folder, copies=arguments.copies)
        for name in arguments.only:
            _one(name, COMMANDS[name], jobs, made, folder)
            if arguments.whole and name in ("info", "validate"):
                _one(f"{name} --whole", COMMANDS[name].replace("--parts", "--whole"), jobs, made, folder)


def made_trace(jobs: int, folder: Path, *, copies: bool) -> Path:
    """Return the trace of so many jobs; making it is measured where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    sample, made, smaller = folder / "sample.parquet", folder / f"made-{jobs}", folder / f"made-{jobs // 10}"
    if made.exists():
        return made
    if not sample.exists():
        measured(tracekit("-q", "sample", sample))
    if copies and jobs > 1_000_000 and smaller.exists():
        name, line = "copies", [sys.executable, "-c", COPY, str(smaller), str(made), str(PART_JOBS)]
    else:
        words = ["-q", "synth", sample, "-o", made, "--jobs", jobs, "--seed", 1, "--part-jobs", PART_JOBS]
        name, line = "synth", tracekit(*words)
    used = measured(line)
    size = sum(file.stat().st_size for file in made.iterdir()) / 1e6
    show({"jobs": jobs, "command": name, **used, "file_mb": size})
    return made


def _one(name: str, line: str, jobs: int, made: Path, folder: Path) -> None:
    """Measure one command and remove what it wrote."""
    out = folder / "out.parquet"
    words = line.format(**{"in": made, "out": out}).split()
    show({"jobs": jobs, "command": name, **measured(tracekit("-q", *words))})
    for left in (out, Path(f"{out}.recipe.toml")):
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)
