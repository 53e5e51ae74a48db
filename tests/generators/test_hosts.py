"""Synthetic jobs fit the hosts of their machine, whatever the model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hosts_toys import CLUSTER, hosts_trace
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared_data import shared

import tracekit
from generators import MODELS
from generators import synth as library
from generators.encode import DefaultEncoding, Encoding, encoding_from_dict, learnable
from generators.hosts import never_placed, placeable
from generators.learned import TableModel
from generators.parts import Table
from generators.retime import scale_machine
from tracekit import Machine, Trace
from tracekit.errors import TracekitError

REQUESTS = ("req_procs", "req_gpus", "req_mem", "tasks", "gpu_type", "pool")
LEARNED = [name for name in MODELS.names() if issubclass(MODELS.get(name), TableModel)]
pytestmark = pytest.mark.usefixtures("tiny_budgets")


def made_by(name: str, real: Trace, n_jobs: int) -> Trace:
    if name in LEARNED:
        pytest.importorskip("torch")
        pytest.importorskip({"realtabformer": "realtabformer", "diffusion": "torch"}.get(name, "sdv"))
    return tracekit.synth(real, name, n_jobs, seed=1, budget="quick")


def requests(trace: Trace, names: tuple[str, ...] = REQUESTS) -> set[tuple[str, ...]]:
    return set(trace.jobs[list(names)].astype(str).itertuples(index=False, name=None))


# independent breaks combinations, see below; private releases the machine's size, not its hosts
@pytest.mark.parametrize("name", [name for name in MODELS.names() if name not in ("independent", "private")])
def test_jobs_of_every_model_fit_some_host(name: str) -> None:
    real = hosts_trace(impossible=True)
    assert sum(rows.sum() for rows in never_placed(real).values()) == 15
    made = made_by(name, real, 300)
    assert len(made) == 300
    assert never_placed(made) == {}
    assert made.machine.groups == CLUSTER.groups
    if name not in ("lublin", "eda"):  # make requests of their own
        names = REQUESTS[:-1] if name in LEARNED else REQUESTS  # a model of tables may choose another pool that fits
        assert requests(made, names) <= requests(placeable(real)[0], names), "no request that did not occur"


def test_independent_breaks_combinations_by_design_and_the_history_counts_them() -> None:
    made = tracekit.synth(hosts_trace(), "independent", seed=1)
    count = sum(int(rows.sum()) for rows in never_placed(made).values())
    assert count > 0
    assert any("can never be placed" in step and f"{count:,}" in step for step in made.history)


def test_lublin_names_what_it_does_not_make() -> None:
    fitted = library.fit(hosts_trace(), "lublin")
    assert any(all(column in note for column in ("req_mem", "tasks", "gpu_type", "pool")) for note in fitted.notes)


@pytest.mark.parametrize("name", ["sessions", "user-resample", "resample", "lublin"])
def test_jobs_of_openb_fit_its_nodes(name: str) -> None:
    real = tracekit.read(shared("alibaba/openb_pod_list_default.csv"))
    made = tracekit.synth(real, name, 2000, seed=1, load="none")
    assert never_placed(made) == {}
    if name != "lublin":
        assert (made.sizes("gpus") == 0).any(), "pods without GPUs are jobs of a cluster of hosts"
        assert set(made.sizes("gpus")) <= set(real.sizes("gpus"))


def random_table(encoding: Encoding, rows: int, rng: np.random.Generator) -> Table:
    return pd.DataFrame(
        {
            slot.name: rng.integers(0, slot.levels, rows) if slot.levels else rng.normal(0, 3, rows)
            for slot in encoding.slots
        }
    )


@pytest.mark.parametrize("levels", [512, 0])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
def test_any_table_decodes_to_jobs_that_fit(levels: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With memory among the sizes and with memory as a number of its own, however poor the model."""
    monkeypatch.setattr("generators.sizes.MAX_COMBINATIONS", levels)
    usable = learnable(hosts_trace(200, impossible=True))[0]
    encoding = DefaultEncoding.fit(usable)
    made = encoding.decode(random_table(encoding, 200, np.random.default_rng(seed)), seed=seed)
    assert never_placed(made) == {}
    assert set(made.jobs["pool"]) <= {"train", "infer"}


def test_any_table_of_openb_decodes_to_jobs_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("generators.sizes.MAX_COMBINATIONS", 0)
    real = learnable(tracekit.read(shared("alibaba/openb_pod_list_default.csv")))[0]
    encoding = DefaultEncoding.fit(real)
    assert never_placed(encoding.decode(random_table(encoding, 3000, np.random.default_rng(1)))) == {}


def test_requests_survive_the_encoding() -> None:
    real = learnable(hosts_trace())[0]
    encoding = DefaultEncoding.fit(real)
    kept = encoding_from_dict(json.loads(json.dumps(encoding.to_dict())))
    back = kept.decode(kept.encode(real))
    for name in REQUESTS:
        assert back.jobs[name].astype(str).tolist() == real.jobs[name].astype(str).tolist(), name
    assert back.machine.groups == CLUSTER.groups


def test_a_replaced_request_stays_in_its_pool() -> None:
    real = learnable(hosts_trace())[0]
    encoding = DefaultEncoding.fit(real)
    table = encoding.encode(real)
    table["size"] = table["size"].to_numpy()[::-1]
    made = encoding.decode(table)
    assert made.jobs["pool"].astype(str).tolist() == real.jobs["pool"].astype(str).tolist()
    assert never_placed(made) == {}


def test_jobs_without_gpus_are_learnt_on_hosts_only() -> None:
    real = hosts_trace()
    assert (learnable(real)[0].sizes("gpus") == 0).any()
    counted = real.replace(machine=CLUSTER.replace(groups=()))
    assert not (learnable(counted)[0].sizes("gpus") == 0).any()


def test_jobs_that_fit_nowhere_are_left_out_with_the_reason() -> None:
    usable, notes = learnable(hosts_trace(impossible=True))
    assert len(usable) == 585
    assert sum(int(note.split()[0]) for note in notes) == 15
    nowhere = hosts_trace().replace(machine=CLUSTER.replace(groups=(CLUSTER.groups[2],)))
    with pytest.raises(TracekitError, match="too few jobs"):
        learnable(nowhere.take(nowhere.jobs["pool"].to_numpy() == "train"))


def test_the_load_is_that_of_the_jobs_that_fit() -> None:
    """Jobs that no host can hold bring no load: the others must not be packed closer to make up for them."""
    real = hosts_trace(impossible=True)
    able = placeable(real)[0]
    made = tracekit.synth(real, "sessions", len(able), seed=1)
    assert able.offered_load() < 0.95 * real.offered_load()
    assert made.offered_load() == pytest.approx(able.offered_load(), rel=0.03)


def test_a_cluster_may_be_given() -> None:
    bare = hosts_trace(impossible=True)
    bare = bare.replace(machine=Machine(unit="gpus"))
    made = tracekit.synth(bare, "sessions", 200, seed=1, cluster=CLUSTER)
    assert made.machine.groups == CLUSTER.groups
    assert made.machine.gpus == 72
    assert never_placed(made) == {}
    assert tracekit.synth(bare, "sessions", 200, seed=1).machine.groups == ()


def test_hosts_are_kept_in_saved_models_and_files(tmp_path: Path) -> None:
    fitted = library.fit(hosts_trace(), "sessions")
    fitted.save(tmp_path / "model")
    made = library.make(library.load(tmp_path / "model"), 100, seed=1)
    tracekit.write(made, tmp_path / "made.parquet")
    back = tracekit.read(tmp_path / "made.parquet")
    assert back.machine.groups == CLUSTER.groups
    assert requests(back) == requests(made)


def test_privacy_replaces_whole_requests() -> None:
    real = hosts_trace()
    made = tracekit.synth(real, "sessions", 300, seed=1, privacy=3)
    assert requests(made) <= requests(real)
    assert never_placed(made) == {}


def test_shares_of_a_gpu_and_tasks_survive_another_machine() -> None:
    real = hosts_trace()
    made, factor = scale_machine(real, 192)
    assert factor == 0.5
    assert made.machine.groups == ()
    shares = real.sizes("gpus") < 1
    assert made.sizes("gpus")[shares].tolist() == real.sizes("gpus")[shares].tolist()
    gang = real.column("tasks") == 4
    assert set(made.column("tasks")[gang]) == {2.0}
    assert set(made.sizes("gpus")[gang]) == {16.0}


def test_many_different_requests_stay_bounded() -> None:
    """Memory that hardly ever repeats: learnt as a number, and a bounded list of real requests is kept."""
    real = hosts_trace(30_000)
    rng = np.random.default_rng(0)
    real = real.assign({"req_mem": real.column("req_mem") * rng.uniform(0.5, 1.0, len(real))})
    encoding = DefaultEncoding.fit(learnable(real)[0])
    part = next(part for part in encoding.parts if part.key == "requests")
    assert len(part.to_dict()["known"]) <= 20_000 + len(requests(real, ("gpu_type", "pool")))
    made = encoding.decode(random_table(encoding, 30_000, rng))
    assert never_placed(made) == {}
