"""A machine of hosts, each with its own processors, as an outsider would bring it: a job runs on one single host.

The first host with room takes a job. `AskedHosts` is the same machine, but Python chooses the host.
"""

from typing import NamedTuple

import numpy as np

from tracekit.sim.engine.capacity import register_capacity


class Hosts(NamedTuple):
    """Arrays with a leading axis of lanes where there are several machines."""

    free: np.ndarray  # (hosts,)
    total: np.ndarray  # (hosts,)
    size: np.ndarray  # (jobs,)
    host: np.ndarray  # (jobs,) where each job was placed


class AskedHosts(NamedTuple):
    """The same fields; Python writes ``host`` before a job starts."""

    free: np.ndarray
    total: np.ndarray
    size: np.ndarray
    host: np.ndarray


class HostModel:
    """Makes such machines; ``choose(capacity, at_shadow, job)`` is asked where each job goes, if given."""

    name = "hosts"

    def __init__(self, *sizes, choose=None):
        self.sizes, self.choose = np.array(sizes), choose
        self.kind = Hosts if choose is None else AskedHosts

    def most_running(self, jobs, units):
        return jobs

    def allocate(self, lanes, jobs):
        hosts = len(self.sizes)
        free, total = np.zeros((lanes, hosts), np.int64), np.tile(self.sizes, (lanes, 1))
        return self.kind(free, total, np.zeros((lanes, jobs), np.int64), np.full((lanes, jobs), -1))

    def twin(self, capacity):
        return capacity._replace(free=np.zeros_like(capacity.free))

    def load(self, capacity, lane, ready):
        capacity.free[lane] = self.sizes
        capacity.size[lane, : len(ready.units)] = ready.units
        capacity.host[lane] = -1

    def place(self, capacity, at_shadow, job):
        capacity.host[job] = self.choose(capacity, at_shadow, job)

    def hosts(self, capacity):
        return [f"n{host}" for host in capacity.host]


def first_fit(capacity, at_shadow, job):
    """What `Hosts` does by itself."""
    room = capacity.free if at_shadow is None else np.minimum(capacity.free, at_shadow.free)
    return int(np.flatnonzero(capacity.size[job] <= room)[0])


def worst_fit(capacity, at_shadow, job):
    """The emptiest host."""
    room = capacity.free if at_shadow is None else np.minimum(capacity.free, at_shadow.free)
    return int(np.argmax(room))


def fits(capacity, job):
    for h in range(len(capacity.free)):  # noqa: SIM110  # compiled
        if capacity.size[job] <= capacity.free[h]:
            return True
    return False


def take(capacity, job):
    h = 0
    while capacity.size[job] > capacity.free[h]:
        h += 1
    capacity.free[h] -= capacity.size[job]
    capacity.host[job] = h


def give(capacity, job):
    capacity.free[capacity.host[job]] += capacity.size[job]


def fits_beside(capacity, at_shadow, job):
    for h in range(len(capacity.free)):
        if capacity.size[job] <= capacity.free[h] and capacity.size[job] <= at_shadow.free[h]:
            return True
    return False


def take_beside(capacity, at_shadow, job):
    h = 0
    while capacity.size[job] > capacity.free[h] or capacity.size[job] > at_shadow.free[h]:
        h += 1
    capacity.free[h] -= capacity.size[job]
    at_shadow.free[h] -= capacity.size[job]
    capacity.host[job] = h


def reserve(capacity, at_shadow, now, job, running):
    hosts, needed, shadow, i = len(capacity.free), capacity.size[job], now, running.tally[0].running - 1
    for h in range(hosts):
        at_shadow.free[h] = capacity.free[h]
    while True:
        chosen = -1
        for h in range(hosts - 1, -1, -1):
            if needed <= at_shadow.free[h]:
                chosen = h
        if i < 0 or (chosen >= 0 and running.limits[i].time > shadow):
            break
        at_shadow.free[capacity.host[running.limits[i].job]] += capacity.size[running.limits[i].job]
        shadow = max(shadow, running.limits[i].time)
        i -= 1
    if chosen < 0:
        return np.inf
    at_shadow.free[chosen] -= needed
    return shadow


def lane_of(capacity, lane):
    return Hosts(capacity.free[lane], capacity.total[lane], capacity.size[lane], capacity.host[lane])


def clear(capacity):
    for h in range(len(capacity.free)):
        capacity.free[h] = capacity.total[h]


def free_units(capacity):
    units = 0
    for h in range(len(capacity.free)):
        units += capacity.free[h]
    return units


def total_units(capacity):
    units = 0
    for h in range(len(capacity.total)):
        units += capacity.total[h]
    return units


def cells(capacity):
    return len(capacity.free)


def write_free(capacity, row, at):
    for h in range(len(capacity.free)):
        row[at + h] = capacity.free[h]


def add_held(capacity, job, row, at):
    row[at + capacity.host[job]] += capacity.size[job]


def claim(capacity, row, at, job, claimed):
    found = False
    for h in range(len(capacity.free)):
        claimed[h] = 0
        if not found and capacity.size[job] <= row[at + h]:
            claimed[h], found = capacity.size[job], True
    return found


def fits_claimed(capacity, job, claimed):
    for h in range(len(capacity.free)):  # noqa: SIM110  # compiled
        if claimed[h] > capacity.free[h]:
            return False
    return True


def take_claimed(capacity, job, claimed):
    for h in range(len(capacity.free)):
        if claimed[h] > 0:
            capacity.free[h] -= claimed[h]
            capacity.host[job] = h


register_capacity(
    Hosts,
    *(fits, take, give, fits_beside, take_beside, reserve),
    *(lane_of, clear, free_units, total_units),
    *(cells, write_free, add_held, claim, fits_claimed, take_claimed),
)


def _register_asked():
    def asks(capacity):
        return True

    def take(capacity, job):
        capacity.free[capacity.host[job]] -= capacity.size[job]

    def take_beside(capacity, at_shadow, job):
        capacity.free[capacity.host[job]] -= capacity.size[job]
        at_shadow.free[capacity.host[job]] -= capacity.size[job]

    def lane_of(capacity, lane):
        return AskedHosts(capacity.free[lane], capacity.total[lane], capacity.size[lane], capacity.host[lane])

    register_capacity(
        AskedHosts,
        *(asks, fits, take, give, fits_beside, take_beside, reserve),
        *(lane_of, clear, free_units, total_units),
        *(cells, write_free, add_held, claim, fits_claimed, take_claimed),
    )


_register_asked()
