"""``--compat rltune`` and ``reproduce rltune``: the numbers of RLTune's own code, and a plain restatement of it."""

from __future__ import annotations

import hashlib
import json
import random
import statistics

import numpy as np
import pytest
from shared_data import DATA, shared

import tracekit
from tests.sim import rltune_oracle as oracle
from tracekit.sim.analysis import reproduce_rltune as study
from tracekit.sim.hosts.rltune_demand import RLTuneStops

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
