"""Agents that know predicted run times, on the last 40 % of real logs, beside the heuristic chosen on training windows.

    python benchmarks/bench_agents_informed.py --data DIR [--runs FOLDER] [--cases ctc,blue,kth] [--seeds 3] [--plain]
    python benchmarks/bench_agents_informed.py --quick
    python benchmarks/bench_agents_informed.py --page-only
    python benchmarks/bench_agents_informed.py --published TRACE [--backfill none] [--seeds 3]
    python benchmarks/bench_agents_informed.py --errors --cases ctc,kth

EASY backfilling, bounded slowdown, windows of 256 jobs. The first 45 % of a log's jobs are for training, the next 15 %
for validation. Heuristics are chosen, predictors of run times trained, and agents trained and validated on these 60 %
only. Results are added to docs/results/agents-informed.json as they come; the page beside it is made from them.
--quick: one seed, few windows and decisions, nothing written; to see that it runs. --published plays the ten windows of
RLScheduler's table in its compatibility mode (those of them that a short trace holds), with agents of --init search
that learn from the jobs in none of them; for SDSC-SP2 and HPC2N give the archive's cleaned files. --errors orders
windows of the first 60 % by true run times with errors of several kinds, and writes nothing. Times: CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from informed_errors import Areas, errors
from informed_page import CASES, LONG, OVERLAP, SEEDS, page, table
from numpy.typing import NDArray

import tracekit
from tracekit.files import write_text
from tracekit.sim.agents import Agent, Config, Split, evaluate, train
from tracekit.sim.agents.against import mean
from tracekit.sim.agents.evaluate import HEURISTICS, INDEX
from tracekit.sim.agents.splits import windows_from
from tracekit.sim.analysis.reproduce import WINDOW_JOBS, WINDOWS
from tracekit.sim.predict.predictor import IN_INDEX, Predictor
from tracekit.sim.predict.training import train as train_predictor
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.features import outputs_of
from tracekit.sim.tasks.pick_job.task import PickJob, is_static
from tracekit.sim.windows import Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results" / "agents-informed.json"
PAGE = RESULTS.with_suffix(".md")
#: Jobs of a log that are used at most, from its beginning.
MOST = 100_000
JOBS, TRAIN, KNOWN = 256, 0.45, 0.6
#: Heuristics whose values do not change while a job waits.
STATIC = tuple(name for name in HEURISTICS if is_static(name))
#: The settings of ``tracekit train --predict auto``.
RECIPE = Config.load("informed").replace(jobs=JOBS, threads=1)
QUICK = RECIPE.replace(steps=20_000, windows=32, validation_windows=16, loads=(1.0,))
#: Of agents for the published windows: a weighted sum that a search finds, and nothing more.
PUBLISHED = Config(
    hidden=(),
    steps=1,
    windows=16,
    jobs=WINDOW_JOBS,
    validation_windows=16,
    search_rounds=12,
    search_tries=24,
    search_windows=32,
    sure=True,
    threads=1,
)


@dataclass(frozen=True, eq=False)
class Case:
    """A log, its parts and its held-out windows."""

    trace: Trace
    source: EpisodeSource
    parts: Split
    known: int  # jobs before the held-out part
    tests: list[Window]
    training: list[Window]
    long_tests: list[Window]
    long_training: list[Window]


def case_of(path: Path, quick: bool) -> Case:
    """Read a log and cut it."""
    trace = tracekit.read(path).head(MOST)
    source = EpisodeSource(trace, PickJob())
    first, known = int(TRAIN * len(source)), int(KNOWN * len(source))
    parts = Split(((0, first),), ((first, known),))
    tests = overlapping(known, len(source), JOBS)[: 20 if quick else None]
    training = windows_from(source, ((0, known),), 32 if quick else 256, JOBS, [0, 70])
    long_tests = overlapping(known, len(source), LONG)[: 4 if quick else None]
    return Case(
        trace, source, parts, known, tests, training, long_tests, overlapping(0, known, LONG)[:: 8 if quick else 2]
    )


def overlapping(first: int, last: int, jobs: int) -> list[Window]:
    """Return windows of so many jobs that overlap by half."""
    return [(begin, jobs) for begin in range(first, last - jobs + 1, jobs // OVERLAP)]


def fixed(case: Case) -> dict[str, Any]:
    """Return what no seed changes: heuristics on training and held-out windows, and the ceilings."""
    before = case.source.policy_costs(case.training, HEURISTICS, threads=1)
    costs = case.source.policy_costs(case.tests, HEURISTICS, threads=1)
    ready = [case.source.episode(window).ready for window in case.tests]
    true = [
        case.source.cost(window, case.source.schedule(window, Areas(jobs.run, jobs.table.procs)))
        for window, jobs in zip(case.tests, ready, strict=True)
    ]
    chosen = {by: HEURISTICS[int(np.argmin([mean(c, by) for c in before.T]))] for by in ("geometric", "mean")}
    best = HEURISTICS[int(np.argmin([mean(c, "geometric") for c in costs.T]))]
    return {
        "jobs": len(case.source),
        "windows": len(case.tests),
        "chosen": chosen["geometric"],
        "chosen_by_mean": chosen["mean"],
        "best": best,
        "costs": {name: rounded(costs[:, k]) for k, name in enumerate(HEURISTICS)},
        "long": long_heuristic(case),
        "best per window": rounded(costs.min(1)),
        "true areas": rounded(np.array(true)),
    }


def long_heuristic(case: Case) -> dict[str, Any]:
    """Return what heuristics cost on longer held-out windows: the one chosen on such windows before, and the best."""
    before = case.source.policy_costs(case.long_training, STATIC, threads=1)
    costs = case.source.policy_costs(case.long_tests, STATIC, threads=1)
    chosen, best = (int(np.argmin([mean(column, "geometric") for column in c.T])) for c in (before, costs))
    return {
        "chosen": STATIC[chosen],
        "costs": rounded(costs[:, chosen]),
        "best": STATIC[best],
        "best_costs": rounded(costs[:, best]),
    }


def rounded(costs: Floats) -> list[float]:
    """Return costs with six digits."""
    return [float(f"{cost:.6g}") for cost in costs]


def learnt(case: Case, task: PickJob, seed: int, out: Path, config: Config) -> Agent:
    """Train an agent on the first 60 %."""
    shutil.rmtree(out, ignore_errors=True)
    return train(case.trace, task, config, out=out, seed=seed, init="imitate:chosen", parts=case.parts)


def plain(case: Case, seed: int, folder: Path, config: Config) -> dict[str, Any]:
    """Train an agent without predictions and play the held-out windows."""
    begin = time.process_time()
    agent = learnt(case, PickJob(), seed, folder / "plain", config)
    found = evaluate(agent, case.source, case.tests, policies=("fcfs",), threads=1).score
    return {
        "plain": rounded(found),
        "plain_note": agent.facts["metrics"]["note"],
        "plain_cpu_s": round(time.process_time() - begin),
    }


def one(case: Case, seed: int, folder: Path, config: Config) -> dict[str, Any]:
    """Train an informed agent and play the held-out windows."""
    clock = [time.process_time()]
    agent = learnt(case, PickJob(predict="auto", observer="informed"), seed, folder / "informed", config)
    clock.append(time.process_time())
    renewed = renewed_predictor(case, agent, seed, folder / "renewed")
    source = EpisodeSource(case.trace, renewed)
    found = {"informed": evaluate(agent, source, case.tests, policies=("fcfs",), threads=1).score}
    found[INDEX] = source.policy_costs(case.tests, [INDEX], threads=1)[:, 0]
    found["long"] = source.policy_costs(case.long_tests, [INDEX], threads=1)[:, 0]
    informed = Predictor.load(agent.task["predict"])
    cpu = dict(zip(("informed", "evaluation"), np.diff([*clock, time.process_time()]), strict=True))
    return {
        **{name: rounded(costs) for name, costs in found.items()},
        "note": agent.facts["metrics"]["note"],
        "choice": informed.facts["choice"] | informed.index._asdict(),
        "cpu_s": {name: round(seconds) for name, seconds in cpu.items()},
    }


def renewed_predictor(case: Case, agent: Agent, seed: int, place: Path) -> PickJob:
    """Return the task of an agent with a predictor that has also learnt from the validation part."""
    outputs = {*outputs_of(PickJob.from_dict(agent.task).feature_names), *IN_INDEX}
    made = train_predictor(case.trace.head(case.known), seed=seed, outputs=outputs)
    replace(made, index=Predictor.load(agent.task["predict"]).index).save(place)
    return replace(PickJob.from_dict(agent.task), predict=str(place))


def left_over(jobs: int, windows: list[Window]) -> Split:
    """Return the jobs that no window holds: three quarters of them for training, the later ones for validation."""
    free = np.ones(jobs, np.bool_)
    for first, count in windows:
        free[first : first + count] = False
    rows = np.flatnonzero(free)
    for_training = rows[: int(0.75 * len(rows))]
    spans: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for piece in np.split(rows, np.flatnonzero((np.diff(rows) > 1) | (rows[1:] == for_training[-1] + 1)) + 1):
        spans[bool(piece[0] <= for_training[-1])].append((int(piece[0]), int(piece[-1]) + 1))
    return Split(tuple(spans[True]), tuple(spans[False]))


def published(path: Path, backfill: str, seeds: int, folder: Path, *, quick: bool) -> None:
    """Print the bounded slowdown of agents of ``--init search`` on RLScheduler's windows, in compatibility mode.

    Windows that a short trace does not hold are left out. Agents learn from the jobs that are in none of the windows.
    """
    trace = tracekit.read(path)
    task = PickJob.rlscheduler(backfill=backfill, observer="default", visible="fcfs")
    jobs = len(EpisodeSource(trace, task))
    ten = [(start, WINDOW_JOBS) for start in WINDOWS if start + WINDOW_JOBS <= jobs]
    if not ten:
        raise SystemExit(f"{path} has {jobs:,} jobs, too few for any of the ten windows of {WINDOW_JOBS:,}")
    parts = left_over(jobs, ten)
    config = PUBLISHED.replace(search_rounds=2, search_windows=4, validation_windows=4) if quick else PUBLISHED
    means = []
    for seed in range(1, seeds + 1):
        place = folder / f"{path.stem}-{backfill}-{seed}"
        agent = train(trace, task, config, out=place, seed=seed, parts=parts, init="search", force=True)
        found = evaluate(agent, trace, ten, policies=HEURISTICS, threads=1)
        means.append(found.mean)
        print(f"{path.name}, {backfill}, {len(ten)} windows, seed {seed}: agent {found.mean:.2f}", flush=True)
    beside = sorted((values.mean(), name) for name, values in found.baselines.items())
    print(", ".join(f"{name} {value:.2f}" for value, name in beside))
    print(f"agent, mean of {seeds} seeds: {np.mean(means):.2f} ({min(means):.2f} … {max(means):.2f})")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "swf")
    parser.add_argument("--runs", type=Path, default=ROOT / "build" / "agents-informed")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page-only", action="store_true")
    parser.add_argument("--published", type=Path)
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--backfill", default="easy", choices=("easy", "none"))
    given = parser.parse_args()
    config = QUICK if given.quick else RECIPE
    if given.published:
        published(given.published, given.backfill, given.seeds, given.runs, quick=given.quick)
        return
    if given.errors:
        for name in given.cases.split(","):
            print(name)
            case = case_of(given.data / CASES[name], quick=False)
            errors(case.trace, case.source, case.known, JOBS)
        return
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.is_file() and not given.quick else {}
    for name in [] if given.page_only else given.cases.split(","):
        case = case_of(given.data / CASES[name], given.quick)
        kept = results.get(name, {}).get("seeds", {})
        results[name] = {**fixed(case), "seeds": kept}
        for seed in range(1, (1 if given.quick else given.seeds) + 1):
            place, made = given.runs / f"{name}-{seed}", kept.setdefault(str(seed), {})
            if not made:
                made |= one(case, seed, place, config)
            if given.plain and "plain" not in made:
                made |= plain(case, seed, place, config)
            if not given.quick:
                write_text(RESULTS, json.dumps(results) + "\n", force=True)
            print(name, seed, kept[str(seed)]["cpu_s"], flush=True)
        print("\n".join(table(results[name])), flush=True)
    if not given.quick:
        write_text(PAGE, page(results), force=True)


if __name__ == "__main__":
    main()
