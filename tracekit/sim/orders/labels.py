"""Label sets: queues from windows of a trace, and the best order of each that a search found. Parquet, resumable.

Label k depends on the settings and on k alone, so a set that is made in parts, or after an interruption, has the same
bytes. A label names jobs by their position in the queue that it was made from, so shuffling the jobs of a queue
permutes its label. Parts for training, validation and test share no job and follow each other in time.
"""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import FormatError, OutputError, TracekitError, UsageError, loads
from tracekit.files import check_writable, writing
from tracekit.readings import not_a_share
from tracekit.sim.orders.evaluate import Case, begin, cost_of, room_for
from tracekit.sim.orders.problem import QueueProblem, order_cost
from tracekit.sim.orders.solve import SOLVERS, Found
from tracekit.sim.orders.task import Order, Queues
from tracekit.sim.windows import Span, spans

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Called with labels done, and all of them.
Report = Callable[[int, int], None]

PARTS = ("train", "validation", "test")
#: Labels that are written at once.
CHUNK = 50
#: Lengths of training queues, as shares of the largest: a network for any number of jobs must have seen several.
LENGTHS = (1.0, 1.0, 0.75, 0.5, 0.25)
#: Half of the training queues are drawn from up to so many times more consecutive jobs: more different queues.
WIDER = 4
_META = b"tracekit"


@dataclass(frozen=True)
class Labelling:
    """How a label set is made."""

    task: Order
    windows: int = 2000  # for training
    validation_windows: int = 20
    test_windows: int = 20
    jobs: int = 64  # of a queue; training queues have as many or fewer
    solver: str = "anneal"
    evaluations: int = 10_000
    share: float = 0.7  # of the trace, in time, for training; half of the rest for validation, half for test
    seed: int = 0

    def __post_init__(self) -> None:
        SOLVERS.get(self.solver)
        if min(self.windows, self.validation_windows, self.evaluations) < 1 or self.test_windows < 0:
            raise UsageError("a label set needs at least one window for training and validation, and one evaluation")
        if self.jobs < 2:
            raise UsageError(f"a queue of {self.jobs} jobs has one order only; use --jobs 2 or more")
        if not 0 < self.share < 1:
            raise not_a_share("--split", self.share)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        found: dict[str, Any] = json.loads(json.dumps({**dataclasses.asdict(self), "task": self.task.to_dict()}))
        return found

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Labelling:
        """Read what `to_dict` returned."""
        return cls(**{**values, "task": Order.from_dict(values["task"])})

    def __len__(self) -> int:
        return self.windows + self.validation_windows + self.test_windows

    def part(self, number: int) -> str:
        """Return the part that a label belongs to."""
        last = (self.windows, self.windows + self.validation_windows, len(self))
        return next(name for name, end in zip(PARTS, last, strict=True) if number < end)


@dataclass(frozen=True, eq=False)
class Label:
    """A queue, as positions in a window of the trace, and its order."""

    part: str
    start: int
    count: int  # jobs of the window
    rows: Ints  # (jobs,) positions in the window's queue
    order: Ints  # (jobs,) positions in `rows`
    cost: float  # of the order, by the run times that the task teaches by
    first: str  # best heuristic, by the same …
    first_cost: float  # … and its cost

    def queue(self, queues: Queues) -> QueueProblem:
        """Return the queue."""
        return queues.at(self.start, self.count).take(self.rows)


@dataclass(frozen=True, eq=False)
class LabelSet:
    """Labels, how they were made, and the fingerprint of the trace's jobs."""

    made: Labelling
    fingerprint: str
    labels: tuple[Label, ...]

    def of(self, part: str) -> list[Label]:
        """Return the labels of one part."""
        return [label for label in self.labels if label.part == part]


def canonical(case: Case, order: Ints) -> tuple[Ints, float]:
    """Return one order for all that give the same schedule, and its cost, which is never higher.

    Jobs that start together can change places. They are sorted by area per urgency, run time and size, until that
    changes no start any more: strictly in order, a smaller job that comes first may start earlier, which delays none.
    """
    room = room_for(case)
    begin(case, room)
    cost = float(cost_of(case, order, room, 0, np.inf, False))
    if case.backfill:  # a job that starts with others may have been backfilled past one before it
        return order, cost
    slope = case.linear + case.rate
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(slope > 0, case.run * case.size / slope, np.inf)
    for _ in range(len(order)):
        better = order[np.lexsort((case.size[order], case.run[order], ratio[order], room.start[order]))]
        found = float(cost_of(case, better, room, 0, np.inf, False))
        if found > cost * (1 + 1e-12) or np.array_equal(better, order):
            break
        order, cost = better, found
    return order, cost


def best_order(queue: QueueProblem, made: Labelling, key: int) -> tuple[Ints, float, str, float]:
    """Return the order that the labelling's search finds, its cost, and the best heuristic with its cost.

    Costs are by the run times that the task teaches by; the heuristic is chosen by those that are seen.
    """
    task = made.task
    case = queue.counted(task.judged_by)
    name, first = queue.best_heuristic(task.estimates)
    begun = first if task.judged_by == task.estimates else queue.best_heuristic(task.judged_by)[1]
    found: Found = SOLVERS.get(made.solver)(case, begun, made.evaluations, key)
    order, cost = canonical(case, found.order)
    return order, cost, name, float(order_cost(case, first))


def parts_of(queues: Queues, made: Labelling) -> dict[str, Span]:
    """Return the positions of each part."""
    rest = (1 - made.share) / 2
    found = dict(zip(PARTS, spans(queues.table.submit, (made.share, rest, rest)), strict=True))
    for name, (first, last) in found.items():
        if last - first < made.jobs and (name != "test" or made.test_windows):
            raise TracekitError(
                f"the {name} part of the trace has {last - first:,} jobs, fewer than the {made.jobs:,} of one queue; "
                "use fewer --jobs or a longer trace"
            )
    return found


def label(queues: Queues, made: Labelling, parts: dict[str, Span], number: int) -> Label:
    """Make one label."""
    part = made.part(number)
    first, last = parts[part]
    for turn in range(20):
        rng = np.random.default_rng([made.seed, number, turn])
        count = made.jobs
        if part == "train" and rng.random() < 0.5:
            count = min(int(rng.integers(2, WIDER + 1)) * made.jobs, last - first)
        start = int(rng.integers(first, last - count + 1))
        try:
            queue = queues.at(start, count)
        except TracekitError:  # none of these jobs can run on the machine
            continue
        length = min(made.jobs, len(queue))
        if part == "train":
            length = min(max(round(made.jobs * float(rng.choice(LENGTHS))), 2), len(queue))
        rows = np.sort(rng.choice(len(queue), length, replace=False)) if part == "train" else np.arange(length)
        if length < 2:
            continue
        key = int(rng.integers(0, 2**63))
        return Label(part, start, count, rows, *best_order(queue.take(rows), made, key))
    raise TracekitError(
        f"no window of {made.jobs:,} jobs in the {part} part can be ordered; see 'tracekit validate' for details"
    )


def write_labels(
    queues: Queues,
    made: Labelling,
    path: str | Path,
    *,
    fingerprint: str,
    force: bool = False,
    report: Report | None = None,
) -> LabelSet:
    """Write a label set, or go on with one that was interrupted; its parts lie in a folder beside it until then."""
    path = Path(path)
    check_writable(path, force=force)
    parts, folder = parts_of(queues, made), path.with_name(path.name + ".parts")
    meta = _meta(made, fingerprint)
    folder.mkdir(parents=True, exist_ok=True)
    for first in range(0, len(made), CHUNK):
        piece = folder / f"{first:08d}.parquet"
        numbers = range(first, min(first + CHUNK, len(made)))
        if piece.exists():
            if _schema_meta(piece) != meta:
                raise OutputError(f"{folder}: holds labels of other settings or of another trace; remove it")
        else:
            rows = [label(queues, made, parts, number) for number in numbers]
            with writing(piece, force=True) as out:
                out.write(_packed(rows, meta))
        if report is not None:
            report(numbers[-1] + 1, len(made))
    labels = tuple(one for piece in sorted(folder.glob("*.parquet")) for one in _rows(piece))
    with writing(path, force=force) as out:
        out.write(_packed(labels, meta))
    shutil.rmtree(folder)
    return LabelSet(made, fingerprint, labels)


@loads("a label set")
def read_labels(path: str | Path) -> LabelSet:
    """Read a label set."""
    meta = json.loads(_schema_meta(Path(path)))
    try:
        made = Labelling.from_dict(meta["made"])
        return LabelSet(made, meta["fingerprint"], tuple(_rows(Path(path))))
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise FormatError(path, f"is not a label set: {error}") from None


def _meta(made: Labelling, fingerprint: str) -> bytes:
    return json.dumps({"made": made.to_dict(), "fingerprint": fingerprint}, sort_keys=True).encode()


def _schema_meta(path: Path) -> bytes:
    """Return what a label set says of itself."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = (pq.read_schema(path).metadata or {}).get(_META)
    except FileNotFoundError:
        raise FormatError(path, "no such file; make one with 'tracekit order-labels'") from None
    except (pa.ArrowException, OSError) as error:
        raise FormatError(path, f"is not a Parquet file: {error}") from None
    if found is None:
        raise FormatError(path, "is not a label set; make one with 'tracekit order-labels'")
    return bytes(found)


def _packed(labels: Any, meta: bytes) -> bytes:
    """Return labels as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [field.name for field in dataclasses.fields(Label)]
    kinds = (pa.string(), pa.int64(), pa.int64(), pa.list_(pa.int64()), pa.list_(pa.int64()), *_TAIL(pa))
    columns = [pa.array([getattr(one, name) for one in labels], kind) for name, kind in zip(names, kinds, strict=True)]
    schema = pa.schema(list(zip(names, kinds, strict=True)), metadata={_META: meta})
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), out)
    return out.getvalue()


def _TAIL(pa: Any) -> tuple[Any, ...]:
    return pa.float64(), pa.string(), pa.float64()


def _rows(path: Path) -> Iterator[Label]:
    """Return the labels of a file."""
    import pyarrow.parquet as pq

    for row in pq.read_table(path).to_pylist():
        yield Label(**{**row, "rows": np.array(row["rows"], np.int64), "order": np.array(row["order"], np.int64)})
