"""Submit the jobs of a plan at their times, as jobs that sleep; a replay that was killed goes on where it stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tracekit.slurm.outcome import known_names
from tracekit.slurm.plan import Plan, Planned
from tracekit.slurm.tools import Slurm, SlurmError, first_line

JOURNAL = "jobs.jsonl"
#: Seconds between two looks at the queue, and between two reports.
_BEAT_S, _REPORT_S = 0.5, 10.0
#: How often a submission is tried, and the pause after a failure.
_TRIES, _PAUSE_S = 5, 2.0


class Steering(Protocol):
    """Something that looks at the queue once in a while, such as `tracekit.slurm.drive.Driver`."""

    def turn(self) -> None:
        """Look at the queue if it is time to."""


@dataclass
class Replay:
    """A replay in a folder, on some Slurm."""

    folder: Path
    plan: Plan
    slurm: Slurm
    say: Callable[[str], None]
    steering: Steering | None = None
    extra: tuple[str, ...] = ()  # more words for sbatch, such as a partition

    def run(self) -> None:
        """Submit all jobs, and wait until all have ended."""
        sent = self.submitted()
        left = [job for job in self.plan.jobs if job.position not in sent]
        if sent:
            self.say(f"going on: {len(sent)} of {len(self.plan.jobs)} jobs were submitted before")
        begin = time.time() - (left[0].submit if left else 0.0)
        report = time.monotonic() + _REPORT_S
        with (self.folder / JOURNAL).open("a", encoding="utf-8") as journal:
            while left or self.waiting_or_running():
                while left and begin + left[0].submit <= time.time():
                    job = left.pop(0)
                    sent[job.position] = number = self.submit(job, sent)
                    journal.write(json.dumps({"position": job.position, "id": number, "time": time.time()}) + "\n")
                    journal.flush()
                if self.steering is not None:
                    self.steering.turn()
                if time.monotonic() >= report:
                    report += _REPORT_S
                    self.say(f"{len(sent)} of {len(self.plan.jobs)} jobs submitted, {self.counts()}")
                until = begin + left[0].submit - time.time() if left else _BEAT_S
                time.sleep(min(max(until, 0.0), _BEAT_S))

    def submit(self, job: Planned, sent: dict[int, int]) -> int:
        """Submit one job and return its number in Slurm."""
        words = [
            "sbatch",
            "--parsable",
            f"--job-name={job.name(self.plan.tag)}",
            f"--ntasks={job.procs}",
            f"--time={job.limit}",
            "--output=/dev/null",
            "--export=NONE",
            "--no-requeue",
            f"--chdir={self.folder}",
            *([f"--comment=user={job.user}"] if job.user is not None else []),
            *([f"--dependency=afterany:{sent[job.after]}"] if job.after in sent else []),
            *self.extra,
        ]
        for attempt in range(1, _TRIES + 1):
            done = self.slurm.attempt(*words, stdin=f"#!/bin/sh\nexec sleep {job.run:.3f}\n")
            if done.returncode == 0:
                return int(done.stdout.strip().partition(";")[0])
            known = self.in_queue().get(job.name(self.plan.tag))  # the answer was lost, the job was not
            if known is not None:
                return known
            if attempt < _TRIES:
                time.sleep(_PAUSE_S)
        raise SlurmError(f"job {job.job_id} was refused: {first_line(done.stderr)}")

    def submitted(self) -> dict[int, int]:
        """Return the jobs that Slurm has got, position to number: by our journal, the queue and the completion log."""
        found: dict[int, int] = {}
        place = self.folder / JOURNAL
        for line in place.read_text(encoding="utf-8").splitlines() if place.is_file() else ():
            try:
                entry = json.loads(line)
                found[int(entry["position"])] = int(entry["id"])
            except (ValueError, KeyError, TypeError):
                continue  # the last line may be cut short
        names = self.in_queue() | known_names(self.folder, self.plan, self.slurm)
        return found | {int(name.rpartition("-")[2]): number for name, number in names.items()}

    def in_queue(self) -> dict[str, int]:
        """Return the jobs of this replay that Slurm still remembers, name to number."""
        text = self.slurm.call("squeue", "--all", "--noheader", "--states=all", "--format=%i %j")
        pairs = (line.split(None, 1) for line in text.splitlines() if line.strip())
        return {name.strip(): int(number) for number, name in pairs if name.startswith(self.plan.tag + "-")}

    def states(self) -> list[str]:
        """Return the states of the jobs of this replay that have not ended."""
        text = self.slurm.call("squeue", "--all", "--noheader", "--format=%T %j")
        pairs = (line.split(None, 1) for line in text.splitlines() if line.strip())
        return [state for state, name in pairs if name.startswith(self.plan.tag + "-")]

    def waiting_or_running(self) -> bool:
        """Return whether a job of this replay has not ended."""
        return bool(self.states())

    def counts(self) -> str:
        """Return what the jobs in the queue do, in words."""
        states = self.states()
        return f"{states.count('RUNNING')} run, {states.count('PENDING')} wait"
