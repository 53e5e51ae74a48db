"""A real browser for tests: Chromium without a window, spoken to in its DevTools protocol over a pipe.

Only the standard library: the protocol is JSON messages that end in a zero byte, on file descriptors 3 and 4.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 90  # seconds without an answer after which the browser counts as hung; no statement about speed


def executable() -> str | None:
    """The browser that is installed, if any."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser process with one page."""

    def __init__(self, folder: Path) -> None:
        self.downloads = folder / "downloads"
        self.downloads.mkdir()
        self.profile = tempfile.mkdtemp(prefix="tracekit-chromium-")
        path = executable()
        assert path is not None
        their_in, self._out = os.pipe()
        self._in, their_out = os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (their_in, their_out)]  # 3 and 4 may be in use
        self.process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            close_fds=False,
            preexec_fn=lambda: [os.dup2(end, 3 + k) for k, end in enumerate(high)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (their_in, their_out, *high):
            os.close(end)
        self._buffer, self._number = b"", 0
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self.profile, ignore_errors=True)

    # ---- the protocol ------------------------------------------------------------------------------------------------

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method and return its result; events that come meanwhile are kept."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive()
            if found.get("id") == number:
                assert "error" not in found, (method, found["error"])
                result: dict[str, Any] = found["result"]
                return result
            self.events.append(found)

    def _receive(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has gone"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def wait_for(self, method: str) -> dict[str, Any]:
        """Return the first event of a kind that has come or comes."""
        while True:
            for k, event in enumerate(self.events):
                if event.get("method") == method:
                    return dict(self.events.pop(k)["params"])
            self.events.append(self._receive())

    # ---- the page ----------------------------------------------------------------------------------------------------

    def open(self, path: Path, fragment: str = "") -> None:
        self.events.clear()
        self.send("Page.navigate", url="about:blank")
        self.wait_for("Page.loadEventFired")
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri() + fragment)
        self.wait_for("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """Evaluate a script in the page and return its value."""
        found = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def size(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def media(self, kind: str = "screen", scheme: str = "light") -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.send("Emulation.setEmulatedMedia", media=kind, features=[feature])

    def saved(self, script: str) -> bytes:
        """Run a script that saves a file and return what was saved."""
        self.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads), eventsEnabled=True)
        self.run(script)
        name = self.wait_for("Browser.downloadWillBegin")["suggestedFilename"]
        while self.wait_for("Browser.downloadProgress")["state"] == "inProgress":
            pass
        return (self.downloads / name).read_bytes()

    def complaints(self) -> list[str]:
        """Everything that the page has said on the console or thrown, and every request beyond its own file."""
        self.run("new Promise((done) => setTimeout(done, 50))")
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif event.get("method") == "Runtime.consoleAPICalled":
                found.append(str(params["args"]))
            elif event.get("method") == "Log.entryAdded":
                found.append(str(params["entry"].get("text")))
            elif event.get("method") == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if params.get("type") != "Document" and not url.startswith(("data:", "blob:")):
                    found.append(f"request for {url}")
        return found
