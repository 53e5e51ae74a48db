"""Whatever a trace holds: what is written reads back equal, or the writer reports what was lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import tracekit
from swf import FORMATS
from swf.base import WritableFormat
from tracekit import Machine, Trace

WRITABLE = [name for name in FORMATS if issubclass(FORMATS.get(name), WritableFormat)]
LABELS = ("user", "queue", "partition", "project")
#: What makes trouble in text: ends of lines, ends of strings, quotes, separators, words for unknown, numbers.
NASTY = [
    *(
        "\r",
        "\n",
        "\0",
        "\t",
        "\x1b[31m",
        "a\rb",
        "a\x00b",
        '"',
        'say "hi"',
        "a,b",
        "a;b",
        "a b",
        " a",
        "a ",
        "'",
        "\\",
    ),
    *("\ud800", "\udcff", "\u2028", "\x85", "\ufeff", "é", "日本", "NA", "null", "None", "nan", "-1", "007", "1.0"),
    *("1e5", "true", "2020-01-01", "#", "|", "=", "--uid=x", "{}", "\x7f"),
]
NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e300, 1e-300, 0.1 + 0.2, 29853.26, 2.0**53, 1e18, 1e19, -5.5]
labels = st.one_of(st.sampled_from(NASTY), st.text(min_size=1, max_size=6))
numbers = st.one_of(st.sampled_from(NUMBERS), st.floats(0, 1e6))
rows = st.lists(st.tuples(*[labels] * len(LABELS), *[numbers] * 4), min_size=1, max_size=8)


def trace_of(found: list[tuple]) -> Trace:
    names = [*LABELS, "wait_time", "run_time", "req_time", "req_mem"]
    # objects: the strings of pandas 3 cannot hold lone surrogates
    table = pd.DataFrame({name: pd.Series([row[k] for row in found], dtype=object) for k, name in enumerate(names)})
    table["submit_time"] = np.arange(len(table)) * 10.0
    table["job_id"], table["req_procs"] = np.arange(1, len(table) + 1), 2
    table["x_note"] = pd.Series([row[0] for row in found], dtype=object)
    return Trace(table, Machine(name="Toy", procs=64))


def same(one: Trace, other: Trace, name: str) -> bool:
    if name not in other.jobs.columns or len(one) != len(other):
        return False
    a, b = one.jobs[name].astype(object), other.jobs[name].astype(object)
    if pd.api.types.is_numeric_dtype(one.jobs[name].dtype):
        return np.array_equal(one.column(name), other.column(name), equal_nan=True)
    return a.where(a.notna(), None).tolist() == b.where(b.notna(), None).tolist()


def named(trace: Trace) -> Trace:
    """Return the trace with the names of queues and partitions that an SWF header gives to their numbers."""
    changed = {}
    for column, names in (("queue", trace.machine.queues), ("partition", trace.machine.partitions)):
        if names:
            changed[column] = trace.jobs[column].astype(object).map(lambda label, names=names: names.get(label, label))
    return trace.assign(changed) if changed else trace


def check(trace: Trace, name: str, path: Path) -> None:
    path.unlink(missing_ok=True)
    try:
        lost = " ".join(tracekit.write(trace, path, name, force=True))
    except tracekit.errors.TracekitError as error:
        if "nothing to write" not in str(error) or path.exists():
            raise
        return  # refused, and no file
    try:
        back = tracekit.read(path, name)
    except tracekit.errors.TracekitError as error:
        raise AssertionError(f"cannot be read back: {error}; {path.read_bytes()!r}; lost: {lost}") from error
    if "jobs without" in lost:
        trace = trace.take(np.isin(trace.column("job_id"), back.column("job_id")))
    assert len(back) == len(trace)
    for column in trace.jobs.columns:
        if not same(trace, named(back), column) and trace.jobs[column].notna().any():
            before, after = trace.jobs[column].tolist(), back.jobs[column].tolist() if column in back.jobs else None
            assert column in lost, (column, before, after, lost, path.read_bytes())


@pytest.mark.parametrize("name", WRITABLE)
def test_every_nasty_label_and_number(name: str, tmp_path: Path) -> None:
    """All at once, and every label alone: a column of one word may look like numbers."""
    count = len(NASTY) * len(NUMBERS)
    found = [(*[NASTY[k % len(NASTY)]] * 4, *[NUMBERS[k % len(NUMBERS)]] * 4) for k in range(count)]
    check(trace_of(found), name, tmp_path / "all")
    for label in NASTY:
        check(trace_of([(label, label, label, label, 1.0, 2.0, 3.0, 4.0)] * 2), name, tmp_path / "one")


@pytest.mark.parametrize("name", WRITABLE)
@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(found=rows)
@example(found=[("a\rb", "q", "p", "x", 0.0, 1.0, 1.0, 1.0)])
@example(found=[("a\0b", "q", "p", "x", np.inf, 1.0, 1.0, 1.0)])
def test_equal_or_reported(name: str, found: list[tuple], tmp_path: Path) -> None:
    check(trace_of(found), name, tmp_path / "file")
