"""The explorer with many jobs, in a real browser: size of the page, time to the first picture, time of a brush, memory.

    python benchmarks/bench_explore.py [--jobs 1000000] [--trace FILE] [--keep page.html]

Without --trace, `sessions` makes the jobs from the embedded sample. Jobs are scheduled first come, first served with
EASY backfilling, so that there are waits. The browser is Chromium without a window, driven as the tests drive it; times
are those that the page measures itself (`performance`): from the start of the navigation to the first picture, and of
each update, from counting to the end of drawing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from headless import Chromium, executable

import tracekit
from tracekit.explore import Source, write

MEASURES = "performance.getEntriesByName('tracekit-update').map((entry) => entry.duration)"


def scheduled(jobs: int, path: str | None) -> Source:
    real = tracekit.read(path) if path else tracekit.sample()
    trace = real if path and len(real) >= jobs else tracekit.synth(real, "sessions", n_jobs=jobs, seed=1)
    result = tracekit.simulate(trace.head(jobs))
    made = trace.take(result.position).assign({"wait_time": result.wait, "run_time": result.run})
    return Source.of_trace("many", made)


def ready(browser: Chromium) -> None:
    browser.run(
        "new Promise((done) => { const look = () => performance.getEntriesByName('tracekit-ready').length ? done() : "
        "setTimeout(look, 20); look(); })"
    )


def drag(browser: Chromium, steps: int) -> None:
    """Brush over the overview: press, move in steps, release; one picture for each step."""
    box = browser.run(
        "(() => { const b = document.getElementById('overview').getBoundingClientRect();"
        " return [b.left, b.top, b.width, b.height] })()"
    )
    left, top, width, height = box

    def mouse(kind: str, share: float) -> None:
        browser.send(
            "Input.dispatchMouseEvent",
            type=kind,
            x=left + width * share,
            y=top + height / 2,
            button="left",
            buttons=1,
            clickCount=1,
        )

    mouse("mousePressed", 0.02)
    for share in np.linspace(0.05, 0.98, steps):
        mouse("mouseMoved", share)
        browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    mouse("mouseReleased", 0.98)


def busy(browser: Chromium) -> float:
    """Return the CPU milliseconds that the page's thread has used; other work on the machine hardly changes them."""
    metrics = {one["name"]: one["value"] for one in browser.send("Performance.getMetrics")["metrics"]}
    return 1000 * float(metrics["TaskDuration"])


def listed(values: list[float]) -> str:
    return ", ".join(f"{value:.0f}" for value in values)


def tell(what: str, browser: Chromium, before: float) -> None:
    """Print how long the updates took that were measured since ``before``."""
    took = browser.run(MEASURES)
    cpu = (busy(browser) - before) / len(took)
    print(f"{what}, ms: median {np.median(took):.0f}, longest {max(took):.0f} of {len(took)}; CPU ms each: {cpu:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--trace")
    parser.add_argument("--keep")
    parser.add_argument("--page", help="measure a page that exists")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tracekit-bench-"))
    page = Path(asked.page or asked.keep or folder / "page.html").resolve()
    if not asked.page:
        begun = time.process_time()
        source = scheduled(asked.jobs, asked.trace)
        print(f"{len(source):,} jobs made and scheduled: {time.process_time() - begun:.1f} CPU s")
        begun = time.process_time()
        made = write([source], page, force=True)
        print(f"page: {time.process_time() - begun:.1f} CPU s, {made.bytes / 1e6:.2f} MB, {made.sources[0]}")
    if executable() is None:
        print("no Chromium: the page was not opened")
        return
    print(f"load of the machine before the browser starts: {os.getloadavg()[0]:.1f}")
    browser = Chromium(folder)
    try:
        browser.size(1280, 800)
        browser.send("Performance.enable", timeDomain="threadTicks")
        firsts, used = [], 0.0
        for _ in range(3):
            before = busy(browser)
            browser.open(page)
            ready(browser)
            used = used or busy(browser) - before  # later ones are counted in other processes
            firsts.append(browser.run("performance.getEntriesByName('tracekit-first-picture')[0].startTime"))
        print(f"first picture, ms: {listed(firsts)}; until single jobs are there, CPU ms: {used:.0f}")
        browser.run("performance.clearMeasures('tracekit-update')")
        before = busy(browser)
        drag(browser, 30)
        tell("brush over time", browser, before)
        browser.run("scene.selection.clear(); update(); performance.clearMeasures('tracekit-update')")
        before = busy(browser)
        for dimension, value in (("status", 0), ("user", 0), ("sizes", 1), ("lengths", 2)) * 3:
            browser.run(f"scene.selection.toggle('{dimension}', {value}); update(); scene.selection.clear()")
        tell("a class over the whole span", browser, before)
        browser.send("HeapProfiler.collectGarbage")
        used = browser.send("Runtime.getHeapUsage")
        print(f"memory of the script: {(used['usedSize'] + used.get('backingStorageSize', 0)) / 1e6:.0f} MB")
        print("complaints and requests:", json.dumps(browser.complaints()))
    finally:
        browser.close()


if __name__ == "__main__":
    main()
