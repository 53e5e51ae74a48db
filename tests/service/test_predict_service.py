"""Run times over the service: the predictions of a trace and of a simulation, event by event, and refusals."""

from __future__ import annotations

import io
import json
import sys
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_http import ask as ask_http

import tracekit
from tracekit.cli import main
from tracekit.service.http import Service, serve_lines
from tracekit.service.predict import PredictDecider
from tracekit.service.protocol import Refused
from tracekit.sim.engine.session import Session
from tracekit.sim.jobs import extract_jobs, prepare
from tracekit.sim.policies.formulas import CODES
from tracekit.sim.predict.features import features_of
from tracekit.sim.predict.history import FEATURES
from tracekit.sim.predict.ongoing import Ongoing, Submits
from tracekit.sim.predict.predictor import OUTPUTS, Predictor
from tracekit.sim.predict.training import TreeSettings, train
from tracekit.sim.setup import Setup
from tracekit.sim.switches import Switches
from tracekit.trace import Machine, Trace

EPOCH = 1_000_000_000.0
SHOWN = ("q50", "q75", "q90", "expected", "weight")


def random_trace(jobs: int = 400, seed: int = 0, zone: str | None = "Europe/Stockholm") -> Trace:
    """A trace with waits, jobs of no length, unknown limits, users and queues, and events at the same instants."""
    rng = np.random.default_rng(seed)
    user = rng.integers(-1, 6, jobs)
    run = np.round(np.exp(rng.normal(3 + user / 2, 0.6)))
    table = pd.DataFrame(
        {
            "job_id": np.arange(1, jobs + 1),
            "submit_time": np.sort(rng.integers(0, 40 * jobs, jobs)).astype(float),
            "wait_time": rng.choice([0.0, 0.0, 7.0, 300.0], jobs),
            "run_time": np.where(rng.random(jobs) < 0.05, 0.0, run),
            "req_time": np.where(rng.random(jobs) < 0.1, np.nan, np.round(run * rng.choice([2, 5, 20], jobs)) + 1),
            "req_procs": rng.choice([1.0, 8.0, 32.0], jobs),
            "user": pd.Categorical([None if u < 0 else f"u{u}" for u in user]),
            "queue": pd.Categorical([None if u < 0 else f"q{u % 3}" for u in user]),
        }
    )
    return Trace(table, Machine(procs=64, epoch=EPOCH, timezone=zone))


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return train(random_trace(), TreeSettings(trees=10, leaves=6, leaf_jobs=10, learning_rate=0.3), seed=1)


def job_of(trace: Trace, row: int) -> dict[str, Any]:
    """A job as a request has it; what is unknown is left out."""
    one = trace.jobs.iloc[row]
    made = {"procs": int(one["req_procs"]), "req_time": one["req_time"], "user": one["user"], "queue": one["queue"]}
    return {"id": int(one["job_id"])} | {key: value for key, value in made.items() if not pd.isna(value)}


def events_of(trace: Trace, first: int = 0) -> list[dict[str, Any]]:
    """The recorded schedule of the jobs from ``first`` on, in the order of the simulator."""
    rows = []
    for row in range(first, len(trace)):
        job, one = job_of(trace, row), trace.jobs.iloc[row]
        submit = one["submit_time"] + EPOCH
        start = submit + one["wait_time"]
        end = start + one["run_time"]
        rows.append((submit, 1, row, {"event": "submit", "time": submit, **job}))
        rows.append((start, 2, row, {"event": "start", "time": start, "id": job["id"]}))
        rows.append((end, 3 if end == start else 0, row, {"event": "end", "time": end, "id": job["id"]}))
    return [event for *_, event in sorted(rows, key=lambda row: row[:3])]


def post(decider: PredictDecider, **fields: Any) -> list[dict[str, Any]]:
    answer = decider.line(json.dumps({"version": 1, "kind": "predict-run-time", **fields}).encode())
    assert answer["kind"] == "predict-run-time"
    found: list[dict[str, Any]] = answer["predictions"]
    return found


def expected_of(predictor: Predictor, trace: Trace) -> dict[int, dict[str, float]]:
    """The predictions for every job of a trace, by id."""
    seen = features_of(trace)
    made = predictor.outputs(seen, trace.column("req_time"))
    names = {"backfill": predictor.backfill, "order": predictor.order} | {name: name for name in SHOWN}
    found = {}
    for row, name in enumerate(trace.jobs["job_id"].tolist()):
        values = {key: float(made[row, OUTPUTS.index(output)]) for key, output in names.items()}
        counts = {key: int(seen[row, FEATURES.index(key)]) for key in ("user_ended", "shape_ended")}
        found[name] = {"id": name} | values | counts
    return found


@pytest.mark.parametrize("batch", [1, 37, 100_000])
def test_events_give_the_predictions_of_the_trace(predictor: Predictor, batch: int) -> None:
    trace = random_trace(seed=3)
    decider = PredictDecider(predictor, "toy", timezone="Europe/Stockholm")
    events = events_of(trace)
    found = [one for k in range(0, len(events), batch) for one in post(decider, events=events[k : k + batch])]
    expected = expected_of(predictor, trace)
    assert found == [expected[one["id"]] for one in found]
    assert len(found) == len(trace)
    known = decider.about()["history"]
    assert (known["waiting"], known["running"], known["ended"], known["users"]) == (0, 0, len(trace), 7)
    assert known["time"] == events[-1]["time"]


def test_a_history_in_the_request_gives_the_same(predictor: Predictor) -> None:
    """Jobs that wait, run and have ended; ends and starts after the submit are not known to anybody."""
    trace = random_trace(seed=4)
    decider, expected = PredictDecider(predictor, "toy", timezone="Europe/Stockholm"), expected_of(predictor, trace)
    events = {(event["event"], event["id"]): event["time"] for event in events_of(trace)}
    for row in (0, 1, 150, 399):
        now = trace.jobs["submit_time"][row] + EPOCH
        history = []
        for past in range(row):
            one = job_of(trace, past)
            name = one.pop("id")
            times = {f"{kind}_time": events[kind, name] for kind in ("submit", "start", "end")}
            history.append(one | {key: time for key, time in times.items() if key == "submit_time" or time <= now})
        for one in history:  # at one instant jobs start after the submit
            if one.get("start_time") == now:
                one.pop("start_time")
                one.pop("end_time", None)
        found = post(decider, jobs=[job_of(trace, row) | {"submit_time": now}], history=history)
        assert found == [expected[row + 1]]
    together = [job_of(trace, row) | {"submit_time": trace.jobs["submit_time"][row] + EPOCH} for row in (398, 399)]
    assert [one["id"] for one in post(decider, jobs=together, history=history)] == [399, 400]
    assert decider.about()["history"]["time"] is None


def test_a_trace_at_the_start_is_the_history(predictor: Predictor) -> None:
    trace = random_trace(seed=5)
    past = trace.head(200)
    late = float((past.column("submit_time") + past.column("wait_time") + past.column("run_time")).max())
    moved = trace.jobs.copy()
    moved.loc[200:, "submit_time"] += late - moved["submit_time"][200] + 1
    trace = trace.replace(jobs=moved)
    decider = PredictDecider(predictor, "toy", past=past)
    decider.prepare()
    assert decider.about()["timezone"] == "Europe/Stockholm"
    assert decider.about()["history"] == {
        "time": late + EPOCH, "waiting": 0, "running": 0, "ended": 200, "users": 7
    }  # fmt: skip
    found = post(decider, events=events_of(trace, 200))
    expected = expected_of(predictor, trace)
    assert found == [expected[one["id"]] for one in found]


def test_jobs_of_the_history_that_still_run_can_end(predictor: Predictor) -> None:
    trace = random_trace(40, seed=6)
    run = trace.jobs["run_time"].where(trace.jobs["job_id"] != 40)
    open_ended = trace.replace(jobs=trace.jobs.assign(run_time=run))
    state = Ongoing.of(open_ended)
    assert state.counts["running"] == 1
    decider = PredictDecider(predictor, "toy", past=open_ended)
    decider.prepare()
    now = decider.about()["history"]["time"]
    assert post(decider, events=[{"event": "end", "time": now + 5, "id": "40", "run_time": 3.0}]) == []
    assert decider.about()["history"]["ended"] == 40


def test_a_simulation_predicts_the_same(predictor: Predictor, tmp_path: Any) -> None:
    """The events of a simulated schedule, as a scheduler would report them, give the simulation's predictions."""
    predictor.save(tmp_path / "agent")
    trace = random_trace(300, seed=7)
    switches = Switches(predict=f"agent:{tmp_path / 'agent'}", predict_for="both")
    run = Session(Setup(prepare(extract_jobs(trace, switches), switches), "easy", switches))
    run.run(CODES["sjf"], None)
    waited = trace.replace(jobs=trace.jobs.assign(wait_time=run.jobs.start - run.jobs.submit))
    assert (waited.column("wait_time") > 0).any()
    decider = PredictDecider(Predictor.load(tmp_path / "agent"), "toy", timezone="Europe/Stockholm")
    found = sorted(post(decider, events=events_of(waited)), key=lambda one: int(one["id"]))
    np.testing.assert_allclose([one["order"] for one in found], run.jobs.asked, rtol=1e-13)
    np.testing.assert_allclose([one["backfill"] for one in found], run.dynamics.predictions["first"], rtol=1e-13)


def test_asking_changes_nothing(predictor: Predictor) -> None:
    trace = random_trace(seed=8)
    decider = PredictDecider(predictor, "toy", timezone="Europe/Stockholm")
    events = events_of(trace)
    expected = expected_of(predictor, trace)
    for event in events:
        if event["event"] == "submit":
            asked = {key: value for key, value in event.items() if key not in ("event", "time")}
            stranger = {"id": "x", "submit_time": event["time"] + 1, "procs": 3, "user": f"new-{event['id']}"}
            found = post(decider, jobs=[asked | {"submit_time": event["time"]}, stranger])
            assert found[0] == expected[event["id"]]
            assert found[1]["user_ended"] == 0
        post(decider, events=[event])
    assert decider.about()["history"]["users"] == 7


def test_jobs_of_one_request_wait_for_each_other(predictor: Predictor) -> None:
    state = Ongoing()
    one = Submits(np.array([5.0, 9.0]), np.ones(2), np.full(2, np.nan), ["u", "u"], [None, None])
    seen = state.ask(one)
    assert seen[:, FEATURES.index("queued")].tolist() == [0, 1]
    assert seen[1, FEATURES.index("since_submit")] == 4
    assert np.isnan(seen[:, FEATURES.index("hour")]).all()


def test_jobs_that_are_cancelled_or_requeued(predictor: Predictor) -> None:
    decider = PredictDecider(predictor, "toy")
    job = {"procs": 1, "user": "u"}
    post(decider, events=[{"event": "submit", "time": t, "id": t, **job} for t in (1, 2, 3)])
    post(decider, events=[{"event": "cancel", "time": 4, "id": 1}, {"event": "start", "time": 4, "id": 2}])
    post(decider, events=[{"event": "requeue", "time": 5, "id": 2}])
    assert decider.about()["history"]["waiting"] == 2
    post(decider, events=[{"event": "start", "time": 6, "id": 2}, {"event": "end", "time": 9, "id": 2}])
    (found,) = post(decider, events=[{"event": "submit", "time": 10, "id": 1, **job}])  # an id may come again
    assert (found["user_ended"], found["shape_ended"]) == (1, 1)
    assert decider.about()["history"] == {"time": 10.0, "waiting": 2, "running": 0, "ended": 1, "users": 1}


JOB = {"id": "a", "submit_time": 100, "procs": 4}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"version": 2, "jobs": []}, "version"),
        ({"kind": "pick-job", "jobs": []}, "kind"),
        ({}, "jobs: must be a list"),
        ({"jobs": [3]}, "jobs: must be a list"),
        ({"jobs": [{**JOB, "id": None}]}, r"jobs\[0\].id"),
        ({"jobs": [JOB, JOB]}, "same id"),
        ({"jobs": [{**JOB, "procs": 0}]}, r"jobs\[0\].procs"),
        ({"jobs": [{**JOB, "procs": True}]}, r"jobs\[0\].procs"),
        ({"jobs": [{**JOB, "user": [1]}]}, r"jobs\[0\].user"),
        ({"jobs": [{**JOB, "req_time": -1}]}, r"jobs\[0\].req_time"),
        ({"jobs": [{"id": "a", "procs": 4}]}, r"jobs\[0\].submit_time"),
        ({"jobs": [{**JOB, "submit_time": 40}]}, r"jobs\[0\].submit_time.*past"),
        ({"jobs": [JOB], "history": {}}, "history: must be a list"),
        ({"jobs": [JOB], "history": [{**JOB, "start_time": 99}]}, r"history\[0\].start_time"),
        ({"jobs": [JOB], "history": [{**JOB, "start_time": 105, "end_time": 104}]}, r"history\[0\].end_time"),
        ({"jobs": [JOB], "history": [JOB, {**JOB, "end_time": 104}]}, r"history\[1\].start_time"),
        ({"events": [{"event": "stop", "time": 99, "id": 1}]}, r"events\[0\].event"),
        ({"events": [{"event": "start", "time": 99}]}, r"events\[0\].id"),
        ({"events": [{"event": "start", "time": 99, "id": "zz"}]}, "not known"),
        ({"events": [{"event": "start", "time": 9, "id": "w"}]}, r"events\[0\].time.*past"),
        ({"events": [{"event": "end", "time": 99, "id": "w"}]}, "waiting"),
        ({"events": [{"event": "submit", "time": 99, "id": "w", "procs": 1}]}, "waiting"),
        ({"events": [{"event": "submit", "time": 99, "id": "v"}]}, r"events\[0\].procs"),
        (
            {"events": [{"event": "start", "time": 99, "id": "w"}, {"event": "end", "time": 98, "id": "w"}]},
            r"events\[1\].time",
        ),
    ],
)
def test_wrong_requests_are_refused_and_change_nothing(predictor: Predictor, fields: Any, said: str) -> None:
    decider = PredictDecider(predictor, "toy")
    post(decider, events=[{"event": "submit", "time": 50, "id": "w", "procs": 1}])
    before = decider.about()
    with pytest.raises(Refused, match=said) as refused:
        post(decider, **fields)
    assert refused.value.status == 422
    assert "\n" not in refused.value.reason
    assert decider.about() == before
    assert post(decider, events=[{"event": "start", "time": 50, "id": "w"}]) == []


def test_none_many_and_too_many(predictor: Predictor) -> None:
    decider = PredictDecider(predictor, "toy")
    assert post(decider, jobs=[]) == post(decider, events=[]) == post(decider, jobs=[], history=[JOB]) == []
    many = [{"id": i, "submit_time": 0, "procs": 1 + i % 7, "user": i % 900} for i in range(20_000)]
    assert len(post(decider, jobs=many)) == 20_000
    with pytest.raises(Refused, match="at most") as refused:
        post(decider, jobs=[*many, {**JOB}])
    assert refused.value.status == 413
    assert decider.about()["history"]["users"] == 0


def test_over_http_and_over_lines(predictor: Predictor) -> None:
    decider = PredictDecider(predictor, "toy")
    decider.prepare()
    body = json.dumps({"version": 1, "jobs": [JOB]}).encode()
    with Service(decider) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            status, answer = ask_http(made, "POST", "/v1/predict", body)
            assert status == 200
            assert answer["predictions"][0]["id"] == "a"
            assert ask_http(made, "POST", "/v1/events", b'{"version": 1, "events": []}')[0] == 200
            status, refused = ask_http(made, "POST", "/v1/decide", body)
            assert status == 404
            assert "/v1/predict" in refused["error"]
            about = ask_http(made, "GET", "/v1/agent")[1]
            assert about["use"] == {"order": "q50", "backfill": "ln_mean"}
        finally:
            made.shutdown()
            thread.join()
    out = io.BytesIO()
    serve_lines(decider, io.BytesIO(body + b"\n{\n" + b'{"version": 1, "events": []}\n'), out)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert lines[0] == answer
    assert lines[1]["status"] == 400
    assert lines[2]["predictions"] == []


def test_the_command(predictor: Predictor, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    folder = str(tmp_path / "agent")
    predictor.save(folder)
    tracekit.write(random_trace(60), tmp_path / "past.csv")
    line = json.dumps({"version": 1, "jobs": [{**JOB, "submit_time": 2e9, "user": "u1"}]}).encode()

    class Stdin:
        buffer = io.BytesIO(line + b"\n")

    class Stdout:
        buffer = io.BytesIO()

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", Stdin())
        patch.setattr(sys, "stdout", Stdout())
        assert main(["serve", folder, "--stdio", "--history", str(tmp_path / "past.csv")]) == 0
    assert json.loads(Stdout.buffer.getvalue())["predictions"][0]["user_ended"] > 0
    assert main(["serve", folder, "--stdio", "--timezone", "Mars/Base"]) == 2
    assert "Mars/Base" in capsys.readouterr().err
    assert main(["serve", "default", "--stdio", "--history", str(tmp_path / "past.csv")]) == 2
    assert main(["serve", folder, "--stdio", "--history", str(tmp_path / "none.swf")]) == 1
