"""Files in and out: compression by content, standard streams, and outputs that appear complete or not at all."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from tracekit import limits
from tracekit.errors import FormatError, OutputError

#: How much of a file is read to detect its format.
HEAD_BYTES = 64 * 1024

#: Compression by the first bytes of the content, and by the name's ending when writing.
_MAGIC: dict[bytes, Callable[[IO[bytes]], IO[bytes]]] = {
    b"\x1f\x8b": lambda raw: cast("IO[bytes]", gzip.GzipFile(fileobj=raw)),
    b"BZh": lambda raw: cast("IO[bytes]", bz2.BZ2File(raw)),
    b"\xfd7zXZ\x00": lambda raw: cast("IO[bytes]", lzma.LZMAFile(raw)),  # noqa: SIM115  (closed by `opened`)
}
_PIECE = 128 * 1024  # bytes that are unpacked at a time
COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz")


def is_stream(path: str | Path) -> bool:
    """Return whether ``path`` means standard input or output."""
    return str(path) == "-"


def plain_suffix(path: str | Path) -> str:
    """Return the suffix before any compression suffix: ``log.swf.gz`` → ``.swf``, in lower case."""
    path = Path(path)
    if path.suffix.lower() in COMPRESSED_SUFFIXES:
        path = path.with_suffix("")
    return path.suffix.lower()


class Unpacking(io.RawIOBase):
    """What a compressed file holds, as long as it does not grow beyond the limit ``expansion``."""

    def __init__(self, plain: IO[bytes], packed: IO[bytes], path: Path) -> None:
        self.plain, self.packed, self.path = plain, packed, path
        self.count = 0

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Unpack a piece."""
        data = self.plain.read(len(buffer))
        buffer[: len(data)] = data
        self.count += len(data)
        if self.count > limits.FREE_BYTES:
            times = self.count / max(1, self.packed.tell())
            limits.check("expansion", times, self.path, f"unpacks to {times:,.0f} times its size and more")
        return len(data)


@contextmanager
def opened(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, decompressed whatever its name; damage becomes a `FormatError`."""
    path = Path(path)
    if path.is_dir():
        raise FormatError(path, "is a directory, not a trace file")
    try:
        with path.open("rb") as raw:
            start = raw.peek(6)[:6]
            wrap = next((wrap for magic, wrap in _MAGIC.items() if start.startswith(magic)), None)
            if wrap is None:
                yield raw
                return
            with wrap(raw) as plain, io.BufferedReader(Unpacking(plain, raw, path), _PIECE) as source:
                yield cast("IO[bytes]", source)
    except FileNotFoundError:
        raise FormatError(path, "no such file", hint=_neighbours(path)) from None
    except PermissionError:
        raise FormatError(path, "permission denied") from None
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise FormatError(path, f"cannot be read: {error.strerror}") from None
        raise FormatError(path, f"the compressed data is damaged or truncated: {error}") from None


def _neighbours(path: Path) -> str:
    """Suggest a file of the same folder with a similar name."""
    import difflib

    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist"
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f"did you mean {path.parent / close[0]}?" if close else ""


def head_of(path: str | Path) -> bytes:
    """Return the first `HEAD_BYTES` of a file's decompressed content, for format detection."""
    with opened(path) as source:
        return source.read(HEAD_BYTES)


@contextmanager
def as_path(path: str | Path) -> Iterator[Path]:
    """Give every reader a real path: input that can be read only once is copied to a temporary file."""
    if is_stream(path):
        if sys.stdin is None:
            raise FormatError("standard input", "is closed")
        if sys.stdin.isatty():
            sys.stderr.write("reading from the terminal; end with Ctrl-D\n")
        with _spooled(sys.stdin.buffer) as spool:
            yield spool
        return
    if not str(path).strip():
        raise FormatError("input", "the file name is empty", hint="is a shell variable not set?")
    if "://" in str(path):
        raise FormatError(path, "is an address, not a file", hint="download it first, perhaps with 'tracekit fetch'")
    if Path(path).is_fifo():  # zcat jobs.gz | …, written as <(zcat jobs.gz)
        with Path(path).open("rb") as pipe, _spooled(pipe) as spool:
            yield spool
        return
    yield Path(path)


@contextmanager
def _spooled(source: IO[bytes]) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile(prefix="tracekit-stdin-") as spool:
        shutil.copyfileobj(source, spool)
        spool.flush()
        yield Path(spool.name)


@contextmanager
def writing(path: str | Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """Write bytes to ``path`` through a temporary file, so that it appears complete or not at all.

    ``-`` is standard output; a name ending in .gz, .bz2 or .xz is compressed (with no time stamp inside, so the
    same data gives the same bytes). An existing file is kept unless ``force`` is given, and even then it is replaced
    only when the new one is finished.
    """
    if is_stream(path):
        if sys.stdout is None:
            raise OutputError("standard output is closed")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(path))  # write through a link, as `>` does
    check_writable(target, force=force)
    try:
        if target.exists() and not target.is_file():  # a device or a pipe: nothing to replace
            with target.open("wb") as device:
                yield device
            return
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as raw:
                with _compressing(raw, target) as out:
                    yield out
                raw.flush()
                os.fsync(raw.fileno())
            Path(name).chmod(_mode_for(target))
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextmanager
def _compressing(raw: IO[bytes], target: Path) -> Iterator[IO[bytes]]:
    suffix = target.suffix.lower()
    if suffix == ".gz":
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as out:
            yield cast("IO[bytes]", out)
    elif suffix == ".bz2":
        with bz2.BZ2File(raw, "wb") as out:
            yield cast("IO[bytes]", out)
    elif suffix == ".xz":
        with lzma.LZMAFile(raw, "wb") as out:
            yield cast("IO[bytes]", out)
    else:
        yield raw


def _mode_for(target: Path) -> int:
    """Return the permissions a replaced file had, or those a new one would get from the umask."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def check_writable(path: str | Path, *, force: bool = False) -> None:
    """Raise OutputError before any work: a directory, a missing folder, or an existing file without ``force``."""
    if is_stream(path):
        return
    if not str(path).strip():
        raise OutputError("the output name is empty; is a shell variable not set?")
    path = Path(path)
    if path.is_dir():
        raise OutputError(f"{path}: is a directory; give the name of a file in it")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: the folder {path.parent} does not exist")
    if path.is_file() and not force:
        raise OutputError(f"{path}: exists already; use --force to replace it")


def check_distinct(source: str | Path, target: str | Path) -> None:
    """Raise OutputError if the output is the input file."""
    if is_stream(source) or is_stream(target):
        return
    source, target = Path(source), Path(target)
    if source.is_file() and target.is_file() and source.samefile(target):
        raise OutputError(f"{target}: input and output are the same file; choose another name for the output")


def write_text(path: str | Path, text: str, *, force: bool = False) -> None:
    """Write a small text file, complete or not at all."""
    with writing(path, force=force) as out:
        out.write(text.encode())


def read_toml(path: str | Path) -> dict[str, object]:
    """Read a TOML file; a mistake in it is a `FormatError` with file and position."""
    import tomllib

    data = _document(path)
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(path, f"not valid TOML: {error}") from None


def read_json(path: str | Path) -> Any:
    """Read a JSON file; a mistake in it is a `FormatError` that names file and place."""
    import json

    data = _document(path)
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(path, f"not valid JSON: {error}") from None


def _document(path: str | Path) -> bytes:
    """Return the bytes of a settings file, as long as it is not beyond the limit ``document``."""
    allowed = limits.limit("document")
    with opened(path) as source:
        data = source.read(-1 if allowed == math.inf else int(allowed) + 1)
    limits.check("document", len(data), path, "too large")
    return data


def user_cache() -> Path | None:
    """Return the user's own cache folder of tracekit, which need not exist; None for a user without a home."""
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(given) if given else Path.home() / ".cache") / "tracekit"
    except RuntimeError:  # no HOME, and a user id without an account, as in containers
        return None


def text_of(data: bytes) -> str:
    """Decode bytes as UTF-8, or as Latin-1 if they are not UTF-8; never fails."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
