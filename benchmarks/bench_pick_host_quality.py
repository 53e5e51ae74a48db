"""How well agents choose hosts: EDA jobs of unseen seeds, jobs of real traces, other numbers of hosts, and headroom.

    python benchmarks/bench_pick_host_quality.py --data DIR [--runs FOLDER] [--cases eda,kth,blue] [--page-only]

DIR holds the public traces. Agents are trained under --runs; a finished one is not trained again. Every case adds to
docs/results/pick-host.json, and docs/results/pick-host.md is made from it.

Agents of model eda learn from draws of sixteen seeds each. The settings were chosen on `TUNED`; `NAMED` and `UNSEEN`
were judged once, with other hosts and other jobs for every seed. Of a real trace, the first half trains, the next
quarter validates, and windows spread over the last quarter judge. Differences are paired by seed or window.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))
from pick_host_oracle import climb, pooled_wait
from pick_host_page import write_page

import tracekit
from generators.eda import draw
from tracekit.files import write_text
from tracekit.intervals import interval
from tracekit.machine import HostGroup, Machine
from tracekit.schema import labels
from tracekit.sim.agents import Config, train
from tracekit.sim.agents.agent import Agent
from tracekit.sim.agents.evaluate import agent_task
from tracekit.sim.agents.rollout import play
from tracekit.sim.agents.search import linear
from tracekit.sim.agents.splits import Split, split
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_host.features import OBSERVERS
from tracekit.sim.tasks.pick_host.task import BASELINES, PickHost, players
from tracekit.sim.windows import Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Metrics = dict[str, float]
Problem = tuple[Trace, Machine, list[Window]]  # windows of jobs on a cluster

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results" / "pick-host.json"

#: Seeds of model eda. Training seeds by number of hosts.
TUNED, NAMED, UNSEEN = range(501, 517), (42, 43, 44), range(9001, 9121)
TRAINED = {30: range(1, 17), 20: range(101, 117)}
LOAD, TRAIN_JOBS, SITE_JOBS = 0.95, 4_000, 60_000
#: What agents of model eda see: nothing that counts all hosts, which is different where draws are pools.
OF_ALL = ("queue", "core-pressure", "memory-pressure", "cluster-free", "choices")
SEEN = tuple(n for n in OBSERVERS["default"] if "gpus" not in n and n not in OF_ALL)
#: A rule that is not an allocator: the host with the least left over, cores and memory as shares of the largest host.
BOTH = "best-fit of cores and memory"
CONFIG = Config(
    network="hosts",
    steps=60_000,
    jobs=512,
    windows=32,
    keep=0.5,
    epochs=3,
    minibatch=1024,
    target_kl=0.02,
    entropy=0.0,
    critic_first=2,
    average=0.5,
    validation_windows=32,
    validate_every=1,
    teacher_windows=32,
    soften=3.0,
    search_rounds=14,
    search_tries=24,
    search_windows=24,
    threads=1,
)
EDA_CONFIG = CONFIG.replace(jobs=400, search_rounds=24, search_tries=32, search_windows=48, validation_windows=64)
SITE_CONFIG = CONFIG.replace(jobs=600, search_rounds=20, search_tries=32, search_windows=32)


@dataclass(frozen=True)
class Real:
    """A real trace's jobs on a cluster that it did not run on."""

    file: str
    most: int  # cores of the largest job that is used
    hosts: tuple[tuple[int, int], ...]  # (hosts, cores of each)
    jobs: int = 256  # of a window
    windows: int = 40  # most windows that judge


REAL = {
    "kth": Real("swf/KTH-SP2-1996-2.1-cln.swf.gz", 32, ((1, 32), (2, 16), (2, 8))),
    "blue": Real("swf/SDSC-BLUE-2000-4.2-cln.swf.gz", 128, ((2, 128), (4, 64), (4, 32), (8, 16))),
}


# ---- agents ----------------------------------------------------------------------------------------------------------


def trained(folder: Path, trace: Trace, cluster: Machine, config: Config, parts: Split | None, seed: int) -> Agent:
    """Return the agent in a folder; train it first if there is none. CPU seconds are kept beside it."""
    clock = folder.with_suffix(".seconds")
    if not clock.exists():
        begin = time.process_time()
        observer = "default" if parts is None else ",".join(SEEN)
        task = PickHost(cluster=cluster, observer=observer)
        train(trace, task, config, out=folder, seed=seed, init="search", share=0.5, parts=parts, force=True, say=print)
        clock.write_text(f"{time.process_time() - begin:.0f}")
    return Agent.load(folder)


def training_facts(folder: Path) -> dict[str, Any]:
    """Return CPU seconds, and validation scores: the best allocator's, after the search, and of the agent kept."""
    facts = Agent.load(folder).facts
    return {"cpu_s": float(folder.with_suffix(".seconds").read_text()), "training": facts.get("training", {})}


# ---- judging ---------------------------------------------------------------------------------------------------------


def both_of(task: PickHost) -> Any:
    """Return the rule `BOTH` as a network: minus free cores and free memory of the host, of the largest host."""
    weights = np.zeros(len(task.feature_names))
    for name in ("cores-now", "memory-now"):
        weights[task.feature_names.index(name)] = -1.0
    return linear(weights)


def judge(agents: dict[str, Agent], problems: Iterable[Problem]) -> dict[str, dict[str, list[float]]]:
    """Return every metric of agents, allocators and `BOTH`, one value for each window of each problem."""
    found: dict[str, list[Metrics]] = {}
    for trace, cluster, windows in problems:
        first = agent_task(next(iter(agents.values())))
        source = EpisodeSource(trace, dataclasses.replace(first, cluster=cluster))
        for name in BASELINES:
            found.setdefault(name, []).extend(players(source)().play(window, name).metrics for window in windows)
        nets: dict[str, Any] = {BOTH: (both_of(first), first)}
        nets |= {name: (agent.actor(), agent_task(agent)) for name, agent in agents.items()}
        for name, (net, task) in nets.items():
            batch = dataclasses.replace(task, cluster=cluster).batch(
                EpisodeSource(trace, dataclasses.replace(task, cluster=cluster)), lanes=min(len(windows), 64), threads=1
            )
            play(batch, windows, net, keep=False)
            found.setdefault(name, []).extend(batch.outcomes[window] for window in windows)
    return {name: {key: [row[key] for row in rows] for key in rows[0]} for name, rows in found.items()}


def mean_of(table: dict[str, dict[str, list[float]]], agents: Iterable[str]) -> dict[str, Any]:
    """Return the paired difference to best-fit of the mean over agents: what such a training is worth."""
    rows = [table[name] for name in agents]
    mean = {key: np.mean([row[key] for row in rows], axis=0).tolist() for key in rows[0]}
    return _paired(mean, table["best-fit"])


def summary(table: dict[str, dict[str, list[float]]], agents: Iterable[str]) -> dict[str, Any]:
    """Return means of every metric, and paired differences of the agents' to every other's with 95 % intervals."""
    means = {name: {key: float(np.mean(v)) for key, v in rows.items()} for name, rows in table.items()}
    waits = {name: np.array(rows["mean_wait_s"]) for name, rows in table.items()}
    best = min(BASELINES, key=lambda name: means[name]["mean_wait_s"])
    against = {
        agent: {name: _paired(table[agent], rows) for name, rows in table.items() if name not in agents}
        for agent in agents
    }
    return {"windows": len(waits[best]), "means": means, "best": best, "against": against, "waits": _plain(waits)}


def _plain(waits: dict[str, Floats]) -> dict[str, list[float]]:
    return {name: [round(float(wait), 3) for wait in values] for name, values in waits.items()}


def _paired(agent: dict[str, list[float]], other: dict[str, list[float]]) -> dict[str, Any]:
    """Return agent − other of every metric: mean, interval, and on how many windows the agent's is smaller."""
    found = {}
    for key, values in agent.items():
        gap = np.array(values) - np.array(other[key])
        low, high = interval(gap)
        found[key] = {"difference": float(gap.mean()), "low": low, "high": high, "smaller": int((gap < 0).sum())}
    return found


# ---- cases -----------------------------------------------------------------------------------------------------------


def eda_problems(seeds: Iterable[int], hosts: int, jobs: int) -> Iterable[Problem]:
    """Draw hosts and jobs of each seed."""
    for seed in seeds:
        cluster, trace = draw(seed, jobs=jobs, hosts=hosts, load=LOAD)
        yield trace, cluster, [(0, jobs)]


def pools_of(seeds: Iterable[int], hosts: int, jobs: int) -> tuple[Trace, Machine, Split]:
    """Return draws of several seeds as one trace and one cluster, every draw in a pool and in a time of its own.

    A window lies within one draw, so its jobs only see that draw's hosts. Of each draw the last fifth validates.
    """
    tables, groups, begin = [], [], 0.0
    for seed in seeds:
        cluster, trace = draw(seed, jobs=jobs, hosts=hosts, load=LOAD)
        table = trace.jobs.assign(submit_time=trace.column("submit_time") + begin, partition=str(seed))
        begin = float(table["submit_time"].iloc[-1]) + 1e6
        tables.append(table)
        groups += [dataclasses.replace(g, pool=str(seed), name=f"{seed}-{g.name}") for g in cluster.groups]
    table = pd.concat(tables, ignore_index=True)
    table["job_id"] = np.arange(1, len(table) + 1)
    cut, firsts = 4 * jobs // 5, range(0, len(table), jobs)
    parts = Split(tuple((i, i + cut) for i in firsts), tuple((i + cut, i + jobs) for i in firsts))
    machine = Machine(name="eda pools", groups=tuple(groups))
    return (
        Trace(table.assign(partition=labels(table["partition"])), machine, ("MADE by tracekit: model eda",)),
        machine,
        parts,
    )


def eda_agents(runs: Path) -> dict[str, Agent]:
    """Return two agents of model eda, trained on draws of 20 and of 30 hosts."""
    found = {}
    for hosts, seeds in TRAINED.items():
        folder = runs / f"eda-{hosts}"
        trace, cluster, parts = pools_of(seeds, hosts, TRAIN_JOBS)
        found[f"agent of {hosts} hosts"] = trained(folder, trace, cluster, EDA_CONFIG, parts, seeds[0])
    return found


def eda_tuned(runs: Path, data: Path) -> dict[str, Any]:
    """Judge on the seeds that settings were chosen by."""
    agents = eda_agents(runs)
    return summary(judge(agents, eda_problems(TUNED, 30, 600)), agents)


def eda(runs: Path, data: Path) -> dict[str, Any]:
    """Judge agents of model eda on named and on unseen seeds."""
    agents = eda_agents(runs)
    named = {f"seed {seed}": summary(judge(agents, eda_problems([seed], 30, 600)), agents) for seed in NAMED}
    table = judge(agents, eda_problems(UNSEEN, 30, 600))
    unseen = summary(table, agents) | {"mean_of_agents": mean_of(table, agents)}
    return {"named": named, "unseen": unseen, "agents": _facts(runs, ("eda-30", "eda-20"))}


def site(runs: Path, data: Path) -> dict[str, Any]:
    """Train on the hosts of one site (those of seed 1) and judge there, on jobs of unseen seeds."""
    cluster, trace = draw(1, jobs=SITE_JOBS, hosts=30, load=LOAD)
    agent = trained(runs / "site", trace, cluster, SITE_CONFIG, None, 1)
    drawn = ((draw(seed, jobs=600, cluster=cluster, load=LOAD)[1], cluster, [(0, 600)]) for seed in UNSEEN)
    found = summary(judge({"agent": agent}, drawn), ["agent"])
    return found | {"agents": _facts(runs, ("site",))}


def sizes(runs: Path, data: Path) -> dict[str, Any]:
    """Judge the same agents among 10, 100 and 1,000 hosts; jobs per host stay the same."""
    agents = eda_agents(runs)
    ten = summary(judge(agents, eda_problems(UNSEEN, 10, 200)), agents)
    thousand = summary(judge(agents, eda_problems(list(UNSEEN)[:5], 1000, 20_000)), agents)
    hundred = summary(judge(agents, eda_problems(list(UNSEEN)[:24], 100, 2000)), agents)
    return {"10": ten, "100": hundred, "1000": thousand}


def real_problem(real: Real, data: Path) -> tuple[Trace, Machine]:
    """Read a trace's jobs that fit on a host, and make the hosts."""
    trace = tracekit.read(data / real.file)
    cores = trace.column("req_procs")
    kept = trace.take(np.flatnonzero((cores > 0) & (cores <= real.most) & (trace.column("run_time") > 0)))
    return kept, Machine(groups=tuple(HostGroup(count, cores=size, name=f"c{size}") for count, size in real.hosts))


def held_out(real: Real, source: EpisodeSource) -> list[Window]:
    """Return windows spread evenly over the last quarter of a trace, none overlapping another."""
    first, last = split(source, 0.5).test[0]
    count = min(real.windows, (last - first) // real.jobs)
    step = (last - first) // count
    return [(first + i * step, real.jobs) for i in range(count)]


def on_trace(name: str, runs: Path, data: Path) -> dict[str, Any]:
    """Train on the first half of a real trace and judge on its last quarter."""
    real = REAL[name]
    trace, cluster = real_problem(real, data)
    agent = trained(runs / name, trace, cluster, CONFIG.replace(jobs=real.jobs, search_windows=64), None, 1)
    windows = held_out(real, EpisodeSource(trace, agent_task(agent)))
    found = summary(judge({"agent": agent}, [(trace, cluster, windows)]), ["agent"])
    kept = {"jobs": len(trace), "hosts": real.hosts, "most": real.most, "file": Path(real.file).name}
    return found | {"trace": kept, "agents": _facts(runs, (name,))}


def _facts(runs: Path, names: Iterable[str]) -> dict[str, Any]:
    return {name: training_facts(runs / name) for name in names}


def headroom(runs: Path, data: Path) -> dict[str, Any]:
    """Search for better hosts with full knowledge on some unseen EDA windows and some held-out windows of KTH-SP2."""
    ours = Agent.load(runs / "eda-30")
    drawn = {hosts: list(eda_problems(list(UNSEEN)[:count], hosts, 20 * hosts)) for hosts, count in ((10, 8), (30, 3))}
    trace, cluster = real_problem(REAL["kth"], data)
    windows = held_out(REAL["kth"], EpisodeSource(trace, PickHost(cluster=cluster)))[::6]
    kth = [(trace, cluster, [window]) for window in windows]
    return {
        "EDA, 10 hosts, 200 jobs": [_searched(ours, problem, 120) for problem in drawn[10]],
        "EDA, 30 hosts, 600 jobs": [_searched(ours, problem, 100) for problem in drawn[30]],
        "KTH-SP2, 5 hosts, 256 jobs": [_searched(Agent.load(runs / "kth"), problem, 120) for problem in kth],
    }


def _searched(agent: Agent, problem: Problem, rounds: int) -> dict[str, Any]:
    """Return mean waits of a window: of the agent, of allocators, of the search from the best, all hosts as one."""
    trace, cluster, (window,) = problem
    task = PickHost(cluster=cluster)
    wait = {name: rows["mean_wait_s"][0] for name, rows in judge({"agent": agent}, [problem]).items()}
    best = min(BASELINES, key=lambda rule: wait[rule])
    hosts = players(EpisodeSource(trace, task))().play(window, best).hosts
    begin = time.process_time()
    replayed, found = climb(trace, task, window, hosts, rounds, seed=1)
    if abs(replayed - wait[best]) > 1e-6 * max(wait[best], 1.0):
        raise SystemExit(f"window {window}: the hosts of {best} replayed wait {replayed} s, not {wait[best]} s")
    return {
        "window": list(window),
        "best-fit": wait["best-fit"],
        "best allocator": wait[best],
        "agent": wait["agent"],
        "search": found,
        "pooled": pooled_wait(trace, task, window),
        "rounds": rounds,
        "cpu_s": round(time.process_time() - begin, 1),
    }


CASES: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    "tuned": eda_tuned,
    "eda": eda,
    "site": site,
    "sizes": sizes,
    **{name: lambda runs, data, name=name: on_trace(name, runs, data) for name in REAL},  # type: ignore[misc]
    "headroom": headroom,
}


def main() -> None:
    """Run the cases asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--runs", type=Path, default=Path("runs/pick-host"))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--page-only", action="store_true")
    given = parser.parse_args()
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in () if given.page_only else given.cases.split(","):
        begin = time.process_time()
        known[name] = CASES[name](given.runs, given.data)
        print(f"{name}: {time.process_time() - begin:.0f} CPU seconds", flush=True)
        write_text(RESULTS, json.dumps(known, indent=1) + "\n", force=True)
    write_page(known, RESULTS.with_suffix(".md"))


if __name__ == "__main__":
    main()
