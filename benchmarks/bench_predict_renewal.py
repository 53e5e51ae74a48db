"""Whether a predictor of run times that is renewed as time passes gives better orders than one that learnt once.

    python benchmarks/bench_predict_renewal.py [--data DIR] [--cases ctc,blue,kth] [--seeds 3] [--days 30,7] [--counts]
    python benchmarks/bench_predict_renewal.py --quick

Windows of the jobs between 35 and 60 % of a log, EASY backfilling, policy `predicted-index` in each of its forms;
nothing after the 60 % is read. The predictor of a window is the one that was renewed last before it begins. At a
renewal it learns from the log as it is at that moment: jobs that have not ended by then have no run time.
--counts also has predictors that tell all counts of ended jobs apart. --quick: one log, one seed, few windows.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from unittest import mock

import numpy as np
from bench_agents_informed import JOBS, KNOWN, MOST, ROOT, STATIC
from informed_errors import log_at
from informed_page import CASES, MEANS, signed
from numpy.typing import NDArray

import tracekit
from tracekit.sim.agents.against import against
from tracekit.sim.agents.evaluate import INDEX
from tracekit.sim.agents.rollout import play
from tracekit.sim.predict import training
from tracekit.sim.predict.features import features_of
from tracekit.sim.predict.index import FORMS
from tracekit.sim.predict.predictor import IN_INDEX, Predictor
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.sim.windows import Window
from tracekit.trace import Trace

Floats = NDArray[np.float64]

DAY = 86400.0
#: Where the windows begin, and how many jobs apart.
FROM, STEP = 0.35, 96
#: How many windows each job is in.
OVERLAP = round(JOBS / STEP)


@dataclass(frozen=True, eq=False)
class Log:
    """The first 60 % of a log, and the windows."""

    trace: Trace
    source: EpisodeSource  # of a task with predictions
    windows: list[Window]

    @cached_property
    def submit(self) -> Floats:
        """When jobs are submitted, (jobs,) seconds."""
        return self.trace.column("submit_time")

    @cached_property
    def seen(self) -> Floats:
        """What was known at each submit, (jobs, FEATURES)."""
        return features_of(self.trace)


def log_of(path: Path, quick: bool) -> Log:
    """Read a log."""
    whole = tracekit.read(path).head(MOST)
    trace = whole.head(int(KNOWN * len(whole)))
    with tempfile.TemporaryDirectory() as folder:
        training.untrained().save(Path(folder) / "none")
        source = EpisodeSource(trace, PickJob(predict=str(Path(folder) / "none"), observer="request"))
    if len(source) != len(trace):
        raise SystemExit(f"{path}: some jobs cannot be simulated, so windows and rows differ")
    begins = range(int(FROM * len(whole)), len(trace) - JOBS + 1, STEP)
    return Log(trace, source, [(begin, JOBS) for begin in begins][: 12 if quick else None])


def costs(log: Log, windows: list[Window], predictor: Predictor) -> Floats:
    """Return the costs of the forms of the index, (windows, forms)."""
    log.source.predictor = predictor
    batch = log.source.task.batch(log.source, lanes=min(len(windows), 64), threads=1)
    teacher = log.source.task.teacher(batch, windows, INDEX)
    made = []
    for form in FORMS:
        batch.freeze(form)
        made.append(play(batch, windows, None, teacher=teacher, keep=False).score)
    return np.stack(made, 1)


def renewed(log: Log, days: float, seed: int) -> tuple[Floats, Floats]:
    """Return the costs of the forms, (windows, forms), and ln predicted − ln run time of the jobs, (jobs,).

    The predictor is renewed every so many days (infinity: never) from the first window on.
    """
    first = log.windows[0][0]
    begin = log.submit[[window[0] for window in log.windows]]
    cell = np.floor((begin - log.submit[first]) / (days * DAY)).astype(int)
    job_cell = np.floor((log.submit - log.submit[first]) / (days * DAY)).astype(int)
    found, gaps = np.zeros((len(begin), len(FORMS))), []
    limit, run = log.trace.column("req_time"), training.capped_run(log.trace)
    for k in np.unique(cell):
        now = log.submit[first] + (k * days * DAY if k else 0.0)
        made = training.train(log_at(log.trace, now), seed=seed, outputs=IN_INDEX)
        found[cell == k] = costs(log, [log.windows[i] for i in np.flatnonzero(cell == k)], made)
        rows = np.flatnonzero((job_cell == k) & (np.arange(len(run)) >= first) & np.isfinite(run))
        gaps.append(np.log(made.seconds(log.seen[rows], limit[rows], "ln_mean")) - np.log(run[rows]))
    return found, np.concatenate(gaps)


def measured(log: Log, ways: dict[str, tuple[float, float]], seeds: int) -> None:
    """Print a row for each way: (days between renewals, counts told apart)."""
    heuristics = log.source.policy_costs(log.windows, STATIC, threads=1)
    best = int(np.log(heuristics).mean(0).argmin())
    print(f"{len(log.windows)} windows; best heuristic there {STATIC[best]}", flush=True)
    heads = "predictor", "error", "bias", "best form against that heuristic", *(f"{m}, against once" for m in MEANS)
    print(f"| {' | '.join((*heads, 'seeds'))} |\n|{'---|' * (len(heads) + 1)}")
    once: Floats | None = None
    for name, (days, counts) in ways.items():
        with mock.patch.object(training, "MOST_ENDED", counts):
            made = [renewed(log, days, seed) for seed in range(1, seeds + 1)]
        cost = np.stack([each for each, _ in made])  # (seeds, windows, forms)
        gaps = np.concatenate([each for _, each in made])
        once = cost if once is None else once
        form = int(np.log(cost).mean((0, 1)).argmin())
        beside = against(cost[:, :, form], heuristics[:, best], overlap=OVERLAP)
        # all forms of a window together: the geometric mean of their costs, and the arithmetic one
        shares = (
            against(np.exp((np.log(cost) - np.log(once)).mean(2)), np.ones(len(log.windows)), overlap=OVERLAP),
            against(cost.mean(2), once.mean((0, 2)), overlap=OVERLAP),
        )
        by_seed = [signed(float(np.exp((np.log(a) - np.log(b)).mean()) - 1)) for a, b in zip(cost, once, strict=True)]
        cells = [f"{np.abs(gaps).mean():.3f}", f"{gaps.mean():+.2f}".replace("-", "−"), interval(beside, MEANS[0])]
        cells += [interval(found, mean) if days < np.inf else "" for found, mean in zip(shares, MEANS, strict=True)]
        print(f"| {name} | {' | '.join(cells)} | {', '.join(by_seed) if days < np.inf else ''} |", flush=True)


def interval(found: dict[str, float], mean: str) -> str:
    """Return a share with its interval."""
    return f"{signed(found[mean])} [{signed(found[mean + '_low'])}, {signed(found[mean + '_high'])}]"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "swf")
    parser.add_argument("--cases", default="ctc,blue,kth")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--days", default="30,7")
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    all_days = [float(days) for days in given.days.split(",")]
    ways = {"learnt once": (np.inf, training.MOST_ENDED)}
    ways |= {f"every {days:g} days": (days, training.MOST_ENDED) for days in all_days}
    if given.counts:
        ways |= {f"every {days:g} days, all counts told apart": (days, np.inf) for days in all_days}
    for name in ["kth"] if given.quick else given.cases.split(","):
        print(name)
        measured(log_of(given.data / CASES[name], given.quick), ways, 1 if given.quick else given.seeds)


if __name__ == "__main__":
    main()
