"""Agents of task pick-host: the network for any number of hosts, training, evaluation, use as an allocator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracekit import simulate
from tracekit.errors import UsageError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_host.task import BASELINES, PickHost, players

from .test_pick_host import CLUSTER, mixed_trace, task_on

torch = pytest.importorskip("torch")

from tracekit.sim.agents import Agent, Config, evaluate, train  # noqa: E402
from tracekit.sim.agents.config import NETWORKS  # noqa: E402
from tracekit.sim.agents.inference import room, score  # noqa: E402
from tracekit.sim.agents.networks import Decisions  # noqa: E402
from tracekit.sim.agents.rollout import play  # noqa: E402

SETTINGS = Config(
    network="hosts", hidden=(8, 4), steps=800, windows=8, jobs=60, validation_windows=4, validate_every=1, threads=1
)


def test_the_compiled_network_equals_torch_for_any_number_of_hosts() -> None:
    torch.manual_seed(3)
    network: Any = NETWORKS.get("hosts")(7, 31, (16, 8))
    flat = torch.cat([part.detach().reshape(-1) for _, part in network.parts()]).numpy().astype(np.float32)
    net = network.net(flat)
    for count in (1, 2, 10, 33, 1000):
        rows = np.random.default_rng(count).random((count, 7), dtype=np.float32)
        one = torch.zeros(count, dtype=torch.long)
        packed = Decisions(torch.from_numpy(rows), one, torch.arange(count), torch.tensor([count]), torch.zeros(1, 0))
        with torch.no_grad():
            wanted = network(packed).numpy()
        scratch = room(net, count)
        score(net, rows, count, False, scratch)
        assert scratch.score[:count] == pytest.approx(wanted, abs=2e-5)


def test_imitation_records_the_allocators_choices() -> None:
    source = EpisodeSource(mixed_trace(), task_on())
    batch = source.task.batch(source, lanes=2, threads=1)
    windows = [(0, 150), (60, 150)]
    played = play(batch, windows, None, teacher=source.task.teacher(batch, windows, "worst-fit"))
    assert len(played) > 50
    assert played.score == pytest.approx(source.policy_costs(windows, ["worst-fit"])[:, 0])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    out = tmp_path_factory.mktemp("agents") / "agent"
    return train(mixed_trace(400), task_on(), SETTINGS, out=out, seed=1, init="imitate:best-fit", overlap=True)


def test_training_and_evaluation(trained: Agent) -> None:
    assert trained.task["name"] == "pick-host"
    assert trained.network == "hosts"
    assert Config.load(Path(str(trained.folder)) / "config.toml") == SETTINGS
    source = EpisodeSource(mixed_trace(400, seed=9), task_on())
    found = evaluate(trained, source, [(0, 100), (200, 100)]).to_dict()
    assert set(BASELINES) <= set(found["baselines"])
    ours = found["measures"][trained.name]
    assert {"completion_rate", "defer_rate", "imbalance", "core_utilization"} <= set(ours)
    assert ours["mean_wait_s"] == pytest.approx(found["mean"])
    assert found["measures"]["best-fit"]["mean_wait_s"] == pytest.approx(found["baselines"]["best-fit"]["mean"])


def test_an_agent_runs_on_other_clusters(trained: Agent) -> None:
    for count in (2, 300):
        cluster = Machine(groups=(HostGroup(count, cores=16, memory=6000.0, name="h"),))
        task = PickHost.from_dict(trained.task | {"cluster": None})
        other = EpisodeSource(mixed_trace(400), task_on(cluster, constants=dict(task.constants)))
        assert evaluate(trained, other, [(0, 100)]).mean >= 0


def test_an_agent_as_an_allocator_makes_the_environments_schedule(trained: Agent) -> None:
    trace = mixed_trace(400, seed=4)
    source = EpisodeSource(trace, task_on(backfill="none", order="sjf", constants=dict(trained.task["constants"])))
    batch = source.task.batch(source, lanes=1)
    play(batch, [(0, 400)], trained.actor(), keep=False)
    found = simulate(trace, "sjf", "none", cluster=CLUSTER, allocate=f"agent:{trained.folder}")
    assert found.start.tolist() == batch.starts(0).tolist()
    assert found.hosts is not None
    assert [text.partition(":")[0] for text in found.hosts] == [batch.model.names[h] for h in batch.hosts_of_jobs(0)]
    backfilled = simulate(trace, "fcfs", "easy", cluster=CLUSTER, allocate=f"agent:{trained.folder}")
    assert np.isfinite(backfilled.start).all()


def test_an_agent_for_another_task_is_refused(trained: Agent, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pick-job"):
        simulate(mixed_trace(50), "fcfs", "none", cluster=CLUSTER, allocate="agent:default")
    with pytest.raises(UsageError, match="--allocate"):
        simulate(mixed_trace(50), f"agent:{trained.folder}", "none", cluster=CLUSTER)


def test_resuming_gives_the_same_bytes(tmp_path: Path) -> None:
    settings = SETTINGS.replace(steps=900, checkpoint_every=2, schedule="cosine", warmup=0.2, exploration=0.3)
    whole = train(mixed_trace(400), task_on(), settings, out=tmp_path / "whole", seed=2, overlap=True)
    lines: list[Any] = []

    class Stop(Exception):
        pass

    def report(status: Any) -> None:
        lines.append(status)
        if len(lines) == 3:
            raise Stop

    given: dict[str, Any] = {"out": tmp_path / "parts", "seed": 2, "overlap": True}
    with pytest.raises(Stop):
        train(mixed_trace(400), task_on(), settings, report=report, **given)
    again = train(mixed_trace(400), task_on(), settings, resume=True, **given)
    assert again.flat.tobytes() == whole.flat.tobytes()
    assert (tmp_path / "parts" / "log.jsonl").read_text() == (tmp_path / "whole" / "log.jsonl").read_text()


def test_priorities_can_be_trained(tmp_path: Path) -> None:
    settings = SETTINGS.replace(steps=60, windows=2, jobs=30, exploration=0.5, final_exploration=0.01)
    agent = train(mixed_trace(200), task_on(actions="priorities"), settings, out=tmp_path / "a", seed=1, overlap=True)
    source = EpisodeSource(mixed_trace(200), task_on(actions="priorities"))
    assert evaluate(agent, source, [(0, 50)]).mean >= 0
    assert players(source)().play((0, 50), "random").metrics["completion_rate"] == 1.0


def test_named_rewards_are_learnt_from(tmp_path: Path) -> None:
    task = task_on(reward="utilization:1,step:0.01", cycle=30.0)
    agent = train(mixed_trace(200), task, SETTINGS.replace(steps=200), out=tmp_path / "a", seed=1, overlap=True)
    assert agent.task["reward"] == "utilization:1,step:0.01"
