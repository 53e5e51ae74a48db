"""Every comparison of two traces: whether the synthetic one behaves like the real one.

Start with `evaluation.score.score`. One family of metrics a file; each metric is a small class, listed in
`evaluation.base.METRICS`. What follows from scores has houses of its own: `figures`, `report`, `experiment`.

Part of tracekit-hpc.
"""
