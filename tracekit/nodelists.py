"""Hosts that a trace names: Slurm's lists of nodes, and the most that ran on each of them at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.machine import MOST_HOSTS
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The column in which readers of Slurm's logs keep the list of a job's nodes.
COLUMN = "x_nodelist"
#: Jobs × hosts that are looked at; above it nothing is inferred from lists of nodes.
MOST_ENTRIES = 20_000_000
_NOTHING = frozenset({"", "(null)", "none", "none assigned", "unknown", "n/a"})
_PART = re.compile(r"[^,\[\]]+(?:\[[^\[\]]*\][^,\[\]]*)*|\[[^\[\]]*\][^,\[\]]*")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")


def expand(text: str) -> list[str]:
    """Return the hosts of a list in Slurm's notation; empty where it names none, or is not one.

    >>> expand("cn[08-10,12],gpu1")
    ['cn08', 'cn09', 'cn10', 'cn12', 'gpu1']
    """
    if text.strip().lower() in _NOTHING:
        return []
    found: list[str] = []
    for part in _PART.findall(text.strip()):
        names = [""]
        for number, piece in enumerate(_BRACKET.split(part)):
            ends = _numbers(piece) if number % 2 else [piece]
            if len(names) * len(ends) > MOST_HOSTS:
                return []
            names = [name + end for name in names for end in ends]
        found += names
        if len(found) > MOST_HOSTS:
            return []
    return found


def _numbers(ranges: str) -> list[str]:
    """Return the numbers of ``08-10,12`` with their leading zeros; empty where a range is not one."""
    found: list[str] = []
    for item in ranges.split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or max(len(first), len(last)) > 9:
            return []
        stop = int(last or first)
        if stop - int(first) > MOST_HOSTS:
            return []
        found += [f"{value:0{len(first)}d}" for value in range(int(first), stop + 1)]
    return found


@dataclass(frozen=True, eq=False)
class Seen:
    """Hosts on which jobs ran, (hosts,) each: a lower bound of what they have."""

    names: list[str]
    pool: NDArray[np.object_]  # the one that used the host most often, "" = none
    kind: NDArray[np.object_]  # GPU type that jobs there asked for most often, "" = none
    cores: Floats
    gpus: Floats
    memory: Floats  # KB
    shared: int  # hosts that ran jobs of several pools


def hosts_seen(trace: Trace, amounts: tuple[Floats, Floats, Floats], pool: Any, kind: Any, times: Any) -> Seen | None:
    """Return the hosts that lists of nodes name, with the most cores, GPUs and memory (KB) held at once on each.

    ``amounts`` are totals of jobs, divided evenly among their hosts; ``times`` are starts and ends (NaN = it did not
    run), ``pool`` and ``kind`` labels. None where the trace has no lists of nodes.
    """
    if COLUMN not in trace.jobs.columns:
        return None
    codes, texts = pd.factorize(trace.jobs[COLUMN].astype(object), use_na_sentinel=True)
    lists = [expand(str(text)) for text in texts]
    width = np.array([*map(len, lists), 0])[codes]
    start, end = times
    ran = (width > 0) & np.isfinite(start) & np.isfinite(end) & (end > start)
    if not ran.any() or int(width[ran].sum()) > MOST_ENTRIES:
        return None
    names = sorted({name for code in np.unique(codes[ran]).tolist() for name in lists[code]})
    place = {name: number for number, name in enumerate(names)}
    numbers = [np.array([place.get(name, 0) for name in found], np.int64) for found in lists]
    jobs = np.flatnonzero(ran)
    host = np.concatenate([numbers[code] for code in codes[jobs].tolist()])
    job = np.repeat(jobs, width[jobs])
    cores, gpus, memory = (
        _peaks(host, start[job], end[job], (amount / np.maximum(width, 1))[job], len(names)) for amount in amounts
    )
    labels = pd.DataFrame({"host": host, "pool": pool[job], "kind": kind[job]})
    several = int((labels.groupby("host")["pool"].nunique() > 1).sum())
    with_gpus = labels[labels["kind"] != ""]
    pools, kinds = _commonest(labels, "pool", names), _commonest(with_gpus, "kind", names)
    return Seen(names, pools, kinds, cores, gpus, memory, several)


def _peaks(host: Ints, start: Floats, end: Floats, amount: Floats, hosts: int) -> Floats:
    """Return the most that is held at once on each host; what ends at a moment is free at that moment."""
    where, when = np.concatenate((host, host)), np.concatenate((end, start))
    change = np.concatenate((-amount, amount))
    order = np.lexsort((np.arange(len(when)), when, where))
    where, held = where[order], np.cumsum(change[order])
    first = np.flatnonzero(np.diff(where, prepend=-1))
    before = np.append(0.0, held)[first]  # ends balance starts, apart from rounding
    found = np.zeros(hosts)
    found[where[first]] = np.maximum.reduceat(held, first) - before
    return np.round(found, 6)


def _commonest(labels: pd.DataFrame, column: str, names: list[str]) -> NDArray[np.object_]:
    """Return the most frequent label of each host, of equals the first by name; "" without any."""
    found = np.full(len(names), "", dtype=object)
    counted = labels.groupby(["host", column], observed=True).size().reset_index(name="jobs")
    best = counted.sort_values(["jobs", column], ascending=[False, True], kind="stable").drop_duplicates("host")
    found[best["host"].to_numpy()] = best[column].to_numpy(dtype=object)
    return found
