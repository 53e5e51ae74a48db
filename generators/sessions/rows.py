"""The row model: what each planned job asks for and how it ends.

The skeleton has put every job in the place of a real one in some user's working day, so it is known what is repeated
and what changes. The row is then made token by token, each given those before it: the *template* (queue, sizes, limit,
memory: as many users share it as privacy asks for), the *end* (status; by the limit or not), the *run time* given
template and end (`outcomes`; repeats within a campaign stay repeats), *processor time and memory* given the run time.
Nothing that a limit or a machine forbids can come out. One model for both skeletons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from generators.sessions.histories import RETURN, Ints, Plan
from generators.sessions.outcomes import Outcomes
from generators.sessions.privacy import template_columns, templates
from tracekit.schema import status_codes
from tracekit.trace import Trace


@dataclass(frozen=True)
class Rows:
    """Fitted to jobs in the order of histories."""

    table: pd.DataFrame  # one row a template
    kind: Ints  # (jobs,) template of each real job
    outcomes: Outcomes
    personal: dict[str, Ints]  # (jobs,) codes of labels without names; −1 = unknown

    @classmethod
    def fit(cls, jobs: Trace, turn: Ints, personal: tuple[str, ...]) -> Self:
        """Learn from jobs without names."""
        names = template_columns(jobs, personal)
        kind, first = templates(jobs, names)
        table = jobs.jobs[names].iloc[first].reset_index(drop=True)
        limit = table["req_time"].to_numpy(dtype=np.float64) if "req_time" in names else np.full(len(table), np.nan)
        limit = np.where(limit > 0, limit, np.inf)[kind]
        return cls(
            table,
            kind,
            Outcomes.fit(jobs, kind, limit, _campaigns(turn, kind)),
            {name: jobs.column(name) for name in personal},
        )

    def draw(self, plan: Plan, rng: np.random.Generator) -> dict[str, Any]:
        """Return the columns of the planned jobs, in the plan's order; labels of persons as codes of their user."""
        model = plan.model
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
