"""The Lublin–Feitelson model of rigid jobs, with its published parameters or fitted to a trace.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid jobs",
Journal of Parallel and Distributed Computing 63(11), 2003. Sizes, run times and arrivals are drawn by
`generators.lublin_model` and fitted by `generators.lublin_fit`; limits come from `generators.tsafrir`. The model has
no users, no queues and no weekly cycle.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators import tsafrir
from generators.base import ModelInfo
from generators.common import check_count, made_machine, not_fitted, read_config, write_config
from generators.hosts import placeable, unplaced
from generators.in_order import Able, InOrder, Streamed, Whole
from generators.lublin_counts import COLUMNS
from generators.lublin_fit import fit_state
from generators.lublin_model import (
    Floats,
    JobType,
    Limits,
    State,
    batch,
    interactive,
    one_type,
    sample_arrivals,
    sample_log_runs,
    sample_sizes,
)
from tracekit.errors import FormatError, UnknownName, UsageError, loads
from tracekit.machine import Machine
from tracekit.schema import STATUSES, status_codes
from tracekit.trace import Trace

Parameters = Literal["fitted", "published", "published-two-types"]
PARAMETERS: tuple[Parameters, ...] = ("fitted", "published", "published-two-types")

#: Fields of a state that JSON holds as they are.
_PLAIN = ("first_submit", "midnight", "fitted_to", "left_out", "size_column", "grain", "derived", "status")


class Lublin:
    """Lublin–Feitelson jobs with Tsafrir's limits: published parameters, or fitted by maximum likelihood."""

    name: ClassVar[str] = "lublin"
    info: ClassVar[ModelInfo] = ModelInfo(
        family="classic",
        summary="sizes, run times, arrivals and limits from few parameters; no users",
        licence="Apache-2.0",
        paper="Lublin & Feitelson, JPDC 63(11), 2003; Tsafrir, Etsion & Feitelson, JSSPP 2005",
    )

    def __init__(self, *, parameters: Parameters = "fitted") -> None:
        self.parameters = parameters
        self.state: State | None = None
        self.notes: list[str] = []

    @classmethod
    def published(cls, procs: int, *, two_types: bool = False, limits: bool = True) -> Self:
        """Return the model as published, for a machine of ``procs`` processors; no trace is needed.

        ``two_types`` mixes batch and interactive jobs (column queue); ``limits`` adds Tsafrir's estimates.
        """
        if procs < 1:
            raise UsageError(f"lublin: a machine needs at least one processor, not {procs}")
        model = cls(parameters="published-two-types" if two_types else "published")
        machine = Machine(name=f"Lublin-Feitelson model, {procs} processors", procs=procs)
        kinds = _published_types(procs, two_types)
        model.state = State(machine, kinds, 0.0, 0.0, limits=_NEW_LIMITS if limits else None)
        return model

    @classmethod
    def from_defaults(cls, *, cluster: Machine | None = None, seed: int = 0) -> Self:
        """Return the published model for a machine of known size; ``seed`` has no effect."""
        if cluster is None or not cluster.procs:
            raise UsageError("model lublin without a trace needs the machine's size: give --procs N or --cluster")
        return cls.published(cluster.procs)

    def fit(self, trace: Trace, /, *, seed: int = 0) -> Self:
        """Estimate all parameters from a trace (or keep the published ones and take its machine, clock and columns).

        Nothing random happens, so ``seed`` has no effect.
        """
        self._check_parameters()
        usable, self.notes = placeable(trace)
        return self._learn(Whole(self.name, trace, usable))

    def fit_batches(self, able: Able, /, *, seed: int = 0) -> Self:
        """Learn the same from a trace that is read in batches, in memory that does not grow with the jobs."""
        self._check_parameters()
        with Streamed(self.name, able, COLUMNS) as jobs:
            self.notes = able.notes
            return self._learn(jobs)

    def _check_parameters(self) -> None:
        if self.parameters not in PARAMETERS:
            raise UnknownName("kind of lublin parameters", self.parameters, PARAMETERS)

    def _learn(self, jobs: InOrder) -> Self:
        self.state = fit_state(jobs)
        made = (self.state.size_column, *self.state.derived)
        lost = [name for name in jobs.requests if name not in made]
        if lost:
            self.notes.append(f"does not make {', '.join(lost)}; sizes are whole numbers from 1")
        if self.parameters != "fitted":
            procs = self.state.machine.size() or self.state.grain * round(2 ** self.state.types[0].high)
            procs = max(procs // self.state.grain, 1)
            limits = None if self.state.limits is None else _NEW_LIMITS
            kinds = _published_types(procs, self.parameters == "published-two-types")
            self.state = dataclasses.replace(self.state, types=kinds, limits=limits, fitted_to=0, status=None)
        return self

    def sample(self, n_jobs: int, /, *, seed: int = 0) -> Trace:
        """Make ``n_jobs`` jobs in whole seconds; a fitted model starts when the real trace did."""
        n_jobs = check_count(self.name, n_jobs)
        if self.state is None:
            raise not_fitted(self.name)
        state, rng = self.state, np.random.default_rng(seed)
        kind, submit = _merged_arrivals(state, n_jobs, rng)
        size, log_run = np.empty(n_jobs, dtype=np.int64), np.empty(n_jobs)
        for k, job_type in enumerate(state.types):
            of_kind = kind == k
            size[of_kind] = sample_sizes(job_type, int(of_kind.sum()), rng)
            log_run[of_kind] = sample_log_runs(job_type, size[of_kind], rng)
        size = _placeable_sizes(state, size)
        run = np.floor(np.exp(log_run))
        columns: dict[str, Any] = {"job_id": np.arange(1, n_jobs + 1), "submit_time": submit, "run_time": run}
        columns |= _size_columns(state, size)
        reached = np.zeros(n_jobs, dtype=bool)
        if state.limits is not None:
            columns["run_time"], columns["req_time"], reached = _with_limits(state.limits, run, rng)
        if state.status is not None:
            columns["status"] = status_codes(_statuses(state.status, reached, rng))
        if len(state.types) > 1:
            columns["queue"] = np.array(["batch", "interactive"], dtype=object)[kind]
        note = self._note(state, seed)
        return Trace(pd.DataFrame(columns), made_machine(state.machine, note), (*state.history, note))

    def _note(self, state: State, seed: int) -> str:
        of = f" of {state.machine.name}" if state.machine.name and state.fitted_to else ""
        how = f"fitted to {state.fitted_to} jobs{of}" if state.fitted_to else f"{self.parameters} parameters"
        if state.fitted_to and state.left_out:
            how += f", {state.left_out} without size or run time left out"
        return f"MADE by tracekit, not recorded: model lublin ({how}), seed {seed}"

    def save(self, folder: Path) -> None:
        """Write config.json and, where there are limits, limits.npz."""
        if self.state is None:
            raise not_fitted(self.name)
        values = {f.name: getattr(self.state, f.name) for f in dataclasses.fields(State) if f.name != "limits"}
        values["machine"] = self.state.machine.to_dict()
        values["types"] = [dataclasses.asdict(kind) for kind in self.state.types]
        limits = self.state.limits
        values["limits"] = None if limits is None else {"missing": limits.missing, "reached": limits.reached}
        write_config(folder, self.name, {"parameters": self.parameters, **values})
        if limits is not None:
            np.savez(Path(folder) / "limits.npz", times=limits.times, shares=limits.shares)

    @classmethod
    @loads("a saved model")
    def load(cls, folder: Path) -> Self:
        """Read back what `save` wrote."""
        values = read_config(folder, cls.name)
        path = Path(folder) / "config.json"
        try:
            model = cls(parameters=values["parameters"])
            limits = values["limits"]
            if limits is not None:
                with (Path(folder) / "limits.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                    limits = Limits(arrays["times"], arrays["shares"], **limits)
            model.state = State(
                machine=Machine.from_dict(values["machine"], origin=str(path)),
                types=tuple(JobType(**kind) for kind in values["types"]),
                history=tuple(values["history"]),
                limits=limits,
                **{key: values[key] for key in _PLAIN},
            )
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise FormatError(path, f"not a saved lublin model: {error!r}") from None
        return model


#: Means "draw new modal limits for each sample", as the published model does.
_NEW_LIMITS = Limits(np.empty(0), np.empty(0))

#: The longest limit of the published model: the first round one above e^12 s, at which run times end.
_LONGEST_LIMIT = 48 * 3600.0


def _published_types(procs: int, two_types: bool) -> tuple[JobType, ...]:
    return (batch(procs), interactive(procs)) if two_types else (one_type(procs),)


def _size_columns(state: State, size: NDArray[np.int64]) -> dict[str, Any]:
    """Return every column that follows from the sizes, which are in units of the grain."""
    whole = size * state.grain
    return {state.size_column: whole} | {name: np.round(whole * factor) for name, factor in state.derived.items()}


def _placeable_sizes(state: State, size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sizes with those that no pool of hosts can hold reduced to the largest one below that fits."""
    if not state.machine.groups:
        return size
    kinds = np.unique(np.append(size, 1))
    good = kinds[~unplaced(pd.DataFrame(_size_columns(state, kinds)), state.machine)]
    if not len(good):
        return size
    reduced: NDArray[np.int64] = good[np.searchsorted(good, size, side="right").clip(1) - 1]
    return reduced


def _merged_arrivals(state: State, n_jobs: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], Floats]:
    """Return each job's type and submit time: types arrive independently; the first ``n_jobs`` of all count."""
    start = state.first_submit - state.midnight
    times = [sample_arrivals(kind, n_jobs, rng, start=start) for kind in state.types]
    merged = np.concatenate(times)
    first = np.argsort(merged, kind="stable")[:n_jobs]
    submit = merged[first]
    if state.fitted_to:  # the real trace begins with a job, not with a gap
        submit = np.concatenate([[start], submit[:-1]])
    return first // n_jobs, np.floor(submit + state.midnight)


def _with_limits(limits: Limits, run: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return run times, limits (NaN = none) and which jobs run to their limit; shapes (jobs,)."""
    times, shares = limits.times, limits.shares
    if not len(times):
        times, shares = tsafrir.modal_limits(len(run), _LONGEST_LIMIT, rng)
    run = np.minimum(run, times[-1])
    missing = rng.random(len(run)) < limits.missing
    # The jobs nearest to any limit, from above or below, are the ones that meet it: this changes run times least.
    above = np.minimum(np.searchsorted(times, run), len(times) - 1)
    below = np.maximum(above - 1, 0)
    log_run = np.log(run + 1)
    far_above, far_below = np.log(times[above] + 1) - log_run, log_run - np.log(times[below] + 1)
    nearest = np.where(np.abs(far_below) < np.abs(far_above), below, above)
    distance = np.where(missing, np.inf, np.minimum(np.abs(far_above), np.abs(far_below)))
    count = min(round(limits.reached * len(run)), int(np.count_nonzero(~missing)))
    reached = np.zeros(len(run), dtype=bool)
    reached[np.argsort(distance, kind="stable")[:count]] = True
    left = np.maximum(shares * len(run) - np.bincount(nearest[reached], minlength=len(times)), 0.0)
    limit = np.where(reached, times[nearest], np.nan)
    open_ = ~reached & ~missing
    limit[open_] = tsafrir.assign_limits(run[open_], times, left if left.sum() > 0 else shares, rng)
    return np.where(reached, limit, run), limit, reached


def _statuses(shares: dict[str, list[float]], reached: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw positions in `STATUSES`, by whether the job ran to its limit."""
    u = rng.random(len(reached))
    code = np.zeros(len(reached), dtype=np.intp)
    for key, rows in (("reached", reached), ("other", ~reached)):
        code[rows] = np.searchsorted(np.cumsum(shares[key])[:-1], u[rows], side="right")
    return np.minimum(code, len(STATUSES) - 1)
