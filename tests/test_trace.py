from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit import Machine, Trace, stats, transform
from tracekit.errors import SchemaError, TracekitError, UnknownName, UsageError
from tracekit.schema import COLUMNS, STATUSES, labels, number_labels


def jobs(**columns: object) -> pd.DataFrame:
    base: dict[str, object] = {"job_id": [1, 2], "submit_time": [0, 10], "run_time": [5, 5], "req_procs": [1, 2]}
    return pd.DataFrame(base | columns)


def test_types_follow_the_schema() -> None:
    trace = Trace(jobs(user=[7, 8.0], status=["completed", None], req_gpus=[0.5, 1], x_note=["a", "b"]))
    dtypes = trace.jobs.dtypes
    assert dtypes["submit_time"] == np.float64
    assert str(dtypes["req_procs"]) == "Int64"
    assert dtypes["req_gpus"] == np.float64  # fractions stay
    assert trace.jobs["user"].tolist() == ["7", "8"]
    assert trace.jobs["status"].tolist() == ["completed", "unknown"]
    assert list(trace.jobs.columns)[-1] == "x_note"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pd.DataFrame({"job_id": [1], "submit_time": [0]}), "run_time"),
        (pd.DataFrame({"job_id": [1], "submit_time": [0], "run_time": [1]}), "processors, nodes or gpus"),
        (jobs(colour=["red", "blue"]), "x_"),
        (jobs(job_id=[1.5, 2]), "whole numbers"),
        (jobs(run_time=["fast", "slow"]), "run_time"),
        (jobs(status=["done", "done"]), "'done'"),
    ],
)
def test_what_is_no_trace_says_why(table: pd.DataFrame, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Trace(table)


def test_a_conforming_table_is_not_copied(toy: Trace) -> None:
    assert Trace(toy.jobs).jobs is toy.jobs


def test_arrays_are_in_submit_order_and_stable() -> None:
    trace = Trace(jobs(submit_time=[10, 0]).assign(user=["b", None]))
    arrays = trace.arrays()
    assert arrays["position"].tolist() == [1, 0]
    assert arrays["submit_time"].tolist() == [0, 10]
    assert arrays["user"].tolist() == [-1, 0]
    assert np.isnan(trace.column("req_time")).all()
    ties = Trace(jobs(submit_time=[5, 5]))
    assert ties.order().tolist() == [0, 1]


def test_sizes_prefer_what_is_asked_for() -> None:
    trace = Trace(jobs(req_procs=[4, None], alloc_procs=[8, 2]))
    assert trace.sizes().tolist() == [4, 2]
    assert trace.sizes(source="allocated").tolist() == [8, 2]
    assert trace.sizes(source="max").tolist() == [8, 2]
    assert np.isnan(trace.sizes("gpus")).all()


def test_load_and_utilisation_by_hand() -> None:
    # 2 procs busy 10 s and 1 proc busy 20 s: 40 processor-seconds; arrivals span 10 s, the last job ends at 30 s.
    trace = Trace(jobs(submit_time=[0, 10], run_time=[10, 20], req_procs=[2, 1], wait_time=[0, 0]), Machine(procs=4))
    assert trace.offered_load() == pytest.approx(40 / (4 * 10))
    assert stats.utilization(trace) == pytest.approx(40 / (4 * 30))
    assert np.isnan(Trace(trace.jobs).offered_load())


def test_split_is_by_time_and_complete(toy: Trace) -> None:
    early, late = toy.split(0.7)
    assert len(early) == 140
    assert len(early) + len(late) == len(toy)
    assert early.column("submit_time").max() <= late.column("submit_time").min()
    with pytest.raises(UsageError):
        toy.split(1.5)


def test_hours_follow_the_machines_clock() -> None:
    # 2021-03-28 00:30 UTC is 01:30 in Berlin; an hour later clocks there jump from 2 to 3.
    trace = Trace(jobs(submit_time=[0, 3600]), Machine(epoch=1_616_891_400.0, timezone="Europe/Berlin"))
    assert (stats.hour_of_week(trace) % 24).tolist() == [1, 3]
    assert stats.has_calendar(trace)
    assert not stats.has_calendar(Trace(trace.jobs))
    assert not stats.has_calendar(Trace(trace.jobs, Machine(epoch=0.0)))


def test_history_travels(toy: Trace) -> None:
    assert toy.head(5).between(0, 1e9).history == ("first 5 jobs", "submitted from 0 to before 1000000000.0")
    assert toy.history == ()


def test_equals_ignores_history_only(toy: Trace) -> None:
    assert toy.equals(toy.replace(step="looked at"))
    assert not toy.equals(toy.replace(machine=Machine()))
    assert not toy.equals(toy.head(3))


def test_repr_says_the_essentials(toy: Trace) -> None:
    assert repr(toy) == "<Trace: 200 jobs of toy, 32 procs>"


def test_machine_from_toml_names_mistakes(tmp_path: object) -> None:
    with pytest.raises(UnknownName, match="did you mean procs"):
        Machine.from_dict({"prcs": 4})
    with pytest.raises(SchemaError, match="whole number"):
        Machine.from_dict({"procs": "many"})
    with pytest.raises(UnknownName):
        Machine.from_dict({"unit": "cores"})


def test_machine_survives_plain_values() -> None:
    machine = Machine.from_dict({"name": "m", "gpus": 8, "unit": "gpus", "groups": [{"count": 2, "gpus": 4}]})
    assert Machine.from_dict(machine.to_dict()) == machine
    assert machine.size() == 8


def test_scale_load_hits_the_load_and_forgets_waits(toy: Trace) -> None:
    scaled = transform.scale_load(toy, 0.5)
    assert scaled.offered_load() == pytest.approx(0.5, rel=1e-3)
    assert np.isnan(scaled.column("wait_time")).all()
    assert scaled.column("run_time").tolist() == toy.column("run_time").tolist()
    with pytest.raises(UsageError):
        transform.scale_load(toy, 0)
    with pytest.raises(TracekitError, match="--procs"):
        transform.scale_load(toy.replace(machine=Machine()), 0.5)


def test_scale_procs_keeps_each_jobs_share(toy: Trace) -> None:
    scaled = transform.scale_procs(toy, 320)
    assert scaled.machine.procs == 320
    assert (scaled.sizes() == toy.sizes() * 10).all()
    small = transform.scale_procs(toy, 4)
    assert small.sizes().min() == 1
    assert small.sizes().max() <= 4


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-5, 10**9)), min_size=1, max_size=30))
def test_fast_labels_agree_with_plain_ones(values: list[int | None]) -> None:
    numbers = np.array([np.nan if v is None else float(v) for v in values])
    assert list(number_labels(numbers)) == list(labels(numbers))


def test_every_column_is_described() -> None:
    assert len({c.name for c in COLUMNS}) == len(COLUMNS) == 28
    assert all(c.meaning for c in COLUMNS)
    assert "timeout" in STATUSES


def test_texts_have_the_same_types_under_every_pandas(toy: Trace) -> None:
    """pandas 3 holds texts in a type of its own, which pandas 2.3 knows as well."""
    theirs = pd.StringDtype(na_value=np.nan)
    texts = pd.Series(["a", None] * 100, dtype=theirs)
    jobs = toy.jobs.assign(x_text=texts, x_kind=texts.astype("category"), user=texts, queue=texts.astype("category"))
    made = Trace(jobs.assign(status=toy.jobs["status"].astype(theirs).astype("category")), toy.machine).jobs
    assert made["x_text"].dtype == object
    assert made["x_text"].isna().sum() == 100
    assert [made[name].cat.categories.dtype for name in ("x_kind", "user", "queue", "status")] == [object] * 4
    assert made["status"].astype(object).tolist() == toy.jobs["status"].astype(object).tolist()
