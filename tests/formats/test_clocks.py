"""Local times: hours that a clock shows twice or never, offsets, and dates written back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracekit
from swf._times import seconds_of, stamp_texts

CHICAGO = "America/Chicago"


def utc(text: str) -> float:
    return pd.Timestamp(text, tz="UTC").timestamp()


@pytest.mark.parametrize("kind", ["texts", "seconds", "nanoseconds"])
def test_the_two_odd_hours_of_a_year(kind: str) -> None:
    texts = pd.Series(
        ["2022-03-13 01:59:59", "2022-03-13 02:30:00", "2022-11-06 01:30:00", "2022-11-06 02:00:00", None]
    )
    units = {"seconds": "datetime64[s]", "nanoseconds": "datetime64[ns]"}
    values = texts if kind == "texts" else pd.to_datetime(texts).astype(units[kind])
    seconds, remarks = seconds_of(values, CHICAGO)
    expected = ["2022-03-13 07:59:59", "2022-03-13 08:30:00", "2022-11-06 06:30:00", "2022-11-06 08:00:00"]
    assert seconds[:4].tolist() == [utc(text) for text in expected]
    assert np.isnan(seconds[4])
    assert remarks == [
        "1 local times that occurred twice, read as the first",
        "1 local times that the clock skipped, read one hour later",
    ]
    assert seconds_of(values, None)[1] == []


def test_offsets_of_their_own_win_and_may_be_mixed() -> None:
    texts = pd.Series(["2023-01-01 00:00:00+08:00", "2023-01-01 00:00:00Z", "2023-01-01 00:00:00", "-", ""])
    seconds, _ = seconds_of(texts, CHICAGO)
    assert seconds[:3].tolist() == [utc("2022-12-31 16:00:00"), utc("2023-01-01"), utc("2023-01-01 06:00:00")]
    assert np.isnan(seconds[3:]).all()


@given(st.lists(st.floats(-2e9, 4e9, allow_nan=False).map(lambda s: round(s, 3)), min_size=1, max_size=20))
def test_dates_on_a_clock_without_summer_time_come_back(seconds: list[float]) -> None:
    wanted = np.array(
        [s for s in seconds if s > 700_000_000 or s < -1_000_000_000] or [0.0]
    )  # China had one until 1991
    texts = stamp_texts(wanted, "Etc/GMT-8")
    np.testing.assert_allclose(seconds_of(pd.Series(texts), "Etc/GMT-8")[0], wanted, atol=1e-6)


def test_unknown_and_absurd_times_are_written_empty() -> None:
    assert stamp_texts(np.array([np.nan, np.inf, 1e300]), CHICAGO).tolist() == ["", "", ""]


def test_a_table_of_your_own_in_the_odd_hour(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("submit_time,run_time,req_procs\n2022-11-06 01:30:00,5,1\n\n2022-11-07 01:30:00,5,1\n")
    trace = tracekit.read(path, timezone=CHICAGO)
    assert trace.jobs["submit_time"].tolist() == [utc("2022-11-06 06:30:00"), utc("2022-11-07 07:30:00")]
    assert "twice" in trace.history[0]
