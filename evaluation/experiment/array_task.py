"""One task of a job array of Slurm, for `on_slurm`: does it and leaves its answer beside the order. Not for people."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from evaluation.experiment.stages import perform
from evaluation.experiment.tasks import Store, Task


def main(order: str) -> None:
    """Do the task of this process's number in the array."""
    number = os.environ["SLURM_ARRAY_TASK_ID"]
    orders = json.loads(Path(order).read_text(encoding="utf-8"))
    task, store = Task.of(orders["tasks"][int(number)]), Store(Path(orders["runs"][int(number)]))
    scratch = store.scratch(f"{task.key}.{os.environ['SLURM_JOB_ID']}")
    inputs = {name: store.run / i.path for name, i in task.inputs.items()}
    result = perform(task, inputs, scratch, orders["memory"])
    if result.final:
        store.keep(task, scratch, result)
    answer = Path(order).with_suffix(f".{number}.answer")
    half = answer.with_suffix(".half")
    half.write_text(json.dumps(vars(result)), encoding="utf-8")
    half.replace(answer)


if __name__ == "__main__":
    main(sys.argv[1])
