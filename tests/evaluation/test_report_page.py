"""The whole page: what is in it, and how it behaves in a real browser where one is installed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from headless import Chromium, executable
from report_parts import HOSTILE, LONG, parts_of_an_experiment

from evaluation.report import Content, Input, write
from evaluation.score import score
from tracekit import Trace
from tracekit.errors import TracekitError

MODELS = [HOSTILE, LONG]


@pytest.fixture(scope="module")
def content(real: Trace, damage: dict[str, Any]) -> Content:
    """Two models, one with a name that means harm and one with a name that does not end; an experiment's parts."""
    part, aside = real.head(900), real.take(slice(900, 1500))
    traces = {HOSTILE: damage["load"](part), LONG: damage["order"](part)}
    scores = score(part, list(traces.values()), holdout=aside, quick=True, names=["made", *traces])
    inputs = [Input("made", "0" * 64, 900)]
    return Content(part, traces, scores, inputs=inputs, seeds={"scores": 0}, **parts_of_an_experiment(MODELS))


@pytest.fixture(scope="module")
def path(content: Content, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("report") / "report.html"
    write(content, made)
    return made


class Outline(HTMLParser):
    """Elements with their attributes, and the text of the page outside scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def outline(path: Path) -> Outline:
    return Outline(path.read_text())


# ---- what is in it --------------------------------------------------------------------------------------------------


def test_it_is_one_file_that_asks_for_nothing(path: Path, outline: Outline) -> None:
    text = path.read_text()
    assert path.stat().st_size < 8_000_000
    assert "default-src 'none'" in text
    assert not outline.all("iframe")
    for tag, attributes in outline.elements:
        for name in ("src", "href", "xlink:href", "action"):
            target = attributes.get(name)
            assert target is None or target.startswith(("#", "data:")), (tag, target)
    assert not re.findall(r"@import|url\((?!#)", re.sub(r"data:[^)\"]+", "", text))


def test_the_scores_lie_beside_it(path: Path, content: Content) -> None:
    found = json.loads(path.with_suffix(".json").read_text())
    sharing = found.pop("sharing")
    assert found == json.loads(json.dumps(content.scores.to_dict()))
    assert [one["name"] for one in sharing] == list(content.synthetic)


def test_names_are_text_and_never_markup(path: Path, outline: Outline) -> None:
    assert "<script>window" not in path.read_text()
    assert "<img" not in path.read_text()
    assert outline.text.count(HOSTILE) >= 3
    assert len(outline.all("script")) == 1


def test_ids_are_unique_and_references_lead_somewhere(outline: Outline) -> None:
    ids = Counter(attributes["id"] for _, attributes in outline.elements if "id" in attributes)
    assert [ident for ident, count in ids.items() if count > 1] == []
    for _, attributes in outline.elements:
        for name in ("aria-controls", "aria-labelledby", "href", "xlink:href"):
            target = attributes.get(name)
            if target and not target.startswith("data:"):
                assert target.removeprefix("#") in ids, target


def test_readers_of_screens_find_their_way(outline: Outline) -> None:
    assert outline.all("html")[0]["lang"] == "en"
    assert len(outline.all("main")) == len(outline.all("nav")) == len(outline.all("h1")) == 1
    levels = [int(tag[1]) for tag, _ in outline.elements if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels)), levels
    assert len(outline.all("table")) == len(outline.all("caption"))
    pictures = outline.all("svg")
    assert len(pictures) > 20
    assert all(picture["role"] == "img" and len(picture["aria-label"] or "") > 30 for picture in pictures)


def test_every_part_is_there(outline: Outline, path: Path) -> None:
    ids = {attributes.get("id") for _, attributes in outline.elements}
    assert {"overview", "story", "agents", "scores", "privacy", "models", "cost", "definitions", "provenance"} <= ids
    names = {str(attributes["data-name"]).split("-")[0] for attributes in outline.all("figure")}
    assert {"cdf", "pearson", "associations", "hours", "autocorrelation", "dispersion", "rankings", "queue", "gantt",
            "verdicts", "learning", "loads", "paired", "trust", "privacy", "cost", "story"} <= names  # fmt: skip
    for words in ("ctgan failed: ", "diverged", "out of memory", "yes (damaged jobs: +40 %)", "0" * 64, "a note"):
        assert words in outline.text, words


def test_what_a_trace_lacks_is_said_twice_in_the_same_bytes(real: Trace, tmp_path: Path) -> None:
    part = real.head(300)
    bare = part.replace(
        jobs=part.jobs[["job_id", "submit_time", "run_time", "req_procs"]], machine=part.machine.replace(epoch=None)
    )
    scores = score(bare, bare, quick=True, families=["marginal", "time"], names=["bare", "copy"])
    for name in ("r.html", "again.html"):
        write(Content(bare, {"copy": bare}, scores), tmp_path / name)
    assert (tmp_path / "r.html").read_bytes() == (tmp_path / "again.html").read_bytes()
    found = Outline((tmp_path / "r.html").read_text()).text
    assert "The real trace has no limits, no users, no queues, no statuses" in found
    assert "Jobs by hour of the week: not drawn, the real trace has no calendar" in found
    assert "Unknown: the traces were read from files" in found
    assert "Privacy was not measured" in found


def test_sizes_may_be_missing_too(real: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be scheduled then; the page is drawn all the same."""
    monkeypatch.setattr("evaluation.report.markup.svg", lambda figure, prefix, words: "<svg></svg>")
    part = real.head(120)
    none = part.assign({"req_procs": np.full(120, np.nan), "req_nodes": np.full(120, np.nan)})
    scores = score(none, none, quick=True, families=["marginal"], baselines=False, names=["none", "copy"])
    write(Content(none, {"copy": none}, scores), tmp_path / "r.html")
    assert "not drawn, fewer than 40 jobs that a scheduler could run" in Outline((tmp_path / "r.html").read_text()).text


def test_nothing_is_overwritten_and_no_half_page_is_left(content: Content, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("mine")
    with pytest.raises(TracekitError, match="exists already"):
        write(content, tmp_path / "r.html")
    assert (tmp_path / "r.json").read_text() == "mine"
    assert not (tmp_path / "r.html").exists()
    for target, message in ((tmp_path / "x.json", "a report is HTML"), ("-", "standard output")):
        with pytest.raises(TracekitError, match=message):
            write(content, target)


# ---- how it behaves in a browser ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    if executable() is None:
        pytest.skip("no Chromium is installed: the page was not tried in a browser")
    made = Chromium(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


@pytest.fixture
def page(browser: Chromium, path: Path) -> Iterator[Chromium]:
    """The page, freshly opened; at the end it must have been silent and asked for nothing."""
    browser.size(1366, 768)
    browser.media()
    browser.open(path)
    yield browser
    assert browser.complaints() == []


SHOWN = "[...document.querySelectorAll('#models [role=tabpanel]')].filter((p) => p.offsetParent).map((p) => p.id)"
CHOSEN = "document.querySelector('#models [role=tab][aria-selected=true]')"


def test_a_complaint_would_be_noticed(browser: Chromium, tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text("<!doctype html><img src='missing.png'><script>console.error('ouch')</script>")
    browser.open(tmp_path / "bad.html")
    found = " ".join(browser.complaints())
    assert "ouch" in found
    assert "missing.png" in found


def test_tabs_switch_by_click_and_key(page: Chromium) -> None:
    assert page.run(SHOWN) == ["all-models"]
    page.run("document.getElementById('tab-model-1').click()")
    assert page.run(SHOWN) == ["model-1"]
    assert page.run(f"{CHOSEN}.id") == "tab-model-1"
    page.press("ArrowRight")  # round to the first
    assert page.run(SHOWN) == ["all-models"]
    page.press("End")
    assert page.run(SHOWN) == ["model-1"]
    page.press("ArrowLeft")
    assert page.run(SHOWN) == ["model-0"]
    assert page.run("document.activeElement.id") == "tab-model-0"
    assert page.run("[...document.querySelectorAll('#models [role=tab]')].map((t) => t.tabIndex)") == [-1, 0, -1]


def test_a_models_name_in_the_first_table_opens_its_tab(page: Chromium) -> None:
    page.run("[...document.querySelectorAll('.matrix a')].at(-1).click()")
    page.run("new Promise((done) => setTimeout(done, 50))")
    assert page.run(SHOWN) == ["model-1"]


def test_tables_sort_both_ways_and_keep_the_baselines_below(page: Chromium) -> None:
    table = "[...document.querySelectorAll('#scores-time tbody:first-of-type tr')]"
    values = f"{table}.map((r) => r.cells[2].dataset.sort).map((v) => v === undefined ? null : Number(v))"
    head = "document.querySelectorAll('#scores-time thead button')[2].click()"
    page.run(head)
    up = page.run(values)
    known = [value for value in up if value is not None]
    assert len(known) > 5
    assert up == sorted(known) + [None] * (len(up) - len(known))
    page.run(head)
    assert page.run(values) == sorted(known, reverse=True) + [None] * (len(up) - len(known))
    assert page.run("document.querySelectorAll('#scores-time thead th')[2].ariaSort") == "descending"
    names = "[...document.querySelectorAll('.matrix tbody tr')].map((r) => r.cells[0].textContent)"
    page.run("document.querySelector('.matrix thead button').click()")
    assert page.run(names)[-2:] == ["resample (baseline)", "independent (baseline)"]


def test_figures_can_be_saved(page: Chromium, content: Content) -> None:
    click = "document.querySelector('figure[data-name=\"cdf-run-time-all\"] [data-get={}]').click()"
    table = page.saved(click.format("csv")).decode()
    assert table.startswith("trace,run_time,share_at_or_below\nreal,")
    assert HOSTILE.replace('"', '""') in table
    drawn = page.saved(click.format("svg")).decode()
    assert "var(" not in drawn
    root = ElementTree.fromstring(drawn)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert float(root.attrib["width"]) > 100
    picture = page.saved(click.format("png"))
    assert picture.startswith(b"\x89PNG")
    width = int.from_bytes(picture[16:20], "big")
    assert width == pytest.approx(2.5 * float(root.attrib["width"]), abs=2)


def test_a_gantt_chart_can_be_saved_although_part_of_it_is_an_image(page: Chromium) -> None:
    assert page.saved("document.querySelector('figure[data-name^=gantt] [data-get=png]').click()").startswith(
        b"\x89PNG"
    )


def test_a_name_that_means_harm_does_none(page: Chromium) -> None:
    assert page.run("typeof window.hacked") == "undefined"
    assert page.run("document.querySelector('.matrix a').textContent") == HOSTILE


def test_dark_and_light(page: Chromium) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('figure svg text')).fill"
    assert page.run(ground) == "rgb(255, 255, 255)"
    bright = page.run(ink)
    page.media(scheme="dark")
    assert page.run(ground) == "rgb(18, 22, 27)"
    assert page.run(ink) != bright
    page.run("document.querySelector('.theme').click()")  # auto → light, against the system
    assert page.run(ground) == "rgb(255, 255, 255)"
    page.run("document.querySelector('.theme').click()")
    page.media(scheme="light")
    assert page.run(ground) == "rgb(18, 22, 27)"
    page.media(kind="print")
    assert page.run(ground) == "rgb(255, 255, 255)"  # paper is light
    page.run("localStorage.clear()")


def test_paper_shows_every_panel(page: Chromium) -> None:
    page.media(kind="print")
    assert page.run(SHOWN) == ["all-models", "model-0", "model-1"]
    assert page.run("getComputedStyle(document.querySelector('.bar')).display") == "none"


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (390, 844)])
def test_the_window_never_scrolls_sideways(page: Chromium, width: int, height: int) -> None:
    page.size(width, height)
    for panel in ("all-models", "model-0"):
        page.run(f"document.getElementById('tab-{panel}').click()")
        assert page.run("document.documentElement.scrollWidth") <= width


def test_the_first_screen_says_it_all(page: Chromium) -> None:
    """On a laptop, the outcome, the verdicts and the best models per score need no scrolling."""
    for part in ("h1", ".lead", ".verdicts", ".matrix"):
        bottom = page.run(f"document.querySelector('{part}').getBoundingClientRect().bottom")
        assert 0 < bottom <= 768, (part, bottom)
