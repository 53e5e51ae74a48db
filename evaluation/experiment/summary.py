"""The outcome of a run in a page of Markdown and one figure: what goes into a paper's appendix or docs/results."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.experiment import results as tidy
from evaluation.experiment.comparisons import is_open
from evaluation.experiment.damage import DAMAGES
from evaluation.experiment.uses import across, mark
from evaluation.experiment.verdict import bracket, percent, plain_percent
from tracekit.files import write_text, writing

SUMMARY, FIGURE = "summary.md", "verdicts.png"
#: Scores that the table of models shows.
_SHOWN = ("ks.mean", "correlation.mad_spearman", "c2st.auc", "c2st.window_auc", "acf1.interarrival", "user_repeat")
_MAX_PREDICTORS = 8


def write_summary(folder: Path) -> None:
    """Write summary.md and verdicts.png into the folder of a finished run."""
    about, verdict = (json.loads((folder / name).read_text(encoding="utf-8")) for name in _FILES)
    drawn = _draw(verdict, folder / FIGURE)
    write_text(folder / SUMMARY, "\n".join(_lines(folder, about, verdict, drawn)) + "\n", force=True)


_FILES = ("experiment.json", "verdict.json")


def _draw(verdict: Mapping[str, Any], path: Path) -> bool:
    """Draw the verdicts' intervals; False where no model came as far as a difference."""
    from evaluation.figures.agents import verdict_intervals
    from tracekit.plots.style import NothingToDraw

    try:
        drawing = verdict_intervals([(use, _rows(verdict, use)) for use in verdict["learners"]])
    except NothingToDraw:
        path.unlink(missing_ok=True)
        return False
    with writing(path, force=True) as out:
        drawing.figure.savefig(out, format="png", dpi=110, metadata={"Software": None}, bbox_inches="tight")
    return True


def _lines(folder: Path, about: Mapping[str, Any], verdict: Mapping[str, Any], drawn: bool) -> Iterable[str]:
    plan, real, parts = about["plan"], about["real"], about["parts"]
    windows, loads = about["windows"], ", ".join(about["loads"])
    name = real.get("machine", {}).get("name") or real["name"]
    yield f"# {name}: is a synthetic trace as good as the real one, and for what?"
    yield ""
    yield (
        f"Made by `tracekit experiment`; numbers are not edited. {real['jobs']:,} jobs (SHA-256 of the file "
        f"`{real['sha256'][:12] or 'none'}…`), {_cut(plan)} into {_jobs(parts, 'train')} to fit and train on, "
        f"{_jobs(parts, 'validation')} as hold-out and {_jobs(parts, 'test')} to judge on. {plan['models']['samples']} "
        f"samples of each model (budget {_budget(plan['models'])}), {plan['agents']['seeds']} agents a trace ("
        f"{', '.join(plan['agents']['learner'])}; {_settings(plan['agents']['config'])}). Judged on {len(windows)} "
        f"windows of {windows[0]['jobs']} jobs, offered loads: {loads}; backfilling: {plan['windows']['backfill']}; "
        f"seed {about['seed']}."
    )
    yield ""
    yield f"**{verdict['headline']}**"
    yield ""
    yield verdict["conclusion"]
    yield ""
    yield (
        "Difference: relative to agents trained on real jobs, positive = worse, with the interval of two one-sided "
        f"tests (at level {verdict['alpha']:g}{_looks(plan)})."
    )
    yield ""
    if drawn:
        yield f"![Differences with intervals]({FIGURE})"
        yield ""
    if len(verdict["learners"]) > 1:
        yield "For which use is which trace good enough (✓), or as good but trivial or a copy (=)?"
        yield ""
        yield from markdown(*across(verdict))
    for use in verdict["learners"]:
        yield f"## {str(use['use']).capitalize()}"
        yield ""
        margin = f"margin ±{use['margin'] * 100:g} %"
        yield f"Learner {use['learner']}, judged by {use['metric']}, {margin}.{_differ(verdict, use)}"
        yield ""
        heads = ("trained on", "good enough?", "verdict", "difference", "interval", "d", "windows worse")
        yield from markdown(heads, _verdicts(_rows(verdict, use), verdict["baselines"]))
        yield f"Would a bad trace be noticed? {use['sentence']}."
        yield ""
    if verdict["scarce"]:
        share = plan["scarce"]["share"]
        yield f"With only the last {share:.0%} of the training jobs, does adding synthetic ones fitted to them help?"
        yield ""
        rows = [[one["model"], one["use"], one["verdict"], *numbers(one)] for one in verdict["scarce"]]
        yield from markdown(("added", "use", "verdict", "difference", "interval"), rows)
    yield "## The heuristics on the same windows"
    yield ""
    rows = [[h["policy"], f"{h['mean']:.2f}", *numbers(h)] for h in verdict["heuristics"]]
    yield from markdown(("policy", "mean of the windows", "difference", "interval"), rows)
    yield "## Fidelity, means over samples"
    yield ""
    yield from _fidelity(folder, about)
    named = [one for one in verdict["verdicts"] if one["model"] not in DAMAGES]  # which are copies by design
    flags = list(dict.fromkeys(f"- {one['model']}: {_first(one['flags'])}" for one in named if one["flags"]))
    yield from ([*flags, ""] if flags else [])
    if any(use["predictors"] for use in verdict["learners"]):
        yield "## Which cheap score to trust"
        yield ""
    for use in verdict["learners"]:
        if use["predictors"]:
            yield f"For {use['use']}: {use['predictors_note']}."
            yield ""
            rows = [
                [
                    p["key"],
                    f"{p['rho']:.2f}",
                    f"[{p['low']:.2f}, {p['high']:.2f}]" if p["low"] is not None else "–",
                    str(p["n"]),
                ]
                for p in use["predictors"][:_MAX_PREDICTORS]
            ]
            yield from markdown(("score", "ρ", "95 % interval", "generators"), rows)
    failures = list(dict.fromkeys(f"- {f['model'] or f['arm']}: {f['reason']}" for f in about["failures"]))
    if failures:
        yield "## What failed"
        yield ""
        yield from failures
        yield ""
    yield from _cost(folder)


def _cut(plan: Mapping[str, Any]) -> str:
    return "its weeks or days dealt out in turn" if plan["split"]["interleave"] else "cut by time"


def _budget(models: Mapping[str, Any]) -> str:
    return ", ".join([models["budget"], *(f"{name}: {budget}" for name, budget in models["budgets"].items())])


def _jobs(parts: Mapping[str, Any], name: str) -> str:
    return f"{parts[name]['jobs']:,}"


def _settings(config: Mapping[str, Any]) -> str:
    said = [
        f"{key}: {_settings(value)}" if isinstance(value, Mapping) else f"{key} {value}"
        for key, value in config.items()
    ]
    return ", ".join(said) or "defaults"


def numbers(one: Mapping[str, Any]) -> list[str]:
    """Return a difference and its interval as text; dashes where there are none."""
    if one.get("difference") is None:
        return ["–", "–"]
    return [percent(one["difference"]), bracket(one["low"], one["high"])]


def _rows(verdict: Mapping[str, Any], use: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of one use: models, baselines, damaged jobs, other arms."""
    damaged = [{**row, "model": f"damaged: {row['model']}"} for row in verdict["controls"]]
    every = [*verdict["verdicts"], *verdict["baselines"], *damaged, *verdict["arms"]]
    return [row for row in every if row["learner"] == use["learner"]]


def _first(flags: Sequence[str]) -> str:
    return f"{flags[0]} (and {len(flags) - 1} more)" if len(flags) > 1 else flags[0]


#: Whether a trace is good enough, by `mark`.
ANSWERS = {
    "good": "yes",
    "better": "yes",
    "copies": "yes, but copies real jobs",
    "worse": "no",
    "undecided": "undecided",
    "failed": "–",
    "blind": "this test cannot tell",
}


def _differ(verdict: Mapping[str, Any], use: Mapping[str, Any]) -> str:
    """Return by how much two parts of the real log differ for a use, if it was measured."""
    found = [row["real_parts_differ"] for row in _rows(verdict, use) if row.get("real_parts_differ")]
    if not found:
        return ""
    size = plain_percent(found[0])
    return f" Two parts of the real log differ by {size} (standard deviation); worse is what goes beyond that."


def _looks(plan: Mapping[str, Any]) -> str:
    looks = plan["verdict"]["looks"]
    return f", spent over {looks} looks" if looks > 1 else ""


def _verdicts(rows: Sequence[Mapping[str, Any]], baselines: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    trivial = {one["model"] for one in baselines}
    found = []
    for one in rows:
        name = one["model"] + (" (baseline)" if one["model"] in trivial else "")
        said = one["verdict"]
        if is_open(one):
            said += f", {one['more_windows']:,} more windows" if one["more_windows"] else ", more windows do not help"
        answer = ANSWERS[mark(one)]
        if answer == "yes" and one["model"] in trivial:
            answer = "yes, but trivial"
        size = one.get("effect_size")
        shown = [f"{size:+.2f}" if size is not None else "–"]
        shown += [f"{one['windows_worse']:.0%}" if "windows_worse" in one else "–"]
        found.append([name, answer, said, *numbers(one), *shown])
    return found


def _fidelity(folder: Path, about: Mapping[str, Any]) -> Iterable[str]:
    frame = tidy.read(folder / "results.parquet")
    scores = frame[(frame["kind"] == "score") & frame["key"].isin(_SHOWN)]
    means = scores.groupby(["model", "key"])["value"].mean()
    real = scores.groupby("key")["real"].mean()
    shown = [key for key in _SHOWN if key in set(scores["key"])]
    rows = [["real", *(_cell(real[key]) for key in shown)]]
    for model in about["models"]:
        name = model["name"]
        if name in means.index.get_level_values(0):
            rows.append([name, *(_cell(means.get((name, key), math.nan)) for key in shown)])
    yield from markdown(("", *shown), rows)


def _cell(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _cost(folder: Path) -> Iterable[str]:
    frame = tidy.read(folder / "results.parquet")
    costs = frame[(frame["kind"] == "cost") & (frame["key"] == "cpu_s")]
    kind = costs["note"].str.partition(":")[0]
    total = costs.groupby(kind)["value"].sum()
    said = ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in total.items())
    peaks = frame.loc[(frame["kind"] == "cost") & (frame["key"] == "peak_mb"), "value"]
    yield f"CPU minutes of this run: {said}. The largest worker took {peaks.max():,.0f} MB."


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    """Return the lines of a table in Markdown."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""
