"""A report's content as a folder of plain files, so that the page can be drawn again, elsewhere or later."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from evaluation.report.content import TABLES, Content, Input
from evaluation.score import Scores
from tracekit.errors import FormatError
from tracekit.files import write_text
from tracekit.trace import Trace

_PLAIN = ("title", "command", "margin", "metric", "higher_is_better")
_LISTS = ("verdicts", "failures", "notes")
_MAPS = ("seeds", "versions")


def save(content: Content, folder: str | Path) -> None:
    """Write everything that the page is made of into ``folder``; what was there under the same names is replaced."""
    folder = Path(folder)
    (folder / "synthetic").mkdir(parents=True, exist_ok=True)
    content.real.save(folder / "real.parquet", force=True)
    for k, trace in enumerate(content.synthetic.values()):
        trace.save(folder / "synthetic" / f"{k:02}.parquet", force=True)
    for name in TABLES:
        table = content.table(name)
        if table is None:
            (folder / f"{name}.csv").unlink(missing_ok=True)
        else:
            write_text(folder / f"{name}.csv", table.to_csv(index=False), force=True)
    _write_json(folder / "scores.json", content.scores.to_dict())
    about: dict[str, Any] = {name: getattr(content, name) for name in _PLAIN}
    about |= {name: list(getattr(content, name)) for name in _LISTS} | {n: dict(getattr(content, n)) for n in _MAPS}
    about |= {"names": list(content.synthetic), "inputs": [asdict(one) for one in content.inputs]}
    _write_json(folder / "content.json", about)  # last: where it is, the rest is


def load(folder: str | Path) -> Content:
    """Read what `save` wrote."""
    folder = Path(folder)
    about = _read_json(folder / "content.json")
    tables: dict[str, Any] = {name: _read_table(folder / f"{name}.csv") for name in TABLES}
    try:
        return Content(
            real=Trace.load(folder / "real.parquet"),
            synthetic={
                name: Trace.load(folder / "synthetic" / f"{k:02}.parquet") for k, name in enumerate(about["names"])
            },
            scores=Scores.from_dict(_read_json(folder / "scores.json")),
            inputs=[Input(**one) for one in about["inputs"]],
            **{name: about[name] for name in (*_PLAIN, *_LISTS, *_MAPS)},
            **tables,
        )
    except (KeyError, TypeError) as error:
        raise FormatError(folder, f"is not what a report is stored as: {error}") from None


def _write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(_plain(data), indent=1, ensure_ascii=False, allow_nan=False) + "\n", force=True)


def _plain(data: Any) -> Any:
    """Return lists, dictionaries and plain values; NaN and infinity, which JSON cannot hold, become null."""
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(value) for value in data]
    data = data.item() if hasattr(data, "item") else data
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise FormatError(path, "no such file", hint="give a folder that tracekit experiment wrote") from None
    except ValueError as error:
        raise FormatError(path, f"not valid JSON: {error}") from None


def _read_table(path: Path) -> pd.DataFrame | None:
    return pd.read_csv(path, keep_default_na=True) if path.is_file() else None
