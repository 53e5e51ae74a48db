"""How jobs end: run times taken from similar jobs, status, processor time, memory and power.

A synthetic job is modelled on one real job. Its run time is first read off the sorted run times of similar jobs (same
template, same end), some places away from its model's and between two neighbours, and moved by about as much as
campaigns of this kind lie apart; jobs of one campaign move together, so that repeats stay repeats. That decides which
jobs are the longer ones. The run times themselves are then those of real jobs of the same size and end (`matching`), so
that the distribution stays what it was, and a few per cent longer or shorter unless many jobs have the same; which of
the two is chosen by campaign so that all jobs together bring as much work as their models did. Jobs that ran into their
limit do so again; no other exceeds it. Processor time (as a share of the run time) and memory are those of one other
job of the same template and end, so that they go together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from generators.quantile import grain_of
from generators.sessions import unusable
from generators.sessions.matching import COMMON, Strata, exchanged, turned
from tracekit.trace import Trace

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]

#: Run times of campaigns lie up to this apart, in ln(seconds), from what matching gives them, and those of single jobs
#: up to …
BLUR, OWN_BLUR = 0.1, 0.03
#: A job that ends so near below its limit ended because of it: seconds, and share of the limit.
AT_LIMIT, AT_LIMIT_SHARE = 60.0, 0.02
#: How many ranks among similar jobs' run times a synthetic one may lie from its model: all of a campaign alike …
REACH = 8.0
#: … and each job by itself.
OWN = 1.0
#: Similar jobs are those of the same template and end; if fewer than this are known, those of the same limit and end.
ENOUGH = 40
#: A campaign moves by up to the distance between so many neighbouring campaigns either side, but not farther than
#: FARTHEST in ln(seconds).
NEAR, FARTHEST = 5, 0.5
#: Columns that are drawn like the memory, each by itself.
POWER = ("mean_watts", "cpu_bound")
#: … but no farther from the model's than this share of it.
POWER_SPREAD = 0.1
#: Processor time and memory are those of a job at most so many places away along the run times.
SHARE_REACH = 20.0


def ended_by_limit(run: Floats, limit: Floats) -> Marks:
    """Return which jobs ended because of their limit; unknown and infinite limits end nothing."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.isfinite(limit) & (run >= limit - np.minimum(AT_LIMIT, AT_LIMIT_SHARE * limit)))


def sorts(size: Floats, run: Floats) -> Ints:
    """Return what kind of job each is, 0 … 5: of the smaller or larger half, and of which third of run times."""
    large = size > np.median(size)
    return (np.searchsorted(np.quantile(run, (1 / 3, 2 / 3)), run) * 2 + large).astype(np.int64)


def rounded(values: Floats, grain: float) -> Floats:
    """Round to multiples of ``grain``; 0 = leave as they are."""
    return np.round(np.round(values / grain) * grain, 9) if grain else values


@dataclass(frozen=True)
class Order:
    """Jobs sorted by a value within groups of like ones. All of shape (jobs,)."""

    value: Floats  # sorted by group, then by value
    jobs: Ints  # which job each value is of
    place: Ints  # rank of each job
    first: Ints  # where each job's group begins
    last: Ints  # and ends, inclusive

    @classmethod
    def by(cls, group: Ints, value: Floats) -> Self:
        """Sort by group, then by value; NaN last."""
        jobs = np.lexsort((value, group))
        place = np.empty(len(jobs), dtype=np.int64)
        place[jobs] = np.arange(len(jobs))
        ranked = group[jobs]
        first = np.searchsorted(ranked, group, side="left")
        last = np.searchsorted(ranked, group, side="right") - 1
        return cls(value[jobs], jobs.astype(np.int64), place, first.astype(np.int64), last.astype(np.int64))

    def moved(self, model: Ints, places: Floats) -> tuple[Floats, Ints]:
        """Return the values some places away from the models', read between neighbours, and whose they nearly are."""
        first, last = self.first[model].astype(np.float64), self.last[model].astype(np.float64)
        at = self.place[model] + places
        at = np.where(at < first, 2 * first - at, at)  # reflected at the ends
        at = np.clip(np.where(at > last, 2 * last - at, at), first, last)
        below = np.floor(at).astype(np.int64)
        above = np.minimum(below + 1, self.last[model])
        value = self.value[below] + (at - below) * (self.value[above] - self.value[below])
        return value, self.jobs[below]

    def spacing(self, head: Marks) -> Floats:
        """Return for each job how far NEAR heads on either side lie apart; infinity in groups with fewer heads."""
        heads = np.flatnonzero(head[self.jobs])  # their places
        before = np.searchsorted(heads, np.arange(len(self.jobs)))  # heads before each place
        here = before[self.place]
        first, last = before[self.first], np.searchsorted(heads, self.last, side="right") - 1
        low, high = np.clip(here - NEAR, first, last), np.clip(here + NEAR, first, last)
        value = self.value[heads]
        return np.where(last - first < 2 * NEAR, np.inf, value[high] - value[low])


@dataclass(frozen=True)
class Outcomes:
    """Real run times and ends, by job (in the order of histories)."""

    limit: Floats  # seconds; infinity = none
    log_run: Floats  # ln(1 + run time)
    size: Floats  # units that a job holds; 0 = unknown
    cut: Marks  # ended by the limit
    status: Ints  # code; −1 = unknown
    orders: tuple[Order, ...]  # by ln(1 + run time), or seconds beyond the limit; from the most alike to the least
    level: Ints  # which of the orders has enough jobs like this one
    room: Floats  # how far campaigns lie apart around each job
    strata: Strata  # by run time, or seconds beyond the limit
    share: Floats | None  # cpu_time / run_time
    most_cpu: float  # the largest real cpu_time
    memory: Order | None  # used_mem of similar jobs
    power: dict[str, Order]  # mean_watts and cpu_bound of similar jobs, which have the same size
    grains: dict[str, float]
    grace: float  # seconds that a job may exceed its limit, and …
    factor: float  # … how many times its limit it may run

    @classmethod
    def fit(cls, trace: Trace, kind: Ints, limit: Floats, campaign: Ints) -> Self:
        """Sort the jobs; ``kind`` and ``limit`` are those of their templates."""
        run, status = trace.column("run_time"), trace.column("status")
        grains = {name: grain_of(trace.column(name)) for name in ("run_time", "cpu_time", "used_mem", *POWER)}
        beyond = run > limit
        cut = ended_by_limit(run, limit)
        end = ((status + 1) * 2 + cut) * 2 + unusable.marks(trace)  # which lend no values to others
        ends = int(end.max()) + 1
        value = np.where(cut, run - np.where(cut, limit, 0.0), np.log1p(run))
        like = kind * ends + end
        same_limit = np.unique(limit, return_inverse=True)[1] * ends + end
        orders = tuple(Order.by(group, value) for group in (like, same_limit, end))
        size = np.nan_to_num(trace.sizes())
        same_size = np.unique(size, return_inverse=True)[1] * ends + end
        about_size = np.round(np.log2(np.maximum(size, 1e-9))).astype(np.int64) * ends + end
        head = np.zeros(len(kind), dtype=bool)
        head[np.unique(campaign * ends + end, return_index=True)[1]] = True
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(run > 0, trace.column("cpu_time") / run, np.nan)
        return cls(
            limit,
            np.log1p(run),
            size,
            cut,
            status,
            orders,
            np.select([order.last - order.first + 1 >= ENOUGH for order in orders[:2]], [0, 1], 2),
            orders[0].spacing(head),
            Strata.fit((same_size, about_size, end), np.where(cut, value, run)),
            share if trace.has("cpu_time") else None,
            float(np.nanmax(trace.column("cpu_time"))) if trace.has("cpu_time") else np.inf,
            Order.by(_known_apart(like, trace.column("used_mem")), trace.column("used_mem"))
            if trace.has("used_mem")
            else None,
            {
                name: Order.by(_known_apart(like, trace.column(name)), trace.column(name))
                for name in POWER
                if trace.has(name)
            },
            grains,
            float((run - limit)[beyond].max(initial=0.0)),
            float((run[beyond] / limit[beyond]).max(initial=1.0)),
        )

    @property
    def has_status(self) -> bool:
        """Whether it is known how jobs end."""
        return bool((self.status >= 0).any())

    def draw(self, model: Ints, campaign: Ints, rng: np.random.Generator) -> dict[str, Any]:
        """Return the outcomes of jobs modelled after the given real ones: columns, with status as codes."""
        moves = rng.uniform(-1, 1, (2, int(campaign.max(initial=0)) + 1))[:, campaign]
        own = OWN * rng.uniform(-1, 1, len(model))
        # The more jobs a campaign has, the less it moves as a whole: it is a part of the distribution.
        few = np.minimum(1.0, COMMON * len(model) / np.bincount(campaign)[campaign])
        run = self._runs(model, campaign, REACH * moves[0] + own, moves[1], few * moves[1], rng)
        drawn: dict[str, Any] = {"run_time": run, "status": self.status[model]}
        # Processor time and memory are those of one other job, so that they go together, known or not.
        beside = self._beside(model, SHARE_REACH * rng.uniform(-1, 1, int(campaign.max(initial=0)) + 1)[campaign] + own)
        if self.share is not None:
            most = np.maximum(self.most_cpu, run)  # some records hold absurd shares
            cpu = np.minimum(self.share[beside] * run, most)
            drawn["cpu_time"] = rounded(cpu, self.grains["cpu_time"])
        if self.memory is not None:
            memory, _ = self.memory.moved(beside, own)
            drawn["used_mem"] = rounded(memory, self.grains["used_mem"])
        for name, order in self.power.items():  # campaigns draw alike, whether they run long or not
            places = REACH * rng.uniform(-1, 1, int(campaign.max(initial=0)) + 1)[campaign]
            value, _ = order.moved(model, places + OWN * rng.uniform(-1, 1, len(model)))
            real = order.value[order.place[model]]  # a user's program draws about the same each time
            near = np.clip(value, real * (1 - POWER_SPREAD), real * (1 + POWER_SPREAD))
            drawn[name] = rounded(near, self.grains[name])
        return drawn

    def _runs(
        self,
        model: Ints,
        campaign: Ints,
        places: Floats,
        farther: Floats,
        aside: Floats,
        rng: np.random.Generator,
    ) -> Floats:
        """Return run times some places away from the models' and moved by a share, -1 … 1, of the room there."""
        value = np.empty(len(model))
        for k, order in enumerate(self.orders):
            mine = self.level[model] == k
            value[mine] = order.moved(model[mine], places[mine])[0]
        limit, cut, own = self.limit[model], self.cut[model], self.log_run[model]
        moved = np.clip(value, own - FARTHEST, own + FARTHEST) + farther * np.minimum(self.room[model], FARTHEST)
        beyond = np.where(cut, limit, 0.0)  # the values of jobs cut by their limits count from these
        over = np.expm1(own) - beyond
        near = np.maximum(AT_LIMIT, FARTHEST * np.abs(over))
        wanted = np.where(cut, np.clip(value, over - near, over + near), np.minimum(moved, np.log1p(limit)))
        most = np.where(cut, np.minimum(self.grace, beyond * (self.factor - 1)), limit)
        size = self.size[model]
        value, common = self.strata.matched(model, wanted, most, rng)
        away = np.exp(BLUR * aside + OWN_BLUR * rng.uniform(-1, 1, len(model)))
        alone, work = ~cut & ~common, float(size @ over)
        one, other = (np.where(alone, np.minimum(value * times, most), value) for times in (away, 1 / away))
        value = np.where(turned(campaign, size * one, size * other, work, rng), other, one)
        value = exchanged(self.strata.of[model], value, size, most, work, rng)
        run = rounded(np.maximum(value + beyond, 0.0), self.grains["run_time"])
        return np.where(cut, np.minimum(run, most + beyond), run)

    def _beside(self, model: Ints, places: Floats) -> Ints:
        """Return jobs of the same template and end some places away along the run times; the model if that is far."""
        beside = self.orders[0].moved(model, places)[1]
        return np.where(np.abs(self.log_run[beside] - self.log_run[model]) > FARTHEST, model, beside)


def _known_apart(group: Ints, value: Floats) -> Ints:
    """Return groups in which known and unknown values are not together."""
    return group * 2 + np.isnan(value)


def scaled_runs(
    run: Floats, size: Floats, limit: Floats, free: Marks, work: float, grain: float, most: float
) -> Floats:
    """Make the ``free`` jobs longer or shorter, none beyond its limit, so that Σ size · run is ``work``.

    No job changes by more than the share ``most`` of its run time, so the work may come out between.
    """
    missing = work - float((size * run).sum())
    most_of = np.where(free, size * (np.minimum(run * (1 + most), limit) - run if missing > 0 else run * most), 0.0)
    order = np.argsort(-size * run * free, kind="stable")
    needed = np.clip(abs(missing) - (np.cumsum(most_of[order]) - most_of[order]), 0.0, most_of[order])
    made = run.copy()
    made[order] += np.sign(missing) * needed / np.maximum(size[order], 1e-300)
    return np.where(made == run, run, rounded(np.clip(made, 0.0, np.where(free, limit, np.inf)), grain))
