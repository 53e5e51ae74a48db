"""What one user, or one job, can change in the exact statistics of model private, before any noise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.private import statistics as exact
from generators.private.domain import GAPS, LIMITS, RUNS, STATES, Domain
from generators.private.statistics import LENGTH, Facts
from tracekit.machine import Machine
from tracekit.trace import Trace

MACHINE = Machine(procs=128, epoch=1_704_067_200.0, timezone="Europe/Berlin")
DOMAIN = Domain.of(MACHINE)
FEW = [None, -1.0, 0.0, 59.0, 60.0, 3600.0, 90_000.0, 1e9]
job = st.tuples(
    st.sampled_from(["a", "b", "c", "d", None]),
    st.integers(0, 3_000_000),
    st.sampled_from([None, 0.0, 1.0, 3.0, 64.0, 128.0, 5000.0]),
    st.sampled_from(FEW),
    st.sampled_from(FEW),
)
traces = st.lists(job, min_size=1, max_size=40)


def trace_of(rows: list[tuple]) -> Trace:
    table = pd.DataFrame(rows, columns=["user", "submit_time", "req_procs", "run_time", "req_time"])
    table["user"] = table["user"].astype(object)
    for name in ("submit_time", "req_procs", "run_time", "req_time"):
        table[name] = table[name].astype(float)
    return Trace(table.assign(job_id=np.arange(len(table))), MACHINE)


def tables(facts: Facts, cap: float) -> dict[str, np.ndarray]:
    cell = np.ravel_multi_index((facts.limit % 3, facts.run % 4, facts.size % 3), (3, 4, 3))
    return {
        "limit": exact.table(facts.owner, facts.limit, len(LIMITS) + 1, cap),
        "run": exact.table(facts.owner, facts.run, len(RUNS), cap),
        "size": exact.table(facts.owner, facts.size, len(DOMAIN.sizes), cap),
        "joint": exact.table(facts.owner, cell, 36, cap),
        "week": exact.table(facts.owner, facts.block, 12, cap),
        "pairs": exact.pair_table(facts, cap),
        "load": exact.clipped_load(facts, 128 * 1e6, 0.01),
        "activity": exact.activity(facts) * LENGTH,
    }


def changes(rows: list[tuple], fewer: list[tuple], unit: str, cap: float) -> dict[str, float]:
    """Return the L2 norm of the change of every statistic, in units of LENGTH."""
    with_, without = (tables(Facts.of(trace_of(r), DOMAIN, unit), cap) for r in (rows, fewer))
    return {name: float(np.sqrt(((with_[name] - without[name]).astype(float) ** 2).sum())) / LENGTH for name in with_}


@settings(max_examples=120, deadline=None)
@given(traces, st.sampled_from(["a", "b"]), st.sampled_from([1.0, 2.5, 7.0, 1000.0]))
def test_removing_a_user_changes_every_statistic_by_at_most_its_sensitivity(rows, user, cap) -> None:
    kept = [row for row in rows if row[0] != user] or [(None, 0, 1.0, 1.0, 1.0)]
    for name, change in changes(rows, kept, "user", cap).items():
        assert change <= 1.0, name


@settings(max_examples=120, deadline=None)
@given(traces, st.integers(0, 39))
def test_removing_a_job_changes_every_statistic_by_at_most_its_sensitivity(rows, number) -> None:
    number %= len(rows)
    kept = rows[:number] + rows[number + 1 :] or [(None, 0, 1.0, 1.0, 1.0)]
    most = {"pairs": exact.PAIRS_BY_JOB, "activity": exact.CLASSES_BY_JOB}
    for name, change in changes(rows, kept, "job", 1.0).items():
        assert change <= most.get(name, 1.0) + 1e-12, name


@settings(max_examples=80, deadline=None)
@given(traces, st.sampled_from(["a", "b"]), st.sampled_from(["user", "job"]))
def test_one_unit_moves_the_ends_of_the_log_by_one_rank(rows, user, unit) -> None:
    times = np.array([0.0, 10.0, 1e5, 1e6, 5e6])
    kept = [row for row in rows if row[0] != user] if unit == "user" else rows[1:]
    before, after = (Facts.of(trace_of(r or [(None, 0, 1.0, 1.0, 1.0)]), DOMAIN, unit) for r in (rows, kept))
    for count in (exact.ends, exact.begins):
        assert np.abs(count(before, times) - count(after, times)).max() <= 1


def test_the_bounds_are_reached_and_no_more() -> None:
    # three jobs of one user, the middle one of another kind: its removal takes two pairs and adds one
    rows = [("a", t, size, 60.0, 60.0) for t, size in ((0, 1.0), (1, 2.0), (2, 1.0))]
    change = changes(rows, [rows[0], rows[2]], "job", 1.0)
    assert change["pairs"] == pytest.approx(exact.PAIRS_BY_JOB)
    assert changes(rows[:2], rows[:1], "job", 1.0)["activity"] == pytest.approx(exact.CLASSES_BY_JOB)
    many = [("a", t, 1.0, 60.0, 60.0) for t in range(500)]
    assert changes(many, [(None, 0, 1.0, 1.0, 1.0)], "user", 10.0)["limit"] == 1.0


def test_parts_are_at_most_one_length_long() -> None:
    rng = np.random.default_rng(1)
    who, where = rng.integers(0, 60, 20_000), rng.integers(0, 29, 20_000) ** 2 % 29
    for cap in (1.0, 3.3, 50.0, 1e9):
        unit, _, value = exact.parts(who, where, 29, cap)
        assert np.bincount(unit, weights=value.astype(float) ** 2).max() <= float(LENGTH) ** 2
        assert (value >= 0).all()


def test_jobs_that_cannot_be_used_change_nothing() -> None:
    good = [("a", 5, 2.0, 60.0, 120.0)]
    bad = [(None, 6, 2.0, 60.0, 60.0), ("b", 7, None, 60.0, 60.0), ("c", 8, 2.0, None, 60.0), ("d", 9, 0.0, 9.0, 9.0)]
    for name, change in changes(good + bad, good, "user", 5.0).items():
        assert change == 0, name


def test_bins_of_gaps_and_states() -> None:
    rows = [("a", t, 4.0, run, 60.0) for t, run in ((0, 10.0), (4, 11.0), (30, 50.0), (9000, 50.0))]
    rows.append(("a", 9001, 8.0, 50.0, 60.0))
    pair = Facts.of(trace_of(rows), DOMAIN, "user").pair
    assert pair.tolist() == [-1, 0 * STATES + 0, 1 * STATES + 1, len(GAPS) * STATES + 0, 0 * STATES + 2]
