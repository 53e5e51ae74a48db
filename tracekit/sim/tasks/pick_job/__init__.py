"""The task pick-job: which waiting job comes next.

task        the settings                    batch         many episodes at once
features    what is seen of a job           features_compiled, columns   … and how it is worked out
lanes       the compiled environment        lane_arrays   its arrays
"""
