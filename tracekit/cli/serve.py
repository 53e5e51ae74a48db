"""`tracekit serve`: answers a scheduler's requests with an agent's decisions, over HTTP or a pipe."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from tracekit.cli.app import app, say
from tracekit.errors import TracekitError, UnknownName, UsageError

_PROTOCOLS = ("tracekit", "kubernetes")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@app.command()
def serve(
    agent: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="An agent's folder, or 'default' for the packaged one.")
    ] = None,
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
    policy: Annotated[
        str | None, typer.Option("--policy", help="Instead of an agent, a rule that chooses hosts, such as best-fit.")
    ] = None,
    protocol: Annotated[
        str, typer.Option("--protocol", help="tracekit, or kubernetes: a scheduler extender (/filter, /prioritize).")
    ] = "tracekit",
    nodes: Annotated[
        str | None, typer.Option("--nodes", metavar="FILE", help="kubernetes: kubectl get nodes -o json.")
    ] = None,
    pods: Annotated[
        str | None, typer.Option("--pods", metavar="FILE", help="kubernetes: kubectl get pods -A -o json.")
    ] = None,
    vector: Annotated[
        str | None, typer.Option("--vector", help="Layout of input_vector: 2h8 or 4h2 (default: by its length).")
    ] = None,
    history: Annotated[
        str | None, typer.Option("--history", metavar="TRACE", help="Predictions: jobs that are known at the start.")
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option("--timezone", metavar="ZONE", help="Predictions: of the machine (default: of --history, or UTC)."),
    ] = None,
) -> None:
    """Answer scheduling requests: the order of waiting jobs, a host for a job, or how long jobs will run.

    POST /v1/decide takes a request, GET /v1/agent describes the agent, GET /stats counts requests, GET /health returns
    whether it is ready (503 while it starts). Services that choose hosts answer POST /select_host too. Agents of task
    predict-run-time answer POST /v1/predict and POST /v1/events instead; agents that know predicted run times answer
    these and POST /v1/decide. The fields are in docs/serve.md, docs/deploy-hosts.md and docs/predict.md. Stop it with
    Ctrl-C.

    Example: `tracekit serve default --port 8765`
    """
    token = _token(token_file)
    if host not in _LOOPBACK and token is None and not stdio:
        raise UsageError(
            f"--host {host} is reachable from other machines and needs a token: give --token-file or TRACEKIT_TOKEN"
        )
    decider = _predictor(agent, history, timezone) if protocol == "tracekit" and policy is None and not vector else None
    if decider is None:
        if history or timezone:
            raise UsageError("--history and --timezone are only supported by agents that predict or know run times")
        decider = _decider(agent, policy, protocol, nodes, pods, vector)
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
    paths = list(getattr(decider, "posts", ("/v1/decide",)))
    path = paths[0] if protocol == "tracekit" else f" ({', '.join(paths)})"
    say(f"{agent or policy} answers at {service.url}{path}; stop it with Ctrl-C")
    say(preparing)
    with service:
        service.serve_forever(poll_interval=0.2)


def _predictor(agent: str | None, history: str | None, timezone: str | None) -> Any:
    """Return what answers with predictions, or with an agent that goes by them; None for any other agent."""
    from tracekit.cli.predict import is_predictor

    if agent is None:
        return None
    from tracekit.cli.traces import load
    from tracekit.machine import is_zone
    from tracekit.service.informed import InformedDecider
    from tracekit.service.predict import PredictDecider
    from tracekit.sim.agents.agent import Agent
    from tracekit.sim.predict.predictor import Predictor

    decides = None if is_predictor(agent) else Agent.load(agent)
    if decides is not None and not decides.task.get("predict"):
        return None
    if timezone is not None and not is_zone(timezone):
        raise UsageError(f"--timezone {timezone}: not an IANA time zone such as Europe/Berlin")
    past = None if history is None else load(history)[0]
    if decides is not None:
        return InformedDecider(decides, agent, past=past, timezone=timezone)
    return PredictDecider(Predictor.load(agent), agent, past=past, timezone=timezone)


def _decider(
    agent: str | None, policy: str | None, protocol: str, nodes: str | None, pods: str | None, vector: str | None
) -> Any:
    """Return what answers, by the flags of the command."""
    if protocol not in _PROTOCOLS:
        raise UnknownName("protocol", protocol, _PROTOCOLS)
    if (agent is None) == (policy is None):
        raise UsageError("give either an agent or --policy NAME")
    if protocol == "tracekit" and (nodes or pods):
        raise UsageError("--nodes and --pods are only supported by --protocol kubernetes")
    if protocol == "tracekit" and agent is not None and vector is None:
        from tracekit.service.decide import load_decider

        return load_decider(agent)
    from tracekit.service.host_decide import HostDecider, scorer_of
    from tracekit.service.kubernetes import Extender

    scorer, name = scorer_of(policy, agent)
    if protocol == "tracekit":
        return HostDecider(scorer, name, layout=vector)
    if vector is not None:
        raise UsageError("--vector is only supported by --protocol tracekit")
    made = Extender(scorer, name, nodes=nodes, pods=pods)
    made.prepare()
    return made


def _token(path: Path | None) -> str | None:
    token = path.read_text().strip() if path is not None else os.environ.get("TRACEKIT_TOKEN", "").strip()
    if path is not None and not token:
        raise TracekitError(f"{path}: the token file is empty; fill it with 'openssl rand -hex 32'")
    return token or None
