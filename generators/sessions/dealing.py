"""For sharing: what one real user did in a row is dealt out, so that no synthetic user repeats it.

The skeleton *modelled* makes up dates, hours and pauses, but a synthetic user still goes through real working days:
which jobs followed each other is copied. Six requests in a row single out most users. Here the order is made up, too:

* a synthetic user has about as many working days as two users of the pool, and takes them from the whole pool, one by
  one;
* every session of a working day is exchanged for another one of the pool with about as many jobs;
* every run (jobs of one template in a row) gets a template from a small repertoire that is drawn for the synthetic user
  from the pool's runs of about that length;
* a job's outcome is modelled on any job of that template: of the pool, if k of its users have it, else of everybody.
  Neighbours in a run are modelled on the same job as often as real neighbours are alike;
* pauses are longer or shorter by up to a third, as scripts with a fixed interval are recognised by it;
* run times are a few per cent off, so that values of real jobs are not repeated to the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from generators.sessions.histories import NIGHT, RETURN, Floats, Ints, Plan
from generators.sessions.outcomes import Outcomes, rounded

#: Lengths of sessions and runs, in jobs: classes begin at these.
CLASSES = (2, 3, 5, 10, 20, 50)
#: A user's repertoire for a class of runs: the square root of their number, and so many more.
MORE = 1
#: Pauses are longer or shorter by up to this, in ln(seconds).
UNSTEADY = 0.35
#: Share of a run time by which it is off, at most, and seconds that short ones are off.
BLUR, SECONDS = 0.05, 3.0


@dataclass(frozen=True)
class Groups:
    """Members by group: those of group g are ``member[first[g]:first[g + 1]]``."""

    first: Ints  # (groups + 1,)
    member: Ints

    @classmethod
    def by(cls, group: Ints, groups: int) -> Self:
        """Sort members 0, 1, 2 … into groups 0 … groups − 1."""
        order = np.argsort(group, kind="stable")
        return cls(np.searchsorted(group[order], np.arange(groups + 1)).astype(np.int64), order.astype(np.int64))

    def draw(self, group: Ints, rng: np.random.Generator) -> Ints:
        """Return a random member of each group; −1 of an empty one."""
        size = self.first[group + 1] - self.first[group]
        place = self.first[group] + np.floor(rng.random(len(group)) * size).astype(np.int64)
        return np.where(size > 0, self.member[np.minimum(place, len(self.member) - 1)], -1)


@dataclass(frozen=True)
class Dealer:
    """Sessions, runs and jobs of the real trace, by pool. Arrays over jobs have shape (jobs,)."""

    kind: Ints  # (jobs,) template
    pool: Ints  # (jobs,)
    session_first: Ints  # (sessions,)
    session_size: Ints
    sessions: Groups  # by pool, class, and whether a working day begins with it
    every_session: Groups  # by class and that
    run_kind: Ints  # (runs,)
    runs: Groups  # by pool and class
    every_run: Groups  # by class
    source: Ints  # (jobs,) group of jobs on which outcomes are modelled …
    sources: Groups
    pool_source: Ints  # (pools · kinds,) … of a pool's template
    alike: float  # chance that a job is modelled on the same real job as its neighbour in the run

    @classmethod
    def fit(cls, owner: Ints, turn: Ints, pool_of: Ints, kind: Ints, log_run: Floats, k: int) -> Self:
        """Learn from jobs in the order of histories; ``pool_of``: pool of each history."""
        pool = pool_of[owner]
        pools, kinds, classes = int(pool.max()) + 1, int(kind.max()) + 1, len(CLASSES) + 1
        first = np.flatnonzero(turn >= RETURN)
        size = np.diff(np.append(first, len(turn)))
        night = (turn[first] == NIGHT).astype(np.int64)
        within = _class_of(size) * 2 + night
        begins = (turn >= RETURN) | (np.diff(kind, prepend=-1) != 0)
        run = np.flatnonzero(begins)
        length = _class_of(np.diff(np.append(run, len(turn))))
        # Outcomes: the pool's jobs of a template where k of its users have it, else everybody's.
        mine = pool * kinds + kind
        pairs = np.unique(np.column_stack([mine, owner]), axis=0)[:, 0]
        users = np.bincount(pairs, minlength=pools * kinds)
        enough = users >= k
        pool_source = np.where(enough, kinds + np.arange(pools * kinds), np.tile(np.arange(kinds), pools))
        everybody = np.concatenate([kind, kinds + mine[enough[mine]]])
        jobs = np.concatenate([np.arange(len(kind)), np.flatnonzero(enough[mine])])
        sources = Groups.by(everybody, kinds + pools * kinds)
        inside = np.flatnonzero(~begins)
        return cls(
            kind,
            pool,
            first,
            size.astype(np.int64),
            Groups.by(pool[first] * classes * 2 + within, pools * classes * 2),
            Groups.by(within, classes * 2),
            kind[run],
            Groups.by(pool[run] * classes + length, pools * classes),
            Groups.by(length, classes),
            pool_source[mine],
            Groups(sources.first, jobs[sources.member]),
            pool_source,
            _alike(kind, log_run, inside),
        )

    def working_days(self, pool_of: Ints, drawn: Ints, day_owner: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Choose the working days of synthetic users with the habits of ``drawn``; return them and whose they are.

        ``pool_of``: pool of each history; ``day_owner``: history of each working day.
        """
        pools = int(pool_of.max()) + 1
        count = np.bincount(day_owner, minlength=len(pool_of))
        members, days = Groups.by(pool_of, pools), Groups.by(pool_of[day_owner], pools)
        pool = pool_of[drawn]
        one, other = (np.log(np.maximum(count[members.draw(pool, rng)], 1)) for _ in range(2))
        between = rng.random(len(drawn))
        wanted = np.maximum(np.round(np.exp(one + between * (other - one))), 1).astype(np.int64)
        who = np.repeat(np.arange(len(drawn)), wanted)
        return days.draw(pool[who], rng), who

    def jobs_of(self, day_first: Ints, day_size: Ints, pool: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return the jobs of working days with all sessions exchanged, and the day of each; ``pool``: of each day."""
        begin = np.searchsorted(self.session_first, day_first)
        end = np.searchsorted(self.session_first, day_first + day_size)
        day = np.repeat(np.arange(len(day_first)), end - begin)
        old = np.arange(len(day)) - np.repeat(np.cumsum(end - begin) - (end - begin), end - begin) + begin[day]
        night = (np.diff(day, prepend=-1) != 0).astype(np.int64)
        within = _class_of(self.session_size[old]) * 2 + night
        new = self.sessions.draw(pool[day] * (len(CLASSES) + 1) * 2 + within, rng)
        new = np.where(new >= 0, new, self.every_session.draw(within, rng))
        new = np.where(new >= 0, new, old)
        size = self.session_size[new]
        which = np.repeat(np.arange(len(new)), size)
        job = np.arange(len(which)) - (np.cumsum(size) - size)[which] + self.session_first[new][which]
        return job, day[which]

    def unsteady(self, count: int, rng: np.random.Generator) -> Floats:
        """Return factors for pauses: scripts that submit every ten seconds would be recognised by that."""
        return np.exp(UNSTEADY * rng.uniform(-1, 1, count))

    def models(self, plan: Plan, pool_of: Ints, rng: np.random.Generator) -> Ints:
        """Return the real job on which each planned job is modelled, with new templates run by run."""
        kind = self.kind[plan.model]
        begins = (plan.turn >= RETURN) | (np.diff(kind, prepend=-1) != 0)
        first = np.flatnonzero(begins)
        size = np.diff(np.append(first, len(plan)))
        user, pool, length = plan.new_user[first], pool_of[plan.donor[first]], _class_of(size)
        classes = len(CLASSES) + 1
        # A repertoire for every user and class: ``count`` runs of the pool, drawn once; earlier ones are preferred.
        group, place = np.unique(user * classes + length, return_inverse=True)
        count = np.ceil(np.sqrt(np.bincount(place))).astype(np.int64) + MORE
        head = np.zeros(len(group), dtype=np.int64)
        head[place] = np.arange(len(first))  # any run of the group
        entry = np.repeat(np.arange(len(group)), count)
        where = pool[head][entry] * classes + length[head][entry]
        drawn = self.runs.draw(where, rng)
        drawn = np.where(drawn >= 0, drawn, self.every_run.draw(length[head][entry], rng))
        start = np.cumsum(count) - count
        choice = start[place] + np.floor(rng.random(len(first)) ** 2 * count[place]).astype(np.int64)
        wanted = self.run_kind[drawn][choice]
        which = np.cumsum(begins) - 1
        source = self.pool_source[pool * (int(self.kind.max()) + 1) + wanted][which]
        fresh = begins | (rng.random(len(plan)) >= self.alike)
        model = self.sources.draw(source, rng)
        return np.asarray(model[np.maximum.accumulate(np.where(fresh, np.arange(len(plan)), 0))])


def _class_of(size: Ints) -> Ints:
    return np.searchsorted(CLASSES, size, side="right").astype(np.int64)


def _alike(kind: Ints, log_run: Floats, inside: Ints) -> float:
    """Return the correlation, from 0, of run times of neighbours in a run, beyond what their template explains."""
    if len(inside) < 3:
        return 0.0
    count = np.bincount(kind)
    rest = log_run - (np.bincount(kind, weights=log_run) / np.maximum(count, 1))[kind]
    one, other = rest[inside - 1], rest[inside]
    if not (one.std() > 0 and other.std() > 0):
        return 0.0
    return float(np.clip(np.corrcoef(one, other)[0, 1], 0.0, 0.95))


def blurred(made: dict[str, Any], outcomes: Outcomes, model: Ints, rng: np.random.Generator) -> dict[str, Any]:
    """Return drawn columns with run times a few per cent off, none beyond its limit: values of real jobs are not kept.

    Jobs that a limit ended stay as they are; processor time follows the run time.
    """
    run, limit = made["run_time"], outcomes.limits(model)
    most = np.maximum(BLUR * run, np.minimum(SECONDS, run / 2))
    moved = rounded(run + most * rng.uniform(-1, 1, len(model)), outcomes.grains["run_time"])
    new = np.where(outcomes.cut[model], run, np.minimum(moved, limit))
    found = {**made, "run_time": new}
    if "cpu_time" in made:
        ratio = np.divide(new, run, out=np.ones(len(model)), where=run > 0)
        found["cpu_time"] = rounded(made["cpu_time"] * ratio, outcomes.grains["cpu_time"])
    return found
