"""The simple simulator with what changes on the way: followers, outages, corrected predictions. Word for word, slow."""

import math

from .reference import NAN, Account, priority, ticks

CORRECTIONS = [60 * m for m in (1, 5, 15, 30)] + [3600 * h for h in (1, 2, 5, 10, 20, 50, 100)]


def simulate(
    jobs,
    policy,
    backfill,
    *,
    previous,
    think,
    outages=(),
    mode="drain",
    announced=True,
    predict=False,
    last_two=False,
    commit=False,
    interval=0,
):
    """Return (submit, start, run, pieces): pieces are the stretches (job, from, to) of holding processors."""
    count, total = len(jobs["submit"]), jobs["total"]
    procs, run, submit = jobs["procs"], list(jobs["run"]), list(jobs["submit"])
    asked = list(jobs["estimate"])
    believed, first, corrections = list(asked), list(asked), [0] * count
    half_life = jobs["options"]["half_life"]
    books = {"everybody": Account(half_life), "users": {u: Account(half_life) for u in jobs["user"]}}
    history = {u: [] for u in jobs["user"]}
    start = [NAN] * count
    to_come = {j: submit[j] for j in range(count) if previous[j] < 0}
    held = {j for j in range(count) if previous[j] >= 0}
    queue, running, pieces = [], [], []
    memory = {"committed": None}
    now, last_pass, origin = -math.inf, -math.inf, None
    changes = sorted({edge for begin, end, _ in outages for edge in (begin, end)})

    def away(time, known_at):
        there = [n for a, b, n in outages if a <= time < b and (announced or a <= known_at)]
        return min(sum(there), total)

    def hold(job, procs_):
        books["everybody"].hold(now, procs_)
        books["users"][jobs["user"][job]].hold(now, procs_)

    def leave(job):
        running.remove(job)
        hold(job, -procs[job])
        pieces.append((job, start[job], now))

    def released(job):
        for other in sorted(held):
            if previous[other] == job:
                held.remove(other)
                to_come[other] = now + think[other]

    while True:
        times = list(to_come.values()) + [start[j] + run[j] for j in running] + [c for c in changes if c > now]
        if predict:
            times += [start[j] + believed[j] for j in running if start[j] + believed[j] > now]
        if origin is None and times:
            origin = min(times)
        if interval and queue:
            times.append(next(t for t in ticks(origin, interval) if t >= now and t > last_pass))
        can_be_stopped = mode != "drain" and running and any(c > now for c in changes)
        if not times or not (to_come or queue or held or can_be_stopped):
            break
        now = max(now, min(times))

        for job in sorted((j for j in running if start[j] + run[j] <= now), key=lambda j: start[j] + run[j]):
            leave(job)
            history[jobs["user"][job]].append(run[job])
            released(job)
        while mode != "drain" and now in changes and sum(procs[j] for j in running) > total - away(now, now):
            job = running[-1]
            leave(job)
            if mode == "kill":
                run[job] = now - start[job]
                history[jobs["user"][job]].append(run[job])
                released(job)
            else:
                start[job] = NAN
                queue.append(job)
                believed[job], corrections[job] = first[job], 0
        if predict:
            for job in running:
                while start[job] + believed[job] <= now < start[job] + asked[job]:
                    if corrections[job] < len(CORRECTIONS):
                        believed[job] = min(first[job] + CORRECTIONS[corrections[job]], asked[job])
                        corrections[job] += 1
                    else:
                        believed[job] = asked[job]
        for job in sorted(j for j in to_come if to_come[j] <= now):
            submit[job] = to_come.pop(job)
            queue.append(job)
            last = history[jobs["user"][job]][-2:]
            if (predict or last_two) and last:
                believed[job] = first[job] = min(sum(reversed(last)) / len(last), asked[job])
        queue.sort()
        if not queue or (interval and next(t for t in ticks(origin, interval) if t >= now) > now):
            continue
        last_pass = now

        seen = {**jobs, "submit": submit, "estimate": believed if last_two else asked}
        values = {job: priority(policy, now, job, seen, books) for job in queue}
        order = sorted(queue, key=lambda job: (values[job], job))
        begun = one_pass(
            now,
            order,
            running,
            start,
            procs,
            believed,
            total,
            backfill,
            commit,
            memory,
            lambda t, known_at=now: away(t, known_at),
            changes,
        )
        for job in sorted(begun):
            start[job] = now
            queue.remove(job)
            hold(job, procs[job])
        running += begun
    pieces += [(job, start[job], start[job] + run[job]) for job in running]
    return submit, start, run, pieces


def one_pass(now, order, running, start, procs, believed, total, backfill, commit, memory, away, changes):
    """Return the jobs to start now. Everything is asked of one function: how much is free at a time, by estimates."""
    begun = []
    taken = [(now, start[j] + believed[j], procs[j]) for j in running]

    def room(t):
        return total - away(t) - sum(n for a, b, n in taken if a <= t < b)

    def physical():
        return total - away(now) - sum(procs[j] for j in running) - sum(procs[j] for j in begun)

    def fits_at(t, job):
        moments = {t} | {edge for a, b, _ in taken for edge in (a, b)} | set(changes)
        return all(room(m) >= procs[job] for m in moments if m == t or t < m < t + believed[job])

    def earliest(job):
        moments = {now} | {b for _, b, _ in taken if b > now} | {c for c in changes if c > now}
        return next(t for t in sorted(moments) if fits_at(t, job))

    def book(t, job):
        taken.append((t, t + believed[job], procs[job]))

    if memory["committed"] is not None:
        order = [memory["committed"]] + [j for j in order if j != memory["committed"]]
    if backfill == "conservative":
        left = []
        for job in order:
            at = earliest(job)
            book(at, job)
            if at == now and procs[job] <= physical():
                begun.append(job)
            else:
                left.append(job)
        memory["committed"] = left[0] if commit and left else None
        return begun
    order = list(order)
    while order and procs[order[0]] <= physical() and (believed[order[0]] <= 0 or fits_at(now, order[0])):
        job = order.pop(0)
        book(now, job)
        begun.append(job)
        memory["committed"] = None
    if not order:
        return begun
    head, others = order[0], order[1:]
    if commit:
        memory["committed"] = head
    if backfill == "none":
        return begun
    shadow = earliest(head)
    taken.append((shadow, max(shadow + believed[head], math.nextafter(shadow, math.inf)), procs[head]))
    if backfill == "easy-sjf":
        others.sort(key=lambda job: (believed[job], job))
    for job in others:
        if procs[job] <= physical() and (believed[job] <= 0 or fits_at(now, job)):
            book(now, job)
            begun.append(job)
    return begun
