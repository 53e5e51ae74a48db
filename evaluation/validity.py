"""Validity: rows that break a rule. Beside it the offered load, which models get wrong more often than all else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from evaluation.base import Quantity, Score, Setting, absent
from evaluation.view import MOST_WATTS, RAW_SIZES, SIZES, UNPLACED, Seen, View

Mask = NDArray[np.bool_]  # shape (jobs,): True = breaks the rule

#: Labels whose names come from the machine's set-up, so a new one is a mistake. New users and programs are normal.
SET_UP = ("status", "queue", "partition", "gpu_type", "pool")
NO_HOSTS = "the real machine has no groups of hosts: give --cluster"
#: Real jobs that overrun in more than this share of rows show how much overrun the system allows.
OVERRUN_SHARE = 0.001
#: The share of real rows that must agree on k before cpu = k·node is taken for a rule.
FIXED_SHARE = 0.999


@dataclass(frozen=True)
class Rules:
    """What the real trace says about which rows are possible."""

    largest: float  # of the scheduled unit
    machine_note: str
    grace: float  # seconds that a job may run beyond its limit
    factor: float  # and how many times its limit it may run at most
    per_node: float | None  # processors a node, if fixed
    known: dict[str, NDArray[np.int64]]  # label -> codes that occur
    fractions: frozenset[str]  # counts that need not be whole
    least: float  # of the scheduled unit, in a job that uses it
    without: bool  # jobs may use none of the scheduled unit, if they use another

    @classmethod
    def of(cls, real: View) -> Rules:
        """Read the rules off the real trace."""
        run, limit = real.numbers["run_time"], real.numbers.get("req_time", np.full(len(real), np.nan))
        over = run - limit
        grace, factor = 0.0, 1.0
        if (over > 0).mean() > OVERRUN_SHARE:
            beyond = (over > 0) & (limit > 0)
            grace, factor = float(over[beyond].max(initial=0.0)), float((run[beyond] / limit[beyond]).max(initial=1.0))
        return cls(
            real.machine.capacity,
            real.machine.note,
            grace,
            factor,
            _per_node(real),
            {name: np.unique(real.labels[name]) for name in SET_UP if real.has(name)},
            frozenset(name for name in (*RAW_SIZES, *SIZES) if real.has(name) and _fractional(real.numbers[name])),
            *_least(real),
        )


def _fractional(values: NDArray[np.float64]) -> bool:
    """Return whether a count has fractions, such as shares of a GPU, in more than a few jobs."""
    known = values[np.isfinite(values)]
    return bool((known != np.floor(known)).mean() > OVERRUN_SHARE)


def _least(real: View) -> tuple[float, bool]:
    """Return the least size of jobs that use the scheduled unit, and whether jobs may use none of it."""
    size = real.size
    shares = size[(size > 0) & (size < 1)]
    least = float(shares.min()) if len(shares) > OVERRUN_SHARE * len(size) else 1.0
    return least, bool(_elsewhere(real).mean() > OVERRUN_SHARE)


def _elsewhere(view: View) -> Mask:
    """Return which jobs use none of the scheduled unit, but some of another."""
    others = [view.numbers[name] > 0 for name in SIZES if name != view.machine.unit]
    return np.asarray((view.size == 0) & _any(view, others))


def _per_node(real: View) -> float | None:
    """Return k where the real trace has procs = k·nodes throughout, None where it has not."""
    procs, nodes = real.numbers["procs"], real.numbers["nodes"]
    both = np.isfinite(procs) & (nodes > 0)
    if not both.any():
        return None
    ratios, count = np.unique(procs[both] / nodes[both], return_counts=True)
    return float(ratios[count.argmax()]) if count.max() >= FIXED_SHARE * both.sum() else None


def broken(view: View, rules: Rules) -> dict[str, Mask | str]:
    """Return for each rule which rows break it, or why the rule does not apply."""
    counts = {name: view.numbers[name] for name in (*RAW_SIZES, *SIZES) if view.has(name)}
    whole = [v for name, v in counts.items() if name not in rules.fractions]
    size, run = view.size, view.numbers["run_time"]
    spared = _elsewhere(view) if rules.without else np.zeros(len(view), dtype=bool)
    found: dict[str, Mask | str] = {
        "integers": _any(view, [np.isfinite(v) & (v != np.floor(v)) for v in whole]),
        "at_least_one": (~(size >= rules.least) & ~spared) | _any(view, [v < 0 for v in counts.values()]),
        "times": ~(run >= 0) | np.isinf(run),
    }
    if not view.has(view.machine.unit):
        found["at_least_one"] = f"the trace has no {view.machine.unit}"
    if np.isnan(rules.largest):
        found["fits_machine"] = rules.machine_note
    else:
        found["fits_machine"] = size > rules.largest
    if view.has("req_time"):
        limit = view.numbers["req_time"]
        found["run_within_limit"] = (run > limit + rules.grace) | (run > limit * rules.factor) | (limit <= 0)
    else:
        found["run_within_limit"] = "the trace has no limits"
    if rules.per_node is None:
        found["cpu_per_node"] = "the real trace has no fixed number of processors a node"
    elif not (view.has("procs") and view.has("nodes")):
        found["cpu_per_node"] = "the trace lacks processors or nodes"
    else:
        found["cpu_per_node"] = ~np.isclose(view.numbers["procs"], rules.per_node * view.numbers["nodes"], rtol=1e-9)
    found["fits_hosts"] = view.numbers[UNPLACED] > 0 if UNPLACED in view.numbers else NO_HOSTS
    found["power"] = _impossible_power(view)
    labels = [~np.isin(view.labels[name], codes) for name, codes in rules.known.items() if view.has(name)]
    found["known_labels"] = _any(view, labels) if labels else "no queue, partition, status or kind of GPU to compare"
    return found


def _impossible_power(view: View) -> Mask | str:
    """Return jobs that draw less than nothing or more than their nodes can, or whose CPU-bound share is none."""
    masks = []
    if view.has("mean_watts"):
        watts = view.numbers["mean_watts"]
        masks += [watts < 0, watts > view.numbers[MOST_WATTS]]
    if view.has("cpu_bound"):
        share = view.numbers["cpu_bound"]
        masks += [share < 0, share > 1]
    return _any(view, masks) if masks else "the trace has no mean_watts and no cpu_bound"


def _any(view: View, masks: list[Mask]) -> Mask:
    return np.logical_or.reduce(masks) if masks else np.zeros(len(view), dtype=bool)


class Validity:
    """validity.<rule>: share of rows that break the rule; validity.share: share that breaks at least one.

    integers, at_least_one, fits_machine, fits_hosts, run_within_limit, cpu_per_node, power (watts that the nodes can
    draw, shares within 0 to 1), known_labels, times (run time missing or below zero, submit missing). The rules are
    read off the real trace, whose own share is shown beside it.
    """

    name: ClassVar[str] = "validity"
    family: ClassVar[str] = "validity"
    unit: ClassVar[str] = "share of rows"
    resampled: ClassVar[bool] = True

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Apply the real trace's rules to both."""
        rules = Rules.of(real)
        ours, theirs = broken(real, rules), broken(synth, rules)
        notes = {"fits_machine": rules.machine_note}
        if rules.per_node:
            notes["cpu_per_node"] = f"{rules.per_node:g} a node"
        if rules.grace:
            notes["run_within_limit"] = f"real jobs overrun by up to {rules.grace:,.0f} s and {rules.factor:.3g} times"
        scores = {"validity.share": Score(_share(synth, theirs), real=_share(real, ours))}
        for rule, mask in theirs.items():
            own, key = ours[rule], f"validity.{rule}"
            level = float("nan") if isinstance(own, str) else _with_dropped(real, own, rule)
            if isinstance(mask, str):
                scores[key] = absent(mask, real=level)
            else:
                scores[key] = Score(_with_dropped(synth, mask, rule), real=level, note=notes.get(rule, ""))
        return scores


def _with_dropped(view: View, mask: Mask, rule: str) -> float:
    """Return the share of rows; jobs without a submit time are not in the view but violate the rule on times."""
    return float((mask.sum() + (view.dropped if rule == "times" else 0)) / (len(view) + view.dropped))


def _share(view: View, masks: dict[str, Mask | str]) -> float:
    found = [mask for mask in masks.values() if not isinstance(mask, str)]
    return float((_any(view, found).sum() + view.dropped) / (len(view) + view.dropped))


class OfferedLoad(Quantity):
    """offered_load: Σ size·run / (machine size · (last − first submit)), on the real trace's machine for all traces.

    load.jobs_per_hour and load.mean_work (unit-hours a job) are its two factors: which of them is wrong?
    """

    name = "offered_load"
    family = "load"
    unit = "share of the machine; jobs/h; unit-hours"

    def measure(self, view: Seen) -> dict[str, float | str]:
        """Return the load and its factors; a job with size or run time unknown or below zero counts as no work."""
        if not view.span > 0:
            reason = "all jobs arrive at one instant"
            return dict.fromkeys(("offered_load", "load.jobs_per_hour", "load.mean_work"), reason)
        if not view.has(view.machine.unit):
            reason = f"the trace has no {view.machine.unit}"
            return {
                "offered_load": reason,
                "load.jobs_per_hour": len(view) / view.span * 3600,
                "load.mean_work": reason,
            }
        work, capacity = view.work, view.machine.capacity
        return {
            "offered_load": work / (capacity * view.span) if capacity > 0 else "no sizes are known",
            "load.jobs_per_hour": len(view) / view.span * 3600,
            "load.mean_work": work / len(view) / 3600,
        }

    def __call__(self, real: Seen, synth: Seen, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Measure both, with a note where the machine's size was assumed."""
        scores = super().__call__(real, synth, setting=setting, rng=rng)
        if real.machine.note and not scores["offered_load"].note:
            scores["offered_load"] = replace(scores["offered_load"], note=real.machine.note)
        return scores
