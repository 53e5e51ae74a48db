"""The commands experiment, verdict and compare: what they print, what they refuse, how they end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tracekit
from tracekit.errors import UsageError

Run = Callable[..., tuple[int, str, str]]

PLAN = """
[models]
baselines = []
samples = 1
[agents]
learner = "pick-heuristic"
seeds = 2
config = { windows = 4, jobs = 40 }
[windows]
count = 8
jobs = 40
heuristics = ["fcfs", "random"]
[score]
families = ["marginal", "privacy"]
"""


OWN = """
class Shortest:
    name = "shortest"

    def priority(self, queue, state, /):
        return state.estimate[queue]
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tracekit.write(tracekit.sample().head(2000), "real.swf")
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def test_an_experiment_from_end_to_end(place: Path, run: Run) -> None:
    words = ("experiment", "real.swf", "--config", "plan.toml", "-o", "run", "--models", "lublin,plugged:Throws")
    code, out, _ = run(*words, "--dry-run", "--json")
    assert code == 0
    assert not (place / "run").exists()
    assert json.loads(out)["total"]["tasks"] == 2 + 1 + 2 + 1 + 2 * 2 * (1 + 1 + 2 + 1) + 2 * 2 * 7  # halves
    code, out, error = run(*words, "--json")
    assert code == 0, error
    found = json.loads(out)
    assert {"real", "margin", "verdicts"} <= set(found)
    assert found["real"] == "real"
    assert [one["model"] for one in found["verdicts"]] == ["lublin", "plugged:Throws"]
    for one in found["verdicts"]:
        assert {"model", "verdict", "difference", "low", "high", "sentence"} <= set(one)
        assert one["verdict"] in ("equivalent", "worse", "better", "undecided", "failed")
    assert found == json.loads((place / "run/verdict.json").read_text())
    assert (place / "run/report.html").stat().st_size > 1000
    assert (place / "run/results.parquet").is_file()
    code, out, _ = run(*words)
    assert code == 0
    assert "no luck today" in out
    assert "would a bad trace be noticed?" in out
    code, out, _ = run("compare", "run", "run", "--json")
    assert code == 0
    assert json.loads(out)["same"]
    assert "the same numbers" in run("compare", "run", "run")[1]
    code, _, error = run(*words, "--seed", "5")
    assert code == 1
    assert "--force" in error


def test_where_every_model_fails_the_run_has_failed(place: Path, run: Run) -> None:
    code, _, error = run("experiment", "real.swf", "--config", "plan.toml", "-o", "run", "--models", "plugged:Throws")
    assert code == 1
    assert "no luck today" in error
    assert len(error.strip().splitlines()) == 1 or "error: every model failed" in error
    assert json.loads((place / "run/verdict.json").read_text())["verdicts"][0]["verdict"] == "failed"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("experiment", "real.swf", "--models", "lublni", "-o", "run"), 2, "did you mean lublin"),
        (("experiment", "real.swf", "--models", "lublin", "-o", "run", "--engine", "rya"), 2, "did you mean ray"),
        (("experiment", "real.swf", "--models", "lublin", "-o", "run", "--address", "x:1"), 2, "--engine ray"),
        (("experiment", "real.swf", "--models", "lublin", "-o", "run", "--learner", "pop"), 2, "ppo"),
        (("experiment", "real.swf", "--models", "lublin"), 2, "-o RUN"),
        (("experiment", "real.swf", "-o", "run"), 2, "--models"),
        (("experiment", "-o", "run", "--models", "lublin"), 2, "real trace"),
        (("experiment", "none.swf", "-o", "run", "--models", "lublin"), 1, "no such file"),
        (("experiment", "real.swf", "-o", "run", "--config", "wrong.toml"), 2, "did you mean models"),
        (("experiment", "real.swf", "-o", "run", "--config", "broken.toml"), 1, "not valid TOML"),
        (("experiment", "real.swf", "-o", "real.swf", "--models", "lublin"), 1, "is a file"),
        (("verdict", "real.swf", "none.swf"), 1, "no such file"),
        (("compare", "nothing", "nothing"), 1, "finished experiment"),
    ],
)
def test_mistakes_end_in_one_line(place: Path, run: Run, words: tuple[str, ...], code: int, said: str) -> None:
    (place / "wrong.toml").write_text("[modles]\n")
    (place / "broken.toml").write_text("[models\n")
    found, out, error = run(*words)
    if found == 3 != code:
        pytest.skip(error)
    assert found == code, error
    assert said in error
    assert not out
    assert "Traceback" not in error


def test_the_short_form_judges_a_trace_made_elsewhere(place: Path, run: Run) -> None:
    train = tracekit.sample().head(2000).split(0.6)[0]
    tracekit.write(train, "copy.swf")
    code, out, error = run("verdict", "real.swf", "copy.swf", "--learner", "pick-heuristic", "--json")
    assert code == 0, error
    found = json.loads(out)
    assert [(one["model"], one["verdict"]) for one in found["verdicts"]] == [("copy", "equivalent")]
    assert found["verdicts"][0]["flags"]
    assert found["scores"]["privacy.exact_copies"]["value"] > 0.3  # of every other week
    assert "kendall_tau" in " ".join(found["scores"])
    assert sorted(path.name for path in place.iterdir()) == ["copy.swf", "plan.toml", "real.swf"]


def test_the_short_form_takes_traces_as_well_as_files(place: Path) -> None:
    real = tracekit.sample().head(2000)
    made = real.split(0.6)[0]
    tracekit.write(made, "made.parquet")
    tracekit.write(real, "real.parquet")
    short = {"learner": "pick-heuristic", "seed": 3}
    files = tracekit.verdict("real.parquet", Path("made.parquet"), **short)
    traces = tracekit.verdict(real, made, **short)
    assert [one["model"] for one in traces["verdicts"]] == ["synthetic"]
    for key in ("verdict", "difference", "low", "high", "sentence"):
        assert traces["verdicts"][0][key] == files["verdicts"][0][key]
    assert traces["scores"] == files["scores"]
    assert {path.name for path in place.iterdir()} == {"made.parquet", "plan.toml", "real.parquet", "real.swf"}
    with pytest.raises(UsageError, match="format"):
        tracekit.verdict(real, made, format="swf")
    with pytest.raises(UsageError, match="at least 1"):
        tracekit.verdict(real, made, procs=0)


def test_policies_of_ones_own_stand_beside_the_agents(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "path", list(sys.path))
    (place / "beside.py").write_text(OWN)
    words = ("experiment", "real.swf", "--config", "plan.toml", "-o", "run", "--models", "resample", "--json")
    code, out, error = run(*words, "--policy", "sjf,beside:Shortest")
    assert code == 0, error
    means = {row["policy"]: row["mean"] for row in json.loads(out)["heuristics"]}
    assert means["sjf"] == means["beside:Shortest"]
    assert run(*words, "--policy", "beside:Longest")[0] == 2
    sys.modules.pop("beside", None)


def test_an_interrupt_says_how_to_go_on(place: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from evaluation.experiment import runner

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.Runner, "run", interrupted)
    code, out, error = run("experiment", "real.swf", "--config", "plan.toml", "-o", "run", "--models", "lublin")
    assert code == 130
    assert not out
    assert "resume" in error
