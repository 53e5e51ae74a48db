"""Input that breaks simulators: no length, no limit, no size, everything at once, nothing at all."""

import numpy as np
import pytest

import tracekit
from tracekit.errors import FormatError, TracekitError, UnknownName, UsageError
from tracekit.sim.analysis.check import check_result
from tracekit.sim.policies.builtin import POLICIES
from tracekit.sim.switches import BACKFILLS

from .helpers import trace_of

EVERY = [(policy, backfill) for policy in ("fcfs", "sjf", "wfp3", "multifactor") for backfill in BACKFILLS]


@pytest.mark.parametrize(("policy", "backfill"), EVERY)
def test_jobs_of_no_length(policy, backfill):
    trace = trace_of((0, 0, 0, 4), (0, 0, 0, 4), (0, 5, 5, 4), (1, 0, 60, 1), (1, 0, None, 4), procs=4)
    result = tracekit.simulate(trace, policy, backfill)
    assert not check_result(result)
    assert len(result) == 5
    assert result.end.max() == 5


@pytest.mark.parametrize(("policy", "backfill"), EVERY)
def test_a_thousand_arrivals_in_one_second(policy, backfill):
    rng = np.random.default_rng(3)
    jobs = [
        (7, int(run), int(run) + 5, int(size))
        for run, size in zip(rng.integers(0, 99, 1000), rng.integers(1, 33, 1000), strict=True)
    ]
    result = tracekit.simulate(trace_of(*jobs, procs=32), policy, backfill)
    assert not check_result(result)
    assert result.start.min() == 7


@pytest.mark.parametrize(("policy", "backfill"), EVERY)
def test_jobs_as_large_as_the_machine(policy, backfill):
    trace = trace_of(*[(i, 10, 10, 64) for i in range(20)], procs=64)
    result = tracekit.simulate(trace, policy, backfill)
    assert sorted(result.start) == [10 * i for i in range(20)]


@pytest.mark.parametrize(("policy", "backfill"), EVERY)
@pytest.mark.parametrize("estimates", ["requested", "actual", "factor:0.1", "noisy:1.5", "last-two"])
def test_estimates_below_run_times(policy, backfill, estimates):
    rng = np.random.default_rng(8)
    jobs = [
        (5 * i, int(run), max(int(run) // 3, 0), int(size))
        for i, (run, size) in enumerate(zip(rng.integers(0, 200, 300), rng.integers(1, 9, 300), strict=True))
    ]
    result = tracekit.simulate(
        trace_of(*jobs, procs=8, user=rng.choice(["a", "b"], 300)), policy, backfill, estimates=estimates
    )
    assert not check_result(result)


def test_what_cannot_be_simulated_is_counted_with_its_reason():
    trace = trace_of(
        (0, None, 10, 1), (1, -5, 10, 1), (2, 5, 10, 99), (3, 5, 10, None), (4, 5, None, 2), (None, 5, 5, 1), procs=4
    )
    result = tracekit.simulate(trace)
    assert dict(result.rejected) == {"no submit time": 1, "no run time": 2, "no size": 1, "larger than the machine": 1}
    assert result.job_id.tolist() == [5]
    assert result.metrics["jobs_without_limit"] == 1
    assert result.summary()["rejected"] == 5


@pytest.mark.parametrize("policy", list(POLICIES))
def test_empty_traces(policy):
    result = tracekit.simulate(trace_of(procs=4), policy)
    assert len(result) == 0
    assert np.isnan(result.metrics["mean_bsld"])
    assert not check_result(result)


def test_submit_times_out_of_order():
    mixed = trace_of((20, 5, 5, 4), (0, 50, 50, 4), (10, 5, 5, 4), procs=4)
    result = tracekit.simulate(mixed)
    assert result.job_id.tolist() == [2, 3, 1]
    assert result.start.tolist() == [0, 50, 55]
    assert result.position.tolist() == [1, 2, 0]


def test_negative_and_fractional_submit_times():
    trace = trace_of((-3.5, 2, 2, 4), (-3.25, 1, 1, 4), procs=4)
    for policy in POLICIES:
        if policy not in ("replay", "predicted-index"):  # a record, a predictor: there is none
            assert tracekit.simulate(trace, policy).start.tolist() == [-3.5, -1.5]


def test_fractions_of_a_gpu_share_one():
    trace = trace_of(*[(0, 10, 10, share) for share in (0.1, 0.2, 0.7, 0.5)], procs=1)
    assert tracekit.simulate(trace, "fcfs", "none").start.tolist() == [0, 0, 0, 10]


def test_machine_of_unknown_size_says_what_to_do():
    trace = trace_of((0, 1, 1, 1), procs=None)
    with pytest.raises(TracekitError, match="--procs"):
        tracekit.simulate(trace)
    assert len(tracekit.simulate(trace, procs=3)) == 1


def test_mistakes_in_names_are_usage_errors_with_a_hint():
    trace = trace_of((0, 1, 1, 1), procs=1)
    with pytest.raises(UnknownName, match="did you mean wfp3"):
        tracekit.simulate(trace, "wpf3")
    with pytest.raises(UnknownName, match="did you mean conservative"):
        tracekit.simulate(trace, backfill="conservativ")
    with pytest.raises(UnknownName, match="estimates"):
        tracekit.simulate(trace, estimates="guessed")
    for estimates in ("factor", "noisy:x", "factor:-1", "actual:2", "noisy:nan"):
        with pytest.raises(UsageError):
            tracekit.simulate(trace, estimates=estimates)
    with pytest.raises(FormatError, match="no such agent"):
        tracekit.simulate(trace, "agent:somewhere")
    with pytest.raises(UsageError, match="bound"):
        tracekit.simulate(trace, bound=0)


def test_same_seed_same_schedule(toy):
    for switches in ({"policy": "random"}, {"policy": "fcfs", "estimates": "noisy:0.5"}):
        once, again = tracekit.simulate(toy, seed=4, **switches), tracekit.simulate(toy, seed=4, **switches)
        other = tracekit.simulate(toy, seed=5, **switches)
        assert once.start.tobytes() == again.start.tobytes()
        assert once.schedule().to_csv() == again.schedule().to_csv()
        assert other.switches["seed"] == 5
