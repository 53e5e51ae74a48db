"""How fast the service answers over loopback, for 128 waiting jobs: percentiles of one caller and of eight at once.

The named alternative is the same connection asked for /health, which decides nothing: what is left is the decision.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import tracekit
from tracekit.sim.agents.agent import Agent
from tracekit.sim.agents.inference import weights_in
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import PickJob


def request(jobs: int) -> bytes:
    rng = np.random.default_rng(1)
    running = [{"procs": 2, "ends": 5000.0 + 60 * i} for i in range(100)]
    waiting = [
        {
            "id": i,
            "submit_time": float(4000 - i),
            "procs": int(rng.integers(1, 100)),
            "req_time": float(rng.integers(60, 9000)),
            "user": f"u{i % 7}",
        }
        for i in range(jobs)
    ]
    state = {"version": 1, "kind": "pick-job", "now": 5000, "cluster": {"procs": 256, "running": running}}
    return json.dumps(state | {"jobs": waiting}).encode()


def times(address: str, method: str, path: str, body: bytes | None, rounds: int) -> list[float]:
    connection = http.client.HTTPConnection(address)
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        connection.request(method, path, body=body)
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read()
        found.append(time.perf_counter() - begin)
    connection.close()
    return found[rounds // 10 :]


def show(what: str, found: list[float]) -> float:
    middle, late = np.percentile(found, [50, 99]) * 1e3
    print(f"{what:34s} p50 {middle:6.2f} ms   p99 {late:6.2f} ms   {len(found) / sum(found):8,.0f} /s per caller")
    return float(middle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3000)
    rounds = parser.parse_args().rounds
    task = Batch(tracekit.sample().head(200), PickJob(), lanes=1).task
    sizes = (len(task.feature_names), 32, 16, 8, 1)
    flat = np.random.default_rng(0).normal(0, 0.3, weights_in("kernel", np.array(sizes))).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        Agent("kernel", sizes, flat, task.feature_names, task.to_dict()).save(folder)
        command = [sys.executable, "-m", "tracekit", "serve", folder, "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
            try:
                measure(said(service), rounds)
            finally:
                service.terminate()


def said(service: subprocess.Popen[str]) -> str:
    """Return the address that the service says it answers at."""
    assert service.stderr is not None
    for line in service.stderr:
        if found := re.search(r"http://(\S+?)/v1", line):
            return found[1]
    raise SystemExit("the service did not begin")


def measure(address: str, rounds: int) -> None:
    bare = show("health (nothing decided)", times(address, "GET", "/health", None, rounds))
    full = show("decide, 128 jobs, one caller", times(address, "POST", "/v1/decide", request(128), rounds))
    print(f"ratio of a decision to an empty answer: {full / bare:.1f}")
    with ThreadPoolExecutor(8) as pool:
        parts = pool.map(lambda _: times(address, "POST", "/v1/decide", request(128), rounds // 8), range(8))
        show("decide, 128 jobs, eight callers", [one for part in parts for one in part])


if __name__ == "__main__":
    main()
