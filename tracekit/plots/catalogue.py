"""The pictures of a trace by name, and drawing all of them; what a trace cannot show is skipped with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.errors import UnknownName
from tracekit.plots.arriving import arrivals, hour_of_week_map
from tracekit.plots.jobs import cdfs, run_against_size
from tracekit.plots.outcomes import failures, waits
from tracekit.plots.people import behaviour, repeats, users
from tracekit.plots.recorded import load_and_slowdown, recorded_gantt, usage
from tracekit.plots.style import NothingToDraw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.trace import Trace

#: name -> (what it shows, function of a trace), in the order in which one would look at them.
PICTURES: dict[str, tuple[str, Callable[[Trace], Figure]]] = {
    "cdfs": ("distributions of run, limit, wait, size and inter-arrival", cdfs),
    "arrivals": ("submits by hour of day and day of week", arrivals),
    "hour-of-week": ("submits by hour of the week, as a heatmap", hour_of_week_map),
    "usage": ("share of the machine in use and jobs waiting, over time", usage),
    "gantt": ("Gantt chart of part of the trace", recorded_gantt),
    "run-against-size": ("run time against size, as a heatmap", run_against_size),
    "users": ("shares of the largest users", users),
    "repeats": ("how often users repeat the same kind of job", repeats),
    "behaviour": ("what is submitted when the queue is short and long", behaviour),
    "failures": ("how jobs ended, by size and length", failures),
    "waits": ("how long jobs waited, by size and length", waits),
    "load-slowdown": ("load that each job met against its slowdown, as a heatmap", load_and_slowdown),
}


@dataclass(frozen=True)
class Drawn:
    """One picture of a trace: the figure, or the reason why there is none."""

    name: str
    shows: str
    figure: Figure | None
    skipped: str = ""


def chosen(only: Iterable[str] | None) -> list[str]:
    """Return the names of pictures to draw (default: all), in the catalogue's order; an unknown one is an error."""
    wanted = set(PICTURES if only is None else only)
    for name in wanted:
        if name not in PICTURES:
            raise UnknownName("picture", name, PICTURES)
    return [name for name in PICTURES if name in wanted]


def draw(trace: Trace, only: Iterable[str] | None = None, *, window: tuple[int, int] | None = None) -> Iterator[Drawn]:
    """Draw pictures of a trace one after the other; ``window`` (first job, count) is the stretch that `gantt` shows."""
    for name in chosen(only):
        shows, make = PICTURES[name]
        try:
            if name == "gantt" and window:
                figure = recorded_gantt(trace, first=window[0], jobs=window[1])
            else:
                figure = make(trace)
        except NothingToDraw as reason:
            yield Drawn(name, shows, None, str(reason))
        else:
            yield Drawn(name, shows, figure)
