from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from evaluation import figures
from evaluation.table import distinct, number
from tracekit import Trace
from tracekit.errors import TracekitError

FAST = ("--quick", "--families", "marginal,time,validity,load,privacy")


@pytest.fixture
def files(real: Trace, damage, tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "real.swf", tmp_path / "made_order.swf"
    real.head(900).save(paths[0])
    damage["order"](real.head(900)).save(paths[1])
    return paths


def test_json_is_one_object(run, files) -> None:
    code, out, err = run("score", *files, *FAST, "--json")
    assert code == 0
    assert err == ""
    found = json.loads(out)
    assert found["real"]["name"] == "real"
    assert found["synthetic"][0]["name"] == "made_order"
    scores = found["synthetic"][0]["scores"]
    assert scores["ks.run_time"]["value"] == 0
    assert scores["privacy.dcr_ratio"]["value"] is None
    assert "--holdout" in scores["privacy.dcr_ratio"]["note"]


def test_the_table_fits_120_columns(run, files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    code, out, _ = run("score", files[0], files[1], *FAST)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 120
    line = next(row for row in out.splitlines() if "acf1.run_time" in row)
    assert "…" not in line
    assert "✓" in next(row for row in out.splitlines() if "ks.run_time" in row)
    assert "needs --holdout" in " ".join(out.split())


def test_holdout_gives_privacy_scores(run, files) -> None:
    code, out, _ = run("score", *files, "--holdout", files[0], "--quick", "--families", "privacy", "--json")
    assert code == 0
    assert json.loads(out)["synthetic"][0]["scores"]["privacy.exact_copies"]["value"] == 1


def test_metrics_are_listed(run) -> None:
    code, out, _ = run("metrics", "--json")
    assert code == 0
    assert {"ks", "c2st", "scheduling"} <= {row["name"] for row in json.loads(out)["metrics"]}
    assert run("metrics")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--preset", "postre"), 2, "did you mean poster"),
        (("--families", "tiem"), 2, "did you mean time"),
        (("--holdout", "missing.swf"), 1, "no such file"),
    ],
)
def test_mistakes_have_one_line_and_a_code(run, files, arguments: tuple[str, ...], code: int, message: str) -> None:
    found, _, err = run("score", *files, *arguments)
    assert found == code
    assert message in err


def test_names_lose_what_all_share() -> None:
    assert distinct(["data_gc_theta", "data_tvae_theta"]) == {"data_gc_theta": "gc", "data_tvae_theta": "tvae"}
    assert distinct(["ctgan", "copulagan"]) == {"ctgan": "ctgan", "copulagan": "copulagan"}
    assert distinct(["only"]) == {"only": "only"}
    assert number(float("nan")) == ""


def drawn(figure: Figure) -> int:
    """Draw the figure for real; return how many panels it has."""
    figure.canvas.draw()  # type: ignore[attr-defined]
    return len(figure.axes)


def test_every_figure_is_drawn(real: Trace, damage) -> None:
    part = real.head(900)
    others = {"order": damage["order"](part), "load": damage["load"](part)}
    assert drawn(figures.cdf_overlays(part, others)) == 5
    assert drawn(figures.autocorrelation_curves(part, others)) == 4
    assert drawn(figures.dispersion_curves(part, others)) == 1
    assert drawn(figures.hour_of_week_heatmaps(part, others)) == 4
    for kind in ("pearson", "spearman", "association"):
        assert drawn(figures.correlation_heatmaps(part, others["order"], kind)) == 4
    assert drawn(figures.ranking_slopes(part, others["order"])) == 1


def test_figures_that_cannot_be_drawn_say_why(real: Trace) -> None:
    bare = real.replace(machine=real.machine.replace(epoch=None))
    with pytest.raises(TracekitError, match="no calendar"):
        figures.hour_of_week_heatmaps(bare, {"a": bare})
    with pytest.raises(TracekitError, match="at least one synthetic"):
        figures.cdf_overlays(real, {})
    flat = real.assign({"run_time": np.ones(len(real))}).assign({"req_time": np.ones(len(real))})
    flat = flat.assign({"req_nodes": np.ones(len(real))}).assign({"req_procs": np.ones(len(real))})
    with pytest.raises(TracekitError, match="two columns"):
        figures.correlation_heatmaps(flat, flat)
