from __future__ import annotations

import numpy as np
import pytest

from tracekit import Trace


def first(trace: Trace, column: str, share: float, change) -> Trace:
    """Change the first rows of a column."""
    values = trace.column(column).copy()
    count = round(share * len(trace))
    values[:count] = change(values[:count])
    return trace.assign({column: values})


@pytest.mark.parametrize(
    ("rule", "column", "change"),
    [
        ("integers", "req_nodes", lambda v: v + 0.5),
        ("at_least_one", "req_nodes", lambda v: 0 * v),
        ("fits_machine", "req_nodes", lambda v: 0 * v + 65),
        ("run_within_limit", "run_time", lambda v: 0 * v + 1e6),
        ("cpu_per_node", "req_procs", lambda v: v + 1),
        ("times", "run_time", lambda v: -1 - v),
    ],
)
def test_each_rule_counts_the_rows_that_break_it(compare, real: Trace, rule: str, column: str, change) -> None:
    found = compare("validity", real, first(real, column, 0.25, change))
    assert found[f"validity.{rule}"].value == pytest.approx(0.25, abs=1e-3)
    assert found[f"validity.{rule}"].real == 0
    assert found["validity.share"].value == pytest.approx(0.25, abs=1e-3)


def test_unknown_queues_break_a_rule_and_unknown_users_do_not(compare, real: Trace, damage) -> None:
    strange = real.assign({"queue": np.where(np.arange(len(real)) % 2, "short", "secret")})
    assert compare("validity", real, strange)["validity.known_labels"].value == pytest.approx(0.5, abs=1e-3)
    assert compare("validity", real, damage["names"](real))["validity.share"].value == 0


def test_overrun_is_allowed_as_far_as_real_jobs_overrun(compare, real: Trace) -> None:
    loose = first(real, "run_time", 0.01, lambda v: 0 * v + real.column("req_time")[: len(v)] + 60)
    found = compare("validity", loose, first(loose, "run_time", 0.02, lambda v: v + 30))["validity.run_within_limit"]
    assert 0 < found.value <= 0.02
    assert "60 s" in found.note
    strict = first(real, "run_time", 0.0005, lambda v: v + 1e5)  # too few to be a habit
    assert compare("validity", strict, strict)["validity.run_within_limit"].value > 0


def test_rules_that_do_not_apply_say_why(compare, toy: Trace) -> None:
    found = compare("validity", toy, toy.replace(jobs=toy.jobs.drop(columns="req_time")))
    assert np.isnan(found["validity.cpu_per_node"].value)
    assert "no fixed number" in found["validity.cpu_per_node"].note
    assert found["validity.run_within_limit"].note == "the trace has no limits"


def test_jobs_without_a_submit_time_are_counted(compare, real: Trace) -> None:
    submit = real.column("submit_time").copy()
    submit[:10] = np.nan
    found = compare("validity", real, real.assign({"submit_time": submit}))
    assert found["validity.times"].value == pytest.approx(10 / len(real))


def test_halved_gaps_double_the_load(compare, real: Trace, damage) -> None:
    found = compare("offered_load", real, damage["load"](real))
    assert found["offered_load"].real == pytest.approx(real.offered_load())
    assert found["offered_load"].value == pytest.approx(2 * found["offered_load"].real)
    assert found["load.jobs_per_hour"].value == pytest.approx(2 * found["load.jobs_per_hour"].real)
    assert found["load.mean_work"].value == pytest.approx(found["load.mean_work"].real)


def test_unknown_machine_is_assumed_and_said(compare, real: Trace) -> None:
    unknown = real.replace(machine=real.machine.replace(nodes=None))
    found = compare("offered_load", unknown, unknown)["offered_load"]
    assert found.value == found.real
    assert "machine size unknown: taken as the largest real job, 32 nodes" in found.note
    busy = unknown.assign({"submit_time": unknown.column("submit_time") / 10})
    found = compare("offered_load", busy, unknown)["offered_load"]
    assert found.real == pytest.approx(0.7, abs=0.01)
    assert found.value == pytest.approx(0.07, abs=0.01)


@pytest.mark.parametrize("name", ["copy", "order", "users", "names"])
def test_sound_rows_stay_sound(compare, real: Trace, damage, name: str) -> None:
    found = compare("validity", real, damage[name](real))
    assert all(score.value == 0 for score in found.values() if not np.isnan(score.value))
