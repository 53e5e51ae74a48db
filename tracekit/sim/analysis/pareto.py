"""Energy against wait: policies and levers of energy on the same jobs, and which settings no other one beats in both.

All settings are accounted over the same window, from the first submit to the last end of any of them: otherwise a
setting that ends earlier would seem to save the idle power of the time after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName, UsageError
from tracekit.sim.jobs import Table
from tracekit.sim.runs import Run, run_all
from tracekit.sim.simulate import SimResult
from tracekit.sim.switches import Switches

#: What can be weighed against the wait: the key of a row, and what must be given for it.
MEASURES = {"energy": "energy_kwh", "carbon": "carbon_kg", "cost": "cost", "peak": "peak_kw"}
#: Levers of a setting, in the order of the table.
LEVERS = ("allocate", "sleep_after", "power_cap", "frequency", "max_extra_wait")
#: More settings than this are taken for a mistake.
MOST = 500


@dataclass(frozen=True)
class Setting:
    """One policy, backfilling and set of levers."""

    policy: str
    backfill: str
    switches: Switches

    @property
    def label(self) -> str:
        """The policy and the levers in use, in a few words."""
        made = self.switches
        levers = [
            f"sleep after {made.sleep_after:g} s" if made.sleep_after is not None else "",
            str(made.allocate) if made.cluster is not None and made.allocate != "first-fit" else "",
            f"cap {made.power_cap:g} kW" if made.power_cap is not None else "",
            f"frequency {made.frequency:g}" if made.frequency != 1 else "",
            f"held back ≤ {made.max_extra_wait / 3600:g} h" if made.max_extra_wait else "",
        ]
        return ", ".join([f"{self.policy} + {self.backfill}", *(lever for lever in levers if lever)])


def parse_list(text: str, name: str) -> list[float | None]:
    """Read the values of a lever: numbers separated by commas; ``none`` is the lever not in use.

    >>> parse_list("none,60,600", "--sleep-after")
    [None, 60.0, 600.0]
    """
    found: list[float | None] = []
    for word in text.split(","):
        try:
            found.append(None if word.strip() == "none" else float(word))
        except ValueError:
            raise UsageError(f"{name} {text}: write numbers separated by commas, or none") from None
    return found


def settings_of(
    policies: Sequence[str], backfills: Sequence[str], switches: Switches, values: Mapping[str, Sequence[Any]]
) -> list[Setting]:
    """Return every combination of policies, backfillings and values of levers; sleep and cap exclude each other.

    An allocator other than the first is only tried with hosts that sleep: without them it changes no energy.
    """
    found: list[Setting] = []
    for policy, backfill in itertools.product(policies, backfills):
        for combination in itertools.product(*values.values()):
            chosen = dict(zip(values, combination, strict=True))
            asleep = chosen.get("sleep_after") is not None
            if asleep and chosen.get("power_cap") is not None:
                continue
            if not asleep and chosen.get("allocate", "first-fit") != values.get("allocate", ["first-fit"])[0]:
                continue
            found.append(Setting(policy, backfill, replace(switches, **chosen)))
    if len(found) > MOST:
        raise UsageError(f"{len(found):,} settings are more than the limit of {MOST}: give fewer values")
    return found


def compare_settings(
    tables: Callable[[Switches], Table],
    settings: Sequence[Setting],
    *,
    threads: int | None = None,
    tell: Callable[[str], None] = lambda words: None,
) -> list[dict[str, Any]]:
    """Return a row for each setting: waits, energy over the common window, peak, carbon, cost.

    ``tables`` extracts the jobs for some switches.
    """
    runs = [Run(tables(one.switches), one.policy, one.backfill, one.switches) for one in settings]
    until = max(float(result.end.max()) for result in run_all(runs, threads=threads))
    tell(f"{len(runs)} simulations; energy from the first submit to second {until:.10g}")
    fixed = [replace(run, switches=replace(run.switches, energy_until=repr(until))) for run in runs]
    return list(_rows(settings, runs, run_all(fixed, threads=threads)))


def _rows(settings: Sequence[Setting], runs: Sequence[Run], results: Sequence[SimResult]) -> Iterator[dict[str, Any]]:
    for one, run, result in zip(settings, runs, results, strict=True):
        full = dict(zip(run.jobs.position.tolist(), run.jobs.run.tolist(), strict=True))
        recorded = np.array([full[row] for row in result.position.tolist()])
        if result.energy is None:
            raise UsageError("energy needs a power model: give --power FILE.toml or a preset, or --cluster with watts")
        yield {
            "label": one.label,
            "policy": one.policy,
            "backfill": one.backfill,
            **{name: getattr(one.switches, name) for name in LEVERS if name != "allocate"},
            "allocate": one.switches.to_dict()["allocate"],
            "jobs": len(result),
            "rejected": sum(result.rejected.values()),
            "delay_s": float((result.end - result.submit - recorded).mean()),
            "mean_wait_s": result.metrics["mean_wait_s"],
            "mean_bsld": result.metrics["mean_bsld"],
            "energy_kwh": result.energy.total_kwh,
            "peak_kw": result.energy.peak_kw,
            "carbon_kg": result.energy.carbon_kg,
            "cost": result.energy.cost,
        }


def mark_front(rows: Sequence[dict[str, Any]], measure: str) -> list[dict[str, Any]]:
    """Return the rows by delay, each with ``front``: whether no other is as good in both delay and measure.

    Only settings that ran all jobs of the one that ran the most count.
    """
    if measure not in MEASURES:
        raise UnknownName("measure", measure, MEASURES)
    key, most = MEASURES[measure], max(row["jobs"] for row in rows)
    if any(row[key] is None for row in rows):
        raise UsageError(f"--against {measure} needs a series: give --{'price' if measure == 'cost' else 'carbon'}")
    points = np.array([(row["delay_s"], row[key]) for row in rows])
    best = pareto_front(np.where([[row["jobs"] == most] for row in rows], points, np.inf))
    found = [row | {"front": bool(is_best)} for row, is_best in zip(rows, best, strict=True)]
    return sorted(found, key=lambda row: (row["delay_s"], row[key]))


#: Differences below this share are rounding: energies of equal work differ by as much from order to order.
ROUNDING = 1e-9


def pareto_front(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which points (points, 2), smaller is better, no other one is as good as in both; of equals the first.

    >>> pareto_front(np.array([[0, 3], [1, 1], [1, 2], [2, 1], [0, 3]])).tolist()
    [True, True, False, False, False]
    """
    least, found = np.inf, np.zeros(len(points), bool)
    for i in np.lexsort((points[:, 1], points[:, 0])):
        if np.isfinite(points[i]).all() and points[i, 1] < least - ROUNDING * abs(least if least < np.inf else 0.0):
            least, found[i] = points[i, 1], True
    return found


def as_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as CSV text."""
    names = list(rows[0])

    def word(value: Any) -> str:
        text = "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)
        return f'"{text}"' if "," in text else text

    return "\n".join([",".join(names), *(",".join(word(row[name]) for name in names) for row in rows)]) + "\n"
