"""Every model that makes a new trace from an old one, behind one interface.

Part of tracekit-hpc.
"""

from __future__ import annotations

from generators.base import Generator
from tracekit.registry import Registry

#: Models by name; nothing is imported before it is asked for.
MODELS: Registry[type[Generator]] = Registry(
    "model",
    {
        "sessions": "generators.sessions:Sessions",
        "ctgan": "generators.sdv:CTGAN",
        "tvae": "generators.sdv:TVAE",
        "copulagan": "generators.sdv:CopulaGAN",
        "gaussian-copula": "generators.sdv:GaussianCopula",
        "par": "generators.par:PAR",
        "realtabformer": "generators.realtabformer:RealTabFormer",
        "diffusion": "generators.diffusion:Diffusion",
        "lublin": "generators.lublin:Lublin",
        "eda": "generators.eda:EDA",
        "user-resample": "generators.user_resample:UserResample",
        "resample": "generators.baseline:Resample",
        "independent": "generators.baseline:Independent",
        "private": "generators.private:Private",
    },
    group="tracekit.models",
)
