from __future__ import annotations

import bz2
import gzip
import lzma
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import shared, shared_files
from toys import SWF_TEXT

import tracekit
from swf import header
from tracekit.errors import FormatError
from tracekit.stats import utilization

REAL = [p for p in shared_files("swf*/*.swf*") if "not-swf" not in p.name]
ROW = "1 0 5 100 4 -1 -1 4 200 -1 1 1 1 3 1 -1 -1 -1"


def plain_parse(path: Path) -> tuple[list[bytes], list[list[str]]]:
    """Read an SWF file as simply as can be: its comment lines, and its rows as words."""
    opener = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "rb") as source:
        lines = [line.rstrip(b"\r\n") for line in source]
    comments = [line for line in lines if line.lstrip().startswith(b";")]
    rows = [line.split() for line in lines if line.strip() and not line.lstrip().startswith(b";")]
    return comments, [[word.decode("latin-1") for word in row] for row in rows]


def same_number(a: str, b: str) -> bool:
    try:
        return float(a) == float(b)
    except ValueError:
        return a == b


def write_swf(tmp_path: Path, text: str | bytes, name: str = "t.swf") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_every_field_lands_in_its_column(toy_swf: Path) -> None:
    trace = tracekit.read(toy_swf)
    jobs = trace.jobs
    assert jobs["job_id"].tolist() == [1, 2, 3]
    assert jobs["submit_time"].tolist() == [0, 10, 20]
    assert jobs["alloc_procs"].tolist()[0] == 4
    assert jobs["alloc_procs"].isna().tolist() == [False, True, False]
    assert jobs["cpu_time"].tolist()[0] == 90.5
    assert math.isnan(jobs["wait_time"][1])
    assert jobs["status"].tolist() == ["completed", "cancelled", "failed"]
    assert jobs["user"].tolist() == ["1", "2", "1"]
    assert jobs["prev_job"].tolist()[2] == 1
    assert jobs["think_time"].tolist()[2] == 10
    assert jobs["req_mem"].tolist()[2] == 2048
    machine = trace.machine
    assert (machine.name, machine.procs, machine.nodes, machine.epoch) == ("Toy", 16, 8, 1e9)
    assert machine.timezone == "Europe/Stockholm"
    assert machine.queues == {"1": "batch"}


@pytest.mark.parametrize("path", REAL, ids=lambda p: p.name)
def test_real_files_come_back_as_they_were(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.swf"
    tracekit.write(tracekit.read(path), out)
    comments, rows = plain_parse(path)
    comments_back, rows_back = plain_parse(out)
    assert comments_back == comments
    assert len(rows_back) == len(rows)
    for row, back in zip(rows, rows_back, strict=True):
        if row != back:
            assert all(a == b or same_number(a, b) for a, b in zip(row, back, strict=True)), (row, back)


@pytest.mark.parametrize("path", REAL, ids=lambda p: p.name)
def test_real_files_survive_parquet(path: Path, tmp_path: Path) -> None:
    trace = tracekit.read(path)
    tracekit.write(trace, tmp_path / "t.parquet")
    back = tracekit.read(tmp_path / "t.parquet")
    assert back.equals(trace)
    assert back.history == trace.history


def test_nasa_matches_the_published_facts() -> None:
    trace = tracekit.read(shared("swf/NASA-iPSC-1993-3.1-cln.swf.gz"))
    size = trace.sizes().astype(int)
    assert len(trace) == 18_239
    assert trace.jobs["user"].nunique() == 69
    assert np.all(size & (size - 1) == 0)
    assert round(trace.column("run_time").mean(), 1) == 764.9
    assert round(100 * utilization(trace), 1) == 46.6


@pytest.mark.parametrize(
    ("name", "serial", "power", "size", "run", "log_run", "median", "gap", "load"),
    [
        ("lublin_256.swf", 0.2493, 0.8613, 22.10, 4862.8, 5.683, 137, 770.7, 1.061),
        ("lublin_256_new2.swf", 0.1675, 0.8306, 39.01, 1696.0, 3.914, 31, 460.3, 0.6163),
    ],
)
def test_lublin_files_match_the_published_facts(
    name: str,
    serial: float,
    power: float,
    size: float,
    run: float,
    log_run: float,
    median: float,
    gap: float,
    load: float,
) -> None:
    trace = tracekit.read(shared(f"swf/{name}"))
    n, r = trace.sizes().astype(int), trace.column("run_time")
    assert np.mean(n == 1) == pytest.approx(serial, abs=5e-5)
    assert np.mean(n & (n - 1) == 0) == pytest.approx(power, abs=5e-5)
    assert n.mean() == pytest.approx(size, abs=5e-3)
    assert r.mean() == pytest.approx(run, abs=5e-2)
    assert np.log(r).mean() == pytest.approx(log_run, abs=5e-4)
    assert np.median(r) == median
    assert trace.interarrival().mean() == pytest.approx(gap, abs=5e-2)
    assert trace.offered_load() == pytest.approx(load, abs=5e-4)


def test_counts_of_known_quirks() -> None:
    trace = tracekit.read(shared("swf/SDSC-BLUE-2000-4.2-cln.swf.gz"))
    found = {problem.rule: problem.count for problem in trace.validate()}
    assert len(trace) == 243_306
    assert found["missing-run-time"] == 10_744
    assert trace.jobs["run_time"].eq(0).sum() == 26
    assert len(trace.machine.queues) == 24


def test_extra_fields_are_kept() -> None:
    trace = tracekit.read(shared("swf-variants/21-fields-wagap-2013.swf"))
    assert len(trace) == 17_900
    assert trace.machine.procs is None
    assert trace.jobs["x_field20"][0] == "q_1d"
    assert trace.jobs["x_field21"][0].startswith("1:ppn=64")
    nineteen = tracekit.read(shared("swf-variants/19-fields.swf"))
    assert nineteen.jobs["x_field19"].tolist()[:3] == [0, 1, 0]
    assert nineteen.jobs["user"][0] == "92605928607567"


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz"])
def test_compression_both_ways(tmp_path: Path, suffix: str) -> None:
    source = write_swf(tmp_path, SWF_TEXT)
    trace = tracekit.read(source)
    packed = tmp_path / f"packed.swf{suffix}"
    tracekit.write(trace, packed)
    assert tracekit.read(packed).jobs.equals(trace.jobs)
    renamed = tmp_path / "no-ending"
    renamed.write_bytes(packed.read_bytes())
    assert tracekit.read(renamed).jobs.equals(trace.jobs)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("crlf", SWF_TEXT.replace("\n", "\r\n")),
        ("tabs", SWF_TEXT.replace(" -1", "\t-1")),
        ("no final newline", SWF_TEXT.rstrip("\n")),
        ("blank lines", SWF_TEXT.replace("\n", "\n\n")),
        ("leading blanks", SWF_TEXT.replace("\n", "\n   ")),
        ("comments between and after", SWF_TEXT.replace("\n3 ", "\n; half-way\n3 ") + "; the end\n"),
        ("byte order mark", "\ufeff" + SWF_TEXT),
        ("floats in whole columns", SWF_TEXT.replace("\n1 0 5 100 4", "\n1.0 0.0 5.00 1e2 4.0")),
        ("plus signs", SWF_TEXT.replace("\n1 0 5", "\n+1 +0 +5")),
        ("comment at the end of a row", SWF_TEXT.replace("3 1 -1 -1 -1\n2", "3 1 -1 -1 -1 ; fine\n2")),
    ],
)
def test_spellings_of_the_same_file(tmp_path: Path, toy_swf: Path, name: str, text: str) -> None:
    jobs = tracekit.read(write_swf(tmp_path, text, "other.swf")).jobs
    assert jobs.equals(tracekit.read(toy_swf).jobs), name


def test_fewer_columns_are_unknown(tmp_path: Path) -> None:
    trace = tracekit.read(write_swf(tmp_path, "; MaxProcs: 8\n1 0 -1 10 4\n2 5 -1 20 8\n"))
    assert trace.sizes().tolist() == [4, 8]
    assert trace.jobs["user"].isna().all()
    out = tmp_path / "out.swf"
    tracekit.write(trace, out)
    assert plain_parse(out)[1][0][:5] == ["1", "0", "-1", "10", "4"]


def test_no_header_at_all(tmp_path: Path) -> None:
    path = write_swf(tmp_path, f"{ROW}\n")
    assert tracekit.read(path).machine.procs is None
    assert tracekit.read(path, procs=64).machine.procs == 64
    machine = tmp_path / "m.toml"
    machine.write_text('name = "Mine"\nprocs = 128\ntimezone = "Europe/Oslo"\n[[groups]]\ncount = 4\ncores = 32\n')
    trace = tracekit.read(path, machine=machine)
    assert (trace.machine.name, trace.machine.procs, trace.machine.groups[0].cores) == ("Mine", 128, 32)


def test_latin1_header_survives(tmp_path: Path) -> None:
    text = "; Installation: Universit\xe9 de Gen\xe8ve\n; MaxProcs: 8\n".encode("latin-1") + ROW.encode() + b"\n"
    trace = tracekit.read(write_swf(tmp_path, text))
    assert trace.machine.name == "Universit\xe9 de Gen\xe8ve"
    tracekit.write(trace, tmp_path / "o.swf")
    assert (tmp_path / "o.swf").read_bytes().splitlines()[0] == text.splitlines()[0]
    tracekit.write(trace, tmp_path / "o.parquet")
    assert tracekit.read(tmp_path / "o.parquet").machine == trace.machine


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("; MaxNodes: 338 (batch partition; 512 total)", "nodes", 338),
        (";MaxNodes: 70  (dual)", "nodes", 70),
        ("; MaxProcs: 1664 (72, 1368, 224)", "procs", 1664),
        (";       MaxProcs: 12", "procs", 12),
        (";MaxProcs:93,312", "procs", 93312),
        ("; MaxProcs: -1", "procs", None),
        ("; MaxProcs: N/A", "procs", None),
        ("; UnixStartTime: 0 ", "epoch", 0.0),
        ("; UnixStartTime: unknown", "epoch", None),
        ("; TimeZoneString: US/Pacific", "timezone", "US/Pacific"),
        ("; TimeZoneString: Nowhere/Land", "timezone", None),
        ("; TimeZone: 3600", "timezone", "Etc/GMT-1"),
        ("; Partition: 18  z+i5U=:", "partitions", {"18": "z+i5U=:"}),
        ("; Partition: 19  `;", "partitions", {"19": "`;"}),
        ("; Queue:  1  ", "queues", {"1": ""}),
        ("; Queues: these are classes", "queues", {}),
        (";              http://www.cs.huji.ac.il/", "name", ""),
    ],
)
def test_header_traps(line: str, field: str, value: object) -> None:
    assert getattr(header.parse([line]), field) == value


def test_first_statement_of_a_key_wins() -> None:
    assert header.parse(["; MaxProcs: 8", "; MaxProcs: 16"]).procs == 8
    assert header.parse(["; MaxNodes: 256"]).procs == 256


def test_a_changed_trace_corrects_its_header(toy_swf: Path, tmp_path: Path) -> None:
    trace = tracekit.read(toy_swf).head(2)
    trace = trace.replace(machine=trace.machine.replace(procs=64))
    tracekit.write(trace, tmp_path / "o.swf")
    text = (tmp_path / "o.swf").read_text()
    assert "; MaxProcs: 64" in text
    assert "; MaxProcs: 16" not in text
    assert "; Note: tracekit: first 2 jobs" in text
    again = tracekit.read(tmp_path / "o.swf")
    assert again.history == ("first 2 jobs",)
    tracekit.write(again, tmp_path / "p.swf")
    assert (tmp_path / "p.swf").read_text() == text


def test_status_codes_beyond_the_standard_survive(tmp_path: Path) -> None:
    rows = [
        f"{i} {i} 0 5 1 -1 -1 1 9 -1 {code} 1 1 1 1 1 -1 -1" for i, code in enumerate([0, 1, 2, 3, 4, 5, -1, 265, -4])
    ]
    trace = tracekit.read(write_swf(tmp_path, "\n".join(rows) + "\n"))
    assert trace.jobs["status"].tolist() == ["failed", "completed", *["partial"] * 3, "cancelled", *["unknown"] * 3]
    tracekit.write(trace, tmp_path / "o.swf")
    assert [row[10] for row in plain_parse(tmp_path / "o.swf")[1]] == ["0", "1", "2", "3", "4", "5", "-1", "265", "-4"]
    changed = trace.assign({"status": ["completed"] * 9})
    tracekit.write(changed, tmp_path / "c.swf")
    assert {row[10] for row in plain_parse(tmp_path / "c.swf")[1]} == {"1"}


def test_names_become_numbers_and_say_so(toy: tracekit.Trace, tmp_path: Path) -> None:
    lost = tracekit.write(toy, tmp_path / "o.swf")
    assert any("names of users" in phrase for phrase in lost)
    text = (tmp_path / "o.swf").read_text()
    assert "; Queue: 1 long" in text
    assert "ann" not in text
    back = tracekit.read(tmp_path / "o.swf")
    assert back.jobs["user"].nunique() == 4
    assert back.machine.queues == {"1": "long", "2": "short"}


@pytest.mark.parametrize(
    ("damage", "line", "words"),
    [
        (f"{ROW}\n{ROW}\n1 2 3\n", 3, "3 fields"),
        (f"{ROW}\n{ROW}\n{ROW} 7\n", 3, "19 fields"),
        (f"{ROW}\n{ROW.replace('100', 'abc')}\n{ROW}\n", 2, "'abc' is not a number (field 4, run_time)"),
        (f"{ROW}\n{ROW.replace('100', '1_0')}\n{ROW}\n", 2, "(field 4, run_time)"),
        (f"{ROW}\n{ROW.replace('100', 'nan')}\n{ROW}\n", 2, "(field 4, run_time)"),
        (f"{ROW}\n{ROW.replace('100', 'inf')}\n{ROW}\n", 2, "(field 4, run_time)"),
        (f"{ROW}\n{ROW.replace('100', '1-0')}\n{ROW}\n", 2, "(field 4, run_time)"),
        (f"; Version: 2\n{ROW}\n1.5{ROW[1:]}\n", 3, "not whole"),
    ],
)
def test_a_damaged_line_is_named_or_skipped(tmp_path: Path, damage: str, line: int, words: str) -> None:
    path = write_swf(tmp_path, damage)
    with pytest.raises(FormatError) as caught:
        tracekit.read(path, "swf")
    assert caught.value.line == line
    assert words in str(caught.value)
    if "whole" not in words:
        kept = tracekit.read(path, "swf", on_error="skip")
        assert len(kept) == 2
        assert f"skipped 1 damaged line (line {line}" in kept.history[0]


def test_line_numbers_hold_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from swf import swf

    monkeypatch.setattr(swf, "BLOCK_BYTES", 200)
    path = write_swf(tmp_path, "; Version: 2\n" + f"{ROW}\n" * 50 + "oops\n" + f"{ROW}\n" * 20)
    with pytest.raises(FormatError) as caught:
        tracekit.read(path, "swf")
    assert caught.value.line == 52
    assert len(tracekit.read(path, "swf", on_error="skip")) == 70


numbers = st.one_of(
    st.integers(-(10**12), 10**12).map(float),
    st.floats(-1e9, 1e9, allow_nan=False).map(lambda x: round(x, 2)),
    st.floats(-1e15, 1e15),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(numbers, min_size=17, max_size=17), min_size=1, max_size=8))
def test_any_numbers_survive_the_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: list[list[float]]) -> None:
    folder = tmp_path_factory.mktemp("swf")
    whole = {10, 11, 12, 13, 14, 15}  # status and labels are whole numbers in every real file
    lines = []
    for job, row in enumerate(rows):
        words = [repr(int(v)) if k + 1 in whole else repr(v) for k, v in enumerate(row)]
        lines.append(" ".join([str(job), *words]))
    source = write_swf(folder, "\n".join(lines) + "\n")
    tracekit.write(tracekit.read(source, "swf"), folder / "out.swf", force=True)
    for row, back in zip(lines, plain_parse(folder / "out.swf")[1], strict=True):
        assert [float(w) for w in row.split()] == [float(w) for w in back]
