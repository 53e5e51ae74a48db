"""The scheduler extender of Kubernetes: POST /filter and POST /prioritize.

kube-scheduler sends ``{"Pod", "Nodes" | "NodeNames"}``: whole nodes, or names only (``nodeCacheCapable``). /filter
answers with the nodes on which the pod can run, and why it cannot on the others; its errors are HTTP 200 with
``Error``, as the protocol has it. /prioritize answers with scores from 0 to 10. Neither message states which pods run
where: that is read from files which ``kubectl get nodes -o json`` and ``kubectl get pods -A -o json`` wrote, again when
they change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.errors import FormatError, TracekitError
from tracekit.files import read_json
from tracekit.service.host_choice import Floats, HostJobs, HostQuestion, HostTable, Scorer, with_room
from tracekit.service.host_protocol import MOST_HOSTS, read_object
from tracekit.service.protocol import VERSION, Refused
from tracekit.service.quantities import get, node_name, node_size, pod_request, used_by_node

#: The largest score of a node (MaxExtenderPriority).
MOST_SCORE = 10
_SHORT = ("cpu", "memory", "gpu")


class ListFile:
    """A list that kubectl wrote; it is read again when the file has changed."""

    def __init__(self, file: str | Path | None, read: Callable[[list[Any]], dict[str, Any]]) -> None:
        self._file, self._read = None if file is None else Path(file), read
        self._stamp: tuple[int, int] | None = None
        self._found: dict[str, Any] = {}

    def current(self) -> dict[str, Any]:
        """Return what the file holds; a file that cannot be read is an error at the start, later the last state."""
        if self._file is None:
            return self._found
        try:
            facts = self._file.stat()
        except OSError:
            if self._stamp is None:
                raise FormatError(self._file, "no such file") from None
            return self._found
        stamp = (facts.st_mtime_ns, facts.st_size)
        if stamp != self._stamp:
            try:
                self._found = self._read(_items(self._file))
            except TracekitError:
                if self._stamp is None:
                    raise
            self._stamp = stamp
        return self._found


def _items(file: Path) -> list[Any]:
    data = read_json(file)
    items = data if isinstance(data, list) else get(data, "items")
    if not isinstance(items, list):
        raise FormatError(file, "has no list 'items'", hint="write it with kubectl get … -o json")
    return items


def _sizes(nodes: list[Any]) -> dict[str, Any]:
    return {node_name(node): size for node in nodes if (size := node_size(node)) is not None}


class Extender:
    """Answers kube-scheduler by a baseline or an agent."""

    def __init__(
        self, scorer: Scorer, name: str, *, nodes: str | Path | None = None, pods: str | Path | None = None
    ) -> None:
        self.scorer, self.name = scorer, name
        self._sizes = ListFile(nodes, _sizes)
        self._used: ListFile = ListFile(pods, lambda items: dict(used_by_node(items)))
        self._lock = threading.Lock()

    @property
    def posts(self) -> Mapping[str, Callable[[bytes], Any]]:
        """The paths that take requests."""
        return {"/filter": self.filter, "/prioritize": self.prioritize}

    def prepare(self) -> None:
        """Read the files and score once, so that mistakes are reported at the start."""
        self._sizes.current()
        self._used.current()
        hosts = HostTable(["a", "b"], np.ones((2, 3)), np.ones((2, 3)))
        self.scorer.scores(HostQuestion(hosts, _as_jobs(np.zeros(3)), 0, np.arange(2)))

    def about(self) -> dict[str, Any]:
        """Return who answers."""
        return {"version": VERSION, "kind": "pick-host", "protocol": "kubernetes", "agent": self.name}

    def answer(self, request: Any) -> dict[str, Any]:
        """Not a path of this protocol."""
        raise Refused(404, "this service speaks the protocol of Kubernetes extenders: POST /filter, POST /prioritize")

    def filter(self, body: bytes) -> dict[str, Any]:
        """Return the nodes on which the pod can run; an error is an answer with ``Error``."""
        try:
            asked = _Asked(read_object(body))
            need = pod_request(asked.pod)
            with self._lock:
                table, known = self._table(asked)
        except (Refused, TracekitError) as error:
            return {
                "Nodes": None,
                "NodeNames": None,
                "FailedNodes": {},
                "FailedAndUnresolvableNodes": {},
                "Error": str(error),
            }
        lacking = (table.free < need - 1e-9) & (need > 0) & known[:, None]
        never = ((table.total < need - 1e-9) & (need > 0) & known[:, None]).any(axis=1)
        good = ~lacking.any(axis=1)
        failed: dict[str, str] = {}
        hopeless: dict[str, str] = {}
        for i in np.flatnonzero(~good).tolist():
            short = [name for name, bad in zip(_SHORT, lacking[i].tolist(), strict=True) if bad]
            (hopeless if never[i] else failed)[table.names[i]] = f"insufficient {', '.join(short)}"
        rows = np.flatnonzero(good).tolist()
        return {
            "Nodes": None if asked.nodes is None else asked.listed(rows),
            "NodeNames": None if asked.nodes is not None else [table.names[i] for i in rows],
            "FailedNodes": failed,
            "FailedAndUnresolvableNodes": hopeless,
            "Error": "",
        }

    def prioritize(self, body: bytes) -> list[dict[str, Any]]:
        """Return a score from 0 to 10 for every node; 0 where the pod does not fit, or nothing is known of a node."""
        asked = _Asked(read_object(body))
        try:
            need = pod_request(asked.pod)
            with self._lock:
                table, known = self._table(asked)
                marks = self._marks(table, known, need)
        except TracekitError as error:
            raise Refused(422, str(error)) from None
        return [{"Host": name, "Score": mark} for name, mark in zip(table.names, marks.tolist(), strict=True)]

    def _marks(self, table: HostTable, known: Any, need: Floats) -> Any:
        marks = np.zeros(len(table), np.int64)
        rows = with_room(table, need)
        rows = rows[known[rows]]
        if not len(rows):
            return marks
        scores = self.scorer.scores(HostQuestion(table, _as_jobs(need), 0, rows))
        if not np.isfinite(scores).all():
            raise Refused(422, "the scores are not finite; check the quantities")
        low, span = float(scores.min()), float(np.ptp(scores))
        share = (scores - low) / span if span > 0 else np.ones(len(rows))
        marks[rows] = 1 + np.floor(share * (MOST_SCORE - 1) + 1e-9).astype(np.int64)
        self.scorer.placed(int(rows[scores.argmax()]), len(table))
        return marks

    def _table(self, asked: _Asked) -> tuple[HostTable, Any]:
        """Return the nodes as hosts, and of which of them the size is known."""
        sizes, used = self._sizes.current(), self._used.current()
        total = np.full((len(asked.names), 3), np.nan)
        for i, name in enumerate(asked.names):
            size = None if asked.nodes is None else node_size(asked.nodes[i])
            size = sizes.get(name) if size is None else size
            if size is not None:
                total[i] = size
        known = ~np.isnan(total[:, 0])
        total[~known] = 0.0
        taken = np.array([used.get(name, _NOTHING) for name in asked.names]).reshape(-1, 3)
        return HostTable(asked.names, np.maximum(total - taken, 0.0), total), known


_NOTHING = np.zeros(3)


def _as_jobs(need: Floats) -> HostJobs:
    return HostJobs([None], need[None, :], np.full(1, np.nan), np.zeros(1))


class _Asked:
    """What a request states: the pod, and nodes or their names."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.pod = get(data, "Pod")
        if not isinstance(self.pod, dict):
            raise Refused(422, "Pod: must be an object")
        listed, names = get(data, "Nodes"), get(data, "NodeNames")
        self.nodes: list[Any] | None = None
        self._form: dict[str, Any] = listed if isinstance(listed, dict) else {}
        if listed is not None:
            self.nodes = get(listed, "items") if isinstance(listed, dict) else listed
            self.nodes = [] if self.nodes is None else self.nodes
            if not isinstance(self.nodes, list) or not all(isinstance(node, dict) for node in self.nodes):
                raise Refused(422, "Nodes.items: must be a list of objects")
            try:
                names = [node_name(node) for node in self.nodes]
            except TracekitError as error:
                raise Refused(422, f"Nodes.items: {error}") from None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise Refused(422, "give Nodes (a list of nodes) or NodeNames (a list of strings)")
        if len(names) > MOST_HOSTS:
            raise Refused(413, f"{len(names):,} nodes; at most {MOST_HOSTS:,} are allowed")
        if len(set(names)) < len(names):
            raise Refused(422, "two nodes have the same name")
        self.names: list[str] = names

    def listed(self, rows: list[int]) -> dict[str, Any]:
        """Return some of the nodes as a NodeList, as they were sent."""
        assert self.nodes is not None
        rest = {key: value for key, value in self._form.items() if key.lower() != "items"}
        return rest | {"items": [self.nodes[i] for i in rows]}
