"""Do agents trained on synthetic jobs match those trained on real ones? Start with `evaluation.experiment.study`.

The question: `grid` (the plan, from a TOML file), `short` (the plan for one trace that was made elsewhere). The work:
`build` (which tasks there are), `steps` (what each does), `learners` and `ppo` (the learners), `heldout` (the windows
that all are judged on). The machinery: `tasks` (done once, by content), `source` (what code a result depends on),
`runner`, `engines`, `worker`. The answer: `results` (tidy table), `verdict` (statistics), `judging` (which arms are
compared), `predictors` (which score foretells it), `summary` (a page), `compare` (two runs).
"""
