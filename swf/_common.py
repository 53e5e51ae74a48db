"""Code shared by several readers: job states, files in the same folder, and what a writer loses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.errors import FormatError
from tracekit.files import COMPRESSED_SUFFIXES
from tracekit.machine import HostGroup, Unit
from tracekit.schema import STATUSES, counts, is_whole, status_codes, to_numeric
from tracekit.trace import Trace

#: Slurm's job states, as published by GPU clusters.
SLURM_WORDS = {
    "COMPLETED": "completed",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "CANCELLED": "cancelled",
    "TIMEOUT": "timeout",
}
WORD_OF_STATUS = {
    "completed": "COMPLETED",
    "failed": "FAILED",
    "cancelled": "CANCELLED",
    "timeout": "TIMEOUT",
    "partial": "FAILED",
    "unknown": "",
}


def require(path: Path, frame: pd.DataFrame, names: Iterable[str], format: str) -> None:
    """Raise FormatError if a table lacks columns of its format."""
    names = list(names)
    absent = [name for name in names if name not in frame.columns]
    if absent:
        raise FormatError(path, f"missing column {', '.join(absent)}; format {format} needs {', '.join(names)}")


def statuses_of(values: pd.Series, words: Mapping[str, str]) -> pd.Categorical:
    """Translate a source's states (in any case) into our statuses; other words are unknown."""
    codes, names = pd.factorize(values)
    table = {word.casefold(): STATUSES.index(status) for word, status in words.items()}
    unknown = STATUSES.index("unknown")
    texts = [str(int(name)) if isinstance(name, float) and name.is_integer() else str(name) for name in names]
    meant = [table.get(text.strip().casefold(), unknown) for text in texts]
    return status_codes(np.array([*meant, unknown])[codes])


def status_words(trace: Trace, words: Mapping[str, str], own: Mapping[str, str]) -> NDArray[Any]:
    """Return a source's states for our statuses; ``x_status`` where it is one of its ``own`` and still agrees."""
    if "status" not in trace.jobs.columns:
        return np.full(len(trace), words["unknown"], dtype=object)
    status = trace.jobs["status"].astype(str)
    made = status.map(words)
    if "x_status" in trace.jobs.columns:
        given = trace.jobs["x_status"].astype(str)
        made = given.where((given.map(own) == status).to_numpy(), made)
    return made.to_numpy(dtype=object)


def settled(trace: Trace) -> Trace:
    """Complete a log in Helios' layout: waits and run times from x_queue and x_duration, statuses, scheduled unit."""
    changed = _stamps_first(trace, "run_time", "x_duration") | _stamps_first(trace, "wait_time", "x_queue")
    changed["status"] = statuses_of(trace.jobs["x_status"], SLURM_WORDS)
    agreed = [name for name in ("x_duration", "x_queue") if name not in changed]
    return gpus_if_any(trace.replace(jobs=trace.jobs.drop(columns=agreed).assign(**changed)))


def _stamps_first(trace: Trace, column: str, source: str) -> dict[str, Any]:
    """Return ``column`` (from timestamps) with gaps filled from ``source``, which is kept only if it disagrees."""
    ours = trace.column(column)
    given = to_numeric(trace.jobs[source]).to_numpy(dtype=np.float64, na_value=np.nan)
    known = ~np.isnan(ours) & ~np.isnan(given)
    changed: dict[str, Any] = {column: np.where(np.isnan(ours), given, ours)}
    if bool((np.abs(ours - given)[known] > 1).any()):
        changed[source] = given
    return changed


def gpus_if_any(trace: Trace) -> Trace:
    """Schedule GPUs where any job has some, otherwise processors."""
    some = bool((np.nan_to_num(trace.sizes("gpus")) > 0).any())
    return trace.replace(machine=trace.machine.replace(unit="gpus" if some else "procs"))


def unit_first_known(trace: Trace, units: tuple[Unit, ...]) -> Trace:
    """Schedule the first of these units of which any job's number is known."""
    known = [unit for unit in units if bool(np.isfinite(trace.sizes(unit)).any())]
    return trace.replace(machine=trace.machine.replace(unit=(known or units)[0]))


def numbered(values: pd.Series) -> Any:
    """Return counts as whole numbers where they are whole."""
    return counts(values.to_numpy(dtype=np.float64, na_value=np.nan))


def watts_of(joules: NDArray[np.float64], seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean power of jobs; unknown where either is not above 0 (no energy is one that was not measured)."""
    watts = np.full(len(joules), np.nan)
    known = (joules > 0) & (seconds > 0)
    watts[known] = joules[known] / seconds[known]
    return watts


def beside(path: Path, names: Iterable[str]) -> Path | None:
    """Return the first file of these names, plain or compressed, in the folder of ``path`` (or in it, if a folder)."""
    folder = path if path.is_dir() else path.parent
    for name in names:
        for suffix in ("", *COMPRESSED_SUFFIXES):
            found = folder / (name + suffix)
            if found.is_file():
                return found
    return None


def host_groups(hosts: pd.DataFrame) -> tuple[HostGroup, ...]:
    """Group a list of hosts (gpu_type, gpus, cores, memory in KB) by equal hardware."""
    kinds = hosts["gpu_type"].astype(object)
    names = ["gpu_type", "gpus", "cores", "memory"]
    alike: Any = hosts.assign(gpu_type=kinds.where(kinds.notna(), "")).groupby(names).size()
    found: list[HostGroup] = []
    for (kind, gpus, cores, memory), n in alike.items():
        name = host_name(f"{kind or 'host'}-{int(gpus)}x-{int(cores)}c")
        name += f"-{int(memory / 1024**2)}g" + f"-{len(found)}" * any(f.name.startswith(name) for f in found)
        found.append(
            HostGroup(
                int(n), cores=int(cores), memory=float(memory), gpus=int(gpus), gpu_type=str(kind) or None, name=name
            )
        )
    return tuple(found)


def host_name(text: str) -> str:
    """Return a text as a name of hosts or pools, without the marks that schedules use."""
    return "".join(c if c not in ":/+,|" else "-" for c in text)


def plain(values: NDArray[np.float64], unknown: Any = "") -> NDArray[Any]:
    """Return numbers as text: whole ones without a decimal point, unknown as given."""
    known = np.isfinite(values)
    if is_whole(values[known]):
        texts = pd.Series(np.where(known, values, 0.0).astype(np.int64)).astype(object).to_numpy()
    else:
        texts = pd.Series(values).astype(object).to_numpy()
    return np.where(known, texts, unknown)


def text_labels(trace: Trace, name: str, unknown: str = "") -> NDArray[Any]:
    """Return a column of labels as texts."""
    if name not in trace.jobs.columns:
        return np.full(len(trace), unknown, dtype=object)
    values = trace.jobs[name].astype(object)
    return values.where(values.notna(), unknown).to_numpy(dtype=object)


def lost(
    trace: Trace, held: Collection[str], *, machine: str = "the machine", calendar: bool = True, dated: bool = False
) -> list[str]:
    """List what a table of the columns ``held`` loses; a ``dated`` table holds dates only."""
    phrases = [f"column {name}" for name in trace.jobs.columns if name not in held and trace.jobs[name].notna().any()]
    if machine:
        phrases.append(machine)
    if not calendar and trace.machine.epoch is not None:
        phrases.append("the calendar")
    if calendar and trace.machine.epoch is None and dated:
        phrases.append("that the trace has no calendar (times are written as if it began in 1970)")
    return [*phrases, *(["the history"] if trace.history else [])]
