"""Scores on hosts: packing, fragmentation and what jobs ask for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hosts_toys import CLUSTER, hosts_trace
from typer.testing import CliRunner

import tracekit
from evaluation.base import Setting
from evaluation.hosts import PACKING, Packing, Plan, fragmentation, trace_of
from evaluation.score import score
from evaluation.validity import Validity
from evaluation.view import prepare
from generators.baseline import Independent
from tracekit import Machine, Trace
from tracekit.cli import app
from tracekit.errors import UnknownName
from tracekit.machine import HostGroup
from tracekit.sim.hosts.demand import demand_of

HOSTS = (*PACKING, "hosts.rejected", "hosts.fragmentation")


def compared(real: Trace, synth: Trace, cluster: Machine | None = None) -> dict:
    views = prepare(real, [synth], ["real", "synthetic"], cluster)
    how = {"setting": Setting(quick=True), "rng": np.random.default_rng(0)}
    return {**Packing()(*views, **how), **Validity()(*views, **how)}


def test_a_copy_packs_as_the_real_trace_does_and_independent_columns_do_not() -> None:
    real = hosts_trace(1500)
    copy, broken = compared(real, real), compared(real, Independent().fit(real).sample(1500, seed=1))
    assert copy["hosts.packing_curve"].value < 2.5  # points; two sets of random orders of one trace
    assert copy["hosts.fragmentation"].value == pytest.approx(copy["hosts.fragmentation"].real)
    assert copy["hosts.rejected"].value == copy["validity.fits_hosts"].value == 0
    assert broken["hosts.packing_curve"].value > 2 * copy["hosts.packing_curve"].value
    assert broken["hosts.rejected"].value == broken["validity.fits_hosts"].value > 0.05
    assert sum(broken["hosts.rejected"].detail.values()) == pytest.approx(broken["hosts.rejected"].value)
    assert broken["validity.share"].value >= broken["validity.fits_hosts"].value


def test_the_same_seed_gives_the_same_numbers() -> None:
    real, other = hosts_trace(500), hosts_trace(500, seed=8)
    first, again = compared(real, other), compared(real, other)
    assert {k: (s.value, s.low, s.high) for k, s in first.items() if k in HOSTS} == {
        k: (s.value, s.low, s.high) for k, s in again.items() if k in HOSTS
    }


def test_without_hosts_the_scores_are_absent_and_say_why() -> None:
    real = hosts_trace(200).replace(machine=CLUSTER.replace(groups=()))
    found = compared(real, real)
    for key in (*HOSTS, "validity.fits_hosts"):
        assert np.isnan(found[key].value)
        assert "--cluster" in found[key].note
    given = compared(real, real, CLUSTER)
    assert np.isfinite([given[key].value for key in HOSTS]).all()


def test_a_cluster_without_gpus_has_no_packing_curve_but_fragmentation() -> None:
    real = hosts_trace(300).assign({"req_gpus": 0.0})
    cores = Machine(name="cores", procs=96, nodes=6, groups=(HostGroup(6, cores=64, pool="train", name="c"),))
    jobs = real.take(real.jobs["pool"].to_numpy() == "train")
    found = compared(jobs, jobs, cores)
    assert np.isnan(found["hosts.packing_curve"].value)
    assert found["hosts.packing_curve"].note
    assert found["hosts.fragmentation"].value >= 0


def test_shares_of_a_gpu_and_jobs_without_gpus_break_no_rule_where_they_are_real() -> None:
    real = hosts_trace(400)
    found = compared(real, real)
    assert found["validity.integers"].value == found["validity.at_least_one"].value == 0
    whole = real.assign({"req_gpus": np.maximum(np.ceil(real.sizes("gpus")), 1)})
    strange = compared(whole, real)
    assert strange["validity.integers"].value > 0.2
    assert strange["validity.at_least_one"].value > 0.2


def test_the_demands_of_a_view_are_those_of_its_trace() -> None:
    real = hosts_trace(200, impossible=True)
    view = prepare(real, [], ["real"])[0]
    ours, theirs = demand_of(real, CLUSTER), demand_of(trace_of(view), CLUSTER)
    assert (ours.need[:, :7] == theirs.need[:, :7]).all()
    assert ((ours.reason > 0) == (theirs.reason > 0)).all()
    assert view.numbers["unplaced"].sum() == 15


def test_large_clusters_are_packed_with_fewer_hosts() -> None:
    groups = tuple(
        HostGroup(g.count * 10_000, g.cores, g.memory, g.gpus, g.gpu_type, g.pool, name=g.name) for g in CLUSTER.groups
    )
    huge = Machine(name="huge", nodes=160_000, procs=3_840_000, gpus=720_000, groups=groups)
    plan = Plan.of(huge, 2.0, Setting(quick=True))
    assert 1.3 * (plan.cluster.gpus or 0) / 2.0 * (plan.cluster.nodes or 0) < 2 * Setting(quick=True).host_steps
    assert plan.note
    assert [g.pool for g in plan.cluster.groups] == ["train", "train", "infer"]
    small = Plan.of(CLUSTER, 2.0, Setting(quick=True))
    assert small.cluster == CLUSTER
    assert small.orders > plan.orders


def test_fragmentation_is_that_of_simulate() -> None:
    """One of four GPUs on two hosts is busy: a third of the idle ones are on the partly used host."""
    groups = (HostGroup(2, cores=2, gpus=2, name="h"),)
    jobs = (
        hosts_trace(40)
        .jobs[["job_id", "submit_time", "run_time"]]
        .assign(submit_time=np.arange(40) * 10.0, run_time=1000.0, req_procs=1, req_gpus=1)
    )
    jobs.loc[:38, "run_time"] = 10.0
    real = Trace(jobs, Machine(unit="gpus", gpus=4, nodes=2, procs=4, groups=groups))
    view = prepare(real, [], ["real"])[0]
    assert fragmentation(view, real.machine, Setting(quick=True)) == pytest.approx(np.full(10, 1 / 3))


def test_score_has_the_columns_of_hosts_with_a_noise_floor() -> None:
    real = hosts_trace(600)
    scores = score(
        real, tracekit.synth(real, "sessions", seed=1), quick=True, families=["marginal", "hosts", "validity"]
    )
    for key in ("tv.pool", "tv.gpu_type", "ks.tasks", "tv.tasks", "ks.req_mem", "hosts.pool_tv", "hosts.gpu_type_tv"):
        assert scores[key].value < 0.2, key
        assert key in scores.noise_floor
    for key in HOSTS:
        assert np.isfinite(scores[key].value), key
        assert np.isfinite(scores.noise_floor[key].value), key
    assert scores["hosts.memory_ks"].value < 0.1
    assert scores.switches["cluster"] == "three kinds"


def test_score_takes_a_cluster_on_the_command_line(tmp_path: Path) -> None:
    real = hosts_trace(300).replace(machine=Machine(unit="gpus"))
    tracekit.write(real, tmp_path / "real.parquet")
    toml = "".join(
        f'[[groups]]\nname = "{g.name}"\ncount = {g.count}\ncores = {g.cores}\nmemory = {g.memory}\n'
        f'gpus = {g.gpus}\ngpu_type = "{g.gpu_type}"\npool = "{g.pool}"\n'
        for g in CLUSTER.groups
    )
    (tmp_path / "three.toml").write_text(toml)
    files = [str(tmp_path / name) for name in ("real.parquet", "made.parquet", "three.toml")]
    run = CliRunner().invoke
    done = run(app, ["synth", files[0], "-o", files[1], "--cluster", files[2], "--seed", "1"])
    assert done.exit_code == 0, done.output
    assert tracekit.read(files[1]).machine.gpus == 72
    command = ["score", *files[:2], "--cluster", files[2], "--quick", "--families", "hosts,validity", "--json"]
    done = run(app, command)
    assert done.exit_code == 0, done.output
    scores = json.loads(done.stdout)["synthetic"][0]["scores"]
    assert scores["validity.fits_hosts"]["value"] == 0
    assert scores["hosts.packing_curve"]["value"] < 20


@pytest.mark.parametrize("command", ["score", "synth"])
def test_an_unknown_cluster_is_rejected_before_files_are_read(command: str) -> None:
    rest = ["b.parquet"] if command == "score" else ["-o", "b.parquet"]
    done = CliRunner().invoke(app, [command, "a.parquet", *rest, "--cluster", "opnb"])
    assert done.exit_code == 2 or isinstance(done.exception, UnknownName)
