"""The short form of the experiment, for one synthetic trace that was made anywhere: minutes on two cores."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from evaluation.experiment.build import ARMS
from evaluation.experiment.grid import Agents, Judging, Models, Plan, Source, Windows
from evaluation.experiment.runner import Progress
from evaluation.experiment.study import read_source, run

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
#: Enough to tell a bad trace from a good one, not to find the best agent; the same for real and synthetic.
SMALL: dict[str, dict[str, Any]] = {"ppo": {"steps": 50_000}, "pick-heuristic": {}}
WINDOW, WINDOWS = 128, 40


def verdict(
    real: str,
    synth: str,
    *,
    learner: str = "ppo",
    margin: float = 0.1,
    folder: str | None = None,
    procs: int | None = None,
    format: str | None = None,
    seed: int = 0,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return verdict.json for one synthetic trace, with its scores by key under ``scores``.

    The real trace is divided as in the experiment, so agents are judged on its last fifth. Whoever made the synthetic
    trace may have seen that fifth; nobody can tell from the file, so the note says it.
    """
    source = Source(path=real, procs=procs, format=format)
    name = Path(synth).name.split(".")[0]
    name = name if name and name not in ARMS else f"synthetic {name}".strip()
    trace = read_source(source)
    length = max(16, min(WINDOW, round(0.2 * len(trace)) // 10))
    plan = Plan(
        real=source,
        models=Models(names=(), baselines=(), traces={name: (synth,)}, samples=1),
        agents=Agents(learner=learner, seeds=3, config=SMALL.get(learner, {})),
        windows=Windows(count=WINDOWS, jobs=length),
        verdict=Judging(margin=margin),
        seed=seed,
    )
    with tempfile.TemporaryDirectory(prefix="tracekit-verdict-") as scratch:
        place = Path(folder) if folder else Path(scratch) / "run"
        found = run(plan, place, trace, force=force, progress=progress, report=folder is not None)
        about = json.loads((place / "experiment.json").read_text(encoding="utf-8"))
        scored = about["files"]["scores"].get(name)
        scores = json.loads((place / scored).read_text(encoding="utf-8"))["synthetic"][0]["scores"] if scored else {}
    note = "agents are judged on the last fifth of the real jobs; whoever made the synthetic trace may have seen them"
    return found | {"scores": scores, "note": note}
