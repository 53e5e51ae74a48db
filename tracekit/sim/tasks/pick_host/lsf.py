"""The environment of the LSF RL scheduler (github.com/LoboShao/lsf_autohost), played by its own semantics.

One cycle a second over all waiting jobs in the order of their arrival. Two versions: ``head`` (its observation has 2H+8
numbers) and ``4h2``. In both, utilisation is sampled once a second, after the first decision and before the jobs that
end in that second release their hosts; second 0 is not sampled. At ``head`` the first step decides nothing and jobs of
second 0 wait until second 1; utilisation is divided by the length of the episode; a job that no host can hold waits
for ever without being counted as deferred; the average wait counts jobs that still wait twice. In ``4h2`` second 0 has
a cycle; utilisation is divided by the number of samples; a job that no host can hold is removed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError, UnknownName
from tracekit.files import read_json
from tracekit.machine import MOST_HOSTS, HostGroup, Machine
from tracekit.sim.compile import log_first_compilation
from tracekit.sim.hosts.allocators import COMPILED
from tracekit.sim.hosts.demand import CORES, MEMORY, PIECES, POOL, TYPES, Demand
from tracekit.sim.hosts.model import HostModel
from tracekit.sim.tasks.pick_host.arrays import HEAD, OLD, STEP, TERMS, UTILIZATION, HostLanes, Rules, allocate
from tracekit.sim.tasks.pick_host.features import CODES, CONSTANTS, facts_of, features_of, largest_host, scales_of
from tracekit.sim.tasks.pick_host.lanes import begin_lanes, play_rule, step_lanes

Ints = NDArray[np.int64]

VERSIONS = {"head": HEAD, "4h2": OLD}
#: Its names of placement rules, and ours.
POLICIES = {"first-available": "first-fit", "best-fit": "best-fit", "worst-fit": "worst-fit"}
_LISTS = ("arrivals", "cores", "memory_mb", "duration")


@dataclass(frozen=True, eq=False)
class Fixture:
    """Hosts and jobs of one seed, as the LSF RL scheduler drew them."""

    hosts: Ints  # (hosts, 2) cores, memory in MB
    submit: Ints  # (jobs,) second of arrival; jobs beyond the last second are left out
    cores: Ints
    memory: Ints  # MB
    duration: Ints  # seconds
    max_time: int
    ranges: Mapping[str, Any]  # lowest and highest value that was drawn, by name


def read_fixture(path: str | Path, seed: int) -> Fixture:
    """Read the fixture of a seed from a JSON file, seed → hosts, arrivals and jobs; every mistake is one line."""
    data = read_json(path)
    if not isinstance(data, dict):
        raise FormatError(path, "is not a table of fixtures by seed")
    if str(seed) not in data:
        known = ", ".join(map(str, list(data)[:8])) or "none"
        raise FormatError(path, f"has no seed {seed}; it has {known}")
    found = data[str(seed)]
    if not isinstance(found, dict):
        raise FormatError(path, f"seed {seed} is not a table with hosts_cores_mem, {', '.join(_LISTS)} and max_time")
    hosts = _numbers(path, seed, "hosts_cores_mem", found.get("hosts_cores_mem"), 2)
    if not len(hosts):
        raise FormatError(path, f"seed {seed}: there are no hosts")
    if len(hosts) > MOST_HOSTS:
        raise FormatError(path, f"seed {seed}: {len(hosts):,} hosts are more than the limit of {MOST_HOSTS:,}")
    if hosts.min() < 1:
        host = int(np.flatnonzero(hosts.min(axis=1) < 1)[0])
        raise FormatError(
            path, f"seed {seed}: host {host} has {hosts[host, 0]} cores and {hosts[host, 1]} MB of memory"
        )
    arrivals, cores, memory, duration = (_numbers(path, seed, name, found.get(name), 1) for name in _LISTS)
    end = found.get("max_time")
    if isinstance(end, bool) or not isinstance(end, int) or not 1 <= end <= 10**7:
        raise FormatError(path, f"seed {seed}: max_time must be a whole number of seconds from 1, not {end!r}")
    submit = np.repeat(np.arange(min(len(arrivals), end)), arrivals[:end])
    jobs = len(submit)
    if min(len(cores), len(memory), len(duration)) < jobs:
        raise FormatError(
            path, f"seed {seed}: {jobs:,} jobs arrive, but {min(map(len, (cores, memory, duration))):,} are listed"
        )
    if len(arrivals) < end and len(cores) > jobs:
        raise FormatError(path, f"seed {seed}: arrivals has {len(arrivals):,} seconds, fewer than max_time {end:,}")
    if jobs and cores[:jobs].min() < 1:
        raise FormatError(path, f"seed {seed}: job {int(cores[:jobs].argmin())} has no cores")
    return Fixture(hosts, submit, cores[:jobs], memory[:jobs], duration[:jobs], end, found.get("ranges") or {})


def _numbers(path: str | Path, seed: int, name: str, given: Any, axes: int) -> Ints:
    """Return a list of whole numbers from 0 (or of pairs) as an array."""
    if not isinstance(given, list):
        raise FormatError(path, f"seed {seed}: {name} is missing or is not a list")
    rows = given if axes == 2 else [[value] for value in given]
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != axes:
            raise FormatError(path, f"seed {seed}: {name}[{number}] must be [cores, MB], not {str(row)[:40]}")
        for value in row:
            whole = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if not whole or value != int(value) or not 0 <= value < 2**31:
                raise FormatError(path, f"seed {seed}: {name}[{number}] must be a whole number from 0, not {value!r}")
    found = np.array(rows, dtype=np.int64).reshape(-1, axes)
    return found if axes == 2 else found[:, 0]


# ---- playing ---------------------------------------------------------------------------------------------------------


class LsfEpisode:
    """One fixture in one version: play it by a placement rule, or step by step with priorities of the hosts."""

    def __init__(self, fixture: Fixture, version: str, *, observer: str | None = None) -> None:
        if version not in VERSIONS:
            raise UnknownName("version", version, VERSIONS)
        self.fixture, self.version, self.code = fixture, version, VERSIONS[version]
        self.model = HostModel(_demand(fixture))
        names = features_of(observer or ("lsf-2h8" if version == "head" else "lsf-4h2"))
        capacity = self.model.allocate(1, max(len(fixture.submit), 1))
        self.model.fill(capacity, self.model.demand)
        scales = self._scales()
        self.lanes: HostLanes = allocate(
            capacity.data,
            capacity.real,
            max(len(fixture.submit), 1),
            facts_of(self.model.total, self.model.fixed[:, 2], scales),
            np.array([CODES[name] for name in names]),
            scales,
            None,
        )
        weights = np.zeros(len(TERMS))
        weights[STEP], weights[UTILIZATION] = np.float32(0.01), 1.0  # in single precision, as it is there
        self.rules = Rules(self.code, 1.0, False, True, True, weights)
        self._load()

    def _scales(self) -> NDArray[np.float64]:
        """Return what its observations are divided by: the upper ends of the ranges that it draws from."""
        fixture = self.fixture
        ranges = {key: float(value[1]) for key, value in fixture.ranges.items()}
        known = largest_host(self.model.demand)
        known |= {
            "job_cores": float(fixture.cores.max(initial=1)),
            "job_memory": float(fixture.memory.max(initial=1)),
            "job_run": float(fixture.duration.max(initial=1)),
            "run_s": float(np.median(fixture.duration)) if len(fixture.duration) else 1.0,
        }
        names = {"host_cores": "host_cores_range", "host_memory": "host_memory_range", "job_cores": "job_cores_range"}
        names |= {"job_memory": "job_memory_range", "job_run": "job_duration_range"}
        known |= {name: ranges[key] for name, key in names.items() if key in ranges}
        assert set(known) == set(CONSTANTS)
        return scales_of(known, self.model.demand)

    def _load(self) -> None:
        lanes, fixture = self.lanes, self.fixture
        jobs = len(fixture.submit)
        lanes.length[0] = jobs
        lanes.submit[0, :jobs] = lanes.value[0, :jobs] = fixture.submit
        lanes.run[0, :jobs] = lanes.estimate[0, :jobs] = fixture.duration
        hosts = fixture.hosts
        lanes.possible[0, :jobs] = _possible(hosts, fixture.cores, fixture.memory)
        lanes.state["horizon"][0] = fixture.max_time

    def play(self, policy: str) -> dict[str, Any]:
        """Play the episode by a placement rule; return its metrics."""
        if policy not in POLICIES:
            raise UnknownName("policy", policy, POLICIES)
        log_first_compilation("play_rule")
        play_rule(self.lanes, self.rules, 0, COMPILED[POLICIES[policy]].code)
        return self.metrics()

    def reset(self) -> None:
        """Begin the episode and stop at the first decision."""
        begin_lanes(self.lanes, self.rules, np.zeros(1, np.int64))

    def step(self, priorities: NDArray[Any]) -> float:
        """Walk down the hosts by priority to the first that has room; return the reward. Jobs without room wait."""
        able = self.lanes.mask[0]
        order = np.argsort(-np.asarray(priorities, np.float64), kind="stable")
        chosen = next((int(h) for h in order if able[h]), -1)
        step_lanes(self.lanes, self.rules, np.array([chosen]), 0, 1)
        return float(self.lanes.state["reward"][0])

    def observation(self) -> NDArray[np.float32]:
        """Return the observation as one vector: all hosts, then the job and the queue."""
        rows, mine = self.lanes.features[0], 2 if self.code == HEAD else 4
        return np.concatenate([rows[:, :mine].ravel(), rows[0, mine:]])

    def metrics(self) -> dict[str, Any]:
        """Return its metrics, under our names."""
        state, fixture = self.lanes.state[0], self.fixture
        jobs, end = int(state["arrived"]), float(state["now"])
        waits = self.lanes.queue[0, : int(state["waiting"])]
        pending = float((end - fixture.submit[waits]).sum()) if len(waits) else 0.0
        waited = float(state["waited"])
        double = 2.0 if self.code == HEAD else 1.0
        length = max(end, 1.0) if self.code == HEAD else float(state["samples"])
        means = [float(np.float32(state[f"{kind}_sum"] / length)) if length > 0 else 0.0 for kind in ("core", "memory")]
        return {
            "completed": int(state["completed"]),
            "avg_wait_as_coded": (waited + double * pending) / jobs if jobs else 0.0,
            "avg_wait": (waited + pending) / jobs if jobs else 0.0,
            "defer_rate": int(state["deferred"]) / jobs if jobs else 0.0,
            "core_utilization": means[0],
            "memory_utilization": means[1],
            "makespan": end,
            "steps": int(state["steps"]),
            "generated": jobs,
            "still_running": int(state["running"]),
            "still_waiting": len(waits),
            "failed": int(state["failed"]),
            "deferrals": int(state["deferred"]),
            "return": float(state["returned"]) if self.code == HEAD else None,
        }


def reproduce(path: str | Path, seed: int, version: str, policy: str = "first-available") -> dict[str, Any]:
    """Play a fixture in one version of the LSF RL scheduler by a placement rule; nothing is drawn."""
    return LsfEpisode(read_fixture(path, seed), version).play(policy)


def _possible(hosts: Ints, cores: Ints, memory: Ints) -> NDArray[np.bool_]:
    """Return which jobs fit on some idle host; many jobs ask for the same."""
    pairs, place = np.unique(np.stack([cores, memory], axis=1), axis=0, return_inverse=True)
    shapes = np.unique(hosts, axis=0)
    enough: Any = (shapes[None, :, 0] >= pairs[:, None, 0]) & (shapes[None, :, 1] >= pairs[:, None, 1])
    found: NDArray[np.bool_] = enough.any(axis=1)[place.ravel()] if len(pairs) else np.zeros(0, np.bool_)
    return found


def _demand(fixture: Fixture) -> Demand:
    """Return the demands of the jobs on the fixture's hosts; memory is counted in MB here."""
    groups = tuple(
        HostGroup(1, cores=int(cores), memory=float(memory), name=f"host{number}")
        for number, (cores, memory) in enumerate(fixture.hosts.tolist())
    )
    jobs = len(fixture.submit)
    need = np.zeros((jobs, 8), np.int64)
    need[:, CORES], need[:, MEMORY], need[:, PIECES] = fixture.cores, fixture.memory, 1
    need[:, TYPES] = need[:, POOL] = -1
    cluster = Machine(name="lsf", procs=int(fixture.hosts[:, 0].sum()), nodes=len(groups), groups=groups)
    nothing = np.zeros(jobs, np.int64)
    return Demand(need, nothing, (), np.zeros((1, 1), np.bool_), 1, np.ones(jobs), cluster)
