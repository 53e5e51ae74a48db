"""Holds the sessions model, and every other, to the bars of `sessions_bars` and writes docs/results/sessions.md.

    python benchmarks/bench_sessions.py --data DIR [--part bars|others|privacy|speed|confirm] [--traces …] [--quick]

DIR holds the public traces (KTH-SP2, CTC-SP2, SDSC-BLUE and LLNL-Atlas of the Parallel Workloads Archive, Theta of
Gen-Parallel-Workloads). Every result is added to docs/results/sessions.json as soon as it is there, and what is there
is not made again (--again makes it), so a run can be stopped and taken up. Without --part all parts are made. --quick
prints which bars are met with one seed and small classifiers, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sessions_bars as sb
import sessions_page

import tracekit
from evaluation.noise import Floor
from generators import synth as library
from tracekit.errors import TracekitError
from tracekit.trace import Trace

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results" / "sessions.json"
#: Models in the table: name, options of the fit, how many seeds, and of how many jobs at most they learn and make.
OTHERS: dict[str, tuple[str, dict[str, Any], int, int]] = {
    "resample": ("resample", {}, 3, sb.MOST_JOBS),
    "user-resample": ("user-resample", {}, 3, sb.MOST_JOBS),
    "independent": ("independent", {}, 3, sb.MOST_JOBS),
    "lublin": ("lublin", {}, 3, sb.MOST_JOBS),
    "gaussian-copula": ("gaussian-copula", {}, 1, sb.MOST_JOBS),
    "diffusion (quick)": ("diffusion", {"budget": "quick"}, 1, 10_000),
    "tvae (quick)": ("tvae", {"budget": "quick"}, 1, 10_000),
    "ctgan (quick)": ("ctgan", {"budget": "quick"}, 1, 5_000),
    "copulagan (quick)": ("copulagan", {"budget": "quick"}, 1, 5_000),
    "realtabformer (quick)": ("realtabformer", {"budget": "quick"}, 1, 5_000),
}
OURS: dict[str, dict[str, Any]] = {
    "sessions": {"skeleton": "resampled"},
    "sessions, modelled": {"skeleton": "modelled"},
}
PUBLISHED = ("ctgan", "cg", "gan", "gc", "tvae")
PRIVACY_LEVELS = (1, 2, 5, 10)
CONFIRM = ("SDSC-SP2", "Helios")


class Book:
    """Results by key, kept in a file."""

    def __init__(self, path: Path, *, again: bool) -> None:
        self.path, self.again = path, again
        self.found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """Return a result, making it if it is not there."""
        if key not in self.found or self.again:
            begun = time.process_time()
            try:
                made = make()
            except TracekitError as error:
                made = {"failed": str(error)}
            latest = json.loads(self.path.read_text()) if self.path.exists() else {}  # another process may add as well
            self.found = {**latest, key: made}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(self.found, indent=1, sort_keys=True) + "\n")
            print(f"{key}: {time.process_time() - begun:.0f} CPU s", flush=True)
        return self.found[key]


def plain(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None


def score(data: sb.Cut, made: Trace, floor: dict[str, Floor], names: tuple[str, ...], *, quick: bool) -> dict[str, Any]:
    """Return the rows of the bars, and the scores behind them."""
    found = sb.scores(data, made, names, quick=quick)
    rows = sb.bars(found, floor)
    return {
        "bars": {key: [plain(value), plain(bound), met] for key, (value, bound, met) in rows.items()},
        "values": {key: [plain(s.value), plain(s.real)] for key, s in found.items() if sb.reported(key)},
    }


def floor_of(book: Book, data: sb.Cut, names: tuple[str, ...], *, quick: bool) -> dict[str, Floor]:
    def make() -> dict[str, list[float | None]]:
        found = sb.floors(data, names, quick=quick)
        return {key: [plain(f.value), plain(f.low), plain(f.high)] for key, f in found.items() if sb.reported(key)}

    kept = book.get(f"floor|{data.name}", make)
    return {key: Floor(*(float("nan") if v is None else v for v in values)) for key, values in kept.items()}


def fit_and_make(
    data: sb.Cut, model: str, options: dict[str, Any], seed: int, most: int
) -> tuple[Trace, dict[str, Any]]:
    """Fit on the even weeks and make as many jobs; return them and what it took, in CPU seconds."""
    real = data.even if len(data.even) <= most else data.even.take(slice(0, most))
    begun = time.process_time()
    fitted = library.fit(real, model, seed=seed, **options)
    between = time.process_time()
    made = library.make(fitted, len(real), seed=seed)
    return made, {"fit_cpu": between - begun, "sample_cpu": time.process_time() - between, "jobs": len(made)}


def against(data: sb.Cut, most: int) -> sb.Cut:
    """Return the cut with no more real jobs than a model has learnt from."""
    if len(data.even) <= most:
        return data
    return sb.Cut(data.name, data.whole, data.even.take(slice(0, most)), data.odd.take(slice(0, most)))


def bars(book: Book, data: sb.Cut, names: tuple[str, ...], labels: list[str], seeds: int) -> None:
    """Seeds 1, 2 … of ours, and the membership attack on jobs that no model has seen."""
    floor = floor_of(book, data, names, quick=False)
    book.get(f"fresh|{data.name}", lambda: round(sb.fresh_auc(data), 4))
    for label in labels:
        options = OURS[label]
        for seed in range(1, seeds + 1):

            def make(options: dict[str, Any] = options, seed: int = seed) -> dict[str, Any]:
                made, cost = fit_and_make(data, "sessions", options, seed, sb.MOST_JOBS)
                return {**score(data, made, floor, names, quick=False), **cost}

            book.get(f"bars|{data.name}|{label}|{seed}", make)


def others(book: Book, data: sb.Cut, names: tuple[str, ...], models: list[str], most_seeds: int) -> None:
    """The other models, and the published synthetic sets."""
    floor = floor_of(book, data, names, quick=False)
    for label in models:
        model, options, seeds, most = OTHERS[label]
        for seed in range(1, min(seeds, most_seeds) + 1):

            def make(
                model: str = model, options: dict[str, Any] = options, seed: int = seed, most: int = most
            ) -> dict[str, Any]:
                made, cost = fit_and_make(data, model, options, seed, most)
                return {**score(against(data, most), made, floor, names, quick=False), **cost}

            book.get(f"bars|{data.name}|{label}|{seed}", make)


def published(book: Book, data: sb.Cut, folder: Path, names: tuple[str, ...]) -> None:
    """The synthetic Theta traces that Gen-Parallel-Workloads publishes, as they are."""
    floor = floor_of(book, data, names, quick=False)
    for short in PUBLISHED:
        path = next(folder.rglob(f"synthetic_data_{short}_theta.csv"), None)
        if path is None:
            continue

        def make(path: Path = path) -> dict[str, Any]:
            made = tracekit.read(path, "gpw").take(slice(0, len(data.even)))
            return {
                **score(data, made.replace(machine=data.even.machine), floor, names, quick=False),
                "jobs": len(made),
            }

        book.get(f"bars|{data.name}|published {short}|1", make)


def privacy(book: Book, data: sb.Cut) -> None:
    """Fidelity against privacy, by k."""
    names = ("ks", "correlation", "c2st", "c2st_window", "acf1", "job_repeat", "idc", *sb.EXPENSIVE[2:])
    for label, options in OURS.items():
        for k in PRIVACY_LEVELS:

            def make(k: int = k, options: dict[str, Any] = options) -> dict[str, Any]:
                made, _ = fit_and_make(data, "sessions", {**options, "privacy": k}, 1, sb.MOST_JOBS)
                found = sb.scores(data, made, names, quick=True)
                values = {key: [plain(s.value), plain(s.real)] for key, s in found.items() if sb.reported(key)}
                return {"values": values, "linkage": sb.linkage(data, k, options)}

            book.get(f"privacy|{data.name}|{label}|{k}", make)


def copies(book: Book, data: sb.Cut) -> None:
    """Copies when names, which are new, are not compared."""
    for label, options in OURS.items():

        def make(options: dict[str, Any] = options) -> list[float]:
            return sb.copies_without_names(data, fit_and_make(data, "sessions", options, 1, sb.MOST_JOBS)[0])

        book.get(f"copies|{data.name}|{label}", make)


def speed(book: Book, folder: Path) -> None:
    """CPU seconds of the fit and of making jobs, once compiled, and the highest memory of a process."""
    for name, jobs in (("SDSC-BLUE", 30_000), ("SDSC-BLUE", 300_000)):

        def make(name: str = name, jobs: int = jobs) -> dict[str, Any]:
            import resource

            real = sb.on_the_wall(sb.read(folder, name))
            copies = [real] * -(-jobs // len(real))
            real = sb.lay(copies).take(slice(0, jobs))
            library.make(library.fit(real.take(slice(0, 1000)), "sessions"), 100)  # compile
            result: dict[str, Any] = {}
            for label, options in OURS.items():
                begun = time.process_time()
                fitted = library.fit(real, "sessions", **options)
                between = time.process_time()
                made = library.make(fitted, 1_000_000 if jobs > 100_000 else jobs, seed=1)
                end = time.process_time()
                result[label] = {"fit_cpu": between - begun, "jobs_per_s": len(made) / (end - between)}
            result["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            return result

        book.get(f"speed|{name}|{jobs}", make)


def confirm(book: Book, folder: Path, names: tuple[str, ...]) -> None:
    """Traces that were looked at only once, after everything else was settled."""
    for name in CONFIRM:
        trace = sb.read_other(folder, name)
        if trace is None:
            continue
        data = sb.cut(name, trace)
        floor = floor_of(book, data, names, quick=False)
        book.get(f"fresh|{name}", lambda data=data: round(sb.fresh_auc(data), 4))
        for label, options in OURS.items():

            def make(
                options: dict[str, Any] = options, data: sb.Cut = data, floor: dict[str, Floor] = floor
            ) -> dict[str, Any]:
                made, cost = fit_and_make(data, "sessions", options, 1, sb.MOST_JOBS)
                return {**score(data, made, floor, names, quick=False), **cost}

            book.get(f"confirm|{name}|{label}|1", make)


def quick(data: sb.Cut, label: str) -> None:
    """Print which bars one seed meets, with small classifiers and without scheduling."""
    names = (*sb.CHEAP, *sb.EXPENSIVE)
    floor = sb.floors(data, sb.CHEAP, quick=True, draws=10)
    made, cost = fit_and_make(data, "sessions", OURS[label], 1, sb.MOST_JOBS)
    print(f"{data.name}, {label}: {cost['jobs']} jobs, fit {cost['fit_cpu']:.1f} s, sample {cost['sample_cpu']:.1f} s")
    for key, (value, bound, met) in sb.bars(sb.scores(data, made, names, quick=True), floor).items():
        print(f"  {'met   ' if met else 'MISSED'} {key:32} {value:8.3f}  bar {bound:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--part", choices=("bars", "others", "privacy", "speed", "confirm", "page"))
    parser.add_argument("--traces", default=",".join(sb.FILES))
    parser.add_argument("--models", default=",".join(OTHERS))
    parser.add_argument("--skeletons", default=";".join(OURS))
    parser.add_argument("--seeds", type=int, default=3, help="at most")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--again", action="store_true")
    wanted = parser.parse_args()
    warnings.filterwarnings("ignore")
    book = Book(RESULTS, again=wanted.again)
    names = (*sb.CHEAP, *sb.EXPENSIVE, *sb.SCHEDULING)
    parts = (wanted.part,) if wanted.part else ("bars", "others", "privacy", "speed", "confirm", "page")
    for name in wanted.traces.split(",") if set(parts) & {"bars", "others", "privacy"} else ():
        data = sb.cut(name, sb.read(wanted.data, name))
        if wanted.quick:
            for label in OURS:
                quick(data, label)
            continue
        if "bars" in parts:
            bars(book, data, names, wanted.skeletons.split(";"), wanted.seeds)
        if "others" in parts:
            others(book, data, names, wanted.models.split(","), wanted.seeds)
            if name == "Theta":
                published(book, data, wanted.data, names)
        if "privacy" in parts:
            copies(book, data)
        if "privacy" in parts and name in ("KTH-SP2", "SDSC-BLUE"):
            privacy(book, data)
    if wanted.quick:
        return
    if "speed" in parts:
        speed(book, wanted.data)
    if "confirm" in parts:
        confirm(book, wanted.data, names)
    RESULTS.with_suffix(".md").write_text(sessions_page.page(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
