"""In which order findings are reported: by how much they change a result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracekit import stats
from tracekit.doctor.finding import SEVERITIES, Finding
from tracekit.trace import Trace

#: These concern the whole trace: its load, or every time in it.
WHOLE = {"wrong-units", "demand-over-capacity", "usage-over-capacity", "low-demand"}
#: Jobs that a simulation rejects, or that count twice: loads, models and schedules change by all of them.
LOST = {
    "missing-submit-time",
    "missing-run-time",
    "negative-run-time",
    "missing-procs",
    "zero-procs",
    "negative-counts",
    "larger-than-machine",
    "infinite-values",
    "duplicated-block",
    "future-submit",
}
#: Weight of jobs that are unusual but can be used, such as those of a flurry.
UNUSUAL = 0.25


def ranked(trace: Trace, findings: list[Finding]) -> list[Finding]:
    """Return the findings by severity, and within it by `effect`, largest first; equal ones keep their order."""
    work = stats.work(trace)
    weighed = [replace(finding, effect=effect(finding, work)) for finding in findings]
    return sorted(weighed, key=lambda finding: (SEVERITIES.index(finding.severity), -finding.effect))


def effect(finding: Finding, work: stats.Floats) -> float:
    """Return the share of the jobs, or of their unit-seconds where that is larger, that a result may change by."""
    if finding.rule in WHOLE:
        return 1.0
    if not len(finding.rows):
        return 0.0
    rows = np.unique(finding.rows)
    total = float(work.sum())
    share = max(len(rows) / len(work), float(work[rows].sum()) / total if total > 0 else 0.0)
    return round(share if finding.rule in LOST else UNUSUAL * share, 6)
