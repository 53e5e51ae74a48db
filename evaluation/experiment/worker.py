"""A process that does tasks for `engines.Local`: JSON lines in, JSON lines out. Not for people.

It leads a session of its own, so that Ctrl-C in a terminal reaches only the parent, which decides; and it ends when the
parent does, however it ended: no worker outlives its run.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from pathlib import Path

from evaluation.experiment.stages import perform
from evaluation.experiment.tasks import Result, Store, Task


def main() -> None:
    """Do one task after another until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of libraries must not be taken for an answer
    waiting: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            waiting.put(line)
        os.killpg(0, signal.SIGKILL)  # the parent is gone; this session is ours, with whatever a model has started

    threading.Thread(target=listen, daemon=True).start()
    while True:
        order = json.loads(waiting.get())
        task, store = Task.of(order["task"]), Store(Path(order["run"]))
        inputs = {name: store.run / i.path for name, i in task.inputs.items()}
        try:
            scratch = store.scratch(task.key)
            result = perform(task, inputs, scratch, order["memory"])
            if result.final:
                store.keep(task, scratch, result)
        except OSError as error:
            result = Result(ok=False, reason=f"{store.run}: cannot be written: {error.strerror or error}", cramped=True)
        answers.write(json.dumps(vars(result)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
