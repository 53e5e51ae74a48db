"""A graph attention layer in torch: Veličković et al., "Graph attention networks", ICLR 2018.

The same numbers as ``GATConv`` of PyTorch Geometric, which is not needed. Graphs come as targets with lists of sources
(CSR), many graphs packed into one; softmax and mixture along the edges are compiled, forwards and backwards, and
never hold a vector per edge, so memory grows with rows and edges × heads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tracekit.sim.agents.inference_gat import SLOPE
from tracekit.sim.compile import jit

Ints = NDArray[np.int64]


@jit
def _forward(source_part: Any, target_part: Any, z: Any, first: Ints, source: Ints, weight: Any, out: Any) -> None:
    """Write attention (edges + rows, heads), the rows' own behind those of the edges, and what it mixes, like z."""
    rows, heads, size = z.shape
    edges = first[rows]
    for target in range(rows):
        for head in range(heads):
            own = source_part[target, head] + target_part[target, head]
            own = own if own > 0 else own * SLOPE
            top = own
            for edge in range(first[target], first[target + 1]):
                value = source_part[source[edge], head] + target_part[target, head]
                value = value if value > 0 else value * SLOPE
                weight[edge, head] = value
                top = max(top, value)
            own = np.exp(own - top)
            whole = own
            for edge in range(first[target], first[target + 1]):
                weight[edge, head] = np.exp(weight[edge, head] - top)
                whole += weight[edge, head]
            weight[edges + target, head] = own / whole
            for c in range(size):
                out[target, head, c] = weight[edges + target, head] * z[target, head, c]
            for edge in range(first[target], first[target + 1]):
                weight[edge, head] /= whole
                for c in range(size):
                    out[target, head, c] += weight[edge, head] * z[source[edge], head, c]


@jit
def _backward(parts: Any, z: Any, first: Ints, source: Ints, weight: Any, change: Any, found: Any) -> None:
    """Add the gradients of (source part, target part, z), given that of the output, ``change``, like z."""
    source_part, target_part = parts
    by_source, by_target, by_z = found
    rows, heads, size = z.shape
    edges = first[rows]
    for target in range(rows):
        for head in range(heads):
            # The softmax: d logit = weight · (d weight − Σ weight · d weight); the sum is the output · its gradient.
            common = 0.0
            for edge in range(first[target] - 1, first[target + 1]):  # the first one is the row itself
                place, row = (edge, source[edge]) if edge >= first[target] else (edges + target, target)
                inner = 0.0
                for c in range(size):
                    inner += change[target, head, c] * z[row, head, c]
                common += weight[place, head] * inner
            for edge in range(first[target] - 1, first[target + 1]):
                place, row = (edge, source[edge]) if edge >= first[target] else (edges + target, target)
                share, inner = weight[place, head], 0.0
                for c in range(size):
                    inner += change[target, head, c] * z[row, head, c]
                    by_z[row, head, c] += share * change[target, head, c]
                logit = share * (inner - common)
                if not source_part[row, head] + target_part[target, head] > 0:
                    logit *= SLOPE
                by_source[row, head] += logit
                by_target[target, head] += logit


class _Attend(torch.autograd.Function):
    """Softmax over the sources of each target and the mixture of their vectors."""

    @staticmethod
    def forward(ctx: Any, source_part: Tensor, target_part: Tensor, z: Tensor, first: Ints, source: Ints) -> Any:
        arrays = [value.detach().contiguous().numpy() for value in (source_part, target_part, z)]
        weight = np.empty((len(source) + len(z), z.shape[1]), arrays[2].dtype)
        out = np.empty(z.shape, arrays[2].dtype)
        _forward(arrays[0], arrays[1], arrays[2], first, source, weight, out)
        ctx.known = (arrays, first, source, weight)
        return torch.from_numpy(out), torch.from_numpy(weight)

    @staticmethod
    def backward(ctx: Any, *changes: Tensor) -> Any:
        arrays, first, source, weight = ctx.known
        found = tuple(np.zeros_like(array) for array in arrays)
        change = changes[0].contiguous().numpy()
        _backward((arrays[0], arrays[1]), arrays[2], first, source, weight, change, found)
        return (*(torch.from_numpy(array) for array in found), None, None)


def targets_first(edges: Tensor, rows: int) -> tuple[Ints, Ints, Ints]:
    """Return edges, pairs (source, target), (E, 2), as CSR without self-loops: first, source, and the order taken."""
    pairs = edges.numpy().astype(np.int64).reshape(-1, 2)
    kept = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
    order = kept[np.argsort(pairs[kept, 1], kind="stable")]
    first = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(pairs[order, 1], minlength=rows), out=first[1:])
    return first, np.ascontiguousarray(pairs[order, 0]), order


class GraphAttention(nn.Module):
    """Attention along edges: every row mixes the vectors of its sources and its own (a self-loop is always there).

    ``heads`` independent mixtures of ``size`` numbers each, beside each other (``concat``) or their mean. Names and
    shapes of the parameters are those of GATConv but for ``weight``, which is its ``lin.weight``.
    """

    def __init__(self, features: int, size: int, heads: int = 1, *, concat: bool = True, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.size, self.concat = heads, size, concat
        self.weight = nn.Parameter(torch.empty(heads * size, features))
        self.att_src = nn.Parameter(torch.empty(1, heads, size))
        self.att_dst = nn.Parameter(torch.empty(1, heads, size))
        for each in (self.weight, self.att_src, self.att_dst):
            nn.init.xavier_uniform_(each)  # Glorot, as in the paper
        self.bias = nn.Parameter(torch.zeros(heads * size if concat else size)) if bias else None

    def forward(self, x: Tensor, first: Ints, source: Ints) -> Tensor:
        """Return (rows, heads · size), or (rows, size) of means; the sources of row i are first[i] … first[i + 1]."""
        return self.attended(x, first, source)[0]

    def attended(self, x: Tensor, first: Ints, source: Ints) -> tuple[Tensor, Tensor]:
        """Return what `forward` does, and the attention, (edges + rows, heads): edges, then every row to itself."""
        z = (x @ self.weight.t()).view(-1, self.heads, self.size)
        mixed, weight = _Attend.apply((z * self.att_src).sum(-1), (z * self.att_dst).sum(-1), z, first, source)
        out = mixed.flatten(1) if self.concat else mixed.mean(1)
        return out if self.bias is None else out + self.bias, weight
