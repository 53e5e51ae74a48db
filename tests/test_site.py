"""The documentation as a site: its reference is made from the registries, and it loads nothing from other sites."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from shared_data import ROOT


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    found: dict[str, str] = script("_generate").pages()
    return found


def nav() -> list[str]:
    return re.findall(r"^\s+- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


def test_every_page_is_in_the_menu_and_there(pages: dict[str, str]) -> None:
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(nav()) == sorted(written | set(pages))


def test_the_reference_names_everything_that_is_registered(pages: dict[str, str]) -> None:
    from evaluation.base import METRICS
    from generators import MODELS
    from swf import FORMATS
    from tracekit.cleaning import RULES
    from tracekit.cli.app import app
    from tracekit.schema import COLUMNS
    from tracekit.sim.policies.builtin import POLICIES
    from tracekit.sim.switches import Switches

    for page, names in {
        "formats": FORMATS,
        "models": MODELS,
        "metrics": METRICS,
        "policies": POLICIES,
        "switches": Switches.__dataclass_fields__,
        "columns": [*(column.name for column in COLUMNS), *RULES],
    }.items():
        for name in names:
            assert f"`{name}`" in pages[f"reference/{page}.md"], (page, name)
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        assert f"## {name}\n" in pages["reference/commands.md"], name


def test_every_switch_has_a_meaning(pages: dict[str, str]) -> None:
    rows = [line for line in pages["reference/switches.md"].splitlines() if line.startswith("| `")]
    assert len(rows) > 10
    assert not [row for row in rows[:12] if row.endswith("|  |")]


def test_tables_of_the_reference_are_tables(pages: dict[str, str]) -> None:
    for place, text in pages.items():
        for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(widths) == 1, (place, block[:200])


def test_the_picture_of_the_rooms_is_current() -> None:
    assert (ROOT / "docs" / "assets" / "packages.svg").read_text(encoding="utf-8") == script("_packages").picture()


def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="the extra docs is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    made = sorted((tmp_path / "site").rglob("*.html"))
    assert len(made) > 25
    loads = re.compile(r"<(?:script|link|img|iframe|source)[^>]*(?:src|href)=[\"']?(?:https?:)?//[^\"' >]*")
    for page in made:
        found = [tag for tag in loads.findall(page.read_text(encoding="utf-8")) if 'rel="canonical"' not in tag]
        assert not found, (page.name, found)
    for sheet in (tmp_path / "site").rglob("*.css"):
        assert not re.findall(r"@import[^;]*https?:|url\([\"']?https?:", sheet.read_text(encoding="utf-8")), sheet.name
