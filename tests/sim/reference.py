"""A simulator as simple as can be, to check the fast one against: lists, loops, and the definitions word for word."""

import itertools
import math

NAN = float("nan")


def priority(policy, now, job, jobs, books):
    s, w, n = jobs["submit"][job], now - jobs["submit"][job], jobs["procs"][job]
    r = jobs["estimate"][job]
    if policy == "fcfs":
        return s
    if policy == "lcfs":
        return -s
    if policy == "random":
        return jobs["random"][job]
    if policy == "multifactor":
        return multifactor(now, job, w, n, jobs, books)
    s, r = (s if s > 0 else 0.1), (r if r > 0 else 0.1)
    if jobs["compat"] and policy in ("wfp3", "unicep"):
        w = -1 - jobs["submit"][job]
    return {
        "sjf": lambda: r,
        "ljf": lambda: -r,
        "smallest": lambda: n,
        "largest": lambda: -n,
        "saf": lambda: r * n,
        "laf": lambda: -r * n,
        "sexp": lambda: (w + r) / n,
        "lexp": lambda: -(w + r) / n,
        "srf": lambda: r / n,
        "lrf": lambda: -r / n,
        "wfp3": lambda: -((w / r) * (w / r) * (w / r)) * n,
        "unicep": lambda: -w / (max(math.log2(n), 1e-9) * r),
        "f1": lambda: math.log10(r) * n + 870 * math.log10(s),
        "f2": lambda: math.sqrt(r) * n + 25600 * math.log10(s),
        "f3": lambda: r * n + 6860000 * math.log10(s),
        "f4": lambda: r * math.sqrt(n) + 530000 * math.log10(s),
    }[policy]()


class Account:
    """What one user holds and has used, halved every half-life."""

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


def multifactor(now, job, w, n, jobs, books):
    option = jobs["options"]
    everybody = books["everybody"].at(now)
    usage = books["users"][jobs["user"][job]].at(now) / everybody if everybody > 0 else 0.0
    fair = 2.0 ** (-usage * len(books["users"]))
    return -(
        option["age_weight"] * min(w / option["age_max"], 1.0)
        + option["size_weight"] * n / jobs["total"]
        + option["fair_weight"] * fair
        + option["queue_weight"] * 0.0
    )


def simulate(jobs, policy, backfill, *, commit=False, arrivals_first=False, last_two=False, interval=0):
    """Return start times. ``jobs``: dict of lists submit, run, estimate, procs, user, random; total; by submit time."""
    count, total = len(jobs["submit"]), jobs["total"]
    jobs = {**jobs, "estimate": list(jobs["estimate"])}
    procs, run, estimate = jobs["procs"], jobs["run"], jobs["estimate"]
    half_life = jobs["options"]["half_life"]
    books = {"everybody": Account(half_life), "users": {u: Account(half_life) for u in jobs["user"]}}
    history = {u: [] for u in jobs["user"]}
    start = [NAN] * count
    queue, running = [], []  # running: in the order of starting
    arrived, now = 0, -math.inf
    memory = {"committed": None, "once": None}
    origin = jobs["submit"][0] if count else 0
    last_pass = -math.inf

    def end(job):
        return start[job] + run[job]

    while arrived < count or queue:
        times = ([jobs["submit"][arrived]] if arrived < count else []) + [end(j) for j in running]
        if interval and queue:
            times.append(next(t for t in ticks(origin, interval) if t >= now and t > last_pass))
        now = max(now, min(times))
        first_end = min([end(j) for j in running], default=math.inf)
        if (
            arrivals_first
            and arrived < count
            and jobs["submit"][arrived] <= now
            and jobs["submit"][arrived] <= first_end
        ):
            done, news = [], [arrived]
        else:
            done = [j for j in running if end(j) <= now]
            done.sort(key=end)
            if arrivals_first:
                done, news = done[:1], []
            else:
                news = [j for j in range(arrived, count) if jobs["submit"][j] <= now]
        for job in done:
            running.remove(job)
            books["everybody"].hold(now, -procs[job])
            books["users"][jobs["user"][job]].hold(now, -procs[job])
            history[jobs["user"][job]].append(run[job])
        for job in news:
            arrived += 1
            queue.append(job)
            if last_two and history[jobs["user"][job]]:
                last = history[jobs["user"][job]][-2:]
                estimate[job] = min(sum(reversed(last)) / len(last), estimate[job])
        if not queue or (interval and next(t for t in ticks(origin, interval) if t >= now) > now):
            continue
        last_pass = now

        values = {job: priority(policy, now, job, jobs, books) for job in queue}
        order = sorted(queue, key=lambda job: (values[job], job))
        begun = one_pass(now, order, running, start, procs, estimate, total, backfill, commit, memory)
        for job in sorted(begun):
            start[job] = now
            queue.remove(job)
            books["everybody"].hold(now, procs[job])
            books["users"][jobs["user"][job]].hold(now, procs[job])
        running += begun
    return start


def ticks(origin, interval):
    return (origin + turn * interval for turn in itertools.count())


def one_pass(now, order, running, start, procs, estimate, total, backfill, commit, memory):
    """Return the jobs to start now, in the order of starting."""
    begun = []
    free = total - sum(procs[j] for j in running)
    ends = [(start[j] + estimate[j], procs[j]) for j in running]  # by estimates
    if memory["committed"] is not None:
        order = [memory["committed"]] + [j for j in order if j != memory["committed"]]

    if backfill == "conservative":
        plan = [(max(e, now), n) for e, n in ends]  # when how much comes free
        holes = []  # (from, to, procs) of planned jobs
        left = []
        for job in order:
            at = earliest(now, procs[job], estimate[job], free, plan, holes)
            holes.append((at, at + estimate[job], procs[job]))
            physical = total - sum(procs[j] for j in running) - sum(procs[j] for j in begun)
            if at == now and procs[job] <= physical:
                begun.append(job)
            else:
                left.append(job)
        memory["committed"] = left[0] if commit and left else None
        return begun

    while order and procs[order[0]] <= free:
        job = order.pop(0)
        free -= procs[job]
        ends.append((now + estimate[job], procs[job]))
        begun.append(job)
        memory["committed"] = memory["once"] = None
    if not order:
        return begun
    head, others = order[0], order[1:]
    if commit:
        memory["committed"] = head
    if backfill == "none":
        return begun

    available = free
    for when in sorted({max(e, now) for e, _ in ends}):
        available = free + sum(n for e, n in ends if max(e, now) <= when)
        shadow = when
        if available >= procs[head]:
            break
    extra = available - procs[head]
    if backfill == "rlscheduler":
        if commit and memory["once"] is not None:
            shadow = memory["once"]
        memory["once"] = shadow
        for job in sorted(others):
            if procs[job] <= free and now + estimate[job] < shadow:
                free -= procs[job]
                begun.append(job)
        return begun
    if backfill == "easy-sjf":
        others = sorted(others, key=lambda job: (estimate[job], job))
    for job in others:
        if procs[job] > free:
            continue
        if now + estimate[job] <= shadow:
            free -= procs[job]
            begun.append(job)
        elif procs[job] <= extra:
            free -= procs[job]
            extra -= procs[job]
            begun.append(job)
    return begun


def earliest(now, size, length, free, plan, holes):
    """Return the earliest time at which ``size`` is free for ``length``; times worth trying: now and every change."""

    def room(t):
        return free + sum(n for e, n in plan if e <= t) - sum(n for a, b, n in holes if a <= t < b)

    changes = sorted({now} | {e for e, _ in plan} | {b for _, b, _ in holes} | {a for a, _, _ in holes})
    for t in changes:
        if room(t) >= size and all(room(c) >= size for c in changes if t < c < t + length):
            return t
    raise AssertionError("a job that fits the machine always finds room")
