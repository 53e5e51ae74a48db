"""Why jobs waited, worked out by hand on schedules of ten jobs. Jobs are (submit, run, limit, procs)."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.cli import main
from tracekit.errors import TracekitError
from tracekit.sim.analysis.explain import PARTS, Recorded, explain
from tracekit.sim.analysis.resimulate import explain_file
from tracekit.sim.jobs import prepare
from tracekit.sim.simulate import run_table
from tracekit.sim.switches import Switches, combined

from .helpers import starts, trace_of
from .test_reference import tables

#: Ten processors, fcfs + easy. Job 4 asks for 90 and runs 30: too long for the hole [50, 100) in front of job 3.
HOLE = trace_of(
    (0, 100, 100, 6),  # runs 0 – 100
    (0, 50, 50, 4),  # 0 – 50
    (10, 40, 40, 8),  # blocked until 100
    (20, 30, 90, 4),  # at 50 four are free, but 50 + 90 > 100, and two are left over at 100: waits until 140
    (30, 20, 20, 4),  # 50 – 70, in that hole
    (60, 25, 25, 3),  # 70 – 95
    (80, 10, 10, 1),  # 80 – 90
    (90, 200, 200, 2),  # 95 – 295, on the two that are left over
    (110, 10, 10, 10),  # the whole machine: 295
    (120, 10, 10, 1),  # 140, before job 9 can start anyway
    procs=10,
)
HOLE_STARTS = [0, 0, 100, 140, 50, 70, 80, 95, 295, 140]

#: Four processors, sjf without backfilling.
ORDER = trace_of(
    (0, 10, 10, 4),  # 0 – 10
    (1, 20, 20, 4),  # the longest: 26 – 46
    (2, 5, 5, 4),  # 10 – 15
    (3, 5, 5, 2),  # 15 – 20
    (4, 6, 6, 4),  # 20 – 26
    (30, 1, 1, 1),  # 46 – 47
    (31, 30, 30, 2),  # 46 – 76
    (32, 40, 40, 2),  # 47 – 87
    (48, 2, 2, 1),  # 88: from 76 on two are free, but job 10 is shorter and needs all four
    (50, 1, 1, 4),  # 87 – 88
    procs=4,
)
ORDER_STARTS = [0, 26, 10, 15, 20, 46, 46, 47, 88, 87]


def written(trace, folder, policy, backfill, *, foreign=False, **flags):
    """Simulate through the command line; a foreign schedule lacks what only our own has."""
    path = folder / "trace.swf"
    tracekit.write(trace, path, force=True)
    out = folder / "runs"
    words = [word for flag, value in flags.items() for word in (f"--{flag}", value)]
    words += ["--policy", policy, "--backfill", backfill, "--out", str(out)]
    assert main(["-q", "simulate", str(path), "--no-figures", *words]) == 0
    place = out / f"{policy}__{backfill}"
    if foreign:
        (place / "switches.json").unlink()
    return place / "schedule.csv", path


def parts_of(found):
    return {name: seconds for name, seconds in found.parts.items() if seconds}


@pytest.mark.parametrize(
    ("job", "parts", "first"),
    [
        (1, {}, 0),
        (3, {"full": 90}, 100),
        (4, {"full": 30, "estimate": 90}, 50),
        (5, {"full": 20}, 50),
        (6, {"full": 10}, 70),
        (7, {}, 80),
        (8, {"full": 5}, 95),
        (9, {"full": 185}, 295),
        (10, {"full": 20}, 140),
    ],
)
def test_a_hole_missed_because_of_the_estimate(tmp_path, job, parts, first):
    schedule, path = written(HOLE, tmp_path, "fcfs", "easy")
    trace = tracekit.read(path)
    assert tracekit.simulate(trace).start.tolist() == HOLE_STARTS
    found = explain_file(schedule, trace, job)
    assert parts_of(found) == parts
    assert found.first_in_line == first
    assert sum(found.parts.values()) == found.wait


def test_what_another_estimate_would_have_done(tmp_path):
    schedule, path = written(HOLE, tmp_path, "fcfs", "easy")
    found = explain_file(schedule, tracekit.read(path), 4)
    assert found.method == "resimulated"
    # a quarter, 22.5, is less than the 30 that it ran
    assert [(o.estimate, o.start, o.earlier) for o in found.others] == [(30, 50, 90), (45, 50, 90)]
    assert found.text() == (
        "Job 4 asked for 4 of 10 processors and waited 2 min, from 20 to 140. "
        "For 30 s the machine was too full with jobs that were running before it was submitted; even first in line it "
        "could not have started before 50. "
        "The last 1 min 30 s are due to its estimate: it was expected to take 1 min 30 s and took 30 s; with the true "
        "time it would have started at 50 (half of its estimate, 45 s, would have been enough)."
    )
    assert found.held_by[0] == {"job": 1, "procs": 6, "seconds": 80}


def test_the_same_schedule_by_another_tool(tmp_path):
    """Nothing is known of the rules: the hole was filled by jobs 5, 6, 7 and 8, so for job 4 there is none left."""
    schedule, path = written(HOLE, tmp_path, "fcfs", "easy", foreign=True)
    found = explain_file(schedule, tracekit.read(path), 4)
    assert found.method == "replayed"
    assert parts_of(found) == {"full": 30, "overtaken": 50, "ahead": 40}
    assert (found.jobs_ahead, found.jobs_overtaking) == (1, 4)
    assert [o.start for o in found.others] == [140, 140]
    assert "no earlier" in found.text()


@pytest.mark.parametrize("foreign", [False, True])
def test_a_hole_that_stayed_open(tmp_path, foreign):
    """One of four processors is free from 10 to 100; job 3 needs it for 20, but asks for 200; a quarter would do."""
    trace = trace_of((0, 100, 100, 3), (5, 50, 50, 4), (10, 20, 200, 1), procs=4)
    schedule, path = written(trace, tmp_path, "fcfs", "easy", foreign=foreign)
    found = explain_file(schedule, tracekit.read(path), 3)
    assert (found.submit, found.start) == (10, 150)
    assert parts_of(found) == {"estimate": 140}
    assert [(o.estimate, o.start) for o in found.others] == [(20, 10), (100, 150), (50, 10)]
    assert "a quarter of its estimate, 50 s, would have been enough" in found.text()
    assert "the machine itself was not the reason" in found.text()


@pytest.mark.parametrize(
    ("job", "parts", "ahead", "overtaking"),
    [
        (2, {"full": 9, "overtaken": 16}, 0, 3),
        (3, {"full": 8}, 0, 0),
        (4, {"full": 7, "ahead": 5}, 1, 0),
        (5, {"full": 6, "ahead": 10}, 2, 0),
        (7, {"full": 15}, 0, 0),
        (8, {"full": 14, "ahead": 1}, 2, 0),
        (9, {"full": 28, "held_back": 11, "overtaken": 1}, 0, 1),
        (10, {"full": 37}, 0, 0),
    ],
)
@pytest.mark.parametrize("foreign", [False, True])
def test_the_order_of_jobs(tmp_path, job, parts, ahead, overtaking, foreign):
    schedule, path = written(ORDER, tmp_path, "sjf", "none", foreign=foreign)
    trace = tracekit.read(path)
    assert tracekit.simulate(trace, "sjf", "none").start.tolist() == ORDER_STARTS
    found = explain_file(schedule, trace, job)
    assert parts_of(found) == parts
    assert (found.jobs_ahead, found.jobs_overtaking) == (ahead, overtaking)
    assert not found.others


def test_words_for_the_order_of_jobs(tmp_path):
    schedule, path = written(ORDER, tmp_path, "sjf", "none")
    assert explain_file(schedule, tracekit.read(path), 9).text() == (
        "Job 9 asked for 1 of 4 processors and waited 40 s, from 48 to 88. "
        "For 28 s the machine was too full with jobs that were running before it was submitted; even first in line it "
        "could not have started before 76. "
        "The order of jobs is the reason for 12 s: for 1 s it was blocked by one job submitted after it, for 11 s "
        "enough processors were free, but were reserved for jobs of higher priority. "
        "Its estimate was no longer than its run, so a better one would have changed nothing."
    )


def test_times_are_dates_where_there_is_a_calendar(tmp_path):
    """Second 0 is 2001-09-09 01:46:40 in UTC, nine hours later in Tokyo."""
    machine = tracekit.Machine(procs=4, epoch=1e9, timezone="Asia/Tokyo")
    schedule, path = written(ORDER.replace(machine=machine), tmp_path, "sjf", "none")
    text = explain_file(schedule, tracekit.read(path), 9).text()
    assert "from 2001-09-09 10:47:28 to 2001-09-09 10:48:08." in text


def test_an_outage(tmp_path):
    """All four are away over [10, 50), as announced: at 6 the ten seconds of job 2 do not fit any more, for any job."""
    trace = trace_of((0, 5, 5, 4), (6, 10, 10, 4), procs=4)
    schedule, path = written(trace, tmp_path, "fcfs", "easy", outage="10:50:4")
    found = explain_file(schedule, tracekit.read(path), 2)
    assert parts_of(found) == {"outage": 44}
    assert found.first_in_line == 50
    assert "for 44 s part of the machine was out of service" in found.text().lower()


def test_a_dependency(tmp_path):
    """Job 2 comes 7 s after the end of job 1 at 30, and then waits for job 3, which came at 10 and runs to 70."""
    trace = trace_of((0, 30, 30, 4), (5, 10, 10, 4), (10, 40, 40, 4), procs=4)
    follows = trace.jobs.assign(prev_job=[None, 1, None], think_time=[None, 7.0, None])
    path = tmp_path / "jobs.swf"
    tracekit.write(trace.replace(jobs=follows), path)
    assert main(["-q", "simulate", str(path), "--no-figures", "--dependencies", "--out", str(tmp_path / "runs")]) == 0
    found = explain_file(tmp_path / "runs" / "fcfs__easy" / "schedule.csv", tracekit.read(path), 2)
    assert (found.submit, found.start, found.after, found.think) == (37, 70, 1, 7)
    assert parts_of(found) == {"full": 33}
    assert "only when job 1 was done, 7 s after it had ended" in found.text()


def test_a_job_larger_than_the_machine_is_told_so(tmp_path, capsys):
    schedule, path = written(trace_of((0, 5, 5, 4), (6, 10, 10, 40), procs=4), tmp_path, "fcfs", "easy")
    assert main(["explain", str(schedule), str(path), "--job", "2"]) == 1
    assert "requests 40 of 4 processors" in capsys.readouterr().err


def test_a_changed_schedule_is_not_made_again(tmp_path):
    schedule, path = written(HOLE, tmp_path, "fcfs", "easy")
    text = schedule.read_text().replace("\n9,110.0,295.0,305.0", "\n9,110.0,300.0,310.0")
    assert text != schedule.read_text()
    schedule.write_text(text)
    assert explain_file(schedule, tracekit.read(path), 4).method == "replayed"


def recorded_of(result):
    return Recorded(
        result.job_id,
        result.submit,
        result.start,
        result.end,
        result.procs,
        result.total,
        result.switches["outages"],
        result.switches["outages_announced"],
    )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(
    table=tables(),
    policy=st.sampled_from(["fcfs", "sjf", "wfp3"]),
    backfill=st.sampled_from(["none", "easy", "conservative", "easy++"]),
    outages=st.sampled_from([(), ((5.0, 30.0, 3.0),)]),
    again=st.booleans(),
)
def test_the_parts_always_add_up(table, policy, backfill, outages, again):
    switches = Switches(outages=outages)
    result = run_table(table, policy, backfill, switches)
    recorded = recorded_of(result)
    ready = prepare(table, switches)

    def other(row):
        def start(estimate):
            estimates = ready.estimate.copy()
            estimates[row] = estimate
            rule, chosen = combined(backfill, switches)
            return float(starts(dataclasses.replace(ready, estimate=estimates), policy, rule, chosen)[row])

        return start if again else None

    for row, job in enumerate(result.job_id.tolist()):
        found = explain(recorded, job, float(ready.estimate[row]), float(result.run[row]), again=other(row))
        assert set(found.parts) == set(PARTS)
        assert min(found.parts.values()) >= 0
        assert sum(found.parts.values()) == pytest.approx(found.wait, abs=1e-9)
        assert found.submit <= found.first_in_line <= found.start
        assert found.text()


def test_the_command(tmp_path, capsys):
    schedule, path = written(HOLE, tmp_path, "fcfs", "easy")
    capsys.readouterr()
    assert main(["explain", str(schedule), str(path), "--job", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parts"] == {"full": 30, "outage": 0, "ahead": 0, "overtaken": 0, "held_back": 0, "estimate": 90}
    assert found["wait"] == 120
    assert found["text"].startswith("Job 4 asked")
    assert main(["explain", str(schedule), str(path), "--job", "4"]) == 0
    out = capsys.readouterr().out
    assert "its own estimate was too long" in out
    assert "75%" in out
    assert main(["explain", str(schedule), str(path), "--job", "1"]) == 0
    assert "did not wait" in capsys.readouterr().out
    assert main(["explain", str(schedule), str(path), "--job", "77"]) == 1
    assert "not in the schedule" in capsys.readouterr().err
    (schedule.parent / "switches.json").write_text("{}")
    assert main(["explain", str(schedule), str(path), "--job", "4"]) == 1
    assert "switches.json" in capsys.readouterr().err


def test_impossible_schedules_are_told_so():
    times = np.array([5.0])
    early = Recorded(np.array([1]), times, times - 3, times, np.ones(1), 4.0)
    with pytest.raises(TracekitError, match="before its submit"):
        explain(early, 1, 5.0, 5.0)
    twice = Recorded(np.array([1, 1]), *(np.zeros(2) for _ in range(4)), 4.0)
    with pytest.raises(TracekitError, match="2 times"):
        explain(twice, 1, 5.0, 5.0)
