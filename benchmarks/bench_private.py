"""Measures fidelity against privacy of models private and sessions; writes docs/results/privacy.json.

    python benchmarks/bench_private.py --data DIR [--traces KTH-SP2,…] [--part jobs|scheduling] [--draws 3] [--again]
    python benchmarks/bench_private.py --page

DIR holds KTH-SP2, CTC-SP2, SDSC-BLUE, LLNL-Atlas and CEA-Curie of the Parallel Workloads Archive. The first two were
used for tuning. Every result is stored as soon as it is there and is not made again (--again makes it).
The noise comes from seeds, so that the figures can be repeated. --page draws the figure and prints the tables.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import tracekit
from evaluation.base import METRICS, Setting
from evaluation.score import score
from evaluation.view import prepare
from generators import synth as library
from tracekit.trace import Trace

HERE = Path(__file__).resolve().parent.parent / "docs" / "results"
RESULTS, FIGURE = HERE / "privacy.json", HERE / "privacy.png"
TRACES = {
    "KTH-SP2": "KTH-SP2-1996-2.1-cln.swf.gz",
    "CTC-SP2": "CTC-SP2-1996-3.1-cln.swf.gz",
    "SDSC-BLUE": "SDSC-BLUE-2000-4.2-cln.swf.gz",
    "LLNL-Atlas": "LLNL-Atlas-2006-2.1-cln.swf.gz",
    "CEA-Curie": "CEA-Curie-2011-2.1-cln.swf.gz",
}
CURVE = ("KTH-SP2", "CTC-SP2", "SDSC-BLUE")
EPSILONS = (0.5, 1.0, 3.0, 10.0)
LEVELS = (1, 2, 5, 10)
#: Longer traces are scored on this many synthetic jobs; all real jobs are learnt from.
MOST_JOBS = 40_000
MEASURED = ("ks", "correlation", "acf1", "c2st", "hour_of_week", "offered_load", "submit_gaps", "submit_rhythm")
KEYS = {
    "ks.mean": "KS, mean",
    "correlation.mad_spearman": "rank correlation, mean difference",
    "acf1.run_time": "order: acf1 of run time",
    "c2st.auc": "classifier (C2ST), AUC",
    "hour_of_week.tv": "week profile, TV",
    "offered_load": "load / real load",
    "scheduling.log_wait_w1": "distance of waits (ln s)",
    "scheduling.kendall_tau": "Kendall τ of policies",
    "privacy.submit_gaps": "linked users (submit gaps)",
    "privacy.submit_rhythm": "linked users (rhythm)",
}


def measured(real: Trace, made: Trace, metrics: tuple[str, ...]) -> dict[str, float]:
    """Return the scores of one synthetic trace; of a trace's own quantity, and of an attack, also the real value."""
    ours, theirs = prepare(real, [made], ["real", "made"])
    found: dict[str, float] = {}
    for name in metrics:
        scores = METRICS.get(name)()(ours, theirs, setting=Setting(True, None), rng=np.random.default_rng(0))
        for key, one in scores.items():
            found[key] = float(one.value)
            if np.isfinite(one.real):
                found[f"{key}.real"] = float(one.real)
    return {key: value for key, value in found.items() if np.isfinite(value)}


def cell(real: Trace, model: str, options: dict[str, Any], draw: int, metrics: tuple[str, ...]) -> dict[str, float]:
    noise = {"noise_seed": draw} if model == "private" else {}
    fitted = library.fit(real, model, seed=draw, **options, **noise)
    made = library.make(fitted, min(len(real), MOST_JOBS), seed=draw)
    return measured(real, made, metrics) | {"released.jobs": fitted.jobs / len(real)}


def floor(real: Trace) -> dict[str, dict[str, float]]:
    """Return the noise floor: odd weeks of the real trace against even ones."""
    made = library.make(library.fit(real, "resample"), min(len(real), 5_000))
    found = score(real, [made], quick=True, families=["scheduling"]).noise_floor
    return {key: {"value": f.value, "low": f.low, "high": f.high} for key, f in found.items() if key in KEYS}


def cells_of(name: str, draws: int) -> list[tuple[str, str, dict[str, Any], int]]:
    """List what is made of a trace: key, model, options, draw."""
    todo: list[tuple[str, str, dict[str, Any], int]] = []
    for draw in range(1, draws + 1):
        epsilons = EPSILONS if name in CURVE else (3.0,)
        todo += [(f"private {e:g} #{draw}", "private", {"epsilon": e}, draw) for e in epsilons]
    if name in CURVE:
        todo += [(f"sessions {k} #1", "sessions", {"skeleton": "modelled", "privacy": k}, 1) for k in LEVELS]
    return todo


def run(data: Path, names: list[str], draws: int, *, part: str, again: bool) -> None:
    """Make all cells that are not there; waits and policies of the first draw only, because they take long."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    metrics = MEASURED if part == "jobs" else ("scheduling",)
    for name in names:
        real = tracekit.read(data / TRACES[name])
        book = results.setdefault(name, {})
        users = int(real.jobs["user"].nunique())
        book["trace"] = {"jobs": len(real), "users": users, "load": real.offered_load()}
        if part == "scheduling" and ("floor" not in book or again):
            book["floor"] = floor(real)
        for key, model, options, draw in cells_of(name, draws if part == "jobs" else 1):
            key = key if part == "jobs" else f"{key} scheduling"
            if key in book and not again:
                continue
            book[key] = cell(real, model, options, draw, metrics)
            print(name, key, {k: round(v, 3) for k, v in book[key].items() if k in KEYS}, flush=True)
            RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--traces", default=",".join(TRACES))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--part", choices=("jobs", "scheduling"), default="jobs")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.page:
        import private_page

        private_page.write(json.loads(RESULTS.read_text()), FIGURE)
        return
    run(given.data, given.traces.split(","), given.draws, part=given.part, again=given.again)


if __name__ == "__main__":
    main()
