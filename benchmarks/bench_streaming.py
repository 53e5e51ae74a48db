"""How much memory and time `tracekit convert big.csv.gz out.parquet` takes for a file larger than memory.

    python benchmarks/bench_streaming.py --jobs 20000000 --format csv

makes the file (once), converts it in a process of its own and prints that process's time and peak memory.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

PART = 500_000
STATES = np.array(["COMPLETED", "FAILED", "CANCELLED by 1001", "TIMEOUT"])


def columns(n_jobs: int, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield plausible jobs, half a million at a time."""
    rng = np.random.default_rng(seed)
    clock = 1_500_000_000
    for first in range(0, n_jobs, PART):
        n = min(PART, n_jobs - first)
        submit = clock + np.cumsum(rng.integers(0, 40, n))
        clock = int(submit[-1])
        run = np.exp(rng.normal(6, 2, n)).astype(np.int64)
        yield {
            "job_id": np.arange(first + 1, first + n + 1),
            "submit_time": submit,
            "wait_time": rng.integers(0, 5000, n),
            "run_time": run,
            "req_time": (run // 600 + 1) * 600,
            "req_procs": 2 ** rng.integers(0, 11, n),
            "user": rng.integers(1, 3000, n),
            "state": rng.integers(0, 4, n),
        }


def as_csv(jobs: dict[str, np.ndarray]) -> bytes:
    status = np.array(["completed", "failed", "cancelled", "timeout"])[jobs.pop("state")]
    table = pd.DataFrame(jobs).assign(status=status, queue="batch")
    return _csv(table, ",")


def as_sacct(jobs: dict[str, np.ndarray]) -> bytes:
    stamp = jobs["submit_time"].astype("datetime64[s]")
    start = stamp + jobs["wait_time"].astype("timedelta64[s]")
    size = jobs["req_procs"].astype(str)
    table = pd.DataFrame(
        {
            "JobID": jobs["job_id"],
            "User": "u" + pd.Series(jobs["user"]).astype(str),
            "Submit": np.datetime_as_string(stamp),
            "Start": np.datetime_as_string(start),
            "ElapsedRaw": jobs["run_time"],
            "TimelimitRaw": jobs["req_time"] // 60,
            "ReqCPUS": jobs["req_procs"],
            "AllocTRES": "cpu=" + pd.Series(size) + ",mem=" + pd.Series(size) + "G,node=1",
            "State": STATES[jobs["state"]],
        }
    )
    return _csv(table, "|")


def as_swf(jobs: dict[str, np.ndarray]) -> bytes:
    unknown = np.full(len(jobs["job_id"]), -1)
    fields = [jobs["job_id"], jobs["submit_time"] - 1_500_000_000, jobs["wait_time"], jobs["run_time"]]
    fields += [jobs["req_procs"], unknown, unknown, jobs["req_procs"], jobs["req_time"], unknown]
    fields += [np.array([1, 0, 5, 0])[jobs["state"]], jobs["user"], *[unknown] * 6]
    return _csv(pd.DataFrame({str(k): values for k, values in enumerate(fields)}), " ")


def _csv(table: pd.DataFrame, delimiter: str) -> bytes:
    import io

    import pyarrow as pa
    import pyarrow.csv

    out = io.BytesIO()
    header = None if delimiter == " " else (delimiter.join(table.columns) + "\n").encode()
    style = pa.csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="none")
    pa.csv.write_csv(pa.Table.from_pandas(table, preserve_index=False), out, style)
    return (header or b"") + out.getvalue()


WRITERS = {"csv": as_csv, "sacct": as_sacct, "swf": as_swf}


def make(path: Path, n_jobs: int, format: str, seed: int = 1) -> None:
    """Write the input, compressed; the header of the table is written once."""
    with gzip.open(path, "wb", compresslevel=1) as out:
        if format == "swf":
            out.write(b"; Version: 2.2\n; Computer: made\n; UnixStartTime: 1500000000\n; MaxProcs: 1024\n")
        for number, jobs in enumerate(columns(n_jobs, seed)):
            text = WRITERS[format](jobs)
            out.write(text if number == 0 or format == "swf" else text[text.find(b"\n") + 1 :])


CHILD = """
import sys
from pathlib import Path
from tracekit.cli import main
code = main(sys.argv[1:])
print(next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
sys.exit(code)
"""


def measure(source: Path, target: Path) -> dict[str, float]:
    """Convert in a process of its own; return its seconds and peak memory in MB.

    The peak is the kernel's own mark of the process: `getrusage` would count its parent's memory, too.
    """
    began = time.perf_counter()
    command = [sys.executable, "-c", CHILD, "convert", "--parts", "--force", str(source), str(target)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {"seconds": time.perf_counter() - began, "peak_mb": int(done.stdout.split()[-2]) / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20_000_000)
    parser.add_argument("--format", choices=sorted(WRITERS), default="csv")
    parser.add_argument("--folder", type=Path, default=Path("/tmp"))
    arguments = parser.parse_args()
    source = arguments.folder / f"streaming-{arguments.format}-{arguments.jobs}.gz"
    if not source.exists():
        make(source, arguments.jobs, arguments.format)
    target = source.with_suffix(".parquet")
    result = measure(source, target)
    sizes = {"source_mb": source.stat().st_size / 1e6, "target_mb": target.stat().st_size / 1e6}
    print(json.dumps({"format": arguments.format, "jobs": arguments.jobs, **result, **sizes}, indent=2))
    target.unlink()


if __name__ == "__main__":
    main()
