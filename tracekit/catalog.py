"""Public traces: address, terms of use, size and format. The catalog does not use the network."""

from __future__ import annotations

import dataclasses
import difflib
import os
import tempfile
from dataclasses import dataclass, field
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError, UsageError
from tracekit.files import user_cache


@dataclass(frozen=True)
class Source:
    """One file to download. ``sha256`` is binding; ``copy_sha256`` is that of a copy and only compared."""

    url: str
    name: str
    sha256: str | None = None
    copy_sha256: str | None = None
    bytes: int | None = None
    unpack: bool = False  # a tar archive to unpack


@dataclass(frozen=True)
class Entry:
    """A trace of the catalog; None means unknown."""

    name: str
    title: str
    format: str
    page: str  # web page about it, also for download if there is no direct address
    years: str | None = None
    jobs: int | None = None
    procs: int | None = None
    nodes: int | None = None
    gpus: int | None = None
    machine: str | None = None  # a preset of tracekit
    bytes: int | None = None
    licence: str | None = None
    acknowledge: str | None = None
    citation: str | None = None
    cleaned: bool | None = None
    uncleaned: str | None = None  # the entry of the same log before it was cleaned
    flurries: tuple[str, ...] = ()  # what was removed, as published by the archive
    note: str | None = None
    file: str | None = None  # its name, where there is no direct address
    files: tuple[Source, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return dataclasses.asdict(self)


def catalog() -> dict[str, Entry]:
    """Return every entry by name, in the catalog's order.

    >>> catalog()["KTH-SP2-1996-2.1-cln"].jobs
    28476
    """
    import tomllib

    text = (package_files("tracekit") / "data" / "catalog.toml").read_text(encoding="utf-8")
    return {name: _entry(name, values) for name, values in tomllib.loads(text).items()}


def _entry(name: str, values: dict[str, Any]) -> Entry:
    sources = tuple(Source(**{"name": _file_name(one["url"]), **one}) for one in values.pop("files", ()))
    flurries = tuple(values.pop("flurries", ()))
    return Entry(name=name, flurries=flurries, files=sources, **values)


def _file_name(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def find(name: str) -> Entry:
    """Return one entry by its name, in any case; the error suggests similar names."""
    known = catalog()
    for own, entry in known.items():
        if own.lower() == name.lower():
            return entry
    like = [own for own in known if name and name.lower() in own.lower()]
    like = like or difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(like[:6])}?" if like else "'tracekit catalog' lists them all"
    raise UsageError(f"unknown trace '{name}'; {hint}")


def cache_folder() -> Path:
    """Return the folder of downloads: $TRACEKIT_CACHE, or the user's cache folder."""
    given = os.environ.get("TRACEKIT_CACHE")
    if given:
        return Path(given)
    return user_cache() or Path(tempfile.gettempdir()) / f"tracekit-{os.getuid()}"


def require_address(entry: Entry) -> None:
    """Raise an error for traces that must be downloaded with a browser; the message gives the page."""
    if not entry.files:
        which = f" ({entry.file})" if entry.file else ""
        raise TracekitError(f"{entry.name} has no direct address; download it{which} with a browser from {entry.page}")
