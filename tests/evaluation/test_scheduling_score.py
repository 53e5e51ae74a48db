from __future__ import annotations

import numpy as np
import pytest

from evaluation.base import Setting
from evaluation.scheduling import POLICIES, Job, Simulated, starts, tau
from evaluation.view import prepare
from tracekit import Trace


@pytest.fixture(scope="module")
def busy(real: Trace) -> Trace:
    """The made trace on a machine small enough that jobs wait."""
    return real.replace(machine=real.machine.replace(nodes=32)).assign({"submit_time": real.column("submit_time") / 3})


def test_a_copy_schedules_alike(compare, busy: Trace) -> None:
    found = compare("scheduling", busy, busy)
    for key, score in found.items():
        expected = 1 if key.endswith("tau") else score.real if key.endswith("mean_wait") else 0
        assert score.value == expected, key
    assert found["scheduling.kendall_tau"].low <= 1


def test_doubled_load_is_seen_raw_and_not_when_matched(compare, busy: Trace, damage) -> None:
    found = compare("scheduling", busy, damage["load"](busy))
    assert found["scheduling.wait_ks"].value > 0.05
    assert found["scheduling.mean_wait"].value > 1.3 * found["scheduling.mean_wait"].real
    for key in ("wait_ks", "log_wait_w1", "bsld_ks", "log_bsld_w1"):
        assert found[f"scheduling.matched.{key}"].value == pytest.approx(0, abs=0.02)
    assert "stretched by 2" in found["scheduling.matched.wait_ks"].note


def test_users_do_not_matter_to_a_scheduler(compare, busy: Trace, damage) -> None:
    assert compare("scheduling", busy, damage["users"](busy))["scheduling.wait_ks"].value == 0


def test_an_idle_machine_has_no_ranking(compare, real: Trace) -> None:
    idle = real.replace(machine=real.machine.replace(nodes=100_000))
    found = compare("scheduling", idle, idle)["scheduling.kendall_tau"]
    assert np.isnan(found.value)
    assert "hardly any job waits" in found.note


def test_impossible_jobs_are_left_out_and_counted(compare, busy: Trace) -> None:
    sizes = busy.column("req_nodes").copy()
    sizes[:100] = 1000
    found = compare("scheduling", busy, busy.assign({"req_nodes": sizes}))
    assert "100 synthetic jobs cannot run" in found["scheduling.wait_ks"].note
    view = prepare(busy, [busy.assign({"req_nodes": sizes - 0.5})], ["a", "b"])[1]
    assert set(np.unique(Job.of(view).size)) <= {1, 2, 4, 8, 16, 32}


def test_too_few_jobs_say_so(compare, real: Trace) -> None:
    found = compare("scheduling", real, real.head(30))
    assert all(np.isnan(score.value) and "fewer than 40 jobs" in score.note for score in found.values())


def test_tau_of_opposite_rankings_is_minus_one() -> None:
    def runs(values: list[float]) -> dict:
        return {
            (policy, "easy"): Simulated([np.zeros(2)] * 3, [np.full(2, value)] * 3)
            for policy, value in zip(POLICIES, values, strict=True)
        }

    up, down = list(np.arange(8.0) + 1), list(9 - np.arange(8.0) - 1)
    assert tau(runs(up), runs(down)) == -1
    assert tau(runs(up), runs(up)) == 1
    assert np.isnan(tau(runs(up), runs([1.0] * 8)))


@pytest.mark.parametrize("quick", [True, False])
def test_there_are_at_least_twenty_windows(quick: bool) -> None:
    places, count = starts(30_000, Setting(quick=quick))
    assert len(places) >= 20
    assert places[0] == 0
    assert places[-1] + count == 30_000
