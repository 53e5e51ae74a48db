from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from shared_data import shared
from toys import SWF_TEXT

import tracekit
from tracekit.cli.app import Settings, app

Run = Callable[..., tuple[int, str, str]]
HEAVY = ("numpy", "pandas", "numba", "pyarrow", "scipy", "matplotlib", "torch", "sdv", "sklearn", "rich.progress")


def commands() -> list[str]:
    return [(info.name or info.callback.__name__).replace("_", "-").strip("-") for info in app.registered_commands]  # type: ignore[union-attr]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom tracekit.cli import main\nassert main(['--help']) == 0\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\nassert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_import_tracekit_imports_nothing_heavy() -> None:
    code = f"import sys, tracekit\nheavy = [n for n in {HEAVY!r} if n in sys.modules]\nassert not heavy, heavy"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("command", commands())
def test_every_help_ends_with_an_example(command: str, run: Run) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert "Example:" in out


def test_info_json_has_the_promised_keys(toy_swf: Path, run: Run) -> None:
    code, out, _ = run("info", toy_swf, "--json")
    assert code == 0
    data = json.loads(out)
    assert (data["format"], data["jobs"], data["users"], data["span_s"]) == ("swf", 3, 2, 20)
    assert {"name", "procs", "nodes", "gpus"} <= set(data["machine"])
    for key in ("run_time", "procs", "interarrival", "wait_time", "req_time"):
        assert set(data[key]) == {"mean", "p50", "p90", "p99", "max"}
    assert data["missing"]["wait_time"] == pytest.approx(1 / 3)
    assert data["missing"]["gpu_type"] == 1.0
    # 4 procs for 100 s, 8 for none, 16 for 50 s: 1,200 processor-seconds on 16 processors within 20 s of arrivals
    assert data["offered_load"] == pytest.approx(1200 / (16 * 20))
    assert data["utilization"] == pytest.approx(1200 / (16 * 105))


def test_info_without_what_it_needs_says_null(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "t.swf"
    path.write_text("1 0 -1 10 4\n")
    code, out, _ = run("info", path, "--from", "swf", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["wait_time"] is None
    assert data["offered_load"] is None
    assert data["users"] is None
    code, out, _ = run("info", path, "--from", "swf")
    assert "unknown" in out


def test_validate_json(toy_swf: Path, run: Run) -> None:
    code, out, _ = run("validate", toy_swf, "--json")
    data = json.loads(out)
    assert code == 0
    assert data["usable"] is True
    assert {"rule": "zero-run-time", "count": 1, "first_rows": [1], "fix": "drop-zero-run-time"}.items() <= data[
        "problems"
    ][0].items()
    assert run("validate", toy_swf, "--strict")[0] == 1


def test_clean_writes_its_recipe(toy_swf: Path, tmp_path: Path, run: Run) -> None:
    target = tmp_path / "c.swf"
    code, _, error = run("clean", toy_swf, target, "--rules", "drop-zero-run-time,sort-by-submit")
    assert code == 0
    assert "drop-zero-run-time: 1 rows" in error
    assert len(tracekit.read(target)) == 2
    recipe = tmp_path / "c.swf.recipe.toml"
    again = tmp_path / "again.swf"
    assert run("clean", toy_swf, again, "--recipe", recipe)[0] == 0
    assert again.read_bytes() == target.read_bytes()
    assert run("clean", toy_swf, tmp_path / "x.swf")[0] == 2
    assert run("clean", toy_swf, tmp_path / "x.swf", "--rules", "nonsense")[0] == 2


def test_slice(toy_swf: Path, tmp_path: Path, run: Run) -> None:
    def ids(*flags: object) -> list[int]:
        target = tmp_path / "s.swf"
        code, _, error = run("slice", toy_swf, target, "--force", *flags)
        assert code == 0, error
        return tracekit.read(target).jobs["job_id"].tolist()

    assert ids("--jobs", "2") == [1, 2]
    assert ids("--jobs", "1:2") == [2, 3]
    assert ids("--user", "1") == [1, 3]
    assert ids("--queue", "1", "--after", "10", "--before", "20") == [2]
    assert ids("--after", "2001-09-09 03:46:50") == [2, 3]  # Stockholm's clock at 1000000010
    for wrong in (("--jobs", "x"), ("--jobs", "-1:5")):
        assert run("slice", toy_swf, tmp_path / "w.swf", *wrong)[0] == 2
    for wrong in (("--user", "99"), ("--after", "1e9"), ("--jobs", "50:2")):
        code, _, error = run("slice", toy_swf, tmp_path / "w.swf", *wrong)
        assert code == 1
        assert error.count("\n") == 1
    assert not (tmp_path / "w.swf").exists()


def test_scale(toy_swf: Path, tmp_path: Path, run: Run) -> None:
    target = tmp_path / "s.swf"
    assert run("scale", toy_swf, target, "--load", "0.5")[0] == 0
    assert tracekit.read(target).offered_load() == pytest.approx(0.5, rel=0.01)
    assert run("scale", toy_swf, target, "--procs", "160", "--force")[0] == 0
    assert tracekit.read(target).machine.procs == 160
    assert tracekit.read(target).sizes().tolist() == [40, 80, 160]
    assert run("scale", toy_swf, target, "--force")[0] == 2


def test_streams(toy_swf: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tracekit", "convert", "-", "-", "--to", "swf"]
    done = subprocess.run(command, input=SWF_TEXT, capture_output=True, text=True, check=True)
    assert done.stdout == SWF_TEXT
    assert done.stderr == ""
    bad = subprocess.run(command, input="nonsense\n", capture_output=True, text=True, check=False)
    assert bad.returncode == 1
    assert bad.stderr.startswith("error: standard input: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["convrt"], "convert"),
        (["info", "x.swf", "--from", "sfw"], "did you mean swf"),
        (["convert", "a.swf", "b.xyz"], "--to"),
        (["convert", "a.swf", "b.swf", "--timezone", "Europe/Berln"], "Europe/Berlin"),
        (["convert", "a.swf", "b.swf", "--on-error", "ignore"], "stop or skip"),
        (["convert", "a.swf", "b.swf", "--map", "nonsense"], "--map"),
        (["convert", "a.swf", "b.swf", "--map", "runtime=x"], "run_time"),
        (["info"], "missing argument"),
        (["info", "--jsn", "x"], "--json"),
    ],
)
def test_usage_errors_exit_with_two_and_help(arguments: list[str], words: str, run: Run) -> None:
    code, _, error = run(*arguments)
    assert code == 2
    assert words in error


def test_quiet_is_quiet(toy_swf: Path, tmp_path: Path, run: Run) -> None:
    code, out, error = run("-q", "convert", toy_swf, tmp_path / "o.csv")
    assert (code, out, error) == (0, "", "")


def test_formats_and_rules_list_everything(run: Run) -> None:
    from swf import FORMATS
    from tracekit.cleaning import RULES

    _, out, _ = run("formats", "--json")
    assert [f["name"] for f in json.loads(out)["formats"]] == FORMATS.names()
    _, out, _ = run("rules")
    assert all(name in out for name in RULES)


def test_version(run: Run) -> None:
    assert run("version")[1].strip() == tracekit.__version__


def test_sample_is_declared_as_made(tmp_path: Path, run: Run) -> None:
    target = tmp_path / "sample.swf"
    assert run("sample", target)[0] == 0
    assert re.search("made", target.read_text()[:2000], re.IGNORECASE)
    _, out, _ = run("info", target, "--json")
    data = json.loads(out)
    assert (data["jobs"], data["machine"]["procs"]) == (10_000, 256)
    assert data["offered_load"] == pytest.approx(0.8, abs=0.02)


def test_a_bug_is_one_line_unless_verbose(toy_swf: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "verbose", False)
    monkeypatch.setattr("tracekit.stats.summary", lambda trace: 1 / 0)
    code, _, error = run("info", toy_swf)
    assert code == 1
    assert error.startswith("error: unexpected ZeroDivisionError")
    assert error.count("\n") == 1
    with pytest.raises(ZeroDivisionError):
        run("-v", "info", toy_swf)


def test_convert_reads_what_it_wrote_in_every_format(tmp_path: Path, run: Run) -> None:
    source = shared("swf/KTH-SP2-1996-2.1-cln.swf.gz")
    chain = [source, tmp_path / "a.parquet", tmp_path / "b.swf.xz", tmp_path / "c.parquet"]
    for before, after in itertools.pairwise(chain):
        assert run("convert", before, after)[0] == 0
    first, last = tracekit.read(chain[1]), tracekit.read(chain[3])
    assert first.jobs.equals(last.jobs)


def test_the_demo_ends_by_naming_its_report(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def tour(folder: Path, main: Callable[[list[str]], int], *, force: bool) -> Path:
        main(["-q", "version"])  # as the report's own commands do
        (folder / "run").mkdir()
        (folder / "run" / "verdict.json").write_text('{"headline": "sessions is good enough."}')
        return folder / "report.html"

    monkeypatch.setattr("tracekit.demo.run", tour)
    error = run("demo", "-o", tmp_path)[2]
    assert "sessions is good enough." in error
    assert f"open {tmp_path / 'report.html'}" in error


@pytest.mark.parametrize(
    "shell",
    [
        {"_TRACEKIT_COMPLETE": "complete_bash", "COMP_WORDS": "tracekit simulate --backf", "COMP_CWORD": "2"},
        {"_TRACEKIT_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "tracekit simulate --backf"},
    ],
    ids=["bash", "zsh"],
)
def test_the_shell_can_complete_flags(shell: dict[str, str], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    code, out, _ = run()
    assert code == 0
    assert "--backfill" in out
