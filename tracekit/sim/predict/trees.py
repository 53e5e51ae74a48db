"""Gradient-boosted trees as plain arrays: saved without pickle, loaded without running code, evaluated compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.sim.compile import jit, jit_internal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


#: Threshold of the bounded slowdown in the weight, in seconds.
BOUND = 10.0


class Forest(NamedTuple):
    """Trees of several outputs; a node without children has the feature −1. No arrays have entries where unused."""

    feature: Ints  # (nodes,) the column that a node looks at, −1 = a leaf
    threshold: Floats  # (nodes,) at most this: left, else right
    left: Ints  # (nodes,) number of the child, always above the node's own
    right: Ints  # (nodes,)
    missing: Ints  # (nodes,) where NaN goes: 1 = left, 0 = right
    value: Floats  # (nodes,) of leaves
    root: Ints  # (trees,) first node of each tree
    first: Ints  # (outputs + 1,) first tree of each output, and the number of trees
    base: Floats  # (outputs,) what the trees of an output are added to


def no_forest() -> Forest:
    """Return a forest without outputs."""
    empty: dict[str, Any] = {name: np.zeros(0, kind) for name, kind in _TYPES.items()}
    return Forest(**empty)


_TYPES: dict[str, type] = dict.fromkeys(Forest._fields, np.int64) | dict.fromkeys(
    ("threshold", "value", "base"), np.float64
)


@jit_internal
def evaluate(forest: Forest, row: Floats, out: Floats) -> None:
    """Write every output for one row of features into ``out``, (outputs,); sums in the order of scikit-learn's."""
    for output in range(len(forest.base)):
        total = forest.base[output]
        for tree in range(forest.first[output], forest.first[output + 1]):
            node = forest.root[tree]
            while forest.feature[node] >= 0:
                value = row[forest.feature[node]]
                goes_left = forest.missing[node] == 1 if np.isnan(value) else value <= forest.threshold[node]
                node = forest.left[node] if goes_left else forest.right[node]
            total += forest.value[node]
        out[output] = total


@jit_internal
def bounded_weight(ln_weight: float, ln_limit: float) -> float:
    """Return the logarithm of a mean of 10 / max(run time, 10) that can be: at most 1, no less than the limit leaves.

    ``ln_limit`` is the logarithm of the limit in seconds, NaN = none.
    """
    if not np.isnan(ln_limit):
        ln_weight = max(ln_weight, np.log(BOUND) - max(ln_limit, np.log(BOUND)))
    return min(ln_weight, 0.0)


@jit
def _evaluate_all(forest: Forest, rows: Floats, out: Floats) -> None:
    for i in range(len(rows)):
        evaluate(forest, rows[i], out[i])


def evaluated(forest: Forest, rows: Floats) -> Floats:
    """Return every output for rows of features, (rows, features) → (rows, outputs)."""
    out = np.empty((len(rows), len(forest.base)))
    _evaluate_all(forest, np.ascontiguousarray(rows, np.float64), out)
    return out


def forest_of(models: Sequence[Any]) -> Forest:
    """Return fitted ``HistGradientBoostingRegressor``s, one an output, as plain arrays; a number is a constant."""
    nodes: list[NDArray[Any]] = []
    root, first, base, count = [], [0], [], 0
    for model in models:
        base.append(float(np.ravel(getattr(model, "_baseline_prediction", model))[0]))
        for (tree,) in getattr(model, "_predictors", ()):
            found = tree.nodes.copy()
            inner = found["is_leaf"] == 0
            found["left"][inner] += count
            found["right"][inner] += count
            nodes.append(found)
            root.append(count)
            count += len(found)
        first.append(len(root))
    every = np.concatenate(nodes)
    leaf = every["is_leaf"] == 1
    return Forest(
        feature=np.where(leaf, -1, every["feature_idx"]).astype(np.int64),
        threshold=np.where(leaf, 0.0, every["num_threshold"]),
        left=np.where(leaf, 0, every["left"]).astype(np.int64),
        right=np.where(leaf, 0, every["right"]).astype(np.int64),
        missing=every["missing_go_to_left"].astype(np.int64),
        value=np.where(leaf, every["value"], 0.0),
        root=np.array(root, np.int64),
        first=np.array(first, np.int64),
        base=np.array(base),
    )


def checked(arrays: Mapping[str, NDArray[Any]], features: int) -> Forest:
    """Return the forest that arrays of a file describe; refuse what the compiled code could not walk through."""
    if set(arrays) != set(_TYPES):
        raise TracekitError(f"expected the arrays {', '.join(_TYPES)}")
    for name, kind in _TYPES.items():
        if arrays[name].dtype != kind or arrays[name].ndim != 1:
            raise TracekitError(f"{name} must be a list of {np.dtype(kind).name}")
    made = Forest(**{name: np.ascontiguousarray(array) for name, array in arrays.items()})
    nodes, trees = len(made.feature), len(made.root)
    inner = made.feature >= 0
    own = np.arange(nodes)
    sound = all(len(getattr(made, name)) == nodes for name in ("threshold", "left", "right", "missing", "value"))
    sound = sound and len(made.first) == len(made.base) + 1 and len(made.base) > 0
    sound = sound and bool((made.feature < features).all() and (made.root >= 0).all() and (made.root < nodes).all())
    for child in (made.left, made.right) if sound else ():  # children come after their parent, so every walk ends
        sound = sound and bool((child[inner] > own[inner]).all() and (child[inner] < nodes).all())
    sound = sound and bool(made.first[0] == 0 and made.first[-1] == trees and (np.diff(made.first) >= 0).all())
    # a threshold may be infinite: everything that is known goes left
    finite = bool(np.isfinite(made.value).all() and np.isfinite(made.base).all() and not np.isnan(made.threshold).any())
    if not (sound and finite):
        raise TracekitError("the trees are not whole")
    return made
