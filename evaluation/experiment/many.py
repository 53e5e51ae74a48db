"""The same experiment on many traces: one run for each in a folder of its own, and one queue of tasks over all.

Every run is the one that `study.run` would make of its trace alone, so it can be resumed, compared and shown alone.
Traces are read one after the other, and only their parts on disk are kept. A trace that cannot be used is reported; the
others go on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from evaluation.experiment.engines import LOCAL, Where
from evaluation.experiment.grid import Plan
from evaluation.experiment.inputs import Given, inputs_of
from evaluation.experiment.prepared import Study
from evaluation.experiment.runner import Progress, Runner, Status
from evaluation.experiment.study import Outcome, abandon, alone, check, conclude, looked, opened
from evaluation.experiment.summary import ANSWERS, markdown, numbers
from evaluation.experiment.tasks import Result, Stores, Task
from evaluation.experiment.together import check_outputs, cost_of, memory_in_words, plain_cell, write_summary
from evaluation.experiment.uses import mark
from tracekit.errors import OutputError, TracekitError

#: What the summary tells of a verdict.
_TOLD = ("learner", "model", "verdict", "difference", "low", "high", "good_enough", "sentence")

Looks = Generator[list[Task], Mapping[str, Result], Outcome]


def run(
    plan: Plan,
    files: Sequence[str],
    folder: str | Path,
    *,
    where: Where = LOCAL,
    force: bool = False,
    progress: Progress | None = None,
    command: str = "",
    report: bool = True,
) -> dict[str, Any]:
    """Run a plan on every file, or what is left of it, and return summary.json as plain values."""
    folder = Path(folder)
    check(plan)
    check_outputs(folder, "experiment", force=force)
    where.check()
    given = inputs_of(files)
    folder.mkdir(parents=True, exist_ok=True)
    stores = Stores(folder)
    with ExitStack() as stack:
        stack.enter_context(alone(folder))
        engine = where.open(stores)
        stack.callback(engine.close)
        studies: dict[str, Study] = {}
        failed = {one.name: one.reason for one in given if one.reason}
        for number, one in enumerate(given):
            if one.same_as or one.reason:
                continue
            if progress is not None:
                progress(Status(number, len(given), len(failed), 0.0, [one.name], "traces read"))
            own = dataclasses.replace(plan, real=dataclasses.replace(plan.real, path=one.file))
            try:
                study = stack.enter_context(opened(own, folder / one.name, where=where, force=force, command=command))
            except OutputError:
                raise
            except (TracekitError, MemoryError) as error:
                failed[one.name] = str(error) or "out of memory"
                abandon(folder / one.name)
                continue
            studies[one.name] = study.without_traces()
        runner = Runner(stores, engine, plan.limits, progress)
        outcomes = _outcomes(studies, stores, runner)
        found = {}
        for number, (name, outcome) in enumerate(outcomes.items()):
            if progress is not None:
                running = [f"the report of {name}"] if report else []
                progress(Status(number, len(outcomes), len(failed), 0.0, running, "traces reported"))
            found[name] = conclude(studies[name], outcome, where.engine, command, report=report)
        rows = [_told(one, failed.get(one.name, ""), found.get(one.name), outcomes.get(one.name)) for one in given]
        summary = {"of": "experiment", "traces": rows, "cost": cost_of(engine, runner.results.values())}
        write_summary(folder, summary, _lines(summary))
    return summary


def _outcomes(studies: Mapping[str, Study], stores: Stores, runner: Runner) -> dict[str, Outcome]:
    """Run the tasks of all studies, by name, as one queue, look by look."""
    looks: dict[str, Looks] = {name: looked(study) for name, study in studies.items()}
    open_ = {name: next(look) for name, look in looks.items()}
    ended: dict[str, Outcome] = {}
    while open_:
        for name, tasks in open_.items():
            stores.add(studies[name].store, tasks)
        runner.run([task for tasks in open_.values() for task in tasks])
        for name in list(open_):
            try:
                open_[name] = looks[name].send(runner.results)
            except StopIteration as end:
                ended[name] = end.value
                del open_[name]
    return {name: ended[name] for name in studies}


# ---- what is told of all of them -----------------------------------------------------------------------------------


def _told(one: Given, failed: str, found: Mapping[str, Any] | None, outcome: Outcome | None) -> dict[str, Any]:
    """Return what the summary tells of one file."""
    rows = [] if found is None else [*found["verdicts"], *found["baselines"]]
    if found and found["verdicts"] and all(row["verdict"] == "failed" for row in found["verdicts"]):
        failed = f"every model failed; {found['verdicts'][0]['model']}: {found['verdicts'][0]['sentence']}"
    own = [] if outcome is None else [outcome.results[task.key] for task in outcome.grid.tasks()]
    return {
        "trace": one.file,
        "name": one.name,
        "sha256": one.sha256,
        "same_as": one.same_as,
        "failed": failed,
        "headline": "" if found is None else found["headline"],
        "verdicts": [{name: row[name] for name in _TOLD} | {"answer": mark(row)} for row in rows],
        "largest_peak_mb": round(max((result.peak_mb for result in own), default=0.0)),
    }


def _lines(summary: Mapping[str, Any]) -> Iterable[str]:
    """Return the page: a row for each trace, use and model."""
    yield "# Is a synthetic trace as good as the real one? On many traces"
    yield ""
    yield "Made by `tracekit experiment`; numbers are not edited. Each trace has a folder with its own report."
    yield ""
    heads = ("trace", "use", "trained on", "good enough?", "verdict", "difference", "interval")
    yield from markdown(heads, _cells(summary["traces"]))
    yield memory_in_words(summary["cost"])


def _cells(traces: Iterable[Mapping[str, Any]]) -> Iterable[list[str]]:
    for row in traces:
        if row["failed"] or row["same_as"]:
            said = f"failed: {row['failed']}" if row["failed"] else f"the same as {row['same_as']}"
            yield [plain_cell(row["name"] or row["trace"]), "–", "–", "–", plain_cell(said), "–", "–"]
        for one in row["verdicts"]:
            answer = ANSWERS[one["answer"]]
            cells = [row["name"], one["learner"], one["model"], answer, one["verdict"], *numbers(one)]
            yield [plain_cell(cell) for cell in cells]
