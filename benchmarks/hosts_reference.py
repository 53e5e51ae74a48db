"""Compares the compiled hosts with the slow reference of the tests, start by start and host by host.

    python benchmarks/hosts_reference.py [--schedules 13000] [--first 0]

Goes through policies × backfillings × allocators, each schedule on another random cluster and trace with other
switches, and checks on every one what must always hold (`tests/sim/host_worlds.py`). Prints the worlds that differ.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.sim.host_worlds import ALLOCATORS, POLICIES, compare, world_of

BACKFILLS = ("none", "easy", "easy-sjf", "conservative", "rlscheduler")


def main() -> int:
    """Run the comparison; return 1 if any schedule differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=13_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    kinds = itertools.cycle(itertools.product(BACKFILLS, ALLOCATORS, POLICIES))
    done, jobs, wrong, seed, began = 0, 0, 0, given.first, time.process_time()
    while done < given.schedules:
        backfill, allocate, policy = next(kinds)
        try:
            result = compare(world_of(seed, backfill, allocate, policy))
            done, jobs = done + (result is not None), jobs + (0 if result is None else len(result.start))
        except AssertionError:
            done, wrong = done + 1, wrong + 1
            print(f"seed {seed}, {policy} {backfill} {allocate} differs", flush=True)
        seed += 1
        if seed % 1000 == 0:
            print(f"{done:,} schedules", file=sys.stderr, flush=True)
    print(f"{done:,} schedules of {jobs:,} jobs, {wrong} differ ({time.process_time() - began:.0f} s)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
