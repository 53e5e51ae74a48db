"""Every registered model on the same traces, by the same scores; writes docs/results/field.md.

    python benchmarks/bench_field.py --data DIR [--seeds 3] [--models …] [--traces …] [--again] [--page]

DIR holds the public traces. Each model learns the first 5,000 jobs of a trace (the usable ones) at the quick budget and
makes as many. Every result is added to docs/results/field.json as soon as it is there, and what is there is not made
again (--again makes it), so a run can be stopped and taken up. Seed 1 of all models comes first, then seed 2 …; of each
seed the cheap models come first, then the dear ones trace by trace. All of it with one seed takes about 50 CPU minutes,
most of them for par and the networks. --page writes the page only. After a change of model sessions its rows are made
again by --models sessions --again.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import field_page
import sessions_bars as sb
from bench_sessions import Book, plain

import tracekit
from evaluation.base import Score, Setting
from evaluation.view import prepare
from generators import MODELS
from generators import synth as library
from generators.encode import learnable
from tracekit.trace import Trace

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results" / "field.json"
JOBS = 5_000
TRACES = {
    "KTH-SP2": "KTH-SP2-1996-2.1-cln.swf*",
    "CTC-SP2": "CTC-SP2-1996-3.1-cln.swf*",
    "SDSC-BLUE": "SDSC-BLUE-2000-4.2-cln.swf*",
    "LLNL-Atlas": "LLNL-Atlas-2006-2.1-cln.swf*",
    "Theta": "theta_data_training.csv",
    "Helios": "helios_data_training.csv",
    "CEA-Curie": "CEA-Curie-2011-2.1-cln.swf*",
    "NASA-iPSC": "NASA-iPSC-1993-3.1-cln.swf*",
    "SDSC-SP2": "SDSC-SP2-1998-4-first5k.swf",
}
#: Rows of one model that differ in their options.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "sessions": {
        "sessions": {},
        "sessions, modelled": {"skeleton": "modelled"},
        "sessions, for sharing": {"for_sharing": True},
    },
    "private": {"private (ε = 3)": {"epsilon": 3.0, "noise_seed": 0}},
}
#: What is dear comes last, so that a table is there early.
SLOW = ("tvae", "diffusion", "realtabformer", "ctgan", "par", "copulagan")


def read(data: Path, name: str) -> Trace:
    """Return the first usable jobs of a trace; Theta's file says nothing of its machine, whose size is public."""
    trace = tracekit.read(next(data.rglob(TRACES[name])), "gpw" if name in ("Theta", "Helios") else None)
    if name == "Theta":
        trace = trace.replace(machine=trace.machine.replace(name="Theta", procs=4_392 * 64, nodes=4_392))
    return learnable(trace.take(trace.order()))[0].head(JOBS)


def measure(real: Trace, model: str, options: dict[str, Any], seed: int) -> dict[str, Any]:
    """Fit, make as many jobs, score them against the fitted ones; CPU seconds of the first two."""
    begun = time.process_time()
    made = library.synth(real, model, len(real), seed=seed, budget="quick", **options)
    took = time.process_time() - begun
    ours, theirs = prepare(real, [made], ["real", "made"])
    found: dict[str, Score] = {}
    for metric in sb.metrics(field_page.METRICS):
        found |= sb.run(metric, ours, theirs, Setting(quick=True))
    known = {key: found[key] for key in field_page.KEYS if key in found}
    values = {key: [plain(score.value), plain(score.real), score.note] for key, score in known.items()}
    return {"cpu_s": round(took, 1), "stretched": field_page.stretched(made), **values}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", default=",".join((*sorted(set(MODELS.names()) - set(SLOW)), *SLOW)))
    parser.add_argument("--traces", default=",".join(TRACES))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--page", action="store_true")
    wanted = parser.parse_args()
    warnings.filterwarnings("ignore")
    book = Book(RESULTS, again=wanted.again)
    models, traces = wanted.models.split(","), wanted.traces.split(",")
    cheap, dear = [m for m in models if m not in SLOW], [m for m in models if m in SLOW]
    runs = [
        (seed, name, model)
        for seed in range(1, wanted.seeds + 1)
        for of in (cheap, dear)
        for name in traces
        for model in of
    ]
    for seed, name, model in runs if not wanted.page else ():
        for label, options in VARIANTS.get(model, {model: {}}).items():

            def make(
                name: str = name, model: str = model, options: dict[str, Any] = options, seed: int = seed
            ) -> dict[str, Any]:
                return measure(read(wanted.data, name), model, options, seed)

            book.get(f"{name}|{label}|{seed}", make)
    RESULTS.with_suffix(".md").write_text(field_page.page(book.found))


if __name__ == "__main__":
    main()
