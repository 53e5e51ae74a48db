"""Import paths, agents and files of version 0.1.0 still work."""

import importlib
import sys

import pytest

import tracekit


def test_the_old_home_of_the_task_works_and_says_where_it_went():
    sys.modules.pop("tracekit.sim.pickjob", None)
    with pytest.warns(DeprecationWarning, match=r"tracekit\.sim\.tasks\.pick_job"):
        old = importlib.import_module("tracekit.sim.pickjob")
    batch = old.Batch(tracekit.sample().head(80), old.PickJob(), lanes=1)
    batch.reset([0], [(0, 40)])
    assert batch.count[0] >= 1


def test_paths_that_stay():
    from tracekit.sim.policies import POLICIES, Policy, State, find
    from tracekit.sim.switches import Switches

    assert find("fcfs").name == "fcfs"
    assert "sjf" in POLICIES
    assert Policy
    assert State
    assert Switches().commit is False
    pytest.importorskip("gymnasium")
    from tracekit.sim.env import ID, PickJobEnv, PickJobVectorEnv

    assert ID == "tracekit/PickJob-v0"
    assert PickJobEnv
    assert PickJobVectorEnv
