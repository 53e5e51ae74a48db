"""What a report shows: the traces and their scores, and whatever else an experiment knows."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

import tracekit
from evaluation.score import Scores
from evaluation.share import Answer, decide
from tracekit.errors import TracekitError
from tracekit.trace import Trace

#: The columns that each table of an experiment must have; more are welcome.
TABLES: dict[str, tuple[str, ...]] = {
    "learning": ("arm", "seed", "step", "score"),
    "windows": ("arm", "seed", "load", "window", "value"),
    "heuristics": ("policy", "load", "window", "value"),
    "trust": ("key", "rho", "low", "high", "n"),
    "costs": ("model", "step", "seconds"),
}
VERDICTS = ("equivalent", "better", "worse", "undecided", "failed")
_PACKAGES = ("numpy", "pandas", "scipy", "scikit-learn", "numba", "matplotlib", "seaborn", "torch", "sdv")


@dataclass(frozen=True)
class Input:
    """A file that went into the report."""

    name: str
    sha256: str  # of the file as it lies there; empty = not known
    jobs: int | None = None  # None = not counted

    @classmethod
    def of(cls, path: str | Path, name: str, jobs: int) -> Input:
        """Hash a file; anything that is not a plain file, such as a folder or a stream, has no hash."""
        place = Path(path)
        if not place.is_file():
            return cls(name, "", jobs)
        with place.open("rb") as source:
            return cls(name, hashlib.file_digest(source, "sha256").hexdigest(), jobs)


@dataclass(frozen=True, eq=False)
class Content:
    """Everything on the page. Only the first three are needed; the rest is what an experiment adds.

    ``synthetic`` holds one trace for every entry of ``scores.synthetic``, under the same name and in the same order.
    """

    real: Trace
    synthetic: Mapping[str, Trace]
    scores: Scores
    title: str = ""  # default: the real machine's name, or the file's where it has none
    command: str = ""  # what was typed to make this
    verdicts: Sequence[Mapping[str, Any]] = ()  # learner, model, verdict (of VERDICTS), difference, low, high, sentence
    others: Sequence[Mapping[str, Any]] = ()  # the same for baselines, damaged and untrained ones, another real trace
    scarce: Sequence[Mapping[str, Any]] = ()  # the same for synthetic jobs added to few real ones
    uses: Sequence[Mapping[str, Any]] = ()  # what is learnt: learner, use, metric, margin, sensitive, sentence
    headline: str = ""  # the outcome in one sentence
    conclusion: str = ""  # the verdicts, a sentence for each model or use
    metric: str = "mean_bsld"  # of the windows that are drawn; lower is better
    learning: pd.DataFrame | None = None  # arm, seed, step, score: what an agent reaches on validation as it learns
    windows: pd.DataFrame | None = None  # arm, seed, load, window, value: held out; arm "real" = trained on real
    heuristics: pd.DataFrame | None = None  # policy, load, window, value: on the same windows
    trust: pd.DataFrame | None = None  # key, rho, low, high, n: does a cheap score rank models as the verdict does?
    trust_note: str = ""  # what so few models can show about that
    costs: pd.DataFrame | None = None  # model, step (fit, sample, train …), seconds
    failures: Sequence[Mapping[str, str]] = ()  # model, reason
    notes: Sequence[str] = ()
    power: str = ""  # power model of the section on energy; empty = no such section
    inputs: Sequence[Input] = ()
    seeds: Mapping[str, Any] = field(default_factory=dict)  # what -> seed or seeds
    versions: Mapping[str, str] = field(default_factory=lambda: versions())

    def __post_init__(self) -> None:
        scored = [one.name for one in self.scores.synthetic]
        if list(self.synthetic) != scored:
            raise TracekitError(f"traces and scores of a report do not match: {list(self.synthetic)}, {scored}")
        for name, columns in TABLES.items():
            table = getattr(self, name)
            missing = [] if table is None else [column for column in columns if column not in table.columns]
            if missing:
                raise TracekitError(f"the report's table '{name}' has no column '{missing[0]}'")
        for verdict in self.verdicts:
            if verdict.get("verdict") not in VERDICTS:
                raise TracekitError(
                    f"verdict '{verdict.get('verdict')}' is not a verdict; expected one of {', '.join(VERDICTS)}"
                )

    def of_use(self, use: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the rows of verdicts that are about one use."""
        return [row for row in rows if row["learner"] == use["learner"]]

    @cached_property
    def sharing(self) -> Mapping[str, Answer]:
        """Return for each synthetic trace whether it may be shared: the same decision as ``tracekit share`` makes."""
        return {one.name: decide(self.real, self.synthetic[one.name], one.scores) for one in self.scores.synthetic}

    @property
    def heading(self) -> str:
        """Return the page's title."""
        return self.title or f"Do synthetic traces behave like {self.real.machine.name or self.scores.real}?"

    def table(self, name: str) -> pd.DataFrame | None:
        """Return one of the experiment's tables, or None where it is missing or empty."""
        found: pd.DataFrame | None = getattr(self, name)
        return None if found is None or found.empty else found


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that make numbers or pictures, as far as installed."""
    found = {"Python": platform.python_version(), "tracekit": tracekit.__version__}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
