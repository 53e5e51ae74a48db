"""Downloads: resumed after interruptions, verified, and moved into place only when complete."""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import ssl
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tracekit.catalog import Source
from tracekit.errors import FormatError, OutputError, TracekitError
from tracekit.files import COMPRESSED_SUFFIXES, opened

BLOCK = 256 * 1024
ATTEMPTS = 5  # in a row without a single new byte
PAUSE = 1.0  # seconds before the second attempt; doubled after each
TIMEOUT = 30.0
Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all if known


class DownloadError(TracekitError):
    """A file could not be downloaded, or its content is not as expected."""


class _Broken(Exception):
    """The connection ended early or the server was busy: retry."""


def fetch(
    source: Source, folder: Path, *, cache: Path | None = None, force: bool = False, progress: Progress | None = None
) -> tuple[list[Path], list[str]]:
    """Copy a file into ``folder``, from the cache if possible; return the paths and notes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / source.name
        remarks: list[str] = []
        if target.is_file() and not force:
            _check(target, source, "exists already; use --force to replace it")
            remarks.append(f"{target} exists already")
        elif cache is not None and cache != folder and (cache / source.name).is_file() and not force:
            _check(cache / source.name, source, "the copy in the cache is damaged; use --force to download it again")
            _copy(cache / source.name, target)
            remarks.append(f"{target} copied from the cache")
        else:
            download(source.url, target, sha256=source.sha256, size=_size(source), progress=progress)
        remarks += _compared(target, source)
        return (_unpacked(target) if source.unpack else [target]), remarks
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _size(source: Source) -> int | None:
    return source.bytes if source.sha256 else None  # the size of a copy is only informative


def download(
    url: str,
    target: Path,
    *,
    sha256: str | None = None,
    size: int | None = None,
    progress: Progress | None = None,
    attempts: int = ATTEMPTS,
    pause: float | None = None,
) -> None:
    """Download ``url`` to ``target``: resumed after interruptions, verified, renamed when complete."""
    if not url.startswith(("http://", "https://")):
        raise DownloadError(f"{url}: only http and https addresses are supported")
    part, pause = _Part(target), PAUSE if pause is None else pause
    if not part.belongs_to(url, checked=sha256 is not None):
        part.forget()
    resumed = part.bytes() > 0
    _until_whole(url, part, size, progress, attempts, pause)
    problem = _problem(part.path, target, sha256, size)
    if problem and resumed:  # perhaps a part of another version: once more from the start
        part.forget()
        _until_whole(url, part, size, progress, attempts, pause)
        problem = _problem(part.path, target, sha256, size)
    if problem:
        part.forget()
        raise DownloadError(f"{url}: {problem}; the download was discarded")
    part.path.replace(target)
    part.note.unlink(missing_ok=True)


@dataclass
class _Part:
    """An unfinished download: ``<name>.part``, and a file with the version it belongs to."""

    target: Path

    @property
    def path(self) -> Path:
        return self.target.with_name(self.target.name + ".part")

    @property
    def note(self) -> Path:
        return self.target.with_name(self.target.name + ".part.json")

    def bytes(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def known(self) -> dict[str, str]:
        """Return the address of the part, and the server's version tag (ETag)."""
        try:
            return dict(json.loads(self.note.read_text()))
        except (OSError, ValueError, TypeError):
            return {}

    def belongs_to(self, url: str, *, checked: bool) -> bool:
        """Return whether resuming is safe: same address, and a version or checksum that would reveal a change."""
        known = self.known()
        return known.get("url") == url and (checked or bool(known.get("version")))

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def _until_whole(
    url: str, part: _Part, size: int | None, progress: Progress | None, attempts: int, pause: float
) -> None:
    failures, wait = 0, pause
    while True:
        before = part.bytes()
        try:
            _attempt(url, part, size, progress)
            return
        except _Broken as error:
            if part.bytes() > before:
                failures, wait = 0, pause
            failures += 1
            if failures >= attempts:
                kept = f"; {part.bytes():,} bytes are kept, and the next fetch resumes there" * (part.bytes() > 0)
                raise DownloadError(f"{url}: {error} (tried {attempts} times{kept})") from None
            time.sleep(wait)
            wait *= 2


def _attempt(url: str, part: _Part, size: int | None, progress: Progress | None) -> None:
    """Continue at the end of the part. Raises `_Broken` if a retry makes sense."""
    have = part.bytes()
    headers = {"User-Agent": "tracekit", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if part.known().get("version"):
            headers["If-Range"] = part.known()["version"]
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT) as answer:
            resuming = answer.status == 206 and _range_start(answer.headers.get("Content-Range")) == have
            if answer.status == 206 and not resuming:
                part.forget()
                raise _Broken("the server sent a different part of the file than requested")
            mark = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
            version = {"version": mark} if mark and not mark.startswith("W/") else {}  # a weak ETag cannot be requested
            part.note.write_text(json.dumps({"url": url, **version}))
            promised = answer.headers.get("Content-Length")
            total = (have * resuming + int(promised)) if promised and promised.isdecimal() else size
            _save(answer, part, "ab" if resuming else "wb", total, progress)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing after the part: it is complete, or longer than the file
            if size is None or have == size:
                return
            part.forget()
            raise _Broken("the partial download is longer than the file") from None
        if error.code >= 500 or error.code in (408, 429):
            raise _Broken(f"the server answered {error.code} {error.reason}") from None
        raise DownloadError(f"{url}: the server answered {error.code} {error.reason}") from None
    except (urllib.error.URLError, http.client.HTTPException, ssl.SSLError, ConnectionError, TimeoutError) as error:
        raise _Broken(f"{getattr(error, 'reason', None) or error or type(error).__name__}") from None


def _range_start(text: str | None) -> int | None:
    start = (text or "").removeprefix("bytes ").partition("-")[0]
    return int(start) if start.isdecimal() else None


def _save(
    answer: http.client.HTTPResponse, part: _Part, mode: str, total: int | None, progress: Progress | None
) -> None:
    with part.path.open(mode) as out:
        done = out.tell()
        while block := answer.read(BLOCK):
            out.write(block)
            done += len(block)
            if progress:
                progress(done, total)
    if total is not None and done < total:
        raise _Broken(f"the connection ended after {done:,} of {total:,} bytes")


def _problem(path: Path, target: Path, sha256: str | None, size: int | None) -> str:
    """Return what is wrong with a finished download, or an empty text."""
    if size is not None and path.stat().st_size != size:
        return f"{path.stat().st_size:,} bytes received, expected {size:,}"
    if sha256 and digest(path) != sha256:
        return f"its SHA-256 does not match the catalog ({sha256[:12]}…)"
    if not sha256 and target.suffix.lower() in COMPRESSED_SUFFIXES:
        try:
            with opened(path) as source:
                while source.read(BLOCK):
                    pass
        except FormatError as error:
            return error.problem
    return ""


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _check(path: Path, source: Source, otherwise: str) -> None:
    if source.sha256 and digest(path) != source.sha256:
        raise DownloadError(f"{path}: its SHA-256 does not match the catalog; {otherwise}")


def _compared(path: Path, source: Source) -> list[str]:
    """Return a note on a file that differs from the copy whose checksum is known."""
    if not source.copy_sha256 or source.sha256:
        return []
    same = digest(path) == source.copy_sha256
    return [] if same else [f"{path} differs from the copy whose SHA-256 is in the catalog; it may be a newer version"]


def _copy(origin: Path, target: Path) -> None:
    half = target.with_name(target.name + ".part")
    shutil.copyfile(origin, half)
    half.replace(target)


def _unpacked(archive: Path) -> list[Path]:
    """Unpack the regular files of a tar archive beside it, each complete or not at all; nothing outside the folder."""
    made: list[Path] = []
    try:
        with tarfile.open(archive) as packed:
            for member in packed:
                if not member.isfile():
                    continue
                place = archive.parent / Path(member.name).name
                content = packed.extractfile(member)
                if content is None:
                    continue
                half = place.with_name(place.name + ".part")
                with half.open("wb") as out:
                    shutil.copyfileobj(content, out, BLOCK)
                half.replace(place)
                made.append(place)
    except (tarfile.TarError, EOFError) as error:
        raise DownloadError(f"{archive}: cannot be unpacked: {error}") from None
    return made
