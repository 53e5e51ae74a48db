"""The networks as plain arrays: how an agent scores the offered jobs, compiled, without torch.

A network is a kind, the sizes of its layers and one flat array of weights. Scores are computed for the jobs that are
present, column by column over jobs: the inner loops run over contiguous numbers, so the compiler can vectorise them.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.agents.inference_gat import LOOKS, GraphScratch, graph_scratch, hide_context, look_at_graph
from tracekit.sim.agents.inference_layers import Singles, layer, vector
from tracekit.sim.compile import jit
from tracekit.sim.tasks.jobgraph import LINKS

KERNEL, ATTENTION, MLP, HOSTS, GAT = range(5)
KINDS = {"kernel": KERNEL, "attention": ATTENTION, "mlp": MLP, "hosts": HOSTS, "gat": GAT}

#: Kernel networks work on jobs in blocks of this many: loops of a known multiple are much faster than odd ones.
BLOCK = 32

NOT_NUMBERS = "the network's scores are NaN; the agent is damaged or its training diverged"

Layout = tuple[tuple[str, tuple[int, ...]], ...]  # name and shape of every part of the flat weights


class Net(NamedTuple):
    """A network for inference."""

    kind: int
    sizes: NDArray[np.int64]  # widths from input to output; mlp: the input is slots × features, the output slots
    flat: Singles  # weights (in, out) and biases (out) of each layer, one after the other
    features: int  # of one job


class Scratch(NamedTuple):
    """Scratch space; one per thread."""

    a: Singles  # (width, most rows)
    b: Singles  # (width, most rows)
    c: Singles  # (3 × width, most rows) queries, keys and values of the attention; hosts: (4, width) vectors; gat: one
    row: Singles  # (most rows,)
    score: Singles  # (most rows,) the answer
    graph: GraphScratch  # of gat; tiny for the others


def no_net() -> Net:
    """Return an empty network, for where none is used."""
    return Net(KERNEL, np.ones(2, np.int64), np.zeros(2, np.float32), 1)


def room(net: Net, rows: int) -> Scratch:
    """Return scratch space for decisions among up to ``rows`` jobs (skipping counts as one)."""
    inner = net.sizes[1:] if net.kind == MLP else net.sizes
    width, columns = int(inner.max()), -(-rows // BLOCK) * BLOCK if net.kind != MLP else 1
    return Scratch(
        np.empty((width, columns), np.float32),
        np.empty((width, columns), np.float32),
        np.empty(
            {ATTENTION: (3 * width, columns), HOSTS: (4, width), GAT: (width, columns)}.get(net.kind, (1, 1)),
            np.float32,
        ),
        np.empty(rows, np.float32),
        np.empty(rows, np.float32),
        graph_scratch(rows, int(net.sizes[1])) if net.kind == GAT else graph_scratch(1, 1),
    )


def shapes_of(network: str, sizes: tuple[int, ...]) -> list[tuple[str, int, int]]:
    """Return (name, in, out) of every layer, in the order of the flat weights."""
    found = [(f"layer{i}", wide, narrow) for i, (wide, narrow) in enumerate(pairwise(sizes))]
    if network == "attention":
        found[1:1] = [(name, sizes[1], sizes[1]) for name in ("query", "key", "value")]
    if network == "hosts":
        found[1:1] = [("job", sizes[0], sizes[1])]
        found[2:2] = [(name, sizes[1], sizes[1]) for name in ("query", "key", "value")]
    if network == "gat":
        found[0] = ("layer0", sizes[0] - len(LINKS), sizes[1])
        found[1:1] = [(name, sizes[1], sizes[1]) for name in (*LOOKS, "pool")]
    return found


def layout_of(network: str, sizes: tuple[int, ...]) -> Layout:
    """Return name and shape of every part of the flat weights, layer by layer.

    A layer has ``<layer>.weight`` (in, out) and ``<layer>.bias`` (out,); one that looks along the edges of a graph also
    ``<layer>.source`` and ``<layer>.target`` (out,), the vectors of its attention.
    """
    found: list[tuple[str, tuple[int, ...]]] = []
    for name, wide, narrow in shapes_of(network, sizes):
        found += [(f"{name}.weight", (wide, narrow)), (f"{name}.bias", (narrow,))]
        if name in LOOKS:
            found += [(f"{name}.source", (narrow,)), (f"{name}.target", (narrow,))]
    return tuple(found)


def weights_in(kind: str, sizes: NDArray[np.int64]) -> int:
    """Return how many numbers the flat array of a network of these sizes holds."""
    return sum(math.prod(shape) for _, shape in layout_of(kind, tuple(int(size) for size in sizes)))


@jit
def _attend(flat: Singles, at: int, width: int, h: Singles, qkv: Singles, row: Singles, rows: int) -> int:
    """Add to every job's vector its attention over the others; h (width, rows) changes in place."""
    for part in range(3):
        at = layer(flat, at, width, width, h, qkv[part * width : (part + 1) * width], rows, False)
    scale = np.float32(1.0 / math.sqrt(width))
    for r in range(rows):
        largest = np.float32(-np.inf)
        for s in range(rows):
            row[s] = np.float32(0.0)
        for i in range(width):
            q = qkv[i, r] * scale
            for s in range(rows):
                row[s] += q * qkv[width + i, s]
        for s in range(rows):
            largest = max(largest, row[s])
        total = np.float32(0.0)
        for s in range(rows):
            # Relative to the largest, exp cannot overflow.
            row[s] = np.float32(math.exp(row[s] - largest))
            total += row[s]
        for i in range(width):
            mixed = np.float32(0.0)
            for s in range(rows):
                mixed += row[s] * qkv[2 * width + i, s]
            h[i, r] += mixed / total
    return at


@jit
def _look_at_hosts(
    flat: Singles, at: int, features: int, width: int, rows: Singles, h: Singles, scratch: Scratch, count: int
) -> int:
    """Add to every host's vector the job's, and the job's attention over all hosts; h (width, rows) changes in place.

    The job is encoded from the mean of the rows, in which its own features are the same everywhere. One query looks at
    all hosts, so the cost grows with the number of hosts, not with its square: keys and values are
    computed once for the query and for the mixture, not for every host.
    """
    mean, job, query, mixed = scratch.c[0], scratch.c[1], scratch.c[2], scratch.c[3]
    weight = scratch.row
    for f in range(features):
        total = np.float32(0.0)
        for r in range(count):
            total += rows[f, r]
        mean[f] = total / np.float32(count)
    at = vector(flat, at, features, width, mean, job, True)
    at = vector(flat, at, width, width, job, query, False)
    scale = np.float32(1.0 / math.sqrt(width))
    for i in range(width):  # the query in the hosts' own space; a key's bias is the same for all hosts and cancels
        part = np.float32(0.0)
        for o in range(width):
            part += flat[at + i * width + o] * query[o]
        mixed[i] = part * scale
    at += (width + 1) * width
    for r in range(count):
        weight[r] = np.float32(0.0)
    for i in range(width):
        for r in range(count):
            weight[r] += mixed[i] * h[i, r]
    largest, total = np.float32(-np.inf), np.float32(0.0)
    for r in range(count):
        largest = max(largest, weight[r])
    for r in range(count):
        weight[r] = np.float32(math.exp(weight[r] - largest))
        total += weight[r]
    for i in range(width):
        part = np.float32(0.0)
        for r in range(count):
            part += weight[r] * h[i, r]
        mixed[i] = part / total
    at = vector(flat, at, width, width, mixed, query, False)
    for i in range(width):
        add = query[i] + job[i]
        for r in range(count):
            h[i, r] += add
    return at


@jit
def score(net: Net, jobs: Singles, rows: int, skip: bool, scratch: Scratch) -> None:
    """Write the score of each of the first ``rows`` jobs (slots, features), and of skipping behind them.

    Skipping is a job whose features are all 1, in the slot behind the last.
    """
    total = rows + 1 if skip else rows
    sizes, flat, features = net.sizes, net.flat, net.features
    layers = len(sizes) - 1
    a, b = scratch.a, scratch.b
    if net.kind == MLP:
        _score_slots(net, jobs, rows, skip, scratch)
        return
    if net.kind == GAT:  # the last features are links, which make the edges
        features -= len(LINKS)
    # Padding is harmless where every job is scored by itself; attention among jobs would see the padded rows.
    columns = total if net.kind == ATTENTION else (total + BLOCK - 1) // BLOCK * BLOCK
    for f in range(features):
        for r in range(rows):
            b[f, r] = jobs[r, f]
        for r in range(rows, columns):  # skipping, and empty slots, whose scores are not used
            b[f, r] = np.float32(1.0)
    at = layer(flat, 0, features, sizes[1], b, a, columns, layers > 1)
    if net.kind == ATTENTION:
        at = _attend(flat, at, sizes[1], a, scratch.c, scratch.row, total)
    elif net.kind == HOSTS:
        at = _look_at_hosts(flat, at, features, sizes[1], b, a, scratch, total)
    elif net.kind == GAT:
        at = look_at_graph(flat, at, jobs, rows, total, a, scratch.c, scratch.graph)
    for level in range(1, layers):
        relu = level < layers - 1
        if level % 2 == 1:
            at = layer(flat, at, sizes[level], sizes[level + 1], a, b, columns, relu)
        else:
            at = layer(flat, at, sizes[level], sizes[level + 1], b, a, columns, relu)
    answer = b if layers % 2 == 0 else a
    for r in range(total):
        scratch.score[r] = answer[0, r]
    if net.kind == GAT:
        hide_context(scratch.graph.links, total, scratch.score)


@jit
def _score_slots(net: Net, jobs: Singles, rows: int, skip: bool, scratch: Scratch) -> None:
    """Score with the network over all slots at once; empty slots count as zeros and cost nothing."""
    sizes, flat, features = net.sizes, net.flat, net.features
    layers = len(sizes) - 1
    wide, narrow = sizes[0], sizes[1]
    slots = wide // features
    a, b = scratch.a, scratch.b
    for o in range(narrow):
        a[o, 0] = flat[wide * narrow + o]
    # Empty slots are left out: their zeros would add nothing to the sums.
    for r in range(rows + 1 if skip else rows):
        slot = r if r < rows else slots - 1
        for f in range(features):
            x = jobs[r, f] if r < rows else np.float32(1.0)
            at = (slot * features + f) * narrow
            for o in range(narrow):
                a[o, 0] += x * flat[at + o]
    for o in range(narrow):
        a[o, 0] = max(a[o, 0], np.float32(0.0))
    at = (wide + 1) * narrow
    for level in range(1, layers):
        relu = level < layers - 1
        if level % 2 == 1:
            at = layer(flat, at, sizes[level], sizes[level + 1], a, b, 1, relu)
        else:
            at = layer(flat, at, sizes[level], sizes[level + 1], b, a, 1, relu)
    answer = b if layers % 2 == 0 else a
    for r in range(rows):
        scratch.score[r] = answer[r, 0]
    if skip:
        scratch.score[rows] = answer[slots - 1, 0]


@jit
def largest(scores: Singles, count: int) -> int:
    """Return the position of the largest score, the first of equal ones; −1 when a score is NaN."""
    best = 0
    for r in range(count):
        if np.isnan(scores[r]):
            return -1
        if scores[r] > scores[best]:
            best = r
    return best


@jit
def drawn(scores: Singles, count: int, chance: float) -> int:
    """Return a position with probability softmax(scores), given a number in [0, 1); −1 when a score is NaN."""
    best = largest(scores, count)
    if best < 0:
        return -1
    top, total = float(scores[best]), 0.0
    for r in range(count):
        total += math.exp(float(scores[r]) - top)
    left = chance * total
    for r in range(count):
        left -= math.exp(float(scores[r]) - top)
        # Rounding may leave a little at the end; the best row is returned then.
        if left < 0:
            return r
    return best
