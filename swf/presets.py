"""Machines whose traces are public, as their owners describe them: facts that trace files do not contain.

Nodes, cores and GPUs are those of the whole machine; a trace may have used a part of it (the queues of Polaris use 496
of its 560 nodes). Cores are physical ones. The electric power of a node is not published; the watts below are what one
scheduling study assumes (github.com/myandelaepu/graph-augmented-hpc-scheduler), not measurements.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.machine import HostGroup, Machine


@dataclass(frozen=True)
class Preset:
    """One machine of identical nodes. None means unknown."""

    name: str
    nodes: int
    cores: int  # per node
    gpus: int = 0  # per node
    gpu_type: str | None = None
    memory_gb: int | None = None  # per node
    watts: float | None = None  # base power of a node: assumed by a study, not measured
    timezone: str = "America/Chicago"
    source: str = ""

    def machine(self) -> Machine:
        """Return the `Machine` of a trace; nodes are the scheduled unit."""
        group = HostGroup(
            count=self.nodes,
            cores=self.cores,
            memory=None if self.memory_gb is None else self.memory_gb * 1024.0**2,
            gpus=self.gpus or None,
            gpu_type=self.gpu_type,
            power=self.watts,
        )
        notes = [f"size of {self.name} as in {self.source}"]
        if self.watts is not None:
            notes.append(f"{self.watts:g} W per node is an assumption of a scheduling study, not a measurement")
        return Machine(
            name=self.name,
            procs=self.nodes * self.cores,
            nodes=self.nodes,
            gpus=self.nodes * self.gpus or None,
            unit="nodes",
            timezone=self.timezone,
            groups=(group,),
            notes=tuple(notes),
        )


#: By the files' MACHINE_NAME, in lower case.
PRESETS = {
    preset.name.lower(): preset
    for preset in (
        Preset("Mira", 49_152, 16, memory_gb=16, watts=160, source="ALCF's description of Mira"),
        Preset("Cetus", 4_096, 16, memory_gb=16, source="ALCF's description of Cetus, four racks of Blue Gene/Q"),
        Preset("Vesta", 2_048, 16, memory_gb=16, source="ALCF's description of Vesta, two racks of Blue Gene/Q"),
        Preset("Cooley", 126, 12, gpus=2, gpu_type="K80", memory_gb=384, watts=280, source="ALCF's GettingStarted"),
        Preset("Theta", 4_392, 64, memory_gb=192, source="ALCF's description of Theta"),
        Preset("ThetaGPU", 24, 128, gpus=8, gpu_type="A100", source="ALCF's description of ThetaGPU"),
        Preset("Polaris", 560, 32, gpus=4, gpu_type="A100", memory_gb=512, watts=350, source="ALCF's user guide"),
        Preset(
            "Aurora", 10_624, 104, gpus=6, gpu_type="Max 1550", memory_gb=1024, source="ALCF's user guide of Aurora"
        ),
    )
}


def preset(name: str) -> Machine | None:
    """Return the machine of that name (in any case, with or without dashes), or None if it is unknown.

    >>> preset("POLARIS").gpus
    2240
    """
    found = PRESETS.get("".join(c for c in name.lower() if c.isalnum()))
    return None if found is None else found.machine()
