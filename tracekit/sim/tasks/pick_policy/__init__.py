"""The task pick-policy: which named policy orders the queue, decision by decision.

task        the settings, and an episode         run        a simulation that follows a policy to the next question
features    what is shown of policies and jobs   gym        the environment for Gymnasium
"""
