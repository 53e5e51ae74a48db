"""Output of `simulate --shake`: intervals for every number, and which differences are noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracekit.cli.app import console, table

if TYPE_CHECKING:
    from tracekit.sim.switches import Switches
    from tracekit.trace import Trace


def shaken_rows(
    trace: Trace,
    switches: Switches,
    pairs: list[tuple[str, str]],
    parts: list[tuple[int, int]],
    rows: list[dict[str, Any]],
    *,
    count: int,
    seconds: float,
    threads: int | None,
) -> dict[str, Any]:
    """Repeat on shaken inputs; add intervals to every row and return the comparisons."""
    from tracekit.sim.analysis.compare import compare, mean_interval, ranking, shaken_metrics

    values = shaken_metrics(trace, switches, pairs, parts, count=count, seconds=seconds, threads=threads)
    for number, row in enumerate(rows):
        row["shaken"] = {metric: mean_interval(table[number]) for metric, table in values.items()}
    names = [f"{p}+{b}" for p, b in pairs]
    return {
        "inputs": count,
        "seconds": seconds,
        "seed": switches.seed,
        "level": 0.95,
        "ranking": [{"name": n, "beside_next_better": v or None} for n, v in ranking(names, values["mean_bsld"])],
        "comparisons": compare(names, values),
    }


def print_shaken(rows: list[dict[str, Any]], shaken: dict[str, Any]) -> None:
    """Print means with intervals, best first, and mark differences that are noise."""
    titles = ["policy", "backfill", "bsld", "95 %", "wait, s", "95 %", "against the next better"]
    made = table(
        *titles, title=f"over {shaken['inputs']} inputs shaken by up to {shaken['seconds']:g} s", right=titles[2:6]
    )
    words = {None: "", "noise": "noise", "same": "the same", "higher": "worse", "lower": "better"}
    known = {f"{row['policy']}+{row['backfill']}": row for row in rows}
    for place in shaken["ranking"]:
        row = known[place["name"]]
        bsld, wait = row["shaken"]["mean_bsld"], row["shaken"]["mean_wait_s"]
        made.add_row(
            row["policy"],
            row["backfill"],
            f"{bsld['mean']:,.2f}",
            f"{bsld['low']:,.2f} – {bsld['high']:,.2f}",
            f"{wait['mean']:,.0f}",
            f"{wait['low']:,.0f} – {wait['high']:,.0f}",
            words[place["beside_next_better"]],
        )
    console().print(made)
