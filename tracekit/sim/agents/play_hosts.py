"""Playing episodes of pick-host in compiled code: network, environment and recording in one call."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.sim.agents.inference import NOT_NUMBERS, Net, Scratch, drawn, largest, score
from tracekit.sim.agents.play import BROKEN, FULL, GREEDY, IMITATE, OVER, SAMPLE, Tape, note, space
from tracekit.sim.compile import jit
from tracekit.sim.engine.chance import uniform
from tracekit.sim.tasks.pick_host.arrays import HostLanes, Rules
from tracekit.sim.tasks.pick_host.lanes import step_lane

Ints = NDArray[np.int64]


class HostManner(NamedTuple):
    """How one episode is played."""

    mode: int  # GREEDY, SAMPLE or IMITATE
    key: np.uint64  # of what is drawn
    script: Ints  # (jobs,) hosts to imitate


@jit
def play_lane(
    lanes: HostLanes,
    rules: Rules,
    lane: int,
    net: Net,
    manner: HostManner,
    scratch: Scratch,
    tape: Tape,
    turn: Ints,
) -> int:
    """Play a lane's episode to its end; ``turn`` (1,) is the number of the decision.

    Returns `OVER`, `FULL` (empty the tape and call again) or `BROKEN` when the network's scores are NaN.
    """
    keep = len(tape.size) > 0
    while not lanes.done[lane]:
        count, place = lanes.count[lane], 0
        if keep and (tape.used[0] == len(tape.size) or tape.used[1] + count > len(tape.rows)):
            return FULL
        if manner.mode == IMITATE:
            job = lanes.queue[lane, lanes.state[lane].place]
            while place < count - 1 and lanes.rows[lane, place] != manner.script[job]:
                place += 1
        elif count > 1:
            score(net, lanes.features[lane], count, False, scratch)
            if manner.mode == GREEDY:
                place = largest(scratch.score, count)
            else:
                place = drawn(scratch.score, count, uniform(manner.key, turn[0]))
            if place < 0:
                return BROKEN
        noted = keep and count > 1
        if noted:
            note(tape, lanes.features[lane], count, False, place, lanes.state[lane].now)
        turn[0] += 1
        step_lane(lanes, rules, lane, place)
        if noted:
            tape.earned[tape.used[0] - 1] = lanes.state[lane].reward
        elif tape.used[0] > 0:  # a forced decision counts with the one before
            tape.earned[tape.used[0] - 1] += lanes.state[lane].reward
    return OVER


def play_window(
    batch: Any, lane: int, net: Net, key: np.uint64 | None, teacher: Ints | None, *, keep: bool
) -> list[tuple[NDArray[Any], ...]]:
    """Play the window in a lane; return pieces of tape: rows, count, chosen, time, skips, earned.

    With a ``key`` choices are sampled, with a ``teacher`` they are its hosts, else they are greedy.
    """
    mode = IMITATE if teacher is not None else GREEDY if key is None else SAMPLE
    script = np.zeros(1, np.int64) if teacher is None else teacher
    manner = HostManner(mode, np.uint64(0) if key is None else key, script)
    scratch, tape = space(net, batch.task.slots + 1, batch.features.shape[2], keep)
    turn, pieces, ended = np.zeros(1, np.int64), [], FULL
    while ended != OVER:
        tape.used[:] = 0
        ended = play_lane(batch.arrays, batch.rules, lane, net, manner, scratch, tape, turn)
        if ended == BROKEN:
            raise TracekitError(NOT_NUMBERS)
        made, rows = tape.used
        pieces.append((tape.rows[:rows].copy(), *(part[:made].copy() for part in (*tape[1:5], tape.earned))))
    batch.finish(lane)
    return pieces
