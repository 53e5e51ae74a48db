"""The Lublin–Feitelson model of rigid jobs, with its published parameters or fitted to a trace.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid jobs",
Journal of Parallel and Distributed Computing 63(11), 2003. Three parts, each one function below:

* sizes: serial, or 2^u with u two-stage uniform, rounded to a power of two for most jobs;
* run times: e^g with g from a mixture of two gammas; larger jobs more often draw the long one;
* arrivals: gaps e^g with g from a gamma, on a clock that runs faster by day than by night.

Limits come from `generators.tsafrir`. The model knows no users, no queues and no week.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from generators import tsafrir
from generators.base import ModelInfo
from generators.common import check_count, made_machine, not_fitted, read_config, write_config
from tracekit.errors import FormatError, UnknownName, UsageError
from tracekit.machine import Machine
from tracekit.schema import STATUSES, status_codes
from tracekit.trace import Trace

Floats = NDArray[np.float64]

BUCKETS = 48  # half-hours of a day
BUCKET = 1800.0  # seconds
DAY = BUCKETS * BUCKET


@dataclass(frozen=True)
class JobType:
    """Parameters of one kind of job; the defaults are the published ones for jobs of one type on 128 processors.

    Sizes are in processors (or nodes, gpus: what the machine hands out), times in seconds.
    """

    serial: float = 0.244  # share of jobs on one processor
    power2: float = 0.576  # share of jobs rounded to a power of two
    low: float = 0.8  # two-stage uniform in log2 of the size: [low, med] with probability prob, else [med, high]
    med: float = 4.5
    high: float = 7.0
    prob: float = 0.86
    a1: float = 4.2  # ln(run): gamma(a1, b1) with probability p = pa · size + pb (clipped), else gamma(a2, b2)
    b1: float = 0.94
    a2: float = 312.0
    b2: float = 0.03
    pa: float = -0.0054
    pb: float = 0.78
    longest: float = 12.0  # ln(run) above this is drawn again
    gap_a: float = 10.2303 * 1.0225  # ln(gap): gamma(gap_a, gap_b); 1.0225 leads from the rush hours to all hours
    gap_b: float = 0.4871
    longest_gap: float = 13.0  # ln(gap) above this is drawn again
    gap_scale: float = 1.0  # seconds that a unit of gap stands for
    day_a: float | None = 8.1737  # jobs over the day: gamma(day_a, day_b) in half-hours; None = no daily cycle
    day_b: float = 3.9631
    day_start: int = 11  # the half-hour (from 1) at which the day of the gamma begins

    def __post_init__(self) -> None:
        shares = (self.serial, self.power2, self.prob)
        if not all(0 <= share <= 1 for share in shares) or self.serial + self.power2 > 1 + 1e-9:
            raise UsageError(f"lublin: shares must lie within 0..1 and serial + power2 within 1, not {shares}")
        if not 0 <= self.low <= self.med <= self.high:
            raise UsageError(f"lublin: sizes need 0 ≤ low ≤ med ≤ high, not {self.low}, {self.med}, {self.high}")
        if min(self.a1, self.b1, self.a2, self.b2, self.gap_a, self.gap_b, self.gap_scale) <= 0:
            raise UsageError("lublin: the parameters of gamma distributions must be above 0")


def one_type(procs: int) -> JobType:
    """Return the published parameters for jobs of one type on a machine of ``procs`` processors."""
    high = float(np.log2(procs))
    return _sized(JobType(), low=0.8, med=high - 2.5, high=high)


def batch(procs: int) -> JobType:
    """Return the published parameters of batch jobs, their sizes moved from 128 to ``procs`` processors."""
    high = float(np.log2(procs))
    kind = JobType(
        serial=0.2927, power2=0.6686, prob=0.875, a1=6.57, b1=0.823, a2=639.1, b2=0.0156, pa=-0.003, pb=0.6986,
        gap_a=6.0415 * 1.0519, gap_b=0.8531, day_a=6.1271, day_b=5.2740,
    )  # fmt: skip
    return _sized(kind, low=1.2, med=high - 2.0, high=high)


def interactive(procs: int) -> JobType:
    """Return the published parameters of interactive jobs, their sizes moved from 128 to ``procs`` processors."""
    high = max(float(np.log2(procs)) - 1.5, 0.0)
    kind = JobType(
        serial=0.1541, power2=0.625, prob=0.705, a1=3.8351, b1=0.6605, a2=7.073, b2=0.6856, pa=-0.0118, pb=0.9156,
        gap_a=6.5510 * 0.9797, gap_b=0.6621, day_a=8.9186, day_b=3.6680,
    )  # fmt: skip
    return _sized(kind, low=1.0, med=high - 2.5, high=high)


def _sized(kind: JobType, *, low: float, med: float, high: float) -> JobType:
    """Put the sizes' bounds in order on machines too small for the published ones."""
    low = min(low, high)
    return dataclasses.replace(kind, low=low, med=min(max(med, low), high), high=high)


# ---- the three parts of the model ----------------------------------------------------------------------------------


def sample_sizes(kind: JobType, n_jobs: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw job sizes, shape (n_jobs,), from 1 to 2^high."""
    u = rng.random(n_jobs)
    stage = rng.random(n_jobs) <= kind.prob
    low, high = np.where(stage, kind.low, kind.med), np.where(stage, kind.med, kind.high)
    exponent = low + rng.random(n_jobs) * (high - low)
    # Rounding up could pass the largest size where that is no power of two (the reference program lets it).
    rounded = np.minimum(np.floor(exponent + 0.5), np.floor(kind.high + 1e-9))
    exponent = np.where(u <= kind.serial + kind.power2, rounded, exponent)
    return np.where(u <= kind.serial, 1, np.floor(2.0**exponent + 0.5)).astype(np.int64)


def first_gamma_share(kind: JobType, size: NDArray[Any]) -> Floats:
    """Return p = pa · size + pb, clipped to 0..1: how likely a job of this size draws the first gamma."""
    return np.clip(kind.pa * np.asarray(size, dtype=np.float64) + kind.pb, 0.0, 1.0)


def sample_log_runs(kind: JobType, size: NDArray[Any], rng: np.random.Generator) -> Floats:
    """Draw ln(run time in seconds) for jobs of the given sizes; a draw above ``kind.longest`` is made again."""
    p = first_gamma_share(kind, size)
    log_run = np.empty(len(p))
    todo = np.arange(len(p))
    while len(todo):
        first = rng.random(len(todo)) <= p[todo]
        shape, scale = np.where(first, kind.a1, kind.a2), np.where(first, kind.b1, kind.b2)
        log_run[todo] = rng.gamma(shape, scale)
        todo = todo[log_run[todo] > kind.longest]
    return log_run


def day_weights(kind: JobType) -> Floats:
    """Return how dense arrivals are in each half-hour of the day, from midnight; their mean is 1. Shape (48,)."""
    if kind.day_a is None:
        return np.ones(BUCKETS)
    # The gamma's day runs from bucket `day_start` to the same one of the next day, then is moved back cyclically.
    i = np.arange(kind.day_start, kind.day_start + BUCKETS, dtype=np.float64)
    upper = special.gammainc(kind.day_a, (i + 0.5) / kind.day_b)
    weight = upper - special.gammainc(kind.day_a, (i - 0.5) / kind.day_b)
    weights = np.empty(BUCKETS)
    weights[(i.astype(np.int64) - 1) % BUCKETS] = weight
    # A bucket of weight zero would stop the clock for ever.
    weights = np.maximum(weights, 1e-6 * weights.mean())
    return np.asarray(weights / weights.mean())


def to_clock(busy: Floats, weights: Floats) -> Floats:
    """Turn operational seconds (which pass faster in busy hours) into seconds since a midnight; see `to_busy`."""
    edges = np.concatenate([[0.0], np.cumsum(weights)]) * BUCKET
    day = np.floor(busy / DAY)
    return np.asarray(day * DAY + np.interp(busy - day * DAY, edges, np.arange(BUCKETS + 1) * BUCKET))


def to_busy(clock: Floats, weights: Floats) -> Floats:
    """Turn seconds since a midnight into operational seconds: the integral of the day's weights up to then."""
    edges = np.concatenate([[0.0], np.cumsum(weights)]) * BUCKET
    day = np.floor(clock / DAY)
    return np.asarray(day * DAY + np.interp(clock - day * DAY, np.arange(BUCKETS + 1) * BUCKET, edges))


def sample_log_gaps(kind: JobType, n_gaps: int, rng: np.random.Generator) -> Floats:
    """Draw ln(gap in operational seconds), before ``gap_scale``; a draw above ``longest_gap`` is made again."""
    log_gap = rng.gamma(kind.gap_a, kind.gap_b, n_gaps)
    todo = np.flatnonzero(log_gap > kind.longest_gap)
    while len(todo):
        log_gap[todo] = rng.gamma(kind.gap_a, kind.gap_b, len(todo))
        todo = todo[log_gap[todo] > kind.longest_gap]
    return log_gap


def sample_arrivals(kind: JobType, n_jobs: int, rng: np.random.Generator, *, start: float = 0.0) -> Floats:
    """Draw increasing submit times in seconds since a midnight, each a gap after the one before, from ``start`` on.

    The reference program pays for each half-hour with "points" until a gap is used up. That is the inverse of the
    cumulated weights, so all jobs can be done at once.
    """
    weights = day_weights(kind)
    gaps = np.exp(sample_log_gaps(kind, n_jobs, rng)) * kind.gap_scale
    return to_clock(to_busy(np.array([start]), weights) + np.cumsum(gaps), weights)


# ---- the model as a generator --------------------------------------------------------------------------------------

Parameters = Literal["fitted", "published", "published-two-types"]
PARAMETERS: tuple[Parameters, ...] = ("fitted", "published", "published-two-types")


@dataclass(frozen=True)
class Limits:
    """The limits that users ask for, and how jobs end; shapes (limits,)."""

    times: Floats  # seconds, increasing
    shares: Floats  # sum 1
    missing: float = 0.0  # share of jobs without a limit
    reached: float = 0.0  # share of jobs that run to their limit


@dataclass(frozen=True)
class State:
    """All that is learnt; plain values, so that it can be saved as JSON beside one npz."""

    machine: Machine
    types: tuple[JobType, ...]
    first_submit: float  # seconds since the machine's epoch
    midnight: float  # a local midnight before it, on the same clock
    fitted_to: int = 0  # jobs; 0 = published parameters
    left_out: int = 0  # jobs of the trace that lack a size, a run time or a submit time
    history: tuple[str, ...] = ()
    size_column: str = "req_procs"
    grain: int = 1  # every size is a multiple of this (whole nodes of a machine that counts processors)
    derived: dict[str, float] = dataclasses.field(default_factory=dict)  # other size columns: a fixed multiple
    status: dict[str, list[float]] | None = None  # shares of STATUSES for jobs that "reached" their limit, or not
    limits: Limits | None = None


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

    @classmethod
    def published(cls, procs: int, *, two_types: bool = False, limits: bool = True) -> Self:
        """Return the model as published, for a machine of ``procs`` processors; it needs no trace to learn from.

        ``two_types`` mixes batch and interactive jobs (column queue); ``limits`` adds Tsafrir's estimates.
        """
        if procs < 1:
            raise UsageError(f"lublin: a machine needs at least one processor, not {procs}")
        model = cls(parameters="published-two-types" if two_types else "published")
        machine = Machine(name=f"Lublin-Feitelson model, {procs} processors", procs=procs)
        kinds = _published_types(procs, two_types)
        model.state = State(machine, kinds, 0.0, 0.0, limits=_NEW_LIMITS if limits else None)
        return model

    def fit(self, trace: Trace, /, *, seed: int = 0) -> Self:
        """Estimate all parameters from a trace (or keep the published ones and take its machine, clock and columns).

        Nothing random happens, so ``seed`` has no effect.
        """
        from generators.lublin_fit import fit_state  # here, because the fit needs this module's model

        if self.parameters not in PARAMETERS:
            raise UnknownName("kind of lublin parameters", self.parameters, PARAMETERS)
        self.state = fit_state(trace)
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
        run = np.floor(np.exp(log_run))
        columns: dict[str, Any] = {"job_id": np.arange(1, n_jobs + 1), "submit_time": submit, "run_time": run}
        columns[state.size_column] = size * state.grain
        for column, factor in state.derived.items():
            columns[column] = np.round(size * state.grain * factor)
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
    def load(cls, folder: Path) -> Self:
        """Read back what `save` wrote."""
        values = read_config(folder, cls.name)
        path = Path(folder) / "config.json"
        try:
            model = cls(parameters=values["parameters"])
            limits = values["limits"]
            if limits is not None:
                with np.load(Path(folder) / "limits.npz", allow_pickle=False) as arrays:
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


#: Stands for "draw the modal limits anew for each sample", as the published model does.
_NEW_LIMITS = Limits(np.empty(0), np.empty(0))

#: The longest limit of the published model: the first round one above e^12 s, at which run times end.
_LONGEST_LIMIT = 48 * 3600.0


def _published_types(procs: int, two_types: bool) -> tuple[JobType, ...]:
    return (batch(procs), interactive(procs)) if two_types else (one_type(procs),)


def _merged_arrivals(state: State, n_jobs: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], Floats]:
    """Return each job's type and submit time: every type arrives on its own, and the first ``n_jobs`` of all count."""
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
