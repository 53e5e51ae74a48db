"""Linear layers on plain arrays, compiled: what the forward passes of all networks are made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.compile import jit

Singles = NDArray[np.float32]


@jit
def layer(
    flat: Singles, at: int, wide: int, narrow: int, source: Singles, target: Singles, rows: int, relu: bool
) -> int:
    """Apply one layer to columns: target (narrow, rows) from source (wide, rows); return the next layer's offset."""
    bias = at + wide * narrow
    for o in range(narrow):
        out = target[o]
        for r in range(rows):
            out[r] = flat[bias + o]
        # The loop over rows is innermost: contiguous, without dependence between steps, so it becomes vector code.
        for i in range(wide):
            weight, x = flat[at + i * narrow + o], source[i]
            for r in range(rows):
                out[r] += weight * x[r]
        if relu:
            for r in range(rows):
                out[r] = max(out[r], np.float32(0.0))
    return bias + narrow


@jit
def vector(flat: Singles, at: int, wide: int, narrow: int, source: Singles, target: Singles, relu: bool) -> int:
    """Apply one layer to a vector: target (narrow,) from source (wide,); return the next layer's offset."""
    bias = at + wide * narrow
    for o in range(narrow):
        target[o] = flat[bias + o]
    for i in range(wide):
        x = source[i]
        for o in range(narrow):
            target[o] += flat[at + i * narrow + o] * x
    if relu:
        for o in range(narrow):
            target[o] = max(target[o], np.float32(0.0))
    return bias + narrow
