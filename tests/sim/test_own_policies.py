"""User policies by name, module:Class, wherever a policy is named."""

import json
import sys

import pytest

import tracekit
from tracekit.errors import MissingExtra, TracekitError, UnknownName, UsageError
from tracekit.sim.policies.builtin import SCHEMES, find, module_of

TEXT = """
import numpy as np

class Shortest:
    name = "shortest"

    def priority(self, queue, state, /):
        return state.estimate[queue]

class Named(Shortest):
    def __init__(self, name):
        self.name = name

class Nothing:
    pass

ready = Named("ready")
number = 3
"""


@pytest.fixture
def here(toy, tmp_path, monkeypatch):
    """A folder with a trace and some modules, which Python's path does not name; the command line looks there."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_orders.py").write_text(TEXT)
    (tmp_path / "my_broken.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / "my_torch.py").write_text("raise ModuleNotFoundError('no torch', name='torch')\n")
    tracekit.write(toy, tmp_path / "toy.swf")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("my_orders", "my_broken", "my_torch"):
        sys.modules.pop(name, None)


def test_find(here, toy, monkeypatch):
    with pytest.raises(UsageError, match="module my_orders"):  # the library leaves Python's path alone
        find("my_orders:Shortest")
    monkeypatch.syspath_prepend(str(here))
    assert find("my_orders:Shortest").name == "shortest"
    assert find("my_orders:ready").name == "ready"
    own = tracekit.simulate(toy, "my_orders:Shortest")
    assert own.policy == "my_orders:Shortest"
    assert own.metrics["mean_bsld"] == tracekit.simulate(toy, "sjf").metrics["mean_bsld"]
    found = tracekit.compare(toy, ["sjf", "my_orders:Shortest"], windows=3, jobs=50)
    assert found.table["difference"].tolist() == [0, 0]
    assert module_of("my_orders:Shortest") == "my_orders"
    assert all(module_of(f"{scheme}:x") is None for scheme in SCHEMES)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("my_order:Shortest", UsageError, "module my_order "),
        ("my_orders:Shortst", UnknownName, "did you mean Shortest"),
        ("my_orders:Nothing", UsageError, "has no name and method priority"),
        ("my_orders:number", UsageError, "has no name and method priority"),
        ("my_orders:Named", UsageError, "without arguments"),
        ("my_orders.py:Shortest", UsageError, r"without \.py"),
        ("my_orders:", UsageError, "write module:Class"),
        ("my_broken:X", TracekitError, "importing my_broken failed: ModuleNotFoundError"),
        ("my_torch:X", MissingExtra, "torch"),
        ("agnet:default", UsageError, "did you mean agent:default"),
    ],
)
def test_mistakes_are_one_line(run, here, monkeypatch, name, kind, words):
    monkeypatch.syspath_prepend(str(here))
    with pytest.raises(kind, match=words) as caught:
        find(name)
    code, out, error = run("simulate", "toy.swf", "--policy", name)
    assert code == caught.value.exit_code
    assert error == f"error: {caught.value}\n"
    assert not out


def test_simulate_and_explain(run, here):
    words = ("simulate", "toy.swf", "--policy", "sjf,my_orders:Shortest", "--out", "runs", "--no-figures", "--json")
    code, out, error = run(*words)
    assert code == 0, error
    first, second = json.loads(out)["results"]
    assert (first.pop("policy"), second.pop("policy")) == ("sjf", "my_orders:Shortest")
    assert first == second
    code, _, error = run("explain", "runs/my_orders:Shortest__easy/schedule.csv", "toy.swf", "--job", 100)
    assert code == 0, error


def test_sweep_and_evaluate(run, here):
    code, out, error = run(
        "sweep",
        "toy.swf",
        "--load",
        "0.7",
        "--policy",
        "my_orders:Shortest,sjf",
        "--shake",
        2,
        "-o",
        "curves",
        "--json",
    )
    assert code == 0, error
    own, sjf = json.loads(out)["points"]
    assert own["mean_bsld"] == sjf["mean_bsld"]
    flags = ("--windows", 2, "--jobs", 40, "--policy", "sjf,my_orders:Shortest", "--json")
    code, out, error = run("evaluate", "default", "toy.swf", *flags)
    assert code == 0, error
    beside = json.loads(out)["baselines"]
    assert set(beside) == {"sjf", "my_orders:Shortest", "random", "best per window"}
    assert beside["sjf"] == beside["my_orders:Shortest"]
    assert run("evaluate", "default", "toy.swf", "--policy", "sfj")[0] == 2


def test_an_experiment_takes_them_and_knows_when_they_change(here, monkeypatch):
    from evaluation.experiment import grid, study
    from evaluation.experiment.source import digest_of

    monkeypatch.syspath_prepend(str(here))
    plan = grid.from_dict(
        {
            "models": {"names": ["independent"], "samples": 1, "baselines": []},
            "agents": {"learner": "pick-heuristic", "config": {"policies": ["my_orders:Shortest", "fcfs"]}},
            "windows": {"count": 5, "jobs": 40, "heuristics": ["fcfs", "my_orders:Shortest"]},
        }
    )
    keys = []
    for text in (TEXT, TEXT + "\n# changed\n"):
        (here / "my_orders.py").write_text(text)
        digest_of.cache_clear()
        study_ = study.prepare(plan, here / "run", tracekit.sample().head(1000))
        keys.append({study_.grid.heuristics.key, *(agent.train.key for agent in study_.grid.agents)})
    digest_of.cache_clear()
    assert not keys[0] & keys[1]
