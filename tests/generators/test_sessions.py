"""The model sessions: its parts by hand, its promises on made and on recorded traces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import shared

import tracekit
from evaluation.marginal import ks
from evaluation.score import score
from generators import synth as library
from generators.sessions import Sessions
from generators.sessions.histories import BATCH, NIGHT, RETURN, SESSION, turns_of
from generators.sessions.learnt import sharers
from generators.sessions.local_calendar import LocalCalendar, Window
from generators.sessions.matching import Strata, exchanged, turned
from generators.sessions.outcomes import Order, ended_by_limit, scaled_runs
from generators.sessions.placing import Entries, settled, shift_days
from generators.sessions.privacy import pools
from generators.sessions.resampled import with_neighbours
from generators.sessions.whatif import thinned
from tracekit import Machine, Trace, stats
from tracekit.errors import FormatError, TracekitError, UnknownName, UsageError
from tracekit.validation import schedulable

SKELETONS = ("resampled", "modelled")


@pytest.fixture(scope="module")
def sample() -> Trace:
    """10,000 jobs of 80 users with limits, queues, groups and programs, 256 processors."""
    return tracekit.sample()


@pytest.fixture(scope="module", params=SKELETONS)
def fitted(request: pytest.FixtureRequest, sample: Trace) -> library.Fitted:
    return library.fit(sample, "sessions", skeleton=request.param)


# ---- parts, by hand --------------------------------------------------------------------------------------------------


def test_a_pause_says_what_begins() -> None:
    gaps = np.array([np.nan, 0.0, 60.0, 61.0, 1200.0, 1201.0, 8 * 3600.0, 8 * 3600.0 + 1])
    assert turns_of(gaps).tolist() == [NIGHT, BATCH, BATCH, SESSION, SESSION, RETURN, RETURN, NIGHT]


def test_values_are_read_between_neighbours_of_the_group_and_reflected_at_its_ends() -> None:
    order = Order.by(np.array([1, 0, 1, 1]), np.array([10.0, 99.0, 30.0, 20.0]))
    value, whose = order.moved(np.array([3, 3, 2, 1]), np.array([0.5, -2.0, 1.0, 5.0]))
    assert value.tolist() == [25.0, 20.0, 20.0, 99.0]
    assert whose.tolist() == [3, 3, 3, 1]


def test_spacing_is_that_of_campaigns() -> None:
    value = np.arange(24.0)
    order = Order.by(np.zeros(24, dtype=np.int64), value)
    every_second = np.arange(24) % 2 == 0
    assert order.spacing(every_second)[12] == 20.0, "five heads on either side, two apart"
    assert np.isinf(order.spacing(np.arange(24) < 3)).all(), "too few campaigns"


def test_jobs_at_their_limit_are_recognised() -> None:
    run, limit = np.array([3600.0, 3550.0, 3500.0, 100.0, 10.0]), np.array([3600.0, 3600.0, 3600.0, np.inf, np.nan])
    assert ended_by_limit(run, limit).tolist() == [True, True, False, False, False]


def test_work_is_reached_without_breaking_limits() -> None:
    run, size = np.array([100.0, 200.0, 300.0]), np.array([1.0, 1.0, 2.0])
    limit, free = np.array([103.0, 1e9, 300.0]), np.array([True, True, False])
    made = scaled_runs(run, size, limit, free, 917.0, 1.0, 0.08)
    assert made.tolist() == [101.0, 216.0, 300.0]


def test_no_run_time_is_crushed_where_limits_end_nearly_all_work() -> None:
    """The few jobs that may change cannot make up for the others; they used to shrink to nothing."""
    run, size = np.array([50.0, 200.0, 300_000.0]), np.array([1.0, 1.0, 2.0])
    made = scaled_runs(run, size, np.full(3, 300_000.0), np.array([True, True, False]), 550_000.0, 1.0, 0.08)
    assert made.tolist() == [46.0, 184.0, 300_000.0]


def test_campaigns_turn_round_until_the_work_is_that_of_their_models() -> None:
    rng = np.random.default_rng(5)
    campaign, one = np.arange(200) // 2, rng.lognormal(3, 2, 200)
    other = one * rng.uniform(0.5, 2.0, 200)
    work = float((one + other).sum() / 2)
    other_way = turned(campaign, other - one, float(one.sum()) - work, rng)
    assert np.where(other_way, other, one).sum() == pytest.approx(work, rel=0.01)
    assert (other_way[::2] == other_way[1::2]).all(), "all jobs of a campaign"


def test_users_settle_where_the_machine_is_to_be_busy() -> None:
    user, day = np.repeat([0, 1], 5), np.repeat([0, 1], 5)
    entries = Entries.of(user, 2, day, 4, np.zeros(10, dtype=np.int64), 1)
    to = np.array([shift_days(np.arange(4), step, 4, 1, False) for step in range(4)])
    pick = settled(entries, to, np.array([[0.0], [0], [10.0], [0]]), np.random.default_rng(1))
    assert [to[pick[0], 0], to[pick[1], 1]] == [2, 2]


def test_kinds_of_jobs_settle_where_they_were_wanted() -> None:
    """Two users with as many jobs, of different kinds: the number alone would leave open who comes when."""
    user, kind = np.repeat([0, 1], 5), np.repeat([0, 1], 5)
    entries = Entries.of(user, 2, np.zeros(10, dtype=np.int64), 2, kind, 2)
    to = np.array([shift_days(np.arange(2), step, 2, 1, False) for step in range(2)])
    pick = settled(entries, to, np.array([[0.0, 5.0], [5.0, 0.0]]), np.random.default_rng(1))
    assert pick.tolist() == [1, 0]


def test_what_is_one_owners_does_not_meet_on_a_day() -> None:
    """Two stretches of one user, or of two, where all would like to be busy on the same day."""
    item, day, kind = np.repeat([0, 1], 5), np.zeros(10, dtype=np.int64), np.zeros(10, dtype=np.int64)
    to = np.array([shift_days(np.arange(3), step, 3, 1, False) for step in range(3)])
    wanted = np.array([[0.0], [11.0], [0.0]])
    for owner, met in (([0, 0], False), ([0, 1], True)):
        entries = Entries.of(item, 2, day, 3, kind, 1, np.array(owner))
        for seed in range(5):
            pick = settled(entries, to, wanted, np.random.default_rng(seed))
            assert 1 in pick
            assert (pick[0] == pick[1]) == met


@pytest.mark.parametrize("weeks", [0, 1, 2, 3, 4, 5, 11])
def test_weeks_without_users_change_places_with_their_neighbours(weeks: int) -> None:
    for seed in range(5):
        made = with_neighbours(np.arange(weeks).astype(float), np.random.default_rng(seed))
        assert sorted(made) == list(range(weeks))
        moves = np.abs(made - np.arange(weeks))
        assert (moves <= 2).all()
        assert weeks < 2 or (moves > 0).all(), "where there is a choice, none stays"


def test_matched_values_are_distributed_as_the_real_ones_within_limits() -> None:
    rng = np.random.default_rng(4)
    real = np.sort(np.concatenate([np.full(700, 60.0), rng.lognormal(6, 2, 300)]))
    limit = real * rng.choice([1.0, 1.2, 5.0], 1000)
    group = np.zeros(1000, dtype=np.int64)
    wanted = np.log(real) + rng.normal(0, 0.5, 1000)
    made, common = Strata.fit((lambda: group, lambda: group), real).matched(np.arange(1000), wanted, limit, rng)
    assert (common == (made == 60.0)).all()
    assert (made <= limit).all()
    assert ks(real, made) <= 0.02
    assert (made == 60.0).mean() == pytest.approx(0.7, abs=0.02), "as common as it was"
    assert made.sum() == pytest.approx(real.sum(), rel=0.1)


def test_exchanges_bring_the_work_and_leave_the_distribution() -> None:
    rng = np.random.default_rng(6)
    run, size = rng.lognormal(5, 1, 400), rng.choice([1.0, 8.0], 400)
    stratum, work = np.repeat([0, 1], 200), 1.03 * float(size @ run)
    made = exchanged(stratum, run, size, np.full(400, np.inf), work, rng)
    assert size @ made == pytest.approx(work, rel=0.01)
    for one in (0, 1):
        assert np.sort(made[stratum == one]).tolist() == np.sort(run[stratum == one]).tolist()


def test_days_move_by_weeks_and_come_round_on_the_same_weekday() -> None:
    day = np.arange(17)  # two weeks and three days
    for step in (-3, -1, 1, 2):
        to = shift_days(day, step, 17, 7, False)
        assert (to % 7 == day % 7).all()
        assert sorted(to) == day.tolist(), "every place is taken once"
        back = [shift_days(day, way * step, 17, 7, True) for way in (1, -1)]
        assert sorted(np.concatenate(back)) == sorted([*day, *day]), "of a trace that drifts: once each way, on average"
        assert all(np.abs(b // 7 - day // 7).max() <= abs(step) for b in back), "an end does not become the other"


@settings(max_examples=40, deadline=None)
@given(st.floats(0, 6e5), st.floats(2 * 604_800, 4e6), st.integers(-3, 30), st.integers(0, 10))
def test_a_window_keeps_hours_and_leaves_no_hole(begin: float, length: float, weeks: int, seed: int) -> None:
    """Traces do not last whole weeks: neither is a part of a week left empty, nor does one get the jobs of two."""
    window = Window(begin, length, 604_800.0)
    at = np.sort(np.random.default_rng(seed).uniform(begin, begin + length, 500))
    held = window.holding(at + weeks * 604_800.0)
    assert ((held >= begin - 1e-6) & (held < begin + length + 1e-6)).all()
    assert np.allclose(np.exp(2j * np.pi * held / 604_800), np.exp(2j * np.pi * at / 604_800), atol=1e-6)
    assert np.unique(np.round(held, 3)).size == 500, "moved all alike, no two meet"


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.floats(0.05, 0.95), st.integers(0, 100))
def test_thinning_takes_whole_groups_and_as_many_as_expected(groups: int, chance: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), rng.integers(1, 5, groups))
    stays = thinned(group, np.full(len(group), chance), rng)
    assert all(len(set(stays[group == g])) == 1 for g in range(groups))
    assert abs(stays.sum() - chance * len(group)) <= 5, "no farther off than a group and the start"


def test_the_local_clock_and_back_across_summer_time() -> None:
    monday = 1_710_716_400.0  # 2024-03-18 00:00 in Stockholm
    submit = np.arange(0, 21 * 86_400.0, 1800.0)
    jobs = pd.DataFrame({"job_id": np.arange(len(submit)), "submit_time": submit, "run_time": 1.0, "req_procs": 1})
    trace = Trace(jobs, Machine(epoch=monday, timezone="Europe/Stockholm"))
    calendar = LocalCalendar.fit(trace)
    at = calendar.local(submit)
    assert at[0] == 0
    assert (calendar.submit(at) == submit).all(), "spring has no hour twice"
    assert stats.hour_of_week(trace).tolist() == (at // 3600 % 168).astype(int).tolist()


def test_alike_users_are_pooled() -> None:
    size, about = np.full(9, 4), np.column_stack([np.arange(9) // 3 * 10.0])
    pool = pools(size, np.ones(9, dtype=bool), lambda: about, 3)
    assert [sorted(np.flatnonzero(pool == p).tolist()) for p in np.unique(pool[[0, 3, 6]])] != []
    assert (np.bincount(pool) >= 3).all()
    assert len({pool[0], pool[1], pool[2]}) == 1
    assert pools(size, np.ones(9, dtype=bool), lambda: about, 1).tolist() == list(range(9))


# ---- promises --------------------------------------------------------------------------------------------------------


def test_structure_is_that_of_the_real_trace(fitted: library.Fitted, sample: Trace) -> None:
    """What jobs drawn one by one cannot have: repeats, sessions, bursts, hours, and the marginals all the same."""
    made = library.make(fitted, len(sample), seed=3)
    found = score(
        sample, made, quick=True, baselines=True, floor=False, families=("marginal", "time", "load", "validity")
    )
    drawn = found.baselines[0].scores  # resample: single real jobs
    for key in ("acf1.interarrival", "acf1.run_time", "user_repeat", "job_repeat"):
        assert abs(found[key].value - found[key].real) < 0.08, key
        assert abs(drawn[key].value - found[key].real) > 0.15, f"{key} would show no difference"
    assert found["ks.mean"].value < 0.04
    assert found["hour_of_week.tv"].value < 0.25
    assert found["validity.share"].value == 0
    assert abs(found["offered_load"].value / found["offered_load"].real - 1) < 0.02
    for seconds in (60, 3600, 86_400):
        assert abs(found[f"idc.{seconds}"].value / found[f"idc.{seconds}"].real - 1) < 0.4


def test_names_of_persons_are_new_and_consistent(fitted: library.Fitted, sample: Trace) -> None:
    made = library.make(fitted, 5000, seed=1).jobs
    assert not set(made["user"].astype(str)) & set(sample.jobs["user"].astype(str))
    groups = made.groupby("user", observed=True)["group"].nunique()
    assert (groups == 1).mean() > 0.9, "the sample's users have one group each"


@pytest.mark.parametrize("k", [1, 3])
def test_a_label_of_one_user_and_the_header_are_in_no_file(sample: Trace, tmp_path: Path, k: int) -> None:
    users = sample.jobs["user"].astype(object)
    project = np.where(users == users.value_counts().index[5], "hers-alone", "everybodys")
    machine = sample.machine.replace(header=("; Acknowledge: ann@site.example",))
    model = library.fit(sample.assign({"project": project}).replace(machine=machine), "sessions", privacy=k)
    made = library.make(model, 3000, seed=1)
    made.save(tmp_path / "made.parquet")
    model.save(tmp_path / "kept")
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 2
    assert not any(name in file for file in files for name in (b"hers-alone", b"ann@site.example"))
    assert "everybodys" in set(made.jobs["project"]), "names that are shared stay"


@pytest.mark.parametrize("skeleton", SKELETONS)
@pytest.mark.parametrize("k", [3, 8])
def test_no_template_of_fewer_users_than_asked_for_comes_out(sample: Trace, skeleton: str, k: int) -> None:
    made = library.synth(sample, "sessions", 6000, seed=1, skeleton=skeleton, privacy=k)
    columns = ["req_procs", "alloc_procs", "req_time", "queue"]
    users = sample.jobs.groupby(columns, observed=True)["user"].nunique()
    emitted = set(map(tuple, made.jobs[columns].drop_duplicates().astype(object).to_numpy()))
    assert all(users[template] >= k for template in emitted)
    assert users.min() < k, "there was something to hide"
    assert (made.column("run_time") <= made.column("req_time")).all()


def test_made_users_of_the_modelled_skeleton_have_calendars_of_their_own(sample: Trace) -> None:
    def calendars(trace: Trace) -> set[tuple[float, ...]]:
        found = trace.jobs.groupby("user", observed=True)["submit_time"].apply(lambda t: tuple(np.diff(t))[:12])
        return {gaps for gaps in found if len(gaps) == 12}

    real = calendars(sample)
    assert not real & calendars(library.synth(sample, "sessions", seed=1, skeleton="modelled"))
    days = [t.jobs.groupby("user", observed=True)["submit_time"].apply(lambda t: frozenset(t // 86_400)) for t in
            (sample, library.synth(sample, "sessions", seed=1, skeleton="modelled"))]  # fmt: skip
    long = [{d for d in each if len(d) >= 5} for each in days]
    assert not long[0] & long[1]


@pytest.mark.parametrize("skeleton", ["resampled", "modelled"])
def test_traces_of_odd_lengths_and_without_users_keep_load_and_rhythm(skeleton: str) -> None:
    """Ten days and a bit, without users: neither the end of a week nor the lack of users may distort times."""
    whole = tracekit.sample()
    short = whole.between(0.0, 10.4 * 86_400)
    made = library.synth(short, seed=1, skeleton=skeleton)
    assert not any("stretching" in step for step in made.history)
    assert stats.span(made) == pytest.approx(stats.span(short), rel=0.05)
    assert made.offered_load() == pytest.approx(short.offered_load(), rel=0.02)
    crowd = whole.replace(jobs=whole.jobs.drop(columns="user"))
    made = library.synth(crowd, seed=1, skeleton=skeleton)
    by_day = [np.bincount((t.column("submit_time") // 86_400).astype(int)).astype(float) for t in (crowd, made)]
    assert by_day[1].var() == pytest.approx(by_day[0].var(), rel=0.25)


def test_exact_copies_are_rare(fitted: library.Fitted, sample: Trace) -> None:
    """Beside the user, whose name is new: jobs that end at a limit or within minutes are alike by nature."""
    made = library.make(fitted, len(sample), seed=1)
    real = {tuple(r) for r in sample.jobs[["run_time", "req_time", "req_procs"]].to_numpy(dtype=float)}
    rows = made.jobs[["run_time", "req_time", "req_procs"]].to_numpy(dtype=float)
    ordinary = (rows[:, 0] > 600) & (rows[:, 0] < rows[:, 1])
    copied = np.array([tuple(r) in real for r in rows[ordinary]])
    assert copied.mean() < 0.05


def test_a_kept_modelled_model_holds_no_submit_times(sample: Trace, tmp_path: Path) -> None:
    model = library.fit(sample, "sessions", skeleton="modelled", privacy=2)
    model.save(tmp_path / "kept")
    kept = tracekit.read(tmp_path / "kept" / "trace.parquet")
    assert kept.jobs["submit_time"].nunique() == 1
    assert not set(kept.jobs["user"].cat.categories) & {f"u{n}" for n in range(100)}
    again = library.load(tmp_path / "kept")
    assert library.make(model, 500, seed=4).equals(library.make(again, 500, seed=4))
    (tmp_path / "kept" / "habits.npz").unlink()
    with pytest.raises(FormatError, match="saved model"):
        library.load(tmp_path / "kept")


def test_parts_make_up_the_trace(fitted: library.Fitted, sample: Trace) -> None:
    parts = library.chunks(fitted, 25_000, seed=2)
    assert parts is not None
    found = list(parts)
    assert sum(map(len, found)) == 25_000
    assert len(found) >= 3
    ids = np.concatenate([part.column("job_id") for part in found])
    assert ids.tolist() == list(range(1, 25_001))
    submit = np.concatenate([part.column("submit_time") for part in found])
    assert (np.diff(submit) >= 0).all()
    load = sum(stats.work(part).sum() for part in found) / np.ptp(submit) / 256
    assert load == pytest.approx(sample.offered_load(), rel=0.03)
    assert library.chunks(library.fit(sample, "resample"), 10) is None


# ---- traces that lack something --------------------------------------------------------------------------------------


@pytest.mark.parametrize("skeleton", SKELETONS)
@pytest.mark.parametrize("lacks", ["user", "req_time", "calendar", "status", "queue", "everything"])
def test_a_trace_works_with_what_it_has(sample: Trace, skeleton: str, lacks: str) -> None:
    trace = sample.head(3000)
    drop = {"everything": ["user", "req_time", "status", "queue", "group", "app"], "calendar": []}.get(lacks, [lacks])
    trace = trace.replace(jobs=trace.jobs.drop(columns=drop))
    if lacks in ("calendar", "everything"):
        trace = trace.replace(machine=trace.machine.replace(epoch=None, timezone=None))
    made = library.synth(trace, "sessions", 3000, seed=1, skeleton=skeleton)
    assert schedulable(made).all()
    assert not set(drop) & set(made.jobs.columns)
    assert ks(trace.column("run_time"), made.column("run_time")) < 0.06
    assert abs(made.offered_load() / trace.offered_load() - 1) < 0.02


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_fifty_jobs_of_one_user(sample: Trace, skeleton: str) -> None:
    user = sample.jobs["user"].value_counts().index[0]
    trace = sample.take(np.flatnonzero(sample.jobs["user"] == user)[:50])
    made = library.synth(trace, "sessions", 200, seed=1, skeleton=skeleton)
    assert len(made) == 200
    assert schedulable(made).all()
    assert set(made.column("req_procs")) <= set(trace.column("req_procs"))


def test_of_a_few_jobs_little_more_than_copies_are_made(sample: Trace) -> None:
    fitted = library.fit(sample.head(5), "sessions")
    assert any("only 5 jobs" in note for note in fitted.notes)
    assert len(library.make(fitted, 30)) == 30
    with pytest.raises(TracekitError, match="too few jobs to learn from"):
        library.synth(sample.head(5).assign({"run_time": np.full(5, np.nan)}), "sessions", 30)


def test_unknown_skeletons_and_privacies_are_refused(sample: Trace) -> None:
    with pytest.raises(UnknownName, match="did you mean modelled"):
        Sessions(skeleton="modeled")
    with pytest.raises(UsageError, match="--privacy"):
        Sessions(privacy=0)


def test_jobs_without_a_user_among_others(toys: Callable[..., Trace]) -> None:
    trace = toys(2000)
    made = library.synth(trace, "sessions", 2000, seed=1)
    assert abs(made.jobs["user"].isna().mean() - trace.jobs["user"].isna().mean()) < 0.02
    assert "x_note" not in made.jobs.columns
    assert sharers(np.array([0, 0, 1, 0]), np.array([1, 2, 2, 1]), 2).tolist() == [2, 1]
    assert sharers(np.array([1, 1, 1]), np.array([-1, -1, 0]), 3).tolist() == [0, 2, 0], "without a user: one"


# ---- a recorded trace ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skeleton", SKELETONS)
def test_kth_sp2(skeleton: str) -> None:
    trace = tracekit.read(shared("swf/KTH-SP2-1996-2.1-cln.swf.gz")).take(slice(0, 12_000))
    made = library.synth(trace, "sessions", seed=1, skeleton=skeleton)
    found = score(trace, made, quick=True, baselines=False, floor=False, families=("marginal", "time", "validity"))
    assert found["ks.mean"].value < 0.05
    assert found["validity.share"].value <= found["validity.share"].real
    for key in ("acf1.interarrival", "acf1.run_time", "user_repeat", "job_repeat"):
        assert abs(found[key].value - found[key].real) < 0.08, key
    assert found["c2st.window_auc"].value < 0.65


def _heavy(seed: int = 3) -> Trace:
    """Two users with nine in ten of the jobs, in campaigns of nearly equal run times; the others come and go."""
    rng = np.random.default_rng(seed)
    rows = []
    for user, days, jobs, run in ((0, 80, 40, 61.0), (1, 60, 45, 7_200.0), *((u, 9, 6, 900.0) for u in range(2, 12))):
        first = rng.integers(0, 50) if user > 1 else 0
        for day in first + rng.permutation(90)[:days]:
            about = run * rng.choice([1.0, 1.5, 2.0, 10.0])
            at = day * 86_400.0 + rng.uniform(8, 18) * 3600 + np.cumsum(rng.integers(1, 40, jobs))
            rows.append(
                pd.DataFrame(
                    {
                        "submit_time": at,
                        "run_time": np.round(about * rng.choice([1.0, 1.01, 1.02], jobs)),
                        "req_procs": 2 ** rng.integers(0, 3),
                        "req_time": 100_000.0,
                        "user": f"u{user}",
                    }
                )
            )
    jobs = pd.concat(rows, ignore_index=True).sort_values("submit_time", kind="stable", ignore_index=True)
    known = np.asarray(jobs["user"] != "u1")  # cpu_time and used_mem are known together, or not at all
    jobs["cpu_time"] = np.where(known, np.round(jobs["run_time"] * 0.9), np.nan)
    jobs["used_mem"] = np.where(known, 1000.0 * jobs["req_procs"], np.nan)
    jobs["job_id"] = np.arange(1, len(jobs) + 1)
    return Trace(jobs, Machine(procs=64))


@pytest.mark.parametrize("skeleton", ["resampled", "modelled"])
@pytest.mark.parametrize("seed", [1, 2])
def test_few_heavy_users_do_not_change_the_run_times(skeleton: str, seed: int) -> None:
    real = _heavy()
    made = tracekit.synth(real, skeleton=skeleton, seed=seed)
    assert ks(real.column("run_time"), made.column("run_time")) <= 0.05
    assert ks(real.sizes(), made.sizes()) <= 0.02
    assert stats.mean_demand(made) == pytest.approx(stats.mean_demand(real), rel=0.02)
    assert not any("stretching" in step for step in made.history)


@pytest.mark.parametrize("skeleton", ["resampled", "modelled"])
def test_columns_follow_the_job(skeleton: str) -> None:
    made = tracekit.synth(_heavy(), skeleton=skeleton, seed=1)
    cpu, memory, run = made.column("cpu_time"), made.column("used_mem"), made.column("run_time")
    assert (np.isnan(cpu) == np.isnan(memory)).all(), "known together"
    known = ~np.isnan(cpu)
    assert 0.3 < known.mean() < 0.7
    assert np.quantile(np.abs(cpu[known] / run[known] - 0.9), 0.99) < 0.02
    assert (memory[known] == 1000 * made.sizes()[known]).all()


def test_who_comes_late_comes_late_in_the_modelled_skeleton() -> None:
    """The population drifts: the first third of the trace has other users, with other jobs, than the last."""
    rng = np.random.default_rng(8)
    day = np.repeat(np.arange(120), 12)
    user = day // 40 * 10 + rng.integers(0, 10, len(day))
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(len(day)),
            "submit_time": np.sort(day * 86_400.0 + rng.uniform(8, 18, len(day)) * 3600),
            "run_time": 100.0 * 4 ** (day // 40),
            "req_procs": 1,
            "user": [f"u{u}" for u in user],
        }
    )
    real = Trace(jobs, Machine(procs=8))
    made = tracekit.synth(real, skeleton="modelled", seed=1)
    early = [np.log(t.column("run_time")[: len(t) // 3]).mean() for t in (real, made)]
    assert early[1] == pytest.approx(early[0], abs=0.5), "moved by weeks, not by months"
    dates = [set(zip(t.column("user"), t.column("submit_time") // 86_400, strict=True)) for t in (real, made)]
    assert len(dates[1]) == pytest.approx(len(dates[0]), rel=0.25), "about as many working days"


def test_a_model_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    Sessions().fit(tracekit.sample()).save(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"layout": 2', '"layout": 1'))
    with pytest.raises(FormatError, match="earlier version"):
        Sessions.load(tmp_path)
