"""Ask a running service (`tracekit serve default`) in which order jobs should start. Standard library only."""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request


def decide(url: str, state: dict, token: str | None = None) -> list[dict]:
    """Return the waiting jobs of a machine's state, best first."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    asked = urllib.request.Request(f"{url}/v1/decide", json.dumps(state).encode(), headers)
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return json.load(answer)["order"]
    except urllib.error.HTTPError as refusal:
        raise SystemExit(f"refused ({refusal.code}): {json.load(refusal)['error']}") from None
    except urllib.error.URLError as error:
        raise SystemExit(f"{url}: {error.reason}; is 'tracekit serve' running?") from None


if __name__ == "__main__":
    STATE = {
        "version": 1,
        "kind": "pick-job",
        "now": 5000,
        "cluster": {"procs": 64, "running": [{"procs": 40, "ends": 5600}]},
        "jobs": [
            {"id": "long", "submit_time": 4000, "procs": 32, "req_time": 86400},
            {"id": "short", "submit_time": 4500, "procs": 8, "req_time": 600},
        ],
    }
    url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8765"
    for job in decide(url, STATE, os.environ.get("TRACEKIT_TOKEN")):
        print(job["id"], f"{job['score']:.3f}", "now" if job["starts_now"] else "later")
