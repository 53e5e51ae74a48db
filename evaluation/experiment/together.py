"""What is told of several traces at once: which failed, what the workers took, and where that is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evaluation.experiment.about import ABOUT, encodable, text_of
from evaluation.experiment.engines import Engine
from evaluation.experiment.tasks import Result
from tracekit.errors import OutputError
from tracekit.files import write_text
from tracekit.folders import writing_together

SUMMARY, PAGE = "summary.json", "summary.md"


def check_outputs(folder: Path, of: str, *, force: bool) -> None:
    """Refuse early, before any work: a file, the run of a single trace, or a summary ``of`` something else."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: is a file; several traces need a folder")
    if (folder / ABOUT).exists():
        raise OutputError(f"{folder}: is the run of one trace; choose another folder for several")
    for name in (SUMMARY, PAGE):
        if (folder / name).exists() and not _ours(folder / SUMMARY, of) and not force:
            raise OutputError(f"{folder / name}: exists already; choose another folder, or use --force to replace it")


def _ours(path: Path, of: str) -> bool:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and {"traces", "cost"} <= found.keys() and found.get("of") == of


def cost_of(engine: Engine, results: Iterable[Result]) -> dict[str, Any]:
    """Return what the tasks took: the only part of a summary that differs between two runs."""
    done = list(results)
    return {
        "workers": engine.slots,
        "worker_memory_mb": None if engine.memory is None else round(engine.memory / 1024**2),
        "largest_peak_mb": round(max((result.peak_mb for result in done), default=0.0)),
        "cpu_s": round(sum(result.cpu_s for result in done), 1),
    }


def memory_in_words(cost: Mapping[str, Any]) -> str:
    """Return what workers took and what they might have taken."""
    bound = cost["worker_memory_mb"]
    allowed = f"{bound:,} MB allowed" if bound else "no bound: --worker-memory sets one"
    return f"The largest worker took {cost['largest_peak_mb']:,} MB ({allowed}; {cost['workers']} at once)."


def write_summary(folder: Path, summary: Mapping[str, Any], lines: Iterable[str]) -> None:
    """Write summary.json and summary.md together."""
    with writing_together(folder / SUMMARY, folder / PAGE, force=True) as (plain, page):
        write_text(plain, text_of(summary))
        write_text(page, encodable("\n".join(lines)) + "\n")


def failures(summary: Mapping[str, Any]) -> list[str]:
    """Return a line for each trace that came to nothing."""
    found = [(row["trace"], row["failed"]) for row in summary["traces"] if row["failed"]]
    return [reason if reason.startswith(trace) else f"{trace}: {reason}" for trace, reason in found]


def plain_cell(text: str) -> str:
    """Return a text that stays within one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
