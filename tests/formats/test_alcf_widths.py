"""Exports of 57, 58, 66 and 67 columns: made rows with the traps that readers of the real files report."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tracekit
from tracekit.api import to_parquet
from tracekit.errors import FormatError
from tracekit.transform import merge
from tracekit.validation import validate

#: The order of the Cobalt years, as a reader by position has it; the others add columns, in no order of the owners'.
COBALT = """
    JOB_NAME COBALT_JOBID MACHINE_NAME QUEUED_TIMESTAMP QUEUED_DATE_ID START_TIMESTAMP START_DATE_ID END_TIMESTAMP
    END_DATE_ID USERNAME_GENID PROJECT_NAME_GENID QUEUE_NAME WALLTIME_SECONDS RUNTIME_SECONDS NODES_USED
    NODES_REQUESTED CORES_USED CORES_REQUESTED LOCATION EXIT_STATUS ELIGIBLE_WAIT_SECONDS ELIGIBLE_WAIT_FACTOR
    QUEUED_WAIT_SECONDS QUEUED_WAIT_FACTOR REQUESTED_CORE_HOURS USED_CORE_HOURS CAPABILITY_USAGE_CORE_HOURS
    NONCAPABILITY_USAGE_CORE_HOURS BUCKETS3_A_USAGE_CORE_HOURS BUCKETS3_B_USAGE_CORE_HOURS
    BUCKETS3_C_USAGE_CORE_HOURS MACHINE_PARTITION EXIT_CODE MODE RESID DATA_LOAD_STATUS CAPABILITY SIZE_BUCKETS3
    PERCENTILE NUM_TASKS_SUBBLOCK NUM_TASKS_CONSECUTIVE NUM_TASKS_MULTILOCATION NUM_TASKS_SINGLE COBALT_NUM_TASKS
    IS_SINGLE IS_CONSECUTIVE IS_MULTILOCATION IS_SUBBLOCK IS_SUBBLOCK_ONLY IS_MULTILOCATION_ONLY
    IS_MULTILOCATION_SUBBLOCK IS_CONSECUTIVE_ONLY IS_SINGLE_ONLY IS_NO_TASKS IS_OTHER OVERBURN_CORE_HOURS IS_OVERBURN
""".split()  # noqa: SIM905
MORE = {
    57: [],
    58: ["ALLOCATION_AWARD_CATEGORY"],
    66: [
        *("ALLOCATION_AWARD_CATEGORY", "GPUS_REQUESTED", "SCIENCE_FIELD_SHORT", "SCIENCE_FIELD"),
        *("MADE_A", "MADE_B", "MADE_C", "MADE_D", "MADE_E"),
    ],
}
MORE[67] = [*MORE[66], "MADE_F"]
SERVER = "polaris-pbs-01.hsn.cm.polaris.alcf.anl.gov"
ROW = {
    "COBALT_JOBID": "0",
    "MACHINE_NAME": "polaris",
    "QUEUED_TIMESTAMP": "2024-03-01 12:00:00",
    "QUEUED_DATE_ID": "20240301",
    "START_TIMESTAMP": "2024-03-01 12:10:00",
    "START_DATE_ID": "20240301",
    "END_TIMESTAMP": "2024-03-01 13:10:00",
    "END_DATE_ID": "20240301",
    "USERNAME_GENID": "81",
    "PROJECT_NAME_GENID": "82",
    "QUEUE_NAME": "prod",
    "WALLTIME_SECONDS": "7200.0",
    "RUNTIME_SECONDS": "3600.0",
    "NODES_USED": "24.0",
    "NODES_REQUESTED": "24.0",
    "CORES_USED": "768.0",
    "CORES_REQUESTED": "768.0",
    "QUEUED_WAIT_SECONDS": "600",
    "EXIT_STATUS": "0",
}


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"') else text


def export(path: Path, width: int, *rows: dict[str, str], lower: bool = False) -> Path:
    """Write rows of an export of that width; values that a row does not state are those of `ROW`, else 0."""
    names = [*COBALT, *MORE[width]]
    assert len(names) == width
    lines = [",".join(names).lower() if lower else ",".join(names)]
    lines += [",".join(quoted((ROW | row).get(name, "0")) for name in names) for row in rows]
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def named(number: object, server: str = SERVER) -> dict[str, str]:
    return {"JOB_NAME": f"{number}.{server}"}


@pytest.mark.parametrize("width", sorted(MORE))
@pytest.mark.parametrize("lower", [False, True])
def test_every_width_is_read_by_name(width: int, lower: bool, tmp_path: Path) -> None:
    rows = [named(1934001), named(1934007) | {"QUEUED_TIMESTAMP": "2024-03-01 12:05:00.250000"}]
    path = export(tmp_path / "ANL-ALCF-DJC-POLARIS_20240101_20241231.csv.gz", width, *rows, lower=lower)
    trace = tracekit.read(path)
    jobs = trace.jobs
    assert jobs["job_id"].tolist() == [1934001, 1934007]
    assert jobs["x_job_name"].tolist() == [f"1934001.{SERVER}", f"1934007.{SERVER}"]
    noon = pd.Timestamp("2024-03-01 18:00:00", tz="UTC").timestamp()  # Chicago's winter
    assert jobs["submit_time"].tolist() == pytest.approx([noon, noon + 300.25], abs=1e-6)
    assert (jobs["wait_time"] == 600).all()
    assert jobs["run_time"].tolist() == [3600, 3600]
    assert jobs["req_nodes"].tolist() == [24, 24]
    assert (trace.machine.name, trace.machine.nodes) == ("Polaris", 560)
    kept = sum(name.startswith("x_") for name in jobs.columns)
    assert kept >= width - 20  # everything that is not one of our columns


def test_a_number_of_two_jobs_stays_with_the_first(tmp_path: Path) -> None:
    other = SERVER.replace("-01", "-02")
    rows = [named(7), named(9), named(7, other), named("8[1]"), named("8[2]"), {"JOB_NAME": "my job"}, named(7, other)]
    trace = tracekit.read(export(tmp_path / "a.csv", 67, *rows))
    assert trace.jobs["job_id"].tolist() == [7, 9, 10, 8, 11, 12, 10]
    assert [problem.rule for problem in validate(trace)] == ["duplicate-ids"]  # one JOB_NAME, twice


def test_cobalt_and_pbs_rows_in_one_file(tmp_path: Path) -> None:
    rows = [named(501), named(502) | {"COBALT_JOBID": "77"}, named(77), named(503) | {"COBALT_JOBID": "78"}]
    trace = tracekit.read(export(tmp_path / "a.csv", 58, *rows))
    assert trace.jobs["job_id"].tolist() == [501, 77, 502, 78]  # 77 is taken, so job 77 of PBS comes after the largest
    assert trace.jobs["x_job_name"].iloc[2] == f"77.{SERVER}"


def test_award_categories_are_kept_as_written(tmp_path: Path) -> None:
    words = ["INCITE", "ALCC", "Discretionary", "Director's Discretionary", "DD", 'so-called "DD", renewed', ""]
    rows = [named(k) | {"ALLOCATION_AWARD_CATEGORY": word} for k, word in enumerate(words, 1)]
    kept = tracekit.read(export(tmp_path / "a.csv", 66, *rows)).jobs["x_allocation_award_category"]
    assert kept.tolist()[:-1] == words[:-1]
    assert kept.isna().iloc[-1]


CAPABILITY: list[tuple[list[str], list[float]]] = [
    (["capable", "not-capable", "", "Capable"], [1, 0, np.nan, 1]),
    (["capability", "not-capability", "NonCapability", "non capability"], [1, 0, 0, 0]),
    (["True", "False", "true", "FALSE"], [1, 0, 1, 0]),
    (["1", "0", "1", "0"], [1, 0, 1, 0]),
    (["1.0", "0.0", "0.0", "1.0"], [1, 0, 0, 1]),
    (["Y", "N", "maybe", "2"], [1, 0, np.nan, np.nan]),
]


@pytest.mark.parametrize(("words", "flags"), CAPABILITY)
def test_capability_as_word_truth_value_or_number(words: list[str], flags: list[float], tmp_path: Path) -> None:
    rows = [named(k) | {"CAPABILITY": word} for k, word in enumerate(words, 1)]
    trace = tracekit.read(export(tmp_path / "a.csv", 67, *rows))
    np.testing.assert_array_equal(trace.jobs["x_capability"].to_numpy(dtype=float), flags)
    assert [str(word) for word, known in zip(trace.jobs["x_capability_text"], words, strict=True) if known] == [
        word for word in words if word
    ]
    tracekit.write(trace, tmp_path / "again.alcf")
    again = tracekit.read(tmp_path / "again.alcf").jobs
    np.testing.assert_array_equal(again["x_capability"].to_numpy(dtype=float), flags)
    assert again["x_capability_text"].astype(str).tolist() == trace.jobs["x_capability_text"].astype(str).tolist()


LOCATIONS = [
    "",
    "x3001c0s13b0n0",
    ",".join(f"x3001c0s{k}b0n0" for k in range(24)),
    ",".join(f"x3001c0s{k}b0n0" for k in range(400))[:4000],  # cut inside a name
    "x3001c0s13b0n0,x3001c0s1,",
    "nid[00001-00024",
    "[10-",
    "3184-3207",
    "3184",
    "MIR-04000-37FF1-512",
]


def test_cut_locations_neither_stop_nor_make_nodes(tmp_path: Path) -> None:
    rows = [named(k) | {"LOCATION": place} for k, place in enumerate(LOCATIONS, 1)]
    trace = tracekit.read(export(tmp_path / "a.csv", 66, *rows))
    assert trace.jobs["alloc_nodes"].tolist() == [24] * len(LOCATIONS)
    assert trace.machine.nodes == 560
    kept = trace.jobs["x_location"]
    assert [place if known else "" for place, known in zip(kept, kept.notna(), strict=True)] == LOCATIONS


@pytest.mark.parametrize(("cut", "why"), [("x2", "a quotation mark is not closed"), ("24.0", "15 fields")])
def test_a_cut_row_is_named_or_left_out(cut: str, why: str, tmp_path: Path) -> None:
    path = export(tmp_path / "a.csv", 66, named(1), named(2) | {"LOCATION": "x1,x2,x3"}, named(3))
    lines = path.read_text().splitlines()
    lines[2] = lines[2][: lines[2].index(cut)]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(FormatError, match=f"line 3: {why}"):
        tracekit.read(path)
    kept = tracekit.read(path, on_error="skip")
    assert kept.jobs["job_id"].tolist() == [1, 3]
    assert any("skipped 1 damaged line (first: line 3" in step for step in kept.history)


NODES = {
    "mira": 49152, "Theta": 4392, "thetagpu": 24, "ThetaGPU": 24, "theta-gpu": 24, "POLARIS": 560, "cooley": 126,
    "cetus": 4096, "vesta": 2048, "aurora": 10624,
}  # fmt: skip


@pytest.mark.parametrize(("name", "nodes"), NODES.items())
def test_machines_by_name(name: str, nodes: int, tmp_path: Path) -> None:
    machine = tracekit.read(export(tmp_path / "a.csv", 57, named(1) | {"MACHINE_NAME": name})).machine
    assert (machine.nodes, machine.unit, machine.timezone) == (nodes, "nodes", "America/Chicago")


def test_years_of_different_widths_are_merged(tmp_path: Path) -> None:
    first = export(tmp_path / "2023.csv.gz", 66, named(5), named(6))
    later = {"QUEUED_TIMESTAMP": "2025-03-01 12:00:00", "CAPABILITY": "capable"}
    second = export(tmp_path / "2025.csv", 67, named(6, SERVER + ".new") | later, named(8) | later)
    both = merge([tracekit.read(first), tracekit.read(second)], ["2023", "2025"])
    assert both.machines == "same"
    assert both.trace.machine.nodes == 560
    assert both.renumbered
    assert both.trace.jobs["x_job_id"].tolist() == [5, 6, 6, 8]
    np.testing.assert_array_equal(both.trace.jobs["x_capability"].to_numpy(dtype=float), [0, 0, 1, 1])


def test_in_parts_as_in_one(tmp_path: Path) -> None:
    words = ("capable", "", "not-capable")
    path = export(tmp_path / "a.csv", 67, *(named(k) | {"CAPABILITY": words[k % 3]} for k in range(1, 60)))
    assert to_parquet(path, tmp_path / "parts.parquet", part_bytes=3000) is not None
    assert tracekit.read(tmp_path / "parts.parquet").equals(tracekit.read(path))


def test_in_parts_numbers_of_two_jobs_are_seen(tmp_path: Path) -> None:
    path = export(tmp_path / "a.csv", 67, *(named(f"{k // 2 + 1}[{k % 2}]") for k in range(60)))
    to_parquet(path, tmp_path / "parts.parquet", part_bytes=3000)
    ids = tracekit.read(path).jobs["job_id"]
    assert ids.is_unique
    if (tmp_path / "parts.parquet").exists():
        assert tracekit.read(tmp_path / "parts.parquet").jobs["job_id"].tolist() == ids.tolist()
