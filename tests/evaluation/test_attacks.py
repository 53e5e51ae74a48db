"""The attack suite: what repeats users is found by every family, real weeks and traces for sharing are not."""

from __future__ import annotations

import numpy as np
import pytest

import tracekit
from evaluation.attacks.rates import Count, Result, Worst, effective, excess_p
from evaluation.base import METRICS, Score, Setting
from evaluation.exposure import ATTACKS, FAMILY_WISE, LEVEL, Attack
from evaluation.report.content import Content
from evaluation.score import score
from evaluation.share import share
from evaluation.view import prepare
from tracekit import Trace
from tracekit.anonymize import anonymize
from tracekit.transform.splitting import alternate_weeks

KEY = b"0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def halves() -> tuple[Trace, Trace]:
    return alternate_weeks(tracekit.sample())


def alarms_of(metric: str, real: Trace, synth: Trace, holdout: Trace) -> list[bool]:
    ours, theirs, aside = prepare(real, [synth, holdout], ["real", "synthetic", "hold-out"])
    found = METRICS.get(metric)()(
        ours, theirs, setting=Setting(quick=True, holdout=aside), rng=np.random.default_rng(0)
    )
    return [Attack.of(key, one).alarm for key, one in found.items() if key in ATTACKS]


ON_SAMPLE = (
    *("submit_gaps", "submit_rhythm", "request_sequences", "run_times", "session_sequences", "hours_of_week_profile"),
    *("job_shapes", "session_habits", "linkability", "inference_user", "membership", "membership_classifier"),
    *("isolated_jobs", "same_numbers"),
)


@pytest.mark.parametrize("metric", ON_SAMPLE)
def test_every_attack_finds_a_copy_under_new_labels_and_passes_real_weeks(
    halves: tuple[Trace, Trace], metric: str
) -> None:
    real, aside = halves
    assert any(alarms_of(metric, real, anonymize(real, KEY), aside))
    judged, control = alternate_weeks(aside)
    assert not any(alarms_of(metric, real, anonymize(judged, KEY), control))


def test_share_and_report_agree_on_good_and_damaged_traces(halves: tuple[Trace, Trace]) -> None:
    real, aside = halves
    real = real.take(slice(0, 1500))
    good = tracekit.synth(real, "sessions", 1000, 1, for_sharing=True)
    rng = np.random.default_rng(0)
    traces = {
        "good": good,
        "half a copy": anonymize(real.take(rng.random(len(real)) < 0.5), KEY),
        "no users": good.replace(jobs=good.jobs.drop(columns="user")),
        "constant run times": good.assign({"run_time": 60.0}).take(rng.permutation(len(good))),
        "real names": good.assign({"user": real.jobs["user"].astype(str).to_numpy()[: len(good)]}),
    }
    for name, trace in traces.items():
        for holdout in (aside, None) if name == "good" else (aside,):
            direct = share(real, trace, holdout, quick=True)
            options = {"holdout": holdout, "names": ["real", "it"], "quick": True}
            scores = score(real, trace, families=["privacy"], baselines=False, floor=False, **options)
            shown = Content(real, {"it": trace}, scores).sharing["it"]
            assert (direct.verdict, direct.answer) == (shown.verdict, shown.answer), name
            assert [a.to_dict() for a in direct.attacks] == [a.to_dict() for a in shown.attacks], name


def test_a_trace_for_sharing_passes_and_the_default_does_not(halves: tuple[Trace, Trace]) -> None:
    real, aside = halves
    made = tracekit.synth(real, "sessions", None, 1, for_sharing=True)
    answer = share(real, made, aside, quick=True)
    assert answer.answer == "yes", [reason.text for reason in answer.reasons if reason.verdict != "ok"]
    default = anonymize(tracekit.synth(real, "sessions", None, 1), KEY)
    assert "submit_gaps" in [one.name for one in share(real, default, aside, quick=True).attacks if one.alarm]


def test_the_level_is_shared_by_all_attacks() -> None:
    assert pytest.approx(FAMILY_WISE) == LEVEL * len(ATTACKS)
    for key, spec in ATTACKS.items():
        just = Score(0.5 + spec.margin + 0.001, real=0.5, detail={"p": LEVEL / 2})
        assert Attack.of(key, just).alarm
        assert not Attack.of(key, Score(just.value, real=0.5, detail={"p": LEVEL * 2})).alarm
        assert not Attack.of(key, Score(0.5 + spec.margin / 2, real=0.5, detail={"p": 0.0})).alarm
    assert not Attack.of("privacy.submit_gaps", Score(0.029, real=0.0, detail={"p": 0.0})).alarm


def test_counts_tests_and_worst_users_by_hand() -> None:
    found, control = Count(9, 10), Count(1, 10)
    assert excess_p(found, control) == pytest.approx(0.00055, abs=5e-5)  # Fisher's exact test, one-sided
    assert excess_p(control, control) > 0.5
    assert excess_p(Count(9, 10), Count(3, 10), exposure=4.0) > 0.2
    assert excess_p(Count(9, 10), Count(0, 0)) < 1e-9  # against one in twenty
    hit = np.repeat([True, False] * 4, 50)
    assert 2 < effective(hit, np.repeat(np.arange(8), 50)) < 7  # weeks that are all or nothing count once, or less
    assert effective(hit, np.arange(400)) == pytest.approx(399, rel=0.03)
    assert effective(np.ones(9, dtype=bool), np.arange(9)) == 9
    assert Worst.of(np.array([4, 4, 2]), np.array([2, 2, 2, 4, 4, 7])) == Worst(2, 2)
    said = Attack.of("privacy.run_times", Result(found, control, "by hand", worst=Worst(2, 2)).score()).to_dict()
    assert said["found"] == 9
    assert said["trials"] == 10
    assert "rank 2" in said["worst"]
