"""Tasks: what an agent decides, and what it sees. A new task is a new folder.

base        what a task is                  episodes      windows of a trace, ready to be played
objectives  what is to be minimised        gym           environments for Gymnasium
ids         their names in Gymnasium        sb3           many at once for stable-baselines3
jobgraph    the graph of the jobs            stepwise      tasks written as Python generators
pick_job/   which waiting job comes next    pick_policy/  which policy orders the queue
pick_host/  which host a job gets
"""
