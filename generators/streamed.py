"""Models fitted to traces that are read in batches: the same model as one that is fitted to the whole trace.

| model | what is in memory | bytes a job |
|---|---|---|
| `lublin` | counts of sizes, limits and cells of run times | 0 |
| `resample`, `independent` | nothing; jobs are looked up on disk when they are drawn | 0, and some for each job made |
| `user-resample` | submit time and user of each job; the rest is looked up on disk | `UserResample.bytes_a_job` |
| `sessions` | a few numbers of each job at a time; all others wait on disk | `Sessions.bytes_a_job` |

The others learn from the whole trace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from generators import MODELS
from generators.in_order import Able
from generators.progress import Progress
from generators.synth import Fitted, check_options, check_seed, made_with
from tracekit.errors import TracekitError
from tracekit.large.source import Source, gigabytes, whole_needed
from tracekit.trace import Trace

#: What a command can do where a model does not fit.
INSTEAD = "--fit-jobs N learns from N consecutive jobs in the middle of the trace"


def works_in_batches(model: str) -> bool:
    """Return whether a model can learn from batches."""
    return hasattr(MODELS.get(model), "fit_batches")


def columns_of(model: str) -> Collection[str] | None:
    """Return the only columns that a model learns from; None: all."""
    columns: Collection[str] | None = getattr(MODELS.get(model), "learns_from", None)
    return columns


class Watched:
    """A source that reports each pass over its ``jobs`` jobs."""

    def __init__(self, source: Source, jobs: int, progress: Progress) -> None:
        self.source, self.jobs, self.progress, self.passes = source, jobs, progress, 0
        self.machine, self.history = source.machine, source.history

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the jobs."""
        return self.source.columns

    @property
    def ordered(self) -> bool:
        """Whether a trace read whole has its labels in their usual order."""
        return self.source.ordered

    def batches(self, columns: Iterable[str] | None = None) -> Iterator[Trace]:
        """Yield the jobs, and report how many there were."""
        self.passes += 1
        done, unit = 0, f"jobs (pass {self.passes})"
        for batch in self.source.batches(columns):
            yield batch
            done += len(batch)
            self.progress(done, self.jobs, unit)

    def bytes_whole(self) -> int:
        """Return about how much memory the whole trace would take."""
        return self.source.bytes_whole()


def fit(
    source: Source,
    model: str,
    *,
    seed: int = 0,
    room: float = float("inf"),
    jobs: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Fitted:
    """Fit a model to a trace that is read in batches.

    ``room``: how many bytes it may take; ``progress`` is told of each pass over the trace's ``jobs`` jobs, of those in
    which the fitted model looks jobs up, too.
    """
    check_seed(seed)
    kind: Any = MODELS.get(model)
    check_options(kind, options)
    if not works_in_batches(model):
        raise whole_needed(source, f"model {model}", INSTEAD)
    able = Able(source if progress is None else Watched(source, jobs, progress))
    check_room(model, able.jobs, room, **options)
    made = made_with(kind, options).fit_batches(able, seed=seed)  # type: ignore[attr-defined]
    span, demand, left_out = able.facts()
    size = source.machine.size()
    load = demand / size if size else float("nan")
    return Fitted(made, able.jobs, span, demand, load, left_out)


def check_room(model: str, jobs: int, room: float, reading: int = 0, **options: Any) -> None:
    """Refuse to fit a model where what it holds of the jobs, or ``reading`` them, takes more than ``room`` bytes."""
    needed = max(reading, bytes_needed(model, jobs, in_parts=not reading, **options))
    if needed > room:
        raise TracekitError(
            f"model {model} needs about {gigabytes(needed)} of memory to learn from {jobs:,} jobs "
            f"({needed / jobs:,.0f} bytes a job), and {gigabytes(room)} may be used; {INSTEAD} "
            "(--limit memory=none tries it anyway)"
        )


def bytes_needed(model: str, jobs: int, *, in_parts: bool, **options: Any) -> int:
    """Return how many bytes a model takes while it is fitted and makes jobs, beside those that it makes."""
    told: Any = getattr(MODELS.get(model), "bytes_a_job", 0)
    return jobs * int(told(options.get("skeleton"), in_parts=in_parts) if callable(told) else told)
