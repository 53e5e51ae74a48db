"""The doctor: a deep audit of one trace. Detectors look, one small function each; nothing is changed.

A finding names what is odd, how bad it is, the evidence in numbers and the cleaning rule that would fix it. Add a
detector: write a function from a trace to findings and put it into `DETECTORS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracekit.doctor import bursts, capacity, clock, copies, edges, header, silence, units
from tracekit.doctor.finding import CannotLook, Finding, counted, picture
from tracekit.doctor.ranking import ranked
from tracekit.trace import Trace
from tracekit.validation import BY_CHECK, CHECKS

__all__ = ["DETECTORS", "CannotLook", "Finding", "Report", "examine", "recipe"]


def records(trace: Trace) -> list[Finding]:
    """Report the problems of single records that `validate` lists."""
    found = []
    for check in CHECKS:
        rows = np.flatnonzero(check.find(trace))
        if not len(rows) or check.name == "larger-than-machine":  # the header's detector says that one
            continue
        share = len(rows) / len(trace)
        harmless = BY_CHECK[check.name].harmless or share < 0.01
        found.append(
            Finding(
                check.name,
                "note" if harmless else "warning",
                f"{counted(len(rows), 'job')} ({share:.1%}): {check.meaning}",
                {"jobs": len(rows), "share": round(share, 6)},
                rows,
                check.fix,
                draw=picture("some_over_time", rows=rows, label=check.meaning),
            )
        )
    return found


#: name -> detector, in the order of the report.
DETECTORS: dict[str, Callable[[Trace], list[Finding]]] = {
    "units": units.units,
    "demand": capacity.demand,
    "usage": capacity.usage,
    "flurries": bursts.flurries,
    "outages": silence.outages,
    "clock jumps": clock.jumps,
    "other hours": clock.other_hours,
    "daylight saving": clock.daylight_saving,
    "strays": edges.strays,
    "future": edges.future,
    "stated span": edges.stated_span,
    "cold start": edges.cold_start,
    "censored end": edges.censored_end,
    "duplicated blocks": copies.duplicates,
    "header": header.header,
    "records": records,
}


@dataclass(frozen=True)
class Report:
    """All findings on one trace, by severity and then by their effect on results, and what could not be looked at."""

    jobs: int
    findings: list[Finding]
    skipped: dict[str, str]  # detector -> reason

    @property
    def alarms(self) -> int:
        """How many findings are more than a note."""
        return sum(finding.severity != "note" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "jobs": self.jobs,
            "alarms": self.alarms,
            "findings": [finding.to_dict() for finding in self.findings],
            "looked_for": [name for name in DETECTORS if name not in self.skipped],
            "not_looked_for": [{"what": name, "reason": reason} for name, reason in self.skipped.items()],
        }


def examine(trace: Trace, *, progress: Callable[[str], None] | None = None) -> Report:
    """Run every detector; ``progress`` is called with the name of each before it starts."""
    found: list[Finding] = []
    skipped: dict[str, str] = {}
    timeless = not np.isfinite(trace.column("submit_time")).any()
    for name, detect in DETECTORS.items():
        if progress:
            progress(name)
        try:
            if timeless and detect is not records:
                raise CannotLook("no submit time is known")
            found += detect(trace)
        except CannotLook as reason:
            skipped[name] = str(reason)
    return Report(len(trace), ranked(trace, found), skipped)


#: Rules that change values come before those that look at them; removing jobs comes next, closing gaps, counting last.
_ORDER = ("set-machine", "convert-units", "drop-duplicated-blocks", "mend-jumps", "drop-jobs", "unset", "cap", "drop",
          "shift-submits", "cut-outages", "recount-header")  # fmt: skip


def recipe(report: Report, *, source: str) -> str:
    """Return the cleaning rules of all findings as TOML that `tracekit clean --recipe` reads.

    Rules for errors and warnings apply; those for notes are included as comments.
    """
    rules: dict[str, tuple[bool, str]] = {}
    for finding in report.findings:
        if finding.fix:
            applies = finding.severity != "note" or rules.get(finding.fix, (False, ""))[0]
            rules[finding.fix] = (applies, f"{finding.severity}: {finding.message}")

    def place(rule: str) -> int:
        return next((k for k, start in enumerate(_ORDER) if rule.startswith(start)), len(_ORDER))

    lines = [
        "# tracekit recipe: apply it with  tracekit clean IN OUT --recipe THIS",
        f"# proposed by tracekit doctor for {source}; look at each rule before you use it",
        "rules = [",
    ]
    for rule in sorted(rules, key=place):
        applies, why = rules[rule]
        text = rule.replace("\\", "\\\\").replace('"', '\\"')
        lines += [f"    # {why}", f'    {"" if applies else "# "}"{text}",']
    return "\n".join([*lines, "]", ""])
