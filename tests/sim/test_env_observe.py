"""What an agent sees, worked out a second time in plain Python; objectives; windows; the task itself."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import ROOT

from tracekit.errors import TracekitError, UnknownName, UsageError
from tracekit.sim import windows
from tracekit.sim.engine.state import FILLING
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.objectives import OBJECTIVES, Schedule, objective
from tracekit.sim.tasks.pick_job import features as observe
from tracekit.sim.tasks.pick_job.batch import Batch, relative
from tracekit.sim.tasks.pick_job.features import facts_of
from tracekit.sim.tasks.pick_job.task import ALTERNATING, BACKFILLS, REWARDS, PickJob

from .helpers import trace_of
from .playing import imitate, play
from .test_env_engine import crowd

OTHERWISE = {*observe.OF_HOSTS, *observe.PREDICTED}  # of hosts, and of a predictor: test_agents_informed.py
EVERY = ",".join(name for name in (*observe.FIXED, *observe.CHANGING) if name not in OTHERWISE)


def plain(batch, lane=0):
    """Every feature of a lane's valid slots, by its definition."""
    state, constant, facts = batch.arrays.state[lane], batch.task.constants, facts_of(batch.source.table.trace)
    ready = batch.source.episode(batch.windows[lane]).ready
    jobs, start, now = ready.table, batch.starts(lane), state["now"]
    arrived = np.arange(len(jobs)) < state["arrived"]
    waits = arrived & np.isnan(start)
    runs = arrived & ~np.isnan(start) & (start + ready.run > now)
    total, free = jobs.total, jobs.total - jobs.procs[runs].sum()
    limits = np.maximum((start + ready.estimate)[runs], now)
    half, day = constant["short_s"], constant["long_s"]
    filling = state["phase"] == FILLING
    shadow = state["shadow"]
    bsld = np.maximum((start - jobs.submit + ready.run) / np.maximum(ready.run, 10), 1)
    begun = ~np.isnan(start)
    means = {user: bsld[begun & (jobs.user == user)].mean() for user in set(jobs.user[begun])}
    work = (ready.estimate * jobs.procs)[waits].sum() / total
    by_limit = sorted(batch.shown(lane), key=lambda job: (ready.estimate[job], job))  # the base policy is sjf
    rows = []
    for job in batch.shown(lane):
        w, r, n, at = now - jobs.submit[job], ready.estimate[job], jobs.procs[job], jobs.position[job]
        delay = 0.0
        if n > free:
            delay = min(end - now for end in sorted(limits) if free + jobs.procs[runs][limits <= end].sum() >= n)
        capped = lambda value, top: 1.0 if np.isnan(value) else min(value / top, 1 - 1e-5)  # noqa: E731
        rows.append(
            {
                "request": np.log1p(r) / np.log1p(constant["log_time_s"]),
                "size": n / total,
                "log-size": np.log1p(n) / np.log1p(total),
                "area": np.log1p(r * n) / np.log1p(constant["log_time_s"] * total),
                "request-size": np.log1p(r) / np.log1p(constant["log_time_s"]) * n / total,
                "request-share": capped(r, constant["max_request_s"]),
                "procs-share": capped(n, constant["max_procs"]),
                "memory": capped(facts.memory[at], constant["max_memory_kb"]),
                "user": capped(facts.user[at], constant["max_user"]),
                "group": capped(facts.group[at], constant["max_group"]),
                "app": capped(facts.app[at], constant["max_app"]),
                "wait": w / (w + half),
                "long-wait": w / (w + day),
                "stretch": w / (w + max(r, 10)),
                "starts-now": float(n <= free),
                "fill": n / free if n <= free else 1.0,
                "delay": delay / (delay + half),
                "free": free / total,
                "queue": waits.sum() / (waits.sum() + constant["queue_jobs"]),
                "backlog": work / (work + day),
                "filling": float(filling),
                "spare": batch.arrays.at_shadow.free[lane, 0] / total if filling else 0.0,
                "shadow": (shadow - now) / (shadow - now + half) if filling else 0.0,
                "ends-in-time": float(filling and now + r <= shadow),
                "next-end": (limits.min() - now) / (limits.min() - now + half) if runs.any() else 1.0,
                "user-average": means.get(jobs.user[job], 0.0) / max(means.values(), default=1.0),
                "wait-share": min(w / constant["wait_s"], 1 - 1e-5),
                "can-start": 1 - 1e-5 if n <= free else 1e-5,
                "base-place": by_limit.index(job) / (by_limit.index(job) + 4),
                "link-user": (jobs.user[job] + 1) / 2**22,
                "link-project": (["12", "3", "7"].index(str(int(facts.group[at]))) + 1) / 2**22,
                "link-time": 1 / 2**22,
                "link-submit": (jobs.submit[job] - jobs.submit.min() + 1) / 2**30,
                "link-size": n / 2**22,
                "link-machine": total / 2**22,
                "link-none": 0.0,
                "link-free": free / 2**22,
            }
        )
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("backfill", "commit"), [("easy", False), ("easy", True), ("none", False), ("none", True), ("rlscheduler", True)]
)
def test_features_are_what_they_say(backfill, commit):
    trace = crowd(90)
    rng = np.random.default_rng(1)
    trace = trace.assign(
        {
            "req_mem": np.where(rng.random(90) < 0.2, np.nan, rng.integers(1, 999, 90)),
            "group": pd.Categorical(rng.choice(["7", "12", "3"], 90)),
            "app": pd.Categorical(rng.choice(["x", "y"], 90)),
        }
    )
    batch = Batch(trace, PickJob(observer=EVERY, backfill=backfill, commit=commit), lanes=1)
    batch.reset([0], [(0, 90)])
    looked = 0
    while not batch.done[0]:
        count = int(batch.count[0])
        expected = plain(batch)[list(batch.task.feature_names)].to_numpy()
        np.testing.assert_allclose(batch.features[0, :count], expected, rtol=2e-6, atol=1e-7)
        assert not batch.features[0, count:].any()
        assert batch.mask[0].tolist() == [True] * count + [False] * (128 - count)
        looked += 1
        batch.step([int(rng.integers(count))])
    assert looked > 5  # with their backfilling most jobs start without being picked
    assert not batch.features.any()
    assert not batch.mask.any()


def test_the_eight_features_of_rlscheduler_by_hand():
    """A job of 30 of 100 s, 2 of 4 processors, memory 50 of 200, user 3 of 6; group and app unknown; waits 6 h."""
    trace = trace_of((0, 21600, 100, 3), (0, 30, 30, 2), (21600, 1, 1, 1), procs=4)
    trace = trace.assign(
        {"req_mem": [200.0, 50.0, np.nan], "user": pd.Categorical(["6", "3", None], categories=["3", "6"])}
    )
    batch = Batch(trace, PickJob.rlscheduler(backfill="none"), lanes=1)
    assert batch.task.feature_names == observe.OBSERVERS["rlscheduler"]
    batch.reset([0], [(0, 3)])
    first = batch.features[0, 0]
    np.testing.assert_allclose(first, [0, 1 - 1e-5, 0.75, 1 - 1e-5, 1 - 1e-5, 1, 1, 1 - 1e-5], rtol=1e-6)
    batch.step([0])  # the second arrives, alone, and cannot start: committed. The third arrives first at the tie
    assert batch.shown(0).tolist() in ([1], [2]) or batch.done[0]
    asked = Batch(trace, PickJob.rlscheduler(ask_forced=True), lanes=1)
    asked.reset([0], [(0, 3)])
    asked.step([0])
    np.testing.assert_allclose(asked.features[0, 0], [0, 0.3, 0.5, 0.25, 0.5, 1, 1, 1e-5], rtol=1e-6)


def test_two_orders_take_turns_when_more_wait_than_slots():
    """Estimates 9 8 7 6 5 4, sizes 1 2 3 4 5 6: shortest, smallest, second shortest, … and no job twice."""
    jobs = [(0, 10 - size, 10 - size, size) for size in range(1, 7)]
    batch = Batch(trace_of(*jobs, procs=6), PickJob(slots=4, visible="sjf-smallest", commit=True), lanes=1)
    batch.reset([0], [(0, 6)])
    assert batch.shown(0).tolist() == [5, 0, 4, 1]
    batch.step([0])
    assert batch.shown(0).tolist() == [4, 0, 3, 1]
    with_five = Batch(trace_of(*jobs[:4], procs=6), PickJob(slots=4, visible="sjf-smallest"), lanes=1)
    with_five.reset([0], [(0, 4)])
    assert with_five.shown(0).tolist() == [0, 1, 2, 3]  # all are visible: as submitted


def test_a_saved_task_sees_another_trace_on_its_own_scale():
    learnt = Batch(crowd(), PickJob(observer="rlscheduler"), lanes=1).task
    text = json.dumps(learnt.to_dict())
    again = PickJob.from_dict(json.loads(text))
    assert again == learnt
    longer = trace_of((0, 5000, 5000, 1), (0, 5000, 5000, 1), procs=1)
    other = Batch(longer, again, lanes=1)
    other.reset([0], [(0, 2)])
    assert other.task.constants == learnt.constants
    assert other.features[0, 0, 1] == np.float32(1 - 1e-5)  # longer than anything it has seen
    assert Batch(longer, PickJob(observer="rlscheduler"), lanes=1).task.constants["max_request_s"] == 5000


# ---- objectives ----------------------------------------------------------------------------------------------------


def schedule(**changes):
    """Two users; waits 0, 90, 30; runs 5, 10, 60."""
    facts = {
        "submit": np.array([0.0, 0, 10]),
        "start": np.array([0.0, 90, 40]),
        "run": np.array([5.0, 10, 60]),
        "procs": np.array([1.0, 2, 2]),
        "user": np.array([0, 1, 0]),
        "total": 4.0,
    }
    return Schedule(**(facts | changes))


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("bsld", (1 + 10 + 1.5) / 3),
        ("slowdown", (1 + 10 + 1.5) / 3),
        ("wait", 40.0),
        ("response", 65.0),
        ("utilization", -(5 + 20 + 120) / (4 * 100)),
        ("fair-mean", (1.25 + 10) / 2),
        ("fair-max", 10.0),
        ("bsld:0.5,wait:0.1", 0.5 * 12.5 / 3 + 4),
        ("bsld,utilization:-2", 12.5 / 3 + 2 * 145 / 400),
    ],
)
def test_objectives_by_hand(name, cost):
    assert objective(name).cost(schedule()) == pytest.approx(cost)


def test_objectives_are_numbers_where_metrics_are_not():
    lengthless = {name: np.zeros(3) for name in ("submit", "start", "run")}
    no_users = np.full(3, -1)
    for name in OBJECTIVES.keys() - {"gpu-utilization", "energy", "carbon", "cost", "peak"}:  # these need more
        assert np.isfinite(objective(name).cost(schedule(run=np.zeros(3))))
        assert np.isfinite(objective(name).cost(schedule(**lengthless, user=no_users)))
    assert objective("fair-max").cost(schedule(user=no_users)) == pytest.approx(12.5 / 3)
    assert objective("fair-mean").cost(schedule(user=np.array([-1, 0, -1]))) == pytest.approx((1.25 + 10) / 2)


def test_objectives_with_mistakes():
    with pytest.raises(UnknownName, match="did you mean bsld"):
        objective("bsdl")
    for text in ("bsld:x", "bsld:", "bsld:inf"):
        with pytest.raises(UsageError, match="weight"):
            objective(text)
    with pytest.raises(UnknownName):
        objective("bsld,")


@pytest.mark.parametrize("name", ["bsld", "slowdown", "wait", "response", "bsld:0.7,wait:0.001"])
@pytest.mark.parametrize("warm", [0, 30])
def test_dense_rewards_add_up_to_the_cost(name, warm):
    batch = Batch(crowd(), PickJob(objective=name, reward="dense", warm=warm), lanes=1)
    rng, total = np.random.default_rng(0), 0.0
    batch.reset([0], [(40, 100)])
    while not batch.done[0]:
        reward, _ = batch.step([int(rng.integers(batch.count[0]))])
        total += reward[0]
    assert total == pytest.approx(-batch.score[0], rel=1e-9)


def test_rewards_against_a_base_policy():
    trace = crowd()
    batch = Batch(trace, PickJob(reward="relative", base="sjf"), lanes=1)
    imitate(batch, [(0, 100)], "sjf")
    assert batch.score[0] == batch.base_score[0] == batch.baseline([0])[0]
    batch.reset([0], [(0, 100)])
    reward, rng = np.zeros(1), np.random.default_rng(1)
    while not batch.done[0]:
        assert reward[0] == 0
        reward, _ = batch.step([int(rng.integers(batch.count[0]))])
    assert reward[0] == relative(batch.score, batch.base_score)[0] < 0
    np.testing.assert_array_equal(relative(np.array([2.0, 0, -0.5]), np.array([4.0, 0, -0.25])), [0.5, 0, 0.5])


# ---- windows -------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=60), st.sampled_from([(0.7, 0.15, 0.15), (0.5, 0.5), (0.3, 0.2)])
)
@settings(max_examples=200, deadline=None)
def test_spans_never_overlap_in_time(submit, shares):
    submit = np.array(submit, dtype=float)
    parts = windows.spans(submit, shares)
    assert parts[0][0] == 0
    for (_, last), (first, _) in itertools.pairwise(parts):
        assert last == first
        if 0 < last < len(submit):
            assert submit[:last].max() <= submit[last:].min()


def test_windows_by_hand():
    submit = np.arange(100.0)
    assert windows.spans(submit, (0.7, 0.15, 0.15)) == [(0, 70), (70, 85), (85, 100)]
    drawn = windows.draw((40, 60), 50, 5, seed=3, warm=10)
    assert drawn == windows.draw((40, 60), 50, 5, seed=3, warm=10)
    assert {50, 55} <= {start for start, _ in drawn} <= set(range(50, 56))
    around = windows.draw_from(windows.outside((0, 100), [(20, 60)]), 200, 10, seed=1)
    assert {start for start, _ in around} == {*range(0, 11), *range(80, 91)}
    with pytest.raises(UsageError, match="do not fit"):
        windows.draw((40, 60), 1, 21, seed=0)
    with pytest.raises(UsageError, match="none of the"):
        windows.draw_from([(0, 5)], 1, 6, seed=0)
    with pytest.raises(UsageError, match="at most 1"):
        windows.spans(submit, (0.9, 0.2))


def test_the_filter_keeps_windows_of_a_given_difficulty():
    source = EpisodeSource(crowd(600, seed=6), PickJob(base="sjf"))
    drawn = windows.draw((0, 600), 40, 50, seed=0)
    costs = source.policy_costs(drawn, ["sjf"])[:, 0]
    low, high = np.quantile(costs, [0.25, 0.75])
    kept = source.keep_between(drawn, low, high)
    assert 0 < len(kept) < 40
    assert all(low < source.policy_cost(window, "sjf") < high for window in kept)
    one = source.policy_costs(drawn[:5], ["sjf", "fcfs", "f1"], threads=1)
    np.testing.assert_array_equal(one, source.policy_costs(drawn[:5], ["sjf", "fcfs", "f1"], threads=3))
    with pytest.raises(UsageError, match="replay"):
        source.policy_cost(drawn[0], "replay")


# ---- traces at the edge --------------------------------------------------------------------------------------------


def test_unsorted_traces_and_jobs_that_are_too_large():
    """A window is that of `simulate`: consecutive rows of the file, what can never fit rejected and counted."""
    trace = trace_of((20, 5, 5, 4), (0, 50, 50, 4), (10, 5, 5, 9), (10, 5, 5, 4), (11, 5, 5, 99), procs=4)
    batch = Batch(trace, PickJob(), lanes=1)
    assert batch.source.rejected == {"larger than the machine": 2}
    (starts,) = imitate(batch, [(0, 4)], "sjf")
    assert starts.tolist() == [0, 50, 55]
    with pytest.raises(TracekitError, match=r"larger than the machine: 1"):
        batch.reset([0], [(4, 1)])
    with pytest.raises(UsageError, match="does not lie within"):
        batch.reset([0], [(3, 9)])


def test_fifty_jobs_without_users_or_limits():
    trace = crowd(50)
    bare = trace.replace(jobs=trace.jobs.drop(columns=["user", "req_time"]))
    for observer in ("fair", "rlscheduler-fair", "default"):
        batch = Batch(bare, PickJob(observer=observer, objective="fair-max"), lanes=2)
        play(batch, [(0, 50), (10, 40)], np.random.default_rng(0))
        assert np.isfinite(batch.score).all()


def test_shares_of_a_gpu():
    trace = trace_of(*[(i % 3, 10, 10, (i % 4 + 1) / 4) for i in range(40)], procs=2)
    batch = Batch(trace, PickJob(), lanes=2)
    starts = imitate(batch, [(0, 40), (0, 1)], "f1")
    for window, ours in zip([(0, 40), (0, 1)], starts, strict=True):
        np.testing.assert_array_equal(ours, batch.source.schedule(window, "f1"))


def test_noisy_estimates_are_drawn_per_window_as_in_simulate():
    trace = crowd()
    batch = Batch(trace, PickJob(switches=Switches(estimates="noisy:0.5", seed=3)), lanes=1)
    (ours,) = imitate(batch, [(20, 60)], "sjf")
    np.testing.assert_array_equal(ours, batch.source.schedule((20, 60), "sjf"))


# ---- the task ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"backfill": "conservative"}, "conservative"),
        ({"backfill": "easy++"}, "easy-sjf"),
        ({"switches": Switches(dependencies=True)}, "dependencies"),
        ({"switches": Switches(outages=((0.0, 1.0, 2.0),))}, "outages"),
        ({"switches": Switches(warmup="5%")}, "warmup"),
        ({"backfill": "esy"}, "did you mean easy"),
        ({"switches": Switches(estimates="last-two")}, "last-two"),
        ({"slots": 0}, "shown 1 to"),
        ({"observer": "defalt"}, "did you mean default"),
        ({"visible": "wfp3"}, "rule of visibility"),
        ({"visible": "random"}, "rule of visibility"),
        ({"reward": "fnal"}, "did you mean final"),
        ({"reward": "dense", "objective": "utilization"}, "only at the end"),
        ({"objective": "speed"}, "objective"),
        ({"base": "sfj"}, "did you mean srf or sjf"),
        ({"warm": -1}, "warm"),
        ({"constants": {"short": 1.0}}, "constant"),
    ],
)
def test_tasks_that_mean_nothing(settings, words):
    with pytest.raises(UsageError, match=words):
        PickJob(**settings)


def test_everything_that_has_a_name_is_documented():
    text = (ROOT / "docs" / "environments.md").read_text()
    named = (*observe.FIXED, *observe.CHANGING, *observe.OBSERVERS, *observe.CONSTANTS, *OBJECTIVES)
    for name in (*named, *REWARDS, *ALTERNATING, *BACKFILLS):
        assert f"`{name}`" in text, name


def test_tasks_from_files_with_unknown_names():
    with pytest.raises(UnknownName, match="did you mean slots"):
        PickJob.from_dict({"slot": 3})


def test_compatibility_means_all_of_it():
    task = PickJob.rlscheduler(backfill="easy")
    assert task.commit
    assert task.backfill == "rlscheduler"
    assert task.orders == ("sjf", "smallest")
    assert PickJob.from_dict(json.loads(json.dumps(task.to_dict()))) == task
