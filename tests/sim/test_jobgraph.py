"""The graph of jobs against a plain double loop, and goldens worked out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracekit
from tracekit.errors import UnknownName, UsageError
from tracekit.sim.snapshot import RunningJobs, Snapshot, WaitingJobs
from tracekit.sim.tasks.jobgraph import (
    KINDS,
    LINKS,
    NODE_FEATURES,
    edges_of,
    find_packed_edges,
    graph_room,
    job_graph,
    kinds_of,
    link_names,
    links_of,
)


def plain_edges(jobs, free, total, kinds, most):
    """The definition, by a double loop: jobs are (user, project, submit or None, size or 0)."""
    found = {}
    for i, (user, project, submit, size) in enumerate(jobs):
        for kind in kinds:
            candidates = []
            for j, (user2, project2, submit2, size2) in enumerate(jobs):
                if i == j:
                    continue
                near = None if submit is None or submit2 is None else abs(submit - submit2)
                early = (submit2 if submit2 is not None else -1, j)
                same = {"user": user >= 0 and user == user2, "project": project >= 0 and project == project2}
                if kind in ("user", "project", "time"):
                    if near is not None and same.get(kind, True):
                        # of equally near ones the earlier submit; of the same submit the nearer in the order of rows
                        earlier = (submit2, j) < (submit, i)
                        candidates.append(((near, not earlier, -j if earlier else j), j))
                else:
                    limit = free if kind == "free" else total
                    if 0 < size <= limit and 0 < size2 <= limit and size + size2 > limit:
                        candidates.append(((size2, *early), j))
            for _, j in sorted(candidates)[:most]:
                found.setdefault((j, i), set()).add(kind)
    return found


JOB = st.tuples(st.integers(-1, 2), st.integers(-1, 1), st.one_of(st.none(), st.integers(0, 5)), st.integers(0, 8))


@settings(max_examples=150, deadline=None)
@given(st.lists(JOB, max_size=12), st.integers(0, 8), st.sets(st.sampled_from(KINDS)), st.integers(1, 3))
def test_the_compiled_builder_equals_a_double_loop(jobs, free, kinds, most):
    user, project = (np.array([job[i] for job in jobs], np.int64) for i in range(2))
    submit = np.array([np.nan if job[2] is None else float(job[2]) for job in jobs])
    size = np.array([float(job[3]) for job in jobs])
    for kind in (np.float64, np.float32):
        links = links_of(user, project, submit, size, free, 8, sorted(kinds)).astype(kind)
        first, source, bits = edges_of(links, most)
        target = np.repeat(np.arange(len(jobs)), np.diff(first))
        ours = {
            (int(s), int(t)): {name for i, name in enumerate(KINDS) if (int(b) >> i) & 1}
            for s, t, b in zip(source, target, bits, strict=True)
        }
        assert len(ours) == len(source)  # no edge twice
        assert ours == plain_edges(jobs, free, 8, kinds, most)


def test_a_small_graph_worked_out_by_hand():
    """4 of 10 processors are free: a (3) and b (2) fit alone and not together; c (7) and d (4) never run together."""
    waiting = WaitingJobs(
        ["a", "b", "c", "d"],
        np.array([0.0, 10.0, 20.0, 100.0]),
        np.full(4, 3600.0),
        np.array([3.0, 2.0, 7.0, 4.0]),
        user=["u", "v", "u", None],
    )
    running = RunningJobs(["r"], np.array([50.0]), np.array([600.0]), np.array([6.0]), submit=np.array([30.0]),
                          user=["v"], project=["p"])  # fmt: skip
    graph = job_graph(Snapshot(200.0, 10, running, waiting), most=1)
    assert graph.of_kind("user").tolist() == [[2, 0], [4, 1], [0, 2], [1, 4]]
    assert graph.of_kind("project").tolist() == []
    assert graph.of_kind("time").tolist() == [[1, 0], [0, 1], [1, 2], [4, 3], [2, 4]]
    assert graph.of_kind("free").tolist() == [[1, 0], [0, 1], [1, 3]]
    assert graph.of_kind("machine").tolist() == [[3, 2], [2, 3]]
    assert np.diff(graph.first).max() <= len(KINDS)
    shown = dict(zip(NODE_FEATURES, graph.features[4], strict=True))
    assert (shown["waits"], shown["size"], shown["wait"], shown["capability"]) == (0, np.float32(0.6), 0, 1)
    assert shown["left"] == np.float32(450 / (450 + 3600))  # started at 50, asked for 600, now is 200
    assert len(job_graph(Snapshot(200.0, 10, running, waiting), edges="none").source) == 0


def test_the_graph_of_a_trace_is_sparse_and_the_same_every_time():
    snapshot = tracekit.Snapshot.from_trace(tracekit.sample(), 1_425_600)
    one, two = job_graph(snapshot), job_graph(tracekit.Snapshot.from_json(snapshot.to_json()))
    assert np.array_equal(one.edges, two.edges)
    assert np.array_equal(one.features, two.features)
    assert np.isfinite(one.features).all()
    assert {name for name in KINDS if len(one.of_kind(name))} >= {"user", "time", "free"}


def test_an_empty_machine_has_an_empty_graph():
    nothing = np.empty(0)
    empty = Snapshot(0.0, 4, RunningJobs([], nothing, nothing, nothing), WaitingJobs([], nothing, nothing, nothing))
    graph = job_graph(empty)
    assert len(graph) == 0
    assert graph.edges.shape == (0, 2)


def test_jobs_without_known_columns_have_no_edges_of_that_kind():
    snapshot = tracekit.Snapshot.from_trace(tracekit.sample(), 1_425_600)
    bare = dataclasses.replace(
        snapshot,
        waiting=dataclasses.replace(snapshot.waiting, user=None),
        running=dataclasses.replace(snapshot.running, user=None, submit=None),
    )
    graph = job_graph(bare)
    assert not len(graph.of_kind("user"))
    assert set(graph.of_kind("time").ravel()) <= set(range(len(bare.waiting)))


def test_packed_graphs_are_the_single_ones():
    rng = np.random.default_rng(1)
    count = np.array([5, 0, 1, 7])
    links = links_of(
        rng.integers(-1, 3, 13), rng.integers(-1, 2, 13), rng.integers(0, 9, 13).astype(float),
        rng.integers(0, 9, 13).astype(float), 6, 8,
    )  # fmt: skip
    first = np.cumsum(count) - count
    ends, source = np.zeros(14, np.int64), np.empty(5 * 4 * 13, np.int64)
    used = find_packed_edges(links, first, count, 4, graph_room(7), ends, source)
    assert used == ends[-1]
    for begin, size in zip(first, count, strict=True):
        alone = edges_of(links[begin : begin + size])
        assert np.array_equal(source[ends[begin] : ends[begin + size]], alone[1] + begin)


def test_kinds_are_names():
    assert kinds_of("none") == ()
    assert link_names("none") == ("link-none",) * len(LINKS)
    assert link_names("all", context=True) == LINKS
    assert link_names("all") == (*LINKS[:-1], "link-none")
    with pytest.raises(UnknownName, match="machine"):
        kinds_of("machin")
    with pytest.raises(UsageError, match="at least one"):
        edges_of(np.zeros((2, len(LINKS))), 0)
