"""``--compat rltune`` and ``reproduce rltune``: the numbers of RLTune's own code, and a plain restatement of it."""

import hashlib
import json
import random
import statistics

import numpy as np
import pytest
from shared_data import DATA, shared

import tracekit
from tests.sim import rltune_oracle as oracle
from tracekit.errors import UsageError
from tracekit.sim.analysis import reproduce_rltune as study
from tracekit.sim.hosts.rltune_demand import RLTuneStops
from tracekit.sim.policies.rltune import FORMULAS
