"""The page docs/results/pick-host.md, from the figures in docs/results/pick-host.json."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.files import write_text

#: Metrics of the tables: key, heading, digits, and what values are multiplied by.
COLUMNS = (
    ("completion_rate", "completed", 3, 1.0),
    ("defer_rate", "deferrals per job", 2, 1.0),
    ("core_utilization", "cores %", 1, 100.0),
    ("memory_utilization", "memory %", 1, 100.0),
    ("imbalance", "imbalance", 3, 1.0),
    ("makespan_s", "makespan, s", 0, 1.0),
)
_TEXT = Path(__file__).resolve().with_name("pick_host_page.txt")


def write_page(known: dict[str, Any], path: Path) -> None:
    """Write the page: the text of pick_host_page.txt, with every line ``{name}`` replaced by a table.

    Nothing is written before every case has been measured.
    """
    missing = sorted({"tuned", "eda", "site", "sizes", "kth", "blue", "headroom"} - set(known))
    if missing:
        print(f"no page yet, not measured: {', '.join(missing)}")
        return
    tables = {
        "{named}": lambda: _named(known["eda"]["named"]),
        "{unseen}": lambda: _table(known["eda"]["unseen"]),
        "{others}": lambda: _others(known["eda"]["unseen"]),
        "{tuned}": lambda: _brief({"seeds 501 … 516, 30 hosts": known["tuned"]}),
        "{site}": lambda: _table(known["site"]),
        "{sizes}": lambda: _brief({f"{int(hosts):,} hosts": found for hosts, found in known["sizes"].items()}),
        "{kth}": lambda: _table(known["kth"]),
        "{blue}": lambda: _table(known["blue"]),
        "{headroom}": lambda: _headroom(known["headroom"]),
    }
    lines: list[str] = []
    for line in _TEXT.read_text(encoding="utf-8").splitlines():
        lines += tables[line]() if line in tables else [line]
    write_text(path, "\n".join(lines) + "\n", force=True)


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _head(*cells: str) -> list[str]:
    return [_row(*cells), "|" + "---|" * len(cells)]


def _gap(found: dict[str, Any], digits: int = 2, factor: float = 1.0) -> str:
    """Return a paired difference with its interval."""
    ends = [f"{factor * found[key]:+,.{digits}f}".replace("-", "−") for key in ("difference", "low", "high")]
    return f"{ends[0]} ({ends[1]} … {ends[2]})"


def _digits(found: dict[str, Any]) -> int:
    """Return the digits that waits are shown with: seconds where they are long."""
    return 0 if found["means"][found["best"]]["mean_wait_s"] > 300 else 2


def _table(found: dict[str, Any]) -> list[str]:
    """Return every rule: mean wait, differences of the agents to it, and the other metrics."""
    agents, digits = list(found["against"]), _digits(found)
    lines = _head("rule", "mean wait, s", *(f"{name} − rule" for name in agents), *(head for _, head, _, _ in COLUMNS))
    for name, means in sorted(found["means"].items(), key=lambda item: float(item[1]["mean_wait_s"])):
        gaps = [_against(found, agent, name, digits) for agent in agents]
        rest = [f"{means[key] * factor:,.{places}f}" for key, _, places, factor in COLUMNS]
        shown = f"**{name}**" if name in agents else name
        lines.append(_row(shown, f"{means['mean_wait_s']:,.{digits}f}", *gaps, *rest))
    return lines


def _against(found: dict[str, Any], agent: str, name: str, digits: int) -> str:
    if name not in found["against"][agent]:
        return ""
    gap = found["against"][agent][name]["mean_wait_s"]
    return f"{_gap(gap, digits)}, shorter on {gap['smaller']} of {found['windows']}"


def _others(found: dict[str, Any]) -> list[str]:
    """Return the differences of the agents to the best allocator in the other metrics."""
    lines = _head("agent", *(head for _, head, _, _ in COLUMNS))
    for agent, against in found["against"].items():
        gaps = against[found["best"]]
        lines.append(_row(agent, *(_gap(gaps[key], places, factor) for key, _, places, factor in COLUMNS)))
    return lines


def _named(found: dict[str, Any]) -> list[str]:
    """Return mean waits of all rules on single seeds."""
    rules = list(next(iter(found.values()))["means"])
    lines = _head("rule", *found)
    for name in rules:
        lines.append(_row(name, *(f"{one['means'][name]['mean_wait_s']:.2f}" for one in found.values())))
    return lines


def _brief(cases: dict[str, Any]) -> list[str]:
    """Return the agents' differences to best-fit and to the best allocator, and all waits; a row per agent and case."""
    lines = _head("case", "agent", "agent's wait, s", "− best-fit", "− best allocator", "completed", "others, s")
    for case, found in cases.items():
        lines += list(_brief_rows(case, found))
    return lines


def _brief_rows(case: str, found: dict[str, Any]) -> Iterator[str]:
    waits = {name: means["mean_wait_s"] for name, means in found["means"].items()}
    rest = ", ".join(f"{n} {w:.2f}" for n, w in waits.items() if n not in found["against"])
    for agent in found["against"]:
        done = f"{found['means'][agent]['completion_rate']:.3f}"
        gaps = [_against(found, agent, name, 2) for name in ("best-fit", found["best"])]
        gaps[1] = f"{found['best']}: {gaps[1]}"
        yield _row(case, agent, f"{waits[agent]:.2f}", *gaps, done, rest)


def _headroom(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return mean waits with full knowledge: means over windows."""
    keys = ("best-fit", "best allocator", "agent", "search", "pooled")
    heads = ("best-fit, s", "best allocator of each window", "agent", "search, full knowledge", "all hosts as one")
    lines = _head("windows", "number", *heads, "search against best-fit")
    for name, rows in found.items():
        means = {key: float(np.mean([row.get(key, np.nan) for row in rows])) for key in keys}
        share = f"{100 * (means['search'] / means['best-fit'] - 1):+.0f} %".replace("-", "−")
        digits = 0 if means["best-fit"] > 300 else 2
        lines.append(_row(name, len(rows), *(f"{means[key]:,.{digits}f}" for key in keys), share))
    return lines
