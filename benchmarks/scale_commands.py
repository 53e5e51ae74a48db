"""The commands that read traces in parts, and streaming synthesis: the part ``commands`` of bench_scale.py.

The trace is made by ``synth`` from the embedded sample, in parts; the files stay in --folder for the next run.
"""

from __future__ import annotations

import argparse
import shutil
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
    "split": "split {in} -o {out} --parts --by queue",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/tracekit-scale"))
    parser.add_argument("--only", nargs="+", choices=sorted(COMMANDS), default=list(COMMANDS))
    parser.add_argument("--whole", action="store_true", help="also info and validate of the whole trace in memory")


def run(arguments: argparse.Namespace) -> None:
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    sample = folder / "sample.parquet"
    if not sample.exists():
        measured(tracekit("-q", "sample", sample))
    for jobs in arguments.jobs:
        made = folder / f"made-{jobs}"
        if not made.exists():
            words = ["-q", "synth", sample, "-o", made, "--jobs", jobs, "--seed", 1, "--part-jobs", PART_JOBS]
            used = measured(tracekit(*words))
            size = sum(file.stat().st_size for file in made.iterdir()) / 1e6
            show({"jobs": jobs, "command": "synth", **used, "file_mb": size})
        for name in arguments.only:
            _one(name, COMMANDS[name], jobs, made, folder)
            if arguments.whole and name in ("info", "validate"):
                _one(f"{name} --whole", COMMANDS[name].replace("--parts", "--whole"), jobs, made, folder)


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
