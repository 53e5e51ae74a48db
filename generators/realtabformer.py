"""`realtabformer`: a small GPT-2 that writes rows column by column (REaLTabFormer), sized for two cores.

Remedies for version 0.2.4, none of which the library offers as a switch: its default learning rate (5e-5) leaves a
small model untrained, so it is 1e-3; ``overwrite_output_dir`` is unknown to transformers 5; saving needs a text for
``full_save_dir``; a random state of 0 counts as none. It never asks a hub for anything: there is no pretrained model.

With the default encoding every column is one token: labels and levels as they are, numbers as one of `BINS` equal parts
of the normal curve (the position within the part is drawn again). With the raw encoding numbers are spelt digit
by digit, as in the paper.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from generators.base import ModelInfo
from generators.learned import Budget, TableModel, require
from generators.parts import Slot, Table
from generators.progress import Progress, Stop
from generators.quantile import codes_to_normal, normal_to_codes
from generators.seeding import seeded, torch_seed
from tracekit.errors import TracekitError

#: By budget: rows to learn in all, and the most epochs.
EFFORT: dict[Budget, tuple[int, int]] = {"quick": (60_000, 12), "normal": (200_000, 25), "thorough": (1_500_000, 80)}
LAYERS, HEADS, WIDTH, BATCH = 2, 4, 128, 64
LEARNING_RATE = 1e-3
#: Parts of the normal curve that a number is written in, and the most levels an ordered column is written in.
BINS, MAX_LEVELS = 200, 400
GENERATE_AT_ONCE = 1_000


class RealTabFormer(TableModel):
    """Rows written by a small transformer, one column after the other."""

    name = "realtabformer"
    how = f"REaLTabFormer, GPT-2 of {LAYERS} layers of {WIDTH}"
    info = ModelInfo(
        family="transformer",
        summary="a small GPT-2 that writes each job column by column",
        licence="MIT",
        extra="synth",
        paper="Solatorio and Dupriez, REaLTabFormer, arXiv 2302.02041 (2023)",
        minutes=5.0,
    )
    most_rows: ClassVar[int] = 100_000

    def _fit_table(self, table: Table, slots: list[Slot], seed: int, stop: Stop) -> None:
        require("torch", "transformers", "realtabformer")
        self._slots = slots
        rows = self._to_words(table, seed)
        total, most = EFFORT[self.budget]
        number = torch_seed(seed, "fit") % (2**31 - 1) + 1
        with tempfile.TemporaryDirectory(prefix="tracekit-rtf-") as scratch, _quiet(), seeded(seed, "fit"):
            model = _library(self.progress, stop)(
                model_type="tabular",
                tabular_config=_config(),
                epochs=int(min(max(total // len(rows), 1), most)),
                batch_size=BATCH,
                gradient_accumulation_steps=1,
                learning_rate=LEARNING_RATE,
                lr_scheduler_type="cosine",
                random_state=number,
                seed=number,
                train_size=1.0,
                report_to=[],
                disable_tqdm=True,
                logging_steps=10**9,
                dataloader_pin_memory=False,
                use_cpu=True,
                save_strategy="no",
                eval_strategy="no",
                load_best_model_at_end=False,
                checkpoints_dir=f"{scratch}/checkpoints",
                samples_save_dir=f"{scratch}/samples",
                full_save_dir=f"{scratch}/full",
            )
            model.training_args_kwargs.pop("overwrite_output_dir", None)
            model.fit(rows, device="cpu", n_critic=0)
        self._model = model

    def _to_words(self, table: Table, seed: int) -> Table:
        """Return the table as the library is to see it: everything a word, except raw numbers."""
        rng = np.random.default_rng([seed, 0x5])
        columns: dict[str, Any] = {}
        for slot in self._slots:
            values = table[slot.name].to_numpy()
            if self.encoding_name == "raw" and slot.kind == "number":
                whole = bool((values == np.floor(values)).all())
                columns[slot.name] = values.astype(np.int64) if whole else values
                continue
            if slot.levels > MAX_LEVELS and slot.kind == "ordinal":
                values = codes_to_normal(values.astype(np.int64), slot.shares, rng)
            if slot.levels == 0 or slot.levels > MAX_LEVELS:
                values = np.floor(ndtr(values) * BINS).clip(0, BINS - 1)
            columns[slot.name] = np.char.add("w", values.astype(np.int64).astype(str)).astype(object)
        return pd.DataFrame(columns)

    def _sample_table(self, n_rows: int, seed: int, fixed: Mapping[str, list[int]]) -> Table:
        require("torch", "transformers", "realtabformer")
        with _quiet(), seeded(seed, "sample"):
            words = self._model.sample(n_samples=n_rows, gen_batch=min(GENERATE_AT_ONCE, max(n_rows, 2)), device="cpu")
        words = words.iloc[:n_rows].reset_index(drop=True)
        rng = np.random.default_rng([seed, 0x6])
        columns: dict[str, Any] = {}
        for slot in self._slots:
            if self.encoding_name == "raw" and slot.kind == "number":
                columns[slot.name] = pd.to_numeric(words[slot.name], errors="coerce").to_numpy(dtype=np.float64)
                continue
            values = pd.to_numeric(words[slot.name].str[1:]).to_numpy(dtype=np.float64)
            if slot.levels == 0 or slot.levels > MAX_LEVELS:
                values = ndtri((values + rng.random(n_rows).clip(1e-3, 1 - 1e-3)) / BINS)
            if slot.levels > MAX_LEVELS and slot.kind == "ordinal":
                values = normal_to_codes(values, slot.shares).astype(np.float64)
            columns[slot.name] = values
        return pd.DataFrame(columns)

    def _save_weights(self, folder: Path) -> None:
        self._model.experiment_id = "network"
        self._model.full_save_dir = str(self._model.full_save_dir)
        with _quiet():
            self._model.save(folder, allow_overwrite=True)

    def _load_weights(self, folder: Path) -> None:
        require("torch", "transformers", "realtabformer")
        with _quiet(), _tensors_only():
            self._model = _library(self.progress, Stop()).load_from_dir(folder / "network")
        assert self._encoding is not None  # set by load
        self._slots = self._encoding.slots

    _model: Any
    _slots: list[Slot]


#: Since this release torch reads tensors only by default, and safely (CVE-2025-32434 in those before it).
_SAFE_TORCH = (2, 6)


@contextlib.contextmanager
def _tensors_only() -> Iterator[None]:
    """Have torch read tensors and nothing else from files, whatever the library asks for: a pickle can run code."""
    import torch

    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _SAFE_TORCH:
        raise TracekitError(
            f"torch {torch.__version__} may run code from a file of weights; install torch>=2.6 to load this model"
        )
    plain = torch.load

    def load(*args: Any, **options: Any) -> Any:
        return plain(*args, **(options | {"weights_only": True}))

    torch.load = load
    try:
        yield
    finally:
        torch.load = plain


def _config() -> Any:
    from transformers import GPT2Config

    return GPT2Config(n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH, n_positions=256)


def _library(progress: Any, stop: Stop) -> Any:
    """Return the library's class with a trainer that reports its epochs, can be stopped and writes no checkpoints."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with _quiet():
        import datasets
        from realtabformer import REaLTabFormer, rtf_sampler
        from realtabformer.rtf_trainer import SaveEpochEndCallback
        from transformers import TrainerCallback
        from transformers.trainer_callback import PrinterCallback

    datasets.disable_progress_bars()
    rtf_sampler.tqdm = partial(_Sampled, progress)

    class Watcher(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            progress(0, int(state.max_steps), "training steps")
            return control

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            progress(int(state.global_step), int(state.max_steps), "training steps")
            control.should_training_stop = control.should_training_stop or stop.asked
            return control

    class Model(REaLTabFormer):  # type: ignore[misc]
        def _build_tabular_trainer(self, *args: Any, **options: Any) -> Any:
            trainer = super()._build_tabular_trainer(*args, **options)
            for unwanted in (SaveEpochEndCallback, PrinterCallback):
                trainer.remove_callback(unwanted)
            trainer.add_callback(Watcher())
            return trainer

    return Model


class _Sampled:
    """Takes the place of the library's bar for sampled rows, and reports them as progress."""

    def __init__(self, progress: Progress, items: Iterable[Any] = (), total: int = 0) -> None:
        self._progress, self._items, self._total, self._done = progress, items, total, 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __enter__(self) -> _Sampled:
        self._progress(0, self._total, "rows sampled")
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def update(self, count: int) -> None:
        """Count rows as the library reports them: at times more than were asked for."""
        self._done += int(count)
        self._progress(min(self._done, self._total), self._total, "rows sampled")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' remarks off stdout, which is for data, and their warnings out of strict callers' way."""
    loggers = [logging.getLogger(name) for name in ("transformers", "realtabformer", "datasets", "root")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
