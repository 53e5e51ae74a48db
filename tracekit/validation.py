"""Problems of traces: one named check per kind. Checks only report; `tracekit.cleaning` has the rules that fix them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.schema import AMOUNTS, BY_NAME, SIZE_COLUMNS
from tracekit.trace import Problem as Problem
from tracekit.trace import Trace
from tracekit.watts import most_watts

#: Sizes that must be whole numbers; GPUs are shared on some clusters.
WHOLE_COLUMNS = tuple(name for name in SIZE_COLUMNS if not name.endswith("gpus"))
Mask = NDArray[np.bool_]  # shape (jobs,)


@dataclass(frozen=True)
class Check:
    """A kind of problem: its name, what it means, how to find the rows, and the cleaning rule that fixes them."""

    name: str
    meaning: str
    find: Callable[[Trace], Mask]
    fix: str
    harmless: bool = False  # the row can be scheduled anyway


def _unsorted(trace: Trace) -> Mask:
    submit = trace.column("submit_time")
    before = np.fmax.accumulate(np.concatenate([[-np.inf], submit[:-1]])) if len(submit) else submit
    return submit < before


def _infinite(trace: Trace) -> Mask:
    found = np.zeros(len(trace), dtype=bool)
    for name in trace.jobs.columns:
        if name in BY_NAME and BY_NAME[name].kind in (*AMOUNTS, "count"):
            found |= np.isinf(trace.column(name))
    return found


#: What some sites write after SWF's 18 fields, and its form: site, kind of allocation, nodes x threads of a node.
SITE_FIELD = "x_field21"
_SITE_NODES = r"^[^:]+:[^:]+:(\d{1,9})x\d+$"


def site_nodes(trace: Trace) -> NDArray[np.float64]:
    """Return the nodes that field 21 states, as in ``frontier:excl:2500x112`` (2500); NaN where it states none."""
    if SITE_FIELD not in trace.jobs.columns:
        return np.full(len(trace), np.nan)
    texts = trace.jobs[SITE_FIELD].astype(str)
    return pd.to_numeric(texts.str.extract(_SITE_NODES)[0], errors="coerce").to_numpy(dtype=np.float64)


def _against_site_field(trace: Trace) -> Mask:
    nodes = site_nodes(trace)
    found = np.zeros(len(trace), dtype=bool)
    if np.isnan(nodes).all():
        return found
    for name in (name for name in SIZE_COLUMNS if name in trace.jobs.columns and not name.endswith("gpus")):
        found |= (trace.column(name) != nodes) & ~np.isnan(trace.column(name)) & ~np.isnan(nodes)
    return found


def _any_count(test: Callable[[NDArray[np.float64]], Mask], columns: Sequence[str]) -> Callable[[Trace], Mask]:
    def find(trace: Trace) -> Mask:
        found = np.zeros(len(trace), dtype=bool)
        for name in columns:
            if name in trace.jobs.columns:
                found |= test(trace.column(name))
        return found

    return find


def _larger_than_machine(trace: Trace) -> Mask:
    size = trace.machine.size()
    return trace.sizes() > (np.inf if size is None else size)


def _cancelled_before_start(trace: Trace) -> Mask:
    if "status" not in trace.jobs.columns:
        return np.zeros(len(trace), dtype=bool)
    never_ran = ~(trace.column("run_time") > 0)
    return (trace.jobs["status"] == "cancelled").to_numpy() & never_ran


CHECKS: tuple[Check, ...] = (
    Check(
        "missing-submit-time",
        "the submit time is unknown",
        lambda t: np.isnan(t.column("submit_time")),
        "drop-missing-submit-time",
    ),
    Check(
        "negative-submit-time",
        "submitted before the trace's epoch",
        lambda t: t.column("submit_time") < 0,
        "drop-negative-submit-time",
    ),
    Check("unsorted", "submitted before a job that is earlier in the file", _unsorted, "sort-by-submit", harmless=True),
    Check(
        "duplicate-ids",
        "the job id occurs more than once",
        lambda t: t.jobs["job_id"].duplicated().to_numpy(),
        "drop-duplicate-ids",
    ),
    Check(
        "missing-run-time", "the run time is unknown", lambda t: np.isnan(t.column("run_time")), "drop-missing-run-time"
    ),
    Check(
        "negative-run-time", "the run time is below zero", lambda t: t.column("run_time") < 0, "drop-negative-run-time"
    ),
    Check(
        "zero-run-time",
        "the run time is zero",
        lambda t: t.column("run_time") == 0,
        "drop-zero-run-time",
        harmless=True,
    ),
    Check(
        "missing-procs",
        "neither a requested nor an allocated size is known",
        lambda t: np.isnan(t.sizes()),
        "drop-missing-procs",
    ),
    Check("zero-procs", "the size is zero or below", lambda t: t.sizes() <= 0, "drop-zero-procs"),
    Check(
        "fractional-counts",
        "a count of processors or nodes is not a whole number (GPUs may be shared)",
        _any_count(lambda v: np.isfinite(v) & (v != np.floor(v)), WHOLE_COLUMNS),
        "round-counts",
    ),
    Check(
        "negative-counts",
        "a count of processors, nodes or gpus is below zero",
        _any_count(lambda v: v < 0, SIZE_COLUMNS),
        "unset-negative-counts",
        harmless=True,
    ),
    Check(
        "larger-than-machine", "requests more than the machine has", _larger_than_machine, "drop-larger-than-machine"
    ),
    Check(
        "run-beyond-limit",
        "ran longer than its requested time",
        lambda t: t.column("run_time") > t.column("req_time"),
        "cap-run-at-limit",
        harmless=True,
    ),
    Check(
        "nonpositive-limit",
        "the requested time is zero or below",
        lambda t: t.column("req_time") <= 0,
        "unset-nonpositive-limit",
        harmless=True,
    ),
    Check(
        "negative-wait",
        "the wait is below zero",
        lambda t: t.column("wait_time") < 0,
        "unset-negative-wait",
        harmless=True,
    ),
    Check(
        "negative-memory",
        "an amount of memory is below zero",
        lambda t: (t.column("req_mem") < 0) | (t.column("used_mem") < 0),
        "unset-negative-memory",
        harmless=True,
    ),
    Check(
        "negative-watts",
        "the mean power is below zero",
        lambda t: t.column("mean_watts") < 0,
        "unset-negative-watts",
        harmless=True,
    ),
    Check(
        "too-many-watts",
        "the mean power is more than the job's nodes can draw: what the machine's watts say, else 100 kW a node",
        lambda t: t.column("mean_watts") > most_watts(t),
        "unset-too-many-watts",
        harmless=True,
    ),
    Check(
        "cpu-bound-not-a-share",
        "the CPU-bound share of the run time is not between 0 and 1",
        lambda t: (t.column("cpu_bound") < 0) | (t.column("cpu_bound") > 1),
        "unset-cpu-bound-not-a-share",
        harmless=True,
    ),
    Check(
        "cancelled-before-start",
        "cancelled while waiting: it never ran",
        _cancelled_before_start,
        "drop-cancelled-before-start",
        harmless=True,
    ),
    Check(
        "sizes-against-field-21",
        "the size is not the number of nodes in field 21, such as frontier:excl:2500x112",
        _against_site_field,
        "nodes-from-field-21",
        harmless=True,
    ),
    Check("infinite-values", "a number is infinite", _infinite, "drop-infinite-values"),
)
BY_CHECK = {check.name: check for check in CHECKS}


def validate(trace: Trace) -> list[Problem]:
    """List every kind of problem the trace has; an empty list means that nothing was found."""
    problems = []
    for check in CHECKS:
        rows = np.flatnonzero(check.find(trace))
        if len(rows):
            problems.append(Problem(check.name, len(rows), rows[:5].tolist(), check.fix, check.meaning))
    return problems


def schedulable(trace: Trace) -> Mask:
    """Return for each job whether a scheduler could run it as it is: known times, a whole size that fits."""
    sound = np.ones(len(trace), dtype=bool)
    for check in CHECKS:
        if not check.harmless:
            sound &= ~check.find(trace)
    return sound


def usable(trace: Trace) -> bool:
    """Return whether at least half of the jobs could be scheduled as they are."""
    return len(trace) > 0 and bool(schedulable(trace).mean() >= 0.5)
