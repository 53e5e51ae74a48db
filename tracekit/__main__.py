"""Let ``python -m tracekit`` do what ``tracekit`` does."""

from tracekit.cli import run

run()
