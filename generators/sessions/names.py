"""New names for the persons of a synthetic trace."""

from __future__ import annotations

import numpy as np
import pandas as pd

from generators.parts import categorical
from generators.sessions.shelf import Array


class Names:
    """New names in the order of appearance, so that a name reveals nothing about the real user."""

    def __init__(self) -> None:
        self.given: dict[str, dict[tuple[int, int], int]] = {}

    def give(self, new_user: Array, code: Array, letter: str) -> pd.Categorical:
        """Return the same name for equal pairs of synthetic user and code; none where the code is unknown."""
        given = self.given.setdefault(letter, {})
        known, code = np.flatnonzero(code >= 0), code.astype(np.int64)
        place, _ = pd.factorize(new_user[known].astype(np.int64) * (int(code.max(initial=0)) + 1) + code[known])
        first = known[np.unique(place, return_index=True)[1]] if len(known) else known
        number = [given.setdefault((int(new_user[k]), int(code[k])), len(given)) for k in first]
        names = np.full(len(code), -1, dtype=np.int64)
        used, position = np.unique(np.array(number, dtype=np.int64), return_inverse=True)
        names[known] = position[place]
        return categorical(names, tuple(f"{letter}{n + 1}" for n in used))
