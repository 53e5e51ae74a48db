"""Loading into the cache what the next lanes will need.

Many lanes do not fit into the cache, so most of the time of a step would be spent waiting for memory. Nothing here
changes a result.
"""

from __future__ import annotations

from tracekit.sim.compile import jit_merged
from tracekit.sim.hosts.calls import address_of, prefetch
from tracekit.sim.hosts.state import FREE, HEAD, NEED, TREE
from tracekit.sim.tasks.pick_host.arrays import ON, STATE, HostLanes

_LINE = 64  # bytes
_STATE, _ON, _HEAD = STATE.itemsize, ON.itemsize, 8 * HEAD
#: The most bytes of one array that are loaded ahead; what follows in a row is loaded by the processor itself.
_MOST = 1024


@jit_merged
def _fetch(address: int, size: int) -> None:
    """Load some bytes."""
    for i in range(0, min(size, _MOST), _LINE):
        prefetch(address + i)


@jit_merged
def fetch_state(lanes: HostLanes, lane: int) -> None:
    """Load what is at fixed places of a lane."""
    _fetch(address_of(lanes.state) + lane * _STATE, _STATE)
    _fetch(address_of(lanes.data[lane]), _HEAD)
    _fetch(address_of(lanes.heap[lane]), 2 * _LINE)


@jit_merged
def fetch_question(lanes: HostLanes, lane: int, row: int) -> None:
    """Load what the answer of a lane's question will touch; its state has been loaded already."""
    m, state, hosts = lanes.data[lane], lanes.state[lane], len(lanes.facts)
    data, on = address_of(m), address_of(lanes.on[lane])
    job, ends = lanes.queue[lane, state.place], lanes.heap[lane, 0].item
    for j in (job, ends):
        prefetch(data + 8 * (m[NEED] + 8 * j))
        prefetch(on + _ON * j)
    prefetch(address_of(lanes.rows[lane]) + 8 * row)
    prefetch(address_of(lanes.submit[lane]) + 8 * job)
    prefetch(address_of(lanes.run[lane]) + 8 * job)
    prefetch(address_of(lanes.estimate[lane]) + 8 * job)
    prefetch(address_of(lanes.start[lane]) + 8 * job)
    _fetch(data + 8 * m[FREE], 16 * hosts)
    _fetch(data + 8 * m[TREE], 16 * hosts)
    _fetch(address_of(lanes.about[lane]), 32 * hosts)
    _fetch(address_of(lanes.features[lane]), 112 * lanes.count[lane])
