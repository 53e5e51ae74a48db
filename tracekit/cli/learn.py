"""Command train: agents of every task."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tracekit.cli.app import Force, Json, Resource, Seed, Settings, app, console, print_json, say, search_here
from tracekit.cli.order_agents import train_order
from tracekit.cli.predict import TRAINING, check_options, train_predictor
from tracekit.cli.simulate import (
    Carbon,
    Cluster,
    From,
    MachineFile,
    Power,
    PowerCap,
    Price,
    Procs,
    SleepAfter,
    allocators_of,
    check_energy,
    load_trace,
)
from tracekit.errors import OutputError, UsageError
from tracekit.folders import check_folder
from tracekit.sim.predict import TASK as PREDICT_RUN_TIME

if TYPE_CHECKING:
    from tracekit.machine import Unit
    from tracekit.sim.agents import Agent, Config, Status
    from tracekit.trace import SizeFrom

Allocate = Annotated[
    str | None,
    typer.Option("--allocate", help="With --cluster: the allocator, or module:Class. [default: first-fit]"),
]
In = Annotated[
    str, typer.Argument(metavar="TRACE", help="Trace to read: any known format, plain or compressed; - is stdin.")
]


@app.command()
def train(
    trace: In,
    out: Annotated[str, typer.Option("--output", "-o", metavar="AGENT", help="Folder for the agent.")],
    task: Annotated[
        str,
        typer.Option(
            "--task",
            help="What the agent decides: pick-job, pick-host, pick-policy, order, predict-run-time, or module:Class.",
        ),
    ] = "pick-job",
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="FILE.toml", help="TOML file with training settings, or gat-drl."),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            help="bsld, slowdown, wait, response (jct), utilization, gpu-utilization, makespan, fair-mean or fair-max; "
            "with --power energy, carbon, cost or peak; weights: bsld:0.7,wait:0.3. [default: bsld; pick-host: wait]",
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option("--network", help="kernel, attention, mlp, hosts or gat. [default: kernel; pick-host: hosts]"),
    ] = None,
    edges: Annotated[
        str | None,
        typer.Option("--edges", help="gat: edges of the graph of jobs: user, project, time, free, machine; all, none."),
    ] = None,
    algorithm: Annotated[str | None, typer.Option("--algorithm", help="ppo, a2c or grpo. [default: ppo]")] = None,
    predict: Annotated[
        str | None,
        typer.Option(
            "--predict",
            metavar="PREDICTOR",
            help="Show predicted run times: agent:DIR (of predict-run-time), or auto: learnt from the training part.",
        ),
    ] = None,
    windows_from: Annotated[
        list[str] | None,
        typer.Option("--windows-from", metavar="TRACE", help="Draw training windows from this trace too; repeatable."),
    ] = None,
    policies: Annotated[
        str | None, typer.Option("--policies", help="pick-policy: policies to choose from, with commas.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Number of decisions to train on. [default: 500000]")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Jobs per window. [default: 256]")] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="Learning rate. [default: 0.001]")
    ] = None,
    backfill: Annotated[
        str | None,
        typer.Option(
            "--backfill",
            help="none, easy, easy-sjf or rlscheduler; pick-host: greedy or none. [default: easy; pick-host: greedy]",
        ),
    ] = None,
    commit: Annotated[bool, typer.Option("--commit", help="A picked job blocks others until it starts.")] = False,
    skip: Annotated[bool, typer.Option("--skip", help="The agent may also wait until the next event.")] = False,
    observer: Annotated[
        str,
        typer.Option(
            "--observer", help="Observation: default, informed (--predict), fair, hosts, rlscheduler …, or features."
        ),
    ] = "default",
    visible: Annotated[
        str,
        typer.Option(
            "--visible", help="Which jobs are observed if more than 128 wait: fcfs, sjf-smallest …; or classes."
        ),
    ] = "fcfs",
    reward: Annotated[
        str | None,
        typer.Option(
            "--reward",
            help="dense, final, or relative: (base - agent) / max(base, agent, 1) at the end of a window, with greedy "
            "allocation for the base policy; pick-host: terms with weights. [default: dense]",
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option("--base", help="Policy that rewards are measured against. [default: the best heuristic]"),
    ] = None,
    warm: Annotated[int, typer.Option("--warm", min=0, help="Warm-up jobs before each window.")] = 0,
    split: Annotated[
        float,
        typer.Option("--split", help="Share of the trace, in time, to train on; half of the rest is for validation."),
    ] = 0.7,
    overlap: Annotated[
        bool,
        typer.Option("--overlap", help="Train, validate and test on the whole trace; scores are then too optimistic."),
    ] = False,
    init: Annotated[
        str | None,
        typer.Option(
            "--init",
            help="Initial agent: imitate:f1 (a heuristic), imitate:best, imitate:chosen, imitate:search, "
            "imitate:predicted-index, search, or agent:DIR. With --predict the default is imitate:chosen.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted training.")] = False,
    estimates: Annotated[
        str, typer.Option("--estimates", help="Run time estimates: requested, actual, factor:F or noisy:SIGMA.")
    ] = "requested",
    procs_from: Annotated[str, typer.Option("--procs-from", help="Sizes: requested, allocated or max.")] = "requested",
    procs: Procs = None,
    resource: Resource = None,
    compat: Annotated[
        str | None, typer.Option("--compat", help="rlscheduler or rltune: use all definitions of that system.")
    ] = None,
    cluster: Cluster = None,
    allocate: Allocate = None,
    cycle: Annotated[
        float | None,
        typer.Option("--cycle", help="pick-host, pick-policy: seconds between cycles. [default: 0, at every event]"),
    ] = None,
    actions: Annotated[
        str | None, typer.Option("--actions", help="pick-host: host, or priorities of the hosts. [default: host]")
    ] = None,
    order: Annotated[
        str | None, typer.Option("--order", help="pick-host: order of the queue, a static policy. [default: fcfs]")
    ] = None,
    power: Power = None,
    carbon: Carbon = None,
    price: Price = None,
    sleep_after: SleepAfter = None,
    power_cap: PowerCap = None,
    frequency: Annotated[
        float | None, typer.Option("--frequency", help="Share of the highest frequency; jobs take longer, draw less.")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option("--labels", metavar="FILE", help="order: label set of order-labels. [default: it makes its own]"),
    ] = None,
    ages: Annotated[
        str | None, typer.Option("--ages", help="order: how long jobs have waited: real or ilos. [default: real]")
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write event files to AGENT/tensorboard.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads that simulate windows (default: one per core).")
    ] = None,
    machine: MachineFile = None,
    from_: From = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Train an agent (by default one that picks the next job) by reinforcement learning on windows of a trace.

    The agent with the best validation score is kept. An interrupted training continues with --resume and ends with the
    same bytes as an uninterrupted one.

    With predicted run times: `tracekit train sample.swf -o informed --predict auto`

    Example: `tracekit train sample.swf -o agent --steps 2000 --jobs 64 --init imitate:sjf --seed 1`
    """
    given = dict(locals())
    from tracekit.sim.agents import train as learn
    from tracekit.sim.switches import Switches
    from tracekit.sim.tasks.base import find_task

    if task == PREDICT_RUN_TIME:
        check_options(task, typed(train, given), TRAINING)
        check_folder(out, ("agent.json",), force=force)
        read = load_trace(trace, from_, machine, resource)
        share = 1.0 if overlap else split
        train_predictor(read, out, source=source_of(trace), share=share, seed=seed, force=force, json=json)
        return
    search_here([task])
    kind = find_task(task)
    if resume and force:
        raise UsageError("give either --resume (continue the existing training) or --force (replace it), not both")
    if kind.name == "order":
        _check_out(Path(out), resume=resume, force=force)
        with _going_on(Path(out)):
            report = None if Settings.quiet else progress_of_training()
            made = train_order(given, typed(train, given), source_of(trace), report)
        _tell(made, out, trace, json=json)
        return
    if labels is not None or ages is not None:
        raise UsageError(f"--{'labels' if labels else 'ages'}: only for --task order")
    jobs_read = load_trace(trace, from_, machine, resource)
    hosts: Any = cluster or (jobs_read.machine if kind.needs_hosts and jobs_read.machine.groups else None)
    settings = _settings(kind, config, network, predict).replace(
        network=network,
        algorithm=algorithm,
        steps=steps,
        jobs=jobs,
        learning_rate=learning_rate,
        threads=threads,
        base=base,
        dense=None if reward is None or kind.needs_hosts else reward == "dense",
    )
    levers = ["--sleep-after"] * (sleep_after is not None) + ["--power-cap"] * (power_cap is not None)
    check_energy(power, carbon, price, levers=levers)
    placing, by_switches = one_allocator(cluster, allocate), getattr(kind, "on_hosts", False)
    chosen = _task(
        kind,
        **_graph(kind, settings.network, _informed(kind, settings.network, observer, predict), edges),
        predict=predict,
        policies=policies,
        visible=visible,
        backfill=backfill,
        commit=commit,
        skip=skip,
        objective=objective,
        warm=warm,
        reward=reward if kind.needs_hosts else "relative" if reward == "relative" else _known_reward(reward),
        base=base,
        cluster=None if by_switches else hosts,
        allocate=None if cluster is None or kind.needs_hosts or by_switches else placing,
        cycle=cycle,
        actions=actions,
        order=order,
        switches=Switches(
            estimates=estimates,
            procs_from=cast("SizeFrom", procs_from),
            procs=procs,
            resource=cast("Unit | None", resource),
            compat=compat,
            cluster=None if kind.needs_hosts else cluster,
            allocate=placing,
            power=power,
            carbon=carbon,
            price=price,
            sleep_after=sleep_after,
            power_cap=power_cap,
            frequency=1.0 if frequency is None else frequency,
        ),
    )
    _check_out(Path(out), resume=resume, force=force)
    with _going_on(Path(out)):
        agent = learn(
            jobs_read,
            chosen,
            settings,
            out=out,
            seed=seed,
            init="imitate:chosen" if predict and init is None else init,
            share=split,
            overlap=overlap,
            resume=resume,
            force=force,
            source=source_of(trace),
            windows_from=[load_trace(other, from_, None, resource) for other in windows_from or ()],
            report=None if Settings.quiet else progress_of_training(),
            say=say,
            tensorboard=tensorboard,
        )
    _tell(agent, out, trace, json=json)


def typed(command: Callable[..., None], given: dict[str, Any]) -> set[str]:
    """Return the flags that are not at their defaults."""
    usual = inspect.signature(command).parameters
    return {name for name, value in given.items() if value != usual[name].default}


def _tell(agent: Agent, out: str, trace: str, *, json: bool) -> None:
    """Print how a training went."""
    metrics = agent.facts["metrics"]
    if json:
        print_json({"agent": out, "trace": trace, **metrics})
        return
    console().print(
        f"{out}: {metrics['objective']} {metrics['validation_score']:,.4g} on {metrics['validation_windows']} "
        f"validation windows; best heuristic there: {metrics['best_heuristic']} {metrics['best_heuristic_score']:,.4g}"
    )
    say(f"{metrics['steps']:,} decisions in {metrics['iterations']} iterations; best after {metrics['best_iteration']}")
    if metrics["note"]:
        console().print(metrics["note"])


def _graph(kind: Any, network: str, observer: str, edges: str | None) -> dict[str, Any]:
    """Return what a task shows of the graph of jobs: with network gat all edges, or those named."""
    if network != "gat":
        if edges is not None:
            raise UsageError("--edges: only network gat sees the graph of jobs; add --network gat")
        return {"observer": observer}
    if kind.name != "pick-job":
        return {"observer": observer, "edges": edges or "all"}
    if observer not in ("default", "graph", "hosts-graph"):
        raise UsageError(f"--observer {observer}: network gat has its own observer, graph")
    return {"observer": f"graph:{edges or 'all'}"}


def _settings(kind: Any, config: str | None, network: str | None, predict: str | None) -> Config:
    """Return the settings of a file or a preset; without one, those for agents that know predictions, or the usual."""
    from tracekit.sim.agents import Config

    if config is not None:
        return Config.load(config)
    if predict is not None and network in (None, "kernel"):
        return Config.load("informed")
    return Config(network=kind.network)


def _informed(kind: Any, network: str, observer: str, predict: str | None) -> str:
    """Return the observer: with predictions, default means the one that shows them."""
    if predict is None:
        return observer
    if "predict" not in getattr(kind, "__dataclass_fields__", {}):
        raise UsageError(f"--predict: not supported by task {kind.name}")
    if network == "gat":
        raise UsageError("--predict: network gat sees the graph of jobs, without predictions; use another network")
    return "informed" if observer == "default" else observer


def _known_reward(reward: str | None) -> str:
    """Return the task's reward: learning from costs at each decision or at the end is the same to the task."""
    from tracekit.errors import UnknownName
    from tracekit.sim.tasks.pick_job.task import REWARDS

    if reward is not None and reward not in REWARDS:
        raise UnknownName("reward", reward, REWARDS)
    return "final"


def one_allocator(cluster: str | None, allocate: str | None) -> str:
    """Return the one allocator of a task."""
    names = allocators_of(cluster, allocate)
    if len(names) > 1:
        raise UsageError(f"--allocate {allocate}: an agent is trained and evaluated with one allocator")
    return names[0]


def _task(kind: Any, **given: Any) -> Any:
    """Make a task from the flags; flags that the task does not have must be at their defaults."""
    import dataclasses

    from tracekit.sim.tasks.pick_job.task import PickJob

    known = {field.name for field in dataclasses.fields(kind)}
    usual = {field.name: field.default for field in dataclasses.fields(PickJob)}
    for name, value in given.items():
        if name not in known and value is not None and value != usual.get(name):
            raise UsageError(f"--{name.replace('_', '-')}: not supported by task {kind.name}")
    return kind(**{name: value for name, value in given.items() if name in known and value is not None})


@contextmanager
def _going_on(out: Path) -> Iterator[None]:
    """Print how to resume if the training is interrupted."""
    from tracekit.sim.agents.agent import CHECKPOINT

    try:
        yield
    except KeyboardInterrupt:
        if (out / CHECKPOINT).is_file():
            say(f"{out}: run the same command with --resume to continue")
        raise


def _check_out(out: Path, *, resume: bool, force: bool) -> None:
    """Raise OutputError before the trace is read."""
    from tracekit.sim.agents.agent import CHECKPOINT, FACTS

    if out.is_file():
        raise OutputError(f"{out}: is a file; an agent needs a folder")
    if not (resume or force):
        for name in (FACTS, CHECKPOINT):
            if (out / name).exists():
                raise OutputError(f"{out}: contains {name} already; use --resume to continue or --force to replace it")


def source_of(file: str) -> dict[str, Any]:
    """Return the origin of a trace, with a hash if it is a file."""
    import hashlib

    path = Path(file)
    if not path.is_file():
        return {"file": path.name}
    with path.open("rb") as data:
        return {"file": path.name, "sha256": hashlib.file_digest(data, "sha256").hexdigest()}


def progress_of_training() -> _Progress:
    """Return what shows the progress of a training on stderr."""
    return _Progress()


class _Progress:
    """Shows the progress of a training on stderr, with its score and that of the best heuristic."""

    def __init__(self) -> None:
        import sys
        import time

        from generators.progress import TimeLeft

        self._clock, self._out = time.monotonic, sys.stderr
        self._live = sys.stderr.isatty()
        self._said, self._left = self._clock(), TimeLeft()

    def __call__(self, status: Status) -> None:
        """Print the progress, unless it was printed a moment ago."""
        now, last = self._clock(), status.steps >= status.total
        left = self._left(status.steps, status.total, now)
        if not last and now - self._said < (1.0 if self._live else 10.0):
            return
        self._said = now
        text = (
            f"train: {min(status.steps, status.total):,} of {status.total:,} decisions, score {status.score:,.4g} "
            f"(best {status.best:,.4g}; {status.heuristic} {status.heuristic_score:,.4g}){left}"
        )
        end = "\n" if last or not self._live else ""
        self._out.write(f"\r{text:<110}{end}" if self._live else text + end)
        self._out.flush()
