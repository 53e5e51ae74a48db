"""Model `private`: a differentially private generator of whole traces."""

from generators.private.model import Private

__all__ = ["Private"]
