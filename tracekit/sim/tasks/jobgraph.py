"""The graph of the waiting and running jobs at one moment: which jobs matter to each other, and why.

A node is a job. An edge leads from a *source* to a *target*: the target looks at the source. Kinds of edges:

========  ==============================================================================================
user      jobs of the same user: the nearest in submit time
project   jobs of the same project: the nearest in submit time
time      any jobs: the nearest in submit time
free      two waiting jobs, each of which fits into what is free now, but not both: the smallest such
machine   two waiting jobs that are together larger than the machine: the smallest such
========  ==============================================================================================

Every kind gives a job at most ``most`` sources, so there are at most 5 · ``most`` edges per job, and building takes
O(n log n). Of equally near (equally large) jobs the earlier submit comes first, then the order of the rows: the graph
is a function of its input, without hashes. An edge that several kinds give is there once, with all their bits in
``kind``. Unknown users, projects and submit times give no edges. There are no self-loops; attention layers add them.

A row's *links* are the numbers from which edges are made: environments write them behind the features of a row
(`LINKS`), so a network can build the graph from what the agent sees, compiled, and nothing else has to be recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UnknownName, UsageError
from tracekit.sim.compile import jit
from tracekit.sim.policies.capability import SHARE
from tracekit.sim.snapshot import Snapshot
from tracekit.sim.tasks.sorting import merge_sort

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Kinds of edges; position = bit in `JobGraph.kind`.
KINDS = ("user", "project", "time", "free", "machine")
#: The numbers from which edges are made, as columns behind a row's features; 0 = unknown, no edge of that kind.
LINKS = (
    *("link-user", "link-project", "link-time", "link-submit", "link-size", "link-free", "link-machine"),
    "link-context",  # no edge: LINK_UNIT marks a row that is seen but cannot be chosen
)
USER, PROJECT, TIME, SUBMIT, SIZE, FREE, MACHINE, CONTEXT = range(len(LINKS))
#: What a column of a kind that is switched off is called; it is always 0.
NO_LINK = "link-none"
#: Links are multiples of this, a power of two: users, projects and sizes up to 16 million are exact in float32, and
#: every link of theirs is below `tracekit.sim.tasks.pick_job.features.LARGEST`.
LINK_UNIT = 2.0**-22
#: Seconds are multiples of this: exact for half a year, to two seconds after a year.
SECOND = 2.0**-30
#: Sources that each kind of edge gives a job at most.
MOST_SOURCES = 4
#: What is known of every node, as columns of `JobGraph.features`; times t without an upper end are t / (t + 1 h).
NODE_FEATURES = ("waits", "size", "log-size", "request", "area", "wait", "left", "fits", "capability")
_HOUR, _WEEK = 3600.0, 7 * 86400.0


def kinds_of(edges: str) -> tuple[str, ...]:
    """Return kinds of edges by name: ``user,time``; ``all`` or ``none``.

    >>> kinds_of("user,time")
    ('user', 'time')
    """
    if edges in ("all", "none"):
        return KINDS if edges == "all" else ()
    names = tuple(dict.fromkeys(name.strip() for name in edges.split(",")))
    for name in names:
        if name not in KINDS:
            raise UnknownName("kind of edges", name, [*KINDS, "all", "none"])
    return names


def link_names(edges: str, *, context: bool = False) -> tuple[str, ...]:
    """Return the columns of links for some kinds of edges, one for each of `LINKS`; ``context``: not all are options.

    >>> link_names("time")[:4]
    ('link-none', 'link-none', 'link-time', 'link-submit')
    """
    kinds = kinds_of(edges)
    known = (*kinds, "submit", "size") if kinds else ()
    known = (*known, "context") if context else known
    return tuple(name if name.removeprefix("link-") in known else NO_LINK for name in LINKS)


# ---- edges, compiled -------------------------------------------------------------------------------------------------


class GraphRoom(NamedTuple):
    """Scratch space and result of `find_edges`, with room for n jobs."""

    key: Floats  # (2, n) scratch
    row: Ints  # (2, n) scratch
    order: Ints  # (4, n) rows by (user, submit), by (project, submit), by submit, by size
    place: Ints  # (4, n) where a row stands in each order
    mark: Ints  # (n,) the edge from this source in the current target's list
    first: Ints  # (n + 1,) a target's first edge
    source: Ints  # (5 · most · n,) the other end of each edge
    kind: NDArray[np.uint8]  # (5 · most · n,) bits of `KINDS`


def graph_room(rows: int, most: int = MOST_SOURCES) -> GraphRoom:
    """Return space for graphs of up to ``rows`` jobs."""
    edges = len(KINDS) * most * rows
    return GraphRoom(
        np.empty((2, rows)),
        np.empty((2, rows), np.int64),
        np.empty((4, rows), np.int64),
        np.empty((4, rows), np.int64),
        np.empty(rows, np.int64),
        np.zeros(rows + 1, np.int64),
        np.empty(edges, np.int64),
        np.empty(edges, np.uint8),
    )


@jit
def _sort(links: Any, count: int, column: int, which: int, room: GraphRoom) -> None:
    """Sort rows by a column of links; ties by submit time (whose order, 2, is sorted first), then by row."""
    for at in range(count):
        row = at if which == 2 else room.order[2, at]
        room.key[0, at], room.row[0, at] = links[row, column], row
    found = merge_sort(room.key, room.row, count)
    for at in range(count):
        row = room.row[found, at]
        room.order[which, at], room.place[which, row] = row, at


@jit
def _enter(room: GraphRoom, target: int, begin: int, used: int, source: int, kind: int) -> int:
    """Add an edge to the target's list, or a kind to one that is there; return how many edges are used."""
    known = room.mark[source]
    if begin <= known < used and room.source[known] == source:
        room.kind[known] |= np.uint8(1 << kind)
        return used
    room.mark[source], room.source[used], room.kind[used] = used, source, np.uint8(1 << kind)
    return used + 1


@jit
def find_edges(links: Any, count: int, most: int, room: GraphRoom) -> int:
    """Write the edges between the first ``count`` rows of ``links`` (rows, LINKS) into ``room``; return how many."""
    _sort(links, count, SUBMIT, 2, room)
    _sort(links, count, USER, 0, room)
    _sort(links, count, PROJECT, 1, room)
    _sort(links, count, SIZE, 3, room)
    for row in range(count):
        room.mark[row] = -1
    used = 0
    room.first[0] = 0
    for target in range(count):
        begin = used
        if links[target, SUBMIT] > 0.0:
            for kind in range(3):
                used = _nearest(links, count, most, room, target, begin, used, kind)
        if links[target, SIZE] > 0.0:
            for kind in range(3, 5):
                used = _rivals(links, count, most, room, target, begin, used, kind)
        room.first[target + 1] = used
    return used


@jit
def _nearest(links: Any, count: int, most: int, room: GraphRoom, target: int, begin: int, used: int, kind: int) -> int:
    """Add edges from the jobs of the target's group (user, project, all) that are nearest in submit time."""
    group, submit = links[target, kind], links[target, SUBMIT]
    if not group > 0.0:
        return used
    low, high = room.place[kind, target] - 1, room.place[kind, target] + 1
    for _ in range(most):
        before = after = np.inf
        if low >= 0:
            row = room.order[kind, low]
            if links[row, kind] == group and links[row, SUBMIT] > 0.0:
                before = submit - links[row, SUBMIT]
        if high < count and links[room.order[kind, high], kind] == group:
            after = links[room.order[kind, high], SUBMIT] - submit
        if before == np.inf and after == np.inf:
            break
        if before <= after:
            used = _enter(room, target, begin, used, room.order[kind, low], kind)
            low -= 1
        else:
            used = _enter(room, target, begin, used, room.order[kind, high], kind)
            high += 1
    return used


@jit
def _rivals(links: Any, count: int, most: int, room: GraphRoom, target: int, begin: int, used: int, kind: int) -> int:
    """Add edges from the smallest jobs that do not fit beside the target into what is free, or into the machine."""
    limit, size = links[target, FREE if kind == 3 else MACHINE], links[target, SIZE]
    if not limit > 0.0 or size > limit:
        return used
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if size + links[room.order[3, middle], SIZE] > limit:
            high = middle
        else:
            low = middle + 1
    found = 0
    while low < count and found < most:
        row = room.order[3, low]
        if links[row, SIZE] > limit:
            break
        if row != target:
            used = _enter(room, target, begin, used, row, kind)
            found += 1
        low += 1
    return used


@jit
def find_packed_edges(
    links: Any, first: Ints, count: Ints, most: int, room: GraphRoom, ends: Ints, source: Ints
) -> int:
    """Write the edges of many graphs, packed: graph g has the rows from ``first[g]`` on, ``count[g]`` of them.

    ``ends`` (rows + 1,) and ``source`` are those of one large graph whose rows are all rows. Returns its edges.
    """
    used = 0
    ends[0] = 0
    for graph in range(len(first)):
        begin, size = first[graph], count[graph]
        made = find_edges(links[begin : begin + size], size, most, room)
        for row in range(size):
            ends[begin + row + 1] = used + room.first[row + 1]
        for edge in range(made):
            source[used + edge] = begin + room.source[edge]
        used += made
    return used


# ---- from Python -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class JobGraph:
    """The jobs at one moment and the edges between them; n jobs, E edges by target."""

    id: Sequence[str | int]  # (n,) waiting jobs first, then running ones
    features: NDArray[np.float32]  # (n, NODE_FEATURES)
    first: Ints  # (n + 1,) CSR: the edges of target i are first[i] … first[i + 1]
    source: Ints  # (E,)
    kind: NDArray[np.uint8]  # (E,) bits of `KINDS`

    def __len__(self) -> int:
        return len(self.id)

    @property
    def edges(self) -> Ints:
        """The edges as pairs (source, target), (E, 2)."""
        target = np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.first))
        return np.stack([self.source, target], 1)

    def of_kind(self, name: str) -> Ints:
        """Return the edges that one kind gives, (edges, 2)."""
        (known,) = kinds_of(name)
        edges: Ints = self.edges[(self.kind >> KINDS.index(known)) & 1 == 1]
        return edges


def edges_of(links: NDArray[Any], most: int = MOST_SOURCES) -> tuple[Ints, Ints, NDArray[np.uint8]]:
    """Return the edges that links, (n, LINKS), give: a target's first edge, (n + 1,), sources and kinds, (E,)."""
    if most < 1:
        raise UsageError(f"a job needs at least one source of each kind, not {most}")
    room = graph_room(len(links), most)
    used = find_edges(links, len(links), most, room)
    return room.first, room.source[:used].copy(), room.kind[:used].copy()


def links_of(
    user: Ints, project: Ints, submit: Floats, size: Floats, free: float, total: float, kinds: Sequence[str] = KINDS
) -> Floats:
    """Return the links of jobs, (n, LINKS).

    ``user`` and ``project`` are numbers, below 0 = unknown; ``submit`` in seconds from any origin that is not later,
    NaN = unknown; ``size`` of running jobs is 0; ``free`` and ``total`` of the machine.
    """
    links = np.zeros((len(submit), len(LINKS)))
    if not kinds:
        return links
    links[:, SUBMIT] = np.nan_to_num((submit + 1.0) * SECOND)
    links[:, SIZE] = size * LINK_UNIT
    for name, column, values in (
        ("user", USER, user + 1.0),
        ("project", PROJECT, project + 1.0),
        ("time", TIME, 1.0),
        ("free", FREE, free),
        ("machine", MACHINE, total),
    ):
        if name in kinds:
            links[:, column] = np.maximum(values, 0.0) * LINK_UNIT
    return links


def node_features(
    waits: NDArray[np.bool_], size: Floats, estimate: Floats, wait: Floats, left: Floats, free: float, total: float
) -> NDArray[np.float32]:
    """Return `NODE_FEATURES` of jobs, (n, 9).

    Seconds of estimated run time, of wait (of running jobs: 0) and of what is left by estimate (of waiting jobs: 0).
    """
    asked, sizes = np.maximum(estimate, 0.0), size / total
    return np.stack(
        [
            waits.astype(np.float32),
            sizes,
            np.log1p(size) / np.log1p(total),
            np.minimum(np.log1p(asked) / np.log1p(_WEEK), 4.0),
            np.minimum(np.log1p(asked * size) / np.log1p(_WEEK * total), 4.0),
            wait / (wait + _HOUR),
            left / (left + _HOUR),
            waits & (size <= free),
            sizes >= SHARE,
        ],
        1,
    ).astype(np.float32)


def job_graph(snapshot: Snapshot, edges: str = "all", most: int = MOST_SOURCES) -> JobGraph:
    """Return the graph of the jobs of a snapshot; ``edges`` names the kinds, ``most`` caps each kind per job.

    >>> import tracekit
    >>> graph = job_graph(tracekit.Snapshot.from_trace(tracekit.sample(), 1_425_600))
    >>> len(graph), graph.features.shape, int(np.diff(graph.first).max()) <= 5 * MOST_SOURCES
    (50, (50, 9), True)
    """
    running, waiting, now = snapshot.running, snapshot.waiting, snapshot.clock
    waits = np.arange(len(waiting) + len(running)) < len(waiting)
    there = np.full(len(running), np.nan) if running.submit is None else running.submit
    submit = np.concatenate([waiting.submit, there])
    size = np.concatenate([waiting.size, running.size])
    origin = np.nanmin(submit) if np.isfinite(submit).any() else 0.0
    asked = np.nan_to_num(np.concatenate([waiting.estimate, running.estimate]))
    rest = np.concatenate([np.zeros(len(waiting)), snapshot.expected_end - now])
    links = links_of(
        _numbers(waiting.user, running.user, len(waiting), len(running)),
        _numbers(waiting.project, running.project, len(waiting), len(running)),
        submit - origin,
        np.where(waits, size, 0.0),
        snapshot.free,
        snapshot.total,
        kinds_of(edges),
    )
    wait = np.where(waits, np.nan_to_num(now - submit), 0.0)
    features = node_features(waits, size, asked, wait, rest, snapshot.free, snapshot.total)
    return JobGraph([*waiting.id, *running.id], features, *edges_of(links, most))


def _numbers(waiting: Any, running: Any, some: int, others: int) -> Ints:
    """Return labels as numbers, in the order of their first appearance; unknown = −1."""
    labels = [*(waiting or [None] * some), *(running or [None] * others)]
    known: dict[Any, int] = {}
    return np.array([-1 if label is None else known.setdefault(label, len(known)) for label in labels], np.int64)
