"""``--compat rltune`` and ``reproduce rltune``: the numbers of RLTune's own code, and a plain restatement of it."""

from __future__ import annotations

import hashlib
import json
import random
import statistics

import numpy as np
import pandas as pd
import pytest
from shared_data import DATA, shared

import tracekit
from tests.sim import rltune_oracle as oracle
from tracekit.cli import main
from tracekit.errors import TracekitError
from tracekit.machine import Machine
from tracekit.sim.analysis import reproduce_rltune as study
from tracekit.sim.hosts.rltune_demand import RLTuneStops
from tracekit.sim.policies.rltune import BROKEN

KINDS = ("helios", "philly", "alibaba")


def baselines():
    path = DATA.parent / "checks" / "rltune_baselines.json"
    return json.loads(path.read_text()) if path.is_file() else {"base": []}


@pytest.mark.skipif(not baselines()["base"], reason="the checks of published systems are not here")
@pytest.mark.parametrize("base", baselines()["base"], ids=lambda base: base["env"])
def test_base_policies_are_those_of_rltune_to_the_last_digit(base) -> None:
    trace = tracekit.read(shared("rltune/synthetic_trace.csv"))
    names = [str(name) for name in trace.jobs["x_job_id"]]
    jobs, switches = study.jobs_of(trace, f"rltune-{base['env']}")
    assert study.window_starts(len(jobs)) == base["windows"]
    for key, theirs in base["policies"].items():
        policy, backfill, _ = key.lower().split("|")
        ours = [
            study.run_window(jobs, switches, start, 256, policy, backfill=backfill == "backfil=1")
            for start in base["windows"]
        ]
        for window, expected in zip(ours, theirs["windows"], strict=True):
            starts = sorted([names[row], int(start)] for row, start in window.started)
            digest = hashlib.sha256(json.dumps(starts).encode()).hexdigest()[:16]
            assert digest == expected["start_digest"]
            assert window.values == {_ours(name): expected[name] for name in theirs["mean"]}
        means = {name: statistics.mean(window.values[_ours(name)] for window in ours) for name in theirs["mean"]}
        assert means == theirs["mean"]


def _ours(name: str) -> str:
    return "utilization" if name == "utilisation" else name


# ---- against the plain restatement -----------------------------------------------------------------------------------


def drawn(seed: int, kind: str, *, odd: bool) -> list[dict[str, int]]:
    """Return jobs that contend for the cluster, with ties; odd ones never fit, have no GPUs or run no time."""
    draw = random.Random(f"{seed} {kind}")
    sizes = {
        "helios": [1, 2, 4, 7, 8, 9, 12, 16],
        "philly": [1, 2, 3, 4, 5, 8, 30, 64],
        "alibaba": [1, 2, 3, 8, 12, 20],
    }
    jobs, time = [], draw.randint(0, 20)
    for number in range(draw.randint(20, 70)):
        time += draw.choice([0, 0, 1, 3, 10])
        job = {"id": f"j{number}", "submit": time, "wait": draw.choice([-1, 0, 500]), "gpus": draw.choice(sizes[kind])}
        job |= {
            "run": draw.choice([5, 10, 30, 100, 100, 300]),
            "label": draw.randint(0, 1 if draw.random() < 0.7 else 4),
        }
        if kind == "alibaba" and job["gpus"] > 16:
            job["label"] = 3
        if odd and draw.random() < 0.1:
            job |= draw.choice([{"gpus": 0}, {"gpus": 500}, {"run": 0}, {"label": -1}, {"label": -5}, {"run": -1}])
        if odd and seed % 7 == 0 and draw.random() < 0.02:
            job["label"] = 5
        jobs.append(job)
    if odd:
        draw.shuffle(jobs)
    return jobs


def written(path, jobs, columns: int) -> None:
    between = ["-1"] * (columns - 19)
    rows = []
    for job in jobs:
        row = [job["id"], job["submit"], job["wait"], job["run"], job["gpus"], *[-1] * 5, 1, -1, -1, -1, 0, -1, -1]
        vc = [-1, job["label"]] if columns == 19 else [*between, job["label"], 0]
        rows.append(",".join(str(value) for value in [*row, *vc]))
    path.write_text("\n".join(rows) + "\n")


def expected(kind: str, jobs, policy: str, *, backfill: bool):
    given = [dict(job, run=10 if job["run"] == -1 else job["run"]) for job in jobs]
    given.sort(key=lambda job: job["submit"])
    with np.errstate(divide="ignore"):
        return oracle.Window(kind, given, policy, backfill).run()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_windows_are_those_of_the_plain_restatement(tmp_path, kind, seed) -> None:
    jobs = drawn(seed, kind, odd=seed % 2 == 1)
    path = tmp_path / "t.csv"
    written(path, jobs, 19 + seed // 2 % 2)
    trace = tracekit.read(path, "rltune")
    table, switches = study.jobs_of(trace, f"rltune-{kind}")
    for backfill in (False, True):
        for policy in study.POLICIES:
            try:
                theirs = expected(kind, jobs, policy, backfill=backfill)
            except oracle.Stops:
                with pytest.raises(RLTuneStops):
                    study.run_window(table, switches, 0, len(table), policy, backfill=backfill)
                continue
            ours = study.run_window(table, switches, 0, len(table), policy, backfill=backfill)
            started = [(trace.jobs["x_job_id"].iloc[row], start) for row, start in ours.started]
            assert started == [(job["id"], job["start"]) for job in theirs.started], (policy, backfill)
            assert ours.values == theirs.measures(), (policy, backfill)


# ---- the command, and what is refused --------------------------------------------------------------------------------


def answer(capsys, *words: object) -> dict:
    assert main([str(word) for word in words]) == 0
    return json.loads(capsys.readouterr().out)


def test_reproduce_prints_every_cell(tmp_path, capsys) -> None:
    path = tmp_path / "t.csv"
    jobs = drawn(2, "helios", odd=False)
    jobs[5]["gpus"] = 500
    written(path, jobs, 20)
    options = ["--cluster", "rltune-helios", "--jobs", len(jobs) - 3, "--iterations", 2]
    found = answer(capsys, "reproduce", "rltune", "--trace", path, *options, "--json")
    assert (found["cluster"], len(found["windows"])) == ("rltune-helios", 2)
    assert len(found["cells"]) == 32
    keys = {"policy", "backfill", "allocate", *study.MEASURES, "published"}
    for cell in found["cells"]:
        assert keys <= set(cell) <= {*keys, "note"}
        if cell["backfill"]:
            assert cell["bsld"] is None
            assert cell["note"]
        else:
            assert cell["dropped"] == 1
            assert cell["scheduled"] == len(jobs) - 4
    broken = {cell["policy"] for cell in found["cells"] if not cell["backfill"] and "note" in cell}
    assert broken == set(BROKEN)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["reproduce", "rltune"], "--cluster"),
        (["reproduce", "rltune", "--trace", "FILE", "--cluster", "rltune-helios", "--procs", "3"], "--procs"),
        (["reproduce", "rlscheduler", "--cluster", "rltune-helios"], "--cluster"),
        (["reproduce", "rltune", "--trace", "FILE", "--cluster", "mira"], "GPUs"),
        (["simulate", "FILE", "--compat", "rltune"], "--cluster"),
        (
            ["simulate", "FILE", "--compat", "rltune", "--cluster", "rltune-helios", "--backfill", "conservative"],
            "easy",
        ),
        (["simulate", "FILE", "--compat", "rltune", "--cluster", "rltune-helios", "--allocate", "fgd"], "fgd"),
    ],
)
def test_what_does_not_go_together_is_one_line(tmp_path, capsys, words, named) -> None:
    path = tmp_path / "t.csv"
    written(path, drawn(2, "helios", odd=False), 20)
    assert main([str(path) if word == "FILE" else word for word in words]) == 2
    assert named in capsys.readouterr().err


def test_a_trace_without_gpus_is_refused(tmp_path) -> None:
    path = tmp_path / "t.csv"
    written(path, [dict(job, gpus=0) for job in drawn(2, "helios", odd=False)], 20)
    with pytest.raises(TracekitError, match="GPUs"):
        tracekit.simulate(tracekit.read(path, "rltune"), compat="rltune", cluster="rltune-helios")


def test_a_virtual_cluster_that_does_not_exist(tmp_path) -> None:
    path = tmp_path / "t.csv"
    written(path, [dict(job, label=7) for job in drawn(2, "helios", odd=False)], 20)
    with pytest.raises(RLTuneStops, match="IndexError"):
        tracekit.simulate(tracekit.read(path, "rltune"), compat="rltune", cluster="rltune-helios")


def test_schedules_count_dropped_jobs_and_name_hosts(tmp_path) -> None:
    path = tmp_path / "t.csv"
    jobs = drawn(2, "philly", odd=False)
    jobs[3]["gpus"] = 500
    written(path, jobs, 20)
    found = tracekit.simulate(tracekit.read(path, "rltune"), "sjf", "none", compat="rltune", cluster="rltune-philly")
    assert (len(found), found.metrics["dropped"]) == (len(jobs) - 1, 1)
    placed = [sum(int(part.rpartition("/")[2]) for part in places.split("+")) for places in found.hosts]
    assert placed == found.procs.astype(int).tolist()


@pytest.mark.parametrize("cluster", ["rltune-helios", "rltune-philly", "rltune-alibaba"])
@pytest.mark.parametrize(
    ("file", "submit", "run"),
    [
        ("helios/helios_venus_gpujobs_reduced.csv", "arrival_s", "service_sec"),
        ("philly/philly_2k_c48.csv", "arrival_time_s", "duration_s"),
        ("alibaba/pai_sub25_reduced.csv", "arrival_s", "service_sec"),
        ("alibaba/openb_pod_list_default.csv", "", ""),
    ],
)
def test_public_traces_run_on_the_presets(cluster, file, submit, run) -> None:
    if submit:  # tables that others have reduced: no format of ours
        table = pd.read_csv(shared(file)).sort_values(submit, kind="stable")
        columns = {"job_id": range(1, len(table) + 1), "submit_time": table[submit], "run_time": table[run]}
        frame = pd.DataFrame(columns | {"req_gpus": table["gpu_count"]}).reset_index(drop=True)
        trace = tracekit.Trace(frame.astype({"submit_time": float, "run_time": float}), Machine(unit="gpus"))
    else:
        trace = tracekit.read(shared(file))
    trace = trace.head(300)
    found = tracekit.simulate(trace, "fcfs", "none", cluster=cluster, allocate="lexicographic")
    assert len(found) > 0.5 * len(trace)
    assert found.metrics["gpu_utilization"] > 0
