"""Jobs that the hosts of their machine can hold: which may be learnt from, and a possible request for any other.

A machine with groups of hosts bounds what one job can ask for: cores, memory and GPUs of one host (or of several, where
it may spread), GPU types and pools that exist. Real jobs that can never be placed are not learnt from. Models that put
requests together from parts replace a combination that fits nowhere by the nearest real one, in the same pool where
that has any.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from generators.parts import Slot, Table, categorical
from tracekit.clusters import cluster_of
from tracekit.machine import HostGroup, Machine, groups_from
from tracekit.schema import BY_NAME, SIZE_COLUMNS
from tracekit.sim.hosts.demand import demand_of
from tracekit.trace import Trace

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]

#: Columns that say what a job asks of hosts.
REQUESTS = (*SIZE_COLUMNS, "req_mem", "tasks", "gpu_type", "pool", "partition")
ASKS_FOR_NOTHING = "asks for no cores and no GPUs"
#: So many real requests are kept to choose from, and one for each combination of labels.
MAX_KNOWN = 20_000
#: Labels that a replaced request keeps before all else, and how far away another one counts.
_LABEL_WEIGHT = {"pool": 1e6, "partition": 1e6, "gpu_type": 5.0}


def never_placed(trace: Trace) -> dict[str, Mask]:
    """Return which jobs the machine's hosts can never hold, by reason; nothing for a machine without hosts."""
    if not trace.machine.groups:
        return {}
    demand = demand_of(trace, cluster_of(trace.machine))
    nothing = np.isnan(demand.least_size)
    return demand.reasons() | ({ASKS_FOR_NOTHING: nothing} if nothing.any() else {})


def placeable(trace: Trace) -> tuple[Trace, list[str]]:
    """Return the jobs that the machine's hosts can hold, and how many were left out and why."""
    reasons = never_placed(trace)
    if not reasons:
        return trace, []
    notes = [f"{int(rows.sum())} jobs not learnt from: {reason}" for reason, rows in reasons.items()]
    return trace.take(~np.logical_or.reduce(list(reasons.values()))), notes


def unplaced(requests: pd.DataFrame, machine: Machine) -> Mask:
    """Return which rows of requests the machine's hosts can never hold."""
    count = len(requests)
    times = {"job_id": np.arange(1, count + 1), "submit_time": np.zeros(count), "run_time": np.zeros(count)}
    reasons = never_placed(Trace(pd.DataFrame(times).assign(**{str(n): requests[n].array for n in requests}), machine))
    return np.logical_or.reduce(list(reasons.values())) if reasons else np.zeros(count, dtype=bool)


@dataclass(frozen=True)
class Requests:
    """The part of an encoding that lets only requests through that the hosts can hold. It has nothing to learn."""

    key: ClassVar[str] = "requests"
    names: tuple[str, ...]
    known: tuple[tuple[Any, ...], ...]  # every combination that a real job asked for; None = unknown
    groups: tuple[HostGroup, ...]

    @classmethod
    def fit(cls, trace: Trace) -> Requests:
        """List the real requests."""
        names = tuple(name for name in REQUESTS if trace.has(name))
        every = trace.jobs[list(names)].drop_duplicates()
        labels = [name for name in _LABEL_WEIGHT if name in names]
        each = every.drop_duplicates(labels) if labels else every.iloc[:0]
        rows = pd.concat([each, every.iloc[:MAX_KNOWN]]).drop_duplicates().astype(object)
        rows = rows.where(rows.notna(), None)
        return cls(names, tuple(tuple(row) for row in rows.to_numpy().tolist()), trace.machine.groups)

    @cached_property
    def machine(self) -> Machine:
        """The hosts."""
        return Machine(groups=self.groups)

    @cached_property
    def table(self) -> pd.DataFrame:
        """The real requests, one a row."""
        return pd.DataFrame(list(self.known), columns=list(self.names), dtype=object)

    @property
    def slots(self) -> list[Slot]:
        """Return nothing."""
        return []

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Replace requests that can never be placed by the nearest real ones; other parts have written them."""
        asked = pd.DataFrame({name: jobs[name] for name in self.names})
        kind = asked.groupby(list(self.names), dropna=False, sort=False, observed=True).ngroup().to_numpy()
        first = np.unique(kind, return_index=True)[1]
        kinds = asked.iloc[first].reset_index(drop=True)
        bad = unplaced(kinds, self.machine)
        if not bad.any():
            return
        nearest = self._nearest(kinds[bad])
        to = np.full(len(kinds), -1)
        to[bad] = nearest
        rows = to[kind]
        for name in self.names:
            jobs[name] = _replaced(jobs[name], self.table[name], rows)

    def _nearest(self, rows: pd.DataFrame) -> NDArray[np.int64]:
        """Return for each row the position of the real request that is nearest to it."""
        labels = [name for name in _LABEL_WEIGHT if name in self.names]
        books = {name: {v: i for i, v in enumerate(self.table[name].dropna().unique())} for name in labels}
        here, there = (_places(frame, books) for frame in (rows, self.table))
        return np.asarray(cKDTree(there).query(here)[1], dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "names": self.names,
            "known": self.known,
            "groups": Machine(groups=self.groups).to_dict()["groups"],
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Requests:
        """Read back what `to_dict` gave."""
        known = tuple(tuple(row) for row in plain["known"])
        return cls(tuple(plain["names"]), known, groups_from(plain["groups"], origin="requests"))


def _places(rows: pd.DataFrame, books: dict[str, dict[Any, int]]) -> Floats:
    """Return requests as points: logs of numbers, and one axis for each name of a label."""
    axes: list[Floats] = []
    for name in rows.columns:
        if BY_NAME[name].kind == "label":
            code = rows[name].map(books[name]).to_numpy(dtype=np.float64, na_value=-1.0)
            axes += [_LABEL_WEIGHT[name] * (code == k) for k in range(len(books[name]))]
        else:
            values = pd.to_numeric(rows[name]).to_numpy(dtype=np.float64, na_value=np.nan)
            axes.append(np.nan_to_num(np.log(np.maximum(values, 0) + 0.1), nan=-10.0))
    return np.column_stack(axes)


def _replaced(values: Any, known: pd.Series, rows: NDArray[np.int64]) -> Any:
    """Return a column with the known values at the rows that are not −1."""
    changed = rows >= 0
    if isinstance(values, pd.Categorical):
        names = list(dict.fromkeys([*values.categories, *known.dropna()]))
        place = {name: i for i, name in enumerate(names)}
        codes = np.array([place.get(name, -1) for name in [*values.categories, None]])[values.codes]
        new = np.array([-1 if pd.isna(v) else place[v] for v in known] or [-1])
        return categorical(np.where(changed, new[rows], codes), names)
    numbers = np.asarray(values, dtype=np.float64)
    new = pd.to_numeric(known).to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(changed, new[rows], numbers)
