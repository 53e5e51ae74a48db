"""What happens to hosts, compiled: jobs start and end, reservations are made, plans are tried, outages come and go.

The reservation of EASY on hosts: running jobs end by their estimates, one after the other, until the job fits; that is
its time. Then the allocator chooses its hosts among what is free at that time, and these are kept: a backfilled job
that ends later takes only what is free both now and then, on the same host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracekit.sim.compile import jit_internal
from tracekit.sim.hosts.calls import c_function, floats_at, ints_at
from tracekit.sim.hosts.choose import choose, has_room, hold, pool_for
from tracekit.sim.hosts.demand import CORES, GPUS, MILLI, MILLI_GPU, PIECES, SPREAD
from tracekit.sim.hosts.scores import FIRST_FIT, LEXICOGRAPHIC
from tracekit.sim.hosts.state import (
    ARGUMENT,
    BESIDE,
    BOUND,
    CELLS,
    COUNT,
    COUNTABLE,
    CURSOR,
    DOWN,
    DOWNS,
    ENTRIES,
    EPOCH,
    FREE,
    FREE_CORES,
    FREE_GPUS,
    FULL,
    HELD,
    HOSTS,
    IN_TIME,
    LEVELS,
    LOG,
    NOW,
    OUTAGES,
    OVER,
    PICK,
    PICKS,
    ROW,
    RULE,
    SCALE,
    SHADOW,
    SPAN,
    STAMP,
    TAIL,
    TASKS,
    TOTAL,
    TOTAL_CORES,
    TOTAL_GPUS,
    TREE,
    UNIT,
    WIDTH,
    Floats,
    Ints,
    fixed,
    host_fits,
    host_slots,
    look,
    need,
    refresh,
)
from tracekit.sim.hosts.tiers import is_tiered


@jit_internal
def touch(m: Ints, f: Floats, k: int, h: int) -> None:
    """Make the differences of a host those of the last reservation, none at first."""
    if m[m[STAMP] + k * m[HOSTS] + h] != m[EPOCH + k]:
        m[m[STAMP] + k * m[HOSTS] + h] = m[EPOCH + k]
        cells = m[CELLS]
        for c in range(h * cells, (h + 1) * cells):
            m[m[OVER] + k * m[WIDTH] + c] = 0


@jit_internal
def change_held(m: Ints, f: Floats, job: int, h: int, pieces: int, held: int, sign: int) -> None:
    """Give (1) or take (−1) what a job holds of a host now, and keep index and sums up to date."""
    hold(m, m, m[FREE], job, h, pieces, held, sign)
    refresh(m, h)
    whole = need(m, job, GPUS)
    m[FREE_CORES] += sign * (pieces * need(m, job, CORES) // need(m, job, PIECES))
    if whole > 0 or need(m, job, MILLI) > 0:
        m[FREE_GPUS] += sign * pieces * (whole * MILLI_GPU if whole > 0 else need(m, job, MILLI))
        m[m[HELD] + h * (m[CELLS] - 1) + whole] -= sign * pieces
    f[m[TASKS] + h] = np.nan


@jit_internal
def commit(m: Ints, f: Floats, job: int, ends_in_time: bool) -> None:
    """Start a job where ``pick`` says. If it ends in time, what is free at the reservation stays as it is."""
    count, tail = m[PICKS], m[TAIL]
    if tail + count > m[ENTRIES]:
        m[FULL] = 1
        tail = 0
    m[m[SPAN] + 2 * job], m[m[SPAN] + 2 * job + 1] = tail, count
    m[TAIL] = tail + count
    for i in range(count):
        for c in range(4):
            m[m[LOG] + 4 * (tail + i) + c] = m[m[PICK] + 4 * i + c]
        for h in range(m[m[PICK] + 4 * i], m[m[PICK] + 4 * i + 1] + 1):
            change_held(m, f, job, h, m[m[PICK] + 4 * i + 2], m[m[PICK] + 4 * i + 3], -1)
            if ends_in_time:
                touch(m, f, 0, h)
                hold(m, m, m[OVER], job, h, m[m[PICK] + 4 * i + 2], m[m[PICK] + 4 * i + 3], 1)
    m[CURSOR] = m[m[PICK] + 4 * (count - 1) + 1] + 1


@jit_internal
def release(m: Ints, f: Floats, job: int) -> None:
    """Take back what a job had."""
    begin = m[m[SPAN] + 2 * job]
    for i in range(begin, begin + m[m[SPAN] + 2 * job + 1]):
        for h in range(m[m[LOG] + 4 * i], m[m[LOG] + 4 * i + 1] + 1):
            change_held(m, f, job, h, m[m[LOG] + 4 * i + 2], m[m[LOG] + 4 * i + 3], 1)


@jit_internal
def _end_by_estimate(m: Ints, f: Floats, k: int, job: int, ended: int) -> bool:
    """Let a running job end at the reservation; return whether ``job`` fits since. Its pieces are counted by pool."""
    single, begin, fits = need(m, job, PIECES) == 1, m[m[SPAN] + 2 * ended], False
    for i in range(begin, begin + m[m[SPAN] + 2 * ended + 1]):
        for h in range(m[m[LOG] + 4 * i], m[m[LOG] + 4 * i + 1] + 1):
            touch(m, f, k, h)
            before = 0 if single else host_slots(m, m, job, h)
            hold(m, m, m[OVER] + k * m[WIDTH], ended, h, m[m[LOG] + 4 * i + 2], m[m[LOG] + 4 * i + 3], 1)
            if single:
                fits = fits or host_fits(m, m, job, h)
            else:
                m[m[COUNT] + fixed(m, h, 0)] += host_slots(m, m, job, h) - before
                fits = fits or m[m[COUNT] + fixed(m, h, 0)] >= need(m, job, PIECES)
    return pool_for(m, f, m, job) >= 0 if fits and is_tiered(m, job) else fits


@jit_internal
def shadow_of(m: Ints, f: Floats, k: int, now: float, job: int, limits: Any, running: int) -> float:
    """Return when a job fits by estimates, and keep its hosts then, as differences ``k`` to what is free now.

    ``limits`` are the estimated ends and the jobs of the engine's running jobs, as two arrays over the same memory.
    """
    m[EPOCH + k] += 1
    shadow, i = now, running - 1
    single = need(m, job, PIECES) == 1
    look(m, m[FREE], NOW if single else ROW, k)
    found = has_room(m, f, m, job)  # counts the room in each pool, too
    look(m, m[FREE], SHADOW, k)
    while i >= 0 and (not found or limits[0][2 * i] <= shadow):
        fits = _end_by_estimate(m, f, k, job, limits[1][2 * i + 1])
        found = found or fits
        shadow = max(shadow, limits[0][2 * i])
        i -= 1
    if not found or not choose(m, f, m, job):
        return np.inf
    for p in range(m[PICKS]):
        for h in range(m[m[PICK] + 4 * p], m[m[PICK] + 4 * p + 1] + 1):
            touch(m, f, k, h)
            hold(m, m, m[OVER] + k * m[WIDTH], job, h, m[m[PICK] + 4 * p + 2], m[m[PICK] + 4 * p + 3], -1)
    return float(shadow)


@jit_internal
def units_of(m: Ints, cores: int, gpus: int) -> int:
    """Return cores or GPUs in the units of jobs' sizes."""
    return int(cores if m[UNIT] == 0 else gpus * m[SCALE] // MILLI_GPU)


@jit_internal
def change_outages(m: Ints, row: Ints, at: int, before: int, after: int, counted: bool) -> None:
    """Take hosts that are out of service after, and not before, out of a row of cells; put others back."""
    cells = m[CELLS]
    for h in range(m[HOSTS]):
        was, is_ = False, False
        for k in range(m[OUTAGES]):
            was = was or (((before >> k) & 1) != 0 and m[m[DOWNS] + k * m[HOSTS] + h] != 0)
            is_ = is_ or (((after >> k) & 1) != 0 and m[m[DOWNS] + k * m[HOSTS] + h] != 0)
        if was != is_ and counted:
            row[at] += m[m[TOTAL] + h * cells] if was else -m[m[TOTAL] + h * cells]
        elif was != is_:
            for c in range(cells):
                row[at + h * cells + c] += m[m[TOTAL] + h * cells + c] if was else -m[m[TOTAL] + h * cells + c]


@jit_internal
def most_startable(m: Ints) -> int:
    """Return a size such that no larger job fits."""
    if m[BOUND] == 0:
        return 2**62 - 1
    if m[BOUND] == 2:
        return units_of(m, m[FREE_CORES], m[FREE_GPUS])
    cores, gpus = -1, 0
    for node in range(m[LEVELS + m[LEVELS]], m[LEVELS + 1 + m[LEVELS]]):
        cores, gpus = max(cores, m[m[TREE] + 2 * node]), max(gpus, m[m[TREE] + 2 * node + 1])
    return units_of(m, cores, gpus)


@jit_internal
def reserves_first(m: Ints, job: int) -> bool:
    """Return whether a job reserves the first hosts, and the lowest GPUs, with room: no start beside changes these."""
    first = m[RULE] == FIRST_FIT or m[RULE] == LEXICOGRAPHIC
    return bool(first and need(m, job, SPREAD) == 0 and need(m, job, MILLI) == 0)


@jit_internal
def make_idle(m: Ints, f: Floats) -> None:
    """Make all hosts idle."""
    for c in range(m[WIDTH]):
        m[m[FREE] + c] = m[m[TOTAL] + c]
    for h in range(m[HOSTS]):
        refresh(m, h)
        f[m[TASKS] + h] = np.nan
        for c in range(m[CELLS] - 1):
            m[m[HELD] + h * (m[CELLS] - 1) + c] = 0
    m[CURSOR], m[TAIL], m[DOWN] = 0, 0, 0
    m[FREE_CORES], m[FREE_GPUS] = m[TOTAL_CORES], m[TOTAL_GPUS]


@jit_internal
def add_job(m: Ints, f: Floats, job: int, row: Ints, at: int) -> None:
    """Add what a running job holds to a row of cells."""
    if m[COUNTABLE]:
        row[at] += need(m, job, CORES)
        return
    begin = m[m[SPAN] + 2 * job]
    for i in range(begin, begin + m[m[SPAN] + 2 * job + 1]):
        for h in range(m[m[LOG] + 4 * i], m[m[LOG] + 4 * i + 1] + 1):
            hold(m, row, at, job, h, m[m[LOG] + 4 * i + 2], m[m[LOG] + 4 * i + 3], 1)


@jit_internal
def claim_cells(m: Ints, f: Floats, row: Ints, at: int, job: int, claimed: Ints) -> bool:
    """Write what a job would take where a row of cells is free; return False where it does not fit."""
    if m[COUNTABLE]:
        claimed[0] = need(m, job, CORES)
        return bool(claimed[0] <= row[at])
    for c in range(m[WIDTH]):
        claimed[c] = 0
    look(m, at, ROW, 0)
    if not choose(m, f, row, job):
        return False
    for i in range(m[PICKS]):
        for h in range(m[m[PICK] + 4 * i], m[m[PICK] + 4 * i + 1] + 1):
            hold(m, claimed, 0, job, h, m[m[PICK] + 4 * i + 2], m[m[PICK] + 4 * i + 3], 1)
    return True


@jit_internal
def switch_outages(m: Ints, f: Floats, bits: int) -> None:
    """Take hosts out of service, or put them back: the outages that are going on change by ``bits``."""
    before = m[DOWN]
    m[DOWN] = before + bits
    change_outages(m, m, m[FREE], before, before + bits, False)
    for h in range(m[HOSTS]):
        refresh(m, h)
        f[m[TASKS] + h] = np.nan


@jit_internal
def free_cores(m: Ints) -> int:
    """Return the free cores of all hosts; below 0 on a host that is out of service while its jobs run."""
    found = 0
    for h in range(m[HOSTS]):
        found += m[m[FREE] + h * m[CELLS]]
    return found


@jit_internal
def is_overdrawn(m: Ints, h: int) -> bool:
    """Return whether running jobs hold more of a host than is in service."""
    begin = m[FREE] + h * m[CELLS]
    for c in range(begin, begin + m[CELLS]):  # noqa: SIM110  # compiled
        if m[c] < 0:
            return True
    return False


# ---- the two entries from outside ------------------------------------------------------------------------------------

FITS, TAKE, GIVE, FITS_BESIDE, TAKE_BESIDE, START, START_BESIDE, HOLD, CLAIM, WITHDRAW, WITHDRAW_ROW, IDLE = range(12)
TAKE_IN_TIME = 12


@c_function("int64(int64, int64, int64, int64, int64, int64)")
def do(data: int, real: int, code: int, job: int, cells: int, claims: int) -> int:
    """Do what a code of this module says for a job; a row of cells begins at ``ARGUMENT``."""
    m, f, row, claimed = ints_at(data), floats_at(real), ints_at(cells), ints_at(claims)
    found = 1
    if code in (FITS, FITS_BESIDE):
        look(m, m[FREE], NOW if code == FITS else BESIDE, 0)
        return 1 if has_room(m, f, m, job) else 0
    if code in (TAKE, TAKE_IN_TIME, TAKE_BESIDE):
        look(m, m[FREE], NOW if code == TAKE else IN_TIME if code == TAKE_IN_TIME else BESIDE, 0)
        choose(m, f, m, job)
    if code in (TAKE, TAKE_IN_TIME, TAKE_BESIDE, START, START_BESIDE):
        commit(m, f, job, code in (TAKE, TAKE_IN_TIME, START))
    elif code == GIVE:
        release(m, f, job)
    elif code == HOLD:
        add_job(m, f, job, row, m[ARGUMENT])
    elif code == CLAIM:
        found = 1 if claim_cells(m, f, row, m[ARGUMENT], job, claimed) else 0
    elif code == WITHDRAW:
        switch_outages(m, f, job)
    elif code == WITHDRAW_ROW:
        change_outages(m, row, m[ARGUMENT], max(-job, 0), max(job, 0), m[COUNTABLE] != 0)
    elif code == IDLE:
        make_idle(m, f)
    return found


@c_function("float64(int64, int64, int64, float64, int64, int64, int64)")
def when(data: int, real: int, layer: int, now: float, job: int, limits: int, running: int) -> float:
    """Return when a job fits by estimates; ``limits`` are times and jobs in turn."""
    m, f, ends = ints_at(data), floats_at(real), (floats_at(limits), ints_at(limits))
    return shadow_of(m, f, layer, now, job, ends, running)
