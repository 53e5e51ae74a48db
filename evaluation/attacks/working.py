"""Singling out users by how they work: sessions in a row, by their jobs, lengths and the think times between them."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from evaluation.attacks.tokens import SinglesOut, Tokens, hashed, of_rows
from evaluation.chained import SESSION_GAP
from evaluation.users import Chains, user_gaps
from evaluation.view import View

SESSIONS = 3  # in a row
CELL = 0.25  # of ln(seconds): within about a quarter


class SessionSequences(SinglesOut):
    """privacy.session_sequences: share of synthetic users with three sessions in a row that exactly one real user has.

    Sessions are alike if they have the same number of jobs and, within about a quarter, the same length and the same
    think time before them; at least one has several jobs. The attacker knows when a person worked, roughly.
    """

    name = "session_sequences"
    lacking = "three sessions in a row"

    def tokens(self, view: View) -> list[Tokens]:
        """Return the sequences of sessions of every user, in two sets of cells."""
        chains = Chains.of(view)
        order = chains.order
        if not len(order):
            return [Tokens.empty()]
        breaks = ~chains.follows | (user_gaps(view, chains) > SESSION_GAP)
        last = np.flatnonzero(np.append(breaks, True))
        first = np.append(0, last[:-1] + 1)
        if len(first) <= SESSIONS:
            return [Tokens.empty()]
        jobs = last - first + 1
        user = view.labels["user"][order[first]]
        submit = view.submit[order]
        length = np.log(1 + submit[last] - submit[first])
        think = np.log(np.maximum(submit[first[1:]] - submit[last[:-1]], 1.0))  # before session 1 …
        same = sliding_window_view(user, SESSIONS)
        usable = (same == same[:, :1]).all(axis=1) & (sliding_window_view(jobs, SESSIONS).max(axis=1) > 1)
        begin = np.flatnonzero(usable)
        parts = []
        for half in (0, 1):
            cells = [np.floor(value / CELL + half / 2).astype(np.int64) for value in (length, think)]
            table = np.concatenate(
                [
                    sliding_window_view(jobs, SESSIONS)[begin],
                    sliding_window_view(cells[0], SESSIONS)[begin],
                    sliding_window_view(cells[1], SESSIONS - 1)[begin],
                ],
                axis=1,
            )
            rows = order[first[begin]], order[last[begin + SESSIONS - 1]]
            parts.append(of_rows(view, hashed(table, 21 + half), user[begin], *rows))
        return [Tokens.joined(parts)]
