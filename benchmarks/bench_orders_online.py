"""Does search order a queue better than a heuristic, when nobody knows the run times? Logs, windows, tests.

    python benchmarks/bench_orders_online.py --data DIR CTC-SP2-1996-3.1-cln.swf.gz SDSC-BLUE-2000-4.2-cln.swf.gz \
        --out docs/results/orders-online.json --page docs/results/orders-online.md

Every log is cut in two by time. On windows of the first half the best heuristic is chosen, for each objective and
backfilling; on windows of the second half, which do not overlap, it is compared with `search` and `best-forecast`.
Differences are paired by window; p is that of Wilcoxon's signed-rank test, corrected for all comparisons of an
objective by Holm's method. Finished rows are kept in the JSON file and not simulated again; ``--page`` writes the page.
Without logs, a few windows of the packaged sample are compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tracekit
from tracekit.intervals import interval, signed_rank
from tracekit.sim.orders.problem import CANDIDATES
from tracekit.sim.windows import tile

Floats = NDArray[np.float64]

METRIC = {"bsld": "mean_bsld", "wait": "mean_wait_s"}
BACKFILLS = ("none", "easy")


def contenders(goal: str) -> dict[str, str]:
    """Return the policies of the page by their names there."""
    option = "" if goal == "bsld" else f":objective={goal}"
    return {"search": f"search{option}", "best-forecast": f"best-forecast{option}"}


def spread(windows: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """Return ``count`` of some windows, evenly spread."""
    rows = np.unique(np.linspace(0, len(windows) - 1, min(count, len(windows))).round().astype(int))
    return [windows[row] for row in rows]


def holm(values: list[float]) -> list[float]:
    """Return p values corrected for their number (Holm, Scandinavian Journal of Statistics 6, 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    found, least = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        least = max(least, min((len(values) - rank) * values[place], 1.0))
        found[place] = least
    return found


def measure(trace: tracekit.Trace, found: dict[str, Any], count: int, jobs: int) -> Iterator[None]:
    """Simulate one log; ``found`` gets a row for each objective, backfilling and policy; yields after each new one."""
    half = len(trace) // 2
    train = spread(tile((0, half), jobs), count)
    test = spread(tile((half, len(trace)), jobs), count)
    found |= {"train": len(train), "test": len(test)}
    fair = [made.wait.max() for made in tracekit.compare(trace, "fcfs", "easy", test).results]
    known = {(row["goal"], row["backfill"], row["policy"]) for row in found["rows"]}
    for backfill, goal in product(BACKFILLS, METRIC):
        tried = {
            name: tracekit.compare(trace, name, backfill, train).values[METRIC[goal]].mean() for name in CANDIDATES
        }
        best = min(CANDIDATES, key=tried.__getitem__)
        for shown, policy in {best: best, **contenders(goal)}.items():
            if (goal, backfill, shown) in known:
                continue
            made = tracekit.compare(trace, policy, backfill, test).results
            ratio = [one.wait.max() / beside if beside else 1.0 for one, beside in zip(made, fair, strict=True)]
            facts = [one.metrics.get("max_wait_guard", {}) for one in made]
            row = {"goal": goal, "backfill": backfill, "policy": shown, "heuristic": shown == best}
            row |= {"values": [float(one.metrics[METRIC[goal]]) for one in made], "longest": [float(r) for r in ratio]}
            row |= {"kept": sum(bool(fact.get("kept")) for fact in facts), "fcfs_kept": sum(map(_fcfs_keeps, facts))}
            found["rows"].append(row)
            print(found["log"], goal, backfill, shown, f"{np.mean(row['values']):,.2f}", file=sys.stderr, flush=True)
            yield


def _fcfs_keeps(fact: dict[str, Any]) -> bool:
    """Return whether FCFS without backfilling would itself have kept the limit."""
    return bool(fact) and fact.get("fcfs_longest_wait_s", 0.0) <= fact["multiple"] * fact["fcfs_easy_longest_wait_s"]


def table(found: dict[str, Any], goal: str) -> list[str]:
    """Return the lines of one log's table for one objective."""
    unit = "mean bounded slowdown" if goal == "bsld" else "mean wait, s"
    lines = [
        f"**{found['log'].split('.')[0]}**, {unit}, {found['test']} windows",
        "",
        "| backfilling | policy | mean | search − this, 95 % | ratio | better, equal | p, Holm | longest wait |",
        "|---" * 8 + "|",
    ]
    rows = [row for row in found["rows"] if row["goal"] == goal]
    search = {row["backfill"]: np.array(row["values"]) for row in rows if row["policy"] == "search"}
    others = [row for row in rows if row["policy"] != "search"]
    tests = holm([signed_rank(search[row["backfill"]] - np.array(row["values"])) for row in others])
    corrected = {id(row): p for row, p in zip(others, tests, strict=True)}
    digits = 1 if goal == "bsld" else 0
    for row in rows:
        values, name = np.array(row["values"]), row["policy"] + (" (chosen)" if row["heuristic"] else "")
        difference = search[row["backfill"]] - values
        low, high = interval(difference)
        shown = f"{difference.mean():+,.{digits}f} [{low:+,.{digits}f}, {high:+,.{digits}f}]"
        better = f"{int((difference < 0).sum())}, {int((difference == 0).sum())} of {len(difference)}"
        tested = f"{corrected[id(row)]:.2g}" if id(row) in corrected else ""
        cells = [row["backfill"], name, f"{values.mean():,.{digits}f}"]
        compared = [shown, f"{ratio_of(search[row['backfill']], values):.2f}", better, tested]
        cells += compared if id(row) in corrected else [""] * 4
        ratio = np.array(row["longest"])
        lines.append("| " + " | ".join([*cells, f"{ratio.mean():.2f}, {ratio.max():.2f}"]) + " |")
    return [*lines, ""]


def ratio_of(ours: Floats, others: Floats) -> float:
    """Return the geometric mean of the ratios of two policies, (windows,) each; windows without any wait are left out.

    >>> ratio_of(np.array([1.0, 4.0, 0.0]), np.array([2.0, 2.0, 0.0]))
    1.0
    """
    told = (ours > 0) & (others > 0)
    return float(np.exp(np.log(ours[told] / others[told]).mean())) if told.any() else 1.0


def guard_table(measured: list[dict[str, Any]]) -> list[str]:
    """Return the lines about the guard."""
    lines = ["| log | backfilling | objective | windows within the guard | where plain FCFS is |", "|---" * 5 + "|"]
    for found in measured:
        for row in found["rows"]:
            if row["policy"] == "search":
                kept = f"{row['kept']} of {found['test']}"
                there = f"{row['fcfs_kept']} of {found['test']}" if row["backfill"] == "none" else ""
                lines.append(f"| {found['log'].split('.')[0]} | {row['backfill']} | {row['goal']} | {kept} | {there} |")
    return [*lines, ""]


def main() -> None:
    """Measure the logs that are missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", help="files in the folder of --data")
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--windows", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=1024)
    parser.add_argument("--out", type=Path, help="JSON file that results are kept in")
    parser.add_argument("--page", type=Path, help="Markdown file whose tables are replaced")
    asked = parser.parse_args()
    measured = json.loads(asked.out.read_text()) if asked.out and asked.out.exists() else []
    for name in asked.logs or ([] if measured else ["sample"]):
        found = next((one for one in measured if one["log"] == name), {"log": name, "rows": []})
        measured += [] if found in measured else [found]
        trace = tracekit.read(asked.data / name) if asked.logs else tracekit.sample()
        for _ in measure(trace, found, *((asked.windows, asked.jobs) if asked.logs else (4, 200))):
            if asked.out:
                asked.out.write_text(json.dumps(measured, indent=1) + "\n")
    lines = [line for one in measured for goal in METRIC for line in table(one, goal)]
    text = "\n".join([*lines, *guard_table(measured)])
    if asked.page is None:
        print(text)
        return
    before, _, rest = asked.page.read_text().partition("<!-- tables -->\n")
    after = rest.partition("<!-- end of tables -->")[2]
    asked.page.write_text(f"{before}<!-- tables -->\n\n{text}\n<!-- end of tables -->{after}")


if __name__ == "__main__":
    main()
