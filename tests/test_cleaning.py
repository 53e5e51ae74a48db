from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tracekit
from tracekit import Machine, Trace, cleaning
from tracekit.errors import FormatError, UnknownName
from tracekit.validation import CHECKS, schedulable, usable, validate

GOOD: dict[str, object] = {
    "job_id": 1, "submit_time": 0.0, "wait_time": 1.0, "run_time": 10.0, "req_time": 20.0, "req_procs": 2.0,
    "req_nodes": 1.0, "req_mem": 5.0, "mean_watts": 300.0, "cpu_bound": 0.5, "status": "completed",
}  # fmt: skip

#: One row that breaks the check, put between two good ones.
DAMAGE: dict[str, dict[str, object]] = {
    "missing-submit-time": {"submit_time": np.nan},
    "negative-submit-time": {"submit_time": -5.0},
    "unsorted": {"submit_time": -0.0},
    "duplicate-ids": {"job_id": 1},
    "missing-run-time": {"run_time": np.nan},
    "negative-run-time": {"run_time": -3.0},
    "zero-run-time": {"run_time": 0.0},
    "missing-procs": {"req_procs": np.nan},
    "zero-procs": {"req_procs": 0.0},
    "fractional-counts": {"req_nodes": 1.5},
    "negative-counts": {"req_nodes": -1.0},
    "larger-than-machine": {"req_procs": 65.0},
    "run-beyond-limit": {"run_time": 21.0},
    "nonpositive-limit": {"req_time": 0.0},
    "negative-wait": {"wait_time": -2.0},
    "negative-memory": {"req_mem": -2.0},
    "negative-watts": {"mean_watts": -1.0},
    "too-many-watts": {"mean_watts": 1e5 + 1},
    "cpu-bound-not-a-share": {"cpu_bound": 1.01},
    "cancelled-before-start": {"status": "cancelled", "run_time": 0.0},
    "sizes-against-field-21": {"x_field21": "frontier:excl:4x112"},
    "infinite-values": {"req_mem": np.inf},
}


def with_damage(change: dict[str, object]) -> Trace:
    rows = [GOOD | {"job_id": 1, "submit_time": 10.0}, GOOD | {"job_id": 2, "submit_time": 20.0} | change,
            GOOD | {"job_id": 3, "submit_time": 30.0}]  # fmt: skip
    return Trace(pd.DataFrame(rows), Machine(procs=64))


def test_every_check_has_its_damage() -> None:
    assert set(DAMAGE) == {check.name for check in CHECKS}


def test_a_sound_trace_has_no_problems(toy: Trace) -> None:
    assert validate(toy) == []
    assert usable(toy)


@pytest.mark.parametrize("name", DAMAGE)
def test_each_damage_is_found_and_mended_by_its_rule(name: str) -> None:
    trace = with_damage(DAMAGE[name])
    problems = {problem.rule: problem for problem in validate(trace)}
    assert problems[name].count == 1
    assert problems[name].first_rows == [1]
    cleaned, counts = cleaning.clean(trace, [problems[name].fix])
    assert counts == {problems[name].fix: 1}
    assert name not in {problem.rule for problem in validate(cleaned)}
    assert problems[name].fix in cleaned.history[-1]


def test_no_rule_applies_by_itself() -> None:
    trace = with_damage(DAMAGE["zero-run-time"])
    assert cleaning.clean(trace, [])[0] is trace
    same, counts = cleaning.clean(trace, ["drop-duplicate-ids"])
    assert counts == {"drop-duplicate-ids": 0}
    assert same.jobs is trace.jobs


def test_usable_means_half_can_be_scheduled() -> None:
    assert usable(with_damage(DAMAGE["zero-procs"]))
    assert schedulable(with_damage(DAMAGE["zero-procs"])).tolist() == [True, False, True]
    rows = pd.DataFrame([GOOD | {"job_id": i, "req_procs": -1.0} for i in range(3)])
    assert not usable(Trace(rows))


def test_recipes_repeat_a_cleaning(tmp_path, toy: Trace) -> None:  # type: ignore[no-untyped-def]
    _, counts = cleaning.clean(toy, ["sort-by-submit", "drop-zero-run-time"])
    path = tmp_path / "r.toml"
    path.write_text(cleaning.recipe_text(counts, source="toy"))
    assert cleaning.read_recipe(path) == ["sort-by-submit", "drop-zero-run-time"]
    path.write_text("rules = 5\n")
    with pytest.raises(FormatError, match="a recipe needs"):
        cleaning.read_recipe(path)
    path.write_text("rules = [")
    with pytest.raises(FormatError, match="TOML"):
        cleaning.read_recipe(path)


def test_unknown_rules_are_refused_before_any_work(toy: Trace) -> None:
    with pytest.raises(UnknownName, match="drop-zero-run-time"):
        toy.clean(["drop-zero-runtime"])


FRONTIER = """\
; Computer: Frontier
; MaxNodes: 9408
1 0 5 100 2500 -1 -1 2500 200 -1 1 1 1 -1 1 -1 -1 -1 20000 -1 frontier:excl:2500x112
2 9 5 100 589824 -1 -1 589824 200 -1 1 1 1 -1 1 -1 -1 -1 -1 150 frontier:excl:5266x112
3 9 5 100 64 -1 -1 64 200 -1 1 1 1 -1 1 -1 -1 -1 8 -1 frontier:shared
"""


def test_nodes_from_field_21(tmp_path: Path) -> None:
    """Field 5 is nodes in the first row and cores in the second; the third states no nodes."""
    (tmp_path / "frontier.swf").write_text(FRONTIER)
    trace = tracekit.read(tmp_path / "frontier.swf")
    assert {problem.rule: problem.first_rows for problem in validate(trace)}["sizes-against-field-21"] == [1]
    cleaned, counts = cleaning.clean(trace, ["nodes-from-field-21"])
    assert counts == {"nodes-from-field-21": 2}
    assert cleaned.machine.unit == "nodes"
    np.testing.assert_array_equal(cleaned.sizes(), [2500, 5266, np.nan])
    np.testing.assert_array_equal(cleaned.column("alloc_gpus"), [20000, np.nan, 8])
    tracekit.write(cleaned, tmp_path / "clean.swf")
    back = tracekit.read(tmp_path / "clean.swf")
    np.testing.assert_array_equal(back.sizes(), [2500, 5266, np.nan])
    assert back.machine.size() == 9408
    assert cleaning.clean(back, ["nodes-from-field-21"])[1] == {"nodes-from-field-21": 1}
