"""Policies: which waiting job comes first.

builtin     names, meanings and papers      formulas      the compiled formulas
protocol    what a policy of your own is    usage         accounts of users: fair share, predictions
"""
