"""Draws docs/assets/order.png, the README's picture: python docs/_order.py KTH-SP2-1996-2.1-cln.swf.gz.

Autocorrelations of a real log and of traces made after it (seed 1, quick budget). The log is in `tracekit catalog`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tracekit
from tracekit import figures, plots

MODELS = ("sessions", "lublin", "tvae", "independent")


def main(path: str) -> None:
    """Make the traces and draw them."""
    real = tracekit.read(path)
    made = {model: tracekit.synth(real, model, seed=1, budget="quick") for model in MODELS}
    picture = figures.autocorrelation_curves(real, made)
    picture.suptitle("How much a job resembles the ones before it: KTH-SP2, 28,476 jobs, and four models of it")
    plots.save(picture, Path(__file__).parent / "assets" / "order.png", force=True)


if __name__ == "__main__":
    main(sys.argv[1])
