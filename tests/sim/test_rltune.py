"""``--compat rltune`` and ``reproduce rltune``: the numbers of RLTune's own code, and a plain restatement of it."""
