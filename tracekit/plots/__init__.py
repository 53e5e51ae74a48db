"""Pictures of a trace, a schedule or a comparison. Every function returns a matplotlib Figure; `save` writes it.

`draw` makes all pictures of a trace that it can, by the names in `PICTURES`.
"""

from __future__ import annotations

from tracekit.lanes import lanes
from tracekit.plots.arriving import arrivals, hour_of_week_map
from tracekit.plots.catalogue import PICTURES, Drawn, draw
from tracekit.plots.comparison import differences, slowdowns
from tracekit.plots.jobs import cdfs, run_against_size
from tracekit.plots.outcomes import failures, waits
from tracekit.plots.people import behaviour, repeats, users
from tracekit.plots.recorded import load_and_slowdown, recorded_gantt, usage
from tracekit.plots.schedule import gantt, utilization
from tracekit.plots.style import NothingToDraw, save
from tracekit.stats import binned

__all__ = [
    "PICTURES",
    "Drawn",
    "NothingToDraw",
    "arrivals",
    "behaviour",
    "binned",
    "cdfs",
    "differences",
    "draw",
    "failures",
    "gantt",
    "hour_of_week_map",
    "lanes",
    "load_and_slowdown",
    "recorded_gantt",
    "repeats",
    "run_against_size",
    "save",
    "slowdowns",
    "usage",
    "users",
    "utilization",
    "waits",
]
