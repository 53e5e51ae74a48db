"""Pictures of users: their shares, how often they repeat a job, what they do when the queue is long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracekit.plots.recorded import recorded
from tracekit.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    PALETTE,
    Floats,
    NothingToDraw,
    headline,
    light_grid,
    new_figure,
    seconds_axis,
)
from tracekit.stats import kinds, queue_met, work

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tracekit.trace import Trace

_KINDS = 10  # of a user's jobs, from the commonest on


def _users(trace: Trace) -> NDArray[np.int64]:
    """Return each job's user as a code, −1 = unknown."""
    users = trace.column("user")
    if not trace.has("user"):
        raise NothingToDraw("users are unknown")
    if len(np.unique(users[users >= 0])) < 2:
        raise NothingToDraw("all jobs have the same user, so there is nothing to compare")
    return np.asarray(users, dtype=np.int64)


@dataclass(frozen=True)
class Shares:
    """What each user had of a trace, in the order of their names."""

    names: NDArray[np.object_]
    jobs: Floats
    work: Floats  # unit-seconds
    unit: str


def users(trace: Trace, *, most: int = 20) -> Figure:
    """Draw the shares of jobs and of work of the largest users, and how both are spread over all of them."""
    who = _users(trace)
    known = who >= 0
    jobs = np.bincount(who[known]).astype(np.float64)
    used = np.bincount(who[known], weights=work(trace)[known], minlength=len(jobs))
    names = np.asarray(trace.jobs["user"].cat.categories, dtype=object)[: len(jobs)]
    return draw_users(Shares(names, jobs, np.asarray(used, dtype=np.float64), trace.machine.unit), most=most)


def draw_users(shares: Shares, *, most: int = 20) -> Figure:
    """Draw what `users` draws."""
    here = shares.jobs > 0
    if not here.any():
        raise NothingToDraw("users are unknown")
    if here.sum() < 2:
        raise NothingToDraw("all jobs have the same user, so there is nothing to compare")
    names, total = shares.names[here], int(shares.jobs.sum())
    jobs, used = shares.jobs[here] / shares.jobs.sum(), shares.work[here] / max(shares.work[here].sum(), 1e-300)
    top = np.argsort(-np.maximum(jobs, used), kind="stable")[:most]
    top = top[np.argsort(-jobs[top], kind="stable")]
    figure, (bars, spread) = new_figure(1, 4.2, columns=2, width_ratios=[3, 2])
    x = np.arange(len(top))
    bars.bar(x - 0.2, jobs[top], 0.4, color=BLUE, label="of the jobs")
    bars.bar(
        x + 0.2,
        used[top],
        0.4,
        color=ORANGE,
        label=f"of the {shares.unit}-seconds",
        hatch="//",
        edgecolor="white",
    )
    bars.set_xticks(x, [str(name)[:10] for name in names[top]], rotation=60, ha="right", fontsize=8)
    bars.set(xlabel=f"user ({len(top)} largest of {len(jobs):,})", ylabel="share of the whole trace")
    bars.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    bars.legend(frameon=False, fontsize=8)
    for values, colour, style in ((jobs, BLUE, "-"), (used, ORANGE, "--")):
        sums = np.concatenate(([0.0], np.cumsum(np.sort(values)[::-1])))
        spread.plot(np.arange(len(sums)) / (len(sums) - 1), sums, color=colour, linestyle=style, linewidth=1.8)
    spread.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    spread.set(xlabel="share of users, largest first", ylabel="their share", xlim=(0, 1), ylim=(0, 1.02))
    for axis in (bars, spread):
        light_grid(axis)
    text = f"The largest user has {jobs.max():.0%} of the jobs, the ten largest {np.sort(jobs)[::-1][:10].sum():.0%}"
    headline(figure, text, total, f"{len(jobs):,} users; grey line: all users alike")
    return figure


def repeats(trace: Trace) -> Figure:
    """Draw how few kinds of job make up most of what a user submits, and how long runs of the same job are.

    Left: shares of each user's jobs in their 1 … 10 commonest kinds (20 jobs or more a user). Right: share of jobs that
    are in runs of at least so many equal jobs of one user in a row.
    """
    who, kind = _users(trace), kinds(trace)
    order = trace.order()
    who, kind = who[order], kind[order]
    kind, who = kind[who >= 0], who[who >= 0]
    shares = _top_shares(who, kind)
    if not len(shares):
        raise NothingToDraw("no user has 20 jobs")
    figure, (left, right) = new_figure(1, 3.9, columns=2, width_ratios=[1, 1])
    ranks = np.arange(1, _KINDS + 1)
    low, middle, high = np.quantile(shares, [0.25, 0.5, 0.75], axis=0)
    left.fill_between(ranks, low, high, color=BLUE, alpha=0.25, label="half of the users")
    left.plot(ranks, middle, "o-", color=BLUE, label="median user")
    left.set(
        xlabel="commonest kinds of job taken together", ylabel="share of the user's jobs", ylim=(0, 1.02), xticks=ranks
    )
    left.legend(frameon=False, fontsize=8, loc="lower right")
    lengths = _run_lengths(who, kind)
    at_least = np.unique(np.geomspace(1, max(int(lengths.max()), 2), 40).astype(np.int64))
    share = np.array([lengths[lengths >= k].sum() for k in at_least]) / lengths.sum()
    right.step(at_least, share, where="post", color=ORANGE, linewidth=1.8)
    right.set(xscale="log", xlabel="equal jobs of one user in a row, at least", ylabel="share of jobs", ylim=(0, 1.02))
    right.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    for axis in (left, right):
        light_grid(axis)
    headline(
        figure,
        f"One kind of job makes up {middle[0]:.0%} of what the median user submits, ten kinds {middle[-1]:.0%}",
        len(who),
        f"kind: same size and {'limit' if np.isfinite(trace.column('req_time')).mean() > 0.5 else 'run time to 10%'}; "
        f"{len(shares):,} users with 20 jobs or more",
    )
    return figure


def _top_shares(who: NDArray[np.int64], kind: NDArray[np.int64], fewest: int = 20) -> Floats:
    """Return (users, 10): the cumulative shares of each user's commonest kinds."""
    pairs, counts = np.unique(np.stack([who, kind], axis=1), axis=0, return_counts=True)
    order = np.lexsort((-counts, pairs[:, 0]))
    user, counts = pairs[order, 0], counts[order]
    first = np.flatnonzero(np.concatenate(([True], user[1:] != user[:-1])))
    rank = np.arange(len(user)) - np.repeat(first, np.diff(np.append(first, len(user))))
    table = np.zeros((len(first), _KINDS))
    keep = rank < _KINDS
    table[np.searchsorted(user[first], user[keep]), rank[keep]] = counts[keep]
    total = np.add.reduceat(counts, first) if len(first) else np.zeros(0)
    return np.asarray(np.cumsum(table, axis=1)[total >= fewest] / total[total >= fewest, None])


def _run_lengths(who: NDArray[np.int64], kind: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the lengths of runs of equal jobs, each user's jobs taken by themselves in submit order."""
    order = np.argsort(who, kind="stable")
    who, kind = who[order], kind[order]
    new = np.concatenate(([True], (who[1:] != who[:-1]) | (kind[1:] != kind[:-1])))
    return np.diff(np.append(np.flatnonzero(new), len(who)))


def behaviour(trace: Trace) -> Figure:
    """Draw what people submit when the queue is short, middling and long: sizes and run times as box plots."""
    seen = recorded(trace)
    if not seen.waits_known:
        raise NothingToDraw("waits, and so the length of the queue, are unknown")
    queue = queue_met(seen.submit, seen.start)
    low, high = (float(np.floor(value)) for value in np.quantile(queue, [1 / 3, 2 / 3]))
    if high <= low:
        low, high = 0.0, max(float(np.floor(np.quantile(queue[queue > 0], 0.5))) if (queue > 0).any() else 0.0, 1.0)
    classes = [queue <= low, (queue > low) & (queue <= high), queue > high]
    if min(int(part.sum()) for part in classes) < 10:
        raise NothingToDraw("the length of the queue hardly varied: fewer than 10 jobs met another length")
    ranges = (f"0 to {low:,.0f}" if low else "0", f"{low + 1:,.0f} to {high:,.0f}", f"over {high:,.0f}")
    labels = [f"{span}\n{part.sum():,} jobs" for span, part in zip(ranges, classes, strict=True)]
    figure, (left, right) = new_figure(1, 4.2, columns=2)
    for axis, values in ((left, seen.procs), (right, np.maximum(seen.run, 1.0))):
        stats = [_box(values[part]) for part in classes]
        drawn = axis.bxp(stats, showfliers=False, patch_artist=True, medianprops={"color": "black"}, widths=0.6)
        for box, colour in zip(drawn["boxes"], PALETTE, strict=False):
            box.set(facecolor=colour, alpha=0.75)
        axis.set_xticks([1, 2, 3], labels)
        axis.set_xlabel("jobs waiting at the submit")
        light_grid(axis)
    left.set(ylabel=f"size [{seen.unit}]")
    left.set_yscale("log", base=2)
    left.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    right.set(ylabel="run time")
    seconds_axis(right, "y", 1.0, float(np.quantile(seen.run, 0.97)) * 2)
    medians = [float(np.median(seen.run[part])) for part in (classes[0], classes[2])]
    ratio = medians[1] / max(medians[0], 1.0)
    word = "shorter jobs" if ratio < 0.8 else "longer jobs" if ratio > 1.25 else "jobs as long as ever"
    remark = "boxes: middle half and median; whiskers: 5% to 95%"
    headline(figure, f"When the queue is long, people submit {word} (medians {ratio:.2g} to 1)", len(seen), remark)
    return figure


def _box(values: Floats) -> dict[str, float | list[float]]:
    low, first, middle, third, high = (float(v) for v in np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]))
    return {"whislo": low, "q1": first, "med": middle, "q3": third, "whishi": high, "fliers": []}
