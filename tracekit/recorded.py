"""The schedule that a trace recorded: which jobs ran, when, and on how much of the machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracekit.errors import TracekitError
from tracekit.stats import Floats, steps
from tracekit.trace import Trace


class NothingRan(TracekitError):
    """No job of the trace has a submit time, a run time and a size above zero."""


@dataclass(frozen=True)
class Recorded:
    """The jobs of a trace that ran, by submit time, (jobs,) each; times in seconds. Can be drawn as a schedule."""

    submit: Floats
    wait: Floats  # 0 where waits are unknown
    run: Floats
    procs: Floats
    total: int  # the machine's size, or the largest use if that is unknown
    unit: str
    waits_known: bool
    size_known: bool
    policy: str = "as recorded"
    backfill: str = ""
    switches: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.submit)

    @property
    def start(self) -> Floats:
        """When each job started."""
        return self.submit + self.wait

    @property
    def end(self) -> Floats:
        """When each job ended."""
        return self.start + self.run

    @classmethod
    def of(cls, trace: Trace) -> Recorded:
        """Take every job with a submit time, a run time and a size; a job of unknown wait starts at submit.

        Waits count as known when at least half of these jobs have one; jobs without are then left out. `NothingRan`
        where no job is left.
        """
        order = trace.order()
        submit, wait, run = (trace.column(name)[order] for name in ("submit_time", "wait_time", "run_time"))
        size = trace.sizes()[order]
        ran = np.isfinite(submit) & (run > 0) & (size > 0) & np.isfinite(run) & np.isfinite(size)
        known = np.isfinite(wait) & (wait >= 0)
        waits_known = bool(ran.any() and known[ran].mean() >= 0.5)
        if waits_known:
            ran &= known
        if not ran.any():
            raise NothingRan("no job has a submit time, a run time and a size above zero")
        begin = submit + np.where(known, wait, 0.0)
        total = trace.machine.size()
        if total is None:
            total = int(np.ceil(steps(begin[ran], (begin + run)[ran], size[ran])[1].max()))
        return cls(
            submit[ran],
            np.where(known, wait, 0.0)[ran],
            run[ran],
            size[ran],
            total,
            trace.machine.unit,
            waits_known,
            trace.machine.size() is not None,
            switches={"resource": trace.machine.unit},
        )

    def remark(self) -> str:
        """Return the assumptions that were made."""
        return assumptions(self.waits_known, size_known=self.size_known)


def assumptions(waits_known: bool, *, size_known: bool) -> str:
    """Return what is assumed of a schedule that a trace recorded."""
    parts = [] if waits_known else ["waits unknown: drawn as if every job had started immediately"]
    if not size_known:
        parts.append("machine size unknown: largest simultaneous use is taken")
    return "; ".join(parts)
