"""The pieces of work: read a trace once, sweep it at one load, place its jobs in one order. Each leaves files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracekit.trace import Trace

Inputs = Mapping[str, Path]
#: What a piece leaves: the trace, what the driver wants to know of it, and what was found.
TRACE, KNOWN, FOUND = "trace.parquet", "known.json", "found.json"


def normalise(params: Mapping[str, Any], inputs: Inputs, out: Path) -> None:
    """Read a file of any format and write it as Parquet, which no other piece of work has to parse again."""
    from tracekit.api import read, read_requests

    if params["requests"]:
        trace = read_requests(inputs["file"], params["format"])
    else:
        machine = inputs.get("machine")
        trace = read(inputs["file"], params["format"], machine=machine, resource=params["resource"])
    trace.save(out / TRACE)
    known = {"jobs": len(trace), "bytes": int(trace.jobs.memory_usage(deep=True).sum())}
    _write(out / KNOWN, known)


def sweep(params: Mapping[str, Any], inputs: Inputs, out: Path) -> None:
    """Simulate a trace at one load under all policies and backfillings, as `tracekit sweep` does."""
    from tracekit.sim.analysis.sweep import sweep as run
    from tracekit.sim.jobs import extract_jobs, rejection_warning
    from tracekit.sim.switches import Switches
    from tracekit.sim.windows import random_windows

    trace, switches = Trace.load(inputs["trace"]), Switches(**params["switches"])
    warning = rejection_warning(extract_jobs(trace, switches.resolved()))
    count, pairs = params["windows"], [(policy, backfill) for policy, backfill in params["pairs"]]
    parts = [] if count is None else random_windows(len(trace), count, params["jobs"], switches.seed)
    rows = run(trace, [params["load"]], pairs, switches, shakes=params["shake"], windows=parts, threads=1)
    _write(out / FOUND, {"rows": rows, "notes": [warning] if warning else []})


def place(params: Mapping[str, Any], inputs: Inputs, out: Path) -> None:
    """Let the jobs of a trace arrive in one random order on a cluster, as `tracekit place` does."""
    from tracekit.machine import Machine
    from tracekit.sim.hosts.demand import demand_of
    from tracekit.sim.hosts.place import place as run

    demand = demand_of(Trace.load(inputs["trace"]), Machine.from_dict(params["cluster"]))
    row = run(demand, params["allocate"], params["seed"], inflate=params["inflate"])
    _write(out / FOUND, {"rows": [row], "notes": []})


def _write(path: Path, found: Any) -> None:
    path.write_text(json.dumps(found) + "\n", encoding="utf-8")
