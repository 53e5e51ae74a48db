"""Many simulations of one trace: every policy under every backfilling, on the same windows; what the files are called.

`tracekit.sim.analysis.comparison` makes one table of the results.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tracekit.errors import OutputError, TracekitError, UsageError
from tracekit.files import write_text, writing
from tracekit.sim.jobs import Table, extract_jobs
from tracekit.sim.policies.builtin import find, name_of
from tracekit.sim.policies.protocol import Policy
from tracekit.sim.runs import Run, mean_summary, run_all
from tracekit.sim.simulate import SimResult
from tracekit.sim.switches import Switches, backfill_for
from tracekit.sim.windows import Window, random_windows
from tracekit.trace import Trace

if TYPE_CHECKING:
    from tracekit.sim.engine.machines import MachineModel

Pair = tuple[str | Policy, str]  # policy and backfilling

#: Jobs of a random window by default.
WINDOW_JOBS = 1024
#: Files in a result's folder; the command line adds the figures.
OUTPUTS = ("schedule.csv", "switches.json", "gantt.png", "utilization.png")
HOST_OUTPUTS = ("hosts-heatmap.png", "fragmentation.png", "hosts-gantt.png")
ENERGY_OUTPUTS = ("power.png", "load-duration.png")


def pairs_of(
    policies: str | Policy | Sequence[str | Policy], backfills: str | Sequence[str], switches: Switches
) -> list[Pair]:
    """Return every policy with every backfilling, in the order given; `replay`, which decides nothing, has none.

    Unknown names are errors here, before any trace is read.
    """
    given = [policies] if isinstance(policies, (str, Policy)) else list(policies)
    asked = [p for number, p in enumerate(given) if not (isinstance(p, str) and p in given[:number])]
    rules = [backfills] if isinstance(backfills, str) else list(backfills)
    if not asked or not rules:
        raise UsageError("nothing to simulate: name at least one policy and one backfilling")
    for policy in asked:
        find(policy)
    names = [name_of(policy) for policy in asked]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two policies are called '{name}': give them different names")
    rules = list(dict.fromkeys(backfill_for(rule, switches) for rule in rules))
    return [(p, b) for p, name in zip(asked, names, strict=True) for b in (["none"] if name == "replay" else rules)]


def windows_of(windows: int | Sequence[Window], jobs: int | None, count: int, seed: int) -> list[Window]:
    """Return the windows given, or that number of random windows of ``jobs`` out of ``count`` jobs."""
    if isinstance(windows, (int, np.integer)):
        return random_windows(count, int(windows), WINDOW_JOBS if jobs is None else jobs, seed)
    if jobs is not None:
        raise UsageError("jobs is the length of random windows: give a number of windows, or leave it out")
    return [(int(start), int(length)) for start, length in windows]


@dataclass(frozen=True, eq=False)
class Grid:
    """Simulations to make. The results are in the order of ``pairs``, and within a pair in that of ``windows``."""

    jobs: Table
    pairs: Sequence[Pair]
    windows: Sequence[Window]  # none: the whole trace, once
    switches: Switches
    name: str = "the trace"  # for messages
    suffix: str = ""  # of the names of folders
    names: tuple[tuple[str, str], ...] = field(init=False)  # of the pairs

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple((name_of(policy), backfill) for policy, backfill in self.pairs))

    @classmethod
    def of(
        cls,
        trace: Trace,
        pairs: Sequence[Pair],
        switches: Switches,
        windows: int | Sequence[Window] = (),
        jobs: int | None = None,
        *,
        name: str = "the trace",
        suffix: str = "",
        lean: bool = False,
    ) -> Grid:
        """Read a trace's jobs as the switches want them, and choose windows of them as `windows_of` does."""
        table = extract_jobs(trace, switches.resolved(), lean=lean)
        return cls(table, pairs, windows_of(windows, jobs, len(table), switches.seed), switches, name, suffix)

    def folders(self) -> list[str]:
        """Return the name of each result's folder: ``sjf__easy``, with ``__w<START>`` for a window.

        A scheduler that is asked over HTTP has its address without ``http://``, and ``_`` for ``/``.
        """
        ends = [f"__w{start}" for start, _ in self.windows] or [""]
        return [f"{_plain(policy)}__{backfill}{self.suffix}{end}" for policy, backfill in self.names for end in ends]

    def run(self, *, machine: MachineModel | None = None, threads: int | None = None) -> list[SimResult]:
        """Make every simulation; an error if no job of any of them can be simulated."""
        tables = [self.jobs.window(*part) for part in self.windows] or [self.jobs]
        runs = [Run(jobs, p, b, self.switches, machine) for p, b in self.pairs for jobs in tables]
        results = run_all(runs, threads=threads)
        if not any(len(result) for result in results):
            reasons = ", ".join(results[0].rejected) or "it has none"
            raise TracekitError(
                f"{self.name}: no job can be simulated ({reasons}); run 'tracekit validate {self.name}' for details"
            )
        return results

    def rows(self, results: Sequence[SimResult]) -> list[dict[str, Any]]:
        """Return one row for each pair: a result's summary, or means over the windows with theirs under ``windows``."""
        if not self.windows:
            return [result.summary() for result in results]
        found = []
        for at in range(0, len(results), len(self.windows)):
            group = results[at : at + len(self.windows)]
            each = [{"start": w[0], **result.summary()} for w, result in zip(self.windows, group, strict=True)]
            found.append({**mean_summary(group), "windows": each})
        return found

    def check_folders(self, out: Path) -> None:
        """Refuse to replace existing schedules."""
        for folder in self.folders():
            if (out / folder / "schedule.csv").exists():
                raise OutputError(f"{out / folder / 'schedule.csv'}: exists already; use --force to replace it")

    def outputs(self) -> list[str]:
        """Return patterns of the files that a run with these results may leave, relative to its folder."""
        names = (*OUTPUTS, *HOST_OUTPUTS, *ENERGY_OUTPUTS)
        return [f"{glob.escape(folder)}/{name}" for folder in self.folders() for name in names]

    def write(self, out: Path, results: Sequence[SimResult]) -> dict[Path, SimResult]:
        """Write schedule.csv and switches.json into each result's folder; return the folders."""
        written = {}
        for number, (folder, result) in enumerate(zip(self.folders(), results, strict=True)):
            place = out / folder
            try:
                place.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(f"{place}: cannot be created: {error.strerror}") from None
            with writing(place / "schedule.csv", force=True) as target:
                result.schedule().to_csv(target, index=False, lineterminator="\n")
            window = self.windows[number % len(self.windows)] if self.windows else None
            write_text(place / "switches.json", result.made_by(window), force=True)
            written[place] = result
        return written

    def training_notes(self) -> list[str]:
        """Return notes on agents that are simulated on jobs that they were trained on."""
        found = []
        for policy in {name_of(policy): policy for policy, _ in self.pairs}.values():
            agent = getattr(find(policy), "agent", None)
            if agent is not None:
                found += [f"{name_of(policy)}: {note}" for note in self._trained(agent)]
        return found

    def _trained(self, agent: Any) -> tuple[str, ...]:
        from tracekit.sim.agents import Agent
        from tracekit.sim.agents.evaluate import agent_task, training_notes

        trace = self.jobs.trace
        if not isinstance(agent, Agent) or trace is None:
            return ()
        try:
            jobs = extract_jobs(trace, agent_task(agent).switches.resolved())
        except TracekitError:  # it was trained on another kind of machine
            return ()
        edges = [(self.jobs.position[start], self.jobs.position[start + n - 1] + 1) for start, n in self.windows]
        places = [np.searchsorted(jobs.position, edge) for edge in edges]  # rows of its table, not of ours
        return training_notes(agent, jobs, [(int(a), int(b - a)) for a, b in places] or None)


def _plain(policy: str) -> str:
    """Return a policy's name for a folder."""
    return policy.removeprefix("http://").replace("/", "_") if policy.startswith("http://") else policy
