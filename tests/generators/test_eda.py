"""Model eda: hosts from menus, memory that goes with cores, arrivals, fitting, and use without a trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hosts_toys import CLUSTER, hosts_trace

import tracekit
from generators.eda import EDA, draw, draw_arrays
from generators.eda_model import CORES_MENU, GB, KINDS, MEMORY_MENU, Arrivals, HostMenu, Jobs, draw_jobs
from generators.hosts import never_placed
from tracekit.cli import main
from tracekit.errors import TracekitError, UsageError


def test_hosts_come_from_the_menus_and_every_job_fits_one() -> None:
    for seed in range(5):
        machine, trace = draw(seed, jobs=300, hosts=12)
        assert machine.nodes == 12
        assert sum(group.count for group in machine.groups) == 12
        assert all(group.cores in CORES_MENU and 32 <= group.cores <= 128 for group in machine.groups)
        memory = [(group.memory or 0.0) / GB for group in machine.groups]
        assert all(int(size) in MEMORY_MENU and 128 <= size <= 512 for size in memory)
        assert never_placed(trace) == {}


def test_a_range_between_menu_entries_gives_its_middle() -> None:
    cores, memory = HostMenu(3, (9, 15), (33, 40)).draw(np.random.default_rng(0))
    assert set(cores) == {12}
    assert set(memory) == {36}


def test_the_same_seed_gives_the_same_hosts_and_jobs_and_others_differ() -> None:
    machine, trace = draw(7, jobs=50, hosts=4)
    again = draw(7, jobs=50, hosts=4)
    assert machine == again[0]
    assert trace.equals(again[1])
    other = draw(8, jobs=50, hosts=4)
    assert machine != other[0]
    assert not trace.jobs.equals(other[1].jobs)
    same, arrays = draw_arrays(7, jobs=50, hosts=4)
    assert same == machine
    assert (arrays.submit == trace.column("submit_time")).all()
    assert np.allclose(arrays.memory, trace.column("req_mem") * trace.column("req_procs"))


def test_memory_and_mix_are_those_of_the_kinds() -> None:
    drawn = draw_jobs(Jobs(), Arrivals(), 40_000, np.random.default_rng(3))
    low, high = Jobs().memory
    share = (drawn.memory - low) / (high - low)
    small = drawn.cores < 1 + 0.2 * 31
    counts = np.bincount(drawn.kind[small], minlength=5) / small.sum()
    assert np.allclose(counts[:3], (0.6, 0.25, 0.15), atol=0.02)
    assert set(drawn.kind[~small]) == {KINDS.index("medium"), KINDS.index("large")}
    for kind, (least, most) in enumerate(Jobs().bands):
        assert least - 0.01 <= share[drawn.kind == kind].min()
        assert share[drawn.kind == kind].max() <= most
    assert np.corrcoef(drawn.cores, drawn.memory)[0, 1] > 0.4
    assert (drawn.limit >= drawn.run).all()


@pytest.mark.parametrize(("skew", "mean"), [(1.0, 25.5), (2.0, 1 + 49 * 2 / 3)])
def test_arrivals_are_uniform_or_skewed(skew: float, mean: float) -> None:
    arrivals = Arrivals(every=1.0, most=50, skew=skew)
    times = arrivals.draw(200_000, np.random.default_rng(1))
    counts = np.bincount(times.astype(int))[:-1]
    assert counts.min() >= 1
    assert counts.max() == 50
    assert counts.mean() == pytest.approx(mean, rel=0.02)
    assert arrivals.mean() == pytest.approx(mean)


def test_the_load_is_the_one_asked_for() -> None:
    machine, drawn = draw_arrays(3, jobs=20_000, hosts=20, load=0.7)
    memory = sum(group.count * (group.memory or 0.0) for group in machine.groups)
    span = drawn.submit[-1]
    work = max((drawn.run * drawn.cores).sum() / machine.procs, (drawn.run * drawn.memory).sum() / memory)
    assert work / span == pytest.approx(0.7, rel=0.03)


def test_a_fit_keeps_sizes_memory_run_times_and_arrivals() -> None:
    _, real = draw(1, jobs=4000, hosts=30)
    made = EDA().fit(real).sample(4000, seed=2)
    for name in ("req_procs", "run_time", "req_time"):
        assert made.column(name).mean() == pytest.approx(real.column(name).mean(), rel=0.05), name
    amounts = [t.column("req_mem") * t.column("req_procs") for t in (real, made)]
    assert amounts[1].mean() == pytest.approx(amounts[0].mean(), rel=0.05)
    assert np.corrcoef(made.column("req_procs"), amounts[1])[0, 1] > 0.4
    spans = [np.ptp(t.column("submit_time")) for t in (real, made)]
    assert spans[1] == pytest.approx(spans[0], rel=0.1)


def test_jobs_fit_the_hosts_of_a_trace_with_gpus_and_pools() -> None:
    made = EDA().fit(hosts_trace(impossible=True)).sample(500, seed=1)
    assert made.machine.groups == CLUSTER.groups
    assert never_placed(made) == {}


def test_bad_values_are_refused() -> None:
    with pytest.raises(UsageError):
        draw(1, hosts=0)
    with pytest.raises(UsageError):
        draw(-1)
    with pytest.raises(UsageError):
        draw(1, load=0.0)
    with pytest.raises(TracekitError):
        EDA().fit(tracekit.sample().head(1))


def test_synth_without_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, cluster = tmp_path / "jobs.parquet", tmp_path / "cluster.toml"
    assert main(["synth", "--model", "eda", "--jobs", "200", "--seed", "3", "-o", str(made)]) == 0
    trace = tracekit.read(made)
    assert len(trace) == 200
    assert trace.machine.groups
    assert main(["cluster", "from", str(made), "-o", str(cluster)]) == 0
    again = tmp_path / "again.swf"
    assert main(["synth", "--model", "eda", "--jobs", "50", "--cluster", str(cluster), "-o", str(again)]) == 0
    assert main(["synth", "--model", "lublin", "--jobs", "50", "-o", str(tmp_path / "l.swf")]) == 2
    assert main(["synth", "--model", "lublin", "--jobs", "50", "--procs", "64", "-o", str(tmp_path / "l.swf")]) == 0
    assert main(["synth", "--model", "resample", "--jobs", "50", "-o", str(tmp_path / "r.swf")]) == 2
    assert main(["synth", "-o", str(tmp_path / "r.swf")]) == 2
    assert "eda" in capsys.readouterr().err
