"""Small traces for the simulator's tests."""

import math

import numpy as np
import pandas as pd

from tracekit.sim.analysis.check import violations
from tracekit.sim.jobs import Table, prepare
from tracekit.sim.policies.builtin import find
from tracekit.sim.setup import Setup
from tracekit.sim.simulate import outcome
from tracekit.sim.switches import MULTIFACTOR_DEFAULTS, Switches
from tracekit.trace import Machine, Trace

from . import reference


def trace_of(*jobs, procs, **columns):
    """Make a trace from (submit, run, limit, procs) tuples; a missing value is None."""
    table = pd.DataFrame(
        [[np.nan if v is None else float(v) for v in job] for job in jobs],
        columns=["submit_time", "run_time", "req_time", "req_procs"],
        dtype=float,
    )
    table.insert(0, "job_id", np.arange(1, len(jobs) + 1))
    return Trace(table.assign(**columns), Machine(procs=procs))


def table_of(submit, run, limit, procs, user, total):
    count = len(submit)
    as_float = [np.array(column, dtype=float).reshape(count) for column in (submit, run, limit, procs)]
    users = np.array(user, dtype=np.int64).reshape(count)
    return Table(
        np.arange(count),
        np.arange(1, count + 1),
        *as_float,
        np.full(count, np.nan),
        users,
        np.zeros(count),
        int(users.max(initial=-1)) + 1,
        "procs",
        total,
    )


def starts(ready, policy, backfill, switches: Switches, machine=None):
    """Return the engine's starts of prepared jobs."""
    return outcome(Setup(ready, backfill, switches, machine), find(policy)).start


def both(table, policy, backfill, switches: Switches):
    """Return the starts by the engine and by the reference, after checking that the engine's are possible."""
    switches = switches.resolved()
    ready = prepare(table, switches)
    kept = ready.table
    ours = starts(ready, policy, backfill, switches)
    wrong = violations(kept.job_id, kept.submit, ours, ours + ready.run, kept.procs, kept.total)
    assert not wrong, wrong
    return ours, np.array(by_reference(ready, policy, backfill, switches).start)


def by_reference(ready, policy, backfill, switches: Switches, hosts=None, headroom=math.inf, **more):
    """Return the reference's schedule of prepared jobs; ``more`` are lists previous and think, or watts."""
    kept = ready.table
    jobs = {
        "submit": kept.submit.tolist(),
        "run": ready.run.tolist(),
        "estimate": ready.estimate.tolist(),
        "procs": ready.units.tolist(),
        "user": kept.user.tolist(),
        "random": np.random.default_rng(switches.seed).permutation(len(kept)).tolist(),
    }
    rules = reference.Rules(
        total=kept.total,
        hosts=hosts,
        commit=switches.commit,
        arrivals_first=switches.ties == "arrivals",
        interval=switches.interval,
        reaction=switches.reaction,
        grouped=switches.group_ends,
        last_two=switches.estimates == "last-two",
        predict=switches.predict_for if switches.predict is not None else "",
        outages=switches.outages,
        announced=switches.outages_announced,
        outage_mode=switches.outage_mode,
        compat=switches.compat not in (None, "slurm"),
        options=MULTIFACTOR_DEFAULTS | dict(switches.options),
        headroom=headroom,
    )
    return reference.simulate(jobs | more, policy, backfill, rules)
