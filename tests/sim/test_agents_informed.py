"""Agents that know predicted run times: what a lane knows, group-relative learning, grounds, the start that is kept."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import tracekit
from tracekit.errors import TracekitError, UsageError
from tracekit.sim.agents import Agent, Config, Split, evaluate, train
from tracekit.sim.agents.actor import Actor
from tracekit.sim.agents.against import against, mean
from tracekit.sim.agents.agent import FACTS, WEIGHTS
from tracekit.sim.agents.checkpoint import read_log
from tracekit.sim.agents.evaluate import INDEX, best_on_training
from tracekit.sim.agents.grounds import drawn, more_sources
from tracekit.sim.agents.groups import group_advantages
from tracekit.sim.agents.informed import HALVES
from tracekit.sim.agents.rollout import play
from tracekit.sim.agents.search import linear
from tracekit.sim.agents.starts import chosen
from tracekit.sim.policies.formulas import CODES
from tracekit.sim.predict.predictor import OUTPUTS, PREDICTOR, TREES
from tracekit.sim.predict.training import train as train_predictor
from tracekit.sim.predict.trees import evaluated
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.features import PREDICTED
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.sim.tasks.played import Played
from tracekit.trace import Machine

from .test_agents_training import TINY, busy, bytes_of
from .test_predict import SMALL, random_trace, slow_features

WINDOWS = [(100, 60), (300, 60), (420, 80)]
GROUPED = TINY.replace(algorithm="grpo", windows=6, plays=3)


def crowded(jobs=600, seed=0):
    """A trace of users whose jobs are alike, on a machine on which they wait."""
    made = random_trace(jobs, seed)
    return made.replace(machine=Machine(procs=40, epoch=made.machine.epoch))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a small predictor."""
    place = tmp_path_factory.mktemp("predictor") / "p"
    train_predictor(crowded(), SMALL, seed=1).save(place)
    return place


@pytest.fixture
def task(folder):
    return PickJob(predict=f"agent:{folder}", observer="informed")


def features_in(trace, window, start):
    """Features of a window's jobs in a schedule, by plain Python: known are the window, and jobs that ended before."""
    rows = np.arange(window[0], window[0] + window[1])
    submit = trace.column("submit_time")
    ended = submit + trace.column("run_time") <= submit[rows].min()  # recorded without waits
    ended[rows] = False
    jobs = trace.jobs.copy()
    jobs.loc[rows, "wait_time"] = start - submit[rows]
    known = np.concatenate([np.flatnonzero(ended), rows])
    part = trace.replace(jobs=jobs.iloc[known].reset_index(drop=True))
    return np.array([slow_features(part, int(ended.sum()) + k) for k in range(len(rows))], float)


# ---- what a lane knows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fcfs", "saf", "largest"])
@pytest.mark.parametrize("backfill", ["easy", "none"])
def test_a_lane_predicts_from_its_own_schedule(task, policy, backfill) -> None:
    trace = crowded(seed=3)
    batch = Batch(trace, dataclasses.replace(task, backfill=backfill), lanes=2)
    for window in WINDOWS:
        play(batch, [window], None, teacher=np.full(1, CODES.get(policy, CODES["fcfs"])), keep=False)
        start, submit = batch.starts(0), trace.column("submit_time")[window[0] : sum(window)]
        assert (start > submit).any()
        known = features_in(trace, window, start)
        expected = evaluated(batch.source.predictor.forest, known)
        limit, weight = trace.column("req_time")[window[0] : sum(window)], OUTPUTS.index("weight")
        least = np.where(limit > 0, np.log(10 / np.maximum(limit, 10)), -np.inf)
        expected[:, weight] = np.clip(expected[:, weight], least, 0.0)
        np.testing.assert_allclose(batch.arrays.predicted.shown[0, : window[1]], expected, rtol=1e-12)


def test_two_lanes_with_other_schedules_know_other_things(task) -> None:
    batch = Batch(crowded(seed=3), task, lanes=2)
    play(batch, [WINDOWS[2]] * 2, None, teacher=np.array([CODES["fcfs"], CODES["saf"]]), keep=False)
    one, other = batch.arrays.predicted.shown[:, : WINDOWS[2][1]]
    assert not np.array_equal(batch.starts(0), batch.starts(1))
    assert not np.array_equal(one, other)
    first = batch.starts(0)  # a lane is the same whatever is beside it
    play(batch, [WINDOWS[2]], None, teacher=np.array([CODES["fcfs"]]), keep=False)
    np.testing.assert_array_equal(batch.starts(0), first)


def test_run_times_of_jobs_that_have_not_ended_change_no_prediction(task) -> None:
    """Job 200 runs on beyond the window's end in one trace; nothing may depend on how long."""
    trace, window = crowded(seed=4), (200, 60)
    submit = trace.column("submit_time")
    shown = []
    for seconds in (1e7, 2e7):
        jobs = trace.jobs.copy()
        jobs.loc[200, ["run_time", "req_time", "req_procs"]] = (seconds, 5e7, 1.0)
        batch = Batch(trace.replace(jobs=jobs), task, lanes=1)
        play(batch, [window], None, teacher=np.array([CODES["fcfs"]]), keep=False)
        assert batch.starts(0).max() < submit[200] + 1e7
        shown.append(batch.arrays.predicted.shown[0, : window[1]].copy())
    np.testing.assert_array_equal(*shown)


def test_features_are_the_predictions(task) -> None:
    names = [name for name in PREDICTED if name.startswith("predicted-")]
    everything = dataclasses.replace(task, observer=",".join(names), ask_forced=True)
    trace = crowded(seed=5)
    batch = Batch(trace, everything, lanes=1)
    batch.reset([0], [WINDOWS[0]])
    constants, limit = batch.task.constants, trace.column("req_time")
    scale = np.log1p(constants["log_time_s"])
    seen = batch.arrays.predicted
    while not batch.done[0]:
        for slot, job in enumerate(batch.shown(0)):
            outputs = dict(zip(OUTPUTS, seen.shown[0, job], strict=True))
            most = limit[WINDOWS[0][0] + job]
            ln_most = np.log(most) if most > 0 else np.inf
            ln_size = np.log(trace.sizes()[WINDOWS[0][0] + job])
            expected = min(outputs["expected"], ln_most)
            known = {
                "predicted-mean": min(outputs["ln_mean"], ln_most) / scale,
                "predicted-expected": expected / scale,
                "predicted-weight": -outputs["weight"] / scale,
                "predicted-area": (expected + ln_size) / np.log1p(constants["log_time_s"] * 40),
                "predicted-index": seen.priority[0, job] / (2 * scale),
            } | {f"predicted-{q}": min(outputs[q], ln_most) / scale for q in ("q50", "q75", "q90")}
            wanted = [max(known[name], 0.0) for name in names]
            np.testing.assert_allclose(batch.features[0, slot], wanted, rtol=1e-5, atol=1e-6)
        batch.step([0])


def test_the_index_as_a_teacher_is_the_policy_of_the_simulator(task, folder) -> None:
    trace = crowded(seed=6)
    source = EpisodeSource(trace, task)
    whole = (0, len(trace))
    expected = tracekit.simulate(trace, INDEX, predict=f"agent:{folder}", predict_for="order").start
    np.testing.assert_array_equal(source.schedule(whole, INDEX), expected)
    for window in WINDOWS:
        batch = Batch(source, lanes=1)
        played = play(batch, [window], None, teacher=task.teacher(batch, [window], INDEX))
        assert played.score[0] == source.policy_costs([window], [INDEX])[0, 0]


def test_frozen_predictions_are_those_of_a_play_by_the_index(task) -> None:
    trace = crowded(seed=7)
    live, frozen = Batch(trace, task, lanes=2), Batch(trace, task, lanes=2)
    frozen.freeze()
    index = task.teacher(live, WINDOWS, INDEX)
    one, other = play(live, WINDOWS, None, teacher=index), play(frozen, WINDOWS, None, teacher=index)
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_array_equal(one.score, other.score)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda p: {"observer": "informed"}, "--predict"),
        (lambda p: {"predict": str(p), "warm": 5}, "warm"),
        (lambda p: {"predict": str(p), "cluster": "rltune-helios"}, "cluster of hosts"),
        (lambda p: {"predict": "nowhere"}, "nowhere"),
        (lambda p: {"predict": "default"}, "predict-run-time"),
    ],
)
def test_what_cannot_be_predicted_is_told(folder, wrong, said) -> None:
    with pytest.raises(TracekitError, match=said):
        EpisodeSource(crowded(), PickJob(**wrong(folder)))


# ---- group-relative advantages ---------------------------------------------------------------------------------------


def record(scores, times, left=None) -> Played:
    """Decisions at the given times of each window."""
    counts = [len(some) for some in times]
    total = sum(counts)
    one = np.ones(total, np.int64)
    window = np.repeat(np.arange(len(scores)), counts)
    given = np.empty((0, 2)) if left is None else np.column_stack([np.concatenate(left), np.zeros(total)])
    flat = np.concatenate(times) if total else np.empty(0)
    return Played(
        np.zeros((total, 1), np.float32), one, one, one, window, flat, one == 1, np.array(scores), given, one == 0, 4
    )


def test_plays_are_measured_against_the_other_plays_of_their_window() -> None:
    played = record([2.0, 4.0, 6.0, 30.0, 30.0, 30.0], [[0.0, 1.0], [0.0], [5.0], [1.0], [], [2.0]])
    found = group_advantages(played, 3)
    # (4 + 6) / 2 − 2 = 3, in units of the mean cost 4; the second group's plays are equal
    np.testing.assert_allclose(found, [0.75, 0.75, 0.0, -0.75, 0.0, 0.0])


def test_costs_from_the_same_moment_on_are_compared() -> None:
    played = record([4.0, 4.0], [[0.0, 10.0], [0.0, 20.0]], [[4.0, 1.0], [4.0, 2.0]])
    # at 10 the other play still has to pay 3, halfway between its own moments; at 20 the first has 1 left
    np.testing.assert_allclose(group_advantages(played, 2), [0.0, (3 - 1) / 4, 0.0, (1 - 2) / 4])
    alone = record([4.0, 4.0], [[0.0], []], [[4.0], []])
    np.testing.assert_allclose(group_advantages(alone, 2), [-1.0])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"algorithm": "grpo", "windows": 10, "plays": 4}, "multiple of plays"),
        ({"algorithm": "grpo", "windows": 4, "plays": 1}, "2 or more"),
        ({"loads": (0.0,)}, "loads"),
        ({"validate_by": "median"}, "median"),
        ({"hidden": (), "network": "attention"}, "weighted sum"),
        ({"teacher_rounds": -1}, "teacher_rounds"),
    ],
)
def test_settings_that_make_no_sense(wrong, said) -> None:
    with pytest.raises(TracekitError, match=said):
        Config(**wrong)


def test_group_relative_learning_improves_on_the_start(tmp_path) -> None:
    trace = busy(1500, procs=8, seed=3)
    config = Config(
        algorithm="grpo",
        plays=4,
        steps=12_000,
        windows=16,
        jobs=64,
        minibatch=512,
        validate_every=2,
        validation_windows=16,
        threads=1,
    )
    train(trace, PickJob(backfill="none"), config, out=tmp_path / "a", seed=1)
    scores = [line["validation_score"] for line in read_log(tmp_path / "a") if "validation_score" in line]
    assert min(scores) < 0.9 * scores[0]


def test_training_that_does_not_improve_keeps_its_start_and_says_so(tmp_path) -> None:
    """A learning rate that only spoils: the weights are those that a training of no iteration leaves."""
    config = GROUPED.replace(steps=3000, learning_rate=0.02, target_kl=0.0, validation_windows=12)
    only_start = train(busy(), PickJob(), config.replace(steps=1), out=tmp_path / "start", seed=2, init="imitate:saf")
    agent = train(busy(), PickJob(), config, out=tmp_path / "a", seed=2, init="imitate:saf")
    metrics = agent.facts["metrics"]
    assert metrics["iterations"] > metrics["best_iteration"] == 0
    assert metrics["validation_score"] == metrics["start_score"]
    assert "did not improve on its starting policy (imitation of saf)" in metrics["note"]
    assert "the starting weights are kept" in metrics["note"]
    later = [line["validation_score"] for line in read_log(tmp_path / "a")[1:] if "validation_score" in line]
    assert min(later) >= metrics["start_score"]
    assert only_start.facts["metrics"]["best_iteration"] == 0
    np.testing.assert_array_equal(agent.flat, only_start.flat)
    assert "did not improve" in (tmp_path / "a" / "README.md").read_text()


# ---- grounds ---------------------------------------------------------------------------------------------------------


def test_training_windows_at_other_loads_and_from_other_traces() -> None:
    trace, other = busy(), busy(200, seed=9)
    source = EpisodeSource(trace, PickJob())
    parts = ((0, 300),)
    found = more_sources(trace, [(source.task, parts)], (1.0, 1.5), [other])
    assert [spans for _, spans in found] == [parts, ((0, 200),)]
    assert all(one.task.constants == source.task.constants for one, _ in found)
    load = tracekit.stats.offered_load
    scaled = found[0][0].table
    assert np.ptp(scaled.submit) == pytest.approx(np.ptp(source.table.submit) / 1.5, rel=0.01)
    assert load(trace) > 0
    np.testing.assert_array_equal(scaled.run, source.table.run)


def test_every_ground_is_drawn() -> None:
    grounds = ["a", "b", "c"]
    found = [drawn(grounds, [1, 15, k]) for k in range(60)]
    assert set(found) == set(grounds)
    assert found == [drawn(grounds, [1, 15, k]) for k in range(60)]
    assert drawn(["a"], [0]) == "a"


def test_training_on_several_grounds_goes_on_where_it_was(tmp_path) -> None:
    config, other = GROUPED.replace(loads=(1.0, 1.3)), busy(200, seed=9)
    given = {"seed": 4, "init": "imitate:saf", "windows_from": [other]}
    whole = train(busy(), PickJob(), config, out=tmp_path / "whole", **given)
    assert len(whole.facts["trace"]["windows_from"]) == 2

    def kill(status) -> None:
        if status.iteration == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(busy(), PickJob(), config, out=tmp_path / "part", report=kill, **given)
    with pytest.raises(UsageError, match="windows_from"):
        train(busy(), PickJob(), config, out=tmp_path / "part", resume=True, **(given | {"windows_from": []}))
    train(busy(), PickJob(), config, out=tmp_path / "part", resume=True, **given)
    assert bytes_of(tmp_path / "part") == bytes_of(tmp_path / "whole")


# ---- judging ---------------------------------------------------------------------------------------------------------


def test_means_and_shares() -> None:
    assert mean(np.array([1.0, 4.0]), "mean") == 2.5
    assert mean(np.array([1.0, 4.0]), "geometric") == pytest.approx(2.0)
    rng = np.random.default_rng(0)
    base = np.exp(rng.normal(2, 1, 200))
    found = against(0.9 * base * np.exp(rng.normal(0, 0.05, (3, 200))), base)
    assert found["geometric_low"] < found["geometric"] < found["geometric_high"] < 0
    assert found["geometric"] == pytest.approx(-0.1, abs=0.01)
    assert found["block"] == 6
    twice = against(np.repeat(0.9 * base, 2), np.repeat(base, 2), overlap=2)
    assert (twice["windows"], twice["block"]) == (400, 12)  # as many jobs in a block
    same = against(base, base)
    assert (same["geometric"], same["arithmetic_low"], same["arithmetic_high"]) == (0, 0, 0)
    alone = against(np.array([2.0]), np.array([1.0]))
    assert alone["geometric"] == 1
    assert np.isnan(alone["geometric_low"])


def test_blocks_of_windows_widen_intervals_where_neighbours_are_alike() -> None:
    rng = np.random.default_rng(1)
    step = np.repeat(rng.normal(0, 0.3, 25), 8)  # busy weeks: eight windows in a row are alike
    base = np.ones(200)
    together, shuffled = against(np.exp(step), base), against(np.exp(rng.permutation(step)), base)

    def width(found):
        return found["geometric_high"] - found["geometric_low"]

    assert width(together) > 1.5 * width(shuffled)


def test_imitating_the_heuristic_chosen_on_training_windows(tmp_path) -> None:
    source = EpisodeSource(busy(), PickJob())
    batch = Batch(source, lanes=2)
    windows = [(0, 60), (80, 60), (160, 60)]
    name = chosen(batch, windows, "geometric")
    costs = np.log(source.policy_costs(windows, ["fcfs", "sjf", "saf", name])).mean(0)
    assert costs.argmin() == 3 or costs.min() == costs[3]
    said: list[str] = []
    train(busy(), PickJob(), TINY.replace(steps=1), out=tmp_path / "a", seed=1, init="imitate:chosen", say=said.append)
    assert any(text.startswith("imitating ") and "chosen" not in text for text in said)


# ---- expert iteration ------------------------------------------------------------------------------------------------


def test_a_slow_teacher_labels_what_the_agent_came_to(tmp_path) -> None:
    config = TINY.replace(steps=1, teacher_rounds=2)
    said: list[str] = []
    init = "imitate:tests.sim.test_teachers:Shortest"
    for place in ("a", "b"):
        train(busy(), PickJob(), config, out=tmp_path / place, seed=1, init=init, say=said.append)
    assert sum(text.startswith("round ") for text in said) == 4
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")
    train(busy(), PickJob(), config.replace(teacher_rounds=0), out=tmp_path / "none", seed=1, init=init)
    assert bytes_of(tmp_path / "a")[WEIGHTS] != bytes_of(tmp_path / "none")[WEIGHTS]
    for wrong in ("imitate:sjf", "search"):
        with pytest.raises(UsageError, match="teacher"):
            train(busy(), PickJob(), config, out=tmp_path / "c", seed=1, init=wrong, force=True)


def test_labels_are_the_teachers_choices_in_the_schedule_of_the_agent() -> None:
    """An agent that plays largest first; the teacher would take the shortest job each time."""
    batch, windows = Batch(busy(), PickJob(), lanes=2), [(0, 60), (100, 60)]
    largest = np.zeros(len(batch.task.feature_names))
    largest[batch.task.feature_names.index("size")] = 1.0
    by_size = play(batch, windows, linear(largest))
    teacher = batch.task.teacher(batch, windows, "tests.sim.test_teachers:Shortest")
    labelled = play(batch, windows, Actor(linear(largest)), teacher=teacher, teacher_labels=True)
    np.testing.assert_array_equal(labelled.score, by_size.score)  # the agent decides
    np.testing.assert_array_equal(labelled.rows, by_size.rows)
    limit = batch.task.feature_names.index("request")
    shown = [labelled.rows[k : k + n, limit] for k, n in zip(labelled.first, labelled.count, strict=True)]
    assert all(some[k] == some.min() for some, k in zip(shown, labelled.chosen, strict=True))
    assert (labelled.chosen != by_size.chosen).any()


def test_a_search_labels_what_the_agent_came_to(tmp_path) -> None:
    config = TINY.replace(steps=1, teacher_windows=1, teacher_rounds=1, jobs=16, validation_windows=1)
    agent = train(busy(), PickJob(), config, out=tmp_path / "a", seed=1, init="imitate:search:evaluations=5")
    assert 0 < read_log(tmp_path / "a")[0]["imitation_agreement"] <= 1
    assert agent.facts["config"]["teacher_rounds"] == 1


# ---- the agent's folder ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def informed(tmp_path_factory, folder):
    place = tmp_path_factory.mktemp("informed") / "agent"
    told = PickJob(predict=f"agent:{folder}", observer="informed")
    return train(crowded(), told, GROUPED.replace(loads=(1.0, 1.2)), out=place, seed=3, init="imitate:predicted-index")


def test_an_informed_agent_is_whole_by_itself(informed, tmp_path) -> None:
    shutil.copytree(informed.folder, tmp_path / "moved")
    facts = json.loads((tmp_path / "moved" / FACTS).read_text())
    assert facts["task"]["predict"] == PREDICTOR
    moved = Agent.load(tmp_path / "moved")
    assert moved.task["predict"] == str(tmp_path / "moved" / PREDICTOR)
    trace = crowded(seed=8)
    one, other = (tracekit.simulate(trace, f"agent:{place}").start for place in (informed.folder, tmp_path / "moved"))
    np.testing.assert_array_equal(one, other)
    batch = Batch(trace, PickJob.from_dict(moved.task), lanes=1)
    play(batch, [(0, len(trace))], moved.net(), keep=False)
    np.testing.assert_array_equal(one, batch.starts(0))
    moved.save(tmp_path / "copied")
    assert (tmp_path / "copied" / PREDICTOR / TREES).is_file()
    shutil.rmtree(tmp_path / "moved" / PREDICTOR)
    with pytest.raises(TracekitError, match=PREDICTOR):
        Agent.load(tmp_path / "moved")


def test_an_evaluation_against_the_heuristic_chosen_beforehand(informed) -> None:
    result = evaluate(informed, crowded(seed=8), [(k, 60) for k in range(0, 540, 60)])
    assert INDEX in result.baselines
    assert result.best_heuristic != INDEX
    named = dataclasses.replace(result, chosen="saf")
    rows = named.to_dict()["against_chosen"]
    assert {INDEX, "best per window", named.agent} <= set(rows)
    assert rows["best per window"]["geometric"] <= rows[named.agent]["geometric"] + 1e-9 or INDEX in rows
    assert rows[named.agent]["windows"] == 9
    assert dataclasses.replace(result, chosen="").against_chosen == {}


@pytest.mark.parametrize("predict", ["auto", "given"])
def test_an_informed_training_goes_on_where_it_was(tmp_path, folder, predict) -> None:
    trace = crowded()
    told = PickJob(predict="auto" if predict == "auto" else f"agent:{folder}", observer="informed")
    given = {"seed": 5, "init": "imitate:predicted-index", "parts": Split(((0, 400),), ((400, 500),))}
    train(trace, told, GROUPED, out=tmp_path / "whole", **given)

    def kill(status) -> None:
        if status.iteration == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(trace, told, GROUPED, out=tmp_path / "part", report=kill, **given)
    shutil.move(tmp_path / "part", tmp_path / "elsewhere")
    train(trace, told, GROUPED, out=tmp_path / "elsewhere", resume=True, **given)
    assert bytes_of(tmp_path / "elsewhere") == bytes_of(tmp_path / "whole")
    trees = [(tmp_path / place / PREDICTOR / TREES).read_bytes() for place in ("elsewhere", "whole")]
    assert trees[0] == trees[1]
    if predict == "given":
        train_predictor(trace, SMALL, seed=9).save(tmp_path / "other")
        another = dataclasses.replace(told, predict=f"agent:{tmp_path / 'other'}")
        with pytest.raises(UsageError, match="another predictor"):
            train(trace, another, GROUPED, out=tmp_path / "whole", resume=True, **given)


def test_only_the_training_part_teaches_the_predictor(tmp_path) -> None:
    """Jobs after the training part may be anything."""
    trace, parts = crowded(), Split(((0, 400),), ((400, 500),))
    jobs = trace.jobs.copy()
    jobs.loc[400:, "run_time"] = 7.0
    told = PickJob(predict="auto", observer="informed")
    for place, one in (("a", trace), ("b", trace.replace(jobs=jobs))):
        train(one, told, GROUPED.replace(steps=1), out=tmp_path / place, seed=5, parts=parts)
    one, other = ((tmp_path / place / PREDICTOR / TREES).read_bytes() for place in ("a", "b"))
    assert one == other


def test_an_agent_learns_by_predictions_for_jobs_that_the_predictor_has_not_seen(tmp_path) -> None:
    """Each half of the training part is predicted by what the other half taught; afterwards nothing of that is left."""
    trace, parts = crowded(), Split(((0, 400),), ((400, 500),))
    jobs = trace.jobs.copy()
    jobs.loc[:199, "run_time"] = 7.0
    told = PickJob(predict="auto", observer="informed")

    def kill(status) -> None:
        raise KeyboardInterrupt

    for place, one in (("a", trace), ("b", trace.replace(jobs=jobs))):
        with pytest.raises(KeyboardInterrupt):
            train(one, told, GROUPED, out=tmp_path / place, seed=5, parts=parts, report=kill)
    first, second = ([(tmp_path / place / HALVES / half / TREES).read_bytes() for place in "ab"] for half in "01")
    assert first[0] == first[1]  # for the first half, learnt from the second
    assert second[0] != second[1]
    train(trace, told, GROUPED, out=tmp_path / "a", seed=5, parts=parts, resume=True)
    assert not (tmp_path / "a" / HALVES).exists()
    more = GROUPED.replace(steps=2 * GROUPED.steps)
    agent = train(trace, told, more, out=tmp_path / "a", seed=5, parts=parts, resume=True)
    assert agent.facts["metrics"]["steps"] >= more.steps
    assert not (tmp_path / "a" / HALVES).exists()


def test_the_heuristic_chosen_beforehand_is_not_the_imitated_one(tmp_path) -> None:
    agent = train(busy(), PickJob(), TINY.replace(steps=1), out=tmp_path / "a", seed=1, init="imitate:ljf")
    metrics = agent.facts["metrics"]
    assert metrics["base_policy"] == "ljf"
    assert metrics["best_on_training"] != "ljf"
    assert best_on_training(agent) == metrics["best_on_training"]
    del metrics["best_on_training"]  # as of earlier versions
    assert best_on_training(agent) == ""
    assert best_on_training(dataclasses.replace(agent, facts=agent.facts | {"init": "search"})) == "ljf"


# ---- agents without predictions are what they were -------------------------------------------------------------------


def test_agents_without_predictions_are_unchanged(tmp_path) -> None:
    """The agent that comes with tracekit decides as before, and saved again has the same bytes."""
    agent = Agent.load("default")
    agent.save(tmp_path / "again")
    place = Path(tracekit.__file__).parent / "data" / "agents" / "default"
    assert (tmp_path / "again" / WEIGHTS).read_bytes() == (place / WEIGHTS).read_bytes()
    assert (tmp_path / "again" / FACTS).read_bytes() == (place / FACTS).read_bytes()
    assert "predict" not in PickJob().to_dict()
    start = tracekit.simulate(tracekit.sample().head(1500), "agent:default").start
    assert hashlib.sha256(np.asarray(start, "<f8").tobytes()).hexdigest() == DECIDED


DECIDED = "9adc5ddaf25db59453160c1be1f09a421627dacbd7f176448567d647c9cfc185"
