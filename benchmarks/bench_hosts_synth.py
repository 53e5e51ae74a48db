"""Do synthetic jobs pack onto hosts, and fragment them, as real ones do? One table for each trace, one row a model.

    python benchmarks/bench_hosts_synth.py [--traces openb,helios,pai,philly] [--models sessions,resample] [--seeds 1:3]
                                           [--jobs 8000] [-o docs/results/hosts.json]

Needs the shared data. Clusters: openb has its nodes; the others are what `tracekit cluster from` proposes. Scores are
those of the family hosts, means over seeds; `impossible` counts synthetic jobs that no host can hold.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tracekit
from evaluation.score import score
from generators.hosts import never_placed, placeable
from tracekit import Machine, Trace
from tracekit.proposal import propose

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from shared_data import DATA

FILES = {
    "helios": ("helios/helios_venus_gpujobs_reduced.csv", "arrival_s", "service_sec", "gpu_count"),
    "pai": ("alibaba/pai_sub25_reduced.csv", "arrival_s", "service_sec", "gpu_count"),
    "philly": ("philly/philly_2k_c48.csv", "arrival_time_s", "duration_s", "gpu_count"),
    "philly-1000": ("philly/philly_sample1000_raw.csv", "arrival_time", "duration", "gpu_count"),
}
KEYS = (
    "packing_curve",
    "fragmentation_curve",
    "allocator_tau",
    "fragmentation",
    "rejected",
    "gpu_type_tv",
    "memory_ks",
)


def real(name: str, jobs: int) -> Trace:
    """Return consecutive jobs from the middle of a trace, with hosts to run on."""
    if name == "openb":
        trace = tracekit.read(DATA / "alibaba" / "openb_pod_list_default.csv")
        trace = trace.take(np.flatnonzero(np.isfinite(trace.column("run_time"))))
    else:
        file, submit, run, gpus = FILES[name]
        table = pd.read_csv(DATA / file).sort_values(submit, kind="stable").reset_index(drop=True)
        columns = {"job_id": np.arange(1, len(table) + 1), "submit_time": table[submit] - table[submit].min()}
        columns |= {"run_time": table[run].astype(float), "req_gpus": table[gpus]}
        trace = Trace(pd.DataFrame(columns), Machine(name=name, unit="gpus"))
    first = max((len(trace) - jobs) // 2, 0)
    trace = trace.take(np.arange(first, min(first + jobs, len(trace))))
    if not trace.machine.groups:
        cluster = propose(trace)
        trace = trace.replace(machine=cluster.replace(unit="gpus", gpus=cluster.gpus))
    return placeable(trace)[0]


def row(trace: Trace, model: str, seeds: range) -> dict[str, Any]:
    """Return the scores of a model, means over seeds; None where a score does not exist."""
    begin = time.process_time()
    made = [tracekit.synth(trace, model, len(trace), seed=seed, budget="quick") for seed in seeds]
    seconds = time.process_time() - begin
    found = score(trace, made, families=["hosts"], baselines=False, quick=True).to_dict()
    table: dict[str, Any] = {"model": model, "seconds": round(seconds / len(made), 1)}
    for key in KEYS:
        values = [one["scores"].get(f"hosts.{key}", {}) for one in found["synthetic"]]
        known = [v["value"] for v in values if v.get("value") is not None]
        table[key] = float(np.mean(known)) if known else None
        if known and values[0].get("real") is not None:
            table[f"{key}_real"] = values[0]["real"]
        floor = found.get("noise_floor", {}).get(f"hosts.{key}", {}).get("value")
        table[f"{key}_floor"] = floor
    table["impossible"] = int(sum(rows.sum() for one in made for rows in never_placed(one).values()))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", default="openb,helios,pai,philly,philly-1000")
    parser.add_argument("--models", default="sessions,resample,gaussian-copula,independent,ctgan")
    parser.add_argument("--seeds", default="1:3")
    parser.add_argument("--jobs", type=int, default=8000)
    parser.add_argument("-o", "--out")
    chosen = parser.parse_args()
    first, last = map(int, chosen.seeds.split(":"))
    found: dict[str, Any] = {}
    for name in chosen.traces.split(","):
        trace = real(name, chosen.jobs)
        hosts = sum(group.count for group in trace.machine.groups)
        print(f"{name}: {len(trace):,} jobs, {hosts:,} hosts, {trace.machine.gpus:,} GPUs", flush=True)
        found[name] = {"jobs": len(trace), "hosts": hosts, "gpus": trace.machine.gpus, "models": []}
        for model in chosen.models.split(","):
            try:
                made = row(trace, model, range(first, last + 1))
            except tracekit.TracekitError as error:
                print(f"  {model}: {error}", flush=True)
                continue
            found[name]["models"].append(made)
            words = [f"{key} {made[key]:.3g}" for key in (*KEYS, "fragmentation_real") if made.get(key) is not None]
            print(f"  {model}: {', '.join(words)}, impossible {made['impossible']}, {made['seconds']} s", flush=True)
        floors = {key: value for key, value in made.items() if key.endswith("_floor") and value is not None}
        print(f"  noise floor: {', '.join(f'{key[:-6]} {value:.3g}' for key, value in floors.items())}", flush=True)
    if chosen.out:
        Path(chosen.out).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
