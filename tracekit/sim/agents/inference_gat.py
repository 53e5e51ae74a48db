"""Graph attention on plain arrays, compiled: what an agent with the network gat computes when it plays.

The graph is built from the links behind the features of the rows (`tracekit.sim.tasks.jobgraph`). The layers are those
of `tracekit.sim.agents.graph_attention`, which trains them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tracekit.sim.agents.inference_layers import Singles, layer, vector
from tracekit.sim.compile import jit
from tracekit.sim.tasks.jobgraph import (
    CONTEXT,
    KINDS,
    LINK_UNIT,
    LINKS,
    MOST_SOURCES,
    GraphRoom,
    find_edges,
    graph_room,
)

#: The layers that look along edges, by name.
LOOKS = ("look0", "look1")
#: The score of a row that cannot be chosen: its probability is 0 exactly.
NEVER = -1e9
#: Slope of the leaky ReLU below zero, as in the paper.
SLOPE = 0.2

_LINKS, _LOOKS, _CONTEXT = len(LINKS), len(LOOKS), np.float32(LINK_UNIT)


class GraphScratch(NamedTuple):
    """Scratch space of graph attention for up to n rows."""

    links: Singles  # (n, LINKS)
    room: GraphRoom
    weight: Singles  # (edges + n,) attention of one head: the edges, then every row to itself
    ends: Singles  # (2, n) of one head: what a row adds as source and as target
    mean: Singles  # (2, width)


@jit
def heads_of(width: int) -> int:
    """Return the heads of a layer: 8, or as many as leave each at least 8 numbers."""
    heads = 1
    while heads < 8 and width % (2 * heads) == 0 and width >= 16 * heads:
        heads *= 2
    return heads


def graph_scratch(rows: int, width: int) -> GraphScratch:
    """Return scratch space for graphs of up to ``rows`` rows."""
    return GraphScratch(
        np.zeros((rows, _LINKS), np.float32),
        graph_room(rows),
        np.empty((len(KINDS) * MOST_SOURCES + 1) * rows, np.float32),
        np.empty((2, rows), np.float32),
        np.empty((2, width), np.float32),
    )


@jit
def look_at_graph(
    flat: Singles, at: int, jobs: Singles, rows: int, total: int, h: Singles, z: Singles, scratch: GraphScratch
) -> int:
    """Let every row look along its edges, then add what all rows have in common; h (width, rows) changes in place.

    Returns the offset of the next layer. Skipping is the row behind the last, with links of 1.
    """
    width, links = scratch.mean.shape[1], scratch.links
    begin = jobs.shape[1] - _LINKS
    for r in range(total):
        for k in range(_LINKS):
            links[r, k] = jobs[r, begin + k] if r < rows else np.float32(1.0)
    find_edges(links, total, MOST_SOURCES, scratch.room)
    for _ in range(_LOOKS):
        at = _look(flat, at, width, total, h, z, scratch)
    mean, added = scratch.mean[0], scratch.mean[1]
    for i in range(width):
        whole = np.float32(0.0)
        for r in range(total):
            whole += h[i, r]
        mean[i] = whole / np.float32(total)
    at = vector(flat, at, width, width, mean, added, False)
    for i in range(width):
        for r in range(total):
            h[i, r] += added[i]
    return at


@jit
def _look(flat: Singles, at: int, width: int, total: int, h: Singles, z: Singles, scratch: GraphScratch) -> int:
    """Add relu(graph attention) to h, in place."""
    bias = at + width * width
    toward = bias + width  # the attention's vector for sources, then that for targets
    end = layer(flat, at, width, width, h, z, total, False) + 2 * width
    heads = heads_of(width)
    size = width // heads
    ends = scratch.ends
    for head in range(heads):
        for side in range(2):
            out, vector_at, shift = ends[side], toward + side * width + head * size, np.float32(0.0)
            # z has the bias in it, which is added after attention by definition; the weights of attention sum to 1,
            # so only its part in the logits is wrong, and taken off here
            for c in range(size):
                shift += flat[vector_at + c] * flat[bias + head * size + c]
            for r in range(total):
                out[r] = -shift
            for c in range(size):
                factor, column = flat[vector_at + c], z[head * size + c]
                for r in range(total):
                    out[r] += factor * column[r]
        _weigh(total, scratch)
        _mix(head * size, size, total, h, z, scratch)
    return end


@jit
def _weigh(total: int, scratch: GraphScratch) -> None:
    """Write the weights of one head: softmax of the leaky ReLU of source + target, over the edges of each target."""
    first, source, weight, ends = scratch.room.first, scratch.room.source, scratch.weight, scratch.ends
    edges, slope = first[total], np.float32(SLOPE)
    for r in range(total):
        own = ends[0, r] + ends[1, r]
        own = own if own > 0.0 else own * slope
        top = own
        for e in range(first[r], first[r + 1]):
            value = ends[0, source[e]] + ends[1, r]
            weight[e] = value if value > 0.0 else value * slope
            top = max(top, weight[e])
        own = np.float32(math.exp(own - top))
        whole = own
        for e in range(first[r], first[r + 1]):
            weight[e] = np.float32(math.exp(weight[e] - top))
            whole += weight[e]
        weight[edges + r] = own / whole
        for e in range(first[r], first[r + 1]):
            weight[e] /= whole


@jit
def _mix(begin: int, size: int, total: int, h: Singles, z: Singles, scratch: GraphScratch) -> None:
    """Add relu(Σ weight · z) to the columns of one head."""
    first, source, weight = scratch.room.first, scratch.room.source, scratch.weight
    edges = first[total]
    for o in range(begin, begin + size):
        values, out = z[o], h[o]
        for r in range(total):
            mixed = weight[edges + r] * values[r]
            for e in range(first[r], first[r + 1]):
                mixed += weight[e] * values[source[e]]
            out[r] += max(mixed, np.float32(0.0))


@jit
def hide_context(links: Singles, total: int, score: Singles) -> None:
    """Give rows that cannot be chosen a score that has no chance."""
    for r in range(total):
        if links[r, CONTEXT] == _CONTEXT:
            score[r] = np.float32(NEVER)
