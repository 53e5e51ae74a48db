"""The most likely mistakes of a first hour. Each ends in one helpful line and the right exit code."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from shared_data import ROOT

import tracekit

Run = Callable[..., tuple[int, str, str]]

MAPPED = "submit_time=Queued,start_time=Began,end_time=Ended,req_procs=Cores"
TABLE = "JobID,Queued,Began,Ended,Cores\n1,2024-01-01 00:00:00,2024-01-01 00:01:00,2024-01-01 01:00:00,4\n"
SACCT = """JobID           JobName  Partition    Account  AllocCPUS      State ExitCode
------------ ---------- ---------- ---------- ---------- ---------- --------
1234              test       main       proj          4  COMPLETED      0:0
"""
SQUEUE = """             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
              1234      main     test      ann  R       1:23      4 n[1-4]
"""


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as it may look after a few minutes: a good trace of 60 jobs, and files that are not what they seem."""
    folder = tmp_path_factory.mktemp("first-hour")
    tracekit.write(tracekit.sample().head(60), folder / "jobs.swf")
    text = (folder / "jobs.swf").read_text()
    head = [line for line in text.splitlines() if line.startswith(";")]
    rows = [line.split() for line in text.splitlines() if not line.startswith(";")]

    def swf(name: str, field: int, value: str) -> None:
        changed = [[*row[: field - 1], value, *row[field:]] for row in rows]
        (folder / name).write_text("\n".join(head + [" ".join(row) for row in changed]) + "\n")

    swf("at-once.swf", 2, "0")
    swf("below-zero.swf", 2, "-500")
    swf("nan.swf", 4, "nan")
    (folder / "commas.swf").write_text("\n".join(",".join(row) for row in rows) + "\n")
    (folder / "utf16.swf").write_bytes(text.encode("utf-16"))
    (folder / "windows.swf").write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    (folder / "object.json").write_text('{"a": 1}\n')
    (folder / "header.csv").write_text("job_id,submit_time,run_time,req_procs\n")
    (folder / "decimal.csv").write_text("job_id;submit_time;run_time;req_procs\n1;0;12,5;4\n")
    (folder / "semicolons.csv").write_text("job_id;submit_time;run_time;req_procs;user\n1;0;12;4;ann\n2;9;12;4;ann\n")
    swf("no-waits.swf", 3, "-1")
    swf("no-run-times.swf", 4, "-1")
    swf("no-limits.swf", 9, "-1")
    swf("no-users.swf", 12, "-1")
    (folder / "no-machine.swf").write_text("\n".join(" ".join(row) for row in rows) + "\n")
    (folder / "one-job.swf").write_text("\n".join([*head, " ".join(rows[0])]) + "\n")
    (folder / "damaged.swf").write_text(text.replace(" ".join(rows[9]), "ten " + " ".join(rows[9][1:])))
    (folder / "plain.swf.gz").write_text(text)
    (folder / "cut.swf.gz").write_bytes(gzip.compress(text.encode())[:900])
    (folder / "empty.swf").write_text("")
    (folder / "header.swf").write_text("; Version: 2.2\n; MaxProcs: 4\n")
    (folder / "page.swf").write_text("<!DOCTYPE html><html><body>404</body></html>\n")
    (folder / "paper.pdf").write_text("%PDF-1.4\n")
    (folder / "noise.swf").write_bytes(bytes(range(256)) * 8)
    (folder / "table.csv").write_text(TABLE)
    (folder / "utf16.csv").write_bytes(TABLE.encode("utf-16"))
    (folder / "headless.csv").write_text("1,1704067200,100,4\n2,1704067260,100,4\n")
    (folder / "german.csv").write_text("at,run,procs\n31.01.2024 08:00,100,4\n")
    (folder / "clock.csv").write_text("at,run,procs\n2024-01-31 08:00,01:02:03,4\n")
    (folder / "fields.sacct").write_text("JobID|User|Submit|State\n1|ann|2024-01-01T00:00:00|COMPLETED\n")
    (folder / "people.sacct").write_text(SACCT)
    (folder / "squeue.txt").write_text(SQUEUE)
    (folder / "text.toml").write_text('procs = "many"\n')
    (folder / "wrong.toml").write_text("procs = = 3\n")
    (folder / "keys.toml").write_text("gpu = 3\n")
    with zipfile.ZipFile(folder / "book.xlsx", "w") as book:
        book.writestr("[Content_Types].xml", "<x/>")
    with zipfile.ZipFile(folder / "two.zip", "w") as archive:
        archive.write(folder / "jobs.swf", "jobs.swf")
        archive.write(folder / "jobs.swf", "other.swf")
    with zipfile.ZipFile(folder / "jobs.zip", "w") as archive:
        archive.write(folder / "jobs.swf", "jobs.swf")
    (folder / "folder").mkdir()
    return folder


#: A command line, its exit code, and what the error line must contain.
MISTAKES: list[tuple[str, int, str]] = [
    # the command itself
    ("inf jobs.swf", 2, "did you mean 'info'"),
    ("jobs.swf", 2, "tracekit info jobs.swf"),
    ("info", 2, "usage: tracekit info IN"),
    ("info jobs.swf no-users.swf", 2, "extra argument(s) (no-users.swf)"),
    ("info jobs.swf --jsn", 2, "did you mean --json"),
    ("--json info jobs.swf", 2, "tracekit COMMAND --json"),
    ("convert jobs.swf", 2, "usage: tracekit convert IN OUT"),
    ("convert jobs.swf -o new.swf", 2, "usage: tracekit convert IN OUT"),
    ("info jobs.swf --procs many", 2, "--procs: 'many'"),
    ("info jobs.swf --procs", 2, "requires an argument"),
    ("Info jobs.swf", 2, "did you mean 'info'"),
    ("simulate jobs.swf -policy sjf", 2, "did you mean --policy"),
    ("info jobs.swf —json", 2, "did you mean --json"),
    ("simulate jobs.swf sample.swf", 2, "extra argument(s) (sample.swf)"),
    ("fetch", 2, "usage: tracekit fetch NAME"),
    ("serve", 2, "--policy"),
    ("simulate jobs.swf --seed -1", 2, "at least 0"),
    ("scale jobs.swf new.swf --load high", 2, "--load"),
    # the file to read
    ("info jbos.swf", 1, "did you mean jobs.swf"),
    ("info nowhere/jobs.swf", 1, "the folder nowhere does not exist"),
    ("info folder", 1, "is a directory"),
    ("info ", 1, "shell variable"),
    ("info https://example.org/jobs.swf.gz", 1, "download it first"),
    ("info cut.swf.gz", 1, "compressed data"),
    ("info empty.swf", 1, "the file is empty"),
    ("info header.swf", 1, "only a header"),
    ("info page.swf", 1, "an HTML page"),
    ("info paper.pdf", 1, "a PDF document"),
    ("info ~/jobs.swf", 1, "the folder ~ does not exist"),
    ("info file:///data/jobs.swf", 1, "is an address, not a file"),
    ("info two.zip", 1, "unpack it first"),
    ("info utf16.swf", 1, "iconv"),
    ("info nan.swf", 1, "'nan'"),
    ("info commas.swf", 1, "','"),
    ("info object.json", 1, "known formats"),
    ("info header.csv", 1, "only a header"),
    ("info noise.swf", 1, "binary data"),
    ("info jobs.zip", 1, "unpack it first"),
    ("info book.xlsx", 1, "save it as CSV"),
    ("info utf16.csv", 1, "iconv"),
    ("info damaged.swf", 1, "line "),
    ("info jobs.swf --from sfw", 2, "did you mean swf"),
    ("info table.csv --from swf", 1, "line 1"),
    # tables with other columns, and logs of batch systems
    ("info table.csv", 1, "--map submit_time=THEIRS,run_time=THEIRS,req_procs=THEIRS (start_time and end_time"),
    ("info decimal.csv", 1, "'12,5' in column run_time"),
    ("info headless.csv", 1, "add a first line such as"),
    (f"info table.csv --map {MAPPED.replace('Cores', 'Core')}", 2, "did you mean Cores"),
    ("info table.csv --map submit=Queued", 2, "did you mean submit_time"),
    ("info table.csv --map submit_time:Queued", 2, "OURS=THEIRS"),
    ("info table.csv --map submit_time=Queued", 1, "no column for run_time, req_procs"),
    ("info german.csv --map submit_time=at,run_time=run,req_procs=procs", 1, "date"),
    ("info clock.csv --map submit_time=at,run_time=run,req_procs=procs", 1, "'01:02:03' in column run"),
    (f"convert table.csv new.swf --map {MAPPED} --timezone Berlin", 2, "did you mean Europe/Berlin"),
    ("info people.sacct", 1, "tracekit sacct-command"),
    ("info squeue.txt", 1, "tracekit sacct-command"),
    ("info fields.sacct", 1, "column Elapsed"),
    ("sacct-command --start Monday", 2, "a day such as"),
    ("sacct-command --start 2025-01-01 --end 2024-01-01", 2, "must come after"),
    # the file to write
    ("convert jobs.swf jobs.swf", 1, "the same file"),
    ("convert jobs.swf no-users.swf", 1, "use --force"),
    ("convert jobs.swf nowhere/new.swf", 1, "the folder nowhere does not exist"),
    ("convert jobs.swf folder", 1, "is a directory"),
    ("convert jobs.swf new.xlsx", 2, "--to"),
    ("convert jobs.swf new.json --to philly", 2, "read but not written"),
    ("convert jobs.swf /dev/full --to swf", 1, "No space left"),
    ("convert jobs.swf new", 2, "--to swf"),
    ("synth jobs.swf -o folder", 1, "is a directory"),
    ("synth jobs.swf -o jobs.swf", 1, "the same file"),
    ("plot jobs.swf", 2, "missing option '-o'"),
    ("plot jobs.swf -o new.png", 1, "pictures go into a folder, such as -o new"),
    ("report jobs.swf no-users.swf -o new.pdf", 1, "name it new.html"),
    ("report jobs.swf no-users.swf -o folder", 1, "is a directory"),
    ("report jobs.swf -o new.html", 2, "at least one synthetic one"),
    ("report folder -o new.html", 2, "folder RUN"),
    ("sample folder", 1, "is a directory"),
    # the machine
    ("simulate no-machine.swf", 1, "give --procs N"),
    ("simulate jobs.swf --procs 0", 2, "at least one processor"),
    ("info jobs.swf --machine nowhere.toml", 1, "no such file"),
    ("info jobs.swf --machine text.toml", 1, "procs must be a whole number"),
    ("info jobs.swf --machine wrong.toml", 1, "not valid TOML"),
    ("info jobs.swf --machine keys.toml", 2, "did you mean gpus"),
    # cleaning and cutting
    ("clean jobs.swf new.swf", 2, "tracekit rules"),
    ("clean jobs.swf new.swf --rules drop-zero-runtime", 2, "did you mean drop-zero-run-time"),
    ("slice jobs.swf new.swf --after 2030-01-01", 1, "were submitted from 2024-01-01"),
    ("slice jobs.swf new.swf --after yesterday", 2, "2023-01-31"),
    ("slice jobs.swf new.swf --user nobody", 1, "unknown user 'nobody'"),
    ("slice jobs.swf new.swf --jobs 10-20", 2, "START:COUNT"),
    # simulating
    ("simulate jobs.swf --policy agent", 2, "agent:default"),
    ("simulate jobs.swf --policy agent:nobody", 1, "packaged agents: default"),
    ("simulate jobs.swf --jobs 20", 2, "--window 0:20"),
    ("sweep jobs.swf -o new --jobs 20", 2, "add --windows K"),
    ("simulate jobs.swf --windows 1000000000 --jobs 10", 2, "51 windows of 10 jobs"),
    ("simulate jobs.swf --windows 0", 2, "at least 1"),
    ("check-schedule jobs.swf jobs.swf", 1, "'tracekit simulate --out DIR' writes such files"),
    ("evaluate jobs.swf folder", 1, "no such agent"),
    ("train jobs.swf", 2, "missing option '--output'"),
    ("train one-job.swf -o new", 1, "use a longer trace"),
    ("simulate jobs.swf --policy SJF", 2, "did you mean sjf"),
    ("simulate jobs.swf --policy fcfs, sjf", 2, "without spaces"),
    ("simulate jobs.swf --backfill esay", 2, "did you mean easy"),
    ("simulate jobs.swf --estimates noisy", 2, "noisy:0.3"),
    ("simulate jobs.swf --window 50:100", 2, "does not lie within the 60 jobs"),
    ("simulate jobs.swf --windows 3 --jobs 5000", 2, "do not fit"),
    ("simulate no-run-times.swf", 1, "no run time"),
    ("simulate no-waits.swf --policy replay", 1, "no recorded wait"),
    # making and scoring
    ("synth jobs.swf -o new.swf --model gan", 2, "did you mean ctgan"),
    ("synth jobs.swf new.swf --model lublin", 2, "extra argument(s) (new.swf)"),
    ("synth jobs.swf -o new.swf --model lublin --jobs 1e4", 2, "--jobs: '1e4'"),
    ("synth jobs.swf -o new.swf --model lublin --jobs 0", 2, "at least 1"),
    ("synth jobs.swf -o new.swf --model lublin --span month", 2, "30d"),
    ("synth one-job.swf -o new.swf --model lublin", 1, "at least 2 jobs"),
    ("synth --from-model nowhere -o new.swf", 1, "--save DIR"),
    ("synth jobs.swf -o new.swf --jobs 100000000000", 2, "at most"),
    ("synth one-job.swf -o new.swf --model gaussian-copula", 1, "too few jobs to learn from"),
    ("score one-job.swf jobs.swf", 1, "one-job: a score needs at least 10 jobs"),
    ("score jobs.swf one-job.swf", 1, "one-job: a score needs at least 10 jobs"),
    ("verdict jobs.swf no-users.swf --learner pick-heuristic", 1, "use a longer trace"),
    ("experiment jobs.swf --models lublin -o new --config nowhere.toml", 1, "no such file"),
    ("experiment jobs.swf --models nothing -o new --dry-run", 2, "unknown model 'nothing'"),
    ("compare folder folder", 1, "finished experiment"),
    ("score jobs.swf", 2, "usage: tracekit score REAL SYNTH"),
    ("score jobs.swf nowhere.swf", 1, "no such file"),
    ("score jobs.swf jobs.swf --families margnal", 2, "did you mean marginal"),
    # public traces
    ("fetch KTH-SP2", 2, "did you mean KTH-SP2-1996-2.1-cln"),
    ("reproduce rlsched", 2, "did you mean rlscheduler"),
]


def words_of(line: str) -> list[str]:
    return [word if word != "''" else "" for word in line.split(" ")]


@pytest.mark.parametrize(("line", "code", "words"), MISTAKES, ids=[line or "nothing" for line, _, _ in MISTAKES])
def test_one_helpful_line(
    line: str, code: int, words: str, kit: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(kit)
    before = sorted(kit.rglob("*"))
    ended, out, error = run(*words_of(line))
    if ended == 3 != code:
        pytest.skip(error)
    assert ended == code, error
    assert out == ""
    assert error.startswith("error: ")
    assert error.count("\n") == 1, error
    assert words in error
    assert "Traceback" not in error
    assert sorted(kit.rglob("*")) == before, "a command that fails leaves nothing behind"


def test_there_are_more_than_a_hundred() -> None:
    assert len({line for line, _, _ in MISTAKES}) == len(MISTAKES) > 100


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("help", "simulate"),
        ("help info", "tracekit info"),
        ("--version", tracekit.__version__),
        ("info plain.swf.gz", "60 by"),  # a name that lies about compression
        ("info no-users.swf", "users unknown"),
        ("info no-machine.swf --from swf", "see --procs and --machine"),
        ("simulate no-limits.swf", "without a limit"),
        ("convert jobs.swf -", "; MaxProcs: 256"),
        ("info windows.swf", "60 by"),  # a byte order mark, and lines that end as on Windows
        ("info semicolons.csv", "2 by 1 users"),
        ("simulate at-once.swf", "fcfs"),
        ("simulate below-zero.swf --policy f1", "f1"),
        ("evaluate agent:default jobs.swf --windows 2 --jobs 20", "default"),
    ],
)
def test_what_works_all_the_same(line: str, words: str, kit: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kit)
    code, out, error = run(*words_of(line))
    assert code == 0, error
    assert words in out + error


def test_a_missing_extra_is_named(kit: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("sdv", "torch"):
        monkeypatch.setitem(sys.modules, package, None)
    for module in [name for name in sys.modules if name.startswith("generators.sdv")]:
        monkeypatch.delitem(sys.modules, module)
    code, _, error = run("synth", kit / "jobs.swf", "-o", kit / "new.swf", "--model", "ctgan")
    assert code == 3
    assert "pip install 'tracekit-hpc[synth]'" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: tracekit.simulate("jobs.swf"),  # type: ignore[arg-type]
        lambda: tracekit.synth("jobs.swf", "resample"),  # type: ignore[arg-type]
        lambda: tracekit.score("jobs.swf", "made.swf"),  # type: ignore[arg-type]
        lambda: tracekit.score(tracekit.sample(), "jobs.swf"),  # type: ignore[arg-type]
    ],
    ids=["simulate", "synth", "score", "score the second"],
)
def test_a_files_name_in_place_of_a_trace(call: Callable[[], object]) -> None:
    with pytest.raises(tracekit.TracekitError, match=r"tracekit\.read\('jobs\.swf'\)"):
        call()


def tracekit_process(*arguments: object, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tracekit", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen(command, **pipes)  # type: ignore[call-overload,no-any-return]


def test_ctrl_c(kit: Path, tmp_path: Path) -> None:
    running = tracekit_process("convert", "-", tmp_path / "new.swf", stdin=subprocess.PIPE)
    assert running.stdin is not None
    running.stdin.write(";\n" * 500_000)  # more than a pipe holds: returns when the command has begun to read
    running.stdin.flush()
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=60)
    assert running.returncode == 130
    assert error.strip() == "error: interrupted"
    assert not list(tmp_path.iterdir())


def test_ctrl_c_that_a_library_swallows(kit: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiling(trace: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise RuntimeError("no compiled object yet") from None

    monkeypatch.setattr("tracekit.stats.summary", compiling)
    code, _, error = run("info", kit / "jobs.swf")
    assert (code, error) == (130, "error: interrupted\n")


def test_a_pipe_in_place_of_a_file(kit: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    line = f"{sys.executable} -m tracekit info <(gzip -c jobs.swf)"
    done = subprocess.run([bash, "-c", line], cwd=kit, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "60 by" in done.stdout


def test_a_reader_that_leaves_early(kit: Path) -> None:
    with tracekit_process("catalog", "--json") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.read(1)
        running.stdout.close()
        assert "Traceback" not in running.stderr.read()
        assert running.wait(timeout=60) in (0, 1)


def test_no_trace_fills_a_terminal(kit: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    code, out, error = run("synth", kit / "jobs.swf")
    assert (code, out) == (2, "")
    assert "give -o OUT" in error


def test_too_big_for_memory(kit: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("generators.synth.make", full)
    code, _, error = run("-q", "synth", kit / "jobs.swf", "-o", tmp_path / "n.swf", "--model", "resample")
    assert code == 1
    assert error.startswith("error: out of memory")
    assert not list(tmp_path.iterdir())


def test_no_permission(kit: Path, run: Run) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("jobs.swf", "secret.swf"):
            shutil.copy(kit / "jobs.swf", folder / name)
        assert run("convert", folder / "jobs.swf", folder / "warm.swf")[0] == 0  # what is imported lazily is there now
        (folder / "secret.swf").chmod(0o000)
        folder.chmod(0o555)
        root = os.geteuid() == 0
        if root:  # nothing is forbidden to root
            os.seteuid(65534)
        try:
            written = run("convert", folder / "jobs.swf", folder / "new.swf")
            read = run("info", folder / "secret.swf")
        finally:
            if root:
                os.seteuid(0)
            folder.chmod(0o755)
    for (code, _, error), words in ((written, "Permission denied"), (read, "permission denied")):
        assert (code, error.count("\n")) == (1, 1), error
        assert words in error


def test_an_old_python_is_told_by_make(tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("no make here")
    old = tmp_path / "python3.10"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.10.14\n[ "$1" = -V ]\n')
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "lint", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stdout
    assert "3.10.14" in done.stdout


def test_an_old_python_is_told_by_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (ROOT / "tracekit" / "__init__.py").read_text()
    monkeypatch.setattr(sys, "version_info", (3, 10, 14))
    with pytest.raises(ImportError, match=r"needs Python 3\.11 or newer"):
        exec(compile(source, "tracekit/__init__.py", "exec"), {"__file__": "x", "__name__": "old"})


def test_a_folder_called_swf_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "swf").mkdir()
    done = subprocess.run([sys.executable, "-m", "tracekit", "version"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
