"""Training and evaluating predictors of run times: ``train --task predict-run-time``, and ``evaluate`` of these."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from tracekit.cli.app import console, print_json, say, table
from tracekit.errors import UsageError
from tracekit.sim.predict import TASK

if TYPE_CHECKING:
    from tracekit.trace import Trace

#: Options of train and evaluate that a predictor has a use for.
TRAINING = {"trace", "out", "task", "split", "overlap", "resource", "machine", "from_", "seed", "force", "json"}
EVALUATING = {"agent", "trace", "policy", "backfill", "resource", "machine", "from_", "json"}


def is_predictor(agent: str) -> bool:
    """Return whether a folder holds a predictor of run times."""
    from tracekit.sim.predict.predictor import facts_of

    return facts_of(agent) is not None


def check_options(task: str, typed: Collection[str], known: Collection[str]) -> None:
    """Refuse options that a task has no use for; ``typed`` are those that are not at their defaults."""
    for name in sorted(set(typed) - set(known)):
        raise UsageError(f"--{name.rstrip('_').replace('_', '-')}: not supported by task {task}")


def train_predictor(
    trace: Trace, out: str, *, source: dict[str, Any], share: float, seed: int, force: bool, json: bool
) -> None:
    """Train on the first share of a trace, in time, and print the errors on the rest."""
    import dataclasses

    from tracekit.readings import not_a_share
    from tracekit.sim.predict.evaluate import errors, fingerprint_of, split_of
    from tracekit.sim.predict.training import train, versions

    if not 0 < share <= 1:
        raise not_a_share("--split", share)
    first, rest = split_of(trace, share) if share < 1 else ((0, len(trace)), (0, 0))
    say(f"train: {len(trace.head(first[1])):,} jobs")
    made = train(trace.head(first[1]), seed=seed)
    found = errors(made, trace, rest) if rest[1] > rest[0] else {}
    learnt = {**source, "fingerprint": fingerprint_of(trace), "jobs": first[1]}
    facts = {"seed": seed, "trace": learnt, "metrics": {"errors": found}, "versions": versions()}
    dataclasses.replace(made, facts=made.facts | facts).save(out, force=force)
    if json:
        print_json({"agent": out, "task": TASK, "jobs": first[1], "errors": found})
        return
    say(f"{out}: trained on {first[1]:,} jobs")
    if found:
        _print_errors(found, f"{out}: error on the {rest[1] - rest[0]:,} later jobs")


def evaluate_predictor(
    agent: str, file: str, trace: Trace, policies: list[str], backfills: list[str], *, json: bool
) -> None:
    """Print the errors of a predictor on a trace, and the schedules by its predictions."""
    from tracekit.sim.predict.evaluate import errors, later_jobs, waits
    from tracekit.sim.predict.predictor import Predictor

    found = Predictor.load(agent)
    part, which = later_jobs(found, trace)
    missed = errors(found, trace, part)
    rows = waits(agent, trace, part, policies, backfills)
    if json:
        print_json({"agent": agent, "task": TASK, "trace": file, "which": which, "errors": missed, "waits": rows})
        return
    _print_errors(missed, f"{file}: error on {which}")
    titles = ["mean bsld", "mean wait (s)", "p95 bsld", "utilization"]
    made = table("policy", "backfill", "estimates", *titles, title="schedules of these jobs", right=titles)
    for row in rows:
        numbers = (row["mean_bsld"], row["mean_wait_s"], row["p95_bsld"], row["utilization"])
        made.add_row(row["policy"], row["backfill"], row["estimates"], *(f"{value:,.4g}" for value in numbers))
    console().print(made)


def _print_errors(found: dict[str, dict[str, float]], title: str) -> None:
    columns = ["error (ln s)", "bias (ln s)", "outlived"]
    made = table("prediction", *columns, title=title, right=columns)
    for name, row in sorted(found.items(), key=lambda item: item[1]["error"]):
        made.add_row(name, f"{row['error']:.3f}", f"{row['bias']:+.3f}", f"{row['outlived']:.1%}")
    console().print(made)
