"""Which columns of a trace a simulation looks at, so that others need not be read."""

from __future__ import annotations

from collections.abc import Iterable

from tracekit.schema import SIZE_COLUMNS
from tracekit.sim.policies.builtin import ADAPTIVE, CAPABILITY_FIRST, MULTIFACTOR, PREDICTED_INDEX, find
from tracekit.sim.policies.protocol import BuiltIn, Policy
from tracekit.sim.switches import Switches, backfill_for, combined, estimate_of

#: Built-in policies that look at more than times and sizes.
_CURIOUS = (MULTIFACTOR, CAPABILITY_FIRST, ADAPTIVE, PREDICTED_INDEX)
#: What the others look at, and the metrics.
_COLUMNS = ("job_id", "submit_time", "run_time", "req_time", "user", *SIZE_COLUMNS)


def lean_columns(pairs: Iterable[tuple[str | Policy, str]], switches: Switches) -> tuple[str, ...] | None:
    """Return the columns that simulations look at, by policy and backfilling; None where that may be any.

    Lean are built-in policies by times and sizes on a counter of processors, where nothing changes on the way. Their
    jobs can be extracted with ``lean=True``.
    """
    replay = False
    for policy, backfill in pairs:
        found, asked = find(policy), combined(backfill_for(backfill, switches), switches)[1]
        if not isinstance(found, BuiltIn) or found in _CURIOUS or not _is_plain(asked):
            return None
        replay |= found.name == "replay"
    return (*_COLUMNS, "wait_time") if replay else _COLUMNS


def _is_plain(switches: Switches) -> bool:
    other = switches.compat or switches.cluster or switches.levers or switches.needs_power
    return not (other or switches.dynamic or estimate_of(switches.estimates)[0] == "last-two")
