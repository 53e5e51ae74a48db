"""Clusters: presets, TOML files, and every way in which one can be wrong."""

import json

import numpy as np
import pandas as pd
import pytest

import tracekit
from tracekit.cli import main
from tracekit.clusters import FOUND, cluster_names, cluster_of, host_names, preset
from tracekit.errors import FormatError, SchemaError, UnknownName
from tracekit.machine import MOST_HOSTS, HostGroup, Machine
from tracekit.sim.hosts.demand import CORES, GPUS, MEMORY, MILLI, PIECES, SPREAD, demand_of
from tracekit.trace import Trace

PACKAGED = [name for name in cluster_names() if name not in FOUND]


@pytest.mark.parametrize("name", PACKAGED)
def test_presets_are_whole(name):
    machine = preset(name)
    assert machine.nodes == sum(group.count for group in machine.groups) == len(set(host_names(machine)))
    assert Machine.from_dict(machine.to_dict()) == machine


def test_presets_have_the_published_sizes():
    polaris, mira, cooley = (preset(name).groups[0] for name in ("polaris", "mira", "cooley"))
    assert (polaris.count, polaris.cores, polaris.memory, polaris.gpus) == (560, 32, 512 * 1024**2, 4)
    assert (mira.count, mira.cores, mira.memory) == (49152, 16, 16 * 1024**2)
    assert (cooley.count, cooley.cores, cooley.memory, cooley.gpus) == (126, 12, 384 * 1024**2, 2)
    assert [group.count for group in preset("rltune-helios").groups] == [6, 4, 3, 2, 2]
    assert [(g.count, g.gpus) for g in preset("rltune-philly").groups] == [(16, 2), (20, 8)]
    assert [(g.count, g.gpus) for g in preset("rltune-alibaba").groups] == [(8, 2), (8, 8), (15, 2), (10, 8), (8, 8)]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("count = 2\ncores = 4\nmemory = -1", SchemaError, "memory"),
        ("count = 0\ncores = 4", SchemaError, "count"),
        ("count = 2\ncors = 4", UnknownName, "did you mean cores"),
        ("count = 1000000000\ncores = 4", SchemaError, "count"),
        ("count = 2\ncores = 1.5", SchemaError, "cores"),
        ("count = 2\ngpus = 99", SchemaError, "gpus"),
        ('count = "two"', SchemaError, "count"),
        ("cores = 4", SchemaError, "count"),
        ('count = 1\nname = "a:b"', SchemaError, "name"),
        ("count = 1\ncores = 1\nidle_watts = nan", SchemaError, "idle_watts"),
        ("count = nan", SchemaError, "count"),
        ("count = 1\ncores = inf", SchemaError, "cores"),
        ("count = 1\ncores = 1\nmemory = nan", SchemaError, "memory"),
        ("count = 1\ncores = 1\nmemory = 9e300", SchemaError, "memory"),
        ("count = 1\ncores = 1\nmemory = 9e15", SchemaError, "memory"),
        (f"count = {10**400}", SchemaError, "count"),
        ("count = 1\ncores = 99999999999999999999", SchemaError, "cores"),
        ("count = true\ncores = 1", SchemaError, "count"),
        ("count = -3\ncores = 1", SchemaError, "count"),
        ("count = 1\ngpus = -1", SchemaError, "gpus"),
        ("count = 1\npool = 3", SchemaError, "pool"),
        ('count = 1\ngpus = 1\ngpu_type = "a|b"', SchemaError, "gpu_type"),
        ('count = 1\nname = "a\\nb"', SchemaError, "name"),
    ],
)
def test_a_bad_group_is_one_line_that_names_it(tmp_path, text, error, words):
    path = tmp_path / "bad.toml"
    path.write_text(f'name = "bad"\n[[groups]]\n{text}\n')
    with pytest.raises(error, match=words) as caught:
        cluster_of(str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_many_hosts_in_all_and_names_that_appear_twice(tmp_path):
    group = f"[[groups]]\ncount = {MOST_HOSTS}\ncores = 1\n"
    for text, words in ((group * 2, "limit"), ('[[groups]]\ncount = 1\nname = "a"\n' * 2, "'a'")):
        path = tmp_path / "bad.toml"
        path.write_text(text)
        with pytest.raises(SchemaError, match=words):
            cluster_of(str(path))
    (tmp_path / "none.toml").write_text('name = "none"\n')
    with pytest.raises(FormatError, match="groups"):
        cluster_of(str(tmp_path / "none.toml"))
    with pytest.raises(UnknownName, match="polaris"):
        cluster_of("polarys")


GOOD = '[[groups]]\nname = "n"\ncount = 2\ncores = 8\ngpus = 2\ngpu_type = "A100"\npool = "p"\n'
JOBS = "job_id,submit_time,run_time,req_time,req_procs,req_gpus,gpu_type,pool\n"


@pytest.mark.parametrize(
    ("cluster", "job", "code", "words"),
    [
        ("this is not TOML [[[", "1,0,5,5,2,1,A100,p", 1, "TOML"),
        ("", "1,0,5,5,2,1,A100,p", 1, "groups"),
        ("\0\1", "1,0,5,5,2,1,A100,p", 1, "TOML"),
        ('groups = "a"', "1,0,5,5,2,1,A100,p", 1, "groups"),
        ("groups = [1, 2]", "1,0,5,5,2,1,A100,p", 1, "groups"),
        ('colour = "red"\n' + GOOD, "1,0,5,5,2,1,A100,p", 2, "colour"),
        (GOOD.replace("count = 2", "count = 1000000000"), "1,0,5,5,2,1,A100,p", 1, "count"),
        (GOOD + GOOD, "1,0,5,5,2,1,A100,p", 1, "'n'"),
        (GOOD, "1,0,5,5,2,1,A10O,p", 1, "did you mean A100"),
        (GOOD, "1,0,5,5,2,1,A100,pp", 1, "did you mean p"),
        (GOOD, "1,0,5,5,2,99999999999999999999,A100,p", 1, "too large"),
        (GOOD, "1,0,5,5,9e18,1,A100,p", 1, "too large"),
    ],
)
def test_bad_clusters_and_jobs_are_one_line_on_the_command_line(tmp_path, capsys, cluster, job, code, words):
    toml, jobs = tmp_path / "c.toml", tmp_path / "jobs.csv"
    toml.write_text(cluster)
    jobs.write_text(JOBS + job + "\n")
    assert main(["simulate", str(jobs), "--cluster", str(toml), "--json"]) == code
    out, error = capsys.readouterr()
    assert out == ""
    assert words in error
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize("value", [-5.0, -np.inf, np.nan])
def test_negative_and_missing_demands_ask_for_nothing(value):
    """Above all, negative memory does not make room for other jobs."""
    trace = jobs_of(req_procs=[2.0, value], req_mem=[value, 1.0], req_gpus=[value, 1.0])
    need = demand_of(trace, cluster_of(CLUSTER)).need
    assert need[:, [CORES, MEMORY, GPUS, MILLI]].tolist() == [[2, 0, 0, 0], [0, 0, 1, 0]]


@pytest.mark.parametrize("column", ["req_procs", "req_mem", "req_gpus", "tasks"])
@pytest.mark.parametrize("value", [2.0**62, 1e300, np.inf])
def test_huge_demands_are_too_large(column, value):
    if column == "tasks":
        value = 2**62
    job = {"req_procs": [2.0], "req_mem": [1.0], "req_gpus": [1.0], "tasks": [1]} | {column: [value]}
    assert any("too large" in reason for reason in demand_of(jobs_of(**job), cluster_of(CLUSTER)).reasons())


def test_groups_are_kept_in_parquet_and_shown(tmp_path, capsys):
    trace = tracekit.sample().head(20).replace(machine=preset("rltune-helios"))
    trace.save(tmp_path / "a.parquet")
    assert tracekit.read(tmp_path / "a.parquet").machine.groups == preset("rltune-helios").groups
    assert main(["info", str(tmp_path / "a.parquet"), "--json"]) in (0, None)
    groups = json.loads(capsys.readouterr().out)["machine"]["groups"]
    assert groups[0] == {"count": 6, "gpus": 8, "pool": "0", "name": "vc0"}


def jobs_of(**columns):
    n = len(next(iter(columns.values())))
    table = {"job_id": np.arange(1, n + 1), "submit_time": np.zeros(n), "run_time": np.ones(n), **columns}
    return Trace(pd.DataFrame(table), Machine())


CLUSTER = Machine.from_dict(
    {
        "groups": [
            {"name": "small", "count": 4, "cores": 8, "memory": 100, "pool": "cpu"},
            {"name": "big", "count": 2, "cores": 16, "memory": 400, "gpus": 4, "gpu_type": "V100", "pool": "gpu"},
        ]
    }
)


def test_demands_have_the_units_of_the_contract():
    """Memory is per processor, fractions of a GPU are thousandths of one device, tasks share evenly."""
    trace = jobs_of(
        req_procs=[4, 2, 6, 40], req_mem=[10.0, 5.0, 0.0, 1.0], req_gpus=[0, 0.25, 6, 0], tasks=[None, None, 3, None]
    )
    need = demand_of(trace, cluster_of(CLUSTER)).need
    assert need[:, CORES].tolist() == [4, 2, 6, 40]
    assert need[:, MEMORY].tolist() == [40, 10, 0, 40]
    assert need[:, MILLI].tolist() == [0, 250, 0, 0]
    assert need[:, GPUS].tolist() == [0, 0, 2, 0]
    assert need[:, PIECES].tolist() == [1, 1, 3, 40]
    assert need[:, SPREAD].tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ({"req_procs": [20], "tasks": [1]}, "too large for any host"),
        ({"req_procs": [8], "req_mem": [100.0]}, "too large for any host"),
        ({"req_procs": [1000]}, "too large for any pool"),
        ({"req_procs": [1], "req_gpus": [1], "gpu_type": ["V10O"]}, "did you mean V100"),
        ({"req_procs": [1], "pool": ["gpus"]}, "did you mean gpu"),
        ({"req_procs": [1], "req_gpus": [1], "pool": ["cpu"]}, "GPUs"),
        ({"req_procs": [8], "req_gpus": [9], "tasks": [9]}, "too large for any pool"),
    ],
)
def test_a_job_that_can_never_fit_has_a_reason(job, reason):
    found = demand_of(jobs_of(**job), cluster_of(CLUSTER)).reasons()
    assert len(found) == 1
    assert reason in next(iter(found))


def test_a_partition_that_is_no_pool_means_any_pool():
    trace = jobs_of(req_procs=[1, 1], partition=["debug", "gpu"])
    demand = demand_of(trace, cluster_of(CLUSTER))
    assert demand.need[:, 7].tolist() == [-1, 1]
    assert not demand.reasons()


def test_groups_may_be_given_as_objects():
    machine = cluster_of(Machine(groups=(HostGroup(2, cores=4),)))
    assert host_names(machine) == ["group0-0", "group0-1"]
    assert machine.procs == 8
