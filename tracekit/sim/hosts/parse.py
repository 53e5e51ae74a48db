"""The column ``hosts`` of schedules: ``host:cores/gpus+…``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Parts:
    """What jobs hold of hosts, one entry for each job and host."""

    row: Ints  # of the schedule
    host: Ints  # −1: not in the cluster
    cores: Floats
    gpus: Floats
    strange: str | None  # the first name that is not in the cluster


def parse_hosts(texts: Iterable[str], names: list[str], path: str = "the schedule") -> Parts:
    """Read a column of ``host:cores/gpus+…``; an empty text names no host."""
    place = {name: number for number, name in enumerate(names)}
    rows, hosts, cores, gpus = [], [], [], []
    strange = None
    for row, text in enumerate(texts):
        for part in text.split("+") if text else ():
            name, _, held = part.rpartition(":")
            first, _, second = held.partition("/")
            try:
                numbers = float(first), float(second or 0)
            except ValueError:
                raise FormatError(path, f"hosts '{part}': write host:cores/gpus", line=row + 2) from None
            if name not in place and strange is None:
                strange = name or part
            rows.append(row)
            hosts.append(place.get(name, -1))
            cores.append(numbers[0])
            gpus.append(numbers[1])
    return Parts(np.array(rows, np.int64), np.array(hosts, np.int64), np.array(cores), np.array(gpus), strange)
