"""Draw docs/assets/explore.png and explore-job.png: the explorer's page about two schedules of the sample, in Chromium.

python docs/_explore.py
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from headless import Chromium

import tracekit
from tracekit.explore import Source, write

ROOT = Path(__file__).resolve().parent.parent
READY = (
    "new Promise((done) => { const look = () => performance.getEntriesByName('tracekit-ready').length ? done() : "
    "setTimeout(look, 20); look(); })"
)
#: What is done on the page before each picture.
SCENES = {
    "explore": "scene.selection.toggle('lengths', 3); update()",
    "explore-job": "scene.selection.clear(); chooseJob(4321, true); $('single').scrollIntoView({behavior: 'instant'})",
}


def main() -> None:
    """Write the pictures."""
    trace = tracekit.sample()
    folder = Path(tempfile.mkdtemp())
    made = [Source.of_schedule(name, tracekit.simulate(trace, name).schedule(), trace) for name in ("fcfs", "sjf")]
    write(made, folder / "page.html", title="The sample under fcfs and sjf")
    browser = Chromium(folder)
    try:
        browser.size(1180, 1180)
        browser.open(folder / "page.html")
        browser.run(READY)
        for name, script in SCENES.items():
            browser.run(script)
            browser.run("new Promise((done) => setTimeout(done, 500))")
            data = base64.b64decode(browser.send("Page.captureScreenshot", format="png")["data"])
            picture = Image.open(io.BytesIO(data)).convert("RGB").quantize(96, dither=Image.Dither.NONE)
            picture.save(ROOT / "docs" / "assets" / f"{name}.png", optimize=True)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
