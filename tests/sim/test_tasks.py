"""A second task, written against the protocol alone: trained, saved, loaded, evaluated, simulated and served."""

import dataclasses
import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import tracekit
from tracekit.cli import main
from tracekit.errors import TracekitError, UnknownName, UsageError
from tracekit.service.decide import load_decider
from tracekit.service.protocol import Refused, parse
from tracekit.sim.engine.session import Session
from tracekit.sim.tasks.base import TASKS, Question, find_task, register_task, task_from_dict
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.stepwise import StepwiseTask

from .test_env_engine import crowd

torch = pytest.importorskip("torch")
from tracekit.sim.agents import Agent, Config, evaluate, train  # noqa: E402
from tracekit.sim.agents.config import NETWORKS  # noqa: E402
from tracekit.sim.agents.networks import Network, layers  # noqa: E402
from tracekit.sim.agents.rollout import play  # noqa: E402

SMALL = Config(
    steps=600, windows=6, jobs=40, validation_windows=4, validate_every=1, epochs=2, minibatch=64, hidden=(8,)
)


@register_task
@dataclass(frozen=True)
class PickPolicy(StepwiseTask):
    """At every scheduling pass: which policy orders the queue?"""

    name: ClassVar[str] = "pick-policy-toy"
    policies: tuple[str, ...] = ("fcfs", "sjf")

    @property
    def slots(self) -> int:
        return len(self.policies)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return ("first", "second", "queue")

    def _rows(self, waiting: int) -> np.ndarray:
        return np.array([[i == 0, i == 1, waiting / 50] for i in range(self.slots)], np.float32)

    def episode(self, setup, columns):
        session = Session(setup)
        for waiting, now in session.passes():
            choice = yield Question(self._rows(len(waiting)), now=now)
            session.evaluate(self.policies[choice])
        return session.jobs.start

    def teacher(self, batch, windows, name):
        if name not in self.policies:
            raise UnknownName("policy to imitate", name, self.policies)
        return [lambda batch, lane: self.policies.index(name)] * len(windows)

    def question(self, request):
        return Question(self._rows(len(request.jobs)), self.policies, now=request.now)


@register_task
@dataclass(frozen=True)
class OrderQueue(StepwiseTask):
    """At every scheduling pass: a priority for each of the first waiting jobs, largest first."""

    name: ClassVar[str] = "order-queue-toy"
    actions_are: ClassVar[str] = "priorities"

    @property
    def slots(self) -> int:
        return 8

    @property
    def feature_names(self) -> tuple[str, ...]:
        return ("estimate", "size")

    def episode(self, setup, columns):
        session = Session(setup)
        jobs = session.jobs
        for waiting, now in session.passes():
            first = waiting[: self.slots]
            rows = np.stack([np.log1p(jobs.asked[first]) / 12, jobs.size[first] / setup.ready.total], 1)
            priority = yield Question(rows.astype(np.float32), now=now)
            session.sim.queue.value[: len(waiting)] = np.inf
            session.sim.queue.value[: len(first)] = -priority
        return session.jobs.start


class Constant(Network):
    """A network without a compiled forward pass."""

    def __init__(self, features, slots, hidden):
        super().__init__(features, slots, hidden)
        self.body = layers(features, *hidden, 1)

    def forward(self, decisions):
        return self.body(decisions.rows).squeeze(1)


NETWORKS.add("toy", f"{__name__}:Constant")


def made(task, tmp_path, **changes):
    return train(crowd(400, seed=2), task, SMALL.replace(**changes), out=tmp_path / "agent", seed=1)


@pytest.mark.parametrize("network", ["kernel", "attention", "toy"])
def test_a_second_task_from_training_to_simulation(tmp_path, network):
    trace = crowd(400, seed=2)
    made(PickPolicy(objective="wait"), tmp_path, network=network)
    agent = Agent.load(tmp_path / "agent")
    assert agent.task["name"] == "pick-policy-toy"
    assert json.loads((tmp_path / "agent" / "agent.json").read_text())["task"]["name"] == "pick-policy-toy"
    assert task_from_dict(agent.task) == PickPolicy(objective="wait")
    windows = [(0, 50), (120, 50)]
    result = evaluate(agent, trace, windows)
    assert np.isfinite(result.score).all()
    assert set(result.baselines) >= {"fcfs", "sjf"}
    sampled = evaluate(agent, trace, windows, sample=2, seed=1)
    assert sampled.samples.shape == (2, 2)
    simulated = tracekit.simulate(trace.head(60), f"agent:{tmp_path / 'agent'}")
    assert not tracekit.sim.analysis.check.check_result(simulated)


def test_training_is_the_same_twice_and_resumes(tmp_path):
    first = made(PickPolicy(), tmp_path / "a")
    second = made(PickPolicy(), tmp_path / "b")
    np.testing.assert_array_equal(first.flat, second.flat)
    with pytest.raises(TracekitError, match="--force"):
        made(PickPolicy(), tmp_path / "a")
    began = train(
        crowd(400, seed=2), PickPolicy(), SMALL, out=tmp_path / "c", seed=1, init=f"agent:{tmp_path / 'a' / 'agent'}"
    )
    assert began.layout == first.layout


def test_one_answer_always_is_that_policy(tmp_path):
    """An episode that always answers sjf is sjf's own schedule; imitating it finds that out."""
    source = EpisodeSource(crowd(200, seed=3), PickPolicy())
    batch = source.task.batch(source, lanes=2)
    windows = [(0, 60), (50, 60), (100, 60)]
    played = play(batch, windows, None, teacher=batch.task.teacher(batch, windows, "sjf"))
    np.testing.assert_allclose(played.score, source.policy_costs(windows, ["sjf"])[:, 0])
    agent = train(crowd(400, seed=2), PickPolicy(), SMALL, out=tmp_path / "agent", seed=1, init="imitate:sjf")
    np.testing.assert_allclose(evaluate(agent, source, windows).score, played.score)
    with pytest.raises(UnknownName):
        train(crowd(400, seed=2), PickPolicy(), SMALL, out=tmp_path / "other", init="imitate:saf")


def test_a_window_does_not_depend_on_its_company():
    source = EpisodeSource(crowd(200, seed=3), PickPolicy())
    windows = [(0, 60), (50, 60), (100, 60)]
    keys = np.arange(3, dtype=np.uint64)
    net = Agent("kernel", (3, 2, 1), np.linspace(-1, 1, 11, dtype=np.float32), PickPolicy().feature_names, {}).net()
    alone = play(source.task.batch(source, lanes=1), windows, net, keys=keys)
    together = play(source.task.batch(source, lanes=3), windows, net, keys=keys)
    np.testing.assert_array_equal(alone.score, together.score)
    np.testing.assert_array_equal(alone.chosen, together.chosen)


@pytest.mark.parametrize("network", ["kernel", "toy"])
def test_actions_may_be_priorities(tmp_path, network):
    trace = crowd(400, seed=2)
    agent = made(OrderQueue(), tmp_path, network=network)
    loaded = Agent.load(tmp_path / "agent")
    np.testing.assert_array_equal(loaded.flat, agent.flat)
    windows = [(0, 50), (120, 50)]
    greedy, drawn = evaluate(loaded, trace, windows), evaluate(loaded, trace, windows, sample=1, seed=4)
    assert np.isfinite(greedy.score).all()
    assert np.isfinite(drawn.score).all()
    np.testing.assert_array_equal(evaluate(loaded, trace, windows).score, greedy.score)
    with pytest.raises(UsageError, match="imitate"):
        train(trace, OrderQueue(), SMALL, out=tmp_path / "x", init="imitate:sjf")


REQUEST = {
    "version": 1,
    "kind": "pick-policy-toy",
    "now": 100,
    "cluster": {"procs": 8, "running": [{"procs": 4, "ends": 200}]},
    "jobs": [{"id": "a", "submit_time": 50, "procs": 2, "req_time": 60}, {"id": "b", "submit_time": 60, "procs": 4}],
}


def test_a_second_task_is_served(tmp_path):
    made(PickPolicy(), tmp_path)
    decider = load_decider(str(tmp_path / "agent"))
    assert decider.about()["kind"] == "pick-policy-toy"
    answer = decider.answer(parse(json.dumps(REQUEST).encode()))
    assert sorted(row["id"] for row in answer["order"]) == ["fcfs", "sjf"]
    assert answer["order"][0]["score"] >= answer["order"][1]["score"]
    with pytest.raises(Refused, match="pick-policy-toy"):
        decider.answer(parse(json.dumps(REQUEST | {"kind": "pick-job"}).encode()))
    with pytest.raises(Refused, match="kind"):
        parse(json.dumps(REQUEST | {"kind": "pick-nothing"}).encode())


def test_a_task_that_has_no_question_is_refused_before_anybody_asks(tmp_path):
    made(OrderQueue(), tmp_path)
    with pytest.raises(UsageError, match="order-queue-toy cannot be served"):
        load_decider(str(tmp_path / "agent"))
    assert main(["serve", str(tmp_path / "agent"), "--stdio"]) == 2


def test_the_command_line_trains_and_evaluates_it(tmp_path, monkeypatch, capsys):
    trace = tmp_path / "jobs.swf"
    tracekit.write(crowd(400, seed=2), trace)
    (tmp_path / "train.toml").write_text(
        "windows = 4\njobs = 40\nvalidation_windows = 2\nminibatch = 64\nhidden = [8]\n"
    )
    monkeypatch.chdir(tmp_path)
    where = f"{__name__}:PickPolicy"
    common = [str(trace), "--task", where, "--config", "train.toml", "--steps", "200"]
    assert main(["train", *common, "-o", "agent", "--objective", "wait", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["objective"] == "wait"
    assert main(["evaluate", "agent", str(trace), "--windows", "2", "--jobs", "40", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["windows"]
    assert main(["train", *common, "-o", "other", "--skip"]) == 2
    assert "--skip" in capsys.readouterr().err
    assert main(["train", str(trace), "-o", "other", "--task", "pick-jobs"]) == 2
    assert "pick-job" in capsys.readouterr().err
    assert main(["train", str(trace), "-o", "other", "--task", "no_such_module:Task"]) == 2


def test_agents_of_version_one_load(tmp_path):
    """tracekit 0.1.0 wrote neither the task's name nor version 2."""
    old = Agent.load("default").save(tmp_path / "agent")
    facts = json.loads((tmp_path / "agent" / "agent.json").read_text())
    facts["version"] = 1
    del facts["task"]["name"]
    (tmp_path / "agent" / "agent.json").write_text(json.dumps(facts))
    loaded = Agent.load(tmp_path / "agent")
    assert loaded.task == old.task
    trace = crowd(120, seed=1)
    new, before = (tracekit.simulate(trace, f"agent:{place}").start for place in ("default", tmp_path / "agent"))
    np.testing.assert_array_equal(new, before)


def test_registered_names_cannot_be_taken_twice():
    assert "pick-job" in TASKS
    assert find_task("pick-policy-toy") is PickPolicy

    @dataclass(frozen=True)
    class Thief(StepwiseTask):
        name: ClassVar[str] = "pick-job"

    with pytest.raises(UsageError, match="pick-job"):
        register_task(Thief)
    with pytest.raises(UsageError, match="TRACEKIT_TASKS"):
        task_from_dict({"name": "pick-polcy-toy"})
    with pytest.raises(UnknownName, match="objectve"):
        PickPolicy.from_dict(dataclasses.asdict(PickPolicy()) | {"objectve": "wait"})


def test_tasks_can_be_named_in_the_environment(tmp_path, monkeypatch):
    """Loading an agent of a task that is not installed imports only what the user has named."""
    (tmp_path / "far_away.py").write_text(
        "from dataclasses import dataclass\nfrom typing import ClassVar\n"
        "from tracekit.sim.tasks.stepwise import StepwiseTask\n\n"
        '@dataclass(frozen=True)\nclass Far(StepwiseTask):\n    name: ClassVar[str] = "far"\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="TRACEKIT_TASKS"):
        task_from_dict({"name": "far"})
    monkeypatch.setenv("TRACEKIT_TASKS", "far_away:Far")
    assert task_from_dict({"name": "far"}).name == "far"
