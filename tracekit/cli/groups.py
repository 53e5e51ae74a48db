"""The commands by what one wants to do: the order and the headings of `tracekit --help`, and of docs/commands.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.core import TyperGroup

if TYPE_CHECKING:
    import typer

GROUPS: dict[str, tuple[str, ...]] = {
    "Begin": ("demo", "sample", "env", "version"),
    "Look": ("info", "validate", "doctor", "plot", "explore"),
    "Get and prepare": (
        "catalog", "fetch", "sacct-command", "convert", "formats", "clean", "rules", "slice", "scale", "merge", "split",
        "shake",
    ),
    "Make synthetic traces": ("synth", "models"),
    "Judge": ("score", "metrics", "report", "verdict", "experiment", "compare"),
    "Share": ("share", "anonymize", "audit-privacy"),
    "Schedule": (
        "simulate", "policies", "sweep", "outages", "explain", "check-schedule", "order", "reproduce", "clusters",
        "cluster", "place", "energy", "pareto",
    ),
    "Learn": ("train", "evaluate", "ablation", "order-labels", "order-study"),
    "Run on a cluster": ("slurm", "serve", "lsf"),
}  # fmt: skip


class GroupedCommands(TyperGroup):
    """Lists the commands in the order of `GROUPS`."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the names in that order; what is in no group comes last."""
        order = {name: k for k, name in enumerate(name for names in GROUPS.values() for name in names)}
        return sorted(super().list_commands(ctx), key=lambda name: order.get(name, len(order)))


def group_commands(app: typer.Typer) -> None:
    """Give every command the heading that it is listed under."""
    heading = {name: title for title, names in GROUPS.items() for name in names}
    for command in app.registered_commands:
        if command.callback is not None:
            command.rich_help_panel = heading.get(command.name or command.callback.__name__)
    for group in app.registered_groups:
        if group.typer_instance is not None and isinstance(group.typer_instance.info.name, str):
            group.rich_help_panel = heading.get(group.typer_instance.info.name)
