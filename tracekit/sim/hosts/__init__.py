"""Room for machines made of hosts (to come): cores, memory, GPUs, pools, and allocators that choose among them.

A machine of hosts is a capacity of its own (`tracekit.sim.engine.capacity`) with a `MachineModel` that makes it; an
allocator is a compiled rule inside `take`, or Python code asked through `MachineModel.place`.
"""
