"""The model *sessions*: users come, work in sessions, repeat themselves, and leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import gettempdir
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from generators.base import ModelInfo
from generators.common import (
    NOT_WORKLOAD,
    check_count,
    load_trace,
    made_machine,
    not_fitted,
    read_config,
    save_batches,
    save_trace,
    write_config,
)
from generators.in_order import Able
from generators.sessions import resampled, unusable
from generators.sessions.casting import cast
from generators.sessions.dealing import Dealer, blurred
from generators.sessions.histories import Floats, Histories, Ints, Plan
from generators.sessions.learnt import Learnt, labels_of
from generators.sessions.local_calendar import LocalCalendar, Place, Window
from generators.sessions.modelled import Habits
from generators.sessions.names import Names
from generators.sessions.outcomes import mean_demand, scaled_runs, sorts
from generators.sessions.privacy import nameless, pools
from generators.sessions.reading import Reading
from generators.sessions.rows import Rows
from generators.sessions.shelf import MEMORY, Shelf, blocks, small, whole
from generators.sessions.whatif import WhatIf, thinned
from tracekit import stats
from tracekit.errors import FormatError, UnknownName, UsageError, loads
from tracekit.large.source import check_disk
from tracekit.machine import Machine
from tracekit.schema import COLUMNS
from tracekit.trace import Trace

SKELETONS = ("resampled", "modelled")
#: Bytes of memory for each real job: of a trace read in parts, and in memory (docs/large.md).
BYTES_A_JOB = {"resampled": (150, 450), "modelled": (150, 500)}
#: Bytes on disk for each real job of a trace read in parts.
DISK_A_JOB = 250
#: A user active over more than this share of the trace stays for the whole synthetic trace.
LONG_TERM = 0.5
#: No run time is scaled by more than this to reach a load; what is left is a matter of how many users there are.
MAX_SCALING = 0.08
#: Of so small a share of a period, jobs are made in the time of the period before.
SURPLUS = 0.05
#: With fewer jobs than this the result is little more than a copy, and a note says so.
FEW_JOBS = 20
#: Run times are not scaled where they are so few different ones (as a share of the jobs): a scaled constant is another.
FEW_VALUES = 0.01
#: What of a load is left to the gaps, which may be stretched that much: other users would change the mixture more.
LOAD_LEFT = 0.05
#: Jobs that are planned at a time; more would not fit into two gigabytes.
MAX_PLANNED = 5_000_000
#: Users that must share whatever is learnt for a trace that is to be published, at least.
LEAST_SHARED = 5
#: … and where no number is given.
SHARED_BY = 10
#: Of what `save` writes: changes when other things are learnt.
LAYOUT = 2
NOTHING = WhatIf()


class Sessions:
    """Users, sessions, batches and templates; the skeleton decides which user submits when, the row model decides what.

    ``skeleton``: ``resampled`` moves real users' activity, ``modelled`` makes it up from fitted distributions.
    ``privacy``: k, the number of users that must share whatever is learnt about requests and habits.
    ``keep_unusable``: rows without a run time or a size have their share in the result.
    """

    name: ClassVar[str] = "sessions"
    info: ClassVar[ModelInfo] = ModelInfo(
        family="sessions",
        summary="users with sessions, batches and repeated jobs (the default)",
        licence="Apache-2.0",
        paper="after Zakay & Feitelson 2014 (users), Lall & Sharma 1996 (nearest-neighbour bootstrap)",
    )

    #: Jobs are learnt from by these columns; no others are read.
    learns_from: ClassVar[tuple[str, ...]] = tuple(c.name for c in COLUMNS if c.name not in NOT_WORKLOAD)

    @staticmethod
    def bytes_a_job(skeleton: str | None = None, *, in_parts: bool) -> int:
        """Return how much memory fitting and planning a period take for each real job."""
        return BYTES_A_JOB[skeleton or SKELETONS[0]][0 if in_parts else 1]

    def __init__(
        self, *, skeleton: str = "resampled", privacy: int = 1, sharing: bool = False, keep_unusable: bool = False
    ) -> None:
        if skeleton not in SKELETONS:
            raise UnknownName("skeleton", skeleton, SKELETONS)
        if isinstance(privacy, bool) or privacy < 1:
            raise UsageError(
                f"--privacy must be a whole number from 1 (users that share every learnt value), not {privacy}"
            )
        if sharing and skeleton != "modelled":
            raise UsageError("a trace for sharing reuses no user's calendar: it needs --skeleton modelled")
        if sharing and privacy < LEAST_SHARED:
            raise UsageError(f"a trace for sharing needs --privacy {LEAST_SHARED} or more, not {privacy}")
        self.skeleton, self.privacy, self.sharing, self.keep_unusable = skeleton, privacy, sharing, keep_unusable
        self.notes: list[str] = []
        self._shelf = MEMORY
        self._rows: Rows | None = None

    # ---- learning ------------------------------------------------------------------------------------------------

    def fit(self, trace: Trace, /, *, seed: int = 0) -> Self:
        """Learn from the usable jobs of a trace; nothing random happens, so ``seed`` has no effect."""
        return self._read([trace], trace.machine, trace.history, MEMORY, ordered=False)

    def fit_batches(self, able: Able, /, *, seed: int = 0) -> Self:
        """Learn from a trace that is read in batches; what is known of each job stays on disk."""
        source = able.source
        check_disk(Path(gettempdir()), DISK_A_JOB * able.jobs, "a model sessions learnt in parts")
        jobs = source.batches(self.learns_from)
        return self._read(jobs, source.machine, source.history, Shelf(on_disk=True), ordered=source.ordered)

    def _read(
        self, batches: Iterable[Trace], machine: Machine, history: tuple[str, ...], shelf: Shelf, *, ordered: bool
    ) -> Self:
        """Learn from batches of jobs."""
        reading = Reading(machine, shelf, keep_unusable=self.keep_unusable)
        for batch in batches:
            reading.add(batch)
        read = reading.done(ordered=ordered, least=1)
        del reading
        self._shelf, self.notes = shelf, read.notes
        submit, jobs = read.in_order(shelf)
        if len(jobs) < FEW_JOBS:
            self.notes.append(f"only {len(jobs)} jobs to learn from: the result differs little from the real jobs")
        self._calendar = LocalCalendar.of(submit, machine)
        self._facts: dict[str, Any] = {
            "jobs": len(jobs),
            "demand": stats.none_if_nan(mean_demand(submit, np.maximum(jobs.work(), 0.0))),
            "phase": float(self._calendar.local(submit[:1])[0]),
            "trace": machine.name,
            "history": list(history),
            "notes": self.notes,
        }
        self._histories, order = Histories.of(submit, whole(jobs.user), self._calendar, shelf)
        del submit
        labels, jobs = read.labels, jobs.ordered(order, shelf)
        del read, order
        jobs, _ = nameless(jobs, labels, self.privacy, shelf, rounding=self.sharing)
        self._learn(jobs)
        self._pool = pools(self._histories.size, ~self._histories.nameless, self._about, self.privacy)
        if self.skeleton == "modelled":
            self._habits = self._habits_of_all()
        return self

    def _learn(self, jobs: Learnt) -> None:
        """Learn from jobs without names, in the order of histories."""
        self._jobs, self._personal = jobs, tuple(jobs.personal)
        self._sort = self._shelf.keep(sorts(jobs.size_of[whole(jobs.kind)], whole(jobs.run)))
        self._rows = Rows.fit(jobs, whole(self._histories.turn), self._shelf)

    def _about(self) -> Floats:
        """Return what the jobs of each history are like: means of the logs of their sizes and run times."""
        jobs, owner, size = self._jobs, whole(self._histories.owner), np.maximum(self._histories.size, 1)
        sums = [np.bincount(owner, weights=np.log1p(jobs.size_of)[whole(jobs.kind)])]
        sums.append(np.bincount(owner, weights=np.log1p(whole(jobs.run))))
        return np.column_stack(sums) / size[:, None]

    def _habits_of_all(self) -> Habits:
        return Habits.fit(self._histories, self._pool, self._calendar, self._sort, self._shelf, by_users=self.sharing)

    # ---- making --------------------------------------------------------------------------------------------------

    def sample(self, n_jobs: int, /, *, seed: int = 0, what_if: WhatIf = NOTHING, reveal: bool = False) -> Trace:
        """Make exactly ``n_jobs`` jobs, as many periods of the real trace's length as it takes.

        ``reveal`` adds the column ``x_donor``: which real user (in the order of the labels) each job's user was
        modelled on. It exists to measure what an attacker could learn, and undoes the privacy of the names.
        """
        n_jobs = check_count(self.name, n_jobs)
        demand, tune = self.demand(what_if), 1.0
        best, least = pd.DataFrame(), np.inf
        for _ in range(4):  # the work of a number of jobs depends on the users drawn: iterate
            jobs = self._jobs_of(n_jobs, seed, what_if, tune)
            natural = self._demand_of(jobs) / demand
            jobs = self._loaded(jobs, demand)
            off = abs(self._demand_of(jobs) / demand - 1)
            if off < least or not len(best):
                best, least = jobs, off
            if not off > LOAD_LEFT:
                break
            tune = float(np.clip(tune / natural, 0.2, 5.0))
        return self._trace(best, seed, what_if, reveal=reveal)

    def chunks(self, n_jobs: int, /, *, seed: int = 0, what_if: WhatIf = NOTHING) -> Iterator[Trace]:
        """Make ``n_jobs`` jobs period by period, for traces that need not fit into memory.

        Every period has the load that is asked for, where `sample` has it only as a whole, so the run times differ
        from its by a few per cent.
        """
        left = check_count(self.name, n_jobs)
        demand, names, tune = self.demand(what_if), Names(), 1.0
        for _ in range(2):
            reached = self._demand_of(next(self.periods(seed, what_if, tune=tune))) / demand
            tune = tune / reached if abs(reached - 1) > MAX_SCALING else tune
        first = 1
        for jobs in self.periods(seed, what_if, tune=tune):
            part = self._loaded(jobs.iloc[:left], demand)
            named = bool((part["user"] >= 0).any())
            for rows in blocks(len(part)):
                yield self._trace(part.iloc[rows], seed, what_if, names=names, first=first + rows.start, named=named)
            first, left = first + len(part), left - len(part)
            if not left:
                return

    def _jobs_of(self, n_jobs: int, seed: int, what_if: WhatIf, tune: float) -> pd.DataFrame:
        parts: list[pd.DataFrame] = []
        made = 0
        for part in self.periods(seed, what_if, tune=tune, some=n_jobs < len(self._jobs) / 2):
            if len(parts) == 1 and 0 < n_jobs - made <= min(SURPLUS * made, len(part)):
                return self._with_few_more(parts[0], part, n_jobs - made)
            parts.append(part)
            made += len(part)
            if made >= n_jobs:
                break
        jobs = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]
        return jobs.iloc[:n_jobs].copy() if n_jobs < len(jobs) / 2 else jobs.iloc[:n_jobs]

    def _with_few_more(self, jobs: pd.DataFrame, later: pd.DataFrame, count: int) -> pd.DataFrame:
        """Return one period's jobs and a few of the next one, at the same hours of the week.

        Its quiet beginning alone would change how long the trace lasts, and with that the load of all.
        """
        unit, begin = self._calendar.unit_length, (len(later) - count) // 2
        few = later.iloc[max(begin, 0) : max(begin, 0) + count]
        at = few["submit_time"] - max(round(self._calendar.period / unit), 1) * unit
        first, last = jobs["submit_time"].iloc[[0, -1]]
        few = few.assign(submit_time=at.clip(first, last))
        return pd.concat([jobs, few]).sort_values("submit_time", kind="stable", ignore_index=True)

    def _demand_of(self, jobs: pd.DataFrame) -> float:
        """Return the mean number of busy units; NaN where there is no work or no time."""
        size = self._jobs.size_of[self._jobs.kind[jobs["_model"].to_numpy()]]
        demand = mean_demand(jobs["submit_time"].to_numpy(), size * jobs["run_time"].to_numpy())
        return demand if demand > 0 else float("nan")

    def demand(self, what_if: WhatIf) -> float:
        """Return the mean number of busy units that the what-if options lead to; NaN = unknown."""
        self._fitted()
        if what_if.demand is not None:
            return what_if.demand
        real = self._facts["demand"]
        if not real:  # unknown, or nothing runs
            return float("nan")
        work, kind = self._jobs.work(), whole(self._jobs.kind)
        total = max(work.sum(), 1e-300)
        work *= what_if.rates(self._jobs.table, kind, self._users())[kind]
        return float(real * work.sum() / total)

    def periods(
        self, seed: int, what_if: WhatIf = NOTHING, *, tune: float = 1.0, some: bool = False
    ) -> Iterator[pd.DataFrame]:
        """Make period after period of the real trace's length, without end.

        The tables are not quite those of a trace: persons are numbers, and ``_model`` is the real job after which a job
        is modelled. ``tune``: how many times as many users; ``some``: begin in any week, as only a few will be used;
        a trace of a year or more that is to start at a date begins at that time of the year.
        """
        self._fitted()
        calendar, phase = self._calendar, float(self._facts["phase"])
        season = 0.0
        if what_if.start is not None:
            calendar, phase = calendar.moved_to(what_if.start, self._jobs.machine.timezone)
            season = self._calendar.season(float(self._facts["phase"]), calendar, phase)
        rate = what_if.rates(self._jobs.table, whole(self._jobs.kind), self._users())
        natural = self.demand(replace(what_if, demand=None))
        if what_if.demand is not None and np.isfinite(natural):
            excess = what_if.demand / natural
            rate = rate * (excess if abs(excess - 1) > MAX_SCALING else 1.0)
        times = float(rate.max())
        if times > 1 and times * len(self._jobs) > MAX_PLANNED:
            raise UsageError(
                f"too many jobs requested: {times:,.0f} times as many as the real trace's {len(self._jobs):,} in "
                f"the same time (at most {MAX_PLANNED:,} are planned at once); request fewer, or fit to fewer jobs"
            )
        rate = rate * tune
        any_unit = np.random.default_rng([seed, 0x5EE5]).integers(calendar.units + 1) * calendar.unit_length
        skipped = season or (float(any_unit) if some else 0.0)
        for number in count():
            yield self._period(number, rate, calendar, phase, skipped, np.random.default_rng([seed, number]))

    def _period(
        self, number: int, rate: Floats, calendar: LocalCalendar, phase: float, skipped: float, rng: np.random.Generator
    ) -> pd.DataFrame:
        """Make one period; ``skipped`` seconds of the first one's beginning, from ``phase`` on, come at its end."""
        rows, histories = self._fitted(), self._histories
        most = float(rate.max())
        stays = histories.active >= LONG_TERM * self._calendar.period
        drawn, new_users, copy = cast(histories, stays, self._jobs.work, number, most, rng)
        plan = self._plan(drawn, new_users, copy, calendar, calendar.window(phase, number), skipped, rng)
        keep = rate / most  # by template
        if (keep < 1).any():
            classes = np.unique(keep, return_inverse=True)[1]
            kind = self._jobs.kind[plan.model]
            kept = thinned(plan.session * (int(classes.max()) + 1) + classes[kind], keep[kind], rng)
            plan = plan.take(kept)
            del kind, kept
        model, donor, user, at = plan.model, plan.donor, plan.new_user, plan.at
        turn = plan.turn
        del plan
        waiting = self._shelf.keep(at), self._shelf.keep(donor), self._shelf.keep(user)
        del at, donor, user
        made = rows.draw(model, turn, rng)
        del turn
        if self.sharing:  # jobs of a user are modelled on those of many: they keep one group and project
            made = blurred(made, rows.outcomes, model, rng)
            first = histories.first[whole(waiting[1])]
            made |= {name: codes[first] for name, codes in self._jobs.personal.items() if name != "app"}
            del first
        at = whole(waiting[0])
        in_time = small(np.argsort(at, kind="stable"))
        for name in list(made):
            made[name] = made[name][in_time]
        made["_model"] = model[in_time]
        del model
        at = at[in_time]
        for part in blocks(len(at)):
            at[part] = calendar.submit(at[part])
        made["submit_time"] = np.maximum.accumulate(at)
        del at
        user = whole(waiting[2])[in_time]
        user[histories.nameless[whole(waiting[1])[in_time]]] = -1
        return pd.DataFrame(made | {"user": user}, copy=False)

    def _plan(
        self,
        drawn: Ints,
        new_users: Ints,
        copy: Ints,
        calendar: LocalCalendar,
        window: Window,
        skipped: float,
        rng: np.random.Generator,
    ) -> Plan:
        """Plan which user submits when, by the skeleton; jobs without users follow the calendar of all jobs."""
        late = round((window.begin - self._facts["phase"]) / calendar.unit_length) * calendar.unit_length - skipped
        place = Place(calendar.home(self._facts["phase"]), window, late)
        modelled = (self.skeleton == "modelled") & ~self._histories.nameless[drawn]
        plans = []
        if not modelled.all():
            moved = ~modelled
            who = drawn[moved], new_users[moved], place, self._sort
            plans.append(resampled.plan_period(self._histories, calendar, *who, rng))
        if modelled.any():
            of = drawn[modelled], new_users[modelled], copy[modelled]
            plans.append(self._modelled(*of, place, rng))
        plan = plans[0] if len(plans) == 1 else Plan.joined(*plans)
        return plan.to_the_ends(window.begin, window.length) if calendar.drifts and not skipped else plan

    def _modelled(self, drawn: Ints, new_users: Ints, copy: Ints, place: Place, rng: np.random.Generator) -> Plan:
        """Plan by the skeleton ``modelled``; for sharing, jobs that followed each other are dealt out."""
        histories, habits = self._histories, self._habits
        if not self.sharing:
            return habits.plan_period(drawn, new_users, copy, place, self._sort, rng)
        owner, turn = whole(histories.owner).astype(np.int64), whole(histories.turn)
        kind, log_run = whole(self._jobs.kind).astype(np.int64), np.log1p(whole(self._jobs.run))
        dealer = Dealer.fit(owner, turn, habits.pool, kind, log_run, self.privacy)
        plan = habits.plan_period(drawn, new_users, copy, place, self._sort, rng, dealer)
        return replace(plan, model=dealer.models(plan, habits.pool, rng))

    def _loaded(self, jobs: pd.DataFrame, demand: float) -> pd.DataFrame:
        """Scale the run times of jobs that no limit ended until the demand is met, within MAX_SCALING."""
        rows = self._fitted()
        missing, run = demand / self._demand_of(jobs), jobs["run_time"].to_numpy()
        if not np.isfinite(missing) or len(pd.unique(run)) <= max(1, FEW_VALUES * len(run)):
            return jobs
        outcomes, model = rows.outcomes, jobs["_model"].to_numpy()
        size, limit, free = self._jobs.size_of[self._jobs.kind[model]], outcomes.limits(model), ~outcomes.cut[model]
        work = missing * float((size * run).sum())
        made = scaled_runs(run, size, limit, free, work, outcomes.grains["run_time"], MAX_SCALING)
        del size, limit, free, model
        if "cpu_time" in jobs.columns:
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio = np.where(run > 0, made / run, 1.0)
            grain = outcomes.grains["cpu_time"]
            cpu = jobs["cpu_time"].to_numpy() * ratio
            jobs = jobs.assign(cpu_time=np.round(cpu / grain) * grain if grain else cpu)
        return jobs.assign(run_time=made)

    def _trace(
        self,
        jobs: pd.DataFrame,
        seed: int,
        what_if: WhatIf,
        *,
        reveal: bool = False,
        names: Names | None = None,
        first: int = 1,
        named: bool | None = None,
    ) -> Trace:
        """Give the jobs all columns, the persons names, the jobs numbers from ``first`` on, and the trace its mark.

        ``named``: whether any job of the whole trace has a user.
        """
        names = names or Names()
        drawn = {str(name): jobs[name].to_numpy() for name in jobs.columns}
        jobs = pd.DataFrame(self._fitted().asked(drawn["_model"]) | drawn)
        if reveal:
            jobs = jobs.assign(x_donor=jobs["user"].to_numpy().astype(np.int64) % len(self._histories))
        jobs = unusable.unmarked(jobs.drop(columns="_model").reset_index(drop=True))
        user = jobs["user"].to_numpy()
        for name in self._personal:
            jobs[name] = names.give(user, jobs[name].to_numpy(), name[0])
        jobs["user"] = names.give(user, np.where(user < 0, -1, 0), "u")
        if not (bool((user >= 0).any()) if named is None else named):
            jobs = jobs.drop(columns="user")
        jobs["job_id"] = np.arange(first, first + len(jobs))
        facts = self._facts
        of = f" of {facts['trace']}" if facts["trace"] else ""
        how = "; ".join([f"skeleton {self.skeleton}, privacy {self.privacy}", *facts["notes"]])
        note = f"MADE by tracekit, not recorded: model sessions ({how}) fitted to {facts['jobs']} jobs{of}, seed {seed}"
        machine = self._jobs.machine
        if what_if.start is not None:
            machine = machine.replace(epoch=self._calendar.moved_to(what_if.start, machine.timezone)[0].epoch)
        return Trace(jobs, made_machine(machine, note), (*facts["history"], note))

    @property
    def machine(self) -> Machine:
        """Return the machine of the trace that was learnt."""
        self._fitted()
        return self._jobs.machine

    def _fitted(self) -> Rows:
        if self._rows is None:
            raise not_fitted(self.name)
        return self._rows

    def _users(self) -> int:
        return int((~self._histories.nameless).sum())

    # ---- folders -------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write config.json, the jobs learnt from as trace.parquet, and habits.npz.

        There are no names of persons in it. With the skeleton ``modelled`` there are no submit times either.
        """
        self._fitted()
        histories = self._histories
        config: dict[str, Any] = {"layout": LAYOUT, "skeleton": self.skeleton, "privacy": self.privacy}
        config |= {"facts": self._facts}
        config |= {"sharing": self.sharing}
        config |= {"wall": self._calendar.to_dict(), "personal": list(self._personal)}
        config |= {"source": self._jobs.machine.source, "nameless": histories.nameless.tolist()}
        config |= {"active": histories.active.tolist(), "labels": labels_of(self._jobs.table)}
        write_config(folder, self.name, config)
        if self._shelf.on_disk:
            save_batches((self._saved(rows) for rows in blocks(len(self._jobs))), self._jobs.machine, folder)
        else:
            save_trace(self._saved(slice(0, len(self._jobs))), folder)
        habits = self._habits if self.skeleton == "modelled" else self._habits_of_all()
        arrays: dict[str, Any] = habits.to_arrays()
        np.savez_compressed(Path(folder) / "habits.npz", **arrays)

    def _saved(self, rows: slice) -> Trace:
        """Return some of the jobs learnt from as `save` writes them."""
        histories, owner = self._histories, self._histories.owner[rows]
        reused = (self.skeleton == "resampled") | histories.nameless[owner]
        jobs: dict[str, Any] = {"job_id": np.arange(rows.start + 1, rows.stop + 1), **self._jobs.jobs(rows)}
        jobs["submit_time"] = np.where(reused, histories.at[rows], histories.earliest)
        jobs |= {"x_owner": owner.astype(np.int64), "x_turn": histories.turn[rows].astype(np.int64)}
        return Trace(pd.DataFrame(jobs), self._jobs.machine, tuple(self._facts["history"]))

    @classmethod
    @loads("a saved model")
    def load(cls, folder: Path) -> Self:
        """Read back what `save` wrote."""
        config = read_config(folder, cls.name)
        if config.get("layout") != LAYOUT:
            raise FormatError(
                folder, "was saved by an earlier version of the model sessions, which learnt other things: fit it again"
            )
        try:
            sharing = bool(config.get("sharing", False))
            model = cls(skeleton=config["skeleton"], privacy=config["privacy"], sharing=sharing)
            model._calendar, model._facts = LocalCalendar(**config["wall"]), config["facts"]
            model.notes = list(model._facts["notes"])
            jobs = load_trace(folder, str(config["source"]))
            labels = config.get("labels", {})  # whose order a file that was written in batches does not keep
            jobs = jobs.assign({name: jobs.jobs[name].cat.set_categories(of) for name, of in labels.items()})
            model._histories = Histories(
                jobs.jobs["x_owner"].to_numpy(dtype=np.int64),
                jobs.column("submit_time"),
                np.array(config["nameless"], dtype=bool),
                np.array(config["active"], dtype=np.float64),
                jobs.jobs["x_turn"].to_numpy(dtype=np.int64),
            )
            plain = jobs.replace(jobs=jobs.jobs.drop(columns=["x_owner", "x_turn"]))
            model._learn(Learnt.of(plain, tuple(config["personal"])))
            with (Path(folder) / "habits.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                model._habits = Habits.from_arrays(dict(arrays))
            model._pool = model._habits.pool
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise FormatError(folder, f"cannot be read as a saved model: {error!r}") from error
        return model
