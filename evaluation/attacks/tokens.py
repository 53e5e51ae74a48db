"""Singling out users: something that a synthetic user did and that exactly one real user has done.

A *token* is a hash of what the attacker looks at: three submit gaps, six requests in a row. A token that only one real
user has identifies that user. Labels are not compared, so new labels do not protect. The control is the same attack on
real users from weeks that the attacker does not have: the hold-out where there is one, else each week of the real
trace against all the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evaluation.attacks.rates import Count, Result, Worst
from evaluation.base import Score, Setting, absent
from evaluation.view import View, weeks

Keys = NDArray[np.uint64]
Ints = NDArray[np.int64]

FEWEST_CONTROL = 20  # users of the hold-out with a token, below which weeks of the real trace are the control
MOST_EXPOSURE = 4.0  # limit on chances of an accidental match, as a multiple of the control's


def hashed(numbers: Ints, seed: int) -> Keys:
    """Return one hash for each row of whole numbers."""
    key = np.full(len(numbers), seed, dtype=np.uint64)
    for column in np.ascontiguousarray(numbers.T).view(np.uint64):
        key = (key ^ column) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
        key *= np.uint64(0xBF58476D1CE4E5B9)
        key ^= key >> np.uint64(32)
    return key


@dataclass(frozen=True)
class Tokens:
    """Tokens of all users, one entry each, all arrays of shape (tokens,)."""

    key: Keys  # equal tokens have equal keys
    user: Ints
    block: Ints  # week that holds all its jobs; −1 = they lie in more than one week

    @classmethod
    def joined(cls, parts: Iterable[Tokens]) -> Tokens:
        """Concatenate the tokens of several parts."""
        every = list(parts)
        key, user, block = (np.concatenate([getattr(p, name) for p in every]) for name in ("key", "user", "block"))
        return cls(key, user, block)

    @classmethod
    def empty(cls) -> Tokens:
        """Return no tokens."""
        none = np.empty(0, np.int64)
        return cls(none.astype(np.uint64), none, none)

    def users(self) -> Ints:
        """Return the users that have at least one token."""
        return np.unique(self.user)

    def inside(self) -> Tokens:
        """Return the tokens that lie within one week."""
        rows = self.block >= 0
        return Tokens(self.key[rows], self.user[rows], self.block[rows])


def of_rows(view: View, key: Keys, user: Ints, first: Ints, last: Ints) -> Tokens:
    """Return tokens of jobs ``first`` to ``last`` (rows of the view), each within one week or none."""
    week = weeks(view, view.submit)
    return Tokens(key, user, np.where(week[first] == week[last], week[first], -1))


def owners(among: Tokens) -> pd.Series:
    """Return the owner of every token that exactly one user has, by key."""
    table = pd.DataFrame({"key": among.key, "user": among.user}).drop_duplicates()
    return table[~table["key"].duplicated(keep=False)].set_index("key")["user"]


def found_in(sought: Tokens, among: Tokens) -> Ints:
    """Return the users of ``sought`` with a token that exactly one user of ``among`` has."""
    return np.unique(sought.user[np.isin(sought.key, owners(among).index.to_numpy())])


def found_in_other_weeks(sought: Tokens, among: Tokens) -> Ints:
    """Return the users with a token that exactly one user has in other weeks; all within one trace.

    Owners in other weeks = all owners, minus those that have the token in this week only.
    """
    table, mine = (pd.DataFrame({"key": s.key, "user": s.user, "block": s.block}) for s in (among, sought))
    places = pd.concat([table[["key", "block"]], mine[["key", "block"]]]).drop_duplicates()
    repeated = places["key"][places["key"].duplicated()]  # the others occur in one week only
    table, mine = (part[part["key"].isin(repeated)].drop_duplicates() for part in (table, mine))
    owned = table.groupby(["key", "user"], sort=False)["block"].agg(["size", "first"]).reset_index()
    count = owned.groupby("key", sort=False).size()
    local = owned[owned["size"] == 1].groupby(["key", "first"], sort=False).size().rename("here").reset_index()
    mine = mine.merge(local, how="left", left_on=["key", "block"], right_on=["key", "first"])
    elsewhere = mine["key"].map(count).fillna(0) - mine["here"].fillna(0)
    return np.unique(mine["user"].to_numpy()[(elsewhere == 1).to_numpy()])


@dataclass(frozen=True)
class Control:
    """How often the attack finds real users from weeks that the attacker does not have."""

    count: Count
    tokens: float  # per user: chances of an accidental match
    source: str

    @classmethod
    def of(cls, real: list[Tokens], holdout: list[Tokens], clocks: int) -> Control:
        """Take the hold-out, or the weeks of the real trace where the hold-out has too few users.

        ``clocks``: how many lists of tokens the synthetic trace has; the control uses no more than those.
        """
        aside = Tokens.joined(holdout[:clocks]) if holdout else None
        if aside is not None and len(aside.users()) >= FEWEST_CONTROL:
            hits = {user for among in real for user in found_in(aside, among).tolist()}
            users = len(aside.users())
            return cls(Count(len(hits), users), len(np.unique(aside.key)) / users, "the hold-out")
        among = [part.inside() for part in real]
        mine = Tokens.joined(among[:clocks])
        hits = {user for part in among for user in found_in_other_weeks(mine, part).tolist()}
        users = len(mine.users())
        each = len(np.unique(mine.key)) / max(users, 1)
        return cls(Count(len(hits), users), each, "each real week against the others")


class SinglesOut:
    """Common code of the attacks by tokens; they need users, but no hold-out."""

    family: ClassVar[str] = "privacy"
    resampled: ClassVar[bool] = False
    unit: ClassVar[str] = "share of users"
    name: ClassVar[str]
    lacking: ClassVar[str] = "enough consecutive jobs"  # what a user without tokens lacks

    def tokens(self, view: View) -> list[Tokens]:
        """Return every user's tokens, once by each clock of the view; the first list is always there."""
        raise NotImplementedError

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Search for every synthetic user, and every user of the control, among the real ones."""
        key = f"privacy.{self.name}"
        for view, side in ((real, "real"), (synth, "synthetic")):
            if not view.has("user"):
                return {key: absent(f"the {side} trace has no users")}
        ours, theirs = self.tokens(real), self.tokens(synth)
        sought = Tokens.joined(theirs)
        users = len(sought.users())
        if not users or not len(ours[0].key):
            side = "real" if users else "synthetic"
            return {key: absent(f"no user of the {side} trace has {self.lacking}")}
        aside = setting.holdout
        fresh = self.tokens(aside) if aside is not None and aside.has("user") else []
        control = Control.of(ours, fresh, len(theirs))
        hits: set[int] = set()
        known: list[Ints] = []
        for among in ours:
            owner = owners(among)
            hit = np.isin(sought.key, owner.index.to_numpy())
            hits |= set(sought.user[hit].tolist())
            known.append(owner.reindex(np.unique(sought.key[hit])).to_numpy(dtype=np.int64))
        each = len(np.unique(sought.key)) / users
        exposure = float(np.clip(each / control.tokens, 1.0, MOST_EXPOSURE)) if control.tokens else 1.0
        worst = Worst.of(np.concatenate(known), real.labels["user"])
        return {
            key: Result(Count(len(hits), users), control.count, control.source, exposure=exposure, worst=worst).score()
        }
