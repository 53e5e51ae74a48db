"""What a scheduler writes down about users: how long their last jobs ran, and how much they have used of late.

Predictions: Tsafrir, Etsion & Feitelson, "Backfilling using system-generated predictions", IEEE TPDS 18(6), 2007.
Usage with a half-life: the classic fair-share factor of Slurm's priority/multifactor plug-in.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import compiled


class Books(NamedTuple):
    """One line per user (a job without a user belongs to the last one), and the options of ``multifactor``."""

    user: NDArray[np.int64]  # (jobs,) line of each job
    history: NDArray[np.float64]  # (users, 3) jobs ended; run time of the last one and of the one before
    usage: NDArray[np.float64]  # (users + 1, 3) decayed unit-seconds; units held now; when noted. Last line: everybody
    queue_factor: NDArray[np.float64]  # (jobs,) 0 … 1
    option: NDArray[np.float64]  # (8,) see `OPTIONS`


#: Positions in ``Books.option``: weights, then age_max and half_life in seconds, then users and machine size.
OPTIONS = ("age_weight", "size_weight", "fair_weight", "queue_weight", "age_max", "half_life")
USERS, TOTAL = len(OPTIONS), len(OPTIONS) + 1


def no_books() -> Books:
    """Return empty books, for passes that look nothing up in them."""
    return Books(np.zeros(0, np.int64), np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0))


@compiled
def predict(books: Books, job: int, requested: float) -> float:
    """Return the mean run time of the user's last two ended jobs, never above ``requested``, which serves newcomers."""
    line = books.history[books.user[job]]
    if line[0] == 0:
        return requested
    mean = line[1] if line[0] == 1 else (line[1] + line[2]) / 2
    return float(min(mean, requested))


@compiled
def used_at(books: Books, line: int, now: float) -> float:
    """Return the decayed usage of a line at ``now``; processors held since it was noted count as they accrue."""
    used, rate, since = books.usage[line, 0], books.usage[line, 1], books.usage[line, 2]
    elapsed, half_life = now - since, books.option[5]
    if elapsed <= 0:
        return float(used)
    if half_life == np.inf:
        return float(used + rate * elapsed)
    kept = 2.0 ** (-elapsed / half_life)
    return float(used * kept + rate * (1 - kept) * half_life / math.log(2.0))


@compiled
def _hold(books: Books, line: int, now: float, units: float) -> None:
    books.usage[line, 0] = used_at(books, line, now)
    books.usage[line, 1] += units
    books.usage[line, 2] = now


@compiled
def note_start(books: Books, now: float, job: int, units: float) -> None:
    """A job has started."""
    _hold(books, books.user[job], now, units)
    _hold(books, len(books.usage) - 1, now, units)


@compiled
def note_end(books: Books, now: float, job: int, units: float, run: float) -> None:
    """A job has ended."""
    _hold(books, books.user[job], now, -units)
    _hold(books, len(books.usage) - 1, now, -units)
    line = books.history[books.user[job]]
    line[2] = line[1]
    line[1] = run
    line[0] += 1


@compiled
def note_stop(books: Books, now: float, job: int, units: float) -> None:
    """A job has been stopped before its end, to be run again: it tells nothing about run times."""
    _hold(books, books.user[job], now, -units)
    _hold(books, len(books.usage) - 1, now, -units)


@compiled
def multifactor(books: Books, now: float, job: int, wait: float, units: float) -> float:
    """Return −(age + size + fair share + queue), each weighted; the fair share is 2^(−usage/share), equal shares."""
    option = books.option
    everybody = used_at(books, len(books.usage) - 1, now)
    usage = used_at(books, books.user[job], now) / everybody if everybody > 0 else 0.0
    fair = 2.0 ** (-usage * option[6])
    age = min(wait / option[4], 1.0)
    return -float(
        option[0] * age + option[1] * units / option[7] + option[2] * fair + option[3] * books.queue_factor[job]
    )
