"""How many run times a service predicts in a second: one by one, in batches, event by event, and over HTTP.

python benchmarks/bench_predict_service.py
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import tracekit
from tracekit.service.http import Service
from tracekit.service.predict import PredictDecider
from tracekit.sim.predict.training import train


def main() -> None:
    """Print the rates."""
    trace = tracekit.sample()
    decider = PredictDecider(train(trace), "bench", past=trace)
    seconds = timed(decider.prepare)
    print(f"history of {len(trace):,} jobs: {seconds:.3f} s")
    now = decider.about()["history"]["time"]
    for batch, times in ((1, 2000), (100, 100), (10_000, 2)):
        body = request(jobs=[job(i) | {"submit_time": now} for i in range(batch)])
        seconds = timed(lambda body=body: decider.predict(body), times)
        print(f"requests of {batch:,} jobs: {batch * times / seconds:,.0f} jobs/s")
    bodies = [request(events=life(i, now + i)) for i in range(3000)]
    seconds = timed(lambda: [decider.events(body) for body in bodies])
    print(f"submit, start and end in one request: {len(bodies) / seconds:,.0f} jobs/s")
    with Service(decider) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        connection = http.client.HTTPConnection(*service.server_address[:2])
        body = request(jobs=[job(0) | {"submit_time": now + 3000}])

        def ask() -> None:
            connection.request("POST", "/v1/predict", body=body)
            connection.getresponse().read()

        print(f"over HTTP, one job a request: {2000 / timed(ask, 2000):,.0f} requests/s")
        service.shutdown()


def timed(work: Callable[[], Any], times: int = 1) -> float:
    """Return how many seconds it takes to do something so many times."""
    began = time.perf_counter()
    for _ in range(times):
        work()
    return time.perf_counter() - began


def request(**fields: Any) -> bytes:
    """Return a request."""
    return json.dumps({"version": 1, **fields}).encode()


def job(i: int) -> dict[str, Any]:
    """Return a job of one of fifty users."""
    return {"id": i, "procs": 8, "req_time": 3600, "user": str(i % 50), "queue": "1"}


def life(i: int, now: float) -> list[dict[str, Any]]:
    """Return the events of a job, at one instant."""
    submit = {"event": "submit", "time": now, **job(i)}
    return [submit, {"event": "start", "time": now, "id": i}, {"event": "end", "time": now, "id": i, "run_time": 100}]


if __name__ == "__main__":
    main()
