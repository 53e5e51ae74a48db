"""The task pick-job on clusters of hosts: a heuristic played by the environment makes the heuristic's own schedule."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared_data import DATA, shared

import tracekit
from tracekit.machine import HostGroup
from tracekit.sim.jobs import extract_jobs
from tracekit.sim.simulate import run_table
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import PickJob

from .host_worlds import ALLOCATORS, cluster_of, rows_of, trace_of
from .playing import imitate
from .test_hosts import machine_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hosts_toys import CLUSTER, hosts_trace

EXAMPLES = int(os.environ.get("TRACEKIT_EXAMPLES", "40"))
BACKFILLS = ("none", "easy", "easy-sjf", "rlscheduler")
POLICIES = ("fcfs", "sjf", "ljf", "saf", "largest", "wfp3", "srf")


class LastFit:
    """An allocator written in Python: the last hosts with room."""

    name = "last-fit"

    def choose(self, hosts):
        """Choose."""
        per_pool = {}
        for host in np.flatnonzero(hosts.fits):
            per_pool[hosts.pool[host]] = per_pool.get(hosts.pool[host], 0) + int(hosts.fits[host])
        pool = next(p for p, room in per_pool.items() if room >= hosts.pieces)
        own = [h for h in np.flatnonzero(hosts.fits)[::-1] if hosts.pool[h] == pool]
        return own if hosts.spreads else [h for h in own for _ in range(int(hosts.fits[h]))][: hosts.pieces]


def busy(jobs=120, seed=3):
    """Jobs of the toy cluster, close together."""
    trace = hosts_trace(jobs, seed=seed)
    table = trace.jobs.assign(
        submit_time=np.floor(trace.jobs["submit_time"].to_numpy() / 90), req_time=trace.jobs["run_time"] * 1.5
    )
    return tracekit.Trace(table, trace.machine)


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)
@given(
    seed=st.integers(0, 2**40),
    backfill=st.sampled_from(BACKFILLS),
    commit=st.booleans(),
    policy=st.sampled_from(POLICIES),
    allocate=st.sampled_from((*ALLOCATORS, "random", LastFit())),
)
def test_a_heuristic_played_by_the_environment_makes_its_schedule(seed, backfill, commit, policy, allocate):
    rng = np.random.default_rng(seed)
    cluster = cluster_of(rng)
    trace = trace_of(rows_of(rng, cluster))
    task = PickJob(cluster=cluster, allocate=allocate, backfill=backfill, commit=commit, base=policy)
    theirs = tracekit.simulate(trace, policy, backfill, cluster=cluster, allocate=allocate, commit=commit)
    if not len(theirs):
        return
    batch = Batch(trace, task, lanes=1)
    (ours,) = imitate(batch, [(0, len(trace))], policy)
    np.testing.assert_array_equal(ours, theirs.start)
    assert list(batch.hosts(0)) == list(theirs.hosts)


@pytest.mark.parametrize("allocate", ["milp", "milp-exact"])
@pytest.mark.parametrize("policy", ["sjf", "wfp3"])
def test_the_integer_program_places_as_in_simulate(allocate, policy):
    trace = busy(60)
    theirs = tracekit.simulate(trace, policy, cluster=CLUSTER, allocate=allocate)
    batch = Batch(trace, PickJob(cluster=CLUSTER, allocate=allocate, base=policy), lanes=1)
    (ours,) = imitate(batch, [(0, len(trace))], policy)
    np.testing.assert_array_equal(ours, theirs.start)
    assert list(batch.hosts(0)) == list(theirs.hosts)


@pytest.mark.parametrize("allocate", ["first-fit", "fgd", LastFit()])
def test_lanes_of_different_length_that_begin_at_different_times(allocate):
    trace = busy()
    task = PickJob(cluster=CLUSTER, allocate=allocate, objective="wait")
    table = extract_jobs(trace, task.switches.resolved())
    windows = [(0, 10), (5, 60), (30, 90), (7, 1), (50, 30), (0, 120)]
    batch, waiting = Batch(trace, task, lanes=2), list(windows)
    policy, played = "sjf", {}
    batch.reset([0], [waiting.pop(0)])
    batch.reset([1], [waiting.pop(0)])  # needs more room while the other is in the middle
    while not batch.done.all() or waiting:
        for lane in np.flatnonzero(batch.done):
            played[batch.windows[lane]] = batch.starts(lane), batch.score[lane]
            if waiting:
                batch.reset([lane], [waiting.pop(0)])
        batch.step([0 if batch.done[lane] else shortest(batch, lane) for lane in range(2)])
    played |= {batch.windows[lane]: (batch.starts(lane), batch.score[lane]) for lane in range(2)}
    assert sorted(played) == sorted(windows)
    for window, (start, score) in played.items():
        theirs = run_table(table.window(*window), policy, "easy", task.switches)
        np.testing.assert_array_equal(start, theirs.start)
        assert score == pytest.approx(theirs.metrics["mean_wait_s"])
        assert batch.source.policy_cost(window, policy) == pytest.approx(score)


def shortest(batch, lane):
    """Return the slot of the shortest job, of equals the earliest."""
    ready, shown = batch.source.episode(batch.windows[lane]).ready, batch.shown(lane)
    return int(np.lexsort((shown, ready.estimate[shown]))[0])


# ---- RLTune ----------------------------------------------------------------------------------------------------------


def observations():
    path = DATA.parent / "checks" / "rltune_baselines.json"
    return json.loads(path.read_text())["observations"] if path.is_file() else []


@pytest.mark.skipif(not observations(), reason="the checks of published systems are not here")
def test_observations_are_those_of_rltune():
    trace = tracekit.read(shared("rltune/synthetic_trace.csv"))
    batch = Batch(trace, PickJob.rltune("rltune-helios", ask_forced=True), lanes=1)
    wanted = {seen["decision"]: seen for seen in observations()}
    batch.reset([0], [(203, 256)])
    for decision in range(max(wanted) + 1):
        if decision in wanted:
            seen = wanted[decision]
            assert batch.count[0] == seen["n_visible"]
            assert batch.now(0) == seen["time"]
            ours = batch.features[0, : batch.count[0]]
            np.testing.assert_allclose(ours, [row[1:] for row in seen["queue"]], rtol=0, atol=1e-6)
        batch.step([0])


@pytest.mark.parametrize("backfill", ["none", "easy"])
@pytest.mark.parametrize("base", ["fcfs", "sjf", "wfp3", "multifactor", "largest"])
def test_the_first_slot_of_rltunes_task_is_the_base_policys_choice(base, backfill):
    trace = rltune_trace()
    task = PickJob.rltune("rltune-helios", base=base, backfill=backfill)
    theirs = tracekit.simulate(trace, base, backfill, compat="rltune", cluster="rltune-helios")
    batch = Batch(trace, task, lanes=1)
    batch.reset([0], [(0, len(trace))])
    while not batch.done[0]:
        reward, _ = batch.step([0])
    start = batch.starts(0)
    np.testing.assert_array_equal(start[np.isfinite(start)], theirs.start)
    assert reward[0] == 0
    assert batch.score[0] == pytest.approx(theirs.metrics["mean_bsld"])


def rltune_trace(jobs=80, impossible=False):
    """Jobs of virtual clusters 0 to 4, of up to 20 GPUs."""
    rng = np.random.default_rng(5)
    gpus = rng.choice([1, 2, 4, 8, 12, 16], jobs)
    if impossible:
        gpus[[20, 50]] = 200
    table = {
        "job_id": np.arange(1, jobs + 1),
        "submit_time": np.cumsum(rng.integers(0, 60, jobs)).astype(float),
        "run_time": np.ceil(rng.exponential(600, jobs)),
        "req_gpus": gpus.astype(float),
        "pool": pd.Categorical(rng.choice(list("01234"), jobs)),
    }
    return tracekit.Trace(pd.DataFrame(table), tracekit.Machine(unit="gpus", gpus=136))


def test_jobs_that_never_fit_are_dropped_as_rltune_does():
    trace = rltune_trace(impossible=True)
    theirs = tracekit.simulate(trace, "fcfs", "none", compat="rltune", cluster="rltune-helios")
    assert theirs.metrics["dropped"] == 2
    batch = Batch(trace, PickJob.rltune("rltune-helios", objective="wait"), lanes=1)
    batch.reset([0], [(0, len(trace))])
    while not batch.done[0]:
        batch.step([0])
    assert np.isinf(batch.starts(0)).sum() == 2
    assert batch.score[0] == pytest.approx(theirs.metrics["mean_wait_s"])


def test_gymnasium_takes_a_cluster():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make(
        "tracekit:tracekit/PickJob-v0", trace=busy(), cluster=CLUSTER, allocate="fgd", jobs=40, reward="relative"
    )
    _, info = env.reset(seed=1)
    over = False
    while not over:
        seen, reward, over, _, info = env.step(info["action_mask"].argmax())
    assert seen.shape == (128, len(PickJob(cluster=CLUSTER).feature_names))
    base, score = info["base_score"], info["score"]
    assert reward == pytest.approx((base - score) / max(base, score, 1.0))


def test_features_of_hosts_by_hand():
    """Two hosts of 4 GPUs: one job holds 3 of the first, a job of 2 fits on the second only, one of 8 must wait."""
    table = {
        "job_id": [1, 2, 3, 4],
        "submit_time": [0.0, 1.0, 1.0, 1.0],
        "run_time": [1000.0, 10.0, 10.0, 5000.0],
        "req_gpus": [3.0, 2.0, 8.0, 1.0],
        "req_procs": [1, 1, 2, 1],
    }
    cluster = machine_of(HostGroup(2, cores=8, gpus=4, name="g"))
    names = "pool-share,pool-free,pool-fragmentation,ways,soon,starts-now,delay"
    batch = Batch(tracekit.Trace(pd.DataFrame(table), cluster), PickJob(cluster=cluster, observer=names), lanes=1)
    batch.reset([0], [(0, 4)])
    batch.step([0])
    two, eight, one = batch.features[0, :3]
    shared = [5 / 8, 1 / 5, 1.0]  # free; on a partly used host; free within the hour
    np.testing.assert_allclose(two, [2 / 8, *shared[:2], 1 / 4, shared[2], 1, 0], rtol=1e-6)
    np.testing.assert_allclose(eight, [1, *shared[:2], 0, shared[2], 0, 999 / (999 + 3600)], rtol=1e-6)
    np.testing.assert_allclose(one, [1 / 8, *shared[:2], 2 / 4, shared[2], 1, 0], rtol=1e-6)
