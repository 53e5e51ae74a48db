"""Models fitted to traces that are read in parts: the part ``fit`` of bench_scale.py.

The traces are those of the part ``commands``, made if they are not there. With --whole each model is also fitted to the
whole trace in memory.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench_scale import measured, show, tracekit
from scale_commands import made_trace

MODELS = ("lublin", "resample", "independent", "user-resample", "sessions", "sessions modelled")
#: Jobs that each model makes.
MADE = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/tracekit-scale"))
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--whole", action="store_true", help="also the whole trace in memory")
    parser.add_argument("--copies", action="store_true", help="traces above a million jobs are copies of smaller ones")


def run(arguments: argparse.Namespace) -> None:
    for jobs in arguments.jobs:
        trace = made_trace(jobs, arguments.folder, copies=arguments.copies)
        for model in arguments.only:
            for how in ("--parts", "--whole") if arguments.whole else ("--parts",):
                show({"jobs": jobs, "model": model, "how": how[2:], **_one(trace, model, how, arguments.folder)})


def _one(trace: Path, model: str, how: str, folder: Path) -> dict[str, Any]:
    name, _, skeleton = model.partition(" ")
    out = folder / "fitted.parquet"
    words = ["-q", "synth", trace, "-o", out, how, "--model", name, "--jobs", MADE, "--seed", 1, "--force"]
    used = measured(tracekit(*words, *(["--skeleton", skeleton] if skeleton else [])))
    out.unlink()
    return used
