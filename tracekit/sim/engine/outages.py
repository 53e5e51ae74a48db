"""Outages: how much of the machine is out of service when, and what of it the scheduler knows.

An outage removes units from service over [from, to). Overlapping outages add up, to at most the whole machine. A
planned outage is known from the beginning: no job starts that, by its estimate, would still hold units that are to go.
Any other is known from the moment it begins, and so is its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit, jit_internal
from tracekit.sim.switches import Outage

#: What happens to running jobs when an outage begins.
DRAIN, KILL, REQUEUE = range(3)
MODES = {"drain": DRAIN, "kill": KILL, "requeue": REQUEUE}


OUTAGE = np.dtype([("begin", np.float64), ("end", np.float64), ("units", np.int64)])
CHANGE = np.dtype([("time", np.float64), ("away", np.int64)])  # the units away from then on
NOW = np.dtype(
    [
        ("total", np.int64),  # units of the whole machine
        ("place", np.int64),  # the next change that has not happened
        ("away", np.int64),  # units that are away
        ("ahead", np.int64),  # how many changes to come are known
        ("announced", np.bool_),  # whether outages are planned
    ],
    align=True,
)


class Outages(NamedTuple):
    """The outages of one simulation, and what is known of them now; empty if there are none."""

    outage: NDArray[Any]  # (outages,) OUTAGE
    change: NDArray[np.float64]  # (changes,) every begin and end, ascending
    known: NDArray[Any]  # (changes,) CHANGE, those to come that are known
    now: NDArray[Any]  # (1,) NOW


def outages_of(outages: Sequence[Outage], total: int, scale: int, *, announced: bool) -> Outages:
    """Return the outages of a machine of ``total`` units before anything has happened; sizes times ``scale``."""
    table = np.array(outages, dtype=np.float64).reshape(len(outages), 3)
    change, outage, now = np.unique(table[:, :2]), np.zeros(len(outages), OUTAGE), np.zeros(1, NOW)
    outage["begin"], outage["end"] = table[:, 0], table[:, 1]
    outage["units"] = np.ceil(np.round(table[:, 2] * scale, 6))
    now["total"], now["announced"] = total, announced
    made = Outages(outage, change, np.zeros(len(change), CHANGE), now)
    if len(outages):
        _look_ahead(-np.inf, made)
    return made


def no_outages() -> Outages:
    """Return the outages of a machine that never has any."""
    return outages_of((), 0, 1, announced=True)


@jit_internal
def _away_at(time: float, now: float, outages: Outages) -> int:
    """Return the units that are away at ``time`` as far as is known at ``now``."""
    units = 0
    for i in range(len(outages.outage)):
        outage = outages.outage[i]
        known = outages.now[0].announced or outage.begin <= now
        if known and outage.begin <= time < outage.end:
            units += outage.units
    return int(min(units, outages.now[0].total))


@jit
def _look_ahead(now: float, outages: Outages) -> None:
    """Write down the changes to come that are known at ``now``."""
    count = 0
    for i in range(outages.now[0].place, len(outages.change)):
        outages.known[count].time = outages.change[i]
        outages.known[count].away = _away_at(outages.change[i], now, outages)
        count += 1
    outages.now[0].ahead = count


@jit_internal
def next_outage_change(outages: Outages) -> float:
    """Return when units next leave or return to service; infinity when never."""
    if outages.now[0].place < len(outages.change):
        return float(outages.change[outages.now[0].place])
    return np.inf


@jit_internal
def change_now(now: float, outages: Outages) -> int:
    """Let the changes up to ``now`` happen; return how many more units are away than before."""
    state, known = outages.now[0], outages.known
    place, before = state.place, state.away
    if place >= len(outages.change) or outages.change[place] > now:
        return 0
    while place < len(outages.change) and outages.change[place] <= now:
        place += 1
    passed = place - state.place
    state.place = place
    state.away = _away_at(now, now, outages)
    if state.announced:  # all has been known from the beginning
        state.ahead -= passed
        for i in range(state.ahead):
            known[i].time = known[i + passed].time
            known[i].away = known[i + passed].away
    else:
        _look_ahead(now, outages)
    return int(state.away - before)
