"""The page docs/results/agents-informed.md, from the figures in docs/results/agents-informed.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.sim.agents.against import against
from tracekit.sim.agents.evaluate import INDEX

Floats = NDArray[np.float64]

CASES = {
    "ctc": "CTC-SP2-1996-3.1-cln.swf.gz",
    "blue": "SDSC-BLUE-2000-4.2-cln.swf.gz",
    "kth": "KTH-SP2-1996-2.1-cln.swf.gz",
    "theta": "ALCF-Theta-2022.swf",
    "atlas": "LLNL-Atlas-2006-2.1-cln.swf.gz",
    "curie": "CEA-Curie-2011-2.1-cln.swf.gz",
}
#: Seeds that a decision needs.
SEEDS = 3
#: Of longer windows, on which the index alone plays.
LONG = 1024
#: How many windows each held-out job is in: a window's cost is chaotic, and twice as many windows average more of it.
OVERLAP = 2
MEANS = ("geometric", "arithmetic")
_TEXT = Path(__file__).resolve().with_name("informed_page.txt")


def page(results: dict[str, Any]) -> str:
    """Return the page: the text of informed_page.txt, with its line ``{logs}`` replaced by the results."""
    text: list[str] = []
    for name, result in results.items():
        trained = [seed["note"] for seed in result["seeds"].values()]
        kept = sum(bool(note) for note in trained)
        cpu = {k: sum(seed["cpu_s"][k] for seed in result["seeds"].values()) for k in ("informed", "evaluation")}
        beside = [seed["plain_note"] for seed in result["seeds"].values() if "plain" in seed]
        text += [f"## {CASES[name].split('-1')[0].split('-2')[0]}", ""]
        text += [f"{result['jobs']:,} jobs, {result['windows']} held-out windows.", ""]
        text += [*table(result), "", long_windows(result), "", *choices(result), ""]
        text += [
            "Goal (3 % below in the geometric mean, interval without zero, no loss in the arithmetic mean): "
            f"{verdict(result)}. Of {len(trained)} informed trainings {kept} did not improve on their start and kept "
            "it. CPU seconds of all seeds: "
            + ", ".join(f"{key} {value:,}" for key, value in cpu.items())
            + "."
            + (f" Of {len(beside)} without predictions {sum(map(bool, beside))} kept it." if beside else ""),
            "",
        ]
    missing = [CASES[name].rsplit("-cln")[0] for name in CASES if name not in results]
    few = [name for name, result in results.items() if len(result["seeds"]) < SEEDS]
    if missing or few:
        text += ["## What is missing", ""]
    if missing:
        text += [f"Not measured yet: {', '.join(missing)}.", ""]
    if few:
        text += [f"Fewer than {SEEDS} seeds, which decides nothing: {', '.join(few)}.", ""]
    return _TEXT.read_text().replace("{logs}", "\n".join(text).rstrip())


def rows_of(result: dict[str, Any]) -> list[tuple[str, Floats]]:
    """Return the rows of one log: names and costs, (windows,) or (seeds, windows)."""
    seeds = [result["seeds"][key] for key in sorted(result["seeds"], key=int)]
    chosen, by_mean, best = result["chosen"], result["chosen_by_mean"], result["best"]
    costs = {name: np.array(values) for name, values in result["costs"].items()}
    rows = [(f"chosen on training windows: `{chosen}`", costs[chosen])]
    if by_mean != chosen:
        rows.append((f"chosen there by the arithmetic mean: `{by_mean}`", costs[by_mean]))
    rows.append((f"best in hindsight: `{best}`", costs[best]))
    for name, key in (
        ("`predicted-index`", INDEX),
        ("informed agent", "informed"),
        ("agent without predictions", "plain"),
    ):
        if found := [seed[key] for seed in seeds if key in seed]:
            rows.append((name, np.array(found)))
    rows.append(("ceiling: true run times for order", np.array(result["true areas"])))
    rows.append(("ceiling: best heuristic of each window", np.array(result["best per window"])))
    return rows


def table(result: dict[str, Any]) -> list[str]:
    """Return the table of one log."""
    base = np.array(result["costs"][result["chosen"]])
    heads = "geometric mean", "arithmetic mean", *(f"{m}, against chosen" for m in MEANS), "seeds, geometric"
    lines = [f"| | {' | '.join(heads)} |", "|---|---|---|---|---|---|"]
    for name, costs in rows_of(result):
        each = np.atleast_2d(costs)
        by_seed = [signed(against(one, base)["geometric"]) for one in each] if len(each) > 1 else []
        geometric, arithmetic = float(np.exp(np.log(each).mean())), float(each.mean())
        cells = ("", "") if name.startswith("chosen on") else shares(costs, base)
        lines.append(
            f"| {name} | {geometric:.2f} | {arithmetic:.2f} | {cells[0]} | {cells[1]} | {', '.join(by_seed)} |"
        )
    return lines


def long_windows(result: dict[str, Any]) -> str:
    """Return what the index gives on longer windows, in words."""
    long, index = result["long"], np.array([seed["long"] for seed in result["seeds"].values()])
    base, best = (np.array(long[name]) for name in ("costs", "best_costs"))
    (first, second), (third, fourth) = (shares(index, other) for other in (base, best))
    return (
        f"{len(base)} windows of {LONG:,} jobs: `predicted-index` against `{long['chosen']}`, chosen on such windows "
        f"of the first 60 %: geometric mean {first}, arithmetic mean {second}; against `{long['best']}`, the best in "
        f"hindsight: {third}, {fourth}."
    )


def shares(costs: Floats, base: Floats) -> tuple[str, str]:
    """Return both means against those of a base, with intervals."""
    found = against(costs, base, overlap=OVERLAP)
    one, other = (f"{signed(found[m])} [{signed(found[m + '_low'])}, {signed(found[m + '_high'])}]" for m in MEANS)
    return one, other


def signed(share: float) -> str:
    """Return a share in per cent, with its sign."""
    return f"{round(share, 3) + 0.0:+.1%}".replace("-", "−")


def verdict(result: dict[str, Any]) -> str:
    """Return whether the goal is reached: 3 % below in the geometric mean, shown, and no loss in the arithmetic one."""
    if len(result["seeds"]) < SEEDS:
        return "not decided, too few seeds"
    base = np.array(result["costs"][result["chosen"]])
    found = against(np.array([seed["informed"] for seed in result["seeds"].values()]), base, overlap=OVERLAP)
    reached = found["geometric"] <= -0.03 and found["geometric_high"] < 0 and found["arithmetic"] <= 0
    return "reached" if reached else "not reached"


def choices(result: dict[str, Any]) -> list[str]:
    """Return what each seed chose on training windows, in words."""
    lines = []
    for seed, made in sorted(result["seeds"].items(), key=lambda pair: int(pair[0])):
        choice = made["choice"]
        form = ", ".join(f"{name} {choice[name]:g}" for name in ("trust", "sizes", "power", "share"))
        low, high = signed(choice["geometric_low"]), signed(choice["geometric_high"])
        lines.append(
            f"- seed {seed}: best form {form}: {signed(choice['geometric'])} [{low}, {high}] against "
            f"`{choice['base']}`, arithmetic mean {signed(choice['arithmetic'])}; begun with `{choice['start']}`"
        )
    return ["On training and validation windows, with predictions by predictors that had not seen them:", "", *lines]
