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
    fixed,
    look,
    need,
)
from tracekit.sim.tasks.pick_host.arrays import HostLanes, Rules
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
        survey_start(lanes, lane, lanes.active[lane, i])
    state.surveyed = True


@jit_internal
def survey_host(lanes: HostLanes, lane: int, host: int) -> None:
    """Work out again what runs on one host, where no job runs on several."""
    m, about, job = lanes.data[lane], lanes.about[lane], lanes.first[lane, host]
    count, soonest, latest, work = 0.0, np.inf, -np.inf, 0.0
    while job >= 0:
        end = lanes.start[lane, job] + lanes.estimate[lane, job]
        count += 1.0
        soonest, latest = min(soonest, end), max(latest, end)
        work += need(m, job, CORES) * end
        job = lanes.after[lane, job]
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


@jit_internal
def observe(lanes: HostLanes, rules: Rules, lane: int) -> None:
    """Write the rows of a lane's question; a finished lane has none."""
    count, out, mask, spare = lanes.count[lane], lanes.features[lane], lanes.mask[lane], lanes.spare[lane]
    width = out.shape[1]
    for r in range(count, lanes.filled[lane]):
        mask[r] = False
        for f in range(width):
            out[r, f] = 0.0
    lanes.filled[lane] = count
    if count == 0:
        return
    state = lanes.state[lane]
    job = lanes.queue[lane, state.place]
    ours = lanes.codes[0] < _FIRST_LSF
    if ours and not state.surveyed:
        survey(lanes, lane)
    look(lanes.data[lane], lanes.data[lane][FREE], NOW, 0)
    _write_job(lanes, lane, job)
    for r in range(count):
        _write_host(lanes, lane, job, lanes.rows[lane, r], ours)
        if not rules.all_hosts:
            mask[r] = True
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
def _write_host(lanes: HostLanes, lane: int, job: int, h: int, ours: bool) -> None:
    """Write what is known of one host."""
    m, out, scale = lanes.data[lane], lanes.spare[lane], lanes.scales
    base, total = m[FREE] + h * m[CELLS], m[TOTAL] + h * m[CELLS]
    size, room = float(m[total]), float(m[total + 1])
    limited = m[total + 1] < UNLIMITED
    out[9], out[10] = min(size / scale[_HOST_CORES], 1.0), room / scale[_HOST_MEMORY] if limited else 1.0
    if not ours:
        at, last = _FIRST_LSF, lanes.last[lane]
        one = np.float32(1.0)
        out[at], out[at + 1] = last[h, 0], last[h, 1]
        out[at + 2] = np.float32(size) * (one - last[h, 0]) / np.float32(scale[_HOST_CORES])
        out[at + 3] = np.float32(room) * (one - last[h, 1]) / np.float32(scale[_HOST_MEMORY])
        return
    state, about, short = lanes.state[lane], lanes.about[lane], scale[_RUN]
    free, memory = float(m[base]), float(m[base + 1])
    asked, wanted = float(need(m, job, CORES)), float(need(m, job, MEMORY))
    gpus, idle = float(fixed(m, h, 2) * MILLI_GPU), float(idle_gpus(m, lanes.real[lane], m, h))
    taken = float(need(m, job, GPUS) * MILLI_GPU + need(m, job, MILLI))
    out[0], out[1] = free / max(size, 1.0), memory / max(room, 1.0) if limited else 1.0
    out[2] = idle / gpus if gpus > 0 else 0.0
    out[3] = free / scale[_HOST_CORES] if size < UNLIMITED else 1.0
    out[4] = memory / scale[_HOST_MEMORY] if limited else 1.0
    out[5] = idle / scale[_HOST_GPUS]
    out[6] = (free - asked) / max(size, 1.0)
    out[7] = (memory - wanted) / max(room, 1.0) if limited else 1.0
    out[8] = (idle - taken) / gpus if gpus > 0 else 0.0
    now, estimate = state.now, lanes.estimate[lane, job]
    out[11] = _soft(about[h, 0], 8.0)
    out[12] = out[13] = out[14] = 0.0
    ahead = 0.0
    if about[h, 0] > 0:
        ahead = max(about[h, 2] - now, 0.0)
        out[12] = _soft(about[h, 1] - now, short)
        out[13] = _soft(ahead, short)
        out[14] = _soft((about[h, 3] - now * (size - free)) / max(size, 1.0), short)
    out[15] = out[6] - out[7] if limited else 0.0
    queue = (state.batch_memory / scale[_MEMORY] + 1e-3) / (state.batch_cores / scale[_CORES] + 1e-3)
    out[16] = math.tanh(math.log((max(out[7], 0.0) + 1e-2) / (max(out[6], 0.0) + 1e-2) / queue)) if limited else 0.0
    out[17] = max(estimate - ahead, 0.0) / max(estimate, 1.0)
