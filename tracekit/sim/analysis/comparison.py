"""`tracekit.compare`: policies beside each other on the same windows, with intervals and differences in pairs.

The intervals say how well a mean over all windows of this trace is known from those that were simulated; they say
nothing about other months or machines. Windows without a job to measure are left out and counted in the notes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import notebook
from tracekit.errors import UnknownName
from tracekit.intervals import LEVEL, intervals, signed_rank
from tracekit.sim.analysis.grid import Grid, pairs_of
from tracekit.sim.metrics import COMPARED
from tracekit.sim.policies.builtin import name_of
from tracekit.sim.policies.protocol import Policy
from tracekit.sim.simulate import SimResult
from tracekit.sim.switches import Switches
from tracekit.sim.windows import Window
from tracekit.trace import Trace, check_trace

if TYPE_CHECKING:
    from tracekit.sim.engine.machines import MachineModel

Floats = NDArray[np.float64]


def compare(
    trace: Trace,
    policies: str | Policy | Sequence[str | Policy],
    backfills: str | Sequence[str] = ("easy",),
    windows: int | Sequence[Window] = 20,
    jobs: int | None = None,
    seed: int = 0,
    baseline: str | Policy | None = None,
    machine: MachineModel | None = None,
    **switches: Any,
) -> Comparison:
    """Simulate policies × backfillings on the same windows of a trace and compare them.

    ``windows`` is a number of random windows of ``jobs`` jobs (default 1024), drawn by ``seed``, or a sequence of
    (start, count), none for the whole trace; each is simulated on an empty machine. ``baseline`` is the policy that the
    others are compared with (default: the first). ``machine`` and ``switches`` are those of `tracekit.simulate`.

    >>> import tracekit
    >>> found = tracekit.compare(tracekit.sample(), ["fcfs", "sjf"], windows=4, jobs=100, seed=1)
    >>> found.table[["policy", "backfill", "windows"]].values.tolist()
    [['fcfs', 'easy', 4], ['sjf', 'easy', 4]]
    """
    check_trace(trace)
    chosen = Switches(seed=seed, **switches)
    pairs = pairs_of(policies, backfills, chosen)
    check_baseline(baseline, [name_of(policy) for policy, _ in pairs])
    grid = Grid.of(trace, pairs, chosen, windows, jobs)
    return Comparison.of(grid, grid.run(machine=machine), baseline=baseline)


def check_baseline(baseline: str | Policy | None, names: Sequence[str]) -> str:
    """Return the name of the baseline: the first policy where none is given, an error where it is not simulated."""
    name = names[0] if baseline is None else name_of(baseline)
    if name not in names:
        raise UnknownName("baseline", name, set(names))
    return name


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What `compare` found.

    ``table`` has one row per policy × backfilling: means over ``windows`` windows with 95 % intervals (low … high of
    mean_bsld, wait_low … wait_high of mean_wait_s), and the difference of mean_bsld from the baseline under the same
    backfilling, window by window, with its interval and p (Wilcoxon's signed-rank test). ``values`` has one row per
    policy × backfilling × window. NaN = not known: intervals of one window, metrics of a window without jobs.
    """

    table: pd.DataFrame
    values: pd.DataFrame
    baseline: str
    windows: tuple[Window, ...]
    results: tuple[SimResult, ...]  # by policy × backfilling, and within that by window
    switches: dict[str, Any]
    notes: tuple[str, ...] = ()  # caveats to read before the numbers
    differences: Floats = field(default_factory=lambda: np.empty((0, 0)))  # (rows of the table, windows), of mean_bsld

    @classmethod
    def of(
        cls, grid: Grid, results: Sequence[SimResult], *, baseline: str | Policy | None = None
    ) -> Comparison:  # fmt: skip
        """Compare finished results; the grid's seed also drives the bootstrap over windows."""
        windows = tuple(grid.windows) or ((0, len(grid.jobs)),)
        beside = check_baseline(baseline, [policy for policy, _ in grid.names])
        values = _values(grid.names, windows, results)
        shape = (len(grid.names), len(windows))
        bsld, wait, used = (
            values[name].to_numpy(np.float64).reshape(shape) for name in ("mean_bsld", "mean_wait_s", "utilization")
        )
        partner = _partners(grid.names, beside)
        difference = np.where(partner[:, None] >= 0, bsld - bsld[partner], np.nan)
        low, high = intervals(bsld, grid.switches.seed)
        wait_low, wait_high = intervals(wait, grid.switches.seed)
        difference_low, difference_high = intervals(difference, grid.switches.seed)
        table = pd.DataFrame(
            {
                "policy": [policy for policy, _ in grid.names],
                "backfill": [backfill for _, backfill in grid.names],
                "windows": np.isfinite(bsld).sum(axis=1),
                "mean_bsld": _means(bsld),
                "low": low,
                "high": high,
                "mean_wait_s": _means(wait),
                "wait_low": wait_low,
                "wait_high": wait_high,
                "utilization": _means(used),
                "difference": _means(difference),
                "difference_low": difference_low,
                "difference_high": difference_high,
                "p": [signed_rank(row) if np.isfinite(row).any() else np.nan for row in difference],
            }
        )
        notes = (*_gaps(values, grid.names, len(windows)), *_alone(grid.names, partner, beside, windows))
        return cls(
            table,
            values,
            beside,
            windows,
            tuple(results),
            dict(results[0].switches),
            (*notes, *grid.training_notes()),
            difference,
        )

    def __repr__(self) -> str:
        head = f"<Comparison over {len(self.windows)} windows, differences of mean_bsld from {self.baseline}>"
        shown = self.table.to_string(index=False, float_format=_shown, na_rep="–")
        return "\n".join([head, shown, *self.notes])

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the table, and the notes below it."""
        head = f"Comparison over {len(self.windows)} windows, differences of mean_bsld from {self.baseline}"
        rows = self.table.itertuples(index=False, name=None)
        return notebook.table(head, [str(name) for name in self.table.columns], rows, self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `simulate --out` writes them into summary.json; None = not known."""
        return {
            "baseline": self.baseline,
            "level": LEVEL,
            "windows": [{"start": start, "jobs": jobs} for start, jobs in self.windows],
            "switches": self.switches,
            "notes": list(self.notes),
            "comparison": _records(self.table),
            "values": _records(self.values),
        }


def _shown(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def _values(names: Sequence[tuple[str, str]], windows: Sequence[Window], results: Sequence[SimResult]) -> pd.DataFrame:
    rows = []
    for number, result in enumerate(results):
        policy, backfill = names[number // len(windows)]
        start, _ = windows[number % len(windows)]
        rows.append(
            {
                "policy": policy,
                "backfill": backfill,
                "start": start,
                "jobs": len(result),
                "rejected": sum(result.rejected.values()),
                **{metric: result.metrics[metric] for metric in COMPARED},
            }
        )
    return pd.DataFrame(rows)


def _partners(names: Sequence[tuple[str, str]], baseline: str) -> NDArray[np.intp]:
    """Return for each row that of the baseline under the same backfilling, or its only row; −1 = there is none."""
    rows = {backfill: number for number, (policy, backfill) in enumerate(names) if policy == baseline}
    only = next(iter(rows.values())) if len(rows) == 1 else -1
    return np.array([rows.get(backfill, only) for _, backfill in names], dtype=np.intp)


def _means(values: Floats) -> Floats:
    """Return the means of rows without their NaN; NaN of a row that has nothing else."""
    there = np.isfinite(values)
    count = there.sum(axis=1)
    plain = values.mean(axis=1)  # without missing values the result equals numpy's mean to the last bit
    sums: Floats = np.where(there, values, 0.0).sum(axis=1)
    partial = np.divide(sums, count, out=np.full(len(values), np.nan), where=count > 0)
    means: Floats = np.where(count == values.shape[1], plain, partial)
    return means


def _gaps(values: pd.DataFrame, names: Sequence[tuple[str, str]], windows: int) -> list[str]:
    """Return notes on windows without a value, and for which policies."""
    found = []
    for metric, what in (("mean_bsld", "no job to measure"), ("utilization", "no utilisation: they last no time")):
        gap = ~np.isfinite(values[metric].to_numpy(np.float64).reshape(len(names), windows))
        if metric == "utilization":
            gap &= np.isfinite(values["mean_bsld"].to_numpy(np.float64).reshape(len(names), windows))
        if not gap.any():
            continue
        if (gap == gap[0]).all():
            found.append(f"{int(gap[0].sum())} of {windows} windows have {what}; left out of means and intervals")
            continue
        for (policy, backfill), row in zip(names, gap, strict=True):
            if row.any():
                found.append(f"{policy} + {backfill}: {int(row.sum())} of {windows} windows have {what}; left out")
    return found


def _alone(
    names: Sequence[tuple[str, str]], partner: NDArray[np.intp], baseline: str, windows: Sequence[Window]
) -> list[str]:
    found = ["one window alone has no intervals"] if len(windows) == 1 else []
    for (policy, backfill), other in zip(names, partner, strict=True):
        if other < 0:
            found.append(f"{policy} + {backfill}: no difference, {baseline} is not simulated with that backfilling")
    return found


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {str(key): _plain(value) for key, value in row.items()} for row in table.to_dict("records")
    ]
    return rows


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
