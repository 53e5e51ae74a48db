"""Studies of the simulator on many traces, spread over processes or machines by the engines of the experiment.

| module | what it is for |
|---|---|
| `steps.py` | the pieces of work: read a trace once, sweep it at one load, place its jobs once |
| `run.py` | all pieces of all traces as one queue |
"""
