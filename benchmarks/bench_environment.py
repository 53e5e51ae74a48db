"""How many decisions a second the environment PickJob makes on one core, with full observations and random choices.

    python benchmarks/bench_environment.py [--quick] [--json] [--trace FILE.swf]

Windows of 256 jobs of Lublin-1, 256 side by side; a finished one is replaced by another. Counted is everything:
choosing, stepping, observing, cutting windows, scoring them. Times are CPU seconds of the one thread that works, the
best of a few stretches: on a shared machine wall-clock time measures the neighbours. The yardstick, an environment in
plain Python (`plain_environment`), plays some of the same windows with the same choices in the same run, and must end
with the same schedules. The rate of the published environment (2,800/s, RLScheduler's own, as measured by others
elsewhere) is shown beside them for orientation only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from plain_environment import PlainEnvironment

import tracekit
from tracekit.sim.tasks.pick_job.batch import Batch
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.sim.windows import draw
from tracekit.trace import Trace

LANES, JOBS = 256, 256
PUBLISHED = 2800.0
TASKS = {
    "rlscheduler": PickJob.rlscheduler(),
    "rlscheduler, default observer": PickJob.rlscheduler(observer="default"),
    "rlscheduler + backfill": PickJob.rlscheduler(backfill="easy"),
    "default (EASY, re-decide)": PickJob(),
    "default, no backfill": PickJob(backfill="none"),
}


def lublin(path: str | None) -> Trace:
    """Return Lublin-1 if it is at hand, else a trace made by the Lublin–Feitelson model."""
    folder = Path(os.environ.get("TRACEKIT_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    place = Path(path) if path else folder / "swf" / "lublin_256.swf"
    if place.is_file():
        return tracekit.read(place)
    print(f"({place} is not here: measuring on the sample that comes with tracekit)", file=sys.stderr)
    return tracekit.sample()


class Play:
    """Windows played one after the other in every lane, by choices that depend on the window and the turn alone."""

    def __init__(self, trace: Trace, task: PickJob, seed: int = 0) -> None:
        self.batch = Batch(trace, task, lanes=LANES, threads=1)
        self.jobs = min(JOBS, len(self.batch.source))
        self.windows = draw((0, len(self.batch.source)), 20_000, self.jobs, seed)
        self.chance = np.random.default_rng(seed).random((1024, 4 * JOBS))  # of window i in row i mod 1024
        self.row = np.arange(LANES) % 1024
        self.next = LANES
        self.made = self.shown = 0
        self.batch.reset(range(LANES), self.windows[:LANES])

    def run(self, decisions: int) -> float:
        """Make some decisions; return the CPU seconds of all of it."""
        batch, begin, made = self.batch, time.thread_time(), 0
        while made < decisions:
            chance = self.chance[self.row, batch.decisions % self.chance.shape[1]]
            self.shown += int(batch.count.sum())
            _, done = batch.step((chance * batch.count).astype(np.int64))
            made += LANES
            ended = np.flatnonzero(done)
            if len(ended):
                fresh = [(self.next + i) % len(self.windows) for i in range(len(ended))]
                self.next += len(ended)
                self.row[ended] = np.array(fresh) % 1024
                batch.reset(ended, [self.windows[i] for i in fresh])
        self.made += made
        return (time.thread_time() - begin) / made


def rate(trace: Trace, task: PickJob, decisions: int, stretches: int) -> dict[str, Any]:
    """Return decisions per second: the best stretch, and the median one."""
    play = Play(trace, task)
    play.run(LANES * 300)  # compiles, and brings the windows out of step with each other
    seconds = [play.run(decisions) for _ in range(stretches)]
    return {
        "decisions_per_s": 1 / min(seconds),
        "median_decisions_per_s": 1 / float(np.median(seconds)),
        "mean_jobs_shown": play.shown / play.made,
        "features": len(task.feature_names),
    }


def yardstick(trace: Trace, windows: int, stretches: int) -> dict[str, Any]:
    """Return the rate of the plain environment and of ours on the same windows and choices; compare the schedules."""
    play = Play(trace, TASKS["rlscheduler"])
    batch = play.batch
    episodes = [batch.source.episode(window) for window in play.windows[:windows]]
    longest, total = batch.task.constants["max_request_s"], batch.source.table.total
    best, starts, seen = float("inf"), [], np.empty(0)
    for _ in range(stretches):
        games = [
            PlainEnvironment(
                [
                    {"submit": s, "run": r, "request": e, "procs": int(n), **dict(zip(LABELS, labels, strict=True))}
                    for s, r, e, n, labels in zip(
                        episode.ready.table.submit.tolist(),
                        episode.ready.run.tolist(),
                        episode.ready.estimate.tolist(),
                        episode.ready.units.tolist(),
                        episode.columns.fixed[:, 3:7].tolist(),
                        strict=True,
                    )
                ],
                total,
                longest,
            )
            for episode in episodes
        ]
        begin, made, starts = time.thread_time(), 0, []
        for row, game in enumerate(games):
            view = game.proceed()
            if row == 0 and view is not None:
                seen = view
            turn = 0
            while view is not None:
                view = game.step(int(play.chance[row, turn] * len(game.visible)))
                turn += 1
            made += turn
            starts.append([job["start"] for job in game.jobs])
        best = min(best, (time.thread_time() - begin) / made)
    batch.reset(range(windows), play.windows[:windows])
    np.testing.assert_allclose(batch.features[0], seen, rtol=1e-6)
    batch.done[windows:] = True
    while not batch.done.all():
        chance = play.chance[play.row, batch.decisions % play.chance.shape[1]]
        batch.step((chance * batch.count).astype(np.int64))
    same = all(np.array_equal(batch.starts(lane), starts[lane]) for lane in range(windows))
    return {"decisions_per_s": 1 / best, "windows": windows, "same_schedules": same}


LABELS = ("memory", "user", "group", "app")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer decisions")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--trace", help="another trace than Lublin-1")
    options = parser.parse_args()
    trace = lublin(options.trace)
    decisions, stretches = (20_000, 3) if options.quick else (60_000, 9)
    plain = yardstick(trace, 4 if options.quick else 16, 3)
    found = {name: rate(trace, task, decisions, stretches) for name, task in TASKS.items()}
    ratio = found["rlscheduler"]["decisions_per_s"] / plain["decisions_per_s"]
    if options.json:
        print(json.dumps({"tasks": found, "plain": plain, "ratio": ratio, "published": PUBLISHED}, indent=2))
    else:
        print(f"{'task':32}{'decisions/s':>12}{'median':>12}{'jobs shown':>12}{'features':>10}")
        for name, row in found.items():
            print(
                f"{name:32}{row['decisions_per_s']:12,.0f}{row['median_decisions_per_s']:12,.0f}"
                f"{row['mean_jobs_shown']:12.1f}{row['features']:10}"
            )
        print(f"{'plain Python (rlscheduler)':32}{plain['decisions_per_s']:12,.0f}")
        print(f"ratio to plain Python: {ratio:.0f}; same schedules: {plain['same_schedules']}")
        times = found["rlscheduler"]["decisions_per_s"] / PUBLISHED
        print(f"ratio to the published environment's {PUBLISHED:,.0f}/s: {times:.0f}")
    return 0 if plain["same_schedules"] else 1


if __name__ == "__main__":
    sys.exit(main())
