"""The limit and the run time of a job: levels that were asked for, and a place within, at or beyond them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from generators.parts import Slot, Table, codes_of, numbers_of, slot_of, to_grain
from generators.quantile import Floats, Quantiles, grain_of
from tracekit.trace import Trace


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
        return slot_of("limit", "ordinal", self.shares)

    def encode(self, trace: Trace, rng: np.random.Generator) -> dict[str, Any]:
        """Return each limit's position; one that was not fitted becomes the next longer."""
        return {"limit": np.searchsorted(np.nan_to_num(self.values), _limits(trace)).clip(0, len(self.values) - 1)}

    def decode(self, table: Table, jobs: dict[str, Any], rng: np.random.Generator) -> None:
        """Write req_time, if the real trace knew any."""
        if np.isfinite(self.values).any():
            jobs["req_time"] = self.values[codes_of(table, "limit", len(self.values))]

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
        return [*slot_of("end", "category", self.shares), Slot("run", "number")]

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
        codes, place = codes_of(table, "end", len(self.states)), numbers_of(table, "run")
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
                    run[rows] = np.minimum(to_grain(value * top, self.grain), top)
                elif name == "limit":
                    run[rows] = np.maximum(top - value, np.floor(top * (1 - NEAR_SHARE)))
                elif name == "over":
                    run[rows] = self._overrun(top, value)
                else:
                    run[rows] = value
        run = np.maximum(to_grain(run, self.grain), 0.0)
        short = run < self.shortest
        run[short] = np.where(limit[short] > 0, np.minimum(self.shortest, limit[short]), self.shortest)
        jobs["run_time"] = run

    def _overrun(self, limit: Floats, beyond: Floats) -> Floats:
        """Return limit + beyond, but no longer, in seconds and as a multiple of the limit, than any real job."""
        run = to_grain(limit + beyond, self.grain)
        furthest = self.scales["over"].value[-1]
        most = np.minimum(limit * self.overrun, limit + furthest)
        if self.grain:
            # Compared by division and subtraction, as the two bounds were computed: 60 · (123 / 60) is below 123.
            nearest = to_grain(most, self.grain)
            too_long = (nearest / limit > self.overrun) | (nearest - limit > furthest)
            most = np.where(too_long, to_grain(nearest - self.grain, self.grain), nearest)
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
