"""The EDA model: jobs of a chip-design cluster on heterogeneous hosts, by defaults or fitted to a trace.

After the generator of LoboShao/lsf_autohost; `generators.eda_model` draws, `generators.eda_fit` fits. The model has
no users and no daily cycle. `draw` makes a cluster and jobs from one seed, for environments and tests.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from generators.base import ModelInfo
from generators.common import check_count, made_machine, not_fitted, read_config, write_config
from generators.eda_fit import fit_jobs, fit_to_hosts
from generators.eda_model import (
    KINDS,
    Arrivals,
    Drawn,
    HostMenu,
    Jobs,
    draw_jobs,
    machine_of,
    whole_per_core,
    with_load,
)
from generators.hosts import REQUESTS, placeable
from tracekit.errors import FormatError, UsageError, loads
from tracekit.machine import Machine
from tracekit.schema import labels
from tracekit.trace import Trace

#: What the model of the defaults offers of the scarcer resource of its hosts.
DEFAULT_LOAD = 0.85
_SEED_LIMIT = 2**63


@dataclass(frozen=True)
class State:
    """All that is learnt; plain values."""

    machine: Machine
    jobs: Jobs
    arrivals: Arrivals
    first_submit: float = 0.0  # seconds since the machine's epoch
    fitted_to: int = 0  # jobs; 0 = defaults
    size_column: str = "req_procs"
    memory: bool = True  # make req_mem?
    history: tuple[str, ...] = ()


class EDA:
    """Jobs of a chip-design cluster: memory goes with cores, kinds compile, timing, synthesis, medium and large."""

    name: ClassVar[str] = "eda"
    info: ClassVar[ModelInfo] = ModelInfo(
        family="classic",
        summary="chip-design jobs on heterogeneous hosts: memory goes with cores; works without a trace",
        licence="Apache-2.0",
        paper="after the generator of LoboShao/lsf_autohost",
    )

    def __init__(self) -> None:
        self.state: State | None = None
        self.notes: list[str] = []

    @classmethod
    def from_defaults(
        cls, *, cluster: Machine | None = None, menu: HostMenu | None = None, load: float = DEFAULT_LOAD, seed: int = 0
    ) -> Self:
        """Return the model with its defaults, which needs no trace; without a cluster hosts are drawn from menus."""
        model = cls()
        machine = cluster or machine_of(*(menu or HostMenu()).draw(_hosts_rng(seed)))
        jobs = _within_hosts(Jobs(), machine)
        model.state = State(machine, jobs, with_load(jobs, Arrivals(), machine, load))
        return model

    def fit(self, trace: Trace, /, *, seed: int = 0) -> Self:
        """Estimate all parameters from a trace; its machine and clock are kept. ``seed`` has no effect."""
        usable, self.notes = placeable(trace)
        jobs, arrivals, used, notes = fit_jobs(usable)
        self.notes += notes
        column = {"procs": "req_procs", "nodes": "req_nodes", "gpus": "req_gpus"}[trace.machine.unit]
        lost = [name for name in REQUESTS if trace.has(name) and name not in (column, "req_mem")]
        if lost:
            self.notes.append(f"does not make {', '.join(lost)}; sizes are whole numbers from 1")
        first = float(used.column("submit_time")[0])
        self.state = State(
            trace.machine, jobs, arrivals, first, len(used), column, column == "req_procs", trace.history
        )
        return self

    def sample(self, n_jobs: int, /, *, seed: int = 0) -> Trace:
        """Make ``n_jobs`` jobs in whole seconds; a fitted model starts when the real trace did."""
        n_jobs = check_count(self.name, n_jobs)
        if self.state is None:
            raise not_fitted(self.name)
        state = self.state
        drawn = _fitting(draw_jobs(state.jobs, state.arrivals, n_jobs, np.random.default_rng(seed)), state.machine)
        note = self._note(state, seed)
        jobs = _table(drawn, state)
        return Trace(jobs, made_machine(state.machine, note), (*state.history, note))

    def _note(self, state: State, seed: int) -> str:
        of = f" of {state.machine.name}" if state.machine.name and state.fitted_to else ""
        how = f"fitted to {state.fitted_to} jobs{of}" if state.fitted_to else "default parameters"
        return f"MADE by tracekit, not recorded: model eda ({how}), seed {seed}"

    def save(self, folder: Path) -> None:
        """Write config.json."""
        if self.state is None:
            raise not_fitted(self.name)
        values = dataclasses.asdict(self.state)
        values["machine"] = self.state.machine.to_dict()
        write_config(folder, self.name, values)

    @classmethod
    @loads("a saved model")
    def load(cls, folder: Path) -> Self:
        """Read back what `save` wrote."""
        values, path = read_config(folder, cls.name), Path(folder) / "config.json"
        model = cls()
        try:
            model.state = State(
                machine=Machine.from_dict(values["machine"], origin=str(path)),
                jobs=Jobs(**{key: _tuples(value) for key, value in values["jobs"].items()}),
                arrivals=Arrivals(**values["arrivals"]),
                history=tuple(values["history"]),
                **{key: values[key] for key in ("first_submit", "fitted_to", "size_column", "memory")},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(path, f"not a saved eda model: {error!r}") from None
        return model


def draw(
    seed: int,
    jobs: int = 500,
    hosts: int = 20,
    *,
    load: float | None = DEFAULT_LOAD,
    menu: HostMenu | None = None,
    cluster: Machine | None = None,
    kind: Jobs | None = None,
    arrivals: Arrivals | None = None,
) -> tuple[Machine, Trace]:
    """Return a cluster of ``hosts`` hosts and ``jobs`` jobs on it; the same seed gives the same of both.

    Hosts are drawn from ``menu``, or are those of ``cluster``; jobs are of ``kind`` and arrive by ``arrivals``,
    stretched so that the scarcer of cores and memory is offered ``load`` of itself (None: as given).

    >>> machine, trace = draw(42, jobs=100, hosts=5)
    >>> machine.nodes, len(trace)
    (5, 100)
    """
    machine, drawn, state = _drawn(seed, jobs, hosts, load, menu, cluster, kind, arrivals)
    note = f"MADE by tracekit, not recorded: model eda (draw), seed {seed}"
    return machine, Trace(_table(drawn, state), made_machine(machine, note), (note,))


def draw_arrays(seed: int, jobs: int = 500, hosts: int = 20, **options: Any) -> tuple[Machine, Drawn]:
    """Return what `draw` returns, the jobs as plain arrays; takes the same options and is faster."""
    given = {"load": DEFAULT_LOAD, "menu": None, "cluster": None, "kind": None, "arrivals": None} | options
    return _drawn(seed, jobs, hosts, **given)[:2]


def _drawn(
    seed: int,
    jobs: int,
    hosts: int,
    load: float | None,
    menu: HostMenu | None,
    cluster: Machine | None,
    kind: Jobs | None,
    arrivals: Arrivals | None,
) -> tuple[Machine, Drawn, State]:
    if not 0 <= seed < _SEED_LIMIT:
        raise UsageError(f"the seed must be a whole number from 0, not {seed}")
    count = check_count("eda", jobs)
    menu = menu or HostMenu(count=hosts)
    machine = cluster or machine_of(*menu.draw(_hosts_rng(seed)))
    kind, arrivals = _within_hosts(kind or Jobs(), machine), arrivals or Arrivals()
    if load is not None:
        arrivals = with_load(kind, arrivals, machine, load)
    drawn = _fitting(draw_jobs(kind, arrivals, count, np.random.default_rng(seed)), machine)
    return machine, drawn, State(machine, kind, arrivals)


def _hosts_rng(seed: int) -> np.random.Generator:
    """Return the random numbers of hosts, apart from those of jobs."""
    return np.random.default_rng([seed, 1])


def _within_hosts(jobs: Jobs, machine: Machine) -> Jobs:
    """Return the kinds of jobs with ranges that hosts of the machine can hold."""
    cores = max((group.cores or 0 for group in machine.groups), default=0) or machine.procs or jobs.cores[-1]
    memory = max((group.memory or 0.0 for group in machine.groups), default=0.0) or jobs.memory[1]
    kept = [i for i, size in enumerate(jobs.cores) if size <= cores] or [0]
    shares = tuple(jobs.core_shares[i] for i in kept) if jobs.core_shares else ()
    low, high = jobs.memory
    sizes = tuple(min(jobs.cores[i], cores) for i in kept)
    return dataclasses.replace(jobs, cores=sizes, core_shares=shares, memory=(min(low, memory), min(high, memory)))


def _fitting(drawn: Drawn, machine: Machine) -> Drawn:
    memory, cores = fit_to_hosts(drawn.memory, drawn.cores, machine)
    return drawn._replace(memory=whole_per_core(memory, cores), cores=cores)


def _table(drawn: Drawn, state: State) -> pd.DataFrame:
    """Return the jobs as a table of a trace."""
    count = len(drawn.submit)
    columns: dict[str, Any] = {
        "job_id": np.arange(1, count + 1),
        "submit_time": drawn.submit + (state.first_submit - drawn.submit[0] if state.fitted_to else 0.0),
        "run_time": drawn.run,
        state.size_column: drawn.cores,
    }
    if np.isfinite(drawn.limit).any():
        columns["req_time"] = drawn.limit
    if state.memory:
        columns["req_mem"] = drawn.memory / drawn.cores
    columns["app"] = labels(pd.Series(np.array(KINDS, dtype=object)[drawn.kind]))
    return pd.DataFrame(columns)


def _tuples(value: Any) -> Any:
    """Return lists of JSON as tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
