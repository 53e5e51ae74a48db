"""The whole experiment, top to bottom.

1. `divide` the real trace by time: train, validation, test.
2. Fit every generator on train alone and draw samples; score them (`steps.fit`, `steps.score`).
3. Train agents, all with one configuration, on real jobs, on every sample, on the trivial baselines, on another real
   trace, on a scarce part of the real jobs with and without synthetic ones added (`steps.train`).
4. Let all of them, and the heuristics, schedule the same held-out real windows (`steps.evaluate`).
5. Say for every generator whether that makes a difference (`comparisons`, `verdict`).

Steps 2 to 4 are `tasks`, listed by `build` and worked through by `runner` on one of the `engines`. A run that was
interrupted resumes where it was when it is started again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.base import METRICS
from evaluation.experiment import results as tidy
from evaluation.experiment.about import ABOUT, REPORT, TABLE, VERDICT, about, facts_of, failed_tasks, text_of
from evaluation.experiment.build import ARMS, BASELINE, MODEL, Code, GeneratorSpec, Grid, build
from evaluation.experiment.comparisons import is_open, verdicts
from evaluation.experiment.damage import DAMAGES
from evaluation.experiment.engines import LOCAL, Where
from evaluation.experiment.grid import Plan, Source
from evaluation.experiment.halves import halves
from evaluation.experiment.heldout import check_load, schedulable, starts
from evaluation.experiment.learners import LEARNERS
from evaluation.experiment.parts import divide, on_cluster, read_source
from evaluation.experiment.prepared import Study
from evaluation.experiment.runner import Progress, Runner, Status
from evaluation.experiment.source import digest_of
from evaluation.experiment.stages import on_the_same_machine
from evaluation.experiment.summary import FIGURE, SUMMARY, write_summary
from evaluation.experiment.tasks import Input, Result, Store, Task, file_digest
from evaluation.experiment.uses import Use, uses_of
from generators import MODELS
from tracekit.clusters import cluster_of
from tracekit.errors import OutputError, UnknownName, UsageError
from tracekit.files import write_text
from tracekit.folders import writing_folder, writing_together
from tracekit.registry import imported
from tracekit.sim.hosts.allocators import find_allocator
from tracekit.sim.policies.builtin import find, module_of
from tracekit.sim.switches import BACKFILLS
from tracekit.trace import Trace

#: What is made from the table and the verdict; removed before they are replaced.
_DERIVED = (REPORT, "report.json", SUMMARY, FIGURE)
LOCK = ".lock"
_BUDGET = {"quick": 0.25, "normal": 1.0, "thorough": 6.0}
_HELDOUT = "evaluation.experiment.heldout"


# ---- 2: the grid ---------------------------------------------------------------------------------------------------


def prepare(plan: Plan, folder: Path, real: Trace | None = None, *, data: Path | None = None) -> Study:
    """Read and divide the traces, write the parts into ``data`` (default: the run's own folder), and list the tasks."""
    check(plan)
    if real is None:
        real = read_source(plan.real)
    real = on_cluster(real, plan)
    parts = divide(real, plan)
    specs = _specs(plan, len(parts.train))
    uses = uses_of(plan)
    held = starts(len(schedulable(parts.test, plan.hosts.get("allocate"))), plan.windows.count, plan.windows.jobs)
    windows = {
        "starts": held,
        "jobs": plan.windows.jobs,
        "loads": list(dict.fromkeys(map(check_load, plan.windows.loads))),
        "backfill": plan.windows.backfill,
        **plan.hosts,
    }
    given = {
        f"given/{name}/{k}": on_the_same_machine(read_source(Source(path=file)), parts.train)
        for name, files in plan.models.traces.items()
        for k, file in enumerate(files)
    }
    half = dict(halves(parts.train, plan.verdict.halves, plan.seed))
    written = _written({**dict(parts.items()), **half, **given}, data or folder / "data")
    name = _name(real, plan)
    grid = build(
        plan,
        written,
        {key: len(part) for key, part in parts.items()},
        specs,
        _code(plan, specs, uses),
        windows,
        uses,
        real=name,
    )
    facts = facts_of(plan, name, real, parts)
    return Study(plan, real, name, parts, specs, uses, windows, written, grid, Store(folder), facts)


def check(plan: Plan) -> None:
    """Refuse wrong names before anything is read."""
    for policy in plan.windows.heuristics:
        find(policy)
    if plan.windows.cluster:
        cluster_of(plan.windows.cluster)
        find_allocator(plan.windows.allocate)
    elif plan.windows.allocate != "first-fit":
        raise UsageError("--allocate chooses among hosts: add --cluster NAME or FILE.toml")
    if plan.windows.backfill not in BACKFILLS:
        raise UnknownName("backfill", plan.windows.backfill, BACKFILLS)
    for name in [*plan.models.names, *plan.models.baselines, *(plan.scarce.models or ())]:
        _target(name)
    for load in plan.windows.loads:
        check_load(load)
    for name in plan.models.traces:
        if not name or name in ARMS or name in plan.models.names:
            raise UsageError(f"[models.traces]: '{name}' is taken already; choose another name")
    if not plan.models.names and not plan.models.traces:
        raise UsageError(f"no models: name them with --models or in [models]; known: {', '.join(MODELS)}")


def _target(name: str) -> str:
    """Return the target of a model: a registered name, a damage of real jobs, or a user's module:Class."""
    return name if ":" in name else DAMAGES.target(name) if name in DAMAGES else MODELS.target(name)


def _specs(plan: Plan, jobs: int) -> list[GeneratorSpec]:
    """Look every model up; one whose extra is missing stays in, and fails by itself with that reason."""
    found = []
    for name in plan.model_names():
        baseline = name not in plan.models.names and name not in plan.models.traces
        if name in plan.models.traces:
            found.append(GeneratorSpec(name, facts={"family": "given", "summary": "made elsewhere"}))
            continue
        try:
            info = getattr(imported(_target(name)), "info", None)
        except Exception:  # any fault of a user's module
            info = None
        minutes = float(getattr(info, "minutes", 0.1))
        found.append(
            GeneratorSpec(
                name,
                _target(name),
                baseline,
                copies=name in DAMAGES or bool(getattr(info, "copies", False)),
                load="none" if name in DAMAGES else "",  # the load may be what is damaged
                heavy=getattr(info, "extra", None) is not None,
                seconds=60 * minutes * _BUDGET[plan.models.budget_of(name)] * max(0.2, jobs / 30_000),
                facts={key: str(getattr(info, key, "")) for key in ("family", "licence", "summary")},
            )
        )
    return found


def _code(plan: Plan, specs: list[GeneratorSpec], uses: list[Use]) -> Code:
    scoring = [METRICS.target(name).partition(":")[0] for name in METRICS]
    learners = {use.learner: LEARNERS.target(use.learner).partition(":")[0] for use in uses}
    damaged = {use.control: digest_of(DAMAGES.target(use.control).partition(":")[0]) for use in uses}
    fitted = {spec.name: digest_of(spec.target.partition(":")[0], "generators.synth") for spec in specs if spec.target}
    return Code(
        fit=damaged | fitted,
        score=digest_of("evaluation.score", *scoring),
        train={
            use.learner: digest_of(learners[use.learner], _HELDOUT, *_modules(use.config.get("policies", ())))
            for use in uses
        },
        heuristics=digest_of(_HELDOUT, "evaluation.experiment.stages", *_modules(plan.windows.heuristics)),
    )


def _modules(policies: Iterable[str]) -> list[str]:
    """Return the modules of user-defined policies: results are reused only while these are unchanged."""
    return sorted({module for module in map(module_of, policies) if module is not None})


def _written(traces: Mapping[str, Trace], folder: Path) -> dict[str, Input]:
    """Write every part once; a file that holds the same already is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, trace in traces.items():
        file = name.replace("/", "-").replace(":", "-") + ".parquet"
        with tempfile.TemporaryDirectory(prefix=".part-", dir=folder) as scratch:
            made = Path(scratch) / file
            trace.save(made)
            new = file_digest(made)
            place = folder / file
            if not place.is_file() or file_digest(place) != new:
                made.replace(place)
        found[name] = Input(file, digest=new, jobs=len(trace))
    return found


def _name(real: Trace, plan: Plan) -> str:
    return Path(plan.real.path).name.split(".")[0] if plan.real.path else real.machine.name or "real"


# ---- 3 and 4: the run ----------------------------------------------------------------------------------------------


def run(
    plan: Plan,
    folder: str | Path,
    real: Trace | None = None,
    *,
    where: Where = LOCAL,
    force: bool = False,
    progress: Progress | None = None,
    command: str = "",
    report: bool = True,
) -> dict[str, Any]:
    """Run an experiment, or what is left of it, and return verdict.json as plain values.

    ``real`` may be given as a trace in place of the plan's path. ``force``: the folder may hold another experiment,
    whose table and verdict are replaced; finished tasks that serve this one are used.
    """
    where.check()
    with opened(plan, Path(folder), real, where=where, force=force, command=command) as study:
        place = where.open(study.store)
        try:
            runner, looks = Runner(study.store, place, plan.limits, progress), looked(study)
            tasks = next(looks)
            while True:
                try:
                    tasks = looks.send(runner.run(tasks))
                except StopIteration as end:
                    outcome: Outcome = end.value
                    break
        finally:
            place.close()
        if progress is not None:
            failed = sum(not result.ok for result in outcome.results.values())
            done = len(outcome.results)
            progress(Status(done, done, failed, 0.0, ["the report"] if report else []))
        return conclude(study, outcome, where.engine, command, report=report)


@contextlib.contextmanager
def opened(
    plan: Plan, folder: Path, real: Trace | None = None, *, where: Where = LOCAL, force: bool = False, command: str = ""
) -> Iterator[Study]:
    """Prepare an experiment in its folder, which is its own during the block; what was half done is removed."""
    check_folder(folder, force=force)
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        with writing_folder(folder / "data", ours=["*.parquet"], force=True) as data:
            study = prepare(plan, folder, real, data=data)
            _start_over(study, folder, force=force)
        study.store.folder.mkdir(exist_ok=True)
        study.store.sweep()
        if not (folder / ABOUT).is_file():
            write_text(folder / ABOUT, text_of(about(study, where.engine, {}, command)))
        try:
            yield study
        finally:
            study.store.sweep()


@dataclass(frozen=True)
class Outcome:
    """What has been run, and what came out of it."""

    grid: Grid  # the part of the study's grid that was needed
    results: Mapping[str, Result]
    rows: list[dict[str, Any]]  # of the tidy table
    found: dict[str, Any]  # verdict.json


def looked(study: Study) -> Generator[list[Task], Mapping[str, Result], Outcome]:
    """Yield the tasks of one look after the other until every verdict is decided, or the plan is exhausted.

    Whoever runs the tasks sends how they ended.
    """
    looks = {use.learner: 1 for use in study.uses}
    decided: dict[tuple[str, str], Mapping[str, Any]] = {}
    kept: list[dict[str, Any]] = []  # paired differences of what an earlier look has decided
    while True:
        grid = study.grid.until(looks, decided)
        results = yield grid.tasks()
        rows = tidy.collected(grid, study.store, results)
        found, differences = verdicts(
            tidy.table_of(rows),
            study.plan,
            study.specs,
            study.uses,
            failed_tasks(grid, results),
            study.name,
            looks=looks,
            decided=decided,
        )
        last = [learner for learner, look in looks.items() if look == study.plan.verdict.looks]
        open_ = {
            row["learner"]
            for row in [*found["verdicts"], *found["controls"]]
            if is_open(row) and row["learner"] not in last
        }
        if not open_:
            return Outcome(grid, results, [*rows, *kept, *differences], found)
        settled = {
            (row["learner"], row["model"]): row
            for row in [*found["verdicts"], *found["baselines"]]
            if not is_open(row) and row["learner"] in open_
        }
        kept += [
            row
            for row in differences
            if row["arm"] in (MODEL, BASELINE) and (row["learner"], row["model"]) in settled.keys() - decided.keys()
        ]
        decided = settled | decided
        looks = {learner: look + (learner in open_) for learner, look in looks.items()}


def check_folder(folder: Path, *, force: bool) -> None:
    """Refuse early, before any work: a file, or a folder that holds something else."""
    if folder.is_file():
        raise OutputError(f"{folder}: is a file; an experiment is a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / ABOUT).is_file() and not force:
        left = [path.name for path in folder.iterdir() if path.name[0] != "." and path.name not in ("data", "tasks")]
        if left:
            raise OutputError(f"{folder}: contains other files; choose another folder, or use --force")


def _start_over(study: Study, folder: Path, *, force: bool) -> None:
    """Remove the outcome of another experiment before the first file of this one is written; refuse unless forced."""
    try:
        before = json.loads((folder / ABOUT).read_text(encoding="utf-8"))["identity"]
    except (OSError, ValueError, KeyError, TypeError):
        before = None
    if before == study.identity:
        return
    if before is not None and not force:
        raise OutputError(
            f"{folder}: has an experiment with another plan or other data; choose another folder, or use --force to "
            "replace its outcome (finished tasks that fit are used again)"
        )
    for name in (*_DERIVED, VERDICT, TABLE, ABOUT):
        (folder / name).unlink(missing_ok=True)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep a second run out of the same folder; the lock goes with the process, however it ends."""
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(f"{folder}: another run is using this folder") from None
        yield


def abandon(folder: Path) -> None:
    """Remove the folder of a run that came to nothing, if nothing is in it."""
    with contextlib.suppress(OSError):
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            folder.rmdir()


# ---- 5: the outcome ------------------------------------------------------------------------------------------------


def conclude(study: Study, outcome: Outcome, engine: str, command: str = "", *, report: bool = True) -> dict[str, Any]:
    """Write the tidy table, the verdict and the report."""
    folder = study.store.run
    frame, found = tidy.table_of(outcome.rows), outcome.found
    study = dataclasses.replace(study, grid=outcome.grid)
    results = outcome.results
    for name in _DERIVED:
        (folder / name).unlink(missing_ok=True)
    files = (folder / name for name in (ABOUT, TABLE, VERDICT))
    with writing_together(*files, force=True) as (known, table, verdict):
        frame.to_parquet(table, index=False)
        write_text(verdict, text_of(found))
        write_text(known, text_of(about(study, engine, results, command)))
    if report:
        write_summary(folder)
        write_report(folder)
    return found


def write_report(folder: Path) -> None:
    """Draw the page; where there is nothing to draw, because every model failed, there is no page."""
    from evaluation.report import content_of, write

    if not json.loads((folder / ABOUT).read_text(encoding="utf-8"))["files"]["scores"]:
        (folder / REPORT).unlink(missing_ok=True)
        return
    write(content_of(folder), folder / REPORT, force=True)
