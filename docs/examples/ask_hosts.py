"""Ask a running service (`tracekit serve --policy best-fit`) for hosts. Standard library only."""

from __future__ import annotations

import http.client
import json
import sys

HOSTS = [
    {"name": "h1", "total_cores": 64, "free_cores": 10, "total_memory": 268435456, "free_memory": 67108864},
    {"name": "h2", "total_cores": 32, "free_cores": 32, "total_memory": 134217728, "free_memory": 134217728},
]
JOBS = [{"id": "a", "cores": 8, "memory": 8388608}, {"id": "b", "cores": 8, "memory": 8388608}]

connection = http.client.HTTPConnection(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8765", timeout=5)
connection.request("POST", "/select_host", json.dumps({"hosts": HOSTS, "jobs": JOBS}))
response = connection.getresponse()
answer = json.load(response)
if response.status != 200:
    raise SystemExit(f"refused ({response.status}): {answer['error']}")
for decision in answer["decisions"]:
    print(decision["id"], decision["host"] or "deferred")
