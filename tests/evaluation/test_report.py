"""The parts of the report that need no picture: sentences, counting, escaping, tables."""

from __future__ import annotations

import dataclasses
import io
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_parts import parts_of_an_experiment
from shared_data import ROOT

from evaluation.base import Score, absent
from evaluation.figures.base import label
from evaluation.noise import Floor
from evaluation.report.content import Content, Input
from evaluation.report.experiment import _in_order, verdict_table
from evaluation.report.gallery import Gallery, slug
from evaluation.report.headline import headline
from evaluation.report.markup import Cell, Html, inline, table, tag
from evaluation.report.story import shown
from evaluation.report.summary_text import Bold, best, family_sentence, standings
from evaluation.report.tables import definition, family_table, score_tables
from evaluation.score import Scored, Scores, score
from tracekit import Trace
from tracekit.errors import TracekitError


def scored(name: str, **values: float) -> Scored:
    """One trace's scores: ks.* are distances; others have a real value of 0.5."""
    made = {}
    for key, value in values.items():
        key = key.replace("__", ".")
        made[key] = (
            absent("the synthetic trace has no such column")
            if np.isnan(value)
            else Score(value)
            if key.startswith("ks")
            else Score(value, "real", 0.5)
        )
    return Scored(name, 100, made)


def made_scores(*synthetic: Scored, baselines: tuple[Scored, ...] = ()) -> Scores:
    family = {"ks.mean": "marginal", "ks.run_time": "marginal", "acf1.run_time": "time", "offered_load": "load"}
    floors = {
        "ks.mean": Floor(0.1, 0.05, 0.15),
        "ks.run_time": Floor(0.1, 0.05, 0.15),
        "acf1.run_time": Floor(0.5, 0.4, 0.6),
        "offered_load": Floor(0.5, 0.45, 0.55),
    }
    switches = {"seed": 0, "quick": True, "noise_floor": "odd against even weeks of 8", "machine_note": ""}
    return Scores("made", 100, list(synthetic), list(baselines), floors, family, switches)


GOOD = {"ks__mean": 0.02, "ks__run_time": 0.03, "acf1__run_time": 0.5, "offered_load": 0.5}


def text(words: list[str]) -> str:
    return "".join(words)


# ---- ranking ---------------------------------------------------------------------------------------------------------


def test_standings_count_what_lies_within_the_noise() -> None:
    scores = made_scores(scored("a", **GOOD), scored("b", **GOOD | {"ks__mean": 0.3}))
    a, b = standings(scores, "marginal")
    assert (a.within, a.judged, b.within, b.judged) == (2, 2, 1, 2)
    assert best([a, b]) == [a]


def test_a_missing_column_counts_as_not_within() -> None:
    scores = made_scores(scored("a", **GOOD), scored("b", **GOOD | {"ks__run_time": np.nan}))
    b = standings(scores, "marginal")[1]
    assert (b.within, b.judged, b.missing) == (1, 2, 1)


def test_those_within_the_noise_everywhere_are_not_ordered() -> None:
    scores = made_scores(scored("a", **GOOD), scored("b", **GOOD | {"ks__mean": 0.14}))
    assert [one.name for one in best(standings(scores, "marginal"))] == ["a", "b"]
    assert text(family_sentence(scores, "marginal")) == "All alike: 2 of 2 within noise."


def test_below_that_the_mean_place_decides() -> None:
    scores = made_scores(
        scored("a", **GOOD | {"ks__mean": 0.3, "ks__run_time": 0.10}), scored("b", **GOOD | {"ks__mean": 0.2})
    )
    assert [one.name for one in best(standings(scores, "marginal"))] == ["b"]


def test_a_baseline_that_does_as_well_is_named() -> None:
    near, far = scored("a", **GOOD | {"ks__mean": 0.4}), scored("b", **GOOD | {"ks__mean": 0.5, "ks__run_time": 0.5})
    scores = made_scores(near, far, baselines=(scored("resample", **GOOD),))
    said = text(family_sentence(scores, "marginal"))
    assert "a: 1 of 2 within noise" in said
    assert "Trivial baseline resample: better, 2 of 2." in said
    assert "Furthest: b (0 of 2)." in said


def test_the_headline_names_winners_and_what_nobody_looked_at(real: Trace) -> None:
    scores = made_scores(scored("a", **GOOD), scored("b", **GOOD | {"acf1__run_time": 0.0}))
    said = text(headline(Content(real, {"a": real, "b": real}, scores)))
    assert "a is closest in time." in said
    assert "within the real trace's own noise everywhere: a." in said.lower()
    assert "Privacy was not measured: a plain copy would look perfect here." in said


def test_the_headline_of_one_model(real: Trace) -> None:
    scores = made_scores(scored("a", **GOOD | {"acf1__run_time": 0.0}))
    said = text(headline(Content(real, {"a": real}, scores)))
    assert said.startswith("a: 3 of 4 scores within the real trace's own noise; best in load, worst in time.")


def test_the_arm_that_all_are_compared_with_comes_first_of_many() -> None:
    arms = pd.DataFrame({"arm": ["a", "untrained", "real", "b"]})
    assert list(_in_order(arms, ["b", "a"])["arm"]) == ["real", "b", "a", "untrained"]


def test_long_names_that_begin_alike_stay_apart() -> None:
    one, other = (label(f"mypackage.models.of.many.kinds:{name}") for name in ("First", "Second"))
    assert one != other
    assert len(one) <= 24
    assert one.endswith(":First")


def test_the_headline_of_an_experiment_is_its_conclusion(real: Trace) -> None:
    scores = made_scores(scored("a", **GOOD), scored("b", **GOOD))
    content = Content(real, {"a": real, "b": real}, scores, **parts_of_an_experiment(["a", "b"]))
    assert text(headline(content)).startswith(
        "b: as good as real jobs for scheduling. a: worse for scheduling (+30 %)."
    )


# ---- escaping -------------------------------------------------------------------------------------------------------


class Parsed(HTMLParser):
    """What a browser would make of a piece: the elements, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text())
def test_no_text_can_become_an_element(name: str) -> None:
    parsed = Parsed(tag("p", name, title=name))
    assert parsed.tags == ["p"]
    shown = name.encode("utf-8", "replace").decode()
    assert parsed.text.replace("\r", "") == shown.replace("\r", "")
    assert [key for key, _ in parsed.attributes] == ["title"]


def test_html_stays_and_everything_else_is_escaped() -> None:
    assert inline(Html("<i>"), "<i>", Bold("<b>")) == "<i>&lt;i&gt;<b>&lt;b&gt;</b>"


@given(st.text())
def test_files_have_harmless_names(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9-]+", slug(name))


# ---- tables ---------------------------------------------------------------------------------------------------------


def test_a_cell_says_its_number_its_mark_and_its_interval() -> None:
    one = scored("a", **GOOD | {"ks__run_time": 0.3})
    one.scores["ks.mean"] = Score(0.02, low=0.01, high=0.03, note="over 2 columns")
    scores = made_scores(one, baselines=(scored("resample", **GOOD),))
    found = family_table(scores, "marginal", "?", ["ks.mean", "ks.run_time"])
    assert (
        '<td class="within" title="95 % interval 0.010 … 0.030; over 2 columns" data-sort="0.02">0.020 ✓</td>' in found
    )
    assert '<td data-sort="0.3">0.300 r</td>' in found  # no better than resample
    assert "0.100 [0.050, 0.150]" in found


def test_what_was_not_measured_is_listed_with_the_reason() -> None:
    scores = made_scores(scored("a", **GOOD), scored("b", **GOOD | {"ks__run_time": np.nan}))
    assert "ks.run_time: the synthetic trace has no such column (b)" in unescape(score_tables(scores))


def test_rows_below_stay_below() -> None:
    rows = [[Cell("x"), Cell("1", 1.0)], [Cell("base"), Cell("–")]]
    found = table("c", ["name", "value"], rows, foot=1)
    assert found.index("x</th>") < found.index('<tbody class="fixed">') < found.index("base</th>")
    assert "<td>–</td>" in found  # nothing to sort by


def test_every_contract_key_has_a_definition() -> None:
    keys = "ks.run_time ks.mean acf1.procs idc.60 hour_of_week.tv validity.share offered_load privacy.exact_copies "
    for key in (keys + "scheduling.kendall_tau hurst user_repeat correlation.mad_pearson").split():
        assert definition(key), key


# ---- content and size -----------------------------------------------------------------------------------------------


def test_content_refuses_what_does_not_fit_together(real: Trace) -> None:
    scores = made_scores(scored("a", **GOOD))
    with pytest.raises(TracekitError, match="do not match"):
        Content(real, {"b": real}, scores)
    with pytest.raises(TracekitError, match="no column 'seconds'"):
        Content(real, {"a": real}, scores, costs=pd.DataFrame({"model": ["a"], "step": ["fit"]}))
    with pytest.raises(TracekitError, match="superb"):
        Content(real, {"a": real}, scores, verdicts=[{"model": "a", "verdict": "superb"}])


def test_inputs_carry_the_hash_of_the_file(tmp_path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    found = Input.of(tmp_path / "x", "x", 3)
    assert found.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of "abc": FIPS 180-2
    assert Input.of(tmp_path, "folder", 3).sha256 == ""


def test_figures_that_would_make_the_page_too_large_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    from evaluation.figures.base import Drawing
    from evaluation.report import gallery

    monkeypatch.setattr(gallery, "MAX_BYTES", 6_000)
    hang = Gallery()
    drawing = Drawing(Figure(), pd.DataFrame({"x": np.arange(1000)}), "words")
    first, second = (hang(caption, caption, lambda: drawing) for caption in ("one", "two"))
    assert "<figure" in first
    assert "<figure" not in second
    assert "below 8 MB" in second
    assert hang.left_out == ["two"]


def test_scores_survive_a_round_trip_through_json(real: Trace) -> None:
    scores = made_scores(scored("a", **GOOD | {"ks__run_time": np.nan}), baselines=(scored("resample", **GOOD),))
    again = Scores.from_dict(scores.to_dict())
    assert again.to_dict() == scores.to_dict()
    assert dataclasses.replace(again, synthetic=[], baselines=[]) == dataclasses.replace(
        scores, synthetic=[], baselines=[]
    )


# ---- colours --------------------------------------------------------------------------------------------------------


def _luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(first: str, second: str) -> float:
    light, dark = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_its_ground(theme: str) -> None:
    """WCAG 2.1, success criterion 1.4.3: at least 4.5 to 1."""
    css = (ROOT / "evaluation" / "report" / "page.css").read_text()
    block = css[css.index(":root {") :] if theme == "light" else css[css.index(':root[data-theme="dark"]') :]
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block[: block.index("}")]))
    for ink in ("ink", "quiet", "accent", "good", "bad"):
        for ground in ("paper", "card"):
            assert _contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    assert _contrast(colours["ink"], colours["fill"]) >= 4.5


def test_no_label_of_the_scores_to_trust_is_clipped() -> None:
    from evaluation.figures.agents import trusted

    keys = ["scheduling.matched.kendall_tau", "correlation.mad_spearman", "ks.mean"]
    figure = trusted(pd.DataFrame({"key": keys, "rho": [0.9, 0.5, -0.2], "low": np.nan, "high": np.nan})).figure
    figure.savefig(io.BytesIO(), format="png", dpi="figure")  # lays the figure out
    axis = figure.axes[0]
    assert [text.get_text() for text in axis.get_yticklabels()] == keys
    for text in (axis.xaxis.label, *axis.get_yticklabels()):
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1


def test_the_pictures_show_a_trace_that_passes_or_the_least_bad_one(real: Trace) -> None:
    part = real.head(200)
    scores = score(part, [part, part], quick=True, families=["marginal"], names=["real", "a", "b"])
    uses = [{"learner": "x", "use": "predicting"}, {"learner": "y", "use": "forecasting"}]

    def found(**outcomes: tuple[str, str]) -> tuple[str, list[str]]:
        rows = [
            {"model": model, "learner": use["learner"], "verdict": verdict}
            for model, verdicts in outcomes.items()
            for use, verdict in zip(uses, verdicts, strict=True)
        ]
        return shown(Content(part, {"a": part, "b": part}, scores, verdicts=rows, uses=uses))

    assert found(a=("equivalent", "worse"), b=("undecided", "equivalent")) == ("b", ["forecasting"])
    assert found(a=("worse", "worse"), b=("worse", "equivalent")) == ("b", [])
    assert found(a=("equivalent", "better"), b=("equivalent", "better")) == ("a", ["predicting", "forecasting"])


def test_what_is_good_enough_is_not_called_undecided() -> None:
    row = {"model": "a", "difference": -0.03, "low": -0.07, "high": 0.02, "sentence": "", "good_enough": True}
    rows = [row | {"verdict": "undecided"}, row | {"verdict": "undecided", "good_enough": False, "model": "b"}]
    page = str(verdict_table("", rows))
    assert page.count("good enough") == 1
    assert page.index("good enough") < page.index("undecided")
    blind = str(verdict_table("", [row | {"verdict": "undecided", "sensitive": False}]))
    assert "good enough" not in blind
