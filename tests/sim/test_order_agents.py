"""Networks that order a queue: labels, features, network, training, and what the commands do with them."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order_toys import random_queue, slow_starts

import tracekit
from tracekit.errors import TracekitError, UsageError
from tracekit.sim.orders import labels as label_sets
from tracekit.sim.orders.features import MOVING, STATIC, kept, lanes_of, moving, place, static
from tracekit.sim.orders.labels import Labelling, best_order, canonical, parts_of, read_labels, write_labels
from tracekit.sim.orders.problem import QueueProblem, order_cost
from tracekit.sim.orders.solve import parse_decoding, solve
from tracekit.sim.orders.task import Order, Queues
from tracekit.transform.scaling import scale_load

torch = pytest.importorskip("torch")

from tracekit.sim.agents.agent import Agent  # noqa: E402
from tracekit.sim.agents.config import Config  # noqa: E402
from tracekit.sim.agents.order.config import OrderConfig  # noqa: E402
from tracekit.sim.agents.order.decode import decode  # noqa: E402
from tracekit.sim.agents.order.lessons import lesson_of, loss_of  # noqa: E402
from tracekit.sim.agents.order.network import Pointer  # noqa: E402
from tracekit.sim.agents.order.teach import Course, train_order  # noqa: E402

TINY = OrderConfig(
    width=16,
    rounds=2,
    heads=2,
    steps=2500,
    batch=4,
    validate_every=10,
    windows=24,
    validation_windows=4,
    jobs=12,
    evaluations=200,
)


@cache
def crowded() -> tracekit.Trace:
    """Jobs that have to wait for each other."""
    return scale_load(tracekit.sample().head(900), 4.0)


@cache
def network() -> Pointer:
    torch.manual_seed(3)
    return Pointer(len(STATIC), len(MOVING), (16, 2, 2)).eval()


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("orders") / "agent"
    train_order(crowded(), Order(), TINY, Course(folder, seed=1))
    return folder


def continuous(rng: np.random.Generator, jobs: int, **changes: Any) -> QueueProblem:
    """A queue without two jobs alike."""
    run = rng.uniform(1, 100, jobs)
    return random_queue(rng, jobs, run=run, estimate=run * rng.uniform(1, 3, jobs), **changes)


# ---- labels ----------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), jobs=st.integers(2, 20), goal=st.sampled_from(["wait", "bsld"]))
@settings(max_examples=40, deadline=None)
def test_shuffling_the_jobs_permutes_the_label(seed: int, jobs: int, goal: str) -> None:
    rng = np.random.default_rng(seed)
    queue = continuous(rng, jobs, age=rng.uniform(0, 50, jobs), objective=goal)
    made = Labelling(Order(objective=goal), evaluations=200)
    shuffle = rng.permutation(jobs)
    order, cost, first, first_cost = best_order(queue, made, 5)
    other, other_cost, other_first, _ = best_order(queue.take(shuffle), made, 5)
    assert shuffle[other].tolist() == order.tolist()
    assert other_cost == pytest.approx(cost, rel=1e-12)
    assert first == other_first
    assert cost <= first_cost * (1 + 1e-9)


@given(seed=st.integers(0, 10**6), jobs=st.integers(1, 25))
@settings(max_examples=60, deadline=None)
def test_one_order_stands_for_all_with_the_same_schedule_and_costs_no_more(seed: int, jobs: int) -> None:
    rng = np.random.default_rng(seed)
    queue = random_queue(rng, jobs)
    case, order = queue.case("actual"), rng.permutation(jobs)
    found, cost = canonical(case, order)
    assert sorted(found.tolist()) == list(range(jobs))
    assert cost <= order_cost(case, order) * (1 + 1e-9) + 1e-9
    assert cost == pytest.approx(order_cost(case, found))
    start = queue.starts(found)
    assert (np.diff(start[found]) >= 0).all()
    # jobs that start together, and take some time, can change places: none starts later
    runs = queue.run[found] > 0
    together = [k for k in range(jobs - 1) if start[found[k]] == start[found[k + 1]] and runs[k] and runs[k + 1]]
    if together:
        k = together[0]
        swapped = found.copy()
        swapped[k], swapped[k + 1] = found[k + 1], found[k]
        assert (queue.starts(swapped) <= start).all()


def test_label_sets_are_apart_in_time_and_resume_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_sets, "CHUNK", 3)
    queues = Queues.of(crowded(), Order())
    made = Labelling(Order(), 8, 3, 3, jobs=10, evaluations=50, seed=4)
    whole = write_labels(queues, made, tmp_path / "whole.parquet", fingerprint="f")

    def stop(done: int, total: int) -> None:
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_labels(queues, made, tmp_path / "cut.parquet", fingerprint="f", report=stop)
    assert not (tmp_path / "cut.parquet").exists()
    with pytest.raises(TracekitError, match="other settings"):
        write_labels(queues, dataclasses.replace(made, seed=5), tmp_path / "cut.parquet", fingerprint="f")
    seen: list[int] = []
    write_labels(queues, made, tmp_path / "cut.parquet", fingerprint="f", report=lambda done, _: seen.append(done))
    assert seen[-1] == len(made) == 14
    assert (tmp_path / "cut.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert not list(tmp_path.glob("*.parts"))

    again = read_labels(tmp_path / "cut.parquet")
    assert again.made == made
    assert [label.order.tolist() for label in again.labels] == [label.order.tolist() for label in whole.labels]
    parts = parts_of(queues, made)
    for part, (first, last) in parts.items():
        for label in again.of(part):
            assert first <= label.start
            assert label.start + label.count <= last
            queue = label.queue(queues)
            assert sorted(label.order.tolist()) == list(range(len(queue)))
            assert order_cost(queue.case("requested"), label.order) == pytest.approx(label.cost)
    assert parts["train"][1] <= parts["validation"][0] < parts["validation"][1] <= parts["test"][0]
    assert {len(label.order) for label in again.of("validation")} == {10}
    with pytest.raises(TracekitError, match="exists"):
        write_labels(queues, made, tmp_path / "cut.parquet", fingerprint="f")


def test_wrong_label_sets_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    with pytest.raises(TracekitError, match="order-labels"):
        read_labels(path)
    path.write_bytes(b"PAR1 nothing")
    with pytest.raises(TracekitError, match=r"x\.parquet"):
        read_labels(path)
    crowded().jobs.to_parquet(path)
    with pytest.raises(TracekitError, match="not a label set"):
        read_labels(path)
    for wrong in ({"windows": 0}, {"jobs": 1}, {"share": 1.5}, {"solver": "anneel"}):
        with pytest.raises(TracekitError):
            Labelling(Order(), **wrong)
    with pytest.raises(TracekitError, match="fewer"):
        parts_of(Queues.of(crowded(), Order()), Labelling(Order(), jobs=200))


# ---- what the network sees -------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), jobs=st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_moving_features_are_those_of_the_schedule(seed: int, jobs: int) -> None:
    rng = np.random.default_rng(seed)
    queue = continuous(rng, jobs)
    case, order = queue.case("actual"), rng.permutation(jobs)
    start, lanes = slow_starts(queue, order), lanes_of([case])
    typical, clock = np.exp(np.log(queue.run).mean()), 0.0
    for job in order:
        seen = moving(lanes)[0, job]
        delay = start[job] - clock
        assert seen[0] == float(delay == 0)
        assert seen[1] == pytest.approx(np.log1p(delay / typical), rel=1e-5, abs=1e-6)
        place(lanes, np.array([job]))
        clock = start[job]
        assert lanes.clock[0] == pytest.approx(clock)
    assert np.isfinite(moving(kept(lanes, np.array([0])))).all()


def test_features_have_no_units_and_know_only_what_a_search_sees() -> None:
    queue = continuous(np.random.default_rng(2), 15)
    longer = dataclasses.replace(
        queue, run=60 * queue.run, estimate=60 * queue.estimate, age=60 * queue.age, ends=60 * queue.ends
    )
    plain = [k for k, name in enumerate(STATIC) if name != "rank_f1"]  # F1 is a formula of seconds
    seen = static(queue.case("actual"))[:, plain]
    assert seen == pytest.approx(static(longer.case("actual"))[:, plain], abs=1e-5)
    blind = dataclasses.replace(queue, run=queue.run[::-1].copy(), ends=queue.ends / 2)
    assert static(queue.case("requested")).tolist() == static(blind.case("requested")).tolist()
    for goal in ("utilization", "fair-max", "bsld"):
        assert np.isfinite(static(dataclasses.replace(queue, objective=goal).case("actual"))).all()
    one = random_queue(np.random.default_rng(1), 1, run=np.zeros(1))
    assert np.isfinite(static(one.case("actual"))).all()


# ---- the network -----------------------------------------------------------------------------------------------------


def test_the_network_is_equivariant() -> None:
    rng = np.random.default_rng(0)
    cases = [continuous(rng, 11).case("actual") for _ in range(3)]
    features = torch.from_numpy(np.stack([static(case) for case in cases]))
    seen = torch.from_numpy(np.stack([moving(lanes_of([case])) for case in cases]))
    shuffle = torch.from_numpy(rng.permutation(11))
    placed = torch.zeros(3, 1, 11, dtype=torch.bool)
    placed[:, 0, 4] = True

    def logs(features: Any, seen: Any, placed: Any, last: int) -> Any:
        encoded = network().encode(features)
        context = network().context(encoded, torch.full((3, 1), last), torch.full((3, 1), last))
        return network().log_probabilities(encoded, context, seen, placed)

    with torch.no_grad():
        plain = logs(features, seen, placed, 4)
        place_of_4 = int((shuffle == 4).nonzero())
        other = logs(features[:, shuffle], seen[:, :, shuffle], placed[:, :, shuffle], place_of_4)
    assert torch.allclose(plain[:, :, shuffle], other, atol=1e-5)
    assert plain.exp().sum(-1).numpy() == pytest.approx(np.ones((3, 1)), abs=1e-5)
    assert torch.isinf(plain[:, 0, 4]).all()


@pytest.mark.parametrize(("kind", "count"), [("greedy", 1), ("sample", 5), ("beam", 4)])
def test_orders_do_not_depend_on_how_jobs_are_listed_or_batched(kind: str, count: int) -> None:
    rng = np.random.default_rng(6)
    queues = [continuous(rng, 13) for _ in range(3)]
    cases = [queue.case("actual") for queue in queues]
    orders = decode(network(), cases, kind, count, seed=2)
    assert orders.shape == (3, count, 13)
    assert (np.sort(orders, -1) == np.arange(13)).all()
    assert orders.tolist() == decode(network(), cases, kind, count, seed=2).tolist()
    shuffle = rng.permutation(13)
    other = decode(network(), [queue.take(shuffle).case("actual") for queue in queues], kind, count, seed=2)
    assert shuffle[other].tolist() == orders.tolist()
    if kind != "sample":
        assert decode(network(), cases[1:2], kind, count)[0].tolist() == orders[1].tolist()


def test_a_beam_holds_the_likely_orders_and_the_first_sample_is_greedy() -> None:
    cases = [continuous(np.random.default_rng(7), 9).case("actual")]
    greedy = decode(network(), cases)[0, 0]
    assert decode(network(), cases, "sample", 3, seed=1)[0, 0].tolist() == greedy.tolist()
    assert decode(network(), cases, "beam", 1)[0, 0].tolist() == greedy.tolist()
    beam = decode(network(), cases, "beam", 30)[0]
    assert len({tuple(order) for order in beam.tolist()}) == 30
    with torch.no_grad():
        loss = [float(loss_of(network(), lesson_of([(cases[0], order)]))) for order in (*beam, greedy)]
    assert loss[0] <= loss[-1] + 1e-5
    assert (np.diff(loss[:-1]) >= -1e-5).all()  # likeliest first, as teacher forcing sees it


def test_short_queues_and_wide_beams() -> None:
    rng = np.random.default_rng(8)
    for jobs in (1, 2, 3):
        case = random_queue(rng, jobs).case("actual")
        for kind, count in (("greedy", 1), ("sample", 4), ("beam", 9)):
            orders = decode(network(), [case], kind, count)[0]
            assert (np.sort(orders, -1) == np.arange(jobs)).all(), (jobs, kind)


# ---- training --------------------------------------------------------------------------------------------------------


def test_training_resumes_with_the_same_bytes_and_learns(tmp_path: Path, agent: Path) -> None:
    class Stop:
        count = 0

        def __call__(self, status: Any) -> None:
            self.count += 1
            if self.count == 3:
                raise KeyboardInterrupt

    folder = tmp_path / "agent"
    with pytest.raises(KeyboardInterrupt):
        train_order(crowded(), Order(), TINY, Course(folder, seed=1, report=Stop()))
    with pytest.raises(UsageError, match="seed"):
        train_order(crowded(), Order(), TINY, Course(folder, seed=2), resume=True)
    train_order(crowded(), Order(), TINY, Course(folder, seed=1), resume=True)
    for name in ("weights.safetensors", "agent.json", "README.md", "log.jsonl", "labels.parquet"):
        assert (folder / name).read_bytes() == (agent / name).read_bytes(), name
    log = [json.loads(line) for line in (agent / "log.jsonl").read_text().splitlines()]
    assert log[-1]["loss"] < 0.8 * log[0]["loss"]
    found = Agent.load(agent)
    assert found.task["name"] == "order"
    assert found.task["estimates"] == "requested"


def test_a_training_takes_labels_as_they_are_and_refuses_those_of_other_jobs(tmp_path: Path, agent: Path) -> None:
    short = TINY.replace(steps=200)
    course = Course(tmp_path / "a", seed=3, labels=agent / "labels.parquet")
    made = train_order(crowded(), Order(objective="bsld"), short, course)
    assert Order.from_dict(made.task) == Order.from_dict(Agent.load(agent).task) == Order()
    with pytest.raises(UsageError, match="other jobs"):
        train_order(crowded().head(800), Order(), short, dataclasses.replace(course, out=tmp_path / "b"))


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    for wrong in ({"width": 15}, {"steps": 0}, {"learning_rate": 0.0}):
        with pytest.raises(UsageError):
            OrderConfig(**wrong)
    with pytest.raises(UsageError, match="order"):
        Config(network="pointer")
    for task in ({"estimates": "guessed"}, {"ages": "old"}, {"backfill": "some"}, {"compat": "ilso"}):
        with pytest.raises(UsageError):
            Order(**task)
    for text in ("greedi", "sample", "beam:0", "sample:x", "greedy:3"):
        with pytest.raises(UsageError):
            parse_decoding(text)


# ---- refinement ------------------------------------------------------------------------------------------------------


def test_evaluations_of_decoded_orders_count(agent: Path) -> None:
    queue = QueueProblem.from_trace(crowded(), 700, 20)
    name = f"agent:{agent}"
    for decoding, count in (("greedy", 1), ("sample:7", 7), ("beam:5", 5)):
        alone = solve(queue, name, decode=decoding, estimates="requested")
        assert alone.evaluations == count
        start = solve(queue, "none", init=name, decode=decoding, estimates="requested")
        assert start.order.tolist() == alone.order.tolist()
        assert start.evaluations == count
        refined = solve(queue, "hill-climb", init=name, decode=decoding, estimates="requested", evaluations=100)
        assert refined.evaluations == 100
        assert refined.curve[0].tolist() == pytest.approx([count, alone.curve[-1, 1]])
        assert refined.curve[-1, 1] <= alone.curve[-1, 1]
        assert refined.curve[-1, 0] <= 100
    with pytest.raises(UsageError, match="fewer"):
        solve(queue, init=name, decode="sample:50", evaluations=20)
    blind = dataclasses.replace(queue, run=queue.run[::-1].copy())
    again = solve(blind, name, estimates="requested")
    assert again.order.tolist() == solve(queue, name, estimates="requested").order.tolist()


def test_the_commands(run: Any, tmp_path: Path, agent: Path) -> None:
    trace = tmp_path / "t.swf"
    tracekit.write(crowded(), trace)
    window = ("--window", "700:12")
    status, out, _ = run("order", trace, *window, "--solver", f"agent:{agent}", "--decode", "sample:4", "--json")
    assert status == 0
    assert json.loads(out)["evaluations"] == 4
    status, out, _ = run("order", trace, *window, "--init", f"agent:{agent}", "--evaluations", "50", "--json")
    assert json.loads(out)["evaluations"] == 50
    assert json.loads(out)["init"] == f"agent:{agent}"
    labels = tmp_path / "l.parquet"
    few = ("--windows", "4", "--validation", "2", "--test", "1", "--jobs", "8", "--evaluations", "20")
    status, out, _ = run("order-labels", trace, "-o", labels, *few, "--json")
    assert status == 0
    assert {key: json.loads(out)[key] for key in ("train", "validation", "test")} == {
        "train": 4,
        "validation": 2,
        "test": 1,
    }
    config = tmp_path / "c.toml"
    config.write_text(TINY.replace(steps=100).to_toml())
    made = ("train", trace, "--task", "order", "--config", config)
    assert run(*made, "--labels", labels, "-o", tmp_path / "a")[0] == 0
    for wrong, named in (
        ((*made, "-o", tmp_path / "b", "--observer", "fair"), "--observer"),
        ((*made, "-o", tmp_path / "b", "--labels", labels, "--jobs", "9"), "--jobs"),
        (("train", trace, "-o", tmp_path / "b", "--labels", labels), "--task order"),
        (("evaluate", tmp_path / "a", trace), "order-study"),
        (("simulate", trace, "--policy", f"agent:{agent}"), "tracekit order"),
        (("order", trace, *window, "--init", f"agent:{tmp_path / 'none'}"), "none"),
        (("order", trace, *window, "--solver", "agent:default"), "pick-job"),
        (("order", trace, *window, "--decode", "beam"), "beam"),
    ):
        status, out, err = run(*wrong)
        assert status in (1, 2), wrong
        assert named in err
        assert err.count("\n") == 1


def test_a_study_of_a_cswa_file_resumes_and_is_told_in_full(run: Any, tmp_path: Path, agent: Path) -> None:
    rng = np.random.default_rng(3)
    lines = ["u_id,user,cpu_num,node_num,submit_time,wait_time,run_time,wall_time,job_status"]
    for number in range(400):
        ran = int(rng.integers(10, 5000))
        lines.append(f"{number + 1},u{number % 7},{rng.integers(1, 60)},1,{10 * number},5,{ran},{2 * ran},Pass")
    trace = tmp_path / "jobs.cswa"
    trace.write_text("\n".join(lines) + "\n")
    small = ("--procs", "64", "--windows", "3", "--jobs", "10", "--reference", "200", "--evaluations", "20,60")
    command = ("order-study", trace, "-o", tmp_path / "study", *small, "--decode", "sample:3", "--repeats", "2")
    config = tmp_path / "c.toml"
    config.write_text(TINY.replace(steps=300, jobs=10).to_toml())
    status, out, err = run(*command, "--config", config, "--json")
    assert status == 0, err
    found = json.loads(out)
    assert [row["estimates"] for row in found["rows"]] == sorted((r["estimates"] for r in found["rows"]), reverse=True)
    for row in found["rows"]:
        assert row["gap"]["mean"] >= -1e-12
    counts = {(row["start"], row["evaluations"]) for row in found["rows"]}
    assert {("heuristic", 0), ("network", 1), ("network", 3), ("heuristic", 60), ("network", 60), ("fcfs", 0)} <= counts
    gain = found["parts_of_gain"]
    assert gain["search"]["mean"] + gain["knowing_run_times"]["mean"] == pytest.approx(gain["whole"])
    assert {path.name for path in (tmp_path / "study").iterdir()} == {
        *("agents", "parts", "study.json", "study.csv", "windows.csv", "study.md", "study.png", "study.svg")
    }
    rows = (tmp_path / "study" / "windows.csv").read_text().splitlines()
    assert len(rows) == 1 + 3 * len(found["rows"])
    status, again, err = run(*command, "--config", config, "--json", "--force")
    assert again == out
    assert "training" not in err
    status, out, _ = run("order", trace, "--procs", "64", "--window", "0:9", "--window", "9:9", "-o", tmp_path / "o")
    assert status == 0
    assert (tmp_path / "o" / "order.png").exists()
    assert run(*command, "--agent", agent, "--agent", agent, "--force")[0] == 2
