"""The command env: what is installed, and what is missing for which command."""

from __future__ import annotations

from typing import Any

from tracekit.cli.app import Json, app, console, print_json, table
from tracekit.errors import pip_line


@app.command()
def env(json: Json = False) -> None:
    """Show what can be done here and what is missing for it; versions, extras, cores, memory and folders.

    Include its output in bug reports.

    Example: `tracekit env`
    """
    from tracekit import environment

    facts = environment.describe()
    facts["extras"].get("synth", {})["models"] = _learned()
    if json:
        print_json(facts)
        return
    _print(facts)


def _learned() -> list[str]:
    """Return the models that need the extra synth."""
    from generators import MODELS
    from tracekit.errors import MissingExtra

    found = []
    for name in MODELS:
        try:
            extra = MODELS.get(name).info.extra
        except MissingExtra:
            extra = "synth"
        if extra == "synth":
            found.append(name)
    return found


def _print(facts: dict[str, Any]) -> None:
    out = console()
    total = facts["memory_bytes"]
    lines = {
        "tracekit": f"{facts['tracekit']}, Python {facts['python']} ({facts['executable']})",
        "machine": facts["platform"],
        "cores": f"{facts['cores']} available to this process",
        "memory": f"{_gb(total)}, {_gb(facts['available_bytes'])} of it free" if total else "unknown",
        "packages": ", ".join(f"{name} {version or 'MISSING'}" for name, version in facts["packages"].items()),
    }
    for name, value in lines.items():
        out.print(f"{name:<10} {value}", soft_wrap=False)
    wanted = table("to …", "what", "ready", "what to do")
    said = ""
    for one in facts["purposes"]:
        heading = one["purpose"] if one["purpose"] != said else ""
        wanted.add_row(heading, one["what"], "yes" if one["ready"] else "no", one["advice"])
        said = one["purpose"]
    out.print(wanted, soft_wrap=False)
    rows = table("extra", "installed", "what needs it", "what to do")
    for name, extra in facts["extras"].items():
        uses = extra["needed_for"] + (f" ({', '.join(extra['models'])})" if extra.get("models") else "")
        lacking = ", ".join(extra["missing"])
        rows.add_row(
            name,
            "yes" if extra["installed"] else "no",
            uses,
            "" if extra["installed"] else f"{pip_line(name)} (lacks {lacking})",
        )
    out.print(rows, soft_wrap=False)
    places = table("folder", "path", "free", "", right=("free",))
    for folder in facts["folders"]:
        places.add_row(
            folder["use"], folder["path"], _gb(folder["free_bytes"]), "" if folder["writable"] else "NOT WRITABLE"
        )
    out.print(places, soft_wrap=False)
    if facts["missing"]:
        names = " ".join(f"'{name}'" for name in facts["missing"])
        out.print(f"missing or too old for every command: pip install {names}", soft_wrap=False)


def _gb(size: int) -> str:
    return f"{size / 1024**3:.1f} GB"
