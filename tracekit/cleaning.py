"""Cleaning by named rules. None is applied unless it is given; each has a description and counts the rows it changes.

A list of rules is a recipe: a small TOML file that gives two people the same trace from the same source. Some rules
take an argument after a colon: ``drop-jobs:user=374 and submit>=900 and submit<=1200``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tracekit.doctor import fixes
from tracekit.errors import FormatError, UnknownName, UsageError, loads
from tracekit.files import read_toml
from tracekit.schema import SIZE_COLUMNS
from tracekit.trace import Trace
from tracekit.validation import BY_CHECK, WHOLE_COLUMNS


@dataclass(frozen=True)
class Rule:
    """A named change to a trace; ``apply`` returns the new trace and the number of rows it changed or removed.

    A rule whose ``example`` is not empty needs an argument after a colon, and gets it as a second value. What a rule
    ``by_row`` does to a job depends on that job and the machine alone, so it also works on a part of the trace.
    """

    name: str
    meaning: str
    apply: Callable[..., tuple[Trace, int]]
    example: str = ""
    by_row: bool = False


def _drop(check_name: str) -> Rule:
    """Make the rule that removes every job found by a check."""
    check = BY_CHECK[check_name]

    def apply(trace: Trace) -> tuple[Trace, int]:
        found = check.find(trace)
        return (trace.take(~found), int(found.sum())) if found.any() else (trace, 0)

    by_row = check_name != "duplicate-ids"
    return Rule(f"drop-{check_name}", f"remove jobs where {check.meaning}", apply, by_row=by_row)


def _unset(check_name: str, columns: Sequence[str], meaning: str, bad: Callable[[np.ndarray], np.ndarray]) -> Rule:
    """Make the rule that makes invalid values of some columns unknown and keeps the job."""

    def apply(trace: Trace) -> tuple[Trace, int]:
        found = BY_CHECK[check_name].find(trace)
        present = [c for c in columns if c in trace.jobs.columns]
        changed = {c: trace.jobs[c].mask(bad(trace.column(c))) for c in present}
        return (trace.assign(changed), int(found.sum())) if found.any() else (trace, 0)

    return Rule(f"unset-{check_name}", meaning, apply, by_row=True)


def _sort(trace: Trace) -> tuple[Trace, int]:
    found = int(BY_CHECK["unsorted"].find(trace).sum())
    return (trace.take(trace.order()), found) if found else (trace, 0)


def _cap_run(trace: Trace) -> tuple[Trace, int]:
    found = BY_CHECK["run-beyond-limit"].find(trace)
    capped = np.where(found, trace.column("req_time"), trace.column("run_time"))
    return (trace.assign({"run_time": capped}), int(found.sum())) if found.any() else (trace, 0)


def _round_counts(trace: Trace) -> tuple[Trace, int]:
    found = BY_CHECK["fractional-counts"].find(trace)
    present = [c for c in WHOLE_COLUMNS if c in trace.jobs.columns]
    rounded = {c: np.ceil(trace.column(c)) for c in present}
    return (trace.assign(rounded), int(found.sum())) if found.any() else (trace, 0)


def _unset_watts(trace: Trace) -> tuple[Trace, int]:
    found = BY_CHECK["too-many-watts"].find(trace)
    kept = np.where(found, np.nan, trace.column("mean_watts"))
    return (trace.assign({"mean_watts": kept}), int(found.sum())) if found.any() else (trace, 0)


_RULES = (
    Rule("sort-by-submit", "sort the jobs by submit time, ties in file order", _sort),
    _drop("missing-submit-time"),
    _drop("negative-submit-time"),
    _drop("duplicate-ids"),
    _drop("missing-run-time"),
    _drop("negative-run-time"),
    _drop("zero-run-time"),
    _drop("missing-procs"),
    _drop("zero-procs"),
    Rule(
        "round-counts", "round fractional counts of processors and nodes up to whole ones", _round_counts, by_row=True
    ),
    _unset("negative-counts", SIZE_COLUMNS, "make negative counts unknown", lambda v: v < 0),
    _drop("larger-than-machine"),
    Rule("cap-run-at-limit", "end jobs that ran beyond their requested time at that limit", _cap_run, by_row=True),
    _drop("run-beyond-limit"),
    _unset("nonpositive-limit", ("req_time",), "make requested times of zero or below unknown", lambda v: v <= 0),
    _unset("negative-wait", ("wait_time",), "make waits below zero unknown", lambda v: v < 0),
    _unset("negative-memory", ("req_mem", "used_mem"), "make memory below zero unknown", lambda v: v < 0),
    _unset("negative-watts", ("mean_watts",), "make mean powers below zero unknown", lambda v: v < 0),
    Rule(
        "unset-too-many-watts", "make mean powers unknown that the job's nodes cannot draw", _unset_watts, by_row=True
    ),
    _unset(
        "cpu-bound-not-a-share",
        ("cpu_bound",),
        "make CPU-bound shares outside 0 to 1 unknown",
        lambda v: (v < 0) | (v > 1),
    ),
    _drop("cancelled-before-start"),
    Rule(
        "nodes-from-field-21",
        "take nodes from field 21 of SWF (frontier:excl:2500x112) and GPUs from field 19; processors are dropped",
        fixes.nodes_from_site_field,
    ),
    _drop("infinite-values"),
    Rule(
        "drop-jobs",
        "remove the jobs that match a filter: drop-jobs:user=374 and job>14968 and job<28553",
        fixes.drop_jobs,
        "drop-jobs:user=374 and job>14968 and job<28553",
        by_row=True,
    ),
    Rule("drop-flurries", "remove flurries: bursts of one user that dominate the log", fixes.drop_flurries),
    Rule(
        "drop-duplicated-blocks",
        "remove the second copy of blocks of records that occur twice",
        fixes.drop_duplicated_blocks,
    ),
    Rule("mend-jumps", "correct the clock where submit times jump back, and sort", fixes.mend_jumps),
    Rule(
        "shift-submits",
        "shift submit times by some seconds: shift-submits:-3600 where submit>=1000, and sort",
        fixes.shift_submits,
        "shift-submits:-3600 where submit>=1000",
    ),
    Rule(
        "cut-outages",
        "close gaps of a day or more: later submit times move earlier by whole weeks, or days",
        fixes.cut_outages,
    ),
    Rule(
        "set-machine",
        "correct the machine, not the jobs: set-machine:procs=128; also nodes, gpus, epoch",
        fixes.set_machine,
        "set-machine:procs=128",
        by_row=True,
    ),
    Rule("recount-header", "write the true number of jobs into MaxJobs and MaxRecords", fixes.recount_header),
    Rule(
        "convert-units",
        "convert a column from another unit: convert-units:run_time=minutes, req_mem=bytes, procs=nodes",
        fixes.convert_units,
        "convert-units:run_time=minutes",
        by_row=True,
    ),
)
RULES = {rule.name: rule for rule in _RULES}


def clean(trace: Trace, rules: Sequence[str]) -> tuple[Trace, dict[str, int]]:
    """Apply rules in the order given; return the trace and how many rows each rule changed or removed."""
    chosen = [(text, *parsed(text)) for text in rules]
    counts: dict[str, int] = {}
    for text, rule, arguments in chosen:
        trace, changed = rule.apply(trace, *arguments)
        counts[text] = counts.get(text, 0) + changed
    return trace.replace(step=step_of(counts)) if rules else trace, counts


def step_of(counts: dict[str, int]) -> str:
    """Return what goes into the history: the rules, and how many rows each changed or removed."""
    return "clean: " + ", ".join(f"{name} ({changed} rows)" for name, changed in counts.items())


def parsed(text: str) -> tuple[Rule, list[str]]:
    """Return the rule of ``name`` or ``name:argument``, and its argument if it takes one."""
    name, colon, argument = text.partition(":")
    if name not in RULES:
        raise UnknownName("cleaning rule", name, RULES)
    rule = RULES[name]
    if bool(rule.example) != bool(colon and argument.strip()):
        hint = f"needs an argument, such as {rule.example}" if rule.example else "takes no argument"
        raise UsageError(f"the rule {name} {hint}")
    return rule, [argument.strip()] if rule.example else []


@loads("a recipe")
def read_recipe(path: str | Path) -> list[str]:
    """Read the list of rules from a recipe file."""
    rules = read_toml(path).get("rules")
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise FormatError(path, 'a recipe needs a line such as rules = ["sort-by-submit"]')
    return rules


def recipe_text(counts: dict[str, int], *, source: str) -> str:
    """Return a recipe as TOML: the applied rules, with the number of changed rows as comments."""
    lines = [
        "# tracekit recipe: apply it with  tracekit clean IN OUT --recipe THIS",
        f"# made from {source}",
        "rules = [",
    ]
    quoted = {name: name.replace("\\", "\\\\").replace('"', '\\"') for name in counts}
    lines += [f'    "{quoted[name]}",  # {changed} rows' for name, changed in counts.items()]
    return "\n".join([*lines, "]", ""])
