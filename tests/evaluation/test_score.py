from __future__ import annotations

import json
import re

import numpy as np
import pytest
from conftest import make_trace
from shared_data import ROOT

import tracekit
from evaluation.base import FAMILIES, METRICS, Score
from evaluation.noise import Floor
from evaluation.score import Scores, score
from evaluation.view import WEEK, Blocks, halves, prepare
from tracekit import Trace
from tracekit.errors import TracekitError, UnknownName, UsageError

CONTRACT = (
    "ks.run_time",
    "ks.mean",
    "wasserstein.run_time",
    "tail.run_time",
    "tv.user",
    "correlation.mad_pearson",
    "correlation.mad_spearman",
    "association.mad",
    "c2st.auc",
    "c2st.window_auc",
    "acf1.interarrival",
    "acf1.run_time",
    "acf1.procs",
    "acf1.nodes",
    "user_repeat",
    "job_repeat",
    "hour_of_week.tv",
    "idc.60",
    "idc.86400",
    "hurst",
    "validity.share",
    "offered_load",
    "privacy.exact_copies",
    "privacy.dcr_ratio",
    "privacy.membership_auc",
    "privacy.user_linkage",
    "scheduling.kendall_tau",
    "scheduling.log_wait_w1",
    "scheduling.wait_ks",
)


@pytest.fixture(scope="module")
def busy(real: Trace) -> Trace:
    return real.replace(machine=real.machine.replace(nodes=48))


@pytest.fixture(scope="module")
def results(busy: Trace, damage) -> Scores:
    """Everything, once: each damaged trace against the real one, with a hold-out."""
    names = list(damage)
    return score(
        busy,
        [damage[name](busy) for name in names],
        names=["real", *names],
        quick=True,
        holdout=make_trace(7).replace(machine=busy.machine),
    )


def caught(results: Scores, name: str) -> set[str]:
    scored = next(s for s in results.synthetic if s.name == name)
    return {results.family[key] for key in scored.scores if results.within_noise(key, scored) is False}


@pytest.mark.parametrize(
    ("name", "families"),
    [
        ("copy", {"privacy"}),
        ("order", {"time", "privacy"}),  # its rows are copies still
        ("users", {"joint", "time", "privacy"}),  # which user runs what; which user is next
        ("load", {"load", "time", "scheduling", "privacy"}),  # time: keys in seconds; scheduling: at the raw load
    ],
)
def test_each_damage_is_caught_by_its_family_and_by_no_other(results: Scores, name: str, families: set[str]) -> None:
    assert caught(results, name) == families


def test_doubled_load_is_not_held_against_keys_without_seconds(results: Scores) -> None:
    scored = next(s for s in results.synthetic if s.name == "load")
    wrong = {key for key in scored.scores if results.within_noise(key, scored) is False}
    assert not {key for key in wrong if key.startswith(("acf", "user_repeat", "job_repeat", "scheduling.matched"))}


def test_renamed_users_are_caught_by_names_only(results: Scores) -> None:
    scored = next(s for s in results.synthetic if s.name == "names")
    wrong = {key for key in scored.scores if results.within_noise(key, scored) is False}
    assert {key for key in wrong if not key.startswith("privacy")} == {"tv.user"}


def test_fresh_weeks_of_the_same_users_are_no_worse_than_noise(busy: Trace) -> None:
    fresh = make_trace(21).replace(machine=busy.machine)
    found = score(busy, fresh, quick=True, families=["marginal", "time", "load", "validity"], baselines=False)
    outside = [key for key in found.keys_of() if found.within_noise(key, found.synthetic[0]) is False]
    assert len(outside) <= 0.15 * len(found.keys_of()), outside


def test_json_is_as_promised(results: Scores) -> None:
    plain = json.loads(json.dumps(results.to_dict(), allow_nan=False))
    assert set(plain["real"]) == {"name", "jobs", "values", "left_out"}
    assert plain["real"]["values"]["acf1.run_time"] > 0.4
    assert set(plain["noise_floor"]["ks.run_time"]) >= {"value", "low", "high"}
    for entry in plain["synthetic"]:
        assert set(entry) >= {"name", "jobs", "scores"}
        for key in CONTRACT:
            assert set(entry["scores"][key]) >= {"value", "real", "low", "high", "better", "note"}, key
        for key, found in entry["scores"].items():
            assert found["value"] is not None or found["note"], key
    assert [entry["name"] for entry in plain["baselines"]] == ["resample", "independent"]


def test_every_metric_is_described_and_every_key_documented(results: Scores) -> None:
    text = (ROOT / "docs" / "metrics.md").read_text()
    for name in METRICS.names():
        metric = METRICS.get(name)
        assert metric.__doc__
        assert metric.family in FAMILIES
        assert metric.unit
    documented = {re.sub(r"<\w+>", "*", key) for key in re.findall(r"`([a-z0-9_.<>]+)`", text)}
    for key in results.keys_of():
        head, _, tail = key.rpartition(".")
        assert key in documented or f"{head}.*" in documented, f"{key} ({tail}) is not in docs/metrics.md"


def test_the_same_seed_gives_the_same_numbers(real: Trace, damage) -> None:
    part, other = real.head(400), damage["order"](real.head(400))
    first, again = (score(part, other, quick=True, seed=3, holdout=part, baselines=False).to_dict() for _ in range(2))
    assert first == again
    third = score(part, other, quick=True, seed=4, families=["marginal"], baselines=False).to_dict()
    assert third["noise_floor"]["ks.run_time"] != first["noise_floor"]["ks.run_time"]
    assert third["noise_floor"]["ks.run_time"]["value"] == first["noise_floor"]["ks.run_time"]["value"]


def test_baselines_that_are_not_beaten_are_named(results: Scores) -> None:
    order = next(s for s in results.synthetic if s.name == "order")
    assert results.not_better_than("ks.run_time", order) == []
    floorless = results.synthetic[0]
    assert floorless.scores["ks.run_time"].value == 0
    independent = next(b for b in results.baselines if b.name == "independent")
    assert independent.scores["association.mad"].value > results.baselines[0].scores["association.mad"].value
    worse = Score(1.0)
    order.scores["tail.run_time"], kept = worse, order.scores["tail.run_time"]
    assert results.not_better_than("tail.run_time", order) == ["resample", "independent"]
    order.scores["tail.run_time"] = kept


def test_a_full_run_has_intervals(real: Trace, damage) -> None:
    part = real.head(1500)
    found = score(part, damage["order"](part), families=["marginal", "time"], baselines=False)
    for key in ("acf1.run_time", "ks.run_time", "c2st.window_auc"):
        assert found[key].low <= found[key].value <= found[key].high
    assert found[key].low < found[key].high


def test_there_is_no_averaged_quality_score(results: Scores) -> None:
    assert not {"score", "quality", "overall", "total"} & set(results.to_dict())
    assert not [key for key in results.keys_of() if key in ("mean", "overall", "quality")]


def test_floor_judges_by_direction() -> None:
    floor = Floor(0.5, 0.4, 0.6)
    assert [floor.holds(Score(v, "lower")) for v in (0.1, 0.5, 0.7)] == [True, True, False]
    assert [floor.holds(Score(v, "higher")) for v in (0.1, 0.5, 0.7)] == [False, True, True]
    assert [floor.holds(Score(v, "real")) for v in (0.1, 0.5, 0.7)] == [False, True, False]
    assert floor.holds(Score(float("nan"))) is None


def test_weeks_are_laid_end_to_end(real: Trace) -> None:
    view = prepare(real, [real], ["a", "b"])[0]
    blocks, odd, even, how = halves(view)
    assert how == "odd against even weeks of 15"  # the last one is not a whole week
    assert len(odd) + len(even) == 15
    one, two = blocks.lay(odd), blocks.lay(even)
    assert len(one) + len(two) == len(view)
    assert (np.diff(one.submit) >= 0).all()
    assert one.span < 9 * WEEK
    assert one.hour is not None
    again = ((one.submit // 3600) % 168).astype(int)  # 1 January 2024 was a Monday
    assert (again == one.hour).all()


def test_short_traces_are_cut_in_halves(real: Trace) -> None:
    view = prepare(real, [real.head(300)], ["a", "b"])[1]
    blocks, first, second, how = halves(view)
    assert how.startswith("first against second half")
    assert blocks.lay(first).submit.max() <= view.submit[blocks.edges[second[0]]]


def test_blocks_keep_every_job(real: Trace) -> None:
    view = prepare(real, [real], ["a", "b"])[0]
    blocks = Blocks.cut(view, WEEK)
    assert blocks.edges[0] == 0
    assert blocks.edges[-1] == len(view)


def test_odd_traces_are_scored_all_the_same(real: Trace, toy: Trace) -> None:
    submit = real.head(60).column("submit_time")
    instant = real.head(60).assign({"submit_time": np.zeros(60)})
    lonely = real.head(60).assign({"submit_time": np.where(np.arange(60) < 57, submit, submit + 1e7 * np.arange(60))})
    for one, other in ((instant, toy), (toy, instant), (lonely, instant)):
        found = score(one, [other, one], quick=True, holdout=toy, baselines=False).to_dict()
        for entry in found["synthetic"]:
            assert all(part["value"] is not None or part["note"] for part in entry["scores"].values())
    assert score(instant, toy, quick=True, families=["load"]).switches["noise_floor"].startswith("none")


def test_usage_errors(real: Trace) -> None:
    with pytest.raises(UnknownName, match="did you mean poster"):
        score(real, real, preset="postr")
    with pytest.raises(UnknownName, match="did you mean time"):
        score(real, real, families=["tme"])
    with pytest.raises(UsageError, match="nothing to score"):
        score(real, [])
    with pytest.raises(TracekitError, match="at least 10 jobs"):
        score(real, real.head(5))


def test_score_is_reached_from_the_front_door() -> None:
    assert tracekit.score is score
