"""Tasks on a Ray cluster, by its address, or on a small Ray of this machine."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.experiment.cores import ONE_THREAD, cores
from evaluation.experiment.tasks import Input, Result, Store, Task
from tracekit.errors import MissingExtra, TracekitError
from tracekit.large.source import gigabytes

#: How often the processors of a cluster are counted, in seconds: nodes come and go.
_COUNT = 10.0
#: Contents of files by name.
Files = dict[str, NDArray[np.uint8]]


def check(address: str | None) -> None:
    """Refuse early, before any work, where Ray or the cluster is not there."""
    _ray()
    _check_reachable(address or os.environ.get("RAY_ADDRESS"))


class Ray:
    """Tasks of a Ray cluster. Files travel through Ray, so its machines need no folder in common with this one.

    Ray starts a task again when its worker or its node dies. Without an address, and without RAY_ADDRESS in the
    environment (set by clusters and by ``ray job submit``), a small Ray of this machine is started.
    """

    name = "ray"

    def __init__(
        self, store: Store, address: str | None = None, *, retries: int = 3, memory: int | None = None
    ) -> None:
        ray = _ray()
        self.ray, self.store, self.memory = ray, store, memory
        self._sent: dict[str, Any] = {}  # address of a content -> object in Ray's store
        self._running: dict[Any, Task] = {}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray asks for it; there are no GPUs here
        self._ours = not ray.is_initialized()
        if self._ours:
            _connect(ray, address or os.environ.get("RAY_ADDRESS") or None)
        try:
            self._check_memory()
        except TracekitError:
            self.close()
            raise
        self._count()
        self._work = ray.remote(num_cpus=1, max_retries=retries, retry_exceptions=False)(_work_far_away)

    def _check_memory(self) -> None:
        """Refuse workers that no node has the memory for: Ray would wait for such a node for ever."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        largest = int(max((node.get("memory", 0) for node in nodes), default=0))
        if self.memory is not None and self.memory > largest:
            raise TracekitError(
                f"a worker may take {gigabytes(self.memory)}, and the largest node of the Ray cluster has "
                f"{gigabytes(largest)} for tasks: give less with --worker-memory"
            )

    def _count(self) -> None:
        """Take as many tasks at once as the cluster has processors, and memory, now."""
        there = self.ray.cluster_resources()
        self.slots = max(1, int(there.get("CPU", 1)))
        if self.memory is not None:
            self.slots = max(1, min(self.slots, int(there.get("memory", 0)) // self.memory))
        self.heavy = max(1, self.slots // 2)
        self._counted = time.monotonic()

    def start(self, task: Task) -> None:
        """Send the task with its files."""
        run = self.store.home(task.key).run
        files = {name: self._file(run, i) for name, i in task.inputs.items()}
        order = {"task": task.to_dict(), "paths": sys.path, "names": list(files), "memory": self.memory}
        options = {"name": task.label} | ({} if self.memory is None else {"memory": self.memory})
        future = self._work.options(**options).remote(order, *files.values())
        self._running[future] = task

    def wait(self, seconds: float) -> list[tuple[Task, Result]]:
        """Fetch the files of finished tasks."""
        if time.monotonic() - self._counted > _COUNT:
            self._count()
        if not self._running:
            time.sleep(min(seconds, 0.1))
            return []
        done, _ = self.ray.wait(list(self._running), num_returns=1, timeout=seconds)
        return [(task, self._fetched(task, future)) for future in done if (task := self._running.pop(future))]

    def _fetched(self, task: Task, future: Any) -> Result:
        try:
            plain, files = self.ray.get(future)
        except (self.ray.exceptions.RayError, OSError) as error:
            kind = type(error).__name__
            return Result(ok=False, reason=f"Ray gave it up: {kind}: {' '.join(str(error).split())[:200]}", lost=True)
        result = Result(**plain)
        if result.final:
            store = self.store.home(task.key)
            scratch = store.scratch(task.key)
            _unpack(files, scratch)
            store.keep(task, scratch, result)
        return result

    def stop(self, task: Task) -> None:
        """Cancel the task by force."""
        for future, own in list(self._running.items()):
            if own.key == task.key:
                del self._running[future]
                self.ray.cancel(future, force=True)

    def close(self) -> None:
        """Cancel what runs; a Ray that was started here ends."""
        for task in list(self._running.values()):
            self.stop(task)
        self._sent.clear()
        if self._ours:
            self.ray.shutdown()

    def _file(self, run: Path, i: Input) -> Any:
        """Return a file as an object of Ray's store, where it is once for all tasks and runs that read it."""
        address = i.digest or i.path
        if address not in self._sent:
            self._sent[address] = self.ray.put(_packed(run / i.path))
        return self._sent[address]


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingExtra("ray", "ray") from None
    return ray


def _connect(ray: Any, address: str | None) -> None:
    """Connect to a cluster, or start a small one; whatever goes wrong is one line."""
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")  # a job's own variables may name threads as well
    _check_reachable(address)
    with _warnings() as printed:
        try:
            ray.init(**_ray_options(address))
            return
        except (ConnectionError, ValueError, OSError, RuntimeError, ray.exceptions.RayError) as error:
            reason, kind = " ".join(str(error).split())[:300], type(error).__name__
    if kind == "AuthenticationError" or any(word in printed() for word in ("Unauthenticated", "InvalidAuthToken")):
        raise TracekitError(
            f"the Ray cluster at {address} needs a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or "
            "RAY_AUTH_TOKEN_PATH to the token of that cluster"
        )
    raise TracekitError(f"no Ray cluster {f'at {address}' if address else 'here'}: {reason}")


@contextlib.contextmanager
def _warnings() -> Iterator[Callable[[], str]]:
    """Keep what Ray's C++ part prints on standard error, past Python, during the block; yield a way to read it."""
    with tempfile.TemporaryFile() as kept, contextlib.ExitStack() as stack:
        text = ""
        try:
            before = os.dup(2)
        except OSError:  # standard error is closed
            yield lambda: ""
            return
        stack.callback(os.close, before)
        stack.callback(os.dup2, before, 2)
        sys.stderr.flush()
        os.dup2(kept.fileno(), 2)

        def read() -> str:
            return text

        try:
            yield read
        finally:
            kept.seek(0)
            text = kept.read().decode(errors="replace")


def _check_reachable(address: str | None) -> None:
    """Try to connect first: Ray itself keeps trying for minutes."""
    import socket

    host, _, port = (address or "").rpartition("/")[2].rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise TracekitError(f"no Ray cluster at {address}: {error.strerror or error}") from None


def _ray_options(address: str | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": "ERROR",
        "runtime_env": {"env_vars": ONE_THREAD},
    }
    if address and address != "local":
        return options | {"address": address}
    return options | {
        "address": "local",  # not one that happens to run here
        "num_cpus": cores(),
        "include_dashboard": False,
        "object_store_memory": 200 * 1024**2,
        "_node_ip_address": "127.0.0.1",  # a Ray for this machine alone
    }


def _work_far_away(order: dict[str, Any], *packed: Files) -> tuple[dict[str, Any], Any]:
    """Do a task wherever Ray put it: unpack its inputs, work in a temporary folder, and send the files back."""
    sys.path += [path for path in order["paths"] if path and path not in sys.path]  # the user's own models, if any
    from evaluation.experiment.stages import perform

    with tempfile.TemporaryDirectory(prefix="tracekit-") as folder:
        inputs = {}
        for name, files in zip(order["names"], packed, strict=True):
            place = Path(folder) / "in" / name
            place.mkdir(parents=True)
            _unpack(files, place)
            inputs[name] = place / next(iter(files)).partition("/")[0]
        out = Path(folder) / "out"
        out.mkdir()
        result = perform(Task.of(order["task"]), inputs, out, order["memory"])
        return vars(result), _packed(out, inside=True) if result.final else {}


def _packed(path: Path, *, inside: bool = False) -> Files:
    """Return a file, or all files of a folder, by their names; ``inside``: without the folder's own name.

    Arrays of bytes: a worker maps them from the store of its node, read-only, in place of a copy of its own.
    """
    if path.is_file():
        return {path.name: _content(path)}
    root = path if inside else path.parent
    return {p.relative_to(root).as_posix(): _content(p) for p in sorted(path.rglob("*")) if p.is_file()}


def _content(path: Path) -> NDArray[np.uint8]:
    return np.frombuffer(path.read_bytes(), np.uint8)


def _unpack(files: Files, folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.data)
