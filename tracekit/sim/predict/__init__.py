"""Prediction of run times from what a scheduler knows at submit: the task ``predict-run-time``.

history     what is known of earlier jobs, kept while time passes    trees       gradient-boosted trees as plain arrays
features    the features of every job of a trace                     predictor   a folder: trees and their facts
training    from a trace to a predictor                              evaluate    its error, and what it does to waits
ongoing     the history of a machine that goes on, event by event
"""

from __future__ import annotations

TASK = "predict-run-time"
