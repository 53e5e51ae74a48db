"""What goes beside a trace that is given away: a document to sign, a dataset card, and Croissant metadata.

The document (HTML and JSON) says what was made from what, every attack with its control, and what remains. Card and
Croissant JSON-LD describe the published trace and name nothing of the real one.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evaluation.exposure import ATTACKS, FAMILY_WISE, Attack
from evaluation.report.markup import Cell, Html, joined, paragraph, table, tag
from evaluation.report.page import document
from evaluation.share import Answer
from evaluation.table import number
from tracekit.folders import check_folder, writing_folder
from tracekit.provenance import synthetic_mark
from tracekit.schema import BY_NAME
from tracekit.trace import Trace

REMAINS = (
    "A yes means that these attacks found no more than they find in real weeks that the model has not seen. It is not "
    "differential privacy, and no proof: a person with other knowledge may find more.",
    "The trace shows how the machine is used as a whole: load, sizes, hours of the week, how often jobs fail. If that "
    "is secret, do not publish it.",
    "The people whose jobs were learnt from, and the rules of the site, come first.",
)
CROISSANT = "http://mlcommons.org/croissant/1.0"


@dataclass(frozen=True)
class About:
    """Facts for the files. ``real``, ``synth`` and ``holdout`` are how the files were called."""

    real: str
    synth: str
    holdout: str | None
    real_jobs: int = 0
    synth_jobs: int = 0
    changes: list[str] = field(default_factory=list)
    cost: dict[str, dict[str, float]] = field(default_factory=dict)

    def filled(self, real_jobs: int, synth_jobs: int, changes: list[str], cost: dict[str, dict[str, float]]) -> About:
        """Return the same with what is known after the traces were read."""
        return replace(self, real_jobs=real_jobs, synth_jobs=synth_jobs, changes=changes, cost=cost)

    def sentences(self, trace: Trace) -> list[str]:
        """Return what was made from what."""
        origin = synthetic_mark(trace) or "It does not say how it was made"
        said = [f"{self.synth} has {self.synth_jobs:,} jobs. {origin}."]
        said.append(f"It was compared with {self.real}, {self.real_jobs:,} jobs, on which the model was fitted.")
        said.append(
            f"Controls come from {self.holdout}: real weeks that no model has seen."
            if self.holdout
            else "There was no hold-out, so several attacks have no control."
        )
        return said


def shown(value: float, low: float, high: float) -> str:
    """Return a number with its interval, or a dash."""
    if math.isnan(value):
        return "–"
    return number(value) + (f" [{number(low)}, {number(high)}]" if math.isfinite(low + high) else "")


def _row(one: Attack) -> list[Cell]:
    concerns = f"{one.found:,.0f} of {one.trials:,.0f}" if math.isfinite(one.found + one.trials) else "–"
    outcome = "alarm" if one.alarm else "not tried" if math.isnan(one.rate) else "no alarm"
    return [
        Cell(one.name),
        Cell(outcome, kind="alarm" if one.alarm else ""),
        Cell(shown(one.rate, one.low, one.high), one.rate),
        Cell(shown(one.control, one.control_low, one.control_high), one.control),
        Cell(f"{concerns}; best: {one.worst}" if one.worst else concerns, kind="left"),
    ]


def html(answer: Answer, about: About, trace: Trace) -> str:
    """Return the document as a page that also prints well."""

    def listed(lines: list[str]) -> Html:
        return tag("ul", joined(tag("li", line) for line in lines))

    heads = ["attack", "outcome", "rate", "control", "concerns"]
    known = [
        [Cell(one.name), Cell(f"{spec.risk}, {one.target}", kind="left"), Cell(spec.knows, kind="left")]
        for one in answer.attacks
        for spec in (ATTACKS[one.key],)
    ]
    body = [
        tag("h1", f"May {about.synth} be published? {answer.verdict.upper()}"),
        tag("h2", "What was made from what"),
        listed(about.sentences(trace)),
    ]
    if about.changes:
        body += [tag("h2", "What was repaired"), listed(about.changes)]
    if about.cost:
        rows = [[Cell(key), Cell(number(c["before"])), Cell(number(c["after"]))] for key, c in about.cost.items()]
        body.append(table("Scores against the real trace", ["score", "before", "after"], rows, kind="keys"))
    body += [
        tag("h2", "Attacks"),
        paragraph(
            [
                "Rate: how often the attack succeeds on this trace. Control: how often it succeeds with real weeks "
                "that no model has seen. An alarm is a rate clearly above its control; real weeks would raise any "
                f"alarm at all in about {FAMILY_WISE:.0%} of cases at most."
            ]
        ),
        table("Every attack with its control (95 % intervals)", heads, [_row(a) for a in answer.attacks], kind="keys"),
        table("What each attacker knows beside this trace", ["attack", "risk", "knows"], known, kind="keys"),
        tag("h2", "Reasons"),
        listed([reason.text for reason in answer.reasons]),
        tag("h2", "What to do"),
        listed(answer.advice or ["Nothing."]),
        tag("h2", "What remains"),
        listed([*REMAINS, answer.caveat]),
        tag("h2", "Signature"),
        paragraph(["Date, name, function: ____________________________________________"]),
    ]
    return document(f"Sharing {about.synth}", tag("main", joined(body)))


def plain(answer: Answer, about: About, trace: Trace) -> dict[str, Any]:
    """Return the document as plain values."""
    made = {"made": about.sentences(trace), "changes": about.changes, "cost": about.cost, "remains": list(REMAINS)}
    return {"real": about.real, "synthetic": about.synth, "holdout": about.holdout, **answer.to_dict(), **made}


DOCUMENT = ("sharing.html", "sharing.json")
METADATA = ("README.md", "croissant.json")


def check_output(folder: str, trace: str, *, force: bool) -> None:
    """Raise OutputError before any work where a file exists already."""
    check_folder(folder, [*DOCUMENT, *METADATA, trace], force=force)


def write_files(
    folder: str, answer: Answer, about: About, trace: Trace, file: Path, format: str, licence: str, *, force: bool
) -> list[str]:
    """Write the document into a folder, and on a yes the trace and its metadata; return the names of the files."""
    name = file.name
    published = [*METADATA, name] if answer.verdict == "yes" else []
    with writing_folder(folder, ours=[*DOCUMENT, *METADATA, name], force=force) as place:
        (place / "sharing.html").write_text(html(answer, about, trace), encoding="utf-8")
        made = json.dumps(plain(answer, about, trace), indent=1, allow_nan=False)
        (place / "sharing.json").write_text(made + "\n", encoding="utf-8")
        if published:
            shutil.copyfile(file, place / name)
            title = file.name.split(".")[0]
            (place / "README.md").write_text(card(answer, trace, title, licence), encoding="utf-8")
            described = croissant(trace, place / name, title, licence, format)
            (place / "croissant.json").write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    return [*DOCUMENT, *published]


def _facts(trace: Trace) -> dict[str, str]:
    """Return what the card says of the trace."""
    machine = trace.machine
    size = machine.size()
    submit = trace.column("submit_time")
    load = trace.offered_load()
    return {
        "jobs": f"{len(trace):,}",
        "users": f"{trace.jobs['user'].nunique():,}" if trace.has("user") else "unknown",
        "machine": f"{size:,.0f} {machine.unit}" if size else "unknown size",
        "span": f"{(submit.max() - submit.min()) / 86_400:.1f} days" if len(trace) else "0 days",
        "offered load": f"{load:.3f}" if math.isfinite(load) else "unknown",
        "origin": synthetic_mark(trace) or "not stated",
    }


def card(answer: Answer, trace: Trace, name: str, licence: str) -> str:
    """Return the dataset card, Markdown with the usual header."""
    rows = "\n".join(f"| {key} | {value} |" for key, value in _facts(trace).items())
    columns = "\n".join(f"| `{c}` | {_said(c)} |" for c in trace.jobs.columns)
    tried = sum(not math.isnan(one.rate) for one in answer.attacks)
    alarms = sum(one.alarm for one in answer.attacks)
    lines = [
        "---",
        f"pretty_name: {name}",
        f"license: {licence or 'other'}",
        "tags: [synthetic, workload-trace, hpc, scheduling]",
        "---",
        f"\n# {name}\n\nA synthetic workload trace: the jobs were made by a model, not recorded.\n",
        f"| | |\n|---|---|\n{rows}\n",
        f"## Privacy\n\nVerdict of `tracekit share`: **{answer.verdict}**. {tried} attacks were tried, each with a",
        f"control of real weeks that the model had not seen; {alarms} raised an alarm. {answer.caveat}\n",
        f"## Columns\n\n| column | meaning |\n|---|---|\n{columns}\n",
        "## Limits\n\nNot every property of the real log is reproduced. Do not use it to draw conclusions about",
        "persons or about the site.",
    ]
    return "\n".join(lines) + "\n"


def _said(column: str) -> str:
    known = BY_NAME.get(column)
    return known.meaning if known else "extra column"


_ENCODINGS = {"parquet": "application/x-parquet", "csv": "text/csv"}


def croissant(trace: Trace, path: Path, name: str, licence: str, format: str) -> dict[str, Any]:
    """Return Croissant 1.0 JSON-LD of the published file; columns are described for Parquet and CSV."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    encoding = _ENCODINGS.get(format, "text/plain")
    made: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CROISSANT,
        "name": name,
        "description": f"Synthetic workload trace of {len(trace):,} jobs. {synthetic_mark(trace)}",
        "license": licence or "https://spdx.org/licenses/CC-BY-4.0.html",
        "url": path.name,
        "version": "1.0.0",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": path.name,
                "name": path.name,
                "contentUrl": path.name,
                "encodingFormat": encoding,
                "contentSize": f"{path.stat().st_size} B",
                "sha256": digest,
            }
        ],
    }
    if format in _ENCODINGS:
        fields = [_field(trace, column, path.name) for column in trace.jobs.columns]
        made["recordSet"] = [{"@type": "cr:RecordSet", "@id": "jobs", "name": "jobs", "field": fields}]
    return made


def _field(trace: Trace, column: str, file: str) -> dict[str, Any]:
    kind = str(trace.jobs[column].dtype).lower()
    data = "sc:Integer" if "int" in kind else "sc:Float" if "float" in kind else "sc:Text"
    source = {"fileObject": {"@id": file}, "extract": {"column": column}}
    return {
        "@type": "cr:Field",
        "@id": f"jobs/{column}",
        "name": column,
        "description": _said(column),
        "dataType": data,
        "source": source,
    }


_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
