"""Sweeps and placement studies on many traces: the numbers of each alone, resumed, bounded, and what goes wrong."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit
from evaluation.experiment.inputs import inputs_of
from evaluation.experiment.runner import Status
from evaluation.experiment.tasks import Store, Task
from evaluation.spread import run as spread

Run = Callable[..., tuple[int, str, str]]
SWEEP = ("--load", "0.7,0.9", "--policy", "fcfs,sjf", "--shake", "2")
EXPERIMENT = ("experiment", "one.swf", "two.swf", "--models", "resample")
CLUSTER = 'name = "toy"\n[[groups]]\nname = "g"\ncount = 3\ncores = 16\nmemory = 67108864\ngpus = 4\n'


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces")
    sample = tracekit.sample()
    tracekit.write(sample.head(400), folder / "one.swf")
    tracekit.write(sample.take(slice(3000, 3400)), folder / "two.swf")
    (folder / "tasks.swf").write_text("named as a folder of ours, and no trace\n")
    (folder / "again.swf").write_bytes((folder / "one.swf").read_bytes())
    (folder / "bad.swf").write_text("no trace\n")
    (folder / "toy.toml").write_text(CLUSTER)
    for number, shares in enumerate(("250", "460")):
        pods = [f"p{k},4000,1024,{1 + k % 2},{shares if k % 2 == 0 else 1000}" for k in range(40)]
        (folder / f"pods{number}.csv").write_text("\n".join(["name,cpu_milli,memory_mib,num_gpu,gpu_milli", *pods]))
    return folder


@pytest.fixture(autouse=True)
def here(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(traces)


@pytest.fixture(scope="module")
def swept(traces: Path) -> Path:
    """The folder of a sweep that was interrupted after its first pieces and then finished."""
    from tracekit.cli import main

    def interrupt(status: Status) -> None:
        if status.done >= 4:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(traces)
        patch.setattr("tracekit.cli.many.Display.__call__", lambda self, status: interrupt(status))
        words = ["sweep", "one.swf", "again.swf", "bad.swf", "two.swf", *SWEEP, "-o", "swept"]
        assert main(words) == 130
        assert not (traces / "swept" / "one").exists()
        kept = {path.parent.name: path.stat().st_mtime_ns for path in (traces / "swept").glob("tasks/*/result.json")}
        assert len(kept) >= 4
        patch.undo()
        patch.chdir(traces)
        assert main([*words, "--worker-memory", "600M"]) == 1
        again = {path.parent.name: path.stat().st_mtime_ns for path in (traces / "swept").glob("tasks/*/result.json")}
        assert len(again) == 3 + 2 * 2
        assert kept.items() <= again.items()
    return traces / "swept"


def test_a_sweep_of_many_traces_is_that_of_each(swept: Path, run: Run) -> None:
    for name in ("one", "two"):
        code, _, error = run("sweep", f"{name}.swf", *SWEEP, "-o", f"alone-{name}")
        assert code == 0, error
        for file in ("sweep.csv", "sweep.json", "sweep.svg"):
            assert (swept / name / file).read_bytes() == Path(f"alone-{name}", file).read_bytes()
    assert not (swept / "bad").exists()
    assert [one.name for one in inputs_of(["one.swf", "tasks.swf", "./one.swf"])] == ["one", "tasks-2", ""]


def test_the_summary_tells_what_failed_what_is_the_same_and_what_workers_took(swept: Path) -> None:
    summary = json.loads((swept / "summary.json").read_text())
    rows = {row["trace"]: row for row in summary["traces"]}
    assert rows["again.swf"]["same_as"] == "one.swf"
    assert rows["bad.swf"]["failed"].startswith("bad.swf: no format recognises it")
    assert [point["load"] for point in rows["two.swf"]["rows"]] == [0.7, 0.7, 0.9, 0.9]
    assert summary["cost"]["worker_memory_mb"] == 600
    assert 50 < summary["cost"]["largest_peak_mb"] < 600
    page = (swept / "summary.md").read_text()
    assert page.count("| one | 0.") == 2
    assert "600 MB allowed" in page


def test_each_file_is_read_once_and_found_by_its_content(swept: Path) -> None:
    tasks = [json.loads(path.read_text())["task"] for path in swept.glob("tasks/*/result.json")]
    read = [task for task in tasks if task["kind"] == "normalise"]
    assert len(read) == 3  # four files, two of them the same
    sources = {task["inputs"]["trace"][1] for task in tasks if task["kind"] == "sweep"}
    assert all((swept / "tasks" / source / "trace.parquet").is_file() for source in sources)
    assert len(sources) == 2


def test_placement_studies_of_many_traces(traces: Path, run: Run) -> None:
    flags = ("--cluster", "toy.toml", "--allocate", "best-fit,random", "--seeds", "1:2")
    code, out, error = run("place", "pods0.csv", "pods1.csv", *flags, "-o", "placed", "--json")
    assert code == 0, error
    assert [len(row["rows"]) for row in json.loads(out)["traces"]] == [4, 4]
    for name in ("pods0", "pods1"):
        assert run("place", f"{name}.csv", *flags, "-o", f"alone-{name}")[0] == 0
        for file in ("place.json", "place.csv"):
            assert Path("placed", name, file).read_bytes() == Path(f"alone-{name}", file).read_bytes()
    assert Path("placed/summary.md").read_text().count("| best-fit | 2 |") == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("sweep", "one.swf", "two.swf", "-o", "new", "--engine", "rya"), 2, "did you mean ray"),
        (("sweep", "one.swf", "two.swf", "-o", "new", "--address", "x:1"), 2, "--engine ray"),
        (("sweep", "one.swf", "-", "-o", "new"), 2, "standard input"),
        (("sweep", "one.swf", "two.swf", "-o", "new", "--policy", "fcsf"), 2, "did you mean fcfs"),
        (("sweep", "one.swf", "two.swf", "-o", "one.swf"), 1, "is a file"),
        (("sweep", "one.swf", "two.swf", "-o", "mine"), 1, "mine/one: exists already"),
        (("sweep", "one.swf", "two.swf", "-o", "swept", "--policy", "lcfs"), 1, "with other settings"),
        (("sweep", "one.swf", "two.swf", "-o", "theirs"), 1, "theirs/summary.md: exists already"),
        (("sweep", "one.swf", "two.swf", "-o", "new", "--worker-memory", "many"), 2, "such as 2G"),
        (("sweep", "one.swf", "two.swf", "-o", "yours", "--policy", "fcfs"), 1, "yours/study.json: exists already"),
        (("sweep", "one.swf", "two.swf", "-o", "work", "--policy", "fcfs"), 1, "work/tasks: exists already"),
        (("sweep", "one.swf", "two.swf", "-o", "new", "--from", "swff"), 2, "unknown format 'swff'"),
        (("sweep", "one.swf", "two.swf", "-o", "new", "--machine", "no.toml"), 1, "no.toml: no such file"),
        (("sweep", "one.swf", "two.swf", "-o", "new", "--threads", "2"), 2, "--threads is about one trace"),
        (("place", "pods0.csv", "pods1.csv", "--cluster", "toy.toml"), 2, "-o DIR"),
        (("place", "pods0.csv", "--cluster", "toy.toml", "--engine", "local", "--worker-memory", "1G"), 2, "-o DIR"),
    ],
)
def test_mistakes_end_in_one_line_before_any_work(
    words: tuple[str, ...], code: int, said: str, swept: Path, run: Run
) -> None:
    Path("mine/one").mkdir(parents=True, exist_ok=True)
    Path("theirs").mkdir(exist_ok=True)
    Path("theirs/summary.md").write_text("mine")
    Path("work/tasks/.git").mkdir(parents=True, exist_ok=True)
    Path("yours").mkdir(exist_ok=True)
    Path("yours/study.json").write_text('{"mine": 1}')
    found, out, error = run(*words)
    assert found == code, error
    assert said in error.replace("\n", " ")
    assert not out
    assert "Traceback" not in error
    assert not Path("new").exists()
    assert Path("theirs/summary.md").read_text() == "mine"
    assert Path("yours/study.json").read_text() == '{"mine": 1}'


def test_a_file_that_is_named_twice_is_one_row_and_one_folder(traces: Path, tmp_path: Path, run: Run) -> None:
    words = ("sweep", "one.swf", "one.swf", "bad.swf", "bad.swf", "--load", "0.7", "--shake", "2")
    code, out, error = run(*words, "-o", str(tmp_path / "run"), "--json")
    assert code == 1
    assert "1 of 2 traces failed" in error
    rows = json.loads(out)["traces"]
    assert [(row["name"], row["same_as"], len(row["rows"])) for row in rows[:2]] == [
        ("one", "", 1),
        ("", "one.swf", 0),
    ]
    assert not list(tmp_path.glob("run/sweep.*"))


def test_names_that_are_no_utf_8(traces: Path, tmp_path: Path, run: Run) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9.swf")
    try:
        odd.write_bytes(Path("one.swf").read_bytes())
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    out = tmp_path / "run"
    code, _, error = run("sweep", str(odd), "two.swf", "--load", "0.7", "--shake", "2", "-o", str(out))
    assert code == 0, error
    assert "| caf? | 0.7 |" in (out / "summary.md").read_text()
    assert json.loads((out / "summary.json").read_text())["traces"][0]["jobs"] == 400
    again = {path: path.stat().st_mtime_ns for path in out.glob("tasks/*/result.json")}
    assert run("sweep", str(odd), "two.swf", "--load", "0.7", "--shake", "2", "-o", str(out))[0] == 0
    assert again == {path: path.stat().st_mtime_ns for path in out.glob("tasks/*/result.json")}


def test_without_ray_nothing_begins(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for words in (("sweep", "one.swf"), ("sweep", "one.swf", "two.swf"), EXPERIMENT):
        code, _, error = run(*words, "--engine", "ray", "-o", str(tmp_path / "out"))
        assert (code, "pip install" in error) == (3, True), error
        assert not (tmp_path / "out").exists()


def test_what_a_full_disk_or_a_missing_package_stopped_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evaluation.experiment import stages
    from tracekit.errors import MissingExtra, OutputError, TracekitError

    raised: list[tuple[Exception, bool]] = [
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (OutputError("trace.parquet: cannot be written: No space left on device"), False),
        (MissingExtra("sdv", "synth"), False),
        (TracekitError("too few jobs"), True),
        (OSError(errno.EISDIR, "Is a directory"), True),
    ]
    for error, final in raised:

        def step(*_: Any, error: Exception = error) -> None:
            raise error

        monkeypatch.setitem(stages.STEPS, "sweep", step)
        result = stages.perform(Task("sweep", {}, {}, "code"), {}, tmp_path)
        assert not result.ok
        assert result.final is final, result.reason


def test_only_work_that_is_half_done_is_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    left = store.scratch("0123456789abcdef0123")
    for name in (".git", ".0123456789abcdef0123", ".notes.txt"):
        (store.folder / name).mkdir()
    store.sweep()
    assert sorted(path.name for path in store.folder.iterdir()) == [".0123456789abcdef0123", ".git", ".notes.txt"]
    assert not left.exists()


def test_a_piece_that_is_too_large_is_refused_with_its_size(
    traces: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "_BYTES", 10_000_000)  # as if schedules were large: 400 jobs take gigabytes
    words = ("sweep", "one.swf", "two.swf", *SWEEP, "-o", str(tmp_path / "run"), "--worker-memory", "1G")
    code, _, error = run(*words)
    assert code == 1
    assert "all traces failed" in error
    assert "it would take about 24 GB of memory, more than the 1.1 GB of a worker" in error
    done = [json.loads(path.read_text())["task"]["kind"] for path in tmp_path.glob("run/tasks/*/result.json")]
    assert done == ["normalise", "normalise"]


def test_fewer_workers_run_where_each_may_take_more(monkeypatch: pytest.MonkeyPatch) -> None:
    from evaluation.experiment import memory

    gigabyte = 10**9
    monkeypatch.setattr(memory, "free", lambda: 10 * gigabyte)
    assert memory.workers(8, 3 * gigabyte) == 3
    assert memory.workers(8, gigabyte) == 8
    assert memory.share(8) == gigabyte
    assert memory.share(8, largest=3 * gigabyte) == 4 * gigabyte
    monkeypatch.setattr(memory, "free", lambda: None)
    assert memory.workers(8, gigabyte) == 8
    assert memory.share(8) is None


def test_a_process_is_bounded_by_the_kernel_for_a_block() -> None:
    import resource

    import numpy as np

    from evaluation.experiment.memory import bounded, forget_peak, peak

    before: Any = resource.getrlimit(resource.RLIMIT_DATA)
    with bounded(2**31), pytest.raises(MemoryError):
        np.empty(2**32, np.uint8)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    forget_peak()
    low = peak()
    np.ones(2**26, np.uint8)
    assert peak() > low + 50
