"""`tracekit serve`: answers a scheduler's requests with an agent's decisions, over HTTP or a pipe."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from tracekit.cli.app import app, say
from tracekit.errors import TracekitError, UsageError

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@app.command()
def serve(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="An agent's folder, or 'default' for the packaged one.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one and prints it.")] = 8765,
    host: Annotated[str, typer.Option(help="Address to listen on; any except loopback needs a token.")] = "127.0.0.1",
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that clients must send; or set TRACEKIT_TOKEN.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Additional host name that clients use; may be repeated."),
    ] = None,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="One JSON request per line on stdin, one answer on stdout.")
    ] = False,
) -> None:
    """Answer scheduling requests: takes the state of a machine, returns its waiting jobs in order.

    POST /v1/decide takes a request, GET /v1/agent describes the agent, GET /health returns whether it is ready (503
    while it starts). The fields of a request are in docs/serve.md. Stop it with Ctrl-C.

    Example: `tracekit serve default --port 8765`
    """
    from tracekit.service.decide import load_decider

    token = _token(token_file)
    if host not in _LOOPBACK and token is None and not stdio:
        raise UsageError(
            f"--host {host} is reachable from other machines and needs a token: give --token-file or TRACEKIT_TOKEN"
        )
    decider = load_decider(agent)
    preparing = "starting: loading compiled code, or compiling it at the first start (up to a minute) …"
    if stdio:
        from tracekit.service.http import serve_lines

        say(preparing)
        decider.prepare()
        serve_lines(decider, sys.stdin.buffer, sys.stdout.buffer)
        return
    from tracekit.service.http import Service
    from tracekit.service.starting import Starting

    began = time.monotonic()
    starting = Starting(decider, lambda: say(f"ready after {time.monotonic() - began:.1f} s"))
    try:
        service = Service(starting, host, port, token=token, allowed=allow_host or ())
    except OSError as error:
        raise TracekitError(f"cannot listen on {host} port {port}: {error.strerror or error}; try --port 0") from None
    say(f"{agent} answers at {service.url}/v1/decide; stop it with Ctrl-C")
    say(preparing)
    with service:
        service.serve_forever(poll_interval=0.2)


def _token(path: Path | None) -> str | None:
    token = path.read_text().strip() if path is not None else os.environ.get("TRACEKIT_TOKEN", "").strip()
    if path is not None and not token:
        raise TracekitError(f"{path}: the token file is empty; fill it with 'openssl rand -hex 32'")
    return token or None
