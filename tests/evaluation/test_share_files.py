"""What `share` writes: a document, a card and Croissant metadata; and what it repairs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tracekit
from evaluation.mending import mended
from tracekit import Trace
from tracekit.provenance import synthetic_mark
from tracekit.transform.splitting import alternate_weeks

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def halves() -> tuple[Trace, Trace]:
    return alternate_weeks(tracekit.sample())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # rdflib within mlcroissant
@pytest.mark.parametrize("ending", ["parquet", "swf"])
def test_a_yes_writes_a_folder_to_publish(tmp_path: Path, run: Run, halves: tuple[Trace, Trace], ending: str) -> None:
    real, aside = tmp_path / "fit.parquet", tmp_path / "aside.parquet"
    for path, trace in zip((real, aside), halves, strict=True):
        tracekit.write(trace, path)
    made, folder = tmp_path / f"made.{ending}", tmp_path / "published"
    assert run("synth", real, "-o", made, "--for-sharing", "--jobs", 2500, "--seed", 1)[0] == 0
    code, text, said = run("share", real, made, "--holdout", aside, "--quick", "-o", folder, "--json")
    answer = json.loads(text)
    assert (code, answer["verdict"]) == (0, "yes"), [r["text"] for r in answer["reasons"] if r["verdict"] != "ok"]
    assert {path.name for path in folder.iterdir()} == {
        *("sharing.html", "sharing.json", "README.md", "croissant.json", made.name)
    }, said
    assert (folder / made.name).read_bytes() == made.read_bytes()
    assert json.loads((folder / "sharing.json").read_text())["attacks"] == answer["attacks"]
    page = (folder / "sharing.html").read_text()
    for words in ("What each attacker knows", "What remains", "YES", "Signature", "request_sequences", "@media print"):
        assert words in page
    assert "**yes**" in (folder / "README.md").read_text()
    assert "sample" not in (folder / "README.md").read_text().lower()
    croissant = pytest.importorskip("mlcroissant")
    dataset = croissant.Dataset(jsonld=str(folder / "croissant.json"))
    assert not dataset.metadata.issues.errors
    assert run("share", real, made, "--quick", "-o", folder)[0] == 1  # never over files that are there
    if ending == "parquet":
        first = next(iter(dataset.records("jobs")))
        assert first["jobs/req_procs"] >= 1


def test_a_no_writes_the_document_only(tmp_path: Path, run: Run, halves: tuple[Trace, Trace]) -> None:
    real, copy = tmp_path / "real.swf", tmp_path / "copy.swf"
    tracekit.write(halves[0].head(800), real)
    tracekit.write(halves[0].head(800), copy)
    code, text, _ = run(
        "share", real, copy, "--quick", "-o", tmp_path / "out", "--fix", tmp_path / "fixed.swf", "--json"
    )
    answer = json.loads(text)
    assert (code, answer["verdict"]) == (1, "no")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"sharing.html", "sharing.json"}
    assert answer["fix"]["cost"]["offered_load"]["before"] == pytest.approx(
        answer["fix"]["cost"]["offered_load"]["after"], rel=0.01
    )
    fixed = tracekit.read(tmp_path / "fixed.swf")
    assert "labels.user" not in [r["check"] for r in answer["reasons"] if r["verdict"] == "change"]
    assert (fixed.column("submit_time") % 60 == 0).all()


def test_repairs_keep_the_mark_and_the_hours_of_the_week(halves: tuple[Trace, Trace]) -> None:
    made = tracekit.synth(halves[0], "lublin", 500, 0)
    fixed, done = mended(made, b"a key of sixteen bytes or more")
    assert synthetic_mark(fixed) == synthetic_mark(made)
    assert fixed.machine.name == "synthetic machine"
    assert fixed.machine.header is None
    assert len(done) == 5
    if made.machine.epoch is not None and fixed.machine.epoch is not None:
        assert (made.machine.epoch - fixed.machine.epoch) % (7 * 86_400) == 0
    assert not set(fixed.jobs.get("user", [])) & set(made.jobs.get("user", [])) - {np.nan}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--skeleton", "resampled"], "calendar"),
        (["--privacy", "2"], "--privacy 5 or more"),
        (["--model", "resample"], "model sessions"),
        (["--only", "user=7"], "one user only"),
        (["--save", "model"], "a saved model holds real values"),
    ],
)
def test_for_sharing_refuses_what_reuses_users(tmp_path: Path, run: Run, flags: list[str], expected: str) -> None:
    tracekit.write(tracekit.sample().head(300), tmp_path / "in.swf")
    code, _, said = run("synth", tmp_path / "in.swf", "-o", tmp_path / "out.swf", "--for-sharing", *flags)
    assert (code, expected in said) == (2, True), said
    assert not (tmp_path / "out.swf").exists()


def test_a_trace_for_sharing_names_nothing_of_the_real_one(halves: tuple[Trace, Trace]) -> None:
    real = halves[0].replace(machine=halves[0].machine.replace(name="secret", notes=("ask ann",), header=("; ann",)))
    made = tracekit.synth(real, "sessions", 800, 3, for_sharing=True)
    texts = [made.machine.name, made.machine.source, *made.machine.notes, *made.history, *(made.machine.header or ())]
    assert not any("secret" in text or "ann" in text for text in texts)
    assert synthetic_mark(made) == "MADE by tracekit, not recorded: model sessions"
    assert made.machine.epoch != real.machine.epoch
    again = tracekit.synth(real, "sessions", 800, 3, for_sharing=True)
    assert again.jobs.equals(made.jobs)
