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

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.quantile import grain_of
from generators.sessions.learnt import Learnt
from generators.sessions.matching import COMMON, Strata, exchanged, turned
from generators.sessions.shelf import MEMORY, Array, Column, Shelf, blocks, ranked, small, whole

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


def sorts(size: Floats, run: Floats) -> Array:
    """Return what kind of job each is, 0 … 5: of the smaller or larger half, and of which third of run times."""
    half, thirds = np.median(size), np.quantile(run, (1 / 3, 2 / 3))
    sort = np.empty(len(run), dtype=np.int8)
    for rows in blocks(len(run)):
        sort[rows] = np.searchsorted(thirds, run[rows]) * 2 + (size[rows] > half)
    return sort


def rounded(values: Floats, grain: float) -> Floats:
    """Round to multiples of ``grain``; 0 = leave as they are."""
    return np.round(np.round(values / grain) * grain, 9) if grain else values


@dataclass(frozen=True)
class Order:
    """Jobs sorted by a value within groups of like ones. Columns have shape (jobs,)."""

    value: Column  # sorted by group, then by value
    jobs: Column  # which job each value is of
    place: Column  # rank of each job
    group: Column  # of each job
    first: Ints  # (groups,) where each group begins
    last: Ints  # and ends, inclusive

    @classmethod
    def by(cls, group: Array, value: Floats, shelf: Shelf = MEMORY) -> Self:
        """Sort by group, then by value; NaN last."""
        code = ranked(group)[0]
        del group
        jobs = small(np.lexsort((value, code)))
        place = np.empty(len(jobs), dtype=jobs.dtype)
        for rows in blocks(len(jobs)):
            place[jobs[rows]] = np.arange(rows.start, rows.stop)
        size = np.bincount(code)
        first = np.cumsum(size) - size
        keep = shelf.keep
        return cls(keep(value[jobs]), keep(jobs), keep(place), keep(code), first, first + size - 1)

    @property
    def size(self) -> Ints:
        """How many jobs each group has."""
        return self.last - self.first + 1

    def loaded(self, *names: str) -> Order:
        """Return an order that has some columns in memory, to look at them often."""
        return replace(self, **{name: whole(getattr(self, name)) for name in names})

    def moved(self, model: Array, places: Floats) -> tuple[Floats, Array]:
        """Return the values some places away from the models', read between neighbours, and whose they nearly are."""
        return self.values(model, places), self.whose(model, places)

    def values(self, model: Array, places: Floats) -> Floats:
        """Return the values some places away from the models', read between neighbours."""
        last, at = self._away(model, places)
        below = np.floor(at).astype(np.int64)
        low, high = self.value[below], self.value[np.minimum(below + 1, last)]
        return np.asarray(low + (at - below) * (high - low))

    def whose(self, model: Array, places: Floats) -> Array:
        """Return whose the values some places away from the models' nearly are."""
        return np.asarray(self.jobs[np.floor(self._away(model, places)[1]).astype(np.int64)])

    def _away(self, model: Array, places: Floats) -> tuple[Ints, Floats]:
        """Return where the models' groups end, and the places that many away from the models'."""
        group = self.group[model]
        first, last = self.first[group].astype(np.float64), self.last[group].astype(np.float64)
        at = self.place[model] + places
        at = np.where(at < first, 2 * first - at, at)  # reflected at the ends
        return self.last[group], np.clip(np.where(at > last, 2 * last - at, at), first, last)

    def spacing(self, head: Marks) -> Floats:
        """Return for each job how far NEAR heads on either side lie apart; infinity in groups with fewer heads."""
        sorted_heads = head[whole(self.jobs)]
        heads = small(np.flatnonzero(sorted_heads))  # their places
        before = small(np.cumsum(sorted_heads))  # heads up to each place
        first, last = before[self.first] - sorted_heads[self.first], before[self.last] - 1
        value, found = self.value[heads], np.empty(len(before))
        place, group = whole(self.place), whole(self.group)
        for rows in blocks(len(found)):
            here, of = place[rows], group[rows]
            mine = before[here] - sorted_heads[here]
            low, high = np.clip(mine - NEAR, first[of], last[of]), np.clip(mine + NEAR, first[of], last[of])
            few = last[of] - first[of] < 2 * NEAR
            found[rows] = np.where(few, np.inf, value[high] - value[low])
        return found


@dataclass(frozen=True)
class Outcomes:
    """Real run times and ends, by job (in the order of histories). Columns have shape (jobs,)."""

    jobs: Learnt
    cut: Column  # ended by the limit
    orders: tuple[Order, ...]  # by ln(1 + run time), or seconds beyond the limit; from the most alike to the least
    level: Column  # which of the orders has enough jobs like this one
    room: Column  # how far campaigns lie apart around each job
    strata: Strata  # by run time, or seconds beyond the limit
    share: Column | None  # cpu_time / run_time
    most_cpu: float  # the largest real cpu_time
    memory: Order | None  # used_mem of similar jobs
    power: dict[str, Order]  # mean_watts and cpu_bound of similar jobs, which have the same size
    grains: dict[str, float]
    grace: float  # seconds that a job may exceed its limit, and …
    factor: float  # … how many times its limit it may run
    shelf: Shelf

    @classmethod
    def fit(cls, jobs: Learnt, campaign: Array, shelf: Shelf = MEMORY) -> Self:
        """Sort the jobs."""
        grains = {name: grain_of(whole(values)) for name, values in jobs.measured.items()}
        run, kind = whole(jobs.run), whole(jobs.kind)
        cut, end, value = np.empty(len(run), dtype=bool), np.empty(len(run), dtype=np.int64), np.empty(len(run))
        grace, factor = 0.0, 1.0
        for rows in blocks(len(run)):
            limit, ran = jobs.limit_of[kind[rows]], run[rows]
            cut[rows] = ended_by_limit(ran, limit)
            marked = jobs.marked_of[kind[rows]]  # which lend no values to others
            status = np.int64(-1) if jobs.status is None else jobs.status[rows].astype(np.int64)
            end[rows] = ((status + 1) * 2 + cut[rows]) * 2 + marked
            value[rows] = np.where(cut[rows], ran - np.where(cut[rows], limit, 0.0), np.log1p(ran))
            beyond = ran > limit
            grace = max(grace, float((ran - limit)[beyond].max(initial=0.0)))
            factor = max(factor, float((ran[beyond] / limit[beyond]).max(initial=1.0)))
        ends = int(end.max()) + 1
        end = end.astype(np.int16)
        del run

        def alike(rank: Ints, end: Array = end) -> Array:
            """Return a key of the jobs' templates' ranks and their ends."""
            return small(rank[kind] * ends + end)

        kinds = len(jobs.limit_of)
        same_limit = np.unique(jobs.limit_of, return_inverse=True)[1]
        same_size = np.unique(jobs.size_of, return_inverse=True)[1]
        about_size = np.round(np.log2(np.maximum(jobs.size_of, 1e-9))).astype(np.int64)
        orders = tuple(Order.by(alike(rank), value, shelf) for rank in (np.arange(kinds), same_limit))
        orders = (*orders, Order.by(end, value, shelf))
        level = np.full(len(kind), 2, dtype=np.int8)
        for k, order in reversed(list(enumerate(orders[:2]))):
            enough = order.size >= ENOUGH
            level[enough[whole(order.group)]] = k
        head = ~pd.Series(campaign.astype(np.int64) * ends + end).duplicated().to_numpy()
        room = shelf.keep(orders[0].spacing(head))
        del head
        level_kept, cut_kept = shelf.keep(level), shelf.keep(cut)
        del level
        run = whole(jobs.run)
        value[~cut] = run[~cut]
        del run, cut
        keys = [partial(alike, rank) for rank in (same_size, about_size)]
        strata = Strata.fit((*keys, partial(np.asarray, end)), value, shelf)
        del value, end, keys, alike
        share, most_cpu = None, np.inf
        if "cpu_time" in jobs.measured:
            cpu = whole(jobs.measured["cpu_time"])
            most_cpu, share = float(np.nanmax(cpu)), shelf.keep(_share(cpu, whole(jobs.run)))
            del cpu
        beside: dict[str, Order] = {}
        for name in ("used_mem", *POWER):
            if name in jobs.measured:
                known = whole(jobs.measured[name])
                beside[name] = Order.by(_known_apart(whole(orders[0].group), known), known, shelf)
        memory = beside.pop("used_mem", None)
        return cls(
            jobs,
            cut_kept,
            orders,
            level_kept,
            room,
            strata,
            share,
            most_cpu,
            memory,
            beside,
            grains,
            grace,
            factor,
            shelf,
        )

    def limits(self, model: Array) -> Floats:
        """Return the limits of real jobs in seconds; infinity = none."""
        return self.jobs.limit_of[self.jobs.kind[model]]

    def draw(self, model: Array, campaign: Array, rng: np.random.Generator) -> dict[str, Any]:
        """Return the outcomes of jobs modelled after the given real ones, without the status: columns."""
        jobs, campaigns = len(model), int(campaign.max(initial=0)) + 1
        moves = rng.uniform(-1, 1, (2, campaigns))
        growing = self.shelf.growing()
        for rows in blocks(jobs):
            growing.add(OWN * rng.uniform(-1, 1, rows.stop - rows.start))
        own = growing.done()
        del growing
        # The more jobs a campaign has, the less it moves as a whole: it is a part of the distribution.
        aside = moves[1] * np.minimum(1.0, COMMON * jobs / np.maximum(np.bincount(campaign, minlength=campaigns), 1))
        wanted = [self._wanted(model, campaign, (REACH * moves[0], own), moves[1])]
        del moves
        run = self._runs(model, campaign, wanted, aside, rng)
        del aside
        drawn: dict[str, Any] = {"run_time": run}
        # Processor time and memory are those of one other job, so that they go together, known or not.
        reach = SHARE_REACH * rng.uniform(-1, 1, campaigns)
        if self.share is not None or self.memory is not None:
            drawn |= self._with_beside(run, self._beside(model, campaign, reach, own), own)
        del own
        for name, order in self.power.items():  # campaigns draw alike, whether they run long or not
            reach = REACH * rng.uniform(-1, 1, campaigns)
            look, power = order.loaded("value", "place", "group"), np.empty(jobs)
            for rows in blocks(jobs):
                of = model[rows]
                away = reach[campaign[rows]] + OWN * rng.uniform(-1, 1, len(of))
                value, real = look.values(of, away), look.value[look.place[of]]
                near = np.clip(value, real * (1 - POWER_SPREAD), real * (1 + POWER_SPREAD))
                power[rows] = rounded(near, self.grains[name])  # a user's program draws about the same each time
            drawn[name] = power
        return drawn

    def _runs(
        self, model: Array, campaign: Array, moved: list[Floats], aside: Floats, rng: np.random.Generator
    ) -> Floats:
        """Return run times in the order of the ``moved`` ones, which are taken out of the list.

        ``aside``: by what share, -1 … 1, each campaign is longer or shorter.
        """
        kind, wanted = self.jobs.kind[model], moved.pop()
        run, cut = whole(self.jobs.run), whole(self.cut)
        over, most = np.empty(len(model)), np.empty(len(model))
        for rows in blocks(len(model)):
            limit, ended, own = self.jobs.limit_of[kind[rows]], cut[model[rows]], np.log1p(run[model[rows]])
            beyond = np.where(ended, limit, 0.0)  # the values of jobs cut by their limits count from these
            over[rows] = np.expm1(own) - beyond
            near = np.maximum(AT_LIMIT, FARTHEST * np.abs(over[rows]))
            free, around = np.minimum(wanted[rows], np.log1p(limit)), over[rows]
            wanted[rows] = np.where(ended, np.clip(wanted[rows], around - near, around + near), free)
            most[rows] = np.where(ended, np.minimum(self.grace, beyond * (self.factor - 1)), limit)
        del run
        work = float(self.jobs.size_of[kind] @ over)
        del over
        value, common = self.strata.matched(model, wanted, most, rng)
        del wanted
        one, other = value, np.empty(len(model))
        for rows in blocks(len(model)):
            away = np.exp(BLUR * aside[campaign[rows]] + OWN_BLUR * rng.uniform(-1, 1, rows.stop - rows.start))
            alone = ~cut[model[rows]] & ~common[rows]
            real = value[rows].copy()
            one[rows], other[rows] = (
                np.where(alone, np.minimum(real * times, most[rows]), real) for times in (away, 1 / away)
            )
        del common
        size = self.jobs.size_of[kind]
        gain, brought = size * other, size * one
        gain -= brought
        excess = float(brought.sum()) - work
        del brought
        turn = turned(campaign, gain, excess, rng)
        one[turn] = other[turn]
        del gain, other, turn
        value = exchanged(self.strata.of[model], one, size, most, work, rng)
        del one, size
        for rows in blocks(len(model)):
            ended = cut[model[rows]]
            beyond = np.where(ended, self.jobs.limit_of[kind[rows]], 0.0)
            made = rounded(np.maximum(value[rows] + beyond, 0.0), self.grains["run_time"])
            value[rows] = np.where(ended, np.minimum(made, most[rows] + beyond), made)
        return value

    def _wanted(self, model: Array, campaign: Array, places: tuple[Floats, Column], farther: Floats) -> Floats:
        """Return run times some places away from the models' and moved by a share, -1 … 1, of the room there.

        ``places``: by campaign and by job; ``farther``: by campaign, for jobs that no limit ended.
        """
        value, level = np.empty(len(model)), whole(self.level)
        for k, order in enumerate(self.orders):
            look = order.loaded("value", "place", "group")
            for rows in blocks(len(model)):
                mine = np.flatnonzero(level[model[rows]] == k)
                if len(mine):
                    away = places[0][campaign[rows][mine]] + places[1][rows][mine]
                    value[rows.start + mine] = look.values(model[rows][mine], away)
        del look, level
        run, cut, room = whole(self.jobs.run), whole(self.cut), whole(self.room)
        for rows in blocks(len(model)):
            of = model[rows]
            own = np.log1p(run[of])
            moved = np.clip(value[rows], own - FARTHEST, own + FARTHEST)
            moved += farther[campaign[rows]] * np.minimum(room[of], FARTHEST)
            value[rows] = np.where(cut[of], value[rows], moved)
        return value

    def _beside(self, model: Array, campaign: Array, reach: Floats, own: Column) -> Array:
        """Return jobs of the same template and end some places away along the run times; the model if that is far."""
        order, run = self.orders[0].loaded("jobs", "place", "group"), whole(self.jobs.run)
        found = np.empty(len(model), dtype=np.int32 if len(run) < np.iinfo(np.int32).max else np.int64)
        for rows in blocks(len(model)):
            of = model[rows]
            beside = order.whose(of, reach[campaign[rows]] + own[rows])
            far = np.abs(np.log1p(run[beside]) - np.log1p(run[of])) > FARTHEST
            found[rows] = np.where(far, of, beside)
        return found

    def _with_beside(self, run: Floats, beside: Array, own: Column) -> dict[str, Floats]:
        """Return processor time and memory, those of the jobs beside."""
        drawn: dict[str, Floats] = {}
        if self.share is not None:
            share, drawn["cpu_time"] = whole(self.share), np.empty(len(run))
            for rows in blocks(len(run)):
                most = np.maximum(self.most_cpu, run[rows])  # some records hold absurd shares
                cpu = np.minimum(share[beside[rows]] * run[rows], most)
                drawn["cpu_time"][rows] = rounded(cpu, self.grains["cpu_time"])
            del share
        if self.memory is not None:
            order, drawn["used_mem"] = self.memory.loaded("value", "place", "group"), np.empty(len(run))
            for rows in blocks(len(run)):
                memory = order.values(beside[rows], own[rows])
                drawn["used_mem"][rows] = rounded(memory, self.grains["used_mem"])
        return drawn


def _known_apart(group: Array, value: Floats) -> Array:
    """Return groups in which known and unknown values are not together."""
    return small(group.astype(np.int64) * 2 + np.isnan(value))


def _share(cpu: Floats, run: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(run > 0, cpu / run, np.nan)


def mean_demand(submit: Floats, work: Floats) -> float:
    """Return the mean number of busy units of jobs in submit order; NaN where they all come at once."""
    seconds = float(submit[-1] - submit[0])
    return float(work.sum() / seconds) if seconds > 0 else float("nan")


def scaled_runs(
    run: Floats, size: Floats, limit: Floats, free: Marks, work: float, grain: float, most: float
) -> Floats:
    """Make the ``free`` jobs longer or shorter, none beyond its limit, so that Σ size · run is ``work``.

    No job changes by more than the share ``most`` of its run time, so the work may come out between.
    """
    missing = work - float((size * run).sum())
    most_of = np.where(free, size * (np.minimum(run * (1 + most), limit) - run if missing > 0 else run * most), 0.0)
    order = small(np.argsort(-size * run * free, kind="stable"))
    most_of = most_of[order]
    needed = np.cumsum(most_of)
    needed -= most_of
    needed = np.clip(abs(missing) - needed, 0.0, most_of)
    del most_of
    made = run.copy()
    for rows in blocks(len(order)):
        here = order[rows]
        made[here] += np.sign(missing) * needed[rows] / np.maximum(size[here], 1e-300)
    del order, needed
    for rows in blocks(len(made)):
        most_here = np.where(free[rows], limit[rows], np.inf)
        made[rows] = np.where(made[rows] == run[rows], run[rows], rounded(np.clip(made[rows], 0.0, most_here), grain))
    return made
