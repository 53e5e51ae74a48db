"""The best order of a queue: `problem` (what waits, what runs), `solve` (solvers by name), `rolling` (search online).

`evaluate` is the compiled evaluator of orders, `search` and `exact` are the searches, `bounds` what no order can beat.
"""
