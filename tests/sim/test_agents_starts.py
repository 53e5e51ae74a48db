"""The start of an agent that knows predictions: exact, chosen on training windows, kept unless a gain is shown."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

pytest.importorskip("torch")

from tracekit.errors import UsageError
from tracekit.sim.agents import Config, Split, train
from tracekit.sim.agents.checkpoint import read_log
from tracekit.sim.agents.evaluate import INDEX
from tracekit.sim.agents.informed import _best_form
from tracekit.sim.agents.rollout import play
from tracekit.sim.agents.search import _beginnings, _level, _shown, linear, search
from tracekit.sim.agents.starts import weights_of
from tracekit.sim.predict.index import FORMS, Form, indices
from tracekit.sim.predict.predictor import IN_INDEX, OUTPUTS, PREDICTOR, Predictor
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import PickJob

from .test_agents_informed import GROUPED, WINDOWS, crowded
from .test_agents_informed import folder as folder
from .test_agents_training import TINY, busy, bytes_of

SUM = GROUPED.replace(hidden=(), sure=True)


# ---- exact starts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["f2", "f1", "saf", "lcfs", "largest"])
def test_a_sum_of_features_is_exactly_the_base_policy(folder, base) -> None:
    task = PickJob(predict=str(folder), observer="informed", base=base)
    source = EpisodeSource(crowded(seed=3), task)
    weights = weights_of(base, source.task)
    assert weights is not None
    played = play(Batch(source, lanes=2), WINDOWS, linear(weights), keep=False)
    for window, start in zip(WINDOWS, played.starts, strict=True):
        np.testing.assert_array_equal(start, source.schedule(window, base))


def test_a_sum_of_features_is_exactly_the_index(folder) -> None:
    source = EpisodeSource(crowded(seed=3), PickJob(predict=str(folder), observer="informed"))
    weights = weights_of(INDEX, source.task)
    played = play(Batch(source, lanes=2), WINDOWS, linear(weights), keep=False)
    np.testing.assert_array_equal(played.score, source.policy_costs(WINDOWS, [INDEX])[:, 0])


def test_heuristics_that_no_feature_repeats_have_no_weights() -> None:
    assert weights_of("f2", PickJob()) is None  # base-place is not shown
    assert weights_of("f2", PickJob(observer="request,base-place", base="f3")) is None
    assert weights_of(INDEX, PickJob()) is None
    for base in ("wfp3", "multifactor", "random"):  # their values change while a job waits, or are no formula
        with pytest.raises(UsageError, match="static"):
            PickJob(observer="request,base-place", base=base)


# ---- the form of the index -------------------------------------------------------------------------------------------


def test_the_index_by_hand() -> None:
    own = np.array([[np.log(3600.0), np.log(4.0), 0, 0], [np.nan, 0.0, 0, 0], [np.log(50.0), 0.0, 0, 0]])
    time, weight = np.log([600.0, 100.0, 80.0]), np.log([0.1, 0.5, 1.0])
    mean = np.log([900.0, 300.0, 70.0])
    known = np.column_stack((time, mean, weight))
    found = indices(known, own, Form(power=0.5, trust=0.75, sizes=1.5))
    first = 0.75 * np.log(600) + 0.25 * np.log(3600) + 1.5 * np.log(4) - 0.5 * np.log(0.1)
    second = np.log(100) - 0.5 * np.log(0.5)  # without a limit
    np.testing.assert_allclose(found, [first, second, np.log(50)])  # no prediction above the limit
    found = indices(known, own, Form(power=0.5, trust=0.75, sizes=1.5, share=1.0))
    first = 0.75 * np.log(900) + 0.25 * np.log(3600) + 1.5 * np.log(4) - 0.5 * np.log(0.1)
    np.testing.assert_allclose(found, [first, np.log(300) - 0.5 * np.log(0.5), np.log(50)])
    area = indices(known, own[:1].repeat(3, 0), Form(0.0, 0.0, 1.0))
    np.testing.assert_allclose(area, np.log(3600.0 * 4.0))  # saf


def test_a_frozen_batch_plays_other_forms_as_their_predictor_would(folder, tmp_path) -> None:
    """The predictions are those of a play by the predictor's own index; where both agree, so does the schedule."""
    trace, own = crowded(seed=7), Predictor.load(folder).index
    task = PickJob(predict=str(folder), observer="request")
    frozen = Batch(trace, task, lanes=2)
    teacher = task.teacher(frozen, WINDOWS, INDEX)
    frozen.freeze(own)
    same = play(frozen, WINDOWS, None, teacher=teacher, keep=False)
    np.testing.assert_array_equal(same.score, frozen.source.policy_costs(WINDOWS, [INDEX])[:, 0])
    form = Form(0.5, 0.5, 1.5, 1.0)
    frozen.freeze(form)
    play(frozen, WINDOWS[:1], None, teacher=teacher[:1], keep=False)
    seen = frozen.arrays.predicted
    shown, count = seen.shown[0, : WINDOWS[0][1]], WINDOWS[0][1]
    known = shown[:, [OUTPUTS.index(name) for name in IN_INDEX]]
    np.testing.assert_array_equal(seen.priority[0, :count], indices(known, seen.own[0, :count], form))


# ---- what is chosen --------------------------------------------------------------------------------------------------


def costs_of(shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A base, (1, windows), and costs of all forms that are as many times as large."""
    rng = np.random.default_rng(1)
    base = np.exp(rng.normal(1, 1, (1, len(shares))))
    return base, base[:, :, None] * shares[None, :, None] * np.linspace(1.3, 1.0, len(FORMS))


def test_the_index_is_the_start_only_where_windows_show_it() -> None:
    rng = np.random.default_rng(2)
    noise = np.exp(rng.normal(0, 0.1, 200))
    better, form = _best_form("saf", *costs_of(0.9 * noise))
    assert (better["base"], better["start"], form) == ("saf", INDEX, FORMS[-1])
    assert better["geometric_high"] < 0
    assert better["arithmetic"] <= 0
    same, _ = _best_form("f2", *costs_of(0.999 * noise))
    assert (same["base"], same["start"]) == ("f2", "f2")
    base, costs = costs_of(0.9 * noise)
    costs[0, np.argmax(base)] *= 30  # better on most windows, far worse on the dearest one
    worse, _ = _best_form("saf", base, costs)
    assert worse["geometric"] < 0 < worse["arithmetic"]
    assert worse["start"] == "saf"


def test_what_begins_is_what_was_chosen_and_later_jobs_do_not_matter(tmp_path) -> None:
    trace, parts = crowded(), Split(((0, 400),), ((400, 500),))
    jobs = trace.jobs.copy()
    jobs.loc[500:, "run_time"] = 7.0  # what is neither for training nor for validation
    told = PickJob(predict="auto", observer="informed")
    for place, one in (("a", trace), ("again", trace), ("b", trace.replace(jobs=jobs))):
        config = SUM.replace(steps=1, loads=(1.0, 1.2))
        train(one, told, config, out=tmp_path / place, seed=5, parts=parts, init="imitate:chosen")
    facts = [json.loads((tmp_path / place / PREDICTOR / "agent.json").read_text()) for place in ("a", "b")]
    assert facts[0]["choice"] == facts[1]["choice"]
    assert facts[0]["use"] == facts[1]["use"]
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "again")
    begun = json.loads((tmp_path / "a" / "agent.json").read_text())
    assert begun["task"]["base"] == facts[0]["choice"]["base"]
    assert begun["metrics"]["best_iteration"] == 0
    source = EpisodeSource(trace, dataclasses.replace(told, predict=str(tmp_path / "a" / PREDICTOR)))
    from tracekit.sim.agents import Agent, evaluate

    agent = Agent.load(tmp_path / "a")
    found = evaluate(agent, trace, [(500, 90)], policies=("fcfs",)).score
    np.testing.assert_array_equal(found, source.policy_costs([(500, 90)], [facts[0]["choice"]["start"]])[:, 0])


# ---- what is kept ----------------------------------------------------------------------------------------------------


def test_a_gain_that_is_not_shown_is_not_kept(tmp_path) -> None:
    """Small steps from a good start: some validation score is below the start's by chance, which is not enough."""
    config = SUM.replace(steps=6000, learning_rate=1e-3, validation_windows=8, validate_every=1)
    kept = {}
    for sure in (False, True):
        agent = train(
            busy(), PickJob(), config.replace(sure=sure), out=tmp_path / str(sure), seed=2, init="imitate:saf"
        )
        kept[sure] = agent.facts["metrics"]
    assert kept[False]["best_iteration"] > 0  # the smallest of many scores
    assert kept[True]["best_iteration"] == 0
    assert "the starting weights are kept" in kept[True]["note"]
    assert kept[True]["validation_score"] == kept[True]["start_score"] == kept[False]["start_score"]


def test_a_gain_that_is_shown_is_kept_also_after_an_interruption(tmp_path) -> None:
    trace = busy(1500, procs=8, seed=3)
    config = Config(
        algorithm="grpo",
        plays=4,
        steps=6_000,
        windows=16,
        jobs=64,
        minibatch=512,
        validate_every=2,
        validation_windows=16,
        threads=1,
        sure=True,
    )
    train(trace, PickJob(backfill="none"), config, out=tmp_path / "a", seed=1)

    def kill(status) -> None:
        if status.iteration == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(trace, PickJob(backfill="none"), config, out=tmp_path / "b", seed=1, report=kill)
    agent = train(trace, PickJob(backfill="none"), config, out=tmp_path / "b", seed=1, resume=True)
    assert agent.facts["metrics"]["best_iteration"] > 0
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


# ---- the search ------------------------------------------------------------------------------------------------------


def test_a_search_that_finds_nothing_better_keeps_what_it_began_with(monkeypatch) -> None:
    batch = Batch(busy(), PickJob(observer="request,size,wait"), lanes=4)
    windows = [(0, 60), (60, 60), (120, 60), (180, 60)]
    config = TINY.replace(search_rounds=2, search_tries=4)
    monkeypatch.setattr("tracekit.sim.agents.search._shown", lambda costs, base: False)
    weights, told = search(batch, lambda number: windows, config, seed=1)
    levels = {
        _level(play(batch, windows, linear(w), keep=False).score): w for _, w in _beginnings(batch, lambda w: 0.0)
    }
    np.testing.assert_array_equal(weights, levels[min(levels)])
    assert told["gain"] == 0


def test_a_gain_of_a_search_is_shown_by_most_windows_and_by_the_mean() -> None:
    rng = np.random.default_rng(3)
    base = np.exp(rng.normal(2, 1, 60))
    assert _shown(0.9 * base, base)
    assert not _shown(base * np.exp(rng.normal(0, 0.2, 60) + 0.02), base)
    dear = 0.9 * base
    dear[np.argmax(base)] *= 20
    assert not _shown(dear, base)
    assert _level(np.array([1.0, 9.0])) > _level(np.array([3.0, 3.0]))  # the dear window counts


def test_searches_begin_also_with_ages(tmp_path) -> None:
    batch = Batch(busy(), PickJob(observer="request,wait"), lanes=2)
    tried = [tuple(weights) for _, weights in _beginnings(batch, lambda weights: float(weights[0]))]
    assert (-1.0, 0.3) in tried  # the shortest first, and of these who has waited
    agent = train(
        busy(),
        PickJob(),
        TINY.replace(steps=1, hidden=(), search_rounds=1, search_tries=4, search_windows=4),
        out=tmp_path / "a",
        init="search",
    )
    assert "imitation_agreement" not in read_log(tmp_path / "a")[0]  # the sum itself
    assert np.abs(agent.flat).max() > 0
