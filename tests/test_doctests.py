"""The examples in docstrings run and print what they say; those of modules that need an extra skip without it."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from tracekit.errors import MissingExtra
from tracekit.registry import EXTRAS

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("tracekit", "swf", "generators", "evaluation")


def modules_with_examples() -> list[str]:
    """Return the modules whose source holds an example."""
    files = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    named = [path.relative_to(ROOT).with_suffix("") for path in files if ">>> " in path.read_text(encoding="utf-8")]
    return [".".join(name.parts).removesuffix(".__init__") for name in named]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        module = importlib.import_module(name)
    except MissingExtra as error:
        pytest.skip(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRAS:
            raise
        pytest.skip(f"{name} needs {error.name}, which is not installed")
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
