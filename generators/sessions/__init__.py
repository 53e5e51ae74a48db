"""Sessions: traces with users that arrive and leave, work in sessions and repeat jobs."""

from generators.sessions.model import Sessions

__all__ = ["Sessions"]
