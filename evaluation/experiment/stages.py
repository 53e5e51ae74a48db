"""What the tasks of an experiment do: fit and sample, score, train, evaluate. Each reads files and writes files."""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evaluation.experiment.heldout import Heldout, schedulable, starts
from evaluation.experiment.memory import bounded, forget_peak, peak
from evaluation.experiment.tasks import FULL, LOG, Result, Task
from tracekit import stats
from tracekit.errors import MissingExtra, OutputError, TracekitError
from tracekit.large.source import gigabytes
from tracekit.registry import imported
from tracekit.trace import Trace

Inputs = Mapping[str, Path]
#: A trace with a smaller share of runnable jobs than this is rejected.
MIN_RUNNABLE = 0.5


class Interrupted(Exception):
    """Raised when a fit was stopped early: its result is not the requested one."""


def fit(params: Mapping[str, Any], inputs: Inputs, out: Path) -> None:
    """Fit a generator on the training jobs alone and draw its samples, each as long as the training trace."""
    from generators.synth import fit as fit_model
    from generators.synth import make

    train = Trace.load(inputs["train"])
    kind = imported(params["target"])
    fitted = fit_model(train, kind, seed=params["fit_seed"], **params["options"])
    if fitted.interrupted:
        raise Interrupted(f"fit of {params['target']}")
    for number, seed in params["samples"]:
        made = make(fitted, params["jobs"], seed=seed, load=params["load"])
        on_the_same_machine(made, train, params["jobs"]).save(out / f"sample-{number}.parquet")
    (out / "notes.json").write_text(json.dumps(fitted.notes) + "\n")


def on_the_same_machine(made: Any, real: Trace, jobs: int | None = None) -> Trace:
    """Return the trace on the real trace's machine, so that only the jobs differ; refuse an unusable one."""
    if not isinstance(made, Trace):
        raise TracekitError(f"the generator returned {type(made).__name__}, expected a Trace")
    if jobs is not None and len(made) != jobs:
        raise TracekitError(f"the generator returned {len(made):,} jobs, expected {jobs:,}")
    sizes = {unit: getattr(real.machine, unit) for unit in ("procs", "nodes", "gpus", "unit", "groups")}
    fitting: Trace = made.replace(machine=made.machine.replace(**sizes))
    runnable = len(schedulable(fitting)) / max(len(fitting), 1)
    if runnable < MIN_RUNNABLE:
        raise TracekitError(
            f"only {runnable:.0%} of the generated jobs can run (submit time, run time and a size that fits)"
        )
    if not stats.span(fitting) > 0:
        raise TracekitError("all generated jobs arrive at one instant")
    return fitting


def score(params: Mapping[str, Any], inputs: Inputs, out: Path) -> None:
    """Score samples against the training jobs; the validation jobs are the hold-out of the privacy scores."""
    from evaluation.score import score as compare

    samples = [name for name in inputs if name.startswith("sample-")]
    found = compare(
        Trace.load(inputs["train"]),
        [Trace.load(inputs[name]) for name in samples],
        holdout=Trace.load(inputs["validation"]),
        quick=params["quick"],
        families=params["families"],
        baselines=False,
        floor=params["floor"],
        seed=params["seed"],
        names=[params["real"], *(f"{params['model']} {name.partition('-')[2]}" for name in samples)],
    )
    (out / "score.json").write_text(json.dumps(found.to_dict(), allow_nan=False) + "\n", encoding="utf-8")


def train(params: Mapping[str, Any], inputs: Inputs, out: Path) -> None:
    """Train one agent on one trace, or on two of them one after the other."""
    from evaluation.experiment.learners import LEARNERS

    allocate = params["config"].get("allocate")
    traces = [schedulable(Trace.load(inputs[name]), allocate) for name in ("trace", "more") if name in inputs]
    LEARNERS.get(params["learner"])().train(
        traces[0] if len(traces) == 1 else one_after_the_other(*traces),
        out / "agent",
        config=params["config"],
        backfill=params["backfill"],
        seed=params["seed"],
        untrained=params["untrained"],
    )


def one_after_the_other(first: Trace, second: Trace) -> Trace:
    """Return the jobs of both, the second's beginning a mean gap after the first's end; labels stay as they are."""
    end, gap = float(first.column("submit_time")[-1]), float(np.mean(first.interarrival()))
    begin = float(second.column("submit_time")[0])
    moved = second.jobs.assign(
        submit_time=second.column("submit_time") - begin + end + gap,
        job_id=np.arange(1, len(second) + 1) + int(first.column("job_id").max()),
    )
    columns = [name for name in first.jobs.columns if name in moved.columns]
    texts = [name for name in columns if isinstance(first.jobs[name].dtype, pd.CategoricalDtype)]
    parts = [jobs[columns].astype(dict.fromkeys(texts, object)) for jobs in (first.jobs, moved)]
    return first.replace(jobs=pd.concat(parts, ignore_index=True), step=f"followed by {len(second)} synthetic jobs")


def evaluate(params: Mapping[str, Any], inputs: Inputs, out: Path) -> None:
    """Let one agent schedule the held-out windows."""
    from evaluation.experiment.learners import LEARNERS, NOTE

    heldout = Heldout.of(Trace.load(inputs["test"]), params["windows"])
    learner = LEARNERS.get(params["learner"])()
    note = inputs["agent"] / NOTE
    found = {
        "windows": learner.play(inputs["agent"], heldout),
        "curve": learner.curve(inputs["agent"]),
        "note": " ".join(note.read_text(encoding="utf-8").split()) if note.is_file() else "",
    }
    (out / "windows.json").write_text(json.dumps(found) + "\n")


def heuristics(params: Mapping[str, Any], inputs: Inputs, out: Path) -> None:
    """Let every heuristic schedule the held-out windows, and as many windows of the training jobs as there are.

    The latter train nothing: heuristics do not learn. They say how typical the held-out windows are (`control`).
    """
    heldout = Heldout.of(Trace.load(inputs["test"]), params["windows"])
    before = schedulable(Trace.load(inputs["train"]), heldout.allocate)
    earlier = replace(heldout, test=before, starts=starts(len(before), len(before), heldout.jobs, fewest=0))
    for name, windows in (("windows.json", heldout), ("earlier.json", earlier)):
        found = {policy: windows.play(policy) for policy in params["policies"]}
        (out / name).write_text(json.dumps(found) + "\n")


#: What tasks do, by their kind; of studies of the simulator (`evaluation.spread`) where it is defined.
STEPS: dict[str, Callable[[Mapping[str, Any], Inputs, Path], None] | str] = {
    "fit": fit,
    "score": score,
    "train": train,
    "evaluate": evaluate,
    "heuristics": heuristics,
    "normalise": "evaluation.spread.steps:normalise",
    "sweep": "evaluation.spread.steps:sweep",
    "place": "evaluation.spread.steps:place",
}


def perform(task: Task, inputs: Inputs, out: Path, memory: int | None = None) -> Result:
    """Do a task in this process; whatever goes wrong in it becomes a reason, never an error of the run.

    What libraries print goes to ``log.txt`` in the task's folder. ``memory``: bytes that it may take; None = any.
    """
    forget_peak()
    began, cpu = time.perf_counter(), time.process_time()
    reason, lost, cramped = "", False, False
    with _printing_to(out / LOG):
        try:
            with bounded(memory):
                step = STEPS[task.kind]
                (imported(step) if isinstance(step, str) else step)(task.params, inputs, out)
        except Interrupted as stop:
            reason, lost = f"interrupted: {stop}", True
        except MemoryError:
            cramped = memory is not None
            reason = "out of memory" if memory is None else f"out of memory: it needs more than {gigabytes(memory)}"
        except Exception as error:
            reason = _said(error)
            cramped = _another_run_may(error) or (memory is not None and "memory" in reason.lower())
            with contextlib.suppress(OSError):  # the disk may be full
                traceback.print_exc()
        except BaseException as error:  # sys.exit, by a model or because the process was asked to end
            reason, lost = f"it asked its process to end ({_said(error)})", True
    return Result(
        ok=not reason,
        reason=" ".join(reason.split())[:500],
        lost=lost,
        cramped=cramped,
        cpu_s=time.process_time() - cpu,
        wall_s=time.perf_counter() - began,
        peak_mb=peak(),
    )


def _another_run_may(error: Exception) -> bool:
    """Return whether an error says nothing about the work: a disk that is full, a package that is not there."""
    return isinstance(error, (MissingExtra, OutputError)) or (isinstance(error, OSError) and error.errno in FULL)


def _said(error: BaseException) -> str:
    """Return an error's kind and words; those of other people's errors may fail themselves."""
    kind = type(error).__name__
    try:
        words = str(error)
    except Exception:
        return kind
    return words if isinstance(error, TracekitError) and words else f"{kind}: {words}" if words else kind


@contextlib.contextmanager
def _printing_to(path: Path) -> Iterator[None]:
    """Send both standard streams of this process to a file, those of C libraries as well."""
    import sys

    with path.open("ab") as log:
        kept = [os.dup(stream) for stream in (1, 2)]
        try:
            sys.stdout.flush(), sys.stderr.flush()
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
            yield
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            for stream, old in zip((1, 2), kept, strict=True):
                os.dup2(old, stream)
                os.close(old)
