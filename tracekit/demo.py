"""The tour that `make demo` runs: every step is a command that works the same on a trace of your own."""

from __future__ import annotations

import base64
import contextlib
import html
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError
from tracekit.files import write_text

POLICIES = "fcfs,sjf,saf,wfp3,unicep,f1"
MODELS = ("lublin", "user-resample")

#: What is done, in words, and the command that does it.
STEPS: tuple[tuple[str, list[str]], ...] = (
    ("Write the embedded sample: 10,000 jobs made by a script, not recorded", ["sample", "sample.swf"]),
    ("Is anything wrong with it?", ["validate", "sample.swf"]),
    ("What is in it?", ["info", "sample.swf"]),
    ("Keep it in a file that loses nothing", ["convert", "sample.swf", "sample.parquet"]),
    ("How would six policies have scheduled it?", ["simulate", "sample.swf", "--policy", POLICIES]),
    *(
        (
            f"Make a new trace like it with the model {model}",
            ["synth", "sample.swf", "-o", f"{model}.swf", "--model", model],
        )
        for model in MODELS
    ),
    (
        "Do they behave like the first one?",
        ["score", "sample.swf", *(f"{model}.swf" for model in MODELS), "--quick"],
    ),
)
OUTPUTS = ("sample.swf", "sample.parquet", *(f"{model}.swf" for model in MODELS), "report.html")


def run(folder: Path, main: Callable[[list[str]], int], *, force: bool = False) -> Path:
    """Run all steps in ``folder`` and return the path of the report; ``main`` is the command line."""
    folder.mkdir(parents=True, exist_ok=True)
    there = [name for name in OUTPUTS if (folder / name).exists()]
    if there and not force:
        raise TracekitError(f"{folder / there[0]}: exists already; use --force to replace it")
    with contextlib.chdir(folder):
        for name in there:
            Path(name).unlink()
        for number, (title, command) in enumerate(STEPS, 1):
            sys.stderr.write(f"\n[{number}/{len(STEPS)}] {title}\n$ tracekit {' '.join(command)}\n")
            sys.stderr.flush()
            code = main(command)
            if code:
                raise TracekitError(f"the step 'tracekit {' '.join(command)}' ended with exit code {code}")
        write_text("report.html", report(main))
    return folder / "report.html"


def report(main: Callable[[list[str]], int]) -> str:
    """Return one self-contained page about ``sample.swf`` in the current folder."""
    import tracekit
    from tracekit import plots

    trace = tracekit.read("sample.swf")
    info = trace.summary()
    simulated = _json(main, ["simulate", "sample.swf", "--policy", POLICIES, "--json"])
    scored = _json(main, ["score", "sample.swf", *(f"{model}.swf" for model in MODELS), "--quick", "--json"])
    facts = {
        "jobs": f"{info['jobs']:,}",
        "users": f"{info['users']:,}",
        "processors": f"{trace.machine.procs:,}",
        "offered load": f"{info['offered_load']:.2f}",
        "span": f"{info['span_s'] / 86400:.0f} days",
    }
    parts = [
        "<p class='note'>The jobs were <b>made</b> by a seeded script of tracekit; no machine ever ran them.</p>",
        "<div class='facts'>" + "".join(f"<div><b>{v}</b><span>{k}</span></div>" for k, v in facts.items()) + "</div>",
        "<h2>How run times, limits, waits, sizes and arrivals are distributed</h2>"
        + _image(plots.cdfs(trace), "cumulative distributions"),
        "<h2>When people submit</h2>" + _image(plots.arrivals(trace), "jobs by hour of day and day of week"),
        "<h2>The same jobs under six policies, with EASY backfilling</h2>" + _policies(simulated["results"]),
        "<h2>Processors in use and jobs waiting, first come first served</h2>"
        + _image(plots.utilization(tracekit.simulate(trace)), "processors in use and jobs waiting over time"),
        "<h2>Two new traces from it: do they behave like the first?</h2>" + _scores(scored),
    ]
    return _PAGE.format(body="\n".join(parts), steps=html.escape(_commands()))


def _json(main: Callable[[list[str]], int], command: list[str]) -> Any:
    """Run a command and return the JSON object that it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if main(["-q", *command]):
            raise TracekitError(f"the step 'tracekit {' '.join(command)}' failed")
    return json.loads(printed.getvalue())


def _commands() -> str:
    return "\n".join(f"tracekit {' '.join(command)}" for _, command in STEPS)


def _image(figure: Any, words: str) -> str:
    """Return a figure as an image inside the page."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110, metadata={"Software": None})
    return f"<img alt='{html.escape(words)}' src='data:image/png;base64,{base64.b64encode(drawn.getvalue()).decode()}'>"


def _table(head: list[str], rows: list[list[str]]) -> str:
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class='wide'><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def _policies(results: list[dict[str, Any]]) -> str:
    rows = [
        [
            r["policy"],
            f"{r['mean_wait_s'] / 3600:.2f}",
            f"{r['mean_bsld']:.1f}",
            f"{r['p95_bsld']:.1f}",
            f"{r['utilization']:.1%}",
        ]
        for r in sorted(results, key=lambda r: float(r["mean_bsld"]))
    ]
    return _table(["policy", "mean wait, h", "mean bounded slowdown", "95th percentile", "utilisation"], rows)


#: What the demo shows of the scores, in words; `tracekit score` prints them all.
_SHOWN = {
    "ks.mean": "mean KS distance of the columns (0 = same)",
    "correlation.mad_pearson": "mean difference of correlations (0 = same)",
    "c2st.auc": "told apart job by job (0.5 = cannot)",
    "c2st.window_auc": "told apart by five jobs in a row (0.5 = cannot)",
    "acf1.interarrival": "autocorrelation of inter-arrival times",
    "user_repeat": "next job comes from the same user",
    "offered_load": "offered load",
}


def _scores(scored: dict[str, Any]) -> str:
    rows = []
    for key, words in _SHOWN.items():
        cells = [synth["scores"].get(key, {}) for synth in scored["synthetic"]]
        real = next((cell.get("real") for cell in cells if cell.get("real") is not None), None)
        rows.append([words, _number(real), *(_number(cell.get("value")) for cell in cells)])
    return _table(["", "the sample", *MODELS], rows)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>tracekit demo</title>
<style>
 :root {{ color-scheme: light dark; --line: #8884; --soft: #8881; }}
 body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
 h1 {{ margin-bottom: 0; }} h2 {{ margin: 2.2rem 0 .6rem; font-size: 1.15rem; }}
 .facts {{ display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0; }}
 .facts div {{ background: var(--soft); border-radius: .5rem; padding: .6rem 1rem; }}
 .facts b {{ display: block; font-size: 1.4rem; }} .facts span {{ opacity: .75; }}
 img {{ max-width: 100%; background: white; border-radius: .5rem; }}
 .wide {{ overflow-x: auto; }} table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
 th, td {{ text-align: right; padding: .35rem .8rem; border-bottom: 1px solid var(--line); }}
 th:first-child, td:first-child {{ text-align: left; }}
 pre {{ background: var(--soft); padding: 1rem; border-radius: .5rem; overflow-x: auto; }}
</style></head><body>
<h1>tracekit demo</h1>
{body}
<h2>The commands that made this page; put your own file in place of sample.swf</h2>
<pre>{steps}</pre>
</body></html>
"""
