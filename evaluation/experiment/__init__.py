"""Do agents trained on synthetic jobs match those trained on real ones? Start with `evaluation.experiment.study`.

The question: `grid` (the plan, from a TOML file), `single_trace` (the plan for one trace made elsewhere). The work:
`build` (which tasks there are), `stages` (what each does), `learners` and `ppo` (the learners), `heldout` (the windows
that all are judged on). The machinery: `tasks` (done once, by content), `source` (what code a result depends on),
`runner`, `engines`, `worker`. The answer: `results` (tidy table), `verdict` (statistics), `comparisons` (which arms are
compared), `predictors` (which score foretells it), `summary` (a page), `compare` (two runs).
"""
