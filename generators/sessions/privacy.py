"""What of a trace may be learnt: no names of persons, and with privacy ``k`` nothing that fewer than k users share.

* users, and labels that hardly anybody shares (their groups, projects, programs), lose their names: synthetic users get
  new ones, and what was equal stays equal;
* a template (sizes, limit, memory, queue …) that fewer than k users ever asked for is replaced by the nearest one that
  as many share; the run time keeps its relation to the limit;
* habits are pooled: the histories of at least k alike users are dealt together, so that a synthetic user mixes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from generators.parts import categorical
from generators.quantile import grain_of
from generators.sessions.generalising import generalised
from generators.sessions.learnt import Learnt, as_trace, sharers
from generators.sessions.outcomes import ended_by_limit, rounded
from generators.sessions.shelf import Array, Column, Shelf, blocks, small, whole
from tracekit.errors import UsageError
from tracekit.schema import COLUMNS, SIZE_COLUMNS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: A column of labels that name persons or what is theirs keeps its names only where nearly all are shared.
SHARED_BY, SHARED_SHARE = 2, 0.95
#: Another size is this many times as far away as another limit: limits are guesses, sizes are needs.
SIZE_WEIGHT = 3.0
#: Without more privacy asked for, only templates that differ from a shared one by less than this are replaced (in ln
#: of the limit).
CLOSE = 0.4
#: Alike users are sought among so many; more are divided first, because the search takes time with the square.
MOST_TOGETHER = 4_000


def nameless(
    jobs: Learnt, labels: Mapping[str, list[str]], k: int, shelf: Shelf, *, rounding: bool = False
) -> tuple[Learnt, tuple[str, ...]]:
    """Return what may be learnt of jobs, in the order of histories, and which columns have lost their names.

    ``labels``: what the codes of ``jobs.personal`` stand for; what is shared becomes part of the template.
    ``rounding``: rare templates are rounded until they are common, before the rest become the nearest common ones.
    """
    least, personal = max(k, SHARED_BY), {}
    user = _unnamed(jobs.user)
    learnt = replace(jobs, user=shelf.keep(user), personal={})
    for name, column in jobs.personal.items():
        code = whole(column)
        rare = sharers(code + 1, user, len(labels[name]) + 1) < least
        count = np.bincount(code + 1, minlength=len(rare))
        if float(count[~rare].sum() / len(code)) >= SHARED_SHARE:
            names = _rare_unnamed(code, labels[name], rare[1:])
            learnt = _with_label(learnt, name, code, names, shelf)
        else:
            personal[name] = shelf.keep(_unnamed(column))
        del code
    learnt = replace(learnt.numbered(shelf), personal=personal, machine=jobs.machine.replace(header=None))
    if rounding:
        table, pairs = learnt.table, _pairs(learnt)
        moved = generalised(table.iloc[pairs[0]].reset_index(drop=True), pairs[1], k)
        learnt = _with_templates(
            learnt, moved.iloc[np.unique(pairs[0], return_index=True)[1]].reset_index(drop=True), shelf
        )
    return _with_shared_templates(learnt, k, shelf), tuple(personal)


def _unnamed(code: Column) -> Array:
    """Return new codes, by first appearance; unknown stays −1."""
    code = whole(code)
    known = code >= 0
    if known.all():
        return small(pd.factorize(code)[0])
    found = np.full(len(code), -1, dtype=np.int32)
    found[known] = pd.factorize(code[known])[0]
    return found


def _rare_unnamed(code: Array, labels: list[str], rare: NDArray[np.bool_]) -> list[str]:
    """Return labels of which the rare ones, as they come, have names that say nothing; the others keep theirs."""
    names = list(labels)
    fresh = (name for number in count(1) if (name := f"rare{number}") not in labels)
    for used in pd.unique(code).tolist():
        if used >= 0 and rare[used]:
            names[used] = next(fresh)
    return names


def _with_label(jobs: Learnt, name: str, code: Array, names: list[str], shelf: Shelf) -> Learnt:
    """Return jobs whose templates have one more column of labels."""
    key, pair = pd.factorize(whole(jobs.kind).astype(np.int64) * (len(names) + 1) + code + 1)
    old, label = pair // (len(names) + 1), pair % (len(names) + 1) - 1
    table = jobs.table.iloc[old].reset_index(drop=True).assign(**{name: categorical(label, names)})
    return replace(jobs, kind=shelf.keep(small(key)), table=table[_in_order(table)])


def _in_order(table: pd.DataFrame) -> list[str]:
    """Return the columns of a table of templates in the order of a trace's."""
    known = [column.name for column in COLUMNS if column.name in table.columns]
    return known + [name for name in table.columns if name not in known]


def _pairs(jobs: Learnt) -> tuple[Ints, Ints]:
    """Return each template with each user that asked for it; unknown is −1."""
    user = whole(jobs.user)
    users = int(user.max(initial=-1)) + 2
    pairs = pd.unique(whole(jobs.kind).astype(np.int64) * users + user + 1)
    return pairs // users, pairs % users - 1


def _with_shared_templates(jobs: Learnt, k: int, shelf: Shelf) -> Learnt:
    """Replace templates of fewer than ``k`` users by the nearest shared ones."""
    user = whole(jobs.user)
    kinds = len(jobs.table)
    users = sharers(whole(jobs.kind), user, kinds)
    rare = users < max(k, 2)
    shared = np.flatnonzero(~rare)
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
        return jobs
    space = _places(jobs.table)
    odd, to = np.flatnonzero(rare), np.arange(kinds)
    distance, nearest = cKDTree(space[shared]).query(space[odd])
    to[odd] = np.where((k >= 2) | (distance <= CLOSE), shared[nearest], odd)
    return _with_templates(jobs, jobs.table.iloc[to].reset_index(drop=True), shelf, rare)


def _with_templates(
    jobs: Learnt, moved: pd.DataFrame, shelf: Shelf, changed: NDArray[np.bool_] | None = None
) -> Learnt:
    """Give the jobs other templates; a run time keeps its relation to the limit, and the power follows the size.

    ``moved``: what each template becomes; ``changed``: of which the run times follow, by default of those that differ.
    """
    table, kind = jobs.table, whole(jobs.kind)
    if changed is None:
        differs = moved.ne(table) & ~(moved.isna() & table.isna())
        changed = np.asarray(differs.fillna(False).to_numpy(dtype=bool).any(axis=1), dtype=bool)
    old, new = (as_trace(some, jobs.machine).column("req_time") for some in (table, moved))
    sizes = tuple(as_trace(some, jobs.machine).sizes() for some in (table, moved))
    before = {name: whole(values) for name, values in jobs.measured.items()}
    grains = {name: grain_of(values) for name, values in before.items()}
    after = {name: np.empty(len(jobs)) for name in before if name in ("run_time", "cpu_time", "mean_watts")}
    for rows in blocks(len(jobs)):
        of = kind[rows]
        some = {name: before[name][rows] for name in after}
        made = _following(some, grains, changed[of], (old[of], new[of]), (sizes[0][of], sizes[1][of]))
        for name, values in made.items():
            after[name][rows] = values
    del before
    measured = jobs.measured | {name: shelf.keep(values) for name, values in after.items()}
    return replace(jobs, measured=measured, table=moved).numbered(shelf)


def _following(
    real: dict[str, Floats],
    grains: Mapping[str, float],
    changed: NDArray[np.bool_],
    limits: tuple[Floats, Floats],
    sizes: tuple[Floats, Floats],
) -> dict[str, Floats]:
    """Return run times, processor times and power of jobs whose limits and sizes were, and are now, the given ones."""
    run, (old, new) = real["run_time"], limits
    with np.errstate(invalid="ignore", divide="ignore"):
        at_limit = ended_by_limit(run, old)  # so it will be again
        kept = np.where(at_limit, new + (run - old), np.where(run <= new, run, run * (new / old)))
        kept = np.where(np.isfinite(kept), kept, np.fmin(run, np.nan_to_num(new, nan=np.inf)))
        ratio = np.where(run > 0, kept / run, 1.0)
    made = {"run_time": np.where(changed, rounded(kept, grains["run_time"]), run)}
    if "cpu_time" in real:
        cpu = real["cpu_time"]
        made["cpu_time"] = np.where(changed, rounded(cpu * ratio, grains["cpu_time"]), cpu)
    if "mean_watts" in real:  # the power follows the size
        watts, (before, after) = real["mean_watts"], sizes
        share = np.divide(after, before, out=np.ones(len(watts)), where=before > 0)
        made["mean_watts"] = np.where(share != 1, rounded(watts * share, grains["mean_watts"]), watts)
    return made


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


def pools(size: Ints, known: NDArray[np.bool_], about: Callable[[], Floats], k: int) -> Ints:
    """Return the pool of each history: at least ``k`` alike ones together (MDAV, Domingo-Ferrer & Mateo-Sanz 2002).

    ``size``: jobs of each history; ``known``: histories of users, the others stay alone. ``about()`` returns what their
    jobs are like on average, shape (histories, features): histories alike in that are together.
    """
    count = len(known)
    users = np.flatnonzero(known)
    if k < 2 or len(users) < 2 * k:
        pool = np.arange(count)
        if k >= 2:
            pool[users] = users[0] if len(users) else 0
        return np.unique(pool, return_inverse=True)[1].astype(np.int64)
    size = np.maximum(size, 1)
    points = np.column_stack([about(), np.log(size)])
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
