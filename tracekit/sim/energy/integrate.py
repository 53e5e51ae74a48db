"""Energy of a schedule: the exact integral of power over a window, by part, by job, and over time.

Power is constant between two events (a job starts or ends, a host changes state, the weather changes), so sums over
events are exact. Hosts are not looked at one by one: idle power is always there, and a job, or a state of a host,
changes it by a fixed number of watts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.energy.held import Held
from tracekit.sim.energy.model import GroupPower, PowerModel
from tracekit.sim.energy.series import Series
from tracekit.sim.energy.states import HostStates

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Parts of the total. Switches are part of the network, drives and fans (other_watts) of compute.
PARTS = ("compute", "gpu", "memory", "network", "losses", "cooling", "overhead")
#: Parts that hosts draw before losses; jobs are accounted by these.
HOST_PARTS = 4
COMPUTE, GPU, MEMORY, NETWORK, LOSSES, COOLING, OVERHEAD = range(len(PARTS))
KWH = 3.6e6  # joules
#: Shares of the time, in per cent, of the load-duration curve in results: power is at least this high for so long.
DURATIONS = (0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100)


@dataclass(frozen=True, eq=False)
class Load:
    """What ran on a machine, and the window over which its energy is asked for; times in seconds."""

    start: Floats  # (jobs,)
    end: Floats  # (jobs,)
    held: Held
    begin: float
    until: float
    mean_watts: Floats | None = None  # (jobs,) measured mean of all its hosts with their idle share; NaN = by the model
    frequency: Floats | float = 1.0  # (jobs,) or of all: share of the highest
    states: HostStates | None = None  # hosts that slept

    @cached_property
    def inside(self) -> tuple[Floats, Floats]:
        """Start and end of the part of each job that lies in the window."""
        return np.clip(self.start, self.begin, self.until), np.clip(self.end, self.begin, self.until)


@dataclass(frozen=True, eq=False)
class Energy:
    """Energy of a schedule over a window."""

    model: str
    times: Floats  # (steps + 1,) seconds, rising
    watts: Floats  # (steps, parts) between two times, in the order of PARTS
    job_kwh: Floats  # (jobs,) with the job's share of losses, switches and cooling
    carbon_kg: float | None = None
    cost: float | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def parts_kwh(self) -> dict[str, float]:
        """Energy by part."""
        joules = np.diff(self.times) @ self.watts
        return dict(zip(PARTS, (joules / KWH).tolist(), strict=True))

    @property
    def total_kwh(self) -> float:
        """Energy of the facility."""
        return sum(self.parts_kwh.values())

    @property
    def overhead_kwh(self) -> float:
        """Energy of the facility that is neither IT nor cooling."""
        return self.parts_kwh["overhead"]

    @cached_property
    def jobs_kwh(self) -> float:
        """Energy of jobs."""
        return float(self.job_kwh.sum())

    @property
    def idle_kwh(self) -> float:
        """Energy of hosts, and of shares of hosts, that no job holds."""
        return self.total_kwh - self.overhead_kwh - self.jobs_kwh

    @property
    def it_kwh(self) -> float:
        """Energy of IT: hosts, switches, losses."""
        return self.total_kwh - self.overhead_kwh - self.parts_kwh["cooling"]

    @cached_property
    def total_watts(self) -> Floats:
        """Power of the facility between two times, (steps,)."""
        return np.asarray(self.watts.sum(axis=1))

    @property
    def peak_kw(self) -> float:
        """The highest power of the facility."""
        return float(self.total_watts.max(initial=0.0)) / 1000

    def load_duration(self) -> tuple[Floats, Floats]:
        """Return the load-duration curve: seconds, (steps + 1,) from 0, and kW from one to the next, falling."""
        order = np.argsort(-self.total_watts, kind="stable")
        return np.append(0.0, np.cumsum(np.diff(self.times)[order])), self.total_watts[order] / 1000

    def to_dict(self) -> dict[str, Any]:
        """Return what the command line prints."""
        it, cooling = self.it_kwh, self.parts_kwh["cooling"]
        seconds, kw = self.load_duration()
        marks = np.searchsorted(seconds[1:], np.array(DURATIONS) / 100 * seconds[-1], side="left")
        curve = kw[np.minimum(marks, len(kw) - 1)].tolist() if len(kw) else [0.0] * len(DURATIONS)
        return {
            "model": self.model,
            "begin_s": float(self.times[0]),
            "end_s": float(self.times[-1]),
            "total_kwh": self.total_kwh,
            "parts_kwh": self.parts_kwh,
            "idle_kwh": self.idle_kwh,
            "jobs_kwh": self.jobs_kwh,
            "overhead_kwh": self.overhead_kwh,
            "peak_kw": self.peak_kw,
            "mean_kw": self.total_kwh / (seconds[-1] / 3600) if seconds[-1] > 0 else 0.0,
            "mean_pue": (it + cooling) / it if it > 0 else None,
            "facility_pue": self.total_kwh / it if it > 0 else None,
            "carbon_kg": self.carbon_kg,
            "cost": self.cost,
            "load_duration_kw": dict(zip(map(str, DURATIONS), curve, strict=True)),
            "notes": list(self.notes),
        }


def integrate(model: PowerModel, load: Load) -> Energy:
    """Integrate a power model over what ran; `priced` adds carbon and cost."""
    held, extra = job_watts(model, load)
    times, watts, owned = _steps(model, load, np.column_stack((extra, held.sum(axis=1))))
    begin, end = load.inside
    joules = (held.sum(axis=1) + extra[:, :HOST_PARTS].sum(axis=1)) * (end - begin)
    # losses, switches and cooling are divided by IT energy: the same factor for jobs and for idle hosts
    spent = np.diff(times) @ watts
    drawn = float(spent[:HOST_PARTS].sum() - model.switch_watts * (times[-1] - times[0]))
    factor = (float(spent.sum()) - float(spent[OVERHEAD])) / drawn if drawn > 0 else 0.0
    return Energy(model.name, times, watts, joules * factor / KWH, notes=_over(model, times, owned))


def _over(model: PowerModel, times: Floats, owned: Floats) -> tuple[str, ...]:
    """Return a note if jobs own more idle watts at some moment than there are: they hold more hosts than there are."""
    there = sum(group.hosts * group.idle for group in model.groups)
    over = owned > there * (1 + 1e-6) + 1e-6
    if not over.any():
        return ()
    hours = float(np.diff(times)[over].sum()) / 3600
    return (f"jobs hold more than the machine has during {hours:,.1f} h of the window; see 'tracekit check-schedule'",)


def priced(energy: Energy, carbon: Series | None, price: Series | None) -> Energy:
    """Return the energy with the integrals of carbon and price over its power; series in the times of the schedule."""
    found = [None if series is None else _weighed(energy, series) for series in (carbon, price)]
    return Energy(energy.model, energy.times, energy.watts, energy.job_kwh, found[0], found[1], energy.notes)


def _weighed(energy: Energy, series: Series) -> float:
    series.check_covers(float(energy.times[0]), float(energy.times[-1]))
    return float(energy.total_watts @ np.diff(series.integral(energy.times))) / KWH


def job_watts(model: PowerModel, load: Load) -> tuple[Floats, Floats]:
    """Return the idle watts that jobs hold, (jobs, 4), and the watts that they add while they run, (jobs, 5).

    The columns are host parts, and losses for what they add. A job holds the idle watts of a host by its share of the
    cores, or of the GPUs where the cores are not stated, and those of GPUs by GPU.
    """
    held, jobs = load.held, len(load.start)
    group = _columns(model)
    cores, gpus, of = held.cores, held.gpus, held.group
    with np.errstate(divide="ignore", invalid="ignore"):
        hosts = np.where(group["cores"][of] > 0, cores / group["cores"][of], gpus / group["gpus"][of])
    hosts = np.nan_to_num(hosts, nan=0.0, posinf=0.0)
    idle = group["idle"][of] * hosts[:, None]
    idle[:, GPU] = gpus * group["gpu_idle_watts"][of]
    busy = np.zeros_like(idle)
    busy[:, COMPUTE], busy[:, GPU] = cores * group["core_watts"][of], gpus * group["gpu_watts"][of]
    slowed = np.broadcast_to(np.asarray(load.frequency, float) ** model.frequency_exponent, (jobs,))
    added = busy * slowed[held.job][:, None]
    if load.mean_watts is not None:
        added = _measured(idle, busy, held.job, load.mean_watts, slowed, added)
    lost = added.sum(axis=1) * (1 / group["loss_efficiency"][of] - 1)
    by_entry = np.column_stack((added, lost))
    return _by_job(idle, held.job, jobs), _by_job(by_entry, held.job, jobs)


def _measured(idle: Floats, busy: Floats, job: Ints, mean: Floats, slowed: Floats, added: Floats) -> Floats:
    """Return added watts, (entries, 4), such that jobs with a measured mean draw it in all, divided as in the model."""
    whole = idle + busy
    of_idle, of_whole = (np.bincount(job, values.sum(axis=1), len(mean)) for values in (idle, whole))
    entries = np.bincount(job, minlength=len(mean))
    target = of_idle + (mean - of_idle) * slowed
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = whole * (target / of_whole)[job][:, None] - idle
    nothing = of_whole[job] == 0  # the model has no watts for it: compute
    scaled[nothing] = 0.0
    scaled[nothing, COMPUTE] = (target / np.maximum(entries, 1))[job][nothing]
    return np.where((mean >= 0)[job][:, None], scaled, added)


def _by_job(values: Floats, job: Ints, jobs: int) -> Floats:
    columns = [np.bincount(job, values[:, c], jobs) for c in range(values.shape[1])]
    return np.column_stack(columns) if columns else np.zeros((jobs, 0))


def _columns(model: PowerModel) -> dict[str, Floats]:
    """Return the fields of the groups as arrays: (groups,) each; ``idle`` without GPUs, (groups, 4)."""
    names = ("hosts", "cores", "gpus", "core_watts", "gpu_idle_watts", "gpu_watts", "loss_constant", "loss_efficiency")
    found = {name: np.array([float(getattr(g, name) or 0.0) for g in model.groups]) for name in names}
    return found | {"idle": np.array([_idle_parts(g) for g in model.groups])}


def _idle_parts(group: GroupPower) -> list[float]:
    """Return the idle watts of a host without its GPUs, by host part."""
    return [group.idle_watts + group.other_watts, 0.0, group.memory_watts, group.nic_watts]


def _always(model: PowerModel) -> Floats:
    """Return the watts of the machine without jobs, by part up to the losses, (5,)."""
    group = _columns(model)
    parts = group["idle"].copy()
    parts[:, GPU] = group["gpus"] * group["gpu_idle_watts"]
    watts = parts.sum(axis=1)
    lost = (watts + group["loss_constant"]) / group["loss_efficiency"] - watts
    found = group["hosts"] @ np.column_stack((parts, lost))
    found[NETWORK] += model.switch_watts
    return np.asarray(found)


def _state_watts(model: PowerModel, states: HostStates) -> Floats:
    """Return by how much the states of hosts change the watts of these hosts, (intervals, 5)."""
    change = []
    for group in model.groups:
        parts = np.array(_idle_parts(group))
        parts[GPU] = group.gpus * group.gpu_idle_watts
        asleep = group.sleep
        for watts in (asleep.sleep_watts, asleep.off_watts, asleep.on_watts) if asleep else (group.idle,) * 3:
            new = parts * (watts / group.idle) if group.idle > 0 else np.array([watts, 0.0, 0.0, 0.0])
            lost = (watts - group.idle) * (1 / group.loss_efficiency - 1)
            change.append([*(new - parts), lost])
    edges = np.cumsum([int(group.hosts) for group in model.groups])
    of = np.searchsorted(edges, states.host, side="right")
    return np.asarray(np.array(change)[of * 3 + states.state])


def _pue(model: PowerModel, it: Floats, times: Floats) -> Floats:
    """Return the PUE of every step, by what it depends on."""
    if model.pue.temperature is not None:
        return model.pue.of(model.pue.temperature.at(times[:-1]))
    return model.pue.of(it / model.full_it_watts if model.pue.by == "load" else it)


def _steps(model: PowerModel, load: Load, extra: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the moments at which power changes, the watts by part from each to the next, and idle watts of jobs.

    ``extra`` is what each job adds, by part up to the losses, and the idle watts that it owns: (jobs, 6).
    """
    begin, end = load.inside
    if load.states is not None and len(load.states):
        asleep = np.clip(load.states.begin, load.begin, load.until), np.clip(load.states.end, load.begin, load.until)
        begin, end = np.concatenate((begin, asleep[0])), np.concatenate((end, asleep[1]))
        extra = np.concatenate((extra, np.pad(_state_watts(model, load.states), ((0, 0), (0, 1)))))
    weather = model.pue.temperature
    fixed = np.array([load.begin, load.until])
    if weather is not None:
        weather.check_covers(load.begin, load.until)
        fixed = np.append(fixed, weather.times[(weather.times > load.begin) & (weather.times < load.until)])
    times, place = np.unique(np.concatenate((begin, end, fixed)), return_inverse=True)
    place = place[: 2 * len(begin)]
    changes = [
        np.bincount(place, np.concatenate((column, -column)), len(times)) for column in np.ascontiguousarray(extra.T)
    ]
    watts = np.zeros((len(times) - 1, len(PARTS)))
    level: Floats = np.cumsum(np.array(changes, np.float64), axis=1)[:, :-1].T
    watts[:, :COOLING] = _always(model) + level[:, :COOLING]
    it = watts.sum(axis=1)
    watts[:, COOLING] = it * (_pue(model, it, times) - 1.0)
    watts[:, OVERHEAD] = model.overhead_watts
    return times, watts, level[:, COOLING]
