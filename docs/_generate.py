"""The reference pages, written from the registries whenever the site is built: they cannot fall behind the code.

mkdocs calls `on_files`; `pages` can be called by itself.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

_MADE = "*Made from the registries when this site was built; `{command}` prints the same.*\n"


def pages() -> dict[str, str]:
    """Return every reference page by its path below docs/."""
    made = {
        "formats": _formats(),
        "columns": _columns(),
        "policies": _policies(),
        "switches": _switches(),
        "models": _models(),
        "metrics": _metrics(),
        "commands": _commands(),
        "python": _python(),
    }
    return {f"reference/{name}.md": "\n".join(lines) + "\n" for name, lines in made.items()}


def on_files(files: Any, /, *, config: Any) -> Any:
    """Add the pages to those that mkdocs found."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield a table in Markdown; a bar inside a cell would end it."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(_plain(str(cell)).replace("|", r"\|").replace("\n", " ") for cell in row) + " |"
    yield ""


def _plain(text: str) -> str:
    """Return text in which <column> is not an HTML tag; text between backquotes is plain already."""
    parts = text.split("`")
    return "`".join(re.sub(r"<(?=[a-zA-Z/])", "&lt;", part) if n % 2 == 0 else part for n, part in enumerate(parts))


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _formats() -> Iterator[str]:
    from swf import FORMATS
    from swf.base import FolderFormat, StreamingFormat, WritableFormat

    known = [FORMATS.get(name) for name in FORMATS]
    yield from ("# Formats", "", _MADE.format(command="tracekit formats"))
    rows = [
        (
            f"[`{one.name}`](#{one.name})",
            one.title,
            "yes" if issubclass(one, WritableFormat) else "",
            "yes" if issubclass(one, StreamingFormat) else "",
            "yes" if issubclass(one, FolderFormat) else "",
            _code(one.suffixes),
            _code(sorted(one.options)),
        )
        for one in known
    ]
    yield from table(("format", "what it is", "written", "in parts", "folders", "endings", "options"), rows)
    seen: set[str] = set()
    for one in known:
        yield from (f"## {one.name}", "", one.title + ".", "")
        if one.__module__ not in seen:
            seen.add(one.__module__)
            yield from _prose(sys.modules[one.__module__].__doc__)


def _columns() -> Iterator[str]:
    from tracekit.cleaning import RULES
    from tracekit.schema import COLUMNS, STATUSES
    from tracekit.validation import CHECKS

    yield from ("# Columns, checks and rules", "", _MADE.format(command="tracekit rules"))
    yield "Times are seconds, memory is KB; unknown is NaN or NA. Of the counts, one is required.\n"
    rows = [(f"`{one.name}`", one.kind, "yes" if one.required else "", one.meaning) for one in COLUMNS]
    yield from table(("column", "kind", "required", "meaning"), rows)
    yield f"A status is one of {_code(STATUSES)}.\n"
    yield from ("## Checks", "", "What `tracekit validate` counts.", "")
    found = [(f"`{c.name}`", c.meaning, f"`{c.fix}`", "yes" if c.harmless else "") for c in CHECKS]
    yield from table(("check", "it finds jobs where", "fixed by", "can be scheduled anyway"), found)
    yield from ("## Rules", "", "What `tracekit clean --rules` applies, in the order given.", "")
    yield from table(("rule", "what it does"), [(f"`{rule.name}`", rule.meaning) for rule in RULES.values()])


def _policies() -> Iterator[str]:
    from tracekit.sim.policies.builtin import POLICIES

    yield from ("# Policies", "", _MADE.format(command="tracekit policies"))
    yield "s = submit time, w = wait so far, r = estimate (seconds), n = processors. The smallest value starts first.\n"
    known = [(name, POLICIES.get(name)) for name in POLICIES]
    rows = [
        (f"`{name}`", getattr(one, "formula", ""), getattr(one, "meaning", ""), getattr(one, "paper", ""))
        for name, one in known
    ]
    yield from table(("policy", "value", "meaning", "from"), rows)


def _switches() -> Iterator[str]:
    from tracekit.sim.switches import BACKFILLS, COMPATIBILITIES, ESTIMATES, MULTIFACTOR_DEFAULTS, Switches

    yield from ("# Switches", "", _MADE.format(command="tracekit simulate --help"))
    comments = dict(re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(Switches), re.MULTILINE))
    rows = []
    for one in dataclasses.fields(Switches):
        default = one.default if one.default is not dataclasses.MISSING else "{}"
        rows.append((f"`{one.name}`", f"`{default!r}`" if default != "{}" else "`{}`", comments.get(one.name, "")))
    yield from table(("switch", "default", "meaning"), rows)
    yield f"Backfilling: {_code(BACKFILLS)}. Estimates: {_code(ESTIMATES)}. Compatibility: {_code(COMPATIBILITIES)}.\n"
    yield "How they differ from what published simulators do is described under [semantics](../semantics.md).\n"
    options = [(f"`{name}`", f"{value:g}") for name, value in MULTIFACTOR_DEFAULTS.items()]
    yield from ("## Options of multifactor", "", *table(("option", "default"), options))


def _models() -> Iterator[str]:
    from generators import MODELS
    from tracekit.errors import MissingExtra

    yield from ("# Models", "", _MADE.format(command="tracekit models"))
    rows = []
    texts: list[str] = []
    for name in MODELS:
        try:
            model = MODELS.get(name)
        except MissingExtra as error:
            rows.append((f"`{name}`", "", str(error), "", "", "", ""))
            continue
        info = model.info
        copies = "yes" if info.copies else ""
        rows.append((f"`{name}`", info.family, info.summary, info.extra or "", copies, info.licence, info.paper))
        texts += [f"## {name}", "", *_prose(model.__doc__)]
    yield from table(("model", "family", "what it does", "extra", "copies jobs", "licence", "from"), rows)
    yield from texts


def _metrics() -> Iterator[str]:
    from evaluation.base import FAMILIES, METRICS

    yield from ("# Metrics", "", _MADE.format(command="tracekit metrics"))
    known = [(name, METRICS.get(name)) for name in METRICS]
    for family, question in FAMILIES.items():
        yield from (f"## {family.capitalize()}", "", question.capitalize(), "")
        rows = [
            (f"`{name}`", (one.__doc__ or "").partition("\n")[0], one.unit)
            for name, one in known
            if one.family == family
        ]
        yield from table(("metric", "definition", "unit"), rows)


def _commands() -> Iterator[str]:
    import typer

    from tracekit.cli import app
    from tracekit.cli.groups import GROUPS

    yield from ("# Commands", "", _MADE.format(command="tracekit COMMAND --help"))
    group: Any = typer.main.get_command(app)
    found = dict(group.commands)
    for name, one in group.commands.items():
        if hasattr(one, "commands"):  # a group: its commands have names of two words
            found |= {f"{name} {inner}": command for inner, command in found.pop(name).commands.items()}
    order = [name for names in GROUPS.values() for name in names]
    listed = [
        (title, ", ".join(f"[{name}](#{name.replace(' ', '-')})" for name in sorted(found) if name.split()[0] in names))
        for title, names in GROUPS.items()
    ]
    yield from table(("to …", "commands"), listed)
    for name in sorted(found, key=lambda name: (order.index(name.split()[0]), name)):
        command = found[name]
        words = [p.metavar or p.name.upper() for p in command.params if p.param_type_name == "argument"]
        yield from (f"## {name}", "", "```text", " ".join(["tracekit", name, *words, "[OPTIONS]"]), "```", "")
        yield from _prose(command.help)
        rows = [
            (_code([*p.opts, *p.secondary_opts]), p.help or "", _default(p.default))
            for p in command.params
            if p.param_type_name == "option" and not getattr(p, "hidden", False)
        ]
        yield from table(("flag", "meaning", "default"), rows)


def _default(value: object) -> str:
    return "" if value is None or value is False or callable(value) else f"`{value}`"


def _python() -> Iterator[str]:
    import tracekit

    yield from ("# Python", "", "*Made from the docstrings when this site was built.*\n")
    yield "Everything that users call is in `tracekit` itself: `import tracekit`.\n"
    for name in tracekit.__all__:
        one = getattr(tracekit, name)
        if not callable(one) or (isinstance(one, type) and issubclass(one, Exception)):
            continue
        signature = "" if isinstance(one, type) else _signature(one)
        yield from (f"## {name}", "", "```text", f"tracekit.{name}{signature}", "```", "")
        yield from _prose(one.__doc__)
        if isinstance(one, type):
            yield from table(("method", "what it does"), _methods(one))


def _methods(kind: type) -> Iterator[tuple[str, str]]:
    for name, one in vars(kind).items():
        if name.startswith("_"):
            continue
        made = one.__func__ if isinstance(one, (classmethod, staticmethod)) else one
        if callable(made) or isinstance(made, property):
            text = (inspect.getdoc(made) or "").partition("\n")[0]
            yield f"`{name}{'' if isinstance(made, property) else _signature(made, short=True)}`", text


def _signature(one: Any, *, short: bool = False) -> str:
    found = inspect.signature(one)
    if short:
        return f"({', '.join(name for name in found.parameters if name not in ('self', 'cls'))})"
    return re.sub(r"(: |-> |= )'([^']*)'", lambda m: m[0] if m[1] == "= " else m[1] + m[2], str(found))


def _prose(text: str | None) -> Iterator[str]:
    """Yield a docstring as Markdown: doctests become code, double backquotes single ones."""
    lines = inspect.cleandoc(text or "").splitlines()
    inside = False
    for line in lines:
        starts = line.startswith(">>>")
        if starts and not inside:
            yield "```pycon"
            inside = True
        elif inside and not line.strip():
            yield "```"
            inside = False
        yield line if inside else _plain(line.replace("``", "`"))
    if inside:
        yield "```"
    yield ""
