"""The task pick-host: which host a job gets.

`task` has the settings, `arrays` the state of many episodes side by side, `lanes` the compiled environment, `rows` what
an agent sees, `batch` the environment for Python, `measures` the metrics, `lsf` the semantics of the LSF RL scheduler.
"""
