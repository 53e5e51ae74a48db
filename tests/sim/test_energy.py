"""Energy of schedules: closed forms, an oracle in plain Python, and what must hold for every schedule."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from shared_data import checked

import tracekit
from tracekit.clusters import preset
from tracekit.errors import TracekitError, UsageError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.energy import gat_drl
from tracekit.sim.energy.account import Asked, energy_of_schedule, users_of
from tracekit.sim.energy.held import Held
from tracekit.sim.energy.integrate import PARTS, Energy, Load, integrate, priced
from tracekit.sim.energy.model import GroupPower, PowerModel, Sleep, power_of
from tracekit.sim.energy.pue import Pue
from tracekit.sim.energy.series import Series
from tracekit.sim.energy.states import SLEEPING, TURNING_OFF, TURNING_ON, HostStates
from tracekit.trace import Trace

HOUR = 3600.0


def near(value):
    return pytest.approx(value, rel=1e-9, abs=1e-12)


def plain(nodes, idle, busy=0.0, **more):
    """Return a model of nodes of one core."""
    group = {name: more.pop(name) for name in ("loss_constant", "loss_efficiency", "sleep") if name in more}
    return PowerModel("plain", (GroupPower("n", nodes, 1.0, idle_watts=idle, core_watts=busy, **group),), **more)


def ran(rows, until=None, **more):
    """Return a load of (start, end, cores) on the first group, from 0 to ``until`` or the last end."""
    start, end, cores = (np.array(column, float) for column in zip(*rows, strict=True))
    zero = np.zeros(len(rows), np.int64)
    held = Held(np.arange(len(rows)), zero, cores, np.zeros(len(rows)))
    return Load(start, end, held, 0.0, float(end.max()) if until is None else until, **more)


# ---- closed forms ----------------------------------------------------------------------------------------------------


def test_always_on_every_order_costs_the_same_over_one_window():
    wanted = checked("energy.json")["always_on"]
    jobs = wanted["jobs"]
    model = plain(wanted["nodes"], wanted["idle_W"], 1.0)
    for case in wanted["orders"]:
        rows = [(s * HOUR, (s + job["r"]) * HOUR, job["n"]) for s, job in zip(case["starts"], jobs, strict=True)]
        # watts of a job are its own: idle share and dynamic part
        mean = np.array([job["n"] * (wanted["idle_W"] + job["d"]) for job in jobs], float)
        assert integrate(model, ran(rows, mean_watts=mean)).total_kwh * 1000 == near(case["E_makespan_Wh"])
        fixed = integrate(model, ran(rows, 20 * HOUR, mean_watts=mean))
        assert fixed.total_kwh * 1000 == near(case["E_fixed20h_Wh"])
        dynamic = fixed.jobs_kwh * 1000 - sum(job["n"] * job["r"] for job in jobs) * wanted["idle_W"]
        assert dynamic == near(wanted["dynamic_Wh"])


def test_frontier_draws_what_raps_says():
    wanted, model = checked("energy.json")["raps_frontier"], power_of(preset("frontier"))
    group = model.groups[0]
    held = Held(*(np.array([value]) for value in (0, 0, group.hosts * group.cores, group.hosts * group.gpus)))
    load = Load(np.array([HOUR]), np.array([2 * HOUR]), held, 0.0, 2 * HOUR)
    made = integrate(model, load)
    assert made.total_watts / 1e6 == near([wanted["system_idle_MW"], wanted["system_peak_MW"]])
    assert made.peak_kw == near(wanted["system_peak_MW"] * 1000)
    # HPL: 0.33 of the processor and 3.16 of 4 GPUs
    hpl = Held(held.job, held.group, held.cores * 0.33, held.gpus * 3.16 / 4)
    assert integrate(model, replace(load, held=hpl)).peak_kw == near(wanted["system_hpl_all_nodes_MW"] * 1000)


def test_carbon_of_one_job_and_of_two():
    wanted = checked("energy.json")["carbon"]
    series = Series("s", np.arange(6) * HOUR, np.array(wanted["series_per_kWh"], float))
    model = plain(1, 0.0, 1000.0)

    def carbon(*rows):
        return priced(integrate(model, ran(rows, 6 * HOUR)), series, series)

    length = wanted["one_job"]["len_h"] * HOUR
    best = wanted["one_job"]["best_start_h"] * HOUR
    assert carbon((0, length, 1)).carbon_kg == near(wanted["one_job"]["asap"])
    assert carbon((best, best + length, 1)).cost == near(wanted["one_job"]["best"])
    two = wanted["two_jobs_one_node"]
    for starts, key in ((two["starts"], "best"), ((0, 1), "asap_12"), ((2, 0), "asap_21")):
        rows = [(s * HOUR, (s + j["len_h"]) * HOUR, j["kW"]) for s, j in zip(starts, two["jobs"], strict=True)]
        assert carbon(*rows).carbon_kg == near(two[key])


def test_the_idle_part_of_carbon_is_the_same_for_every_schedule():
    series = Series("s", np.arange(6) * HOUR, np.array(checked("energy.json")["carbon"]["series_per_kWh"], float))
    for start in (0, 2, 3.5):
        made = priced(
            integrate(plain(1, 500.0, 0.0), ran([(start * HOUR, (start + 1) * HOUR, 1)], 6 * HOUR)), series, None
        )
        assert made.carbon_kg == near(0.5 * series.values.sum())
        assert made.cost is None


def test_pue_by_outside_temperature():
    wanted = checked("energy.json")["pue"]
    weather = Series("t", np.arange(3) * HOUR, np.array(wanted["T"], float))
    pue = Pue("temperature", np.array([15.0, 30.0]), np.array([1.05, 1.2]), temperature=weather)
    rows = [(k * HOUR, (k + 1) * HOUR, kw) for k, kw in enumerate(wanted["it_kW"])]
    made = integrate(plain(200, 0.0, 1000.0, pue=pue), ran(rows))
    assert made.total_kwh == near(wanted["facility_kWh"])
    assert made.to_dict()["mean_pue"] == near(385 / 350)
    with pytest.raises(TracekitError, match="ends at second 10800"):
        integrate(plain(200, 0.0, 1000.0, pue=pue), ran(rows, 4 * HOUR))


def test_pue_by_load():
    pue = Pue("load", np.array([0.0, 1.0]), np.array([1.5, 1.1]))
    made = integrate(plain(10, 0.0, 100.0, pue=pue), ran([(0, HOUR, 10), (HOUR, 2 * HOUR, 5)]))
    assert made.total_watts.tolist() == near([1000 * 1.1, 500 * 1.3])


def test_sleep_of_a_known_gap():
    wanted = checked("energy.json")["sleep"]
    p = wanted["params"]
    sleep = Sleep(p["P_sleep"], p["t_off"], p["P_off"], p["t_on"], p["P_on"])
    model = plain(1, p["P_idle"], 0.0, sleep=sleep)
    for case in wanted["cases"]:
        gap = float(case["gap"])
        load = ran([(0, 0, 1), (gap, gap, 1)])
        assert integrate(model, load).total_kwh * 3.6e6 == near(case["idle_J"])
        if case["sleep_J"] is None:
            continue
        edges = np.array([0.0, p["t_off"], gap - p["t_on"], gap])
        states = HostStates(np.zeros(3, int), np.array([TURNING_OFF, SLEEPING, TURNING_ON]), edges[:-1], edges[1:])
        assert integrate(model, replace(load, states=states)).total_kwh * 3.6e6 == near(case["sleep_J"])


def test_two_half_node_jobs_packed_and_spread():
    wanted = checked("energy.json")["packing_shared"]
    group = GroupPower("n", 2, 64.0, idle_watts=200.0, core_watts=150 / 32, sleep=Sleep(10.0))
    model = PowerModel("two", (group,))
    load = ran([(0, HOUR, 32), (0, HOUR, 32)])
    asleep = HostStates(np.array([1]), np.array([SLEEPING]), np.array([0.0]), np.array([HOUR]))
    assert integrate(model, load).total_kwh * 1000 == near(wanted["spread_Wh"])
    assert integrate(model, replace(load, states=asleep)).total_kwh * 1000 == near(wanted["packed_Wh"])


def test_frequency_changes_what_jobs_add():
    wanted = checked("energy.json")["dvfs"]
    model = plain(1, wanted["P_idle"], wanted["d"], frequency_exponent=wanted["a"])
    for bound, key in ((1.0, "discrete"), (0.5, "discrete_b05")):
        for share, energy in wanted[key].items():
            x = float(share)
            load = ran([(0, HOUR * (bound / x + 1 - bound), 1)], frequency=x)
            assert integrate(model, load).total_kwh * 1000 == near(energy)
            measured = replace(load, mean_watts=np.array([300.0]))
            assert integrate(model, measured).total_kwh * 1000 == near(energy)


# ---- GAT-DRL ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["polaris", "mira", "cooley"])
def test_watts_of_gat_drl(system):
    wanted = checked("energy.json")["seed_model"][system]
    p = wanted["params"]
    model = gat_drl.GatDrl(p["N"], p["cpn"], p["gpu"], p["base"], p["k"], p["pue"])
    assert gat_drl.SYSTEMS[system] == (p["base"], p["k"], p["pue"])
    for case in wanted["cases"]:
        cores = sum(job[1] for job in case["jobs"])
        several = [job[0] for job in case["jobs"] if job[0] > 1]
        arrays = (np.array([float(v)]) for v in (cores, sum(several), len(several), len(case["jobs"])))
        watts = dict(zip(PARTS, model.watts(*arrays)[0].tolist(), strict=True))
        assert watts["compute"] + watts["gpu"] == near(case["watts"]["compute"])
        for part in ("memory", "network", "cooling"):
            assert watts[part] == near(case["watts"][part])
        assert sum(watts.values()) == near(case["watts"]["total"])


@pytest.mark.parametrize("system", ["polaris", "mira", "cooley"])
def test_the_artefact_of_gat_drl_and_that_ours_has_none(system):
    wanted = checked("energy.json")["seed_model"][system]["artefact"]
    cluster = preset(system)
    half = cluster.procs // 2
    jobs = pd.DataFrame({"job_id": [1, 2], "submit_time": [0.0, 0.0], "run_time": [HOUR] * 2, "req_procs": [half] * 2})
    trace = Trace(jobs, Machine(procs=cluster.procs))
    beside = pd.DataFrame({"job_id": [1, 2], "start_time": [0.0, 0.0], "end_time": [HOUR] * 2, "procs": [half] * 2})
    after = beside.assign(start_time=[0.0, HOUR], end_time=[HOUR, 2 * HOUR])

    def kwh(schedule, power, until=None):
        return energy_of_schedule(schedule, trace, system, Asked(power, until=until))

    assert kwh(beside, "gat-drl").total_kwh == near(wanted["parallel_two_halves_1h_kWh"])
    assert kwh(after, "gat-drl").total_kwh == near(wanted["sequential_2h_kWh"])
    for made in (kwh(beside, "gat-drl"), kwh(after, "gat-drl")):
        assert made.jobs_kwh == near(made.total_kwh)
    ours = [kwh(schedule, None, "7200").total_kwh for schedule in (beside, after)]
    assert ours[0] == near(ours[1])


def test_gat_drl_at_its_best_utilisation_of_mira():
    wanted = checked("energy.json")["seed_artefact_mira"]
    model = gat_drl.GatDrl(1, 1, 0, *gat_drl.SYSTEMS["mira"][:2], 1.0)
    for used, key in ((wanted["u_star"], "f_star"), (1.0, "f_1")):
        one = np.ones(1)
        watts = model.watts(one * used, one * 0, one, one)  # several: an activity of 0
        assert watts.sum() / used == near(wanted[key])


def test_gat_drl_needs_a_system():
    jobs = pd.DataFrame({"job_id": [1], "submit_time": [0.0], "run_time": [HOUR], "req_procs": [1]})
    table = pd.DataFrame({"job_id": [1], "start_time": [0.0], "end_time": [HOUR], "procs": [1]})
    trace = Trace(jobs, Machine(procs=16))
    with pytest.raises(UsageError, match="gat-drl:mira"):
        energy_of_schedule(table, trace, None, Asked("gat-drl"))
    made = energy_of_schedule(table, trace, None, Asked("gat-drl:mira"))
    node = 160 * (1 / 16) ** 2.5 + 48 + 40 / 16 + 20 + 3  # one of the 16 processors of one node
    assert made.total_kwh * 1000 == near(1.2 * node)


# ---- against an oracle -----------------------------------------------------------------------------------------------


def slow_energy(model, load, edges):
    """Return (total, jobs, overhead) in joules: every second, host by host, from the definitions."""
    total = it = of_jobs = overhead = 0.0
    hosts = sum(int(group.hosts) for group in model.groups)
    for second in range(int(load.begin), int(load.until)):
        running = [j for j in range(len(load.start)) if load.start[j] <= second < load.end[j]]
        now = model.switch_watts
        for h in range(hosts):
            number = int(np.searchsorted(edges, h, side="right"))
            group = model.groups[number]
            watts = group.idle
            for j in running:
                for e in range(len(load.held.job)):
                    if load.held.job[e] == j and load.held.group[e] == number:  # spread evenly over the group
                        watts += load.held.cores[e] / group.hosts * group.core_watts
                        watts += load.held.gpus[e] / group.hosts * group.gpu_watts
            now += group.after_losses(watts)
        for j in running:
            for e in range(len(load.held.job)):
                if load.held.job[e] == j:
                    group = model.groups[load.held.group[e]]
                    share = load.held.cores[e] / group.cores
                    it_watts = share * (group.idle - group.gpus * group.gpu_idle_watts)
                    it_watts += load.held.gpus[e] * (group.gpu_idle_watts + group.gpu_watts)
                    of_jobs += it_watts + load.held.cores[e] * group.core_watts
        it += now
        total += now * model.pue.constant + model.overhead_watts
        overhead += model.overhead_watts
    return total, of_jobs, overhead


def random_load(rng, jobs, groups, window):
    start = rng.integers(0, window, jobs).astype(float)
    end = start + rng.integers(0, window, jobs)
    entries = rng.integers(1, 3, jobs)
    job = np.repeat(np.arange(jobs), entries)
    group = rng.integers(0, len(groups), len(job))
    cores = rng.integers(1, 4, len(job)).astype(float)
    gpus = np.array([float(rng.integers(0, 2)) if groups[g].gpus else 0.0 for g in group])
    return Load(start, end, Held(job, group, cores, gpus), 0.0, float(window))


GROUPS = (
    GroupPower("a", 3, 8.0, 2.0, 50.0, 4.0, 20.0, 150.0, 10.0, 5.0, 2.0, 13.0, 0.9, Sleep(5.0, 0.0, 60.0, 0.0, 90.0)),
    GroupPower("b", 2, 16.0, 0.0, 80.0, 3.0, memory_watts=8.0, loss_efficiency=0.95),
)


@pytest.mark.parametrize("seed", range(5))
def test_integration_against_every_second_in_plain_python(seed):
    rng = np.random.default_rng(seed)
    model = PowerModel("two", GROUPS, switch_watts=70.0, overhead_watts=33.0, pue=Pue(constant=1.3))
    load = random_load(rng, 6, GROUPS, 40)
    total, of_jobs, overhead = slow_energy(model, load, np.array([3, 5]))
    made = integrate(model, load)
    assert made.total_kwh * 3.6e6 == near(total)
    assert made.overhead_kwh * 3.6e6 == near(overhead)
    drawn = sum(made.parts_kwh[p] for p in PARTS[:4]) * 3.6e6 - 70.0 * 40
    assert made.jobs_kwh * 3.6e6 == near(of_jobs * (total - overhead) / drawn)


# ---- what holds for every schedule -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_jobs_idle_and_overhead_add_up_and_so_do_parts(seed):
    rng = np.random.default_rng(seed)
    weather = Series("t", np.arange(0.0, 2000, 100), rng.uniform(0, 35, 20))
    pue = [
        Pue(constant=1.2),
        Pue("load", np.array([0.0, 1.0]), np.array([1.4, 1.1])),
        Pue("temperature", np.array([5.0, 30.0]), np.array([1.0, 1.3]), temperature=weather),
    ][seed % 3]
    model = PowerModel("m", GROUPS, 70.0, 33.0, pue)
    load = random_load(rng, 50, GROUPS, 1000)
    if seed % 2:
        mean = np.where(rng.random(50) < 0.5, rng.uniform(1, 2000, 50), np.nan)
        states = HostStates(
            np.array([0, 2]), np.array([SLEEPING, TURNING_ON]), np.array([5.0, 900]), np.array([80, 1200.0])
        )
        load = replace(load, mean_watts=mean, states=states)
    made = integrate(model, load)
    shown = made.to_dict()
    assert sum(shown["parts_kwh"].values()) == near(made.total_kwh)
    assert shown["jobs_kwh"] + shown["idle_kwh"] + shown["overhead_kwh"] == near(made.total_kwh)
    assert made.job_kwh.sum() == near(made.jobs_kwh)
    seconds, kw = made.load_duration()
    assert np.diff(seconds) @ kw / 3600 == near(made.total_kwh)
    assert (np.diff(kw) <= 0).all()
    assert made.peak_kw == kw[0] == shown["load_duration_kw"]["0"]


def test_a_measured_job_draws_its_mean_with_its_idle_share():
    load = ran([(0, HOUR, 2), (0, HOUR, 1)], mean_watts=np.array([500.0, np.nan]))
    made = integrate(plain(4, 100.0, 50.0), load)
    assert made.total_kwh * 1000 == near(500 + 150 + 100)
    assert made.job_kwh * 1000 == near([500, 150])
    nothing = integrate(plain(4, 0.0, 0.0), load)
    assert nothing.job_kwh * 1000 == near([500, 0])  # a model without watts: all of it is compute
    assert nothing.parts_kwh["compute"] == near(0.5)


def test_a_job_beyond_the_window_counts_inside_only_and_more_than_the_machine_is_noted():
    model = plain(2, 100.0, 50.0)
    made = integrate(model, ran([(0, 3 * HOUR, 1)], HOUR))
    assert made.total_kwh * 1000 == near(250)
    assert made.notes == ()
    over = integrate(model, ran([(0, HOUR, 3)]))
    assert "check-schedule" in over.notes[0]


def test_an_empty_window_has_no_energy():
    made = Energy("m", np.array([0.0, 0.0]), np.zeros((0, len(PARTS))).reshape(0, len(PARTS)), np.zeros(0))
    assert made.peak_kw == 0


# ---- simulations -----------------------------------------------------------------------------------------------------


POWER = "idle_watts = 100\ncore_watts = 7\nmemory_watts = 3\nloss_constant = 2\nloss_efficiency = 0.9\npue = 1.25\n"


@pytest.fixture
def power(tmp_path):
    path = tmp_path / "power.toml"
    path.write_text(POWER)
    return str(path)


def test_every_policy_costs_the_same_over_one_window(power):
    trace = tracekit.sample().head(300)
    found = []
    for policy, backfill in itertools.product(("fcfs", "sjf", "random", "wfp3"), ("none", "easy", "conservative")):
        result = tracekit.simulate(trace, policy, backfill, power=power, energy_until="40000000")
        assert result.end.max() < 4e7
        found.append(result.energy.to_dict())
    assert len({round(row["total_kwh"] / found[0]["total_kwh"], 9) for row in found}) == 1
    assert len({round(row["jobs_kwh"] / found[0]["jobs_kwh"], 9) for row in found}) == 1
    assert len({row["peak_kw"] for row in found}) > 1


def test_every_policy_and_allocator_costs_the_same_on_hosts_that_are_alike(power):
    trace = tracekit.sample().head(150)
    cluster = Machine(name="c", groups=(HostGroup(40, cores=8, name="a"),))
    found = [
        tracekit.simulate(trace, policy, cluster=cluster, power=power, allocate=name, energy_until="40000000").energy
        for policy, name in (("fcfs", "first-fit"), ("sjf", "best-fit"), ("sjf", "worst-fit"))
    ]
    assert [energy.total_kwh for energy in found] == near([found[0].total_kwh] * 3)


def test_a_simulation_and_its_schedule_have_the_same_energy(power):
    jobs = tracekit.sample().head(200)
    cluster = Machine(name="c", groups=(HostGroup(40, cores=8, name="a"), HostGroup(20, cores=16, name="b")))
    result = tracekit.simulate(jobs, "sjf", cluster=cluster, power=power, allocate="best-fit")
    table = result.schedule()
    assert table["energy_kwh"].sum() == near(result.energy.jobs_kwh)
    path_free = energy_of_schedule(table, replace(jobs, machine=cluster), None, Asked(power))
    assert path_free.total_kwh == near(result.energy.total_kwh)
    assert path_free.job_kwh == near(result.energy.job_kwh)
    users = users_of(result.energy, jobs, result.position)
    assert sum(user["energy_kwh"] for user in users) == near(result.energy.jobs_kwh)
    assert sum(user["jobs"] for user in users) == len(result)


def test_a_recorded_schedule_has_energy_too(power):
    trace = tracekit.sample().head(300)
    result = tracekit.simulate(trace, "replay", power=power)
    energy = result.energy.to_dict()
    work = float((result.run * result.procs).sum()) * 7 / 0.9 * 1.25
    span = float(result.end.max() - result.submit.min())
    idle = span * result.total * (103 + 2) / 0.9 * 1.25
    assert energy["total_kwh"] * 3.6e6 == near(work + idle)
    assert energy["mean_pue"] == near(1.25)


def test_schedules_that_cannot_be_accounted_for():
    jobs = pd.DataFrame({"job_id": [1], "submit_time": [0.0], "run_time": [HOUR], "req_procs": [1]})
    trace = Trace(jobs, Machine(procs=16))
    good = pd.DataFrame({"job_id": [1], "start_time": [5.0], "end_time": [HOUR], "procs": [1]})
    for table, words in (
        (good.assign(job_id=7), "job 7"),
        (good.assign(start_time=2 * HOUR), "ends before"),
        (good.iloc[:0], "no jobs"),
        (good.assign(hosts="x-1:1/0"), "x-1"),
        (good.assign(hosts=""), "job 1 .* column hosts is empty"),
    ):
        cluster = "polaris" if "hosts" in table.columns else None
        with pytest.raises(TracekitError, match=words):
            energy_of_schedule(table, trace, cluster, Asked("cpu-node"))
    with pytest.raises(UsageError, match="--until"):
        energy_of_schedule(good, trace, None, Asked("cpu-node", until="-1"))


def test_the_mean_watts_of_a_trace_are_used():
    columns = {"job_id": [1, 2], "submit_time": [0.0, 0.0], "run_time": [HOUR, HOUR], "req_procs": [1, 1]}
    trace = Trace(pd.DataFrame(columns | {"mean_watts": [500.0, np.nan]}), Machine(procs=4))
    table = pd.DataFrame({"job_id": [2, 1], "start_time": [0.0, 0.0], "end_time": [HOUR, HOUR], "procs": [1, 1]})
    made = energy_of_schedule(table, trace, None, Asked("cpu-node"))
    node = (150 + 250) / 64
    assert made.job_kwh * 1000 == near([node, 500.0])


@pytest.mark.parametrize("watts", [-1.0, np.inf])
def test_impossible_mean_watts_are_refused(watts):
    columns = {"job_id": [1, 2], "submit_time": [0.0, 0.0], "run_time": [HOUR, HOUR], "req_procs": [1, 1]}
    trace = Trace(pd.DataFrame(columns | {"mean_watts": [500.0, watts]}), Machine(procs=4))
    table = pd.DataFrame({"job_id": [1, 2], "start_time": [0.0, 0.0], "end_time": [HOUR, HOUR], "procs": [1, 1]})
    with pytest.raises(TracekitError, match=r"job 2 has .* mean_watts \(1 jobs .* --rules unset-negative-watts"):
        energy_of_schedule(table, trace, None, Asked("cpu-node"))
