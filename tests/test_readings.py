"""Numbers and dates with two readings are refused, and both readings are in the message."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

import tracekit
from tracekit.errors import UsageError
from tracekit.readings import read_date, read_load
from tracekit.sim.analysis.sweep import parse_loads
from tracekit.sim.switches import parse_cut

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("text", ["85", "85.0", "70", "150", "11"])
def test_a_load_in_per_cent_is_refused_with_both_readings(text: str) -> None:
    with pytest.raises(UsageError, match=f"{float(text) / 100:g}.*{float(text):g}x"):
        read_load(text)


@pytest.mark.parametrize(("text", "load"), [("0.85", 0.85), ("85%", 0.85), ("2", 2.0), ("10", 10.0), ("85x", 85.0)])
def test_loads(text: str, load: float) -> None:
    assert read_load(text) == pytest.approx(load)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "much", ""])
def test_what_is_not_a_load(text: str) -> None:
    with pytest.raises(UsageError, match="--load"):
        read_load(text)


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("01/02/1999", ("1999-01-02", "1999-02-01")),
        ("01.02.1999", ("1999-01-02", "1999-02-01")),
        ("1-2-1999 08:00", ("1999-01-02", "1999-02-01")),
        ("02/03/04", ("2004-02-03", "2004-03-02", "2002-03-04")),
    ],
)
def test_an_ambiguous_date_is_refused_with_its_readings(text: str, readings: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as error:
        read_date(text)
    assert all(reading in str(error.value) for reading in readings)


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("1999-02-01", "1999-02-01"),
        ("1999/02/01", "1999-02-01"),
        ("31/01/1999", "1999-01-31"),
        ("01/31/1999", "1999-01-31"),
        ("05/05/1999", "1999-05-05"),
        ("1 Feb 1999", "1999-02-01"),
        ("31.01.1999 08:30", "1999-01-31T08:30"),
    ],
)
def test_dates_with_one_reading(text: str, date: str) -> None:
    assert read_date(text).isoformat().startswith(date)


@pytest.mark.parametrize("text", ["soon", "31/31/1999", "32-13-01", "NaT", ""])
def test_what_is_not_a_date(text: str) -> None:
    with pytest.raises(UsageError):
        read_date(text)


def test_the_flags(tmp_path: Path, run: Run) -> None:
    sample, out = tmp_path / "sample.swf", tmp_path / "out.swf"
    tracekit.write(tracekit.sample().head(500), sample)
    for words in (
        ("scale", sample, out, "--load", "85"),
        ("synth", sample, "-o", out, "--load", "85"),
        ("sweep", sample, "-o", tmp_path / "curves", "--load", "50:110"),
        ("slice", sample, out, "--after", "01/02/2024"),
        ("slice", sample, out, "--before", "01/02/2024"),
        ("slice", sample, out, "--after", "20240102"),
        ("split", sample, "-o", tmp_path / "parts", "--at", "01/02/2024"),
        ("synth", sample, "-o", out, "--model", "resample", "--jobs", 50, "--start", "01/02/2024"),
        ("train", sample, "-o", tmp_path / "agent", "--split", "70", "--steps", "10"),
        ("shake", sample, "-o", tmp_path / "shaken", "--run-share", "5"),
        ("simulate", sample, "--warmup", "5"),
        ("verdict", sample, sample, "--margin", "10"),
    ):
        code, _, err = run(*words)
        if words[0] == "train" and importlib.util.find_spec("torch") is None:
            continue  # its settings are read after the extra is found
        assert code == 2, (words, err)
        assert not out.exists()
    assert run("scale", sample, out, "--load", "85%")[0] == 0
    with pytest.raises(UsageError, match=r"0\.7"):
        tracekit.sample().split(70)
    with pytest.raises(UsageError, match=r"5%.*5s"):
        parse_cut("5")
    assert parse_loads("50%:60%") == [0.5, 0.6]


def test_a_simulation_that_rejects_most_jobs_warns_first(tmp_path: Path, run: Run) -> None:
    import json

    sample = tmp_path / "sample.swf"
    tracekit.write(tracekit.sample().head(500), sample)
    code, out, err = run("simulate", sample, "--procs", 1, "--json")
    assert code == 0
    assert err.startswith("WARNING")
    assert "--procs" in err
    found = json.loads(out)
    assert found["notes"][0].startswith("WARNING")
    assert found["results"][0]["rejected"] > 250
    assert "WARNING" not in run("simulate", sample)[2]
