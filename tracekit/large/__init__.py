"""Traces larger than memory: read in batches, as often as it takes, with the results of the whole trace.

| module | what it is for |
|---|---|
| `source.py` | what is read: jobs in batches, in the order of the file |
| `amounts.py` | sums, extremes and exact quantiles of numbers that are seen batch by batch |
| `spreads.py` | values with how often each occurs, in memory or on disk |
| `runs.py` | sorting on disk; which job ids repeat |
| `summary.py` | what `info` shows |
| `problems.py` | what `validate` finds |
| `rules.py` | cleaning rules, batch by batch |
| `changes.py` | slices, scaled loads and machines |
| `cutting.py` | splits |
"""
