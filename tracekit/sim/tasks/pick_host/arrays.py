"""The arrays of many episodes of pick-host, side by side: made once, grown for longer episodes, filled with jobs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.engine.heap import ENTRY
from tracekit.sim.tasks.pick_host.features import wanted_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Singles = NDArray[np.float32]

#: What drives the clock of an episode: our own cycles; LSF RL scheduler at its head (2H+8); its 4H+2 version.
OURS, HEAD, OLD = range(3)
#: Where an episode is: between two cycles; in the middle of one; at a question; over.
BETWEEN, CYCLE, ASKING, OVER = range(4)

#: Terms of the reward, in the order of `Rules.weights`.
TERMS = ("wait", "defer", "step", "second", "utilization", "imbalance", "makespan", "objective")
WAIT, DEFER, STEP, SECOND, UTILIZATION, IMBALANCE, MAKESPAN, OBJECTIVE = range(len(TERMS))

#: What an observer needs (`HostLanes.wanted`): exactly our features in their order; some of ours; some of LSF's.
ALL_OURS, OUR_ROWS, LSF_ROWS = range(3)
#: What is fixed of a host (`HostLanes.facts`): cores, 1 / cores, 1 / memory (0 = not limited), 1 / thousandths of GPUs
#: (0 = it has none), cores and memory of the largest host.
SIZE, OF_SIZE, OF_ROOM, OF_HOST_GPUS, HOST_CORES, HOST_MEMORY = range(6)

#: The state of a lane. Times in seconds.
STATE = np.dtype(
    [
        ("now", np.float64),
        ("opening", np.float64),  # first submit, and the first cycle
        ("horizon", np.float64),  # the episode ends here; inf = when all jobs have started
        ("phase", np.int64),
        ("rule", np.int64),  # an allocator that decides in place of an agent; −1 = none
        ("arrived", np.int64),  # jobs that have arrived
        ("waiting", np.int64),  # jobs in the queue
        ("place", np.int64),  # position in the queue of the job that is decided on …
        ("kept", np.int64),  # … and how many jobs before it stay in the queue
        ("batch", np.int64),  # jobs in the queue at the start of the cycle, their cores (units) and memory (KB)
        ("batch_cores", np.int64),
        ("batch_memory", np.int64),
        ("wait_cores", np.int64),  # of all waiting jobs
        ("wait_memory", np.int64),
        ("running", np.int64),
        ("spread", np.int64),  # running jobs on several hosts
        ("freed", np.int64),  # hosts on which jobs have ended since the last cycle
        ("surveyed", np.bool_),  # whether `about` is up to date
        ("asked", np.int64),  # questions
        ("steps", np.int64),  # decisions as the LSF RL scheduler counts them, and empty cycles
        ("cycles", np.int64),
        ("deferred", np.int64),  # events: a waiting job fitted nowhere in a cycle
        ("failed", np.int64),  # jobs that were removed because no host is large enough
        ("completed", np.int64),
        ("started", np.int64),
        ("waited", np.float64),  # sum over started jobs
        ("last_end", np.float64),
        ("sampled", np.float64),  # when utilisation was sampled last
        ("samples", np.int64),
        ("core_sum", np.float64),  # of samples
        ("memory_sum", np.float64),
        ("used_memory", np.int64),  # KB
        ("use", np.float64),  # Σ over hosts of the share of cores in use, and of its square
        ("use_squares", np.float64),
        ("core_area", np.float64),  # unit-seconds
        ("memory_area", np.float64),
        ("imbalance_area", np.float64),  # ∫ standard deviation of the hosts' shares of cores in use
        ("reward", np.float64),  # since the last question
        ("returned", np.float64),  # sum of rewards
    ],
    align=True,
)


#: What is kept of a running job: its end by estimate, cores · end, its host (−1: several), and the job that started on
#: this host before it (−1: none).
ON = np.dtype([("end", np.float64), ("work", np.float64), ("host", np.int64), ("after", np.int64)], align=True)


class Rules(NamedTuple):
    """The task in numbers."""

    version: int  # OURS, HEAD or OLD
    cycle: float  # seconds between cycles; 0 = at events
    strict: bool  # a cycle ends at the first job that fits nowhere
    all_hosts: bool  # rows are all hosts; else those with room
    ask_forced: bool  # ask also where there is only one choice
    weights: Floats  # (terms,) of the reward


class HostLanes(NamedTuple):
    """Arrays of L lanes with room for J jobs, H hosts and F features."""

    data: Ints  # (L, words) the hosts, see `tracekit.sim.hosts.state`
    real: Floats  # (L, …)
    state: NDArray[Any]  # (L,) STATE
    length: Ints  # (L,) jobs in use
    submit: Floats  # (L, J) ascending
    run: Floats
    estimate: Floats
    value: Floats  # the queue's order, smallest first
    start: Floats  # NaN = waits
    possible: NDArray[np.bool_]  # whether the job fits on the idle hosts
    queue: Ints  # (L, J) waiting jobs in order
    heap: NDArray[Any]  # (L, J) ENTRY: running jobs by their ends
    tried: NDArray[np.bool_]  # (L, J) whether a waiting job fitted nowhere when it was decided on last
    freed: NDArray[np.bool_]  # (L, H) whether jobs have ended there since the last cycle …
    freed_hosts: Ints  # (L, H) … and these hosts
    first: Ints  # (L, H) the job that started last on a host, −1 = none; of jobs on one host only …
    on: NDArray[Any]  # (L, J) ON: where each running job is, and the one that started there before it
    about: Floats  # (L, H, 4) running jobs of each host, first and last end by estimate, Σ cores · end
    last: Singles  # (L, H, 2) core and memory use of each host when it was sampled last
    rows: Ints  # (L, H) host of each row
    features: Singles  # (L, H, F)
    mask: NDArray[np.bool_]  # (L, H)
    count: Ints  # type: ignore[assignment]  # (L,) valid rows; hides tuple.count, which is not needed
    done: NDArray[np.bool_]  # (L,)
    filled: Ints  # (L,) rows that the last question filled
    codes: Ints  # (F,) see `tracekit.sim.tasks.pick_host.rows`
    scales: Floats  # (constants,) what features are divided by
    spare: Singles  # (L, all features) scratch
    facts: Floats  # (H, 6) what is fixed of each host: SIZE …
    wanted: NDArray[np.bool_]  # (3,) what the observer needs: ALL_OURS …


def allocate(
    data: Ints, real: Floats, jobs: int, facts: Floats, codes: Ints, scales: Floats, before: HostLanes | None
) -> HostLanes:
    """Return arrays with room for ``jobs`` jobs; with ``before``, its lanes' contents are kept."""
    lanes, hosts, every = len(data), len(facts), len(codes)
    made = HostLanes(
        data=data,
        real=real,
        state=np.zeros(lanes, STATE),
        length=np.zeros(lanes, np.int64),
        submit=np.zeros((lanes, jobs)),
        run=np.zeros((lanes, jobs)),
        estimate=np.zeros((lanes, jobs)),
        value=np.zeros((lanes, jobs)),
        start=np.zeros((lanes, jobs)),
        possible=np.zeros((lanes, jobs), np.bool_),
        queue=np.zeros((lanes, jobs), np.int64),
        heap=np.zeros((lanes, jobs), ENTRY),
        tried=np.zeros((lanes, jobs), np.bool_),
        freed=np.zeros((lanes, hosts), np.bool_),
        freed_hosts=np.zeros((lanes, hosts), np.int64),
        first=np.full((lanes, hosts), -1, np.int64),
        on=np.zeros((lanes, jobs), ON),
        about=np.zeros((lanes, hosts, 4)),
        last=np.zeros((lanes, hosts, 2), np.float32),
        rows=np.zeros((lanes, hosts), np.int64),
        features=np.zeros((lanes, hosts, every), np.float32),
        mask=np.zeros((lanes, hosts), np.bool_),
        count=np.zeros(lanes, np.int64),
        done=np.ones(lanes, np.bool_),
        filled=np.zeros(lanes, np.int64),
        codes=codes,
        scales=scales,
        spare=np.zeros((lanes, 64), np.float32),
        facts=facts,
        wanted=wanted_of(codes),
    )
    if before is None:
        return made
    pairs: Any = zip(before[2:], made[2:], strict=True)
    return HostLanes(data, real, *(_grown(old, new) for old, new in pairs))


def _grown(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Return the new array with what the old one held; an array of the same shape stays where it is."""
    if old.shape == new.shape:
        return old
    new[tuple(slice(0, length) for length in old.shape)] = old
    return new
