"""Room for the best order of a queue that stands still (to come): search, imitation, and a policy that looks ahead."""
