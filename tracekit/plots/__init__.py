"""Pictures of a trace or a schedule. Every function returns a matplotlib Figure; `save` writes it."""

from __future__ import annotations

from tracekit.plots.jobs import arrivals, cdfs
from tracekit.plots.schedule import binned, gantt, lanes, utilization
from tracekit.plots.style import save

__all__ = ["arrivals", "binned", "cdfs", "gantt", "lanes", "save", "utilization"]
