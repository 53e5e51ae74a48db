"""The contract of every registered model, at a tiny budget: valid, exact in number, deterministic, the same kept."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from generators import MODELS
from generators import synth as library
from generators.learned import TableModel
from tracekit import Machine, Trace, stats
from tracekit.errors import NotFitted, OutputError, TracekitError, UnknownName, UsageError
from tracekit.validation import schedulable

NAMES = MODELS.names()
LEARNED = [name for name in NAMES if issubclass(MODELS.get(name), TableModel)]
#: Fit options of single models: eight users cannot be hidden, and secret noise cannot be repeated.
OPTIONS = {"private": {"unit": "job", "epsilon": 10.0, "noise_seed": 1}}
NEEDS = dict.fromkeys(("diffusion",), ("torch",)) | {"realtabformer": ("torch", "transformers", "realtabformer")}


def need(name: str) -> None:
    """Skip with the reason when a model's optional packages are not installed."""
    if name == "private" and find_spec("opendp") is None:
        pytest.skip("private needs opendp: pip install 'tracekit-hpc[dp]'")
    if name in LEARNED:
        for package in NEEDS.get(name, ("torch", "sdv")):
            if find_spec(package) is None:
                pytest.skip(f"{name} needs {package}: pip install 'tracekit-hpc[synth]'")


pytestmark = pytest.mark.usefixtures("tiny_budgets")
_FITTED: dict[str, library.Fitted] = {}


def fitted(name: str, real: Trace) -> library.Fitted:
    need(name)
    if name not in _FITTED:
        _FITTED[name] = library.fit(real, name, seed=5, budget="quick", **OPTIONS.get(name, {}))
    return _FITTED[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_jobs_is_exact_and_the_jobs_are_new(name: str, real: Trace) -> None:
    model = fitted(name, real).model
    for count in (1, 7, 150):
        made = model.sample(count, seed=1)
        assert len(made) == count
        assert made.jobs["job_id"].is_unique
        assert any("MADE" in note for note in made.machine.notes), "it must not be mistaken for a recorded trace"


@pytest.mark.parametrize("name", NAMES)
def test_jobs_can_be_scheduled(name: str, real: Trace) -> None:
    made = fitted(name, real).model.sample(500, seed=2)
    assert schedulable(made).all()
    assert (np.diff(made.column("submit_time")) >= 0).all()
    assert "wait_time" not in made.jobs.columns


@pytest.mark.parametrize("name", LEARNED)
def test_learned_models_make_possible_jobs_only(name: str, real: Trace) -> None:
    made = fitted(name, real).model.sample(500, seed=2)
    assert (made.column("run_time") <= made.column("req_time")).all()
    assert (made.column("req_procs") == 4 * made.column("req_nodes")).all()
    assert set(made.column("req_time")) <= set(real.column("req_time"))
    assert set(made.column("req_nodes")) <= set(real.column("req_nodes"))
    assert (made.column("run_time") == np.floor(made.column("run_time"))).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_jobs(name: str, real: Trace) -> None:
    model = fitted(name, real).model
    first, again, other = (model.sample(120, seed=seed) for seed in (4, 4, 9))
    assert first.equals(again)
    assert not first.jobs.equals(other.jobs)


@pytest.mark.parametrize("name", NAMES)
def test_fitting_twice_with_one_seed_gives_one_model(name: str, real: Trace) -> None:
    first = fitted(name, real).model.sample(60, seed=4)
    again = library.fit(real, name, seed=5, budget="quick", **OPTIONS.get(name, {})).model.sample(60, seed=4)
    assert first.equals(again)


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_model_makes_the_same_jobs(name: str, real: Trace, tmp_path: Path) -> None:
    model = fitted(name, real)
    model.save(tmp_path / "kept")
    again = library.load(tmp_path / "kept", trust=True)
    assert library.make(model, 90, seed=6).equals(library.make(again, 90, seed=6))
    with pytest.raises(OutputError, match="exists already"):
        model.save(tmp_path / "kept")


@pytest.mark.parametrize("name", NAMES)
def test_the_load_is_the_real_one(name: str, real: Trace) -> None:
    model = fitted(name, real)
    made = library.make(model, 400, seed=1)
    wanted = model.load if name == "private" else real.offered_load()  # a released, noisy number
    assert abs(made.offered_load() / wanted - 1) < 0.02
    assert any(step.startswith("load matched") for step in made.history)
    other = library.make(fitted(name, real), 400, seed=1, load=0.5)
    assert abs(other.offered_load() - 0.5) < 0.01


@pytest.mark.parametrize("name", NAMES)
def test_models_say_what_they_are(name: str) -> None:
    info = MODELS.get(name).info
    assert all((info.family, info.summary, info.licence))
    assert (name in LEARNED) == (info.extra == "synth")


@pytest.mark.parametrize("name", NAMES)
def test_sampling_before_fitting_is_refused(name: str) -> None:
    with pytest.raises(NotFitted, match="not fitted"):
        MODELS.get(name)().sample(5, seed=0)


@pytest.mark.parametrize("name", LEARNED)
def test_only_some_labels(name: str, real: Trace) -> None:
    model = fitted(name, real)
    made = library.make(model, 40, seed=1, only={"queue": "long"})
    assert len(made) == 40
    assert set(made.jobs["queue"].astype(str)) == {"long"}
    with pytest.raises(UnknownName, match="unknown queue 'lang'"):
        library.make(model, 40, only={"queue": "lang"})
    with pytest.raises(UsageError, match=r"--only colour: .* user, queue, status"):
        library.make(model, 40, only={"colour": "red"})


@pytest.mark.parametrize("name", [n for n in LEARNED if MODELS.get(n).info.trust])
def test_pickles_need_trust(name: str, real: Trace, tmp_path: Path) -> None:
    fitted(name, real).save(tmp_path / "kept")
    with pytest.raises(TracekitError, match=r"pickle.*--trust"):
        library.load(tmp_path / "kept")


@pytest.mark.parametrize("name", LEARNED)
def test_the_raw_encoding_works_too(name: str, real: Trace) -> None:
    need(name)
    made = library.synth(real, name, 60, seed=1, encoding="raw", budget="quick", load="none")
    assert len(made) == 60
    assert {"run_time", "req_time", "req_procs", "req_nodes", "user"} <= set(made.jobs.columns)


@pytest.mark.parametrize("name", NAMES)
def test_few_jobs_one_user_constant_columns(name: str) -> None:
    """A sensible result: 25 alike jobs of one user, no limits, before the epoch."""
    need(name)
    n = 25
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(n),
            "submit_time": np.arange(n) * 600.0 - 300,
            "run_time": 100.0,
            "req_procs": 4,
            "user": "one",
        }
    )
    if name == "private":
        for unit in ("user", "job"):
            with pytest.raises(TracekitError, match="released number"):
                library.synth(Trace(jobs, Machine(procs=8)), name, 30, unit=unit, noise_seed=1)
        return
    made = library.synth(Trace(jobs, Machine(procs=8)), name, 30, seed=1, budget="quick")
    assert len(made) == 30
    assert schedulable(made).all() or (made.column("submit_time") < 0).any()
    assert stats.span(made) > 0


@pytest.mark.parametrize("name", LEARNED)
def test_too_few_jobs_are_refused(name: str, real: Trace) -> None:
    need(name)
    with pytest.raises(TracekitError, match="too few jobs to learn from"):
        library.synth(real.head(5), name, 30)
