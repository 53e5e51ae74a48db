"""How much memory one worker may take: what is asked for, what is there, and the kernel's own bound on a process.

A worker that asks the kernel for more than its share gets a MemoryError, which is the reason of its task, and no
neighbour is killed for it. What is mapped from files is not counted, as it can be dropped at any time.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from evaluation.experiment.tasks import BASE
from tracekit import limits
from tracekit.environment import memory
from tracekit.errors import TracekitError, UsageError
from tracekit.large.source import gigabytes

#: Workers may take this share of the free memory together, where nothing is asked for; the rest is for this process.
SHARE = 0.8
#: Arrow's own allocator reserves a gigabyte that it does not use, which the kernel would count.
PLAIN_ALLOCATION = {"ARROW_DEFAULT_MEMORY_POOL": "system"}


def read_memory(text: str | None) -> int | None:
    """Read ``--worker-memory``: bytes, with K, M or G for powers of 1024."""
    if text is None:
        return None
    found = limits.read_amount(text)
    if found is None:
        raise UsageError(f"--worker-memory {text}: write a number of bytes, such as 2G or 1500M")
    if found < BASE:
        raise UsageError(
            f"--worker-memory {text}: a worker needs {BASE // 1024**2} MB before it reads a job; give more"
        )
    return found


def free() -> int | None:
    """Return the free memory of this machine in bytes, within a container's limit; None = unknown."""
    known = memory()
    return None if known is None else known[1]


def workers(cores: int, each: int | None) -> int:
    """Return how many workers of ``each`` bytes run side by side, one a core at most; an error if not one fits."""
    there = free()
    if each is None or there is None:
        return cores
    if each > there:
        raise TracekitError(
            f"a worker may take {gigabytes(each)} (--worker-memory), and {gigabytes(there)} of this machine are free: "
            "give less, or end other programs"
        )
    return max(1, min(cores, there // each))


def share(cores: int, largest: int = 0) -> int | None:
    """Return what each worker may take where nothing is asked for: equal shares, of fewer workers for a large task.

    None: the free memory is unknown.
    """
    there = free()
    if there is None:
        return None
    room = int(SHARE * there)
    count = max(1, min(cores, room // max(largest, BASE)))
    return room // count


@contextlib.contextmanager
def bounded(most: int | None) -> Iterator[None]:
    """Bound what this process may allocate during the block, and what reading a trace may take; None = no bound."""
    if most is None:
        yield
        return
    before, variable = resource.getrlimit(resource.RLIMIT_DATA), os.environ.get(limits.VARIABLE)
    known = _status()  # stacks and arenas that are reserved and not used are no memory, but the kernel counts them
    bound, hard = most + max(known.get("VmData", 0) - known.get("RssAnon", 0), 0), before[1]
    resource.setrlimit(resource.RLIMIT_DATA, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))
    limits.change([f"memory={most}"])
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
        if variable is None:
            os.environ.pop(limits.VARIABLE, None)
        else:
            os.environ[limits.VARIABLE] = variable


def forget_peak() -> None:
    """Let `peak` begin anew, where the kernel can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak() -> float:
    """Return the most memory that this process has held at once since `forget_peak`, in MB.

    `getrusage` would also count the process that started this one.
    """
    held = _status().get("VmHWM")
    return held / 1024**2 if held else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _status() -> dict[str, int]:
    """Return what the kernel says of this process's memory, in bytes; empty where it does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    return {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith(" kB")}
