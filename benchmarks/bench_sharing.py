"""Attacks on traces made for sharing: the suite's own, others that are not in it, and false alarms on real weeks.

    python benchmarks/bench_sharing.py suite KTH-SP2-1996-2.1-cln.swf.gz [--seed 1] [--jobs 100000]
    python benchmarks/bench_sharing.py outside KTH-SP2-1996-2.1-cln.swf.gz
    python benchmarks/bench_sharing.py null KTH-SP2-1996-2.1-cln.swf.gz --times 10

Files are looked for in the folder TRACEKIT_DATA/swf. Weeks are dealt out as by ``tracekit split --alternate-weeks``.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np

import tracekit
from evaluation.attacks.profiles import active_users
from evaluation.attacks.requests import requests
from evaluation.attacks.tokens import Tokens, found_in, hashed, of_rows
from evaluation.exposure import attacks
from evaluation.score import score
from evaluation.view import DAY, View, prepare
from tracekit import Trace
from tracekit.intervals import wilson
from tracekit.transform.splitting import alternate_weeks

DATA = Path(os.environ.get("TRACEKIT_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
WEEK = 7 * DAY


def made(fit: Trace, seed: int) -> Trace:
    """Make a trace as ``tracekit synth --for-sharing`` does."""
    return tracekit.synth(fit, "sessions", None, seed, for_sharing=True)


def suite(real: Trace, seed: int) -> None:
    """Print every attack of the suite on a trace made for sharing."""
    fit, aside = alternate_weeks(real)
    synth = made(fit, seed)
    found = score(fit, synth, holdout=aside, families=["privacy"], baselines=False, floor=False)
    print(f"offered load {fit.offered_load():.3f} {synth.offered_load():.3f}")
    for one in attacks(found.synthetic[0].scores):
        above = one.rate > max(one.control_high, 0.03)
        print(
            f"{one.name:24} {one.rate:.3f} control {one.control:.3f} [{one.control_low:.3f}, {one.control_high:.3f}] "
            f"{'ALARM' if one.alarm else 'above' if above else 'ok'}"
        )


# ---- attacks that are not in the suite -------------------------------------------------------------------------------


def _pairs(view: View) -> Tokens:
    """Two different requests of one user, both among the user's twelve most frequent."""
    user, asked = view.labels["user"], requests(view)
    keys, users = [], []
    for who in np.unique(user[user >= 0]):
        kinds, count = np.unique(asked[user == who], return_counts=True)
        kinds = np.sort(kinds[np.argsort(-count, kind="stable")[:12]]).view(np.int64)
        one, other = np.triu_indices(len(kinds), 1)
        keys.append(np.column_stack([kinds[one], kinds[other]]))
        users.append(np.full(len(one), who))
    user = np.concatenate(users)
    return Tokens(hashed(np.concatenate(keys), 31), user, np.full(len(user), -1))


def _days(view: View) -> Tokens:
    """The numbers of jobs on three active days in a row, and the days between them; at least one has several jobs."""
    day = np.floor(view.submit / DAY).astype(np.int64)
    user = view.labels["user"]
    known = user >= 0
    active, count = np.unique(np.column_stack([user[known], day[known]]), axis=0, return_counts=True)
    who, when = active.T
    same = (who[2:] == who[:-2]) & (np.maximum(np.maximum(count[2:], count[1:-1]), count[:-2]) > 3)
    table = np.column_stack([count[:-2], count[1:-1], count[2:], np.diff(when)[:-1], np.diff(when)[1:]])[same]
    return Tokens(hashed(table.astype(np.int64), 32), who[:-2][same], np.full(len(table), -1))


def _volume(view: View) -> Tokens:
    """The number of jobs and of active days of a user with 20 jobs or more."""
    user = view.labels["user"]
    users = active_users(view)
    day = np.floor(view.submit / DAY).astype(np.int64)
    days = [len(np.unique(day[user == who])) for who in users]
    table = np.column_stack([np.bincount(user[user >= 0])[users], days]).astype(np.int64)
    return Tokens(hashed(table, 33), users, np.full(len(users), -1))


def _two_runs(view: View) -> Tokens:
    """Two neighbouring run times, both above ten minutes, to the second."""
    order = np.lexsort((view.submit, view.labels["user"]))
    order = order[view.labels["user"][order] >= 0]
    user, run = view.labels["user"][order], np.nan_to_num(view.numbers["run_time"][order])
    fits = np.flatnonzero((user[1:] == user[:-1]) & (run[1:] > 600) & (run[:-1] > 600))
    table = np.round(np.column_stack([run[fits], run[fits + 1]])).astype(np.int64)
    return of_rows(view, hashed(table, 34), user[fits], order[fits], order[fits + 1])


def _same_days(real: View, other: View) -> tuple[int, int]:
    """Users whose jobs by date correlate by 0.5 or more with exactly one real user's, at the best common shift."""
    length = int(max(real.span, other.span) // DAY) + 1

    def table(view: View) -> np.ndarray:
        users = active_users(view)
        day = np.floor((view.submit - view.submit[0]) / DAY).astype(np.int64)
        place = np.searchsorted(users, view.labels["user"])
        mine = (place < len(users)) & (users[np.minimum(place, len(users) - 1)] == view.labels["user"])
        made = np.zeros((len(users), length))
        np.add.at(made, (place[mine], day[mine]), 1.0)
        made = np.sqrt(made)
        made -= made.mean(axis=1, keepdims=True)
        return made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-9)

    ours, theirs = table(real), table(other)
    shifts = range(0, length, 7)
    best = max(shifts, key=lambda s: float((ours.sum(0) * np.roll(theirs, s, axis=1).sum(0)).sum()))
    close = (np.roll(theirs, best, axis=1) @ ours.T) >= 0.5
    return int((close.sum(axis=1) == 1).sum()), len(theirs)


def outside(real: Trace, seed: int) -> None:
    """Print attacks that are not in the suite, on a trace made for sharing and on the hold-out."""
    fit, aside = alternate_weeks(real)
    ours, theirs, fresh = prepare(fit, [made(fit, seed), aside], ["real", "synthetic", "hold-out"])
    rows = []
    for attack in (_pairs, _days, _volume, _two_runs):
        among = attack(ours)
        counts = [(len(found_in(t := attack(view), among)), len(t.users())) for view in (theirs, fresh)]
        rows.append((attack.__name__.strip("_"), counts))
    rows.append(("same_days", [_same_days(ours, theirs), _same_days(ours, fresh)]))
    for name, ((hits, users), (usual, others)) in rows:
        high = wilson(usual, others)[1]
        said = "ok" if hits / max(users, 1) <= max(high, 0.03) else "ABOVE"
        rate = hits / max(users, 1)
        print(f"{name:12} {hits} of {users} ({rate:.3f}), control {usual} of {others} (to {high:.3f}) {said}")


# ---- false alarms ----------------------------------------------------------------------------------------------------


def null(real: Trace, times: int) -> None:
    """Judge real weeks as if they were synthetic: weeks are dealt at random into fitted, judged and hold-out ones."""
    submit = real.column("submit_time")
    week = ((submit - submit.min()) // WEEK).astype(np.int64)
    full = np.unique(week)
    alarms = 0
    for number in range(times):
        rng = np.random.default_rng(number)
        part = np.full(int(full.max()) + 1, -1)
        part[rng.permutation(full)] = np.arange(len(full)) * 4 // len(full)  # two quarters, one, one
        role = np.array([0, 0, 1, 2])[part[week]]
        fit, judged, aside = (_laid(real, role == k, week) for k in range(3))
        judged = judged.assign({"user": "n" + judged.jobs["user"].astype(str)}) if judged.has("user") else judged
        found = score(fit, judged, holdout=aside, families=["privacy"], baselines=False, floor=False, quick=True)
        said = [one.name for one in attacks(found.synthetic[0].scores) if one.alarm]
        alarms += bool(said)
        print(f"draw {number}: {', '.join(said) or 'no alarm'}", flush=True)
    print(f"any alarm in {alarms} of {times} draws")


def _laid(real: Trace, rows: np.ndarray, week: np.ndarray) -> Trace:
    """Return some weeks of a trace, laid end to end."""
    place = np.unique(week[rows], return_inverse=True)[1]
    part = real.take(np.flatnonzero(rows))
    return part.assign({"submit_time": part.column("submit_time") - (week[rows] - place) * WEEK})


def main() -> None:
    """Run one of the studies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=["suite", "outside", "null"])
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=250_000)
    parser.add_argument("--times", type=int, default=10)
    given = parser.parse_args()
    for name in given.traces:
        real = tracekit.read(DATA / "swf" / name).head(given.jobs)
        print(f"{name}: {given.study}", flush=True)
        if given.study == "null":
            null(real, given.times)
        else:
            {"suite": suite, "outside": outside}[given.study](real, given.seed)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
