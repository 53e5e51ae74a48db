"""How much memory and time the event tables of Google's cells take on their way to jobs, beside pandas.

    python benchmarks/bench_events.py --events 15000000
    python benchmarks/bench_events.py --events 1000000 --reference
    python benchmarks/bench_events.py --quick

makes compressed JSON lines as BigQuery exports them (once), converts them in a process of its own, and prints that
process's time and the kernel's mark of its memory. `--reference` does the same with pandas, which holds all events at
once, and compares the jobs of both.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

SHARD = 1_000_000  # events in one file
QUICK, FULL = 150_000, 15_000_000
CHILD = """
import sys
from pathlib import Path
if sys.argv[1] == "pandas":
    sys.path.insert(0, sys.argv[2])
    import bench_events
    bench_events.with_pandas(Path(sys.argv[3])).to_parquet(sys.argv[4])
    code = 0
else:
    from tracekit.cli import main
    code = main(sys.argv[1:])
print(next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
sys.exit(code)
"""


def make(folder: Path, events: int, per_job: int, seed: int = 1) -> int:
    """Write a cell with about so many events of jobs of ``per_job`` instances each; return how many events."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    n_jobs, made = max(1, events // (3 + 3 * per_job)), 0
    step = max(1, SHARD // (3 * per_job))
    for shard, first in enumerate(range(0, n_jobs, step)):
        ids = np.arange(first, min(n_jobs, first + step))
        submit = 600_000_000 + ids * 2_600_000_000_000 // n_jobs + rng.integers(0, 1_000_000, len(ids))
        start = submit + rng.integers(0, 60_000_000, len(ids))
        end = start + np.exp(rng.normal(19, 2, len(ids))).astype(np.int64)
        kind = rng.choice([5, 6, 7], len(ids), p=[0.1, 0.6, 0.3])
        evicted = rng.random(len(ids)) < 0.05
        priority = rng.choice([0, 103, 115, 118, 200, 360], len(ids))
        cpus, memory = rng.integers(1, 512, len(ids)) / 8192, rng.integers(1, 512, len(ids)) / 16384
        collections, instances = [], []
        for k, cid in enumerate((380_000_000_000 + ids).tolist()):
            about = f'"collection_id":"{cid}","scheduling_class":"1","collection_type":"0","priority":"{priority[k]}"'
            mine = f'{about},"user":"u{cid % 997}","collection_logical_name":"n{cid % 4999}","scheduler":"0"}}\n'
            for moment, event in ((submit[k], 0), (start[k], 3), (end[k], kind[k])):
                collections.append(f'{{"time":"{moment}","type":"{event}",{mine}')
            asked = f'"resource_request":{{"cpus":{cpus[k]},"memory":{memory[k]}}}'
            for index in range(per_job):
                theirs = f'{about},"instance_index":"{index}","machine_id":"{cid % 9973}",{asked}}}\n'
                life = [(submit[k], 0), (start[k], 3), (end[k], kind[k])]
                if evicted[k] and index == 0:
                    middle = (start[k] + end[k]) // 2
                    life[2:2] = [(middle, 4), (middle, 0), (middle, 3)]
                instances += [f'{{"time":"{moment}","type":"{event}",{theirs}' for moment, event in life]
        for name, lines in (("collection_events", collections), ("instance_events", instances)):
            with gzip.open(folder / f"{name}-{shard:012}.json.gz", "wt", compresslevel=1) as out:
                out.writelines(lines)
            made += len(lines)
    size = '"capacity":{"cpus":1.0,"memory":0.5}'
    machines = [f'{{"time":"0","machine_id":"{m}","type":"1",{size}}}\n' for m in range(9973)]
    (folder / "machine_events-000000000000.json").write_text("".join(machines))
    return made


def with_pandas(folder: Path) -> pd.DataFrame:
    """Return the jobs of a cell made by `make`, with everything in memory."""
    tables = {}
    for name in ("collection_events", "instance_events"):
        parts = [pd.read_json(path, lines=True) for path in sorted(folder.glob(f"{name}*"))]
        tables[name] = pd.concat(parts, ignore_index=True)
    own, parts = tables["collection_events"], tables["instance_events"]
    key = own.groupby("collection_id")
    jobs = pd.DataFrame({"user": key["user"].min()})
    jobs["submit_time"] = own[own["type"] == 0].groupby("collection_id")["time"].min() / 1e6
    begin = own[own["type"] == 3].groupby("collection_id")["time"].min()
    jobs["wait_time"] = begin / 1e6 - jobs["submit_time"]
    last = own[own["type"].between(4, 7)].groupby("collection_id")["time"].max()
    jobs["run_time"] = (last - begin) / 1e6
    cpus = pd.json_normalize(parts["resource_request"].tolist())["cpus"]
    first = parts.assign(cpus=cpus.to_numpy())[parts["type"] == 0].sort_values("time", kind="stable")
    one = first.drop_duplicates(["collection_id", "instance_index"])
    jobs["req_procs"] = one.groupby("collection_id")["cpus"].sum() * 1000
    jobs["tasks"] = one.groupby("collection_id").size()
    starts = parts[parts["type"] == 3].groupby("collection_id").size()
    jobs["x_attempts"] = starts.reindex(jobs.index).fillna(0)
    return jobs.reset_index(names="job_id").sort_values(["submit_time", "job_id"], ignore_index=True)


def measure(*words: str) -> dict[str, float]:
    """Run in a process of its own; return its seconds and its peak memory in MB."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", CHILD, *words], check=True, stdout=subprocess.PIPE, text=True)
    return {"seconds": round(time.perf_counter() - began, 1), "peak_mb": round(int(done.stdout.split()[-2]) / 1024)}


def differences(ours: Path, theirs: Path) -> dict[str, int]:
    """Return how many values of each column differ between two tables of jobs."""
    one, other = pd.read_parquet(ours), pd.read_parquet(theirs)
    found = {"jobs": abs(len(one) - len(other))}
    for name in other.columns:
        a, b = (table[name].astype(object).to_numpy() for table in (one, other))
        numbers = name != "user"
        same = np.isclose(a.astype(float), b.astype(float), atol=1e-6, equal_nan=True) if numbers else a == b
        found[name] = int((~same).sum())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=FULL)
    parser.add_argument("--instances", type=int, default=4, help="of each job")
    parser.add_argument("--memory", default="1GB", help="what duckdb may use")
    parser.add_argument("--reference", action="store_true", help="also with pandas, and compare")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} events, with the reference")
    parser.add_argument("--folder", type=Path, default=Path("/tmp"))
    arguments = parser.parse_args()
    events = QUICK if arguments.quick else arguments.events
    source = arguments.folder / f"events-{events}-{arguments.instances}"
    if not source.exists():
        make(source, events, arguments.instances)
    target, other = source.with_suffix(".parquet"), source.with_suffix(".pandas.parquet")
    result: dict[str, object] = {
        "events": events,
        "source_mb": round(sum(path.stat().st_size for path in source.iterdir()) / 1e6, 1),
        "ours": measure("convert", str(source), str(target), "--read", f"memory={arguments.memory}", "--force"),
        "jobs": len(pd.read_parquet(target, columns=["job_id"])),
    }
    if arguments.quick or arguments.reference:
        result["pandas"] = measure("pandas", str(Path(__file__).parent), str(source), str(other))
        result["values_that_differ"] = differences(target, other)
        other.unlink()
    print(json.dumps(result, indent=2))
    target.unlink()


if __name__ == "__main__":
    main()
