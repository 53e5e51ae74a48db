"""RLTune's seven features against its own observations, and both sets by hand and against the ways in Python."""

import json
import random

import numpy as np
import pytest
from shared_data import DATA, shared

from tracekit.sim.hosts import rltune_features as of
from tracekit.sim.hosts.ways import ways

HELIOS = (6, 4, 3, 2, 2)


def observations():
    path = DATA.parent / "checks" / "rltune_baselines.json"
    return json.loads(path.read_text())["observations"] if path.is_file() else []


def cluster(hosts_by_pool, gpus_by_pool):
    pool = np.repeat(np.arange(len(hosts_by_pool)), hosts_by_pool)
    return pool, np.array(gpus_by_pool)[pool]


@pytest.mark.skipif(not observations(), reason="the checks of published systems are not here")
def test_features_as_coded_are_those_of_rltune():
    text = shared("rltune/synthetic_trace.csv").read_text()
    rows = {row[0]: row for row in (line.split(",") for line in text.splitlines())}
    pool, size = cluster(HELIOS, [8] * 5)
    for seen in observations():
        free = np.zeros(len(pool), np.int64)
        for p, nodes in enumerate(seen["free"]):
            for node, left in nodes:
                free[np.flatnonzero(pool == p)[node - 1]] = left
        jobs = [rows[row[0]] for row in seen["queue"]]
        vc = np.array([int(job[18]) for job in jobs])
        wait = np.array([seen["time"] - float(job[1]) for job in jobs])
        gpus = np.array([int(job[4]) for job in jobs])
        found = of.features(of.Cluster(free, pool, size), of.Waiting(wait, gpus, vc, vc), of.OWN_POOL)
        np.testing.assert_allclose(found, [row[1:] for row in seen["queue"]], rtol=0, atol=1e-12)


def one(free, gpus, home=0, kind=of.CORRECTED, sizes=(8,), hosts=None):
    pool, size = cluster(hosts or (len(free),), sizes)
    asked = of.Waiting(np.array([3600.0]), np.array([gpus]), np.array([home]), np.array([0]))
    return dict(zip(of.NAMES, of.features(of.Cluster(np.array(free), pool, size), asked, kind)[0], strict=True))


def test_tier_2_counts_in_the_corrected_set_only():
    assert one([4, 4], 8, kind=of.OWN_POOL)["ways"] == 1e-5
    assert one([4, 4], 8)["ways"] == pytest.approx(1 / 3)
    assert one([4, 4], 8)["start"] == 0.5


def test_fragmentation_counts_full_hosts_in_the_corrected_set_only():
    assert one([0, 4], 1, kind=of.OWN_POOL)["fragmentation"] == 1.0
    assert one([0, 4], 1)["fragmentation"] == 0.5


def test_any_pool_counts_where_a_job_may_use_any():
    free = {"free": [2, 2, 8], "hosts": (2, 1), "sizes": (2, 8)}
    assert one(**free, gpus=4, home=-1)["ways"] == pytest.approx(2 / 3)  # two hosts of two, or one of eight
    assert one(**free, gpus=4, home=0)["ways"] == pytest.approx(1 / 3)
    assert one(**free, gpus=4, kind=of.ALL_POOLS)["ways"] == pytest.approx(2 / 3)
    assert one(**free, gpus=5, kind=of.ALL_POOLS)["ways"] == pytest.approx(1 / 3)
    assert one(**free, gpus=6, home=-1)["start"] == 1.0


def test_a_job_without_gpus_has_no_way():
    assert one([8], 0)["start"] == 0.0
    assert one([8], 0, kind=of.OWN_POOL)["start"] == 1e-5


@pytest.mark.parametrize("seed", range(60))
def test_numbers_of_ways_are_those_of_the_definition(seed):
    draw = random.Random(seed)
    most, hosts = draw.choice([2, 3, 4, 8]), draw.randint(1, 6)
    free = [draw.randint(0, most) for _ in range(hosts)]
    gpus = draw.randint(1, most * 3)
    here = [(h, left) for h, left in enumerate(free) if left]
    found = ways(here, gpus, most) if here else None
    expected = (min(len(found.tier1), 2) + min(len(found.tier2), 1)) / 3 if found else 0.0
    assert one(free, gpus, sizes=(most,))["ways"] == pytest.approx(expected)
