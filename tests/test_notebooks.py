"""The notebooks run, use the public API only, and are stored with their outputs."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from shared_data import ROOT

FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
#: Jobs that are enough for every cell to do its work.
SMALL = {
    "1-a-first-trace": 600,
    "2-synthesise-and-compare": 600,
    "3-train-on-synthetic": 1200,
    "4-add-your-own": 400,
    "5-hosts-and-placement": 300,
    "6-orders-of-a-queue": 800,
    "7-energy": 300,
    "8-predict-run-times": 1500,
    "9-a-real-slurm": 8,
}


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def test_all_are_tested() -> None:
    assert [path.stem for path in NOTEBOOKS] == list(SMALL)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_stored_outputs_are_those_of_one_clean_run(path: Path) -> None:
    code = cells(path, "code")
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [out for cell in code for out in cell["outputs"]]
    assert not [out for out in outputs if out["output_type"] == "error" or out.get("name") == "stderr"]
    assert any("image/png" in out.get("data", {}) for out in outputs), "a tour has pictures"
    text = path.read_text(encoding="utf-8")
    assert len(text) < 500_000
    assert str(ROOT.parent) + "/" not in text
    assert "/tmp/" not in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_only_the_public_api_is_used(path: Path) -> None:
    code = "\n".join(line for cell in cells(path, "code") for line in source(cell).splitlines() if line[:1] != "%")
    for node in ast.walk(ast.parse(code)):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not {name.partition(".")[0] for name in names} & {"swf", "generators", "evaluation"}
        assert not any(part.startswith("_") for name in names for part in name.split("."))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_links_between_notebooks_lead_somewhere(path: Path) -> None:
    import re

    for cell in cells(path, "markdown"):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", source(cell)):
            assert (FOLDER / target).exists(), target


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.slow
def test_it_runs(path: Path) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    if path.stem.startswith("3"):
        pytest.importorskip("torch", reason="training needs the extra rl")
    command = [sys.executable, str(FOLDER / "execute.py"), "--check", "--jobs", str(SMALL[path.stem]), str(path)]
    before = path.read_bytes()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert path.read_bytes() == before
