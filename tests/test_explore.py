"""tracekit explore: bins and cubes against pandas, what is on the page, and the command line."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tracekit
from tracekit import Machine, Trace
from tracekit.errors import TracekitError, UsageError
from tracekit.explore import Source, write
from tracekit.explore import cube as cubes
from tracekit.explore import jobs as singles
from tracekit.explore import page as pages
from tracekit.explore.bins import LENGTH_NAMES, Axis, Bins, size_scale, time_scale
from tracekit.explore.cube import COLUMNS, KINDS, LEVELS, REPEAT, coded, cube, kind_codes, series
from tracekit.plots.outcomes import Classed, panels_of, size_ends
from tracekit.stats import hour_of_week, kinds, work

Run = Callable[..., tuple[int, str, str]]


def blocks(text: str) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """Unpack the first block of a page as the script does: facts, and a function that reads an array."""
    found = re.search(r'id="cubes">([^<]*)<', text)
    assert found
    data = zlib.decompress(base64.b64decode(found[1]))
    length = int.from_bytes(data[:4], "little")
    facts = json.loads(data[4 : 4 + length])

    def array(where: Any) -> Any:
        part = data[4 + length + where["at"] :][: where["bytes"]]
        if where["type"] in ("rising", "planes"):
            values = np.frombuffer(part, np.uint8).reshape(4, -1).T.copy().view("<u4").ravel().astype(np.int64)
            return np.cumsum(values) if where["type"] == "rising" else values
        return np.frombuffer(part, f"<{where['type']}")

    return facts, array


@pytest.fixture(scope="module")
def sample() -> Trace:
    """Two thousand jobs with waits; some values are unknown."""
    trace = tracekit.sample().head(2000)
    rng = np.random.default_rng(0)
    wait = np.where(rng.random(2000) < 0.1, np.nan, rng.exponential(3000, 2000) * (rng.random(2000) < 0.7))
    run = np.where(rng.random(2000) < 0.05, np.nan, trace.column("run_time"))
    return trace.assign({"wait_time": wait, "run_time": run})


@pytest.fixture(scope="module")
def source(sample: Trace) -> Source:
    return Source.of_trace("sample", sample)


# ---- bins ------------------------------------------------------------------------------------------------------------


def jobs_in(panel: Classed, values: Any) -> dict[str, int]:
    """How many jobs are in each class of a picture that has any."""
    place = panel.add(values)
    return {panel.labels()[k]: int((place == k).sum()) for k in np.unique(place[place >= 0])}


def test_classes_of_length_and_size_are_those_of_the_pictures(source: Source) -> None:
    lengths, sizes = time_scale(float(np.nanmax(source.run))), size_scale(source.size)
    by_size, by_length = panels_of(size_ends(source.size))
    classes = lengths.klass[lengths.codes(source.run)]
    assert {
        lengths.names[k]: int((classes == k).sum()) for k in np.unique(classes) if k < len(LENGTH_NAMES)
    } == jobs_in(by_length, source.run)
    classes = sizes.klass[sizes.codes(source.size)]
    assert [int((classes == k).sum()) for k in range(len(sizes.names) - 1)] == list(
        jobs_in(by_size, source.size).values()
    )


def test_every_value_lies_in_its_bin(source: Source) -> None:
    scale = time_scale(float(np.nanmax(source.run)))
    codes, known = scale.codes(source.run), np.isfinite(source.run)
    lower = np.append(-np.inf, scale.edges)[codes[known]]
    assert (source.run[known] > lower).all()
    assert (source.run[known] <= scale.edges[codes[known]]).all()
    assert (codes[~known] == scale.unknown).all()
    assert (np.diff(scale.edges) > 0).all()
    means = np.array(scale.means(source.run, codes))
    assert (means[codes[known]]).sum() == pytest.approx(source.run[known].sum())


def test_many_sizes_share_bins_and_classes_do_not_mix() -> None:
    sizes = np.arange(1.0, 1000.0)
    scale = size_scale(sizes)
    assert len(scale.edges) < 64
    klass = scale.klass[scale.codes(sizes)]
    assert (np.diff(klass.astype(int)) >= 0).all()
    assert scale.codes(np.array([np.nan, 1.0, 999.0])).tolist() == [scale.unknown, 0, len(scale.edges) - 1]


def test_values_of_any_size_fit_into_the_bins() -> None:
    sizes = 2.0 ** -np.arange(0, 200, 0.2)
    for scale, values in ((time_scale(1e300), np.logspace(0, 300, 999)), (size_scale(sizes), np.sort(sizes))):
        assert scale.unknown < 256
        assert (np.diff(scale.edges) > 0).all()
        codes = scale.codes(values).astype(int)
        assert (np.diff(codes) >= 0).all()
        assert codes.max() < scale.unknown
        assert scale.codes(np.array([np.nan])).tolist() == [scale.unknown]


def test_a_damaged_run_time_does_not_lead_beyond_all_dates(toy: Trace, tmp_path: Path) -> None:
    far = Trace(toy.jobs, toy.machine.replace(epoch=1.7e9))
    for column in ("run_time", "wait_time"):
        values = np.full(len(far), 60.0)
        values[0] = 1e13
        path = tmp_path / f"{column}.html"
        write([Source.of_trace("far", far.assign({column: values}))], path)
        assert blocks(path.read_text())[0]["axis"]["calendar"]


def test_hours_of_the_week_follow_the_clock_of_the_machine(toy: Trace) -> None:
    submit = np.arange(200) * 86400.0 / 2  # a hundred days: the clock changes on the way
    trace = toy.assign({"submit_time": submit})
    axis = Axis.of([Source.of_trace("toy", trace)])
    hours, clock = axis.local()
    there = hours[axis.quantum(submit + axis.shifts[0])]
    assert (there == hour_of_week(trace)).mean() > 0.98  # but for submits at the very edge of an hour
    winter = toy.assign({"submit_time": np.arange(200) * 2 * 86400.0})
    assert {seconds for _, seconds in Axis.of([Source.of_trace("toy", winter)]).local()[1]} == {3600.0, 7200.0}
    assert clock[0][0] == 0


def test_sources_that_overlap_keep_their_time_and_others_are_moved_by_weeks(toy: Trace) -> None:
    later = toy.replace(machine=toy.machine.replace(epoch=(toy.machine.epoch or 0) + 100 * 86400.0))
    first, second, same = (Source.of_trace(name, one) for name, one in (("a", toy), ("b", later), ("c", toy)))
    assert Axis.of([first, same]).shifts[0] == Axis.of([first, same]).shifts[1] == toy.machine.epoch
    shifts = Axis.of([first, second]).shifts
    moved = (shifts[1] - (later.machine.epoch or 0)) / 604800
    assert moved == round(moved) == -14
    bare = toy.replace(machine=toy.machine.replace(epoch=None))
    assert not Axis.of([Source.of_trace("a", bare), second]).calendar


# ---- cubes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS[1:])
def test_cells_are_what_pandas_groups(source: Source, level: cubes.Level) -> None:
    bins = Bins.of([source])
    time, codes = coded(source, bins, bins.axis.shifts[0])
    made = cube(time, codes, bins, level)
    coarse = pd.DataFrame({"time": time // level.quanta * level.quanta})
    for name, table in cubes.tables(bins, level).items():
        coarse[name] = table[codes[name]]
        if name in ("size", "run", "wait", "gap"):
            klass = getattr(bins, name).klass
            assert (klass[table] == klass).all()  # classes stay exact
    expected = coarse.groupby(["time", *COLUMNS]).size()
    found = pd.Series(made.count, index=pd.MultiIndex.from_arrays([made.time, *(made.codes[name] for name in COLUMNS)]))
    assert found.sort_index().to_dict() == expected.sort_index().to_dict()
    assert made.count is not None
    assert made.count.sum() == len(source)
    assert (np.diff(made.time) >= 0).all()


def test_the_finest_level_has_every_job(source: Source, sample: Trace) -> None:
    text, made = pages.page([source])
    facts, array = blocks(text)
    rows = facts["sources"][0]["rows"]
    assert made.sources[0]["rows"] == rows["n"] == len(sample)
    users = np.array(facts["user"]["names"])[array(rows["codes"]["user"])]
    assert pd.Series(users).value_counts().to_dict() == sample.jobs["user"].astype(str).value_counts().to_dict()
    status = np.array(facts["status"])[array(rows["codes"]["status"])]
    assert (status == sample.jobs["status"].astype(str).to_numpy()).mean() == 1.0
    seconds = facts["axis"]["begin"] + array(rows["time"]) * facts["axis"]["width"] - facts["sources"][0]["shift"]
    assert (np.abs(seconds - np.sort(sample.column("submit_time"))) <= facts["axis"]["width"]).all()
    sizes = np.array([*facts["sources"][0]["means"]["size"], np.nan])[array(rows["codes"]["size"])]
    assert np.nansum(sizes) == pytest.approx(np.nansum(source.size))


def test_kinds_are_ranked_by_user_and_repeats_are_of_the_job_before(source: Source) -> None:
    codes = kind_codes(source)
    table = pd.DataFrame({"user": source.trace.column("user"), "kind": kinds(source.trace), "code": codes})
    counts = table.groupby(["user", "kind"]).size().rename("count").reset_index()
    counts["rank"] = counts.groupby("user")["count"].rank(method="first", ascending=False) - 1
    merged = table.merge(counts, on=["user", "kind"])
    same_count = merged.groupby(["user", "count"])["rank"].transform("nunique") == 1  # without ties the rank is certain
    certain = merged[same_count]
    assert (np.minimum(certain["rank"], KINDS) == certain["code"] % REPEAT).all()
    repeated = table.groupby("user")["kind"].diff() == 0
    assert ((codes >= REPEAT) == repeated.to_numpy()).all()


def test_use_and_queue_over_time_keep_their_areas(source: Source) -> None:
    bins = Bins.of([source])
    found = series(source, bins, bins.axis.shifts[0])
    width = bins.axis.width * bins.axis.count / len(found["used"])
    known = np.isfinite(source.start)
    assert found["used"].sum() * width == pytest.approx(work(source.trace)[known].sum(), rel=0.01)
    assert found["waiting"].sum() * width == pytest.approx(np.nansum(source.wait), rel=0.01)


def test_coarser_levels_are_taken_until_the_page_is_small(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    fine, _ = pages.page([source], window=(0, 10))
    monkeypatch.setattr(pages, "MAX_BYTES", len(fine) - 3000)
    coarse, made = pages.page([source], window=(0, 10))
    assert made.bytes <= len(fine) - 3000
    assert made.sources[0]["level"] > 1
    facts, array = blocks(coarse)
    assert array(facts["sources"][0]["rows"]["count"]).sum() == len(source)
    monkeypatch.setattr(pages, "MAX_BYTES", 1000)
    with pytest.raises(TracekitError, match="MB"):
        pages.page([source])


def test_rows_are_limited_so_that_brushing_stays_quick(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_ROWS", 1850)
    _, made = pages.page([source])
    assert made.sources[0]["rows"] <= 1850
    assert made.sources[0]["jobs"] == 2000


# ---- single jobs -----------------------------------------------------------------------------------------------------


def test_a_window_brings_the_jobs_that_ran_beside_it(source: Source) -> None:
    rows = singles.chosen(source, (500, 100))
    assert set(range(500, 600)) <= set(rows.tolist())
    low, high = np.nanmin(source.start[500:600]), np.nanquantile(source.end[500:600], 0.95)
    beside = np.flatnonzero((source.end > low) & (source.start < high))
    assert set(beside.tolist()) <= set(rows.tolist())
    assert singles.chosen(source, None).tolist() == list(range(2000))
    with pytest.raises(UsageError, match="--window"):
        singles.chosen(source, (5000, 10))


def test_places_do_not_overlap(sample: Trace) -> None:
    trace = sample.head(400)
    result = tracekit.simulate(trace)
    one = Source.of_schedule("s", result.schedule(), trace)
    rows = np.arange(len(one))
    job, first, count, _, tracks = singles.places(one, rows)
    assert tracks["height"] == trace.machine.procs
    assert np.bincount(job, weights=count, minlength=len(one)).tolist() == one.size.tolist()
    for processor in range(0, 256, 17):
        held = job[(first <= processor) & (processor < first + count)]
        spans = sorted(zip(one.start[held], one.end[held], strict=True))
        assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_jobs_that_hold_fractions_all_have_a_place() -> None:
    jobs = pd.DataFrame({"job_id": [1, 2, 3], "submit_time": 0.0, "wait_time": 0.0, "run_time": 5.0, "req_gpus": 0.5})
    found = Source.of_trace("shared", Trace(jobs, Machine(gpus=2, unit="gpus")))
    job, first, count, _, tracks = singles.places(found, np.arange(3))
    assert (job.tolist(), first.tolist(), count.tolist(), tracks["height"]) == ([0, 1, 2], [0, 1, 2], [1, 1, 1], 3)


def test_a_schedule_takes_users_and_dates_from_its_trace(sample: Trace) -> None:
    trace = sample.head(300)
    result = tracekit.simulate(trace, "sjf")
    one = Source.of_schedule("sjf", result.schedule().sample(frac=1, random_state=0), trace)
    assert one.wait.tolist() == result.wait.tolist()
    assert one.trace.jobs["user"].tolist() == trace.jobs["user"].iloc[result.position].tolist()
    texts = singles.reasons(one, np.arange(len(one)))
    assert all(text.startswith(f"Job {job} asked for") for text, job in zip(texts, result.job_id, strict=True))
    alone = Source.of_schedule("sjf", result.schedule())
    assert "--trace" in alone.notes[0]
    with pytest.raises(TracekitError, match="not in the trace"):
        Source.of_schedule("sjf", result.schedule(), trace.head(5))


# ---- the page and the command line -----------------------------------------------------------------------------------


def test_the_page_asks_for_nothing_and_labels_are_not_in_its_markup(toy: Trace, tmp_path: Path) -> None:
    hostile = "</script><script>window.hacked = 1</script>"
    trace = toy.assign({"user": [hostile] * 100 + ["ann"] * 100})
    write([Source.of_trace(hostile, trace)], tmp_path / "p.html", title=f"{hostile} %SCRIPT%")
    text = (tmp_path / "p.html").read_text()
    assert hostile not in text
    assert "default-src 'none'" in text
    assert "unsafe-inline" not in text
    markup = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    outside = re.findall(r"""(?:src|href|action)=["']?([^"'> ]+)""", markup)
    assert outside == ["data:,", "#views"]
    assert len(re.findall("<script", text)) == 3
    assert "%SCRIPT%</title>" in text


def test_the_same_input_gives_the_same_bytes(toy: Trace, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write([Source.of_trace("toy", toy)], tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


@pytest.fixture
def swf(toy: Trace, tmp_path: Path) -> Path:
    tracekit.write(toy, tmp_path / "toy.swf")
    return tmp_path / "toy.swf"


def test_a_trace_against_its_schedule(swf: Path, tmp_path: Path, run: Run) -> None:
    assert run("simulate", swf, "--policy", "fcfs,sjf", "-o", tmp_path / "runs", "--no-figures")[0] == 0
    schedule = tmp_path / "runs" / "fcfs__easy" / "schedule.csv"
    code, out, error = run("explore", swf, schedule, "-o", tmp_path / "p.html", "--json")
    assert code == 0, error
    found = json.loads(out)
    assert [(one["name"], one["kind"], one["jobs"]) for one in found["sources"]] == [
        ("toy", "trace", 200), ("fcfs__easy", "schedule", 200)
    ]  # fmt: skip
    assert found["bytes"] == (tmp_path / "p.html").stat().st_size
    assert all(not one["notes"] for one in found["sources"])  # users come from the trace beside it
    code, out, _ = run("explore", tmp_path / "runs", "--trace", swf, "-o", tmp_path / "r.html", "--json")
    assert [one["name"] for one in json.loads(out)["sources"]] == ["fcfs__easy", "sjf__easy"]
    code, out, _ = run("explore", swf, swf, "-o", tmp_path / "s.html", "--json")
    assert [one["name"] for one in json.loads(out)["sources"]] == ["toy (1)", "toy (2)"]


def test_windows_by_number_and_by_date(swf: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(singles, "FEW", 10)
    monkeypatch.setattr(singles, "MIDDLE", 20)

    def jobs(*words: str) -> int:
        code, out, error = run("explore", swf, "-o", tmp_path / "p.html", "--force", "--json", *words)
        assert code == 0, error
        return int(json.loads(out)["sources"][0]["single_jobs"])

    assert 20 <= jobs() < 100
    assert 30 <= jobs("--window", "10:30") < 120
    assert 5 <= jobs("--before", "2023-11-15") < 200


def test_a_range_of_time_is_the_same_stretch_of_the_page_in_every_source(source: Source) -> None:
    """The second source has other jobs before the range, and begins fifty weeks later."""
    trace = source.trace
    later = trace.assign({"submit_time": trace.column("submit_time") + 50 * 7 * 86400.0}).head(len(trace) // 2)
    span = (float(source.submit[20]), float(source.submit[60]))
    shown = [Source.of_trace("a", trace.take(np.arange(10, len(trace)))), Source.of_trace("b", later)]
    bins = Bins.of(shown)
    _, made = pages.page(shown, span=span)
    assert bins.axis.shifts[1] != bins.axis.shifts[0]
    expected = [singles.chosen(shown[0], (10, 40)), singles.chosen(shown[1], (20, 40))]
    assert [one["single_jobs"] for one in made.sources] == [len(rows) for rows in expected]
    with pytest.raises(UsageError, match="no job"):
        pages.page(shown, span=(-2e9, -1e9))


def test_an_experiment_shows_its_traces(toy: Trace, tmp_path: Path, run: Run) -> None:
    (tmp_path / "RUN" / "data").mkdir(parents=True)
    toy.save(tmp_path / "RUN" / "data" / "train.parquet")
    toy.head(100).save(tmp_path / "RUN" / "data" / "lublin-0.parquet")
    about = {"files": {"traces": {"lublin": ["data/lublin-0.parquet"], "tvae": []}}}
    (tmp_path / "RUN" / "experiment.json").write_text(json.dumps(about))
    code, out, error = run("explore", tmp_path / "RUN", "-o", tmp_path / "p.html", "--json")
    assert code == 0, error
    assert [(one["name"], one["jobs"]) for one in json.loads(out)["sources"]] == [
        ("real (training part)", 200), ("lublin", 100)
    ]  # fmt: skip
    for damaged in ("{}", '{"files": {"traces": {"lublin": [3]}}}'):
        (tmp_path / "RUN" / "experiment.json").write_text(damaged)
        code, _, error = run("explore", tmp_path / "RUN", "-o", tmp_path / "q.html")
        assert code == 1
        assert "does not say which traces the experiment made" in error


def test_errors_come_before_any_work_and_name_the_next_step(swf: Path, tmp_path: Path, toy: Trace, run: Run) -> None:
    nodes = toy.assign({"req_nodes": toy.column("req_procs")}).replace(machine=Machine(nodes=32, unit="nodes"))
    tracekit.write(nodes, tmp_path / "nodes.parquet")
    tracekit.write(toy.head(0), tmp_path / "empty.parquet")
    (tmp_path / "there.html").write_text("mine")
    (tmp_path / "folder").mkdir()
    page = str(tmp_path / "p.html")
    for words, code, match in (
        ([tmp_path / "no.swf", "-o", page], 1, "no such file"),
        ([swf, "-o", tmp_path / "there.html"], 1, "--force"),
        ([swf, "-o", "-"], 1, "standard output"),
        ([swf, "-o", tmp_path / "p.txt"], 1, "p.html"),
        ([swf, "-o", tmp_path / "no" / "p.html"], 1, "does not exist"),
        ([swf, tmp_path / "nodes.parquet", "-o", page], 2, "--resource"),
        ([tmp_path / "empty.parquet", "-o", page], 1, "nothing to explore"),
        ([tmp_path / "folder", "-o", page], 1, "schedule"),
        ([swf, "-o", page, "--window", "1000:5"], 2, "--window"),
        ([swf, "-o", page, "--window", "x"], 2, "START:COUNT"),
        ([swf, "-o", page, "--window", "0:5", "--after", "0"], 2, "--after"),
        ([swf, "-o", page, "--after", "9999999999"], 2, "--after"),
        ([swf], 2, "-o"),
    ):  # fmt: skip
        found, out, error = run("explore", *words)
        assert (found, out) == (code, ""), (words, error)
        assert error.splitlines()[-1].startswith("error: ")
        assert match in error, (words, error)
    assert (tmp_path / "there.html").read_text() == "mine"
    assert not Path(page).exists()


def test_traces_without_waits_users_status_or_machine(tmp_path: Path, run: Run) -> None:
    jobs = pd.DataFrame({"job_id": [1, 2, 3], "submit_time": [0.0, 5.0, 5.0], "run_time": [1.0, np.nan, 4.0]})
    jobs["req_procs"] = np.nan
    tracekit.write(Trace(jobs, Machine()), tmp_path / "bare.parquet")
    code, _, error = run("explore", tmp_path / "bare.parquet", "-o", tmp_path / "p.html")
    assert code == 0, error
    facts, _ = blocks((tmp_path / "p.html").read_text())
    known = facts["sources"][0]["known"]
    assert not any(known[name] for name in ("waits", "users", "status", "queues", "machine", "sizes"))
    assert known["runs"]
