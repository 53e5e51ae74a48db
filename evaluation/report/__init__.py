"""The report: one self-contained HTML file about a real trace and synthetic ones, with an experiment's outcome if any.

``write(Content(real, {"tvae": made}, scores), "report.html")`` draws it;
``content_of(RUN)`` is the content of an experiment's report.
"""

from __future__ import annotations

from evaluation.report.content import Content, Input
from evaluation.report.page import write
from evaluation.report.run import content_of

__all__ = ["Content", "Input", "content_of", "write"]
