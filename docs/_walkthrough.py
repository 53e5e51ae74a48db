"""Run the commands of docs/walkthrough.md in an empty folder and make its pictures in docs/assets/walkthrough.

python docs/_walkthrough.py [NAME …]   (all pictures, or those named; the commands before them are run in any case)
"""

from __future__ import annotations

import base64
import html
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from headless import Chromium

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "assets" / "walkthrough"
READY = (
    "new Promise((done) => { const look = () => performance.getEntriesByName('tracekit-ready').length ? done() : "
    "setTimeout(look, 20); look(); })"
)
#: Pictures that are no terminal: a page with a script that runs on it, or a picture that a command has drawn.
PAGES = {
    "explore": ("page.html", READY),
    "schedules": ("both.html", READY),
    "story": ("demo/report.html", "document.getElementById('story').scrollIntoView({behavior: 'instant'})"),
}
DRAWN = {"hosts": "hosts/*/hosts-heatmap.png", "power": "watts/*/power.png"}
WIDTH, HEIGHT, MOST_BYTES = 1180, 1000, 200_000
TERMINAL = (
    "<meta charset=utf-8><style>body{{margin:0;overflow:hidden;background:#12161b;color:#e6eaee}}"
    "pre{{margin:0;padding:18px 22px;white-space:pre-wrap}}"
    "pre{{font:14px/1.35 'DejaVu Sans Mono',monospace;display:inline-block}}"
    "b{{color:#56d3a4}}</style><pre>{}</pre>"
)


def main(wanted: list[str]) -> None:
    """Make the pictures."""
    TARGET.mkdir(exist_ok=True)
    page = (ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8")
    steps = re.findall(
        r"^```sh\n(.*?)^```\n\n!\[[^]]*\]\(assets/walkthrough/(\w+)\.png\)", page, re.DOTALL | re.MULTILINE
    )
    folder = Path(tempfile.mkdtemp())
    browser = Chromium(folder)
    try:
        for block, name in steps:
            sys.stderr.write(f"{name}\n")
            said = run(block, folder)
            if not wanted or name in wanted:
                save(picture(name, block, said, folder, browser), TARGET / f"{name}.png")
    finally:
        browser.close()


def run(block: str, folder: Path) -> str:
    """Run a block in a shell and return what it prints on a terminal of 110 columns, notes included."""
    script = f'tracekit() {{ "{sys.executable}" -m tracekit "$@"; }}\n{block}'
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "110"}
    done = subprocess.run(["bash", "-euc", script], cwd=folder, env=settings, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, check=True)  # fmt: skip
    return "\n".join(line for line in done.stdout.splitlines() if not re.match(r"\d+/\d+ tasks|compiling", line))


def picture(name: str, block: str, said: str, folder: Path, browser: Chromium) -> Image.Image:
    """Return the picture of one step."""
    if name in DRAWN:
        (drawn,) = folder.glob(DRAWN[name])
        made = Image.open(drawn).convert("RGB")
        return made.resize((WIDTH, made.height * WIDTH // made.width), Image.Resampling.LANCZOS)
    if name in PAGES:
        file, script = PAGES[name]
        browser.size(WIDTH, HEIGHT)
        browser.open(folder / file)
        browser.run(script)
        browser.run("new Promise((done) => setTimeout(done, 800))")
        return shot(browser)
    commands = "".join(f"<b>$ {html.escape(line)}</b>\n" for line in block.splitlines())
    text = "\n".join(line.rstrip() for line in said.splitlines())
    (folder / "terminal.html").write_text(TERMINAL.format(commands + html.escape(text)), encoding="utf-8")
    browser.size(WIDTH, HEIGHT)
    browser.open(folder / "terminal.html")
    height = browser.run("document.querySelector('pre').getBoundingClientRect().height")
    browser.size(WIDTH, min(int(height), HEIGHT))
    return shot(browser)


def shot(browser: Chromium) -> Image.Image:
    """Return what the browser shows."""
    data = base64.b64decode(browser.send("Page.captureScreenshot", format="png")["data"])
    return Image.open(io.BytesIO(data)).convert("RGB")


def save(made: Image.Image, path: Path) -> None:
    """Write a picture with as many colours as fit into 200 KB."""
    for colours in (128, 96, 64, 32):
        made.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size < MOST_BYTES:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
