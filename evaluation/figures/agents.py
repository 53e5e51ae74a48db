"""What an experiment with agents found: verdicts, learning, windows in pairs, which score to trust, what it cost."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from evaluation.experiment.uses import mark
from evaluation.figures.base import INK, REAL, SOFT, Drawing, blank, label, legend
from tracekit.plots.style import GREY, PALETTE, NothingToDraw

_BLUE, _ORANGE, _GREEN = PALETTE[:3]
#: Colours by `mark`; the others are grey.
_COLOURS = {"good": _GREEN, "better": _BLUE, "worse": _ORANGE}
_MAX_ARMS = 12  # in one figure of curves
_MAX_SCORES = 20  # of those to trust
_TITLE = 34  # characters of a line above a small figure
_MAX_KEY = 40  # characters; the keys of scores are known, and all of them fit
_BANDS = 4  # arms, above which bands would hide each other
_FARTHEST = float(np.log(20))  # where the axis of differences ends: intervals of too few seeds reach anywhere
#: Up to which logarithm of a ratio which differences are marked.
_TICKS: tuple[tuple[float, tuple[float, ...]], ...] = (
    (0.12, (0.05, 0.1)),
    (0.3, (0.1, 0.2)),
    (0.75, (0.2, 0.5, 1.0)),
    (1.5, (1.0, 3.0)),
    (math.inf, (2.0, 9.0)),
)


def verdict_intervals(uses: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]]) -> Drawing:
    """Draw each model's difference from agents trained on real jobs with its interval, one panel a use.

    The margin is a green band. Green intervals end below it; where a test would not notice damaged jobs, and for
    copies of real jobs, they are grey.
    """
    panels = [
        (use, rows) for use, every in uses if (rows := [row for row in every if _is_number(row.get("difference"))])
    ]
    if not panels:
        raise NothingToDraw("no model has a difference to draw")
    heights = [0.7 + 0.33 * len(rows) for _, rows in panels]
    figure, axes = blank(7.2, 0.4 + sum(heights), rows=len(panels), height_ratios=heights)
    for axis, (use, rows) in zip(axes, panels, strict=True):
        _intervals(axis, use, rows)
    axes[-1].set_xlabel("difference from agents trained on real jobs  (right = worse)", color=INK)
    shown = ("model", "verdict", "difference", "low", "high")
    data = pd.DataFrame([{"use": use["use"], **{k: row.get(k) for k in shown}} for use, rows in panels for row in rows])
    words = "Difference of each model from agents trained on real jobs, with interval. " + " ".join(
        f"{use['use']} (margin ±{100 * float(use['margin']):g} %): "
        + "; ".join(f"{row['model']} {100 * float(row['difference']):+.1f} % ({row['verdict']})" for row in rows)
        + "."
        for use, rows in panels
    )
    return Drawing(figure, data, words)


def _intervals(axis: Any, use: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    margin = float(use["margin"])
    axis.axvspan(-np.log1p(margin), np.log1p(margin), color=_GREEN, alpha=0.13, linewidth=0)
    axis.axvline(0, color=INK, linewidth=1)
    reach = 0.0
    for k, row in enumerate(rows):
        colour = _COLOURS.get(mark(row), GREY)
        low, value, high = (_ratio(row.get(end), row["difference"]) for end in ("low", "difference", "high"))
        axis.plot([low, high], [k, k], color=colour, linewidth=2.6, solid_capstyle="butt")
        axis.plot(value, k, marker="o", color=colour, markersize=7)
        reach = max(reach, abs(low), abs(high))
    _percent_axis(axis, max(min(reach, _FARTHEST), np.log1p(margin)))
    axis.set_yticks(range(len(rows)), [label(str(row["model"])) for row in rows])
    blind_ = ": this test cannot tell" if use.get("sensitive") is False else ""
    axis.set(ylim=(len(rows) - 0.4, -0.6))
    axis.set_title(f"{use['use']}, margin ±{100 * margin:g} %{blind_}", color=INK, fontsize="medium", loc="left")
    axis.grid(visible=False, axis="y")
    axis.tick_params(axis="y", length=0)


def _is_number(value: Any) -> bool:
    return value is not None and bool(np.isfinite(float(value)))


def _ratio(value: float | None, instead: float) -> float:
    """Return the logarithm of a ratio from a difference: halved and doubled lie equally far from no difference."""
    return float(np.log1p(max(instead if value is None else float(value), -0.9999)))


def _percent_axis(axis: Any, reach: float) -> None:
    """Mark a logarithmic axis by percentages, as many as fit; beyond ``reach`` intervals are cut off."""
    axis.set_xlim(-1.08 * reach, 1.08 * reach)
    steps = next(steps for limit, steps in _TICKS if reach <= limit)
    ticks = sorted([0.0, *(sign * np.log1p(step) for step in steps for sign in (-1, 1))])
    named = [f"{100 * np.expm1(tick):+.0f} %".replace("-", "−").replace("+0 %", "0 %") for tick in ticks]
    axis.set_xticks(ticks, named)


def learning_curves(table: pd.DataFrame, looks: Mapping[str, Mapping[str, Any]], what: str) -> Drawing:
    """Draw what agents reach as they learn: mean over seeds, and, of few arms, the range of the seeds as a band."""
    import seaborn

    arms = list(dict.fromkeys(table["arm"]))[:_MAX_ARMS]
    figure, (axis,) = blank(7.2, 3.8)
    band = {"errorbar": ("pi", 100), "err_kws": {"alpha": 0.12, "linewidth": 0}} if len(arms) <= _BANDS else {}
    for k, arm in enumerate(arms):
        look = _look(arm, k, looks)
        curves = _on_one_grid(table[table["arm"] == arm])
        seaborn.lineplot(
            curves, x="step", y="score", ax=axis, label=label(arm), legend=False, color=look["color"],
            linestyle=look.get("linestyle", "-"), linewidth=look["linewidth"], **({"errorbar": None} | band),
        )  # fmt: skip
    axis.set(xlabel="training steps", ylabel=what)
    if float(table["score"].min()) > 0 and float(table["score"].max()) > 20 * float(table["score"].min()):
        axis.set_yscale("log")
    for text in (axis.xaxis.label, axis.yaxis.label):
        text.set_color(INK)
    legend(axis, loc="best")
    last = table.sort_values("step").groupby(["arm", "seed"], sort=False, dropna=False)["score"].last()
    means = last.groupby("arm", sort=False).mean()
    words = f"{what} on validation windows against training steps, one line per training set. At the end: " + ", ".join(
        f"{arm} {means[arm]:,.3g}" for arm in arms
    )
    return Drawing(figure, table[table["arm"].isin(arms)], words + ".")


def _on_one_grid(table: pd.DataFrame, points: int = 25) -> pd.DataFrame:
    """Return the curves of some agents at the same steps, which each of them reaches; they are judged at their own."""
    curves = [one.sort_values("step") for _, one in table.groupby("seed", sort=False, dropna=False)]
    steps = np.linspace(
        max(float(one["step"].min()) for one in curves), min(float(one["step"].max()) for one in curves), points
    )
    return pd.concat(
        [pd.DataFrame({"step": steps, "score": np.interp(steps, one["step"], one["score"])}) for one in curves]
    )


def paired(table: pd.DataFrame, arm: str, margin: float | None, look: Mapping[str, Any], what: str) -> Drawing:
    """Draw every held-out window once: agents trained on real jobs across, those trained on ``arm`` up."""
    means = table.groupby(["arm", "load", "window"], dropna=False)["value"].mean().unstack("arm")
    if "real" not in means.columns or arm not in means.columns:
        raise NothingToDraw(f"no windows on which both real and {arm} were evaluated")
    pairs = means[["real", arm]].dropna()
    if pairs.empty:
        raise NothingToDraw(f"no window on which both real and {arm} were evaluated")
    figure, (axis,) = blank(3.9, 3.7)
    both = pairs.to_numpy(dtype=np.float64)
    low, high = float(both.min()), float(both.max())
    logarithmic = low > 0 and high > 5 * low
    pad = (low * 0.85, high * 1.18) if logarithmic else (low - 0.05 * (high - low), high + 0.05 * (high - low) + 1e-9)
    line = np.array(pad)
    if margin is not None:
        axis.fill_between(line, line / (1 + margin), line * (1 + margin), color=_GREEN, alpha=0.15, linewidth=0)
    axis.plot(line, line, color=INK, linewidth=1)
    axis.scatter(both[:, 0], both[:, 1], s=22, color=look["color"], alpha=0.75, linewidths=0)
    axis.set(xlim=pad, ylim=pad, xlabel="trained on real jobs", ylabel=f"trained on {label(arm)}")
    if logarithmic:
        _logarithmic(axis, "xy")
    axis.set_title(textwrap.fill(what, _TITLE), color=INK)
    above = int((both[:, 1] > both[:, 0]).sum())
    words = (
        f"{what} on {len(both)} held-out windows, agents trained on real jobs across, on {arm} up. {above} windows lie "
        f"above the diagonal, where {arm} is worse."
    )
    return Drawing(figure, pairs.reset_index(), words)


def by_load(windows: pd.DataFrame, heuristics: pd.DataFrame | None, looks: Mapping[str, Any], what: str) -> Drawing:
    """Draw the mean over held-out windows of every training set, and of the heuristics, at each load."""
    import seaborn

    parts = [windows.assign(who=windows["arm"], kind="agent")]
    if heuristics is not None:
        parts.append(heuristics.assign(who=heuristics["policy"], kind="heuristic"))
    every = pd.concat(parts, ignore_index=True).astype({"load": str})
    means = every.groupby(["kind", "who", "load"], sort=False)["value"].mean().reset_index()
    loads, people = (
        list(dict.fromkeys(every["load"])),
        list(dict.fromkeys(zip(means["kind"], means["who"], strict=True))),
    )
    figure, (axis,) = blank(7.2, 1.2 + 0.27 * len(people))
    colours = seaborn.color_palette("crest", len(loads)) if len(loads) > 1 else [_BLUE]
    for k, load in enumerate(loads):
        own = means[means["load"] == load].set_index(["kind", "who"])["value"].reindex(people)
        axis.plot(own, range(len(people)), "o", color=colours[k], markersize=6, label=f"load {load}", linestyle="none")
    axis.set_yticks(
        range(len(people)), [label(who) + (" (heuristic)" if kind == "heuristic" else "") for kind, who in people]
    )
    axis.set(ylim=(len(people) - 0.4, -0.6), xlabel=f"{what}\nmean over held-out windows (left = better)")
    if float(means["value"].min()) > 0 and float(means["value"].max()) > 10 * float(means["value"].min()):
        _logarithmic(axis, "x")
    axis.tick_params(axis="y", length=0)
    if len(loads) > 1:
        legend(axis, loc="best")
    first = means[means["load"] == loads[0]].sort_values("value")
    words = f"Mean {what} over held-out windows. Best at load {loads[0]}: " + ", ".join(
        f"{row.who} {row.value:,.3g}" for row in first.head(3).itertuples()
    )
    return Drawing(figure, means, words + ".")


def trusted(table: pd.DataFrame) -> Drawing:
    """Draw how well every cheap score orders the models as the agents do, best first."""
    table = table[np.isfinite(table["rho"])].copy()
    if table.empty:
        raise NothingToDraw("too few models finished to rank the scores")
    table = table.sort_values("rho", ascending=False, kind="stable").head(_MAX_SCORES)
    figure, (axis,) = blank(7.2, 1.3 + 0.27 * len(table))
    axis.axvline(0, color=INK, linewidth=1)
    for k, (rho, low, high) in enumerate(table[["rho", "low", "high"]].to_numpy(dtype=np.float64)):
        if np.isfinite(low) and np.isfinite(high):
            axis.plot([low, high], [k, k], color=SOFT, linewidth=3, solid_capstyle="butt")
        axis.plot(rho, k, "o", color=_BLUE, markersize=6)
    axis.set_yticks(range(len(table)), [label(str(key), _MAX_KEY) for key in table["key"]])
    axis.set(ylim=(len(table) - 0.4, -0.6), xlim=(-1.05, 1.05))
    axis.set_xlabel(
        "rank correlation with how much worse agents are\n(1 = same order, 0 = no relation, −1 = reverse order)"
    )
    axis.tick_params(axis="y", length=0)
    best = table.iloc[0]
    words = (
        "Rank correlation of each cheap score with the agents' outcome over models; best: "
        f"{best['key']}, {best['rho']:.2f}."
    )
    return Drawing(figure, table.reset_index(drop=True), words)


def costs(table: pd.DataFrame) -> Drawing:
    """Draw the seconds that every step took, one bar a model."""
    wide = table.groupby(["model", "step"], sort=False)["seconds"].sum().unstack("step").fillna(0.0)
    wide = wide.reindex(list(dict.fromkeys(table["model"])))
    figure, (axis,) = blank(7.2, 1.1 + 0.33 * len(wide))
    left = np.zeros(len(wide))
    for k, step in enumerate(wide.columns):
        values = wide[step].to_numpy(dtype=np.float64)
        axis.barh(
            range(len(wide)), values, left=left, color=PALETTE[k % len(PALETTE)], label=label(str(step)), height=0.65
        )
        left += values
    axis.set_yticks(range(len(wide)), [label(str(name)) for name in wide.index])
    axis.set(ylim=(len(wide) - 0.4, -0.6), xlabel="seconds of CPU time")
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False, axis="y")
    legend(axis, loc="best")
    words = "Seconds of CPU time by model and step. In all: " + ", ".join(
        f"{name} {total:,.0f} s" for name, total in zip(wide.index, left, strict=True)
    )
    return Drawing(figure, table, words + ".")


def _logarithmic(axis: Any, which: str) -> None:
    """Make axes ("x", "y" or "xy") logarithmic, with plain numbers at 1, 2, 5, 10 and so on."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for name in which:
        axis.set(**{f"{name}scale": "log"})
        side = getattr(axis, f"{name}axis")
        side.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        side.set_minor_formatter(NullFormatter())


def _look(arm: str, k: int, looks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    if arm == "real":
        return {"color": REAL, "linewidth": 2.8}
    if arm in looks:
        return dict(looks[arm])
    return {"color": PALETTE[k % len(PALETTE)], "linestyle": (0, (4, 1.5)), "linewidth": 1.6}
