"""The doctor: each known damage is found, sound traces raise no alarm, and the proposed rules fix the findings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shared_data import shared, shared_files

import tracekit
from tracekit import Trace, cleaning, doctor, plots, stats
from tracekit.doctor.bursts import _stretches, find_bursts
from tracekit.doctor.clock import find_jumps
from tracekit.doctor.finding import SEVERITIES
from tracekit.doctor.silence import find_silences

Run = Callable[..., tuple[int, str, str]]
DAY = 86_400.0


@pytest.fixture(scope="module")
def sound() -> Trace:
    return tracekit.sample()


def flurry(trace: Trace, jobs: int = 2500, days: float = 3.0) -> Trace:
    submit = trace.column("submit_time")
    copy = trace.jobs.iloc[[3000] * jobs].copy()
    copy["submit_time"] = submit[3000] + np.sort(np.random.default_rng(0).uniform(0, days * DAY, jobs).round())
    copy["job_id"] = trace.jobs["job_id"].max() + 1 + np.arange(jobs)
    both = pd.concat([trace.jobs, copy]).sort_values("submit_time", kind="stable")
    return trace.replace(jobs=both.reset_index(drop=True))


def hole(trace: Trace) -> Trace:
    submit = trace.column("submit_time")
    return trace.take(~((submit >= submit[5000]) & (submit < submit[5000] + 6 * DAY)))


def shifted(trace: Trace, seconds: float, rows: slice, *, sort: bool = False) -> Trace:
    submit = trace.column("submit_time").copy()
    submit[rows] += seconds
    moved = trace.assign({"submit_time": submit})
    return moved.take(moved.order()) if sort else moved


def summer_times(trace: Trace) -> Trace:
    """A year of weekdays, people working from 9 to 17 on the local clock; summer is an hour off."""
    zone = "Europe/Berlin"
    rng = np.random.default_rng(0)
    days = pd.date_range("2021-01-04", periods=360, freq="D", tz=zone)
    noons = [day.replace(hour=12).timestamp() for day in days if day.day_of_week < 5]
    stamps = np.concatenate([noon + np.sort(rng.integers(-3 * 3600, 5 * 3600, 20)) for noon in noons])
    local = pd.to_datetime(stamps, unit="s", utc=True).tz_convert(zone)
    stamps = stamps + np.array([3600 if moment.dst() else 0 for moment in local])
    jobs = pd.DataFrame({"job_id": np.arange(len(stamps)), "submit_time": stamps - stamps[0], "run_time": 60.0,
                         "req_procs": 1, "user": rng.integers(0, 30, len(stamps)).astype(str)})  # fmt: skip
    return Trace(jobs, trace.machine.replace(epoch=float(stamps[0]), timezone=zone, header=None))


def part_of(trace: Trace, column: str, factor: float, begin: float, end: float) -> Trace:
    place = np.arange(len(trace)) / len(trace)
    values = trace.column(column)
    return trace.assign({column: np.where((place >= begin) & (place < end), np.round(values * factor), values)})


def part_in_nodes(trace: Trace) -> Trace:
    """Every job takes whole nodes of eight, but a part of the log counts nodes."""
    sizes = np.ceil(trace.sizes() / 8) * np.where((np.arange(len(trace)) // 1000) == 4, 1, 8)
    names = [name for name in ("req_procs", "alloc_procs") if name in trace.jobs]
    machine = trace.machine.replace(nodes=trace.machine.procs, procs=8 * (trace.machine.procs or 0))
    return trace.assign(dict.fromkeys(names, sizes)).replace(machine=machine)


def half_stated(trace: Trace) -> Trace:
    lines = [line.replace("10000", "5000") for line in trace.machine.header or ()]
    return trace.replace(machine=trace.machine.replace(header=tuple(lines)))


def doubled(trace: Trace, *, sort: bool, later: float = 0.0) -> Trace:
    block = trace.jobs.iloc[4000:4200].copy()
    block["submit_time"] += later
    block["job_id"] = trace.jobs["job_id"].max() + 1 + np.arange(200)
    both = pd.concat([trace.jobs.iloc[:4200], block, trace.jobs.iloc[4200:]])
    if sort:
        both = both.sort_values("submit_time", kind="stable")
    return trace.replace(jobs=both.reset_index(drop=True))


def in_nodes(trace: Trace) -> Trace:
    small = {name: np.ceil(trace.column(name) / 8) for name in ("req_procs", "alloc_procs") if name in trace.jobs}
    return trace.assign(small).replace(machine=trace.machine.replace(nodes=32, procs=256))


DAMAGE: dict[str, tuple[str, Callable[[Trace], Trace]]] = {
    "run times in minutes": ("wrong-units", lambda t: t.assign({"run_time": np.round(t.column("run_time") / 60)})),
    "limits in minutes": ("wrong-units", lambda t: t.assign({"req_time": t.column("req_time") / 60})),
    "run times in milliseconds": ("wrong-units", lambda t: t.assign({"run_time": t.column("run_time") * 1000})),
    "a part in minutes": (
        "wrong-units",
        lambda t: t.assign({"run_time": np.where(np.arange(len(t)) < 4000, 1 / 60, 1.0) * t.column("run_time")}),
    ),
    "submits in minutes": ("wrong-units", lambda t: t.assign({"submit_time": np.round(t.column("submit_time") / 60)})),
    "submits in milliseconds": (
        "future-submit",
        lambda t: t.assign({"submit_time": t.column("submit_time") * 1000}),
    ),
    "nodes for processors": ("wrong-units", in_nodes),
    "memory in MB": ("wrong-units", lambda t: t.assign({"used_mem": np.arange(len(t)) % 900 + 100.0})),
    "memory in bytes": ("wrong-units", lambda t: t.assign({"req_mem": (np.arange(len(t)) % 900 + 100.0) * 1e8})),
    "a machine of half the size": (
        "demand-over-capacity",
        lambda t: t.replace(machine=t.machine.replace(procs=(t.machine.procs or 0) // 2)),
    ),
    "a flurry": ("flurry", flurry),
    "six days missing": ("outage", hole),
    "a part a day ahead": ("clock-jump", lambda t: shifted(t, DAY, slice(5000, 5600))),
    "a part a day behind": ("clock-jump", lambda t: shifted(t, -DAY, slice(5000, 5600))),
    "a part a day ahead, sorted": ("clock-jump", lambda t: shifted(t, DAY, slice(5000, 5600), sort=True)),
    "all a day behind": ("clock-jump", lambda t: shifted(t, -DAY, slice(5000, None))),
    "summer an hour off": ("daylight-saving", summer_times),
    "a block twice": ("duplicated-block", lambda t: doubled(t, sort=False)),
    "a block twice, sorted": ("duplicated-block", lambda t: doubled(t, sort=True)),
    "a fiftieth in minutes": ("wrong-units", lambda t: part_of(t, "run_time", 1 / 60, 0.5, 0.52)),
    "limits of a part in minutes": ("wrong-units", lambda t: part_of(t, "req_time", 1 / 60, 0.4, 0.6)),
    "a part in nodes": ("wrong-units", part_in_nodes),
    "an hour ahead for a while": ("clock-jump", lambda t: shifted(t, 3600, slice(5000, 5600))),
    "an hour behind for a while": ("clock-jump", lambda t: shifted(t, -3600, slice(5000, 5600))),
    "an hour behind for good": ("clock-jump", lambda t: shifted(t, -3600, slice(5000, None))),
    "a block again a week later": ("duplicated-block", lambda t: doubled(t, sort=True, later=7 * DAY)),
    "a machine ten times as large": (
        "header-mismatch",
        lambda t: t.replace(machine=t.machine.replace(procs=10 * (t.machine.procs or 0))),
    ),
    "a machine too small for its jobs": (
        "header-mismatch",
        lambda t: t.replace(machine=t.machine.replace(procs=(t.machine.procs or 0) // 4)),
    ),
    "half of the jobs stated": ("header-mismatch", half_stated),
    "jobs in 2099": ("future-submit", lambda t: shifted(t, 75 * 365 * DAY, slice(-3, None))),
    "jobs a year late": ("future-submit", lambda t: shifted(t, 365 * DAY, slice(-3, None))),
    "jobs a year early": ("truncated-start", lambda t: shifted(t, -365 * DAY, slice(0, 3))),
}


def rules_of(trace: Trace) -> set[str]:
    return {finding.rule for finding in doctor.examine(trace).findings if finding.severity != "note"}


def test_a_sound_trace_raises_no_alarm(sound: Trace) -> None:
    assert doctor.examine(sound).alarms == 0


@pytest.mark.parametrize("name", DAMAGE)
def test_every_known_damage_is_found_with_evidence_rows_and_a_picture(name: str, sound: Trace, tmp_path: Path) -> None:
    rule, damage = DAMAGE[name]
    trace = damage(sound)
    found = [
        finding for finding in doctor.examine(trace).findings if finding.rule == rule and finding.severity != "note"
    ]
    assert found, sorted(rules_of(trace))
    for finding in found:
        assert finding.evidence
        assert len(finding.message) > 40
        assert finding.fix or finding.advice
        assert finding.draw is not None
        plots.save(finding.draw(trace), tmp_path / "picture.png", force=True)
        json.dumps(finding.to_dict())


FIXED = ("a fiftieth in minutes", "limits of a part in minutes", "a part in nodes", "an hour ahead for a while",
          "an hour behind for a while", "an hour behind for good", "a block again a week later",
          "a machine ten times as large", "a machine too small for its jobs",
          "half of the jobs stated", "run times in minutes", "limits in minutes", "run times in milliseconds",
          "nodes for processors",
          "memory in bytes", "a flurry", "a part a day ahead", "a part a day behind", "all a day behind",
          "a block twice", "a block twice, sorted", "jobs a year late", "jobs a year early")  # fmt: skip


@pytest.mark.parametrize("name", FIXED)
def test_the_proposed_recipe_mends_the_damage(name: str, sound: Trace, tmp_path: Path) -> None:
    rule, damage = DAMAGE[name]
    trace = damage(sound)
    path = tmp_path / "recipe.toml"
    path.write_text(doctor.recipe(doctor.examine(trace), source="x"))
    fixed, counts = cleaning.clean(trace, cleaning.read_recipe(path))
    assert counts
    # every rule has something to do; only the header may be right again once copies are gone
    assert all(count > 0 for text, count in counts.items() if text != "recount-header")
    assert rule not in rules_of(fixed)


def test_mending_a_jump_brings_the_submit_times_back(sound: Trace) -> None:
    fixed, counts = cleaning.clean(shifted(sound, DAY, slice(5000, 5600)), ["mend-jumps"])
    assert counts == {"mend-jumps": 600}
    assert np.array_equal(fixed.column("submit_time"), sound.column("submit_time"))


def test_cutting_an_outage_keeps_the_hours_and_closes_the_gap(sound: Trace) -> None:
    trace = hole(sound)
    (silence,) = find_silences(trace)
    cut, counts = cleaning.clean(trace, ["cut-outages"])
    moved = trace.column("submit_time") - cut.column("submit_time")
    days = (silence.end - silence.start) // DAY
    assert set(np.unique(moved)) == {0.0, days * DAY}
    assert counts["cut-outages"] == silence.after
    assert find_silences(cut) == []


def test_the_recipe_of_a_flurry_is_the_archives_own_filter(sound: Trace) -> None:
    trace = flurry(sound)
    burst = next(b for b in find_bursts(trace) if len(b.rows) >= 2500)
    without, counts = cleaning.clean(trace, [burst.rule])
    assert counts[burst.rule] == len(burst.rows)
    assert len(without) == len(trace) - len(burst.rows)
    again, _ = cleaning.clean(trace, ["drop-flurries"])
    assert not [b for b in find_bursts(again) if b.short and b.weeks * b.share >= 0.6]


def test_findings_are_ranked_by_what_they_change(sound: Trace) -> None:
    trace = flurry(sound, 1200)
    run = np.where(np.random.default_rng(1).random(len(trace)) < 0.095, np.nan, trace.column("run_time"))
    report = doctor.examine(trace.assign({"run_time": run}))
    rules = [finding.rule for finding in report.findings]
    assert "flurry" in rules
    assert rules.index("missing-run-time") < rules.index("flurry")
    worst = report.findings[rules.index("missing-run-time")]
    assert worst.to_dict()["effect"] == pytest.approx(0.095, abs=0.02)
    severities = [SEVERITIES.index(finding.severity) for finding in report.findings]
    assert severities == sorted(severities)


def test_the_best_stretch_by_hand() -> None:
    # the user's jobs are at 0, 10…14 and 40 among all: 10…14 exceed a fifth by most (5 − 5/5)
    assert _stretches(np.array([0, 10, 11, 12, 13, 14, 40]), 3) == [(1, 5)]
    assert _stretches(np.arange(0, 100, 7), 3) == []  # every seventh job: never above a fifth
    assert _stretches(np.arange(20), 3) == [(0, 19)]


@pytest.mark.parametrize(
    ("user", "jobs", "among"),
    [("21", 944, 2491), ("374", 11740, 13584), ("197", 635, 1436), ("328", 452, 1554)],
    ids=lambda value: str(value),
)
def test_the_published_flurries_of_sdsc_sp2_would_be_found(user: str, jobs: int, among: int) -> None:
    """The archive's filters, spread evenly over a log of the same size and length: the weakest case of each."""
    rng = np.random.default_rng(0)
    others, weeks = 59_725, 105
    submit = np.sort(rng.uniform(0, weeks * 7 * DAY, others))
    first = others // 3
    inside = np.sort(rng.uniform(submit[first], submit[first + among - jobs], jobs))
    who = np.concatenate([rng.integers(1000, 1400, others).astype(str), np.full(jobs, user)])
    table = pd.DataFrame({"submit_time": np.concatenate([submit, inside]).round(), "user": who, "run_time": 60.0,
                          "req_procs": 1}).sort_values("submit_time", kind="stable")  # fmt: skip
    trace = Trace(table.assign(job_id=np.arange(1, len(table) + 1)).reset_index(drop=True))
    found = [finding for finding in doctor.examine(trace).findings if finding.rule == "flurry"]
    assert [finding.evidence["user"] for finding in found] == [user]
    assert found[0].evidence["jobs"] >= 0.95 * jobs


@pytest.mark.parametrize(
    "text", ["user=ann and run>100", "job>=50 and job<=80", "size>4", "user!=bob", "status=failed"]
)
def test_filters_agree_with_pandas(text: str, toy: Trace) -> None:
    jobs = toy.jobs.assign(run=toy.jobs["run_time"], job=toy.jobs["job_id"], size=toy.sizes())
    for name in ("user", "status"):
        jobs[name] = jobs[name].astype(str)
    query = text
    for label in ("ann", "bob", "failed"):
        query = query.replace(f"={label}", f"=='{label}'").replace(f"!=='{label}'", f"!='{label}'")
    expected = jobs.query(query).index
    dropped, counts = cleaning.clean(toy, [f"drop-jobs:{text}"])
    assert counts[f"drop-jobs:{text}"] == len(expected) > 0
    assert set(dropped.jobs["job_id"]) == set(toy.jobs["job_id"]) - set(toy.jobs["job_id"].iloc[expected])


@pytest.mark.parametrize(
    "rule",
    ["drop-jobs", "drop-jobs:", "drop-jobs:usr=3", "drop-jobs:user>3", "drop-jobs:run>soon", "drop-jobs:user",
     "mend-jumps:1", "convert-units:run_time", "convert-units:run_time=years", "convert-units:user=minutes",
     "convert-units:procs=cores", "convert-units:procs=nodes", "set-machine:procs=0", "set-machine:cores=4",
     "set-machine:procs", "set-machine:epoch=soon", "shift-submits:soon", "shift-submits:inf", "recount-header:3"],
)  # fmt: skip
def test_senseless_rules_are_usage_errors(rule: str, toy: Trace) -> None:
    with pytest.raises(tracekit.errors.UsageError):
        cleaning.clean(toy, [rule])


@pytest.mark.parametrize("rule", ["drop-flurries", "drop-duplicated-blocks", "mend-jumps", "cut-outages"])
def test_rules_leave_sound_and_tiny_traces_alone(rule: str, toy: Trace) -> None:
    for trace in (toy, toy.head(1), toy.take(slice(0, 0))):
        same, counts = cleaning.clean(trace, [rule])
        assert counts == {rule: 0}
        assert same.jobs is trace.jobs


def test_convert_units_can_be_limited_to_some_jobs(toy: Trace) -> None:
    changed, counts = cleaning.clean(toy, ["convert-units:run_time=minutes where job<=10"])
    assert counts == {"convert-units:run_time=minutes where job<=10": 10}
    assert np.allclose(changed.column("run_time")[:10], 60 * toy.column("run_time")[:10])
    assert np.array_equal(changed.column("run_time")[10:], toy.column("run_time")[10:])


@pytest.mark.parametrize("jobs", [0, 1, 5, 30])
def test_small_traces_are_no_problem(jobs: int, toy: Trace) -> None:
    report = doctor.examine(toy.head(jobs))
    assert report.jobs == jobs
    alarms = {finding.rule for finding in report.findings if finding.severity != "note"}
    assert alarms <= {"usage-over-capacity"}  # the toy's waits are drawn at random, so its jobs do overlap


def test_absurd_times_are_survived(toy: Trace) -> None:
    for submit in (np.full(200, np.nan), np.full(200, 1e15), np.linspace(0, 1e14, 200), -toy.column("submit_time")):
        report = doctor.examine(toy.assign({"submit_time": submit}))
        assert report.jobs == 200
        assert all(rows.max() < 200 for rows in (finding.rows for finding in report.findings) if len(rows))


def test_no_jump_is_seen_in_records_ordered_by_their_end(toy: Trace) -> None:
    end = toy.column("submit_time") + toy.column("run_time") * 100
    jobs = toy.jobs.iloc[np.argsort(end)].reset_index(drop=True).assign(job_id=np.arange(200))
    with pytest.raises(doctor.CannotLook, match="order"):
        find_jumps(toy.replace(jobs=jobs))


def test_the_command_reports_draws_and_writes_a_recipe(tmp_path: Path, run: Run, sound: Trace) -> None:
    path = tmp_path / "log.swf"
    tracekit.write(flurry(sound), path)
    code, text, _ = run("doctor", path, "-o", tmp_path / "out", "--json")
    assert code == 0
    report = json.loads(text)
    assert report["alarms"] >= 1
    first = report["findings"][0]
    assert set(first) == {
        "rule",
        "severity",
        "message",
        "count",
        "first_rows",
        "evidence",
        "effect",
        "fix",
        "advice",
        "picture",
    }
    assert Path(first["picture"]).stat().st_size > 1000
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == report
    assert run("clean", path, tmp_path / "clean.swf", "--recipe", report["recipe"])[0] == 0
    assert len(tracekit.read(tmp_path / "clean.swf")) < len(tracekit.read(path))
    assert run("doctor", path, "-o", tmp_path / "out")[0] == 1  # nothing is overwritten
    code, text, _ = run("doctor", path, "--recipe", tmp_path / "r.toml")
    assert (code, "flurry" in text, "not checked" in text) == (0, True, True)
    assert cleaning.read_recipe(tmp_path / "r.toml")
    assert run("doctor", tmp_path / "absent.swf")[0] == 1


#: Alarms on public logs that are true: outages, missing values and overload are in the data.
TRUE_ALARMS = {
    "ALCF-Theta-2022.swf": set(),
    "CEA-Curie-2011-2.1-cln.swf.gz": {"flurry", "outage"},
    "CTC-SP2-1996-3.1-cln.swf.gz": set(),
    "KTH-SP2-1996-2.1-cln.swf.gz": set(),
    "LLNL-Atlas-2006-2.1-cln.swf.gz": {"missing-procs"},
    "NASA-iPSC-1993-3.1-cln.swf.gz": {"outage"},
    "SDSC-BLUE-2000-4.2-cln.swf.gz": {"outage", "missing-run-time"},
    "SDSC-SP2-1998-4-first5k.swf": {"truncated-end", "header-mismatch", "missing-run-time"},
    "lublin_256.swf": {"demand-over-capacity"},
    "lublin_256_new2.swf": set(),
}


@pytest.mark.parametrize("name", TRUE_ALARMS)
def test_public_logs_raise_only_alarms_that_are_true(name: str) -> None:
    assert rules_of(tracekit.read(shared(f"swf/{name}"))) == TRUE_ALARMS[name]


def test_the_published_flurries_are_found_in_the_whole_sdsc_sp2() -> None:
    whole = [
        path for path in shared_files("swf/SDSC-SP2-1998-4*") if "first5k" not in path.name and "cln" not in path.name
    ]
    if not whole:
        pytest.skip("needs the whole SDSC-SP2-1998-4 log in the shared data (swf/)")
    findings = doctor.examine(tracekit.read(whole[0])).findings
    assert {"21", "374", "197", "328"} <= {str(f.evidence["user"]) for f in findings if f.rule == "flurry"}


@pytest.mark.parametrize("rows", [slice(14_240, None), slice(14_240, 15_100)], ids=["for good", "for a while"])
@pytest.mark.parametrize("seconds", [3600, -3600])
def test_an_hour_in_a_real_log(rows: slice, seconds: float) -> None:
    trace = tracekit.read(shared("swf/KTH-SP2-1996-2.1-cln.swf.gz"))
    off = shifted(trace, seconds, rows)
    rules = {f.fix for f in doctor.examine(off).findings if f.rule == "clock-jump" and f.severity == "warning"}
    fixed, _ = cleaning.clean(off, sorted(rules))
    before, after = (pd.Series(t.column("submit_time"), index=t.column("job_id")).sort_index() for t in (trace, fixed))
    assert (before != after).mean() < 0.02  # when the clock was set is known to some days


def test_a_wrong_start_of_a_real_log() -> None:
    trace = tracekit.read(shared("swf/KTH-SP2-1996-2.1-cln.swf.gz"))
    off = trace.replace(machine=trace.machine.replace(epoch=(trace.machine.epoch or 0) + 365 * DAY))
    (fix,) = [f.fix for f in doctor.examine(off).findings if f.rule == "header-mismatch" and f.severity == "warning"]
    fixed, _ = cleaning.clean(off, [fix])
    assert abs((fixed.machine.epoch or 0) - (trace.machine.epoch or 0)) <= 3600


def test_a_flurry_in_the_shadow_of_a_user_who_dominates_the_log(sound: Trace) -> None:
    rng = np.random.default_rng(0)
    submit = sound.column("submit_time")
    parts = [sound.jobs]
    for user, jobs, begin, end in (("boss", 20_000, 0, 9_999), ("burst", 1_500, 5_000, 5_800)):
        part = sound.jobs.iloc[np.full(jobs, 3000)].copy()
        part["submit_time"] = rng.uniform(submit[begin], submit[end], jobs).round()
        parts.append(part.assign(user=user))
    jobs = pd.concat(parts).sort_values("submit_time", kind="stable").reset_index(drop=True)
    trace = sound.replace(jobs=jobs.assign(job_id=np.arange(len(jobs)), user=jobs["user"].astype(str)))
    found = {(f.rule, f.evidence["user"]) for f in doctor.examine(trace).findings if f.severity == "warning" and
             "user" in f.evidence}  # fmt: skip
    assert {("dominant-user", "boss"), ("flurry", "burst")} <= found
    path_rules = [b.rule for b in find_bursts(trace) if b.strong]
    fixed, _ = cleaning.clean(trace, path_rules)
    assert not [b for b in find_bursts(fixed) if b.strong]


def test_daylight_saving_of_a_real_log() -> None:
    trace = tracekit.read(shared("swf/KTH-SP2-1996-2.1-cln.swf.gz"))
    summer = np.array([3600.0 if moment.dst() else 0.0 for moment in stats.local_times(trace)])
    off = trace.assign({"submit_time": trace.column("submit_time") + summer})
    assert "daylight-saving" in rules_of(off)
    assert "daylight-saving" not in rules_of(trace)
