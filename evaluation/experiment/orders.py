"""Networks that order a standing queue as a learner of experiments: sizes and limits, and how they go together, matter.

A pointer network sees requested run times and sizes, and imitates the orders that searches find best by the actual run
times of the training trace: so it learns what limits and sizes say of run times. The first jobs of a held-out window
are a queue that waits on an empty machine. Jobs start strictly in the network's order, and `ORDER_WAIT` is how long
they then wait on average.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from evaluation.experiment.heldout import ORDER_WAIT, Heldout, Row
from evaluation.experiment.ppo import curve_of
from tracekit.errors import MissingExtra, UnknownName, UsageError
from tracekit.trace import Trace

if TYPE_CHECKING:
    from tracekit.sim.agents.order.config import OrderConfig
    from tracekit.sim.orders.task import Order

#: What one core does in a second, for estimates: choices to learn from, and jobs placed while labels are searched for.
_CHOICES, _PLACED = 12_000.0, 6e6


def _task() -> Order:
    from tracekit.sim.orders.task import Order

    return Order(taught_by="actual")


class OrderQueues:
    """Settings are those of `tracekit.sim.agents.order.config.OrderConfig`, with ``share``.

    ``share`` of every training trace is learnt from; half of the rest decides which state of the network is kept.
    """

    name: ClassVar[str] = "order"
    task: ClassVar[str] = "order"
    use: ClassVar[str] = "ordering a standing queue"
    metric: ClassVar[str] = ORDER_WAIT
    margin: ClassVar[float] = 0.05
    control: ClassVar[str] = "wrong-limits"
    #: Where a plan says nothing: a small network and few labels, as an experiment trains a hundred agents or so.
    defaults: ClassVar[dict[str, Any]] = {
        "width": 32,
        "rounds": 2,
        "steps": 100_000,
        "validate_every": 20,
        "windows": 300,
        "validation_windows": 20,
        "jobs": 64,
        "evaluations": 1000,
    }

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuse unknown settings, a cluster of hosts, and a machine without torch."""
        if config.get("allocate") is not None:
            raise UsageError("learner order counts processors: leave out [windows] cluster (--cluster)")
        self._settings(config)
        if find_spec("torch") is None:
            raise MissingExtra("torch", "rl")

    def _settings(self, config: Mapping[str, Any]) -> tuple[OrderConfig, float]:
        from tracekit.sim.agents.order.config import OrderConfig

        known = OrderConfig().to_dict()
        for key in config:
            if key not in known and key != "share":
                raise UnknownName(f"setting of {self.name}", key, [*known, "share"])
        own = self.defaults | {key: value for key, value in config.items() if key != "share"}
        return OrderConfig.from_dict(own, origin=f"settings of {self.name}"), float(config.get("share", 0.8))

    def train(
        self, trace: Trace, folder: Path, *, config: Mapping[str, Any], backfill: str, seed: int, untrained: bool
    ) -> None:
        """Learn from the first part of a trace; the order is followed strictly, whatever the plan's backfilling."""
        from tracekit.sim.agents.order.teach import Course, newborn, train_order

        settings, share = self._settings(config)
        if untrained:
            newborn(_task(), settings, seed).save(folder)
        else:
            train_order(trace, _task(), settings, Course(folder, seed, share))

    def play(self, folder: Path, heldout: Heldout) -> list[Row]:
        """Order the first jobs of every window by the network's best choices."""
        from tracekit.sim.agents.agent import Agent
        from tracekit.sim.agents.order.solver import decoded
        from tracekit.sim.orders.task import Queues

        count = min(int(Agent.load(str(folder)).facts["config"]["jobs"]), heldout.jobs)
        rows: list[Row] = []
        for load in heldout.loads:
            queues = Queues.of(heldout.at(load), _task())
            for window, first in enumerate(heldout.starts):
                queue = queues.at(first, count)
                (order,) = decoded(str(folder), queue.counted("requested"), "greedy", 1, 0)
                rows.append({"load": load, "window": window, ORDER_WAIT: float(queue.starts(order).mean())})
        return rows

    def curve(self, folder: Path) -> list[tuple[int, str, float]]:
        """Return the scores on the validation queues, which lie in the training trace itself, and the heuristics'."""
        return curve_of(folder)

    def seconds(self, config: Mapping[str, Any]) -> float:
        """Return a guess."""
        settings = self._settings(config)[0]
        searched = (settings.windows + settings.validation_windows) * settings.evaluations * settings.jobs
        return 3.0 + settings.steps / _CHOICES + searched / _PLACED
