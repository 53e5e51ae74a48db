"""Trace formats, one file per source, all normalised to `tracekit.Trace`.

Part of tracekit-hpc.
"""

from __future__ import annotations

from swf.base import Format
from tracekit.registry import Registry

#: Formats by name. The order is that of the table in the docs.
FORMATS: Registry[type[Format]] = Registry(
    "format",
    {
        "swf": "swf.swf:SWF",
        "parquet": "swf.parquet:Parquet",
        "csv": "swf.csv:CSV",
        "gpw": "swf.gpw:GPW",
        "cswa": "swf.cswa:CSWA",
        "alcf": "swf.alcf:ALCF",
        "helios": "swf.helios:Helios",
        "philly": "swf.philly:Philly",
        "alibaba-pai": "swf.alibaba:PAI",
        "alibaba-openb": "swf.alibaba:OpenB",
        "alibaba-2018": "swf.alibaba2018:Batch2018",
        "google-2019": "swf.google:Google2019",
        "acme": "swf.acme:Acme",
        "rltune": "swf.rltune:RLTune",
        "sacct": "swf.sacct:Sacct",
        "jobcomp": "swf.jobcomp:Jobcomp",
        "slurm-json": "swf.slurm_json:SlurmJson",
        "pbs": "swf.pbs:PBS",
        "lsf": "swf.lsf:LSF",
        "sge": "swf.sge:SGE",
        "htcondor": "swf.htcondor:HTCondor",
        "pm100": "swf.pm100:PM100",
        "fdata": "swf.fdata:FData",
        "batsim": "swf.batsim:Batsim",
        "slurmsim": "swf.slurmsim:SlurmSim",
    },
    group="tracekit.formats",
)
