"""tracekit.compare and simulate --windows: policies × backfillings with intervals and paired differences."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap, wilcoxon

import tracekit
from tracekit import plots
from tracekit.errors import TracekitError, UnknownName, UsageError
from tracekit.intervals import LEVEL, RESAMPLES, interval, intervals, signed_rank

from .two_hosts import HostModel

COLUMNS = [
    *("policy", "backfill", "windows", "mean_bsld", "low", "high", "mean_wait_s", "wait_low", "wait_high"),
    *("utilization", "difference", "difference_low", "difference_high", "p"),
]


@pytest.fixture(scope="module")
def trace():
    return tracekit.sample().head(2000)


@pytest.fixture(scope="module")
def found(trace):
    return tracekit.compare(trace, ["fcfs", "sjf", "wfp3"], ["easy", "none"], windows=12, jobs=150, seed=4)


@pytest.fixture
def swf(toy, tmp_path):
    path = tmp_path / "toy.swf"
    tracekit.write(toy, path)
    return path


def rows_of(found, metric):
    return found.values[metric].to_numpy().reshape(len(found.table), len(found.windows))


def plain(values, method="BCa", seed=4):
    """What scipy says of one row, by itself."""
    made = bootstrap(
        (values,), np.mean, n_resamples=RESAMPLES, confidence_level=LEVEL, method=method,
        random_state=np.random.default_rng([seed, len(values)]),
    )  # fmt: skip
    return made.confidence_interval


def test_the_table(found):
    assert list(found.table.columns) == COLUMNS
    pairs = [(p, b) for p in ("fcfs", "sjf", "wfp3") for b in ("easy", "none")]
    assert list(zip(found.table["policy"], found.table["backfill"], strict=True)) == pairs
    assert (found.table["windows"] == 12).all()
    assert found.baseline == "fcfs"
    assert not found.notes
    assert {"policy", "backfill", "start", "jobs", "mean_bsld", "mean_wait_s", "utilization"} <= set(found.values)
    assert len(found.values) == len(found.results) == 6 * 12
    assert "difference_low" in repr(found)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["comparison"][2]["policy"] == "sjf"
    assert len(told["values"]) == 72
    assert told["windows"][0] == {"start": found.windows[0][0], "jobs": 150}


def test_each_number_by_hand(found, trace):
    start, count = found.windows[3]
    own = tracekit.simulate(trace.take(slice(start, start + count)), "wfp3", "none", seed=4)
    assert rows_of(found, "mean_bsld")[5, 3] == own.metrics["mean_bsld"]
    bsld, wait = rows_of(found, "mean_bsld"), rows_of(found, "mean_wait_s")
    difference = bsld - bsld[[0, 1] * 3]
    for number, row in found.table.iterrows():
        assert row["mean_bsld"] == bsld[number].mean()
        assert row["mean_wait_s"] == wait[number].mean()
        assert (row["low"], row["high"]) == pytest.approx(tuple(plain(bsld[number])), rel=1e-9)
        assert (row["wait_low"], row["wait_high"]) == pytest.approx(tuple(plain(wait[number])), rel=1e-9)
        assert row["difference"] == pytest.approx(difference[number].mean())
        if row["policy"] == "fcfs":
            assert tuple(row[["difference", "difference_low", "difference_high", "p"]]) == (0, 0, 0, 1)
            continue
        assert (row["difference_low"], row["difference_high"]) == pytest.approx(
            tuple(plain(difference[number])), rel=1e-9
        )
        assert row["p"] == wilcoxon(difference[number][difference[number] != 0]).pvalue


def test_the_same_seed_gives_the_same_table(found, trace):
    again = tracekit.compare(trace, ["fcfs", "sjf", "wfp3"], ["easy", "none"], windows=12, jobs=150, seed=4)
    pd.testing.assert_frame_equal(again.table, found.table)
    given = tracekit.compare(trace, ["sjf", "fcfs"], windows=found.windows, seed=4, baseline="fcfs")
    assert list(given.table["policy"]) == ["sjf", "fcfs"]
    ours = found.table[found.table["backfill"] == "easy"].set_index("policy")
    pd.testing.assert_frame_equal(given.table.set_index("policy"), ours.loc[["sjf", "fcfs"]])


def test_switches_machines_and_own_policies(toy):
    class Small:
        name = "small"

        def priority(self, queue, state, /):
            return state.procs[queue]

    found = tracekit.compare(toy, [Small(), "smallest"], windows=3, jobs=40, estimates="actual")
    assert found.switches["estimates"] == "actual"
    assert list(found.table["policy"]) == ["small", "smallest"]
    assert found.table["difference"].tolist() == [0, 0]
    hosts = HostModel(16, 16)
    narrow = tracekit.compare(toy, "fcfs", "none", windows=[(0, 60)], machine=hosts)
    alone = tracekit.simulate(toy.head(60), "fcfs", "none", machine=hosts)
    assert narrow.table["mean_bsld"][0] == alone.metrics["mean_bsld"]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"policies": ["fcfs", "wfp"]}, UnknownName, "did you mean wfp3"),
        ({"policies": []}, UsageError, "at least one policy"),
        ({"policies": [3]}, UsageError, "priority"),
        ({"backfills": "esy"}, UnknownName, "did you mean easy"),
        ({"baseline": "wfp3"}, UnknownName, "baseline"),
        ({"jobs": 5000}, UsageError, "do not fit"),
        ({"windows": 0}, UsageError, "at least 1"),
        ({"windows": 500, "jobs": 199}, UsageError, "only 2"),
        ({"windows": [(0, 50)]}, UsageError, "length of random windows"),
        ({"windows": [(190, 50)], "jobs": None}, UsageError, "does not lie within"),
        ({"bound": -1}, UsageError, "bound"),
        ({"trace": "toy.swf"}, UsageError, "expected a Trace"),
    ],
)
def test_mistakes(toy, arguments, error, words):
    with pytest.raises(error, match=words):
        tracekit.compare(**{"trace": toy, "policies": ["fcfs", "sjf"], "windows": 3, "jobs": 40, **arguments})


def test_two_policies_of_one_name_are_refused(toy):
    class Fcfs:
        name = "fcfs"

        def priority(self, queue, state, /):
            return state.submit[queue]

    with pytest.raises(UsageError, match="two policies are called 'fcfs'"):
        tracekit.compare(toy, ["fcfs", Fcfs()], windows=2, jobs=20)
    assert len(tracekit.compare(toy, ["fcfs", "fcfs"], windows=2, jobs=20).table) == 1


def test_one_window_has_no_intervals(toy):
    found = tracekit.compare(toy, ["fcfs", "sjf"], windows=1, jobs=100)
    numbers = found.table[["low", "high", "wait_low", "wait_high", "difference_low", "difference_high"]]
    assert numbers.isna().all(axis=None)
    assert found.table["mean_bsld"].notna().all()
    assert any("one window" in note for note in found.notes)
    assert found.to_dict()["comparison"][0]["low"] is None


def test_windows_without_jobs_are_left_out_and_counted(toy):
    run = toy.column("run_time").copy()
    run[:40] = np.nan
    holed = toy.assign({"run_time": run})
    found = tracekit.compare(holed, ["fcfs", "sjf"], windows=[(0, 40), (40, 40), (80, 40), (120, 40)])
    full = tracekit.compare(holed, ["fcfs", "sjf"], windows=[(40, 40), (80, 40), (120, 40)])
    assert any("1 of 4 windows have no job to measure" in note for note in found.notes)
    assert (found.table["windows"] == 3).all()
    pd.testing.assert_frame_equal(found.table, full.table)
    assert found.values["mean_bsld"].isna().sum() == 2
    with pytest.raises(TracekitError, match="no job can be simulated"):
        tracekit.compare(holed, "fcfs", windows=[(0, 20), (20, 20)])


def test_replay_is_compared_where_that_can_be_meant(toy):
    """It has no backfilling: beside one it is compared with that, beside several with its own kind only."""
    one = tracekit.compare(toy, ["fcfs", "replay"], windows=3, jobs=50).table
    assert one["difference"][1] == pytest.approx(one["mean_bsld"][1] - one["mean_bsld"][0])
    first = tracekit.compare(toy, ["replay", "fcfs"], ["easy", "easy-sjf"], windows=3, jobs=50).table
    assert first["difference"].notna().all()
    several = tracekit.compare(toy, ["fcfs", "replay"], ["easy", "easy-sjf"], windows=3, jobs=50)
    assert np.isnan(several.table["difference"].iloc[-1])
    assert any(note.startswith("replay + none: no difference") for note in several.notes)


# ---- intervals -------------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(st.integers(3, 25), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_intervals_are_scipys(windows, rows, seed):
    values = np.exp(np.random.default_rng(seed).normal(2, 1, (rows, windows)))
    low, high = intervals(values, 4)
    for number in range(rows):
        assert (low[number], high[number]) == pytest.approx(tuple(plain(values[number])), rel=1e-9)
        alone = intervals(values[number : number + 1], 4)
        assert (low[number], high[number]) == pytest.approx((alone[0][0], alone[1][0]), rel=1e-12)


def test_where_bca_is_not_defined_percentiles_are_taken():
    values = np.array([[3.0] * 6, [1.0, 2, 3, 4, 5, 9], [np.nan, 1, 2, 3, 4, 5], [np.nan] * 5 + [7.0]])
    low, high = intervals(values)
    assert (low[0], high[0]) == (3, 3)
    assert (low[1], high[1]) == pytest.approx(tuple(plain(values[1], seed=0)))
    assert (low[2], high[2]) == pytest.approx(tuple(plain(values[2, 1:], seed=0)))
    assert np.isnan([low[3], high[3]]).all()
    assert interval(values[1]) == pytest.approx(tuple(plain(values[1], "percentile", seed=0)))


def test_ranks_say_nothing_of_equal_windows():
    assert signed_rank(np.zeros(5)) == 1
    difference = np.array([0.0, np.nan, 1, 2, 3, 4, 5, 6])
    assert signed_rank(difference) == wilcoxon(np.arange(1.0, 7)).pvalue


def test_intervals_cover_the_mean_of_all_windows_about_as_often_as_they_say(toy):
    """Every window of 40 jobs is simulated; 200 times, thirty of them are drawn as `compare` would draw them."""
    every = tracekit.compare(toy, ["fcfs", "sjf"], windows=[(start, 40) for start in range(161)])
    bsld = rows_of(every, "mean_bsld")
    drawn = np.random.default_rng(1).integers(0, 161, (200, 30))
    for row in (bsld[0], bsld[1] - bsld[0]):
        low, high = intervals(row[drawn])
        covered = np.mean((low <= row.mean()) & (row.mean() <= high))
        assert 0.88 <= covered <= 0.99


# ---- the command -----------------------------------------------------------------------------------------------------


def test_simulate_prints_and_writes_it(run, swf, toy, tmp_path):
    out = tmp_path / "runs"
    words = ("simulate", swf, "--policy", "fcfs,sjf", "--windows", 7, "--jobs", 50, "--seed", 2, "--out", out)
    code, text, error = run(*words)
    assert code == 0, error
    assert "baseline" in text
    assert "[" in text
    library = tracekit.compare(toy, ["fcfs", "sjf"], windows=7, jobs=50, seed=2)
    table = pd.read_csv(out / "summary.csv")
    assert list(table.columns) == COLUMNS
    pd.testing.assert_frame_equal(table, library.table, check_dtype=False, rtol=1e-12)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["trace"] == str(swf)
    assert summary["comparison"] == json.loads(json.dumps(library.to_dict()["comparison"]))
    for name, begin in (("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")):
        for picture in ("slowdowns", "differences"):
            assert (out / f"{picture}.{name}").read_bytes().startswith(begin)
    assert (out / f"sjf__easy__w{library.windows[0][0]}" / "schedule.csv").is_file()
    first = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    assert run(*words)[0] == 1  # exists
    assert run(*words, "--force")[0] == 0
    assert first == {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    code, text, error = run(*words, "--force", "--json")
    told = json.loads(text)
    assert told["comparison"] == summary["comparison"]
    assert set(told) == {"trace", "switches", "results", "notes", "comparison"}
    assert [row["mean_bsld"] for row in told["results"]] == [row["mean_bsld"] for row in told["comparison"]]
    assert told["results"][0]["windows"][0]["start"] == library.windows[0][0]


def test_several_given_windows_are_compared_and_one_is_not(run, swf, tmp_path):
    code, text, _ = run(
        "simulate", swf, "--policy", "fcfs,sjf", "--window", "0:50", "--window", "60:50", "--baseline", "sjf",
        "--out", tmp_path / "two", "--no-figures", "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(text)["comparison"][0]["difference"] >= 0
    assert {path.name for path in (tmp_path / "two").iterdir() if path.is_file()} == {"summary.csv", "summary.json"}
    code, text, _ = run("simulate", swf, "--window", "0:50", "--out", tmp_path / "one", "--no-figures", "--json")
    assert code == 0
    assert "comparison" not in json.loads(text)
    assert not (tmp_path / "one" / "summary.csv").exists()


def test_a_summary_is_not_replaced_unasked(run, swf, tmp_path):
    (tmp_path / "summary.json").write_text("mine")
    code, _, error = run("simulate", swf, "--windows", 2, "--jobs", 20, "--out", tmp_path)
    assert code == 1
    assert "summary.json: exists already" in error
    assert (tmp_path / "summary.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--windows", 2, "--jobs", 20, "--baseline", "wfp3"), "baseline"),
        (("--baseline", "fcfs"), "add --windows"),
        (("--windows", 2, "--jobs", 20, "--policy", "nowhere:Mine"), "module nowhere"),
    ],
)
def test_usage(run, swf, words, message):
    code, _, error = run("simulate", swf, "--policy", "fcfs,sjf", *words)
    assert code == 2
    assert message in error
    assert error.count("\n") == 1


def test_one_policy_has_no_differences_to_draw(run, swf, tmp_path):
    code, _, error = run("simulate", swf, "--windows", 13, "--jobs", 20, "--out", tmp_path / "o")
    assert code == 0
    assert "differences: not drawn" in error
    assert (tmp_path / "o" / "slowdowns.png").exists()
    assert not (tmp_path / "o" / "differences.png").exists()


# ---- pictures --------------------------------------------------------------------------------------------------------


def test_pictures_show_every_row(found):
    boxes = plots.slowdowns(found).axes[0]
    assert [label.get_text() for label in boxes.get_yticklabels()] == [
        f"{p} + {b}" for p in ("fcfs", "sjf", "wfp3") for b in ("easy", "none")
    ]
    paired = plots.differences(found).axes[0]
    assert len(paired.get_yticklabels()) == 4


def test_far_values_are_drawn_logarithmically(found):
    from dataclasses import replace

    far = found.values.assign(mean_bsld=np.geomspace(1, 1e4, len(found.values)))
    wide = replace(found, values=far, differences=found.differences * np.geomspace(1, 1e4, 12))
    assert plots.slowdowns(wide).axes[0].get_xscale() == "log"
    assert plots.differences(wide).axes[0].get_xscale() == "symlog"
    near = replace(found, values=found.values.assign(mean_bsld=np.linspace(1, 2, len(found.values))))
    assert plots.slowdowns(near).axes[0].get_xscale() == "linear"
    none = replace(found, values=found.values.assign(mean_bsld=np.nan))
    with pytest.raises(plots.NothingToDraw):
        plots.slowdowns(none)
