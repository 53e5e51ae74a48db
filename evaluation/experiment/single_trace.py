"""The short form of the experiment, for one synthetic trace that was made anywhere: minutes on two cores."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.experiment.build import ARMS
from evaluation.experiment.grid import Agents, Models, Plan, Source, Split, VerdictSettings, Windows, names_in
from evaluation.experiment.parts import read_source
from evaluation.experiment.runner import Progress
from evaluation.experiment.study import run
from tracekit.errors import UsageError
from tracekit.trace import Trace
from tracekit.units import checked, left_out, scheduled_in

#: What the command prints of the scores, and what would be best.
SHOWN = {
    "ks.mean": "0",
    "correlation.mad_spearman": "0",
    "c2st.auc": "0.5",
    "c2st.window_auc": "0.5",
    "acf1.interarrival": "real",
    "user_repeat": "real",
    "offered_load": "real",
    "scheduling.matched.kendall_tau": "1",
    "scheduling.matched.log_wait_w1": "0",
    "privacy.exact_copies": "as the hold-out (real)",
    "privacy.membership_auc": "0.5",
}
#: Enough to separate a bad trace from a good one, not to find the best agent; the same for real and synthetic.
SMALL: dict[str, dict[str, Any]] = {"ppo": {"steps": 50_000}}
#: The uses that take seconds: together they need users, order, limits, sizes and load to be right.
DEFAULT = ("pick-heuristic", "forecast-waits", "predict-run-time")
WINDOW, WINDOWS, SEEDS = 96, 120, 5


def verdict(
    real: Trace | str | Path,
    synth: Trace | str | Path,
    *,
    learner: str | Sequence[str] = DEFAULT,
    margin: float | None = None,
    folder: str | None = None,
    procs: int | None = None,
    format: str | None = None,
    resource: str | None = None,
    seed: int = 0,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return verdict.json for one synthetic trace, with its scores by key under ``scores``.

    Both may be traces or files; ``format`` is that of the real file, ``procs`` the size of the real machine in
    the scheduled unit, ``resource`` that unit (default: the one that `tracekit.units` chooses for the real file).
    ``learner``: one or several; the default ones take seconds each. ``margin``: default, each learner's own.
    The real trace is cut into weeks (days, if it is short), which are dealt out: half are learnt from, 40 % are judged
    on. The model of the synthetic trace may have been fitted on those; the file does not show it, so a note states it.
    """
    learners = names_in(learner) if isinstance(learner, str) else tuple(learner)
    source = Source(path="" if isinstance(real, Trace) else str(real), procs=procs, format=format, resource=resource)
    trace = _machine(real, procs, format, resource) if isinstance(real, Trace) else read_source(source)
    name = "" if isinstance(synth, Trace) else Path(synth).name.split(".")[0]
    name = name if name and name not in ARMS else f"synthetic {name}".strip()
    length = max(16, min(WINDOW, round(0.4 * len(trace)) // 20))
    with tempfile.TemporaryDirectory(prefix="tracekit-verdict-") as scratch:
        file = Path(scratch) / "synthetic.parquet"
        if isinstance(synth, Trace):
            synth.save(file)  # the experiment's processes read files
        plan = Plan(
            real=source,
            models=Models(
                names=(), baselines=(), traces={name: (str(file if isinstance(synth, Trace) else synth),)}, samples=1
            ),
            agents=Agents(learners, SEEDS, {name: SMALL[name] for name in learners if name in SMALL}),
            split=Split(train=0.5, validation=0.1, interleave=True),
            windows=Windows(count=WINDOWS, jobs=length),
            verdict=VerdictSettings(margin=margin),
            seed=seed,
        )
        place = Path(folder) if folder else Path(scratch) / "run"
        found = run(plan, place, trace, force=force, progress=progress, report=folder is not None)
        about = json.loads((place / "experiment.json").read_text(encoding="utf-8"))
        scored = about["files"]["scores"].get(name)
        scores = json.loads((place / scored).read_text(encoding="utf-8"))["synthetic"][0]["scores"] if scored else {}
    note = (
        "agents are tested on 40 % of the weeks of the real trace; "
        "the synthetic trace's model may have been fitted on them"
    )
    counted = {"unit": trace.machine.unit, "left_out": left_out(trace)}
    return found | {"scores": scores, "note": note, **counted}


def _machine(real: Trace, procs: int | None, format: str | None, resource: str | None) -> Trace:
    """Return a trace on a machine of ``procs``, as reading its file with them would give."""
    if format is not None:
        raise UsageError("format applies to files only; the real jobs are a Trace already")
    if procs is not None and procs < 1:
        raise UsageError(f"procs must be at least 1, not {procs}")
    real = real if resource is None else scheduled_in(real, checked(resource))
    return real if procs is None else real.replace(machine=real.machine.replace(**{real.machine.unit: procs}))
