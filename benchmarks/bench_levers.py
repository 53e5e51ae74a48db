"""Levers of energy on all nodes of Mira: the speed with each against the same simulation with energy and no lever.

    python benchmarks/bench_levers.py [--jobs 100000] [--times 3]

CPU seconds of one core, least of several runs after compilation. The ratio is the result; seconds vary.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from bench_energy import NODES, crowd, seconds

from tracekit.clusters import preset
from tracekit.machine import Machine
from tracekit.sim.energy.model import power_of
from tracekit.sim.switches import Switches
from tracekit.trace import Trace


def sleeping() -> Machine:
    """Return Mira with nodes that could sleep; the times and watts of sleep are made up."""
    mira = preset("mira")
    groups = [replace(group, sleep_watts=5.0, off_seconds=30.0, on_seconds=120.0) for group in mira.groups]
    return mira.replace(groups=tuple(groups))


def write_series(trace: Trace, folder: Path) -> str:
    """Write hourly carbon intensities with a daily wave, two days longer than the trace."""
    hours = np.arange(int(trace.column("submit_time").max() / 3600) + 24 * 60)
    values = 0.3 + 0.1 * np.sin(hours / 24 * 2 * np.pi)
    place = folder / "carbon.csv"
    place.write_text("".join(f"{hour * 3600},{value:.4f}\n" for hour, value in zip(hours, values, strict=True)))
    return str(place)


def main() -> None:
    """Print seconds and ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    trace, mira = crowd(given.jobs), preset("mira")
    full = power_of(mira).full_it_watts * 1.2 / 1000
    counter, hosts = Switches(power="mira"), Switches(cluster=sleeping(), sleep_after=1e12)
    with tempfile.TemporaryDirectory() as folder:
        cases = {
            "--power-cap at 0.9 of the peak": (counter, replace(counter, power_cap=0.9 * full)),
            "--frequency 0.8": (counter, replace(counter, frequency=0.8)),
            "--max-extra-wait 4 h": (
                counter,
                replace(counter, max_extra_wait=4 * 3600.0, carbon=write_series(trace, Path(folder))),
            ),
            "--sleep-after 600": (hosts, replace(hosts, sleep_after=600.0)),
            "--sleep-after 600 --allocate pack-and-sleep": (
                hosts,
                replace(hosts, sleep_after=600.0, allocate="pack-and-sleep"),
            ),
        }
        before = {id(switches): seconds(trace, switches, given.times) for switches in (counter, hosts)}
        for words, (without, with_it) in cases.items():
            took = seconds(trace, with_it, given.times)
            print(
                f"{given.jobs:,} jobs on {NODES:,} nodes, {words}: {took:.2f} s, without {before[id(without)]:.2f} s, "
                f"speed {before[id(without)] / took:.2f} of that without"
            )


if __name__ == "__main__":
    main()
