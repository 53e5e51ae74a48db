"""The network gat: rows look along the edges of the graph of jobs, see `tracekit.sim.tasks.jobgraph`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tracekit.sim.agents.graph_attention import GraphAttention
from tracekit.sim.agents.inference import KINDS, layout_of
from tracekit.sim.agents.inference_gat import LOOKS, NEVER, heads_of
from tracekit.sim.agents.networks import Decisions, LayeredNetwork, layers
from tracekit.sim.tasks.jobgraph import CONTEXT, LINK_UNIT, LINKS, MOST_SOURCES, find_packed_edges, graph_room

Ints = NDArray[np.int64]


class Gat(LayeredNetwork):
    """Two layers of graph attention, each added to what a row knew, and the mean of all rows, before scoring.

    The last features are links: they make the edges and are not seen otherwise. Rows that are context (`CONTEXT`) are
    looked at and never chosen. Without edges, every row looks at itself alone, with the same weights: the ablation.
    """

    sees_links: ClassVar[bool] = True

    def __init__(self, features: int, slots: int, hidden: tuple[int, ...]) -> None:
        super().__init__(features, slots, hidden)
        self.kind, self.features, self.sizes = KINDS["gat"], features, (features, *hidden, 1)
        width = hidden[0]
        heads = heads_of(width)
        self.embed = layers(features - len(LINKS), width, last=True)
        self.look = nn.ModuleList(GraphAttention(width, width // heads, heads) for _ in LOOKS)
        self.pool, self.body = nn.Linear(width, width), layers(*hidden, 1)

    def forward(self, decisions: Decisions) -> Tensor:
        """Return the scores, (rows,)."""
        seen, links = decisions.rows[:, : -len(LINKS)], decisions.rows[:, -len(LINKS) :]
        first, source = _edges(links.numpy(), decisions.count.numpy())
        h = self.embed(seen)
        for look in self.look:
            h = h + look(h, first, source).relu()
        mean = torch.zeros(len(decisions), h.shape[1]).index_add(0, decisions.segment, h) / decisions.count[:, None]
        scores = self.body(h + self.pool(mean)[decisions.segment]).squeeze(1)
        return scores.masked_fill(links[:, CONTEXT] == LINK_UNIT, NEVER)

    def parts(self) -> list[tuple[str, Tensor]]:
        """Return the named weights in the order of `layout_of`."""
        linears = [self.embed[0], *self.look, self.pool, *(m for m in self.body if isinstance(m, nn.Linear))]
        values: list[Tensor] = []
        for each in linears:
            values += [each.weight.t(), each.bias]
            if isinstance(each, GraphAttention):
                values += [each.att_src.view(-1), each.att_dst.view(-1)]
        names = [name for name, _ in layout_of("gat", self.sizes)]
        return list(zip(names, values, strict=True))

    def linears(self) -> list[nn.Module]:
        """Return the last layer, which starts small."""
        return [self.body[-1]]


def _edges(links: NDArray[np.float32], count: Ints) -> tuple[Ints, Ints]:
    """Return the edges of packed graphs."""
    first, rows = np.cumsum(count) - count, len(links)
    room = graph_room(int(count.max(initial=1)))
    ends, source = np.zeros(rows + 1, np.int64), np.empty(5 * MOST_SOURCES * rows, np.int64)
    used = find_packed_edges(np.ascontiguousarray(links), first, count, MOST_SOURCES, room, ends, source)
    return ends, source[:used]
