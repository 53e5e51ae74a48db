"""The section on energy: what each trace draws on the same machine, under the same policy and power model."""

from __future__ import annotations

from dataclasses import replace

from evaluation.figures import energy as figures
from evaluation.figures.base import Scene
from evaluation.figures.schedules import QUEUE_JOBS
from evaluation.report.content import Content
from evaluation.report.gallery import Gallery, grid
from evaluation.report.markup import Cell, Html, joined, missing, paragraph, table
from tracekit.errors import TracekitError
from tracekit.sim.energy.integrate import Energy
from tracekit.sim.simulate import simulate
from tracekit.trace import Trace

_HEADS = ["trace", "mean kW", "peak kW", "kWh a day", "jobs", "idle", "kWh a job", "mean PUE", "mean kW against real"]


def energy_section(content: Content, scene: Scene, gallery: Gallery) -> Html:
    """Return the table and figures of the energy of all traces."""
    try:
        energies = {name: _energy(content, trace) for name, trace in _traces(content).items()}
    except TracekitError as reason:
        return missing("Energy", str(reason))
    said = (
        f"Power model {content.power}. The first {QUEUE_JOBS:,} jobs of each trace on the real machine, first come, "
        "first served with EASY backfilling, from the first submit to the last end; no host sleeps."
    )
    drawn = [
        gallery("Load-duration curves", "load duration", lambda: figures.load_durations(scene, energies)),
        gallery("Mean power by part", "energy by part", lambda: figures.parts(energies)),
    ]
    return joined([paragraph([said]), _table(energies), grid(*drawn)])


def _traces(content: Content) -> dict[str, Trace]:
    return {"real": content.real, **content.synthetic}


def _energy(content: Content, trace: Trace) -> Energy:
    """Return the energy of a trace's first jobs on the real machine, counted in its unit."""
    machine = content.real.machine.replace(groups=())
    result = simulate(replace(trace, machine=machine).head(QUEUE_JOBS), "fcfs", "easy", power=content.power)
    if result.energy is None:
        raise TracekitError("a trace has no job that can be simulated")
    return result.energy


def _table(energies: dict[str, Energy]) -> Html:
    rows = []
    first = None
    for name, energy in energies.items():
        facts = energy.to_dict()
        mean, total = facts["mean_kw"], energy.total_kwh
        first = mean if first is None else first
        per_job = energy.jobs_kwh / max(len(energy.job_kwh), 1)
        numbers = [mean, energy.peak_kw, mean * 24]
        shares = [energy.jobs_kwh / total, energy.idle_kwh / total] if total else [0.0, 0.0]
        cells = [Cell(name), *(Cell(f"{value:,.4g}", value) for value in numbers)]
        cells += [Cell(f"{share:.1%}", share) for share in shares]
        cells += [Cell(f"{per_job:,.4g}", per_job), Cell(f"{facts['mean_pue'] or 1:.3f}", facts["mean_pue"])]
        cells.append(Cell("–" if name == "real" or not first else f"{mean / first - 1:+.1%}"))
        rows.append(cells)
    return table("Energy of each trace; shares are of the total", _HEADS, rows, kind="keys")
