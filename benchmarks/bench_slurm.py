"""Windows for replays on a real Slurm, the replays, and the tables of docs/slurm.md from them.

    python benchmarks/bench_slurm.py windows DIR TRACE…    writes DIR/<name>A.swf and DIR/<name>B.swf, and their speeds
    python benchmarks/bench_slurm.py replays DIR [N]       replays them, N at a time (default 4); goes on if interrupted
    python benchmarks/bench_slurm.py tables DIR            the tables, from all replays that have ended
    python benchmarks/bench_slurm.py steering DIR          the table of steered windows alone
    python benchmarks/bench_slurm.py recorded FILE         a recorded jobcomp log of 64 nodes, under several switches

A window is 130 consecutive jobs, at a multiple of 130, on 64 processors at load 1.1, the first two in which no job
takes more than half of the span; its speed makes the submits span 300 s. A replay takes seven to ten minutes and little
processor time, but a busy machine makes Slurm slow: as root, start the replays with `nice -n -15`. Each is one command:

    tracekit slurm replay DIR/kthA.swf -o DIR/kthA-easy-1 --scheduler easy --speed 441 --cpus 64
"""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import tracekit
from tracekit import Trace, simulate
from tracekit.slurm.compare import MATCHING, Agreement, compare, fit_interval, fit_reaction
from tracekit.slurm.plan import Plan
from tracekit.slurm.session import OUTCOME, outcome_in
from tracekit.transform.scaling import scale_load, scale_procs

JOBS, PROCS, LOAD, SPAN_S = 130, 64, 1.1, 300
REPEATS = 3
#: The windows on which Slurm is steered, by what, and how often.
STEERED, STEERING, STEERED_REPEATS = ("ctcA", "lublinA"), ("saf", "agent:default", "fcfs", "sjf"), 2
#: Reactions over which simulations with backfilling are averaged: single ones are chaotic.
AROUND = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


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


def replays(folder: Path, at_once: int) -> None:
    """Replay windows B without backfilling, windows A under three settings, and one window steered."""
    names = [f"{one.stem}-none-1" for one in sorted(folder.glob("*B.swf"))]
    for repeat in range(1, REPEATS + 1):
        for setting in ("none", "easy", "conservative"):
            names += [f"{one.stem}-{setting}-{repeat}" for one in sorted(folder.glob("*A.swf"))]
    repeats = range(1, STEERED_REPEATS + 1)
    names += [f"{window}-drive_{policy}-{n}" for n in repeats for window in STEERED for policy in STEERING]

    def one(name: str) -> None:
        window, setting, _ = name.split("-")
        if (folder / name / OUTCOME).is_file():
            return
        words = [sys.executable, "-m", "tracekit", "slurm", "replay", folder / f"{window}.swf", "-o", folder / name]
        words += ["--cpus", PROCS, "--speed", (folder / f"{window}.speed").read_text()]
        steered = setting.startswith("drive_")
        words += ["--scheduler", "easy" if steered else setting]
        words += ["--drive", setting.removeprefix("drive_")] if steered else []
        with (folder / f"{name}.log").open("w") as log:
            code = subprocess.run([str(word) for word in words], stdout=log, stderr=log, check=False).returncode
        print(name, "ended" if code == 0 else f"failed, see {name}.log", flush=True)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, names))


def ended(folder: Path, pattern: str) -> list[tuple[Trace, Plan, str]]:
    """Return the replays of a pattern that have ended."""
    places = sorted(place for place in folder.glob(pattern) if (place / OUTCOME).is_file())
    return [outcome_in(place) for place in places]


def launch(real: Trace, plan: Plan) -> float:
    """Return by how much jobs ran longer than they slept, on average: their launch and end."""
    slept = {job.position: job.run for job in plan.jobs}
    return float(np.mean(real.column("run_time") - [slept[position] for position in real.jobs["x_position"]]))


def row(cells: list[str]) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(cells) + " |", flush=True)


def each(values: list[float], digits: int = 1) -> str:
    """Return numbers, one of each repeat."""
    return ", ".join(f"{value:.{digits}f}" for value in values)


def mean_wait(found: list[Agreement]) -> float:
    """Return the mean simulated wait over reactions."""
    return float(np.mean([one.simulated.wait.mean() for one in found]))


def tables(folder: Path) -> None:
    """Print the three tables."""
    names = [one.stem for one in sorted(folder.glob("*A.swf"))]
    reaction = fit_reaction(*(real for real, _, _ in ended(folder, "*B-none-*")))
    interval = fit_interval(*(real for real, _, _ in ended(folder, "*B-none-*")))
    switches: dict[str, Any]
    for switches in ({"reaction": reaction}, {"interval": interval}, {"reaction": 0.0}):
        print(f"\nwithout backfilling, {switches}, fitted on windows B\n")
        row(["window", "mean wait, Slurm", "simulated", "mean error of starts", "longest", "launch and end"])
        for name in names:
            found = ended(folder, f"{name}-none-*")
            facts = [compare(real, backfill="none", **switches).to_dict() for real, _, _ in found]
            cells = [[one[key] for one in facts] for key in ("mean_wait_slurm_s", "mean_wait_simulated_s")]
            cells += [[one["start_error_s"][key] for one in facts] for key in ("mean", "max")]
            row([name, *map(each, cells), each([launch(real, plan) for real, plan, _ in found])])
    print(f"\nwith backfilling; simulations are means over reactions {AROUND}\n")
    row(["window", "Slurm", "mean wait, Slurm", "simulated", "means differ by", "tau", "groups on counts", "plain"])
    for setting in ("easy", "conservative"):
        for name in names:
            found = ended(folder, f"{name}-{setting}-*")
            real = [float(one.column("wait_time").mean()) for one, _, _ in found]
            kinds: list[dict[str, Any]] = [{}, {"nodes": False, "group_ends": 30.0}, {"nodes": False}]
            waits, taus = [list[float](), list[float](), list[float]()], list[float]()
            for kind, simulated in zip(kinds, waits, strict=True):
                for one, _, profile in found:
                    made = [compare(one, backfill=MATCHING[profile], reaction=r, **kind) for r in AROUND]
                    simulated.append(mean_wait(made))
                    if not kind:
                        taus.append(float(np.mean([agreed.order_agreement for agreed in made])))
            apart = [f"{100 * (np.mean(simulated) / np.mean(real) - 1):+.0f} %" for simulated in waits]
            row([name, setting, each(real), each(waits[0]), apart[0], each(taus, 2), apart[1], apart[2]])
    steering(folder)


def steering(folder: Path) -> None:
    """Print the waits of steered windows, and their forecasts: an order as priorities, on nodes."""
    for window in STEERED:
        print(f"\n{window}, steered; forecasts are means over reactions {AROUND}\n")
        row(["order", "measured", "forecast", "means differ by", "tau", "agent asked job by job", "launch and end"])
        for policy in STEERING:
            found = ended(folder, f"{window}-drive_{policy}-*")
            real = [float(one.column("wait_time").mean()) for one, _, _ in found]
            forecast, taus, single = list[float](), list[float](), list[float]()
            for one, _, _ in found:
                made = [compare(one, policy=policy, reaction=r) for r in AROUND]
                forecast.append(mean_wait(made))
                taus.append(float(np.mean([agreed.order_agreement for agreed in made])))
                if policy.startswith("agent:"):
                    asked = [simulate(one, policy, "easy", procs=PROCS, reaction=r) for r in AROUND]
                    single.append(float(np.mean([result.wait.mean() for result in asked])))
            apart = f"{100 * (np.mean(forecast) / np.mean(real) - 1):+.0f} %" if real else ""
            over = each([launch(one, plan) for one, plan, _ in found])
            row([policy, each(real), each(forecast), apart, each(taus, 2), each(single), over])


def recorded(path: Path) -> None:
    """Print the mean wait of a recording with one reservation, and of its simulations."""
    real = tracekit.read(path, "jobcomp", procs=PROCS)
    real = real.take(np.argsort(real.column("submit_time"), kind="stable"))
    begun = real.column("submit_time") - real.column("submit_time").min()
    jobs = real.assign({"submit_time": begun, "req_procs": real.column("alloc_procs")}).jobs
    real = Trace(jobs, real.machine.replace(procs=PROCS, nodes=PROCS))
    print(f"Slurm: {real.column('wait_time').mean():.1f} s")
    kinds: dict[str, dict[str, Any]] = {
        "on nodes": {},
        "groups, no nodes": {"nodes": False, "group_ends": 30.0},
        "plain": {"nodes": False},
    }
    for name, kind in kinds.items():
        print(
            f"{name}: {each([mean_wait([compare(real, reaction=r, **kind)]) for r in (0.3, 0.5, 0.7)])} s", flush=True
        )


if __name__ == "__main__":
    what, place, *rest = sys.argv[1:]
    if what == "windows":
        windows(Path(place), rest)
    elif what == "replays":
        replays(Path(place), int(rest[0]) if rest else 4)
    elif what == "recorded":
        recorded(Path(place))
    elif what == "steering":
        steering(Path(place))
    else:
        tables(Path(place))
