"""Predicted run times in the lanes of an environment: a predictor of `tracekit.sim.predict`, asked at every submit.

The history of each lane follows the lane's own schedule, as in a simulation: a job that still waits or runs there says
nothing about its run time, whatever the recorded schedule was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import UsageError
from tracekit.sim.compile import jit_merged
from tracekit.sim.engine.dependencies import Followers, no_followers
from tracekit.sim.engine.outages import Outages, no_outages
from tracekit.sim.engine.predictions import PREDICTION, Learned
from tracekit.sim.engine.profile import Profile, empty_profile
from tracekit.sim.engine.state import STOPPED, Dynamics
from tracekit.sim.policies.usage import UserAccounts, no_accounts
from tracekit.sim.predict.history import FEATURES, GROUP, GROUPS, OWN, USER, History
from tracekit.sim.predict.predictor import OUTPUTS, Predictor
from tracekit.sim.predict.trees import Forest
from tracekit.sim.tasks.pick_job.features import LARGEST

if TYPE_CHECKING:
    from tracekit.sim.tasks.pick_job.task import PickJob

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LanePredictions(NamedTuple):
    """What a predictor needs in L lanes of J jobs; an empty tuple stands for no predictor."""

    own: Floats  # (L, J, OWN) history, as in `History`
    member: Ints  # (L, J, GROUPS)
    group: NDArray[Any]  # (L, GROUPS · J) GROUP
    user: NDArray[Any]  # (L, J) USER
    predictions: NDArray[Any]  # (L, J) PREDICTION
    priority: Floats  # (L, J) of policy predicted-index
    shown: Floats  # (L, J, OUTPUTS) logarithms, from submit on
    row: Floats  # (L, FEATURES) scratch
    out: Floats  # (L, OUTPUTS) scratch
    forest: Forest
    use: Ints  # (5,) as in `Learned`
    form: Floats  # (4,)
    followers: Followers  # none, and so are the next ones
    outages: Outages
    stopped: NDArray[Any]
    accounts: UserAccounts
    profile: Profile


def lane_predictions(task: PickJob, predictor: Predictor | None, lanes: int, jobs: int) -> LanePredictions | tuple[()]:
    """Return the arrays of all lanes; an empty tuple where the task has no predictor."""
    if task.predict is None:
        return ()
    if predictor is None:
        raise UsageError(
            "this agent goes by predicted run times, which need the users' earlier jobs, and a single request does not "
            "have them; 'tracekit serve' keeps them (--history)"
        )
    forest = predictor.forest
    return LanePredictions(
        own=np.zeros((lanes, jobs, len(OWN))),
        member=np.zeros((lanes, jobs, len(GROUPS)), np.int64),
        group=np.zeros((lanes, len(GROUPS) * jobs), GROUP),
        user=np.zeros((lanes, jobs), USER),
        predictions=np.zeros((lanes, jobs), PREDICTION),
        priority=np.zeros((lanes, jobs)),
        shown=np.zeros((lanes, jobs, len(OUTPUTS))),
        row=np.zeros((lanes, len(FEATURES))),
        out=np.zeros((lanes, len(OUTPUTS))),
        forest=forest,
        use=predictor.outputs_in_use,
        form=np.array(predictor.index),
        followers=no_followers(),
        outages=no_outages(),
        stopped=np.zeros(0, STOPPED),
        accounts=no_accounts(),
        profile=empty_profile(1),
    )


def load_history(lanes: LanePredictions | tuple[()], lane: int, history: History | None) -> None:
    """Write what is known before an episode into a lane."""
    if not isinstance(lanes, LanePredictions) or history is None:
        return
    count = len(history.own)
    lanes.own[lane, :count], lanes.member[lane, :count] = history.own, history.member
    lanes.group[lane, : len(history.group)] = history.group
    lanes.user[lane, : len(history.user)] = history.user


# Numba leaves out what is behind ``len(seen) > 0`` for an empty tuple only where ``seen`` is an argument.


@jit_merged
def dynamics_of(seen: Any, lane: int) -> Any:
    """Return what changes on the way in a lane: its history and predictions; () where nothing is predicted."""
    if len(seen) > 0:
        history = History(seen.own[lane], seen.member[lane], seen.group[lane], seen.user[lane])
        learned = Learned(
            history,
            seen.forest,
            seen.use,
            seen.form,
            seen.row[lane],
            seen.out[lane],
            seen.priority[lane],
            seen.shown[lane],
        )
        return Dynamics(seen.followers, seen.outages, seen.predictions[lane], learned, seen.stopped, seen.accounts)
    return ()


@jit_merged
def profile_of(seen: Any) -> Any:
    """Return the profile that goes with `dynamics_of`: one without room, as there are no outages."""
    if len(seen) > 0:
        return seen.profile
    return ()


@jit_merged
def priority_of(seen: Any, lane: int, job: int) -> float:
    """Return the value of policy predicted-index for a job that has been submitted."""
    if len(seen) > 0:
        return float(seen.priority[lane, job])
    return 0.0


@jit_merged
def write_predicted(seen: Any, lanes: Any, lane: int, f: int, which: int, scale: float) -> None:
    """Write a prediction for each job on offer as feature ``f``, see `features.PREDICTED`."""
    if len(seen) > 0:
        for i in range(lanes.count[lane]):
            job = lanes.visible[lane, i]
            limit, size = seen.own[lane, job, 0], seen.own[lane, job, 1]
            if which < len(OUTPUTS):
                value = seen.shown[lane, job, which]
                if which == _WEIGHT:
                    value = -value
                elif not np.isnan(limit):
                    value = min(value, limit)
            elif which == len(OUTPUTS):
                value = seen.shown[lane, job, _EXPECTED]
                value = size + (value if np.isnan(limit) else min(value, limit))
            else:
                value = seen.priority[lane, job]
            lanes.features[lane, i, f] = min(max(value / scale, 0.0), LARGEST)


_EXPECTED, _WEIGHT = OUTPUTS.index("expected"), OUTPUTS.index("weight")
