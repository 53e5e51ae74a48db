"""Errors of the command line, in one line with a suggestion."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol, TypeGuard

#: The parser's messages about values, and ours.
_PLAIN = {
    "valid integer": "is not a whole number",
    "valid number": "is not a number",
    "greater than or equal to": "is too small: at least",
    "less than or equal to": "is too large: at most",
}


class UsageProblem(Protocol):
    """The parser's errors; the classes have moved between packages, so they are recognised by their attributes."""

    exit_code: int
    ctx: Any

    def format_message(self) -> str:
        """Return the parser's message."""
        ...


def is_usage_problem(error: BaseException) -> TypeGuard[UsageProblem]:
    """Return whether an error is a mistake on the command line."""
    return hasattr(error, "format_message") and getattr(error, "exit_code", None) == 2


def first_words(arguments: list[str]) -> list[str]:
    """Accept ``help``, ``help COMMAND`` and ``--version``, which people try first."""
    match arguments:
        case ["help", *rest]:
            return [*rest[:1], "--help"]
        case ["--version" | "-V", *_]:
            return ["version"]
    return arguments


def explain(error: UsageProblem, arguments: list[str]) -> str:
    """Return the parser's message in one line, with the nearest name and the usage of the command."""
    said = error.format_message().strip().rstrip(".")
    said = re.sub(r"\(Possible options: (.*)\)$", r"(did you mean \1?)", said)
    said = re.sub(r"\. Did you mean (.*\?)$", r" (did you mean \1)", said)
    name = next((one for one in arguments if not one.startswith("-")), "")
    path = getattr(error.ctx, "command_path", f"tracekit {name}".strip())
    if said.startswith("No such command"):
        if Path(name).is_file():
            return f"'{name}' is a file, not a command; try: tracekit info {name}"
        return f"{_lower(said)}; 'tracekit --help' lists them"
    if said.startswith("No such option") and " " not in path:
        flag = getattr(error, "option_name", "")
        return f"{_lower(said)}; options go after their command: tracekit COMMAND {flag}"
    said = _value(said, getattr(error, "param", None), arguments) or _lower(said)
    meant = _two_hyphens(error, arguments)
    if meant:
        return f"{said}; did you mean {meant}? A long option begins with two hyphens"
    if any(one.endswith(",") for one in arguments):
        return f"{said}; write lists without spaces: a,b,c"
    return f"{said}; {_usage(error, path)}'{path} --help' shows all"


def _value(said: str, parameter: Any, arguments: list[str]) -> str | None:
    """Return a message about a flag's value that shows the value; None for other errors."""
    flag = next((one for one in getattr(parameter, "opts", ()) if one.startswith("--")), None)
    if flag is None or not said.startswith("Invalid value"):
        return None
    given = _given(flag, arguments)
    for theirs, ours in _PLAIN.items():
        before, found, after = said.partition(theirs)
        if found and before:
            return f"{flag}: '{given}' {ours}{after if ours[-1] == 't' else ''}"
    return None


def _two_hyphens(error: UsageProblem, arguments: list[str]) -> str | None:
    """Return the option that was typed with one hyphen, or with a dash in place of two hyphens."""
    known = {flag for one in error.ctx.command.params for flag in one.opts} if error.ctx else set()
    for word in arguments:
        meant = "--" + word.lstrip("-–—").partition("=")[0]
        if word[:1] in "-–—" and not word.startswith("--") and meant in known:
            return meant
    return None


def _given(flag: str, arguments: list[str]) -> str:
    for place, word in enumerate(arguments):
        if word == flag and place + 1 < len(arguments):
            return arguments[place + 1]
        if word.startswith(flag + "="):
            return word.partition("=")[2]
    return ""


def _usage(error: UsageProblem, path: str) -> str:
    if error.ctx is None:
        return ""
    arguments = [one for one in error.ctx.command.params if one.param_type_name == "argument"]
    return " ".join(["usage:", path, *(str(one.metavar or one.name.upper()) for one in arguments), "[OPTIONS]; "])


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
