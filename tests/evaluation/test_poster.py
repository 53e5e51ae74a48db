"""The published table (DIR-LAB/Gen-Parallel-Workloads, JSSPP 2024), to the printed digit."""

from __future__ import annotations

import numpy as np
import pytest
from shared_data import shared

import tracekit
from evaluation.base import Setting
from evaluation.poster import POSTER, as_pandas_reads
from evaluation.score import score
from evaluation.view import prepare

FOLDER = "gen-parallel-workloads"
# system, model: KS, corrMAD
PUBLISHED = {
    ("Theta", "gc"): (".189", ".070"),
    ("Theta", "cg"): (".185", ".226"),
    ("Theta", "ctgan"): (".214", ".213"),
    ("Theta", "tvae"): (".192", ".092"),
    ("Helios", "gc"): (".183", ".160"),
    ("Helios", "cg"): (".178", ".102"),
    ("Helios", "ctgan"): (".157", ".156"),
    ("Helios", "tvae"): (".115", ".069"),
}
REAL = {"Theta": (".446", ".342", ".393", ".563"), "Helios": (".572", ".565", ".277", ".530")}
NODES = {"gc": "1.00", "cg": ".689", "ctgan": ".952", "tvae": ".955"}


def printed(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".lstrip("0")


@pytest.fixture(scope="module", params=["Theta", "Helios"])
def published(request: pytest.FixtureRequest):
    system, low = request.param, request.param.lower()
    real = tracekit.read(shared(f"{FOLDER}/{system}/training_data/{low}_data_training.csv"))
    names = ["gc", "cg", "ctgan", "tvae", "gan"]
    synths = [tracekit.read(shared(f"{FOLDER}/{system}/generated_data/synthetic_data_{n}_{low}.csv")) for n in names]
    ours, *theirs = prepare(real, synths, ["real", *names])
    return system, {
        view.name: {
            key: found
            for metric in POSTER
            for key, found in metric()(ours, view, setting=Setting(), rng=np.random.default_rng(0)).items()
        }
        for view in theirs
    }


def test_the_table_comes_out_to_the_printed_digit(published) -> None:
    system, models = published
    for name in ("gc", "cg", "ctgan", "tvae"):
        scores = models[name]
        found = (printed(scores["ks.mean"].value), printed(scores["correlation.mad_pearson"].value))
        assert found == PUBLISHED[system, name]
        for key in ("acf1.interarrival", "acf1.run_time", "acf1.nodes"):
            assert abs(scores[key].value) <= 0.0215
        if system == "Theta":
            digits = len(NODES[name].partition(".")[2])
            assert printed(scores["poster.nodes_invalid"].value, digits) == NODES[name]


def test_the_real_trace_has_the_published_structure(published) -> None:
    system, models = published
    keys = ("acf1.interarrival", "acf1.run_time", "acf1.nodes", "user_repeat")
    assert tuple(printed(models["gc"][key].real) for key in keys) == REAL[system]


def test_a_constant_trace_has_no_correlation_and_says_so(published) -> None:
    gan = published[1]["gan"]
    assert np.isnan(gan["correlation.mad_pearson"].value)
    assert "constant in the synthetic trace" in gan["correlation.mad_pearson"].note
    assert gan["ks.mean"].value > 0.8


def test_the_preset_replaces_our_definitions() -> None:
    folder = shared(f"{FOLDER}/Theta")
    real = tracekit.read(folder / "training_data" / "theta_data_training.csv")
    synth = tracekit.read(folder / "generated_data" / "synthetic_data_tvae_theta.csv")
    how = {"families": ["marginal", "validity"], "baselines": False, "floor": False}
    theirs, ours = score(real, synth, preset="poster", **how), score(real, synth, quick=True, **how)
    assert printed(theirs["ks.mean"].value) == ".192"
    assert theirs["poster.ks"].value == theirs["ks.mean"].value != ours["ks.mean"].value
    assert theirs["ks.run_time"].value == ours["ks.run_time"].value
    assert printed(theirs["validity.nodes"].value) == ".955"


def test_numbers_as_pandas_reads_them() -> None:
    values = np.array([1.9999999999999998, 2.0, 3.5, np.nan, 7.0])
    read = as_pandas_reads(values)
    assert read[:3].tolist() == [2.0, 2.0, 3.5]
    assert np.isnan(read[3])
    assert as_pandas_reads(np.array([np.nan])).shape == (1,)


def test_numbers_that_pandas_2_read_inexactly() -> None:
    """Pairs of what was written and what pandas 2.3.3 made of it."""
    pairs = np.array(
        [
            (1.9999999999999998, 2.0),
            (5.118216247002567e-11, 5.1182162470025665e-11),
            (0.07785803681279121, 0.0778580368127912),
            (239494738947509.72, 239494738947509.7),
            (5.999954554972668e-301, 5.9999545549726675e-301),
            (-0.5, -0.5),
        ]
    )
    np.testing.assert_array_equal(as_pandas_reads(pairs[:, 0]), pairs[:, 1])
