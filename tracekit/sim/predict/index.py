"""The index of policy `predicted-index`: smallest predicted area first, in a form that training windows choose.

With the predicted run time t, the limit r, the processors n and the weight v, the mean of 10 / max(run time, 10), it is

    trust · ln t + (1 − trust) · ln r + sizes · ln n − power · ln v

ln t is the predicted mean of the logarithm of the run time (share 0), or the logarithm of its predicted mean (share 1),
or between the two. Trust 0, sizes 1 and power 0 are `saf`. Where a job has no limit, t stands in its place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit, jit_internal

Floats = NDArray[np.float64]


class Form(NamedTuple):
    """Exponents of the index."""

    power: float = 0.0  # of the weight
    trust: float = 1.0  # of the predicted run time; the rest is that of the limit
    sizes: float = 1.25  # of the processors
    share: float = 0.0  # of the logarithm of the mean in ln t; the rest is that of the mean of the logarithm


#: Where no windows choose.
USUAL = Form()
#: What training windows choose from.
FORMS = tuple(
    Form(power, trust, sizes, share)
    for power in (0.0, 0.5, 1.0)
    for trust in (0.5, 1.0)
    for sizes in (1.0, 1.25, 1.5)
    for share in (0.0, 1.0)
)


@jit_internal
def index_of(ln_time: float, ln_mean: float, ln_weight: float, ln_limit: float, ln_size: float, form: Floats) -> float:
    """Return the index of a job; ``ln_limit`` NaN = none, ``form`` (4,) as in `Form`.

    ``ln_time`` is the predicted mean of the logarithm of the run time, ``ln_mean`` the logarithm of its predicted mean.
    """
    ln_time = max(ln_time, 0.0)
    if form[3] != 0.0:
        ln_time = (1.0 - form[3]) * ln_time + form[3] * max(ln_mean, 0.0)
    ln_most = ln_time if np.isnan(ln_limit) else max(ln_limit, 0.0)
    time = form[1] * min(ln_time, ln_most) + (1.0 - form[1]) * ln_most
    return float(time + form[2] * ln_size - form[0] * ln_weight)


@jit
def _write_indices(known: Floats, own: Floats, form: Floats, found: Floats) -> None:
    for job in range(len(found)):
        found[job] = index_of(known[job, 0], known[job, 1], known[job, 2], own[job, 0], own[job, 1], form)


def indices(known: Floats, own: Floats, form: Form) -> Floats:
    """Return the indices of jobs, (jobs,).

    ``known`` (jobs, 3) are the outputs `predictor.IN_INDEX`, ``own`` (jobs, OWN) as in `tracekit.sim.predict.history`.
    """
    found = np.empty(len(known))
    _write_indices(np.ascontiguousarray(known), own, np.array(form), found)
    return found
