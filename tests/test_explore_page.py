"""The explorer's page in a real browser, where one is installed: numbers, filters, keyboard, saving, hostile labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from headless import Chromium, executable

import tracekit
from tracekit import Machine, Trace
from tracekit.explore import Source, write
from tracekit.explore import jobs as singles

pytestmark = pytest.mark.skipif(executable() is None, reason="no Chromium is installed")
HOSTILE = "</script><img src=x onerror='window.hacked=1'>\"&=1+1"
BOX = "(() => { const b = %s.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
AREA = (
    "(() => { const c = scene.parts[%d].spread().%s; return c.reduce((a, b) => a + b, 0) * columnSeconds(scene); })()"
)
READY = (
    "new Promise((done) => { const look = () => performance.getEntriesByName('tracekit-ready').length || "
    "document.getElementById('message').textContent.startsWith('This page') ? done() : setTimeout(look, 20); look(); })"
)


@pytest.fixture(scope="module")
def trace() -> Trace:
    made = tracekit.sample().head(1200)
    users = made.jobs["user"].astype(str).to_numpy()
    return made.assign({"user": np.where(users == users[0], HOSTILE, users)})


@pytest.fixture(scope="module")
def sources(trace: Trace) -> list[Source]:
    results = {name: tracekit.simulate(trace, name) for name in ("fcfs", "sjf")}
    return [Source.of_schedule(name, result.schedule(), trace) for name, result in results.items()]


@pytest.fixture(scope="module")
def path(sources: list[Source], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("explore") / "page.html"
    write(sources, place, title=HOSTILE)
    return place


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    browser = Chromium(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


def opened(browser: Chromium, path: Path, width: int = 1280, height: int = 800, scheme: str = "light") -> Chromium:
    browser.size(width, height)
    browser.media(scheme=scheme)
    browser.open(path)
    browser.run(READY)
    return browser


@pytest.fixture
def browser(chromium: Chromium, path: Path) -> Chromium:
    return opened(chromium, path)


def jobs(browser: Chromium) -> list[int]:
    """The numbers of selected jobs that the page shows."""
    cells = browser.run("[...document.querySelectorAll('#numbers tbody tr')].map((row) => row.cells[1].textContent)")
    return [int(cell.replace(",", "")) for cell in cells]


def test_it_opens_without_complaint_and_labels_are_text(browser: Chromium) -> None:
    assert browser.complaints() == []
    assert browser.run("window.hacked") is None
    assert browser.run("document.querySelectorAll('img, iframe').length") == 0
    assert browser.run("document.querySelector('h1').textContent") == HOSTILE
    labels = browser.run("[...document.querySelectorAll('#classes button')].map((button) => button.textContent)")
    assert HOSTILE in labels
    assert jobs(browser) == [1200, 1200]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_it_fits_the_screen_and_every_view_is_drawn(chromium: Chromium, path: Path, width: int, scheme: str) -> None:
    browser = opened(chromium, path, width, 800, scheme)
    assert browser.run("document.documentElement.scrollWidth") <= width
    drawn = browser.run(
        "(() => { for (const view of cards.keys()) redraw(view); return [...cards].map(([view, card]) => [view.id, "
        "new Set(new Uint32Array(card.canvas.getContext('2d').getImageData(0, 0, card.canvas.width, card.canvas.height)"
        ".data.buffer)).size, card.stage.hidden]); })()"
    )
    blank = [view for view, colours, hidden in drawn if colours < 4 and not hidden]
    assert blank == []
    assert [view for view, _, hidden in drawn if hidden] == []
    dark = browser.run("look.dark")
    assert dark == (scheme == "dark")
    assert browser.complaints() == []


def test_a_class_filters_everything(browser: Chromium, sources: list[Source]) -> None:
    facts = browser.run("({user: scene.facts.user.names, lengths: scene.facts.run.names})")
    user = facts["user"].index(HOSTILE)
    browser.run(f"document.querySelector('#classes [data-dimension=user][data-value=\"{user}\"]').click()")
    one = sources[0]
    mine = (one.trace.jobs["user"] == HOSTILE).to_numpy()
    assert jobs(browser) == [mine.sum(), mine.sum()]
    hours = browser.run("Array.from(scene.parts[0].found.hours)")
    assert sum(hours) == mine.sum()
    short = mine & (one.run <= 60)
    browser.run("document.querySelector('#classes [data-dimension=lengths][data-value=\"0\"]').click()")
    assert jobs(browser)[0] == short.sum()
    chips = browser.run("document.getElementById('chips').textContent")
    assert "≤ 1 min" in chips
    used = browser.run(AREA % (0, "used"))
    assert used == pytest.approx((one.run * one.size)[short].sum(), rel=1e-3)
    waiting = browser.run(AREA % (0, "waiting"))
    assert waiting == pytest.approx(one.wait[short].sum(), rel=1e-2)
    assert browser.run("window.hacked") is None


def test_dragging_over_the_overview_chooses_a_range_of_time(browser: Chromium, sources: list[Source]) -> None:
    left, top, width, height = browser.run(BOX % "document.getElementById('overview')")
    for kind, place in (("mousePressed", 0.25), ("mouseMoved", 0.4), ("mouseMoved", 0.5), ("mouseReleased", 0.5)):
        browser.send(
            "Input.dispatchMouseEvent", type=kind, x=left + width * place, y=top + height / 2, button="left", buttons=1
        )
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    begin, end = browser.run("[scene.selection.from, scene.selection.to].map((q) => q * scene.facts.axis.width)")
    submit = sources[0].submit - sources[0].submit[0]
    expected = int(((submit >= begin) & (submit < end)).sum())
    assert 0 < jobs(browser)[0] < 1200
    assert abs(jobs(browser)[0] - expected) <= 2  # jobs at the edge of a quantum


def test_a_drag_in_the_heat_chooses_sizes_and_run_times(browser: Chromium) -> None:
    browser.run(
        "document.getElementById('view-sizes-run-times').scrollIntoView({behavior: 'instant', block: 'center'})"
    )
    left, top, _, _ = browser.run(BOX % "document.querySelector('#view-sizes-run-times canvas')")
    for kind, x, y in (
        ("mousePressed", 60, 100),
        ("mouseMoved", 90, 180),
        ("mouseMoved", 120, 220),
        ("mouseReleased", 120, 220),
    ):
        browser.send("Input.dispatchMouseEvent", type=kind, x=left + x, y=top + y, button="left", buttons=1)
    assert browser.run("scene.selection.dims.runBins !== null && scene.selection.dims.sizeBins !== null")
    assert jobs(browser)[0] < 1200


def test_the_keyboard_reaches_everything(browser: Chromium) -> None:
    browser.run("document.getElementById('overview').focus()")
    browser.press("+")
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    zoomed = jobs(browser)[0]
    assert zoomed < 1200
    browser.press("ArrowRight")
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert not browser.run("scene.selection.whole")
    browser.press("Escape")
    assert jobs(browser)[0] == 1200
    browser.run("document.querySelector('#view-status canvas').scrollIntoView({behavior: 'instant', block: 'center'})")
    browser.run("document.querySelector('#view-status canvas').focus(); redraw(statusView)")
    browser.press("ArrowRight")
    assert "of the jobs" in browser.run("document.getElementById('live').textContent")
    browser.press("Enter")
    assert browser.run("scene.selection.dims.status.size") == 1
    assert jobs(browser)[0] < 1200
    browser.press("Escape")
    assert jobs(browser)[0] == 1200
    focusable = browser.run(
        "[...document.querySelectorAll('canvas, button, select, input')].filter((one) => one.tabIndex < 0).length"
    )
    assert focusable == 0
    unnamed = browser.run(
        "[...document.querySelectorAll('canvas, button, select, input')].filter((one) => "
        "!(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length)).length"
    )
    assert unnamed == 0


def test_a_job_is_found_and_explained_in_both_schedules(browser: Chromium, sources: list[Source]) -> None:
    waited = int(sources[0].trace.column("job_id")[np.argmax(sources[0].wait)])
    browser.run(f"document.getElementById('job').value = '{waited}'; document.getElementById('find').requestSubmit()")
    cards = browser.run("[...document.querySelectorAll('#about-job article')].map((card) => card.textContent)")
    assert len(cards) == 2
    rows = [int(np.flatnonzero(one.trace.column("job_id") == waited)[0]) for one in sources]
    for card, one, row in zip(cards, sources, rows, strict=True):
        assert singles.reasons(one, np.array([row]))[0] in card
    assert not browser.run("scene.selection.whole")
    browser.run("document.getElementById('job').value = '987654321'; document.getElementById('find').requestSubmit()")
    assert "--window" in browser.run("document.getElementById('about-job').textContent")


def test_every_view_is_saved_as_svg_png_and_csv(browser: Chromium) -> None:
    views = browser.run("[...cards.keys()].map((view) => view.id)")
    assert len(views) == len(set(views)) == 24
    made = browser.run(
        "Promise.all([...cards.keys()].map(async (view) => [view.id, await (await makers.svg(view, scene)).text(), "
        "(await makers.png(view, scene)).size, await (await makers.csv(view, scene)).text()]))"
    )
    for view, svg, size, csv in made:
        root = ElementTree.fromstring(svg)
        assert len(list(root)) > 5, view
        assert size > 1500, view
        lines = csv.splitlines()
        assert len(lines) > 2, view
    users = next(csv for view, _, _, csv in made if view == "users")
    assert '"' + HOSTILE.replace('"', '""') + '"' in users
    saved = browser.saved("document.querySelector('#view-arrivals .get button:last-child').click()")
    assert saved.decode().startswith("from,fcfs: jobs an hour,sjf: jobs an hour")


def test_curves_of_the_use_are_exact_and_shared(browser: Chromium, sources: list[Source]) -> None:
    for k, one in enumerate(sources):
        used = browser.run(AREA % (k, "used"))
        assert used == pytest.approx((one.run * one.size).sum(), rel=0.02)
    browser.run("$('second').value = '-1'; $('second').dispatchEvent(new Event('change'))")
    assert jobs(browser) == [1200]


def test_a_trace_that_knows_little_shows_what_it_can(chromium: Chromium, tmp_path: Path) -> None:
    bare = pd.DataFrame({"job_id": [1, 2, 3], "submit_time": [0.0, 50.0, 90.0], "run_time": [10.0, 20.0, 5.0]})
    bare["req_procs"] = 1
    write([Source.of_trace("bare", Trace(bare, Machine()))], tmp_path / "bare.html")
    browser = opened(chromium, tmp_path / "bare.html")
    assert browser.complaints() == []
    hidden = browser.run("[...cards].filter(([, card]) => card.stage.hidden).map(([view]) => view.id)")
    assert {"queue-length", "waits-sizes", "status", "users", "repeats", "queues", "cdf-wait"} <= set(hidden)
    assert not {"arrivals", "utilisation", "hours", "cdf-run-time", "gantt"} & set(hidden)
    assert jobs(browser) == [3]
    assert "Not drawn" in browser.run("document.querySelector('#view-users .absent').textContent")


def test_classes_of_merged_cells_are_exact(
    chromium: Chromium, sources: list[Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracekit.explore import page as pages

    monkeypatch.setattr(pages, "MOST_ROWS", 1)  # the coarsest level
    monkeypatch.setattr(singles, "FEW", 10)
    one = sources[0]
    made = write([one], tmp_path / "coarse.html")
    assert made.sources[0]["rows"] < 1200
    browser = opened(chromium, tmp_path / "coarse.html")
    for k, high in enumerate((60, 600, 3600)):
        low = (-1, 60, 600)[k]
        browser.run(f"scene.selection.clear(); scene.selection.toggle('lengths', {k}); update()")
        assert jobs(browser)[0] == int(((one.run > low) & (one.run <= high)).sum())
    browser.run("scene.selection.clear(); update()")
    whole = browser.run(AREA % (0, "used"))
    assert whole == pytest.approx((one.run * one.size).sum(), rel=0.01)  # the use of all jobs is exact at every level
