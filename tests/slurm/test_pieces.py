"""Plans, listings, orders, changes of priority, comparisons and exports, without any Slurm."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import shared

import tracekit
from tracekit import Machine, Trace
from tracekit.errors import FormatError, TracekitError, UnknownName, UsageError
from tracekit.machine import HostGroup
from tracekit.slurm import journal, tools
from tracekit.slurm.compare import compare, fit_interval, fit_reaction
from tracekit.slurm.conf import Layout, check_extra, check_folder, check_size, slurm_conf
from tracekit.slurm.drive import Change, targets
from tracekit.slurm.export import export
from tracekit.slurm.order import AsPriorities, orders_of
from tracekit.slurm.outcome import outcome_of
from tracekit.slurm.own import Own
from tracekit.slurm.plan import Plan, make_plan
from tracekit.slurm.queue import Job, Only, processors, read_queue
from tracekit.slurm.session import Wish, replay

Run = Callable[..., tuple[int, str, str]]


def jobs_of(n: int = 40, seed: int = 1, **more: Any) -> Trace:
    rng = np.random.default_rng(seed)
    columns = {
        "job_id": np.arange(101, 101 + n),
        "submit_time": 1000.0 + np.cumsum(rng.integers(0, 400, n)),
        "run_time": rng.integers(60, 3600, n).astype(float),
        "req_time": rng.integers(60, 7200, n).astype(float),
        "req_procs": rng.integers(1, 17, n),
        "user": pd.Categorical(rng.choice(["ann", "b;ob"], n)),
    }
    return Trace(pd.DataFrame(columns | more), Machine(procs=16))


# ---- configuration ---------------------------------------------------------------------------------------------------


def test_sizes_are_checked() -> None:
    assert check_size(64, None) == (64, 64)
    assert check_size(64, 4) == (64, 4)
    assert check_size(2048, None) == (2048, 1024)
    for cpus, nodes in ((0, None), (10, 3), (4, 8), (10**9, None)):
        with pytest.raises(UsageError):
            check_size(cpus, nodes)


def test_everything_is_below_the_folder_and_on_the_loopback_address() -> None:
    text = slurm_conf(Layout("/lab", 64, 64, 20_000, "easy", "SelectTypeParameters=CR_CPU"))
    settings = dict(line.split("=", 1) for line in text.splitlines() if not line.startswith(("#", "Node", "Part")))
    assert settings["SelectTypeParameters"] == "CR_CPU"  # the user's line replaces ours
    assert settings["SlurmctldHost"].endswith("(127.0.0.1)")
    assert settings["CommunicationParameters"] == "NoCtldInAddrAny,NoInAddrAny"
    places = [v for k, v in settings.items() if k.endswith(("File", "Dir", "Location", "Loc"))]
    assert len(places) >= 7
    assert all(place.startswith("/lab/") for place in places)
    assert "Port=[20001-20064]" in text
    assert "NodeAddr=127.0.0.1" in text


@pytest.mark.parametrize(
    "line",
    [
        "SlurmctldHost=other",
        "authinfo=socket=/run/munge",
        "Include /etc/x",
        "Prolog=/bin/x",
        "AccountingStorageExternalHost=other",
    ],
)
def test_lines_that_lead_elsewhere_are_refused(line: str) -> None:
    with pytest.raises(UsageError, match=r"mine\.conf, line 2"):
        check_extra(f"# mine\n{line}\n", "mine.conf")


def test_books_are_kept_by_a_slurm_of_its_own_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    with pytest.raises(UsageError, match="SLURM_CONF"):
        replay(tmp_path / "lab", Wish(tracekit.sample().head(3), "sample", accounting=True), print)
    assert not (tmp_path / "lab").exists()


def test_folders_that_slurm_cannot_use_are_refused(tmp_path: Path) -> None:
    check_folder(Path("/tmp/lab"))
    for name in ("/tmp/" + "x" * 80, "/tmp/two words", "/tmp/a%n"):
        with pytest.raises(UsageError):
            check_folder(Path(name))


def test_a_machine_without_slurm_gets_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path
) -> None:
    monkeypatch.setattr(tools, "find", lambda name: None)
    code, out, error = run("slurm", "start", "-o", tmp_path / "lab")
    assert (code, out) == (3, "")
    assert "apt-get install" in error
    assert "slurm-wlm munge" in error
    assert not (tmp_path / "lab").exists()


def test_a_folder_without_a_slurm_is_named(run: Run, tmp_path: Path) -> None:
    for command in ("status", "stop", "compare"):
        code, _, error = run("slurm", command, tmp_path / "none")
        assert code == 1
        assert "none" in error
    (tmp_path / "own.json").write_text('{"strange": 1}')
    (tmp_path / "slurm.conf").write_text("")
    with pytest.raises(TracekitError, match="not written by this version"):
        Own(tmp_path).layout()


# ---- plan and outcome ------------------------------------------------------------------------------------------------


def test_a_plan_compresses_times_and_rounds_limits_up() -> None:
    trace = jobs_of(4, run_time=[600.0, 60.0, 7200.0, 30.0], req_time=[601.0, 7200.0, 3600.0, np.nan])
    plan = make_plan(trace, "t", speed=10, cpus=16)
    assert [job.limit for job in plan.jobs] == [2, 12, 6, 1]
    assert [job.run for job in plan.jobs] == [60.0, 6.0, 360.0, 3.0]  # the third is killed at its limit, as it was
    assert plan.jobs[0].submit == 0.0
    assert plan.jobs[1].submit == pytest.approx((trace.column("submit_time")[1] - trace.column("submit_time")[0]) / 10)


def test_a_plan_leaves_out_what_does_not_fit_and_comes_back_from_its_file(tmp_path: Path) -> None:
    trace = jobs_of(30)
    plan = make_plan(trace, "t", speed=60, cpus=8, drive="sjf")
    assert plan.rejected == {"larger than the machine": int((trace.sizes() > 8).sum())}
    plan.save(tmp_path)
    assert Plan.load(tmp_path) == plan
    (tmp_path / "plan.json").write_text('{"jobs": [{}]}')
    with pytest.raises(TracekitError, match=r"plan\.json"):
        Plan.load(tmp_path)
    with pytest.raises(UsageError, match="speed"):
        make_plan(trace, "t", speed=0, cpus=8)


def test_predecessors_become_dependencies() -> None:
    trace = jobs_of(3, prev_job=[np.nan, 101.0, 555.0])
    assert [job.after for job in make_plan(trace, "t", speed=60, cpus=16).jobs] == [None, 0, None]


LINE = (
    "JobId={n} UserId=root(0) GroupId=root(0) Name={name} JobState=COMPLETED Partition=batch TimeLimit=1 "
    "StartTime=2026-11-17T07:48:{start:02d} EndTime=2026-11-17T07:48:{end:02d} NodeList=n1 NodeCnt=1 ProcCnt=1 "
    "WorkDir=/w ReservationName= Tres=cpu=1,mem=1M,node=1,billing=1 Account= QOS= WcKey= Cluster=unknown "
    "SubmitTime=2026-11-17T07:48:{submit:02d} EligibleTime=2026-11-17T07:48:{submit:02d} DerivedExitCode=0:0 "
    "ExitCode=0:0 \n"
)


def test_an_outcome_is_matched_by_name_and_made_exact_by_the_log(tmp_path: Path) -> None:
    plan = make_plan(jobs_of(2, req_procs=[1, 1], prev_job=[np.nan, 101.0]), "t", speed=60, cpus=16)
    names = [job.name(plan.tag) for job in plan.jobs]
    text = LINE.format(n=7, name=names[0], submit=1, start=2, end=9) + LINE.format(
        n=8, name=names[1], submit=3, start=10, end=12
    )
    text += LINE.format(n=9, name="somebody's", submit=3, start=10, end=12)
    (tmp_path / "jobcomp.txt").write_text(text)
    read = tracekit.read(tmp_path / "jobcomp.txt", "jobcomp")
    first = float(read.column("submit_time")[0])
    exact = {"submit": {7: first + 0.25}, "start": {7: first + 1.5, 8: first + 500.0}, "end": {7: first + 8.5}}
    made = outcome_of(read, plan, exact, "t")
    assert made.jobs["job_id"].tolist() == [101, 102]
    assert made.column("submit_time").tolist() == [0.0, 8.25]  # the second could not start before the first had ended
    assert made.column("wait_time").tolist() == [1.25, 0.5]  # a moment of the log that is another event is not taken
    assert made.column("run_time").tolist() == [7.0, 2.0]
    assert made.machine.procs == 16
    with pytest.raises(TracekitError, match="none of the jobs"):
        outcome_of(read, make_plan(jobs_of(2), "t", speed=60, cpus=16), {}, "t")


def test_a_recorded_jobcomp_is_compared_with_the_simulation() -> None:
    """130 jobs on 64 nodes with one reservation: nearer to EASY than to conservative or to no backfilling."""
    real = tracekit.read(shared("slurm/jobcomp-22.05-130jobs.txt"), procs=64)
    first = real.column("submit_time").min()
    order = np.argsort(real.column("submit_time"), kind="stable")
    real = real.assign({"submit_time": real.column("submit_time") - first}).take(order)
    real = real.assign({"req_procs": real.column("alloc_procs")})
    found = {rule: compare(real, backfill=rule, reaction=0.5).to_dict() for rule in ("none", "easy", "conservative")}
    apart = {rule: abs(f["mean_wait_simulated_s"] - f["mean_wait_slurm_s"]) for rule, f in found.items()}
    assert min(apart, key=apart.__getitem__) == "easy"
    assert apart["easy"] < 0.15 * found["easy"]["mean_wait_slurm_s"]
    assert found["easy"]["jobs"] == 130
    assert set(found["easy"]) >= {"start_error_s", "order_agreement", "mean_wait_simulated_s"}


def test_a_reaction_delay_is_found_again() -> None:
    trace = jobs_of(60, seed=3).assign({"submit_time": np.arange(60) * 20.0})
    made = tracekit.simulate(trace, "fcfs", "none", reaction=0.7)
    real = trace.assign({"wait_time": made.wait})
    assert fit_reaction(real) == 0.7
    found = compare(real, backfill="none", reaction=0.7)
    assert found.error.tolist() == [0.0] * 60
    assert found.order_agreement == 1.0
    with pytest.raises(UnknownName):
        compare(real, backfill="easier")


def test_an_interval_is_found_again_and_backfilling_is_compared_on_nodes() -> None:
    trace = jobs_of(40, seed=3).assign({"submit_time": np.arange(40) * 20.0})
    made = tracekit.simulate(trace, "fcfs", "none", interval=1.01, reaction=0.4)
    real = trace.assign({"wait_time": made.wait})
    real = Trace(real.jobs, Machine(procs=16, nodes=16))
    assert fit_interval(real) == 1.01
    assert compare(real, backfill="none", interval=1.01).error == pytest.approx(np.zeros(40), abs=1e-6)
    for nodes, expected in ((True, (True, 30.0)), (False, (False, 0.0))):
        found = compare(real, backfill="easy", nodes=nodes).to_dict()
        assert (found["on_nodes"], found["group_ends_s"]) == expected
    hosts = Machine(groups=(HostGroup(count=16, cores=1),))
    assert tracekit.simulate(real, compat="slurm", cluster=hosts).switches["group_ends"] == 30.0
    assert tracekit.simulate(real, compat="slurm").switches["group_ends"] == 0.0
    with pytest.raises(UsageError):
        tracekit.simulate(real, group_ends=-1.0)


def test_compat_slurm_rounds_limits_and_kills_at_them() -> None:
    trace = jobs_of(3, run_time=[90.0, 90.0, 500.0], req_time=[61.0, 600.0, 61.0], req_procs=[1, 1, 1])
    made = tracekit.simulate(trace, "fcfs", "easy", compat="slurm")
    assert made.run.tolist() == [90.0, 90.0, 120.0]
    assert made.wait == pytest.approx([0.7, 0.7, 0.7])
    assert made.switches["compat"] == "slurm"
    with pytest.raises(UsageError):
        tracekit.simulate(trace, compat="slurm", interval=5.0)
    with pytest.raises(UsageError):
        tracekit.simulate(trace, reaction=-1.0)


# ---- listings --------------------------------------------------------------------------------------------------------


def entry(job: int, state: Any = "PENDING", priority: Any = 100, **more: Any) -> dict[str, Any]:
    known = {"job_id": job, "job_state": state, "priority": priority, "cpus": 2, "submit_time": 1000 + job}
    known |= {"time_limit": 10, "eligible_time": 1000, "start_time": 0, "user_name": "ann", "partition": "batch"}
    return known | {"name": f"job{job}", "account": "physics", "state_reason": "Priority", "nice": None} | more


SINFO = json.dumps({"nodes": [{"cpus": 4, "state": "mixed"}, {"cpus": 4, "state": "idle", "state_flags": ["DRAIN"]}]})


def test_processors_of_both_schemas() -> None:
    assert processors(SINFO) == 4
    new = {
        "sinfo": [
            {"cpus": {"total": 6}, "node": {"state": ["IDLE"]}},
            {"cpus": {"total": 9}, "node": {"state": ["DOWN"]}},
        ]
    }
    assert processors(json.dumps(new)) == 6
    for text in ("{", "[]", '{"nodes": null}'):
        with pytest.raises(FormatError):
            processors(text)


def test_held_jobs_and_what_is_not_understood_are_left_alone() -> None:
    newer = {"set": True, "infinite": False, "number": 90}
    listed = [entry(1, ["PENDING"], newer), entry(2, priority=0), entry(3, state_reason="JobHeldUser")]
    listed += [entry(4, priority="high"), entry(5, eligible_time=9_999_999_999), entry(6, "RUNNING", start_time=1000)]
    found = read_queue(json.dumps({"jobs": listed}), SINFO, 2000.0)
    assert [(job.id, job.priority) for job in found.jobs] == [(1, 90)]
    assert found.notes == {"held": 2, "not understood": 1, "may not start yet": 1}
    assert found.snapshot.free == 2


def test_recorded_listings_of_a_real_slurm() -> None:
    squeue, sinfo = (shared(f"slurm/{name}-22.05.json").read_text() for name in ("squeue", "sinfo"))
    procs = processors(sinfo)
    assert procs > 0
    found = read_queue(squeue, json.dumps({"nodes": [{"cpus": 128, "state": "idle"}]}))
    assert [job.id for job in found.jobs] == [7, 8, 9]
    assert found.notes["held"] == 1


def test_filters_say_which_jobs_may_be_touched() -> None:
    job = Job(1, 5, 0, "ann", "physics", "batch", "tk-1")
    assert Only().allows(job)
    assert Only(prefix="tk-", users=frozenset({"ann"})).allows(job)
    assert not Only(users=frozenset({"bob"})).allows(job)
    assert not Only(prefix="other").allows(job)


# ---- orders and priorities -------------------------------------------------------------------------------------------


def test_policies_order_the_waiting_jobs_of_a_listing() -> None:
    listed = [entry(9, "RUNNING", start_time=1500, cpus=3)]
    listed += [entry(1, time_limit=30), entry(2, time_limit=5), entry(3, time_limit=10, cpus=1), entry(4, cpus=500)]
    machine = read_queue(json.dumps({"jobs": listed}), SINFO, 2000.0).snapshot
    assert orders_of("fcfs").order(machine) == [1, 2, 3, 4]
    assert orders_of("sjf").order(machine) == [2, 3, 1, 4]  # the one that can never run comes last
    assert orders_of("lcfs").order(machine) == [3, 2, 1, 4]
    for name in ("replay", "random"):
        with pytest.raises(UsageError):
            orders_of(name)
    with pytest.raises(UnknownName):
        orders_of("sjff")


@pytest.mark.slow
def test_search_orders_the_same_listing() -> None:
    listed = [entry(job, time_limit=5 + job) for job in (1, 2, 3)]
    machine = read_queue(json.dumps({"jobs": listed}), SINFO, 2000.0).snapshot
    assert sorted(orders_of("search").order(machine)) == [1, 2, 3]


def test_an_agent_orders_the_same_listing() -> None:
    listed = [entry(job, time_limit=5 + job) for job in (1, 2, 3)]
    machine = read_queue(json.dumps({"jobs": listed}), SINFO, 2000.0).snapshot
    assert sorted(orders_of("agent:default").order(machine)) == [1, 2, 3]


@pytest.mark.parametrize("name", ["saf", "wfp3"])
def test_orders_as_priorities_make_the_schedule_of_the_policy(name: str) -> None:
    """What a driver would do at every pass of a simulation is the policy itself."""
    jobs = tracekit.sample().head(200)
    made = tracekit.simulate(jobs, AsPriorities(orders_of(name)), "easy", estimates="requested")
    assert made.start.tolist() == tracekit.simulate(jobs, name, "easy", estimates="requested").start.tolist()


def test_an_agent_as_priorities_is_compared_on_nodes() -> None:
    jobs = tracekit.sample().head(60)
    done = tracekit.simulate(jobs, "fcfs", "easy", procs=64)
    real = Trace(jobs.jobs, Machine(procs=64, nodes=64)).assign({"wait_time": done.wait})
    found = compare(real, policy="agent:default").to_dict()
    assert (found["policy"], found["on_nodes"], found["jobs"]) == ("agent:default", True, 60)


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_changes_permute_priorities_and_stay_within_the_limit(data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=12))
    jobs = [Job(number, value, 0) for number, value in enumerate(values, 1)]
    order = data.draw(st.permutations([job.id for job in jobs]))
    every = {c.job: c.new for c in targets(jobs, order)}
    after = {job.id: every.get(job.id, job.priority) for job in jobs}
    assert sorted(after, key=lambda job: -after[job]) == list(order)
    assert len(set(after.values())) == len(jobs)
    if len(set(values)) == len(values):
        assert sorted(after.values()) == sorted(values)  # others are neither overtaken nor let past
        most = data.draw(st.integers(2, 12))
        some = targets(jobs, order, most)
        assert len(some) <= most
        changed = {c.job: c.new for c in some}
        assert sorted(changed.get(job.id, job.priority) for job in jobs) == sorted(values)


class FakeSlurm(tools.Slurm):
    """Remembers updates, and lists priorities as squeue does."""

    def __init__(self, listed: dict[int, tuple[int, int]]) -> None:
        super().__init__("/nowhere/slurm.conf")
        self.listed, self.told = listed, ""

    def attempt(self, *words: str, stdin: str | None = None, patience: float = 1.0) -> Any:
        self.told += stdin or ""
        out = "".join(f"{job}|{priority}|{nice}|\n" for job, (priority, nice) in self.listed.items())
        return subprocess.CompletedProcess(words, 0, out if words[0] == "squeue" else "", "")


def test_only_what_is_still_ours_is_put_back() -> None:
    now = {1: (70, 0), 2: (0, 0), 3: (55, 0), 5: (50, 0)}  # 2 is held, 3 was changed by somebody else, 4 has started
    slurm = FakeSlurm(now)
    count = journal.put_back(
        slurm, "priority", {1: 10, 2: 20, 3: 30, 4: 40, 5: 50}, {1: 70, 2: 60, 3: 80, 4: 90, 5: 50}
    )
    assert count == 1
    assert slurm.told == "update JobId=1 Priority=10\nquit\n"


def test_a_journal_says_what_has_not_been_put_back(tmp_path: Path) -> None:
    path = tmp_path / "drive.jsonl"
    assert journal.unfinished(path) is None
    made = journal.Journal(path, FakeSlurm({}), "nice")
    made.before([(1, 0, 5), (2, 0, -5)])
    made.before([(1, 5, 9)])
    made.file.write('{"job": 3, "fr')  # the driver dies here
    made.file.close()
    found = journal.unfinished(path)
    assert found is not None
    assert (found[1], found[2], found[3]) == ("nice", {1: 0, 2: 0}, {1: 9, 2: -5})
    assert found[0].conf == "/nowhere/slurm.conf"


def test_a_refusal_for_lack_of_rights_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = tools.Slurm()
    answer = subprocess.CompletedProcess([], 0, "", "Access/permission denied for job 1\n")
    monkeypatch.setattr(slurm, "attempt", lambda *words, **more: answer)
    with pytest.raises(tools.SlurmError, match="operator"):
        journal.apply(slurm, "priority", {1: 2})


def test_changes_are_plain() -> None:
    assert targets([Job(1, 5, 0)], [1]) == []
    assert targets([Job(1, 5, 0), Job(2, 5, 0)], [2, 1]) == [Change(2, 5, 6)]


# ---- export ----------------------------------------------------------------------------------------------------------


def test_export_writes_scripts_a_plan_and_arrays(tmp_path: Path, run: Run) -> None:
    same = {"submit_time": [10.0, 10.0, 10.0, 50.0], "req_procs": [2, 2, 2, 4], "req_time": [600.0] * 4}
    more = {"req_gpus": [1.0, 1.0, 1.0, np.nan], "req_mem": [2048.0] * 4, "user": pd.Categorical(["$(reboot)"] * 4)}
    trace = jobs_of(4, run_time=[60.0, 120.0, 30.0, 5.0], **same, **more)
    made = export(trace, tmp_path / "out")
    assert (made.jobs, made.submissions, made.arrays) == (4, 2, 1)
    script = (tmp_path / "out" / "jobs" / "000001.sh").read_text()
    for line in ("--ntasks=2", "--time=10", "--gpus=1", "--mem-per-cpu=2M", "--array=0-2", "user=__reboot_"):
        assert line in script
    assert "set -- 60.000 120.000 30.000" in script
    rows = list(csv.DictReader((tmp_path / "out" / "plan.csv").read_text().splitlines()))
    assert [row["at_s"] for row in rows] == ["0.000", "40.000"]
    assert subprocess.run(["sh", "-n", tmp_path / "out" / "submit.sh"], check=False).returncode == 0
    tracekit.write(jobs_of(5), tmp_path / "t.swf")
    assert run("slurm", "export", tmp_path / "t.swf", "-o", tmp_path / "out")[0] == 1  # nothing is overwritten
    code, out, _ = run("slurm", "export", tmp_path / "t.swf", "-o", tmp_path / "out", "--force", "--json")
    assert code == 0
    assert json.loads(out)["jobs"] == 5
    assert not (tmp_path / "out" / "jobs" / "000006.sh").exists()


def test_the_plan_of_an_export_can_be_submitted(tmp_path: Path) -> None:
    """submit.sh with an sbatch that only remembers: in order, with dependencies, and on from where it stopped."""
    trace = jobs_of(3, submit_time=[0.0, 0.0, 1.0], prev_job=[np.nan, 101.0, np.nan])
    export(trace, tmp_path / "out")
    fake = tmp_path / "bin" / "sbatch"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nwc -l < {tmp_path}/calls | tr -d " "\n')
    fake.chmod(0o755)
    for _ in range(2):
        subprocess.run(
            [tmp_path / "out" / "submit.sh", "--partition=x"],
            env={"PATH": f"{fake.parent}:/usr/bin:/bin"},
            check=True,
            capture_output=True,
        )
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 3
    assert calls[1] == "--parsable --dependency=afterany:1 --partition=x jobs/000002.sh"
