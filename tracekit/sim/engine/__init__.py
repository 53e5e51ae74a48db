"""The engine: compiled, arrays in and start times out.

loop        the event loop                  backfill      the scheduling pass: none, EASY and its kin
events      what happens at one instant     conservative  the pass that plans every waiting job
state       the named state of a simulation ranked        loop and pass for static orders, faster
start       a job starts                    capacity      what a machine is asked about a job
running     running jobs, by end            processors    the plain capacity, a counter
rank_tree   waiting jobs, by static rank    profile       what is free from now on
kept_plan   conservative plans, kept        steps         the same of one counter, in blocks
heap        the one heap                    session       the arrays of one simulation, driven from Python
dependencies, outages, predictions          what changes on the way
"""
