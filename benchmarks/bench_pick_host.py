"""How many decisions a second the environment PickHost makes on one core, and how long one decision of an agent takes.

    python benchmarks/bench_pick_host.py [--quick] [--json]

Windows of 256 jobs of the model eda on 30 and 100 hosts, 256 side by side, with full observations. The yardstick is
the same task as a loop in plain Python (`plain_hosts`): it plays some of the same windows with the same decisions in
the same run, and must end with the same schedules. It is timed with the same observation at every decision
(``plain``, and ``ratio`` against it), and without any observation (``blind``): the compiled environment always
observes. Resetting and scoring the windows counts. Times are CPU seconds of the one thread that works. A decision
of the network ``hosts`` is timed by the clock on the wall, among 10, 100 and 1,000 hosts, in process.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from plain_hosts import PlainHosts

from generators.eda import draw
from tracekit.sim.agents.inference import HOSTS, Net, room, score, weights_in
from tracekit.sim.tasks.pick_host.batch import Batch
from tracekit.sim.tasks.pick_host.task import PickHost

LANES, JOBS = 256, 256


def pick(job: Any, count: Any) -> Any:
    """Return a row that depends on the job and on the number of rows alone."""
    return (job * 7919 + 13) % count


def environment(quick: bool, hosts_in: int, load: float) -> dict[str, float]:
    """Play windows by the compiled environment and by plain Python; return decisions per CPU second of both."""
    cluster, trace = draw(42, jobs=LANES * JOBS, hosts=hosts_in, load=load)
    batch = Batch(trace, PickHost(cluster=cluster, ask_forced=True), lanes=LANES, threads=1)
    windows = [(lane * JOBS, JOBS) for lane in range(LANES)]
    everywhere, made, spent = np.arange(LANES), 0, 0.0
    for turn in range(3 if quick else 8):
        begin = time.thread_time()
        batch.reset(range(LANES), windows)
        while not batch.done.all():
            job = batch.arrays.queue[everywhere, batch.arrays.state["place"]]
            made += int((~batch.done).sum()) if turn else 0
            batch.step(pick(job, np.maximum(batch.count, 1)))
        spent += time.thread_time() - begin if turn else 0.0
    hosts = [(int(g.cores or 0), int(g.memory or 0)) for g in cluster.groups for _ in range(g.count)]
    plain, spent_plain = 0, {True: 0.0, False: 0.0}
    for lane in range(2 if quick else 6):
        ready = batch.source.episode(windows[lane]).ready
        assert ready.table.demand is not None
        need = ready.table.demand.need[:, :2].tolist()
        columns = (ready.table.submit.tolist(), ready.run.tolist(), ready.estimate.tolist())
        jobs = [(*times, *asked) for *times, asked in zip(*columns, need, strict=True)]
        for watched in spent_plain:
            begin = time.thread_time()
            one = PlainHosts(jobs, hosts, batch.task.constants)
            starts = one.run(pick, watched=watched)
            spent_plain[watched] += time.thread_time() - begin
            if starts != batch.starts(lane).tolist():
                raise SystemExit(f"window {lane}: the schedules differ")
        plain += one.decisions
    name = f"{hosts_in}_hosts_load_{load:g}"
    fast, slow, blind = made / spent, plain / spent_plain[True], plain / spent_plain[False]
    found = {"compiled_per_s": fast, "plain_per_s": slow, "ratio": fast / slow}
    found |= {"blind_per_s": blind, "ratio_to_blind": fast / blind}
    return {f"{name}_{key}": value for key, value in found.items()}


def decisions(quick: bool) -> dict[str, float]:
    """Return the median time of one decision of the network ``hosts``, in milliseconds, by number of hosts."""
    rng, found = np.random.default_rng(0), {}
    features, sizes = len(PickHost().feature_names), (32, 16, 8)
    widths = np.array([features, *sizes, 1])
    net = Net(HOSTS, widths, rng.normal(0, 0.3, weights_in("hosts", widths)).astype(np.float32), features)
    for hosts in (10, 100, 1000):
        scratch, rows = room(net, hosts), rng.random((hosts, features), dtype=np.float32)
        times = []
        for _ in range(200 if quick else 2000):
            begin = time.perf_counter()
            score(net, rows, hosts, False, scratch)
            times.append(time.perf_counter() - begin)
        found[f"decision_{hosts}_hosts_p50_ms"] = float(np.median(times)) * 1e3
        found[f"decision_{hosts}_hosts_p99_ms"] = float(np.quantile(times, 0.99)) * 1e3
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found: dict[str, float] = {}
    for hosts, load in ((30, 0.9), (30, 0.6), (100, 0.7)):
        found |= environment(given.quick, hosts, load)
    found |= decisions(given.quick)
    if given.json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        print(f"{name.replace('_', ' '):32} {value:,.4g}")


if __name__ == "__main__":
    main()
