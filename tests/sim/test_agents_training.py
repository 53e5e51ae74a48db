"""Training from end to end, on tiny budgets: bytes, interruptions, edges."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

import tracekit
from tracekit.errors import FormatError, OutputError, TracekitError, UsageError
from tracekit.sim.agents import Agent, Config, Split, evaluate, train
from tracekit.sim.agents.agent import CHECKPOINT, FACTS, LOG, WEIGHTS
from tracekit.sim.agents.checkpoint import read_log
from tracekit.sim.agents.imitation import lessons
from tracekit.sim.agents.rollout import play
from tracekit.sim.agents.search import linear
from tracekit.sim.policies.formulas import CODES
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import TEACHERS, PickJob
from tracekit.sim.tasks.rewards import Baseline, rewards
from tracekit.trace import Machine, Trace

TINY = Config(
    steps=600, windows=6, jobs=40, epochs=2, minibatch=128, validation_windows=4, validate_every=2, teacher_windows=6
)


def busy(jobs: int = 400, procs: int = 16, seed: int = 1, **columns) -> Trace:
    """A trace in which jobs have to wait."""
    rng = np.random.default_rng(seed)
    run = np.ceil(np.exp(rng.normal(5, 1.5, jobs)))
    table = pd.DataFrame(
        {
            "job_id": np.arange(1, jobs + 1),
            "submit_time": np.cumsum(rng.exponential(60, jobs)),
            "run_time": run,
            "req_time": np.ceil(run * rng.uniform(1, 3, jobs)),
            "req_procs": 2.0 ** rng.integers(0, 5, jobs),
            "user": rng.choice(["ann", "bob", "cem"], jobs),
        }
    )
    return Trace(table.assign(**columns), Machine(procs=procs))


def bytes_of(folder) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in (WEIGHTS, FACTS, LOG, CHECKPOINT)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agents") / "one"
    return train(busy(), PickJob(), TINY, out=folder, seed=7, init="imitate:sjf")


def test_the_same_seed_gives_the_same_bytes_with_any_number_of_threads(trained, tmp_path) -> None:
    for threads in (1, 3):
        train(busy(), PickJob(), TINY.replace(threads=threads), out=tmp_path / f"{threads}", seed=7, init="imitate:sjf")
        assert bytes_of(tmp_path / f"{threads}") == bytes_of(trained.folder)
    train(busy(), PickJob(), TINY, out=tmp_path / "other", seed=8, init="imitate:sjf")
    assert bytes_of(tmp_path / "other")[WEIGHTS] != bytes_of(trained.folder)[WEIGHTS]


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_killed_training_resumes_to_the_same_bytes(trained, tmp_path, after) -> None:
    config = TINY.replace(kl_adaptive=True, average=0.5, schedule="cosine", critic_first=1)
    train(busy(), PickJob(), config, out=tmp_path / "whole", seed=7)

    def kill(status) -> None:
        if status.iteration == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(busy(), PickJob(), config, out=tmp_path / "part", seed=7, report=kill)
    with (tmp_path / "part" / LOG).open("a") as log:
        log.write('{"iteration": 99, "a line": "of an iteration that was not fini')
    with pytest.raises(FormatError, match="--resume"):
        Agent.load(tmp_path / "part")
    train(busy(), PickJob(), config, out=tmp_path / "part", seed=7, resume=True)
    assert bytes_of(tmp_path / "part") == bytes_of(tmp_path / "whole")


def test_resuming_something_else_is_refused(trained, tmp_path) -> None:
    before = bytes_of(trained.folder)
    trained.save(tmp_path / "finished")  # an agent without the checkpoint of its training
    with pytest.raises(OutputError, match="--force"):
        train(busy(), PickJob(), TINY, out=tmp_path / "finished", seed=7, resume=True)
    with pytest.raises(OutputError, match="--resume"):
        train(busy(), PickJob(), TINY, out=trained.folder, seed=7)
    with pytest.raises(UsageError, match="seed = 7"):
        train(busy(), PickJob(), TINY, out=trained.folder, seed=9, init="imitate:sjf", resume=True)
    with pytest.raises(UsageError, match="started with trace"):
        train(busy(seed=2), PickJob(), TINY, out=trained.folder, seed=7, init="imitate:sjf", resume=True)
    assert before
    assert bytes_of(trained.folder) == before


@pytest.mark.parametrize("rate", [50.0, 1e30])
def test_an_absurd_learning_rate_ends_in_a_clear_message(tmp_path, rate) -> None:
    config = TINY.replace(learning_rate=rate, steps=20_000)
    with pytest.raises(TracekitError, match=r"diverged in iteration \d+.*smaller learning rate"):
        train(busy(), PickJob(), config, out=tmp_path / "a", seed=1)
    assert (tmp_path / "a" / CHECKPOINT).is_file()
    assert not (tmp_path / "a" / FACTS).exists()


def test_learning_improves_on_the_start(tmp_path) -> None:
    """From scratch, on overloaded windows where the order matters much, a few thousand decisions must help."""
    trace = busy(1500, procs=8, seed=3)
    config = Config(
        steps=12_000, windows=16, jobs=64, minibatch=512, validate_every=2, validation_windows=16, threads=1
    )
    train(trace, PickJob(backfill="none"), config, out=tmp_path / "a", seed=1)
    scores = [line["validation_score"] for line in read_log(tmp_path / "a") if "validation_score" in line]
    assert min(scores) < 0.9 * scores[0]


@pytest.mark.parametrize("compat", [None, "rlscheduler"])
def test_teachers_play_as_the_engine_does(compat) -> None:
    task = PickJob(switches=Switches(compat=compat), slots=64)
    batch = Batch(busy(), task, lanes=4, threads=2)
    windows = [(0, 60), (50, 60), (100, 60), (200, 60), (300, 60)]
    for name in TEACHERS:
        played = lessons(batch, windows, name)
        np.testing.assert_allclose(played.score, batch.source.policy_costs(windows, [name])[:, 0])
    assert (np.diff(played.window) >= 0).all()
    assert played.last.sum() == len(np.unique(played.window))
    best = lessons(batch, windows, "best").score
    assert (best <= lessons(batch, windows, "sjf").score + 1e-9).all()


def test_rewards_sum_to_the_difference_from_the_base_policy() -> None:
    source = EpisodeSource(busy(), PickJob())
    batch, windows = Batch(source, lanes=3), [(0, 80), (100, 80), (250, 80)]
    played = play(batch, windows, None, teacher=np.full(3, CODES["saf"]))
    for dense in (True, False):
        reward, extra = rewards(played, windows, Baseline(source, "fcfs"), dense=dense)
        assert np.isfinite(extra).all()
        base = source.policy_costs(windows, ["fcfs"])[:, 0]
        for number in range(3):
            total = reward[played.window == number].sum()
            # dense rewards leave out what had accrued before the first choice, which is the same for both
            assert total == pytest.approx((base[number] - played.score[number]) / base[number], abs=1e-9)
    own = rewards(played, windows, Baseline(source, "saf"), dense=True)[0]
    np.testing.assert_allclose(own, 0, atol=1e-12)


@pytest.mark.parametrize(
    ("task", "network"),
    [
        (PickJob(skip=True), "kernel"),
        (PickJob(skip=True), "mlp"),
        (PickJob(objective="fair-max", observer="fair"), "attention"),
        (PickJob(objective="utilization"), "kernel"),
        (PickJob(objective="bsld:0.5,wait:0.001", warm=20), "attention"),
        (PickJob.rlscheduler(backfill="easy"), "mlp"),
    ],
)
def test_every_kind_of_task_and_network_trains(task, network, tmp_path) -> None:
    config = TINY.replace(network=network, steps=150, jobs=30)
    agent = train(busy(), task, config, out=tmp_path / "a", seed=2, init="imitate:best" if not task.skip else None)
    again = Agent.load(tmp_path / "a")
    np.testing.assert_array_equal(again.flat, agent.flat)
    assert again.network == network
    result = evaluate(again, busy(), [(300, 40), (340, 40)], sample=2)
    assert result.samples.shape == (2, 2)
    assert set(result.to_dict()["baselines"]) >= {"fcfs", "sjf", "f1", "random", "best per window"}


def test_simulate_gives_the_starts_of_the_environment(trained) -> None:
    trace = busy(seed=5)
    for backfill in ("easy", "none"):
        result = tracekit.simulate(trace, f"agent:{trained.folder}", backfill)
        task = PickJob.from_dict(trained.task | {"backfill": backfill})
        batch = Batch(trace, task, lanes=1)
        play(batch, [(0, len(trace))], trained.net(), keep=False)
        np.testing.assert_array_equal(result.start, batch.starts(0))
        assert result.policy == f"agent:{trained.folder}"


def test_an_agent_loads_and_decides_without_torch(trained) -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'gymnasium'): sys.modules[name] = None\n"
        "import tracekit\n"
        f"result = tracekit.simulate(tracekit.sample().head(300), 'agent:{trained.folder}')\n"
        "print(len(result))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "300", done.stderr


def test_damaged_agents_are_told(trained, tmp_path) -> None:
    for name, change, message in (
        (WEIGHTS, lambda data: data[:-10], "damaged"),
        (WEIGHTS, lambda data: b"", "damaged"),
        (FACTS, lambda data: data[:50], "JSON"),
        (FACTS, lambda data: data.replace(b'"kernel"', b'"colonel"'), "unknown network"),
        (FACTS, lambda data: data.replace(b'"version": 2', b'"version": 9'), "version"),
        (FACTS, lambda data: data.replace(b"32,", b"31,", 1), "shape"),
    ):
        folder = tmp_path / "agent"
        trained.save(folder)
        (folder / name).write_bytes(change((folder / name).read_bytes()))
        with pytest.raises(FormatError, match=message):
            Agent.load(folder)
    with pytest.raises(FormatError, match="no such agent"):
        Agent.load(tmp_path / "nobody")


def test_facts_tell_where_an_agent_comes_from(trained) -> None:
    facts = json.loads((trained.folder / FACTS).read_text())
    assert facts["trace"]["jobs"] == 400
    assert facts["seed"] == 7
    assert facts["task"]["observer"] == "default"
    assert facts["split"]["train"] == [[0, 280]]
    assert facts["split"]["test"] == [[340, 400]]
    assert set(facts["versions"]) >= {"torch", "numpy", "tracekit"}
    text = (trained.folder / FACTS).read_text()
    assert str(trained.folder) not in text


def test_windows_never_overlap_unless_asked(trained, tmp_path) -> None:
    with pytest.raises(UsageError, match="overlap"):
        Split(((0, 50),), ((40, 60),))
    said = []
    agent = train(busy(), PickJob(), TINY.replace(steps=100), out=tmp_path / "a", overlap=True, say=said.append)
    assert any("overlap in time" in text for text in said)
    assert "trained on" in evaluate(agent, busy(), [(0, 40)]).notes[0]
    assert "2 of 3 windows" in evaluate(trained, busy(), [(0, 40), (320, 30), (350, 40)]).notes[0]
    assert not evaluate(trained, busy(), [(350, 40)]).notes


# ---- edges -----------------------------------------------------------------------------------------------------------


def test_fifty_jobs_are_enough(tmp_path) -> None:
    said = []
    train(busy(50, procs=8), PickJob(), TINY, out=tmp_path / "a", seed=1, init="imitate:f1", say=said.append)
    assert any("short" in text for text in said)


def test_too_few_jobs_are_told(tmp_path) -> None:
    with pytest.raises(TracekitError, match="longer"):
        train(busy(4), PickJob(), TINY, out=tmp_path / "a")


def test_one_user_no_limits_and_jobs_larger_than_the_machine(tmp_path) -> None:
    sizes = np.where(np.arange(400) % 7 == 0, 64.0, 4.0)
    trace = busy(user="ann", req_time=np.nan, req_procs=sizes)
    agent = train(trace, PickJob(observer="fair"), TINY.replace(steps=150), out=tmp_path / "a")
    assert np.isfinite(evaluate(agent, trace, [(350, 50)]).mean)
    with pytest.raises(TracekitError, match="larger than the machine"):
        train(busy(req_procs=99.0), PickJob(), TINY, out=tmp_path / "b")


def test_a_trace_without_choices_is_told(tmp_path) -> None:
    trace = busy(submit_time=np.arange(400) * 1e6)
    with pytest.raises(TracekitError, match="nothing to learn"):
        train(trace, PickJob(), TINY, out=tmp_path / "a")


def test_starting_from_a_search(tmp_path) -> None:
    # long jobs first is the worst order here, and the search must find that out
    config = TINY.replace(steps=1, search_rounds=6, search_tries=8, search_windows=8, teacher_epochs=30)
    for threads in (1, 3):
        agent = train(busy(), PickJob(), config.replace(threads=threads), out=tmp_path / f"{threads}", init="search")
    assert bytes_of(tmp_path / "1") == bytes_of(tmp_path / "3")
    begun = read_log(tmp_path / "1")[0]
    assert {"search_gain", "imitation_agreement"} <= set(begun)
    result = evaluate(agent, busy(), [(280, 60), (340, 60)])
    assert result.mean < 1.2 * result.baselines["sjf"].mean() < result.baselines["ljf"].mean()
    with pytest.raises(UsageError, match="search_tries must be at least 2"):
        config.replace(search_tries=1)


def test_the_searched_weights_order_jobs_by_their_weighted_sum() -> None:
    batch = Batch(busy(), PickJob(), lanes=2)
    names = batch.task.feature_names
    shortest = -np.eye(len(names))[names.index("request")]
    windows = [(0, 60), (200, 60)]
    played = play(batch, windows, linear(shortest), keep=False)
    np.testing.assert_allclose(played.score, batch.source.policy_costs(windows, ["sjf"])[:, 0])


def test_starting_from_another_agent(trained, tmp_path) -> None:
    agent = train(busy(), PickJob(), TINY.replace(steps=1), out=tmp_path / "a", init=f"agent:{trained.folder}")
    assert agent.facts["metrics"]["iterations"] == 1
    for other in ({"hidden": (4,)}, {"network": "attention"}):  # of the latter the widths are the same
        with pytest.raises(UsageError, match="same --network"):
            train(
                busy(), PickJob(), TINY.replace(**other), out=tmp_path / "b", init=f"agent:{trained.folder}", force=True
            )
    for init, message in (
        ("imitate:sfj", "did you mean"),
        ("imitate:", "heuristic to imitate"),
        ("magic", "imitate:NAME"),
        ("search:f1", "search"),
    ):
        with pytest.raises(UsageError, match=message):
            train(busy(), PickJob(), TINY, out=tmp_path / "c", init=init)


def test_training_stops_when_validation_does(tmp_path) -> None:
    config = TINY.replace(steps=10**6, learning_rate=1e-12, validate_every=1, patience=2)
    agent = train(busy(), PickJob(), config, out=tmp_path / "a", seed=1)
    assert agent.facts["metrics"]["iterations"] <= 4
