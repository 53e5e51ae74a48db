"""`reproduce rltune`: the base policies of RLTune, recomputed with its own semantics."""

from __future__ import annotations

from tracekit.cli.app import console, print_json, table
from tracekit.errors import UsageError


def reproduce_rltune(
    trace: str | None, cluster: str | None, jobs: int | None, iterations: int | None, *, json: bool
) -> None:
    """Print the cells of all base policies, without and with backfilling."""
    from tracekit.api import read
    from tracekit.sim.analysis import reproduce_rltune as studies

    if trace is None or cluster is None:
        raise UsageError("reproduce rltune needs --trace FILE and --cluster rltune-helios|rltune-philly|rltune-alibaba")
    length = studies.WINDOW_JOBS if jobs is None else jobs
    count = studies.ITERATIONS if iterations is None else iterations
    if min(length, count) < 1:
        raise UsageError("--jobs and --iterations must be 1 or more")
    found = {"trace": trace, "cluster": cluster, **studies.rltune(read(trace), cluster, length=length, count=count)}
    if json:
        print_json(found)
        return
    title = f"{trace} on {cluster}: means over {count} windows of {length:,} jobs"
    made = table("policy", "backfill", *studies.MEASURES, title=title, right=list(studies.MEASURES))
    for cell in found["cells"]:
        shown = ["–" if cell[name] is None else f"{cell[name]:,.4f}" for name in studies.MEASURES]
        made.add_row(cell["policy"], "yes" if cell["backfill"] else "no", *shown)
    console().print(made)
    notes: dict[str, list[str]] = {}
    for cell in found["cells"]:
        if "note" in cell and cell["policy"] not in notes.setdefault(cell["note"], []):
            notes[cell["note"]].append(cell["policy"])
    for note, policies in notes.items():
        console().print(f"{', '.join(policies)}: {note}", highlight=False)
