"""Agents under levers of energy: the same starts and the same energy as the simulator gives the same decisions."""

import json

import numpy as np
import pytest

import tracekit
from tracekit.clusters import completed
from tracekit.errors import UsageError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.base import task_from_dict
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.sim.tasks.pick_policy.task import PickPolicy

from .helpers import trace_of

POWER = "idle_watts = 100\ncore_watts = 100\n"


@pytest.fixture(scope="module")
def trace():
    rng = np.random.default_rng(3)
    run = rng.integers(100, 3000, 80)
    rows = zip(np.cumsum(rng.integers(0, 200, 80)), run, run + 60, rng.integers(1, 9, 80), strict=True)
    return trace_of(*rows, procs=16)


@pytest.fixture
def capped(tmp_path):
    """Sixteen processors of which eight can be busy: jobs of one to eight."""
    (tmp_path / "power.toml").write_text(POWER)
    return {"power": str(tmp_path / "power.toml"), "power_cap": 2.4}


def hosts():
    sleeps = {"idle_watts": 200.0, "core_watts": 50.0, "sleep_watts": 10.0, "off_seconds": 30.0, "on_seconds": 90.0}
    return completed(Machine(name="test", groups=(HostGroup(8, cores=2, name="n", **sleeps),)), "test")


def always(source, window, row):
    """Return the batch of a task that has always answered the same."""
    batch = source.task.batch(source, lanes=1)
    batch.reset([0], [window])
    while not batch.done[0]:
        batch.step(np.array([row]))
    return batch


@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_a_policy_under_the_cap_is_the_simulators(trace, capped, backfill):
    task = PickPolicy(policies=("sjf", "fcfs"), backfill=backfill, objective="wait", switches=Switches(**capped))
    source = EpisodeSource(trace, task)
    for row, policy in enumerate(task.policies):
        batch = always(source, (0, 80), row)
        wanted = tracekit.simulate(trace, policy, backfill, **capped)
        np.testing.assert_array_equal(batch.starts(0), wanted.start)
        np.testing.assert_array_equal(source.schedule((0, 80), policy), wanted.start)
        found = source.finished((0, 80), batch.starts(0)).spent
        assert found.total_kwh == pytest.approx(wanted.energy.total_kwh, rel=1e-12)
        assert found.peak_kw <= 2.4 + 1e-12
    assert wanted.wait.mean() > tracekit.simulate(trace, "fcfs", backfill).wait.mean()


def test_the_cap_is_seen_as_what_it_leaves(trace, capped):
    task = PickPolicy(policies=("sjf", "fcfs"), switches=Switches(**capped))
    place = task.feature_names.index("watts-left")
    batch = task.batch(EpisodeSource(trace, task), lanes=1)
    batch.reset([0], [(0, 80)])
    seen = []
    while not batch.done[0]:
        seen.append(float(batch.features[0, 0, place]))
        batch.step(np.array([0]))
    assert {8 * left % 1 for left in seen} == {0.0}  # whole processors of the eight that may be busy
    assert min(seen) < max(seen) <= 1.0
    plain = PickPolicy(policies=("sjf", "fcfs"))
    assert "watts-left" not in plain.feature_names
    assert task_from_dict(json.loads(json.dumps(task.to_dict()))) == task
    assert (
        task_from_dict({k: v for k, v in plain.to_dict().items() if k != "watts"}) == plain
    )  # as older agents have it


@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_picked_jobs_under_the_cap_start_as_in_the_simulator(trace, capped, backfill):
    task = PickJob(objective="wait", backfill=backfill, switches=Switches(**capped))
    batch = Batch(trace, task, lanes=3)
    batch.reset(range(3), [(0, 80), (0, 40), (40, 40)])
    request = task.feature_names.index("request")
    while not batch.done.all():
        batch.step(np.where(batch.mask, batch.features[:, :, request], np.inf).argmin(axis=1))
    np.testing.assert_array_equal(batch.starts(0), tracekit.simulate(trace, "sjf", backfill, **capped).start)
    np.testing.assert_allclose(batch.score, batch.source.policy_costs(batch.windows, ["sjf"])[:, 0])


def test_jobs_above_the_cap_are_left_out_of_windows(trace, capped):
    levers = capped | {"power_cap": 2.0}  # four processors: larger jobs can never run
    source = EpisodeSource(trace, PickPolicy(policies=("sjf", "fcfs"), switches=Switches(**levers)))
    wanted = tracekit.simulate(trace, "sjf", **levers)
    assert source.rejected == wanted.rejected
    np.testing.assert_array_equal(always(source, (0, 80), 0).starts(0), wanted.start)


@pytest.mark.slow  # compiles the passes of this task for hosts
def test_hosts_that_sleep_cost_an_agent_what_they_cost_the_simulator(trace):
    levers = {"cluster": hosts(), "allocate": "pack-and-sleep", "sleep_after": 60.0}
    task = PickPolicy(policies=("sjf", "fcfs"), objective="energy:1,wait:0", switches=Switches(**levers))
    source = EpisodeSource(trace, task)
    assert task_from_dict(json.loads(json.dumps(task.to_dict()))).to_dict() == task.to_dict()
    for row, policy in enumerate(task.policies):
        batch, wanted = always(source, (0, 80), row), tracekit.simulate(trace, policy, **levers)
        np.testing.assert_array_equal(batch.starts(0), wanted.start)
        assert batch.score[0] == pytest.approx(wanted.energy.total_kwh, rel=1e-12)
        assert source.policy_cost((0, 80), policy) == pytest.approx(wanted.energy.total_kwh, rel=1e-12)
    awake = tracekit.simulate(trace, "fcfs", **levers | {"sleep_after": 1e9})
    assert wanted.energy.total_kwh < awake.energy.total_kwh


def test_a_lower_frequency_is_in_the_energy_of_an_episode(trace, capped):
    levers = {"power": capped["power"], "frequency": 0.5}
    source = EpisodeSource(trace, PickJob(objective="energy", switches=Switches(**levers)))
    wanted = tracekit.simulate(trace, "sjf", **levers).energy.total_kwh
    assert source.policy_cost((0, 80), "sjf") == pytest.approx(wanted, rel=1e-12)


def test_what_agents_do_not_have_is_one_line(trace, capped):
    with pytest.raises(UsageError, match="PickJob supports --power-cap on a counter of processors only"):
        PickJob(cluster=hosts(), switches=Switches(power_cap=5.0))
    with pytest.raises(UsageError, match="task pick-job does not support --sleep-after"):
        EpisodeSource(trace, PickJob(cluster=hosts(), switches=Switches(cluster=hosts(), sleep_after=5.0)))
    series = Switches(price="x.csv", max_extra_wait=60.0)
    with pytest.raises(UsageError, match="task pick-policy does not support --max-extra-wait"):
        EpisodeSource(trace, PickPolicy(switches=series))
    with pytest.raises(UsageError, match="does not support a warm start"):
        PickPolicy(warm=5, switches=Switches(cluster=hosts()))


def test_the_command_line_trains_and_judges_under_a_cap(run, trace, capped, tmp_path):
    pytest.importorskip("torch", reason="training needs torch")
    tracekit.write(trace, tmp_path / "t.swf")
    lever = ["--power", capped["power"], "--power-cap", "2.4"]
    small = [
        "--task",
        "pick-policy",
        "--steps",
        60,
        "--jobs",
        16,
        "--overlap",
        "--objective",
        "wait:1,peak:0",
        "--seed",
        1,
    ]
    code, _, error = run("train", tmp_path / "t.swf", "-o", tmp_path / "a", *small, *lever, "-q")
    assert code == 0, error
    code, out, error = run(
        "evaluate", tmp_path / "a", tmp_path / "t.swf", "--windows", 2, "--jobs", 40, "--policy", "fcfs", "--json"
    )
    assert code == 0, error
    found = json.loads(out)
    assert found["switches"]["switches"]["power_cap"] == 2.4
    assert all(parts["peak"] <= 2.4 + 1e-9 for parts in found["parts"].values())
    code, out, error = run("simulate", tmp_path / "t.swf", "--policy", f"fcfs,agent:{tmp_path / 'a'}", *lever, "--json")
    assert code == 0, error
    assert [row["energy"]["peak_kw"] <= 2.4 + 1e-9 for row in json.loads(out)["results"]] == [True, True]
    code, _, error = run("evaluate", tmp_path / "a", tmp_path / "t.swf", "--power-cap", "0.1", "--windows", 1)
    assert (code, len(error.strip().splitlines())) == (1, 1)
    assert "below the 1.6 kW that the idle machine draws" in error
