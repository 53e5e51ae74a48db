"""A study of the simulator on many traces: every piece of every trace in one queue, resumed where it was left.

Each file is read once, by a process of this machine, into Parquet under the address of its content; what is done with
it reads that, from the folder or, on Ray, from the store of objects of each node. The pieces have addresses of what
goes into them, as those of an experiment, so that only what is new is done.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evaluation.experiment.cores import cores
from evaluation.experiment.engines import LOCAL, Where
from evaluation.experiment.grid import Limits
from evaluation.experiment.inputs import FOLDERS, Given, content_digest, inputs_of
from evaluation.experiment.memory import free, share
from evaluation.experiment.runner import Progress, Runner
from evaluation.experiment.source import digest_of
from evaluation.experiment.study import alone
from evaluation.experiment.tasks import BASE, Input, Store, Task, code_digest, digest
from evaluation.experiment.together import check_outputs, cost_of
from evaluation.spread.steps import FOUND, KNOWN, TRACE
from tracekit.errors import OutputError
from tracekit.files import write_text
from tracekit.machine import Machine

#: What a folder says of its study.
ABOUT = "study.json"
_STEPS = "evaluation.spread.steps"
#: Where nothing is asked for, a worker of a cluster may take so many times what its largest piece is thought to take.
_SLACK = 1.5


@dataclass(frozen=True)
class Reading:
    """How the files are read."""

    format: str | None = None
    resource: str | None = None
    machine: str | None = None  # TOML file
    requests: bool = False  # they may be lists of requests without times

    def check(self) -> None:
        """Refuse a machine that cannot be read, before any work."""
        if self.machine is not None:
            Machine.from_toml(self.machine)


@dataclass(frozen=True)
class Study:
    """What is to be done with every trace."""

    of: str  # sweep or place
    pieces: Sequence[Mapping[str, Any]]  # parameters of each piece of a trace; what is found has this order
    reading: Reading = Reading()
    modules: Sequence[str] = ()  # of the user's own policies: results are used again only while these are unchanged
    copies: int = 2  # of the trace that a piece holds at once, at most
    results: int = 1  # schedules of the whole trace that it holds at once, at most
    limits: Limits = field(default_factory=lambda: Limits(minutes=math.inf))

    @property
    def identity(self) -> str:
        """Return a hash of what is done, whichever the traces are."""
        return digest([self.of, self.pieces, vars(self.reading)])


def run(
    study: Study,
    files: Sequence[str],
    folder: Path,
    *,
    where: Where = LOCAL,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Do all pieces of all traces, or what is left of them; return what was found of each trace, and what it took.

    A trace that cannot be read, or one of whose pieces fails, has the reason under ``failed``; the others go on.
    """
    check_outputs(folder, study.of, force=force)
    where.check()
    study.reading.check()
    given = inputs_of(files)
    store = Store(folder)
    if not force:
        _check_folder(study, given, folder)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(alone(folder))
        write_text(folder / ABOUT, json.dumps({"of": study.of, "identity": study.identity}) + "\n", force=True)
        store.folder.mkdir(exist_ok=True)
        store.sweep()
        stack.callback(store.sweep)
        reading = _reading(study, given, folder)
        results = _done(store, _here(where), study, reading.values(), progress, later=len(reading) * len(study.pieces))
        known = {name: _json(store, task, KNOWN) for name, task in reading.items() if results[task.key].ok}
        pieces = {name: _pieces(study, reading[name], about) for name, about in known.items()}
        largest = max((task.memory for tasks in pieces.values() for task in tasks), default=BASE)
        place = _bounded(where, largest).open(store)
        stack.callback(place.close)
        runner = Runner(store, place, study.limits, progress, results)
        runner.run([task for tasks in pieces.values() for task in tasks], before=len(reading))
        rows = [_told(one, runner, reading.get(one.name), pieces.get(one.name, []), known) for one in given]
        return {"of": study.of, "traces": rows, "cost": cost_of(place, results.values())}


def _check_folder(study: Study, given: Sequence[Given], folder: Path) -> None:
    """Refuse to replace what another study has found, or what is not ours; more traces may be added to a study."""
    try:
        before = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        of, identity = before["of"], before["identity"]
    except (OSError, ValueError, KeyError, TypeError):  # nothing of ours: all that we would write must be free
        for name in (ABOUT, *FOLDERS, *(one.name for one in given if one.name)):
            if (folder / name).exists():
                raise OutputError(f"{folder / name}: exists already; choose another folder, or use --force") from None
        return
    if identity != study.identity:
        raise OutputError(
            f"{folder}: has a {of} with other settings; choose another folder, or use --force to replace its outcome "
            "(finished pieces that fit are used again)"
        )


def contents(names: Iterable[str]) -> dict[str, str]:
    """Return what stands in the folders of agents (``agent:DIR``): results are used again only for the same agent."""
    folders = {name: Path(name.removeprefix("agent:")) for name in names if name.startswith("agent:")}
    return {name: content_digest(folder) for name, folder in folders.items() if folder.is_dir()}


def _here(where: Where) -> Where:
    """Return where files are read: on this machine, by workers that may take what the others may, if that is there."""
    most, there = where.memory, free()
    if most is None or (where.engine != "local" and there is not None and most > there):
        return Where(memory=share(cores()))
    return Where(memory=most)


def _done(
    store: Store, where: Where, study: Study, tasks: Iterable[Task], progress: Progress | None, *, later: int
) -> dict[str, Any]:
    """Do tasks on this machine and return how they ended; so many ``later`` ones follow."""
    place = where.open(store)
    try:
        return Runner(store, place, study.limits, progress).run(list(tasks), later=later)
    finally:
        place.close()


def _bounded(where: Where, largest: int) -> Where:
    """Return where to work with a bound on the memory of a worker: the given one, or what seems right."""
    if where.memory is not None:
        return where
    most = share(cores(), largest) if where.engine == "local" else int(_SLACK * largest)
    return Where(where.engine, where.address, most)


def _reading(study: Study, given: Sequence[Given], folder: Path) -> dict[str, Task]:
    """Return the task that reads each file, by name; links in ``data`` lead to the files by their contents' hashes."""
    code = digest([digest_of(_STEPS), _readers()])
    how = study.reading
    params = {"format": how.format, "resource": how.resource, "requests": how.requests}
    beside = {} if how.machine is None else {"machine": _linked(how.machine, folder)}
    found = {}
    for one in given:
        if not (one.same_as or one.reason):
            inputs = {"file": _linked(one.file, folder, one.sha256), **beside}
            found[one.name] = Task("normalise", params, inputs, code, {"model": one.name}, asks=BASE)
    return found


def _linked(file: str, folder: Path, content: str = "") -> Input:
    content = content or content_digest(Path(file))
    name = f"{content[:20]}/{Path(file).name}"
    link = folder / "data" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    target = os.path.abspath(file)  # noqa: PTH100  (a link in the name stays, as it may lead elsewhere tomorrow)
    if not link.is_symlink() or os.readlink(link) != target:  # noqa: PTH115
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    return Input(name, digest=content)


def _readers() -> str:
    """Return the hash of all readers of formats: what is read depends on them."""
    spec = find_spec("swf")
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    return code_digest(path for place in places for path in Path(place).glob("*.py"))


def _pieces(study: Study, read: Task, known: Mapping[str, Any]) -> list[Task]:
    """Return the tasks of one trace, with what they will take."""
    code = digest_of(_STEPS, *study.modules)
    asks = BASE + study.copies * known["bytes"] + _BYTES * known["jobs"] * study.results
    inputs = {"trace": Input(TRACE, read.key, jobs=known["jobs"])}
    return [
        Task(study.of, params, inputs, code, {"model": read.about["model"]}, cost=_cost(known), asks=asks)
        for params in study.pieces
    ]


#: Bytes that a schedule takes for each job while it is made and until it is measured.
_BYTES = 100


def _cost(known: Mapping[str, Any]) -> float:
    """Return a guess of a piece's seconds."""
    return 0.5 + 2e-5 * float(known["jobs"])


def _told(
    one: Given, runner: Runner, read: Task | None, pieces: Sequence[Task], known: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what was found of one file, or why nothing was."""
    tasks = [*([] if read is None else [read]), *pieces]
    bad = next((task for task in tasks if not runner.results[task.key].ok), None)
    failed = one.reason
    if bad is not None:
        link = str(runner.store.run / next(iter(bad.inputs.values())).path)
        failed = runner.results[bad.key].reason.replace(link, one.file)
    found = [] if failed else [_json(runner.store, task, FOUND) for task in pieces]
    return {
        "trace": one.file,
        "name": one.name,
        "sha256": one.sha256,
        "same_as": one.same_as,
        "failed": failed,
        "jobs": known.get(one.name, {}).get("jobs"),
        "rows": [row for each in found for row in each["rows"]],
        "notes": list(dict.fromkeys(note for each in found for note in each["notes"])),
        "largest_peak_mb": round(max((runner.results[task.key].peak_mb for task in tasks), default=0.0)),
    }


def _json(store: Store, task: Task, name: str) -> Any:
    return json.loads((store.place(task.key) / name).read_text(encoding="utf-8"))
