"""The built-in policies: which waiting job comes first. Names, meanings and papers; `formulas` has the compiled code.

s = submit time as in the trace, w = wait so far, r = estimate (seconds), n = processors; the smallest value starts
first, ties go to the earlier submit, then to the earlier row. s or r of zero or less counts as 0.1.

Your own policy is any object with a ``name`` and a ``priority`` method (`tracekit.sim.policies.protocol.Policy`); pass
it to `tracekit.simulate`, or name it as ``module:Class``.
"""

from __future__ import annotations

from typing import Any

from tracekit.errors import UsageError
from tracekit.registry import Registry, own
from tracekit.sim.policies.protocol import BuiltIn, Policy

_SURVEY = "Feitelson et al., Theory and practice in parallel job scheduling, JSSPP 1997"
_TANG = "Tang et al., Fault-aware, utility-based job scheduling on Blue Gene/P systems, CLUSTER 2009"
_CARASTAN = (
    "Carastan-Santos & de Camargo, Obtaining dynamic scheduling policies with simulation and machine learning, SC 2017"
)
_GAT = "a meta-policy of GAT-DRL, github.com/myandelaepu/graph-augmented-hpc-scheduler"
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
CAPABILITY_FIRST = BuiltIn(
    "capability-first",
    "s, capability jobs before others",
    "jobs with the capability flag (without flags: of a fifth of the machine or more) first, then first come",
    _GAT,
)
ADAPTIVE = BuiltIn(
    "adaptive", "n if more than 0.8 of the machine is in use, else s", "fewest processors first when busy", _GAT
)
PREDICTED_INDEX = BuiltIn(
    "predicted-index",
    "a·ln t + (1 − a)·ln r + b·ln n − c·ln v",
    "t and v = E[10/max(run, 10)] as predicted at submit; a, b, c of the predictor; needs --predict agent:DIR",
)
RANDOM = BuiltIn("random", "seeded", "a random order, fixed by the seed")
REPLAY = BuiltIn("replay", "submit_time + wait_time", "the starts that the trace itself recorded; nothing is decided")

_OURS = (
    *(FCFS, LCFS, SJF, LJF, SMALLEST, LARGEST, SAF, LAF, SEXP, LEXP, SRF, LRF, WFP3, UNICEP, F1, F2, F3, F4),
    *(MULTIFACTOR, CAPABILITY_FIRST, ADAPTIVE, PREDICTED_INDEX, RANDOM, REPLAY),
)
#: Every policy by name; other packages add theirs by the entry point group ``tracekit.policies``.
POLICIES: Registry[Any] = Registry(
    "policy",
    {policy.name: f"{__name__}:{policy.name.upper().replace('-', '_')}" for policy in _OURS}
    | {
        "search": "tracekit.sim.orders.rolling:SearchPolicy",
        "best-forecast": "tracekit.sim.orders.rolling:BestForecast",
    },
    group="tracekit.policies",
)
#: Policies that are made from an argument, such as ``agent:DIR``: a class, called with what follows the colon.
SCHEMES: Registry[Any] = Registry(
    "kind of policy",
    {
        "agent": "tracekit.sim.agents.policy:AgentPolicy",
        "http": "tracekit.service.foreign:ForeignPolicy",
        "search": "tracekit.sim.orders.rolling:search_from_text",
        "best-forecast": "tracekit.sim.orders.rolling:forecast_from_text",
    },
)


#: What is written without an argument.
_MISSING = {
    "agent": "the agent is missing: write agent:default for the packaged one, or agent:DIR",
    "http": "the address is missing: write http://127.0.0.1:PORT",
}


def find(policy: str | Policy) -> BuiltIn | Policy:
    """Return the policy of a name; an object with ``name`` and ``priority`` is returned as it is.

    ``module:Class`` or ``module:object`` is one of your own, imported from Python's path.
    """
    if not isinstance(policy, str):
        if isinstance(policy, (BuiltIn, Policy)):
            return policy
        raise UsageError(f"{policy!r} is not a policy: it needs a name and a method priority(queue, state)")
    scheme, colon, argument = policy.partition(":")
    if scheme == "https":
        raise UsageError(f"{policy}: only http:// is supported; write http://127.0.0.1:PORT")
    if scheme in SCHEMES and (colon or scheme not in POLICIES):
        if not argument and scheme in _MISSING:
            raise UsageError(_MISSING[scheme])
        made: BuiltIn | Policy = SCHEMES.get(scheme)(argument)
        return made
    found = POLICIES.get(policy) if module_of(policy) is None else own("policy", policy, SCHEMES)
    try:
        made = found() if isinstance(found, type) else found
    except TypeError as error:
        raise UsageError(f"policy '{policy}' cannot be constructed without arguments: {error}") from None
    if not isinstance(made, (BuiltIn, Policy)):
        raise UsageError(f"policy '{policy}' is {found!r}, which has no name and method priority(queue, state)")
    return made


def module_of(policy: str) -> str | None:
    """Return the module of a user-defined policy, or None for all others.

    >>> module_of("my_policies:Patient"), module_of("sjf"), module_of("agent:default")
    ('my_policies', None, None)
    """
    module, colon, _ = policy.partition(":")
    return module if colon and module not in SCHEMES else None


def name_of(policy: str | Policy) -> str:
    """Return the name of a policy in results: the name it was requested by, or its own."""
    return policy if isinstance(policy, str) else policy.name
