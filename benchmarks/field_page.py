"""The page of `bench_field`: one table for each score, models down, traces across, and every hole explained."""

from __future__ import annotations

import re
from statistics import mean
from typing import Any

from generators import MODELS
from tracekit.trace import Trace

#: Metrics that are computed, and the keys of theirs that the page shows: title, and what the value stands for.
METRICS = (
    "ks",
    "correlation",
    "c2st",
    "acf1",
    "hour_of_week",
    "idc",
    "user_repeat",
    "job_repeat",
    "c2st_window",
    "validity",
)
DISTANCE, OFF, RELATIVE, AUC = "distance", "difference from the real value", "relative difference", "AUC"
KEYS = {
    "ks.mean": ("KS of all columns, mean", DISTANCE),
    "correlation.mad_pearson": ("correlations, mean difference", DISTANCE),
    "c2st.auc": ("one job told apart (C2ST)", AUC),
    "c2st.window_auc": ("five jobs in a row told apart (C2ST-5)", AUC),
    "acf1.interarrival": ("lag-1 autocorrelation of gaps", OFF),
    "acf1.run_time": ("lag-1 autocorrelation of run times", OFF),
    "user_repeat": ("next job of the same user", OFF),
    "job_repeat": ("a user's next job asks for the same", OFF),
    "idc.3600": ("dispersion of arrivals in an hour", RELATIVE),
    "idc.86400": ("dispersion of arrivals in a day", RELATIVE),
    "hour_of_week.tv": ("hours of the week, total variation", DISTANCE),
    "validity.share": ("jobs that are not possible", DISTANCE),
}
#: Scores that decide which model is nearest: what single jobs look like, and what lies between them.
JUDGED = tuple(KEYS)[:-1]
INTRODUCTION = """\
# Every model on nine traces

Made by `python benchmarks/bench_field.py --data DIR`; do not edit. Every registered model learns the first 5,000 usable
jobs of each trace at the quick budget and makes 5,000, with the real load; scores are those of `tracekit score --quick`
against the jobs it learnt. A cell is the mean over seeds; how many there are is in the table of costs. A cell without
a number is explained under *Holes*; `…` was not run yet: the same command goes on where it stopped. Models that copy
real jobs by design are in *italics*: their scores of single jobs are good by construction.

This table confirms nothing. The parameters of `sessions` and of the default encoding were chosen on some of these logs
(see their pages). When a trace counts as drifting was chosen by these scores of `sessions` (seeds 1 and 2) on KTH-SP2,
CTC-SP2, LLNL-Atlas, Theta, SDSC-BLUE and Helios, and the length of the sequences of `par` and its budget on KTH-SP2.
The other models were not touched. Rows may stem from different states of the code.

In the C2ST tables 0.5 is best (below 0.5: cannot tell), 1 is always told apart. In all others 0 is best. The best value
among models that do not copy is **bold**.
"""


def stretched(made: Trace) -> float:
    """Return by how much the gaps were stretched to reach the load; 1 = not at all."""
    found = [re.search(r"by stretching gaps by ([0-9.e+-]+)", step) for step in made.history]
    return float(next((match[1] for match in reversed(found) if match), "1"))


def page(results: dict[str, Any]) -> str:
    """Return the page."""
    traces = sorted({key.split("|")[0] for key in results})
    labels = sorted({key.split("|")[1] for key in results}, key=lambda label: (_family(label), label))
    lines = [INTRODUCTION, "## Nearest", "", *_nearest(results, traces, labels), "", "## Cost", ""]
    lines += ["Seeds, and CPU seconds of fit and sampling together, one thread, mean.", ""]
    lines += _table(traces, labels, lambda trace, label: _cost(results, trace, label), None)
    for key, (title, kind) in KEYS.items():
        lines += ["", f"## {title[0].upper()}{title[1:]}", "", f"`{key}`: {kind}.", ""]
        lines += _table(traces, labels, lambda t, m, key=key: value(results, t, m, key), key)
    lines += ["", "## Load", "", "By how much gaps were stretched to reach the real load, mean; 1 = not at all.", ""]
    lines += _table(traces, labels, lambda t, m: _number(_mean(results, t, m, "stretched")), None)
    return "\n".join([*lines, "", "## Holes", "", *_holes(results), ""])


def _family(label: str) -> tuple[int, str]:
    model = label.split(",")[0].split(" (")[0]
    info = MODELS.get(model).info
    return (0 if model == "sessions" else 2 if info.copies else 1, info.family)


def _runs(results: dict[str, Any], trace: str, label: str) -> list[dict[str, Any]]:
    return [run for key, run in results.items() if key.split("|")[:2] == [trace, label]]


def _mean(results: dict[str, Any], trace: str, label: str, key: str) -> float | None:
    found = [run[key] for run in _runs(results, trace, label) if run.get(key) is not None]
    return mean(found) if found else None


def value(results: dict[str, Any], trace: str, label: str, key: str) -> float | str:
    """Return the mean distance of a score from its best, or a mark of why there is none."""
    kind, found, absent = KEYS[key][1], [], "–" if _runs(results, trace, label) else "…"
    for run in _runs(results, trace, label):
        made, real, _ = run.get(key, [None, None, ""])
        if "failed" in run:
            absent = "✗"
        elif made is not None and kind in (DISTANCE, AUC):
            found.append(made)
        elif made is not None and real is not None:
            found.append(abs(made - real) / (abs(real) if kind == RELATIVE and real else 1.0))
    return mean(found) if found else absent


def _badness(key: str, number: float) -> float:
    return max(number - 0.5, 0.0) if KEYS[key][1] == AUC else number


def _nearest(results: dict[str, Any], traces: list[str], labels: list[str]) -> list[str]:
    """Say on how many of the scores each model that does not copy is nearest, and which are nearer than sessions."""
    honest = [label for label in labels if _family(label)[0] < 2]
    counts = dict.fromkeys(honest, 0)
    nearer: dict[str, list[str]] = {}
    cells = 0
    for trace in traces:
        for key in JUDGED:
            found = {m: value(results, trace, m, key) for m in honest}
            known = {m: _badness(key, v) for m, v in found.items() if isinstance(v, float)}
            if not known:
                continue
            cells += 1
            best = min(known.values())
            for label, bad in known.items():
                counts[label] += bad <= best
                if "sessions" in known and not label.startswith("sessions") and bad < known["sessions"]:
                    nearer.setdefault(label, []).append(f"{trace} `{key}`")
    lines = [f"Of {cells} pairs of trace and score (ties count for all):", "", "| model | nearest |", "|---|---|"]
    lines += [f"| {label} | {count} |" for label, count in sorted(counts.items(), key=lambda c: -c[1])]
    lines += ["", "Nearer than `sessions` (as it is by default), although it copies nothing:", ""]
    return lines + [f"- {label} ({len(where)}): {', '.join(where)}" for label, where in sorted(nearer.items())]


def _cost(results: dict[str, Any], trace: str, label: str) -> str:
    seconds = _mean(results, trace, label, "cpu_s")
    if not _runs(results, trace, label):
        return "…"
    return "✗" if seconds is None else f"{len(_runs(results, trace, label))}: {seconds:.1f}"


def _table(traces: list[str], labels: list[str], cell: Any, key: str | None) -> list[str]:
    lines = ["| model | " + " | ".join(traces) + " |", "|---" * (len(traces) + 1) + "|"]
    best = {}
    if key is not None:
        for trace in traces:
            known = [v for m in labels if _family(m)[0] < 2 and isinstance(v := cell(trace, m), float)]
            best[trace] = min((_badness(key, v) for v in known), default=None)
    for label in labels:
        cells = []
        for trace in traces:
            found = cell(trace, label)
            text = _number(found)
            if key is not None and isinstance(found, float) and _badness(key, found) == best[trace]:
                text = f"**{text}**" if _family(label)[0] < 2 else text
            cells.append(text)
        name = f"*{label}*" if _family(label)[0] == 2 else label
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def _number(found: float | str | None) -> str:
    if found is None:
        return "–"
    return (
        found if isinstance(found, str) else f"{found:.3f}".replace("0.", ".", 1) if abs(found) < 1 else f"{found:.2f}"
    )


def _holes(results: dict[str, Any]) -> list[str]:
    """Say why a cell has no number."""
    absent: dict[tuple[str, str, str], list[str]] = {}
    for key, run in results.items():
        trace, label, _ = key.split("|")
        reasons = {"all": run["failed"]} if "failed" in run else {}
        reasons |= {
            name: run[name][2] for name in KEYS if name in run and None in run[name][:2] and _needs_both(name, run)
        }
        for name, why in reasons.items():
            where = absent.setdefault((label, name, why), [])
            where += [trace] if trace not in where else []
    said: dict[tuple[str, str], dict[str, list[str]]] = {}
    for (label, name, why), where in absent.items():
        said.setdefault((name, why), {})[label] = where
    lines = []
    for (name, why), who in said.items():
        by_place: dict[str, list[str]] = {}
        for label, where in who.items():
            by_place.setdefault(", ".join(where), []).append(label)
        what = "`✗` no trace was made" if name == "all" else f"`–` of `{name}`"
        places = "; ".join(f"{', '.join(models)} on {traces}" for traces, models in by_place.items())
        lines += [f"- {what}: {places}: {why}"]
    return lines


def _needs_both(name: str, run: dict[str, Any]) -> bool:
    return run[name][0] is None or KEYS[name][1] in (OFF, RELATIVE)
