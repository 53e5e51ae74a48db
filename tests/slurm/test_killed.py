"""Replays and drivers that are killed at moments drawn from a seed; `benchmarks/slurm_stress.py` does it longer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from slurm_lab import NEEDS_SLURM, stress

from tracekit.slurm.own import Own
from tracekit.slurm.queue import priorities

pytestmark = [NEEDS_SLURM, pytest.mark.slow]
DRAW = random.Random(27)


def test_no_priority_stays_changed_whenever_a_driver_dies(own: Own, queue: list[int], tmp_path: Path) -> None:
    moment = round(DRAW.uniform(1.0, 5.0), 2)
    assert stress().killed_driver(own, tmp_path / "drive.jsonl", moment) == []
    assert priorities(own.slurm)[queue[3]][0] == 0  # the held one


def test_a_replay_loses_nothing_whenever_it_dies(own: Own, queue: list[int], room: Path) -> None:
    """Its guard is killed as well. The Slurm beside it keeps its processes and its queue."""
    before = (own.pids(), own.slurm.call("squeue", "-h", "-o", "%i %T %Q"))
    moments = [round(DRAW.uniform(1.0, 9.0), 2) for _ in range(2)]
    assert stress().killed_replay(room, stress().toy(8, 3), moments, guards=True) == []
    assert (own.pids(), own.slurm.call("squeue", "-h", "-o", "%i %T %Q")) == before
