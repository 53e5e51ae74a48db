"""What changes during an episode of pick-host, compiled: jobs start, end and arrive, and time passes."""

from __future__ import annotations

from tracekit.sim.compile import jit_merged
from tracekit.sim.engine.heap import pop, sift_up
from tracekit.sim.hosts.calls import address_of, do_at
from tracekit.sim.hosts.demand import CORES, GPUS, MEMORY, MILLI, PIECES
from tracekit.sim.hosts.operations import GIVE, change_held
from tracekit.sim.hosts.state import CELLS, DO, FREE_CORES, LOG, SPAN, TOTAL, TOTAL_CORES, need
from tracekit.sim.tasks.pick_host.arrays import SECOND, WAIT, HostLanes, Rules
from tracekit.sim.tasks.pick_host.rows import survey_host, survey_start
from tracekit.sim.tasks.pick_host.use import count_use, imbalance, share_used


@jit_merged
def call(lanes: HostLanes, lane: int, code: int, job: int) -> int:
    """Call the hosts' compiled code."""
    m = lanes.data[lane]
    address = address_of(m)
    return do_at(m[DO], address, address_of(lanes.real[lane]), code, job, address, address)  # type: ignore[no-any-return]


@jit_merged
def host_of(lanes: HostLanes, lane: int, job: int) -> int:
    """Return the host of a job of one piece, or −1."""
    m = lanes.data[lane]
    return int(m[m[LOG] + 4 * m[m[SPAN] + 2 * job]]) if need(m, job, PIECES) == 1 else -1


@jit_merged
def _note_use(lanes: HostLanes, lane: int, host: int, before: float) -> None:
    """Update the sums of shares in use after a host's share of cores in use, ``before``, has changed."""
    state = lanes.state[lane]
    if host < 0:  # several hosts
        count_use(lanes, lane)
        return
    share = share_used(lanes.data[lane], host, 0)
    state.use += share - before
    state.use_squares += share * share - before * before


@jit_merged
def job_started(lanes: HostLanes, rules: Rules, lane: int, job: int) -> None:
    """Record a job that has just been given its hosts."""
    m, state, host = lanes.data[lane], lanes.state[lane], host_of(lanes, lane, job)
    before = 0.0
    if host >= 0:
        before = share_used(m, host, 0) - need(m, job, CORES) / max(m[m[TOTAL] + host * m[CELLS]], 1)
        lanes.on[lane, job].after, lanes.first[lane, host] = lanes.first[lane, host], job
    else:
        state.spread += 1
    _note_use(lanes, lane, host, before)
    lanes.start[lane, job], lanes.tried[lane, job] = state.now, False
    end = state.now + lanes.run[lane, job]
    sift_up(lanes.heap[lane], state.running, end, job, job)
    on = lanes.on[lane, job]
    on.host, on.end = host, state.now + lanes.estimate[lane, job]
    on.work = need(m, job, CORES) * on.end
    state.running += 1
    state.started += 1
    state.used_memory += need(m, job, MEMORY)
    state.wait_cores -= need(m, job, CORES)
    state.wait_memory -= need(m, job, MEMORY)
    state.last_end = max(state.last_end, end)
    wait = state.now - lanes.submit[lane, job]
    state.waited += wait
    state.reward -= rules.weights[WAIT] * wait / lanes.length[lane]
    if state.surveyed:
        survey_start(lanes, lane, job)


@jit_merged
def _forget(lanes: HostLanes, lane: int, job: int, host: int) -> None:
    """Take a job off the list of its host, and work out again what runs there."""
    state, on, first = lanes.state[lane], lanes.on[lane], lanes.first[lane]
    if host < 0 or state.spread > 0:
        state.spread -= host < 0
        state.surveyed = False  # jobs on several hosts are on no list
    if host < 0:
        return
    if first[host] == job:
        first[host] = on[job].after
    else:
        other = first[host]
        while on[other].after != job:
            other = on[other].after
        on[other].after = on[job].after
    if state.surveyed:
        survey_host(lanes, lane, host)


@jit_merged
def _note_freed(lanes: HostLanes, lane: int, host: int) -> None:
    """Note that a job has ended on a host: only there can jobs fit that fitted nowhere before."""
    state = lanes.state[lane]
    if not lanes.freed[lane, host]:
        lanes.freed[lane, host] = True
        lanes.freed_hosts[lane, state.freed] = host
        state.freed += 1


@jit_merged
def _release(lanes: HostLanes, lane: int, job: int, host: int) -> None:
    """Give back what a job has on its only host, or on several (−1)."""
    m = lanes.data[lane]
    if host >= 0 and need(m, job, GPUS) == 0 and need(m, job, MILLI) == 0:  # as `GIVE`, without looking at the log
        change_held(m, lanes.real[lane], job, host, 1, 0, 1)
    else:
        call(lanes, lane, GIVE, job)
    if host >= 0:
        _note_freed(lanes, lane, host)
        return
    begin = m[m[SPAN] + 2 * job]
    for i in range(begin, begin + m[m[SPAN] + 2 * job + 1]):
        for h in range(m[m[LOG] + 4 * i], m[m[LOG] + 4 * i + 1] + 1):
            _note_freed(lanes, lane, h)


@jit_merged
def end_jobs(lanes: HostLanes, lane: int) -> None:
    """Release the hosts of all jobs that have ended by now."""
    m, state, heap = lanes.data[lane], lanes.state[lane], lanes.heap[lane]
    while state.running > 0 and heap[0].key <= state.now:
        job = pop(heap, state.running)
        host = lanes.on[lane, job].host
        before = share_used(m, host, 0) if host >= 0 else 0.0
        _release(lanes, lane, job, host)
        _note_use(lanes, lane, host, before)
        state.running -= 1
        state.used_memory -= need(m, job, MEMORY)
        state.completed += 1
        _forget(lanes, lane, job, host)


@jit_merged
def arrive(lanes: HostLanes, lane: int) -> None:
    """Put all jobs that have been submitted by now into the queue, by the queue's order."""
    m, state, queue, value = lanes.data[lane], lanes.state[lane], lanes.queue[lane], lanes.value[lane]
    while state.arrived < lanes.length[lane] and lanes.submit[lane, state.arrived] <= state.now:
        job, place = state.arrived, state.waiting
        while place > 0 and value[queue[place - 1]] > value[job]:
            queue[place] = queue[place - 1]
            place -= 1
        queue[place] = job
        lanes.tried[lane, job] = False
        state.wait_cores += need(m, job, CORES)
        state.wait_memory += need(m, job, MEMORY)
        state.waiting += 1
        state.arrived += 1


@jit_merged
def advance(lanes: HostLanes, rules: Rules, lane: int, time: float) -> None:
    """Move the clock, and add up what is in use meanwhile."""
    m, state = lanes.data[lane], lanes.state[lane]
    passed = time - state.now
    if passed > 0:
        state.core_area += passed * (m[TOTAL_CORES] - m[FREE_CORES])
        state.memory_area += passed * state.used_memory
        state.imbalance_area += passed * imbalance(lanes, lane)
        state.reward -= rules.weights[SECOND] * passed
    state.now = time
