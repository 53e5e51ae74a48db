"""A machine at one moment: read from traces, schedules and squeue, kept as JSON, and simulated from there."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import shared

import tracekit
from tracekit import Snapshot
from tracekit.errors import FormatError, SchemaError, TracekitError, UnknownName, UsageError
from tracekit.sim.policies.builtin import find
from tracekit.sim.simulate import outcome
from tracekit.sim.snapshot import ENDED, LATER, RUNNING, WAITING, RunningJobs, WaitingJobs, standing
from tracekit.sim.switches import BACKFILLS, Switches

from .helpers import trace_of

#: Jobs are (submit, run, limit, procs) on eight processors; waits below. At 100 jobs 2 and 3 run, 4 and 5 wait.
DAY = trace_of(
    (0, 100, 100, 4),  # 0 – 100: ends at the moment
    (10, 200, 400, 3),  # 20 – 220, by its limit until 420
    (20, 300, 60, 2),  # 20 – 320, by its limit until 80: overdue
    (50, 30, 40, 5),  # starts at 100, at the moment itself
    (100, 10, 20, 1),  # submitted at the moment
    (101, 10, 20, 1),  # later
    (30, 10, 20, 1),  # its start is unknown
    procs=8,
    wait_time=[0.0, 10.0, 0.0, 50.0, 7.0, 0.0, np.nan],
    user=["ann", "bob", None, "ann", None, "cy", "cy"],
    req_mem=[1.0, 2.0, 3.0, 4.0, np.nan, 6.0, 7.0],
)


def same(left: Snapshot, right: Snapshot) -> bool:
    return left.to_json() == right.to_json()


def test_who_stands_where():
    nan = np.nan
    submit, start, end = (
        np.array([0.0, 0, 0, 5, 6, 0]),
        np.array([0.0, 4, 5, nan, nan, 3]),
        np.array([5.0, 6, 9, 9, 9, 3]),
    )
    assert standing(5.0, submit, start, end).tolist() == [ENDED, RUNNING, WAITING, WAITING, LATER, ENDED]


def test_a_moment_of_a_trace():
    found = Snapshot.from_trace(DAY, 100)
    assert (found.clock, found.total, found.unit, found.free) == (100.0, 8, "procs", 3.0)
    assert list(found.running.id) == [2, 3]
    assert found.running.start.tolist() == [20, 20]
    assert found.running.estimate.tolist() == [400, 60]
    assert found.running.size.tolist() == [3, 2]
    assert found.running.where is None
    assert found.expected_end.tolist() == [420, 100]  # the second is overdue
    assert list(found.waiting.id) == [4, 5]
    assert found.waiting.submit.tolist() == [50, 100]
    assert found.waiting.estimate.tolist() == [40, 20]
    assert found.waiting.size.tolist() == [5, 1]
    assert found.waiting.user == ["ann", None]
    assert found.waiting.group is None
    np.testing.assert_array_equal(found.waiting.req_mem, [4, np.nan])
    assert found.notes == {"no recorded wait": 1}
    assert "2 jobs run on 5 of 8 procs, 2 wait" in repr(found)


def test_switches_say_how_a_trace_is_read():
    exact = Snapshot.from_trace(DAY, 100, estimates="actual", procs=16)
    assert exact.expected_end.tolist() == [220, 320]
    assert exact.total == 16
    cut = Snapshot.from_trace(DAY, 100, kill_at_limit=True)
    assert list(cut.running.id) == [2]  # the other one ended at its limit
    with pytest.raises(UsageError, match="number of seconds"):
        Snapshot.from_trace(DAY, np.nan)


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_a_simulation_goes_on_from_a_moment_of_its_schedule(toy, backfill):
    """With true run times and the later arrivals, the rest of the schedule comes out again, start for start."""
    whole = tracekit.simulate(toy, "sjf", backfill)
    for time in (float(whole.start[60]), float(whole.end[80]), float(whole.submit[120]) + 0.5, -1.0, 1e9):
        found = Snapshot.from_schedule(whole, toy, time)
        setup = found.setup(backfill, jobs=toy, run_times="actual")
        made = outcome(setup, find("sjf")).start
        start = dict(zip(whole.job_id.tolist(), whole.start.tolist(), strict=True))
        assert made.tolist() == [start[job] for job in setup.ready.table.job_id.tolist()]
        ours = found.waiting_starts(setup, made)
        assert ours.tolist() == [start[job] for job in found.waiting.id]


@given(st.integers(0, 10_000), st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_any_moment_of_a_schedule_is_possible(seed, share):
    rng = np.random.default_rng(seed)
    run = rng.integers(0, 60, 60)
    jobs = np.stack([np.sort(rng.integers(0, 600, 60)), run, run + rng.integers(-20, 30, 60), rng.integers(1, 9, 60)])
    trace = trace_of(*jobs.T, procs=8)
    result = tracekit.simulate(trace, "fcfs")
    time = float(np.quantile(result.end, share))
    found = Snapshot.from_schedule(result, trace, time)
    assert found.free >= 0
    assert (found.running.start < time).all()
    assert (found.expected_end >= time).all()
    assert (found.waiting.submit <= time).all()
    stands = standing(time, result.submit, result.start, result.end)
    assert len(found.running) == (stands == RUNNING).sum()
    assert len(found.waiting) == (stands == WAITING).sum()
    assert same(found, Snapshot.from_json(found.to_json()))
    setup = found.setup("easy")
    start = found.waiting_starts(setup, outcome(setup, find("fcfs")).start)
    assert (start >= time).all()


def test_a_moment_of_a_schedule_file(toy, tmp_path):
    result = tracekit.simulate(toy, "fcfs")
    frame = result.schedule()
    frame.to_csv(tmp_path / "schedule.csv", index=False)
    time = float(result.start[100])
    by_result = Snapshot.from_schedule(result, toy, time)
    assert same(by_result, Snapshot.from_schedule(frame, toy, time))
    read = Snapshot.from_schedule(tmp_path / "schedule.csv", toy, time)
    assert list(read.running.id) == list(by_result.running.id)
    np.testing.assert_allclose(read.running.run, by_result.running.run)
    bare = frame[["job_id", "start_time", "end_time", "procs"]]
    assert same(by_result, Snapshot.from_schedule(bare, toy, time))  # submit times are the trace's
    placed = Snapshot.from_schedule(frame.assign(hosts=[f"n{i}" for i in frame["job_id"]]), toy, time)
    assert placed.running.where == [f"n{i}" for i in placed.running.id]
    strange = frame.assign(job_id=frame["job_id"].where(frame["job_id"] != 1, 999_999))
    assert Snapshot.from_schedule(strange, toy, time).notes == {"not in the trace": 1}
    other = toy.assign({"job_id": toy.column("job_id") + 1000})
    assert Snapshot.from_schedule(result, other, time).notes == {"not in the trace": len(result)}
    with pytest.raises(SchemaError, match="end_time"):
        Snapshot.from_schedule(frame.drop(columns="end_time"), toy, time)


def test_estimates_of_a_result_are_its_own(toy):
    for estimates in ("actual", "factor:2", "noisy:0.5"):
        result = tracekit.simulate(toy, "fcfs", estimates=estimates)
        found = Snapshot.from_schedule(result, toy, float(result.start[90]) + 0.5)
        if estimates == "factor:2":
            assert found.running.estimate.tolist() == (2 * found.running.run).tolist()
        rest = outcome(
            found.setup("easy", Switches(estimates="actual"), jobs=toy.head(0), run_times="actual"), find("fcfs")
        )
        assert len(rest.start) == len(found.running) + len(found.waiting)


# ---- simulations from here -------------------------------------------------------------------------------------------


def small(**changes):
    """Four processors at 100: job 1 runs on three, by estimate until 150; 7 and 8 wait."""
    running = RunningJobs([1], np.array([90.0]), np.array([60.0]), np.array([3.0]))
    waiting = WaitingJobs([7, 8], np.array([40.0, 50.0]), np.array([10.0, np.nan]), np.array([2.0, 1.0]))
    return dataclasses.replace(Snapshot(100.0, 4, running, waiting), **changes)


def starts(snapshot, backfill="easy", policy="fcfs", **options):
    setup = snapshot.setup(backfill, **options)
    return snapshot.waiting_starts(setup, outcome(setup, find(policy)).start).tolist()


def test_running_jobs_end_at_their_estimates():
    assert starts(small(), "none") == [150, 150]
    assert starts(small(), "easy") == [150, 100]  # counts as a day, but one processor is left over beside job 7
    ends_early = dataclasses.replace(small().running, run=np.array([20.0]))
    waiting = dataclasses.replace(small().waiting, run=np.array([5.0, 5.0]))
    assert starts(small(running=ends_early, waiting=waiting), "none", run_times="actual") == [110, 110]
    with pytest.raises(UsageError, match="run_times"):
        small().setup(run_times="actual")
    with pytest.raises(UnknownName):
        small().setup(run_times="guessed")


def test_overdue_jobs_end_any_moment_and_hold_their_place_until_then():
    overdue = dataclasses.replace(small().running, estimate=np.array([2.0]))
    assert small(running=overdue).expected_end.tolist() == [100]
    assert starts(small(running=overdue), "none") == [101, 101]
    assert starts(small(running=overdue), "conservative") == [101, 100]  # one processor is really free


def test_unknown_starts_and_estimates():
    unknown = RunningJobs([1], np.array([np.nan]), np.array([30.0]), np.array([3.0]))
    assert small(running=unknown).expected_end.tolist() == [130]
    assert starts(small(running=unknown), "none") == [130, 130]
    endless = dataclasses.replace(unknown, estimate=np.array([np.nan]))
    assert starts(small(running=endless), "none") == [100 + 86400] * 2


def test_jobs_larger_than_the_machine_never_start():
    large = dataclasses.replace(small().waiting, size=np.array([5.0, 1.0]))
    setup = small(waiting=large).setup()
    assert setup.ready.rejected == {"larger than the machine": 1}
    np.testing.assert_array_equal(starts(small(waiting=large)), [np.nan, 100])


def test_a_machine_that_is_too_full_is_refused():
    with pytest.raises(TracekitError, match="3 of 2 procs"):
        small(total=2).setup()


def test_fractions_of_a_gpu():
    running = RunningJobs([1], np.array([90.0]), np.array([60.0]), np.array([0.5]))
    waiting = WaitingJobs(["a", "b"], np.array([40.0, 50.0]), np.array([9.0, 9.0]), np.array([0.7, 0.3]))
    assert starts(Snapshot(100.0, 1, running, waiting, "gpus")) == [150, 100]


def test_later_arrivals_keep_their_users_apart():
    waiting = dataclasses.replace(small().waiting, user=["ann", 7])
    later = trace_of((100, 5, 5, 1), (101, 5, 5, 1), (102, 5, 5, 9), procs=4, user=["ann", "ann", "bob"])
    setup = small(waiting=waiting).setup(jobs=later)
    assert setup.ready.table.job_id.tolist() == [7, 8, 1, 2]  # what came at 100 is the snapshot's business
    assert setup.ready.table.user.tolist() == [0, 1, -1, 0]
    assert setup.ready.rejected == {"larger than the machine": 1}
    assert starts(small(waiting=waiting), jobs=later, policy="multifactor")[0] == 150


def test_nothing_runs_and_nobody_waits():
    empty = Snapshot.from_trace(DAY, -5)
    assert (len(empty.running), len(empty.waiting), empty.free) == (0, 0, 8)
    assert starts(empty) == []
    assert same(empty, Snapshot.from_json(empty.to_json()))


# ---- JSON ------------------------------------------------------------------------------------------------------------


def test_json_gives_every_bit_back(toy):
    for found in (Snapshot.from_trace(toy, 12345.678901), Snapshot.from_trace(DAY, 100), small()):
        again = Snapshot.from_json(found.to_json())
        assert same(found, again)
        for part in ("running", "waiting"):
            for name, values in vars(getattr(found, part)).items():
                other = getattr(getattr(again, part), name)
                if isinstance(values, np.ndarray):
                    assert values.tobytes() == other.tobytes()
                else:
                    assert values == other
        assert (again.clock, again.total, again.unit, again.notes) == (
            found.clock,
            found.total,
            found.unit,
            found.notes,
        )


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("version", 2, "version 1"),
        ("clock", "noon", "clock: must be a number"),
        ("clock", float("nan"), "clock: must be a number"),
        ("total", 0, "total: must be a whole number from 1, not 0"),
        ("unit", "cores", "unit: must be procs or nodes or gpus"),
        ("notes", {"why": "because"}, "notes"),
        ("running", [], "running: must be an object"),
        ("running.size", [1.0], "running.size: must be a list of 2 values"),
        ("running.start", [1.0, "x"], r"running.start\[1\]: cannot be 'x'"),
        ("running.start", [1.0, 101.0], r"running.start\[1\]: cannot be 101"),
        ("waiting.size", [1.0, None], r"waiting.size\[1\]: cannot be None"),
        ("waiting.size", [0.0, 1.0], r"waiting.size\[0\]: cannot be 0"),
        ("waiting.submit", None, "waiting.submit: must be a list"),
        ("waiting.submit", [1.0, 1e9], r"waiting.submit\[1\]"),
        ("waiting.estimate", [-1.0, 1.0], r"waiting.estimate\[0\]: cannot be -1"),
        ("waiting.estimate", [True, 1.0], r"waiting.estimate\[0\]: cannot be True"),
        ("waiting.user", ["a", 1.5], r"waiting.user\[1\]"),
        ("waiting.id", ["a", None], r"waiting.id\[1\]"),
    ],
)
def test_damaged_json_is_named(path, value, words):
    data = json.loads(Snapshot.from_trace(DAY, 100).to_json())
    *above, last = path.split(".")
    place = data
    for name in above:
        place = place[name]
    place[last] = value
    with pytest.raises(FormatError, match=words):
        Snapshot.from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"version": 1}', "[" * 100_000, "1" * 5000])
def test_what_is_no_snapshot_is_told_so(text):
    with pytest.raises(FormatError, match="snapshot"):
        Snapshot.from_json(text)


# ---- squeue ----------------------------------------------------------------------------------------------------------

LISTING = """\
11|R|40|2026-01-31T08:00:00|1-00:00:00|ann|2026-01-31T12:10:00
14|CG|4|2026-01-31T08:00:00|1:00|ann|2026-01-31T11:59:00
15|R|2|2026-01-31T08:00:00|UNLIMITED|ann|N/A
12|PD|32|2026-01-31T11:00:00|UNLIMITED|bob|N/A
13_[3-7,9%2]|PD|8|2026-01-31T10:30:00|10:00|cy|N/A
16|S|8|2026-01-31T10:30:00|10:00|cy|N/A
"""


def noon():
    from datetime import datetime

    return datetime.fromisoformat("2026-01-31T12:00:00").timestamp()


def test_a_listing_of_squeue():
    found = Snapshot.from_squeue(LISTING, 64, noon())
    assert list(found.running.id) == [11, 14, 15]
    assert (found.expected_end - noon()).tolist() == [600, 0, 86400]
    assert found.running.start[0] == noon() + 600 - 86400
    assert list(found.waiting.id) == ["13_[3-7,9%2]", 12]  # by submit
    assert (noon() - found.waiting.submit).tolist() == [5400, 3600]
    np.testing.assert_array_equal(found.waiting.estimate, [600, np.nan])
    assert found.waiting.user == ["cy", "bob"]
    assert found.notes == {"suspended": 1, "more tasks of pending arrays": 5}
    assert same(found, Snapshot.from_json(found.to_json()))
    assert [start - noon() for start in starts(found)] == [0, 600]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1|R|4", "squeue, line 1: has 3 columns"),
        (LISTING + "17|PD|many|2026-01-31T10:30:00|10:00|cy|N/A", "line 7: could not convert"),
        (LISTING + "17|PD|0|2026-01-31T10:30:00|10:00|cy|N/A", "line 7:"),
        (LISTING + "17|PD|1|yesterday|10:00|cy|N/A", "line 7: Invalid isoformat"),
        ("{", "not JSON"),
        ('{"jobs": 3}', "without a list of jobs"),
        ('{"jobs": [{"job_id": 5, "job_state": "RUNNING"}]}', "job 5: lacks 'cpus'"),
        ('{"jobs": [{"job_id": 5, "job_state": "PENDING", "cpus": 1, "submit_time": 0}]}', "job 5: has no submit time"),
    ],
)
def test_damaged_listings_are_named(text, words):
    with pytest.raises(FormatError, match=words):
        Snapshot.from_squeue(text, 64, noon())


def test_a_listing_that_does_not_fit_the_machine():
    with pytest.raises(TracekitError, match="46 of 45 processors"):
        Snapshot.from_squeue(LISTING, 45, noon())
    with pytest.raises(TracekitError, match="at least one"):
        Snapshot.from_squeue(LISTING, 0, noon())


def test_json_of_a_real_slurm():
    """Four nodes of 16; the listing was made just after job 14 was cancelled."""
    text = shared("slurm/squeue-22.05.json").read_text()
    found = Snapshot.from_squeue(text, 64)
    base = 1794901763
    assert found.clock == base + 8
    assert list(found.running.id) == [3, 12, 5, 13]
    assert found.running.size.tolist() == [48, 4, 1, 4]
    assert found.running.where == ["n[2-4]", "n1", "n1", "n1"]
    assert (found.running.start - base).tolist() == [3, 3, 6, 3]
    assert (found.expected_end - base).tolist() == [603, 183, 126, 183]  # as Slurm's own end_time
    assert found.free == 7
    assert list(found.waiting.id) == [7, 8, 9]  # 6 is held, 10 has its time, 11 its dependency, 4 its limit of tasks
    assert found.waiting.estimate.tolist() == [1800, 60, 120]
    assert found.waiting.app == ["toobig", "timesout", "mem"]
    np.testing.assert_array_equal(found.waiting.req_mem, [np.nan, np.nan, 25600])
    assert found.notes == {"completed": 1, "failed": 1, "cancelled": 1, "pending, but may not start yet": 4}
    assert same(found, Snapshot.from_json(found.to_json()))
    assert (np.array(starts(found)) - base).tolist() == [8, 8, 126]  # 9 needs four: one left over, two of 8, one of 5
    much_later = Snapshot.from_squeue(text, 64, base + 7200.0)
    assert 10 in much_later.waiting.id  # its time has come


def test_json_of_newer_slurms():
    """Numbers are objects and states are lists from 23.02 and 23.11 on."""

    def number(value):
        return {"set": value is not None, "infinite": False, "number": value or 0}

    job = {
        "job_id": 1,
        "job_state": ["RUNNING"],
        "cpus": number(4),
        "node_count": number(2),
        "submit_time": number(1000),
        "start_time": number(2000),
        "time_limit": number(60),
        "memory_per_cpu": number(None),
        "memory_per_node": number(10),
        "eligible_time": number(1000),
    }
    endless = job | {"job_id": 2, "job_state": ["PENDING"], "time_limit": {"set": True, "infinite": True, "number": 0}}
    ending = job | {"job_id": 3, "job_state": ["COMPLETED", "COMPLETING"]}
    found = Snapshot.from_squeue(json.dumps({"jobs": [job, endless, ending], "last_update": number(3000)}), 16)
    assert found.clock == 3000
    assert list(found.running.id) == [1, 3]
    assert found.expected_end.tolist() == [5600, 3000]
    assert np.isnan(found.waiting.estimate).tolist() == [True]
    assert found.waiting.req_mem.tolist() == [5 * 1024]


# ---- what a policy sees ----------------------------------------------------------------------------------------------


class Watching:
    """fcfs, and checks the state of the running jobs that it gets."""

    name = "watching"

    def __init__(self, run):
        self.run, self.passes, self.early, self.overdue = run, 0, 0, 0

    def priority(self, queue, state, /):
        running, ends = state.running, state.expected_end
        assert len(running) == len(ends) == len(set(running.tolist()))
        assert state.procs[running].sum() + state.free == pytest.approx(state.total)
        assert (state.start[running] <= state.now).all()
        assert (state.start[running] + self.run[running] > state.now).all()  # no job that has ended
        assert not set(running.tolist()) & set(queue.tolist())
        assert (np.diff(ends) >= 0).all()
        assert (ends >= state.now).all()
        self.check(state)
        by_estimate = state.start[running] + state.estimate[running]
        self.overdue += int((by_estimate < state.now).sum())
        ended = np.isfinite(state.start) & (state.start + self.run <= state.now)
        self.early += int((ended & (state.start + state.estimate > state.now)).sum())
        self.passes += 1
        return state.submit[queue]

    def check(self, state):
        by_estimate = state.start[state.running] + state.estimate[state.running]
        np.testing.assert_array_equal(state.expected_end, np.maximum(by_estimate, state.now))


@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
def test_a_policy_sees_who_runs(toy, backfill):
    limits = toy.column("run_time") * np.random.default_rng(3).choice([0.5, 1.0, 4.0], len(toy))
    trace = toy.assign({"req_time": limits})
    watching = Watching(trace.column("run_time"))
    result = tracekit.simulate(trace, watching, backfill)
    np.testing.assert_array_equal(result.start, tracekit.simulate(trace, "fcfs", backfill).start)
    assert watching.passes >= len(toy) / 2
    assert watching.early
    assert watching.overdue


def test_a_policy_sees_corrected_predictions(toy):
    class Corrected(Watching):
        corrected = 0

        def check(self, state):
            asked = np.maximum(state.start[state.running] + state.estimate[state.running], state.now)
            assert (state.expected_end <= asked).all()
            self.corrected += int((state.expected_end < asked).sum())

    watching = Corrected(toy.column("run_time"))
    tracekit.simulate(toy, watching, "easy++")
    assert watching.corrected


def test_a_policy_sees_who_runs_from_the_middle_on(toy):
    found = Snapshot.from_schedule(result := tracekit.simulate(toy), toy, float(result.start[100]))
    setup = found.setup("easy", run_times="actual")
    watching = Watching(setup.ready.run)
    outcome(setup, watching)
    assert watching.passes
