"""From the tidy table to verdicts: made tables whose outcome is known beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evaluation.base import Score
from evaluation.experiment.build import GeneratorSpec
from evaluation.experiment.comparisons import sensitivity, verdicts, within_noise
from evaluation.experiment.grid import Plan, from_dict
from evaluation.experiment.results import table_of
from evaluation.experiment.uses import Use, across, conclusion, headline, mark, uses_of
from evaluation.experiment.verdict import Verdict, failed
from evaluation.noise import Floor

AGENTS = {"learner": "pick-heuristic", "seeds": 2}
PLAN = from_dict({"models": {"names": ["good", "bad", "gone"], "samples": 2, "baselines": []}, "agents": AGENTS})
WINDOWS = 12


def rows(arm: str, model: str, factor: float, samples: int = 2, seeds: int = 2) -> list[dict[str, Any]]:
    """Agents whose slowdown is ``factor`` times 2 + window, seed 1 a little higher."""
    one = {"kind": "agent", "arm": arm, "model": model, "learner": "pick-heuristic", "load": "real", "key": "mean_bsld"}
    return [
        {**one, "seed": s if model else None, "agent_seed": a, "window": w, "value": factor * (2 + w) * (1 + a / 100)}
        for s in range(samples)
        for a in range(seeds)
        for w in range(WINDOWS)
    ]


def found(*parts: list[dict[str, Any]], plan: Plan = PLAN, failures: tuple[dict[str, str], ...] = ()) -> dict[str, Any]:
    specs = [GeneratorSpec(name) for name in plan.model_names()]
    return verdicts(table_of([row for part in parts for row in part]), plan, specs, uses_of(plan), failures, "real")[0]


def test_known_ratios_come_out() -> None:
    gone = {"arm": "model", "model": "gone", "learner": "", "task": "fit gone", "reason": "no luck"}
    out = found(
        rows("real", "", 1.0, samples=1),
        rows("model", "good", 1.001),
        rows("model", "bad", 1.5),
        rows("untrained", "", 3.0, samples=1),
        rows("control", "wrong-limits", 1.3),
        failures=(gone,),
    )
    good, bad, lost = out["verdicts"]
    assert (good["verdict"], bad["verdict"], lost["verdict"]) == ("equivalent", "worse", "failed")
    assert bad["difference"] == pytest.approx(0.5)
    assert bad["by_load"][0]["difference"] == pytest.approx(0.5)
    assert lost["sentence"] == "failed: no luck"
    assert out["sensitivity"]["sensitive"]
    assert out["arms"][0]["difference"] == pytest.approx(2.0)


def test_a_load_may_be_written_in_several_ways() -> None:
    plan = from_dict(
        {"models": {"names": ["good"], "baselines": []}, "windows": {"loads": ["0.90", "0.9"]}, "agents": AGENTS}
    )
    parts = [rows("real", "", 1.0, samples=1), rows("model", "good", 1.001)]
    out = found(*([{**row, "load": "0.9"} for row in part] for part in parts), plan=plan)
    assert [part["load"] for part in out["verdicts"][0]["by_load"]] == ["0.9"]


def test_a_sample_that_lacks_an_agent_is_left_out_and_counted() -> None:
    broken = [row for row in rows("model", "good", 1.0) if not (row["seed"] == 1 and row["agent_seed"] == 1)]
    out = found(rows("real", "", 1.0, samples=1), broken)
    good = out["verdicts"][0]
    assert good["samples"] == 1
    assert good["samples_lost"] == 1
    assert "1 of its samples failed" in good["sentence"]


def test_without_agents_of_real_jobs_there_is_no_verdict() -> None:
    reason = {"arm": "real", "model": "", "learner": "", "task": "train real 0", "reason": "diverged"}
    out = found(rows("model", "good", 1.0), failures=(reason,))
    assert {one["sentence"] for one in out["verdicts"]} == {"failed: diverged"}
    assert out["sensitivity"]["sensitive"] is None


def test_loads_are_averaged_within_a_window() -> None:
    plan = from_dict(
        {
            "models": {"names": ["good"], "samples": 1, "baselines": []},
            "windows": {"loads": ["real", "0.9"]},
            "agents": AGENTS,
        }
    )

    def at(load: str, part: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "load": load} for row in part]

    out = found(
        at("real", rows("real", "", 1.0, 1)),
        at("0.9", rows("real", "", 1.0, 1)),
        at("real", rows("model", "good", 1.0, 1)),
        at("0.9", rows("model", "good", 1.21, 1)),
        plan=plan,
    )
    good = out["verdicts"][0]
    assert good["difference"] == pytest.approx(0.1)  # the geometric mean of 1 and 1.21
    assert [part["difference"] for part in good["by_load"]] == pytest.approx([0.0, 0.21])


def test_an_experiment_that_notices_nothing_says_so() -> None:
    use = Use("pick-heuristic", "pick-heuristic", "choosing a heuristic", "mean_bsld", 0.1, "wrong-limits")
    harmless = Verdict("untrained", "equivalent", "", 0.01, -0.02, 0.03)
    random = [{"policy": "random", "difference": 0.5, "low": 0.3, "high": 0.8}]
    said = sensitivity(use, Verdict("wrong-limits", "equivalent", "", 0.02, -0.01, 0.05), harmless, random)
    assert said["sensitive"] is False  # that random order is noticed says nothing about training data
    assert "higher load" in said["advice"]
    said = sensitivity(use, Verdict("wrong-limits", "undecided", "", 0.08, -0.01, 0.2), harmless, [])
    assert said["sensitive"] is False
    assert "more samples" in said["advice"]
    said = sensitivity(use, Verdict("wrong-limits", "worse", "", 0.5, 0.3, 0.8), harmless, random)
    assert said["sensitive"] is True
    assert sensitivity(use, failed("wrong-limits", "x"), failed("untrained", "x"), [])["sensitive"] is None


def test_the_sentence_says_what_it_does_not_know() -> None:
    plan = from_dict({"models": {"names": ["good"], "samples": 1, "baselines": []}, "agents": AGENTS})
    out = found(rows("real", "", 1.0, 1, seeds=1), rows("model", "good", 1.0, 1), plan=plan)
    said = out["verdicts"][0]["sentence"]
    assert "1 of the 2 agents to compare with failed; one agent a trace: others may differ; one sample" in said
    noticed = rows("control", "wrong-limits", 1.3)
    plain = found(rows("real", "", 1.0, 1), rows("model", "good", 1.0), noticed)["verdicts"][0]
    assert plain["sentence"].endswith("+0.0 % [+0.0 %, +0.0 %]")


def test_what_learners_note_about_their_agents_is_said() -> None:
    noted = [{**row, "note": "slept"} for row in rows("real", "", 1.0, 1)]
    some = [{**row, "note": "slept" if row["agent_seed"] else ""} for row in rows("model", "good", 1.0)]
    said = found(noted, some)["verdicts"][0]["sentence"]
    assert said.endswith("(2 of its agents: slept; the agents to compare with: slept)")


def test_an_equivalence_that_means_little_says_so_itself() -> None:
    parts = [rows("real", "", 1.0, 1), rows("model", "good", 1.0), rows("model", "bad", 1.5)]
    out = found(*parts, rows("control", "wrong-limits", 1.01))
    good, bad, _ = out["verdicts"]
    assert good["verdict"] == "equivalent"
    assert good["sensitive"] is False
    assert "cannot tell" in good["sentence"]
    assert "noticed" not in bad["sentence"]
    assert "good:" not in out["conclusion"]  # an equivalence that means nothing is not repeated
    assert "bad: worse for choosing a heuristic (+50 %)" in out["conclusion"]
    assert "cannot tell good from bad" in out["conclusion"]


def test_an_order_of_undecided_differences_is_no_order() -> None:
    names = ["a", "b", "c", "d"]
    plan = from_dict({"models": {"names": names, "samples": 2, "baselines": []}, "agents": AGENTS})
    rng = np.random.default_rng(0)
    parts = [
        [{**row, "value": row["value"] * np.exp(rng.normal(0, 0.8))} for row in rows("model", name, 1.0)]
        for name in names
    ]
    scores = [
        {"kind": "score", "model": name, "seed": 0, "key": "ks.mean", "value": k / 10, "better": "lower"}
        for k, name in enumerate(names)
    ]
    out = found(rows("real", "", 1.0, 1), *parts, scores, plan=plan)
    undecided = sum(one["verdict"] == "undecided" for one in out["verdicts"])
    assert undecided > 1
    assert f"{undecided} of the 4 differences are undecided" in out["predictors_note"]


def test_scores_are_counted_against_the_noise_floor() -> None:
    scores = {"ks.run_time": Score(0.1), "ks.procs": Score(0.3), "hurst": Score(0.7, "real", real=0.8)}
    floors = {key: Floor(0.15, 0.1, 0.2) for key in ("ks.run_time", "ks.procs", "ks.nodes")}
    assert within_noise(scores, floors) == {"ks": [1, 2]}


def test_no_wait_at_all_counts_as_a_second() -> None:
    plan = from_dict(
        {
            "models": {"names": ["good"], "samples": 1, "baselines": []},
            "verdict": {"metric": "mean_wait_s"},
            "agents": AGENTS,
        }
    )
    part = [{**row, "key": "mean_wait_s", "value": 0.0} for row in rows("real", "", 1.0, 1)]
    out = found(part, [{**row, "arm": "model", "model": "good", "seed": 0} for row in part], plan=plan)
    assert out["verdicts"][0]["difference"] == 0
    assert np.isfinite(out["verdicts"][0]["high"])


def test_forecasts_and_predictions_are_judged_at_the_real_load_only() -> None:
    """At another load the forecast of a trace with half the load may be the better one."""
    learners = ["pick-heuristic", "forecast-waits", "predict-run-time"]
    plan = from_dict({"agents": {"learner": learners}, "windows": {"loads": ["real", "1.10"]}})
    assert {use.learner: use.loads for use in uses_of(plan)} == {
        "pick-heuristic": ("real", "1.1"),
        "forecast-waits": ("real",),
        "predict-run-time": ("real",),
    }
    plan = from_dict({"agents": {"learner": learners[1]}, "windows": {"loads": ["1.1"]}})
    assert uses_of(plan)[0].loads == ("1.1",)


def test_of_many_models_there_is_a_sentence_for_each_use() -> None:
    """Four models get a sentence each; of more, a reader looks for the use."""
    use = {"learner": "pick-heuristic", "use": "choosing a heuristic", "sensitive": True, "advice": ""}

    def said(count: int) -> str:
        rows = [
            {
                **use,
                "model": f"m{k}",
                "verdict": ("equivalent", "better", "worse", "undecided")[k % 4],
                "difference": k / 10,
            }
            for k in range(count)
        ]
        return conclusion({"verdicts": rows, "learners": [use]})

    assert said(3).startswith("m0: good enough for choosing a heuristic. m1: good enough")
    assert said(3).endswith("m2: worse for choosing a heuristic (+20 %).")
    assert said(5) == "For choosing a heuristic: good enough: m0, m1 and m4; worse: m2 (+20 %); undecided: m3."


def row(model: str, verdict: str, difference: float, use: str = "predicting run times", **more: Any) -> dict[str, Any]:
    low, high = difference - 0.03, difference + 0.03
    enough = verdict in ("equivalent", "better") and more.get("sensitive", True)
    found = {"model": model, "verdict": verdict, "difference": difference, "low": low, "high": high, "use": use}
    return (
        found
        | {"learner": use, "sensitive": True, "good_enough": enough, "at_most_worse": high, "copies": False}
        | more
    )


def headed(*rows: dict[str, Any]) -> str:
    uses = [{"use": use} for use in dict.fromkeys(one["use"] for one in rows)]
    return headline({"verdicts": rows, "learners": uses})


def test_the_headline_is_one_sentence_about_a_model_that_is_no_copy() -> None:
    good, bad = row("sessions", "equivalent", -0.02), row("lublin", "worse", 0.76)
    copied = row("user-resample", "equivalent", -0.05, copies=True)
    said = "sessions is good enough for predicting run times (at most 1.0 % worse than real jobs)"
    assert headed(copied, good, bad) == f"{said}; lublin is not (76 % worse)."
    assert [mark(one) for one in (copied, good, bad)] == ["copies", "good", "worse"]
    waits = row("sessions", "better", -0.2, use="forecasting waits")
    assert "for predicting run times and forecasting waits (at most 1.0 and 0.0 % worse" in headed(good, waits, bad)
    shown = row("sessions", "undecided", -0.041, high=0.008, at_most_worse=0.008, good_enough=True)
    assert "at most 0.8 % worse" in headed(shown)
    assert mark(shown) == "good"


def test_a_headline_without_a_good_model_says_what_was_found() -> None:
    copied = row("user-resample", "equivalent", -0.05, copies=True)
    said = headed(copied, row("a", "worse", 0.5), row("b", "worse", 0.2))
    assert said.startswith("No model is good enough: b comes nearest, 20.0 % worse than real jobs")
    assert "user-resample, which copies real jobs" in said
    assert headed(row("a", "worse", 0.5)).startswith("a is not good enough: 50.0 % worse")
    assert headed(row("a", "undecided", 0.05)).startswith(
        "Undecided: for predicting run times, a is between 2.0 % worse"
    )
    blind = row("a", "equivalent", 0.0, sensitive=False)
    assert mark(blind) == "blind"
    assert "cannot tell" in headed(blind)
    assert headed(row("a", "failed", 0.0)) == "Every model failed."
    assert headed(copied) == "Nothing but copies of real jobs is good enough for a use: user-resample."


def test_one_table_has_all_verdicts() -> None:
    waits = "forecasting waits"
    verdicts = [row("a", "equivalent", 0.01), row("b", "worse", 1.19), row("b", "undecided", 0.02, use=waits)]
    baselines = [row("i", "equivalent", 0.0), row("i", "equivalent", 0.0, use=waits, sensitive=False)]
    uses = [{"use": use, "learner": use} for use in ("predicting run times", waits)]
    heads, rows_ = across({"verdicts": verdicts, "baselines": baselines, "learners": uses})
    assert heads == ["trace", "predicting run times", waits]
    assert rows_ == [
        ["a", "✓ at most 4.0 % worse", "–"],
        ["b", "▼ 119.0 % worse", "? [−1.0 %, +5.0 %]"],
        ["i (baseline)", "= at most 3.0 % worse", "– cannot tell"],
    ]


def test_a_test_that_cannot_tell_says_what_may() -> None:
    blind = row("a", "equivalent", 0.0, sensitive=False)
    seen = row("a", "worse", 0.3, use="forecasting waits")
    use = {"use": "choosing a heuristic", "learner": "pick-heuristic", "sensitive": False, "may_tell": "a higher load"}
    said = headline({"verdicts": [blind], "learners": [use]})
    assert said.endswith("What may tell: a higher load; or another use (--learner predict-run-time).")
    both = headline({"verdicts": [blind, seen], "learners": [use, {"use": "forecasting waits", "sensitive": True}]})
    assert both.endswith("choosing a heuristic this test cannot tell good from bad. What may tell: a higher load.")
    lost = headline({"verdicts": [blind], "learners": [use | {"sensitive": None}]})
    assert "damaged jobs came to nothing for choosing a heuristic" in lost


@pytest.mark.parametrize(
    ("damaged", "noise", "helps"),
    [(1.0, 0.0, "windows at a higher load"), (1.3, 0.5, "more held-out windows or a higher load")],
)
def test_what_may_tell_goes_by_what_was_seen(damaged: float, noise: float, helps: str) -> None:
    rng = np.random.default_rng(3)
    control = [
        {**one, "value": one["value"] * np.exp(rng.normal(0, noise))}
        for one in rows("control", "wrong-limits", damaged)
    ]
    out = found(rows("real", "", 1.0, 1), rows("model", "good", 1.0), control)
    assert out["learners"][0]["may_tell"].endswith(helps)
    assert helps in out["headline"]


def test_damaged_jobs_among_the_models_do_not_head_the_page() -> None:
    damaged = row("half-load", "equivalent", 0.0, copies=True)
    assert headed(damaged, row("a", "worse", 0.5)) == (
        "a is not good enough: 50.0 % worse than real jobs for predicting run times."
    )


def test_good_enough_needs_a_test_that_notices_damaged_jobs() -> None:
    parts = [rows("real", "", 1.0, 1), rows("model", "good", 1.0)]
    assert found(*parts, rows("control", "wrong-limits", 1.3))["verdicts"][0]["good_enough"] is True
    assert found(*parts, rows("control", "wrong-limits", 1.01))["verdicts"][0]["good_enough"] is False
    assert found(*parts)["verdicts"][0]["good_enough"] is False  # the damaged jobs came to nothing


def test_a_trace_of_copies_is_known_as_such_wherever_it_was_made() -> None:
    score = {"kind": "score", "model": "good", "seed": 0, "key": "privacy.exact_copies", "value": 0.9, "better": "real"}
    parts = [rows("real", "", 1.0, 1), rows("model", "good", 1.0), rows("control", "wrong-limits", 1.3)]
    out = found(*parts, [{**score, "real": 0.01}])
    assert out["verdicts"][0]["copies"] is True
    assert "good is good enough" not in out["headline"]


def test_halves_of_the_real_jobs_make_worse_harder_to_say() -> None:
    half = [{**row, "arm": "half", "seed": side} for side in (0, 1) for row in rows("real", "", 1 + 0.1 * side, 1)]
    parts = [rows("real", "", 1.0, 1), rows("model", "good", 1.12), rows("control", "wrong-limits", 1.5)]
    plain, wide = (found(*parts, *more)["verdicts"][0] for more in ([], [half]))
    assert plain["real_parts_differ"] == 0
    assert wide["real_parts_differ"] == pytest.approx(np.expm1(np.log(1.1) / np.sqrt(2)), rel=0.02)  # less the seeds
    assert (plain["low"], plain["high"]) == (wide["low"], wide["high"])
    assert (plain["verdict"], wide["verdict"]) == ("worse", "undecided")
