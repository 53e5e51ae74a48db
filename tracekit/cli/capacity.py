"""The command outages: what was missing of a machine, as `simulate --outage` reads it."""

from __future__ import annotations

from typing import Annotated

import typer

from tracekit.cli.app import Force, app, say
from tracekit.cli.parts import shown_progress
from tracekit.cli.traces import From, OnError, Read, own_options


@app.command()
def outages(
    source: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder of a trace that tells its machine's events.")],
    output: Annotated[str, typer.Option("--output", "-o", help="File to write; - is stdout.")] = "-",
    from_: From = None,
    on_error: OnError = "stop",
    read: Read = None,
    force: Force = False,
) -> None:
    """Write what was missing of a trace's machine over time, a line FROM:TO:PROCS each, for `simulate --outage FILE`.

    Example: `tracekit outages clusterdata_2019_a -o missing.txt`
    """
    from tracekit.api import capacity
    from tracekit.files import check_writable, writing

    if output != "-":
        check_writable(output, force=force)
    options = own_options(read) | ({"on_error": on_error} if on_error != "stop" else {})
    with shown_progress(source):
        found = capacity(source, from_, **options)
    text = "# from:to:processors out of service, in seconds of the trace\n"
    text += "".join(f"{begin:.6f}:{end:.6f}:{units:.6f}\n" for begin, end, units in found)
    with writing(output, force=force) as out:
        out.write(text.encode())
    if output != "-":
        say(f"{output}: {len(found):,} spans in which a part of the machine was missing")
