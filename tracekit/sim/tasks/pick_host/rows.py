"""What an agent sees at a question, compiled: one row per host. `features` defines every number."""

from __future__ import annotations

import math

import numpy as np

from tracekit.sim.compile import jit_internal, jit_merged
from tracekit.sim.hosts.demand import CORES, GPUS, MEMORY, MILLI, MILLI_GPU, PIECES, UNLIMITED
from tracekit.sim.hosts.scores import idle_gpus
from tracekit.sim.hosts.state import (
    CELLS,
    FREE,
    FREE_CORES,
    HOSTS,
    LOG,
    NOW,
    SPAN,
    TOTAL,
    TOTAL_CORES,
    look,
    need,
)
from tracekit.sim.tasks.pick_host.arrays import (
    ALL_OURS,
    HOST_CORES,
    HOST_MEMORY,
    LSF_ROWS,
    OF_HOST_GPUS,
    OF_ROOM,
    OF_SIZE,
    OUR_ROWS,
    SIZE,
    HostLanes,
    Rules,
    Singles,
)
from tracekit.sim.tasks.pick_host.features import CODES, CONSTANTS

_FIRST_LSF = CODES["last-core-use"]
_FIRST_JOB = CODES["job-cores"]
_HOST_CORES, _HOST_MEMORY, _HOST_GPUS, _JOB_CORES, _JOB_MEMORY, _JOB_RUN, _CORES, _MEMORY, _RUN = range(len(CONSTANTS))


@jit_internal
def survey(lanes: HostLanes, lane: int) -> None:
    """Work out what runs on each host and how long still, by estimates."""
    m, state, about = lanes.data[lane], lanes.state[lane], lanes.about[lane]
    for h in range(m[HOSTS]):
        about[h, 0], about[h, 1], about[h, 2], about[h, 3] = 0.0, np.inf, -np.inf, 0.0
    for i in range(state.running):
        survey_start(lanes, lane, lanes.heap[lane, i].item)
    state.surveyed = True


@jit_merged
def survey_host(lanes: HostLanes, lane: int, host: int) -> None:
    """Work out again what runs on one host, where no job runs on several."""
    about, on, job = lanes.about[lane], lanes.on[lane], lanes.first[lane, host]
    count, soonest, latest, work = 0.0, np.inf, -np.inf, 0.0
    while job >= 0:
        end = on[job].end
        count += 1.0
        soonest, latest = min(soonest, end), max(latest, end)
        work += on[job].work
        job = on[job].after
    about[host, 0], about[host, 1], about[host, 2], about[host, 3] = count, soonest, latest, work


@jit_merged
def survey_start(lanes: HostLanes, lane: int, job: int) -> None:
    """Add a running job to what is known of its hosts."""
    m, about = lanes.data[lane], lanes.about[lane]
    end = lanes.start[lane, job] + lanes.estimate[lane, job]
    begin = m[m[SPAN] + 2 * job]
    for i in range(begin, begin + m[m[SPAN] + 2 * job + 1]):
        cores = m[m[LOG] + 4 * i + 2] * need(m, job, CORES) // need(m, job, PIECES)
        for h in range(m[m[LOG] + 4 * i], m[m[LOG] + 4 * i + 1] + 1):
            about[h, 0] += 1.0
            about[h, 1] = min(about[h, 1], end)
            about[h, 2] = max(about[h, 2], end)
            about[h, 3] += cores * end


@jit_merged
def _soft(x: float, scale: float) -> float:
    """Return x/(x + scale), 0 for what is below 0."""
    return max(x, 0.0) / (max(x, 0.0) + scale)


@jit_merged
def observe(lanes: HostLanes, rules: Rules, lane: int) -> None:
    """Write the rows of a lane's question; a finished lane has none."""
    count, before, out, mask = lanes.count[lane], lanes.filled[lane], lanes.features[lane], lanes.mask[lane]
    width = out.shape[1]
    for r in range(count, before):
        mask[r] = False
        for f in range(width):
            out[r, f] = 0.0
    lanes.filled[lane] = count
    if count == 0:
        return
    if not rules.all_hosts:
        for r in range(before, count):
            mask[r] = True
    state = lanes.state[lane]
    if lanes.wanted[OUR_ROWS] and not state.surveyed:
        survey(lanes, lane)
    job = lanes.queue[lane, state.place]
    look(lanes.data[lane], lanes.data[lane][FREE], NOW, 0)
    _write_job(lanes, lane, job)
    if lanes.wanted[ALL_OURS]:
        _write_default(lanes, lane, job, count)
    else:
        _write_some(lanes, lane, job, count)


@jit_merged
def _write_default(lanes: HostLanes, lane: int, job: int, count: int) -> None:
    """Write the rows of the default observer: all of our features, in the order of their codes."""
    out, rows, spare, asked = lanes.features[lane], lanes.rows[lane], lanes.spare[lane], _asked(lanes, lane, job)
    for r in range(count):
        row = out[r]
        _write_host(lanes, lane, asked, rows[r], row)
        for f in range(_FIRST_JOB, _FIRST_LSF):
            row[f] = spare[f]


@jit_internal
def _write_some(lanes: HostLanes, lane: int, job: int, count: int) -> None:
    """Write rows of any features."""
    out, rows, spare, asked = lanes.features[lane], lanes.rows[lane], lanes.spare[lane], _asked(lanes, lane, job)
    width = out.shape[1]
    for r in range(count):
        h = rows[r]
        spare[9], spare[10] = lanes.facts[h, HOST_CORES], lanes.facts[h, HOST_MEMORY]
        if lanes.wanted[OUR_ROWS]:
            _write_host(lanes, lane, asked, h, spare)
        if lanes.wanted[LSF_ROWS]:
            _write_sampled(lanes, lane, h)
        for f in range(width):
            out[r, f] = spare[lanes.codes[f]]


@jit_merged
def _write_job(lanes: HostLanes, lane: int, job: int) -> None:
    """Write what is the same for every host."""
    m, state, out, scale = lanes.data[lane], lanes.state[lane], lanes.spare[lane], lanes.scales
    hosts, at = float(m[HOSTS]), _FIRST_JOB
    cores, memory = need(m, job, CORES), need(m, job, MEMORY)
    left = state.batch - state.place + state.kept  # jobs that wait now
    wait, short = state.now - lanes.submit[lane, job], scale[_RUN]
    out[at] = cores / scale[_HOST_CORES]
    out[at + 1] = memory / scale[_HOST_MEMORY]
    out[at + 2] = (need(m, job, GPUS) * MILLI_GPU + need(m, job, MILLI)) / scale[_HOST_GPUS]
    out[at + 3] = _soft(lanes.estimate[lane, job], short)
    out[at + 4] = _soft(wait, short)
    out[at + 5] = _soft(left / hosts, 1.0)
    out[at + 6] = _soft(state.batch_cores / scale[_CORES], 1.0)
    out[at + 7] = _soft(state.batch_memory / scale[_MEMORY], 1.0)
    out[at + 8] = m[FREE_CORES] / max(m[TOTAL_CORES], 1)
    out[at + 9] = lanes.count[lane] / hosts
    if lanes.wanted[ALL_OURS]:
        return
    at = _FIRST_LSF + 4
    out[at] = cores / scale[_JOB_CORES]
    out[at + 1] = memory / scale[_JOB_MEMORY]
    out[at + 2] = lanes.run[lane, job] / scale[_JOB_RUN]
    out[at + 3] = 1.0 if wait > 1.0 else 0.0
    out[at + 4] = math.tanh(state.place / hosts)
    out[at + 5] = math.tanh(state.batch / hosts)
    out[at + 6] = state.batch_cores / scale[_CORES]
    out[at + 7] = state.batch_memory / scale[_MEMORY]


@jit_merged
def _write_sampled(lanes: HostLanes, lane: int, h: int) -> None:
    """Write what the LSF RL scheduler shows of one host, in single precision as it does."""
    m, out, scale, last = lanes.data[lane], lanes.spare[lane], lanes.scales, lanes.last[lane]
    total, at, one = m[TOTAL] + h * m[CELLS], _FIRST_LSF, np.float32(1.0)
    out[at], out[at + 1] = last[h, 0], last[h, 1]
    out[at + 2] = np.float32(float(m[total])) * (one - last[h, 0]) / np.float32(scale[_HOST_CORES])
    out[at + 3] = np.float32(float(m[total + 1])) * (one - last[h, 1]) / np.float32(scale[_HOST_MEMORY])


@jit_merged
def _asked(lanes: HostLanes, lane: int, job: int) -> tuple[float, ...]:
    """Return what `_write_host` needs to know of a question: the same for all hosts."""
    m, state, scale = lanes.data[lane], lanes.state[lane], lanes.scales
    queue = (state.batch_memory / scale[_MEMORY] + 1e-3) / (state.batch_cores / scale[_CORES] + 1e-3)
    estimate = lanes.estimate[lane, job]
    return (
        float(need(m, job, CORES)),
        float(need(m, job, MEMORY)),
        float(need(m, job, GPUS) * MILLI_GPU + need(m, job, MILLI)),
        state.now,
        estimate,
        1.0 / max(estimate, 1.0),
        queue,
        scale[_RUN],
        1.0 / scale[_HOST_CORES],
        1.0 / scale[_HOST_MEMORY],
        1.0 / scale[_HOST_GPUS],
    )


@jit_merged
def _write_host(lanes: HostLanes, lane: int, asked: tuple[float, ...], h: int, out: Singles) -> None:
    """Write what is known of one host; products with reciprocals, as divisions are slow."""
    m, fact, about = lanes.data[lane], lanes.facts[h], lanes.about[lane, h]
    cores, space, gpus, now, estimate, of_estimate, queue, short, of_cores, of_memory, of_gpus = asked
    base = m[FREE] + h * m[CELLS]
    free, of_size = float(m[base]), fact[OF_SIZE]
    left = (free - cores) * of_size
    out[0], out[3], out[6] = free * of_size, free * of_cores if fact[SIZE] < UNLIMITED else 1.0, left
    out[9], out[10] = fact[HOST_CORES], fact[HOST_MEMORY]
    if fact[OF_ROOM] > 0.0:
        memory, of_room = float(m[base + 1]), fact[OF_ROOM]
        rest = (memory - space) * of_room
        out[1], out[4], out[7], out[15] = memory * of_room, memory * of_memory, rest, left - rest
        a, b = max(rest, 0.0) + 1e-2, (max(left, 0.0) + 1e-2) * queue
        out[16] = (a * a - b * b) / (a * a + b * b)  # tanh(log(a / b))
    else:  # not limited
        out[1] = out[4] = out[7] = 1.0
        out[15] = out[16] = 0.0
    out[2] = out[5] = out[8] = 0.0
    if fact[OF_HOST_GPUS] > 0.0:
        idle = float(idle_gpus(m, lanes.real[lane], m, h))
        out[2], out[5], out[8] = idle * fact[OF_HOST_GPUS], idle * of_gpus, (idle - gpus) * fact[OF_HOST_GPUS]
    out[11] = out[12] = out[13] = out[14] = 0.0
    ahead, count = 0.0, about[0]
    if count > 0:
        ahead = max(about[2] - now, 0.0)
        soon, work = max(about[1] - now, 0.0), max((about[3] - now * (fact[SIZE] - free)) * of_size, 0.0)
        out[11], out[12] = count / (count + 8.0), soon / (soon + short)
        out[13], out[14] = ahead / (ahead + short), work / (work + short)
    out[17] = max(estimate - ahead, 0.0) * of_estimate
