"""The hosts of a simulation for some of its jobs only: forecasts play a queue on them without touching the original."""

from __future__ import annotations

import numpy as np

from tracekit.sim.hosts.demand import PIECES, SPREAD
from tracekit.sim.hosts.scores import ASKED, FIRST_FIT
from tracekit.sim.hosts.state import (
    ENTRIES,
    FILLED,
    HEAD,
    HOSTS,
    LABEL,
    LOG,
    NEED,
    PARTS,
    RULE,
    SPAN,
    TAIL,
    AskedHosts,
    Hosts,
    Ints,
)


def parts_in(data: Ints) -> dict[int, Ints]:
    """Return views of all parts of one lane's array."""
    ends = np.append(data[PARTS.start + 1 : HEAD], len(data))
    return {part: data[data[part] : end] for part, end in zip(PARTS, ends.tolist(), strict=True)}


def part_of(hosts: Hosts | AskedHosts, waiting: Ints, running: Ints) -> Hosts:
    """Return a copy of the hosts as they are now that knows these jobs only: first the waiting, then the running ones.

    They are numbered by their places there. Where Python places jobs, the copy places them first-fit.
    """
    data, jobs = hosts.data, np.concatenate([waiting, running])
    parts = parts_in(data)
    need, span = parts[NEED].reshape(-1, 8)[jobs], parts[SPAN].reshape(-1, 2)[jobs]
    span[: len(waiting)] = 0
    log = parts[LOG].reshape(-1, 4)
    held = [log[begin : begin + count] for begin, count in span.tolist()]
    tail = int(span[:, 1].sum())
    span[:, 0] = np.cumsum(span[:, 1]) - span[:, 1]
    # every waiting job is placed once
    pieces = np.where(need[:, SPREAD] > 0, np.minimum(need[:, PIECES], data[HOSTS]), need[:, PIECES])[: len(waiting)]
    room = np.zeros((int(pieces.sum()), 4), np.int64)
    parts |= {NEED: need, SPAN: span, LOG: np.concatenate([*held, room])}
    parts |= {part: parts[part][jobs] for part in (LABEL, FILLED)}
    made = np.concatenate([data[:HEAD], *(values.ravel() for values in parts.values())])
    made[PARTS.start : HEAD] = HEAD + np.cumsum([0, *(values.size for values in parts.values())])[:-1]
    made[TAIL], made[ENTRIES] = tail, tail + len(room)
    if made[RULE] == ASKED:
        made[RULE] = FIRST_FIT
    return Hosts(made, hosts.real.copy())
