"""Buying the statistics: every number that leaves the real trace is made here, with its noise and its cost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from generators.private import statistics as exact
from generators.private.domain import GAPS, LIMITS, RUNS, STATES, WEEKDAY_BLOCKS, WEEKEND_BLOCKS, Domain
from generators.private.estimate import COARSE, choose_cap, coarse, load_cap, marginals, number_of_jobs, number_of_users
from generators.private.noise import Mechanism
from generators.private.statistics import LENGTH, Facts
from generators.private.tables import Noisy, Released

Floats = NDArray[np.float64]

#: Shares of the budget. Tuned on KTH-SP2 and CTC-SP2.
SHARES = {
    "activity": 0.08,
    "end": 0.06,
    "begin": 0.06,
    "load": 0.12,
    "limit": 0.14,
    "run": 0.16,
    "size": 0.12,
    "joint": 0.10,
    "week": 0.07,
    "pairs": 0.09,
}
#: Times that the last job may have, in seconds since submit_time 0: from an hour to fifteen years, 1.5 % apart.
TIMES: Floats = 3600.0 * 1.015 ** np.arange(792.0)
#: The span is read where this share of the users (of the jobs, for unit job) is still to come, or has come already.
EDGE_USERS, EDGE_JOBS = 0.25, 0.02
#: For users, that part of the log is this share of the whole (KTH, CTC).
INNER = 0.92


def measure(
    facts: Facts, domain: Domain, mechanism: Mechanism, *, cap: float | None = None, span: float | None = None
) -> Released:
    """Buy every statistic; ``cap`` (jobs per user) and ``span`` (seconds) are public where they are given."""
    by_job = facts.unit == "job"
    wanted = dict(SHARES)
    if not domain.calendar:
        del wanted["week"]
    if span is not None:
        del wanted["end"], wanted["begin"]
    rho = {name: mechanism.rho * share / sum(wanted.values()) * (1 - 1e-8) for name, share in wanted.items()}

    counts, scale = mechanism.gaussian(
        "users by jobs per user",
        exact.activity(facts),
        exact.CLASSES_BY_JOB if by_job else 1.0,
        rho["activity"],
    )
    activity = Noisy([float(c) for c in counts], scale)
    if span is None:
        jobs = number_of_jobs(activity.values, activity.noise)
        edge = EDGE_JOBS * jobs if by_job else EDGE_USERS * number_of_users(activity.values)
        span = _span(facts, mechanism, rho["end"], rho["begin"], round(max(edge, 5.0)))
    if by_job:
        cap = 1.0
    elif cap is None:
        cap = choose_cap(activity.values, activity.noise, float(np.sqrt(1 / (2 * rho["run"]))))

    def bought(name: str, what: str, totals: Any, sensitivity: float = 1.0) -> Noisy:
        noisy, scale = mechanism.gaussian(what, totals, sensitivity * LENGTH, rho[name])
        return Noisy([float(value) * cap / LENGTH for value in noisy], scale * cap / LENGTH)

    def table(name: str, what: str, cell: Any, cells: int) -> Noisy:
        return bought(name, what, exact.table(facts.owner, cell, cells, cap))

    limit = table("limit", "time limits", facts.limit, len(LIMITS) + 1)
    run = table("run", "run times", facts.run, len(RUNS))
    size = table("size", "sizes", facts.size, len(domain.sizes))
    cuts = [coarse(shares, n) for shares, n in zip(marginals(limit, run, size), COARSE, strict=True)]
    classes = [np.array(cut)[cell] for cut, cell in zip(cuts, (facts.limit, facts.run, facts.size), strict=True)]
    shape = tuple(max(cut) + 1 for cut in cuts)
    cell = np.ravel_multi_index(tuple(classes), shape) if len(facts.owner) else np.empty(0, np.int64)
    joint = table("joint", "limit × run time × size, in classes", cell, int(np.prod(shape)))
    week = None
    if facts.block is not None:
        week = table("week", "hours of the week", facts.block, WEEKDAY_BLOCKS + WEEKEND_BLOCKS)
    pairs = bought(
        "pairs",
        "gap and likeness to the user's job before",
        exact.pair_table(facts, cap),
        exact.PAIRS_BY_JOB if by_job else 1.0,
    )
    most = load_cap(float(np.sqrt(1 / (2 * rho["load"]))), by_job=by_job)
    noisy, scale = mechanism.gaussian(
        "load", exact.clipped_load(facts, domain.size * span, most), float(LENGTH), rho["load"]
    )
    load = Noisy([float(noisy[0]) * most / LENGTH], scale * most / LENGTH)
    assert len(pairs.counts) == STATES * (len(GAPS) + 1)
    return Released(activity, limit, run, size, joint, cuts, pairs, week, load, most, float(cap), float(span))


def _span(facts: Facts, mechanism: Mechanism, rho_end: float, rho_begin: float, target: int) -> float:
    """Choose the recorded span: from where ``target`` units have begun to where as many have not yet ended."""
    end = TIMES[
        mechanism.choose("end of the log", -np.abs(exact.ends(facts, TIMES) - target).astype(np.int64), rho_end)
    ]
    starts = np.append(end - TIMES[end > TIMES], 0.0)
    scores = -np.abs(exact.begins(facts, starts) - target).astype(np.int64)
    start = starts[mechanism.choose("begin of the log", scores, rho_begin)]
    inner = INNER if facts.unit == "user" else 1 - 2 * EDGE_JOBS
    return float(max(end - start, 3600.0) / inner)
