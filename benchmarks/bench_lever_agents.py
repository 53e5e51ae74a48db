"""Agents under levers of energy, and with the graph where `bench_graph.py` had none: on held-out windows.

    python benchmarks/bench_lever_agents.py --data DIR [--runs FOLDER] [--cases cap,sleep,mira,pick-job] [--steps N]

DIR holds ALCF-Theta-2022.swf. The settings are SETTINGS of `bench_graph.py` and the constants below; they were fixed
before any of these agents was judged. Windows are all of the test part, the seed is another one than there. Results go
to docs/results/lever-agents.json, and the page beside it is made from them (--page-only).

cap       Cooley's 126 nodes as a counter, a cap at 60 % of the way from idle to full power, objective wait
sleep     126 hosts that sleep after 600 s (watts of `cpu-node`), pack-and-sleep, objective wait:1,energy:5
mira      49,152 nodes, no lever, objective bsld, with edges and without
pick-job  Cooley, no lever, objective bsld, network gat with edges and without
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bench_graph import BASELINES, NODES, SETTINGS, trace_of

from tracekit.clusters import completed
from tracekit.files import write_text
from tracekit.intervals import interval, signed_rank
from tracekit.machine import HostGroup, Machine
from tracekit.sim.agents import Agent, evaluate, train
from tracekit.sim.agents.agent import FACTS
from tracekit.sim.agents.evaluate import chosen_windows
from tracekit.sim.energy.model import power_of
from tracekit.sim.switches import Switches
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.sim.tasks.pick_policy.task import PickPolicy
from tracekit.trace import Trace

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results" / "lever-agents.json"
PAGE = RESULTS.with_suffix(".md")
SEED, STEPS = 10, 3_000
CASES = {"cap": ("",), "sleep": ("",), "mira": ("all", "none"), "pick-job": ("all", "none")}
NODE = {"idle_watts": 150.0, "core_watts": 250.0, "sleep_watts": 10.0}
SLEEP = {"off_seconds": 60.0, "off_watts": 150.0, "on_seconds": 180.0, "on_watts": 250.0}


def task_of(case: str, edges: str, data: Path) -> tuple[Trace, Any]:
    """Return the jobs of a case, and the task."""
    trace, plain = trace_of("mira" if case == "mira" else "cooley", data)
    if case == "cap":
        model = power_of(trace.machine.replace(groups=()), "cooley", unit="nodes", total=NODES["cooley"])
        watts = model.idle_it_watts + 0.6 * (model.full_it_watts - model.idle_it_watts)
        levers = replace(plain.switches, power_cap=watts * model.pue.constant / 1000)
        return trace, PickPolicy(objective="wait:1,energy:0,peak:0", switches=levers)
    if case == "sleep":
        group = HostGroup(NODES["cooley"], cores=1, name="node", **NODE, **SLEEP)  # type: ignore[arg-type]
        cluster = completed(Machine(name="sleepers", groups=(group,)), "sleepers")
        jobs = trace.replace(machine=trace.machine.replace(nodes=None, unit="procs"))
        levers = Switches(cluster=cluster, allocate="pack-and-sleep", sleep_after=600.0)
        return jobs, PickPolicy(objective="wait:1,energy:5", switches=levers)
    if case == "mira":
        return trace, PickPolicy(**{**vars(plain), "edges": edges, "watts": None})
    return trace, PickJob(objective="bsld,energy:0", observer=f"graph:{edges}", switches=plain.switches)


def judged(case: str, edges: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train an agent, unless it is there, and return how it does on the windows of the test part."""
    trace, task = task_of(case, edges, options.data)
    folder, begun = options.runs / f"{case}-{edges or 'plain'}", time.process_time()
    settings = SETTINGS.replace(steps=options.steps, network="gat" if edges else "kernel")
    if not (folder / FACTS).is_file():
        train(trace, task, settings, out=folder, seed=SEED, init="imitate:best", force=True)
    agent = Agent.load(folder)
    source = EpisodeSource(trace, task)
    windows = chosen_windows(agent, source, [], None, None, 0)[0]
    chosen = str(agent.facts["metrics"]["base_policy"])
    found = evaluate(agent, source, windows, policies=list(dict.fromkeys([*BASELINES, chosen])))
    print(f"{case} {edges}: {found.mean:.5g}, {chosen} {found.baselines[chosen].mean():.5g}", flush=True)
    parts = {("agent" if name == found.agent else name): dict(values) for name, values in found.parts.items()}
    return {
        "case": case,
        "edges": edges,
        "steps": options.steps,
        "objective": task.objective,
        "score": found.score.tolist(),
        "chosen": chosen,
        "trained": agent.facts["metrics"]["best_iteration"],
        "baselines": {name: found.baselines[name].tolist() for name in dict.fromkeys([*BASELINES, chosen])},
        "parts": parts,
        "cpu_s": round(time.process_time() - begun),
    }


# ---- the page --------------------------------------------------------------------------------------------------------


def lines_of(row: dict[str, Any]) -> list[str]:
    """Return the lines of one agent in the table of improvements: per cent of a baseline's mean."""
    ours, lines = np.array(row["score"]), []
    for name, values in row["baselines"].items():
        theirs = np.array(values)
        gain = 100 * (theirs - ours) / abs(theirs.mean())
        low, high = interval(gain)
        words = f"{name} (best on training)" if name == row["chosen"] else name
        test = signed_rank(ours - theirs)
        lines.append(
            f"| {row['case']} | {row['edges'] or '–'} | {words} | {theirs.mean():,.5g} | {ours.mean():,.5g} | "
            f"{gain.mean():+.2f} % | {low:+.2f} … {high:+.2f} % | {test:.2g} |"
        )
    return lines


def parts_of(row: dict[str, Any]) -> list[str]:
    """Return the lines of one case in the table of wait, energy and peak."""
    lines = []
    for name, parts in row["parts"].items():
        if name in ("agent", row["chosen"], *BASELINES[:5]):
            peak = f"{parts['peak']:,.1f}" if "peak" in parts else "–"
            lines.append(f"| {row['case']} | {name} | {parts['wait']:,.0f} | {parts['energy']:,.1f} | {peak} |")
    return lines


def same_as(row: dict[str, Any]) -> str:
    """Return whether training changed an agent, and which baseline it equals on every window, in a sentence."""
    equal = [name for name, values in row["baselines"].items() if np.array_equal(values, row["score"])]
    words = f"has on every window the score of {' and '.join(equal)}" if equal else "equals no baseline"
    best = "none, so it is what imitation made" if not row["trained"] else f"number {row['trained']}"
    return f"The agent of case {row['case']} {words}; the best iteration of training was {best}."


def by_edges(rows: list[dict[str, Any]], case: str) -> str:
    """Return the line that compares an agent with edges and the same without."""
    scores = {row["edges"]: np.array(row["score"]) for row in rows if row["case"] == case}
    gain = 100 * (scores["none"] - scores["all"]) / scores["none"].mean()
    low, high = interval(gain)
    return f"| {case} | {gain.mean():+.2f} % | {low:+.2f} … {high:+.2f} % | {signed_rank(gain):.2g} |"


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page."""
    made = {(row["case"], row["edges"]) for row in rows}
    missing = [f"{case} {edges}".strip() for case, all_ in CASES.items() for edges in all_ if (case, edges) not in made]
    pairs = [case for case in ("mira", "pick-job") if {(case, "all"), (case, "none")} <= made]
    text = (Path(__file__).parent / "lever_agents_page.txt").read_text()
    return text.format(
        steps=f"{rows[0]['steps']:,}",
        windows=len(rows[0]["score"]),
        table="\n".join(line for row in rows for line in lines_of(row)),
        parts="\n".join(line for row in rows if row["case"] in ("cap", "sleep") for line in parts_of(row)),
        helps="\n".join(by_edges(rows, case) for case in pairs) or "| not measured | | | |",
        same=" ".join(same_as(row) for row in rows),
        spread=", ".join(f"{name} {part['energy']:,.0f}" for name, part in rows[0]["parts"].items()),
        missing=f"Not measured for lack of time: {', '.join(missing)}.\n" if missing else "",
    )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("lever-runs"))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
    for case in () if options.page_only else options.cases.split(","):
        for edges in CASES[case]:
            row = judged(case, edges, options)
            rows = [old for old in rows if (old["case"], old["edges"]) != (case, edges)] + [row]
            write_text(RESULTS, json.dumps(rows, indent=1) + "\n", force=True)
    if rows:
        write_text(PAGE, page(rows), force=True)


if __name__ == "__main__":
    main()
