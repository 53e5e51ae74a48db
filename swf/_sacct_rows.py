"""Lines of sacct's output as a table of texts, and steps folded into the jobs above them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swf import _slurm, _slurm_jobs
from swf._notation import Damage, distinct, memory, number, on_unique, shown
from swf.base import Blocks
from tracekit import limits
from tracekit.errors import FormatError
from tracekit.files import text_of

#: The fields that Open XDMoD requests, in its order.
_XDMOD = """jobid jobidraw cluster partition qos account group gid user uid submit eligible start end elapsed exitcode
state nnodes ncpus reqcpus reqmem reqtres alloctres timelimit nodelist jobname"""
XDMOD = _XDMOD.split()
_FREE_TEXT = ("jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir", "extra")
_STAMPS = ("submit", "start", "end", "eligible")
Lines = NDArray[np.int64]  # shape (rows,): the file's line of each row


def header_of(line: str) -> list[str] | None:
    """Return the names in a header row in lower case, or None if the line is not a header."""
    names = [name.strip().lower() for name in line.rstrip("\r").split("|")]
    known = _slurm_jobs.USED | set(XDMOD)
    named = {"jobid", "jobidraw"} & set(names)
    return names if named and sum(name in known for name in names) >= min(3, len(names)) else None


def makes_sense(row: list[str], names: list[str]) -> bool:
    """Return whether the fields with a recognisable content hold it."""
    cells = dict(zip(names, row, strict=False))
    job = cells.get("jobid", cells.get("jobidraw", ""))
    if not job[:1].isdigit() or ("state" in cells and not _slurm.is_state(cells["state"])):
        return False
    stamps = [cells[name] for name in _STAMPS if name in cells]
    return all(_is_stamp(text) for text in stamps)


def _is_stamp(text: str) -> bool:
    return (
        text in ("Unknown", "None", "None assigned", "N/A", "") or text.isdigit() or (text[4:5] + text[10:11]) == "-T"
    )


def columns_of(data: bytes, damage: Damage) -> list[str]:
    """Return the names of the columns: those of the header row, or XDMoD's where there is none."""
    first = next((line for line in io.BytesIO(data) if line.strip()), b"")
    if not first:
        raise FormatError(damage.path, "the file is empty")
    names = header_of(text_of(first).rstrip("\n"))
    if names is None and first.count(b"|") < len(XDMOD) - 1:
        problem = f"neither a header row with sacct fields such as JobID nor the {len(XDMOD)} fields of Open XDMoD"
        raise FormatError(damage.path, problem, line=1, hint="use sacct -P; see 'tracekit sacct-command'")
    names = XDMOD if names is None else names
    limits.check("fields", len(names), damage.path, f"{len(names):,} columns", line=1)
    if len(set(names)) < len(names):
        raise FormatError(damage.path, f"column {next(n for n in names if names.count(n) > 1)} appears twice")
    return names


def split_rows(
    data: bytes, names: list[str], damage: Damage, first_line: int = 1, only: Sequence[str] = ()
) -> tuple[pd.DataFrame, Lines]:
    """Return a table of categories, header rows left out, and the line of each row. ``data`` ends with a newline.

    ``only`` selects columns, if the others are not needed.
    """
    import pyarrow as pa
    import pyarrow.csv

    numbers = None
    if b"\n\n" in data or b"\n\r\n" in data or data[:1] in (b"\n", b"\r"):
        texts = data.split(b"\n")
        kept = [k for k, text in enumerate(texts) if text.strip()]
        numbers = np.array(kept, dtype=np.int64) + first_line
        data = b"".join(texts[k] + b"\n" for k in kept)
    odd: list[tuple[int, str]] = []

    def note(row: Any) -> str:
        odd.append((row.number - 1, row.text))
        return "skip"

    text = pa.dictionary(pa.int32(), pa.string())
    fields = [name or f"unnamed {k}" for k, name in enumerate(names)]
    read = pa.csv.ReadOptions(use_threads=False, column_names=fields, block_size=32 * 1024 * 1024)
    parse = pa.csv.ParseOptions(delimiter="|", quote_char=False, double_quote=False, invalid_row_handler=note)
    wanted = [name for name in names if name and (not only or name in only)]
    convert = pa.csv.ConvertOptions(column_types=dict.fromkeys(fields, text), include_columns=wanted)
    try:
        found = pa.csv.read_csv(pa.BufferReader(data), read, parse, convert)
    except pa.ArrowInvalid as error:
        raise FormatError(damage.path, f"cannot be read as output of sacct: {str(error).splitlines()[0]}") from None
    table: pd.DataFrame = found.unify_dictionaries().to_pandas()
    rows = np.ones(len(table) + len(odd), dtype=bool)
    rows[[at for at, _ in odd]] = False
    lines = numbers if numbers is not None else np.arange(len(rows), dtype=np.int64) + first_line
    if odd:
        table, good = _with_repaired(table, rows, odd, names, lines, damage)
        lines = lines[good]
    key = "jobid" if "jobid" in table else "jobidraw"
    heads = _where(table[key], lambda id_: id_.strip().lower() == key)  # repeated where files were concatenated
    if heads.any():
        table, lines = table[~heads].reset_index(drop=True), lines[~heads]
    return table, lines


def _where(values: pd.Series, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Apply a predicate to each distinct text."""
    codes, texts = distinct(values)
    answers = np.array([*(test(str(text)) for text in texts.tolist()), False], dtype=bool)
    found: NDArray[np.bool_] = answers[codes]
    return found


def _with_repaired(
    table: pd.DataFrame,
    rows: NDArray[np.bool_],
    odd: list[tuple[int, str]],
    names: list[str],
    lines: Lines,
    damage: Damage,
) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Put repaired rows that were too long back in their places; report those that cannot be repaired."""
    repaired = {}
    for at, text in odd:
        if not text.strip():
            continue
        cells = text.rstrip("\r").split("|")
        row = _repaired(cells, names)
        if row is None:
            damage.add(int(lines[at]), f"{len(cells)} fields, expected {len(names)}")
        else:
            repaired[at] = dict(zip(names, row, strict=True))
    if repaired:
        table = table.astype(object).set_axis(np.flatnonzero(rows), axis=0)
        extra = pd.DataFrame.from_dict(repaired, orient="index", dtype=object)[list(table.columns)]
        table = pd.concat([table, extra]).sort_index()
        return table.reset_index(drop=True), table.index.to_numpy(dtype=np.int64)
    return table, np.flatnonzero(rows)


def _repaired(row: list[str], names: list[str]) -> list[str] | None:
    """Join the fields of a row that is too long because a free text contains the separator."""
    extra = len(row) - len(names)
    if extra <= 0:
        return None
    for name in _FREE_TEXT:
        if name in names:
            at = names.index(name)
            joined = [*row[:at], "|".join(row[at : at + extra + 1]), *row[at + extra + 1 :]]
            if makes_sense(joined, names):
                return joined
    return None


def ids_are_plain(table: pd.DataFrame) -> bool:
    """Return whether the jobs have numbers: JobIDRaw exists, or JobID holds only numbers and steps."""
    if "jobidraw" in table:
        return True
    return bool(_where(table["jobid"], lambda text: text.partition(".")[0].strip().isdecimal()).all())


def fold_steps(table: pd.DataFrame, lines: Lines, damage: Damage) -> tuple[pd.DataFrame, Lines, int]:
    """Return the rows of jobs, with the memory of the steps below each; and how many steps have no job above them.

    ``used_kb`` is the largest MaxRSS × NTasks, ``x_maxrss_kb`` the largest MaxRSS, ``joules`` the largest energy, of a
    job or any step of it. Energies of steps are not added: those of batch and extern steps hold the others.
    """
    ids = table["jobid" if "jobid" in table else "jobidraw"]
    steps = _where(ids, lambda text: "." in text)
    jobs = np.flatnonzero(~steps)
    owner = np.cumsum(~steps) - 1  # the job above each row
    orphan = np.zeros(len(table), dtype=bool)
    if steps.any():
        codes, texts = distinct(ids)
        names = np.array([*(str(text).partition(".")[0].strip() for text in texts.tolist()), None], dtype=object)[codes]
        orphan = steps & ((owner < 0) | (names != np.append(names[jobs], [None])[owner]))
    folded = table if len(jobs) == len(table) else table.iloc[jobs].reset_index(drop=True)
    if "maxrss" in table:
        rss, wrong = on_unique(table["maxrss"], memory)
        for row in np.flatnonzero(wrong):
            damage.add(int(lines[row]), f"'{shown(table['maxrss'].iloc[row])}' in column maxrss is not a memory size")
        tasks = on_unique(table["ntasks"], number)[0] if "ntasks" in table else np.ones(len(table))
        mine = ~orphan & ~np.isnan(rss)
        largest, total = np.full(len(jobs), np.nan), np.full(len(jobs), np.nan)
        np.fmax.at(largest, owner[mine], rss[mine])
        np.fmax.at(total, owner[mine], (rss * np.where(tasks >= 1, tasks, 1.0))[mine])
        folded = folded.assign(used_kb=total, x_maxrss_kb=largest)
    name = next((name for name in ("consumedenergyraw", "consumedenergy") if name in table), None)
    if name is not None:
        energy, wrong = on_unique(table[name], _slurm.joules)
        for row in np.flatnonzero(wrong):
            damage.add(int(lines[row]), f"'{shown(table[name].iloc[row])}' in column {name} is not an energy")
        mine, most = ~orphan & ~np.isnan(energy), np.full(len(jobs), np.nan)
        np.fmax.at(most, owner[mine], energy[mine])
        folded = folded.assign(joules=most)
    return folded, lines[jobs], int(orphan.sum())


def tables(source: Blocks, damage: Damage, only: Sequence[str] = ()) -> Iterator[tuple[pd.DataFrame, Lines]]:
    """Yield tables of whole jobs with their steps: the last job of a block waits for the next block."""
    names: list[str] | None = None
    carry, line = b"", 1
    for raw in source:
        block = carry + source.utf8(raw)
        if names is None:
            names = columns_of(block, damage)
        at = names.index("jobid" if "jobid" in names else "jobidraw")
        cut = len(block)
        while cut > 0:  # back to where the last job begins
            cut = block.rfind(b"\n", 0, cut - 1) + 1
            if _begins_job(block[cut : block.find(b"\n", cut)], at):
                break
        carry = block[cut:]
        if cut:
            yield split_rows(block[:cut], names, damage, line, only)
        line += block.count(b"\n", 0, cut)
    if names is not None and carry.strip():
        yield split_rows(carry, names, damage, line, only)


def _begins_job(text: bytes, at: int) -> bool:
    """Return whether a line is of a job, not of a step and not blank."""
    cells = text.split(b"|", at + 1)
    return len(cells) > at and bool(cells[at].strip()) and b"." not in cells[at]
