"""Time and peak memory as traces grow. Every part is a module scale_<name>.py beside this file.

    python benchmarks/bench_scale.py commands --jobs 100000 1000000 10000000

Each command runs in a process of its own, and the kernel says what its peak memory was (``ru_maxrss``). This process
imports nothing large, because a child begins with the memory of its parent.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def measured(command: Sequence[str], environment: dict[str, str] | None = None) -> dict[str, float]:
    """Run a command; return its seconds, its CPU seconds and its peak memory in MB. It must succeed."""
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {child.returncode}")
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "cpu_s": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 1024}


def tracekit(*words: object) -> list[str]:
    """Return the command line of a tracekit command."""
    return [sys.executable, "-m", "tracekit", *map(str, words)]


def show(row: dict[str, Any]) -> None:
    """Print one result as a line of JSON, at once."""
    print(json.dumps({k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    sys.path.insert(0, str(HERE))
    for file in sorted(HERE.glob("scale_*.py")):
        module = importlib.import_module(file.stem)
        one = parts.add_parser(file.stem.removeprefix("scale_"), help=(module.__doc__ or "").splitlines()[0])
        module.add_arguments(one)
        one.set_defaults(run=module.run)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
