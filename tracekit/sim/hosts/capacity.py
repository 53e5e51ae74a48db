"""Hosts behind the engine's interface (`tracekit.sim.engine.capacity`): calls of `tracekit.sim.hosts.operations`."""

from __future__ import annotations

from typing import Any

from tracekit.sim.engine.capacity import register_capacity
from tracekit.sim.hosts.calls import address_of, do_at, when_at
from tracekit.sim.hosts.operations import (
    CLAIM,
    FITS,
    FITS_BESIDE,
    GIVE,
    HOLD,
    IDLE,
    START,
    START_BESIDE,
    TAKE,
    TAKE_BESIDE,
    TAKE_IN_TIME,
    WITHDRAW,
    WITHDRAW_ROW,
    free_cores,
    is_overdrawn,
    most_startable,
    reserves_first,
    units_of,
)
from tracekit.sim.hosts.sleep import wake
from tracekit.sim.hosts.state import (
    ARGUMENT,
    COUNTABLE,
    DO,
    FACT,
    FREE,
    FREE_CORES,
    FREE_GPUS,
    HOSTS,
    LABEL,
    LOG,
    SLEEP,
    SPAN,
    TOTAL_CORES,
    TOTAL_GPUS,
    WHEN,
    WIDTH,
    AskedHosts,
    Hosts,
)


def _register(kind: Any, *, asked: bool) -> None:
    """Register the engine's interface: every function is a call by address, or a few lines."""

    def fits(capacity: Any, job: Any) -> Any:
        m = address_of(capacity.data)
        return do_at(capacity.data[DO], m, address_of(capacity.real), FITS, job, m, m) != 0

    def take(capacity: Any, job: Any) -> Any:
        m = address_of(capacity.data)
        do_at(capacity.data[DO], m, address_of(capacity.real), TAKE, job, m, m)

    def give(capacity: Any, job: Any) -> Any:
        m = address_of(capacity.data)
        do_at(capacity.data[DO], m, address_of(capacity.real), GIVE, job, m, m)

    def fits_beside(capacity: Any, at_shadow: Any, job: Any) -> Any:
        m = address_of(capacity.data)
        return do_at(capacity.data[DO], m, address_of(capacity.real), FITS_BESIDE, job, m, m) != 0

    def take_beside(capacity: Any, at_shadow: Any, job: Any) -> Any:
        m = address_of(capacity.data)
        do_at(capacity.data[DO], m, address_of(capacity.real), TAKE_BESIDE, job, m, m)

    def take_in_time(capacity: Any, at_shadow: Any, job: Any) -> Any:
        m = address_of(capacity.data)
        do_at(capacity.data[DO], m, address_of(capacity.real), TAKE_IN_TIME, job, m, m)

    def take_placed(capacity: Any, job: Any) -> Any:
        m = address_of(capacity.data)
        do_at(capacity.data[DO], m, address_of(capacity.real), START, job, m, m)

    def take_beside_placed(capacity: Any, at_shadow: Any, job: Any) -> Any:
        m = address_of(capacity.data)
        do_at(capacity.data[DO], m, address_of(capacity.real), START_BESIDE, job, m, m)

    def asks(capacity: Any) -> Any:
        return True

    def reserve(capacity: Any, at_shadow: Any, now: Any, job: Any, running: Any) -> Any:
        m, f, ends = address_of(capacity.data), address_of(capacity.real), address_of(running.limits)
        return when_at(capacity.data[WHEN], m, f, 0, now, job, ends, running.tally[0].running)

    def earliest_start(capacity: Any, scratch: Any, now: Any, job: Any, running: Any, stair: Any) -> Any:
        m, f, ends = address_of(capacity.data), address_of(capacity.real), address_of(running.limits)
        return when_at(capacity.data[WHEN], m, f, 1, now, job, ends, running.tally[0].running)

    def job_fact(capacity: Any, what: Any, until: Any, job: Any, running: Any) -> Any:
        m, f, ends = address_of(capacity.data), address_of(capacity.real), address_of(running.limits)
        return when_at(capacity.data[FACT], m, f, what, until, job, ends, running.tally[0].running)

    def keeps_reservation(capacity: Any, job: Any) -> Any:
        return reserves_first(capacity.data, job)

    def largest_startable(capacity: Any) -> Any:
        return most_startable(capacity.data)

    def tick(capacity: Any, now: Any) -> Any:
        if capacity.data[SLEEP] > 0:
            capacity.real[capacity.data[SLEEP]] = now

    def begins(capacity: Any, job: Any, now: Any, run: Any) -> Any:
        return wake(capacity.data, capacity.real, job, now, run) if capacity.data[SLEEP] > 0 else now

    def lane_of(capacity: Any, lane: Any) -> Any:
        return kind(capacity.data[lane], capacity.real[lane])

    def clear(capacity: Any) -> Any:
        m = address_of(capacity.data)
        do_at(capacity.data[DO], m, address_of(capacity.real), IDLE, 0, m, m)

    def free_units(capacity: Any) -> Any:
        return units_of(capacity.data, capacity.data[FREE_CORES], capacity.data[FREE_GPUS])

    def total_units(capacity: Any) -> Any:
        return units_of(capacity.data, capacity.data[TOTAL_CORES], capacity.data[TOTAL_GPUS])

    def cells(capacity: Any) -> Any:
        return 1 if capacity.data[COUNTABLE] else capacity.data[WIDTH]

    def write_free(capacity: Any, row: Any, at: Any) -> Any:
        if capacity.data[COUNTABLE]:
            row[at] = free_cores(capacity.data)
        else:
            for c in range(capacity.data[WIDTH]):
                row[at + c] = capacity.data[capacity.data[FREE] + c]

    def add_held(capacity: Any, job: Any, row: Any, at: Any) -> Any:
        m, capacity.data[ARGUMENT] = address_of(capacity.data), at
        do_at(capacity.data[DO], m, address_of(capacity.real), HOLD, job, address_of(row), m)

    def claim(capacity: Any, row: Any, at: Any, job: Any, claimed: Any) -> Any:
        m, capacity.data[ARGUMENT] = address_of(capacity.data), at
        f = address_of(capacity.real)
        return do_at(capacity.data[DO], m, f, CLAIM, job, address_of(row), address_of(claimed)) != 0

    def fits_claimed(capacity: Any, job: Any, claimed: Any) -> Any:
        if capacity.data[COUNTABLE]:
            m = address_of(capacity.data)
            return do_at(capacity.data[DO], m, address_of(capacity.real), FITS, job, m, m) != 0
        for c in range(capacity.data[WIDTH]):  # compiled
            if claimed[c] > 0 and claimed[c] > capacity.data[capacity.data[FREE] + c]:
                return False
        return True

    def take_claimed(capacity: Any, job: Any, claimed: Any) -> Any:
        m = address_of(capacity.data)  # the last claim was this job's, and its placement is still there
        code = TAKE if capacity.data[COUNTABLE] else START
        do_at(capacity.data[DO], m, address_of(capacity.real), code, job, m, m)

    def withdraw(capacity: Any, units: Any) -> Any:
        m = address_of(capacity.data)
        do_at(capacity.data[DO], m, address_of(capacity.real), WITHDRAW, units, m, m)

    def withdraw_from_row(capacity: Any, row: Any, at: Any, units: Any) -> Any:
        m, capacity.data[ARGUMENT] = address_of(capacity.data), at
        do_at(capacity.data[DO], m, address_of(capacity.real), WITHDRAW_ROW, units, address_of(row), m)

    def overdrawn(capacity: Any) -> Any:
        for h in range(capacity.data[HOSTS]):  # noqa: SIM110  # compiled
            if is_overdrawn(capacity.data, h):
                return True
        return False

    def in_the_way(capacity: Any, job: Any) -> Any:
        m = capacity.data
        begin = m[m[SPAN] + 2 * job]
        for i in range(begin, begin + m[m[SPAN] + 2 * job + 1]):
            for h in range(m[m[LOG] + 4 * i], m[m[LOG] + 4 * i + 1] + 1):
                if is_overdrawn(m, h):
                    return True
        return False

    def shares_pool(capacity: Any, job: Any, other: Any) -> Any:
        m = capacity.data
        return m[m[LABEL] + job] == m[m[LABEL] + other]

    starting = (take_placed, take_beside_placed, asks) if asked else (take, take_beside, take_in_time)
    take_placed.__name__, take_beside_placed.__name__ = "take", "take_beside"
    register_capacity(
        kind,
        *(fits, give, fits_beside, reserve, *starting),
        *(largest_startable, earliest_start, in_the_way, shares_pool, keeps_reservation, tick, begins),
        *(lane_of, clear, free_units, total_units, job_fact),
        *(cells, write_free, add_held, claim, fits_claimed, take_claimed),
        *(withdraw, overdrawn, withdraw_from_row),
    )


_register(Hosts, asked=False)
_register(AskedHosts, asked=True)
