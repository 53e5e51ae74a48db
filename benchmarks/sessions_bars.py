"""The bars that the sessions model is held to, and how a trace is cut to measure them.

Weeks of a trace are dealt out in turn: the model is fitted on the even weeks and scored against them; the odd weeks are
the hold-out of the privacy scores and, scored against the even ones, the noise floor.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tracekit
from evaluation.base import METRICS, Metric, Score, Setting
from evaluation.noise import Floor, noise_floor
from evaluation.temporal import IDC_WINDOWS
from evaluation.view import View, halves, prepare
from generators.encode import learnable
from generators.sessions import Sessions
from tracekit import stats
from tracekit.trace import Trace
from tracekit.validation import schedulable

#: Metrics that the bars need; the others of `tracekit score` are left out to save time.
CHEAP = ("ks", "correlation", "acf1", "hour_of_week", "idc", "user_repeat", "job_repeat", "validity", "offered_load")
EXPENSIVE = ("c2st", "c2st_window", "copies", "distance_to_closest", "membership", "user_linkage")
SCHEDULING = ("scheduling",)
THETA_NODES = 4_392
MOST_JOBS = 30_000  # fitted; as many are held out

FILES = {
    "KTH-SP2": "KTH-SP2-1996-2.1-cln.swf*",
    "CTC-SP2": "CTC-SP2-1996-3.1-cln.swf*",
    "SDSC-BLUE": "SDSC-BLUE-2000-4.2-cln.swf*",
    "LLNL-Atlas": "LLNL-Atlas-2006-2.1-cln.swf*",
    "Theta": "theta_data_training.csv",
}


def read(data: Path, name: str) -> Trace:
    """Return one of the five traces; Theta's file says nothing of its machine, whose size is public."""
    found = next(data.rglob(FILES[name]))
    if name != "Theta":
        return tracekit.read(found)
    trace = tracekit.read(found, "gpw")
    return trace.replace(machine=trace.machine.replace(name="Theta", procs=THETA_NODES * 64, nodes=THETA_NODES))


def on_the_wall(trace: Trace) -> Trace:
    """Return the jobs in submit order with the local clock as their time, so that moving weeks moves no hour."""
    trace = trace.take(trace.order())
    if not stats.has_calendar(trace):
        return trace
    wall = stats.local_times(trace).tz_localize(None)
    seconds = (wall - wall[0].normalize()) / np.timedelta64(1, "s")
    submit = np.maximum.accumulate(np.asarray(seconds, dtype=np.float64))  # the hour that comes twice in autumn
    epoch = float(wall[0].normalize().timestamp())
    return trace.assign({"submit_time": submit}).replace(machine=trace.machine.replace(epoch=epoch, timezone="UTC"))


@dataclass(frozen=True)
class Cut:
    """A trace cut for the bars."""

    name: str
    whole: Trace
    even: Trace  # fitted
    odd: Trace  # held out


def cut(name: str, trace: Trace, most: int = MOST_JOBS) -> Cut:
    """Deal out the weeks of the first ``2 · most`` jobs."""
    trace = on_the_wall(trace.take(schedulable(trace)))
    trace = trace.take(slice(0, 2 * most))
    view = prepare(trace, [], [name])[0]
    blocks, odd, even, _ = halves(view)
    parts = []
    for chosen in (even, odd):
        rows = np.concatenate([np.arange(blocks.edges[k], blocks.edges[k + 1]) for k in chosen])
        parts.append(trace.take(rows).assign({"submit_time": blocks.lay(chosen).submit}).take(slice(0, most)))
    return Cut(name, trace, parts[0], parts[1])


def metrics(names: tuple[str, ...]) -> list[Metric]:
    return [METRICS.get(name)() for name in names]


def run(metric: Metric, real: View, synth: View, setting: Setting) -> dict[str, Score]:
    return metric(real, synth, setting=setting, rng=np.random.default_rng([0, zlib.crc32(metric.name.encode())]))


def floors(data: Cut, names: tuple[str, ...], *, quick: bool, draws: int = 20) -> dict[str, Floor]:
    """Return the noise floor: the odd weeks against the even ones, with intervals over weeks."""
    view = prepare(data.whole, [], [data.name])[0]
    rng = np.random.default_rng(2)
    found, _ = noise_floor(metrics(names), view, Setting(quick), draws, rng, run, lambda: None)
    return found


def scores(data: Cut, made: Trace, names: tuple[str, ...], *, quick: bool) -> dict[str, Score]:
    """Score a made trace against the even weeks."""
    real, synth, holdout = prepare(data.even, [made, data.odd], ["real", "made", "hold-out"])
    found: dict[str, Score] = {}
    for metric in metrics(names):
        found.update(run(metric, real, synth, Setting(quick, holdout)))
    return found


def bars(found: dict[str, Score], floor: dict[str, Floor]) -> dict[str, tuple[float, float, bool]]:
    """Return key -> (value, bound, passed); quantities of a trace are given as the difference from the real one."""
    rows: dict[str, tuple[float, float, bool]] = {}

    def at_most(key: str, value: float, bound: float) -> None:
        if np.isfinite(value) and np.isfinite(bound):
            rows[key] = (value, bound, bool(value <= bound))

    def value(key: str) -> float:
        return found[key].value if key in found else float("nan")

    for key, bound in (("ks.mean", 0.03), ("correlation.mad_pearson", 0.03), ("validity.share", 0.0)):
        at_most(key, value(key), bound)
    load = found.get("offered_load")
    if load is not None:
        at_most("offered_load", abs(load.value / load.real - 1), 0.02)
    for key in ("acf1.interarrival", "acf1.run_time", "acf1.procs", "acf1.nodes", "user_repeat", "job_repeat"):
        if key in found:
            at_most(key, abs(found[key].value - found[key].real), 0.05)
    if "hour_of_week.tv" in floor:
        at_most("hour_of_week.tv", value("hour_of_week.tv"), floor["hour_of_week.tv"].high)
    for seconds in IDC_WINDOWS:
        key = f"idc.{seconds}"
        if key in found:
            at_most(key, abs(found[key].value / found[key].real - 1), 0.25)
    for key, bound in (
        ("c2st.auc", 0.65),
        ("c2st.window_auc", 0.60),
        ("privacy.exact_copies", 0.01),
        ("privacy.membership_auc", 0.55),
    ):
        at_most(key, value(key), bound)
    for key in ("scheduling.matched.log_wait_w1", "scheduling.matched.kendall_tau"):
        if key in found and key in floor:
            if "tau" in key and np.isfinite(value(key)) and np.isfinite(floor[key].low):
                bound = floor[key].low
                rows[key] = (value(key), bound, bool(value(key) >= bound))
            elif "tau" not in key:
                at_most(key, value(key), floor[key].high)
    return rows


def reported(key: str) -> bool:
    """Return whether a score goes into the results."""
    families = (
        "ks.",
        "correlation",
        "c2st",
        "acf1",
        "hour_of_week",
        "idc",
        "user_repeat",
        "job_repeat",
        "validity.share",
    )
    return key.startswith((*families, "offered_load", "privacy", "scheduling."))


def lay(traces: list[Trace]) -> Trace:
    """Return traces one after another, for measuring speed on more jobs than one trace has."""
    frames, at = [], 0.0
    for k, trace in enumerate(traces):
        submit = trace.column("submit_time")
        jobs = trace.jobs.assign(submit_time=submit - submit[0] + at)
        frames.append(jobs.assign(user=jobs["user"].astype(str) + f"/{k}"))
        at += np.ceil((submit[-1] - submit[0]) / 604_800.0) * 604_800.0
    return traces[0].replace(jobs=pd.concat(frames, ignore_index=True).assign(job_id=np.arange(sum(map(len, frames)))))


def fresh_auc(data: Cut) -> float:
    """Return the membership AUC that fresh real jobs of the fitted weeks give: what was on in those weeks, no more.

    A random half of the even weeks' jobs takes the place of the made trace; the other half are the members.
    """
    rows = np.random.default_rng(0).permutation(len(data.even))
    half = len(rows) // 2
    one, other = (data.even.take(np.sort(part)) for part in (rows[:half], rows[half:]))
    real, synth, holdout = prepare(other, [one, data.odd], ["real", "made", "hold-out"])
    found = run(METRICS.get("membership")(), real, synth, Setting(True, holdout))
    return float(found["privacy.membership_auc"].value)


def copies_without_names(data: Cut, made: Trace) -> list[float]:
    """Return the share of synthetic jobs equal to a real one in all but names of users, and the hold-out's share."""
    names = ("user", "group", "project", "app")
    parts = [t.replace(jobs=t.jobs.drop(columns=[n for n in names if n in t.jobs.columns])) for t in (data.even, made)]
    rest = data.odd.replace(jobs=data.odd.jobs.drop(columns=[n for n in names if n in data.odd.jobs.columns]))
    found = scores(Cut(data.name, data.whole, parts[0], rest), parts[1], ("copies",), quick=True)
    score = found["privacy.exact_copies"]
    return [round(float(score.value), 4), round(float(score.real), 4)]


def linkage(data: Cut, k: int, options: dict[str, Any]) -> list[float | None]:
    """Return how many made users lead back to the real one they were modelled on, by their hours of the week.

    Synthetic users have new names, so the metric of `tracekit score` finds none. Here the model tells, which no
    attacker has: the made users are named after the real ones and the same metric is applied; beside it the hold-out's
    share.
    """
    usable = learnable(data.even)[0]
    made = Sessions(**options, privacy=k).fit(data.even).sample(len(data.even), seed=1, reveal=True)
    if "user" not in made.jobs.columns:
        return [None, None]
    codes = np.unique(usable.column("user"))
    names = np.asarray(usable.jobs["user"].cat.categories)[codes[codes >= 0]]
    donor = made.jobs["x_donor"].to_numpy()
    named = made.assign({"user": pd.Categorical(names[np.minimum(donor, len(names) - 1)])})
    found = scores(data, named, ("user_linkage",), quick=True)["privacy.user_linkage"]
    return [None if np.isnan(v) else round(float(v), 4) for v in (found.value, found.real)]


def read_other(data: Path, name: str) -> Trace | None:
    """Return a trace that the model was never tried on, or None where it is absent."""
    files = {
        "SDSC-SP2": "SDSC-SP2-1998-4-first5k.swf",
        "HPC2N": "hpc2n-excerpt.swf",
        "Helios": "helios_data_training.csv",
    }
    found = next(data.rglob(files[name]), None)
    return None if found is None else tracekit.read(found, "gpw" if name == "Helios" else None)
