"""Ten thousand damaged files of every format: a trace or an error of ours, whatever the bytes."""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import zlib
from pathlib import Path
from typing import Any

import event_toys
import numpy as np
import pandas as pd
import pytest
from fuzzing import BYTES, Rng, mutated, revalued
from test_batch_mutated import SAMPLES as BATCH
from test_foreign_parquet import FDATA, PM100
from test_simulators import RESULTS
from test_tables_mutated import SAMPLES as TABLES
from toys import SWF_TEXT

import tracekit
from swf import FORMATS
from tracekit import Trace
from tracekit.errors import TracekitError

MUTATIONS = 10_000  # in all
GPW = "u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status\n" + "0,1,0,4,1,0,10,60,Pass\n" * 3
CSV = "job_id,submit_time,run_time,req_procs,user,status\n1,0,5,1,ann,completed\n2,60,4,1,bob,failed\n"


def native() -> bytes:
    """Return a small file of our own."""
    out = io.BytesIO()
    from swf.parquet import Parquet

    Parquet().write(tracekit.sample().head(20), out)
    return out.getvalue()


def parquet(frame: pd.DataFrame, metadata: dict[bytes, bytes] | None = None) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    out = io.BytesIO()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pa.parquet.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **(metadata or {})}), out)
    return out.getvalue()


def seeds() -> dict[str, list[bytes]]:
    """Return small sound files of each format."""
    found = {name: [text.encode() for text in texts] for name, texts in TABLES.items()}
    found |= {name: [text.encode()] for name, text in BATCH.items()}
    found["batsim"].append(RESULTS.encode())
    found |= {"swf": [SWF_TEXT.encode()], "csv": [CSV.encode()], "gpw": [GPW.encode()], "parquet": [native()]}
    listings = Path(__file__).parents[1] / "slurm" / "data"
    found["slurm-json"] = [(listings / f"{name}-22.05.json").read_bytes() for name in ("sacct", "squeue")]
    if "sge" in FORMATS:
        made = importlib.import_module("test_sge")
        found["sge"] = [f"{made.line()}\n{made.line(univa=True)}\n".encode()]
    if "htcondor" in FORMATS:
        made = importlib.import_module("test_htcondor")
        found["htcondor"] = [made.history(*made.ADS).encode(), json.dumps(made.ADS).encode()]
    if importlib.util.find_spec("duckdb"):
        google, alibaba = importlib.import_module("test_google2019"), importlib.import_module("test_alibaba2018")
        found["google-2019"] = [google.GOOD, event_toys.csv_text(event_toys.flat(google.INSTANCES))]
        found["alibaba-2018"] = [alibaba.TASKS.encode()]
    return found | {"pm100": [parquet(PM100)], "fdata": [parquet(FDATA)]}


def reframed(frame: pd.DataFrame, rng: Rng) -> bytes:
    """Return a Parquet table with a column dropped, renamed, emptied, of another type, or with odd values."""
    name = str(rng.choice(list(frame.columns)))
    junk: list[object] = [None, "x", 1e300, -1, [1, 2], b"\xff", True, "9999-12-31", pd.Timestamp.max, {"a": 1}]
    value = junk[int(rng.integers(len(junk)))]
    how = int(rng.integers(5))
    if how == 0:
        made = frame.drop(columns=name)
    elif how == 1:
        made = frame.rename(columns={name: "\x1b" + name})
    elif how == 2:
        made = frame.iloc[:0]
    elif how == 3:
        made = frame.assign(**{name: frame[name].astype(str)})
    else:
        made = frame.assign(**{name: pd.Series([value] * len(frame), dtype=object)})
    return parquet(made)


def remarked(data: bytes, rng: Rng) -> bytes:
    """Return a native file whose metadata are damaged."""
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.parquet.read_table(io.BytesIO(data))
    stored = dict(table.schema.metadata)
    key = b"tracekit" if rng.random() < 0.7 else b"pandas"
    if rng.random() < 0.7:
        stored[key] = json.dumps(revalued(json.loads(stored[key]), rng)).encode()
    else:
        stored[key] = BYTES[int(rng.integers(len(BYTES)))](stored[key], rng)
    out = io.BytesIO()
    pa.parquet.write_table(table.replace_schema_metadata(stored), out)
    return out.getvalue()


def damaged(name: str, data: bytes, rng: Rng) -> bytes:
    if name in ("pm100", "fdata") and rng.random() < 0.5:
        return reframed(PM100 if name == "pm100" else FDATA, rng)
    if name == "parquet" and rng.random() < 0.5:
        return remarked(data, rng)
    return mutated(data, rng)


def attempt(path: Path, name: str | None, rng: Rng) -> Trace | TracekitError:
    """Read a file, with damaged lines skipped or not; any error but ours is passed on."""
    skips = name is not None and "on_error" in FORMATS.get(name).options and rng.random() < 0.3
    options: dict[str, Any] = {"on_error": "skip"} if skips else {}
    try:
        return tracekit.read(path, name, **options)
    except TracekitError as error:
        return error


SEEDS = seeds()


def test_there_are_seeds_of_every_format(tmp_path: Path) -> None:
    missing = () if importlib.util.find_spec("duckdb") else ("google-2019", "alibaba-2018")
    assert set(SEEDS) == set(FORMATS) - set(missing)
    for name, files in SEEDS.items():
        (tmp_path / "file").write_bytes(files[0])
        assert len(tracekit.read(tmp_path / "file", name))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", SEEDS)
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    path = tmp_path / "file"
    for number in range(-(-MUTATIONS // len(SEEDS))):
        files = SEEDS[name]
        path.write_bytes(damaged(name, files[number % len(files)], rng))
        found = attempt(path, name if rng.random() < 0.6 else None, rng)
        assert len(str(found)) < 2000
