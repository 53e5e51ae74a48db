"""The row model: what each planned job asks for and how it ends, given its user's habits.

A job is made token by token, each given those before it: *after which real job it is modelled* (the one in whose place
the skeleton put it, or by `walk` the template it repeats or turns to, given the last job and the time since), *what it
asks for* (the template), *how long it runs and how it ends* (`outcomes`). One model for both skeletons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from generators.sessions.histories import RETURN, Histories, Ints, Plan
from generators.sessions.outcomes import Outcomes
from generators.sessions.privacy import template_columns, templates
from generators.sessions.walk import Moments
from tracekit.schema import status_codes
from tracekit.trace import Trace


@dataclass(frozen=True)
class Rows:
    """Fitted to jobs in the order of histories."""

    table: pd.DataFrame  # one row a template
    kind: Ints  # (jobs,) template of each real job
    pool: Ints  # (histories,) whose habits are dealt together
    moments: Moments
    outcomes: Outcomes
    personal: dict[str, Ints]  # (jobs,) codes of labels without names; −1 = unknown

    @classmethod
    def fit(cls, jobs: Trace, histories: Histories, pool: Ints, personal: tuple[str, ...]) -> Self:
        """Learn from jobs without names."""
        names = template_columns(jobs, personal)
        kind, first = templates(jobs, names)
        table = jobs.jobs[names].iloc[first].reset_index(drop=True)
        limit = table["req_time"].to_numpy(dtype=np.float64) if "req_time" in names else np.full(len(table), np.nan)
        limit = np.where(limit > 0, limit, np.inf)[kind]
        owner, turn = histories.owner, histories.turn
        return cls(
            table,
            kind,
            pool,
            Moments.fit(pool[owner], owner, kind, turn, jobs.column("run_time")),
            Outcomes.fit(jobs, kind, limit, _campaigns(turn, kind)),
            {name: jobs.column(name) for name in personal},
        )

    def models(self, plan: Plan, rng: np.random.Generator) -> Ints:
        """Return the real job after which each planned one is modelled."""
        if plan.model is not None:
            return plan.model
        return self.moments.walk(plan.maker, self.pool[plan.donor], plan.turn, rng)

    def draw(self, plan: Plan, model: Ints, rng: np.random.Generator) -> dict[str, Any]:
        """Return the columns of the planned jobs, in the plan's order; labels of persons as codes of their user."""
        asked = self.table.iloc[self.kind[model]].reset_index(drop=True)
        made: dict[str, Any] = {name: asked[name] for name in asked.columns}
        made |= self.outcomes.draw(model, _campaigns(plan.turn, self.kind[model]), rng)
        if self.outcomes.has_status:
            made["status"] = status_codes(made["status"])
        else:
            del made["status"]
        return made | {name: codes[model] for name, codes in self.personal.items()}


def _campaigns(turn: Ints, kind: Ints) -> Ints:
    """Number the campaigns: all jobs of one template in one session of a user."""
    session = np.cumsum(turn >= RETURN)
    key = session * (int(kind.max(initial=0)) + 1) + kind
    return np.asarray(np.unique(key, return_inverse=True)[1], dtype=np.int64)
