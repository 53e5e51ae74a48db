from __future__ import annotations

import json

import numpy as np
import pytest

from generators import MODELS
from generators.baseline import Independent, Resample
from tracekit.errors import FormatError, NotFitted, TracekitError, UsageError
from tracekit.trace import Trace

BOTH = pytest.mark.parametrize("model", [Resample, Independent])


@BOTH
def test_registered_under_its_name(model):
    assert MODELS.get(model.name) is model


@BOTH
@pytest.mark.parametrize("n_jobs", [1, 2, 399, 4000])
def test_exact_size_fresh_ids_sorted_submits(model, toy, n_jobs):
    made = model().fit(toy, seed=0).sample(n_jobs, seed=1)
    assert made.jobs["job_id"].tolist() == list(range(1, n_jobs + 1))
    submit = made.column("submit_time")
    assert submit[0] == toy.column("submit_time").min()
    assert (np.diff(submit) >= 0).all()


@BOTH
def test_columns_and_types_are_those_of_the_real_trace_without_the_scheduler_s(model, toy):
    made = model().fit(toy, seed=0).sample(500, seed=1)
    expected = [c for c in toy.jobs.columns if c not in ("wait_time", "prev_job", "think_time")]
    assert list(made.jobs.columns) == expected
    assert (made.jobs.dtypes == toy.jobs[expected].dtypes).all()
    assert made.machine.procs == 64
    assert made.machine.epoch == toy.machine.epoch


@BOTH
def test_says_that_it_is_made(model, toy):
    made = model().fit(toy, seed=0).sample(5, seed=17)
    assert made.history[0] == "read from toy"
    assert "MADE" in made.history[-1]
    assert "seed 17" in made.history[-1]
    assert made.machine.header is None
    assert "MADE" in made.machine.source
    assert "MADE" in made.machine.notes[0]


@BOTH
def test_same_seed_same_jobs_other_seed_other_jobs(model, toy):
    fitted = model().fit(toy, seed=0)
    assert fitted.sample(300, seed=1).equals(model().fit(toy, seed=9).sample(300, seed=1))
    assert not fitted.sample(300, seed=1).jobs.equals(fitted.sample(300, seed=2).jobs)


@BOTH
def test_shares_of_missing_values_and_labels_come_back(model, toy):
    made = model().fit(toy, seed=0).sample(40_000, seed=1)
    for name in ("req_time", "alloc_procs", "used_mem", "user"):
        assert made.jobs[name].isna().mean() == pytest.approx(toy.jobs[name].isna().mean(), abs=0.01)
    real, drawn = (trace.jobs["user"].value_counts(normalize=True) for trace in (toy, made))
    assert drawn[real.index].to_numpy() == pytest.approx(real.to_numpy(), abs=0.01)
    assert made.interarrival().mean() == pytest.approx(toy.interarrival().mean(), rel=0.05)


def test_resample_copies_whole_rows(toy):
    made = Resample().fit(toy, seed=0).sample(1000, seed=1)
    names = [c for c in made.jobs.columns if c not in ("job_id", "submit_time")]
    real = set(map(str, toy.jobs[names].itertuples(index=False)))
    assert set(map(str, made.jobs[names].itertuples(index=False))) <= real
    assert Resample.info.copies
    assert not Independent.info.copies


def test_resample_keeps_each_row_s_own_inter_arrival(toy):
    real = toy.assign({"x_row": np.arange(len(toy))})
    made = Resample().fit(real, seed=0).sample(2000, seed=1)
    row = made.jobs["x_row"].to_numpy()[1:]
    own = row > 0  # the first real job has none
    assert (np.diff(made.column("submit_time")) == real.interarrival()[row - 1])[own].all()


def test_independent_breaks_pairs_but_keeps_marginals(toy):
    made = Independent().fit(toy, seed=0).sample(20_000, seed=1)
    assert set(made.jobs["req_procs"].unique()) == set(toy.jobs["req_procs"].unique())
    assert (made.column("run_time") > made.column("req_time")).mean() > 0.1
    assert (toy.column("run_time") <= toy.column("req_time")).sum() == toy.jobs["req_time"].notna().sum()
    logs = np.corrcoef(np.log(made.column("run_time")), np.log(made.column("req_procs")))
    assert abs(logs[0, 1]) < 0.02


@BOTH
def test_unsorted_and_unknown_submits_are_put_in_order(model, toy):
    jobs = toy.jobs.copy()
    jobs.loc[3, "submit_time"] = np.nan
    shuffled = Trace(jobs.sample(frac=1, random_state=1), toy.machine)
    made = model().fit(shuffled, seed=0).sample(1000, seed=1)
    assert (np.diff(made.column("submit_time")) >= 0).all()
    assert "399 jobs" in made.history[-1]


@BOTH
@pytest.mark.parametrize("n_jobs", [0, 1])
def test_too_few_jobs_is_a_clear_error(model, toy, n_jobs):
    with pytest.raises(TracekitError, match="at least 2 jobs"):
        model().fit(toy.head(n_jobs), seed=0)


@BOTH
def test_not_fitted(model, tmp_path):
    with pytest.raises(NotFitted, match="fit"):
        model().sample(3, seed=0)
    with pytest.raises(NotFitted):
        model().save(tmp_path)


@BOTH
@pytest.mark.parametrize("n_jobs", [0, -1, 2.5, True])
def test_nonsense_counts(model, toy, n_jobs):
    with pytest.raises(UsageError, match="whole number"):
        model().fit(toy, seed=0).sample(n_jobs, seed=0)


@BOTH
def test_save_and_load(model, toy, tmp_path):
    fitted = model().fit(toy, seed=0)
    fitted.save(tmp_path / "m")
    fitted.save(tmp_path / "m")  # saving again replaces
    loaded = model.load(tmp_path / "m")
    made, again = fitted.sample(200, seed=3), loaded.sample(200, seed=3)
    assert made.equals(again)
    assert made.history == again.history
    assert json.loads((tmp_path / "m" / "config.json").read_text())["model"] == model.name


def test_loading_another_model_or_nothing(toy, tmp_path):
    Resample().fit(toy, seed=0).save(tmp_path / "m")
    with pytest.raises(FormatError, match="resample"):
        Independent.load(tmp_path / "m")
    with pytest.raises(FormatError, match="no such file"):
        Resample.load(tmp_path / "none")
    (tmp_path / "m" / "config.json").write_text("{")
    with pytest.raises(FormatError, match="JSON"):
        Resample.load(tmp_path / "m")


@BOTH
def test_a_million_jobs(model, toys):
    fitted = model().fit(toys(5000), seed=0)
    assert len(fitted.sample(1_000_000, seed=0)) == 1_000_000
