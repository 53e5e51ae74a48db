"""`par`: SDV's model of sequences (a recurrent network that writes one job after another) behind our interface.

A sequence is a stretch of consecutive jobs in submit order, so that the order of jobs is learnt: who follows whom,
bursts, repeated requests. All sequences are equally long, because DeepEcho 0.8 compares numbers of shorter ones with
the padding. Where in the trace a stretch lies is its context: made stretches are laid in that order, so a drift stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.special import ndtri

from generators.base import ModelInfo
from generators.learned import Budget, evenly, require
from generators.parts import Slot, Table
from generators.progress import Stop
from generators.quantile import normal_to_codes
from generators.sdv import LICENCE, TRUST, SDVModel, quiet, sequence_classes, watched
from generators.seeding import seeded, torch_seed

#: Jobs in one sequence. Shorter ones are slower to learn, longer ones to make (in proportion to the square).
LENGTH = 100
#: The columns that tell sequences apart: their number, and where in the trace they lie (standard normal).
KEY, CONTEXT = "sequence", "when"


class PAR(SDVModel):
    """Probabilistic autoregressive model of stretches of jobs."""

    name = "par"
    how = "PAR of SDV"
    synthesizer = "PARSynthesizer"
    most_rows: ClassVar[int] = 10_000
    effort: ClassVar[dict[Budget, tuple[int, int]]] = {
        "quick": (1_500_000, 300),
        "normal": (7_500_000, 1_500),
        "thorough": (45_000_000, 9_000),
    }
    info = ModelInfo(
        family="sequence",
        summary="recurrent network that writes one job after another (SDV)",
        licence=LICENCE,
        extra="synth",
        paper="Zhang et al., Sequential models in the Synthetic Data Vault, arXiv 2207.14406, 2022",
        minutes=5.0,
        trust=TRUST,
    )

    def _options(self, rows: int) -> dict[str, Any]:
        total, most = self.effort[self.budget]
        epochs = int(min(max(total // rows, 1), most))
        return {"epochs": epochs, "cuda": False, "verbose": False, "context_columns": [CONTEXT]}

    def _fit_table(self, table: Table, slots: list[Slot], seed: int, stop: Stop) -> None:
        require("sdv", "torch", "deepecho")
        metadata, synthesizer = sequence_classes()
        self._slots = slots
        rows = in_sequences(self._to_library(table, seed), LENGTH)
        columns = {s.name: {"sdtype": "categorical" if self._is_category(s) else "numerical"} for s in slots}
        columns |= {KEY: {"sdtype": "id"}, CONTEXT: {"sdtype": "numerical"}}
        described = {"tables": {"jobs": {"columns": columns, "sequence_key": KEY}}, "relationships": []}
        with quiet(), seeded(seed, "fit"), watched(self.progress, stop):
            self._model = synthesizer(metadata.load_from_dict(described), **self._options(len(rows)))
            self._model.fit({"jobs": rows})

    def _labels_to_library(self, codes: np.ndarray) -> np.ndarray:
        return codes.astype(np.int64)  # the library goes through a set of them: the order of text in it is not fixed

    def _rows_to_learn(self, rows: int, most: int, rng: np.random.Generator) -> np.ndarray:
        """Choose whole stretches, in their order."""
        chosen = np.sort(rng.choice(rows // LENGTH, most // LENGTH, replace=False))
        return (LENGTH * chosen[:, None] + np.arange(LENGTH)).ravel()

    def _bytes_per_row(self, slots: list[Slot]) -> float:
        return 40.0 * sum(slot.levels if self._is_category(slot) else 3 for slot in slots)

    def _draw(self, n_rows: int, seed: int, purpose: str) -> Table:
        """Make stretches and lay them in the order of their contexts."""
        length = int(self._model._model._max_length)
        count = -(-n_rows // length)
        with quiet(), seeded(seed, purpose):
            self._model._context_synthesizer._set_random_state(torch_seed(seed, purpose) % 2**32)
            made: Table = self._model.sample_sequences(count, length)["jobs"]
        order = np.argsort(made[CONTEXT].to_numpy(dtype=np.float64)[::length], kind="stable")
        return made.iloc[(length * order[:, None] + np.arange(length)).ravel()[:n_rows]].reset_index(drop=True)

    def _sample_table(self, n_rows: int, seed: int, fixed: Mapping[str, list[int]]) -> Table:
        """Make rows in order; numbers keep their ranks, and ordered levels come out as common as they really are."""
        require("sdv", "torch", "deepecho")
        made, rng = self._draw(n_rows, seed, "sample"), np.random.default_rng([seed, 0x6])
        columns: dict[str, Any] = {}
        for slot in self._slots:
            values = pd.to_numeric(made[slot.name]).to_numpy(dtype=np.float64)
            if slot.levels and not self._is_category(slot) and self.encoding_name == "default":
                values = normal_to_codes(evenly(values, rng), slot.shares).astype(np.float64)
            columns[slot.name] = values
        return pd.DataFrame(columns)

    def _sample_evenly(self, n_jobs: int, seed: int, *, balance: bool) -> Table:
        """Make the rows wanted and no spare ones: choosing among rows would break their order."""
        table = self._sample_table(n_jobs, seed, {})
        rng = np.random.default_rng([seed, 0xB])
        for slot in self._slots:
            if slot.kind == "number":
                table[slot.name] = evenly(table[slot.name].to_numpy(dtype=np.float64), rng)
        return table


def in_sequences(rows: Table, length: int) -> Table:
    """Return the rows as equally long sequences with their numbers and contexts; the last one may overlap.

    >>> in_sequences(pd.DataFrame({"gap": [1.0, 2.0, 3.0]}), 2)[["sequence", "gap"]].to_numpy().tolist()
    [[0.0, 1.0], [0.0, 2.0], [1.0, 2.0], [1.0, 3.0]]
    """
    length = min(length, len(rows))
    starts = np.arange(0, len(rows) - length + 1, length)
    if starts[-1] + length < len(rows):
        starts = np.append(starts, len(rows) - length)
    made = rows.iloc[(starts[:, None] + np.arange(length)).ravel()].reset_index(drop=True)
    number = np.repeat(np.arange(len(starts)), length)
    return made.assign(**{KEY: number, CONTEXT: ndtri((number + 0.5) / len(starts))})
