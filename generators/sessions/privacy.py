"""What of a trace may be learnt: no names of persons, and with privacy ``k`` nothing that fewer than k users share.

* users, and labels that hardly anybody shares (their groups, projects, programs), lose their names: synthetic users get
  new ones, and what was equal stays equal;
* a template (sizes, limit, memory, queue …) that fewer than k users ever asked for is replaced by the nearest one that
  as many share; the run time keeps its relation to the limit;
* habits are pooled: the histories of at least k alike users are dealt together, so that a synthetic user mixes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from generators.common import NOT_WORKLOAD
from generators.quantile import grain_of
from generators.sessions import unusable
from generators.sessions.generalising import generalised
from generators.sessions.outcomes import ended_by_limit, rounded
from tracekit.errors import UsageError
from tracekit.schema import SIZE_COLUMNS
from tracekit.trace import Trace

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Labels that name persons or what is theirs; a column of them keeps its names only where nearly all are shared.
PERSONAL = ("group", "project", "app")
SHARED_BY, SHARED_SHARE = 2, 0.95
#: Another size is this many times as far away as another limit: limits are guesses, sizes are needs.
SIZE_WEIGHT = 3.0
#: Without more privacy asked for, only templates that differ from a shared one by less than this are replaced (in ln
#: of the limit).
CLOSE = 0.4
#: Alike users are sought among so many; more are divided first, because the search takes time with the square.
MOST_TOGETHER = 4_000
#: Outcomes of a job are drawn after the template.
OUTCOMES = ("run_time", "status", "cpu_time", "used_mem", "mean_watts", "cpu_bound")


def nameless(trace: Trace, k: int, *, rounding: bool = False) -> tuple[Trace, tuple[str, ...]]:
    """Return what may be learnt of a trace, and which columns have lost their names.

    ``rounding``: rare templates are rounded until they are common, before the rest become the nearest common ones.
    """
    personal = tuple(name for name in PERSONAL if trace.has(name) and not _shared(trace, name, max(k, SHARED_BY)))
    skip = {*NOT_WORKLOAD, "job_id"}
    names = [n for n in trace.jobs.columns if n not in skip and (not n.startswith("x_") or n == unusable.COLUMN)]
    jobs = trace.jobs[[n for n in names if trace.has(n) or n == "run_time"]].copy()
    jobs.insert(0, "job_id", np.arange(1, len(jobs) + 1))
    for name in ("user", *personal):
        if name in jobs.columns:
            codes, _ = pd.factorize(jobs[name])  # by first appearance
            jobs[name] = pd.Series(codes, index=jobs.index).where(codes >= 0).astype("Int64").astype("string")
    for name in PERSONAL:
        if name in jobs.columns and name not in personal:
            users = users_of(trace.column(name), trace.column("user"))
            jobs[name] = _rare_unnamed(jobs[name], users < max(k, SHARED_BY))
    machine = trace.machine.replace(header=None)  # whose lines may name anybody
    learnt = trace.replace(jobs=jobs, machine=machine)
    if rounding:
        names = template_columns(learnt, personal)
        learnt = _with_templates(learnt, generalised(learnt.jobs[names], learnt.column("user"), k))
    learnt = _with_shared_templates(learnt, personal, k)
    return _only_used_labels(learnt), personal


def _rare_unnamed(values: pd.Series, rare: NDArray[np.bool_]) -> pd.Series:
    """Give the labels of the marked jobs names that say nothing; the others keep theirs."""
    names = {str(name) for name in values.cat.categories}
    fresh = (name for number in count(1) if (name := f"rare{number}") not in names)
    return values.cat.rename_categories(dict(zip(values[rare].dropna().unique(), fresh, strict=False)))


def _only_used_labels(trace: Trace) -> Trace:
    """Forget labels that no job has: a file would still list them."""
    jobs = trace.jobs
    labels = [name for name in jobs.columns if isinstance(jobs[name].dtype, pd.CategoricalDtype)]
    return trace.replace(jobs=jobs.assign(**{name: jobs[name].cat.remove_unused_categories() for name in labels}))


def template_columns(trace: Trace, personal: tuple[str, ...]) -> list[str]:
    """Return the columns that make up a template."""
    skip = {"job_id", "submit_time", "user", *OUTCOMES, *personal}
    return [name for name in trace.jobs.columns if name not in skip]


def templates(trace: Trace, names: list[str]) -> tuple[Ints, Ints]:
    """Number the combinations of some columns; return each job's number and one row of each combination."""
    if not names:
        return np.zeros(len(trace), dtype=np.int64), np.zeros(1, dtype=np.int64)
    codes = np.column_stack([pd.factorize(trace.jobs[name])[0] for name in names])
    _, first, kind = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    return np.asarray(kind, dtype=np.int64).ravel(), np.asarray(first, dtype=np.int64)


def users_of(codes: Ints, user: Ints) -> Ints:
    """Return by how many users each job's code is used; all jobs without a user count as one."""
    pairs = np.unique(np.column_stack([codes, user]), axis=0)
    label, count = np.unique(pairs[:, 0], return_counts=True)
    return np.asarray(count[np.searchsorted(label, codes)], dtype=np.int64)


def _shared(trace: Trace, name: str, k: int) -> bool:
    return float((users_of(trace.column(name), trace.column("user")) >= k).mean()) >= SHARED_SHARE


def _with_shared_templates(trace: Trace, personal: tuple[str, ...], k: int) -> Trace:
    """Replace templates of fewer than ``k`` users by the nearest shared ones."""
    user = trace.column("user")
    names = template_columns(trace, personal)
    kind, first = templates(trace, names)
    users = users_of(kind, user)
    rare, shared = users < max(k, 2), np.unique(kind[users >= max(k, 2)])
    if k >= 2 and not len(shared):
        if not (user >= 0).any():
            raise UsageError(
                f"--privacy {k} needs values shared by {k} users, but the trace names none; "
                "--model private --unit job protects single jobs"
            )
        raise UsageError(
            f"--privacy {k} needs values shared by {k} users, but no template is shared by more than {users.max()}; "
            "use a smaller number or more jobs"
        )
    if not rare.any() or not len(shared):
        return trace
    space = _places(trace.jobs[names].iloc[first])
    odd = np.unique(kind[rare])
    to = np.arange(len(first))
    distance, nearest = cKDTree(space[shared]).query(space[odd])
    to[odd] = np.where((k >= 2) | (distance <= CLOSE), shared[nearest], odd)
    return _with_templates(trace, trace.jobs[names].iloc[first[to[kind]]].reset_index(drop=True), rare)


def _with_templates(trace: Trace, moved: pd.DataFrame, changed: NDArray[np.bool_] | None = None) -> Trace:
    """Give the jobs other templates; a run time keeps its relation to the limit, and the power follows the size.

    ``changed``: whose run times follow; by default of jobs whose template is another one.
    """
    jobs = trace.jobs.copy()
    names = list(moved.columns)
    if changed is None:
        differs = moved.ne(jobs[names]) & ~(moved.isna() & jobs[names].isna())
        changed = np.asarray(differs.fillna(False).to_numpy(dtype=bool).any(axis=1), dtype=bool)
    run, old = trace.column("run_time"), trace.column("req_time")
    for name in names:
        jobs[name] = moved[name]
    new = jobs["req_time"].to_numpy(dtype=np.float64) if "req_time" in names else old
    with np.errstate(invalid="ignore", divide="ignore"):
        at_limit = ended_by_limit(run, old)  # so it will be again
        kept = np.where(at_limit, new + (run - old), np.where(run <= new, run, run * (new / old)))
        kept = np.where(np.isfinite(kept), kept, np.fmin(run, np.nan_to_num(new, nan=np.inf)))
        ratio = np.where(run > 0, kept / run, 1.0)
    jobs["run_time"] = np.where(changed, rounded(kept, grain_of(run)), run)
    if "cpu_time" in jobs.columns:
        cpu = trace.column("cpu_time")
        jobs["cpu_time"] = np.where(changed, rounded(cpu * ratio, grain_of(cpu)), cpu)
    if "mean_watts" in jobs.columns:  # the power follows the size
        watts, before, after = trace.column("mean_watts"), trace.sizes(), trace.replace(jobs=jobs).sizes()
        share = np.divide(after, before, out=np.ones(len(trace)), where=before > 0)
        jobs["mean_watts"] = np.where(share != 1, rounded(watts * share, grain_of(watts)), watts)
    return trace.replace(jobs=jobs)


def _places(table: pd.DataFrame) -> Floats:
    """Return templates as points: logs of numbers; another queue is farther away than any other size or limit."""
    places = []
    for name in table.columns:
        if name in (*SIZE_COLUMNS, "tasks", "req_time", "req_mem"):
            values = table[name].to_numpy(dtype=np.float64, na_value=np.nan)
            weight = 1.0 if name == "req_time" else SIZE_WEIGHT
            places.append(weight * np.nan_to_num(np.log1p(np.maximum(values, 0)), nan=-1.0))
        else:
            places.append(100.0 * pd.factorize(table[name])[0])
    return np.column_stack(places).astype(np.float64)


def pools(owner: Ints, known: NDArray[np.bool_], about: Floats, k: int) -> Ints:
    """Return the pool of each history: at least ``k`` alike ones together (MDAV, Domingo-Ferrer & Mateo-Sanz 2002).

    ``known``: histories of users, shape (histories,); the others stay alone. ``about`` describes the jobs, shape (jobs,
    features), by which histories are alike.
    """
    count = len(known)
    users = np.flatnonzero(known)
    if k < 2 or len(users) < 2 * k:
        pool = np.arange(count)
        if k >= 2:
            pool[users] = users[0] if len(users) else 0
        return np.unique(pool, return_inverse=True)[1].astype(np.int64)
    mean = np.column_stack([np.bincount(owner, weights=f, minlength=count) for f in about.T])
    size = np.maximum(np.bincount(owner, minlength=count), 1)
    points = np.column_stack([mean / size[:, None], np.log(size)])
    points = (points - points.mean(axis=0)) / np.maximum(points.std(axis=0), 1e-9)
    pool = np.arange(count)
    for block in _blocks(points, users, max(MOST_TOGETHER, 4 * k)):
        _together(points, block, k, pool)
    return np.unique(pool, return_inverse=True)[1].astype(np.int64)


def _together(points: Floats, free: Ints, k: int, pool: Ints) -> None:
    """Write into ``pool`` which of the free ones belong together, at least k of them."""
    while len(free) >= 2 * k:
        centre = points[free].mean(axis=0)
        farthest = free[np.argmax(((points[free] - centre) ** 2).sum(axis=1))]
        nearest = np.argsort(((points[free] - points[farthest]) ** 2).sum(axis=1), kind="stable")[:k]
        pool[free[nearest]] = farthest
        free = np.delete(free, nearest)
    pool[free] = free[0]


def _blocks(points: Floats, users: Ints, most: int) -> Iterator[Ints]:
    """Halve the users, along the feature in which they differ most, until no part has more than ``most``."""
    if len(users) <= most:
        yield users
        return
    widest = np.argmax(np.ptp(points[users], axis=0))
    by = users[np.argsort(points[users, widest], kind="stable")]
    for half in (by[: len(by) // 2], by[len(by) // 2 :]):
        yield from _blocks(points, np.sort(half), most)
