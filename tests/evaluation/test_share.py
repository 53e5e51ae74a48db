"""May this be published: copies are refused, names are found, and a fresh trace passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tracekit
from evaluation.report.content import Content
from evaluation.score import score
from evaluation.share import ANSWERS, share
from tracekit import Trace
from tracekit.anonymize import anonymize

Run = Callable[..., tuple[int, str, str]]
KEY = b"0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def weeks() -> tuple[Trace, Trace]:
    """Even and odd weeks of the sample: fitted and held out."""
    trace = tracekit.sample()
    submit = trace.column("submit_time")
    odd = ((submit - submit[0]) // (7 * 86400)).astype(int) % 2 == 1
    return trace.take(~odd), trace.take(odd)


def verdicts(real: Trace, synth: Trace, holdout: Trace | None = None) -> dict[str, str]:
    return {reason.check: reason.verdict for reason in share(real, synth, holdout, quick=True).reasons}


def test_a_made_trace_with_fresh_labels_may_be_published(weeks: tuple[Trace, Trace]) -> None:
    real, aside = weeks
    made = tracekit.synth(real, "lublin", 3000, 0)
    assert share(real, anonymize(made, KEY), aside, quick=True).answer == "yes"


@pytest.mark.parametrize("relabelled", [False, True])
def test_copies_may_not_be_published_whatever_their_labels(weeks: tuple[Trace, Trace], relabelled: bool) -> None:
    real, aside = weeks
    for copy in (real, tracekit.synth(real, "resample", 3000, 0)):
        shown = anonymize(copy, KEY) if relabelled else copy
        assert share(real, shown, aside, quick=True).answer == "no"
        assert share(real, shown, quick=True).answer == "no"


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_copy_with_a_little_noise_is_still_a_copy(weeks: tuple[Trace, Trace], shuffled: bool) -> None:
    real, _ = weeks
    rng = np.random.default_rng(0)
    noisy = {name: real.column(name) * rng.uniform(0.99, 1.01, len(real)) for name in ("run_time", "req_time")}
    copy = real.assign(noisy | {"submit_time": real.column("submit_time") + 1e6})
    copy = copy.take(rng.permutation(len(copy))) if shuffled else copy
    assert share(real, anonymize(copy, KEY), quick=True).answer == "no"


def test_without_a_holdout_the_answer_is_never_yes(weeks: tuple[Trace, Trace]) -> None:
    real, _ = weeks
    answer = share(real, anonymize(tracekit.synth(real, "lublin", 3000, 0), KEY), quick=True)
    assert answer.answer == "not without changes"
    assert next(reason.mend for reason in answer.reasons if reason.verdict == "unknown").endswith("--holdout")


def test_names_are_found_wherever_they_hide(weeks: tuple[Trace, Trace]) -> None:
    real, aside = weeks
    who = np.array(["alice", "bob1", "carol"], dtype=object)
    real = real.assign({"user": who[np.arange(len(real)) % 3], "project": "fusion", "x_job": "wing-42"})
    made = anonymize(tracekit.synth(real, "lublin", 1000, 0), KEY)
    assert set(verdicts(real, made, aside).values()) == {"ok"}
    machine = made.machine
    leaky = {
        "labels.user": made.assign({"user": who[np.arange(len(made)) % 3]}),
        "labels.project": made.assign({"project": "fusion"}),
        "words.header": made.replace(machine=machine.replace(header=("; Acknowledge: alice",))),
        "words.notes": made.replace(machine=machine.replace(notes=("ask root@site.example",))),
        "words.history": made.replace(step="fitted to /home/alice/secret.swf"),
        "words.machine": made.replace(machine=machine.replace(name="machine of bob1")),
        "extra.x_job": made.assign({"x_job": "wing-42"}),
    }
    for check, trace in leaky.items():
        found = verdicts(real, trace, aside)
        assert found[check] == "change", check
        assert share(real, trace, aside, quick=True).answer != "yes"


def test_header_lines_of_the_real_trace_are_found(weeks: tuple[Trace, Trace]) -> None:
    real, aside = weeks
    ours = real.replace(
        machine=real.machine.replace(header=("; Version: 2.2", "; Note: our nice machine in the cellar"))
    )
    made = anonymize(tracekit.synth(real, "lublin", 1000, 0), KEY)
    same = made.replace(machine=made.machine.replace(header=ours.machine.header))
    assert verdicts(ours, same, aside)["words.header"] == "change"
    technical = made.replace(machine=made.machine.replace(header=("; Version: 2.2",)))
    assert "words.header" not in verdicts(ours, technical, aside)


def test_numbers_that_mean_the_same_people_are_found(weeks: tuple[Trace, Trace]) -> None:
    real, aside = weeks
    made = tracekit.synth(real, "independent", 3000, 0)
    assert verdicts(real, made, aside)["labels.user"] == "change"
    fresh = made.assign({"user": np.random.default_rng(0).integers(1, 60, len(made)).astype(str)})
    assert verdicts(real, fresh, aside)["labels.user"] == "ok"


def test_labels_without_jobs_count_too(weeks: tuple[Trace, Trace]) -> None:
    real, aside = weeks
    real = real.assign({"user": np.where(np.arange(len(real)) % 2, "alice", "bob1")})
    renamed = tracekit.synth(real, "lublin", 1000, 0).assign({"user": ["alice", *["n"] * 999]}).take(slice(1, None))
    assert "alice" in renamed.jobs["user"].cat.categories
    assert verdicts(real, renamed, aside)["labels.user"] == "change"


def test_the_command_answers_plainly(tmp_path: Path, run: Run, weeks: tuple[Trace, Trace]) -> None:
    real, aside = weeks
    for name, trace in {"real": real, "aside": aside, "copy": real}.items():
        tracekit.write(trace, tmp_path / f"{name}.parquet")
    tracekit.write(anonymize(tracekit.synth(real, "lublin", 2000, 0), KEY), tmp_path / "new.swf")
    holdout = ("--holdout", tmp_path / "aside.parquet", "--quick")
    code, text, _ = run("share", tmp_path / "real.parquet", tmp_path / "new.swf", *holdout, "--json")
    answer = json.loads(text)
    assert (code, answer["answer"]) == (0, "yes")
    assert "not differential privacy" in answer["caveat"]
    assert answer["verdict"] == "yes"
    assert answer["advice"] == []
    wanted = {"name", "target", "rate", "low", "high", "control", "control_low", "control_high", "alarm"}
    assert all(wanted <= set(attack) for attack in answer["attacks"])
    assert set(answer["reasons"][0]) == {"check", "verdict", "text", "value", "limit", "mend"}
    code, text, _ = run("share", tmp_path / "real.parquet", tmp_path / "copy.parquet", *holdout)
    assert (code, "be published?  NO" in text) == (1, True)
    assert run("share", tmp_path / "real.parquet", tmp_path / "absent.swf")[0] == 1
    assert answer["answer"] in ANSWERS


def test_a_handful_of_large_numbers_in_common_are_real_ones() -> None:
    def labelled(first: int) -> Trace:
        return tracekit.sample().head(400).assign({"user": [str(first + n % 8) for n in range(400)]})

    def said(one: Trace, other: Trace) -> list[str]:
        return [reason.verdict for reason in share(one, other).reasons if reason.check == "labels.user"]

    assert said(labelled(20_510), labelled(20_510)) == ["change"]
    assert said(labelled(1), labelled(1)) == ["ok"], "eight small numbers occur everywhere"


def test_users_found_by_their_gaps_are_refused_by_share_and_report_alike(weeks: tuple[Trace, Trace]) -> None:
    real, aside = weeks
    synth = tracekit.synth(real, "sessions", 3000, 0, privacy=5)
    answer = share(real, synth, aside, quick=True)
    assert answer.verdict == "no"
    assert {"submit_gaps", "submit_rhythm"} & {attack.name for attack in answer.attacks if attack.alarm}
    assert any("--for-sharing" in line for line in answer.advice)
    scores = score(real, synth, holdout=aside, quick=True, families=["privacy"], names=["real", "sessions"])
    shown = Content(real, {"sessions": synth}, scores).sharing["sessions"]
    assert shown.to_dict() == answer.to_dict()


def test_users_of_a_trace_for_sharing_are_not_found(weeks: tuple[Trace, Trace]) -> None:
    """The modelled skeleton alone keeps the order of requests, by which users are found; see docs/tasks/share.md."""
    real, aside = weeks
    synth = tracekit.synth(real, "sessions", 5000, 0, for_sharing=True)
    found = share(real, synth, aside, quick=True)
    assert not [attack.name for attack in found.attacks if attack.alarm and attack.target == "user"]
