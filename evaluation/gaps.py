"""Privacy of users: attacks that find a synthetic user in the real trace by the gaps between its submits.

A few consecutive gaps between one user's jobs are nearly a fingerprint. The attacker takes the gaps of each synthetic
user and looks for them in the lists of all real users; a sequence that only one real user has identifies that user.
Labels are not compared, so new labels do not protect users. The control is the same attack on real users from weeks
that the attacker does not have: the hold-out where there is one, else each week of the real trace against all the
others. Gaps of start times (submit + wait) are used as well as those of submit times if waits are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from evaluation.base import NAN, Score, Setting, absent
from evaluation.view import Floats, View, weeks
from tracekit.intervals import wilson

Keys = NDArray[np.uint64]
Ints = NDArray[np.int64]

FEWEST_CONTROL = 20  # users of the hold-out with a sequence, below which weeks of the real trace are the control
MOST_EXPOSURE = 4.0  # limit on chances of an accidental match, as a multiple of the control's


@dataclass(frozen=True)
class Exact:
    """Sequences of ``count`` gaps, each above ``least`` seconds, that are equal to the millisecond."""

    count: int
    least: float  # seconds

    def keys(self, gaps: Floats) -> Iterator[Keys]:
        """Return one hash for each row of gaps, shape (sequences, count)."""
        yield _hashed(np.round(gaps * 1000).astype(np.int64), 1)


@dataclass(frozen=True)
class Ratios:
    """Sequences with similar ratios of neighbouring gaps: scaled, rounded or jittered times change them little.

    Cells of ``width`` in the logarithm of the ratio, twice: the second time shifted by half a cell, as ratios near the
    edge of one cell are in the middle of another.
    """

    count: int
    least: float  # seconds
    width: float

    def keys(self, gaps: Floats) -> Iterator[Keys]:
        """Return two hashes for each row of gaps, shape (sequences, count)."""
        steps = np.diff(np.log(gaps), axis=1) / self.width
        for half in (0, 1):
            yield _hashed(np.floor(steps + half / 2).astype(np.int64), 2 * round(self.least) + half)


Recipes = tuple[Exact | Ratios, ...]


def _hashed(numbers: Ints, seed: int) -> Keys:
    """Return one hash for each row of whole numbers."""
    key = np.full(len(numbers), seed, dtype=np.uint64)
    for column in np.ascontiguousarray(numbers.T).view(np.uint64):
        key = (key ^ column) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
        key *= np.uint64(0xBF58476D1CE4E5B9)
        key ^= key >> np.uint64(32)
    return key


@dataclass(frozen=True)
class Sequences:
    """Sequences of gaps of all users by one clock, one entry each, all arrays of shape (sequences,)."""

    key: Keys  # equal sequences have equal keys
    user: Ints
    block: Ints  # week that holds all its jobs; −1 = they lie in more than one week

    @classmethod
    def joined(cls, parts: Iterable[Sequences]) -> Sequences:
        """Concatenate the sequences of several parts."""
        every = list(parts)
        key, user, block = (np.concatenate([getattr(p, name) for p in every]) for name in ("key", "user", "block"))
        return cls(key, user, block)

    @classmethod
    def by_clock(cls, view: View, recipes: Recipes) -> list[Sequences]:
        """Collect every user's sequences, once by each clock of the view."""
        return [cls.joined(part for one in recipes for part in _parts(view, clock, one)) for clock in _clocks(view)]

    def users(self) -> Ints:
        """Return the users that have at least one sequence."""
        return np.unique(self.user)


def _clocks(view: View) -> Iterator[Floats]:
    """Return submit times, and start times where some job is known to have waited."""
    yield view.submit
    wait = view.numbers.get("wait_time")
    if wait is not None and np.any(wait > 0):
        yield view.submit + wait


def _parts(view: View, clock: Floats, recipe: Exact | Ratios) -> Iterator[Sequences]:
    """Return the sequences of one kind by one clock."""
    rows = np.flatnonzero((view.labels["user"] >= 0) & np.isfinite(clock))
    rows = rows[np.lexsort((clock[rows], view.labels["user"][rows]))]
    user, time = view.labels["user"][rows], clock[rows]
    if len(rows) <= recipe.count:
        empty = np.empty(0, np.int64)
        yield Sequences(empty.astype(np.uint64), empty, empty)
        return
    gaps = np.diff(time)
    usable = (user[1:] == user[:-1]) & (gaps > recipe.least)
    first = np.flatnonzero(sliding_window_view(usable, recipe.count).all(axis=1))
    week = weeks(view, time)
    block = np.where(week[first] == week[first + recipe.count], week[first], -1)
    for key in recipe.keys(sliding_window_view(gaps, recipe.count)[first]):
        yield Sequences(key, user[first], block)


def found_in(sought: Sequences, among: Sequences) -> Ints:
    """Return the users of ``sought`` with a sequence that exactly one user of ``among`` has."""
    order = np.lexsort((among.user, among.key))
    key, user = among.key[order], among.user[order]
    fresh = np.ones(len(key), dtype=bool)
    fresh[1:] = (key[1:] != key[:-1]) | (user[1:] != user[:-1])
    names, owners = np.unique(key[fresh], return_counts=True)
    return np.unique(sought.user[np.isin(sought.key, names[owners == 1])])


def found_in_other_weeks(sought: Sequences, among: Sequences) -> Ints:
    """Return the users with a sequence that exactly one user has in other weeks; all within one trace.

    Owners in other weeks = all owners, minus those that have the sequence in this week only.
    """
    table, mine = (pd.DataFrame({"key": s.key, "user": s.user, "block": s.block}) for s in (among, sought))
    places = pd.concat([table[["key", "block"]], mine[["key", "block"]]]).drop_duplicates()
    repeated = places["key"][places["key"].duplicated()]  # the others occur in one week only
    table, mine = (part[part["key"].isin(repeated)].drop_duplicates() for part in (table, mine))
    owned = table.groupby(["key", "user"], sort=False)["block"].agg(["size", "first"]).reset_index()
    owners = owned.groupby("key", sort=False).size()
    local = owned[owned["size"] == 1].groupby(["key", "first"], sort=False).size().rename("here").reset_index()
    mine = mine.merge(local, how="left", left_on=["key", "block"], right_on=["key", "first"])
    elsewhere = mine["key"].map(owners).fillna(0) - mine["here"].fillna(0)
    return np.unique(mine["user"].to_numpy()[(elsewhere == 1).to_numpy()])


@dataclass(frozen=True)
class Control:
    """How often the attack finds real users from weeks that the attacker does not have."""

    hits: int
    users: int
    sequences: float  # per user: chances of an accidental match
    source: str

    @classmethod
    def of(cls, real: list[Sequences], holdout: list[Sequences], clocks: int) -> Control:
        """Take the hold-out, or the weeks of the real trace where the hold-out has too few users.

        ``clocks``: how many clocks the synthetic trace has; the control uses no more than those.
        """
        aside = Sequences.joined(holdout[:clocks]) if holdout else None
        if aside is not None and len(aside.users()) >= FEWEST_CONTROL:
            hits = {user for among in real for user in found_in(aside, among).tolist()}
            return cls(len(hits), len(aside.users()), len(aside.key) / len(aside.users()), "the hold-out")
        among = [_inside(part) for part in real]
        mine = Sequences.joined(among[:clocks])
        hits = {user for part in among for user in found_in_other_weeks(mine, part).tolist()}
        users = len(mine.users())
        return cls(len(hits), users, len(mine.key) / max(users, 1), "each real week against the others")


def _inside(part: Sequences) -> Sequences:
    """Return the sequences that lie within one week."""
    rows = part.block >= 0
    return Sequences(part.key[rows], part.user[rows], part.block[rows])


class _ByGaps:
    """Common code of the attacks by gaps; they need users, but no hold-out."""

    family: ClassVar[str] = "privacy"
    resampled: ClassVar[bool] = False
    unit: ClassVar[str] = "share of users"
    name: ClassVar[str]
    recipes: ClassVar[Recipes]

    def __call__(self, real: View, synth: View, /, *, setting: Setting, rng: np.random.Generator) -> dict[str, Score]:
        """Search for every synthetic user, and every user of the control, among the real ones."""
        key = f"privacy.{self.name}"
        for view, side in ((real, "real"), (synth, "synthetic")):
            if not view.has("user"):
                return {key: absent(f"the {side} trace has no users")}
        ours, theirs = (Sequences.by_clock(view, self.recipes) for view in (real, synth))
        sought = Sequences.joined(theirs)
        users = len(sought.users())
        if not users or not len(ours[0].key):
            side = "real" if users else "synthetic"
            return {key: absent(f"no user of the {side} trace has enough consecutive jobs with long enough gaps")}
        aside = setting.holdout
        fresh = Sequences.by_clock(aside, self.recipes) if aside is not None and aside.has("user") else []
        control = Control.of(ours, fresh, len(theirs))
        hits = {user for among in ours for user in found_in(sought, among).tolist()}
        return {key: self._score(len(hits), users, len(sought.key) / users, control)}

    def _score(self, hits: int, users: int, sequences: float, control: Control) -> Score:
        low, high = wilson(hits, users)
        control_low, control_high = wilson(control.hits, control.users)
        exposure = float(np.clip(sequences / control.sequences, 1.0, MOST_EXPOSURE)) if control.sequences else 1.0
        detail = {
            "linked": float(hits),
            "users": float(users),
            "control_linked": float(control.hits),
            "control_users": float(control.users),
            "low": low,
            "high": high,
            "control_low": control_low,
            "control_high": control_high,
            "expected": 1 - (1 - control_high) ** exposure,  # with as many sequences per user as the synthetic trace
        }
        usual = f"control ({control.source}): {control.hits} of {control.users} real users"
        level = control.hits / control.users if control.users else NAN
        return Score(hits / users, real=level, note=f"{hits} of {users} synthetic users; {usual}", detail=detail)


class SubmitGaps(_ByGaps):
    """privacy.submit_gaps: share of synthetic users with three consecutive submit gaps that only one real user has.

    Each gap is above 5 s; gaps are equal to the millisecond.
    """

    name = "submit_gaps"
    recipes = (Exact(3, 5.0),)


class SubmitRhythm(_ByGaps):
    """privacy.submit_rhythm: the same by ratios of five consecutive gaps, so scaled, rounded or jittered times match.

    Gaps above 2 minutes whose ratios agree within about 5 %, or above 30 minutes and within about 10 %.
    """

    name = "submit_rhythm"
    recipes = (Ratios(5, 120.0, 0.05), Ratios(5, 1800.0, 0.1))
