"""`ctgan`, `tvae`, `copulagan`, `gaussian-copula`: the models of SDV 2 behind our interface.

SDV is licensed under BUSL-1.1 and stays an optional install. Three of its habits are dealt with here: fitting draws
from the global generators (they are seeded, and put back), sampling always starts from the same fixed seed (it is
given ours), and saved models are pickles, which run code when loaded (they are only loaded when trusted).
"""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from generators.base import ModelInfo
from generators.learned import Budget, TableModel, raked, require
from generators.parts import Slot, Table
from generators.progress import Stop
from generators.quantile import Quantiles, codes_to_normal, normal_to_codes
from generators.seeding import seeded, torch_seed

LICENCE = "BUSL-1.1 (SDV: not for offering synthetic data as a commercial service)"
TRUST = "its weights are a Python pickle (SDV's own format), which can run any code when it is loaded"
#: How many made rows the calibration looks at.
CALIBRATION_ROWS = 20_000
#: How many rows are made for each that is wanted, to choose among.
SPARE = 3


class SDVModel(TableModel):
    """What the four have in common. ``effort`` gives, by budget, rows to learn in all and the most epochs."""

    synthesizer: ClassVar[str]
    effort: ClassVar[dict[Budget, tuple[int, int]]] = {}
    most_rows: ClassVar[int] = 100_000
    #: Whether labels are given to the library as categories, or as numbers like everything else.
    categories: ClassVar[bool] = True

    def _options(self, rows: int) -> dict[str, Any]:
        """Return what the library's class is made with."""
        total, most = self.effort[self.budget]
        return {"epochs": int(min(max(total // rows, 1), most)), "enable_gpu": False, "verbose": False}

    def _fit_table(self, table: Table, slots: list[Slot], seed: int, stop: Stop) -> None:
        require("sdv", "torch")
        with quiet():
            from sdv import single_table
            from sdv.metadata import Metadata

        self._slots, self._calibration = slots, {}
        rows = self._to_library(table, seed)
        columns = {s.name: {"sdtype": "categorical" if self._is_category(s) else "numerical"} for s in slots}
        with quiet(), seeded(seed, "fit"), watched(self.progress, stop):
            metadata = Metadata.load_from_dict({"tables": {"jobs": {"columns": columns}}, "relationships": []})
            self._model = getattr(single_table, self.synthesizer)(metadata, **self._options(len(rows)))
            self._model.fit({"jobs": rows})
        self._colour = np.eye(len(self._numbers()))
        if self.encoding_name == "default":
            self._calibrate(rows, seed)

    def _numbers(self) -> list[str]:
        return [slot.name for slot in self._slots if not self._is_category(slot)]

    def _calibrate(self, rows: Table, seed: int) -> None:
        """Compare made rows with the learnt ones, and remember how to bring them in line.

        Each number gets the scale on which it is normal again. Then the numbers' correlations: made ones are whitened
        and given the real ones (after Iman and Conover, 1982), which leaves whatever else ties them together.
        """
        names = self._numbers()
        made = self._chosen(max(min(2 * len(rows), CALIBRATION_ROWS), 2_000), seed, "calibrate")
        self._calibration = {name: Quantiles.fit(made[name].to_numpy(dtype=np.float64), grain=0.0) for name in names}
        rng = np.random.default_rng([seed, 0x7])
        normal = np.column_stack([self._calibration[name].to_normal(made[name].to_numpy(), rng) for name in names])
        real, ours = (_root(np.atleast_2d(np.corrcoef(x, rowvar=False))) for x in (rows[names].to_numpy(), normal))
        self._colour = np.linalg.solve(ours, real).astype(np.float64)

    def _chosen(self, n_rows: int, seed: int, purpose: str) -> Table:
        """Make more rows than are wanted and choose among them so that labels are as common as they really are."""
        made = self._draw(SPARE * n_rows, seed, purpose).reset_index(drop=True)
        for slot in self._slots:
            made[slot.name] = pd.to_numeric(made[slot.name])
        labels = [(made[s.name].to_numpy(dtype=np.int64), s.shares) for s in self._slots if self._is_category(s)]
        rows = raked(labels, len(made), n_rows, np.random.default_rng([seed, 0x8]))
        return made.iloc[rows].reset_index(drop=True)

    def _is_category(self, slot: Slot) -> bool:
        return slot.kind == "category" and self.categories

    def _to_library(self, table: Table, seed: int) -> Table:
        """Return the table as the library is to see it: labels as text, ordered levels as normal numbers."""
        rng = np.random.default_rng([seed, 0x5])
        columns: dict[str, Any] = {}
        for slot in self._slots:
            values = table[slot.name].to_numpy()
            if self._is_category(slot):
                columns[slot.name] = self._labels_to_library(values)
            elif slot.levels and self.encoding_name == "default":
                columns[slot.name] = codes_to_normal(values.astype(np.int64), slot.shares, rng)
            else:
                columns[slot.name] = values.astype(np.float64)
        return pd.DataFrame(columns)

    def _labels_to_library(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return labels as the library takes them: as text."""
        return codes.astype(np.int64).astype(str).astype(object)

    def _bytes_per_row(self, slots: list[Slot]) -> float:
        return 24.0 * sum(12 + slot.levels * self._is_category(slot) for slot in slots)  # one number for each label

    def _draw(self, n_rows: int, seed: int, purpose: str) -> Table:
        """Sample from the library with our seed instead of its fixed one."""
        with quiet(), seeded(seed, purpose):
            self._model.reset_sampling()
            self._model._set_random_state(torch_seed(seed, purpose) % 2**32)
            made: Table = self._model.sample(n_rows)["jobs"]
        return made

    def _sample_table(self, n_rows: int, seed: int, fixed: Mapping[str, list[int]]) -> Table:
        require("sdv", "torch")
        if self.encoding_name == "raw":
            made = self._draw(n_rows, seed, "sample").reset_index(drop=True)
            return pd.DataFrame({slot.name: pd.to_numeric(made[slot.name]).astype(np.float64) for slot in self._slots})
        made = self._chosen(n_rows, seed, "sample")
        rng = np.random.default_rng([seed, 0x6])
        names = self._numbers()
        normal = np.column_stack([self._calibration[name].to_normal(made[name].to_numpy(), rng) for name in names])
        coloured = dict(zip(names, (normal @ self._colour).T, strict=True))
        columns: dict[str, Any] = {}
        for slot in self._slots:
            values = coloured.get(slot.name, made[slot.name].to_numpy(dtype=np.float64))
            if slot.levels and not self._is_category(slot):
                values = normal_to_codes(values, slot.shares).astype(np.float64)
            columns[slot.name] = values
        return pd.DataFrame(columns)

    def _save_weights(self, folder: Path) -> None:
        with quiet():
            self._model.save(str(folder / "synthesizer.pkl"))
        scales = {name: scale.to_dict() for name, scale in self._calibration.items()}
        _write_json(folder / "calibration.json", {"scales": scales, "colour": self._colour.tolist()})

    def _load_weights(self, folder: Path) -> None:
        require("sdv", "torch")
        with quiet():
            from sdv.utils import load_synthesizer

            self._model = load_synthesizer(str(folder / "synthesizer.pkl"))
        plain = _read_json(folder / "calibration.json")
        self._calibration = {name: Quantiles.from_dict(scale) for name, scale in plain["scales"].items()}
        self._colour = np.array(plain["colour"])
        assert self._encoding is not None  # set by load
        self._slots = self._encoding.slots

    _model: Any
    _slots: list[Slot]
    _calibration: Mapping[str, Quantiles] = MappingProxyType({})
    _colour: NDArray[np.float64] = np.eye(0)


class CTGAN(SDVModel):
    """Conditional tabular GAN."""

    name = "ctgan"
    how = "CTGAN of SDV"
    synthesizer = "CTGANSynthesizer"
    effort: ClassVar[dict[Budget, tuple[int, int]]] = {
        "quick": (300_000, 60),
        "normal": (1_500_000, 150),
        "thorough": (9_000_000, 900),
    }
    info = ModelInfo(
        family="gan",
        summary="conditional GAN with mode-specific normalisation (SDV)",
        licence=LICENCE,
        extra="synth",
        paper="Xu et al., Modeling tabular data using conditional GAN, NeurIPS 2019",
        minutes=5.0,
        trust=TRUST,
    )


class CopulaGAN(SDVModel):
    """CTGAN on columns made normal by a copula's marginals."""

    name = "copulagan"
    how = "CopulaGAN of SDV"
    synthesizer = "CopulaGANSynthesizer"
    effort = CTGAN.effort
    info = ModelInfo(
        family="gan",
        summary="CTGAN on columns that fitted marginals made normal (SDV)",
        licence=LICENCE,
        extra="synth",
        paper="SDV; after Xu et al., NeurIPS 2019, and Patki et al., The Synthetic Data Vault, DSAA 2016",
        minutes=5.0,
        trust=TRUST,
    )


class TVAE(SDVModel):
    """Variational autoencoder for tables."""

    name = "tvae"
    how = "TVAE of SDV"
    synthesizer = "TVAESynthesizer"
    effort: ClassVar[dict[Budget, tuple[int, int]]] = {
        "quick": (2_000_000, 100),
        "normal": (8_000_000, 300),
        "thorough": (50_000_000, 1_500),
    }
    info = ModelInfo(
        family="vae",
        summary="variational autoencoder for tables (SDV)",
        licence=LICENCE,
        extra="synth",
        paper="Xu et al., Modeling tabular data using conditional GAN, NeurIPS 2019",
        minutes=4.0,
        trust=TRUST,
    )


class GaussianCopula(SDVModel):
    """Correlations of normal scores; every budget is the same."""

    name = "gaussian-copula"
    how = "Gaussian copula of SDV"
    synthesizer = "GaussianCopulaSynthesizer"
    most_rows: ClassVar[int] = 500_000
    info = ModelInfo(
        family="copula",
        summary="correlations between normal scores of the columns (SDV)",
        licence=LICENCE,
        extra="synth",
        paper="Patki et al., The Synthetic Data Vault, DSAA 2016",
        minutes=0.1,
        trust=TRUST,
    )

    def _is_category(self, slot: Slot) -> bool:
        return slot.kind == "category" and self.encoding_name == "raw"

    def _options(self, rows: int) -> dict[str, Any]:
        return {"default_distribution": "norm"} if self.encoding_name == "default" else {}


def _root(correlation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper factor U of a correlation matrix, UᵀU = R, kept away from singular."""
    size = len(correlation)
    safe = 0.999 * np.nan_to_num(correlation) + 0.001 * np.eye(size)
    np.fill_diagonal(safe, 1.0)
    factor: NDArray[np.float64] = np.linalg.cholesky(safe).T.astype(np.float64)
    return factor


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the library's remarks off stdout, which is for data, and its warnings out of strict callers' way."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def watched(progress: Any, stop: Stop) -> Iterator[None]:
    """Put our own counter in the place of the library's bar over epochs: it reports, and it can end the loop."""
    from ctgan.synthesizers import ctgan, tvae
    from deepecho.models import par

    def epochs(wanted: Iterable[int], **_: Any) -> Iterator[int]:
        numbers = list(wanted)
        for epoch in numbers:
            if stop.asked and epoch:
                return
            yield epoch
            progress(epoch + 1, len(numbers), "epochs")

    before = ctgan.tqdm, tvae.tqdm, par.tqdm
    ctgan.tqdm = tvae.tqdm = par.tqdm = epochs
    try:
        yield
    finally:
        ctgan.tqdm, tvae.tqdm, par.tqdm = before


def sequence_classes() -> tuple[Any, Any]:
    """Return the library's classes for models of sequences: of the metadata, and of the model."""
    with quiet():
        from sdv.metadata import Metadata
        from sdv.sequential import PARSynthesizer

    return Metadata, PARSynthesizer


def _write_json(path: Path, plain: Any) -> None:
    path.write_text(json.dumps(plain) + "\n", encoding="utf-8")


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
