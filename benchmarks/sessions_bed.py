"""Many traces to try the sessions model on, and how a synthetic one is measured: the test bed of `bench_sessions_bed`.

Half of the traces are for choosing parameters (*tuning*), the other half is looked at once (*confirmation*); which is
which was written down before anything was measured. Every trace is taken in several cuts: its first and last 5,000
jobs, its first 30,000, all of it, and cuts that are hard on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import tracekit
from evaluation.base import Setting
from evaluation.detection import JobDetection
from evaluation.view import prepare
from generators.encode import learnable
from generators.sessions.histories import gaps_within
from tracekit.trace import Trace

Floats = NDArray[np.float64]

#: Files by name of the trace, and the format where it is not found out.
TUNING = {
    "KTH-SP2": ("KTH-SP2-1996-2.1-cln.swf.gz", None),
    "SDSC-BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.gz", None),
    "Curie": ("CEA-Curie-2011-2.1-cln.swf.gz", None),
    "wagap": ("21-fields-wagap-2013.swf", None),
    "HPC2N": ("hpc2n-excerpt.swf", None),
    "Philly": ("philly_2k_c48.csv", "philly"),
    "PAI": ("pai_sub25_reduced.csv", "reduced"),
    "Lublin": ("lublin_256.swf", None),
}
CONFIRMATION = {
    "CTC-SP2": ("CTC-SP2-1996-3.1-cln.swf.gz", None),
    "LLNL-Atlas": ("LLNL-Atlas-2006-2.1-cln.swf.gz", None),
    "NASA": ("NASA-iPSC-1993-3.1-cln.swf.gz", None),
    "SDSC-SP2": ("SDSC-SP2-1998-4-first5k.swf", None),
    "Theta": ("theta_data_training.csv", "gpw"),
    "Helios": ("helios_data_training.csv", "gpw"),
    "Theta 2022": ("ALCF-Theta-2022.swf", None),
    "Helios Venus": ("helios_venus_gpujobs_reduced.csv", "reduced"),
}
#: Tables of a few columns; GPUs are the size of their jobs.
MAPS = {
    "philly": {"arrival_time_s": "submit_time", "duration_s": "run_time", "gpu_count": "req_procs"},
    "reduced": {"arrival_s": "submit_time", "service_sec": "run_time", "gpu_count": "req_procs"},
}
FEW, MANY = 5_000, 30_000
#: What is measured, and the largest value that is good enough with the skeleton resampled, and with modelled.
LIMITS = {
    "ks": (0.05, 0.05),
    "ks_gap": (0.05, 0.05),
    "ks_run": (0.05, 0.05),
    "ks_size": (0.05, 0.05),
    "acf_gap": (0.08, 0.08),
    "acf_run": (0.08, 0.08),
    "repeat": (0.06, 0.06),
    "c2st": (0.65, 0.65),
    "c2st5": (0.65, 0.70),
    "all": (0.70, 0.70),
    "idc": (0.25, 0.25),
    "stretch": (0.05, 0.05),
    "linked": (np.inf, np.nan),  # of modelled: the upper end of what the control has
}
#: Windows in seconds over which arrivals are counted for the index of dispersion.
WINDOWS = (60, 300, 900, 3600, 21_600, 86_400)


@dataclass(frozen=True)
class Case:
    """One cut of one trace."""

    trace: str
    cut: str
    jobs: Trace


def read(data: Path, name: str) -> Trace:
    """Return the jobs of a trace that a scheduler could run, in submit order."""
    file, kind = {**TUNING, **CONFIRMATION}[name]
    path = next(data.rglob(file))
    if kind in MAPS:
        table = pd.read_csv(path).rename(columns=MAPS[kind])[list(MAPS[kind].values())]
        jobs = table.sort_values("submit_time", kind="stable", ignore_index=True)
        return learnable(Trace(jobs.assign(job_id=np.arange(len(jobs))), tracekit.Machine()))[0]
    return learnable(tracekit.read(path, kind))[0]


def cases(name: str, trace: Trace) -> Iterator[Case]:
    """Yield the cuts of a trace; those that need users, or more jobs than there are, are left out."""
    has_users = trace.has("user") and len(np.unique(trace.column("user"))) > 20
    for cut, (make, least, users) in CUTS.items():
        if len(trace) >= least and (has_users or not users):
            jobs = make(trace)
            if len(jobs) >= 1000:
                yield Case(name, cut, jobs)


def _first(count: int) -> Callable[[Trace], Trace]:
    return lambda trace: trace.take(slice(0, count))


def _few_heavy(trace: Trace) -> Trace:
    """Keep the three users with the most jobs, and every eighth of the others; 15,000 jobs at most."""
    user = trace.column("user")
    count = np.bincount(user[user >= 0])
    by_jobs = np.argsort(-count, kind="stable")
    return trace.take(np.isin(user, [*by_jobs[:3], *by_jobs[3::8]])).take(slice(0, 15_000))


def _crowded(trace: Trace) -> Trace:
    """Keep the shortest stretch of 5,000 jobs, without its calendar: some hours or days."""
    submit = trace.column("submit_time")
    begin = int(np.argmin(submit[FEW - 1 :] - submit[: 1 - FEW]))
    part = trace.take(slice(begin, begin + FEW))
    return part.replace(machine=part.machine.replace(epoch=None, timezone=None))


def _third(trace: Trace) -> Trace:
    """Keep every third user; 15,000 jobs at most."""
    return trace.take(trace.column("user") % 3 == 1).take(slice(0, 15_000))


def _drifting(trace: Trace) -> Trace:
    """Keep one in three of the users who came in the first half of 15,000 jobs: more users, and others, later."""
    trace = trace.take(slice(0, 15_000))
    user = trace.column("user")
    first = np.full(int(user.max()) + 1, len(trace))
    np.minimum.at(first, user, np.arange(len(trace)))
    return trace.take((first[user] >= len(trace) // 2) | (user % 3 == 0))


def _long_tailed(trace: Trace) -> Trace:
    """Lengthen the run times of the first 15,000 jobs, and their limits: one user in five has jobs 30 times as long."""
    trace = trace.take(slice(0, 15_000))
    times = np.where(trace.column("user") % 5 == 0, 30.0, 1.0)
    names = [name for name in ("run_time", "req_time", "cpu_time") if trace.has(name)]
    return trace.assign({name: trace.column(name) * times for name in names})


#: Cuts: how they are made, how many jobs that takes, and whether it takes users.
CUTS: dict[str, tuple[Callable[[Trace], Trace], int, bool]] = {
    "first 5,000": (_first(FEW), 0, False),
    "last 5,000": (lambda trace: trace.take(slice(-FEW, None)), FEW + 1, False),
    "first 30,000": (_first(MANY), FEW + 1, False),
    "all": (lambda trace: trace, MANY + 1, False),
    "few heavy users": (_few_heavy, FEW, True),
    "a third of the users": (_third, FEW, True),
    "crowded": (_crowded, FEW + 1, False),
    "drifting": (_drifting, FEW, True),
    "long-tailed": (_long_tailed, FEW, True),
}


# ---- measures: the same quantities as an independent check takes, from the definitions -------------------------------


def measures(real: Trace, made: Trace, *, quick: bool = False) -> dict[str, float]:
    """Return how far a synthetic trace is from the real one, by name (see `LIMITS`)."""
    a, b = _table(real), _table(made)
    distance = {name: _ks(a[name], b[name]) for name in ("gap", "run", "size")}
    idc = [abs(_idc(b["submit"], w) / _idc(a["submit"], w) - 1) for w in WINDOWS if np.ptp(a["submit"]) > 10 * w]
    return {
        "ks": float(np.mean(list(distance.values()))),
        **{f"ks_{name}": value for name, value in distance.items()},
        "acf_gap": abs(_acf1(a["gap"]) - _acf1(b["gap"])),
        "acf_run": abs(_acf1(a["run"]) - _acf1(b["run"])),
        "repeat": abs(_repeat(a["user"]) - _repeat(b["user"])),
        "c2st": told_apart(a, b, 1, quick=quick),
        "c2st5": told_apart(a, b, 5, quick=quick),
        "all": all_columns(real, made, quick=quick),
        "idc": max(idc, default=0.0),
        "linked": linked(a, b),
    }


def _table(trace: Trace) -> dict[str, Any]:
    trace = trace.take(trace.order())
    submit, user = trace.column("submit_time"), trace.column("user")
    return {
        "submit": submit,
        "gap": np.diff(submit, prepend=submit[0]),
        "run": trace.column("run_time"),
        "size": trace.sizes(),
        "user": user,
    }


def _ks(one: Floats, other: Floats) -> float:
    every = np.sort(np.concatenate([one, other]))
    below = [np.searchsorted(np.sort(values), every, side="right") / len(values) for values in (one, other)]
    return float(np.abs(below[0] - below[1]).max())


def _acf1(values: Floats) -> float:
    x = np.log1p(np.maximum(values, 0))
    x = x - x.mean()
    return float((x[1:] * x[:-1]).mean() / (x * x).mean()) if x.any() else 0.0


def _repeat(user: Any) -> float:
    return float((user[1:] == user[:-1]).mean())


def _idc(submit: Floats, window: float) -> float:
    counts = np.bincount(((submit - submit[0]) // window).astype(np.int64))
    return float(counts.var() / counts.mean())


def told_apart(a: dict[str, Any], b: dict[str, Any], window: int, *, quick: bool) -> float:
    """Return the AUC of gradient boosting on gap, run time, size and user repeat of jobs, or of jobs in a row."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    most = min(len(a["run"]), len(b["run"]), 7_500 if quick else 15_000) // window * window
    parts = []
    for t in (a, b):
        same = np.concatenate([[0.0], (t["user"][1:] == t["user"][:-1]).astype(float)])
        table = np.column_stack([np.log1p(np.maximum(t["gap"], 0)), np.log1p(t["run"]), np.log2(t["size"]), same])
        parts.append(table[:most].reshape(most // window, -1))
    truth = np.repeat([0, 1], [len(part) for part in parts])
    model = HistGradientBoostingClassifier(max_iter=50 if quick else 100, random_state=0)
    folds = StratifiedKFold(2 if quick else 4, shuffle=True, random_state=0)
    guess = cross_val_predict(model, np.vstack(parts), truth, cv=folds, method="predict_proba")[:, 1]
    return float(roc_auc_score(truth, guess))


def all_columns(real: Trace, made: Trace, *, quick: bool) -> float:
    """Return the score c2st.auc: single jobs, by all columns that both traces have."""
    views = prepare(real, [made], ["real", "made"])
    return float(JobDetection()(*views, setting=Setting(quick), rng=np.random.default_rng(0))["c2st.auc"].value)


def linked(real: dict[str, Any], made: dict[str, Any]) -> float:
    """Return the share of users with three gaps in a row, each above 5 s, that exactly one real user has."""
    theirs, mine = _triples(real), _triples(made)
    owners = theirs.groupby("gaps")["user"].agg(["nunique", "first"])
    found = mine.join(owners, on="gaps", how="inner")
    by_user = found.groupby("user")
    named = by_user["first"].nunique().eq(1) & by_user["nunique"].max().eq(1)
    return float(named.sum() / max(mine["user"].nunique(), 1))


def _triples(t: dict[str, Any]) -> pd.DataFrame:
    order = np.lexsort((t["submit"], t["user"]))
    user = t["user"][order]
    gap = np.round(gaps_within(user, t["submit"][order]), 3)
    long = gap > 5
    at = np.flatnonzero(long[:-2] & long[1:-1] & long[2:])
    rows = pd.DataFrame({"user": user[at], "a": gap[at], "b": gap[at + 1], "c": gap[at + 2]})
    rows["gaps"] = pd.util.hash_pandas_object(rows[["a", "b", "c"]], index=False)
    return rows[["user", "gaps"]].drop_duplicates()
