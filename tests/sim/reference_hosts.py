"""Scheduling on hosts as simple as can be, to check the compiled hosts against: lists, loops, the definitions in words.

A free state is a list with one ``[cores, memory, [thousandths of each GPU]]`` for each host. Whatever is asked about
the future (a reservation, a plan) is asked of the least that is free of every cell over some time. Events, policies,
predictions, dependencies and intervals are those of `reference`.
"""

import copy
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import pvariance

from . import reference

TIERED = ("lexicographic", "defrag", "load-balance", "tiers")


@dataclass
class Host:
    """One host; memory in KB."""

    cores: int
    memory: int = 2**40
    gpus: int = 0
    kind: str | None = None
    pool: str = ""


@dataclass
class Need:
    """What a job asks for, in total."""

    cores: int
    memory: int = 0
    gpus: float = 0
    tasks: int | None = None
    kinds: frozenset | None = None
    pool: str | None = None


class Cluster:
    """Hosts, an allocator, and what both need to place a job."""

    def __init__(self, hosts, allocator, typical=(), unit=1, seed=0):
        self.hosts, self.allocator, self.typical, self.unit, self.seed = hosts, allocator, typical, unit, seed
        self.cursor, self.running = 0, []  # where round-robin goes on; running jobs, for clustering
        self.asleep = set()  # hosts
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

        for h in sorted(members, key=lambda h: (-rooms[h], spared(h), -self.wakefulness(free, h), h)):
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

    def wakefulness(self, free, h):
        """Return 2 for a host in use, 1 for one that is awake, 0 for one asleep; the same for all other allocators."""
        if self.allocator != "pack-and-sleep":
            return 0
        return 2 if free[h] != self.idle()[h] else h not in self.asleep

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
                h = max(fitting, key=lambda h: (self.like(job, free, h, piece), -h))
            cursor = h + 1
            part = (h, piece[0][0], piece[1][0], self.devices(job, free, h, piece))
            parts.append(part)
            self.take(free, [part])
        return parts

    def devices(self, job, free, h, piece):
        """Return the GPUs of a task: best fit for a share (fgd: the least fragmentation), the lowest for whole ones."""
        gpus, milli = free[h][2], thousandths(piece[2])
        fitting = [d for d, left in enumerate(gpus) if left >= min(milli, 1000)]
        if self.allocator == "random":
            fitting.sort(key=lambda d: mixed(self.seed, job.number, d))
        elif 0 < piece[2] < 1 and self.allocator == "fgd":
            fitting.sort(key=lambda d: (-self.gain(free, h, piece, {d: milli}), d))
        elif 0 < piece[2] < 1:
            fitting.sort(key=lambda d: (gpus[d], d))
        return dict.fromkeys(fitting[: math.ceil(piece[2])], min(milli, 1000))

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

    def like(self, job, free, h, piece):
        """Return how much the allocator likes a host for one task; the largest wins, of equals the first host."""
        cores, idle = free[h][0], sum(free[h][2])
        asked = thousandths(piece[2])
        taken = piece[0][0]
        left = Fraction(cores - taken, self.most_cores)
        left += Fraction(idle - asked, self.most_gpus) if self.most_gpus else 0
        if self.allocator == "best-fit":
            return -left
        if self.allocator == "pack-and-sleep":
            return self.wakefulness(free, h), -left
        if self.allocator == "worst-fit":
            return left
        if self.allocator == "random":
            return float(mixed(self.seed, job.number, h))
        if self.allocator == "dot-product":
            product = cores * taken / self.most_cores**2
            product += idle * asked / self.most_gpus**2 if self.most_gpus else 0
            return round(-product, 12)
        if self.allocator == "packing":
            return self.packing(free[h][2], piece[2])
        if self.allocator == "clustering":
            return self.clustering(h, idle, piece[2])
        if self.allocator == "fgd":
            return self.gain(free, h, piece, self.devices(job, free, h, piece))
        if self.allocator in TIERED[1:]:
            whole = self.hosts[h].gpus * 1000 if self.most_gpus else self.hosts[h].cores
            before, after = (idle, idle - asked) if self.most_gpus else (cores, cores - taken)
            partly = (0 < after < whole) - (0 < before < whole)
            waste = (whole - after) * (0 < after < whole) - (whole - before) * (0 < before < whole)
            used = (whole - before) / max(whole, 1)
            return (-used, -partly, -waste) if self.allocator == "load-balance" else (-partly, -waste, -used)
        return 0  # first-fit, lexicographic

    def packing(self, gpus, asked):
        """Return the points of an idle host, of one whose idle GPUs are used, or of one whose shared GPU is used."""
        if asked == 0:
            return 0
        if all(left >= 1000 for left in gpus):
            return max(33 - len(gpus), len(gpus))
        shared = [left for left in gpus if thousandths(asked) <= left < 1000] if asked < 1 else []
        if shared:
            return max(100 - min(shared) * 100 // 1000 // 10, 50)
        return max(50 - math.ceil(asked), 33)

    def clustering(self, h, idle, asked):
        """Return 25 points by how full a host is, and more where it holds tasks of as many GPUs (or shares) only."""
        if asked == 0:
            return 0
        held = set()
        for job in self.running:
            if job.gpus and any(part[0] == h for part in job.parts):
                held.add(math.floor(self.pieces(job)[1][2]))
        same, others = math.floor(asked) in held, bool(held - {math.floor(asked)})
        return 25 * (self.most_gpus - idle) // self.most_gpus + 50 * same + 25 * (not others)

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


def mixed(seed, job, number):
    """Return splitmix64 of a seed, a job and a host or GPU, without its two lowest bits."""
    x = seed * 0x9E3779B97F4A7C15 + job * 0xBF58476D1CE4E5B9 + (number + 1) * 0x94D049BB133111EB
    x &= 2**64 - 1
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> shift)) * factor & (2**64 - 1)
    return (x ^ (x >> 31)) >> 2


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


class Simulation(reference.Simulation):
    """Scheduling passes on hosts; outages are (from, to, hosts)."""

    def __init__(self, cluster, needs, jobs, policy, backfill, rules):
        super().__init__(jobs, policy, backfill, rules)
        self.cluster, cluster.running = cluster, self.running
        self.first_reservation = {}  # by job: when it was to start at first
        first = min(job.submit for job in self.jobs)  # as recorded: all hosts are awake then
        self.busy_until, self.up = [dict.fromkeys(range(len(cluster.hosts)), first) for _ in range(2)]
        for job, need in zip(self.jobs, needs, strict=True):
            job.__dict__.update(need.__dict__, parts=[])
        self.alike = not rules.outages and all(self.takes_whole_hosts(job) for job in self.jobs)
        #: Plans are made on the hosts; on one, of all cores, where hosts are only counted.
        whole = Host(sum(host.cores for host in cluster.hosts), pool=cluster.hosts[0].pool)
        self.planned = Cluster([whole], "first-fit", (), cluster.unit) if self.alike else cluster

    def takes_whole_hosts(self, job):
        host, (count, _, spread) = self.cluster.hosts[0], self.cluster.pieces(job)
        if host.gpus or any(other != host for other in self.cluster.hosts) or job.cores % host.cores:
            return False
        return (spread or job.cores == count * host.cores) and job.memory <= job.cores // host.cores * host.memory

    # ---- what is free, when -----------------------------------------------------------------------------------------

    def away(self, time):
        """Return the hosts that are out of service, as far as is known now."""
        known = [o for o in self.rules.outages if self.rules.announced or o[0] <= self.now]
        return {h for begin, end, hosts in known if begin <= time < end for h in hosts}

    def free(self):
        """Return what is really free now; on a host that is out of service, less than nothing while its jobs run."""
        return self.minus(self.cluster, [job.parts for job in self.running], self.away(self.now))

    def minus(self, cluster, held, away):
        state = cluster.idle()
        for h in away:
            host = cluster.hosts[h]
            held = [*held, [(h, host.cores, host.memory, dict.fromkeys(range(host.gpus), 1000))]]
        for parts in held:
            cluster.take(state, parts)
        return state

    def for_plans(self, job, parts):
        return [(0, job.cores, 0, {})] if self.alike else parts

    def bookings(self):
        """Return (from, to, parts, watts) of the running jobs by estimates; one that is past its own holds nothing."""
        return [(self.now, job.estimated_end, self.for_plans(job, job.parts), job.watts) for job in self.running]

    def spare(self):
        """Return the watts that are really left."""
        return self.rules.headroom - sum(job.watts for job in self.running)

    def edges(self, bookings):
        times = {edge for begin, end, _, _ in bookings for edge in (begin, end)}
        known = [o for o in self.rules.outages if self.rules.announced or o[0] <= self.now]
        return sorted({self.now} | {t for t in times | {t for o in known for t in o[:2]} if t > self.now})

    def planned_at(self, job, time, bookings, *really):
        """Return where a job goes that begins at a time and holds the same cells over its estimated length, or None."""
        moments = [time] + [edge for edge in self.edges(bookings) if time < edge < time + job.believed]
        for moment in moments:
            drawn = sum(watts for begin, end, _, watts in bookings if begin <= moment < end)
            if drawn + job.watts > self.rules.headroom:
                return None
        states = [
            self.minus(self.planned, [p for begin, end, p, _ in bookings if begin <= moment < end], self.away(moment))
            for moment in moments
        ]
        return self.planned.place(job, least([*states, *really]))

    def earliest(self, job, bookings):
        plans = ((time, self.planned_at(job, time, bookings)) for time in self.edges(bookings))
        return next(plan for plan in plans if plan[1] is not None)

    def really(self, job, parts):
        """Return the parts of a job that is planned for now if what it claims is free, else None."""
        free = self.free()
        if job.watts > self.spare():
            return None
        if self.alike:
            return self.cluster.place(job, free)
        self.cluster.take(free, parts)
        for h, cores, memory, gpus in parts:
            short = (cores and free[h][0] < 0) or (memory and free[h][1] < 0)
            if short or any(free[h][2][d] < 0 for d in gpus):
                return None
        return parts

    # ---- events and passes ------------------------------------------------------------------------------------------

    def happen(self):
        super().happen()
        if self.rules.sleep:
            after = self.rules.sleep[0]
            self.cluster.asleep = {h for h, until in self.busy_until.items() if self.now - until > after[h]}

    def begin(self, job, parts):
        """Start a job; first its hosts that sleep wake up, after they have turned off."""
        job.start, job.parts = self.now, parts
        if self.rules.sleep:
            used = {part[0] for part in parts}
            for h in used & self.cluster.asleep:
                after, off, on = (times[h] for times in self.rules.sleep)
                self.up[h] = max(self.now, self.busy_until[h] + after + off) + on
            job.start = max(self.now, *(self.up[h] for h in used))
            for h in used:
                self.busy_until[h] = max(self.busy_until[h], job.end)
            self.cluster.asleep = {
                h for h, until in self.busy_until.items() if self.now - until > self.rules.sleep[0][h]
            }
        self.cluster.cursor = parts[-1][0] + 1
        self.running.append(job)
        self.queue.remove(job)
        self.hold(job, job.procs)

    def stop_jobs(self):
        """Kill or requeue jobs on hosts that have gone out of service, the latest start first."""
        while True:
            free = self.free()
            short = {h for h, (c, m, g) in enumerate(free) if min(c, m, *g) < 0}
            concerned = [job for job in self.running if any(part[0] in short for part in job.parts)]
            if not concerned:
                return
            job = concerned[-1]
            if self.rules.outage_mode == "kill":
                job.run = self.now - job.start
                self.finish(job)
            else:
                self.leave(job)
                self.queue.append(job)
                job.start, job.believed, job.corrections = math.nan, job.predicted, 0

    def profile(self):
        return None

    def plan_all(self, order, profile):
        """Conservative: every job is planned at its earliest fit, in order; those planned for now start."""
        bookings, left = self.bookings(), []
        for job in order:
            time, parts = self.earliest(job, bookings)
            real = self.really(job, parts) if time == self.now else None
            bookings.append((time, time + job.believed, parts, job.watts))
            if real is None:
                left.append(job)
            else:
                self.begin(job, real)
        self.committed = left[0] if self.rules.commit and left else None

    def reserve_one(self, order, profile):
        """EASY and its kin: start jobs until one does not fit; that one gets the reservation, others fill the gaps."""
        bookings = self.bookings() if self.rules.outages else None

        def fit(job):
            if job.watts > self.spare():
                return None
            if bookings is None:
                return self.cluster.place(job, self.free())
            if job.believed <= 0:  # holds nothing for longer than an instant
                return self.cluster.place(job, self.free())
            parts = self.planned_at(job, self.now, bookings, self.free())
            if parts is not None:
                bookings.append((self.now, self.now + job.believed, parts, job.watts))
            return parts

        while order and (parts := fit(order[0])) is not None:
            self.begin(order.pop(0), parts)
            self.committed = self.shadow = None
        if not order:
            return
        blocked, others = order[0], order[1:]
        self.committed = blocked if self.rules.commit else None
        if self.backfill == "none":
            return
        if self.backfill == "easy-sjf":
            others.sort(key=lambda job: (self.length(job), job.number))
        if bookings is None:
            self.fill(blocked, others)
            return
        time, parts = self.earliest(blocked, bookings)
        bookings.append((time, max(time + blocked.believed, math.nextafter(time, math.inf)), parts, blocked.watts))
        for job in others:
            if (parts := fit(job)) is not None:
                self.begin(job, parts)

    def fill(self, blocked, others):
        """Start jobs that end before the reservation's time, or that fit beside it: now and then, on the same cells."""
        shadow, then, watts_then = self.reserve(blocked)
        #: Backfilled jobs may have to wait for their hosts.
        waking = (
            max((off + on for _, off, on in zip(*self.rules.sleep, strict=True)), default=0) if self.rules.sleep else 0
        )
        self.first_reservation.setdefault(blocked.number, shadow)
        if self.backfill == "rlscheduler":  # by submit time; only jobs that end before the reservation's time
            if self.shadow is None or not self.rules.commit:
                self.shadow = shadow
            others = sorted(others, key=lambda job: job.number)
        for job in others:
            free = self.free()
            if job.watts > self.spare():
                continue
            if self.backfill == "rlscheduler":
                until = math.nextafter(self.shadow, -math.inf) - waking
                parts = self.cluster.place(job, free) if self.now + job.believed <= until else None
            elif self.now + job.believed <= shadow - waking:
                parts = self.cluster.place(job, free, least([free, then]))
            else:
                parts = self.cluster.place(job, least([free, then])) if job.watts <= watts_then else None
                if parts is not None:
                    self.cluster.take(then, parts)
                    watts_then -= job.watts
            if parts is not None:
                self.begin(job, parts)

    def reserve(self, job):
        """Return when a job fits if running jobs end by their estimates, and room and watts that are left then."""
        free = self.free()
        then, ends, shadow = copy.deepcopy(free), sorted(self.running, key=lambda other: other.estimated_end), self.now
        watts = self.spare()
        while ends and (ends[0].estimated_end <= shadow or watts < job.watts or self.cluster.place(job, then) is None):
            shadow = max(shadow, ends[0].estimated_end)
            watts += ends[0].watts
            self.cluster.take(then, ends.pop(0).parts, 1)
        self.cluster.take(then, self.cluster.place(job, then, free))
        return shadow, then, watts - job.watts
