"""The sentence that marks a trace as synthetic, so that it is not mistaken for a recorded one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tracekit.trace import Trace

MARK = "MADE by tracekit, not recorded"
_MADE = re.compile(r"MADE by (?:tracekit, not recorded(?:: model (?P<model>[\w-]+))?|a seeded script of tracekit)")


def synthetic_mark(trace: Trace) -> str:
    """Return the sentence that marks a trace as synthetic, with the model's name at most; empty for a real trace."""
    machine = trace.machine
    return mark_in((*trace.history, *machine.notes, machine.source, *(machine.header or ())))


def mark_in(texts: Iterable[str]) -> str:
    """Return the sentence that marks a trace as synthetic if one of the texts has it, else nothing.

    >>> mark_in(["cut", "MADE by tracekit, not recorded: model sessions (skeleton modelled) fitted to 9 jobs"])
    'MADE by tracekit, not recorded: model sessions'
    """
    found = [match for match in map(_MADE.search, texts) if match]
    if not found:
        return ""
    model = next((match["model"] for match in found if match["model"]), None)
    return MARK + (f": model {model}" if model else "")
