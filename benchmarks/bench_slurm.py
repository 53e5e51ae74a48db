"""Windows for replays on a real Slurm, and the table of docs/slurm.md from finished replays.

    python benchmarks/bench_slurm.py windows DIR TRACE…    writes DIR/<name>A.swf and DIR/<name>B.swf, and their speeds
    python benchmarks/bench_slurm.py table DIR             compares all replays in DIR with their simulations

A window is 130 consecutive jobs, at a multiple of 130, on 64 processors at load 1.1, the first two in which no job
takes more than half of the span; its speed makes the submits span 300 s. Each replay is one command:

    tracekit slurm replay DIR/kthA.swf -o DIR/kthA-easy-1 --scheduler easy --speed 441 --cpus 64
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

import tracekit
from tracekit import Trace
from tracekit.slurm.compare import MATCHING, REACTIONS, compare, fit_reaction
from tracekit.slurm.session import outcome_in
from tracekit.transform.scaling import scale_load, scale_procs

JOBS, PROCS, LOAD, SPAN_S = 130, 64, 1.1, 300
#: Reactions over which simulations with backfilling are averaged: single ones are chaotic.
AROUND = [r for r in REACTIONS if 0.5 <= r <= 0.9]


def windows(folder: Path, traces: list[str]) -> None:
    """Write two windows of each trace."""
    for path in traces:
        name = re.split(r"[-_]", Path(path).name)[0].lower()
        trace, found = tracekit.read(path), 0
        for start in range(0, len(trace) - JOBS, JOBS):
            part = Trace(trace.jobs.iloc[start : start + JOBS].reset_index(drop=True), trace.machine)
            run = part.column("run_time")
            if not ((run > 0) & (part.sizes() > 0)).all():
                continue
            part = scale_load(scale_procs(part, PROCS), LOAD)
            span = float(np.ptp(part.column("submit_time")))
            if run.max() > span / 2:
                continue
            speed = round(span / SPAN_S)
            tracekit.write(part, folder / f"{name}{'AB'[found]}.swf", force=True)
            (folder / f"{name}{'AB'[found]}.speed").write_text(str(speed))
            print(f"{name}{'AB'[found]}: from job {start}, --speed {speed}")
            found += 1
            if found == 2:
                break


def table(folder: Path) -> None:
    """Print one row for each replay."""
    fitted = {}
    for place in sorted(folder.glob("*B-none-1")):
        fitted[place.name.partition("B-")[0]] = fit_reaction(outcome_in(place)[0])
    print("fitted on B:", fitted)
    for place in sorted(folder.glob("*-*")):
        real, plan, profile = outcome_in(place)
        run = {job.position: job.run for job in plan.jobs}
        over = real.column("run_time") - np.array([run[position] for position in real.jobs["x_position"]])
        rule, policy = MATCHING[profile], plan.drive or "fcfs"
        own = fitted.get(place.name.partition("-")[0][:-1], 0.7)
        tried = AROUND if not policy.startswith("agent") else [0.5, 0.7, 0.9]
        one = compare(real, policy=policy, backfill=rule, reaction=own).to_dict()
        many = [compare(real, policy=policy, backfill=rule, reaction=reaction) for reaction in tried]
        waits = [float(found.simulated.wait.mean()) for found in many]
        taus = [found.order_agreement for found in many]
        error = one["start_error_s"]
        print(
            f"{place.name:28s} real {one['mean_wait_slurm_s']:6.1f} | reaction {own:g}: "
            f"{one['mean_wait_simulated_s']:6.1f} error {error['mean']:5.2f} max {error['max']:6.2f} "
            f"tau {one['order_agreement']:.3f} | mean of {len(many)}: {np.mean(waits):6.1f} "
            f"({min(waits):.1f} … {max(waits):.1f}) tau {np.mean(taus):.3f} | launch and end {over.mean():.1f} s"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["windows"]:
        windows(Path(sys.argv[2]), sys.argv[3:])
    else:
        table(Path(sys.argv[2]))
