"""The environment: versions, extras, cores, memory, folders. Changes nothing."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tracekit.errors import DISTRIBUTION, TracekitError, pip_line

#: What one wants to do, as `tracekit --help` groups it; what of it; and the extra or the program that it needs.
PURPOSES: tuple[tuple[str, str, str], ...] = (
    ("Look", "info, validate, doctor, plot, explore", ""),
    ("Get and prepare", "all formats, cleaning, cutting, merging", ""),
    ("Make synthetic traces", "sessions, lublin, eda, user-resample", ""),
    ("Make synthetic traces", "learned models", "synth"),
    ("Make synthetic traces", "model private", "dp"),
    ("Judge", "score, report, verdict, experiment", ""),
    ("Judge", "experiment with agents (learners ppo, order, pick-host)", "rl"),
    ("Judge", "experiment --engine ray", "ray"),
    ("Share", "share, anonymize", ""),
    ("Schedule", "simulate, order, energy, also with trained agents", ""),
    ("Learn", "train --task predict-run-time", ""),
    ("Learn", "train, ablation, order-study, Gymnasium environments", "rl"),
    ("Learn", "training with stable-baselines3", "sb3"),
    ("Run on a cluster", "serve, lsf, slurm export", ""),
    ("Run on a cluster", "slurm start, slurm replay", "slurmctld"),
)
_PROGRAMS = {"slurmctld": "install Slurm (Debian: apt-get install slurm-wlm munge)"}
#: What needs an extra; the command line adds the models.
EXTRA_USES = {
    "synth": "learned models of synth",
    "rl": "train, experiment and verdict with agents, Gymnasium environments",
    "ray": "experiment --engine ray",
    "sb3": "environments for stable-baselines3 and sb3-contrib",
    "dp": "model private",
    "events": "formats google-2019 and alibaba-2018",
    "docs": "make docs",
    "dev": "make test",
}


@dataclass(frozen=True)
class Package:
    """A package that tracekit requires."""

    name: str
    wanted: str  # versions, such as >=2.4; empty = any
    found: str | None  # the installed version; None = not installed
    extra: str = ""  # the extra that installs it; empty = always needed

    @property
    def fine(self) -> bool:
        """Return whether a suitable version is installed."""
        from packaging.specifiers import SpecifierSet

        return self.found is not None and SpecifierSet(self.wanted).contains(self.found, prereleases=True)


def packages() -> list[Package]:
    """Return every package that the installed tracekit requires, those always needed first, then by extra."""
    from packaging.requirements import Requirement

    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        raise TracekitError("tracekit runs from its sources but is not installed: pip install -e .") from None
    found: list[Package] = []
    for line in lines:
        need = Requirement(line)
        _, _, extra = str(need.marker or "").partition('extra == "')
        found.append(Package(need.name, str(need.specifier), _version(need.name), extra.rstrip('"')))
    return [one for one in found if one.extra != "all"]  # all = the other extras again


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def extras(found: list[Package]) -> dict[str, list[Package]]:
    """Return, for every extra, those of its packages that are missing or too old; none = it is installed."""
    names = {one.extra for one in found if one.extra}
    order = [*EXTRA_USES, *sorted(names - set(EXTRA_USES))]
    return {name: [one for one in found if one.extra == name and not one.fine] for name in order if name in names}


def cores() -> int:
    """Return how many cores this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> tuple[int, int] | None:
    """Return (total, available) memory in bytes, within the limit of a container; None = unknown."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        known = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
        total, free = known["MemTotal"], known["MemAvailable"]
    except (OSError, ValueError, KeyError, IndexError):
        return None
    for limit in _container_limits():
        total, free = min(total, limit), min(free, limit)
    return total, free


def _container_limits() -> Iterator[int]:
    for place in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            yield int(Path(place).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue  # no such file, or "max"


def purposes(found: list[Package]) -> list[dict[str, Any]]:
    """Return what can be done here: purpose, what of it, whether all that it needs is installed, and what to do."""
    lacking, made = extras(found), []
    for purpose, what, need in PURPOSES:
        program = need in _PROGRAMS
        ready = not need or (_find(need) is not None if program else not lacking.get(need, True))
        advice = "" if ready else _PROGRAMS[need] if program else pip_line(need)
        made.append({"purpose": purpose, "what": what, "ready": ready, "advice": advice})
    return made


def _find(program: str) -> str | None:
    """Return where a program is; those of administrators may not be on the path."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin:/sbin")


@dataclass(frozen=True)
class Folder:
    """A folder that tracekit writes to on its own."""

    use: str
    path: Path

    @property
    def writable(self) -> bool:
        """Return whether it, or the nearest existing folder above it, is writable."""
        return os.access(self._existing(), os.W_OK)

    @property
    def free(self) -> int:
        """Return the free space there, in bytes."""
        return shutil.disk_usage(self._existing()).free

    def _existing(self) -> Path:
        place = self.path.absolute()
        while not place.exists():
            place = place.parent
        return place


def folders() -> list[Folder]:
    """Return the folders of downloads, compiled code and temporary files."""
    from tracekit.catalog import cache_folder as downloads
    from tracekit.sim.compile import cache_folder as compiled

    code = compiled()
    return [
        Folder("downloads", downloads()),
        *([Folder("compiled simulator", code)] if code is not None else []),
        Folder("temporary files", Path(tempfile.gettempdir())),
    ]


def describe() -> dict[str, Any]:
    """Return all of it as plain values, as `tracekit env --json` prints it."""
    from tracekit import __version__

    found = packages()
    total_and_free = memory()
    return {
        "tracekit": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "cores": cores(),
        "memory_bytes": total_and_free[0] if total_and_free else None,
        "available_bytes": total_and_free[1] if total_and_free else None,
        "packages": {one.name: one.found for one in found if not one.extra},
        "missing": [f"{one.name}{one.wanted}" for one in found if not one.extra and not one.fine],
        "extras": {
            name: {
                "installed": not lacking,
                "packages": {one.name: one.found for one in found if one.extra == name},
                "missing": [f"{one.name}{one.wanted}" for one in lacking],
                "needed_for": EXTRA_USES.get(name, ""),
            }
            for name, lacking in extras(found).items()
        },
        "purposes": purposes(found),
        "folders": [
            {"use": one.use, "path": str(one.path), "writable": one.writable, "free_bytes": one.free}
            for one in folders()
        ],
    }
