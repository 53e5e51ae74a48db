"""What allocators written in Python are asked with, and how their answers become placements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracekit.sim.compile import jit
from tracekit.sim.hosts.choose import hold, hosts_needed, lowest_devices, note_pick
from tracekit.sim.hosts.demand import GPUS, PIECES, SPREAD
from tracekit.sim.hosts.scores import devices
from tracekit.sim.hosts.state import (
    COUNT,
    FREE,
    HOSTS,
    PICK,
    PICKS,
    POOLS,
    SLOTS,
    Floats,
    Ints,
    fixed,
    host_slots,
    look,
    need,
)
from tracekit.sim.hosts.tiers import write_idle_slots


def hosts_and_parts(answer: Any) -> Ints:
    """Return an answer of an allocator as hosts and pieces on each, (hosts, 2); 2⁶² pieces: all that have room."""
    chosen = np.atleast_1d(np.asarray(answer)).astype(np.int64)
    if chosen.ndim == 2 and chosen.shape[1] == 2:
        return chosen
    if chosen.ndim != 1:
        raise ValueError
    return np.stack([chosen, np.full(len(chosen), 2**62)], axis=1)


@jit
def slots_from_python(m: Ints, f: Floats, mode: int, job: int) -> None:
    """Write how many pieces of a job each host has room for into ``SLOTS``; idle pools' fewest hosts into ``COUNT``."""
    look(m, m[FREE], mode, 0)
    for h in range(m[HOSTS]):
        m[m[SLOTS] + h] = host_slots(m, m, job, h)
    if need(m, job, SPREAD):
        write_idle_slots(m, job)
    for p in range(m[POOLS]):
        m[m[COUNT] + p] = hosts_needed(m, f, 1, p, need(m, job, PIECES)) if need(m, job, SPREAD) else 1


@jit
def place_from_python(m: Ints, f: Floats, mode: int, job: int, chosen: Ints) -> int:
    """Write a placement on given hosts, one task each (a job that spreads fills them in order); return the pieces."""
    look(m, m[FREE], mode, 0)
    m[PICKS] = 0
    placed, pieces, spread, pool = 0, need(m, job, PIECES), need(m, job, SPREAD), -1
    for i in range(len(chosen)):
        h, most = chosen[i]
        if placed == pieces or (pool >= 0 and fixed(m, h, 0) != pool):
            break
        pool = fixed(m, h, 0)
        part = min(host_slots(m, m, job, h), most, pieces - placed if spread else 1)
        if part <= 0:
            break
        held = 0
        if spread and need(m, job, GPUS) > 0:
            held = lowest_devices(m, f, m, h, part)
        elif not spread:
            held = devices(m, f, m, job, h)
        hold(m, m, m[FREE], job, h, part, held, -1)
        note_pick(m, f, h, part, held)
        placed += part
    for i in range(m[PICKS]):
        entry = m[PICK] + 4 * i
        for h in range(m[entry], m[entry + 1] + 1):
            hold(m, m, m[FREE], job, h, m[entry + 2], m[entry + 3], 1)
    return placed
