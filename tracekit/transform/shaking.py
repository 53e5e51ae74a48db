"""Small seeded perturbations of a trace, to separate effects from noise.

Tsafrir, Ouaknine & Feitelson, "Reducing performance evaluation sensitivity and variability by input shaking",
MASCOTS 2007: a simulation is repeated on slightly perturbed inputs; what persists is real, what disappears was chance.
"""

from __future__ import annotations

import numpy as np

from tracekit.errors import UsageError
from tracekit.readings import not_a_share
from tracekit.schema import is_whole
from tracekit.trace import Trace
from tracekit.transform.scaling import forget_waits

#: Largest shift of submit times in seconds: negligible for users, but enough to reorder a queue.
SECONDS = 60.0


def check_amounts(seconds: float, run_share: float) -> None:
    """Refuse amounts that make no sense."""
    if not (seconds >= 0 and np.isfinite(seconds)):
        raise UsageError(f"submit times can be shaken by 0 or more seconds, not {seconds:g}")
    if not 0 <= run_share < 1:
        raise not_a_share("--run-share", run_share)
    if seconds == 0 and run_share == 0:
        raise UsageError("nothing to perturb: give seconds above 0, a share of the run times above 0, or both")


def shake(trace: Trace, seed: int, number: int = 0, *, seconds: float = SECONDS, run_share: float = 0.0) -> Trace:
    """Return perturbation ``number`` of the series with this ``seed``.

    Every submit time moves by a uniform amount within ±``seconds``, but not before the first submit of the trace; every
    run time is multiplied by a uniform factor within 1 ± ``run_share``, and one that kept its limit still does. Whole
    times stay whole, rows keep their places. Recorded waits belong to the unshaken trace and become unknown.
    """
    check_amounts(seconds, run_share)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
    submit, run, limit = (trace.column(name) for name in ("submit_time", "run_time", "req_time"))
    columns = {}
    if seconds > 0 and len(trace):
        moved = submit + rng.uniform(-seconds, seconds, len(trace))
        columns["submit_time"] = np.maximum(np.round(moved) if is_whole(submit) else moved, np.nanmin(submit))
    if run_share > 0:
        scaled = run * rng.uniform(1 - run_share, 1 + run_share, len(trace))
        scaled = np.where(run > 0, np.maximum(np.round(scaled), 1.0) if is_whole(run) else scaled, run)
        columns["run_time"] = np.where(run <= limit, np.minimum(scaled, limit), scaled)
    amounts = f"submits by up to {seconds:g} s" + (f", run times by up to {run_share:.3g} of them" if run_share else "")
    return forget_waits(trace.assign(columns, step=f"shaken (seed {seed}, number {number}): {amounts}"))
