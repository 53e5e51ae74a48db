"""A simulator as simple as can be, to check the fast one against: lists, loops, and the definitions word for word.

A machine is a list of hosts, and a job runs on one of them; a pool of alike processors is a machine of one host. At one
instant jobs end, outages begin and end, predictions that have run out are corrected and jobs arrive, in this order;
then there is one scheduling pass. All it asks about the future it asks a `Profile`: which job holds how many processors
of which host from when to when, be it a running job, a plan, a reservation or a planned outage.
"""

import itertools
import math
from dataclasses import dataclass, field
from typing import NamedTuple

NAN = float("nan")
WEEK = 7 * 86400.0
#: Seconds by which a prediction is moved beyond its first value, each time the job outlives it.
CORRECTIONS = [*(60 * m for m in (1, 5, 15, 30)), *(3600 * h for h in (1, 2, 5, 10, 20, 50, 100)), math.inf]
MULTIFACTOR = dict.fromkeys(["age_weight", "size_weight", "fair_weight"], 1000.0) | {"age_max": WEEK, "half_life": WEEK}
#: Policies by submit time, wait, estimate and processors; the smallest value starts first.
FORMULAS = {
    "sjf": lambda s, w, r, n: r,
    "ljf": lambda s, w, r, n: -r,
    "smallest": lambda s, w, r, n: n,
    "largest": lambda s, w, r, n: -n,
    "saf": lambda s, w, r, n: r * n,
    "laf": lambda s, w, r, n: -r * n,
    "sexp": lambda s, w, r, n: (w + r) / n,
    "lexp": lambda s, w, r, n: -(w + r) / n,
    "srf": lambda s, w, r, n: r / n,
    "lrf": lambda s, w, r, n: -r / n,
    "wfp3": lambda s, w, r, n: -((w / r) * (w / r) * (w / r)) * n,
    "unicep": lambda s, w, r, n: -w / (max(math.log2(n), 1e-9) * r),
    "f1": lambda s, w, r, n: math.log10(r) * n + 870 * math.log10(s),
    "f2": lambda s, w, r, n: math.sqrt(r) * n + 25600 * math.log10(s),
    "f3": lambda s, w, r, n: r * n + 6860000 * math.log10(s),
    "f4": lambda s, w, r, n: r * math.sqrt(n) + 530000 * math.log10(s),
}


@dataclass
class Rules:
    """The machine, and how a simulation is to be understood."""

    total: int = 0  # processors of a machine that is one pool …
    hosts: list[int] | None = None  # … or of every host: a job must fit on a single one
    commit: bool = False  # a picked job blocks until it starts
    arrivals_first: bool = False  # at one instant, and one event at a time, each with its scheduling pass
    interval: float = 0  # seconds between scheduling passes; 0: one at every event
    reaction: float = 0  # seconds from an event to its scheduling pass
    grouped: float = 0  # seconds within which expected ends count as one; twice as many in each further group
    last_two: bool = False  # estimates are the mean of the user's last two run times, at most what was asked for
    predict: str = ""  # the same for "order", "backfill" or "both"; what backfilling goes by is corrected
    outages: tuple = ()  # (from, to, processors); known from the beginning if announced, else from when they begin
    announced: bool = True
    outage_mode: str = "drain"  # running jobs at an outage: drain (they run on), kill or requeue
    headroom: float = math.inf  # watts that running jobs may draw together
    sleep: tuple | None = None  # of each host: idle seconds, seconds to turn off and to wake up; None: no sleep
    compat: bool = False  # RLScheduler's wait, −1 − submit, in wfp3 and unicep
    options: dict = field(default_factory=lambda: MULTIFACTOR)


@dataclass(eq=False)
class Job:
    """One job; numbers are in the order of submit times, ties as in the file."""

    number: int
    submit: float
    run: float
    asked: float  # the user's estimate
    procs: int
    user: int
    random: float  # its value under the policy random
    previous: int  # number of the job it is submitted after; −1: none
    think: float  # seconds from that job's end to the submit
    watts: float = 0  # on top of the idle machine
    seen: float = NAN  # what orders go by
    predicted: float = NAN  # estimate at submit …
    believed: float = NAN  # … and as corrected: what backfilling goes by
    corrections: int = 0
    start: float = NAN
    host: int = -1
    end = property(lambda self: self.start + self.run)
    estimated_end = property(lambda self: self.start + self.believed)


class Schedule(NamedTuple):
    """What came out, job by job; ``pieces`` are the stretches (job, from, to) of holding processors."""

    submit: list[float]  # of followers: think time after their predecessor ended
    start: list[float]
    run: list[float]  # of jobs that an outage killed: until then
    host: list[int]
    pieces: list[tuple[int, float, float]]


def simulate(jobs, policy, backfill, rules):
    """Return the schedule of ``jobs``, a dict of lists by submit time.

    They are submit, run, estimate and procs, and, where they matter, user, random, previous, think and watts.
    """
    world = Simulation(jobs, policy, backfill, rules)
    world.run_all()
    columns = [[getattr(job, name) for job in world.jobs] for name in ("submit", "start", "run", "host")]
    return Schedule(*columns, world.pieces)


class Account:
    """What one user holds and has used, in processors and processor-seconds; usage is halved every half-life."""

    def __init__(self, half_life):
        self.used, self.held, self.since, self.half_life = 0.0, 0, 0.0, half_life

    def at(self, now):
        if now <= self.since:
            return self.used
        kept = 2.0 ** (-(now - self.since) / self.half_life)
        return self.used * kept + self.held * (1 - kept) * self.half_life / math.log(2.0)

    def hold(self, now, procs):
        self.used = self.at(now)
        self.held += procs
        self.since = now


def in_groups(ends, window):
    """Return, for each of some ascending ends, the last end of its group: all within a window of the first."""
    seen = {}
    while ends:
        group = [end for end in ends if end <= ends[0] + window] if window else ends[:1]
        seen |= dict.fromkeys(group, group[-1])
        ends = ends[len(group) :]
        window *= 2
    return seen


class Profile:
    """The processors of every host from now on. By estimates: a running job past its estimate counts as ending now."""

    def __init__(self, now, hosts, running, outages, headroom=math.inf, grouped=0):
        self.now, self.hosts, self.outages, self.headroom = now, hosts, outages, headroom
        ends = in_groups(sorted(job.estimated_end for job in running), grouped)
        self.taken = [(job.host, now, ends[job.estimated_end], job.procs) for job in running]
        self.drawn = [(now, ends[job.estimated_end], job.watts) for job in running]
        self.watts = headroom - sum(job.watts for job in running)  # left, really
        self.free = [self.size(host, now) for host in range(len(hosts))]  # really, not by estimates
        for job in running:
            self.free[job.host] -= job.procs

    def size(self, host, time):
        """Return the processors of a host that no outage has taken away."""
        away = sum(procs for begin, end, procs in self.outages if begin <= time < end)
        return max(self.hosts[host] - away, 0)

    def room(self, host, time):
        return self.size(host, time) - sum(n for h, begin, end, n in self.taken if h == host and begin <= time < end)

    def edges(self):
        """Return every moment at which room can change."""
        taken = {edge for _, begin, end, _ in self.taken for edge in (begin, end)}
        return taken | {edge for begin, end, _ in self.outages for edge in (begin, end)}

    def has_room(self, host, job, time):
        """Return whether a host has room for a job from ``time`` on, over its whole estimated length."""
        moments = [time] + [edge for edge in self.edges() if time < edge < time + job.believed]
        return all(self.room(host, moment) >= job.procs and self.watts_at(moment) >= job.watts for moment in moments)

    def watts_at(self, time):
        return self.headroom - sum(watts for begin, end, watts in self.drawn if begin <= time < end)

    def host_now(self, job):
        """Return the first host on which a job can start now without delaying another; None if there is none.

        Beside a reservation that is: it ends by the shadow time, or the host has room for it beside the reserved job.
        A job of no length delays no other.
        """
        for host, free in enumerate(self.free):
            if (
                job.procs <= free
                and job.watts <= self.watts
                and (job.believed <= 0 or self.has_room(host, job, self.now))
            ):
                return host
        return None

    def earliest(self, job):
        """Return the earliest time at which a host has room for a job, and the first such host."""
        times = sorted({self.now} | {edge for edge in self.edges() if edge > self.now})
        return next((t, host) for t in times for host in range(len(self.hosts)) if self.has_room(host, job, t))

    def book(self, job, time, host, at_least=-math.inf):
        """Keep processors for a job over its estimated length, and until ``at_least``."""
        self.taken.append((host, time, max(time + job.believed, at_least), job.procs))
        self.drawn.append((time, max(time + job.believed, at_least), job.watts))


class Simulation:
    """The state at one time."""

    def __init__(self, jobs, policy, backfill, rules):
        self.policy, self.backfill, self.rules = policy, backfill, rules
        self.hosts = rules.hosts or [rules.total]
        absent = {"user": 0, "random": 0, "previous": -1, "think": 0, "watts": 0}
        columns = [jobs[name] for name in ("submit", "run", "estimate", "procs")]
        columns += [jobs.get(name, [value] * len(columns[0])) for name, value in absent.items()]
        self.jobs = [Job(number, *row) for number, row in enumerate(zip(*columns, strict=True))]
        self.history = {job.user: [] for job in self.jobs}  # run times of the user's jobs that have ended
        self.accounts = {user: Account(rules.options["half_life"]) for user in self.history}
        self.everybody = Account(rules.options["half_life"])
        self.held = [job for job in self.jobs if job.previous >= 0]  # until their predecessor ends
        self.to_come = [job for job in self.jobs if job.previous < 0]
        self.queue, self.running, self.pieces = [], [], []  # running: in the order of starting
        self.changes = {edge for begin, end, _ in rules.outages for edge in (begin, end)}  # of the machine
        self.now = self.last_pass = -math.inf
        self.due = None  # the scheduling pass that an event has caused, with a reaction time
        self.first_event = min([job.submit for job in self.to_come] + list(self.changes), default=0)
        self.committed = None  # the job that was picked and blocks, with commit …
        self.shadow = None  # … and its shadow time, which RLScheduler works out once
        assert all(job.procs <= max(self.hosts) for job in self.jobs), "a job that can never fit"
        changing = rules.outages or rules.predict or self.held
        assert not (changing and rules.arrivals_first), (
            "dependencies, outages and predictions need the usual order of events"
        )
        assert not (rules.outages and backfill == "rlscheduler"), "rlscheduler knows nothing of outages"
        assert not (rules.outages and len(self.hosts) > 1), "outages are of a machine that is one pool"

    def run_all(self):
        """Simulate until every job has started for good."""
        while (time := self.next_event()) is not None:
            self.now = time
            self.happen()
            if self.queue and self.rules.reaction and not self.rules.interval:
                self.due = time + self.rules.reaction if self.due is None else self.due
                if self.due > time:
                    continue
                self.due = None
            if self.queue and (not self.rules.interval or next(t for t in self.ticks() if t >= time) == time):
                self.last_pass = time
                self.scheduling_pass()
        self.pieces += [(job.number, job.start, job.end) for job in self.running]

    def ticks(self):
        """Return the times of scheduling passes at an interval."""
        first = self.first_event + self.rules.reaction
        return (first + turn * self.rules.interval for turn in itertools.count())

    def next_event(self):
        """Return the time of the next event; None when every job has started for good."""
        changes = [time for time in self.changes if time > self.now]
        stoppable = self.running and changes and self.rules.outage_mode != "drain"
        if not (self.to_come or self.held or self.queue or stoppable):
            return None
        times = [job.submit for job in self.to_come] + [job.end for job in self.running] + changes
        if self.rules.predict in ("backfill", "both"):
            times += [job.estimated_end for job in self.running if job.estimated_end > self.now]
        if self.rules.interval and self.queue:
            times.append(next(t for t in self.ticks() if t >= self.now and t > self.last_pass))
        if self.due is not None:
            times.append(self.due)
        return max(self.now, min(times))

    def happen(self):
        """Let everything happen that happens now, but for the scheduling pass."""
        ending = sorted((job for job in self.running if job.end <= self.now), key=lambda job: job.end)
        if self.rules.arrivals_first:  # one event only
            arriving = [job for job in self.to_come if job.submit <= self.now]
            if arriving and (not ending or arriving[0].submit <= ending[0].end):
                self.arrive(arriving[0])
            elif ending:
                self.finish(ending[0])
            return
        for job in ending:
            self.finish(job)
        if self.now in self.changes and self.rules.outage_mode != "drain":
            self.stop_jobs()
        if self.rules.predict in ("backfill", "both"):
            self.correct()
        for job in [job for job in self.to_come if job.submit <= self.now]:
            self.arrive(job)

    def finish(self, job):
        """Let a job end; its followers think, and are submitted after that."""
        self.leave(job)
        self.history[job.user].append(job.run)
        for other in [other for other in self.held if other.previous == job.number]:
            self.held.remove(other)
            other.submit = self.now + other.think
            self.to_come.append(other)

    def leave(self, job):
        self.running.remove(job)
        self.hold(job, -job.procs)
        self.pieces.append((job.number, job.start, self.now))

    def hold(self, job, procs):
        self.everybody.hold(self.now, procs)
        self.accounts[job.user].hold(self.now, procs)

    def stop_jobs(self):
        """Kill or requeue jobs that an outage leaves no processors for, the latest start first."""
        while self.profile().free[0] < 0:
            job = self.running[-1]
            if self.rules.outage_mode == "kill":
                job.run = self.now - job.start
                self.finish(job)
            else:
                self.leave(job)
                self.queue.append(job)
                job.start, job.believed, job.corrections = NAN, job.predicted, 0

    def correct(self):
        """Give every running job that has outlived its prediction a longer one, up to what its user asked for."""
        for job in self.running:
            while job.estimated_end <= self.now < job.start + job.asked:
                job.believed = min(job.predicted + CORRECTIONS[job.corrections], job.asked)
                job.corrections += 1

    def arrive(self, job):
        self.to_come.remove(job)
        self.queue.append(job)
        job.predicted = job.seen = job.asked
        last = self.history[job.user][-2:]
        if last:
            mean = min(sum(reversed(last)) / len(last), job.asked)
            if self.rules.last_two or self.rules.predict in ("order", "both"):
                job.seen = mean
            if self.rules.last_two or self.rules.predict in ("backfill", "both"):
                job.predicted = mean
        job.believed = job.predicted

    def length(self, job):
        """Return what the shortest job first goes by: the order's prediction where orders go by one."""
        return job.seen if self.rules.predict in ("order", "both") else job.believed

    def priority(self, job):
        """Return the policy's value of a waiting job: the smallest starts first."""
        s, w, r = job.submit, self.now - job.submit, job.seen
        if self.policy in ("fcfs", "lcfs"):
            return s if self.policy == "fcfs" else -s
        if self.policy == "random":
            return job.random
        if self.policy == "capability-first":
            return job.procs < 0.2 * sum(self.hosts), job.number
        if self.policy == "adaptive":
            return job.procs if sum(other.procs for other in self.running) > 0.8 * sum(self.hosts) else s
        if self.policy == "multifactor":
            return self.multifactor(job)
        if self.rules.compat and self.policy in ("wfp3", "unicep"):
            w = -1 - s
        return FORMULAS[self.policy](s if s > 0 else 0.1, w, r if r > 0 else 0.1, job.procs)

    def multifactor(self, job):
        """Return Slurm's sum of age, size and fair share, negated; users have equal shares, queues do not count."""
        option, everybody = self.rules.options, self.everybody.at(self.now)
        usage = self.accounts[job.user].at(self.now) / everybody if everybody > 0 else 0.0
        return -(
            option["age_weight"] * min((self.now - job.submit) / option["age_max"], 1.0)
            + option["size_weight"] * job.procs / sum(self.hosts)
            + option["fair_weight"] * 2.0 ** (-usage * len(self.accounts))
        )

    def profile(self):
        """Return what is known of the future; one reservation is made by ends in groups, plans of all jobs are not."""
        grouped = 0 if self.backfill == "conservative" else self.rules.grouped
        known = [outage for outage in self.rules.outages if self.rules.announced or outage[0] <= self.now]
        return Profile(self.now, self.hosts, self.running, known, self.rules.headroom, grouped)

    def scheduling_pass(self):
        """Start whatever may start now."""
        order = sorted(self.queue, key=lambda job: (self.priority(job), job.number))
        if self.committed is not None:
            order = [self.committed] + [job for job in order if job is not self.committed]
        if self.backfill == "conservative":
            self.plan_all(order, self.profile())
        else:
            self.reserve_one(order, self.profile())

    def start(self, job, host, profile):
        profile.book(job, self.now, host)
        profile.free[host] -= job.procs
        profile.watts -= job.watts
        job.start, job.host = self.now, host
        self.queue.remove(job)
        self.running.append(job)
        self.hold(job, job.procs)

    def plan_all(self, order, profile):
        """Conservative backfilling: plan every waiting job at its earliest fit; those planned for now start.

        Behind a running job that is past its estimate they have to wait until there is really room.
        """
        left = []
        for job in order:
            time, host = profile.earliest(job)
            if time == self.now and job.procs <= profile.free[host] and job.watts <= profile.watts:
                self.start(job, host, profile)
            else:
                profile.book(job, time, host)
                left.append(job)
        self.committed = left[0] if self.rules.commit and left else None

    def reserve_one(self, order, profile):
        """EASY and its kin: start jobs until one does not fit; that one gets the reservation, others fill the gaps."""
        while order and (host := profile.host_now(order[0])) is not None:
            self.start(order.pop(0), host, profile)
            self.committed = self.shadow = None
        if not order:
            return
        blocked, others = order[0], order[1:]
        if self.rules.commit:
            self.committed = blocked
        if self.backfill == "none":
            return
        profile = self.profile()  # with the jobs that have just started, whose ends may join a group
        shadow, host = profile.earliest(blocked)
        if self.backfill == "rlscheduler":  # by submit time; a job that does not end before the shadow time stays
            if self.shadow is None or not self.rules.commit:
                self.shadow = shadow
            others = [job for job in others if self.now + job.believed < self.shadow]
            others.sort(key=lambda job: job.number)
        else:  # even a job of no length has its moment
            profile.book(blocked, shadow, host, at_least=math.nextafter(shadow, math.inf))
        if self.backfill == "easy-sjf":
            others.sort(key=lambda job: (self.length(job), job.number))
        for job in others:
            if (host := profile.host_now(job)) is not None:
                self.start(job, host, profile)
