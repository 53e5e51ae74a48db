"""The power cap: what each job draws on top of the idle machine, and how much of that the cap allows at one time.

The cap is on the power of the facility, as ``peak_kw`` of the result is: idle hosts, jobs, losses, cooling, overhead.
Where PUE varies with the weather, the highest counts. Jobs that could run on several groups of hosts count as on the
one where they draw the most, so the cap holds wherever they run.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import TracekitError
from tracekit.sim.energy.account import measured_watts, simulated
from tracekit.sim.energy.held import Held, held_by_size
from tracekit.sim.energy.integrate import Load, job_watts
from tracekit.sim.energy.model import PowerModel
from tracekit.sim.hosts.demand import CORES
from tracekit.sim.jobs import Prepared, Table
from tracekit.sim.setup import Cap
from tracekit.sim.switches import Switches

Floats = NDArray[np.float64]
#: Why a job is rejected that draws more than the cap leaves to all jobs together.
ABOVE = "above the power cap"


def capped_jobs(ready: Prepared, switches: Switches) -> tuple[Prepared, Cap]:
    """Return the jobs that can run under the cap, the others rejected and counted, and what it leaves to them."""
    assert switches.power_cap is not None
    _, model = simulated(ready.table, switches.power)
    headroom = headroom_of(model, switches.power_cap)
    watts = added_watts(ready.table, model, switches.frequency)
    need, most = (np.ceil(np.round(watts * 1000, 3)).astype(np.int64), int(np.floor(np.round(headroom * 1000, 3))))
    rows = np.flatnonzero(need <= most)
    if len(rows) < len(need):
        rejected = ready.rejected | {ABOVE: len(need) - len(rows)}
        ready = replace(ready.take(rows), rejected=rejected)
    return ready, Cap(need[rows], most)


def headroom_of(model: PowerModel, cap: float) -> float:
    """Return the IT watts that jobs may add to the idle machine under a cap in kW."""
    idle = model.idle_it_watts
    allowed = _it_watts(model, cap * 1000 - model.overhead_watts)
    if allowed < idle:
        drawn = idle * float(model.pue.of(np.array([idle / model.full_it_watts]))[0]) + model.overhead_watts
        raise TracekitError(f"--power-cap {cap:g} kW is below the {drawn / 1000:.6g} kW that the idle machine draws")
    return allowed - idle


def _it_watts(model: PowerModel, facility: float) -> float:
    """Return the IT watts at which IT and cooling draw so many watts."""
    if model.pue.by == "load":  # IT × PUE(load) rises with the load
        low, high = 0.0, model.full_it_watts
        for _ in range(100):
            middle = (low + high) / 2
            drawn = middle * float(model.pue.of(np.array([middle / model.full_it_watts]))[0])
            low, high = (middle, high) if drawn <= facility else (low, middle)
        return low
    pue = model.pue.constant
    if model.pue.temperature is not None:
        pue = float(model.pue.of(model.pue.temperature.values).max())
    return facility / pue


def added_watts(table: Table, model: PowerModel, frequency: float) -> Floats:
    """Return the IT watts that each job adds while it runs, (jobs,); on hosts, of the group where it adds the most."""
    jobs = len(table)
    if table.demand is None:
        choices = [held_by_size(table.procs, table.resource, model.groups[0])]
    else:
        cores, gpus = table.demand.need[:, CORES] / table.demand.scale, table.demand.gpus
        choices = [Held(np.arange(jobs), np.full(jobs, g), cores, gpus) for g in range(len(model.groups))]
    now, measured = np.zeros(jobs), measured_watts(table)
    added = [job_watts(model, Load(now, now, held, 0.0, 0.0, measured, frequency))[1].sum(axis=1) for held in choices]
    return np.asarray(np.maximum(np.max(added, axis=0), 0.0))
