"""Power models: presets, files, counters without hosts, and every way in which a file can be wrong."""

import numpy as np
import pytest
from shared_data import checked

from tracekit.clusters import cluster_of, preset
from tracekit.errors import FormatError, SchemaError, TracekitError, UnknownName, UsageError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.energy.model import power_names, power_of
from tracekit.sim.energy.pue import pue_of
from tracekit.sim.energy.series import Series, parse_time, read_series
from tracekit.sim.energy.states import SLEEPING, HostStates


def test_frontier_has_the_figures_of_raps():
    wanted, model = checked("energy.json")["raps_frontier"], power_of(preset("frontier"))
    node = model.groups[0]
    assert node.idle == pytest.approx(wanted["node_idle_W"], rel=1e-12)
    assert node.full == pytest.approx(wanted["node_peak_W"], rel=1e-12)
    system = [watts + model.overhead_watts for watts in (model.idle_it_watts, model.full_it_watts)]
    assert system[0] / 1e6 == pytest.approx(wanted["system_idle_MW"], rel=1e-12)
    assert system[1] / 1e6 == pytest.approx(wanted["system_peak_MW"], rel=1e-12)


def test_every_preset_is_a_model_of_its_own_cluster_or_of_any_machine():
    assert {"polaris", "mira", "cooley", "theta", "frontier", "cpu-node"} <= set(power_names())
    for name in power_names():
        own = Machine(procs=640) if name == "cpu-node" else preset(name)
        model = power_of(own, name)
        assert 0 < model.idle_it_watts < model.full_it_watts
        assert power_of(Machine(nodes=10, unit="nodes"), name).groups[0].hosts == 10


def test_fields_of_a_cluster_per_host_core_and_gpu():
    groups = (
        HostGroup(2, cores=8, gpus=4, name="gpu", idle_watts=100, core_watts=5, gpu_idle_watts=20, gpu_watts=200),
        HostGroup(3, cores=16, name="cpu", power=80, memory_watts=10, nic_watts=5, other_watts=1, sleep_watts=7),
    )
    model = power_of(Machine(name="m", groups=groups, switch_watts=50, pue=1.2))
    first, second = model.groups
    assert (first.idle, first.full) == (180, 180 + 40 + 800)
    assert second.idle == 96  # power is read as idle_watts
    arrays = model.by_host()
    assert arrays.idle.tolist() == [180, 180, 96, 96, 96]
    assert arrays.gpu.tolist() == [200, 200, 0, 0, 0]
    assert np.isnan(arrays.sleep[:2]).all()
    assert arrays.sleep[2:].tolist() == [7, 7, 7]
    assert arrays.off[2:].tolist() == arrays.on[2:].tolist() == [96, 96, 96]  # not stated: as idle
    assert model.pue.of(np.zeros(2)).tolist() == [1.2, 1.2]
    assert model.idle_it_watts == 50 + 2 * 180 + 3 * 96


def test_losses_are_per_host():
    group = HostGroup(10, cores=1, name="a", idle_watts=87, loss_constant=13, loss_efficiency=0.8)
    assert power_of(Machine(groups=(group,))).idle_it_watts == pytest.approx(10 * 100 / 0.8)


def test_a_file_replaces_all_power_of_the_cluster(tmp_path):
    path = tmp_path / "power.toml"
    path.write_text("idle_watts = 100\ncore_watts = 2\n")
    model = power_of(preset("polaris"), path)
    assert model.groups[0].idle == 100
    assert model.groups[0].gpu_watts == 0
    assert model.pue.constant == 1.0
    path.write_text('pue = 1.1\n[[groups]]\nname = "gpu"\nidle_watts = 1\n[[groups]]\nname = "cpu"\nidle_watts = 2\n')
    two = Machine(groups=(HostGroup(1, cores=1, name="cpu"), HostGroup(1, cores=1, name="gpu")))
    assert [group.idle for group in power_of(two, path).groups] == [2, 1]
    with pytest.raises(SchemaError, match="no power fields for group polaris"):
        power_of(preset("polaris"), path)


def test_the_file_of_a_cluster_is_a_power_file(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text('name = "c"\n[[groups]]\nname = "n"\ncount = 4\ncores = 2\nidle_watts = 100\ncore_watts = 10\n')
    assert power_of(cluster_of(str(path)), path).full_it_watts == 4 * 120
    assert power_of(Machine(procs=100), path).groups[0].hosts == 50  # a counter: hosts of 2 cores


def test_a_counter_of_processors_nodes_or_gpus(tmp_path):
    path = tmp_path / "plain.toml"
    path.write_text("idle_watts = 50\ncore_watts = 3\n")
    plain = power_of(Machine(procs=128), path)
    assert (plain.idle_it_watts, plain.full_it_watts) == (128 * 50, 128 * 53)
    node = power_of(Machine(procs=100), "cpu-node")
    assert node.idle_it_watts == pytest.approx(100 / 64 * 150)
    gpus = power_of(Machine(gpus=8, unit="gpus"), "polaris")
    assert gpus.groups[0].hosts == 2
    with pytest.raises(SchemaError, match="--procs"):
        power_of(Machine(), path)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("idle_watts = -1", SchemaError, "idle_watts"),
        ("idle_watts = 10\nloss_efficiency = 1.2", SchemaError, "loss_efficiency"),
        ("idle_watts = 10\nloss_efficiency = 0", SchemaError, "loss_efficiency"),
        ("idle_watts = 10\npue = 0.9", SchemaError, "pue"),
        ("idle_watts = 10\npue = true", SchemaError, "pue"),
        ("idle_watts = 10\npue = nan", SchemaError, "pue"),
        ("idle_watts = 10\nidel_watts = 1", UnknownName, "did you mean idle_watts"),
        ("idle_watts = 10\nswitch_watts = -3", SchemaError, "switch_watts"),
        ("idle_watts = inf", SchemaError, "idle_watts"),
        ('idle_watts = "many"', SchemaError, "idle_watts"),
        ("pue = 1.1", SchemaError, "no power fields"),
        ("cores = 4", SchemaError, "no watts"),
        ("idle_watts = 10\npue = {load = [[0, 1.3], [1, 0.9]]}", SchemaError, "pue"),
        ("idle_watts = 10\npue = {load = [[0, 1.3], [0, 1.1]]}", SchemaError, "different"),
        ("idle_watts = 10\npue = {load = []}", SchemaError, "pairs"),
        ("idle_watts = 10\npue = {temperature = [[10, 1.1]]}", SchemaError, "series"),
        ("idle_watts = 10\npue = {weather = 3}", UnknownName, "temperature"),
        ('idle_watts = 10\npue = {temperature = [[10, 1.1]], series = "none.csv"}', FormatError, "no such file"),
        ("groups = 3", SchemaError, "groups"),
        ("[[groups]]\nidle_watts = 3\n[[groups]]\nidle_watts = 4", SchemaError, "name"),
        ("this is no toml", FormatError, "TOML"),
    ],
)
def test_a_bad_power_file_is_one_line(tmp_path, text, error, words):
    path = tmp_path / "bad.toml"
    path.write_text(text + "\n")
    with pytest.raises(error, match=words) as caught:
        power_of(Machine(procs=4), path)
    assert "bad.toml" in str(caught.value) or "none.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_machine_without_power_and_names_that_are_not_there():
    with pytest.raises(SchemaError, match="--power"):
        power_of(preset("rltune-helios"))
    with pytest.raises(UnknownName, match="frontier"):
        power_of(preset("polaris"), "fronteir")
    with pytest.raises(SchemaError, match="pue"):
        Machine.from_dict({"pue": 0.5})


def test_pue_by_temperature_and_load(tmp_path):
    wanted = checked("energy.json")["pue"]
    (tmp_path / "t.csv").write_text("time,celsius\n0,10\n3600,20\n7200,30\n")
    given = {"temperature": [[30, 1.2], [15, 1.05]], "series": "t.csv"}
    made = pue_of(given, "here", tmp_path)
    assert made.of(np.array(wanted["T"], float)) == pytest.approx(wanted["pue"], rel=1e-12)
    assert made.temperature is not None
    assert made.temperature.at(np.array([0.0, 3599, 3600, 9000])).tolist() == [10, 10, 20, 30]
    assert pue_of({"load": {"0": 1.4, "1": 1.1}}, "here").of(np.array([0.5])).tolist() == pytest.approx([1.25])


def test_series_are_steps_with_a_begin_and_an_end(tmp_path):
    path = tmp_path / "carbon.csv"
    path.write_text("time,kg_per_kwh\n0,5\n3600,4\n7200,1\n")
    series = read_series(path, "carbon")
    assert (series.begin, series.end) == (0, 10800)
    assert series.integral(np.array([0.0, 1800, 5400, 10800])).tolist() == [0, 9000, 25200, 36000]
    series.check_covers(0, 10800)
    with pytest.raises(TracekitError, match="ends at second 10800"):
        series.check_covers(0, 10801)
    with pytest.raises(TracekitError, match="begins"):
        series.check_covers(-1, 3)
    path.write_text("7\n")
    with pytest.raises(FormatError, match="line 1"):
        read_series(path, "carbon")


def test_units_of_carbon_and_price_are_in_the_header(tmp_path):
    path = tmp_path / "s.csv"
    for header, kind, wanted in (
        ("g_per_kwh", "carbon", 0.4),
        ("gCO2eq/kWh", "carbon", 0.4),
        ("carbon intensity gCO2/kWh", "carbon", 0.4),
        ("EUR/MWh", "price", 0.4),
        ("eur_per_kwh", "price", 400),
    ):
        path.write_text(f"time,{header}\n0,400\n3600,400\n")
        assert read_series(path, kind).values[0] == pytest.approx(wanted)
    path.write_text("0,400\n3600,400\n")
    with pytest.raises(FormatError, match="g_per_kwh"):
        read_series(path, "carbon")
    path.write_text("0,0.4\n3600,-0.1\n")
    with pytest.raises(FormatError, match="negative"):
        read_series(path, "carbon")


def test_time_stamps_need_a_zone_and_a_calendar(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("time,price\n2024-05-01T00:00+02:00,1\n2024-05-01T01:00+02:00,2\n")
    series = read_series(path, "price")
    midnight = 1714514400.0
    assert series.in_trace_time(midnight).times.tolist() == [0, 3600]
    assert parse_time("2024-05-01T00:00+02:00", midnight) == 0
    assert parse_time("77.5", None) == 77.5
    with pytest.raises(TracekitError, match="calendar"):
        series.in_trace_time(None)
    for text in ("2024-05-01T00:00", "soon"):
        with pytest.raises(UsageError, match=text):
            parse_time(text, 0.0)
    for lines, words in (
        ("2024-05-01T00:00,1", "time zone"),
        ("soon,1", "time stamp"),
        ("5,1\n4,2", "rise"),
        ("5,1\nsoon,2", "seconds"),
        ("", "no values"),
    ):
        path.write_text(f"time,price\n{lines}\n")
        with pytest.raises(FormatError, match=words):
            read_series(path, "price")


def test_one_value_holds_always():
    series = Series("one", np.array([0.0]), np.array([3.0]))
    series.check_covers(-1e9, 1e9)
    assert series.integral(np.array([-2.0, 2.0])).tolist() == [-6, 6]


def test_states_of_hosts_are_checked():
    one = np.array([0])
    assert len(HostStates(one, one + SLEEPING, one * 1.0, one + 5.0)) == 1
    for wrong in ((one, one + 7, one * 1.0, one + 1.0), (one, one, one + 2.0, one * 1.0), (one, one, one[:0], one)):
        with pytest.raises(UsageError):
            HostStates(*wrong)
