"""The explorer: traces and schedules as one HTML page that needs no server and no network.

``write([Source.of_trace("kth", trace)], "page.html")`` makes it. Jobs are binned once, here (`bins`, `cube`); the page
filters and draws what was binned. Single jobs, their places and why they waited are added for a window, or for all
where they are few (`jobs`). The page's own sources are the files beside this one: ``page.html``, ``page.css`` and the
scripts of `page.SCRIPTS`.
"""

from __future__ import annotations

from tracekit.explore.page import Made, write
from tracekit.explore.source import Source

__all__ = ["Made", "Source", "write"]
