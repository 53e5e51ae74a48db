"""From a simulation, or a schedule of any tool, to its energy: machine, power model, what jobs held, window."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.clusters import cluster_of
from tracekit.errors import TracekitError, UsageError
from tracekit.machine import Machine, Unit
from tracekit.sim.energy import gat_drl
from tracekit.sim.energy.held import Held, held_by_size, held_on_hosts
from tracekit.sim.energy.integrate import Energy, Load, integrate, priced
from tracekit.sim.energy.model import PowerModel, check_power, power_of
from tracekit.sim.energy.series import parse_time, read_series
from tracekit.sim.energy.states import HostStates
from tracekit.sim.hosts.demand import CORES, demand_of, unit_of
from tracekit.sim.jobs import Table
from tracekit.sim.switches import Switches
from tracekit.trace import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Asked:
    """How the energy of a schedule is to be worked out."""

    power: str | None = None  # a preset or a TOML file; None = the power fields of the machine's groups
    carbon: str | None = None  # CSV files
    price: str | None = None
    until: str | None = None  # end of the window: seconds or a time stamp; None = the last end

    def check(self) -> None:
        """Read every file that is named, so that mistakes are found before any simulation."""
        if self.power is not None and not gat_drl.is_gat_drl(self.power):
            check_power(self.power)
        if self.carbon is not None:
            read_series(self.carbon, "carbon")
        if self.price is not None:
            read_series(self.price, "price")


@dataclass(frozen=True, eq=False)
class Ran:
    """When and where jobs ran; (jobs,) each."""

    submit: Floats
    start: Floats
    end: Floats
    held: Held
    mean_watts: Floats | None = None
    frequency: Floats | float = 1.0
    states: HostStates | None = None


def energy_of(
    table: Table,
    switches: Switches,
    start: Floats,
    end: Floats,
    hosts: Sequence[str] | None,
    states: HostStates | None = None,
    frequency: Floats | float = 1.0,
) -> Energy:
    """Return the energy of a simulated schedule of a table's jobs."""
    asked = Asked(switches.power, switches.carbon, switches.price, switches.energy_until)
    machine, model = simulated(table, switches.power)
    if table.demand is not None and hosts is not None:
        held = held_on_hosts(hosts, table.demand.cluster)
    else:
        held = held_by_size(table.procs, table.resource, model.groups[0])
    ran = Ran(table.submit, start, end, held, measured_watts(table), frequency, states)
    return account(machine, model, ran, asked)


def simulated(table: Table, power: str | None) -> tuple[Machine, PowerModel]:
    """Return the machine on which a table's jobs are simulated, and its power model."""
    counter = (table.trace.machine if table.trace is not None else Machine()).replace(groups=())
    machine = counter if table.demand is None else table.demand.cluster.replace(epoch=counter.epoch)
    return machine, model_of(machine, power, table.resource, table.total)


def energy_of_schedule(
    schedule: pd.DataFrame, trace: Trace, cluster: str | None, asked: Asked, rows: Ints | None = None
) -> Energy:
    """Return the energy of a schedule of any tool: job_id, start_time, end_time, procs, and hosts where it has them.

    ``rows`` are the jobs' rows in the trace; by default they are found by job_id.
    """
    rows = rows_of(schedule, trace) if rows is None else rows
    start, end = (schedule[name].to_numpy(np.float64) for name in ("start_time", "end_time"))
    if not (np.isfinite(start).all() and np.isfinite(end).all() and (end >= start).all()):
        raise TracekitError("the schedule has a job without start or end, or that ends before its start")
    submit = trace.column("submit_time")[rows]
    submit = np.where(np.isfinite(submit), submit, start)
    machine = trace.machine if cluster is None else cluster_of(cluster).replace(epoch=trace.machine.epoch)
    if cluster is None and "hosts" not in schedule.columns:
        machine = machine.replace(groups=())
    unit: Unit = trace.machine.unit if cluster is None else unit_of(trace, machine)
    model = model_of(machine, asked.power, unit, machine.size(unit))
    if machine.groups and "hosts" in schedule.columns:
        hosts = schedule["hosts"].fillna("").astype(str)
        nowhere = (hosts.str.strip() == "").to_numpy() & (end > start)
        if nowhere.any():
            job = schedule["job_id"].to_numpy()[nowhere][0]
            raise TracekitError(
                f"job {job} of the schedule ran, but its column hosts is empty, so its power is unknown "
                f"({int(nowhere.sum())} such jobs); fill it, or leave the column out where all hosts are alike"
            )
        held = held_on_hosts(hosts.tolist(), machine)
    elif not machine.groups:
        held = held_by_size(schedule["procs"].to_numpy(np.float64), unit, model.groups[0])
    elif len(machine.groups) == 1:
        demand = demand_of(trace, machine).take(rows)
        zeros = np.zeros(len(rows), np.int64)
        held = Held(np.arange(len(rows)), zeros, demand.need[:, CORES] / demand.scale, demand.gpus)
        if asked.power is not None and gat_drl.is_gat_drl(asked.power):
            system, size = gat_drl.system_of(asked.power, machine), schedule["procs"].to_numpy(np.float64)
            held = gat_drl.in_cores(held, system, size, trace.machine, machine)
    else:
        raise TracekitError(
            f"{machine.name} has {len(machine.groups)} groups of hosts, and the schedule has no column hosts that says "
            "where jobs ran; 'tracekit simulate --cluster' writes it"
        )
    return account(machine, model, Ran(submit, start, end, held, _measured(trace, rows)), asked)


def account(machine: Machine, model: PowerModel, ran: Ran, asked: Asked) -> Energy:
    """Return the energy of what ran, from the first submit to the last end, or to the end that is asked for."""
    if not len(ran.start):
        raise TracekitError("the schedule has no jobs, so there is no window to account for")
    begin, last = float(ran.submit.min()), float(ran.end.max())
    until = last if asked.until is None else parse_time(asked.until, machine.epoch)
    if until <= begin:
        raise UsageError(f"the window must end after the first submit at {begin:.10g}, not at {until:.10g} (--until)")
    load = Load(ran.start, ran.end, ran.held, begin, until, ran.mean_watts, ran.frequency, ran.states)
    if asked.power is not None and gat_drl.is_gat_drl(asked.power):
        made = gat_drl.integrate(gat_drl.gat_drl(gat_drl.system_of(asked.power, machine), model.groups), load)
    else:
        if model.pue.temperature is not None:
            weather = model.pue.temperature.in_trace_time(machine.epoch)
            model = dataclasses.replace(model, pue=dataclasses.replace(model.pue, temperature=weather))
        made = integrate(model, load)
    carbon = None if asked.carbon is None else read_series(asked.carbon, "carbon").in_trace_time(machine.epoch)
    price = None if asked.price is None else read_series(asked.price, "price").in_trace_time(machine.epoch)
    return priced(made, carbon, price)


def model_of(machine: Machine, power: str | None, unit: Unit, total: float | None) -> PowerModel:
    """Return the power model; for that of GAT-DRL the nodes, cores and GPUs of its system count."""
    if power is None or not gat_drl.is_gat_drl(power):
        return power_of(machine, power, unit=unit, total=total)
    system = gat_drl.system_of(power, machine)
    found = power_of(machine, system, unit=unit, total=total)
    if machine.groups or unit != "procs":
        return found
    return dataclasses.replace(found, groups=tuple(gat_drl.counted(system, group) for group in found.groups))


def users_of(energy: Energy, trace: Trace, rows: Ints) -> list[dict[str, Any]]:
    """Return jobs and energy of each user, the largest energy first; jobs without a user are those of ""."""
    code = trace.column("user")[rows]
    labels = [str(label) for label in trace.jobs["user"].cat.categories] if "user" in trace.jobs.columns else []
    jobs = np.bincount(code + 1, minlength=len(labels) + 1)
    kwh = np.bincount(code + 1, energy.job_kwh, len(labels) + 1)
    order = np.argsort(-kwh, kind="stable")
    return [
        {"user": ["", *labels][place], "jobs": int(jobs[place]), "energy_kwh": float(kwh[place])}
        for place in order.tolist()
        if jobs[place]
    ]


def measured_watts(table: Table) -> Floats | None:
    """Return the mean watts that were measured of a table's jobs, (jobs,), where its trace has them."""
    return None if table.trace is None else _measured(table.trace, table.position)


def _measured(trace: Trace, rows: Ints) -> Floats | None:
    """Return the mean watts that were measured of jobs, where the trace has them; impossible ones are an error."""
    if not trace.has("mean_watts"):
        return None
    watts = np.asarray(trace.column("mean_watts")[rows], np.float64)
    wrong = (watts < 0) | np.isinf(watts)
    if wrong.any():
        job = trace.column("job_id")[rows][wrong][0]
        raise TracekitError(
            f"job {job} has {watts[wrong][0]:g} mean_watts ({int(wrong.sum())} jobs below 0 or infinite in all); clean "
            "the trace first: tracekit clean IN OUT --rules unset-negative-watts,drop-infinite-values"
        )
    return watts


def recorded_schedule(trace: Trace) -> tuple[pd.DataFrame, Ints]:
    """Return the schedule that a trace recorded, and its rows: jobs with submit time, wait, run time and size."""
    submit, wait, run = (trace.column(name) for name in ("submit_time", "wait_time", "run_time"))
    size = trace.sizes()
    rows = np.flatnonzero(np.isfinite(submit + wait + run + size) & (wait >= 0) & (run >= 0) & (size > 0))
    if not len(rows):
        raise TracekitError(
            "the trace has no job with submit time, wait, run time and size; give a schedule with --schedule FILE.csv"
        )
    start = (submit + wait)[rows]
    columns = {"job_id": trace.column("job_id")[rows], "start_time": start, "end_time": start + run[rows]}
    return pd.DataFrame(columns | {"procs": size[rows]}), rows


def rows_of(schedule: pd.DataFrame, trace: Trace) -> Ints:
    """Return the row of each job of a schedule in its trace."""
    ids = trace.column("job_id")
    order = np.argsort(ids, kind="stable")
    wanted = schedule["job_id"].to_numpy().astype(np.int64)
    place = order[np.minimum(np.searchsorted(ids[order], wanted), max(len(ids) - 1, 0))] if len(ids) else wanted
    strange = np.ones(len(wanted), bool) if not len(ids) else ids[place] != wanted
    if strange.any():
        raise TracekitError(f"job {wanted[strange][0]} of the schedule is not in the trace")
    return np.asarray(place, np.int64)
