"""The parts of the default encoding: each turns a few columns of a trace into a few learnable ones, and back.

A part is fitted to the real jobs and from then on *decodes anything*: whatever a model writes into the encoded
columns, the values that come out are ones that the real trace shows to be possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.clock import Clock
from generators.quantile import Codes, Floats, Quantiles, grain_of, level_codes
from tracekit.schema import BY_NAME, SIZE_COLUMNS, STATUSES, status_codes
from tracekit.trace import Trace

Kind = Literal["number", "ordinal", "category"]
Table = pd.DataFrame  # one float64 column per number, one int64 column per ordinal or category


@dataclass(frozen=True)
class Slot:
    """One learnable column: a standard-normal number, an ordered level or an unordered one (codes from 0)."""

    name: str
    kind: Kind
    shares: Floats = field(default_factory=lambda: np.zeros(0))  # shape (levels,): how often each code was seen

    @property
    def levels(self) -> int:
        """Return the number of codes; 0 for a number."""
        return len(self.shares)


class Part(Protocol):
    """Some columns of a trace, learnable. Parts are decoded in order and may look at what came before."""

    key: ClassVar[str]

    @property
    def slots(self) -> list[Slot]:
        """Return the learnable columns; constants need none."""
        ...

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return the learnable columns of a trace in submit order."""
        ...

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write the trace's columns into ``jobs``; other parts' results may be there already."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        ...

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """Read back what `to_dict` gave."""
        ...


def categorical(codes: NDArray[np.integer[Any]], names: Sequence[str]) -> pd.Categorical:
    """Return a column of labels; code −1 is unknown."""
    return pd.Categorical.from_codes(codes.tolist(), categories=pd.Index(list(names), dtype=object))


def _codes(table: Table, name: str, n_levels: int) -> Codes:
    """Return a column's codes, made possible; a column that was constant, and so was never learnt, is all 0."""
    if name not in table.columns or n_levels < 2:
        return np.zeros(len(table), np.int64)
    return level_codes(table[name].to_numpy(), n_levels)


def _numbers(table: Table, name: str) -> Floats:
    return table[name].to_numpy(dtype=np.float64) if name in table.columns else np.zeros(len(table))


def _slot(name: str, kind: Kind, shares: Floats) -> list[Slot]:
    return [Slot(name, kind, shares)] if len(shares) > 1 else []


# ---- sizes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """Processors, nodes, GPUs and the kind of GPU, requested and allocated: one ordered level per real combination.

    Columns that are a fixed multiple of another (64 processors a node) or equal to it are left out and re-derived;
    combinations that nobody ever asked for cannot come back.
    """

    key: ClassVar[str] = "sizes"
    names: tuple[str, ...]
    combos: Floats  # shape (levels, names): sorted by the scheduled unit; NaN = unknown; gpu_type as its position
    shares: Floats  # shape (levels,)
    ratios: dict[str, tuple[str, float]]  # derived column -> (column, factor)
    gpu_types: tuple[str, ...] = ()

    @classmethod
    def fit(cls, trace: Trace) -> Sizes:
        """Find multiples among the size columns and list the combinations of the rest."""
        present = [name for name in _sizes_by_unit(trace) if trace.has(name)]
        names: list[str] = []
        ratios: dict[str, tuple[str, float]] = {}
        for name in present:
            found = next(
                (
                    (base, factor)
                    for base in names
                    if (factor := _factor(trace.column(base), trace.column(name))) is not None
                ),
                None,
            )
            if found:
                ratios[name] = found
            else:
                names.append(name)
        gpu_types: tuple[str, ...] = ()
        if trace.has("gpu_type"):
            names.append("gpu_type")
            gpu_types = tuple(trace.jobs["gpu_type"].cat.categories)
        rows = _size_rows(trace, tuple(names))
        combos, inverse = np.unique(np.nan_to_num(rows, nan=-1.0), axis=0, return_inverse=True)
        shares = np.bincount(inverse.ravel(), minlength=len(combos)) / len(rows)
        return cls(tuple(names), np.where(combos == -1.0, np.nan, combos), shares, ratios, gpu_types)

    @property
    def slots(self) -> list[Slot]:
        """Return one ordered level."""
        return _slot("size", "ordinal", self.shares)

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return the position of each job's combination; one that was not fitted becomes the nearest by size."""
        rows = np.nan_to_num(_size_rows(trace, self.names), nan=-1.0)
        known = {tuple(combo): i for i, combo in enumerate(np.nan_to_num(self.combos, nan=-1.0).tolist())}
        codes = np.array([known.get(tuple(row), -1) for row in rows.tolist()], dtype=np.int64)
        strange = codes < 0
        if strange.any():
            first = np.nan_to_num(self.combos[:, 0], nan=-1.0)
            codes[strange] = np.searchsorted(first, rows[strange, 0]).clip(0, len(first) - 1)
        return {"size": codes}

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write every size column."""
        rows = self.combos[_codes(table, "size", len(self.combos))]
        for i, name in enumerate(self.names):
            if name == "gpu_type":
                position = np.nan_to_num(rows[:, i], nan=-1.0).astype(np.int64)
                jobs[name] = categorical(position, self.gpu_types)
            else:
                jobs[name] = rows[:, i]
        for name, (base, factor) in self.ratios.items():
            jobs[name] = np.round(jobs[base] * factor, 6)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        combos = [[None if np.isnan(v) else v for v in row] for row in self.combos.tolist()]
        return {
            "names": self.names,
            "combos": combos,
            "shares": self.shares.tolist(),
            "ratios": self.ratios,
            "gpu_types": self.gpu_types,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Sizes:
        """Read back what `to_dict` gave."""
        ratios = {name: (str(base), float(factor)) for name, (base, factor) in plain["ratios"].items()}
        return cls(
            tuple(plain["names"]),
            np.array(plain["combos"], dtype=np.float64),
            np.array(plain["shares"]),
            ratios,
            tuple(plain["gpu_types"]),
        )


def _sizes_by_unit(trace: Trace) -> list[str]:
    """Return the size columns with what the scheduler hands out first."""
    unit = trace.machine.unit
    return sorted(SIZE_COLUMNS, key=lambda name: (not name.endswith(unit), SIZE_COLUMNS.index(name)))


def _size_rows(trace: Trace, names: tuple[str, ...]) -> Floats:
    columns = [np.where(trace.column(n) < 0, np.nan, trace.column(n)).astype(np.float64) for n in names]
    return np.stack(columns, axis=1)


def _factor(base: Floats, other: Floats) -> float | None:
    """Return k if ``other`` = k·``base`` in every row (unknown in the same ones), else None."""
    known = np.isfinite(base)
    if not known.any() or not np.array_equal(known, np.isfinite(other)) or (base[known] == 0).any():
        return None
    ratio = other[known] / base[known]
    factor = float(ratio[0])
    return factor if np.allclose(ratio, factor, rtol=1e-12, atol=0) else None


# ---- the limit and the run time ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit:
    """The requested time: one ordered level per value that was really asked for, one for unknown."""

    key: ClassVar[str] = "limit"
    values: Floats  # shape (levels,); NaN first where some are unknown
    shares: Floats

    @classmethod
    def fit(cls, trace: Trace) -> Limit:
        """List the limits; one of zero or below says nothing and counts as unknown."""
        values, inverse = np.unique(_limits(trace), return_inverse=True)
        shares = np.bincount(inverse, minlength=len(values)) / max(len(inverse), 1)
        return cls(np.where(values == 0, np.nan, values), shares)

    @property
    def slots(self) -> list[Slot]:
        """Return one ordered level."""
        return _slot("limit", "ordinal", self.shares)

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return each limit's position; one that was not fitted becomes the next longer."""
        return {"limit": np.searchsorted(np.nan_to_num(self.values), _limits(trace)).clip(0, len(self.values) - 1)}

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write req_time, if the real trace knew any."""
        if np.isfinite(self.values).any():
            jobs["req_time"] = self.values[_codes(table, "limit", len(self.values))]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"values": np.nan_to_num(self.values).tolist(), "shares": self.shares.tolist()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Limit:
        """Read back what `to_dict` gave."""
        values = np.array(plain["values"], dtype=np.float64)
        return cls(np.where(values == 0, np.nan, values), np.array(plain["shares"]))


def _limits(trace: Trace) -> Floats:
    """Return the limits in seconds, 0 where there is none."""
    limit = trace.column("req_time")
    return np.where(limit > 0, limit, 0.0)


#: A job that ended this close before its limit (seconds; and share of the limit) ran to the limit.
NEAR_SECONDS, NEAR_SHARE = 60.0, 0.05
#: Overruns rarer than this are accidents: they count as run to the limit, and none comes back.
OVERRUN_SHARE = 0.001
#: Jobs within their limit are laid out by limit, so many groups at most, each with so many jobs at least.
GROUPS, GROUP_JOBS = 10, 250

State = Literal["within", "limit", "over", "free"]


@dataclass(frozen=True)
class RunTime:
    """How long a job ran: a state and a place on that state's own scale.

    *within* its limit: the fraction of the limit (scales for short and long limits differ); *limit*: killed there, the
    seconds that were missing; *over*: past it by the kill's grace, the seconds beyond, never more than any real job;
    *free*: no limit, the seconds themselves.
    """

    key: ClassVar[str] = "run_time"
    states: tuple[State, ...]
    shares: Floats  # shape (states,)
    scales: dict[str, Quantiles]  # "limit", "over", "free", "within-0", "within-1", …
    bounds: Floats  # shape (groups − 1,): limits at which the next group of *within* begins
    grain: float
    shortest: float  # no job ran less than this
    overrun: float  # no job ran longer than this many times its limit; 1 = overruns do not happen

    @classmethod
    def fit(cls, trace: Trace) -> RunTime:
        """Lay out the run times by state."""
        run, limit = trace.column("run_time"), _limits(trace)
        state = _states(run, limit)
        if (state == "over").mean() <= OVERRUN_SHARE:
            run = np.where(state == "over", limit, run)
            state = _states(run, limit)
        names: list[State] = ["within", "limit", "over", "free"]
        states = tuple(name for name in names if (state == name).any())
        inside = state == "within"
        bounds = _group_bounds(limit[inside])
        group = np.searchsorted(bounds, limit, side="right")
        scales = {}
        for name in states:
            if name != "within":
                scales[str(name)] = Quantiles.fit(_place(run, limit, name)[state == name])
        if inside.any():
            for g in range(len(bounds) + 1):
                scales[f"within-{g}"] = Quantiles.fit(_place(run, limit, "within")[inside & (group == g)], grain=0.0)
        ratio = run[limit > 0] / limit[limit > 0]
        return cls(
            states,
            np.array([(state == s).mean() for s in states]),
            scales,
            bounds,
            grain_of(run),
            float(run.min()),
            float(max(ratio.max(), 1.0)) if len(ratio) else 1.0,
        )

    @property
    def slots(self) -> list[Slot]:
        """Return the state, if there are several, and the place."""
        return [*_slot("end", "category", self.shares), Slot("run", "number")]

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return each job's state and its place on that state's scale; an unfitted state becomes the first."""
        run, limit = trace.column("run_time"), _limits(trace)
        if "over" not in self.states:
            run = np.where(limit > 0, np.minimum(run, limit), run)
        state = _states(run, limit)
        codes = np.zeros(len(run), np.int64)
        place = np.zeros(len(run))
        for code, name in enumerate(self.states):
            mine = state == name
            codes[mine] = code
            for scale, rows in self._by_scale(name, limit, mine):
                place[rows] = scale.to_normal(_place(run, limit, name)[rows], rng)
        return {"end": codes, "run": place}

    def _by_scale(
        self, name: State, limit: Floats, mine: NDArray[np.bool_]
    ) -> list[tuple[Quantiles, NDArray[np.bool_]]]:
        if name != "within":
            return [(self.scales[name], mine)]
        group = np.searchsorted(self.bounds, limit, side="right")
        return [(self.scales[f"within-{g}"], mine & (group == g)) for g in range(len(self.bounds) + 1)]

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write run_time; needs the limit that was decoded before."""
        n = len(table)
        limit = np.nan_to_num(jobs["req_time"]) if "req_time" in jobs else np.zeros(n)
        codes, place = _codes(table, "end", len(self.states)), _numbers(table, "run")
        state = np.array(self.states, dtype=object)[codes]
        limited = [s for s in self.states if s != "free"]
        if limited:  # a job with a limit is not free, whatever the model says
            state = np.where((state == "free") & (limit > 0), limited[0], state)
        state = np.where(limit > 0, state, "free")
        run = np.zeros(n)
        for name in self.states:
            mine = state == name
            for scale, rows in self._by_scale(name, limit, mine):
                value, top = scale.from_normal(place[rows]), limit[rows]
                if name == "within":
                    run[rows] = np.minimum(_to_grain(value * top, self.grain), top)
                elif name == "limit":
                    run[rows] = np.maximum(top - value, np.floor(top * (1 - NEAR_SHARE)))
                elif name == "over":
                    run[rows] = self._overrun(top, value)
                else:
                    run[rows] = value
        run = np.maximum(_to_grain(run, self.grain), 0.0)
        short = run < self.shortest
        run[short] = np.where(limit[short] > 0, np.minimum(self.shortest, limit[short]), self.shortest)
        jobs["run_time"] = run

    def _overrun(self, limit: Floats, beyond: Floats) -> Floats:
        """Return limit + beyond, but no longer, in seconds and as a multiple of the limit, than any real job."""
        run = _to_grain(limit + beyond, self.grain)
        most = np.minimum(limit * self.overrun, limit + self.scales["over"].value[-1])
        if self.grain:
            whole = np.round(np.floor(most / self.grain + 1e-9) * self.grain, 9)
            most = np.where(whole > most, whole - self.grain, whole)
        capped: Floats = np.maximum(np.minimum(run, most), limit)
        return capped

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "states": self.states,
            "shares": self.shares.tolist(),
            "bounds": self.bounds.tolist(),
            "grain": self.grain,
            "shortest": self.shortest,
            "overrun": self.overrun,
            "scales": {name: scale.to_dict() for name, scale in self.scales.items()},
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> RunTime:
        """Read back what `to_dict` gave."""
        return cls(
            tuple(plain["states"]),
            np.array(plain["shares"]),
            {name: Quantiles.from_dict(scale) for name, scale in plain["scales"].items()},
            np.array(plain["bounds"], dtype=np.float64),
            plain["grain"],
            plain["shortest"],
            plain["overrun"],
        )


def _states(run: Floats, limit: Floats) -> NDArray[Any]:
    near = limit - run <= np.minimum(NEAR_SECONDS, NEAR_SHARE * limit)
    return np.select([limit <= 0, run > limit, near], ["free", "over", "limit"], "within").astype(object)


def _place(run: Floats, limit: Floats, state: State) -> Floats:
    """Return what a state's scale is laid out in: a fraction, or seconds short of, beyond, or without a limit."""
    if state == "within":
        return np.divide(run, limit, out=np.zeros(len(run)), where=limit > 0)
    return {"limit": limit - run, "over": run - limit, "free": run}[state]


def _group_bounds(limits: Floats) -> Floats:
    """Cut the limits into groups of about equal numbers of jobs."""
    count = min(GROUPS, len(limits) // GROUP_JOBS)
    if count < 2:
        return np.zeros(0)
    cuts: Floats = np.unique(np.quantile(limits, np.arange(1, count) / count, method="higher"))
    above: Floats = cuts[cuts > limits.min()]
    return above


def _to_grain(values: Floats, grain: float) -> Floats:
    if not grain:
        return values
    rounded: Floats = np.round(np.round(values / grain) * grain, 9)
    return rounded


# ---- other amounts -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Amount:
    """An amount of memory, or the CPU time as a share of the run time; unknown is a state of its own."""

    key: ClassVar[str] = "amount"
    name: str
    scale: Quantiles
    unknown: float  # share of the jobs

    @classmethod
    def fit(cls, trace: Trace, name: str) -> Amount:
        """Lay out the known values; negative ones count as unknown."""
        values = _amounts(trace, name)
        return cls(
            name, Quantiles.fit(values, grain=0.0 if name == "cpu_time" else None), float(np.isnan(values).mean())
        )

    @property
    def slots(self) -> list[Slot]:
        """Return a number unless all known values are one, and a state if some are unknown."""
        state = Slot(f"{self.name}?", "category", np.array([1 - self.unknown, self.unknown]))
        constant = self.scale.value[0] == self.scale.value[-1]
        return [*([state] if 0 < self.unknown < 1 else []), *([] if constant else [Slot(self.name, "number")])]

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return each job's place on the scale, and whether the amount is unknown (then the place is any)."""
        values = _amounts(trace, self.name)
        unknown = np.isnan(values)
        place = self.scale.to_normal(np.where(unknown, self.scale.value[0], values), rng)
        return {
            f"{self.name}?": unknown.astype(np.int64),
            self.name: np.where(unknown, rng.normal(size=len(values)), place),
        }

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write the amount; CPU time needs the run time that was decoded before."""
        values = self.scale.from_normal(_numbers(table, self.name))
        if self.name == "cpu_time":
            values = np.round(values * jobs["run_time"], 2)
        if 0 < self.unknown < 1:
            values = np.where(_codes(table, f"{self.name}?", 2) == 1, np.nan, values)
        jobs[self.name] = values

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"name": self.name, "scale": self.scale.to_dict(), "unknown": self.unknown}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Amount:
        """Read back what `to_dict` gave."""
        return cls(plain["name"], Quantiles.from_dict(plain["scale"]), plain["unknown"])


def _amounts(trace: Trace, name: str) -> Floats:
    values = trace.column(name)
    if name == "cpu_time":
        run = trace.column("run_time")
        values = np.divide(values, run, out=np.where(np.isnan(values), np.nan, 0.0), where=run > 0)
    return np.where(np.isfinite(values) & (values >= 0), values, np.nan)


# ---- labels --------------------------------------------------------------------------------------------------------

#: A label needs this many jobs to be learnt by itself, and no column has more labels than this.
LABEL_JOBS, MOST_LABELS = 3, 256


@dataclass(frozen=True)
class Label:
    """Users, queues, statuses …: an unordered level each; rare ones share a pool and are drawn from it again."""

    key: ClassVar[str] = "label"
    name: str
    labels: tuple[str | None, ...]  # None = unknown; commonest first
    shares: Floats  # shape (labels,), then one more for the pool if there is one
    pool: tuple[str, ...] = ()
    pool_shares: Floats = field(default_factory=lambda: np.zeros(0))  # shape (pool,)

    @classmethod
    def fit(cls, trace: Trace, name: str) -> Label:
        """Count the labels and pool the rare ones."""
        codes, categories = trace.column(name), list(trace.jobs[name].cat.categories)
        count = np.bincount(codes + 1, minlength=len(categories) + 1)
        order = [int(i) for i in np.argsort(-count, kind="stable") if count[i]]
        rare = [i for rank, i in enumerate(order) if i and (count[i] < LABEL_JOBS or rank >= MOST_LABELS)]
        if len(rare) < 2 or name == "status":
            rare = []
        kept = [i for i in order if i not in set(rare)]
        shares = np.array([count[i] for i in kept] + ([count[rare].sum()] if rare else []), dtype=np.float64)
        weights = count[rare] / max(count[rare].sum(), 1) if rare else np.zeros(0)
        return cls(
            name,
            tuple(categories[i - 1] if i else None for i in kept),
            shares / shares.sum(),
            tuple(categories[i - 1] for i in rare),
            weights,
        )

    @property
    def slots(self) -> list[Slot]:
        """Return one unordered level."""
        return _slot(self.name, "category", self.shares)

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return each label's code; rare labels, and ones that were not fitted, get the pool's, or the commonest's."""
        pool = len(self.labels) if self.pool else 0
        code_of = {label: code for code, label in enumerate(self.labels)}
        categories = list(trace.jobs[self.name].cat.categories) if self.name in trace.jobs.columns else []
        table = np.array([*(code_of.get(c, pool) for c in categories), code_of.get(None, pool)], dtype=np.int64)
        return {self.name: table[trace.column(self.name)]}  # −1, unknown, is the last entry

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write the labels; each job of the pool draws one of the pool's, as often as it really occurred."""
        codes = _codes(table, self.name, len(self.shares))
        known = [label for label in self.labels if label is not None]
        names = [*known, *self.pool]
        position = {label: i for i, label in enumerate(names)}
        to_name = np.array([-1 if label is None else position[label] for label in self.labels] + [0], dtype=np.int64)
        pooled = codes >= len(self.labels)
        result = to_name[np.minimum(codes, len(self.labels))]
        if pooled.any():
            result[pooled] = len(known) + rng.choice(len(self.pool), int(pooled.sum()), p=self.pool_shares)
        if self.name == "status":
            jobs[self.name] = status_codes(
                np.array([STATUSES.index(n) for n in names] + [STATUSES.index("unknown")])[result]
            )
        else:
            jobs[self.name] = categorical(result, names)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "name": self.name,
            "labels": self.labels,
            "shares": self.shares.tolist(),
            "pool": self.pool,
            "pool_shares": self.pool_shares.tolist(),
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Label:
        """Read back what `to_dict` gave."""
        return cls(
            plain["name"],
            tuple(plain["labels"]),
            np.array(plain["shares"]),
            tuple(plain["pool"]),
            np.array(plain["pool_shares"]),
        )


@dataclass(frozen=True)
class Lookup:
    """A label that another label determines (a user's group): not learnt, looked up again."""

    key: ClassVar[str] = "lookup"
    name: str
    of: str
    table: dict[str, str | None]
    unknown: str | None = None  # the label where the other one is unknown

    @classmethod
    def fit(cls, trace: Trace, name: str, of: str) -> Lookup:
        """List which label goes with which."""
        pairs = trace.jobs[[of, name]].drop_duplicates(of).astype(object)
        table = {
            key: (None if pd.isna(value) else str(value))
            for key, value in pairs.itertuples(index=False)
            if pd.notna(key)
        }
        unknown = next(
            (value for key, value in pairs.itertuples(index=False) if pd.isna(key) and pd.notna(value)), None
        )
        return cls(name, of, table, unknown)

    @property
    def slots(self) -> list[Slot]:
        """Return nothing: there is nothing to learn."""
        return []

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Look the labels up; needs the other label that was decoded before."""
        other = jobs[self.of]
        names = list(dict.fromkeys([v for v in [*self.table.values(), self.unknown] if v is not None]))
        position = {label: i for i, label in enumerate(names)}
        found = [self.table.get(category) for category in other.categories] + [self.unknown]
        codes = np.array([-1 if label is None else position[label] for label in found], dtype=np.int64)[other.codes]
        jobs[self.name] = categorical(codes, names)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"name": self.name, "of": self.of, "table": self.table, "unknown": self.unknown}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Lookup:
        """Read back what `to_dict` gave."""
        return cls(plain["name"], plain["of"], dict(plain["table"]), plain["unknown"])


def determines(trace: Trace, of: str, name: str) -> bool:
    """Tell whether every label of ``of`` goes with one label of ``name`` only, and this is no accident of rarity."""
    codes, other = trace.column(of), trace.column(name)
    count = np.bincount(codes + 1)
    if (count[codes + 1] >= 5).mean() < 0.8 or len(np.unique(codes)) < 2:
        return False
    width = int(other.max()) + 2
    return len(np.unique((codes + 1) * width + other + 1)) == len(np.unique(codes))


# ---- arrivals ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrivals:
    """Submit times as gaps on the operational clock (on the wall clock where the trace has no calendar)."""

    key: ClassVar[str] = "arrivals"
    scale: Quantiles
    clock: Clock | None
    start: float  # the first real submit
    grain: float

    @classmethod
    def fit(cls, trace: Trace) -> Arrivals:
        """Learn the hours of the week, and the gaps on that clock."""
        submit, clock = trace.column("submit_time"), Clock.fit(trace)
        gaps = np.diff(clock.operational(submit) if clock else submit)
        return cls(Quantiles.fit(gaps, grain=0.0 if clock else None), clock, float(submit[0]), grain_of(submit))

    @property
    def slots(self) -> list[Slot]:
        """Return one number, always, so that no table is empty."""
        return [Slot("gap", "number")]

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return the gap before each job; the first job has none and gets any (it is not used in decoding)."""
        submit = trace.column("submit_time")
        gaps = np.diff(self.clock.operational(submit) if self.clock else submit)
        return {"gap": np.concatenate([rng.normal(size=1), self.scale.to_normal(gaps, rng)])}

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write sorted submit times from the real start on."""
        gaps = self.scale.from_normal(_numbers(table, "gap"))
        jobs["submit_time"] = self.submits(gaps)

    def submits(self, gaps: Floats) -> Floats:
        """Return submit times for gaps on the operational clock; the first gap is not used."""
        if self.clock:
            submit = self.clock.wall(self.start, gaps)
        else:
            submit = self.start + np.concatenate([[0.0], np.cumsum(gaps[1:])])
        return np.maximum.accumulate(_to_grain(submit, self.grain))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "scale": self.scale.to_dict(),
            "clock": self.clock.to_dict() if self.clock else None,
            "start": self.start,
            "grain": self.grain,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Arrivals:
        """Read back what `to_dict` gave."""
        clock = Clock.from_dict(plain["clock"]) if plain["clock"] else None
        return cls(Quantiles.from_dict(plain["scale"]), clock, plain["start"], plain["grain"])


PARTS: dict[str, Any] = {part.key: part for part in (Sizes, Limit, RunTime, Amount, Label, Lookup, Arrivals)}
LABELS = tuple(name for name, column in BY_NAME.items() if column.kind in ("label", "status") and name != "gpu_type")
