"""The task pick-host: the compiled environment against plain Python and against the simulator, and its mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hosts_toys import hosts_trace

from tracekit import Trace, simulate
from tracekit.errors import UnknownName, UsageError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.base import find_task, task_from_dict
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_host.batch import Batch
from tracekit.sim.tasks.pick_host.features import OBSERVERS
from tracekit.sim.tasks.pick_host.task import BASELINES, PickHost, players

from .pick_host_oracle import RULES, Host, Job, PickHostOracle

CLUSTER = Machine(
    name="mixed",
    groups=(
        HostGroup(3, cores=8, memory=4000.0, name="small"),
        HostGroup(2, cores=16, memory=2000.0, name="wide"),
        HostGroup(1, cores=4, memory=9000.0, name="deep"),
    ),
)


def mixed_trace(jobs: int = 300, seed: int = 1, *, spread: float = 12.0) -> Trace:
    rng = np.random.default_rng(seed)
    procs = rng.integers(1, 5, jobs)
    return Trace(
        pd.DataFrame(
            {
                "job_id": np.arange(1, jobs + 1),
                "submit_time": np.sort(np.round(rng.uniform(0, jobs * spread, jobs))),
                "run_time": rng.integers(0, 400, jobs).astype(float),
                "req_time": 500.0,
                "req_procs": procs,
                "req_mem": rng.integers(10, 700, jobs).astype(float),
                "tasks": pd.array([1] * jobs, dtype="Int64"),
            }
        ),
        Machine(procs=60),
    )


def task_on(cluster: Any = CLUSTER, **changes: Any) -> PickHost:
    return PickHost(switches=Switches(cluster=cluster), **changes)


def oracle(source: EpisodeSource, window: tuple[int, int], task: PickHost) -> PickHostOracle:
    ready = source.episode(window).ready
    demand = ready.table.demand
    assert demand is not None
    rows = zip(ready.table.submit, ready.run, demand.need[:, 0], demand.need[:, 1], strict=True)
    jobs = [Job(float(submit), float(run), float(cores), float(memory)) for submit, run, cores, memory in rows]
    hosts = [Host(g.cores or 0, g.memory or 0) for g in CLUSTER.groups for _ in range(g.count)]
    return PickHostOracle(hosts, jobs, task.cycle, task.backfill == "none", task.horizon or np.inf)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cycle": 60.0},
        {"cycle": 7.0, "horizon": 2000.0},
        {"backfill": "none"},
        {"backfill": "none", "cycle": 30.0},
        {"horizon": 1500.0},
    ],
)
def test_baselines_equal_plain_python(changes: dict[str, Any]) -> None:
    task = task_on(**changes)
    source = EpisodeSource(mixed_trace(), task)
    for window in ((0, 300), (40, 90)):
        for name, rule in RULES.items():
            other = oracle(source, window, task)
            wanted, found = other.play(rule), players(source)().play(window, name)
            assert found.hosts.tolist() == [job.host for job in other.jobs], name
            started = [job.start for job in other.jobs if job.host >= 0]
            assert found.starts[found.hosts >= 0].tolist() == started
            assert found.metrics == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_equal_the_simulator(name: str) -> None:
    for trace, cluster in ((mixed_trace(), CLUSTER), (hosts_trace(400), hosts_trace(400).machine)):
        task = task_on(cluster, backfill="none", order="sjf")
        source = EpisodeSource(trace, task)
        found = players(source)().play((0, len(trace)), name)
        wanted = simulate(trace, "sjf", "none", cluster=cluster, allocate=name)
        assert found.starts.tolist() == wanted.start.tolist()
        assert found.metrics["mean_wait_s"] == pytest.approx(wanted.metrics["mean_wait_s"])
        assert found.metrics["core_utilization"] == pytest.approx(wanted.metrics["core_utilization"])


def choose(batch: Batch, lane: int, name: str) -> int:
    """Return the row that a rule chooses, from what the environment shows."""
    names = batch.task.feature_names
    column = {"best-fit": "cores-now", "worst-fit": "cores-now", "least-loaded": "free-cores"}.get(name)
    count = int(batch.count[lane])
    if column is None:
        return int(np.flatnonzero(batch.mask[lane])[0])
    shown = batch.features[lane, :count, names.index(column)].astype(float)
    shown = np.where(batch.mask[lane, :count], shown, np.inf if name == "best-fit" else -np.inf)
    return int(shown.argmin() if name == "best-fit" else shown.argmax())


@pytest.mark.parametrize("shown", ["fitting", "all"])
@pytest.mark.parametrize("name", ["first-fit", "best-fit", "worst-fit", "least-loaded"])
def test_stepping_by_a_rule_equals_the_rule(name: str, shown: str) -> None:
    source = EpisodeSource(mixed_trace(), task_on(shown=shown, cycle=20.0))
    windows = [(0, 120), (50, 200), (100, 40)]
    batch = Batch(source, lanes=3, threads=1)
    batch.reset(range(3), windows)
    while not batch.done.all():
        batch.step(np.array([0 if batch.done[lane] else choose(batch, lane, name) for lane in range(3)]))
    for lane, window in enumerate(windows):
        wanted = players(source)().play(window, name)
        assert batch.starts(lane).tolist() == wanted.starts.tolist()
        assert batch.hosts_of_jobs(lane).tolist() == wanted.hosts.tolist()
        assert batch.outcomes[window] == pytest.approx(wanted.metrics)
    assert batch.score == pytest.approx(source.policy_costs(windows, [name])[:, 0])


def test_priorities_walk_down_to_the_first_host_with_room() -> None:
    source = EpisodeSource(mixed_trace(), task_on(actions="priorities"))
    batch = Batch(source, lanes=1)
    batch.reset([0], [(0, 200)])
    while not batch.done[0]:
        batch.step(-batch.features[:, :, source.task.feature_names.index("cores-now")])
    assert batch.hosts_of_jobs(0).tolist() == players(source)().play((0, 200), "best-fit").hosts.tolist()
    batch.reset([0], [(0, 200)])
    with pytest.raises(UsageError):
        batch.step(np.full((1, 6), np.nan))


def test_a_lane_does_not_depend_on_the_others_and_grows() -> None:
    source = EpisodeSource(mixed_trace(), task_on())
    alone, many = Batch(source, lanes=1), Batch(source, lanes=40, threads=2)
    alone.reset([0], [(10, 80)])
    many.reset(range(20), [(10, 80)] * 20)
    for _ in range(5):
        alone.step([0])
        many.step(np.zeros(40, np.int64))
    many.reset(range(20, 40), [(0, 290)] * 20)  # longer: all arrays grow
    while not alone.done[0]:
        alone.step([0])
    while not many.done.all():
        many.step(np.zeros(40, np.int64))
    assert many.starts(7).tolist() == alone.starts(0).tolist()
    assert many.starts(39).tolist() == many.starts(20).tolist()


def test_features_are_finite_and_small() -> None:
    for observer in OBSERVERS:
        batch = Batch(mixed_trace(), task_on(observer=observer, ask_forced=True), lanes=1)
        batch.reset([0], [(0, 300)])
        while not batch.done[0]:
            rows = batch.features[0, : batch.count[0]]
            assert np.isfinite(rows).all()
            assert np.abs(rows).max() < 60
            batch.step([int(batch.count[0]) - 1])


def test_what_is_shown_of_a_host() -> None:
    batch = Batch(mixed_trace(), task_on(shown="all", ask_forced=True), lanes=1)
    batch.reset([0], [(0, 50)])
    names = batch.task.feature_names
    first = dict(zip(names, batch.features[0, 0], strict=True))
    assert (first["free-cores"], first["jobs-there"], first["last-end"]) == (1, 0, 0)
    ready = batch.source.episode((0, 50)).ready
    assert ready.table.demand is not None
    need = ready.table.demand.need[0]
    assert first["left-cores"] == pytest.approx(1 - need[0] / 8)
    assert first["left-memory"] == pytest.approx(1 - need[1] / 4000)
    batch.step([0])
    first = dict(zip(names, batch.features[0, 0], strict=True))
    assert first["jobs-there"] == pytest.approx(1 / 9)
    left = 500.0 + ready.table.submit[0] - batch.now(0)
    assert first["last-end"] == pytest.approx(left / (left + 500), rel=1e-5)
    assert first["work-there"] == pytest.approx(left * need[0] / 8 / (left * need[0] / 8 + 500), rel=1e-5)


def test_any_features_are_those_of_the_observers() -> None:
    names = ("last-core-use", "left-memory", "job-run", "like-queue", "host-cores", "work-there")
    some = Batch(mixed_trace(), task_on(observer=",".join(names), ask_forced=True), lanes=1)
    every = Batch(mixed_trace(), task_on(ask_forced=True), lanes=1)
    for batch in (some, every):
        batch.reset([0], [(0, 150)])
    columns = [every.task.feature_names.index(name) for name in names[1:]]
    while not every.done[0]:
        assert some.features[0, :, 1:].tolist() == every.features[0][:, columns].tolist()
        for batch in (some, every):
            batch.step([int(batch.count[0]) // 2])


def test_a_lane_is_used_again_as_if_it_were_new() -> None:
    source, windows = EpisodeSource(mixed_trace(), task_on()), [(0, 200), (90, 120), (0, 200), (100, 200)]
    used, found = Batch(source, lanes=2, threads=1), []
    for batch, window in [(used, window) for window in windows] + [(Batch(source, lanes=2), windows[-1])]:
        batch.reset([1], [window])
        while not batch.done[1]:
            batch.step([0, int(batch.count[1]) - 1])
        found.append((batch.starts(1).tolist(), batch.hosts_of_jobs(1).tolist(), batch.outcomes[window]))
    assert found[0] == found[2]
    assert found[3] == found[4]


def test_rewards_are_what_they_say() -> None:
    for reward in ("objective", "wait", "defer", "second"):
        batch = Batch(mixed_trace(), task_on(reward=reward, cycle=10.0), lanes=1)
        batch.reset([0], [(0, 200)])
        total = 0.0
        while not batch.done[0]:
            total += float(batch.step([0])[0][0])
        metrics = batch.outcomes[(0, 200)]
        submit = batch.arrays.submit[0, :200]
        wanted = {"defer": metrics["defer_rate"], "second": batch.now(0) - submit[0]}.get(
            reward, metrics["mean_wait_s"]
        )
        assert total == pytest.approx(-wanted)


def test_the_task_in_plain_values() -> None:
    task = task_on(cycle=5.0, reward="wait:2,imbalance")
    assert find_task("pick-host") is PickHost
    again = task_from_dict(task.to_dict())
    assert again == task
    assert again.switches.cluster == task.cluster
    for wrong in ({"order": "wfp3"}, {"observer": "x"}, {"backfill": "easy"}, {"actions": "x"}, {"reward": "x"}):
        with pytest.raises(UnknownName):
            task_on(**wrong)
    for bad in ({"cycle": -1.0}, {"horizon": float("nan")}, {"reward": "wait:x"}, {"constants": {"run_s": 0.0}}):
        with pytest.raises(UsageError):
            task_on(**bad)


def test_impossible_clusters_are_one_line() -> None:
    trace = mixed_trace(20)
    with pytest.raises(UsageError, match="--cluster"):
        EpisodeSource(trace, PickHost())
    none = Machine(groups=(HostGroup(2, cores=0, name="a"), HostGroup(2, cores=8, name="b")))
    with pytest.raises(UsageError, match="0 cores"):
        EpisodeSource(trace, task_on(none))
    with pytest.raises(UsageError, match="100,000"):
        EpisodeSource(trace, task_on(Machine(groups=(HostGroup(100_000, cores=8, name="a"),))))
    batch = Batch(trace, task_on(), lanes=1)
    batch.reset([0], [(0, 20)])
    for action in ([99], [-1], [float("nan")]):
        with pytest.raises(UsageError):
            batch.step(action)
