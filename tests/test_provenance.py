"""A synthetic trace says so after every command, in every format that can hold a comment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tracekit
from tracekit.provenance import synthetic_mark

Run = Callable[..., tuple[int, str, str]]
FORMATS = {"swf": ".swf", "parquet": ".parquet", "batsim": ".json"}
#: Commands with IN, OUT, OTHER, DIR and KEY to fill in.
COMMANDS = {
    "convert": "convert IN OUT",
    "anonymize": "anonymize IN OUT --key KEY",
    "anonymize, shifted": "anonymize IN OUT --key KEY --shift key",
    "clean": "clean IN OUT --rules sort-by-submit",
    "slice": "slice IN OUT --jobs 0:100",
    "scale": "scale IN OUT --load 0.5",
    "merge": "merge IN OTHER OUT --align start --machines same",
    "split": "split IN -o DIR --by 2",
    "alternate weeks": "split IN OUT OTHER_OUT --alternate-weeks",
    "shake": "shake IN -o DIR -k 2",
}


@pytest.fixture(scope="module")
def made() -> tracekit.Trace:
    return tracekit.synth(tracekit.sample(), "independent", 3500, 1)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_mark_survives(tmp_path: Path, run: Run, made: tracekit.Trace, command: str, format: str) -> None:
    ending = FORMATS[format]
    source, out, folder = tmp_path / f"in{ending}", tmp_path / f"out{ending}", tmp_path / "dir"
    other_out = tmp_path / f"out2{ending}"
    other, key = tmp_path / f"other{ending}", tmp_path / "key"
    tracekit.write(made, source, format)
    tracekit.write(tracekit.sample().head(200), other, format)
    key.write_text("a key of sixteen bytes or more")
    places = {"IN": source, "OUT": out, "OTHER": other, "DIR": folder, "KEY": key, "OTHER_OUT": other_out}
    words = [places.get(word, word) for word in COMMANDS[command].split()]
    code, _, said = run(*words)
    assert code == 0, said
    written = [path for path in (out, other_out, *sorted(folder.glob("*"))) if path.is_file()]
    assert written
    for path in written:
        assert "MADE by tracekit, not recorded" in synthetic_mark(tracekit.read(path, format)), path.name


def test_a_real_trace_gets_no_mark(tmp_path: Path) -> None:
    real = tracekit.Trace(tracekit.sample().head(50).jobs, tracekit.Machine(procs=256))
    for format, ending in FORMATS.items():
        tracekit.write(real, tmp_path / f"real{ending}", format)
        assert synthetic_mark(tracekit.read(tmp_path / f"real{ending}", format)) == ""
