"""Looking at schedules: is one possible, how do several compare, why did a job wait.

check       is this schedule possible?      compare       comparisons that know their noise
sweep       load–wait curves                explain, explain_text   why did this job wait?
resimulate  a schedule file, made again     reproduce     published tables, recomputed
"""
