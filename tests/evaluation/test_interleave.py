"""Blocks of time dealt out to the parts of a trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracekit
from evaluation.experiment.interleave import DAY, WEEK, block_length, dealt, interleaved
from tracekit.errors import TracekitError


def test_every_job_is_in_one_part_and_the_load_stays() -> None:
    real = tracekit.sample()
    parts = interleaved(real, (0.5, 0.1, 0.4))
    assert sorted(np.concatenate([part.column("job_id") for part in parts])) == sorted(real.column("job_id"))
    for part in (parts[0], parts[2]):
        assert part.offered_load() == pytest.approx(real.offered_load(), rel=0.15)
        assert (np.diff(part.column("submit_time")) >= 0).all()


def test_blocks_dealt_at_random_are_the_same_for_the_same_seed() -> None:
    real = tracekit.sample()
    first, again, other = ([p.column("job_id") for p in interleaved(real, (0.5, 0.5), np.random.default_rng(k))]
                           for k in (1, 1, 2))  # fmt: skip
    assert sorted(np.concatenate(first)) == sorted(real.column("job_id"))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_hours_of_the_day_keep_their_meaning() -> None:
    real = tracekit.sample()
    first = real.column("submit_time").min()
    for part in interleaved(real, (0.5, 0.5)):
        rows = np.searchsorted(real.column("job_id"), part.column("job_id"))
        before, after = real.column("submit_time")[rows], part.column("submit_time")
        assert ((before - after) % DAY == 0).all()
        assert after.min() >= first


def test_a_change_in_the_middle_is_in_all_parts() -> None:
    real = tracekit.sample()
    submit = real.column("submit_time")
    late = real.assign({"run_time": np.where(submit > np.median(submit), 1000.0, 10.0)})
    for part in interleaved(late, (0.5, 0.5)):
        assert 0.3 < (part.column("run_time") == 1000.0).mean() < 0.7


@given(st.integers(1, 300), st.lists(st.floats(0.05, 1.0), min_size=1, max_size=4))
def test_shares_are_kept_at_any_time(blocks: int, weights: list[float]) -> None:
    shares = np.array(weights) / sum(weights)
    owner = dealt(blocks, list(shares))
    for part, share in enumerate(shares):
        had = np.cumsum(owner == part)
        assert np.abs(had - share * np.arange(1, blocks + 1)).max() <= len(shares)


def test_blocks_are_weeks_days_or_less() -> None:
    assert block_length(30 * WEEK) == WEEK
    assert block_length(30 * DAY) == DAY
    assert block_length(DAY) == pytest.approx(DAY / 20)


def test_one_instant_cannot_be_divided() -> None:
    with pytest.raises(TracekitError, match="one instant"):
        interleaved(tracekit.sample().head(100).assign({"submit_time": 5.0}), (0.5, 0.5))
