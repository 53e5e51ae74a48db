"""What a scheduler records about users: how long their last jobs ran, and their recent usage.

Predictions: Tsafrir, Etsion & Feitelson, "Backfilling using system-generated predictions", IEEE TPDS 18(6), 2007.
Usage with a half-life: the classic fair-share factor of Slurm's priority/multifactor plug-in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit_internal

#: One user's account.
ACCOUNT = np.dtype(
    [
        ("ended", np.int64),  # jobs that have ended …
        ("last_run", np.float64),  # … the run time of the last one, seconds …
        ("run_before", np.float64),  # … and of the one before
        ("used", np.float64),  # decayed unit-seconds at …
        ("noted", np.float64),  # … this time
        ("held", np.float64),  # units held since then
    ],
    align=True,
)


class Weights(NamedTuple):
    """The options of ``multifactor``, and what they are relative to."""

    age_weight: float
    size_weight: float
    fair_weight: float
    queue_weight: float
    age_max: float  # seconds
    half_life: float  # seconds
    users: float
    total: float  # units of the machine


class UserAccounts(NamedTuple):
    """One account per user, one for jobs of unknown user, and a last one for all users together; none if unused."""

    user: NDArray[np.int64]  # (jobs,) account of each job
    account: NDArray[Any]  # (users + 2,) ACCOUNT
    queue_factor: NDArray[np.float64]  # (jobs,) 0 … 1
    weights: Weights


def no_accounts() -> UserAccounts:
    """Return empty accounts, for simulations that do not use them."""
    return UserAccounts(
        np.zeros(0, np.int64), np.zeros(0, ACCOUNT), np.zeros(0), Weights(*[0.0] * len(Weights._fields))
    )


def open_accounts(
    user: NDArray[np.int64], users: int, queue_factor: NDArray[np.float64], total: int, options: Mapping[str, float]
) -> UserAccounts:
    """Return the accounts of ``users`` users before any job has run; ``user`` (jobs,) is −1 where unknown.

    ``options`` are those of `tracekit.sim.switches.MULTIFACTOR_DEFAULTS`, all of them.
    """
    account = np.where(user < 0, users, user)
    seen = max(len(np.unique(account)), 1)
    weights = Weights(**{name: float(value) for name, value in options.items()}, users=float(seen), total=float(total))
    return UserAccounts(account, np.zeros(users + 2, ACCOUNT), queue_factor, weights)


@jit_internal
def predict(accounts: UserAccounts, job: int, requested: float) -> float:
    """Return the mean run time of the user's last two ended jobs, at most ``requested``; that, if there are none."""
    account = accounts.account[accounts.user[job]]
    if account.ended == 0:
        return requested
    mean = account.last_run if account.ended == 1 else (account.last_run + account.run_before) / 2
    return float(min(mean, requested))


@jit_internal
def used_at(accounts: UserAccounts, number: int, now: float) -> float:
    """Return the decayed usage of an account at ``now``; units held since it was noted count as they accrue."""
    account = accounts.account[number]
    elapsed, half_life = now - account.noted, accounts.weights.half_life
    if elapsed <= 0:
        return float(account.used)
    if half_life == np.inf:
        return float(account.used + account.held * elapsed)
    kept = 2.0 ** (-elapsed / half_life)
    return float(account.used * kept + account.held * (1 - kept) * half_life / math.log(2.0))


@jit_internal
def hold(accounts: UserAccounts, job: int, now: float, units: float) -> None:
    """Record that a job holds units from now on (negative: no longer does), for its user and for all together."""
    for number in (accounts.user[job], len(accounts.account) - 1):
        account = accounts.account[number]
        account.used = used_at(accounts, number, now)
        account.held += units
        account.noted = now


@jit_internal
def record_run(accounts: UserAccounts, job: int, run: float) -> None:
    """Record how long a job that has ended ran."""
    account = accounts.account[accounts.user[job]]
    account.run_before = account.last_run
    account.last_run = run
    account.ended += 1


@jit_internal
def multifactor(accounts: UserAccounts, now: float, job: int, wait: float, units: float) -> float:
    """Return −(age + size + fair share + queue), each weighted; the fair share is 2^(−usage/share), equal shares."""
    weights = accounts.weights
    total = used_at(accounts, len(accounts.account) - 1, now)
    usage = used_at(accounts, accounts.user[job], now) / total if total > 0 else 0.0
    fair = 2.0 ** (-usage * weights.users)
    age = min(wait / weights.age_max, 1.0)
    return -float(
        weights.age_weight * age
        + weights.size_weight * units / weights.total
        + weights.fair_weight * fair
        + weights.queue_weight * accounts.queue_factor[job]
    )
