"""A trained predictor of run times made ready for one simulation."""

from __future__ import annotations

import numpy as np

from tracekit.errors import TracekitError
from tracekit.sim.engine.predictions import Learned, nothing_learned
from tracekit.sim.jobs import Prepared
from tracekit.sim.predict.features import history_before
from tracekit.sim.predict.history import FEATURES
from tracekit.sim.predict.predictor import Predictor
from tracekit.sim.switches import Switches


def learned_for(ready: Prepared, switches: Switches) -> Learned:
    """Return the predictor that the switches name, and what is known before the first submit.

    Jobs of the trace that ended before it, by the recorded schedule, are known: a window has a past.
    """
    if switches.predict is None or not switches.predict.startswith("agent:"):
        return nothing_learned()
    table = ready.table
    if table.trace is None:
        raise TracekitError("predictions need the trace of the jobs")
    found = Predictor.load(switches.predict)
    size = table.trace.sizes(table.resource, switches.procs_from)
    forest = found.forest
    return Learned(
        history_before(table.trace, size, table.position, float(table.submit.min(initial=np.inf))),
        forest,
        found.outputs_in_use,
        np.array(found.index),
        np.zeros(len(FEATURES)),
        np.zeros(len(forest.base)),
        np.zeros(len(table)),
        np.zeros((0, 0)),
    )
