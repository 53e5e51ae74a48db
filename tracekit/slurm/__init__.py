"""A real Slurm in the loop: one's own on this machine, traces replayed on it, a policy that steers it.

`own` starts and stops a Slurm (`conf` writes its configuration), `tools` calls Slurm's commands, `plan` and `replay`
submit a trace as sleeping jobs, `outcome` reads back what became of them, `compare` sets the simulator beside it,
`queue` and `order` say which job a policy would start, `drive` sets priorities, `export` writes job scripts.
"""
