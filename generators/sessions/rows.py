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

from generators.sessions.histories import campaigns_of
from generators.sessions.learnt import Learnt
from generators.sessions.outcomes import Outcomes
from generators.sessions.shelf import MEMORY, Array, Shelf, whole
from tracekit.schema import status_codes


@dataclass(frozen=True)
class Rows:
    """Fitted to jobs in the order of histories."""

    jobs: Learnt
    outcomes: Outcomes

    @classmethod
    def fit(cls, jobs: Learnt, turn: Array, shelf: Shelf = MEMORY) -> Self:
        """Learn from jobs without names."""
        return cls(jobs, Outcomes.fit(jobs, campaigns_of(turn, whole(jobs.kind)), shelf))

    def draw(self, model: Array, turn: Array, rng: np.random.Generator) -> dict[str, Any]:
        """Return what is drawn for planned jobs, in the plan's order; what they ask for `asked` adds."""
        return self.outcomes.draw(model, campaigns_of(turn, self.jobs.kind[model]), rng)

    def asked(self, model: Array) -> dict[str, Any]:
        """Return what is the model's own: the template, the status, and labels of persons as codes of their user."""
        table, status = self.jobs.table, self.jobs.status
        kind = self.jobs.kind[model]
        made: dict[str, Any] = {str(name): table[name].array.take(kind) for name in table.columns}
        if status is not None:
            made["status"] = status_codes(status[model].astype(np.intp))
        return made | {name: codes[model] for name, codes in self.jobs.personal.items()}
