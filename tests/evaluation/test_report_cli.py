"""`tracekit report`: traces or a folder in, two files out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evaluation.report import content_of
from evaluation.score import Scores, score
from tracekit import Trace
from tracekit.errors import TracekitError

COLUMNS = ["kind", "arm", "model", "seed", "agent_seed", "load", "window", "key", "value", "note"]


@pytest.fixture(autouse=True)
def _no_ink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are composed but not turned into SVG, which is most of the work and tested elsewhere."""
    monkeypatch.setattr("evaluation.report.markup.svg", lambda figure, prefix, words: "<svg></svg>")


@pytest.fixture
def files(real: Trace, damage: dict[str, Any], tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "real.swf", tmp_path / "made.swf"
    real.head(200).save(paths[0])
    damage["order"](real.head(200)).save(paths[1])
    return paths


def test_a_report_of_two_traces(run, files, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    code, out, _ = run("report", *files, "--quick", "--title", "A <title>", "-o", page, "--json")
    assert code == 0
    assert json.loads(out) == {
        "report": str(page),
        "scores": str(page.with_suffix(".json")),
        "bytes": page.stat().st_size,
    }
    assert "<h1>A &lt;title&gt;</h1>" in page.read_text()
    assert "tracekit report real.swf made.swf --quick" in page.read_text()
    found = json.loads(page.with_suffix(".json").read_text())
    assert found["synthetic"][0]["name"] == "made"
    before = page.read_bytes()
    code, _, err = run("report", *files, "--quick", "-o", page)
    assert (code, page.read_bytes()) == (1, before)
    assert "exists already" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["real.swf", "-o", "x.html"], 2, "one trace"),
        ([".", "-o", "x.html"], 2, "folder RUN"),
        (["real.swf", "made.swf"], 2, ""),
        (["real.swf", "made.swf", "-o", "x.html", "--preset", "postre"], 2, "did you mean poster"),
        (["real.swf", "gone.swf", "-o", "x.html"], 1, "no such file"),
        (["real.swf", "made.swf", "-o", "gone/x.html"], 1, "does not exist"),
        (["real.swf", "made.swf", "-o", "x.json"], 1, "a report is HTML"),
        (["real.swf", "made.swf", "made.swf", "-o", "x.html"], 2, "given twice"),
    ],
)
def test_mistakes_have_one_line_and_a_code(
    run, files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found, _, err = run("report", *arguments)
    assert found == code, err
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "x.html").exists()


# ---- an experiment's folder -----------------------------------------------------------------------------------------


@pytest.fixture
def folder(real: Trace, damage: dict[str, Any], tmp_path: Path) -> Path:
    """What an experiment leaves, as small as it gets: one model, one baseline, one that failed. Numbers are made up."""
    run = tmp_path / "RUN"
    (run / "data").mkdir(parents=True)
    part = real.head(200)
    part.save(run / "data" / "train.parquet")
    traces = {"order": damage["order"](part), "resample": damage["users"](part)}
    for k, (name, trace) in enumerate(traces.items()):
        trace.save(run / f"{name}.parquet")
        scores = score(
            part, [trace, part], quick=True, families=["marginal"], baselines=False, floor=k == 0,
            names=["real", f"{name} 0", f"{name} 1"],
        )  # fmt: skip
        (run / f"{name}.json").write_text(json.dumps(scores.to_dict()))
    about = {
        "command": "tracekit experiment real.swf",
        "real": {"name": "real", "path": "real.swf", "sha256": "ab" * 32, "jobs": 200},
        "models": [{"name": "order", "baseline": False}, {"name": "tvae", "baseline": False},
                   {"name": "resample", "baseline": True}],
        "windows": [{"window": 0, "start": 0, "jobs": 50}],
        "loads": ["real"],
        "plan": {"agents": {"seeds": 2}},
        "versions": {"tracekit": "0"},
        "seed": 7,
        "files": {
            "traces": {"order": ["order.parquet"], "resample": ["resample.parquet"]},
            "scores": {"order": "order.json", "resample": "resample.json", "noise_floor": "order.json"},
        },
        "failures": [{"model": "tvae", "task": "fit tvae", "reason": "diverged"}] * 2,
    }  # fmt: skip
    verdict = {
        "metric": "mean_bsld",
        "margin": 0.05,
        "learner": "ppo",
        "verdicts": [
            {
                "model": "order",
                "verdict": "worse",
                "difference": 0.2,
                "low": 0.1,
                "high": 0.3,
                "sentence": "worse by 20 %",
            },
            {
                "model": "tvae",
                "verdict": "failed",
                "difference": None,
                "low": None,
                "high": None,
                "sentence": "failed: x",
            },
        ],
        "baselines": [],
        "controls": [],
        "arms": [],
        "scarce": [],
        "learners": [
            {
                "learner": "ppo",
                "use": "scheduling",
                "metric": "mean_bsld",
                "margin": 0.05,
                "sensitive": True,
                "sentence": "yes",
                "heuristics": [],
                "predictors": [{"key": "ks.mean", "rho": None, "low": None, "high": None, "n": 2, "note": "too few"}],
                "predictors_note": "too few",
            }
        ],
        "headline": "order is 20 % worse for scheduling.",
        "conclusion": "order: worse for scheduling (+20 %).",
    }
    for row in verdict["verdicts"]:
        row |= {"learner": "ppo", "use": "scheduling", "sensitive": True}
    rows = [
        ("agent", arm, model, pd.NA, 0, "real", window, "mean_bsld", 10.0 + window, "")
        for arm, model in (("real", ""), ("model", "order"), ("scarce+model", "order"))
        for window in range(3)
    ]
    rows += [
        ("curve", "model", "order", 0, 0, "", 1000, "score", 9.0, ""),
        ("heuristic", "", "sjf", pd.NA, pd.NA, "real", 0, "mean_bsld", 8.0, ""),
        ("cost", "", "order", 0, pd.NA, "", pd.NA, "cpu_s", 1.5, "fit"),
        ("cost", "model", "order", 0, 0, "", pd.NA, "cpu_s", 2.5, "train"),
    ]
    pd.DataFrame(rows, columns=COLUMNS).assign(learner="ppo").astype(
        {"seed": "Int64", "agent_seed": "Int64", "window": "Int64"}
    ).to_parquet(run / "results.parquet")
    for name, data in (("experiment.json", about), ("verdict.json", verdict)):
        (run / name).write_text(json.dumps(data))
    return run


def test_an_experiments_folder_is_read(folder: Path) -> None:
    content = content_of(folder)
    assert list(content.synthetic) == ["order"]
    assert [one.name for one in content.scores.baselines] == ["resample"]
    assert content.scores.noise_floor
    assert content.failures == [{"model": "tvae", "reason": "diverged"}]
    assert content.inputs[0].sha256 == "ab" * 32
    assert content.windows is not None
    assert list(dict.fromkeys(content.windows["arm"])) == ["real", "order", "scarce + order"]
    assert content.costs is not None
    assert content.costs.to_dict("records") == [
        {"model": "order", "step": "fit", "seconds": 1.5},
        {"model": "order", "step": "train", "seconds": 2.5},
    ]


def test_the_report_of_an_experiment_can_be_drawn_again(run, folder: Path, tmp_path: Path) -> None:
    code, out, err = run("report", folder, "-o", tmp_path / "again.html")
    assert (code, out) == (0, ""), err
    text = (tmp_path / "again.html").read_text()
    assert "and for what?" in text
    assert "✕ failed" in text
    assert Scores.from_dict(json.loads((tmp_path / "again.json").read_text())).synthetic[0].name == "order"
    code, _, err = run("report", folder, "--holdout", "x.swf", "-o", tmp_path / "other.html")
    assert code == 2
    assert "RUN" in err


@pytest.mark.parametrize("name", ["verdict.json", "results.parquet"])
def test_an_unfinished_experiment_is_named(run, folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).unlink()
    code, _, err = run("report", folder, "-o", tmp_path / "x.html")
    assert code == 1
    assert name in err


def test_a_damaged_folder_is_named(folder: Path) -> None:
    (folder / "verdict.json").write_text("{}")
    with pytest.raises(TracekitError, match="experiment"):
        content_of(folder)
    (folder / "verdict.json").write_text("{")
    with pytest.raises(TracekitError, match="not valid JSON"):
        content_of(folder)


def test_a_power_model_adds_a_section_on_energy(run, files, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    code, _, error = run("report", *files, "--quick", "--power", "cpu-node", "-o", page)
    assert code == 0, error
    text = page.read_text()
    assert 'id="energy"' in text
    assert "Load-duration curves" in text
    assert "tracekit report real.swf made.swf --quick --power cpu-node" in text
    code, _, error = run("report", *files, "--quick", "--power", "cpu-mode", "-o", tmp_path / "x.html")
    assert (code, "cpu-node" in error) == (2, True)
