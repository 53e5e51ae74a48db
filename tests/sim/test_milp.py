"""The allocators milp and milp-exact: against brute force, against RLTune's own cases, and in simulations."""

from __future__ import annotations

import itertools
import json
import logging

import numpy as np
import pandas as pd
import pytest
from shared_data import DATA

import tracekit
from tracekit.errors import TracekitError, UsageError
from tracekit.machine import HostGroup, Machine
from tracekit.sim.hosts import milp
from tracekit.sim.hosts.allocators import find_allocator
from tracekit.sim.hosts.ways import candidates

AS_CODED, INTENDED = (0.0, 0.3, 0.5), (1.0, 0.3, 0.5)


def cases():
    path = DATA.parent / "checks" / "rltune_allocations.json"
    return json.loads(path.read_text())["cases"] if path.is_file() else []


@pytest.mark.skipif(not cases(), reason="the checks of published systems are not here")
def test_cases_of_rltune_as_coded_and_intended() -> None:
    solved = 0
    for case in cases():
        free, size = [tuple(part) for part in case["free"]], case["gpus_per_node"]
        ours = [way.assignment for way in candidates(free, case["request"], size).values()]
        assert ours == [tuple(tuple(part) for part in sorted(way["assignment"])) for way in case["ways"]]
        for theirs in case["milp"]:
            left = np.array([way["free"] for way in theirs["per_way"]], float)
            for weights, name in ((AS_CODED, "as_coded"), (INTENDED, "intended")):
                problem = milp.Problem(
                    left, np.full(len(free), float(size)), left[None] >= theirs["next_gpus"], weights
                )
                assert problem.objective() == pytest.approx([way[f"obj_{name}"] for way in theirs["per_way"]])
                if len(free) <= 6:
                    assert milp.solve(problem).way in theirs[f"argmin_{name}"]
                    solved += 1
                assert int(problem.objective().argmin()) in theirs[f"argmin_{name}"]
    assert solved > 20


@pytest.mark.parametrize("seed", range(12))
def test_the_solver_finds_the_minimum_of_the_stated_objective(seed) -> None:
    draw = np.random.default_rng(seed)
    ways, hosts, jobs = int(draw.integers(2, 5)), int(draw.integers(1, 7)), int(draw.integers(1, 4))
    free = draw.integers(0, 9, (ways, hosts)).astype(float)
    problem = milp.Problem(free, np.full(hosts, 8.0), draw.random((jobs, ways, hosts)) < 0.5, INTENDED)
    stated = []
    for way, x in itertools.product(range(ways), [free]):
        partly = sum(0 < left < 8 for left in x[way])
        room = sum(problem.room[k, way, n] for k in range(jobs) for n in range(hosts)) / jobs
        stated.append(1.0 * partly + 0.3 * (max(x[way]) - min(x[way])) - 0.5 * room)
    assert problem.objective() == pytest.approx(stated)
    assert stated[milp.solve(problem).way] == pytest.approx(min(stated))


# ---- in simulations --------------------------------------------------------------------------------------------------


def cluster(gpus: int | None = 8, cores: int | None = None) -> Machine:
    return Machine(name="c", groups=(HostGroup(name="h", count=4, gpus=gpus, cores=cores),))


def trace_of(gpus: list[float], cores: float = 1.0) -> tracekit.Trace:
    count = len(gpus)
    jobs = pd.DataFrame(
        {
            "job_id": range(1, count + 1),
            "submit_time": np.arange(count) * 10.0,
            "run_time": np.full(count, 95.0),
            "req_procs": np.full(count, cores),
            "req_gpus": gpus,
        }
    )
    return tracekit.Trace(jobs, Machine(procs=64, gpus=32))


@pytest.mark.parametrize("allocate", ["milp", "milp-exact", "milp:horizon=3+limit=5"])
def test_every_job_runs_where_it_may(allocate) -> None:
    trace = trace_of([12, 3, 1, 0.5, 8, 0, 16, 5, 2, 0.25, 20, 1])
    found = tracekit.simulate(trace, "fcfs", "easy", cluster=cluster(cores=32), allocate=allocate)
    assert len(found) == len(trace)
    assert found.metrics["milp"]["fallbacks"] == 0
    assert (found.metrics["milp"]["solves"] > 0) == (allocate != "milp-exact")
    for job, places in enumerate(found.hosts):
        placed = sum(float(part.rpartition("/")[2]) for part in places.split("+"))
        assert placed == trace.jobs["req_gpus"].iloc[job]


def test_horizon_and_next_job_matter() -> None:
    left = np.array([[2.0, 2.0, 8.0], [0.0, 4.0, 8.0]])
    near = milp.Problem(left, np.full(3, 8.0), left[None] >= 4, AS_CODED)
    far = milp.Problem(left, np.full(3, 8.0), np.stack([left >= 4, left >= 1, left >= 1]), AS_CODED)
    assert near.objective()[1] - near.objective()[0] != pytest.approx(far.objective()[1] - far.objective()[0])


def test_a_time_limit_falls_back_loudly_and_is_counted(monkeypatch, caplog) -> None:
    monkeypatch.setattr(milp, "solve", lambda *_: milp.Answer(-1, message="time limit"))
    with caplog.at_level(logging.WARNING, "tracekit"):
        found = tracekit.simulate(trace_of([12, 12, 5, 12]), "fcfs", cluster=cluster(), allocate="milp")
    assert found.metrics["milp"]["fallbacks"] == found.metrics["milp"]["solves"] > 0
    assert "milp" in caplog.text


class Never(milp.Milp):
    """A program without a solution."""

    def constraints(self, hosts, found):
        return [(np.ones(len(found)), 2.0, 2.0)]


def test_an_infeasible_program_is_one_line() -> None:
    with pytest.raises(TracekitError, match="infeasible") as caught:
        tracekit.simulate(trace_of([12, 12, 5]), "fcfs", cluster=cluster(), allocate=Never(name="never"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["milp", "milp-exact"])
def test_no_gpus_at_all(name) -> None:
    with pytest.raises(UsageError, match="cluster"):
        tracekit.simulate(trace_of([0, 0]), cluster=cluster(None, cores=8), allocate=name)
    with pytest.raises(UsageError, match="trace"):
        tracekit.simulate(trace_of([0, 0]), cluster=cluster(8, cores=8), allocate=name)


@pytest.mark.parametrize("text", ["milp:depth=3", "milp:horizon=x", "milp-exact:horizon=0", "milp:limit"])
def test_wrong_options_are_named(text) -> None:
    with pytest.raises(UsageError, match="milp"):
        find_allocator(text)
