"""The console for tables and notes: text from files cannot control the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from tracekit.terminal import escaped


class Screen(Console):
    """A rich console that escapes all text; colours and movements come from rich itself, as control segments."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape before the layout, so that columns are as wide as what is shown."""
        return super().render_str(escaped(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Escape what is rendered from other objects than plain texts."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))
