"""Levers of energy: the closed forms of energy.json, limits that hold for any trace, and inputs that mean nothing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared_data import checked

import tracekit
from tracekit.clusters import completed
from tracekit.errors import TracekitError, UnknownName, UsageError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.analysis.resimulate import explain_file

from .helpers import trace_of

HOUR = 3600.0
KWH = 3.6e6
SLEEPS = {"sleep_watts": 10.0, "off_seconds": 60.0, "off_watts": 150.0, "on_seconds": 120.0, "on_watts": 300.0}


@pytest.fixture(scope="module")
def closed():
    return checked("energy.json")


def hosts(count, cores=1, **fields):
    group = HostGroup(count, cores=cores, name="n", **({"idle_watts": 200.0} | fields))
    return completed(Machine(name="test", groups=(group,)), "test")


def joules(result):
    return result.energy.total_kwh * KWH


def power_file(folder, text):
    place = folder / "power.toml"
    place.write_text(text)
    return str(place)


def series_file(folder, values, name="series.csv"):
    place = folder / name
    place.write_text("".join(f"{hour * HOUR:g},{value}\n" for hour, value in enumerate(values)))
    return str(place)


# ---- sleep -----------------------------------------------------------------------------------------------------------


def test_sleep_takes_the_energy_of_the_closed_form(closed):
    """One host, idle and busy alike: what is not run time is the gap, which ends when the second job's host is up."""
    for case in closed["sleep"]["cases"]:
        if case["sleep_J"] is None:
            continue
        trace = trace_of((0, 100, 100, 1), (100 + case["gap"] - 120, 100, 100, 1), procs=1)
        result = tracekit.simulate(trace, cluster=hosts(1, **SLEEPS), sleep_after=0)
        assert result.start.tolist() == [0, 100 + case["gap"]]
        assert joules(result) - 200 * 200 == pytest.approx(case["sleep_J"], abs=1e-6)
        awake = tracekit.simulate(trace, cluster=hosts(1, **SLEEPS), sleep_after=1e6)
        assert joules(awake) - 200 * 200 == pytest.approx(200 * (case["gap"] - 120), abs=1e-6)


def test_a_job_waits_until_a_host_that_turns_off_is_up_again():
    """Idle since 100, turning off from 110 to 170: a job at 120 gets the host at 170 + 120; one at 105 at once."""
    for submit, start in ((105, 105), (110, 110), (120, 290), (500, 620)):
        trace = trace_of((0, 100, 100, 1), (submit, 10, 10, 1), procs=1)
        assert tracekit.simulate(trace, cluster=hosts(1, **SLEEPS), sleep_after=10).start.tolist() == [0, start]


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(gap=st.integers(1, 5000))
def test_a_timeout_at_the_break_even_gap_costs_at_most_twice_the_best(closed, gap):
    """As known of renting or buying; one transition comes on top, since the host is not up when the job comes."""
    even, trace = closed["sleep"]["break_even_gap_s"], trace_of((0, 100, 100, 1), (100 + gap, 100, 100, 1), procs=1)
    result = tracekit.simulate(trace, cluster=hosts(1, **SLEEPS), sleep_after=even)
    length = result.start[1] - 100
    best = min(200 * length, 45000 + 10 * (length - 180)) if length >= 180 else 200 * length
    assert joules(result) - 200 * 200 <= 2 * best + closed["sleep"]["transition_J"] + 1e-6


def test_packing_for_sleep_finds_the_best_assignment(closed):
    """A job of two hosts at the end makes all hosts be awake at the horizon, as the closed form wants them."""
    case, fields = closed["packing"], {"off_seconds": 10.0, "on_seconds": 10.0, "off_watts": 200.0, "on_watts": 200.0}
    jobs = [(start, length, length, 1) for start, length in case["jobs_start_len"]]
    trace = trace_of(*jobs, (590, 100, 100, 2), procs=3)
    cluster = hosts(3, sleep_watts=10.0, **fields)
    result = tracekit.simulate(
        trace, cluster=cluster, allocate="pack-and-sleep", sleep_after=0, energy_until=str(case["horizon"])
    )
    used = [int(place.split(":")[0].removeprefix("n-")) for place in list(result.hosts)[:4]]
    assert used == case["best_assignment"]
    assert result.start[4] == 600
    busy = sum(length for _, length in case["jobs_start_len"])
    assert joules(result) - 200 * busy == pytest.approx(case["idle_energy_best_J"], abs=1e-6)


def test_two_half_hosts_are_packed_on_one(closed):
    case = closed["packing_shared"]
    cluster = hosts(2, 64, core_watts=150 / 32, sleep_watts=10.0, off_watts=200.0, on_watts=200.0)
    trace = trace_of((0, HOUR, HOUR, 32), (0, HOUR, HOUR, 32), procs=128)

    def watt_hours(allocate, **sleep):
        levers = {"power": None, **sleep} if sleep else {"sleep_after": 1e9}
        made = tracekit.simulate(trace, cluster=cluster, allocate=allocate, **levers)
        return made.energy.total_kwh * 1000

    assert watt_hours("pack-and-sleep", sleep_after=0) == pytest.approx(case["packed_Wh"], abs=1e-9)
    assert watt_hours("worst-fit", sleep_after=0) == pytest.approx(case["spread_Wh"], abs=1e-9)
    assert watt_hours("pack-and-sleep") == pytest.approx(case["always_on_Wh"], abs=1e-9)


@settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**30))
def test_sleep_never_saves_more_than_the_limit(seed):
    """(1 − U) · idle / ((1 − U) · idle + U · busy) of the always-on machine, over the same window."""
    rng = np.random.default_rng(seed)
    count, cluster = 20, hosts(4, 2, core_watts=100.0, sleep_watts=float(rng.integers(0, 20)), on_seconds=30.0)
    rows = [(t, r, r, n) for t, r, n in zip(*(rng.integers(1, m, count) for m in (3000, 300, 9)), strict=True)]
    trace = trace_of(*sorted(rows), procs=8)
    both = [
        tracekit.simulate(trace, cluster=cluster, allocate="pack-and-sleep", sleep_after=after, energy_until="20000")
        for after in (1e9, float(rng.integers(0, 200)))
    ]
    always, slept = (joules(result) for result in both)
    used = float((both[0].procs * both[0].run).sum()) / (8 * (20000 - both[0].submit.min()))
    limit = (1 - used) * 200 / ((1 - used) * 200 + used * 400)
    assert always - slept <= limit * always + 1e-6


# ---- power cap -------------------------------------------------------------------------------------------------------


def capped(folder, cap, backfill="none", policy="fcfs"):
    trace = trace_of(*[(0, r * HOUR, r * HOUR, 1) for r in (2, 2, 1, 3)], procs=4, mean_watts=[300, 300, 200, 100])
    power = power_file(folder, "idle_watts = 50\n")
    return tracekit.simulate(trace, policy, backfill, power=power, power_cap=cap / 1000)


def test_the_cap_gives_the_waits_and_the_energy_of_the_closed_form(closed, tmp_path):
    for cap, case in closed["power_cap"]["by_cap_W"].items():
        result = capped(tmp_path, float(cap))
        assert result.wait.mean() / HOUR == pytest.approx(case["fcfs_mean_wait_h"], abs=1e-9)
        assert result.end.max() / HOUR == pytest.approx(case["fcfs_makespan_h"], abs=1e-9)
        assert result.energy.total_kwh * 1000 == pytest.approx(case["energy_fcfs_Wh"], abs=1e-9)
        assert result.energy.peak_kw <= float(cap) / 1000 + 1e-12


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_jobs_are_backfilled_under_the_cap(closed, tmp_path, backfill):
    """Beside job 0 (250 W above idle) 150 W are left: for job 2, then job 3, while job 1 is reserved at 2 h."""
    result = capped(tmp_path, 600, backfill)
    assert (result.start / HOUR).tolist() == [0, 2, 0, 1]
    assert result.wait.mean() / HOUR == closed["power_cap"]["by_cap_W"]["600"]["best_mean_wait_h"]


def test_a_backfilled_job_leaves_the_reserved_job_its_watts(tmp_path):
    """Job 1 gets all watts at 2 h. Job 2, of 3 h, would still hold some then: it waits, though hosts are free."""
    rows = [(0, 2 * HOUR, 2 * HOUR, 1), (0, HOUR, HOUR, 1), (0, 3 * HOUR, 3 * HOUR, 1)]
    trace = trace_of(*rows, procs=4, mean_watts=[250, 350, 150])
    result = tracekit.simulate(trace, power=power_file(tmp_path, "idle_watts = 50\n"), power_cap=0.5)
    assert (result.start / HOUR).tolist() == [0, 2, 3]


def test_jobs_above_the_cap_are_rejected_and_counted(tmp_path):
    trace = trace_of((0, 10, 10, 1), (0, 10, 10, 4), procs=4)
    power = power_file(tmp_path, "idle_watts = 50\ncore_watts = 100\npue = 1.25\noverhead_watts = 50\n")
    result = tracekit.simulate(trace, power=power, power_cap=(200 + 300) * 1.25 / 1000 + 0.05)
    assert result.rejected == {"above the power cap": 1}
    whole = tracekit.simulate(trace, power=power, power_cap=(200 + 400) * 1.25 / 1000 + 0.05)
    assert not whole.rejected
    assert whole.energy.peak_kw <= (200 + 400) * 1.25 / 1000 + 0.05 + 1e-12
    with pytest.raises(TracekitError, match=r"0\.2 kW is below the 0\.3 kW that the idle machine draws"):
        tracekit.simulate(trace, power=power, power_cap=0.2)


def test_the_cap_holds_where_pue_depends_on_the_load(tmp_path):
    power = power_file(tmp_path, "idle_watts = 50\ncore_watts = 100\npue = { load = [[0, 1.5], [1, 1.1]] }\n")
    trace = trace_of(*[(0, 10, 10, 1)] * 6, procs=4)
    for cap in (0.45, 0.5, 0.6):
        result = tracekit.simulate(trace, power=power, power_cap=cap)
        assert result.energy.peak_kw <= cap + 1e-12
        assert result.wait.max() > 0


def test_explain_names_the_cap(tmp_path):
    result = capped(tmp_path, 700)
    trace = trace_of(*[(0, r * HOUR, r * HOUR, 1) for r in (2, 2, 1, 3)], procs=4, mean_watts=[300, 300, 200, 100])
    result.schedule().to_csv(tmp_path / "schedule.csv", index=False)
    (tmp_path / "switches.json").write_text(result.made_by())
    found = explain_file(tmp_path / "schedule.csv", trace, 3)
    assert found.parts["power_cap"] == 2 * HOUR
    assert sum(found.parts.values()) == found.wait
    assert "held back by the power cap" in found.text()


# ---- frequency -------------------------------------------------------------------------------------------------------


def test_frequency_stretches_and_saves_as_the_closed_form_says(closed, tmp_path):
    case, power = closed["dvfs"], power_file(tmp_path, "idle_watts = 100\ncore_watts = 200\n")
    trace = trace_of((0, HOUR, HOUR, 1), procs=1)

    def made(trace, x):
        return tracekit.simulate(trace, power=power, frequency=float(x))

    for x, energy in case["discrete"].items():
        result = made(trace, x)
        assert result.run[0] == pytest.approx(HOUR / float(x), abs=1e-9)
        assert result.energy.total_kwh * 1000 == pytest.approx(energy, abs=1e-9)
        above_idle = result.energy.total_kwh * 1000 - 100 * result.run[0] / HOUR
        assert above_idle == pytest.approx(case["dynamic_only_b1"][x], abs=1e-9)
    half = trace_of((0, HOUR, HOUR, 1), procs=1, cpu_bound=[0.5])
    for x, energy in case["discrete_b05"].items():
        assert made(half, x).energy.total_kwh * 1000 == pytest.approx(energy, abs=1e-9)
    best = made(trace, case["x_star"])
    assert best.energy.total_kwh * 1000 == pytest.approx(case["E_star_per_rWh"], abs=1e-9)
    assert best.run[0] / HOUR == pytest.approx(case["time_factor"], abs=1e-12)


# ---- shifting --------------------------------------------------------------------------------------------------------


def test_a_job_moves_to_the_hours_of_least_carbon(closed, tmp_path):
    case = closed["carbon"]
    levers = {
        "carbon": series_file(tmp_path, case["series_per_kWh"]),
        "power": power_file(tmp_path, "idle_watts = 0\ncore_watts = 1000\n"),
    }
    one = trace_of((0, 1.5 * HOUR, 1.5 * HOUR, 1), procs=1)
    assert tracekit.simulate(one, **levers).energy.carbon_kg == pytest.approx(case["one_job"]["asap"], abs=1e-9)
    moved = tracekit.simulate(one, max_extra_wait=4 * HOUR, **levers)
    assert moved.start[0] / HOUR == case["one_job"]["best_start_h"]
    assert moved.energy.carbon_kg == pytest.approx(case["one_job"]["best"], abs=1e-9)
    assert moved.metrics["held_back"] == {"jobs": 1, "mean_s": 2 * HOUR, "max_s": 2 * HOUR}
    late = tracekit.simulate(one, max_extra_wait=HOUR, **levers)
    assert late.start[0] == HOUR  # 4.5 is better than 7; the best is too late
    two = case["two_jobs_one_node"]
    rows = [(0, job["len_h"] * HOUR, job["len_h"] * HOUR, 1) for job in two["jobs"]]
    pair = trace_of(*rows, procs=1, mean_watts=[1000 * job["kW"] for job in two["jobs"]])
    assert tracekit.simulate(pair, **levers).energy.carbon_kg == pytest.approx(two["asap_12"], abs=1e-9)
    best = tracekit.simulate(pair, max_extra_wait=6 * HOUR, **levers)
    assert (best.start / HOUR).tolist() == two["starts"]
    assert best.energy.carbon_kg == pytest.approx(two["best"], abs=1e-9)


def test_no_job_is_held_back_longer_than_allowed_and_results_keep_their_order(tmp_path):
    trace = tracekit.sample().head(400)
    times = trace.column("submit_time")
    hours = int((times.max() - times.min()) / HOUR) + 60
    values = [1 + (hour % 24) / 24 for hour in range(hours)]
    place = tmp_path / "series.csv"
    place.write_text("".join(f"{times.min() + hour * HOUR},{value}\n" for hour, value in enumerate(values)))
    moved = tracekit.simulate(trace, price=str(place), max_extra_wait=6 * HOUR)
    plain = tracekit.simulate(trace)
    np.testing.assert_array_equal(moved.job_id, plain.job_id)
    np.testing.assert_array_equal(moved.submit, plain.submit)
    assert 0 < moved.metrics["held_back"]["max_s"] <= 6 * HOUR
    assert moved.metrics["mean_wait_s"] > plain.metrics["mean_wait_s"]


# ---- all off, and what cannot be -------------------------------------------------------------------------------------


def test_levers_are_named_in_the_result_and_off_by_default():
    plain = tracekit.simulate(trace_of((0, 1, 1, 1), procs=1)).switches
    assert plain["sleep_after"] is None
    assert plain["power_cap"] is None
    assert (plain["frequency"], plain["max_extra_wait"]) == (1.0, 0.0)
    slept = tracekit.simulate(trace_of((0, 1, 1, 1), procs=1), cluster=hosts(1, **SLEEPS), sleep_after=60).switches
    assert slept["sleep_after"] == 60


@pytest.mark.parametrize(
    ("levers", "words"),
    [
        ({"sleep_after": -1}, "--sleep-after must be 0 or more seconds, not -1"),
        ({"sleep_after": 60}, "--sleep-after is about hosts: give --cluster"),
        ({"sleep_after": float("nan")}, "not nan"),
        ({"power_cap": 0}, "--power-cap must be above 0 kW, not 0"),
        ({"power_cap": -3.0}, "--power-cap must be above 0 kW, not -3"),
        ({"power_cap": 5.0}, "has no power fields"),
        ({"frequency": 0}, "--frequency is a share of the highest: above 0, at most 1, not 0"),
        ({"frequency": 1.2}, "at most 1, not 1.2"),
        ({"frequency": float("nan")}, "at most 1, not nan"),
        ({"max_extra_wait": -60}, "--max-extra-wait must be 0 or more seconds, not -60"),
        ({"max_extra_wait": 60}, "give --carbon FILE.csv or --price FILE.csv"),
        ({"max_extra_wait": 60, "price": "x.csv", "dependencies": True}, "cannot be combined with --dependencies"),
        ({"frequency": 0.5, "compat": "rlscheduler"}, "--frequency cannot be combined with --compat rlscheduler"),
    ],
)
def test_levers_that_mean_nothing_are_one_line(levers, words):
    with pytest.raises(TracekitError, match="(?s)" + words.replace("(", r"\(")) as caught:
        tracekit.simulate(trace_of((0, 1, 1, 1), procs=1), **levers)
    assert "\n" not in str(caught.value)


def test_what_levers_cannot_be_combined_with():
    trace, cluster = trace_of((0, 1, 1, 1), procs=1), hosts(1, **SLEEPS)
    with pytest.raises(UsageError, match="no hosts of test can sleep; add sleep_watts"):
        tracekit.simulate(trace, cluster=hosts(1), sleep_after=5)
    with pytest.raises(UsageError, match="--sleep-after cannot be combined with --outage or --power-cap"):
        tracekit.simulate(trace, cluster=cluster, sleep_after=5, power_cap=10.0)
    with pytest.raises(UsageError, match="replay repeats the recorded starts; leave out --frequency"):
        tracekit.simulate(replace(trace), "replay", frequency=0.5)
    with pytest.raises(UnknownName, match="did you mean pack-and-sleep"):
        tracekit.simulate(trace, cluster=cluster, allocate="pack-and-slep")


def test_a_series_that_ends_early_is_one_line(tmp_path):
    trace = trace_of((0, 10, 10, 1), (5 * HOUR, 10, 10, 1), procs=1)
    with pytest.raises(TracekitError, match="ends at second 10800, before the window's end at 18000") as caught:
        tracekit.simulate(trace, carbon=series_file(tmp_path, [1, 2, 3]), max_extra_wait=60)
    assert "\n" not in str(caught.value)
