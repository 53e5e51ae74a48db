"""The policies: which waiting job comes first. Names, meanings and papers; the compiled formulas are in `formulas`.

s = submit time as in the trace, w = wait so far, r = estimate (seconds), n = processors; the smallest value starts
first, ties go to the earlier submit, then to the earlier row. s or r of zero or less counts as 0.1.

Your own policy is any object with a ``name`` and a ``priority`` method (see `Policy`); pass it to `tracekit.simulate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.registry import Registry


@dataclass(frozen=True)
class BuiltIn:
    """A policy that the compiled engine knows by name."""

    name: str
    formula: str
    meaning: str
    paper: str = ""

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """What `help` and the table of policies show."""
        return f"{self.formula}: {self.meaning}" + (f" ({self.paper})" if self.paper else "")


@dataclass(frozen=True)
class State:
    """What a policy may look at. Arrays of shape (jobs,) are indexed by the job numbers that the queue holds.

    Do not write into them. ``estimate`` is what the scheduler believes; the true run time is not here.
    """

    now: float  # seconds
    submit: NDArray[np.float64]
    estimate: NDArray[np.float64]
    procs: NDArray[np.float64]
    user: NDArray[np.int64]  # −1 = unknown
    start: NDArray[np.float64]  # NaN = has not started
    position: NDArray[np.int64]  # row in the trace
    free: float  # processors
    total: float

    def wait(self, queue: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return how long each job of the queue has waited."""
        return self.now - self.submit[queue]


@runtime_checkable
class Policy(Protocol):
    """A policy of one's own. The smallest value starts first; ties go to the earlier submit.

    It is asked in Python at every scheduling pass, so a simulation takes tens of microseconds a job, where a built-in
    policy takes less than one. The passes themselves, with every kind of backfilling, are the same compiled code.
    """

    name: str

    def priority(self, queue: NDArray[np.intp], state: State, /) -> NDArray[np.float64]:
        """Return one value for each job number in ``queue``, (len(queue),); NaN is an error."""
        ...


_SURVEY = "Feitelson et al., Theory and practice in parallel job scheduling, JSSPP 1997"
_TANG = "Tang et al., Fault-aware, utility-based job scheduling on Blue Gene/P systems, CLUSTER 2009"
_CARASTAN = (
    "Carastan-Santos & de Camargo, Obtaining dynamic scheduling policies with simulation and machine learning, SC 2017"
)
_LELONG = "Lelong, Reis & Trystram, Tuning EASY-backfilling queues, JSSPP 2017"

FCFS = BuiltIn("fcfs", "s", "first come, first served", _SURVEY)
LCFS = BuiltIn("lcfs", "−s", "last come, first served", _LELONG)
SJF = BuiltIn("sjf", "r", "shortest estimate first", _SURVEY)
LJF = BuiltIn("ljf", "−r", "longest estimate first", _LELONG)
SMALLEST = BuiltIn("smallest", "n", "fewest processors first", _SURVEY)
LARGEST = BuiltIn("largest", "−n", "most processors first", _LELONG)
SAF = BuiltIn("saf", "r·n", "smallest estimated area first", _LELONG)
LAF = BuiltIn("laf", "−r·n", "largest estimated area first", _LELONG)
SEXP = BuiltIn("sexp", "(w+r)/n", "smallest expansion first", _LELONG)
LEXP = BuiltIn("lexp", "−(w+r)/n", "largest expansion first", _LELONG)
SRF = BuiltIn("srf", "r/n", "smallest ratio of estimate to processors first", _LELONG)
LRF = BuiltIn("lrf", "−r/n", "largest ratio of estimate to processors first", _LELONG)
WFP3 = BuiltIn("wfp3", "−(w/r)³·n", "favours long waits and large jobs", _TANG)
UNICEP = BuiltIn("unicep", "−w/(max(log2 n, 1e−9)·r)", "favours long waits, small and short jobs", _TANG)
F1 = BuiltIn("f1", "log10(r)·n + 870·log10(s)", "learnt by regression", _CARASTAN)
F2 = BuiltIn("f2", "√r·n + 25600·log10(s)", "learnt by regression", _CARASTAN)
F3 = BuiltIn("f3", "r·n + 6860000·log10(s)", "learnt by regression", _CARASTAN)
F4 = BuiltIn("f4", "r·√n + 530000·log10(s)", "learnt by regression", _CARASTAN)
MULTIFACTOR = BuiltIn(
    "multifactor",
    "−(Wage·min(w/age_max, 1) + Wsize·n/N + Wfair·2^(−usage/share) + Wqueue·q)",
    "age, size, fair share with a half-life, and queue, weighted",
    "Slurm's priority/multifactor",
)
RANDOM = BuiltIn("random", "seeded", "a random order, fixed by the seed")
REPLAY = BuiltIn("replay", "submit_time + wait_time", "the starts that the trace itself recorded; nothing is decided")

#: Every policy by name; other packages add theirs by the entry point group ``tracekit.policies``.
POLICIES: Registry[Any] = Registry(
    "policy",
    {
        name: f"tracekit.sim.policies:{name.upper()}"
        for name in (
            "fcfs",
            "lcfs",
            "sjf",
            "ljf",
            "smallest",
            "largest",
            "saf",
            "laf",
            "sexp",
            "lexp",
            "srf",
            "lrf",
            "wfp3",
            "unicep",
            "f1",
            "f2",
            "f3",
            "f4",
            "multifactor",
            "random",
            "replay",
        )
    },
    group="tracekit.policies",
)


def find(policy: str | Policy) -> BuiltIn | Policy:
    """Return the policy of a name; an object with ``name`` and ``priority`` is one already."""
    if not isinstance(policy, str):
        if isinstance(policy, (BuiltIn, Policy)):
            return policy
        raise UsageError(f"{policy!r} is no policy: it needs a name and a method priority(queue, state)")
    kind, _, folder = policy.partition(":")
    if kind == "agent":
        if not folder:
            raise UsageError("which agent? write agent:default for the packaged one, or agent:DIR")
        from tracekit.sim.agents.policy import AgentPolicy  # numba is slow to import: only for agents

        return AgentPolicy(folder)
    found = POLICIES.get(policy)
    made = found() if isinstance(found, type) else found
    if not isinstance(made, (BuiltIn, Policy)):
        raise UsageError(f"policy '{policy}' is registered as {found!r}, which has no name and priority(queue, state)")
    return made
