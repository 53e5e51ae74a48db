"""The one way in which tests and benchmarks reach real traces, which are never part of the repository."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("TRACEKIT_DATA") or ROOT.parent / "shared" / "data")


def shared(name: str) -> Path:
    """Return a file of the shared data, or skip the test with the reason."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"needs {name} of the shared data (set TRACEKIT_DATA to its folder)")
    return path


def checked(name: str) -> Any:
    """Return the numbers to reproduce of one JSON file, or skip the test with the reason."""
    path = DATA.parent / "checks" / name
    if not path.exists():
        pytest.skip(f"needs checks/{name} beside the shared data")
    return json.loads(path.read_text())


def shared_files(pattern: str) -> list[Path]:
    """Return the shared files that match, for parametrised tests; none where the data is not there."""
    return sorted(DATA.glob(pattern))
