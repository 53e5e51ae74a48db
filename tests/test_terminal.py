"""Nothing that a file holds acts on a terminal: whatever is printed is escaped, and JSON keeps the values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from toys import SWF_TEXT

import tracekit
from tracekit.terminal import escaped, escaped_json

Run = Callable[..., tuple[int, str, str]]
EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202e\u2066\x7f[red]x[/red]"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def evil_swf() -> str:
    text = SWF_TEXT.replace("Computer: Toy", f"Computer: {EVIL}").replace("1 batch", f"1 {EVIL}")
    return text.replace("; MaxNodes", f"; Note: tracekit: skipped 1 {EVIL}\n; Note: {EVIL}\n; MaxNodes")


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A table whose labels, columns and name hold control characters."""
    path = tmp_path / f"evil{EVIL.replace('/', '_')}.csv"
    rows = "".join(f"{k},{60 * k},{k % 7 + 1},{k % 3 + 1},u{k % 4}{EVIL},q{EVIL},{EVIL}\n" for k in range(1, 60))
    path.write_text(f"job_id,submit_time,run_time,req_procs,user,queue,x_{EVIL}\n{rows}")
    return path


def check(run: Run, *words: object, code: int | None = 0) -> str:
    ended, out, error = run(*words)
    assert code is None or ended == code, error
    assert not UNSAFE.search(out), (words, UNSAFE.findall(out))
    assert not UNSAFE.search(error), (words, UNSAFE.findall(error))
    return out + error


def test_machine_names_and_headers(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "t.swf"
    path.write_text(evil_swf())
    shown = check(run, "info", path)
    assert "\\x1b" in shown
    assert "[red]x[/red]" in shown, "no markup is read from a file"
    for words in (["validate", path], ["doctor", path], ["simulate", path, "--policy", "fcfs"]):
        check(run, *words, code=None)
    check(run, "convert", path, tmp_path / "t.parquet")
    check(run, "info", tmp_path / "t.parquet")
    check(run, "merge", path, path, "-o", tmp_path / "m.swf", code=None)
    check(run, "slice", path, tmp_path / "h.swf", "--first", "2", code=None)


def test_labels_columns_and_names_of_files(evil: Path, tmp_path: Path, run: Run) -> None:
    for words in (
        ["info", evil],
        ["validate", evil],
        ["doctor", evil],
        ["simulate", evil, "--procs", "4", "--policy", "fcfs"],
        ["anonymize", evil, tmp_path / "a.csv", "--key", f"new:{tmp_path / 'key'}"],
        ["convert", evil, tmp_path / "o.swf"],
        ["split", evil, "-o", tmp_path / "split", "--by", "queue"],
        ["score", evil, evil],
        ["synth", evil, "--model", "resample", "--jobs", "20", "-o", tmp_path / "s.csv"],
        ["info", f"{evil}.none"],
    ):
        check(run, *words, code=None)


def test_errors_are_escaped(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "bad.swf"
    path.write_text(SWF_TEXT + f"4 {EVIL.replace(' ', '')} 1\n")
    check(run, "info", path, code=1)
    check(run, "info", path, "--from", EVIL, code=2)
    check(run, EVIL, code=2)
    table = tmp_path / "t.csv"
    table.write_text(f"{EVIL},b{EVIL},c\n1,2,3\n")
    check(run, "info", table, code=1)
    check(run, "info", table, "--map", f"run_time={EVIL}", code=None)
    toml = tmp_path / "m.toml"
    toml.write_text('name = "x"\n"\\u001b[31m" = 1\n')
    check(run, "info", path, "--machine", toml, code=None)


def test_json_keeps_the_values(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "t.swf"
    path.write_text(evil_swf())
    ended, out, _ = run("info", path, "--json")
    assert ended == 0
    assert not UNSAFE.search(out)
    assert json.loads(out)["machine"]["name"] == tracekit.read(path).machine.name


def test_escapes() -> None:
    assert escaped("plain – é 😀\t\n") == "plain – é 😀\t\n"
    assert escaped("\x1b\x07\x9b\u202e\ud800") == r"\x1b\x07\x9b\u202e\ud800"
    assert json.loads(escaped_json('"\x7f\x9b\u2028\U000e0001"')) == "\x7f\x9b\u2028\U000e0001"


def test_a_terminal_sees_colours_but_no_text_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from rich.text import Text

    from tracekit.cli.app import table
    from tracekit.cli.screen import Screen

    out = io.StringIO()
    screen = Screen(file=out, force_terminal=True, color_system="standard", markup=False, width=200)
    rows = table("\x1bcolumn", title="\x1btitle")
    rows.add_row("\x1bcell")
    screen.print("\x1bplain", style="bold")
    screen.print(Text("\x1btext"))
    screen.print(rows)
    found = out.getvalue()
    assert "\x1b[1m" in found, "styles are still there"
    for word in ("plain", "text", "title", "column", "cell"):
        assert f"\\x1b{word}" in found
        assert f"\x1b{word}" not in found
