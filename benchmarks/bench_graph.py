"""The graph of jobs: how fast it is built and decided on, and whether it helps an agent.

    python benchmarks/bench_graph.py --data DIR [--runs FOLDER] [--systems polaris,blue] [--seeds 3] [--steps N]
    python benchmarks/bench_graph.py --times

DIR holds the public traces. Agents of task pick-policy are trained with network gat, with all edges and with none (the
same network, the same weights at the start), for every system and seed; a finished agent is not made again.
Results go to docs/results/graph.json; docs/results/graph.md and the picture are made from them (--page-only).

The systems: Polaris, Mira and Cooley as counters of nodes with ALCF-Theta's jobs, sizes scaled by the number of
nodes (Theta's file has no users or projects, so there the edges are those of time and resources); and SDSC-BLUE
as it is, with users. No public trace of the first three is used, and no result is one of theirs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tracekit
from tracekit.files import write_text
from tracekit.intervals import interval, signed_rank
from tracekit.machine import Machine
from tracekit.plots.style import save
from tracekit.sim.agents import Agent, Config, evaluate, train
from tracekit.sim.agents.actor import Actor
from tracekit.sim.agents.agent import FACTS
from tracekit.sim.agents.evaluate import chosen_windows
from tracekit.sim.agents.networks import ActorCritic
from tracekit.sim.setup import Setup
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.jobgraph import KINDS, edges_of, links_of
from tracekit.sim.tasks.pick_policy.features import Observer
from tracekit.sim.tasks.pick_policy.run import PolicyRun
from tracekit.sim.tasks.pick_policy.task import PickPolicy
from tracekit.trace import Trace

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results" / "graph.json"
PAGE, PICTURE = RESULTS.with_suffix(".md"), RESULTS.with_name("graph-decisions.png")

NODES = {"cooley": 126, "polaris": 560, "mira": 49_152}
SYSTEMS = (*NODES, "blue")
BASELINES = ("fcfs", "sjf", "capability-first", "adaptive", "multifactor", "saf", "wfp3", "f1")
SETTINGS = Config(
    network="gat",
    hidden=(32, 16),
    steps=6_000,
    windows=8,
    jobs=128,
    validation_windows=32,
    validate_every=3,
    minibatch=512,
    target_kl=0.02,
    entropy=0.003,
    critic_first=2,
    teacher_windows=32,
    teacher_epochs=4,
    soften=2.0,
)


# ---- whether it helps ------------------------------------------------------------------------------------------------


def trace_of(system: str, data: Path) -> tuple[Trace, PickPolicy]:
    """Return the jobs of a system, and the task on it."""
    if system == "blue":
        trace = tracekit.read(data / "SDSC-BLUE-2000-4.2-cln.swf.gz").head(40_000)
        return trace, PickPolicy(objective="bsld", jobs=32)
    trace, nodes = tracekit.read(data / "ALCF-Theta-2022.swf"), NODES[system]
    procs = np.ceil(trace.column("req_procs") * nodes / float(trace.machine.procs or 4360))
    machine = trace.machine.replace(name=system, procs=nodes, nodes=nodes, unit="nodes")
    scaled = trace.assign(dict.fromkeys(("req_procs", "alloc_procs", "req_nodes", "alloc_nodes"), procs))
    switches = Switches(resource="nodes", procs=nodes, power=system)
    return scaled.replace(machine=machine), PickPolicy(objective="bsld,energy:0", jobs=32, switches=switches)


def judged(system: str, edges: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train an agent, unless it is there, and return how it does on held-out windows."""
    trace, plain = trace_of(system, options.data)
    task = PickPolicy(**{**vars(plain), "edges": edges})
    folder = options.runs / f"{system}-{edges}-{seed}"
    begun = time.process_time()
    if not (folder / FACTS).is_file():
        settings = SETTINGS.replace(steps=options.steps)
        train(trace, task, settings, out=folder, seed=seed, init="imitate:best", force=True)
    agent = Agent.load(folder)
    source = EpisodeSource(trace, task)
    windows, _ = chosen_windows(agent, source, [], None, None, 0)
    chosen = str(agent.facts["metrics"]["base_policy"])
    found = evaluate(agent, source, windows[: options.windows], policies=[*BASELINES, chosen])
    best = f"{chosen} {found.baselines[chosen].mean():.4g}"
    print(f"{system} {edges} {seed}: {found.mean:.4g}, {best}, {time.process_time() - begun:.0f} s of CPU", flush=True)
    return {
        "system": system,
        "edges": edges,
        "seed": seed,
        "score": found.score.tolist(),
        "chosen": chosen,
        "trained": agent.facts["metrics"]["best_iteration"],
        "baselines": {name: values.tolist() for name, values in found.baselines.items()},
        "parts": {name: dict(values) for name, values in found.parts.items()},
        "waits": {name: values["mean_wait_s"] for name, values in found.measures.items()},
        "steps": options.steps,
    }


# ---- how fast it is --------------------------------------------------------------------------------------------------


def best_time(call: Callable[[], Any], repeats: int = 7) -> float:
    """Return the least CPU time of some calls, seconds: other processes do not count."""
    call()
    times = []
    for _ in range(repeats):
        begun = time.process_time()
        call()
        times.append(time.process_time() - begun)
    return min(times)


def some_links(jobs: int, seed: int = 0) -> Any:
    """Return links of random jobs on 560 nodes, of 200 users and 50 projects."""
    rng = np.random.default_rng(seed)
    return links_of(
        rng.integers(0, 200, jobs),
        rng.integers(0, 50, jobs),
        rng.uniform(0, 1e6, jobs),
        rng.integers(1, 400, jobs).astype(np.float64),
        200.0,
        560.0,
    )


def plain_pairs(links: Any) -> int:
    """Return how many pairs are related, by a plain double loop: what the builder is compared with."""
    rows, found = links.tolist(), 0
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            found += i != j and (a[0] == b[0] or a[1] == b[1] or a[4] + b[4] > a[5] or a[4] + b[4] > a[6])
    return found


def crowd(jobs: int, nodes: int) -> Trace:
    """Return jobs that are all there at once, on a machine of so many nodes."""
    rng = np.random.default_rng(jobs)
    run = rng.integers(60, 86400, jobs).astype(np.float64)
    size = rng.integers(1, max(nodes // 8, 2), jobs).astype(np.float64)
    columns = {"job_id": np.arange(1, jobs + 1), "submit_time": np.zeros(jobs), "run_time": run, "req_time": run}
    columns |= {"req_procs": size, "user": pd.Categorical((np.arange(jobs) % 50).astype(str))}
    return Trace(pd.DataFrame(columns), Machine(procs=nodes))


def decision_time(jobs: int, nodes: int) -> float:
    """Return the seconds of one decision, observation and network, with so many waiting jobs, all in the graph."""
    task = PickPolicy(edges="all", jobs=min(jobs, 10_000))
    source = EpisodeSource(crowd(jobs, nodes), task)
    episode = source.episode((0, jobs))
    run = PolicyRun(Setup(episode.ready, "easy", task.switches.resolved()), task.policies)
    run.begin()
    observer = Observer(run, episode.columns, KINDS, task.jobs, watts=False)
    actor: Actor = ActorCritic(SETTINGS, task).play_by()
    return best_time(lambda: actor.distribution(observer.rows(), False).best())


def times() -> dict[str, Any]:
    """Measure the builder and decisions."""
    jobs = [64, 128, 256, 512, 1024, 2048, 4096, 8192]
    nodes = [64, 512, 4096, 16_384, 49_152]
    links = {n: some_links(n) for n in (100, 1000, 10_000, 100_000)}
    return {
        "builder": {str(n): best_time(lambda n=n: edges_of(links[n])) for n in links},
        "double_loop_1000": best_time(lambda: plain_pairs(links[1000]), 1),
        "by_jobs": {str(n): decision_time(n, 4096) for n in jobs},
        "by_nodes": {str(n): decision_time(512, n) for n in nodes},
    }


def draw(found: dict[str, Any]) -> None:
    """Draw the decision times."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    for axes, key, label in ((left, "by_jobs", "queued jobs, 4,096 nodes"), (right, "by_nodes", "nodes, 512 jobs")):
        x, y = np.array(list(found[key]), float), np.array(list(found[key].values())) * 1e3
        axes.loglog(x, y, "o-", label="measured")
        if key == "by_jobs":
            axes.loglog(x, y[-1] * x / x[-1], ":", color="0.5", label="linear")
            axes.legend(frameon=False)
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
    left.set_ylabel("one decision, ms")
    save(figure, PICTURE, force=True)


# ---- the page --------------------------------------------------------------------------------------------------------


def mean_score(rows: list[dict[str, Any]], system: str, edges: str) -> Any:
    """Return the scores on windows, (windows,), as means over seeds."""
    return np.mean([row["score"] for row in rows if (row["system"], row["edges"]) == (system, edges)], axis=0)


def between(low: float, high: float) -> str:
    """Return an interval as text."""
    return f"{low:+.1f} … {high:+.1f} %"


def table_of(rows: list[dict[str, Any]], system: str) -> list[str]:
    """Return the rows of the table of improvements of one system."""
    found = next(row for row in rows if row["system"] == system)
    lines = []
    known = {f"best on training ({found['chosen']})": found["baselines"].get(found["chosen"])}
    known |= {name: values for name, values in found["baselines"].items() if name in BASELINES[:5]}
    for name, values in known.items():
        cells = []
        for edges in ("all", "none"):
            ours, theirs = mean_score(rows, system, edges), np.array(values)
            gain = 100 * (theirs - ours) / theirs.mean()
            cells.append(f"{gain.mean():+.1f} % ({between(*interval(gain))}) | {signed_rank(ours - theirs):.2g}")
        lines.append(f"| {system} | {name} | {np.mean(values):,.4g} | {cells[0]} | {cells[1]} |")
    return lines


def graph_helps(rows: list[dict[str, Any]], system: str) -> str:
    """Return the line of the table that compares agents with and without edges, seed by seed."""
    gain, pairs = gain_by_edges(rows, system)
    seeds = ", ".join(f"{pair.mean():+.1f}" for pair in pairs)
    low, high = interval(gain)
    return f"| {system} | {gain.mean():+.1f} % | {between(low, high)} | {signed_rank(gain):.2g} | {seeds} |"


def gain_by_edges(rows: list[dict[str, Any]], system: str) -> tuple[Any, list[Any]]:
    """Return how much better agents with edges are, in per cent by window: the mean over seeds, and each seed's."""
    pairs = []
    for seed in sorted({row["seed"] for row in rows if row["system"] == system}):
        ours = [row for row in rows if (row["system"], row["seed"]) == (system, seed)]
        scores = {row["edges"]: np.array(row["score"]) for row in ours}
        if len(scores) == 2:
            pairs.append(100 * (scores["none"] - scores["all"]) / scores["none"].mean())
    return np.mean(pairs, axis=0), pairs


def verdict(rows: list[dict[str, Any]], systems: list[str]) -> str:
    """Return what the intervals say, in a sentence."""
    ends = {system: interval(gain_by_edges(rows, system)[0]) for system in systems}
    better = [system for system, (low, _) in ends.items() if low > 0]
    worse = [system for system, (_, high) in ends.items() if high < 0]
    if not better and not worse:
        return "**No:** every interval contains 0. At this budget, no effect of the edges is shown on any system."
    parts = [f"better with edges on {', '.join(better)}"] if better else []
    parts += [f"worse with edges on {', '.join(worse)}"] if worse else []
    rest = [system for system in systems if system not in (*better, *worse)]
    parts += [f"no difference shown on {', '.join(rest)}"] if rest else []
    return f"By the intervals: {'; '.join(parts)}. The tests are not corrected for the number of systems."


def spent(rows: list[dict[str, Any]], system: str) -> str:
    """Return the line of a system in the table of energy: least and most of all policies and agents."""
    kwh = [part["energy"] for row in rows if row["system"] == system for part in row["parts"].values()]
    return f"| {system} | {min(kwh):,.0f} … {max(kwh):,.0f} | {100 * (max(kwh) / min(kwh) - 1):.2f} % |"


def page(found: dict[str, Any]) -> str:
    """Return the page."""
    rows, speed = found["agents"], found["times"]
    made = {(row["system"], row["edges"]) for row in rows}
    systems = [system for system in SYSTEMS if {(system, "all"), (system, "none")} <= made]
    table = "\n".join(line for system in systems for line in table_of(rows, system))
    helps = "\n".join(graph_helps(rows, system) for system in systems)
    energy = "\n".join(spent(rows, system) for system in systems if system in NODES)
    jobs = speed["by_jobs"]
    per_job = {n: 1e6 * t / int(n) for n, t in jobs.items()}
    text = (Path(__file__).parent / "graph_page.txt").read_text()
    return text.format(
        table=table,
        helps=helps,
        verdict=verdict(rows, systems),
        energy=energy,
        windows=len(rows[0]["score"]),
        steps=f"{rows[0]['steps']:,}",
        seeds=len({row["seed"] for row in rows}),
        builder=", ".join(f"{int(n):,} jobs {1e3 * t:.2f} ms" for n, t in speed["builder"].items()),
        ratio=f"{speed['double_loop_1000'] / speed['builder']['1000']:,.0f}",
        per_job=", ".join(f"{int(n):,}: {t:.1f}" for n, t in per_job.items()),
        by_nodes=", ".join(f"{int(n):,}: {1e3 * t:.2f}" for n, t in speed["by_nodes"].items()),
    )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("graph-runs"))
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=SETTINGS.steps)
    parser.add_argument("--windows", type=int, default=24)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {"agents": [], "times": {}}
    if options.times:
        found["times"] = times()
    if options.data is not None:
        for seed in range(options.seeds):
            for system in options.systems.split(","):
                for edges in ("all", "none"):
                    made = judged(system, edges, seed, options)
                    key = (system, edges, seed)
                    others = [row for row in found["agents"] if (row["system"], row["edges"], row["seed"]) != key]
                    found["agents"] = [*others, made]
                    write_text(RESULTS, json.dumps(found, indent=1) + "\n", force=True)
    write_text(RESULTS, json.dumps(found, indent=1) + "\n", force=True)
    if found["times"]:
        draw(found["times"])
    if found["agents"] and found["times"]:
        write_text(PAGE, page(found), force=True)


if __name__ == "__main__":
    main()
