"""The documentation says what there is, and what it says works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from shared_data import ROOT

from tracekit.cleaning import RULES
from tracekit.cli.app import app
from tracekit.cli.groups import GROUPS
from tracekit.environment import PURPOSES
from tracekit.errors import MissingExtra
from tracekit.registry import EXTRAS
from tracekit.schema import COLUMNS
from tracekit.validation import CHECKS

Run = Callable[..., tuple[int, str, str]]
README = (ROOT / "README.md").read_text()
DOCS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))}
ALL_DOCS = README + "\n".join(DOCS.values())


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands_of(text: str) -> list[list[str]]:
    """Every line `tracekit …` of shell blocks, as words; what follows a pipe or a redirection is the shell's."""
    lines = "".join(blocks(text, "sh") + blocks(text, "console")).splitlines()
    found = []
    for line in lines:
        line = line.removeprefix("$ ")
        if line.startswith("tracekit "):
            words = shlex.split(line, comments=True)
            ends = [place for place, word in enumerate(words) if word in ("|", ">", "&&", ";")]
            found.append(words[: min(ends, default=len(words))])
    return found


def readme_commands() -> list[list[str]]:
    return commands_of(README)


def examples() -> dict[str, str]:
    """The example of every command, from the docstring that its help is made of."""
    found = {}
    for info in app.registered_commands:
        assert info.callback is not None
        name = info.name or info.callback.__name__
        document = info.callback.__doc__ or ""
        found[name] = document.partition("Example:")[2].strip().strip("`")
    return found


@pytest.mark.slow
def test_the_readmes_commands_run(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = readme_commands()
    assert len(commands) >= 5
    for command in commands:
        code, _, error = run(*command[1:])
        assert code == 0, (command, error)


def test_the_readmes_python_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for code in blocks(README, "python"):
        exec(compile(code, "README.md", "exec"), {})


def test_two_commands_are_named() -> None:
    assert "make demo" in README
    assert "make test" in README


@pytest.mark.parametrize("name", examples())
def test_every_command_has_an_example_and_is_documented(name: str) -> None:
    example = examples()[name]
    assert example.startswith("tracekit "), f"{name}: the help must end with 'Example: `tracekit …`'"
    assert f"tracekit {name}" in example
    assert re.search(rf"`{name}\b", DOCS["docs/commands.md"]), f"{name} is not in docs/commands.md"


def test_commands_are_grouped_by_what_one_wants_to_do() -> None:
    """Every command is in one group, and docs/commands.md has the groups of --help, in their order."""
    import typer

    group: Any = typer.main.get_command(app)
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(group.commands)
    assert group.list_commands(None) == grouped
    page = DOCS["docs/commands.md"]
    assert re.findall(r"^## (.*)$", page, re.MULTILINE)[: len(GROUPS)] == list(GROUPS)
    for title, part in zip(GROUPS, re.split(r"^## .*$", page, flags=re.MULTILINE)[1:], strict=False):
        assert list(dict.fromkeys(re.findall(r"^\| `([a-z-]+)", part, re.MULTILINE))) == list(GROUPS[title]), title
    assert {purpose for purpose, _, _ in PURPOSES} <= set(GROUPS)


def test_every_format_is_documented() -> None:
    from swf import FORMATS

    for name in FORMATS:
        assert f"| `{name}` |" in DOCS["docs/formats.md"], name


def test_every_policy_and_model_is_documented() -> None:
    from generators import MODELS
    from tracekit.sim.policies.builtin import POLICIES

    for registry in (POLICIES, MODELS):
        for name in registry:
            assert f"`{name}`" in ALL_DOCS, name


def test_every_column_check_and_rule_is_documented() -> None:
    text = DOCS["docs/trace.md"]
    for column in COLUMNS:
        assert f"`{column.name}`" in text, column.name
    for check in CHECKS:
        assert f"`{check.name}`" in text, check.name
    for name in RULES:
        assert f"`{name}`" in text or f"`{name.split('-')[0]}-…`" in text, name


TOP = {name: (ROOT / name).read_text() for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")}
PAGES = {"README.md": README, **TOP, **DOCS}


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as code hosts and mkdocs make them."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("place", PAGES)
def test_links_lead_somewhere(place: str) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#]*)#?([^)]*)\)", PAGES[place]):
        file = (ROOT / place).parent / target if target else ROOT / place
        assert file.exists(), (place, target)
        if anchor:
            assert anchor in anchors(file.read_text()), (place, target, anchor)


@pytest.mark.parametrize("place", PAGES)
def test_commands_in_the_docs_can_be_parsed(place: str) -> None:
    """Every `tracekit …` line names a command that there is, with flags and arguments that it takes."""
    import typer

    group: Any = typer.main.get_command(app)
    for words in commands_of(PAGES[place]):
        rest = [word for word in words[1:] if word not in ("-q", "-v")]
        if rest[0].startswith("-"):
            continue
        command = group.commands.get(rest[0])
        assert command is not None, (place, words)
        command.make_context(rest[0], list(rest[1:]))  # parses, and runs nothing
    for name in re.findall(r"`tracekit ([a-z][a-z-]*)", PAGES[place]):
        assert name in group.commands, (place, name)


@pytest.mark.parametrize("page", ["first-trace", "clean", "simulate", "share"])
@pytest.mark.slow
def test_a_tasks_commands_run(page: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in commands_of(DOCS[f"docs/tasks/{page}.md"]):
        code, _, error = run(*words[1:])
        assert code == 0, (words, error)


PAPERS = sorted(place for place in DOCS if place.startswith("docs/papers/") and not place.endswith("index.md"))


@pytest.mark.parametrize("place", PAPERS)
@pytest.mark.slow
def test_a_papers_commands_run(place: str, tmp_path: Path) -> None:
    """Blocks of kind sh run in a shell as they stand; lines with a $ need data that is named above them."""
    (block,) = blocks(DOCS[place], "sh")
    assert block.startswith("tracekit sample sample.swf\n")
    script = f'tracekit() {{ "{sys.executable}" -m tracekit "$@"; }}\n{block}'
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_toml_in_the_docs_is_toml() -> None:
    import tomllib

    for text in DOCS.values():
        for code in blocks(text, "toml"):
            tomllib.loads(code)


def run_or_skip(code: str, place: str) -> None:
    """Run a block; skip the test where it needs an extra that is not installed."""
    try:
        exec(compile(code, place, "exec"), {})
    except MissingExtra as error:
        pytest.skip(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRAS:
            raise
        pytest.skip(f"the package {error.name} is not installed")


@pytest.mark.parametrize("place", DOCS)
@pytest.mark.slow
def test_python_in_the_docs_runs(place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All blocks, but those for stable-baselines3 only where it is installed."""
    monkeypatch.chdir(tmp_path)
    left_out = [code for code in blocks(DOCS[place], "python") if "sb3" in code and not find_spec("sb3_contrib")]
    for code in blocks(DOCS[place], "python"):
        if code not in left_out:
            run_or_skip(code, place)
    if left_out:
        pytest.skip(f"all ran but {len(left_out)} for which the extra sb3 is not installed")
