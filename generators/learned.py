"""What the learned models share: jobs in, an encoded table to learn, a table to sample, jobs out, a folder to keep."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from generators.base import ModelInfo
from generators.common import check_count, made_machine, not_fitted, read_config, write_config
from generators.encode import Encoding, EncodingName, encoding_from_dict, fit_encoding, learnable
from generators.labels import Label
from generators.parts import Slot, Table
from generators.progress import Progress, Stop, silent, stoppable
from generators.quantile import level_codes
from tracekit import stats
from tracekit.environment import memory
from tracekit.errors import FormatError, MissingExtra, TracekitError, UnknownName, UsageError, loads
from tracekit.registry import EXTRAS
from tracekit.trace import Trace

Budget = Literal["quick", "normal", "thorough"]
BUDGETS: tuple[Budget, ...] = ("quick", "normal", "thorough")
#: Conditional sampling by rejection gives up after this many rows per row that is wanted.
MAX_TRIES = 200


class TableModel:
    """A model that learns the rows of an encoded table. Subclasses fit, sample, save and load that table.

    ``budget`` chooses how long to learn: counts of steps that take about 1, 5 or 30 minutes for 30,000 jobs on two
    cores. ``encoding`` is ``default`` (only possible jobs come back) or ``raw`` (the plain columns of the published
    studies). ``progress`` is called with the progress of the fit.
    """

    name: ClassVar[str]
    info: ClassVar[ModelInfo]
    how: ClassVar[str]
    #: More rows than this are not learnt from; a random part of that size is.
    most_rows: ClassVar[int] = 100_000

    def __init__(
        self, *, budget: Budget = "normal", encoding: EncodingName = "default", progress: Progress | None = None
    ) -> None:
        if budget not in BUDGETS:
            raise UnknownName("budget", budget, BUDGETS)
        if encoding not in ("default", "raw"):
            raise UnknownName("encoding", encoding, ("default", "raw"))
        self.budget, self.encoding_name = budget, encoding
        self.progress: Progress = progress or silent
        self.notes: list[str] = []  # notes for the user about the fit
        self._encoding: Encoding | None = None
        self._fitted: dict[str, Any] = {}  # facts for the provenance line

    # ---- what subclasses do --------------------------------------------------------------------------------------

    def _fit_table(self, table: Table, slots: list[Slot], seed: int, stop: Stop) -> None:
        """Learn the rows; end early, with what was learnt so far, when ``stop.asked``."""
        raise NotImplementedError

    def _sample_table(self, n_rows: int, seed: int, fixed: Mapping[str, list[int]]) -> Table:
        """Make rows. ``fixed`` lists the codes that a column may have; a model that cannot heed it ignores it."""
        raise NotImplementedError

    def _save_weights(self, folder: Path) -> None:
        raise NotImplementedError

    def _load_weights(self, folder: Path) -> None:
        raise NotImplementedError

    def _bytes_per_row(self, slots: list[Slot]) -> float:
        """Return about how much memory the fit takes per row."""
        return 200.0 * len(slots)

    # ---- public --------------------------------------------------------------------------------------------------

    def fit(self, trace: Trace, /, *, seed: int = 0) -> Self:
        """Learn from the usable jobs of a trace. Ctrl-C ends the fit early and keeps what was learnt."""
        jobs, self.notes = learnable(trace)
        encoding = fit_encoding(jobs, self.encoding_name)
        table = self._within_reach(encoding.encode(jobs, seed=seed), encoding.slots, seed)
        with stoppable() as stop:
            self._fit_table(table, encoding.slots, seed, stop)
            if stop.asked:
                self.notes.append("the fit was interrupted; the best state until then is used")
        self._encoding = encoding
        self._fitted = {
            "jobs": len(jobs),
            "mean_work": float(stats.work(jobs).mean()),
            "rows": len(table),
            "seed": seed,
            "trace": trace.machine.name,
            "notes": self.notes,
            "interrupted": stop.asked,
            "history": list(trace.history),
        }
        return self

    @property
    def interrupted(self) -> bool:
        """Whether the fit was stopped early."""
        return bool(self._fitted.get("interrupted", False))

    def _within_reach(self, table: Table, slots: list[Slot], seed: int) -> Table:
        """Return as many random rows as time and memory allow, with a note when that is not all."""
        room = memory()
        available = room[1] if room else 0
        reach = int(0.5 * available / self._bytes_per_row(slots)) if available else len(table)
        if reach < min(1_000, len(table)):
            raise TracekitError(
                f"{self.name}: not enough memory ({available / 1e9:.1f} GB free) to learn even 1,000 of "
                f"the {len(table):,} jobs; close other programs or choose another model"
            )
        most = min(reach, self.most_rows)
        if len(table) <= most:
            return table
        why = "memory" if reach < self.most_rows else "time"
        self.notes.append(f"learnt from {most:,} random jobs of {len(table):,} (limited by {why})")
        rows = self._rows_to_learn(len(table), most, np.random.default_rng([seed, 0xF]))
        return table.iloc[rows].reset_index(drop=True)

    def _rows_to_learn(self, rows: int, most: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Choose which rows are learnt where not all can be."""
        return np.sort(rng.choice(rows, most, replace=False)).astype(np.intp)

    def sample(
        self, n_jobs: int, /, *, seed: int = 0, only: Mapping[str, str] | None = None, balance: bool = False
    ) -> Trace:
        """Make exactly ``n_jobs`` jobs; with ``only``, all of them have the given labels.

        ``balance`` makes some spare jobs and exchanges a few for them, so that the mean work of a job is the real one
        although a few huge jobs dominate it.
        """
        n_jobs = check_count(self.name, n_jobs)
        if self._encoding is None:
            raise not_fitted(self.name)
        if only:
            table = self._sample_only(n_jobs, seed, only)
        elif self.encoding_name == "raw":
            table = self._sample_table(n_jobs, seed, {})
        else:
            table = self._sample_evenly(n_jobs, seed, balance=balance)
        made = self._encoding.decode(table, seed=seed)
        if only:  # a label of the pool comes back as any of the pool's: name it
            made = made.assign({name: pd.Categorical([value] * n_jobs) for name, value in only.items()})
        note = self._note(seed)
        return Trace(made.jobs, made_machine(made.machine, note), (*self._fitted["history"], note))

    def _sample_evenly(self, n_jobs: int, seed: int, *, balance: bool) -> Table:
        """Make rows whose labels, levels and numbers are as common as in the real trace, with its mean work if asked.

        The model decides what goes with what; how often each value occurs is known from the real trace, and one very
        long gap more or less would change the load of the whole trace. So somewhat more rows are made than are wanted
        and chosen by their labels and levels, and numbers keep their order but are laid evenly on the normal curve.
        """
        assert self._encoding is not None
        rng = np.random.default_rng([seed, 0xB])
        slots = self._encoding.slots
        count = n_jobs + (max(n_jobs // 8, 50) if balance else 0)
        table = self._sample_table(count + max(n_jobs // 5, 20), seed, {})
        levels = [(level_codes(table[s.name].to_numpy(), s.levels), s.shares) for s in slots if s.levels]
        table = table.iloc[raked(levels, len(table), count, rng)].reset_index(drop=True)
        for slot in slots:
            if slot.kind == "number":
                table[slot.name] = evenly(table[slot.name].to_numpy(dtype=np.float64), rng)
        if balance:
            work = stats.work(self._encoding.decode(table, seed=seed))
            table = table.iloc[balanced(work, n_jobs, self._fitted["mean_work"], rng)].reset_index(drop=True)
            table["gap"] = evenly(table["gap"].to_numpy(), rng)
        return table

    def _note(self, seed: int) -> str:
        facts = self._fitted
        how = "; ".join(
            [
                f"{self.how}, budget {self.budget}, encoding {self.encoding_name}, fitted with seed {facts['seed']}",
                *facts["notes"],
            ]
        )
        of = f" of {facts['trace']}" if facts["trace"] else ""
        return (
            f"MADE by tracekit, not recorded: model {self.name} ({how}) fitted to {facts['jobs']} jobs{of}, seed {seed}"
        )

    def _sample_only(self, n_rows: int, seed: int, only: Mapping[str, str]) -> Table:
        """Make rows that meet conditions: by the model where it can, else by rejection."""
        fixed = self._codes_of(only)
        found: list[Table] = []
        count = tried = attempt = 0
        while count < n_rows:
            if tried > MAX_TRIES * n_rows and tried > 100_000:
                raise TracekitError(
                    f"{self.name}: only {count} of {tried:,} synthetic jobs have {_said(only)}; {n_rows} are needed. "
                    "Request fewer jobs or a more common value, or fit the model to such jobs only"
                )
            share = max(count, 1) / tried if tried else 1.0
            batch = int(min(max(1.3 * (n_rows - count) / share, 500), 100_000)) if tried else n_rows
            rows = self._sample_table(batch, seed + 7_919 * attempt, fixed)
            keep = np.ones(len(rows), dtype=bool)
            for column, codes in fixed.items():
                keep &= np.isin(np.rint(rows[column].to_numpy(dtype=np.float64)), codes)
            found.append(rows[keep])
            count, tried, attempt = count + int(keep.sum()), tried + batch, attempt + 1
        return pd.concat(found, ignore_index=True).iloc[:n_rows]

    def _codes_of(self, only: Mapping[str, str]) -> dict[str, list[int]]:
        """Translate conditions on labels into codes of the encoded table."""
        encoding = self._encoding
        labels = {part.name: part for part in getattr(encoding, "parts", ()) if isinstance(part, Label)}
        fixed = {}
        for name, value in only.items():
            if name not in labels:
                raise UsageError(
                    f"--only {name}: this model only takes {', '.join(labels) or 'no columns'} "
                    f"(encoding {self.encoding_name})"
                )
            part = labels[name]
            if value in part.labels:
                fixed[name] = [part.labels.index(value)]
            elif value in part.pool:
                fixed[name] = [len(part.labels)]
            else:
                raise UnknownName(name, value, [label for label in (*part.labels, *part.pool) if label])
        return {name: codes for name, codes in fixed.items() if len(labels[name].shares) > 1}

    # ---- folders -------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write config.json, encoding.json (the schema) and the weights."""
        if self._encoding is None:
            raise not_fitted(self.name)
        folder = Path(folder)
        write_config(folder, self.name, {"budget": self.budget, "encoding": self.encoding_name, "fitted": self._fitted})
        (folder / "encoding.json").write_text(
            json.dumps(self._encoding.to_dict(), allow_nan=False) + "\n", encoding="utf-8"
        )
        self._save_weights(folder)

    @classmethod
    @loads("a saved model")
    def load(cls, folder: Path, *, trust: bool = False) -> Self:
        """Read back what `save` wrote. Weights that are programs (pickles) need ``trust``; the error names the risk."""
        folder = Path(folder)
        config = read_config(folder, cls.name)
        if cls.info.trust and not trust:
            raise TracekitError(
                f"{folder}: {cls.info.trust}; if you made this model yourself, or trust its author, "
                "use --trust (trust=True)"
            )
        try:
            model = cls(budget=config["budget"], encoding=config["encoding"])
            model._encoding = encoding_from_dict(json.loads((folder / "encoding.json").read_text(encoding="utf-8")))
            model._fitted = dict(config["fitted"])
            model.notes = list(model._fitted["notes"])
            model._load_weights(folder)
        except TracekitError:
            raise
        except Exception as error:  # each library has its own ways to fail on a damaged file
            raise FormatError(folder, f"cannot be read as a saved model: {error!r}") from error
        return model


def evenly(numbers: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return standard-normal numbers in the order of the given ones: one in each equal part of the curve."""
    rank = np.empty(len(numbers))
    rank[np.argsort(np.nan_to_num(numbers), kind="stable")] = np.arange(len(numbers))
    even: NDArray[np.float64] = ndtri((rank + rng.uniform(1e-3, 1 - 1e-3, len(numbers))) / len(numbers))
    return even


def raked(
    labels: list[tuple[NDArray[np.int64], NDArray[np.float64]]], rows: int, count: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return ``count`` of the rows, chosen so that every label's share comes close to the wanted one.

    ``labels`` holds for each column the rows' codes and the shares wanted. Weights are found by iterative proportional
    fitting (Deming and Stephan, 1940), kept within a factor of 20; rows are drawn by them without replacement.
    """
    weight = np.ones(rows)
    for _ in range(10):
        for codes, shares in labels:
            now = np.bincount(codes, weights=weight, minlength=len(shares)) / weight.sum()
            factor = np.divide(shares, now, out=np.ones(len(shares)), where=now > 0)
            weight = np.clip(weight * factor[codes], 0.05, 20.0)
    keys = np.log(weight) + rng.gumbel(size=rows)
    return np.sort(np.argpartition(-keys, count - 1)[:count]) if count < rows else np.arange(rows)


def balanced(
    work: NDArray[np.float64], count: int, mean: float, rng: np.random.Generator, tolerance: float = 0.002
) -> NDArray[np.intp]:
    """Return ``count`` rows whose mean work is close to ``mean``: the first ones, with some exchanged for later ones.

    Where there is too much work, rows are given up with a chance in proportion to theirs, and spare ones come in at
    random; where there is too little, it is the other way round. An exchange that does not help is not made.
    """
    rows = np.arange(count)
    missing = mean * count - work[:count].sum()
    by_work = np.log(np.maximum(work, 1e-9)) + rng.gumbel(size=len(work))
    by_chance = rng.random(len(work))
    places = np.argsort(-(by_work if missing < 0 else by_chance)[:count], kind="stable")
    spare = count + np.argsort(-(by_chance if missing < 0 else by_work)[count:], kind="stable")
    for place, other in zip(places, spare, strict=False):
        if abs(missing) <= tolerance * mean * count:
            break
        gain = work[other] - work[place]
        if abs(missing - gain) < abs(missing):
            rows[place] = other
            missing -= gain
    return rows


def _said(only: Mapping[str, str]) -> str:
    return " and ".join(f"{name}={value}" for name, value in only.items())


def require(*packages: str) -> None:
    """Refuse with the pip line to use when an optional package is not installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package, EXTRAS.get(package, "synth"))
