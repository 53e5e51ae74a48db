"""The interface of trace formats, and how the format of a file is detected from its content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol, runtime_checkable

from tracekit import limits
from tracekit.errors import FormatError
from tracekit.files import HEAD_BYTES, Unpacking, head_of, opened, text_of
from tracekit.registry import Registry
from tracekit.trace import Trace


class Format(Protocol):
    """A format that can be read. One small class per real source; see ``swf/_template.py``."""

    name: ClassVar[str]
    title: ClassVar[str]  # what it is, in one line
    suffixes: ClassVar[tuple[str, ...]]  # endings that choose it when writing
    options: ClassVar[frozenset[str]]  # options of `read` besides the path

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether the first 64 KiB (decompressed) are of this format; never raises."""
        ...

    def read(self, path: Path, /, **options: Any) -> Trace:
        """Read the file; `FormatError` names the file and the damaged line."""
        ...


@runtime_checkable
class WritableFormat(Protocol):
    """A format that can also be written."""

    def write(self, trace: Trace, out: IO[bytes], /) -> list[str]:
        """Write the trace and return what the format could not hold, one short phrase each."""
        ...


def whole_lines(source: IO[bytes], size: int, path: Path) -> Iterator[bytes]:
    """Yield blocks of whole lines of about ``size`` bytes, each ending with a newline; without a byte order mark."""
    carry = [source.read(3).removeprefix(b"\xef\xbb\xbf")]
    line, waiting = 1, len(carry[0])
    while chunk := source.read(size):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            block = b"".join([*carry, chunk[:cut]])
            check_lines(block, path, first=line)
            line += block.count(b"\n")
            carry, waiting = [], 0
            yield block
        carry.append(chunk[cut:])
        waiting += len(chunk) - cut
        limits.check("line", waiting, path, f"a line of {waiting:,} bytes or more", line=line)
    if rest := b"".join(carry):
        check_lines(rest, path, first=line)
        yield rest + b"\n"


def check_lines(text: bytes, path: Path, *, first: int = 1) -> None:
    """Raise FormatError for a line beyond the limit ``line``; ``first`` is the number of its first line."""
    longest = limits.limit("line")
    at = 0
    while len(text) - at > longest:
        end = text.rfind(b"\n", at, at + int(longest) + 1) + 1
        if not end:
            number = first + text.count(b"\n", 0, at)
            size = (text.find(b"\n", at) + 1 or len(text)) - at
            limits.check("line", size, path, f"a line of {size:,} bytes", line=number)
            end = at + size
        at = end


def read_text(path: Path) -> str:
    """Return all of a text file, without a byte order mark; a line beyond the limit ``line`` is a `FormatError`."""
    with opened(path) as source:
        data = source.read().removeprefix(b"\xef\xbb\xbf")
    check_lines(data, path)
    return text_of(data)


class Blocks:
    """A file as blocks of whole lines, for formats that read sources larger than memory; iterate once per pass."""

    def __init__(self, path: Path, *, size: int = 16 * 1024 * 1024, progress: Callable[[float], None] | None = None):
        self.path, self.size, self.progress = path, size, progress
        self.encoding = "utf-8"

    def __iter__(self) -> Iterator[bytes]:
        total = max(1, self.path.stat().st_size)
        with opened(self.path) as source:
            unpacking = getattr(source, "raw", None)
            raw = unpacking.packed if isinstance(unpacking, Unpacking) else source
            for block in whole_lines(source, self.size, self.path):
                yield block
                if self.progress:
                    self.progress(min(1.0, raw.tell() / total))

    def utf8(self, block: bytes) -> bytes:
        """Return a block as UTF-8; from the first block that is not, all are read as Latin-1, in later passes too."""
        if self.encoding == "utf-8":
            try:
                block.decode()
            except UnicodeDecodeError:
                self.encoding = "latin-1"
            else:
                return block
        return block.decode(self.encoding).encode()


@runtime_checkable
class FolderFormat(Protocol):
    """A format whose traces may be folders of several files."""

    def sniff_folder(self, folder: Path) -> bool:
        """Return whether a folder is of this format, by the names of its files; never raises."""
        ...


class Unsteady(Exception):
    """The parts of a file differ in the types of columns, so the file has to be read whole."""


@runtime_checkable
class StreamingFormat(Protocol):
    """A format that can also be read in chunks, so that the file may be larger than memory."""

    def chunks(self, source: Blocks, /, **options: Any) -> Iterator[Trace]:
        """Yield the jobs in order, a part at a time; concatenated they equal what `read` returns.

        The last part's machine is the file's. `Unsteady` means that only the whole file can be read.
        """
        ...


def head_lines(head: bytes, limit: int = 200) -> list[str]:
    """Return the complete lines at the start of a file, for `Format.sniff`."""
    text = text_of(head.removeprefix(b"\xef\xbb\xbf"))
    lines = text.splitlines()
    if len(head) >= HEAD_BYTES and lines:
        lines.pop()  # the 64 KiB may end in the middle of a line
    return lines[:limit]


#: Archives of several files, which are not opened: the offset of their magic number, and the number.
_ARCHIVES = {
    "zip": (0, b"PK\x03\x04"),
    "tar": (257, b"ustar"),
    "7z": (0, b"7z\xbc\xaf"),
    "zstd": (0, b"\x28\xb5\x2f\xfd"),
}


def detect(path: Path, formats: Registry[type[Format]]) -> Format:
    """Return the one format that recognises the file's content; raise FormatError if none or several do."""
    if path.is_dir():
        return _detect_folder(path, formats)
    head = head_of(path)
    if not head.strip():
        raise FormatError(path, "the file is empty")
    mistaken = _mistaken(head)
    if mistaken:
        raise FormatError(path, *mistaken[:1], hint=mistaken[1])
    archive = next((name for name, (at, mark) in _ARCHIVES.items() if head[at:].startswith(mark)), None)
    if archive:
        raise FormatError(path, f"this is a {archive} archive, not a trace file", hint="unpack it first")
    claims = [made for made in (formats.get(name)() for name in formats) if made.sniff(head, path)]
    if len(claims) == 1:
        return claims[0]
    if claims:
        names = " and ".join(made.name for made in claims)
        raise FormatError(path, f"several formats match: {names}", hint=f"choose one, such as --from {claims[0].name}")
    raise FormatError(path, *_unrecognised(head, formats))


def _detect_folder(path: Path, formats: Registry[type[Format]]) -> Format:
    made = [formats.get(name)() for name in formats]
    claims = [one for one in made if isinstance(one, FolderFormat) and one.sniff_folder(path)]
    if len(claims) == 1:
        return claims[0]
    raise FormatError(path, "is a directory, and no format recognises its files as a trace")


def _mistaken(head: bytes) -> tuple[str, str] | None:
    """Return a description and a hint for files that are often given by mistake."""
    start = head[:2000].lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "this is an HTML page, not a trace", "was an error or login page saved instead of the file?"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "the text is encoded in UTF-16", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"
    if head.startswith(b"PK\x03\x04") and b"[Content_Types].xml" in head:
        return "this is an office document, such as an Excel workbook", "save it as CSV"
    if head.startswith(b"%PDF"):
        return "this is a PDF document, not a trace", "download the trace itself"
    lines = head_lines(head, 2)
    if lines and lines[0].split()[:1] in (["JobID"], ["JOBID"]) and not set("|,;") & set(lines[0]):
        return (
            "this is Slurm output in columns for reading on screen",
            "'tracekit sacct-command' prints an export command whose output tracekit reads",
        )
    return None


def _unrecognised(head: bytes, formats: Registry[type[Format]]) -> tuple[str]:
    if b"\0" in head:
        return ("no format recognises this binary data",)
    first = next((line for line in head_lines(head) if line.strip()), "")
    for separator in ",;\t|":
        cells = [cell.strip().strip('"') for cell in first.split(separator)]
        if len(cells) >= 3 and not any(is_number(cell) for cell in cells):
            columns = ", ".join(cells[:8]) + (" …" if len(cells) > 8 else "")
            return (
                f"no format recognises the columns of this table ({columns}); read it with "
                "--from csv --map submit_time=THEIRS,run_time=THEIRS,req_procs=THEIRS "
                "(start_time and end_time can replace run_time)",
            )
        if len(cells) == 18 and all(is_number(cell) for cell in cells):
            return (f"this looks like SWF with '{separator}' between fields; SWF separates fields by blanks",)
        if len(cells) >= 3 and all(is_number(cell) for cell in cells):
            return ("this table has no column names; add a first line such as job_id,submit_time,run_time,req_procs",)
    return (f"no format recognises it; known formats: {', '.join(formats)} (choose one with --from)",)


def is_number(text: str) -> bool:
    """Return whether a field of a text file is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
