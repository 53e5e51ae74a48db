"""Machines made of hosts: cores, memory, GPUs, pools, and the allocators that choose among them.

`demand` reads what jobs ask for, `state` holds what is free where, `scores` and `choose` are the allocators,
`operations` what happens to hosts, all compiled; `capacity` joins them to the engine, `model` makes them for a
simulation, `place` is for packing studies.
"""
