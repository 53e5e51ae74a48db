"""How fast hosts are chosen: in process, over loopback, one job and a cycle of ten, by a rule and by an agent.

Also the memory of the service over 100,000 requests, and the decisions per second of a policy that is asked over HTTP.
The named alternative is the same connection asked for /health, which decides nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import http.client
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tracekit
from generators.eda import draw
from tracekit.service.host_choice import Baseline, decide
from tracekit.service.host_decide import HostDecider
from tracekit.service.host_protocol import read_hosts, read_jobs
from tracekit.sim.agents.agent import Agent
from tracekit.sim.agents.inference import weights_in
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_host.task import PickHost


def request(hosts: int, jobs: int) -> bytes:
    rng = np.random.default_rng(1)
    listed = [
        {
            "name": f"h{i}",
            "total_cores": 64,
            "free_cores": int(rng.integers(8, 65)),
            "total_memory": 2**28,
            "free_memory": int(rng.integers(2**24, 2**28)),
            "total_gpus": 0,
            "free_gpus": 0,
        }
        for i in range(hosts)
    ]
    waiting = [
        {"id": i, "cores": int(rng.integers(1, 9)), "memory": 2**20, "gpus": 0, "estimate": 600, "wait": 5}
        for i in range(jobs)
    ]
    return json.dumps({"hosts": listed} | ({"job": waiting[0]} if jobs == 1 else {"jobs": waiting})).encode()


def toy_agent(folder: str) -> None:
    """Write an agent with drawn weights: as fast as a trained one."""
    machine, trace = draw(1, jobs=200, hosts=20)
    task = PickHost(switches=Switches(cluster=machine))
    task = EpisodeSource(trace, task).task
    sizes = (len(task.feature_names), 32, 16, 8, 1)
    flat = np.random.default_rng(0).normal(0, 0.3, weights_in("kernel", np.array(sizes))).astype(np.float32)
    Agent("kernel", sizes, flat, task.feature_names, task.to_dict()).save(folder)


def show(what: str, found: list[float], each: int = 1) -> None:
    middle, late = np.percentile(found, [50, 99]) * 1e3
    print(f"{what:44s} p50 {middle:7.3f} ms   p99 {late:7.3f} ms   {each * len(found) / sum(found):9,.0f} decisions/s")


def in_process(name: str, decider: HostDecider, rounds: int) -> None:
    for jobs in (1, 10):
        data, found = json.loads(request(100, jobs)), []
        given, table = read_jobs(data), read_hosts(data["hosts"])
        for _ in range(rounds):
            again = dataclasses.replace(table, free=table.free.copy())
            begin = time.perf_counter()
            decide(again, given, decider.scorer)
            found.append(time.perf_counter() - begin)
        show(f"{name}, 100 hosts, {jobs} jobs, decisions alone", found[rounds // 10 :], jobs)
        body, found = request(100, jobs), []
        for _ in range(rounds):
            begin = time.perf_counter()
            decider.select(body)
            found.append(time.perf_counter() - begin)
        show(f"{name}, 100 hosts, {jobs} jobs, with JSON", found[rounds // 10 :], jobs)


def times(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None, rounds: int
) -> list[float]:
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        connection.request(method, path, body=body)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
        found.append(time.perf_counter() - begin)
    return found[rounds // 10 :]


def memory_of(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


class Serving:
    """A running `tracekit serve`."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tracekit", "serve", *arguments, "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.address, ready = "", False
        for line in self.process.stderr:
            found = re.search(r"http://([^/\s]+)", line)
            self.address = found[1] if found else self.address
            ready = ready or "ready" in line
            if self.address and ready:
                return
        raise SystemExit("the service did not begin")

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.terminate()
        self.process.wait()


def over_loopback(name: str, service: Serving, rounds: int) -> None:
    connection = http.client.HTTPConnection(service.address)
    show("health (nothing decided)", times(connection, "GET", "/health", None, rounds))
    for jobs in (1, 10):
        found = times(connection, "POST", "/select_host", request(100, jobs), rounds)
        show(f"{name}, 100 hosts, {jobs} jobs, loopback", found, jobs)
    connection.close()


def memory(service: Serving, requests: int) -> None:
    connection, body = http.client.HTTPConnection(service.address), request(100, 1)
    seen = []
    for part in range(11):
        if part:
            times(connection, "POST", "/select_host", body, requests // 10)
        else:
            times(connection, "POST", "/select_host", body, 1000)
        seen.append(memory_of(service.process.pid))
    print(
        f"memory over {requests:,} requests, MB: {seen[0]:.1f} at first, {seen[-1]:.1f} at last, {max(seen):.1f} most"
    )


def foreign(jobs: int) -> None:
    trace = tracekit.sample().head(jobs)
    inside = tracekit.simulate(trace, "agent:default")
    with Serving("default") as service:
        url = f"http://{service.address}"
        begin = time.perf_counter()
        outside = tracekit.simulate(trace, url)
        taken = time.perf_counter() - begin
        connection = http.client.HTTPConnection(service.address)
        connection.request("GET", "/stats")
        asked = json.loads(connection.getresponse().read())["inference_count"]
        connection.close()
    same = bool((inside.start == outside.start).all())
    print(f"--policy http://…: {asked:,} decisions for {jobs:,} jobs, {asked / taken:,.0f} decisions/s; same: {same}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--requests", type=int, default=100_000, help="of the measurement of memory")
    parser.add_argument("--jobs", type=int, default=3000, help="of the policy that is asked over HTTP")
    given = parser.parse_args()
    in_process("best-fit", HostDecider(Baseline("best-fit"), "best-fit"), given.rounds)
    with tempfile.TemporaryDirectory() as folder:
        toy_agent(folder)
        agent = HostDecider(Agent.load(folder), "agent")
        agent.prepare()
        in_process("agent", agent, given.rounds)
        for name, arguments in (("best-fit", ("--policy", "best-fit")), ("agent", (folder,))):
            with Serving(*arguments) as service:
                over_loopback(name, service, given.rounds)
                memory(service, given.requests)
    foreign(given.jobs)


if __name__ == "__main__":
    main()
