"""The tour of `make demo`: every step is a command that also works on the user's own traces."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.files import write_text
from tracekit.folders import writing_folder

POLICIES = "fcfs,sjf,saf,wfp3,unicep,f1"
#: The plan of the experiment: three models, two uses of traces that take seconds each.
PLAN = "plan.toml"

#: Title and command of each step.
STEPS: tuple[tuple[str, list[str]], ...] = (
    ("A trace: the embedded sample, 10,000 jobs made by a script, not recorded", ["sample", "sample.swf"]),
    ("What is in it", ["info", "sample.swf"]),
    ("What is wrong with it", ["doctor", "sample.swf"]),
    ("What it looks like", ["plot", "sample.swf", "-o", "pictures"]),
    ("What six policies make of it", ["simulate", "sample.swf", "--policy", POLICIES]),
    (
        "Synthetic traces by three models: their scores, and whether they are as good to learn from as real jobs",
        ["experiment", "sample.swf", "--config", PLAN, "-o", "run"],
    ),
    ("The story in four pictures, with everything else below them", ["report", "run", "-o", "report.html"]),
)
#: What a second tour replaces; the folder run is resumed, since its finished tasks are still valid.
OUTPUTS = ("sample.swf", PLAN, "pictures", "report.html", "report.json")


def run(folder: Path, main: Callable[[list[str]], int], *, force: bool = False) -> Path:
    """Run all steps in ``folder`` and return the path of the report; ``main`` is the command line."""
    there = [name for name in (*OUTPUTS, "run") if (folder / name).exists()]
    if there and not force:
        raise TracekitError(f"{folder / there[0]}: exists already; use --force to replace it")
    with writing_folder(folder, ours=[*OUTPUTS, "pictures/*"], force=True) as made:
        write_text(made / PLAN, plan())  # in one step with the removal of an earlier tour's files
    with contextlib.chdir(folder):
        for number, (title, command) in enumerate(STEPS, 1):
            if there and command[0] not in ("info", "doctor", "simulate"):
                command = [*command, "--force"]
            sys.stderr.write(f"\n[{number}/{len(STEPS)}] {title}\n$ tracekit {' '.join(command)}\n")
            sys.stderr.flush()
            code = main(command)
            if code == 130:
                raise KeyboardInterrupt
            if code:
                raise TracekitError(f"step 'tracekit {' '.join(command)}' failed with exit code {code}")
    return folder / "report.html"


def outcome(page: Path) -> str:
    """Return what the tour's experiment found, in one sentence."""
    return str(json.loads((page.parent / "run" / "verdict.json").read_text(encoding="utf-8"))["headline"])


def plan() -> str:
    """Return the plan of the tour's experiment: experiments/sample.toml, which a wheel contains as package data."""
    packaged = files("tracekit") / "data" / "sample.toml"
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[1] / "experiments" / "sample.toml").read_text(encoding="utf-8")
