"""The interface of every model that makes traces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, Self

from tracekit.trace import Trace


@dataclass(frozen=True)
class ModelInfo:
    """What `tracekit models` prints about a model before it is imported or fitted."""

    family: str  # classic, baseline, gan, vae, copula, transformer, diffusion, sessions, private
    summary: str  # one line
    licence: str  # of the code that does the work
    extra: str | None = None  # the optional install it needs
    copies: bool = False  # its output repeats real jobs by design
    paper: str = ""
    minutes: float = 0.1  # typical fit of 30,000 jobs on two cores at the normal budget
    trust: str = ""  # why its saved folder is only loaded when trusted; empty = loading runs no code


class Generator(Protocol):
    """A model that learns from one trace and makes new ones.

    ``__init__`` only stores keyword arguments; ``fit`` returns self. The same seed gives the same jobs.
    """

    name: ClassVar[str]
    info: ClassVar[ModelInfo]

    def fit(self, trace: Trace, /, *, seed: int) -> Self:
        """Learn from a trace."""
        ...

    def sample(self, n_jobs: int, /, *, seed: int) -> Trace:
        """Make exactly ``n_jobs`` new jobs; `NotFitted` before `fit` or `load`."""
        ...

    def save(self, folder: Path) -> None:
        """Write the fitted model to a folder: configuration as JSON beside weights; nothing that runs code."""
        ...

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read back what `save` wrote."""
        ...
