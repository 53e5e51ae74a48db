"""What notebooks and other table libraries see of a trace and of results: HTML that is escaped, and Arrow streams."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import tracekit
from tracekit.notebook import MISSING, safe, shown, table
from tracekit.sim.policies.protocol import State
from tracekit.trace import SHOWN_JOBS, Trace

SCRIPT = '<script>alert("x")</script>'


class Tags(HTMLParser):
    """Collects the names of elements and the text between them; fails on tags that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check(text: str, *expected: str) -> None:
    """Only the elements of a plain table, and the expected texts somewhere in it."""
    seen = Tags(text)
    assert seen.names <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    for words in expected:
        assert words in seen.text, words


@pytest.fixture(scope="module")
def trace() -> Trace:
    return tracekit.sample().head(300)


@pytest.fixture(scope="module")
def hostile(trace: Trace) -> Trace:
    """A trace whose machine, labels, own columns and history hold HTML."""
    machine = trace.machine.replace(name=SCRIPT)
    labels = {"user": [SCRIPT] * len(trace), "x_<img src=x onerror=alert(1)>": [SCRIPT] * len(trace)}
    return trace.replace(machine=machine).assign(labels, step=f"read from {SCRIPT}")


def test_a_trace_shows_its_first_jobs_and_how_many_there_are(trace: Trace) -> None:
    text = trace._repr_html_()
    check(text, "300 jobs", "submit_time", f"{300 - SHOWN_JOBS} more jobs")
    assert text.count("<tr>") == SHOWN_JOBS + 1


def test_an_empty_trace_and_one_of_a_single_job_can_be_shown(trace: Trace) -> None:
    check(trace.head(0)._repr_html_(), "0 jobs")
    assert "more jobs" not in trace.head(1)._repr_html_()


def test_a_result_shows_what_comparisons_look_at(trace: Trace) -> None:
    result = tracekit.simulate(trace, "sjf")
    check(result._repr_html_(), "sjf + easy", "mean_bsld", shown(result.metrics["mean_bsld"]))


def test_a_comparison_shows_its_table_and_notes(trace: Trace) -> None:
    comparison = tracekit.compare(trace, ["fcfs", "sjf"], windows=1, jobs=100)
    check(comparison._repr_html_(), *comparison.table.columns, *comparison.notes, "sjf")


def test_scores_show_every_key_that_has_a_value(trace: Trace) -> None:
    scores = tracekit.score(trace, trace, quick=True, families=["marginal"], floor=False, baselines=False)
    check(scores._repr_html_(), "ks.run_time", "ks.mean")


def test_html_from_files_is_escaped_everywhere(hostile: Trace) -> None:
    check(hostile._repr_html_(), SCRIPT, "x_<img src=x onerror=alert(1)>", f"read from {SCRIPT}")
    names = [SCRIPT, SCRIPT + "2"]
    scores = tracekit.score(
        hostile, hostile, quick=True, families=["marginal"], floor=False, baselines=False, names=names
    )
    check(scores._repr_html_(), SCRIPT, SCRIPT + "2")

    class Own:
        name = SCRIPT

        def priority(self, waiting: NDArray[np.int64], state: State) -> NDArray[np.float64]:
            return state.submit[waiting]

    check(tracekit.simulate(hostile, Own())._repr_html_(), SCRIPT)
    check(tracekit.compare(hostile, [Own()], windows=2, jobs=50)._repr_html_(), SCRIPT)


@pytest.mark.parametrize("value", [None, float("nan"), np.float64("nan"), pd.NA, pd.NaT])
def test_missing_values_are_a_dash(value: object) -> None:
    assert shown(value) == MISSING


def test_words_that_look_like_missing_values_are_words() -> None:
    assert [shown(word) for word in ("nan", "<NA>", "NaT")] == ["nan", "<NA>", "NaT"]
    assert "&lt;NA&gt;" in table("", ["a"], [["<NA>"]])


def test_half_a_letter_of_a_file_name_can_be_shown() -> None:
    assert safe("a\udcff").isascii()


# ---- Arrow -----------------------------------------------------------------------------------------------------------


def test_arrow_takes_a_trace_as_a_table(trace: Trace) -> None:
    jobs = pa.table(trace)
    assert jobs.column_names == list(trace.jobs.columns)
    assert jobs.num_rows == len(trace)
    np.testing.assert_array_equal(jobs["submit_time"].to_numpy(), trace.column("submit_time"))
    reader = pa.RecordBatchReader.from_stream(trace)
    assert reader.read_all().equals(jobs)


def test_unknown_values_are_nulls_in_arrow(trace: Trace) -> None:
    run = trace.column("run_time").copy()
    run[:3] = np.nan
    users = [None, *["a"] * (len(trace) - 1)]
    procs = pd.array([None, *[4] * (len(trace) - 1)], dtype="Int64")
    jobs = pa.table(trace.assign({"run_time": run, "user": users, "req_procs": procs}))
    assert [jobs[name].null_count for name in ("run_time", "user", "req_procs")] == [3, 1, 1]
    assert pa.types.is_int64(jobs.schema.field("req_procs").type)
    assert pa.types.is_dictionary(jobs.schema.field("user").type)


def test_a_schema_can_be_asked_for(trace: Trace) -> None:
    fields = pa.table(trace).schema
    place = fields.get_field_index("submit_time")
    wanted = fields.set(place, pa.field("submit_time", pa.int64()))
    assert pa.table(trace, schema=wanted).schema.field("submit_time").type == pa.int64()


def test_an_empty_trace_is_an_empty_table(trace: Trace) -> None:
    assert pa.table(trace.head(0)).num_rows == 0
