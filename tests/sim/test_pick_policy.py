"""Task pick-policy: one answer always is that policy, what is shown, agents with and without the graph."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tracekit
from tracekit.errors import UsageError
from tracekit.sim.tasks.base import find_task, task_from_dict
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.jobgraph import LINKS
from tracekit.sim.tasks.pick_policy.task import POLICIES, PickPolicy

WINDOWS = [(2080, 80), (6560, 60)]


def always(batch, row):
    """Play the windows with one answer; return the starts, and how many questions each had."""
    batch.reset(range(len(WINDOWS)), WINDOWS)
    asked = np.zeros(len(WINDOWS), int)
    while not batch.done.all():
        asked += ~batch.done
        assert np.isfinite(batch.features).all()
        assert batch.features.min() >= 0
        assert batch.features.max() <= 4
        batch.step(np.full(len(WINDOWS), row))
    return [batch.starts(lane) for lane in range(len(WINDOWS))], asked


@pytest.mark.parametrize("backfill", ["easy", "none", "conservative"])
def test_one_answer_always_is_that_policy(backfill):
    task = PickPolicy(policies=(*POLICIES, "multifactor", "f3"), backfill=backfill, edges="all", jobs=20)
    source = EpisodeSource(tracekit.sample(), task)
    batch = task.batch(source, lanes=len(WINDOWS))
    for row, policy in enumerate(task.policies):
        starts, asked = always(batch, row)
        assert asked.min() > 0
        for window, start in zip(WINDOWS, starts, strict=True):
            np.testing.assert_array_equal(start, source.schedule(window, policy))


def test_a_warm_start_and_a_cycle():
    task = PickPolicy(policies=("sjf", "wfp3"), warm=50, cycle=3600.0)
    source = EpisodeSource(tracekit.sample(), task)
    starts, asked = always(task.batch(source, lanes=2), 0)
    np.testing.assert_array_equal(starts[1], source.schedule(WINDOWS[1], "sjf"))
    every = PickPolicy(policies=("sjf", "wfp3"), warm=50)
    more = always(every.batch(EpisodeSource(tracekit.sample(), every), lanes=2), 0)[1]
    seldom = PickPolicy(policies=("sjf", "wfp3"), warm=50, passes=5)
    fewer = always(seldom.batch(EpisodeSource(tracekit.sample(), seldom), lanes=2), 0)[1]
    assert asked.sum() < more.sum()
    assert fewer.sum() < more.sum() / 3


def test_what_is_shown_is_named_and_the_jobs_come_behind_the_policies():
    task = PickPolicy(edges="user,free", jobs=10)
    assert len(set(task.feature_names) - {"link-none"}) == len([n for n in task.feature_names if n != "link-none"])
    assert task.feature_names[-1] == "link-context"
    assert (task.slots, task.actions) == (len(POLICIES) + 10, len(POLICIES))
    batch = task.batch(EpisodeSource(tracekit.sample(), task), lanes=2)
    batch.reset(range(2), WINDOWS)
    rows, count = batch.features[0], int(batch.count[0])
    assert batch.mask.shape == (2, len(POLICIES))
    assert np.array_equal(rows[: len(POLICIES), : len(POLICIES)], np.eye(len(POLICIES)))
    assert (rows[len(POLICIES) : count, -1] > 0).all()
    assert not rows[: len(POLICIES), -len(LINKS) :].any()
    with pytest.raises(UsageError, match="action"):
        batch.step([len(POLICIES), 0])


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"policies": ("fcfs",)}, "two or more"),
        ({"policies": ("fcfs", "replay")}, "replay"),
        ({"policies": ("fcfs", "sfj")}, "sjf"),
        ({"edges": "frei"}, "free"),
        ({"cycle": -1.0}, "cycle"),
        ({"jobs": 0}, "jobs"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, name):
    with pytest.raises((UsageError, tracekit.errors.UnknownName), match=name):
        PickPolicy(**settings)


def test_plain_values_carry_the_task():
    task = PickPolicy(policies="fcfs, sjf", edges="time")
    assert task.policies == ("fcfs", "sjf")
    assert task_from_dict(json.loads(json.dumps(task.to_dict()))) == task
    assert find_task("pick-policy") is PickPolicy


# ---- agents ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("algorithm", "edges"), [("ppo", "all"), ("a2c", "none")])
def test_an_agent_with_a_graph_trains_evaluates_and_schedules(tmp_path, algorithm, edges):
    pytest.importorskip("torch")
    from tracekit.sim.agents import Agent, Config, evaluate, train

    config = Config(
        steps=300, windows=8, jobs=120, validation_windows=2, validate_every=1, epochs=2, minibatch=64, hidden=(16,),
        network="gat", algorithm=algorithm, teacher_windows=4, teacher_epochs=30,
    )  # fmt: skip
    task = PickPolicy(policies=("fcfs", "sjf", "saf"), edges=edges, jobs=12)
    trace = tracekit.sample()
    agent = train(trace, task, config, out=tmp_path / "agent", seed=1, init="imitate:saf")
    again = train(trace, task, config, out=tmp_path / "again", seed=1, init="imitate:saf")
    assert np.array_equal(agent.flat, again.flat)
    loaded = Agent.load(tmp_path / "agent")
    assert loaded.facts["config"]["algorithm"] == algorithm
    found = evaluate(loaded, trace, WINDOWS, policies=["fcfs", "saf"])
    assert np.isfinite(found.score).all()
    whole = tracekit.simulate(trace, policy=f"agent:{tmp_path / 'agent'}")
    assert np.isfinite(whole.start).all()
    first = json.loads((tmp_path / "agent" / "log.jsonl").read_text().splitlines()[0])
    assert first["imitation_agreement"] == 1.0


def test_a_network_without_the_graph_is_refused_where_there_is_one(tmp_path):
    pytest.importorskip("torch")
    from tracekit.sim.agents import Config, train

    with pytest.raises(UsageError, match="--network gat"):
        train(tracekit.sample(), PickPolicy(edges="all"), Config(steps=10), out=tmp_path / "a")
    with pytest.raises(UsageError, match="--observer graph"):
        train(tracekit.sample(), PickPolicy(), Config(steps=10, network="gat"), out=tmp_path / "b")


def test_the_environment_for_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    import tracekit.sim.env  # noqa: F401

    env = gymnasium.make("tracekit/PickPolicy-v0", windows=[WINDOWS[0]], edges="all", shown=8, objective="wait")
    observation, info = env.reset(seed=3)
    assert env.observation_space.contains(observation)
    assert info["action_mask"].all()
    over, total = False, 0.0
    while not over:
        observation, reward, over, _, info = env.step(1)
        total += reward
    source = env.unwrapped._episodes.source
    assert -total == info["score"] == info["parts"]["wait"] == source.policy_cost(WINDOWS[0], "sjf")


def test_the_command_line_trains_both_tasks_with_the_graph(tmp_path, capsys):
    pytest.importorskip("torch")
    from tracekit.cli import main

    tracekit.write(tracekit.sample().head(2500), tmp_path / "jobs.swf")
    few = ["--steps", "60", "--jobs", "120", "--config", str(tmp_path / "few.toml")]
    (tmp_path / "few.toml").write_text("windows = 4\nvalidation_windows = 2\nhidden = [16]\nminibatch = 64\n")
    place = str(tmp_path / "jobs.swf")
    out = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(["-q", "train", place, "-o", out[0], *few, "--network", "gat", "--edges", "user,free"]) == 0
    flags = ["--task", "pick-policy", "--network", "gat", "--edges", "none", "--policies", "fcfs,sjf"]
    flags += ["--algorithm", "a2c", "--objective", "bsld:0.5,wait:0.01"]
    assert main(["-q", "train", place, "-o", out[1], *few, *flags]) == 0
    facts = [json.loads((tmp_path / name / "agent.json").read_text()) for name in ("a", "b")]
    assert facts[0]["task"]["observer"] == "graph:user,free"
    assert (facts[1]["task"]["name"], facts[1]["task"]["edges"]) == ("pick-policy", "none")
    assert facts[1]["metrics"]["weights"] == {"bsld": 0.5, "wait": 0.01}
    assert set(facts[1]["metrics"]["validation_parts"]) == {"bsld", "wait"}
    capsys.readouterr()
    assert main(["-q", "evaluate", out[1], place, "--window", "2080:80", "--policy", "fcfs,sjf", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    parts = told["parts"]["sjf"]
    assert told["baselines"]["sjf"]["mean"] == pytest.approx(0.5 * parts["bsld"] + 0.01 * parts["wait"])
    assert told["best_on_training"] == facts[1]["metrics"]["base_policy"]
    assert main(["-q", "train", place, "-o", str(tmp_path / "c"), "--edges", "user"]) == 2
    assert "--network gat" in capsys.readouterr().err
