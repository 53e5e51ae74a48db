"""A hundred damaged copies of each batch system's file, beside those of tables in ``test_tables_mutated``."""

from __future__ import annotations

import contextlib
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from shared_data import shared
from test_jobcomp import LINE
from test_lsf import DONE, ROW
from test_pbs import PRO
from test_sacct import HEADER, ROWS
from test_simulators import RESULTS, WORKLOAD
from test_tables_mutated import mutations, outcome

from swf import FORMATS
from swf.base import detect
from tracekit.errors import TracekitError

EVENT = (
    "-dt 5 -e submit_batch_job | -sim-walltime 7.0 --uid=u -J jobid_{k} -N 1 -n 2 -t 1-00:00:00 -p x --mem=2G run.sh\n"
)
SAMPLES = {
    "sacct": f"{HEADER}\n{ROWS}",
    "jobcomp": f"{LINE}\n" * 3,
    "pbs": PRO.format(id="1.s", code=0) + "04/16/2025 10:00:00;Q;2.s;queue=vis\n" + PRO.format(id="3[1].s", code=271),
    "lsf": ROW.format(**DONE) * 2,
    "batsim": json.dumps(WORKLOAD, indent=1),
    "slurmsim": "".join(EVENT.format(k=k) for k in range(4)),
}
SEPARATORS = {"sacct": b"|", "lsf": b" ", "pbs": b" ", "jobcomp": b" ", "slurmsim": b" "}
REAL = {
    "sacct": "sacct/xdmod_phillips.sacct.log",
    "jobcomp": "sacct/rltune_slurm_jobcomp.log",
    "pbs": "pbs/IU-Mason_20171003.anon",
    "lsf": "lsf/xdmod_lsf_sample.lsb.acct",
    "slurmsim": "slurmsim/workload_500.events",
}


def check(name: str, data: bytes, path: Path, readers: list[str]) -> None:
    path.write_bytes(data)
    with contextlib.suppress(TracekitError):
        assert detect(path, FORMATS).name == name
    for reader in readers:
        for on_error in ("stop", "skip"):
            assert len(outcome(reader, path, on_error)) < 1000, reader


@pytest.mark.parametrize("name", SAMPLES)
def test_a_hundred_damaged_copies(name: str, tmp_path: Path) -> None:
    data = SAMPLES[name].encode()
    rng = np.random.default_rng(zlib.crc32(data))
    separator = SEPARATORS.get(name, b",")
    for number, damaged in enumerate(mutations(data.replace(separator, b","), rng)):
        readers = FORMATS.names() if number % 10 == 0 else [name]
        check(name, damaged.replace(b",", separator) if number % 3 else damaged, tmp_path / "file", readers)


@pytest.mark.parametrize("name", REAL)
def test_damaged_heads_of_real_files(name: str, tmp_path: Path) -> None:
    data = b"".join(shared(REAL[name]).read_bytes().splitlines(keepends=True)[:12])
    rng = np.random.default_rng(zlib.crc32(data))
    for damaged in mutations(data, rng):
        check(name, damaged, tmp_path / "file", [name])


def test_damaged_results_of_batsim(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    for damaged in mutations(RESULTS.encode(), rng):
        path = tmp_path / "file"
        path.write_bytes(damaged)
        for on_error in ("stop", "skip"):
            assert len(outcome("batsim", path, on_error)) < 1000, damaged
