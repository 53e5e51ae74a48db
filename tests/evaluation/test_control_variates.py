"""Control variates and looks in stages: simulated experiments whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.experiment.build import first_look, units_at
from evaluation.experiment.control import Controls
from evaluation.experiment.verdict import estimate, judge, spent

TRUE = 0.05


def simulated(
    rng: np.random.Generator, windows: int, effect: float = TRUE, slope: float = 0.15
) -> tuple[np.ndarray, Controls]:
    """Differences that depend on how crowded a window is, and heuristics that see how crowded it is."""
    crowd = rng.normal(size=3 * windows)
    scores = crowd[:, None] + 0.3 * rng.normal(size=(3 * windows, 4))
    noise = rng.normal(0, 0.05, (2, 3, windows)) + rng.normal(0, 0.01, (2, 1, 1)) + rng.normal(0, 0.01, (1, 3, 1))
    differences = effect + slope * crowd[:windows] + noise
    return differences, Controls(scores[:windows], scores[windows:])


def test_intervals_get_narrower_and_still_contain_the_truth() -> None:
    rng = np.random.default_rng(0)
    held, widths, plain = [], [], []
    for number in range(300):
        differences, controls = simulated(rng, 60)
        found = estimate(differences, draws=300, seed=number, controls=controls)
        low, high = found.interval(0.05)
        held.append(low <= TRUE <= high)
        widths.append(high - low)
        plain.append(np.ptp(estimate(differences, draws=300, seed=number).interval(0.05)))
        assert found.reduced > 0
    assert 0.85 <= np.mean(held) <= 0.99
    assert np.mean(widths) < 0.85 * np.mean(plain)


def test_heuristics_that_explain_nothing_change_nothing() -> None:
    rng = np.random.default_rng(1)
    held = []
    for number in range(300):
        differences, controls = simulated(rng, 40, slope=0.0)
        low, high = estimate(differences, draws=300, seed=number, controls=controls).interval(0.05)
        held.append(low <= TRUE <= high)
    assert np.mean(held) >= 0.85


@pytest.mark.parametrize("windows", [3, 9])
def test_few_windows_are_left_as_they_are(windows: int) -> None:
    differences, controls = simulated(np.random.default_rng(2), windows)
    adjusted, added = controls.adjust(differences)
    assert adjusted is differences
    assert added == 0


def test_levels_of_the_looks_add_up() -> None:
    for looks in range(1, 6):
        assert sum(spent(0.05, look, looks) for look in range(1, looks + 1)) == pytest.approx(0.05)


def test_looking_several_times_keeps_the_error_rate() -> None:
    """Nothing differs: with three looks, worse or better is said in at most 5 % of cases each."""
    rng, looks, most = np.random.default_rng(3), 3, 6
    said = {"worse": 0, "better": 0}
    for number in range(600):
        samples, seeds = rng.normal(0, 0.06, (most, 1, 1)), rng.normal(0, 0.06, (1, most, 1))
        whole = samples + seeds + rng.normal(0, 0.3, (most, most, 30)) + rng.normal(0, 0.2, (1, 1, 30))
        for look in range(1, looks + 1):
            units = units_at(look, most, looks)
            found = estimate(whole[:units, :units], draws=200, seed=number)
            verdict = judge("m", found, margin=0.01, alpha=spent(0.05, look, looks)).verdict
            if verdict in said:
                said[verdict] += 1
                break
    assert said["worse"] / 600 < 0.08
    assert said["better"] / 600 < 0.08


@pytest.mark.parametrize(("most", "looks"), [(1, 1), (1, 3), (2, 3), (5, 3), (6, 3), (10, 4)])
def test_every_unit_has_its_first_look(most: int, looks: int) -> None:
    for look in range(1, looks + 1):
        inside = [number for number in range(most) if first_look(number, most, looks) <= look]
        assert inside == list(range(units_at(look, most, looks)))
    assert units_at(looks, most, looks) == most
