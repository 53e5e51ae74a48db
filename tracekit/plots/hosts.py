"""Pictures of a schedule on the hosts of a cluster: how full each host was, fragmentation, a Gantt chart by host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracekit.lanes import lanes
from tracekit.plots.style import (
    BLUE,
    GREEN,
    HEAT,
    ORANGE,
    PALETTE,
    Floats,
    NothingToDraw,
    headline,
    light_grid,
    new_figure,
    time_unit,
)
from tracekit.sim.hosts.demand import CORES, GPUS, MILLI, MILLI_GPU, PIECES, UNLIMITED
from tracekit.sim.hosts.placements import Placements

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.sim.simulate import SimResult

Ints = NDArray[np.int64]
#: Rows and columns of the heatmap, moments of the curves, hosts and jobs of the Gantt chart: more cannot be seen.
MOST_ROWS, COLUMNS, MOMENTS, MOST_HOSTS, MOST_JOBS = 240, 300, 240, 32, 1000
#: Hosts × jobs that are looked at; a picture of more would take minutes.
MOST_ENTRIES = 5_000_000
#: Parts of a GPU that the Gantt chart can show.
_SLICES = 20


@dataclass(frozen=True, eq=False)
class Use:
    """What jobs hold of hosts, one entry for each job and host."""

    placements: Placements
    job: Ints
    host: Ints
    cores: Floats  # in the units of the demands
    gpus: Floats  # in thousandths
    bits: Ints  # the GPUs, one bit each

    @property
    def by_gpus(self) -> NDArray[np.bool_]:
        """Which hosts are shown by their GPUs, the others by their cores."""
        return self.placements.fixed[:, 2] > 0

    @property
    def size(self) -> Floats:
        """GPU-thousandths, or cores on hosts without GPUs, of each host."""
        total = np.where(self.by_gpus, self.placements.fixed[:, 2] * MILLI_GPU, self.placements.total[:, 0])
        return total.astype(np.float64)

    @property
    def held(self) -> Floats:
        """The same of each entry."""
        return np.where(self.by_gpus[self.host], self.gpus, self.cores)


def use_of(result: SimResult) -> Use:
    """Return what the jobs of a result hold of hosts; `NothingToDraw` where it has none."""
    placed = result.hosts
    if not isinstance(placed, Placements) or not len(result):
        raise NothingToDraw("the schedule has no jobs on hosts")
    return held_by(placed, len(result))


def held_by(placed: Placements, count: int) -> Use:
    """Return what the first ``count`` jobs hold of hosts."""
    span, log, need = placed.span[:count], placed.log, placed.need[:count]
    job = np.repeat(np.arange(count), span[:, 1])
    entry = np.repeat(span[:, 0] - np.cumsum(span[:, 1]) + span[:, 1], span[:, 1]) + np.arange(len(job))
    width = log[entry, 1] - log[entry, 0] + 1
    if int(width.sum()) > MOST_ENTRIES:
        raise NothingToDraw(f"more than {MOST_ENTRIES:,} pairs of job and host")
    job, wide = np.repeat(job, width), np.repeat(entry, width)
    first = np.repeat(np.cumsum(width) - width, width)
    host = log[wide, 0] + np.arange(len(wide)) - first
    pieces, asked = log[wide, 2], need[job]
    each = np.where(asked[:, GPUS] > 0, asked[:, GPUS] * MILLI_GPU, asked[:, MILLI])
    cores = pieces * asked[:, CORES] // asked[:, PIECES]
    return Use(placed, job, host, cores.astype(np.float64), (pieces * each).astype(np.float64), log[wide, 3])


def shares_over_time(use: Use, result: SimResult, edges: Floats) -> Floats:
    """Return how much of each host is in use in each stretch of time, (hosts, stretches) from 0 to 1."""
    start, end = result.start[use.job], result.end[use.job]
    width, hosts, bins = edges[1] - edges[0], len(use.size), len(edges) - 1
    partial, later = np.zeros((hosts, bins + 1)), np.zeros((hosts, bins + 2))
    for times, amount in ((start, use.held), (end, -use.held)):
        column = np.clip(((times - edges[0]) / width).astype(np.int64), 0, bins)
        inside = np.clip((edges[0] + (column + 1) * width - times) / width, 0.0, 1.0)
        np.add.at(partial, (use.host, column), amount * inside)
        np.add.at(later, (use.host, column + 1), amount)
    level = partial[:, :bins] + np.cumsum(later, axis=1)[:, :bins]
    return np.clip(level / np.maximum(use.size, 1)[:, None], 0.0, 1.0)


def host_heatmap(result: SimResult) -> Figure:
    """Draw how full each host was over time: its GPUs, or its cores where it has no GPUs."""
    use, (origin, last) = use_of(result), _ends(result)
    if (use.size >= UNLIMITED).any():
        raise NothingToDraw("the cores of hosts without GPUs are not limited")
    unit, name = time_unit(last - origin)
    edges = np.linspace(origin, last, COLUMNS + 1)
    share = shares_over_time(use, result, edges)
    shown, mean = np.unique(use.host), 100 * share.mean()
    if len(shown) > len(share) / 4:  # else hosts that were never used are left out
        shown = np.arange(len(share))
    share, hosts = share[shown], len(shown)
    step = -(-hosts // MOST_ROWS)
    rows = (
        np.add.reduceat(share, np.arange(0, hosts, step))
        / np.diff(np.append(np.arange(0, hosts, step), hosts))[:, None]
    )
    figure, (axis,) = new_figure(1, float(np.clip(1.9 + 0.16 * len(rows), 3.2, 7.5)))
    drawn = axis.pcolormesh(
        (edges - origin) / unit,
        np.append(np.arange(0, hosts, step), hosts),
        rows * 100,
        cmap=HEAT,
        vmin=0,
        vmax=100,
        rasterized=True,
    )
    what = "GPUs" if use.by_gpus.all() else "GPUs (cores on hosts without GPUs)" if use.by_gpus.any() else "cores"
    figure.colorbar(drawn, ax=axis, label="in use [%]", pad=0.01)
    _host_ticks(axis, use, shown)
    axis.set(xlabel=f"{name} since the first submit", ylim=(hosts, 0))
    remark = f"{what} of {hosts:,} hosts" + (f", {step} to a row" if step > 1 else "")
    remark += f", {len(use.size) - hosts:,} never used" * (hosts < len(use.size))
    headline(figure, f"Hosts are {mean:.2g} % in use on average", len(result), f"{remark}; {_how(result)}")
    return figure


def _how(result: SimResult) -> str:
    return f"{result.policy}, backfilling {result.backfill}, {result.notes.get('allocate', '')}"


def _ends(result: SimResult) -> tuple[float, float]:
    origin, last = float(result.submit.min()), float(result.end.max())
    if last <= origin:
        raise NothingToDraw("no job takes any time")
    return origin, last


def _host_ticks(axis: Any, use: Use, shown: Ints, most: int = 40) -> None:
    """Label every host that is shown where there are few, else the groups of hosts."""
    groups = use.placements.demand.cluster.groups
    if len(shown) <= most:
        axis.set_yticks(np.arange(len(shown)) + 0.5, [use.placements.names[h] for h in shown], fontsize=8)
        return
    ends = np.searchsorted(shown, np.cumsum([group.count for group in groups]))
    first = np.append(0, ends[:-1])
    large = ends - first >= max(len(shown) / most, 1)
    names = [group.name for group, wanted in zip(groups, large, strict=True) if wanted]
    axis.set_yticks(((first + ends) / 2)[large], names)
    axis.tick_params(axis="y", labelsize=8, length=0)
    for edge in np.unique(first[first > 0]):
        axis.axhline(edge, color="white", linewidth=0.4)


# ---- fragmentation ---------------------------------------------------------------------------------------------------


def fragmentation_at(result: SimResult, moments: Floats) -> dict[str, Floats]:
    """Return the measures of fragmentation of a schedule (`tracekit.sim.hosts.metrics`) at each moment."""
    from tracekit.sim.hosts.metrics import fragmentation_over_time

    assert isinstance(result.hosts, Placements)
    times, found = fragmentation_over_time(result.hosts, result.start, result.run)
    last = np.searchsorted(times, moments, side="right") - 1
    return {name: np.where(last >= 0, values[last], 0.0) for name, values in found.items()}


def fragmentation_curve(result: SimResult) -> Figure:
    """Draw the three definitions of fragmentation over time: partial nodes, waste, F of FGD."""
    use, (origin, last) = use_of(result), _ends(result)
    if (use.size >= UNLIMITED).any():
        raise NothingToDraw("the cores of hosts without GPUs are not limited")
    unit, name = time_unit(last - origin)
    width = (last - origin) / MOMENTS
    moments: Floats = (origin + (np.arange(MOMENTS) + 0.5) * width).astype(np.float64)
    found = fragmentation_at(result, moments)
    what = "GPUs" if use.by_gpus.any() else "cores"
    panels = [
        ("hosts", 1.0, "partly used\nhosts", BLUE),
        ("waste", 100.0, f"{what} used on\nsuch hosts [%]", ORANGE),
    ]
    if not np.isnan(found["f"]).any():
        panels.append(("f", 100.0, "F of FGD\n[% of GPUs]", GREEN))
    figure, axes = new_figure(len(panels), 1.0 + 1.6 * len(panels), sharex=True)
    edges = (np.append(moments - width / 2, last) - origin) / unit
    for axis, (key, scale, label, colour) in zip(axes, panels, strict=True):
        axis.stairs(found[key] * scale, edges, fill=True, color=colour, alpha=0.85)
        axis.set(ylabel=label, ylim=(0, max(float(found[key].max()) * scale * 1.08, 1.0)), xlim=(edges[0], edges[-1]))
        light_grid(axis)
    axes[-1].set_xlabel(f"{name} since the first submit")
    mean = float(found["hosts"].mean())
    hosts, kind = int(use.by_gpus.sum()) or len(use.size), "hosts with GPUs" if use.by_gpus.any() else "hosts"
    headline(figure, f"{mean:.3g} of {hosts:,} {kind} are partly used on average", len(result), _how(result))
    return figure


# ---- Gantt chart -----------------------------------------------------------------------------------------------------


def host_gantt(result: SimResult, *, jobs: int = MOST_JOBS) -> Figure:
    """Draw which job ran on which host and GPU (or cores); the first hosts that were used, and the first jobs."""
    from matplotlib.collections import PolyCollection

    use, (origin, _) = use_of(result), _ends(result)
    kept = use.job < jobs
    shown = np.unique(use.host[kept])[:MOST_HOSTS]
    kept &= np.isin(use.host, shown)
    last = float(result.end[use.job[kept]].max())
    unit, name = time_unit(last - origin)
    figure, (axis,) = new_figure(1, float(np.clip(1.9 + 0.42 * len(shown), 3.2, 9.0)))
    boxes: list[Any] = []
    colours: list[str] = []
    for row, host in enumerate(shown.tolist()):
        for low, high, job in host_boxes(use, result.start, result.end, np.flatnonzero(kept & (use.host == host))):
            left, right = (result.start[job] - origin) / unit, (result.end[job] - origin) / unit
            bottom, top = row + 0.06 + 0.88 * low, row + 0.06 + 0.88 * high
            boxes.append([(left, bottom), (right, bottom), (right, top), (left, top)])
            colours.append(PALETTE[job % len(PALETTE)])
            if (right - left) * unit > 0.035 * (last - origin) and (high - low) * 0.42 > 0.1 and len(shown) <= 20:
                ink = "#222222" if colours[-1] in PALETTE[4:] else "white"
                middle = (left + right) / 2, (bottom + top) / 2
                axis.text(*middle, str(result.job_id[job]), ha="center", va="center", fontsize=7, color=ink)
    axis.add_collection(PolyCollection(boxes, facecolors=colours, edgecolors="white", linewidths=0.4))
    for row in range(1, len(shown)):
        axis.axhline(row, color="#cccccc", linewidth=0.5, zorder=0)
    axis.set_yticks(np.arange(len(shown)) + 0.5, [use.placements.names[h] for h in shown], fontsize=8)
    axis.tick_params(axis="y", length=0)
    axis.set(xlim=(0, (last - origin) / unit), ylim=(len(shown), 0), xlabel=f"{name} since the first submit")
    remark = f"the first {jobs:,} jobs; " if len(result) > jobs else ""
    remark += (
        f"height is the share of a host's {'GPUs' if use.by_gpus[shown].all() else 'GPUs or cores'}; {_how(result)}"
    )
    headline(figure, f"Jobs by host, {len(shown)} of {len(use.size):,} hosts", min(len(result), jobs), remark)
    return figure


def host_boxes(use: Use, starts: Floats, ends: Floats, rows: Ints) -> list[tuple[float, float, int]]:
    """Return (from, to, job) of what jobs hold of one host, as shares of its height; for drawing only.

    ``rows`` are the entries of that host; ``starts`` and ``ends`` are those of all jobs, (jobs,).
    """
    start, end, found, host = starts[use.job[rows]], ends[use.job[rows]], [], int(use.host[rows[0]])
    gpus = int(use.placements.fixed[host, 2])
    if gpus == 0:
        total = max(int(min(use.size[host], 128)), 1)
        size = np.maximum(np.round(use.cores[rows] / use.size[host] * total).astype(np.int64), 1)
        for job, runs in zip(use.job[rows].tolist(), lanes(start, end, size, total), strict=True):
            found += [(low / total, (low + count) / total, job) for low, count in runs]
        return found
    for device in range(gpus):
        ours = (use.bits[rows] >> device) & 1 > 0
        asked = use.placements.need[use.job[rows[ours]]]
        share = np.where(asked[:, GPUS] > 0, 1.0, asked[:, MILLI] / MILLI_GPU)
        size = np.maximum(np.floor(share * _SLICES).astype(np.int64), 1)
        for job, runs in zip(use.job[rows[ours]].tolist(), lanes(start[ours], end[ours], size, _SLICES), strict=True):
            for low, count in runs:
                found.append(((device + low / _SLICES) / gpus, (device + (low + count) / _SLICES) / gpus, job))
    return _joined(found)


def _joined(boxes: list[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """Return boxes of one job that touch as one."""
    found: list[tuple[float, float, int]] = []
    for low, high, job in sorted(boxes, key=lambda box: (box[2], box[0])):
        if found and found[-1][2] == job and abs(found[-1][1] - low) < 1e-9:
            found[-1] = (found[-1][0], high, job)
        else:
            found.append((low, high, job))
    return found


#: File names of the pictures of a schedule on hosts.
HOST_PICTURES = {
    "hosts-heatmap.png": host_heatmap,
    "fragmentation.png": fragmentation_curve,
    "hosts-gantt.png": host_gantt,
}
