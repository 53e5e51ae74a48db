"""Looking at schedules: is one possible, how do several compare, why did a job wait.

check       is this schedule possible?      compare       shaken inputs: what is noise?
grid        policies × backfillings × windows, run and written
comparison  one table of them: intervals, differences in pairs (`tracekit.compare`)
sweep       load–wait curves                explain, explain_text   why did this job wait?
resimulate  a schedule file, made again     reproduce     published tables, recomputed
"""
