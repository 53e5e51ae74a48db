"""The real trace, read as a plan describes it and divided: jobs to learn from, a hold-out, jobs to judge on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evaluation.experiment.grid import Plan, Source
from evaluation.experiment.heldout import schedulable
from evaluation.experiment.interleave import interleaved
from tracekit.clusters import with_hosts
from tracekit.errors import TracekitError, UsageError
from tracekit.trace import Trace

MIN_JOBS = 50  # in every part


@dataclass(frozen=True)
class Parts:
    """The parts of the real trace, and what else agents are trained on."""

    train: Trace
    validation: Trace
    test: Trace
    scarce: Trace | None = None
    other: Trace | None = None

    def items(self) -> Iterator[tuple[str, Trace]]:
        """Return the parts that there are, by name."""
        for name in ("train", "validation", "test", "scarce", "other"):
            part = getattr(self, name)
            if part is not None:
                yield name, part


def read_source(source: Source) -> Trace:
    """Read a trace as a plan describes it."""
    import tracekit

    if not source.path:
        raise UsageError("no real trace: name it on the command line or as path in [real]")
    trace = tracekit.read(
        source.path, source.format, procs=source.procs, machine=source.machine, resource=source.resource
    )
    if source.clean:
        trace = trace.clean(source.clean)
    return trace.head(source.jobs) if source.jobs is not None and source.jobs < len(trace) else trace


def on_cluster(trace: Trace, plan: Plan) -> Trace:
    """Return a trace whose machine has the hosts of the plan's cluster, if it has one."""
    if not plan.windows.cluster:
        return trace
    made: Trace = trace.replace(machine=with_hosts(trace.machine, plan.windows.cluster))
    return made


def divide(real: Trace, plan: Plan) -> Parts:
    """Cut the real trace by time; nothing is shuffled, and no job is in two parts."""
    if not real.machine.size():
        raise TracekitError(
            f"the trace does not state how many {real.machine.unit} its machine has, which agents need: "
            "give procs in [real] or --procs N"
        )
    shares = plan.split
    if shares.interleave:
        left = 1 - shares.train - shares.validation
        train, validation, test = interleaved(real, (shares.train, shares.validation, left))
    else:
        train, rest = real.split(shares.train)
        validation, test = rest.split(shares.validation / (1 - shares.train))
    scarce = train.split(1 - plan.scarce.share)[1] if plan.scarce.share else None
    other = on_cluster(read_source(plan.other), plan) if plan.other.path else None
    parts = Parts(train, validation, test, scarce, other)
    for name, part in parts.items():
        usable = len(schedulable(part, plan.hosts.get("allocate")))
        if usable < MIN_JOBS:
            raise TracekitError(
                f"the {name} part has {usable} jobs that can be scheduled; at least {MIN_JOBS} "
                "are needed: use a longer trace or other shares"
            )
    return parts
