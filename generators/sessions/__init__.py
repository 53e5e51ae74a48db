"""Sessions: traces with users who come and go, work in sessions and repeat themselves."""

from generators.sessions.model import Sessions

__all__ = ["Sessions"]
