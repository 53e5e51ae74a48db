"""`diffusion`: our own diffusion over encoded tables; the torch part is `generators.denoiser`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from generators.base import ModelInfo
from generators.learned import Budget, TableModel, require
from generators.parts import Slot, Table
from generators.progress import Stop
from generators.quantile import Quantiles, codes_to_normal, normal_to_codes
from generators.seeding import seeded, torch_seed

if TYPE_CHECKING:
    from generators.denoiser import Denoiser, Settings

#: Training steps for 5,000 jobs and network width by budget; more jobs take more steps, by the root of their number up
#: to `MAX_MORE` times as many.
SIZES: dict[Budget, dict[str, int]] = {
    "quick": {"steps": 1_500, "width": 128},
    "normal": {"steps": 3_500, "width": 192},
    "thorough": {"steps": 8_000, "width": 320, "batch": 512, "patience": 15},
}
MAX_MORE = 2.5
#: An ordered column with more levels than this is learnt as a number.
MAX_LEVELS = 400
#: Rows sampled at a time.
CHUNK = 20_000


class Diffusion(TableModel):
    """Masked diffusion on categories, Gaussian diffusion on quantile-normal numbers."""

    name = "diffusion"
    how = "mixed-type tabular diffusion"
    info = ModelInfo(
        family="diffusion",
        summary="masked categories, then Gaussian diffusion of quantile-normal numbers given them",
        licence="Apache-2.0",
        extra="synth",
        paper="after Kotelnikov et al., TabDDPM, ICML 2023; Sattarov et al., FinDiff, ICAIF 2023",
        minutes=2.0,
    )
    most_rows: ClassVar[int] = 500_000

    def _fit_table(self, table: Table, slots: list[Slot], seed: int, stop: Stop) -> None:
        require("torch")
        import torch

        from generators import denoiser

        chosen = SIZES[self.budget]
        more = min(max((len(table) / 5_000) ** 0.5, 1.0), MAX_MORE)
        self._settings = dataclasses.replace(denoiser.Settings(), **{**chosen, "steps": round(chosen["steps"] * more)})
        self._plan = _Plan.of(table, slots, raw=self.encoding_name == "raw")
        x, codes = self._plan.split(table, seed)

        def after(step: int) -> bool:
            self.progress(step, self._settings.steps, "steps")
            return stop.asked

        with seeded(seed, "fit"):
            self._model = denoiser.train(
                torch.from_numpy(x.astype(np.float32)),
                torch.from_numpy(codes),
                self._plan.levels,
                self._settings,
                torch_seed(seed, "batches"),
                after,
            )

    def _sample_table(self, n_rows: int, seed: int, fixed: Mapping[str, list[int]]) -> Table:
        require("torch")
        import torch

        from generators import denoiser

        names = [slot.name for slot in self._plan.categories]
        tables = []
        for chunk, start in enumerate(range(0, n_rows, CHUNK)):
            rows = min(CHUNK, n_rows - start)
            given = {names.index(name): torch.full((rows,), codes[0]) for name, codes in fixed.items() if name in names}
            with seeded(seed, "sample"):
                x, codes = denoiser.draw(self._model, rows, self._settings, torch_seed(seed, f"draw {chunk}"), given)
            tables.append(self._plan.join(x.numpy().astype(np.float64), codes.numpy()))
        return pd.concat(tables, ignore_index=True)

    def _save_weights(self, folder: Path) -> None:
        from safetensors.torch import save_file

        from generators import denoiser

        plain = {**denoiser.describe(self._model, self._settings), "plan": self._plan.to_dict()}
        (folder / "network.json").write_text(json.dumps(plain) + "\n", encoding="utf-8")
        save_file(self._model.state_dict(), folder / "weights.safetensors")

    def _load_weights(self, folder: Path) -> None:
        require("torch")
        from safetensors.torch import load_file

        from generators import denoiser

        plain = json.loads((folder / "network.json").read_text(encoding="utf-8"))
        self._settings = denoiser.Settings(**plain["settings"])
        self._plan = _Plan.from_dict(plain["plan"])
        self._model = denoiser.Denoiser(plain["numbers"], plain["levels"], self._settings)
        self._model.load_state_dict(load_file(folder / "weights.safetensors"))
        self._model.eval()

    _model: Denoiser
    _settings: Settings
    _plan: _Plan


@dataclasses.dataclass(frozen=True)
class _Plan:
    """Which slots the network sees as numbers and which as categories."""

    numbers: tuple[Slot, ...]  # with shares where a number represents an ordered level
    categories: tuple[Slot, ...]
    scales: dict[str, Quantiles]  # of raw numbers, which are not normal by themselves

    @classmethod
    def of(cls, table: Table, slots: list[Slot], *, raw: bool) -> _Plan:
        numbers = tuple(s for s in slots if s.kind == "number" or s.levels > MAX_LEVELS)
        scales = {s.name: Quantiles.fit(table[s.name].to_numpy(), grain=0.0) for s in numbers} if raw else {}
        return cls(numbers, tuple(s for s in slots if s not in numbers), scales)

    @property
    def levels(self) -> list[int]:
        return [slot.levels for slot in self.categories]

    def split(self, table: Table, seed: int) -> tuple[Any, Any]:
        """Return numbers (rows, N) and codes (rows, C) of a table."""
        rng = np.random.default_rng([seed, 0x5])
        columns = []
        for slot in self.numbers:
            values = table[slot.name].to_numpy()
            if slot.levels:
                columns.append(codes_to_normal(values.astype(np.int64), slot.shares, rng))
            else:
                columns.append(self.scales[slot.name].to_normal(values, rng) if slot.name in self.scales else values)
        codes = [table[slot.name].to_numpy().astype(np.int64) for slot in self.categories]
        empty = np.zeros((len(table), 0))
        return (
            np.stack(columns, axis=1) if columns else empty,
            np.stack(codes, axis=1) if codes else empty.astype(np.int64),
        )

    def join(self, x: Any, codes: Any) -> Table:
        """Return a table of numbers and codes."""
        columns: dict[str, Any] = {slot.name: codes[:, c] for c, slot in enumerate(self.categories)}
        for n, slot in enumerate(self.numbers):
            values = x[:, n]
            if slot.levels:
                values = normal_to_codes(values, slot.shares)
            elif slot.name in self.scales:
                values = self.scales[slot.name].from_normal(values)
            columns[slot.name] = values
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        def plain(slots: tuple[Slot, ...]) -> list[Any]:
            return [[s.name, s.kind, s.shares.tolist()] for s in slots]

        return {
            "numbers": plain(self.numbers),
            "categories": plain(self.categories),
            "scales": {name: scale.to_dict() for name, scale in self.scales.items()},
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> _Plan:
        def slots(values: list[Any]) -> tuple[Slot, ...]:
            return tuple(Slot(name, kind, np.array(shares)) for name, kind, shares in values)

        return cls(
            slots(plain["numbers"]),
            slots(plain["categories"]),
            {name: Quantiles.from_dict(scale) for name, scale in plain["scales"].items()},
        )
