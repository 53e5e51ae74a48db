"""Scheduling on hosts as simple as can be, to check the compiled hosts against: lists, loops, the definitions in words.

A free state is a list with one ``[cores, memory, [thousandths of each GPU]]`` for each host. Whatever is asked about
the future (a reservation, a plan) is asked of the least that is free of every cell over some time.
"""

import copy
import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import pvariance

NAN = float("nan")
TIERED = ("lexicographic", "defrag", "load-balance", "tiers")


@dataclass
class Host:
    """One host; memory in KB."""

    cores: int
    memory: int = 2**40
    gpus: int = 0
    kind: str | None = None
    pool: str = ""


@dataclass(eq=False)
class Job:
    """One job; its demands are totals."""

    number: int
    submit: float
    run: float
    estimate: float
    cores: int
    memory: int = 0
    gpus: float = 0
    tasks: int | None = None
    kinds: frozenset | None = None
    pool: str | None = None
    start: float = NAN
    parts: list = field(default_factory=list)  # (host, cores, memory, {gpu: thousandths})
    end = property(lambda self: self.start + self.run)
    believed_end = property(lambda self: self.start + self.estimate)


class Cluster:
    """Hosts, an allocator, and what both need to place a job."""

    def __init__(self, hosts, allocator, typical=(), unit=1):
        self.hosts, self.allocator, self.typical, self.unit, self.cursor = hosts, allocator, typical, unit, 0
        self.most_cores = max(host.cores for host in hosts)
        self.most_gpus = max(host.gpus for host in hosts) * 1000

    def idle(self):
        return [[host.cores, host.memory, [1000] * host.gpus] for host in self.hosts]

    def usable(self, job):
        """Return the hosts that a job may use by pool and GPU type."""
        return [
            h
            for h, host in enumerate(self.hosts)
            if (job.pool is None or host.pool == job.pool)
            and (job.gpus == 0 or (host.gpus > 0 and (job.kinds is None or host.kind in job.kinds)))
        ]

    def pieces(self, job):
        """Return how many pieces a job has, what one takes, and whether they may go to any hosts."""
        usable = self.usable(job)
        most_cores, most_gpus = (max((getattr(self.hosts[h], n) for h in usable), default=0) for n in ("cores", "gpus"))
        if job.tasks is None and not 0 < job.gpus < 1 and (job.cores > most_cores or math.ceil(job.gpus) > most_gpus):
            count = math.ceil(job.gpus) if job.gpus else job.cores // self.unit
            return count, ((job.cores, count), (job.memory, count), 1 if job.gpus else 0), True
        tasks = job.tasks or 1
        each = job.gpus / tasks
        task = (job.cores // tasks, 1), (job.memory // tasks, 1), math.ceil(each) if each >= 1 else each
        return tasks, task, False

    def room(self, free, h, piece):
        """Return how many pieces a host has room for."""
        cores, memory, gpus = free[h]
        if cores < 0:
            return 0
        limits = [most_parts(cores, *piece[0]), most_parts(memory, *piece[1])]
        if piece[2] >= 1:
            limits.append(sum(left >= 1000 for left in gpus) // piece[2])
        elif piece[2] > 0:
            limits.append(sum(max(left, 0) // thousandths(piece[2]) for left in gpus))
        return max(min(limits), 0)

    def place(self, job, free, spare=None):
        """Return the parts of a job on hosts where it fits, or None; of equals, those without room in ``spare``."""
        count, piece, spread = self.pieces(job)
        usable = self.usable(job)
        if count == 1:
            return self.one_by_one(job, free, usable, 1, piece)
        rooms = {h: min(self.room(free, h, piece), count) for h in usable}
        choices = []
        for pool in dict.fromkeys(host.pool for host in self.hosts):
            members = [h for h in usable if self.hosts[h].pool == pool]
            if sum(rooms[h] for h in members) >= count:
                choices.append(members)
        if not choices:
            return None
        if not spread:
            return self.one_by_one(job, free, choices[0], count, piece)
        if piece[2] and self.allocator in TIERED:
            return self.by_tiers(free, job, choices, rooms, count, piece)
        plans = [self.spread_over(free, job, members, rooms, count, piece, spare) for members in choices]
        return min(plans, key=len)

    def spread_over(self, free, job, members, rooms, count, piece, spare):
        """Use the hosts with the most room first, so that they are as few as possible."""
        parts = []
        left = count

        def spared(h):
            return spare is not None and min(self.room(spare, h, piece), count) >= rooms[h]

        for h in sorted(members, key=lambda h: (-rooms[h], spared(h), h)):
            n = min(rooms[h], left)
            if n:
                idle = [d for d, milli in enumerate(free[h][2]) if milli >= 1000][:n] if piece[2] else []
                parts.append((h, n * job.cores // count, n * job.memory // count, dict.fromkeys(idle, 1000)))
                left -= n
        return parts

    def by_tiers(self, free, job, choices, rooms, count, piece):
        """Use as few hosts as an idle pool needs, or one more: RLTune's ways, all of them, best first."""
        idle = {h: min(self.room(self.idle(), h, piece), count) for h in self.usable(job)}
        found = []
        for members in choices:
            now, fewest = (fewest_hosts([r[h] for h in members], count) for r in (rooms, idle))
            if now <= fewest + 1:
                found.append((now, members, fewest))
        if not found:
            return None
        _, members, fewest = min(found, key=lambda pool: pool[0])
        members = [h for h in members if rooms[h] > 0]
        tiers = [
            sorted(
                (self.scored(free, members, way, more) for way in ways_on({h: rooms[h] for h in members}, count, n)),
                key=lambda scored: scored[:-1],
            )
            for more, n in ((False, fewest), (True, fewest + 1))
        ]
        best = tiers[0] or tiers[1]
        if self.allocator == "tiers" and all(tiers) and tiers[1][0][1] < tiers[0][0][1]:
            best = tiers[1]
        parts = []
        for h, n in sorted(best[0][-1].items()):
            idle = [d for d, milli in enumerate(free[h][2]) if milli >= 1000][:n]
            parts.append((h, n * job.cores // count, n * job.memory // count, dict.fromkeys(idle, 1000)))
        return parts

    def scored(self, free, members, way, more):
        """Return what to sort a way by, and the way."""
        whole = {h: 1000 * self.hosts[h].gpus for h in members}
        before = {h: sum(free[h][2]) for h in members}
        after = {h: before[h] - 1000 * way.get(h, 0) for h in members}
        partly = [[whole[h] - left[h] for h in members if 0 < left[h] < whole[h]] for left in (before, after)]
        use = [[1 - Fraction(left[h], whole[h]) for h in members] for left in (before, after)]
        frag, waste, even = len(partly[1]) - len(partly[0]), sum(partly[1]) - sum(partly[0]), pvariance(use[1])
        if self.allocator == "lexicographic":
            return more and frag > 0, sorted(way.items()), way
        order = (even, frag, waste) if self.allocator == "load-balance" else (frag, waste, even)
        return more and frag > 0, *order, sorted(way), way

    def one_by_one(self, job, free, members, count, piece):
        """Place tasks one after the other, each where the allocator likes it best."""
        free, parts, cursor = copy.deepcopy(free), [], self.cursor
        for _ in range(count):
            fitting = [h for h in members if self.room(free, h, piece) > 0]
            if not fitting:
                return None
            if self.allocator == "round-robin":
                h = min(fitting, key=lambda h: (h < cursor, h))
            else:
                h = max(fitting, key=lambda h: (self.like(free, h, piece), -h))
            cursor = h + 1
            part = (h, piece[0][0], piece[1][0], self.devices(free, h, piece))
            parts.append(part)
            self.take(free, [part])
        return parts

    def devices(self, free, h, piece):
        """Return the GPUs of a task: best fit for a share (fgd: the least fragmentation), the lowest for whole ones."""
        gpus = free[h][2]
        if piece[2] >= 1:
            return dict.fromkeys([d for d, left in enumerate(gpus) if left >= 1000][: piece[2]], 1000)
        if not piece[2]:
            return {}
        milli = thousandths(piece[2])
        fitting = [d for d, left in enumerate(gpus) if left >= milli]
        if self.allocator == "fgd":
            return {max(fitting, key=lambda d: (self.gain(free, h, piece, {d: milli}), -d)): milli}
        return {min(fitting, key=lambda d: (gpus[d], d)): milli}

    def gain(self, free, h, piece, held):
        after = copy.deepcopy(free[h])
        self.take({h: after}, [(h, piece[0][0], piece[1][0], held)])
        return math.floor((self.stuck(h, free[h]) - self.stuck(h, after)) * 1e6 + 0.5)

    def stuck(self, h, state):
        """Return F: the idle thousandths that typical tasks cannot use, each by its share."""
        found = 0.0
        for (cores, gpus, kinds), share in self.typical:
            each, idle = (1000 if gpus >= 1 else round(gpus * 1000)), sum(state[2])
            able = sum(left >= each for left in state[2])
            right = kinds is None or self.hosts[h].kind in kinds
            if gpus and right and cores <= state[0] and able >= max(int(gpus), 1):
                found += share * sum(left for left in state[2] if left < each)
            else:
                found += share * idle
        return found

    def like(self, free, h, piece):
        """Return how much the allocator likes a host for one task; the largest wins, of equals the first host."""
        cores, idle = free[h][0], sum(free[h][2])
        asked = thousandths(piece[2])
        taken = piece[0][0]
        left = Fraction(cores - taken, self.most_cores)
        left += Fraction(idle - asked, self.most_gpus) if self.most_gpus else 0
        if self.allocator == "best-fit":
            return -left
        if self.allocator == "worst-fit":
            return left
        if self.allocator == "dot-product":
            product = cores * taken / self.most_cores**2
            product += idle * asked / self.most_gpus**2 if self.most_gpus else 0
            return round(-product, 12)
        if self.allocator == "fgd":
            return self.gain(free, h, piece, self.devices(free, h, piece))
        if self.allocator in ("defrag", "load-balance", "tiers"):
            whole = self.hosts[h].gpus * 1000 if self.most_gpus else self.hosts[h].cores
            before, after = (idle, idle - asked) if self.most_gpus else (cores, cores - taken)
            partly = (0 < after < whole) - (0 < before < whole)
            waste = (whole - after) * (0 < after < whole) - (whole - before) * (0 < before < whole)
            used = (whole - before) / max(whole, 1)
            return (-used, -partly, -waste) if self.allocator == "load-balance" else (-partly, -waste, -used)
        return 0  # first-fit, lexicographic

    @staticmethod
    def take(free, parts, sign=-1):
        for h, cores, memory, gpus in parts:
            free[h][0] += sign * cores
            free[h][1] += sign * memory
            for d, milli in gpus.items():
                free[h][2][d] += sign * milli


def fewest_hosts(rooms, count):
    """Return how few hosts can take all pieces."""
    return next((n for n in range(1, len(rooms) + 1) if sum(sorted(rooms)[-n:]) >= count), math.inf)


def ways_on(rooms, count, hosts):
    """Yield RLTune's ways on a number of hosts, as pieces by host; see `tracekit.sim.hosts.ways`."""
    groups = [[h for h in rooms if rooms[h] == room] for room in sorted(set(rooms.values()), reverse=True)]
    for numbers in itertools.product(*(range(len(group) + 1) for group in groups)):
        if sum(numbers) != hosts:
            continue
        taken = [group[:n] for group, n in zip(groups, numbers, strict=True) if n]
        full = {h: rooms[h] for group in taken[:-1] for h in group}
        most = rooms[taken[-1][0]]
        for parts in itertools.combinations_with_replacement(range(most, 0, -1), len(taken[-1])):
            if sum(parts) + sum(full.values()) == count:
                yield full | dict(zip(taken[-1], parts, strict=True))


def thousandths(gpus):
    """Return GPUs in thousandths; an uneven share is rounded down."""
    return math.floor(gpus * 1000 + 1e-6)


def most_parts(room, asked, parts):
    """Return how many of ``parts`` even parts of what is asked for have room; n of them hold ⌊n · asked / parts⌋."""
    return (
        max((n for n in range(parts + 1) if n * asked // parts <= room), default=0)
        if parts > 1
        else (room // asked if asked else 10**9)
    )


def least(states):
    """Return the least that is free of every cell."""
    return [
        [
            min(s[h][0] for s in states),
            min(s[h][1] for s in states),
            [min(gpu) for gpu in zip(*(s[h][2] for s in states), strict=True)],
        ]
        for h in range(len(states[0]))
    ]


class Simulation:
    """Events, passes and backfilling, as the contract words them."""

    def __init__(self, jobs, cluster, policy, backfill, *, commit=False, outages=()):
        self.cluster, self.policy, self.backfill, self.commit = cluster, policy, backfill, commit
        self.to_come = sorted(jobs, key=lambda job: (job.submit, job.number))
        self.free, self.running, self.queue, self.now, self.committed = cluster.idle(), [], [], -math.inf, None

    def run(self):
        while self.to_come or self.queue:
            times = [job.submit for job in self.to_come[:1]] + [job.end for job in self.running]
            self.now = max(min(times), self.now)
            for job in [job for job in self.running if job.end <= self.now]:
                self.running.remove(job)
                self.cluster.take(self.free, job.parts, 1)
            while self.to_come and self.to_come[0].submit <= self.now:
                self.queue.append(self.to_come.pop(0))
            self.scheduling_pass()

    def value(self, job):
        r, n = max(job.estimate, 0.1) if job.estimate <= 0 else job.estimate, max(job.cores, 1)
        return {"fcfs": job.submit, "sjf": r, "ljf": -r, "saf": r * n, "largest": -n}[self.policy]

    def start(self, job, parts):
        job.start, job.parts = self.now, parts
        self.cluster.take(self.free, parts)
        self.cluster.cursor = parts[-1][0] + 1
        self.running.append(job)
        self.queue.remove(job)

    def scheduling_pass(self):
        order = sorted(self.queue, key=lambda job: (job is not self.committed, self.value(job), job.number))
        if self.backfill == "conservative":
            self.plan(order)
            return
        while order:
            parts = self.cluster.place(order[0], self.free)
            if parts is None:
                break
            self.start(order.pop(0), parts)
            self.committed = None
        if not order:
            return
        blocked, others = order[0], order[1:]
        self.committed = blocked if self.commit else None
        if self.backfill == "none":
            return
        shadow, then = self.reserve(blocked)
        if self.backfill == "easy-sjf":
            others.sort(key=lambda job: (job.estimate, job.number))
        for job in others:
            if self.now + job.estimate <= shadow:
                parts = self.cluster.place(job, self.free, least([self.free, then]))
            else:
                parts = self.cluster.place(job, least([self.free, then]))
                if parts is not None:
                    self.cluster.take(then, parts)
            if parts is not None:
                self.start(job, parts)

    def reserve(self, job):
        """Return when a job fits if running jobs end by their estimates, and what is free then beside it."""
        then = copy.deepcopy(self.free)
        ends = sorted(self.running, key=lambda other: other.believed_end)
        shadow = self.now
        while ends and (ends[0].believed_end <= shadow or self.cluster.place(job, then) is None):
            shadow = max(shadow, ends[0].believed_end)
            self.cluster.take(then, ends.pop(0).parts, 1)
        self.cluster.take(then, self.cluster.place(job, then, self.free))
        return shadow, then

    def plan(self, order):
        """Conservative: every job is planned at its earliest fit, in order; those planned for now start."""
        bookings = [(self.now, max(job.believed_end, self.now), job.parts) for job in self.running]
        left = []
        for job in order:
            time, parts = self.earliest(job, bookings)
            really = copy.deepcopy(self.free)
            self.cluster.take(really, parts)
            if time == self.now and all(c >= 0 and m >= 0 and min(g, default=0) >= 0 for c, m, g in really):
                self.start(job, parts)
            else:
                left.append(job)
            bookings.append((time, time + job.estimate, parts))
        self.committed = left[0] if self.commit and left else None

    def earliest(self, job, bookings):
        edges = sorted({self.now} | {edge for b, e, _ in bookings for edge in (b, e) if edge > self.now})
        for time in edges:
            moments = [time] + [edge for edge in edges if time < edge < time + job.estimate]
            states = []
            for moment in moments:
                state = self.cluster.idle()
                for begin, end, parts in bookings:
                    if begin <= moment < end:
                        self.cluster.take(state, parts)
                states.append(state)
            parts = self.cluster.place(job, least(states))
            if parts is not None:
                return time, parts
        raise AssertionError("a job that can never fit")
