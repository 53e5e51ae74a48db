"""The catalog, and downloads from a server on this machine that behaves as badly as real ones do."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import socket
import tarfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from swf import FORMATS
from tracekit import catalog, download
from tracekit.catalog import Source
from tracekit.download import DownloadError
from tracekit.errors import TracekitError, UsageError

Run = Callable[..., tuple[int, str, str]]
CONTENT = np.random.default_rng(3).bytes(700_000)
PACKED = gzip.compress(CONTENT)
SHA = hashlib.sha256(CONTENT).hexdigest()


class Server(BaseHTTPRequestHandler):
    """The path says what goes wrong."""

    seen: ClassVar[Counter[str]] = Counter()
    ranges: ClassVar[list[str | None]] = []

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        kind = self.path.partition("?")[0].strip("/").split(".")[0]
        Server.seen[kind] += 1
        Server.ranges.append(self.headers.get("Range"))
        first = Server.seen[kind] == 1
        body = PACKED if "gz" in self.path else CONTENT
        if kind == "missing":
            self.send_error(404)
            return
        if kind == "busy" and Server.seen[kind] < 3:
            self.send_error(503)
            return
        if kind == "other":
            body = b"another file"
        etag = '"v2"' if kind == "changed" and not first else '"v1"'
        start = 0
        asked = self.headers.get("Range")
        allowed = kind not in ("norange", "longnorange") and self.headers.get("If-Range") in (None, etag)
        if asked and allowed:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                self.send_error(416)
                return
        if kind == "elsewhere" and asked and Server.seen[kind] == 2:
            start += 10  # not the part that was asked for
        rest = body[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if kind != "noetag":
            self.send_header("ETag", etag)
        length = {"long": len(rest) + 5000, "longnorange": len(rest) + 5000, "short": len(rest) - 5000}.get(
            kind, len(rest)
        )
        if kind != "nolength":
            self.send_header("Content-Length", str(length))
        self.end_headers()
        drops = kind in ("drop", "norange", "noetag", "elsewhere", "changed") and Server.seen[kind] <= 3
        if kind == "always":
            drops, rest = True, b""
        self.wfile.write(rest[: 200_000 if drops else len(rest)])
        if drops or kind.startswith("long"):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(download, "PAUSE", 0.0)
    monkeypatch.setattr(download, "TIMEOUT", 5.0)
    Server.seen.clear()
    Server.ranges.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def get(address: str, kind: str, folder: Path, **known: Any) -> Path:
    target = folder / kind
    download.download(f"{address}/{kind}", target, pause=0.0, **known)
    return target


@pytest.mark.parametrize(
    "kind", ["good", "drop", "norange", "noetag", "busy", "nolength", "elsewhere", "changed", "long"]
)
@pytest.mark.parametrize("checked", [False, True])
def test_what_comes_is_the_file(kind: str, checked: bool, address: str, tmp_path: Path) -> None:
    known = {"sha256": SHA, "size": len(CONTENT)} if checked else {}
    assert get(address, kind, tmp_path, **known).read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == [kind]


def test_a_broken_download_goes_on_where_it_ended(address: str, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    get(address, "drop", tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert Server.ranges == [None, "bytes=200000-", "bytes=400000-", "bytes=600000-"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_later_run_goes_on_too_if_that_is_safe(address: str, tmp_path: Path) -> None:
    part = tmp_path / "good.part"
    for note, asked in (({"url": f"{address}/good", "version": '"v1"'}, "bytes=1000-"), ({"url": "elsewhere"}, None)):
        (tmp_path / "good").unlink(missing_ok=True)
        Server.ranges.clear()
        part.write_bytes(CONTENT[:1000])
        (tmp_path / "good.part.json").write_text(json.dumps(note))
        assert get(address, "good", tmp_path).read_bytes() == CONTENT
        assert Server.ranges == [asked]


def test_a_part_of_another_file_is_found_out_by_the_checksum(address: str, tmp_path: Path) -> None:
    (tmp_path / "good.part").write_bytes(b"x" * 1000)
    (tmp_path / "good.part.json").write_text(json.dumps({"url": f"{address}/good"}))
    assert get(address, "good", tmp_path, sha256=SHA).read_bytes() == CONTENT
    (tmp_path / "good").unlink()
    (tmp_path / "good.part").write_bytes(CONTENT + b"more")
    (tmp_path / "good.part.json").write_text(json.dumps({"url": f"{address}/good"}))
    assert get(address, "good", tmp_path, sha256=SHA, size=len(CONTENT)).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("kind", "known", "words"),
    [
        ("other", {"sha256": SHA}, "SHA-256"),
        ("other", {"sha256": SHA, "size": len(CONTENT)}, "700,000|tried"),
        ("short", {"sha256": SHA}, "SHA-256"),
        ("longnorange", {}, "ended after 700,000 of 705,000 bytes"),
        ("always", {}, "tried 5 times"),
        ("missing", {}, "404"),
    ],
)
def test_what_is_not_the_file_is_refused(
    kind: str, known: dict[str, Any], words: str, address: str, tmp_path: Path
) -> None:
    with pytest.raises(DownloadError, match=words):
        get(address, kind, tmp_path, **known)
    assert not (tmp_path / kind).exists()


def test_a_compressed_file_that_is_cut_short_is_refused_without_a_checksum(address: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="compressed data"):
        download.download(f"{address}/short.gz", tmp_path / "short.gz", pause=0.0)
    assert not list(tmp_path.iterdir())
    download.download(f"{address}/good.gz", tmp_path / "good.gz", pause=0.0)
    assert gzip.decompress((tmp_path / "good.gz").read_bytes()) == CONTENT


def test_nobody_there_and_odd_addresses(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DownloadError, match="refused"):
        download.download(f"http://127.0.0.1:{port}/x", tmp_path / "x", pause=0.0)
    for url in ("file:///etc/passwd", "ftp://example.org/x"):
        with pytest.raises(DownloadError, match="only http"):
            download.download(url, tmp_path / "x")


def test_existing_files_and_the_cache(address: str, tmp_path: Path) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "here"
    source = Source(f"{address}/good", "good", sha256=SHA)
    download.fetch(source, cache)
    assert Server.seen["good"] == 1
    made, remarks = download.fetch(source, folder, cache=cache)
    assert made == [folder / "good"]
    assert "copied from the cache" in remarks[0]
    assert Server.seen["good"] == 1
    assert "exists already" in download.fetch(source, folder, cache=cache)[1][0]
    (folder / "good").write_text("changed by hand")
    with pytest.raises(DownloadError, match="--force"):
        download.fetch(source, folder, cache=cache)
    download.fetch(source, folder, cache=cache, force=True)
    assert Server.seen["good"] == 2
    assert (folder / "good").read_bytes() == CONTENT
    other = dataclasses.replace(source, sha256=None, copy_sha256="0" * 64)
    assert "differs from the copy" in download.fetch(other, tmp_path / "there")[1][0]


def test_archives_are_unpacked_beside_themselves(tmp_path: Path, address: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in ("folder/table.csv", "../outside.csv"):
            member = tarfile.TarInfo(name)
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))
    here = tmp_path / "here"
    here.mkdir()
    (here / "t.tar.gz").write_bytes(packed.getvalue())
    made, _ = download.fetch(Source(f"{address}/t.tar.gz", "t.tar.gz", unpack=True), here)
    assert [path.name for path in made] == ["table.csv", "outside.csv"]
    assert sorted(path.name for path in here.iterdir()) == ["outside.csv", "t.tar.gz", "table.csv"]
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


# ---- the catalog itself ----------------------------------------------------------------------------------------------


def test_entries_are_sound() -> None:
    known = catalog.catalog()
    assert len(known) > 70
    for name, entry in known.items():
        assert entry.format in FORMATS or entry.format in ("pm100", "fdata")
        assert entry.page.startswith("https://")
        assert entry.uncleaned is None or entry.uncleaned in known
        assert not entry.flurries or entry.cleaned
        for source in entry.files:
            assert source.url.startswith("https://")
            assert source.name
            assert all(len(sha) == 64 for sha in (source.sha256, source.copy_sha256) if sha)
        if not entry.files:
            with pytest.raises(TracekitError, match="from https"):
                catalog.require_address(entry)
        assert catalog.find(name.upper()) == entry
    assert catalog.find("SDSC-SP2-1998-4.2-cln").flurries[0].startswith("user=21")


def test_unknown_names_get_suggestions() -> None:
    with pytest.raises(UsageError, match=r"did you mean KTH-SP2-1996-2\.1-cln or KTH-SP2-1996-2\?"):
        catalog.find("kth")
    with pytest.raises(UsageError, match="tracekit catalog"):
        catalog.find("zzzzqq")


def test_catalog_on_the_command_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "create_connection", refuse)
    code, out, _ = run("catalog")
    assert code == 0
    assert "KTH-SP2-1996-2.1-cln" in out
    code, out, _ = run("catalog", "--json")
    traces = json.loads(out)["traces"]
    assert {"name", "page", "licence", "citation", "bytes", "format", "files"} <= set(traces[0])
    code, out, _ = run("catalog", "philly", "--json")
    assert json.loads(out)["jobs"] == 117325
    code, out, _ = run("catalog", "Philly")
    assert "1901.05758" in out
    assert run("catalog", "nothing-like-it")[0] == 2
    code, _, error = run("fetch", "CSWA")
    assert code == 1
    assert "https://git.ustc.edu.cn/shenyu/CSWA/" in error


def test_fetch_on_the_command_line(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str) -> None:
    entry = dataclasses.replace(
        catalog.find("KTH-SP2-1996-2.1-cln"), files=(Source(f"{address}/drop", "kth.swf", sha256=SHA),)
    )
    monkeypatch.setattr(catalog, "find", lambda name: entry)
    monkeypatch.setenv("TRACEKIT_CACHE", str(tmp_path / "cache"))
    code, out, error = run("fetch", "KTH", "--json")
    assert code == 0, error
    assert json.loads(out)["files"] == [str(tmp_path / "cache" / "kth.swf")]
    assert "please acknowledge: Lars Malinowsky" in error
    code, out, _ = run("fetch", "KTH", "-o", tmp_path)
    assert out.strip() == str(tmp_path / "kth.swf")
    wrong = dataclasses.replace(entry, files=(Source(f"{address}/other", "o", sha256=SHA),))
    monkeypatch.setattr(catalog, "find", lambda name: wrong)
    code, _, error = run("fetch", "KTH", "-o", tmp_path)
    assert code == 1
    assert "discarded" in error
