"""The best order of a queue: `problem` (what waits and runs), `solve` (solvers by name), `rolling` (policies that search).

`evaluate` is the compiled evaluator of orders, `search` and `exact` are the searches, `bounds` what no order can beat.
"""
