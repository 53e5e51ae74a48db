"""Traces that are made to be given away: which options are safe, and what of the real file's texts and dates goes.

`for_sharing` chooses the options of the fit and refuses those that reuse a user's calendar; `published` takes the
machine's name, the notes and the real dates out of the result. Only model sessions can do it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from generators.sessions.model import LEAST_SHARED, SHARED_BY
from tracekit.errors import UsageError
from tracekit.machine import Machine
from tracekit.trace import Trace

WEEK = 7 * 86_400
#: Dates move back by so many weeks, at random; hours of the week stay. Nearly whole years, so that seasons stay, too.
YEARS, WEEKS_A_YEAR = 8, 52
#: Name of the machine in a trace for sharing.
NAMELESS = "synthetic machine"
#: Marks of the model in the history, which `tracekit.provenance.synthetic_mark` finds.
MARK = "MADE by tracekit, not recorded: model sessions"


def for_sharing(model: str, options: Mapping[str, Any], only: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the options of a fit for sharing; a combination that could repeat a user is an error."""
    if model != "sessions":
        raise UsageError(f"--for-sharing is only supported by model sessions, not by {model}")
    skeleton = options.get("skeleton") or "modelled"
    if skeleton != "modelled":
        raise UsageError(f"--for-sharing reuses no user's calendar, but --skeleton {skeleton} does; use modelled")
    k = SHARED_BY if options.get("privacy") is None else options["privacy"]
    if isinstance(k, bool) or k < LEAST_SHARED:
        raise UsageError(f"--for-sharing needs --privacy {LEAST_SHARED} or more (default {SHARED_BY}), not {k}")
    people = [name for name in only or {} if name in ("user", "group", "project", "app")]
    if people:
        raise UsageError(f"--for-sharing does not make jobs of one {people[0]} only; remove --only {people[0]}=…")
    return {**options, "skeleton": skeleton, "privacy": k, "sharing": True}


def published(trace: Trace, seed: int, *, dated: bool = False) -> Trace:
    """Return the trace without the real machine's name and texts, with its dates moved back by some years.

    ``dated``: the first date was asked for, so dates stay.
    """
    machine = trace.machine
    note = f"{MARK} for sharing"  # no seed: the move of the dates follows from it
    epoch = machine.epoch
    if epoch is not None and not dated:
        epoch -= float(WEEK * WEEKS_A_YEAR * np.random.default_rng([seed, 0x5A12]).integers(1, YEARS + 1))
    bare = Machine(
        name=NAMELESS,
        procs=machine.procs,
        nodes=machine.nodes,
        gpus=machine.gpus,
        unit=machine.unit,
        epoch=epoch,
        timezone=machine.timezone,
        queues=machine.queues,
        partitions=machine.partitions,
        groups=machine.groups,
        source=note,
        notes=(note,),
    )
    return Trace(trace.jobs.assign(**_relabelled(trace)), bare, (note,))


def _relabelled(trace: Trace) -> dict[str, Any]:
    """Return the labels of people's work under new names, in the order of appearance; users have new ones already."""
    made: dict[str, Any] = {}
    for name in ("group", "project", "app"):
        if name in trace.jobs.columns and trace.has(name):
            codes, known = pd.factorize(trace.jobs[name])
            names = pd.Index([f"{name[0]}{number}" for number in range(1, len(known) + 1)], dtype=object)
            made[name] = pd.Categorical.from_codes(codes, categories=names)
    return made
