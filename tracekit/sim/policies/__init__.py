"""Policies: which waiting job comes first.

builtin     names, meanings and papers      formulas      the compiled formulas
protocol    what a policy of your own is    usage         accounts of users: fair share, predictions
"""

from __future__ import annotations

from tracekit.sim.policies.builtin import POLICIES, find
from tracekit.sim.policies.protocol import BuiltIn, Policy, State

__all__ = ["POLICIES", "BuiltIn", "Policy", "State", "find"]
