"""Playing episodes of pick-job in compiled code: network, environment and recording in one call.

What is drawn depends on an episode's own key and on the number of the decision alone.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.sim.agents.inference import NOT_NUMBERS, Net, Scratch, drawn, largest, room, score
from tracekit.sim.compile import jit
from tracekit.sim.engine.chance import uniform
from tracekit.sim.jobs import NO_JOB
from tracekit.sim.policies.formulas import PREDICTED, UNICEP, WFP3, formula
from tracekit.sim.tasks.pick_job.lane_arrays import LaneArrays, PickRules
from tracekit.sim.tasks.pick_job.lane_predictions import priority_of
from tracekit.sim.tasks.pick_job.lanes import step_lane

#: How choices are made: the best one; sampled; as a formula chooses.
GREEDY, SAMPLE, IMITATE = range(3)
#: Why `play_lane` returned: the episode is over; the tape is full; the scores are NaN; Python has to place
#: a job first.
OVER, FULL, BROKEN, PLACING = range(4)

#: Decisions and rows that a tape holds before it is copied out.
TAPE = (4096, 131_072)

Singles = NDArray[np.float32]


class Tape(NamedTuple):
    """A record of decisions, with room for some thousands; one per thread."""

    rows: Singles  # (most rows, features) the jobs on offer, and skipping where that was allowed
    size: NDArray[np.int64]  # (most,) rows of a decision
    chosen: NDArray[np.int64]  # (most,) which of them was chosen
    time: NDArray[np.float64]  # (most,) seconds
    skips: NDArray[np.bool_]  # (most,) whether the last row is skipping
    used: NDArray[np.int64]  # (2,) decisions and rows in use
    earned: NDArray[np.float64]  # (most,) the environment's reward, where it has its own


def blank(decisions: int, rows: int, features: int) -> Tape:
    """Return an empty tape; with room for nothing, nothing is recorded."""
    return Tape(
        np.empty((rows, features), np.float32),
        np.empty(decisions, np.int64),
        np.empty(decisions, np.int64),
        np.empty(decisions),
        np.empty(decisions, np.bool_),
        np.zeros(2, np.int64),
        np.zeros(decisions),
    )


@jit
def note(tape: Tape, features: Singles, count: int, skip: bool, place: int, now: float) -> None:
    """Record a decision."""
    decision, row = tape.used[0], tape.used[1]
    width = features.shape[1]
    for r in range(count):
        for f in range(width):
            tape.rows[row + r, f] = features[r, f]
    total = count
    if skip:
        for f in range(width):
            tape.rows[row + count, f] = np.float32(1.0)
        total = count + 1
    tape.size[decision], tape.chosen[decision] = total, place
    tape.time[decision], tape.skips[decision] = now, skip
    tape.used[0], tape.used[1] = decision + 1, row + total


class Manner(NamedTuple):
    """How one episode is played."""

    mode: int  # GREEDY, SAMPLE or IMITATE
    key: np.uint64  # of what is drawn
    code: int  # the formula to imitate
    as_coded: bool  # waits as RLScheduler counts them in wfp3 and unicep
    procs: int  # of the machine


@jit
def formulas_choice(lanes: LaneArrays, lane: int, manner: Manner) -> int:
    """Return the slot that a formula would choose, the earliest submit of equal ones."""
    jobs, now, best, least = lanes.jobs, lanes.state[lane].now, -1, np.inf
    scale = lanes.units[lane] / manner.procs  # units in a processor
    for i in range(lanes.count[lane]):
        job = lanes.visible[lane, i]
        submit = jobs.submit[lane, job]
        wait = -1.0 - submit if manner.as_coded else now - submit
        if manner.code == PREDICTED:
            value = priority_of(lanes.predicted, lane, job)
        else:
            value = formula(manner.code, submit, wait, jobs.estimate[lane, job], jobs.size[lane, job] / scale)
        if best < 0 or value < least or (value == least and job < lanes.visible[lane, best]):
            best, least = i, value
    return best


@jit
def play_lane(
    lanes: LaneArrays,
    rules: PickRules,
    lane: int,
    net: Net,
    manner: Manner,
    scratch: Scratch,
    tape: Tape,
    turn: NDArray[np.int64],
) -> int:
    """Play a lane's episode to its end; ``turn`` (1,) is the number of the decision.

    Decisions with more than one choice are recorded if the tape has any room. Returns `OVER`, `FULL` (empty the tape
    and call again), `BROKEN` when the network's scores are NaN, or `PLACING` (place the job and call again).
    """
    keep = len(tape.size) > 0
    while not lanes.done[lane]:
        count = lanes.count[lane]
        skip = rules.skip and lanes.mask[lane, rules.slots]
        total = count + 1 if skip else count
        if keep and (tape.used[0] == len(tape.size) or tape.used[1] + total > len(tape.rows)):
            return FULL
        place = 0
        if manner.mode == IMITATE:
            place = formulas_choice(lanes, lane, manner)
        elif total > 1:
            score(net, lanes.features[lane], count, skip, scratch)
            if manner.mode == GREEDY:
                place = largest(scratch.score, total)
            else:
                place = drawn(scratch.score, total, uniform(manner.key, turn[0]))
            if place < 0:
                return BROKEN
        if keep and total > 1:
            note(tape, lanes.features[lane], count, skip, place, lanes.state[lane].now)
        turn[0] += 1
        step_lane(lanes, rules, lane, place if place < count else rules.slots)
        if lanes.state[lane].placing != NO_JOB:
            return PLACING
    return OVER


def play_window(
    batch: Any, lane: int, net: Net, key: np.uint64 | None, teacher: int | None, *, keep: bool
) -> list[tuple[NDArray[Any], ...]]:
    """Play the window in a lane; return pieces of tape: rows, count, chosen, time, skips.

    With a ``key`` choices are sampled, with a ``teacher`` they follow that formula, else they are greedy.
    """
    task = batch.task
    mode = IMITATE if teacher is not None else GREEDY if key is None else SAMPLE
    code = 0 if teacher is None else int(teacher)
    as_coded = task.switches.compat not in (None, "slurm") and code in (WFP3, UNICEP)
    manner = Manner(mode, np.uint64(0) if key is None else key, code, as_coded, batch.source.table.total)
    scratch, tape = space(net, task.slots + 1, batch.features.shape[2], keep)
    turn, pieces, ended = np.zeros(1, np.int64), [], FULL
    while ended != OVER:
        tape.used[:] = 0
        ended = play_lane(batch.arrays, batch.rules, lane, net, manner, scratch, tape, turn)
        while ended == PLACING:
            batch.place_jobs([lane])
            ended = play_lane(batch.arrays, batch.rules, lane, net, manner, scratch, tape, turn)
        if ended == BROKEN:
            raise TracekitError(NOT_NUMBERS)
        made, rows = tape.used
        pieces.append((tape.rows[:rows].copy(), *(part[:made].copy() for part in tape[1:5])))
    return pieces


def space(net: Net, rows: int, features: int, keep: bool) -> tuple[Scratch, Tape]:
    """Return scratch space, which each thread keeps for its next window."""
    found = getattr(_OWN, "space", None)
    if found is None or found[0] is not net.flat or found[1] != (rows, features, keep):
        found = _OWN.space = (
            net.flat,
            (rows, features, keep),
            (room(net, rows), blank(*(TAPE if keep else (0, 0)), features)),
        )
    made: tuple[Scratch, Tape] = found[2]
    return made


_OWN = threading.local()
