"""The walk through a user's habits: which job comes next, given the last one and how long ago it was (compiled).

A nearest-neighbour bootstrap of a Markov chain (Lall and Sharma, Water Resources Research 32(3), 1996). The state is
the last job's template, the turn that now begins, and roughly how long the last job ran; what follows is what followed
in the real history at another moment in the same state. Real moments are dealt like cards, without replacement, so over
a whole period every one is used about once and no habit gains or loses weight by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numba
import numpy as np
from numpy.typing import NDArray

from generators.sessions.histories import RETURN, TURNS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Of this many moments in the same state the one whose last job ran most nearly as long is followed.
CANDIDATES = 30
#: Chance that a new session turns to something else, whatever came before.
CHANGE = 0.05
#: Chance that the moment that really followed is followed again, if it has the same turn (a stationary bootstrap with
#: blocks of 1 / (1 − FOLLOW) jobs on average: Politis and Romano, JASA 89, 1994).
FOLLOW = 0.9
#: Which turns are most alike, by turn.
NEXT_TURN = np.array([[0, 1, 2, 3], [1, 0, 2, 3], [2, 3, 1, 0], [3, 2, 1, 0]])


@dataclass(frozen=True)
class Moments:
    """Every real job as the continuation of the one before it, in piles of equal state. (jobs,) unless said."""

    log_run: Floats  # ln(1 + run time)
    before: Floats  # the same of the job before; −1 for the first of a history
    turn: Ints
    follow: Ints  # (jobs, TURNS) pile of what follows this job at each turn; −1 = never happened
    pile_first: Ints  # (piles + 1,) where each pile begins in `pile`
    pile: Ints  # jobs, pile by pile; piles are sorted by pool
    pool_piles: Ints  # (pools + 1,) where each pool's piles begin
    turn_first: Ints  # (pools · TURNS + 1,) where the jobs of each pool and turn begin in `by_turn`
    by_turn: Ints

    @classmethod
    def fit(cls, pool: Ints, owner: Ints, kind: Ints, turn: Ints, run: Floats) -> Self:
        """Pile the jobs, given in the order of histories. ``pool``: whose histories are dealt together."""
        n, pools = len(pool), int(pool.max()) + 1
        begins = np.diff(owner, prepend=-1) != 0
        log_run = np.log1p(run)
        last_kind = np.where(begins, -1, np.roll(kind, 1))
        before = np.where(begins, -1.0, np.roll(log_run, 1))
        kinds = int(kind.max()) + 2
        state = (pool * kinds + last_kind + 1) * TURNS + turn
        pile = np.argsort(state, kind="stable")
        states, first = np.unique(state[pile], return_index=True)
        wanted = ((pool * kinds + kind + 1) * TURNS)[:, None] + np.arange(TURNS)
        place = np.minimum(np.searchsorted(states, wanted), len(states) - 1)
        follow = np.where(states[place] == wanted, place, -1)
        by_turn = np.argsort(pool * TURNS + turn, kind="stable")
        return cls(
            log_run,
            before,
            turn,
            follow.astype(np.int64),
            np.append(first, n).astype(np.int64),
            pile.astype(np.int64),
            np.searchsorted(states // (kinds * TURNS), np.arange(pools + 1)).astype(np.int64),
            np.searchsorted((pool * TURNS + turn)[by_turn], np.arange(pools * TURNS + 1)).astype(np.int64),
            by_turn.astype(np.int64),
        )

    def walk(self, maker: Ints, pool: Ints, turn: Ints, rng: np.random.Generator) -> Ints:
        """Return for each job of a plan the real job after which it is modelled."""
        by_turn = self.by_turn.copy()
        _shuffle(self.turn_first, by_turn, rng)
        return np.asarray(
            _walk(
                maker, pool, turn, self.log_run, self.before, self.turn, self.follow, self.pile_first, self.pile.copy(),
                self.pool_piles, self.turn_first, by_turn, rng,
            )
        )  # fmt: skip


@numba.njit(cache=True, nogil=True)
def _shuffle(first: Ints, cards: Ints, rng: np.random.Generator) -> None:
    """Shuffle every heap in place."""
    for heap in range(len(first) - 1):
        for i in range(first[heap + 1] - 1, first[heap], -1):
            j = first[heap] + int(rng.random() * (i - first[heap] + 1))
            cards[i], cards[j] = cards[j], cards[i]


@numba.njit(cache=True, nogil=True)
def _walk(  # type: ignore[no-untyped-def]
    maker, pool, turn, log_run, before, card_turn, follow, pile_first, pile, pool_piles, turn_first, by_turn, rng
):
    """Deal one real job to every planned one; the cards of `pile` and `by_turn` change places on the way."""
    n = len(maker)
    dealt = np.empty(n, np.int64)
    used = np.zeros(len(log_run), np.bool_)
    left = np.diff(pile_first)  # cards that each pile still holds
    at = turn_first[:-1].copy()  # next card of each pool and turn
    dealt_of_pool = np.zeros(len(pool_piles) - 1, np.int64)
    last = -1
    for i in range(n):
        p = pool[i]
        if i == 0 or maker[i] != maker[i - 1]:
            last = -1
        if dealt_of_pool[p] == turn_first[(p + 1) * 4] - turn_first[p * 4]:  # all of them: take up the cards again
            for k in range(turn_first[p * 4], turn_first[(p + 1) * 4]):
                used[by_turn[k]] = False
            for c in range(pool_piles[p], pool_piles[p + 1]):
                left[c] = pile_first[c + 1] - pile_first[c]
            for t in range(4):
                at[p * 4 + t] = turn_first[p * 4 + t]
            dealt_of_pool[p] = 0
        best = -1
        if last >= 0 and not (turn[i] >= RETURN and rng.random() < CHANGE):
            card = last + 1
            goes_on = card < len(log_run) and before[card] >= 0 and not used[card] and card_turn[card] == turn[i]
            if goes_on and rng.random() < FOLLOW:
                best = card
            for step in range(TURNS if best < 0 else 0):  # what followed at this turn, or if none is left at a like one
                c = follow[last, NEXT_TURN[turn[i], step]]
                if c < 0:
                    continue
                nearest = np.inf
                found = 0
                while left[c] > 0 and found < CANDIDATES:
                    place = pile_first[c] + int(rng.random() * left[c])
                    card = pile[place]
                    if used[card]:  # dealt from elsewhere: put it away
                        left[c] -= 1
                        end = pile_first[c] + left[c]
                        pile[place], pile[end] = pile[end], card
                        continue
                    found += 1
                    distance = abs(before[card] - log_run[last])
                    if distance < nearest:
                        nearest, best = distance, card
                if best >= 0:
                    break
        t = turn[i]
        for step in range(4):  # nothing follows: something else of this turn, or of another one
            if best >= 0:
                break
            heap = p * 4 + (t + step) % 4
            while at[heap] < turn_first[heap + 1] and used[by_turn[at[heap]]]:
                at[heap] += 1
            if at[heap] < turn_first[heap + 1]:
                best = by_turn[at[heap]]
        used[best] = True
        dealt_of_pool[p] += 1
        dealt[i] = best
        last = best
    return dealt
