"""Halves of the real training jobs: balanced pairs of a few long blocks."""

from __future__ import annotations

import numpy as np
import pytest

import tracekit
from evaluation.experiment.halves import BLOCKS, balanced, halves
from evaluation.experiment.interleave import DAY, equal_blocks, laid, spanned
from tracekit.errors import TracekitError


@pytest.mark.parametrize("pairs", [1, 4, 7, 8, 20])
def test_pairs_say_something_that_the_others_do_not(pairs: int) -> None:
    owner = balanced(pairs, np.random.default_rng(pairs))
    blocks = owner.shape[1]
    assert owner.shape[0] == pairs < blocks
    assert blocks >= BLOCKS
    assert (owner.sum(axis=1) == blocks / 2).all()
    signs = 1 - 2 * owner
    assert (signs @ signs.T == blocks * np.eye(pairs)).all()


def test_pairs_drawn_independently_repeat_themselves() -> None:
    """The check above can fail: of eight blocks two random pairs of halves have a squared correlation of 1/7."""
    rng = np.random.default_rng(0)
    signs = rng.permuted(np.tile(np.repeat([1, -1], BLOCKS // 2), (4000, 1)), axis=1)
    assert np.mean((signs[::2] * signs[1::2]).mean(axis=1) ** 2) == pytest.approx(1 / 7, rel=0.15)


def test_each_pair_deals_out_every_job_and_hours_keep_their_meaning() -> None:
    real = tracekit.sample()
    made = dict(halves(real, 3, seed=5))
    assert list(made) == [f"half-{pair}-{side}" for pair in range(3) for side in (0, 1)]
    for pair in range(3):
        sides = [made[f"half-{pair}-{side}"] for side in (0, 1)]
        assert sorted(np.concatenate([side.column("job_id") for side in sides])) == sorted(real.column("job_id"))
        for side in sides:
            rows = np.searchsorted(real.column("job_id"), side.column("job_id"))
            assert ((real.column("submit_time")[rows] - side.column("submit_time")) % DAY == 0).all()
            assert (np.diff(side.column("submit_time")) >= 0).all()
            assert np.ptp(side.column("submit_time")) <= spanned(real)[1] / 2 + BLOCKS / 2 * DAY
    again, other = dict(halves(real, 3, seed=5)), dict(halves(real, 3, seed=6))
    assert all(np.array_equal(again[name].column("submit_time"), made[name].column("submit_time")) for name in made)
    assert any(len(other[name]) != len(made[name]) for name in made)


def test_no_pairs_no_halves() -> None:
    assert list(halves(tracekit.sample(), 0, seed=1)) == []


def test_one_instant_has_no_halves() -> None:
    with pytest.raises(TracekitError, match="one instant"):
        list(halves(tracekit.sample().head(50).assign({"submit_time": 5.0}), 2, seed=1))


def test_blocks_of_different_lengths_lie_end_to_end() -> None:
    real = tracekit.sample().head(6).assign({"submit_time": np.array([0.0, 9.0, 10.0, 24.0, 25.0, 40.0])})
    first, second = laid(real, np.array([0.0, 10.0, 25.0, 40.0]), np.array([0, 1, 0]), 2)
    assert first.column("submit_time").tolist() == [0.0, 9.0, 10.0, 25.0]
    assert second.column("submit_time").tolist() == [0.0, 14.0]


@pytest.mark.parametrize("days", [0.3, 7.9, 8.0, 8.01, 42.0, 365.25])
def test_equal_blocks_hold_the_whole_span(days: float) -> None:
    edges = equal_blocks(days * DAY, BLOCKS)
    assert len(edges) == BLOCKS + 1
    assert edges[0] == 0
    assert edges[-1] >= days * DAY
    lengths = np.diff(edges)
    assert lengths.min() > 0
    if days >= BLOCKS:
        assert (edges % DAY == 0).all()
        assert np.ptp(lengths) <= 2 * DAY
