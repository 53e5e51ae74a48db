"""A scheduler for `tracekit simulate --policy http://127.0.0.1:9000`: shortest limit first. Standard library only."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Scheduler(BaseHTTPRequestHandler):
    """Answers POST /v1/decide."""

    protocol_version = "HTTP/1.1"  # keeps the connection

    def do_POST(self) -> None:
        """Return the waiting jobs in order."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        jobs = sorted(request["jobs"], key=lambda job: (job["req_time"], job["submit_time"]))
        text = json.dumps({"order": [{"id": job["id"]} for job in jobs]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: object) -> None:
        """Log nothing."""


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9000), Scheduler).serve_forever()
