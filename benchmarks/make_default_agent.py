"""Makes the agent that comes with tracekit, in tracekit/data/agents/default, by one command and a seed.

    python benchmarks/make_default_agent.py [--out FOLDER] [--steps N]

It learns from the embedded sample and from jobs of Lublin's model fitted to it, at three loads, with EASY backfilling
and requested times: a general agent to try things out with, not the best one for any trace. What it sees is relative
to the machine's size, so it can be used on machines of any size.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import tracekit
from generators import synth as library
from tracekit.sim.agents import Agent, Config, Split, train
from tracekit.sim.agents.agent import CHECKPOINT, PACKAGED
from tracekit.sim.agents.evaluate import best_of
from tracekit.sim.agents.splits import windows_from
from tracekit.sim.tasks.episodes import EpisodeSource
from tracekit.sim.tasks.pick_job.task import PickJob
from tracekit.sim.windows import Span
from tracekit.trace import Trace

LOADS = (0.7, 0.9, 1.1)
MADE_JOBS = 12_000
SETTINGS = Config(
    steps=120_000,
    windows=48,
    jobs=384,
    keep=0.25,
    epochs=3,
    minibatch=512,
    learning_rate=2e-3,
    target_kl=0.02,
    soften=3.0,
    entropy=0.0,
    critic_first=2,
    average=0.5,
    validation_windows=32,
    validate_every=2,
    teacher_windows=64,
    teacher_epochs=16,
)


def lessons() -> tuple[Trace, Split]:
    """Return the sample followed by synthetic jobs, and which of them are for training and validation."""
    sample = tracekit.sample()
    count = len(sample)
    fitted = library.fit(sample, "lublin", seed=0)
    frames, end = [sample.jobs], float(sample.column("submit_time").max())
    learn: list[Span] = [(0, count * 4 // 5)]
    check: list[Span] = [(count * 4 // 5, count)]
    for number, load in enumerate(LOADS):
        made = library.make(fitted, MADE_JOBS, seed=number, load=str(load)).jobs
        begin = end + 86_400.0 - float(made["submit_time"].min())
        made = made.assign(submit_time=made["submit_time"] + begin, job_id=np.arange(count + 1, count + 1 + MADE_JOBS))
        end = float(made["submit_time"].max())
        frames.append(made)
        learn.append((count, count + MADE_JOBS * 4 // 5))
        check.append((count + MADE_JOBS * 4 // 5, count + MADE_JOBS))
        count += MADE_JOBS
    columns = ["job_id", "submit_time", "run_time", "req_time", "req_procs", "alloc_procs"]
    jobs = pd.concat([frame.reindex(columns=columns) for frame in frames], ignore_index=True)
    return Trace(jobs, sample.machine), Split(tuple(learn), tuple(check))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=PACKAGED / "default")
    parser.add_argument("--steps", type=int)
    chosen = parser.parse_args()
    trace, parts = lessons()
    source = EpisodeSource(trace, PickJob())
    teacher = best_of(source, windows_from(source, parts.train, 64, SETTINGS.jobs, [1]))
    print(f"begins with {teacher}, the best heuristic on windows to learn from", file=sys.stderr)
    agent: Agent = train(
        trace,
        PickJob(visible=teacher),
        SETTINGS.replace(steps=chosen.steps),
        out=chosen.out,
        seed=1,
        init=f"imitate:{teacher}",
        parts=parts,
        force=True,
        source={"file": "the embedded sample and jobs of Lublin's model fitted to it"},
        report=lambda status: print(status, file=sys.stderr, flush=True),
    )
    (chosen.out / CHECKPOINT).unlink()
    print(agent.facts["metrics"])


if __name__ == "__main__":
    main()
