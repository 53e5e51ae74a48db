"""Singling out users by what they ask for: rare requests, and requests or run times in a row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from evaluation.attacks.tokens import Ints, Keys, SinglesOut, Tokens, hashed, of_rows
from evaluation.users import Chains
from evaluation.view import Floats, View

SEQUENCE = 6  # consecutive requests
CHANGES = 2  # of the request within a sequence, at least: a user who repeats one request is like many others
RUNS = 4  # consecutive run times
LEAST_RUN = 60.0  # seconds
CELL = 0.05  # of ln(run time)


def requests(view: View) -> Keys:
    """Return a hash of each job's size and limit; an unknown limit is a value like any other."""
    limit = view.numbers.get("req_time", np.full(len(view), np.nan))
    table = np.nan_to_num(np.column_stack([view.size, limit]), nan=-1.0, posinf=-1.0)
    return hashed(np.round(table * 1000).astype(np.int64), 11)


class RareRequests(SinglesOut):
    """privacy.rare_requests: share of synthetic users with a request that exactly one real user has ever made.

    A request is a size and a limit. The attacker knows one unusual request of a person.
    """

    name = "rare_requests"
    lacking = "requests"

    def tokens(self, view: View) -> list[Tokens]:
        """Return every user's different requests, by week."""
        rows = np.flatnonzero(view.labels["user"] >= 0)
        return [of_rows(view, requests(view)[rows], view.labels["user"][rows], rows, rows)]


class RequestSequences(SinglesOut):
    """privacy.request_sequences: share of synthetic users with six requests in a row that only one real user has.

    Sequences in which the request changes at least twice. The attacker has seen a stretch of a person's requests.
    """

    name = "request_sequences"
    lacking = "six jobs in a row with changing requests"

    def tokens(self, view: View) -> list[Tokens]:
        """Return the sequences of every user."""
        chains = Chains.of(view)
        order = chains.order
        if len(order) < SEQUENCE:
            return [Tokens.empty()]
        asked = requests(view)[order].view(np.int64)
        same = sliding_window_view(chains.follows, SEQUENCE - 1).all(axis=1)
        changes = sliding_window_view(asked[1:] != asked[:-1], SEQUENCE - 1).sum(axis=1)
        first = np.flatnonzero(same & (changes >= CHANGES))
        key = hashed(sliding_window_view(asked, SEQUENCE)[first], 12)
        return [of_rows(view, key, view.labels["user"][order[first]], order[first], order[first + SEQUENCE - 1])]


class RunTimes(SinglesOut):
    """privacy.run_times: share of synthetic users with four run times in a row that only one real user has.

    Run times above a minute that agree within about 5 %, with the same sizes. The attacker has seen four jobs run.
    """

    name = "run_times"
    lacking = "four jobs in a row that ran for more than a minute"

    def tokens(self, view: View) -> list[Tokens]:
        """Return the sequences of every user, in two sets of cells."""
        chains = Chains.of(view)
        order = chains.order
        run = view.numbers.get("run_time")
        if run is None or len(order) < RUNS:
            return [Tokens.empty()]
        run, size = run[order], np.nan_to_num(view.size[order], nan=-1.0)
        usable = sliding_window_view(chains.follows, RUNS - 1).all(axis=1)
        usable &= sliding_window_view(run > LEAST_RUN, RUNS).all(axis=1)
        first = np.flatnonzero(usable)
        return [
            Tokens.joined(
                of_rows(view, key, view.labels["user"][order[first]], order[first], order[first + RUNS - 1])
                for key in _run_keys(run, size, first)
            )
        ]


def _run_keys(run: Floats, size: Floats, first: Ints) -> Iterator[Keys]:
    for half in (0, 1):
        cells = np.floor(np.log(np.maximum(np.nan_to_num(run), 1.0)) / CELL + half / 2).astype(np.int64)
        both = [sliding_window_view(part, RUNS)[first] for part in (cells, np.round(size * 1000).astype(np.int64))]
        yield hashed(np.concatenate(both, axis=1), 13 + half)
