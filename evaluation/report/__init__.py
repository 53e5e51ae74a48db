"""The report: one self-contained HTML file about a real trace and synthetic ones, with an experiment's outcome if any.

``write(Content(real, {"tvae": made}, scores), "report.html")`` draws it.
"""

from __future__ import annotations

from evaluation.report.content import Content, Input
from evaluation.report.page import write

__all__ = ["Content", "Input", "write"]
