"""Predictions of run times: features against plain Python, no knowledge of the future, trees as scikit-learn's."""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.schema import statuses
from tracekit.sim.engine.learned import learned_for
from tracekit.sim.engine.session import Session
from tracekit.sim.jobs import extract_jobs, prepare
from tracekit.sim.policies.builtin import find
from tracekit.sim.predict import TASK
from tracekit.sim.predict.evaluate import errors, later_jobs, split_of
from tracekit.sim.predict.features import features_of, history_before
from tracekit.sim.predict.history import FEATURES, GROUP, NEWEST
from tracekit.sim.predict.index import Form
from tracekit.sim.predict.predictor import FACTS, OUTPUTS, TREES, Predictor
from tracekit.sim.predict.training import MOST_ENDED, TreeSettings, capped_run, goes_on, train
from tracekit.sim.predict.trees import checked, evaluated, forest_of
from tracekit.sim.setup import Setup
from tracekit.sim.switches import Switches
from tracekit.trace import Machine, Trace

NAN = math.nan
SMALL = TreeSettings(trees=20, leaves=6, leaf_jobs=10, learning_rate=0.3)
SEARCH = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def trace_of(submit, run, wait, limit, procs, user, queue, epoch=1_000_000_000.0):
    columns = {"submit_time": submit, "run_time": run, "wait_time": wait, "req_time": limit, "req_procs": procs}
    table = pd.DataFrame({name: np.array(values, float) for name, values in columns.items()})
    table.insert(0, "job_id", np.arange(1, len(table) + 1))
    labels = {
        name: pd.Categorical([None if v < 0 else str(v) for v in codes])
        for name, codes in (("user", user), ("queue", queue))
    }
    return Trace(table.assign(**labels), Machine(procs=64, epoch=epoch))


@st.composite
def traces(draw, least=1):
    count = draw(st.integers(least, 12))

    def column(values):
        return draw(st.lists(values, min_size=count, max_size=count))

    gaps = column(st.sampled_from([0, 0, 3, 10, 50]))
    return trace_of(
        np.cumsum(gaps),
        column(st.sampled_from([0, 1, 5, 20, 90, NAN])),
        column(st.sampled_from([0, 2, 15, NAN])),
        column(st.sampled_from([10, 100, NAN, 0])),
        column(st.sampled_from([1, 4])),
        column(st.sampled_from([-1, 0, 1])),
        column(st.sampled_from([-1, 0])),
    )


def random_trace(jobs=600, seed=0):
    """A trace in which a user's jobs are alike: there is something to learn."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 8, jobs)
    run = np.round(np.exp(rng.normal(3 + user / 2, 0.4)))
    return trace_of(
        np.sort(rng.integers(0, 40 * jobs, jobs)),
        run,
        np.full(jobs, NAN),
        np.where(rng.random(jobs) < 0.05, NAN, np.round(run * rng.choice([2, 5, 20], jobs))),
        rng.choice([1, 2, 8, 32], jobs),
        user,
        user % 3,
    )


# ---- features --------------------------------------------------------------------------------------------------------


def slow_features(trace, job):
    """Return the features of one job, worked out from the other jobs in lists and loops."""
    frame = trace.jobs
    size = trace.sizes()
    user, queue = trace.column("user"), trace.column("queue")
    limit = trace.column("req_time")
    submit = frame["submit_time"].to_numpy()
    wait = np.nan_to_num(frame["wait_time"].to_numpy(), nan=0.0)
    start = submit + wait
    end = start + frame["run_time"].to_numpy()
    now = submit[job]

    def before(time, other, kind):  # whether an event of another job comes before this submit
        if time != now:
            return time < now
        return (kind == "end" and end[other] > start[other]) or (kind == "submit" and other < job)

    others = [k for k in range(len(frame)) if k != job]
    ended = sorted((k for k in others if before(end[k], k, "end")), key=lambda k: (end[k], end[k] == start[k], k))
    found = [
        math.log(max(limit[job], 1)) if limit[job] > 0 else NAN,
        math.log(size[job]),
        *_clock(trace.machine.epoch + now),
    ]
    same = lambda a, b: a == b or (a != a and b != b)  # noqa: E731
    for alike in (
        lambda k: user[k] == user[job],
        lambda k: user[k] == user[job] and size[k] == size[job] and same(limit[k], limit[job]),
        lambda k: queue[k] == queue[job],
    ):
        runs = [k for k in ended if alike(k)]
        logs = [math.log(max(frame["run_time"][k], 1)) for k in runs]
        shares = [value - math.log(max(limit[k], 1)) for k, value in zip(runs, logs, strict=True) if limit[k] > 0]
        last = logs[-1] if logs else NAN
        before_last = logs[-2] if len(logs) > 1 else NAN
        two = math.log((math.exp(last) + math.exp(before_last)) / 2) if len(logs) > 1 else last
        mean = sum(logs) / len(logs) if logs else NAN
        found += [len(logs), last, before_last, two, mean, decayed(logs), decayed(shares)]
    mine = [k for k in others if user[k] == user[job]]
    submitted = [k for k in mine if before(submit[k], k, "submit")]
    started = [k for k in submitted if before(start[k], k, "start")]
    over = [k for k in started if before(end[k], k, "end")]
    found += [len(submitted) - len(started), len(started) - len(over)]
    found += [
        now - max((times[k] for k in known), default=NAN)
        for times, known in ((submit, submitted), (start, started), (end, over))
    ]
    return found


def _clock(seconds):
    stamp = pd.Timestamp(seconds, unit="s", tz="UTC")
    return stamp.hour, stamp.day_of_week


def decayed(values):
    mean = NAN
    for k, value in enumerate(values):
        mean = value if k == 0 else mean + NEWEST * (value - mean)
    return mean


@SEARCH
@given(trace=traces())
def test_features_are_those_of_plain_python(trace):
    found = features_of(trace)
    for job in range(len(trace)):
        np.testing.assert_allclose(found[job], slow_features(trace, job), rtol=1e-12, atol=1e-12)


def test_features_worked_by_hand():
    """User 0: jobs of 20 and 40 s end at 20 and 45; the third is submitted at 45, while a fourth waits from 30 on."""
    trace = trace_of([0, 5, 30, 45], [20, 40, 7, 9], [0, 0, 60, 0], [100, 100, 50, 100], [4, 4, 1, 4], [0] * 4, [0] * 4)
    seen = dict(zip(FEATURES, features_of(trace)[3].tolist(), strict=True))
    assert seen["user_ended"] == 2
    assert seen["user_last"] == pytest.approx(math.log(40))
    assert seen["user_before"] == pytest.approx(math.log(20))
    assert seen["user_last_two"] == pytest.approx(math.log(30))
    assert seen["shape_ended"] == 2
    assert seen["user_share"] == pytest.approx(math.log(0.2) + NEWEST * (math.log(0.4) - math.log(0.2)))
    assert (seen["queued"], seen["running"]) == (1, 0)
    assert (seen["since_submit"], seen["since_start"], seen["since_end"]) == (15, 40, 0)
    assert (seen["hour"], seen["weekday"]) == (1, 6)  # 2001-09-09, a Sunday, 01:47 UTC


@SEARCH
@given(trace=traces(least=2), data=st.data())
def test_nothing_after_a_submit_changes_the_features(trace, data):
    """Run times of jobs that have not ended, waits of those that have not started, later jobs: none is known."""
    job = data.draw(st.integers(0, len(trace) - 1))
    frame = trace.jobs
    now = frame["submit_time"][job]
    start = frame["submit_time"] + frame["wait_time"].fillna(0)
    late_end, late_start = ~(start + frame["run_time"] <= now), ~(start < now)
    changed = frame.copy()
    shift = data.draw(st.sampled_from([1.0, 13.0, 400.0]))
    changed.loc[late_end, "run_time"] = (now - start).clip(lower=0)[late_end] + shift
    changed.loc[late_start, "wait_time"] = (now - frame["submit_time"])[late_start].clip(lower=0) + shift
    later = frame["submit_time"] > now
    changed.loc[later, "submit_time"] += shift
    changed.loc[later, "req_time"] = 77.0
    known = changed[~later | data.draw(st.booleans())]
    found = features_of(trace.replace(jobs=known.reset_index(drop=True)))[job]
    np.testing.assert_array_equal(found, features_of(trace)[job])


def test_a_trace_without_calendar_users_or_jobs():
    trace = trace_of([0, 1], [5, 5], [NAN, NAN], [NAN, NAN], [1, 1], [-1, -1], [-1, -1], epoch=None)
    seen = features_of(trace)
    assert np.isnan(seen[:, [FEATURES.index(name) for name in ("hour", "weekday", "ln_limit")]]).all()
    assert seen[1, FEATURES.index("running")] == 1
    assert features_of(trace.head(0)).shape == (0, len(FEATURES))


def test_a_window_knows_the_jobs_that_ended_before_it():
    trace = random_trace(200)
    start = trace.column("submit_time")
    rows = np.arange(100, 150)
    history = history_before(trace, trace.sizes(), rows, float(start[100]))
    ended = start[:100] + trace.column("run_time")[:100] <= start[100]
    assert history.group["ended"][: history.user.size].sum() == ended.sum()
    assert len(history.own) == 50
    assert history.user["running"].sum() == history.user["queued"].sum() == 0


# ---- trees -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [{}, {"loss": "quantile", "quantile": 0.8}, {"loss": "poisson"}])
def test_trees_give_what_scikit_learn_predicts(loss):
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(3)
    rows = rng.normal(size=(500, 5))
    rows[rng.random(rows.shape) < 0.2] = NAN
    target = np.exp(np.nan_to_num(rows[:, 0]) + rng.normal(size=500))
    models = [HistGradientBoostingRegressor(max_iter=20, random_state=k, **loss).fit(rows, target) for k in (0, 1)]
    made = evaluated(forest_of(models), rows)
    for column, model in enumerate(models):
        expected = model.predict(rows)
        np.testing.assert_array_equal(
            np.exp(made[:, column]) if loss.get("loss") == "poisson" else made[:, column], expected
        )


@pytest.fixture(scope="module")
def predictor():
    return train(random_trace(), SMALL, seed=1)


def test_same_seed_same_trees(predictor):
    again, other = train(random_trace(), SMALL, seed=1), train(random_trace(), SMALL, seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(predictor.forest, again.forest, strict=True))
    assert not np.array_equal(predictor.forest.value, other.forest.value)


def test_targets_end_at_the_limit():
    trace = trace_of([0, 1, 2], [50, 0, 50], [0] * 3, [20, 20, NAN], [1] * 3, [0] * 3, [0] * 3)
    assert capped_run(trace).tolist() == [20, 1, 50]


def test_a_trace_without_calendar_can_be_learnt_from():
    trace = random_trace(150)
    made = train(trace.replace(machine=trace.machine.replace(epoch=None)), SMALL)
    assert np.isfinite(made.seconds(features_of(trace), trace.column("req_time"))).all()


def test_it_learns_and_quantiles_are_in_order(predictor):
    trace = random_trace(600, seed=9)
    found = errors(predictor, trace, (300, 600))
    assert found["agent"]["error"] < min(found[name]["error"] for name in ("limit", "last-two"))
    seen, limit = features_of(trace), trace.column("req_time")
    means = [np.log(predictor.seconds(seen, limit, name)).mean() for name in ("q50", "q75", "q90")]
    assert means == sorted(means)
    with np.errstate(invalid="ignore"):
        assert not (predictor.seconds(seen, limit) > np.maximum(limit, 1)).any()


def test_means_are_means_and_weights_can_be():
    """Users whose jobs last a second or a day: a loss whose steps have no bounds ends far away from the mean."""
    trace = random_trace(800, seed=2)
    rng = np.random.default_rng(4)
    run = np.where(rng.random(800) < 0.5, 1.0, 86400.0)
    trace = trace.replace(jobs=trace.jobs.assign(run_time=run, req_time=86400.0))
    made = train(trace, seed=1).outputs(features_of(trace), trace.column("req_time"))
    assert made[:, OUTPUTS.index("expected")].mean() == pytest.approx(run.mean(), rel=0.02)
    weight = made[:, OUTPUTS.index("weight")]
    assert weight.mean() == pytest.approx((10 / np.maximum(run, 10)).mean(), rel=0.02)
    assert weight.min() >= 10 / 86400
    assert weight.max() <= 1


def log_that_goes_on(status):
    """Every second job, drawn, runs 2,000 s, the others 10 s; a job every 20 s. The log at 40,000 s, and the whole."""
    rng = np.random.default_rng(5)
    jobs = 2400
    run = np.where(rng.random(jobs) < 0.5, 10.0, 2000.0)
    submit, same = 20.0 * np.arange(jobs), np.zeros(jobs)
    whole = trace_of(submit, run, same, same + 4000, same + 1, rng.integers(0, 4, jobs), same, epoch=None)
    whole = whole.assign({"status": statuses(["completed"] * jobs)})
    known = submit + run <= 40000
    labels = statuses(np.where(known, "completed", status))
    return whole.assign({"run_time": np.where(known, run, NAN), "status": labels}).head(2000), whole


def test_jobs_that_still_run_do_not_make_later_jobs_look_short():
    """Of the newest jobs only short ones have ended: a tree that knows them by their counts would expect no others."""
    log, whole = log_that_goes_on("unknown")
    made = train(log, SMALL, seed=1)
    counts = np.isin(made.forest.feature, [FEATURES.index(f"{name}_ended") for name in ("user", "shape", "queue")])
    assert counts.any()
    assert made.forest.threshold[counts].max() < MOST_ENDED
    later = slice(2000, None)
    guess = np.log(made.seconds(features_of(whole)[later], whole.column("req_time")[later], "ln_mean")).mean()
    assert guess == pytest.approx(np.log(whole.column("run_time")[later]).mean(), abs=1.2)  # without the cap 2.9 less


def test_jobs_that_never_ran_are_not_taken_for_running_ones():
    log, whole = log_that_goes_on("cancelled")
    assert not goes_on(log)
    assert not goes_on(whole)
    assert goes_on(log_that_goes_on("unknown")[0])
    assert goes_on(log.replace(jobs=log.jobs.drop(columns="status")))


def test_too_few_jobs_and_impossible_trees():
    with pytest.raises(TracekitError, match="100"):
        train(random_trace(50))
    with pytest.raises(UsageError, match="trees"):
        TreeSettings(trees=0)


# ---- files -----------------------------------------------------------------------------------------------------------


def test_saving_and_loading(predictor, tmp_path):
    folder = tmp_path / "agent"
    predictor.save(folder)
    found = Predictor.load(f"agent:{folder}")
    assert all(np.array_equal(a, b) for a, b in zip(predictor.forest, found.forest, strict=True))
    assert json.loads((folder / FACTS).read_text())["task"] == {"name": TASK}
    with pytest.raises(TracekitError, match="force"):
        predictor.save(folder)
    other = tmp_path / "again"
    train(random_trace(), SMALL, seed=1).save(other)
    assert (other / TREES).read_bytes() == (folder / TREES).read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / TREES).write_bytes(b"\x80\x04pickle"),
        lambda f: (f / TREES).unlink(),
        lambda f: (f / FACTS).write_text("{}"),
        lambda f: (f / FACTS).write_text("["),
        lambda f: (f / FACTS).write_text((f / FACTS).read_text().replace('"q90"', '"q91"')),
        lambda f: (f / FACTS).write_text((f / FACTS).read_text().replace("ln_limit", "other")),
        lambda f: (f / FACTS).write_text((f / FACTS).read_text().replace('"sizes": 1.25', '"sizes": "much"')),
    ],
)
def test_damaged_folders_are_refused(predictor, tmp_path, damage):
    predictor.save(tmp_path / "agent")
    damage(tmp_path / "agent")
    with pytest.raises(FormatError):
        Predictor.load(tmp_path / "agent")


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f._replace(left=np.zeros_like(f.left)),  # a circle
        lambda f: f._replace(right=f.right + 10**6),
        lambda f: f._replace(feature=np.full_like(f.feature, 99)),
        lambda f: f._replace(root=f.root - 1),
        lambda f: f._replace(value=f.value * NAN),
        lambda f: f._replace(first=f.first + 1),
        lambda f: f._replace(value=f.value[:-1]),
        lambda f: f._replace(base=f.base.astype(np.float32)),
    ],
)
def test_trees_that_cannot_be_walked_are_refused(predictor, change):
    with pytest.raises(TracekitError):
        checked(change(predictor.forest)._asdict(), len(FEATURES))


# ---- in the simulator ------------------------------------------------------------------------------------------------


def session_of(trace, backfill="easy-sjf", **switches):
    chosen = Switches(**switches)
    return Session(Setup(prepare(extract_jobs(trace, chosen), chosen), backfill, chosen))


@pytest.mark.parametrize("use", ["backfill", "order", "both"])
def test_a_simulation_predicts_from_the_schedule_that_it_makes(predictor, tmp_path, use):
    """Its schedule taken as recorded gives the same features, and so the same predictions."""
    agent = dataclasses.replace(predictor, order="q50", backfill="ln_mean", index=Form(0.5, 0.75, 1.5))
    agent.save(tmp_path / "agent")
    assert Predictor.load(tmp_path / "agent").index == agent.index
    trace = random_trace(400, seed=5)
    run = session_of(trace, predict=f"agent:{tmp_path / 'agent'}", predict_for=use)
    run.run(*_policy("sjf"))
    recorded = trace.replace(jobs=trace.jobs.assign(wait_time=run.jobs.start - run.jobs.submit))
    assert (recorded.column("wait_time") > 0).any()
    seen, limit = features_of(recorded), trace.column("req_time")
    if use != "backfill":
        np.testing.assert_allclose(run.jobs.asked, agent.seconds(seen, limit, "q50"), rtol=1e-13)
    if use != "order":
        first = agent.seconds(seen, limit, "ln_mean")
        np.testing.assert_allclose(run.dynamics.predictions["first"], first, rtol=1e-13)
    else:
        np.testing.assert_array_equal(run.jobs.estimate, run.ready.estimate)
    out = evaluated(agent.forest, seen)
    time, weight = (out[:, OUTPUTS.index(name)] for name in ("ln_mean", "weight"))
    ln_limit = np.where(limit > 0, np.log(limit), time)
    least = np.where(limit > 0, np.log(10 / np.maximum(limit, 10)), -np.inf)
    weight = np.clip(weight, least, 0.0)
    index = 0.75 * np.minimum(time, ln_limit) + 0.25 * ln_limit + 1.5 * np.log(trace.sizes()) - 0.5 * weight
    np.testing.assert_allclose(run.dynamics.learned.priority, index, rtol=1e-12)


def test_a_predictor_saved_before_the_share_loads_and_orders_as_before(predictor, tmp_path):
    dataclasses.replace(predictor, index=Form(0.5, 0.75, 1.5)).save(tmp_path / "old")
    facts = json.loads((tmp_path / "old" / FACTS).read_text())
    assert facts["use"].pop("share") == 0
    (tmp_path / "old" / FACTS).write_text(json.dumps(facts))
    assert Predictor.load(tmp_path / "old").index == Form(0.5, 0.75, 1.5, 0.0)


def _policy(name):
    from tracekit.sim.policies.formulas import CODES

    return CODES[name], None


def test_predictions_with_dependencies_outages_and_windows(predictor, tmp_path):
    """A job that an outage sends back to the queue waits again; all counts return to zero."""
    predictor.save(tmp_path / "agent")
    trace = random_trace(300, seed=6)
    away = ((2000.0, 4000.0, 40.0), (6000.0, 6500.0, 64.0))
    switches = {"predict": f"agent:{tmp_path / 'agent'}", "outages": away, "outage_mode": "requeue"}
    result = tracekit.simulate(trace, "fcfs", "easy", **switches)
    assert result.notes["outages"]["restarts"] > 0
    run = session_of(trace, "easy", **switches)
    run.run(*_policy("fcfs"))
    user = run.dynamics.learned.history.user
    assert user["queued"].sum() == 0
    assert (user["running"] >= 0).all()
    part = extract_jobs(trace, Switches()).window(100, 50)
    chosen = Switches(predict=f"agent:{tmp_path / 'agent'}")
    history = learned_for(prepare(part, chosen), chosen).history
    assert history.group["ended"].sum() > 0
    assert history.group.dtype == GROUP


def test_the_policy_predicted_index(predictor, tmp_path):
    predictor.save(tmp_path / "agent")
    trace = random_trace(300, seed=7)
    agent = f"agent:{tmp_path / 'agent'}"
    result = tracekit.simulate(trace, "predicted-index", predict=agent, predict_for="order")
    assert len(result) == 300
    assert not np.array_equal(result.start, tracekit.simulate(trace, "fcfs").start)
    with pytest.raises(UsageError, match="--predict"):
        tracekit.simulate(trace, "predicted-index")
    assert find("predicted-index").name == "predicted-index"


@pytest.mark.parametrize(
    ("switches", "said"),
    [
        ({"predict": "last-three"}, "last-two"),
        ({"predict": "last-two", "predict_for": "waiting"}, "backfill"),
        ({"predict_for": "order"}, "--predict"),
        ({"predict": "agent:/nowhere"}, "nowhere"),
        ({"predict": "agent:default"}, "predict-run-time"),
    ],
)
def test_wrong_switches(switches, said):
    with pytest.raises(TracekitError, match=said):
        tracekit.simulate(random_trace(20), **switches)


def test_which_jobs_are_later(predictor):
    trace = random_trace(100)
    from tracekit.sim.predict.evaluate import fingerprint_of

    first, second = split_of(trace, 0.7)
    assert (first[0], first[1], second[1]) == (0, second[0], 100)
    own = dataclasses.replace(predictor, facts={"trace": {"fingerprint": fingerprint_of(trace), "jobs": 70}})
    assert later_jobs(own, trace)[0] == (70, 100)
    assert later_jobs(own, random_trace(90))[0] == (0, 90)
    whole = dataclasses.replace(own, facts={"trace": own.facts["trace"] | {"jobs": 100}})
    with pytest.raises(TracekitError, match="all jobs"):
        later_jobs(whole, trace)
