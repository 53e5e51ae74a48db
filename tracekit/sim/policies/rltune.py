"""The base policies as RLTune's code computes them: ties, its wait of a waiting job, its multifactor.

r = run time (seconds), n = GPUs, s = submit time, w = −1 − s (the start of a waiting job is −1 there).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Job(NamedTuple):
    """What a formula looks at; whole numbers, as in the table."""

    s: int
    r: int
    n: int
    recorded: int  # the wait in the trace

    @property
    def w(self) -> int:
        """The wait of a waiting job."""
        return -1 - self.s


def _above(value: int) -> float:
    return value if value > 0 else 0.1


#: The smallest value starts first; ties go to the earlier job.
FORMULAS: dict[str, Callable[[Job], Any]] = {
    "fcfs": lambda j: j.s,
    "lcfs": lambda j: -j.s,
    "smallest": lambda j: (j.n, j.s),
    "largest": lambda j: -j.n,
    "sjf": lambda j: (j.r, j.n),
    "ljf": lambda j: -j.r,
    "saf": lambda j: j.r * j.n,
    "laf": lambda j: -(j.r * j.n),
    "sexp": lambda j: (j.w + j.r) / j.n,
    "lexp": lambda j: -((j.w + j.r) / j.n),
    "srf": lambda j: j.r / j.n,
    "lrf": lambda j: -(j.r / j.n),
    "multifactor": lambda j: -(1000 * (j.recorded / 43200) + 1000 * (1 - j.n / 160)),
    "f1": lambda j: np.log10(_above(j.r)) * j.n + 870 * np.log10(_above(j.s)),
    "wfp3": lambda j: -np.power(float(j.w) / j.r, 3) * j.n,
    "unicep": lambda j: -(j.w + 1e-15) / (np.log2(j.n + 1e-15) * j.r),
}
#: These read an attribute that jobs do not have and stop as published; here they have it (GPUs).
BROKEN = ("smallest", "largest", "saf", "laf", "sexp", "lexp", "srf", "lrf", "unicep")


def ranks(policy: str, submit: Floats, run: Floats, gpus: Floats, recorded: Floats) -> Floats:
    """Return each job's place in the order of a policy, 0 first; `ZeroDivisionError` where RLTune's code has one."""
    columns = (submit, run, gpus, np.nan_to_num(recorded, nan=-1.0))
    rows = zip(*(column.astype(np.int64).tolist() for column in columns), strict=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        keys = [FORMULAS[policy](Job(*row)) for row in rows]
    found = np.empty(len(keys))
    found[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return found
