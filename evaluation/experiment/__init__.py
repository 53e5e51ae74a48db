"""Is a synthetic trace as good as the real one, and for what? Start with `evaluation.experiment.study`.

The question: `grid` (the plan, from a TOML file), `single_trace` (the plan for one trace made elsewhere), `ahead` (cost
and power before a run), `prepared`. The data: `parts`, `interleave` (the real trace divided), `damage` (real jobs
damaged on purpose), `heldout` (the windows that all are judged on). The work: `build` (which tasks there are), `stages`
(what each does), `uses` and `learners`, with `forecast`, `run_times`, `orders`, `ppo`, `placement` (what is learnt).
The machinery: `tasks` (done once, by content), `source` (what code a result depends on), `runner`, `engines`, `on_ray`,
`on_slurm`, `worker`; of several traces `inputs`, `many`, `together`, `memory`.
The answer: `results` (tidy table), `verdict` and `control` (statistics), `comparisons` (which arms are compared),
`predictors` (which score foretells it), `about` and `summary` (what is written down), `compare` (two runs).
"""
